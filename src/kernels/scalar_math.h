// The exact scalar operations of a target: one fused multiply-add, one square root, and float
// values as their bits. Everything that is inexact or missing on some machine is put right here;
// simd.hpp does the same for vectors. In an anonymous namespace on purpose: files compiled for
// different instruction sets include it.
#pragma once
#include <float.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "../layout.h"

#if defined(__FAST_MATH__)
#error "phasor: -ffast-math breaks the numerics contract (rule 1.13); do not use it"
#endif
#if FLT_EVAL_METHOD != 0
// On 32-bit x86 -msse2 -mfpmath=sse do it.
#error "phasor: float arithmetic must be done in float (FLT_EVAL_METHOD 0): -msse2 -mfpmath=sse"
#endif

#define PHASOR_INLINE inline __attribute__((always_inline))
#define PHASOR_LAMBDA \
  __attribute__((always_inline))  // the same between the parameters and the body of a lambda
// Before a loop over registers: unrolled, so that an array of registers is in registers. More than
// any such loop has.
#if defined(__clang__)
#define PHASOR_UNROLL _Pragma("clang loop unroll(full)")
#else
#define PHASOR_UNROLL _Pragma("GCC unroll 64")
#endif

namespace phasor {
namespace {

PHASOR_INLINE uint32_t bits_of(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, 4);
  return u;
}
PHASOR_INLINE float float_of(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, 4);
  return x;
}

// x·y + z, rounded once. Without a fused unit: the product is exact in double; the sum is rounded
// to odd there (its error by Knuth's two-sum decides), and rounding an odd double to float cannot
// double-round, since 53 ≥ 24 + 2 (Boldo & Melquiond 2008, "Emulation of a FMA and correctly
// rounded sums").
PHASOR_INLINE float fma1(float x, float y, float z) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__) || \
    (defined(__riscv_flen) && __riscv_flen >= 32)
  return __builtin_fmaf(x, y, z);
#else
  const double p = static_cast<double>(x) * static_cast<double>(y), c = z;
  double s = p + c;
  const double b = s - p, e = (p - (s - b)) + (c - b);
  if (e > 0 || e < 0) {
    uint64_t u;
    __builtin_memcpy(&u, &s, 8);
    u = (u - static_cast<uint64_t>((e > 0) != (s > 0))) | 1u;
    __builtin_memcpy(&s, &u, 8);
  }
  return static_cast<float>(s);
#endif
}

// Correctly rounded; never a call to the C library. x ≥ 0 or NaN where there is no instruction for
// it.
PHASOR_INLINE float sqrt1(float x) {
#if defined(__SSE2__)
  return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
#elif defined(__aarch64__)
  float y;
  __asm__("fsqrt %s0, %s1" : "=w"(y) : "w"(x));
  return y;
#elif defined(__arm__) && defined(__ARM_FP) && !defined(__SOFTFP__)
  float y;
  __asm__("vsqrt.f32 %0, %1" : "=t"(y) : "t"(x));
  return y;
#elif defined(__riscv_flen) && __riscv_flen >= 32
  float y;
  __asm__("fsqrt.s %0, %1" : "=f"(y) : "f"(x));
  return y;
#elif defined(__wasm__)
  return __builtin_sqrtf(x);
#else
  // No unit: the root's 24 bits by trial subtraction on integers, then one bit more to round (an
  // exact tie is impossible).
  uint32_t u = bits_of(x);
  if (u == 0 || u >= 0x7f800000u) return u >> 31 != 0 && u << 1 != 0 ? float_of(0x7fc00000u) : x;
  int32_t e = static_cast<int32_t>(u >> 23) - 127;
  uint64_t m = u & 0x7fffffu;
  if (e == -127) {
    e = -126;
    while ((m & 0x800000u) == 0) {
      m <<= 1;
      --e;
    }
  }
  m |= 0x800000u;
  if ((e & 1) != 0) {
    m <<= 1;
    --e;
  }
  m <<= 25;  // m in [2^48, 2^50): its root has 25 bits, the last one for rounding
  uint64_t root = 0;
  for (uint64_t bit = 1ull << 24; bit != 0; bit >>= 1)
    if ((root | bit) * (root | bit) <= m) root |= bit;
  const uint32_t mantissa = static_cast<uint32_t>((root + 1) >> 1);
  return float_of((static_cast<uint32_t>(e / 2 + 126) << 23) + mantissa);
#endif
}

// The number of outputs, lanes and so on as f32; exact below 2^24.
PHASOR_INLINE float float_of_size(size_t n) { return static_cast<float>(n); }

// layout.h's sizes in size_t: they are sizes of things in memory here.
PHASOR_INLINE size_t up_to_lanes(size_t n) { return static_cast<size_t>(round_up(n, kLanes)); }
PHASOR_INLINE size_t panel_plane_bytes(Type type, size_t groups) {
  return static_cast<size_t>(record_groups(type) != 0 ? record_plane_bytes(type, kLanes, groups)
                                                      : scale_plane_bytes(type, kLanes, groups));
}

// A vector of one lane with the operations of v16 in simd.hpp, so that functions.hpp is written
// once.
struct v1 {
  float x;
  static PHASOR_INLINE v1 set(float s) { return {s}; }
};
PHASOR_INLINE v1 operator+(v1 a, v1 b) { return {a.x + b.x}; }
PHASOR_INLINE v1 operator-(v1 a, v1 b) { return {a.x - b.x}; }
PHASOR_INLINE v1 operator*(v1 a, v1 b) { return {a.x * b.x}; }
PHASOR_INLINE v1 operator/(v1 a, v1 b) { return {a.x / b.x}; }
PHASOR_INLINE v1 fma(v1 a, v1 b, v1 c) { return {fma1(a.x, b.x, c.x)}; }
// no when a or b is NaN
PHASOR_INLINE v1 where_gt(v1 a, v1 b, v1 yes, v1 no) { return {a.x > b.x ? yes.x : no.x}; }
PHASOR_INLINE v1 abs(v1 a) { return {float_of(bits_of(a.x) & 0x7fffffffu)}; }
PHASOR_INLINE v1 copysign(v1 a, v1 s) {
  return {float_of((bits_of(a.x) & 0x7fffffffu) | (bits_of(s.x) & 0x80000000u))};
}
// 2^n for t = n + 1.5·2^23, n in −126 … 127: the low bits of t's representation are n.
PHASOR_INLINE v1 pow2_of_rounded(v1 t) { return {float_of((bits_of(t.x) << 23) + 0x3f800000u)}; }
// x = m·2^e for normal x > 0, m in [√½, √2).
PHASOR_INLINE void split(v1 x, v1& m, v1& e) {
  const uint32_t i = bits_of(x.x) - 0x3f3504f3u;
  m.x = float_of((i & 0x7fffffu) + 0x3f3504f3u);
  e.x = static_cast<float>(static_cast<int32_t>(i & 0xff800000u) / 0x800000);
}

// A pair of rotary positions (1.11).
PHASOR_INLINE void turn(float* a, float* b, float c, float s) {
  const float x0 = *a, x1 = *b;
  *a = fma1(x0, c, -(x1 * s));
  *b = fma1(x0, s, x1 * c);
}

}  // namespace
}  // namespace phasor
