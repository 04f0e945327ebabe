// The one file that wraps xsimd: v16<A>, a virtual vector of 16 floats made of 1, 2 or 4 registers
// of architecture A, and what xsimd leaves inexact put right: its fma is not fused on AVX-512 (8.1)
// nor where there is no unit, its division on ARM is an estimate. Works with xsimd 8.1 and newer.
// Only level_*.cpp include it; all of it is in an anonymous namespace, since those files are
// compiled for different instruction sets and the linker must not merge their copies.
#pragma once
#if defined(__wasm__)
#include "wasm/batch.hpp"
#else
#include <xsimd/xsimd.hpp>
#endif

#include "../layout.h"
#include "scalar_math.h"

namespace phasor {
namespace {

#if defined(__wasm__)
namespace simd = wasm;
#else
namespace simd = xsimd;
#endif

#if defined(__SSE2__)
// Keeps a sum of integers in its register from step to step: gcc would otherwise collect all the
// addends of an unrolled group first, to add them as a tree, and spill them.
template <class R>
PHASOR_INLINE void keep(R& sum) {
  __asm__("" : "+v"(sum));
}
#endif

#if defined(__ARM_NEON)
// xsimd 8.1 reinterprets and shifts by way of tables of functions, which gcc does not see through.
template <class A>
PHASOR_INLINE simd::batch<int32_t, A> as_int(const simd::batch<float, A>& x) {
  return simd::batch<int32_t, A>(vreinterpretq_s32_f32(x));
}
template <class A>
PHASOR_INLINE simd::batch<float, A> as_float(const simd::batch<int32_t, A>& x) {
  return simd::batch<float, A>(vreinterpretq_f32_s32(x));
}
template <int N, class A>
PHASOR_INLINE simd::batch<int32_t, A> left(const simd::batch<int32_t, A>& x) {
  return simd::batch<int32_t, A>(vshlq_n_s32(x, N));
}
template <int N, class A>
PHASOR_INLINE simd::batch<int32_t, A> right(const simd::batch<int32_t, A>& x) {
  return simd::batch<int32_t, A>(vshrq_n_s32(x, N));
}
#else
template <class A>
PHASOR_INLINE simd::batch<int32_t, A> as_int(const simd::batch<float, A>& x) {
#if defined(__wasm__)
  return simd::batch<int32_t, A>(x.data);
#elif XSIMD_VERSION_MAJOR >= 11
  return simd::bitwise_cast<int32_t>(x);
#else
  return simd::bitwise_cast<simd::batch<int32_t, A> >(x);
#endif
}
template <class A>
PHASOR_INLINE simd::batch<float, A> as_float(const simd::batch<int32_t, A>& x) {
#if defined(__wasm__)
  return simd::batch<float, A>(x.data);
#elif XSIMD_VERSION_MAJOR >= 11
  return simd::bitwise_cast<float>(x);
#else
  return simd::bitwise_cast<simd::batch<float, A> >(x);
#endif
}
template <int N, class A>
PHASOR_INLINE simd::batch<int32_t, A> left(const simd::batch<int32_t, A>& x) {
  return x << N;
}
template <int N, class A>
PHASOR_INLINE simd::batch<int32_t, A> right(const simd::batch<int32_t, A>& x) {
  return x >> N;
}
#endif

#if defined(__SSE2__) && !defined(__FMA__)
// fma1 of scalar_math.h, two lanes at a time.
PHASOR_INLINE __m128d fma_odd(__m128d a, __m128d b, __m128d c) {
  const __m128d p = _mm_mul_pd(a, b), s = _mm_add_pd(p, c), t = _mm_sub_pd(s, p);
  const __m128d e = _mm_add_pd(_mm_sub_pd(p, _mm_sub_pd(s, t)), _mm_sub_pd(c, t));
  const __m128d size = _mm_andnot_pd(_mm_set1_pd(-0.0), e);
  const __m128i inexact =
      _mm_srli_epi64(_mm_castpd_si128(_mm_cmpgt_pd(size, _mm_setzero_pd())), 63);
  const __m128i away =
      _mm_and_si128(_mm_srli_epi64(_mm_castpd_si128(_mm_xor_pd(e, s)), 63), inexact);
  return _mm_castsi128_pd(_mm_or_si128(_mm_sub_epi64(_mm_castpd_si128(s), away), inexact));
}
// A function of its own: inlined, the level is four times the code and a twentieth faster.
__attribute__((noinline)) __m128 fma_sse2(__m128 x, __m128 y, __m128 z) {
  const __m128d low = fma_odd(_mm_cvtps_pd(x), _mm_cvtps_pd(y), _mm_cvtps_pd(z));
  const __m128d high = fma_odd(_mm_cvtps_pd(_mm_movehl_ps(x, x)), _mm_cvtps_pd(_mm_movehl_ps(y, y)),
                               _mm_cvtps_pd(_mm_movehl_ps(z, z)));
  return _mm_movelh_ps(_mm_cvtpd_ps(low), _mm_cvtpd_ps(high));
}
#endif

// Lane i gets what lane i ^ S has.
#if defined(__wasm__)
using wasm::swapped;
#endif
#if defined(__SSE2__)
template <size_t S>
PHASOR_INLINE __m128 swapped(__m128 x) {
  return _mm_shuffle_ps(x, x, S == 1 ? 0xB1 : 0x4E);
}
#endif
#if defined(__AVX2__)
template <size_t S>
PHASOR_INLINE __m256 swapped(__m256 x) {
  if constexpr (S == 4) return _mm256_permute2f128_ps(x, x, 1);
  return _mm256_permute_ps(x, S == 1 ? 0xB1 : 0x4E);
}
#endif
#if defined(__AVX512F__)
template <size_t S>
PHASOR_INLINE __m512 swapped(__m512 x) {
  if constexpr (S >= 4) return _mm512_shuffle_f32x4(x, x, S == 4 ? 0xB1 : 0x4E);
  return _mm512_permute_ps(x, S == 1 ? 0xB1 : 0x4E);
}
#endif
#if defined(__ARM_NEON)
template <size_t S>
PHASOR_INLINE float32x4_t swapped(float32x4_t x) {
  return S == 1 ? vrev64q_f32(x) : vextq_f32(x, x, 2);
}
#endif

#if !defined(__wasm__)
template <class A>
PHASOR_INLINE simd::batch<float, A> fused(const simd::batch<float, A>& a,
                                           const simd::batch<float, A>& b,
                                           const simd::batch<float, A>& c) {
#if defined(__AVX512F__)
  if constexpr (simd::batch<float, A>::size == 16)
    return simd::batch<float, A>(_mm512_fmadd_ps(a, b, c));
  else
    return simd::fma(a, b, c);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return simd::fma(a, b, c);
#elif defined(__SSE2__)
  return simd::batch<float, A>(fma_sse2(a, b, c));
#else
#error "phasor: a vector level needs a fused multiply-add (ARM: -mfpu=neon-vfpv4)"
#endif
}
#endif

template <class A>
PHASOR_INLINE simd::batch<float, A> divided(const simd::batch<float, A>& a,
                                             const simd::batch<float, A>& b) {
#if defined(__aarch64__)
  return simd::batch<float, A>(vdivq_f32(a, b));
#elif defined(__arm__)
  alignas(16) float x[4], y[4];  // VFP divides exactly; NEON has only an estimate
  a.store_aligned(x);
  b.store_aligned(y);
  for (int i = 0; i < 4; ++i) x[i] = x[i] / y[i];
  return simd::batch<float, A>::load_aligned(x);
#else
  return a / b;
#endif
}

// The operations are those of v1 in scalar_math.h.
template <class A>
struct v16 {
  using B = simd::batch<float, A>;
  using I = simd::batch<int32_t, A>;
  static constexpr size_t W = B::size;  // floats in a register
  static constexpr size_t N = 16 / W;   // registers
  B v[N];

  static PHASOR_INLINE v16 set(float s) {
    v16 r;
    const B b(s);
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) r.v[i] = b;
    return r;
  }
  static PHASOR_INLINE v16 load(const float* p) {
    v16 r;
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) r.v[i] = B::load_unaligned(p + i * W);
    return r;
  }
  PHASOR_INLINE void store(float* p) const {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) v[i].store_unaligned(p + i * W);
  }
  // From here on in registers: gcc would otherwise load it again at each use.
  PHASOR_INLINE void hold() {
#if defined(__AVX2__)
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) keep(v[i].data);
#endif
  }
  // The first n < 16 floats of p, the rest +0; and the way back.
  static PHASOR_INLINE v16 load_part(const float* p, size_t n) {
#if defined(__AVX512F__)
    if constexpr (W == 16)
      return {{B(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p))}};
#endif
    alignas(64) float t[16] = {};
    for (size_t i = 0; i < n; ++i) t[i] = p[i];
    return load(t);
  }
  PHASOR_INLINE void store_part(float* p, size_t n) const {
#if defined(__AVX512F__)
    if constexpr (W == 16)
      return _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), v[0]);
#endif
    alignas(64) float t[16];
    store(t);
    for (size_t i = 0; i < n; ++i) p[i] = t[i];
  }
  // The same for any n, as a rule 16 and more: all of them.
  static PHASOR_INLINE v16 load(const float* p, size_t n) {
    return n >= 16 ? load(p) : load_part(p, n);
  }
  PHASOR_INLINE void store(float* p, size_t n) const {
    if (n >= 16)
      store(p);
    else
      store_part(p, n);
  }

  friend PHASOR_INLINE v16 operator+(v16 a, v16 b) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a.v[i] += b.v[i];
    return a;
  }
  friend PHASOR_INLINE v16 operator-(v16 a, v16 b) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a.v[i] -= b.v[i];
    return a;
  }
  friend PHASOR_INLINE v16 operator*(v16 a, v16 b) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a.v[i] *= b.v[i];
    return a;
  }
  friend PHASOR_INLINE v16 operator/(v16 a, v16 b) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a.v[i] = divided<A>(a.v[i], b.v[i]);
    return a;
  }
  friend PHASOR_INLINE v16 fma(v16 a, v16 b, v16 c) {
#if defined(__wasm__)
    wasm::multiply_add(a.v, b.v, c.v);
#else
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) c.v[i] = fused<A>(a.v[i], b.v[i], c.v[i]);
#endif
    return c;
  }
  friend PHASOR_INLINE v16 where_gt(v16 a, v16 b, v16 yes, v16 no) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      no.v[i] = simd::select(a.v[i] > b.v[i], yes.v[i], no.v[i]);
    return no;
  }
  friend PHASOR_INLINE v16 larger(v16 a, v16 b) {  // either, when one is NaN
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a.v[i] = simd::max(a.v[i], b.v[i]);
    return a;
  }
  friend PHASOR_INLINE v16 abs(v16 a) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      a.v[i] = as_float<A>(as_int<A>(a.v[i]) & I(0x7fffffff));
    return a;
  }
  friend PHASOR_INLINE v16 negated(v16 a) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      a.v[i] = as_float<A>(as_int<A>(a.v[i]) ^ I(INT32_MIN));
    return a;
  }
  friend PHASOR_INLINE v16 copysign(v16 a, v16 s) {
    a = abs(a);
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      a.v[i] = as_float<A>(as_int<A>(a.v[i]) | (as_int<A>(s.v[i]) & I(INT32_MIN)));
    return a;
  }
  friend PHASOR_INLINE v16 pow2_of_rounded(v16 t) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      t.v[i] = as_float<A>(left<23>(as_int<A>(t.v[i])) + I(0x3f800000));
    return t;
  }
  friend PHASOR_INLINE void split(v16 x, v16& m, v16& e) {
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i) {
      const I t = as_int<A>(x.v[i]) - I(0x3f3504f3);
      m.v[i] = as_float<A>((t & I(0x7fffff)) + I(0x3f3504f3));
      e.v[i] = simd::to_float(right<23>(t));
    }
  }
};

// Four values in one register, each of which an instruction can multiply by: one load for four
// steps of a chain.
#if defined(__aarch64__)
constexpr bool kByLane = true;
template <class A>
struct Four {
  float32x4_t v;
  static PHASOR_INLINE Four load(const float* p) { return {vld1q_f32(p)}; }
  PHASOR_INLINE v16<A> fma(size_t j, v16<A> w, v16<A> c) const {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) c.v[i] = vfmaq_n_f32(c.v[i], w.v[i], v[j]);
    return c;
  }
};
#else
constexpr bool kByLane = false;
template <class A>
struct Four;
#endif

// The fixed tree over 16 lanes: t[i] = t[i] + t[i + 8], then + 4, + 2, + 1. Narrowing registers, so
// the same for all widths.
template <class A>
PHASOR_INLINE float tree(v16<A> x) {
  alignas(64) float t[16];
  x.store(t);
#if defined(__SSE2__)
  __m128 a = _mm_add_ps(_mm_add_ps(_mm_load_ps(t), _mm_load_ps(t + 8)),
                        _mm_add_ps(_mm_load_ps(t + 4), _mm_load_ps(t + 12)));
  a = _mm_add_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_add_ss(a, _mm_shuffle_ps(a, a, 1)));
#else
  for (int half = 8; half != 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
  return t[0];
#endif
}

template <class A>
PHASOR_INLINE float largest_lane(v16<A> x) {
  alignas(64) float t[16];
  x.store(t);
#if defined(__SSE2__)
  __m128 a = _mm_max_ps(_mm_max_ps(_mm_load_ps(t), _mm_load_ps(t + 8)),
                        _mm_max_ps(_mm_load_ps(t + 4), _mm_load_ps(t + 12)));
  a = _mm_max_ps(a, _mm_movehl_ps(a, a));
  return _mm_cvtss_f32(_mm_max_ss(a, _mm_shuffle_ps(a, a, 1)));
#else
  for (int half = 8; half != 0; half /= 2)
    for (int i = 0; i < half; ++i) t[i] = t[i] > t[i + half] ? t[i] : t[i + half];
  return t[0];
#endif
}

// Four activations as one whole number.
PHASOR_INLINE int32_t four_bytes(const int8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, 4);
  return four;
}

// 16 whole numbers in the registers of v16.
template <class A>
struct Int16 {
  simd::batch<int32_t, A> v[v16<A>::N];
};

// A group of 32 whole numbers to int8, within ±127; their sum.
template <class A>
PHASOR_INLINE int32_t narrow_group(int8_t* q, const Int16<A>& a, const Int16<A>& b) {
  alignas(64) int32_t t[kGroup];
  PHASOR_UNROLL for (size_t i = 0; i < v16<A>::N; ++i) {
    a.v[i].store_unaligned(t + i * v16<A>::W);
    b.v[i].store_unaligned(t + kLanes + i * v16<A>::W);
  }
  int32_t total = 0;
  for (size_t i = 0; i < kGroup; ++i) {
    const int32_t v = t[i] < -127 ? -127 : t[i] > 127 ? 127 : t[i];
    q[i] = static_cast<int8_t>(v);
    total += v;
  }
  return total;
}

}  // namespace
}  // namespace phasor
