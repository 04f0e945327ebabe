// The scales and minima of a panel's group in q4m and q4k, as 16 floats each (rule 1.20); what they
// stand for is grid_at of gather.h.
#pragma once
#include "coded.hpp"
#include "simd.hpp"

namespace phasor {
namespace {

template <class L>
PHASOR_INLINE void scales_q4m(v16<typename L::Arch> (&to)[2], const unsigned char* plane,
                              size_t g) {
  to[0] = L::half16(plane + g * (kLanes * 4));
  to[1] = L::half16(plane + g * (kLanes * 4) + kLanes * 2);
}

// What eight groups share: their scale and minimum, and the codes that multiply them. The codes are
// those of scale_code and minimum_code, 16 rows side by side.
template <class L>
struct Super {
  using V = v16<typename L::Arch>;
  V number[2];
  alignas(64) unsigned char codes[2][kSuper * kLanes];
  // The scale (i = 0) or the minimum of group g of the eight.
  PHASOR_INLINE V at(size_t g, size_t i) const {
    return number[i] * L::byte16(codes[i] + g * kLanes);
  }
};
template <class L>
PHASOR_INLINE void super_of(Super<L>& to, const unsigned char* plane, size_t g) {
  const unsigned char* p = plane + g / kSuper * (kSuperBytes * kLanes);
  to.number[0] = L::half16(p);
  to.number[1] = L::half16(p + kLanes * 2);
  p += kLanes * 4;
  PHASOR_UNROLL for (size_t i = 0; i < 64; i += sizeof(Codes)) {
    Codes a, b, c;
    __builtin_memcpy(&a, p + i, sizeof a);
    __builtin_memcpy(&b, p + i + 64, sizeof b);
    __builtin_memcpy(&c, p + i + 128, sizeof c);
    const Codes low = c & bytes_of(15), high = (c & bytes_of(240)) >> 4,
                of[2][2] = {{a & bytes_of(63), low | (a & bytes_of(192)) >> 2},
                            {b & bytes_of(63), high | (b & bytes_of(192)) >> 2}};
    PHASOR_UNROLL for (size_t n = 0; n < 2; ++n)
      PHASOR_UNROLL for (size_t k = 0; k < 2; ++k)
        __builtin_memcpy(to.codes[n] + i + 64 * k, &of[n][k], sizeof of[n][k]);
  }
}

}  // namespace
}  // namespace phasor
