// text: the segmentation of the highest total score (Viterbi; Kudo 2018, 3.2), in the arithmetic
// and with the ties of whoever asks. Includes recent.h only.
#pragma once
#include "recent.h"

namespace phasor::pieces {

// Scores are needed only as far ahead as a piece can reach, so they lie in a ring.
inline uint64_t ring_slots(const Tokenizer& t) {
  return uint64_t{t.longest > 4 ? t.longest : 4} + 1;
}


// Turns "length of the piece that ends here" (0 … n) into "length of the piece that begins here",
// along the best segmentation.
inline void lengths_by_beginning(uint16_t* length, uint32_t n) {
  uint32_t carry = 0;
  for (uint32_t at = n;;) {
    work();
    const uint16_t back = length[at];
    length[at] = static_cast<uint16_t>(carry);
    if (at == 0) return;
    carry = back;
    at -= back;
  }
}

constexpr float kNewTotals = -65536.0f;

// Writes to length (n + 1) the bytes of each piece of the best segmentation of text (n), where the
// piece begins. best (ring_slots) is scratch. char_bytes(at): of the character at `at`, within the
// text. score(walk, bytes, &s): the piece that the walk stands on, and its score; or kNoToken. A
// character that is no piece itself may stand alone, with the score `unknown`. Of equal totals the
// first one found stays. ids (n + 1) or null: the last piece of the best segmentation that ends
// here, kNoToken for such a character.
template <class Score, class CharBytes, class ScoreOf>
void best_segmentation(const Tokenizer& t, const Walks& recent, Score* best,
                       uint16_t* length, uint32_t* ids, const unsigned char* text, uint32_t n,
                       Score unknown, CharBytes char_bytes, ScoreOf score) {
  const size_t slots = static_cast<size_t>(ring_slots(t));
  std::memset(length, 0, 2 * (size_t{n} + 1));  // 0: not reached
  if (sizeof(Score) == 4)                       // what is never reached is moved too
    for (size_t at = 0; at < slots; ++at) best[at] = 0;
  best[0] = 0;
  size_t slot = 0;  // of `start` in the ring
  for (uint32_t start = 0; start < n;) {
    // Totals of a long text are rounded to more than scores differ by: they begin anew at this one.
    // Those of f32 that are there lie near it, so that their differences are exact.
    if (sizeof(Score) == 4 && best[slot] < kNewTotals) {
      const Score base = best[slot];
      for (size_t at = 0; at < slots; ++at) best[at] -= base;
    }
    const Score so_far = best[slot];
    const uint32_t rest = n - start, one = char_bytes(start);
    work();
    const auto offer = [&](uint32_t id, uint32_t bytes, Score of) {
      const Score candidate = of + so_far;
      const size_t to = slot + bytes < slots ? slot + bytes : slot + bytes - slots;
      if (length[start + bytes] != 0 && !(candidate > best[to])) return;
      best[to] = candidate;
      length[start + bytes] = static_cast<uint16_t>(bytes);
      if (ids != nullptr) ids[start + bytes] = id;
    };
    bool has_single = false;
    PrefixWalk walk(t, &recent);
    for (uint32_t bytes = 1; bytes <= rest && walk.step(text[start + bytes - 1]); ++bytes) {
      Score of;
      const uint32_t id = score(walk, bytes, &of);
      if (id == kNoToken) continue;
      offer(id, bytes, of);
      has_single = has_single || bytes == one;
    }
    if (!has_single) offer(kNoToken, one, unknown);
    start += one;
    slot += one;
    if (slot >= slots) slot -= slots;
  }
  lengths_by_beginning(length, n);
}

}  // namespace phasor::pieces
