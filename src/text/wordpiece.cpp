// WordPiece (Schuster and Nakajima 2012; Devlin et al. 2018) as the tokenizers package does it:
// BERT's normaliser, a character at a time; words between white space, each sign of punctuation one
// of its own; then of each word the longest piece, and the longest that goes on from it. Includes
// the tokenizer's own headers only; never allocates.
#include "chars.h"
#include "normalizer.h"

namespace phasor {
namespace {

using namespace pieces;

// The canonical decomposition of a Hangul syllable (Unicode, 3.12), each part 3 bytes.
std::size_t decompose_hangul(unsigned char* to, std::uint32_t code) noexcept {
  const std::uint32_t index = code - 0xAC00;
  std::size_t size = write_char(to, 0x1100 + index / 588);
  size += write_char(to + size, 0x1161 + index % 588 / 28);
  if (index % 28 != 0) size += write_char(to + size, 0x11A7 + index % 28);
  return size;
}

}  // namespace

std::uint64_t normalize_bert(const Tokenizer& t, unsigned char* out, std::uint64_t capacity,
                             const unsigned char* text, std::size_t bytes) noexcept {
  std::uint64_t size = 0;
  for (std::size_t at = 0; at < bytes;) {
    const Char c = char_at(text + at, bytes - at);
    const std::uint32_t of = classes(t, c.code == kNoChar ? 0xFFFD : c.code);
    const unsigned char* from = c.code == kNoChar ? kReplacement : text + at;
    std::size_t length = c.code == kNoChar ? sizeof kReplacement : c.bytes;
    unsigned char parts[9];
    at += c.bytes;
    if ((of & kRemoved) != 0) continue;
    if ((of & kHangul) != 0 && c.code >= 0xAC00 && c.code <= 0xD7A3) {
      length = decompose_hangul(parts, c.code);
      from = parts;
    } else if (c.code != kNoChar) {
      Rule rule;
      if (match_rule(t, &rule, from, length, false)) {
        from = rule.text;
        length = rule.bytes;
      }
    }
    const std::size_t spaces = (of & kPadded) != 0 ? 2 : 0;
    work(1 + length);
    if (capacity - size < length + spaces) return kNormalizedTooLong;
    if (spaces != 0) out[size++] = ' ';
    std::memcpy(out + size, from, length);
    size += length;
    if (spaces != 0) out[size++] = ' ';
  }
  return size;
}

namespace pieces {
namespace {

// The longest piece that goes on from `walk` with the text; its bytes go to `*length`. kNoToken
// when there is none.
std::uint32_t longest_piece(PrefixWalk walk, std::uint32_t* length, const unsigned char* text,
                            std::size_t bytes) noexcept {
  std::uint32_t best = kNoToken;
  for (std::uint32_t i = 0; i < bytes && walk.step(text[i]); ++i) {
    const std::uint32_t id = sorted_id(walk.t, walk.first);
    const Row r = row(walk.t, id);
    if (r.length() != walk.depth || (r.marks() & kOfModel) == 0) continue;
    best = id;
    *length = i + 1;
  }
  return best;
}

struct Words {
  const Tokenizer& t;
  PrefixWalk start, go_on;  // the pieces that begin a word; those that continue one
  std::uint32_t* ids;       // (word_chars) of one word: it counts only when all of it is known

  void put(IdSink* out, const unsigned char* word, std::size_t bytes,
           std::uint32_t chars) const noexcept {
    std::uint32_t count = 0;
    bool known = chars <= t.word_chars;
    for (std::size_t at = 0; known && at < bytes;) {
      std::uint32_t length = 0;
      const std::uint32_t id =
          longest_piece(at == 0 ? start : go_on, &length, word + at, bytes - at);
      known = id != kNoToken && count < chars;  // a damaged piece may be less than a character
      if (known) ids[count++] = id;
      at += length;
    }
    if (!known) return out->put(t.unknown);
    for (std::uint32_t i = 0; i < count; ++i) out->put(ids[i]);
  }
};

}  // namespace

std::uint64_t wordpiece_scratch(const Tokenizer& t, std::uint64_t limit) noexcept {
  // u32 ids of a word: no more than its characters
  return 4 * (t.word_chars < limit ? t.word_chars : limit);
}

void encode_wordpiece(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                      unsigned char* scratch) noexcept {
  Words words{t, PrefixWalk(t), PrefixWalk(t), reinterpret_cast<std::uint32_t*>(scratch)};
  for (std::uint32_t i = 0; i < t.prefix_bytes; ++i)
    words.go_on.step(t.surface[t.surface_bytes + i]);
  std::size_t begin = 0;
  std::uint32_t chars = 0;
  for (std::size_t at = 0; at < n;) {
    work();
    const Char c = char_at(text + at, n - at);
    const std::uint32_t of = classes(t, c.code);
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

}  // namespace pieces
}  // namespace phasor
