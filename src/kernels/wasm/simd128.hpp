// The kernels of WebAssembly's SIMD of 128 bits, of the levels simd128 and relaxed: they differ in
// their multiply-add alone (batch.hpp).
#pragma once
#include "../body.hpp"
#include "int8_wasm.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = ArchWasm;
  using Int8 = Int8Wasm;
  using Int4 = Int4Wasm;
  using Int4m = Int4Wasm;
  template <Type T>
  using Fine = FineWasm<T>;
  // An engine has 16 registers on x86, 32 on ARM; 4 a panel.
  struct Tiles {
    static constexpr int kOneRow = 1, kRows = 2, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 1, kPanelsInt8 = 1;
    static constexpr int kRowsWhole = 1, kPanelsWhole = 1;
    static constexpr bool kStream = false;
  };
  static PHASOR_INLINE VWasm half16(const unsigned char* p) { return half16_wasm(p); }
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_wasm(to, codes, table);
  }
  static PHASOR_INLINE VWasm byte16(const unsigned char* p) { return byte16_wasm(p); }
};

// Many rows: tiles of two rows by half a panel. Their sums are eight registers, so that all is in
// registers on x86 too, where a whole panel would not be.
constexpr size_t kRows = 2;

struct HalfQ8 {
  static constexpr size_t kGroupBytes = kLanes * kGroup;
  struct Sums {
    v128_t v[kRows][4];  // of a row: as Int8Wasm::Sum
  };
  static PHASOR_INLINE int32_t start(int32_t) { return 0; }
  // Products of n steps of k; rows of x lie `stride` bytes apart, w is at the half panel's first
  // output.
  static PHASOR_INLINE void products(Sums& s, const int8_t* x, size_t stride,
                                     const unsigned char* w, size_t n) {
    for (size_t k = 0; k < n; k += 4, x += 4, w += 64) {
      v128_t wk[4];
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) wk[i] = wasm_i16x8_load8x8(w + 8 * i);
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
        const v128_t xk = Int8Wasm::values(x + r * stride);
        PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[r][i] = added(s.v[r][i], wk[i], xk);
      }
    }
  }
  static PHASOR_INLINE v128_t sum(const Sums& s, size_t r, size_t i) {
    return Int8Wasm::joined(s.v[r][2 * i], s.v[r][2 * i + 1]);
  }
};
struct HalfQ4 {
  static constexpr size_t kGroupBytes = kLanes * kGroup / 2;
  struct Sums {
    v128_t v[kRows][2];  // of a row: as Int4Wasm::Sum
  };
  static PHASOR_INLINE int32_t start(int32_t sum) { return -8 * sum; }
  static PHASOR_INLINE void products(Sums& s, const int8_t* x, size_t stride,
                                     const unsigned char* w, size_t n) {
    for (size_t k = 0; k < n / 2; k += 4, x += 4, w += 64) {
      Int4Wasm::Both xk[kRows];
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
        xk[r] = Int4Wasm::both(x + r * stride, kGroup / 2);
      PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
        const Int4Wasm::Quarter wk = Int4Wasm::quarter<0, 4, 15>(w + 16 * i);
        PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) Int4Wasm::dot(s.v[r][i], wk, xk[r]);
      }
    }
  }
  static PHASOR_INLINE v128_t sum(const Sums& s, size_t r, size_t i) { return s.v[r][i]; }
};
struct HalfWhole : HalfQ8 {};

template <class H>
PHASOR_INLINE typename H::Sums started(const int32_t (&first)[kRows]) {
  typename H::Sums s;
  PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
    for (v128_t& v : s.v[r]) v = wasm_i32x4_splat(first[r]);
  return s;
}

// The outputs of two rows and half a panel, whose scales and values lie at `scales` and w.
using Half = VWasm::B[kRows * 2];
template <class H>
PHASOR_INLINE void half_panel(Half& acc, const Int8Rows& in, const unsigned char* scales,
                              const unsigned char* w) {
  const size_t groups = in.groups, stride = groups * kGroup;
  if constexpr (std::is_same<H, HalfWhole>::value) {
    typename H::Sums s = started<H>({0, 0});
    H::products(s, in.q, stride, w, stride);
    PHASOR_UNROLL for (size_t i = 0; i < kRows * 2; ++i)
      acc[i] = VWasm::B(wasm_f32x4_mul(
          wasm_f32x4_convert_i32x4(H::sum(s, i / 2, i % 2)),
          wasm_f32x4_mul(wasm_f32x4_splat(in.scale[i / 2]), wasm_v128_load(scales + i % 2 * 16))));
    return;
  }
  PHASOR_UNROLL for (size_t i = 0; i < kRows * 2; ++i) acc[i] = VWasm::B(0.0f);
  for (size_t g = 0; g < groups; ++g, w += H::kGroupBytes, scales += kLanes * 2) {
    typename H::Sums s = started<H>({H::start(in.sum[g]), H::start(in.sum[groups + g])});
    H::products(s, in.q + g * kGroup, stride, w, kGroup);
    const v128_t sw[2] = {half4_wasm(scales), half4_wasm(scales + 8)};
    VWasm::B sum[kRows * 2], scale[kRows * 2];
    PHASOR_UNROLL for (size_t i = 0; i < kRows * 2; ++i) {
      sum[i] = VWasm::B(wasm_f32x4_convert_i32x4(H::sum(s, i / 2, i % 2)));
      scale[i] = VWasm::B(
          wasm_f32x4_mul(wasm_f32x4_splat(in.scale[i / 2 * groups + g]), sw[i % 2]));
    }
    wasm::multiply_add(sum, scale, acc);
  }
}

template <class H>
PHASOR_APART void many_rows(Outputs out, Int8Rows in, size_t rows, const unsigned char* w,
                            size_t panels) {
  constexpr bool kOneScale = std::is_same<H, HalfWhole>::value;
  const size_t plane = kOneScale ? kLanes * sizeof(float) : panel_plane_bytes(Type::q4, in.groups),
               bytes = plane + in.groups * H::kGroupBytes, scales = kOneScale ? 32 : 16;
  for (size_t p = 0; p < panels; ++p, w += bytes)
    for (size_t r = 0; r < rows; r += kRows) {
      VWasm acc[kRows][1];
      PHASOR_UNROLL for (size_t half = 0; half < 2; ++half) {
        Half y;
        half_panel<H>(y, in.from(r), w + half * scales, w + plane + half * 32);
        PHASOR_UNROLL for (size_t i = 0; i < kRows * 2; ++i)
          acc[i / 2][0].v[2 * half + i % 2] = y[i];
      }
      store_tile(out.from(r), acc, p * kLanes);
    }
}

// Tiles where there are two rows of q8, q4 and q8r, and the last one alone; other types row by row.
struct Simd128 : Body<Level> {
  // y = f(y): a formula once, for whole vectors and the last one; its multiply-adds are long, and
  // the module is loaded from a network.
  template <class F>
  static void each_of(float* y, size_t n) {
    for (size_t i = 0; i < n; i += kLanes) F::of(VWasm::load(y + i, n - i)).store(y + i, n - i);
  }
  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    using Grouped = std::conditional_t<std::is_same<Q, Q8>::value, HalfQ8, HalfQ4>;
    using Tile = std::conditional_t<Q::kOneScale, HalfWhole, Grouped>;
    const Outputs out = {y, ldy, bias, bias_n};
    const Int8Rows in = rows_of<Q>(xq, xs, xsum, groups);
    size_t tiled = 0;
    if constexpr (std::is_same<Q, Q8>::value || std::is_same<Q, Q4>::value ||
                  std::is_same<Q, Q8r>::value) {
      tiled = rows / kRows * kRows;
      if (tiled != 0) many_rows<Tile>(out, in, tiled, static_cast<const unsigned char*>(w), panels);
    }
    if (tiled != rows)
      linear_quantized<Q>(out.from(tiled), in.from(tiled), rows - tiled, w, panels);
  }
};

}  // namespace
}  // namespace phasor
