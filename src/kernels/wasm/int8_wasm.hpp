// Exact dot products of 16 outputs by 4 activations for WebAssembly: both sides widened to 16 bits,
// multiplied and added in pairs (i32x4.dot_i16x8_s; rule 1.4). Of int8 the sums of c = 0, 1 and of
// c = 2, 3 stay apart until the end: register 2i + h holds outputs 4i + 2h and 4i + 2h + 1. Nibbles
// are taken apart into even and odd c, whose pairs are of one output: register i holds 4i … 4i + 3.
#pragma once
#include "../simd.hpp"

namespace phasor {
namespace {

using ArchWasm = wasm::simd128;
using VWasm = v16<ArchWasm>;

// The bytes of c = 0, 2 and of c = 1, 3, for products with nibbles that lie likewise.
struct EvenOdd {
  v128_t even, odd;
};
PHASOR_INLINE EvenOdd taken_apart(v128_t bytes) {
  return {wasm_i16x8_shr(wasm_i16x8_shl(bytes, 8), 8), wasm_i16x8_shr(bytes, 8)};
}

PHASOR_INLINE v128_t added(v128_t sum, v128_t w, v128_t x) {
  return wasm_i32x4_add(sum, wasm_i32x4_dot_i16x8(w, x));
}

struct Int8Wasm {
  static constexpr int kSteps = 1;
  static constexpr size_t kChains = 1;
  struct Sum {
    v128_t v[8];
  };
  struct Weights {
    v128_t v[8];
  };
  using Values = v128_t;
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<ArchWasm>& a,
                                      const Int16<ArchWasm>& b) {
    v128_t total = wasm_i32x4_const_splat(0);
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const Int16<ArchWasm>& t = i == 0 ? a : b;
      const v128_t bytes = wasm_i8x16_max(
          wasm_i8x16_narrow_i16x8(wasm_i16x8_narrow_i32x4(t.v[0].data, t.v[1].data),
                                  wasm_i16x8_narrow_i32x4(t.v[2].data, t.v[3].data)),
          wasm_i8x16_const_splat(-127));
      wasm_v128_store(q + 16 * i, bytes);
      total = added(total, wasm_i16x8_extadd_pairwise_i8x16(bytes), wasm_i16x8_const_splat(1));
    }
    total = wasm_i32x4_add(total, wasm::high(total));
    return wasm_i32x4_extract_lane(total, 0) + wasm_i32x4_extract_lane(total, 1);
  }
  static PHASOR_INLINE Sum start(int32_t) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = wasm_i32x4_const_splat(0);
    return s;
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) w.v[i] = wasm_i16x8_load8x8(p + 8 * i);
    return w;
  }
  static PHASOR_INLINE Values values(const int8_t* p) {
    return wasm_i16x8_extend_low_i8x16(wasm_v128_load32_splat(p));
  }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = added(s.v[i], w.v[i], x);
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, Values x) { dot(s, w, x); }
  // the sums of four outputs
  static PHASOR_INLINE v128_t joined(v128_t a, v128_t b) {
    return wasm_i32x4_add(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6),
                          wasm_i32x4_shuffle(a, b, 1, 3, 5, 7));
  }
  static PHASOR_INLINE VWasm to_float(const Sum& s) {
    VWasm r;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      r.v[i] = VWasm::B(wasm_f32x4_convert_i32x4(joined(s.v[2 * i], s.v[2 * i + 1])));
    return r;
  }
};

struct Int4Wasm {
  struct Sum {
    v128_t v[4];
  };
  struct Quarter {  // of four outputs
    EvenOdd low, high;
  };
  struct Nibbles {
    Quarter v[4];
  };
  struct Both {
    EvenOdd low, high;
  };
  static PHASOR_INLINE Sum start(int32_t sum) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[i] = wasm_i32x4_splat(sum);
    return s;
  }
  // The bits of Mask of each lane moved right by At.
  template <int At, int Mask>
  static PHASOR_INLINE v128_t field(v128_t n) {
    if constexpr (At < 0) n = wasm_i16x8_shl(n, -At);
    if constexpr (At > 0) n = wasm_u16x8_shr(n, At);
    if constexpr (At < 0 || 0xffff >> (At < 0 ? 0 : At) != Mask)
      n = wasm_v128_and(n, wasm_i16x8_const_splat(Mask));
    return n;
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Quarter quarter(const unsigned char* p) {
    const v128_t n = wasm_v128_load(p);
    return {{field<First, Mask>(n), field<First + 8, Mask>(n)},
            {field<Second, Mask>(n), field<Second + 8, Mask>(n)}};
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    Nibbles w;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      w.v[i] = quarter<First, Second, Mask>(p + 16 * i);
    return w;
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return {taken_apart(wasm_v128_load32_splat(p)),
            taken_apart(wasm_v128_load32_splat(p + apart))};
  }
  static PHASOR_INLINE void dot(v128_t& s, const Quarter& w, const Both& x) {
    s = added(added(s, w.low.even, x.low.even), w.low.odd, x.low.odd);
    s = added(added(s, w.high.even, x.high.even), w.high.odd, x.high.odd);
  }
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) dot(s.v[i], w.v[i], x);
  }
  static PHASOR_INLINE VWasm to_float(const Sum& s) {
    VWasm r;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      r.v[i] = VWasm::B(wasm_f32x4_convert_i32x4(s.v[i]));
    return r;
  }
};

// Codes in two fields (CodeStep), as what they stand for.
template <Type T>
struct FineWasm : Int8Wasm {
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t*) { to[0] = to[1] = 0; }
  template <size_t S>
  static PHASOR_INLINE Weights codes(const unsigned char* group) {
    using Step = CodeStep<T, S>;
    constexpr int kLowMask = Step::kLowMask * 0x0101, kHighMask = Step::kHighMask * 0x0101;
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const v128_t n = wasm_i8x16_sub(
          wasm_v128_or(Int4Wasm::field<Step::kLowMove, kLowMask>(
                           wasm_v128_load(group + Step::kLowAt + 16 * i)),
                       Int4Wasm::field<Step::kHighMove, kHighMask>(
                           wasm_v128_load(group + Step::kHighAt + 16 * i))),
          wasm_i8x16_const_splat(code_less(T)));
      w.v[2 * i] = wasm_i16x8_extend_low_i8x16(n);
      w.v[2 * i + 1] = wasm_i16x8_extend_high_i8x16(n);
    }
    return w;
  }
};

PHASOR_INLINE void look_up_wasm(unsigned char* to, const unsigned char* codes,
                                const unsigned char* table) {
  const v128_t of = wasm_v128_load(table);
  for (size_t i = 0; i < 256; i += 16) {
    const v128_t n = wasm_v128_load(codes + i);
    wasm_v128_store(to + i,
                    wasm_i8x16_swizzle(of, wasm_v128_and(n, wasm_i8x16_const_splat(15))));
    wasm_v128_store(to + 256 + i, wasm_i8x16_swizzle(of, wasm_u8x16_shr(n, 4)));
  }
}

PHASOR_INLINE VWasm byte16_wasm(const unsigned char* p) {
  VWasm r;
  PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
    const v128_t eight = wasm_i16x8_load8x8(p + 8 * i);
    r.v[2 * i] = VWasm::B(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(eight)));
    r.v[2 * i + 1] = VWasm::B(wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(eight)));
  }
  return r;
}

// widen_f16 on vectors: exponent and mantissa moved into place and scaled by 2^112, which also puts
// subnormals right; infinities and NaNs get the largest exponent. (clang 14 makes a comparison of
// the halves one of 16 bits, and takes it apart lane by lane.)
PHASOR_INLINE v128_t half4_wasm(const unsigned char* p) {
  const v128_t h = wasm_u32x4_load16x4(p),
               body = wasm_v128_and(h, wasm_i32x4_const_splat(0x7fff)),
               sign = wasm_i32x4_shl(wasm_v128_xor(h, body), 16),
               x = wasm_f32x4_mul(wasm_i32x4_shl(body, 13), wasm_f32x4_const_splat(0x1p112f)),
               special = wasm_v128_and(wasm_f32x4_gt(x, wasm_f32x4_const_splat(65504.0f)),
                                       wasm_i32x4_const_splat(0x7f800000));
  return wasm_v128_or(wasm_v128_or(x, special), sign);
}
PHASOR_INLINE VWasm half16_wasm(const unsigned char* p) {
  VWasm r;
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) r.v[i] = VWasm::B(half4_wasm(p + 8 * i));
  return r;
}

}  // namespace
}  // namespace phasor
