// A register of WebAssembly's SIMD with the operations that simd.hpp takes from xsimd elsewhere,
// under the names that they have there: xsimd has had WebAssembly since its version 10 only, and a
// level needs no more than these. And the fused multiply-add, which the standard's 128 bits lack.
#pragma once
#include <wasm_simd128.h>

#include "../scalar_math.h"

namespace phasor {
namespace {
namespace wasm {

struct simd128 {};  // the architecture

template <class T, class A>
struct batch;

template <class A>
struct batch<float, A> {
  static constexpr size_t size = 4;
  v128_t data;
  batch() = default;
  explicit PHASOR_INLINE batch(v128_t v) : data(v) {}
  explicit PHASOR_INLINE batch(float s) : data(wasm_f32x4_splat(s)) {}
  static PHASOR_INLINE batch load_unaligned(const float* p) { return batch(wasm_v128_load(p)); }
  PHASOR_INLINE void store_unaligned(float* p) const { wasm_v128_store(p, data); }
  PHASOR_INLINE batch& operator+=(batch b) { return data = wasm_f32x4_add(data, b.data), *this; }
  PHASOR_INLINE batch& operator-=(batch b) { return data = wasm_f32x4_sub(data, b.data), *this; }
  PHASOR_INLINE batch& operator*=(batch b) { return data = wasm_f32x4_mul(data, b.data), *this; }
  friend PHASOR_INLINE batch operator+(batch a, batch b) { return a += b; }
  friend PHASOR_INLINE batch operator-(batch a, batch b) { return a -= b; }
  friend PHASOR_INLINE batch operator/(batch a, batch b) {
    return batch(wasm_f32x4_div(a.data, b.data));
  }
  // all ones in a lane where it holds
  friend PHASOR_INLINE v128_t operator>(batch a, batch b) {
    return wasm_f32x4_gt(a.data, b.data);
  }
};

template <class A>
struct batch<int32_t, A> {
  v128_t data;
  batch() = default;
  explicit PHASOR_INLINE batch(v128_t v) : data(v) {}
  explicit PHASOR_INLINE batch(int32_t s) : data(wasm_i32x4_splat(s)) {}
  static PHASOR_INLINE batch load_unaligned(const int32_t* p) { return batch(wasm_v128_load(p)); }
  PHASOR_INLINE void store_unaligned(int32_t* p) const { wasm_v128_store(p, data); }
  friend PHASOR_INLINE batch operator+(batch a, batch b) {
    return batch(wasm_i32x4_add(a.data, b.data));
  }
  friend PHASOR_INLINE batch operator-(batch a, batch b) {
    return batch(wasm_i32x4_sub(a.data, b.data));
  }
  friend PHASOR_INLINE batch operator&(batch a, batch b) {
    return batch(wasm_v128_and(a.data, b.data));
  }
  friend PHASOR_INLINE batch operator|(batch a, batch b) {
    return batch(wasm_v128_or(a.data, b.data));
  }
  friend PHASOR_INLINE batch operator^(batch a, batch b) {
    return batch(wasm_v128_xor(a.data, b.data));
  }
  friend PHASOR_INLINE batch operator<<(batch a, int n) {
    return batch(wasm_i32x4_shl(a.data, static_cast<uint32_t>(n)));
  }
  friend PHASOR_INLINE batch operator>>(batch a, int n) {
    return batch(wasm_i32x4_shr(a.data, static_cast<uint32_t>(n)));
  }
};

template <class A>
PHASOR_INLINE batch<float, A> select(v128_t which, batch<float, A> yes, batch<float, A> no) {
  return batch<float, A>(wasm_v128_bitselect(yes.data, no.data, which));
}
template <class A>
PHASOR_INLINE batch<float, A> max(batch<float, A> a, batch<float, A> b) {  // b, when one is NaN
  return batch<float, A>(wasm_f32x4_pmax(b.data, a.data));
}
template <class A>
PHASOR_INLINE batch<float, A> to_float(batch<int32_t, A> a) {
  return batch<float, A>(wasm_f32x4_convert_i32x4(a.data));
}

// Lane i gets what lane i ^ S has.
template <size_t S>
PHASOR_INLINE v128_t swapped(v128_t x) {
  return S == 1 ? wasm_i32x4_shuffle(x, x, 1, 0, 3, 2) : wasm_i32x4_shuffle(x, x, 2, 3, 0, 1);
}

PHASOR_INLINE v128_t high(v128_t x) { return wasm_i64x2_shuffle(x, x, 1, 0); }

#if defined(PHASOR_RELAXED_MADD)
// clang before 17 has the instruction's number from before the standard.
PHASOR_INLINE v128_t relaxed_madd(v128_t x, v128_t y, v128_t z) {
#if __clang_major__ < 17
  v128_t sum;
  __asm__("local.get %1\n local.get %2\n local.get %3\n .byte 0xfd, 0x85, 0x02\n local.set %0"
          : "=r"(sum)
          : "r"(x), "r"(y), "r"(z));
  return sum;
#else
  return __builtin_wasm_relaxed_madd_f32x4(x, y, z);
#endif
}

// z becomes x·y + z in all lanes of N registers.
template <size_t N, class B>
PHASOR_INLINE void multiply_add(const B (&x)[N], const B (&y)[N], B (&z)[N]) {
  PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
    z[i] = B(relaxed_madd(x[i].data, y[i].data, z[i].data));
}
#else
// The two products and sums of fma1 (scalar_math.h) in double.
PHASOR_INLINE v128_t sum_of_low(v128_t x, v128_t y, v128_t z) {
  return wasm_f64x2_add(
      wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(x), wasm_f64x2_promote_low_f32x4(y)),
      wasm_f64x2_promote_low_f32x4(z));
}
PHASOR_INLINE v128_t both(v128_t low, v128_t high) {
  return wasm_i64x2_shuffle(wasm_f32x4_demote_f64x2_zero(low),
                            wasm_f32x4_demote_f64x2_zero(high), 0, 2);
}

// x·y + z as double has it, rounded to float. That is fma1 but where the sum in double is not exact
// and the second rounding hangs on what it lost: where its 29 last bits are those of a tie, or
// where the result, not 0, is at most 2^-126 and has fewer bits. (A result of 0 is exact or far
// from 2^-150: a product that is added to a multiple of 2^-149 and leaves less than half of it has
// no bits that a double would lose.) `tie` becomes 0 in such a lane, or `small` less than 2^24.
PHASOR_INLINE v128_t fused_but(v128_t x, v128_t y, v128_t z, v128_t& tie, v128_t& small) {
  const v128_t low = sum_of_low(x, y, z), up = sum_of_low(high(x), high(y), high(z)),
               sum = both(low, up), ends = wasm_i32x4_shuffle(low, up, 0, 2, 4, 6);
  tie = wasm_u32x4_min(
      tie, wasm_i32x4_shl(wasm_i32x4_add(ends, wasm_i32x4_const_splat(0x10000000)), 3));
  small = wasm_u32x4_min(small,
                         wasm_i32x4_add(wasm_i32x4_shl(sum, 1), wasm_i32x4_const_splat(-1)));
  return sum;
}

// fma1, two lanes at a time.
PHASOR_INLINE v128_t fma_odd(v128_t x, v128_t y, v128_t z) {
  const v128_t c = wasm_f64x2_promote_low_f32x4(z),
               p = wasm_f64x2_mul(wasm_f64x2_promote_low_f32x4(x), wasm_f64x2_promote_low_f32x4(y)),
               s = wasm_f64x2_add(p, c), t = wasm_f64x2_sub(s, p);
  const v128_t e =
      wasm_f64x2_add(wasm_f64x2_sub(p, wasm_f64x2_sub(s, t)), wasm_f64x2_sub(c, t));
  const v128_t inexact =
      wasm_u64x2_shr(wasm_f64x2_gt(wasm_f64x2_abs(e), wasm_f64x2_const_splat(0.0)), 63);
  const v128_t away = wasm_v128_and(wasm_u64x2_shr(wasm_v128_xor(e, s), 63), inexact);
  return wasm_v128_or(wasm_i64x2_sub(s, away), inexact);
}
PHASOR_INLINE bool in_doubt(v128_t tie, v128_t small) {
  return !wasm_i32x4_all_true(wasm_u32x4_min(tie, wasm_u32x4_shr(small, 24)));
}
__attribute__((noinline, cold)) v128_t fma_exactly(v128_t x, v128_t y, v128_t z) {
  v128_t tie = wasm_i32x4_const_splat(-1), small = tie;
  const v128_t sum = fused_but(x, y, z, tie, small);
  if (!in_doubt(tie, small)) return sum;
  return both(fma_odd(x, y, z), fma_odd(high(x), high(y), high(z)));
}

// z becomes x·y + z in all lanes of N registers, rounded once.
template <size_t N, class B>
PHASOR_INLINE void multiply_add(const B (&x)[N], const B (&y)[N], B (&z)[N]) {
  v128_t sum[N], tie = wasm_i32x4_const_splat(-1), small = tie;
  PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
    sum[i] = fused_but(x[i].data, y[i].data, z[i].data, tie, small);
  if (__builtin_expect(in_doubt(tie, small), 0))
    PHASOR_UNROLL for (size_t i = 0; i < N; ++i)
      sum[i] = fma_exactly(x[i].data, y[i].data, z[i].data);
  PHASOR_UNROLL for (size_t i = 0; i < N; ++i) z[i] = B(sum[i]);
}

#endif

}  // namespace wasm
}  // namespace
}  // namespace phasor
