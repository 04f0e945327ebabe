// Byte-pair encoding of characters as the tokenizers package does it for the vocabularies of Llama,
// Mistral and Gemma: a space is ▁, a character that is no piece becomes the pieces of its bytes or
// the unknown piece, and merges go over the whole stretch. Includes the tokenizer's own headers
// only; never allocates.
#include "chars.h"
#include "merges.h"
#include "normalizer.h"

namespace phasor {

using namespace pieces;

std::uint64_t normalize_spaces(const Tokenizer& t, unsigned char* out, std::uint64_t capacity,
                               const unsigned char* text, std::size_t bytes) noexcept {
  const bool escape = (t.flags & kEscapeFirst) != 0;
  std::uint64_t size = 0;
  const auto put = [&](const unsigned char* from, std::size_t n) noexcept {
    if (capacity - size < n) return false;
    std::memcpy(out + size, from, n);
    size += n;
    return true;
  };
  if (!escape) return put(text, bytes) ? size : kNormalizedTooLong;
  if ((t.flags & kAddDummyPrefix) != 0 && !put(kSpaceSymbol, 3)) return kNormalizedTooLong;
  for (std::size_t at = 0; at < bytes; ++at) {
    work();
    if (!(text[at] == ' ' ? put(kSpaceSymbol, 3) : put(text + at, 1))) return kNormalizedTooLong;
  }
  return size;
}

namespace pieces {
namespace {

constexpr std::uint32_t kNotAsked = 0xFFFFFFFEu;
constexpr std::uint32_t kAscii = 128;

// The model's piece of one character, or kNoToken. What was found for ASCII is kept.
struct Alphabet {
  const Tokenizer& t;
  std::uint32_t* ascii;  // (kAscii)

  std::uint32_t look(const unsigned char* text, std::uint32_t bytes) const noexcept {
    const std::uint32_t rank = lower_bound(t, text, bytes);
    if (rank == t.pieces) return kNoToken;
    const std::uint32_t id = sorted_id(t, rank);
    const Row r = row(t, id);
    const bool same = r.length() == bytes && std::memcmp(t.text + r.offset(), text, bytes) == 0;
    return same && (r.marks() & kOfModel) != 0 ? id : kNoToken;
  }
  std::uint32_t find(const unsigned char* text, std::uint32_t bytes) const noexcept {
    if (text[0] >= kAscii) return look(text, bytes);
    std::uint32_t& known = ascii[text[0]];
    if (known == kNotAsked)
      known = text[0] == ' ' ? look(kSpaceSymbol, sizeof kSpaceSymbol) : look(text, 1);
    return known;
  }
};

}  // namespace

std::uint64_t char_bpe_scratch(std::uint64_t limit) noexcept {
  return 4 * kAscii + merges_scratch(limit);
}

void encode_char_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                     unsigned char* scratch, std::uint64_t limit) noexcept {
  const Alphabet alphabet{t, reinterpret_cast<std::uint32_t*>(scratch)};
  for (std::uint32_t i = 0; i < kAscii; ++i) alphabet.ascii[i] = kNotAsked;
  work(kAscii);
  Word word = word_in(t, scratch + 4 * kAscii, limit);
  bool after_space = true, after_unknown = false;  // a word is not cut behind a space
  for (std::size_t at = 0; at < n;) {
    work();
    const Char c = char_at(text + at, n - at);
    const bool space = c.code == ' ' || c.code == 0x2581;
    if (space && ((t.flags & kCutAtEach) != 0 || ((t.flags & kCutAtSpaces) != 0 && !after_space))) {
      word.finish(out);
      after_unknown = false;
    }
    after_space = space;
    const std::uint32_t id = c.code == kNoChar ? kNoToken : alphabet.find(text + at, c.bytes);
    if (id != kNoToken) {
      word.add(id);
    } else if ((t.flags & kByteFallback) != 0) {
      for (std::uint32_t i = 0; i < c.bytes; ++i)
        word.add(load_u32(t.model_data + std::size_t{text[at + i]} * 4));
    } else if (t.unknown != kNoToken && !(after_unknown && (t.flags & kFuseUnknown) != 0)) {
      word.add(t.unknown);
    }
    after_unknown = id == kNoToken;
    at += c.bytes;
  }
  word.finish(out);
}

}  // namespace pieces
}  // namespace phasor
