// WordPiece (Schuster and Nakajima 2012; Devlin et al. 2018) as the tokenizers package does it:
// BERT's normalizer; words between white space, each sign of punctuation one of its own; then of
// each word the longest piece, and the longest that goes on from it. Includes the tokenizer's own
// headers only; never allocates.
#include "wordpiece.h"
#include "chars.h"
#include "normalizer.h"
#include "package.h"

namespace phasor::pieces {
namespace {

const char* check(Tokenizer* t, SectionReader* s) { return check_package(t, s, 0); }

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  const WordPieces words(t, s.scratch);
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
  m.scratch = wordpiece_scratch;
  m.normalize = normalize_bert;
  m.encode = encode;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
