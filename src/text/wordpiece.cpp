// WordPiece (Schuster and Nakajima 2012; Devlin et al. 2018) as the tokenizers package does it:
// BERT's normalizer; words between white space, each sign of punctuation one of its own; then of
// each word the longest piece, and the longest that goes on from it. Includes the tokenizer's own
// headers only; never allocates.
#include "chars.h"
#include "normalizer.h"
#include "package.h"

namespace phasor::pieces {
namespace {

const char* check(Tokenizer* t, SectionReader* s) { return check_package(t, s, 0); }

uint64_t scratch(const Tokenizer& t, uint64_t limit) {
  // u32 ids of a word: no more than its characters
  return 4 * (t.word_chars < limit ? t.word_chars : limit);
}

// The longest piece that goes on from `walk` with the text; its bytes go to `*length`. kNoToken
// when there is none.
uint32_t longest_piece(PrefixWalk walk, uint32_t* length, const unsigned char* text, size_t bytes) {
  uint32_t best = kNoToken;
  for (uint32_t i = 0; i < bytes && walk.step(text[i]); ++i) {
    const uint32_t id = walk.of_model();
    if (id == kNoToken) continue;
    best = id;
    *length = i + 1;
  }
  return best;
}

struct Words {
  const Tokenizer& t;
  PrefixWalk start, go_on;  // the pieces that begin a word; those that continue one
  uint32_t* ids;            // (word_chars) of one word: it counts only when all of it is known

  void put(IdSink* out, const unsigned char* word, size_t bytes, uint32_t chars) const {
    uint32_t count = 0;
    bool known = chars <= t.word_chars;
    for (size_t at = 0; known && at < bytes;) {
      uint32_t length = 0;
      const uint32_t id = longest_piece(at == 0 ? start : go_on, &length, word + at, bytes - at);
      known = id != kNoToken && count < chars;  // a damaged piece may be less than a character
      if (known) ids[count++] = id;
      at += length;
    }
    if (!known) return out->put(t.unknown);
    for (uint32_t i = 0; i < count; ++i) out->put(ids[i]);
  }
};

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  Words words{t, PrefixWalk(t), PrefixWalk(t), reinterpret_cast<uint32_t*>(s.scratch)};
  for (uint32_t i = 0; i < t.prefix_bytes; ++i) words.go_on.step(t.surface[t.surface_bytes + i]);
  const unsigned char* const text = s.text;
  const size_t n = s.bytes;
  size_t begin = 0;
  uint32_t chars = 0;
  for (size_t at = 0; at < n;) {
    work();
    const Char c = char_at(text + at, n - at);
    const uint32_t of = classes(t, c.code);
    if ((of & (kSpace | kPunctuation)) != 0) {
      if (at > begin) words.put(out, text + begin, at - begin, chars);
      if ((of & kSpace) == 0) words.put(out, text + at, c.bytes, 1);
      begin = at + c.bytes;
      chars = 0;
    } else {
      ++chars;
    }
    at += c.bytes;
  }
  if (n > begin) words.put(out, text + begin, n - begin, chars);
}

// The package's decoder, whose clean-up looks at one token at a time: so the section can say per
// piece what it does. The first token keeps its prefix.
void decode(const Tokenizer& t, TextSink* sink, Row r) {
  Span text;
  if (!decoded(t, r, &text) || text.bytes == 0) return;
  const bool first = sink->state.past_start == 0;
  sink->state.past_start = 1;
  if (!first && (r.marks() & kJoined) == 0) sink->space();
  const uint32_t skip = first || r.type() == PieceType::unknown ? 0 : r.marks() >> 8;
  sink->put(text.text + skip, text.bytes - skip);
}

}  // namespace

extern constexpr TokenizerModel kWordPiece = [] {
  TokenizerModel m{};
  m.word_limit = true;
  m.marks = kAnyMarks;
  m.check = check;
  m.scratch = scratch;
  m.normalize = normalize_bert;
  m.encode = encode;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
