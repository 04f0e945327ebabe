#include "rotary.h"

#include "scalar_math.h"

namespace phasor {
namespace {

void turn(float* a, float* b, float c, float s) {
  const float x0 = *a, x1 = *b;
  *a = fma1(x0, c, -(x1 * s));
  *b = fma1(x0, s, x1 * c);
}

}  // namespace

void rotate_pairs(float* x, const float* c, const float* s, size_t half) noexcept {
  for (size_t i = 0; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
}

void rotate_halves(float* x, const float* c, const float* s, size_t half) noexcept {
  for (size_t i = 0; i < half; ++i) turn(x + i, x + half + i, c[i], s[i]);
}

}  // namespace phasor
