// The unigram model: the segmentation of the highest total score (Viterbi; Kudo 2018, 3.2), in the
// order of arithmetic and with the ties of the SentencePiece package. Never allocates.
#include "viterbi.h"

namespace phasor {
namespace pieces {
std::uint64_t unigram_scratch(const Tokenizer& t, std::uint64_t limit) noexcept {
  return 4 * ring_slots(t)   // f32 best score of a segmentation that ends here
         + 2 * (limit + 1);  // u16 length of its last piece
}

void encode_unigram(const Tokenizer& t, IdSink* out, const unsigned char* text, std::uint32_t n,
                    unsigned char* scratch, std::uint64_t) noexcept {
  if (n == 0) return;
  float* const best = reinterpret_cast<float*>(scratch);
  std::uint16_t* const length =
      reinterpret_cast<std::uint16_t*>(scratch + 4 * static_cast<std::size_t>(ring_slots(t)));
  const auto char_size = [=](std::uint32_t at) noexcept {
    const std::uint32_t bytes = static_cast<std::uint32_t>(char_bytes(text[at]));
    return bytes < n - at ? bytes : n - at;
  };
  const auto score = [&t](const PrefixWalk& walk, std::uint32_t bytes, float* of) noexcept {
    const std::uint32_t id = walk.here();
    if (id == kNoToken) return false;
    const PieceType type = row(t, id).type();
    // A user-defined piece has a score by its length in place of its own, above what
    // log-probabilities can reach.
    *of = type == PieceType::user_defined
              ? static_cast<float>(0.1 * static_cast<double>(bytes) - 0.1)
              : row(t, id).score();
    return type != PieceType::unused;
  };
  best_segmentation(t, best, length, text, n, t.lowest_score - 10.0f, char_size, score);
  for (std::uint32_t at = 0; at < n; at += length[at]) {
    const std::uint32_t id = find(t, text + at, length[at], false);
    if (id == kNoToken || row(t, id).type() == PieceType::unused)
      out->unknown(text + at, length[at]);
    else
      out->piece(id);
  }
}

}  // namespace pieces
}  // namespace phasor
