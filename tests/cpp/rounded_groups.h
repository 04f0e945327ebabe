// Rule 1.3 in words: inputs that were rounded to int8 in groups.
#pragma once
#include "tile_level.h"

namespace kernel_test {

// q (32·groups), scales s and sums (groups) beside the values x (cols) that they were made from.
inline void check_groups(const int8_t* q, const float* s, const int32_t* sum, const float* x,
                         size_t cols) {
  for (size_t g = 0; g < static_cast<size_t>(groups_of(cols)); ++g) {
    float amax = 0.0f;
    for (size_t i = g * kGroup; i < cols && i < (g + 1) * kGroup; ++i)
      amax = std::fmax(amax, std::fabs(x[i]));
    const bool zero = amax < 0x1p-80f;
    REQUIRE(same(s[g], zero ? 0.0f : amax * static_cast<float>(1.0 / 127.0)));
    int32_t total = 0;
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      int wanted = 0;
      if (i < cols && !zero) {
        volatile float inv = 127.0f / amax, scaled = x[i] * inv;
        wanted = static_cast<int>(std::fmax(-127.0f, std::fmin(127.0f, std::nearbyint(scaled))));
      }
      REQUIRE(int{q[i]} == wanted);
      total += wanted;
    }
    REQUIRE(sum[g] == total);
  }
}

}  // namespace kernel_test
