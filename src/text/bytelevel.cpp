// Byte-level byte-pair encoding (Radford et al. 2019; Sennrich et al. 2016) as the tokenizers
// package does it: the section's steps cut a stretch of text into words, and a word's bytes are
// merged. Includes the tokenizer's own headers only; never allocates.
#include "merges.h"
#include "words.h"

namespace phasor {
namespace pieces {
namespace {

// The piece that a word is as a whole, or kNoToken.
std::uint32_t whole_piece(const Tokenizer& t, const unsigned char* text,
                          std::size_t bytes) noexcept {
  std::uint32_t found = kNoToken;
  for (std::uint32_t rank = lower_bound(t, text, bytes); rank < t.pieces && found == kNoToken;
       ++rank) {
    const std::uint32_t id = sorted_id(t, rank);
    const Row r = row(t, id);
    work(1 + bytes);
    if (r.length() != bytes || std::memcmp(t.text + r.offset(), text, bytes) != 0) break;
    if ((r.marks() & kWholeWord) != 0) found = id;
  }
  return found;
}

}  // namespace

std::uint64_t byte_bpe_scratch(std::uint64_t limit) noexcept { return merges_scratch(limit); }

void encode_byte_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                     unsigned char* scratch, std::uint64_t limit) noexcept {
  Word word = word_in(t, scratch, limit);
  Words words(t, text, n);
  for (std::size_t at = 0, end = 0; words.next(&end); at = end) {
    const std::uint32_t whole =
        (t.flags & kWholeWords) != 0 ? whole_piece(t, text + at, end - at) : kNoToken;
    if (whole != kNoToken) {
      out->put(whole);
      continue;
    }
    for (; at < end; ++at) {
      work();
      const std::uint32_t id = load_u32(t.model_data + std::size_t{text[at]} * 4);
      if (id != kNoToken) word.add(id);  // the package drops what its vocabulary lacks
    }
    word.finish(out);
  }
}

}  // namespace pieces
}  // namespace phasor
