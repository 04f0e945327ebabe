// Loops whose counters are constants, for what an instruction has in itself: a tile, a shift.
#pragma once
#include <stddef.h>

#include <utility>

#include "scalar_math.h"

namespace phasor {
namespace {

template <size_t I>
using Constant = std::integral_constant<size_t, I>;
template <class Do, size_t... I>
PHASOR_INLINE void each_constant(std::index_sequence<I...>, Do&& what) {
  (what(Constant<I>{}), ...);
}
// what(0) … what(N − 1), whose arguments are constants.
template <size_t N, class Do>
PHASOR_INLINE void each(Do&& what) {
  each_constant(std::make_index_sequence<N>{}, what);
}

// A panel's group of 4-bit codes as its 512 values of int8, in q8's order.
PHASOR_INLINE void look_up_each(unsigned char* to, const unsigned char* codes,
                                const unsigned char* table) {
  for (size_t i = 0; i < 256; ++i) {
    to[i] = table[codes[i] & 15];
    to[256 + i] = table[codes[i] >> 4];
  }
}

}  // namespace
}  // namespace phasor
