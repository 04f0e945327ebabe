// The scales and minima of a panel's group in q4m and q4k, as 16 floats each (rule 1.20); what they
// stand for is grid_at of gather.h.
#pragma once
#include "simd.hpp"

namespace phasor {
namespace {

template <class L>
PHASOR_INLINE void scales_q4m(v16<typename L::Arch> (&to)[2], const unsigned char* plane, size_t g) {
  to[0] = L::half16(plane + g * (kLanes * 4));
  to[1] = L::half16(plane + g * (kLanes * 4) + kLanes * 2);
}

// A byte of each of the 16 outputs.
typedef unsigned char Bytes16 __attribute__((vector_size(16)));

// The codes are those of scale_code and minimum_code, 16 rows side by side.
template <class L>
PHASOR_INLINE void scales_q4k(v16<typename L::Arch> (&to)[2], const unsigned char* plane, size_t g) {
  const unsigned char *super = plane + g / kSuper * (kSuperBytes * kLanes),
                      *codes = super + kLanes * 4 + g % 4 * kLanes;
  Bytes16 a, b, c, code[2];
  __builtin_memcpy(&a, codes, 16);
  __builtin_memcpy(&b, codes + 4 * kLanes, 16);
  if (g % kSuper < 4) {
    code[0] = a & 63;
    code[1] = b & 63;
  } else {
    __builtin_memcpy(&c, codes + 8 * kLanes, 16);
    code[0] = (c & 15) | (a >> 6 << 4);
    code[1] = (c >> 4) | (b >> 6 << 4);
  }
  PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
    to[i] = L::half16(super + i * (kLanes * 2)) *
            L::byte16(reinterpret_cast<const unsigned char*>(&code[i]));
}

}  // namespace
}  // namespace phasor
