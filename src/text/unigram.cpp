// The unigram model: the segmentation of the highest total score (Viterbi; Kudo 2018, 3.2), in the order of
// arithmetic and with the ties of the SentencePiece package. Includes pieces.h only; never allocates.
#include "pieces.h"

namespace phasor {
namespace pieces {
namespace {

// Scores are needed only as far ahead as a piece can reach, so they lie in a ring.
std::uint64_t ring_slots(const Tokenizer& t) noexcept { return std::uint64_t{t.longest > 4 ? t.longest : 4} + 1; }

}  // namespace

std::uint64_t unigram_scratch(const Tokenizer& t, std::uint64_t limit) noexcept {
  return 4 * ring_slots(t)    // f32 best score of a segmentation that ends here
         + 2 * (limit + 1);   // u16 length of its last piece
}

void encode_unigram(const Tokenizer& t, IdSink* out, const unsigned char* text, std::uint32_t n,
                    unsigned char* scratch, std::uint64_t) noexcept {
  if (n == 0) return;
  const std::size_t slots = static_cast<std::size_t>(ring_slots(t));
  float* const best = reinterpret_cast<float*>(scratch);
  std::uint16_t* const length = reinterpret_cast<std::uint16_t*>(scratch + 4 * slots);  // (n + 1); 0 = not reached
  std::memset(length, 0, 2 * (std::size_t{n} + 1));

  const float unknown_score = t.lowest_score - 10.0f;
  best[0] = 0.0f;
  std::size_t slot = 0;  // of `start` in the ring
  for (std::uint32_t start = 0; start < n;) {
    const float so_far = best[slot];
    const std::uint32_t rest = n - start;
    const std::uint32_t char_size = static_cast<std::uint32_t>(char_bytes(text[start]));
    const std::uint32_t one = char_size < rest ? char_size : rest;
    const auto offer = [&](std::uint32_t bytes, float score) noexcept {
      const float candidate = score + so_far;
      const std::size_t to = slot + bytes < slots ? slot + bytes : slot + bytes - slots;
      if (length[start + bytes] == 0 || candidate > best[to]) {
        best[to] = candidate;
        length[start + bytes] = static_cast<std::uint16_t>(bytes);
      }
    };
    bool has_single = false;
    PrefixWalk walk(t);
    for (std::uint32_t bytes = 1; bytes <= rest && walk.step(text[start + bytes - 1]); ++bytes) {
      const std::uint32_t id = walk.here();
      if (id == kNoToken) continue;
      const PieceType type = row(t, id).type();
      if (type == PieceType::unused) continue;
      // A user-defined piece has a score by its length in place of its own, above what log-probabilities can reach.
      const float bonus = static_cast<float>(0.1 * static_cast<double>(bytes) - 0.1);
      offer(bytes, type == PieceType::user_defined ? bonus : row(t, id).score());
      has_single = has_single || bytes == one;
    }
    if (!has_single) offer(one, unknown_score);
    start += one;
    slot += one;
    if (slot >= slots) slot -= slots;
  }

  lengths_by_beginning(length, n);
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
