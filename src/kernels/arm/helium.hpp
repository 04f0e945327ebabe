// Helium (the M-profile vector extension): v4, four floats in one register, with the operations of
// v1 in scalar_math.h, and what its kernels share. It has eight vector registers, a multiply-add by
// a general register, loads and stores of the lanes that a predicate names, and no division: that
// and the square root are the scalar unit's, which are exact. Its floating-point arithmetic flushes
// subnormals, always.
#pragma once
#include <arm_mve.h>

#include "../scalar_math.h"

namespace phasor {
namespace {

struct Whole {};  // all lanes, where a predicate might stand
struct v4 {
  float32x4_t v;
  static PHASOR_INLINE v4 set(float s) { return {vdupq_n_f32(s)}; }
};
PHASOR_INLINE v4 operator+(v4 a, v4 b) { return {vaddq_f32(a.v, b.v)}; }
PHASOR_INLINE v4 operator-(v4 a, v4 b) { return {vsubq_f32(a.v, b.v)}; }
PHASOR_INLINE v4 operator*(v4 a, v4 b) { return {vmulq_f32(a.v, b.v)}; }
PHASOR_INLINE v4 operator/(v4 a, v4 b) {
  for (int i = 0; i < 4; ++i) a.v[i] = a.v[i] / b.v[i];
  return a;
}
PHASOR_INLINE v4 fma(v4 a, v4 b, v4 c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
PHASOR_INLINE v4 fma(v4 a, float b, v4 c) { return {vfmaq_n_f32(c.v, a.v, b)}; }
PHASOR_INLINE v4 fma(v4 a, v4 b, v4 c, Whole) { return fma(a, b, c); }
// c in the other lanes
PHASOR_INLINE v4 fma(v4 a, v4 b, v4 c, mve_pred16_t lanes) {
  return {vfmaq_m_f32(c.v, a.v, b.v, lanes)};
}
PHASOR_INLINE v4 where_gt(v4 a, v4 b, v4 yes, v4 no) {
  return {vpselq_f32(yes.v, no.v, vcmpgtq_f32(a.v, b.v))};
}
// the other, when one is NaN
PHASOR_INLINE v4 larger(v4 a, v4 b) { return {vmaxnmq_f32(a.v, b.v)}; }
PHASOR_INLINE v4 abs(v4 a) { return {vabsq_f32(a.v)}; }
PHASOR_INLINE v4 negated(v4 a) { return {vnegq_f32(a.v)}; }
PHASOR_INLINE uint32x4_t as_uint(v4 a) { return vreinterpretq_u32_f32(a.v); }
PHASOR_INLINE v4 as_float(uint32x4_t a) { return {vreinterpretq_f32_u32(a)}; }
PHASOR_INLINE v4 copysign(v4 a, v4 s) {
  return as_float(vorrq_u32(as_uint(abs(a)), vandq_u32(as_uint(s), vdupq_n_u32(0x80000000u))));
}
PHASOR_INLINE v4 pow2_of_rounded(v4 t) {
  return as_float(vaddq_n_u32(vshlq_n_u32(as_uint(t), 23), 0x3f800000u));
}
PHASOR_INLINE void split(v4 x, v4& m, v4& e) {
  const uint32x4_t t = vsubq_n_u32(as_uint(x), 0x3f3504f3u);
  m = as_float(vaddq_n_u32(vandq_u32(t, vdupq_n_u32(0x7fffffu)), 0x3f3504f3u));
  e.v = vcvtq_f32_s32(vshrq_n_s32(vreinterpretq_s32_u32(t), 23));
}

typedef float floats4 __attribute__((vector_size(16), aligned(4), may_alias));
PHASOR_INLINE v4 load(const float* p) { return {*reinterpret_cast<const floats4*>(p)}; }
PHASOR_INLINE void store(float* p, v4 a) { *reinterpret_cast<floats4*>(p) = a.v; }
// All lanes; or those of a predicate, the others +0.
PHASOR_INLINE v4 load(const float* p, Whole) { return load(p); }
PHASOR_INLINE void store(float* p, v4 a, Whole) { store(p, a); }
PHASOR_INLINE v4 load(const float* p, mve_pred16_t lanes) { return {vldrwq_z_f32(p, lanes)}; }
PHASOR_INLINE void store(float* p, v4 a, mve_pred16_t lanes) { vstrwq_p_f32(p, a.v, lanes); }
// of four, when n is more
PHASOR_INLINE mve_pred16_t first_lanes(size_t n) { return vctp32q(static_cast<uint32_t>(n)); }

// The even or the odd ones of eight halves, widened exactly: the conversion flushes nothing. GNU's
// assembler (2.40) encodes VCVTB and VCVTT of every register but q0 as another's, so they are given
// as numbers, with the registers' as symbols.
__asm__(".irp n, 0, 1, 2, 3, 4, 5, 6, 7\n.set .Lphasor_q\\n, \\n\n.endr");
template <int Odd>
PHASOR_INLINE v4 widened(uint16x8_t h) {
  v4 r;
  __asm__(".inst.w 0xfe3f0e01 + %c2 + .Lphasor_%q0 * 0x2000 + .Lphasor_%q1 * 2"
          : "=w"(r.v)
          : "w"(h), "i"(Odd * 0x1000));
  return r;
}
// Four halves, one to a lane.
PHASOR_INLINE v4 halves(const unsigned char* p) {
  return widened<0>(vreinterpretq_u16_u32(vldrhq_u32(reinterpret_cast<const uint16_t*>(p))));
}

// f(i, which lanes) for i = 0, 4, … below n. By whole vectors, and then the rest; where f is long
// by predicates throughout, which is half the code.
template <class F>
PHASOR_INLINE void each_vector(size_t n, F f) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) f(i, Whole{});
  if (i < n) f(i, first_lanes(n - i));
}
template <class F>
PHASOR_INLINE void each_part(size_t n, F f) {
  for (size_t i = 0; i < n; i += 4) f(i, first_lanes(n - i));
}

// Sixteen lanes, begun at +0, and the fixed tree over them: distance 8, 4, 2, 1. They lie in
// memory: there are no registers for them, and one loop over vectors is a quarter of the code.
struct Lanes {
  alignas(16) float t[kLanes] = {};
  PHASOR_INLINE float tree() const {
    const v4 a = (load(t) + load(t + 8)) + (load(t + 4) + load(t + 12));
    return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
  }
};
// f(the lanes of elements i … i + 3, i, which of them there are) for i = 0, 4, … below n: element i
// adds to lane i mod 16.
template <class F>
PHASOR_INLINE void each_lane(Lanes& sum, size_t n, F f) {
  each_vector(n, [&](size_t i, auto p) PHASOR_LAMBDA {
    float* at = sum.t + i % kLanes;
    store(at, f(load(at), i, p));
  });
}

}  // namespace
}  // namespace phasor
