// A sequence as it must be: its tokens, its source, and which positions the ring of its layers with
// a window still has (docs/design/architecture.md). Position p takes the place p modulo the ring.
#pragma once
#include "oracle.h"

namespace long_run {

constexpr uint32_t kMostPositions = 96;

struct Ring {
  uint32_t window = 0, positions = 0;  // 0: no layer has a window
};
inline Ring ring_of(uint32_t window, uint32_t chunk, uint32_t target) {
  const auto round_up16 = [](uint32_t n) { return (n + 15) / 16 * 16; };
  const uint32_t held = round_up16(window + chunk - 1), all = round_up16(target);
  return window == 0 ? Ring{} : Ring{window, held < all ? held : all};
}

struct Shadow {
  uint32_t script = 0, length = 0, source = kNoSource;
  uint32_t holder[kMostPositions] = {};  // of each place: position + 1, or 0

  void write(const Ring& ring, uint32_t first, uint32_t end) {
    for (uint32_t p = first; p < end && ring.window != 0; ++p) holder[p % ring.positions] = p + 1;
  }
  // Whether all that position `to` sees through the widest window is there. A window of one sees
  // no other position; it goes back as far as the ring has pages.
  bool reaches(const Ring& ring, uint32_t to) const {
    if (ring.window == 1 && to != 0) {
      const uint32_t held = holder[to % ring.positions];
      return held == to + 1 || (to == length && held <= to);
    }
    for (uint32_t p = to; ring.window != 0 && p-- != 0 && p + ring.window > to;)
      if (holder[p % ring.positions] != p + 1) return false;
    return true;
  }
  void empty() {
    length = 0;
    for (uint32_t& place : holder) place = 0;
  }
  void clear() {
    empty();
    source = kNoSource;
  }
  // As a saved state brings it: with what its next position sees.
  void restore(const Ring& ring, uint32_t of_script, uint32_t of_length, uint32_t of_source) {
    clear();
    script = of_script;
    source = of_source;
    length = of_length;
    write(ring, length < ring.window ? 0 : length - (ring.window - 1), length);
  }
};

}  // namespace long_run
