// Rotary positions (Su et al. 2021, "RoFormer"): one head's values turn in pairs. There is one version for every level.
#pragma once
#include <stddef.h>

namespace phasor {

// Pair i of x (2·half) turns by the angle with cosine c[i] and sine s[i]: y0 = fma(x0, c, −(x1·s)), y1 = fma(x0, s, x1·c) (1.11).
void rotate_pairs(float* x, const float* c, const float* s, size_t half) noexcept;   // pairs (2i, 2i + 1)
void rotate_halves(float* x, const float* c, const float* s, size_t half) noexcept;  // pairs (i, i + half)

}  // namespace phasor
