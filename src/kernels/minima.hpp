// The scales and minima of a panel's group in q4m and q4k, as 16 floats each (rule 1.20); what they
// stand for is grid_at of gather.h.
#pragma once
#include "simd.hpp"

namespace phasor {
namespace {

template <class L>
PHASOR_INLINE void scales_q4m(v16<typename L::Arch> (&to)[2], const unsigned char* plane,
                              size_t g) {
  to[0] = L::half16(plane + g * (kLanes * 4));
  to[1] = L::half16(plane + g * (kLanes * 4) + kLanes * 2);
}

// Four groups' bytes of the 16 outputs.
typedef unsigned char Bytes64 __attribute__((vector_size(64)));

// What eight groups share: their scale and minimum, and the codes that multiply them. The codes are
// those of scale_code and minimum_code, 16 rows side by side.
template <class L>
struct Super {
  using V = v16<typename L::Arch>;
  V number[2];
  Bytes64 codes[2][2];
  // The scale (i = 0) or the minimum of group g of the eight.
  PHASOR_INLINE V at(size_t g, size_t i) const {
    return number[i] * L::byte16(reinterpret_cast<const unsigned char*>(codes[i]) + g * kLanes);
  }
};
template <class L>
PHASOR_INLINE Super<L> super_of(const unsigned char* plane, size_t g) {
  const unsigned char* p = plane + g / kSuper * (kSuperBytes * kLanes);
  Bytes64 a, b, c;
  __builtin_memcpy(&a, p + kLanes * 4, 64);
  __builtin_memcpy(&b, p + kLanes * 4 + 64, 64);
  __builtin_memcpy(&c, p + kLanes * 4 + 128, 64);
  return {{L::half16(p), L::half16(p + kLanes * 2)},
          {{a & 63, (c & 15) | (a >> 6 << 4)}, {b & 63, (c >> 4) | (b >> 6 << 4)}}};
}

}  // namespace
}  // namespace phasor
