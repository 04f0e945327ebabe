// The scales and minima of a panel's group in q4m and q4k, as 16 floats each (rule 1.20), and the
// two scales in q6 (1.27); what they stand for is grid_at and coded_scale of gather.h.
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
// As many bytes as a register has, since gcc takes a wider vector apart byte by byte; four by four
// on x86, which shifts no bytes.
#if defined(__x86_64__)
typedef uint32_t Code;
#else
typedef uint8_t Code;
#endif
#if defined(__AVX512BW__)
typedef Code Codes __attribute__((vector_size(64)));
#elif defined(__AVX2__)
typedef Code Codes __attribute__((vector_size(32)));
#else
typedef Code Codes __attribute__((vector_size(16)));
#endif
constexpr Code bytes_of(uint32_t mask) { return static_cast<Code>(mask * 0x01010101u); }
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

// What eight groups of q6 share: their number, and the codes of their halves that multiply it.
template <class L>
struct Fine {
  using V = v16<typename L::Arch>;
  V number;
  alignas(64) unsigned char codes[record_codes(Type::q6) * kLanes];
  // The scale of a half of group g of the eight.
  PHASOR_INLINE V at(size_t g, size_t half) const {
    return number * L::byte16(codes + (2 * g + half) * kLanes);
  }
};
template <class L>
PHASOR_INLINE void super_of(Fine<L>& to, const unsigned char* plane, size_t g) {
  const unsigned char* p = plane + g / kSuper * (record_bytes(Type::q6) * kLanes);
  to.number = L::half16(p);
  __builtin_memcpy(to.codes, p + kLanes * 2, sizeof to.codes);
}

}  // namespace
}  // namespace phasor
