// The scales of a panel's groups that are codes in records, as 16 floats each: coded_scale of
// gather.h (rules 1.27, 1.28 and 1.30) and grid_at of q4k and q5k (rule 1.20), for 16 rows at once.
#pragma once
#include "../layout.h"
#include "constants.hpp"

namespace phasor {
namespace {

// As many bytes as a register has, since gcc takes a wider vector apart byte by byte; four by four
// on x86, which shifts no bytes; or fewer where there are no more.
#if defined(__x86_64__)
typedef uint32_t CodeLane;
#else
typedef uint8_t CodeLane;
#endif
#if defined(__AVX512BW__)
constexpr size_t kCodeRegister = 64;
#elif defined(__AVX2__)
constexpr size_t kCodeRegister = 32;
#else
constexpr size_t kCodeRegister = 16;
#endif
template <size_t Bytes>
struct CodesOf {
  static constexpr size_t kBytes = Bytes < kCodeRegister ? Bytes : kCodeRegister;
  typedef CodeLane Vector __attribute__((vector_size(kBytes)));
};
using Codes = CodesOf<64>::Vector;
constexpr CodeLane bytes_of(uint32_t mask) { return static_cast<CodeLane>(mask * 0x01010101u); }

// N signed codes of six bits of each of 16 rows (signed_code), as int8: code i of all at 16·i.
template <size_t N>
PHASOR_INLINE void signed_codes(unsigned char* to, const unsigned char* p) {
  constexpr size_t kPart = N / 4 * kLanes;  // bytes of the codes whose fields are the same
  using Vector = typename CodesOf<kPart>::Vector;
  PHASOR_UNROLL for (size_t i = 0; i < kPart; i += sizeof(Vector)) {
    Vector low[2], upper;
    __builtin_memcpy(&low[0], p + i, sizeof low[0]);
    __builtin_memcpy(&low[1], p + kPart + i, sizeof low[1]);
    __builtin_memcpy(&upper, p + 2 * kPart + i, sizeof upper);
    each<4>([&](auto f) PHASOR_LAMBDA {
      constexpr size_t kField = f;
      constexpr CodeLane kLow = kField / 2 * 4, kUp = kField < 2 ? 4 - 2 * kField : 0,
                     kDown = kField < 2 ? 0 : 2 * kField - 4;
      const Vector moved = kField < 2 ? upper << kUp : upper >> kDown,
                   n = ((low[kField % 2] >> kLow) & bytes_of(15)) | (moved & bytes_of(48)),
                   // n + 96 in each byte, then − 128 by its first bit: n − 32
                   less = ((n | bytes_of(128)) - bytes_of(32)) ^ bytes_of(128);
      __builtin_memcpy(to + kField * kPart + i, &less, sizeof less);
    });
  }
}

// What eight groups of a coded type share: their number, and the codes that multiply it, one of a
// group or two.
template <class L, Type T>
struct Coded {
  using V = decltype(L::half16(nullptr));
  static constexpr size_t kEach = record_codes(T) / kSuper;
  V number;
  alignas(64) unsigned char codes[record_codes(T) * kLanes];
  // Scale i of group g of the eight.
  PHASOR_INLINE V at(size_t g, size_t i) const {
    return number * L::byte16(codes + (kEach * g + i) * kLanes);
  }
};
template <class L, Type T>
PHASOR_INLINE void super_of(Coded<L, T>& to, const unsigned char* plane, size_t g) {
  const unsigned char* p = plane + g / kSuper * (record_bytes(T) * kLanes);
  to.number = L::half16(p);
  if constexpr (scale_bits(T) == 8)
    __builtin_memcpy(to.codes, p + kLanes * 2, sizeof to.codes);
  else
    signed_codes<record_codes(T)>(to.codes, p + kLanes * 2);
}

// What eight groups of q4k or q5k share: their scale and minimum, and the codes that multiply them,
// which are those of scale_code and minimum_code.
template <class L>
struct Super {
  using V = decltype(L::half16(nullptr));
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
