// Loops that are unrolled by the compiler's front end. In an anonymous namespace: files compiled for different instruction sets include it.
#pragma once
#include "scalar_math.h"

namespace phasor {
namespace {

// f(0), f(1), … f(N − 1) with the index as a constant, unrolled before the optimiser runs, so that arrays of registers
// stay in registers at any optimisation level that inlines.
template <int I>
struct Index {
  static constexpr int value = I;
};
template <int N, class F>
PHASOR_INLINE void times(F&& f) {
  if constexpr (N > 0) {
    times<N - 1>(f);
    f(Index<N - 1>{});
  }
}
#define PHASOR_EACH(i) [&](auto i) __attribute__((always_inline))

}  // namespace
}  // namespace phasor
