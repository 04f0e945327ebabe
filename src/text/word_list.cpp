// A word list: the text is split at ASCII white space and each word is looked up; or each character
// is, where the section says so. Includes the tokenizer's own headers only.
#include "chars.h"
#include "models.h"

namespace phasor::pieces {
namespace {

const char* check(Tokenizer* t, SectionReader* s) {
  if (t->trie != nullptr) return "a word list has a normalizer";
  for (uint32_t id = 0; id < t->pieces; ++id) {
    if (row(*t, id).type() == PieceType::user_defined)
      return "a word list has a user-defined piece";
    if (row(*t, id).type() == PieceType::unused) return "a word list has an unused piece";
  }
  return check_pieces(t, *s);
}

bool is_space(unsigned char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  work(s.bytes);
  for (size_t at = 0, end = 0; at < s.bytes; at = end) {
    end = at + 1;
    if ((t.flags & kCharacters) != 0) {
      end = at + char_at(s.text + at, s.bytes - at).bytes;
    } else {
      if (is_space(s.text[at])) continue;
      while (end < s.bytes && !is_space(s.text[end])) ++end;
    }
    const uint32_t found = find(t, s.text + at, end - at, false);
    const uint32_t id = found != kNoToken ? found : t.unknown;
    if (id == kNoToken) {
      out->result = {EncodeStatus::unknown_word, out->result.count, at, end - at};
      return;
    }
    out->put(id, s.text + at, end - at);
  }
}

void decode(const Tokenizer& t, TextSink* sink, Row r) {
  if (r.type() == PieceType::control) return;
  if (sink->state.any_text != 0 && (t.flags & kCharacters) == 0) sink->space();
  sink->put(r.type() == PieceType::unknown ? surface_of(t) : text_of(t, r));
}

}  // namespace

extern constexpr TokenizerModel kWordList = [] {
  TokenizerModel m{};
  m.must_have_unknown = false;
  m.same = Same::few_reserved;
  m.flags = kCharacters;
  m.longest_piece = kLongestPiece;
  m.least_expansion = 0;
  m.types = kAllTypes;
  m.check = check;
  m.encode = encode;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
