// NEON with SDOT (ARMv8.2). Flags: -march=armv8.2-a+dotprod
// Only what multiplies integers is compiled here; the rest of the level is NEON's (level_neon.cpp has the table).
#include "body.hpp"
#include "int8_neon.hpp"
#include "products.hpp"

namespace phasor {
namespace {

struct Level : LevelNeon {
  using Int8 = Int8Dotprod;
  using Int4 = Int4Dotprod;
  // 32 registers, 4 a panel: an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
};

using V = VNeon;
constexpr int kRows = 4;

// Many rows: tiles of four rows by half a panel. A weight is read once for four rows, and an integer and a float accumulator for each of the 32 sums
// are 16 of the 32 registers. SMMLA (i8mm) in the same tile takes 137 instructions a group, this 129: its operands have to be zipped together and its results apart.
struct HalfQ8 {
  static constexpr size_t kGroupBytes = kLanes * kGroup;
  static PHASOR_INLINE int32_t start(int32_t) { return 0; }
  // s (rows, 2): outputs 0 … 3 and 4 … 7 of the half panel that w points into.
  static PHASOR_INLINE void products(int32x4_t (&s)[kRows][2], const int8_t* x, size_t stride, const unsigned char* w) {
    times<2>(PHASOR_EACH(j) {
      int8x16_t xj[kRows];
      times<kRows>(PHASOR_EACH(r) { xj[r.value] = vld1q_s8(x + r.value * stride + j.value * 16); });
      times<4>(PHASOR_EACH(k) {
        const int8x16x2_t wk = halves(w + (j.value * 4 + k.value) * 64);
        times<kRows>(PHASOR_EACH(r) {
          times<2>(PHASOR_EACH(i) { s[r.value][i.value] = vdotq_laneq_s32(s[r.value][i.value], wk.val[i.value], xj[r.value], k.value); });
        });
      });
    });
  }
  static PHASOR_INLINE int8x16x2_t halves(const unsigned char* w) { return {{vreinterpretq_s8_u8(vld1q_u8(w)), vreinterpretq_s8_u8(vld1q_u8(w + 16))}}; }
};
struct HalfQ4 {
  static constexpr size_t kGroupBytes = kLanes * kGroup / 2;
  static PHASOR_INLINE int32_t start(int32_t sum) { return -8 * sum; }
  static PHASOR_INLINE void products(int32x4_t (&s)[kRows][2], const int8_t* x, size_t stride, const unsigned char* w) {
    int8x16_t low[kRows], high[kRows];
    times<kRows>(PHASOR_EACH(r) {
      low[r.value] = vld1q_s8(x + r.value * stride);
      high[r.value] = vld1q_s8(x + r.value * stride + 16);
    });
    times<4>(PHASOR_EACH(k) {
      times<2>(PHASOR_EACH(i) {
        const uint8x16_t n = vld1q_u8(w + k.value * 64 + i.value * 16);
        const int8x16_t a = vreinterpretq_s8_u8(vandq_u8(n, vdupq_n_u8(15))), b = vreinterpretq_s8_u8(vshrq_n_u8(n, 4));
        times<kRows>(PHASOR_EACH(r) {
          s[r.value][i.value] = vdotq_laneq_s32(s[r.value][i.value], a, low[r.value], k.value);
          s[r.value][i.value] = vdotq_laneq_s32(s[r.value][i.value], b, high[r.value], k.value);
        });
      });
    });
  }
};

// The chains of rows r … r + 3 and outputs 8·half … 8·half + 7 of a panel, into acc.
template <class Q, int half>
PHASOR_INLINE void half_panel(V (&acc)[kRows][1], const int8_t* xq, const float* xs, const int32_t* xsum, const unsigned char* w, size_t plane, size_t groups) {
  float32x4_t y[kRows][2];
  times<kRows>(PHASOR_EACH(r) { y[r.value][0] = y[r.value][1] = vdupq_n_f32(0); });
  for (size_t g = 0; g < groups; ++g) {
    int32x4_t s[kRows][2];
    times<kRows>(PHASOR_EACH(r) { s[r.value][0] = s[r.value][1] = vdupq_n_s32(Q::start(xsum[r.value * groups + g])); });
    Q::products(s, xq + g * kGroup, groups * kGroup, w + plane + g * Q::kGroupBytes + half * 32);
    const float16x8_t scales = vreinterpretq_f16_u8(vld1q_u8(w + g * (kLanes * 2) + half * 16));
    const float32x4_t sw[2] = {vcvt_f32_f16(vget_low_f16(scales)), vcvt_high_f32_f16(scales)};
    times<kRows>(PHASOR_EACH(r) {
      times<2>(PHASOR_EACH(i) {
        y[r.value][i.value] = vfmaq_f32(y[r.value][i.value], vcvtq_f32_s32(s[r.value][i.value]), vmulq_n_f32(sw[i.value], xs[r.value * groups + g]));
      });
    });
  }
  times<kRows>(PHASOR_EACH(r) { times<2>(PHASOR_EACH(i) { acc[r.value][0].v[2 * half + i.value] = V::B(y[r.value][i.value]); }); });
}

template <class Q>
PHASOR_APART void many_rows(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const unsigned char* w, const float* bias,
                            size_t bias_n, size_t panels, size_t groups) {
  const size_t plane = plane_bytes(groups), bytes = plane + groups * Q::kGroupBytes;
  for (size_t p = 0; p < panels; ++p, w += bytes)
    for (size_t r = 0; r < rows; r += kRows) {
      V acc[kRows][1];
      half_panel<Q, 0>(acc, xq + r * groups * kGroup, xs + r * groups, xsum + r * groups, w, plane, groups);
      half_panel<Q, 1>(acc, xq + r * groups * kGroup, xs + r * groups, xsum + r * groups, w, plane, groups);
      Body<Level>::store_tile<kRows, 1>(y + r * ldy, ldy, acc, bias, bias_n, p * kLanes);
    }
}

// Whole tiles, and the rows that are left.
template <class Q, class Few>
PHASOR_INLINE void linear(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const void* w, const float* bias, size_t bias_n,
                          size_t panels, size_t groups, Few few) {
  const size_t tiled = rows / kRows * kRows;
  if (tiled != 0) many_rows<Q>(y, ldy, xq, xs, xsum, tiled, static_cast<const unsigned char*>(w), bias, bias_n, panels, groups);
  if (tiled != rows) few(y + tiled * ldy, ldy, xq + tiled * groups * kGroup, xs + tiled * groups, xsum + tiled * groups, rows - tiled, w, bias, bias_n, panels, groups);
}

// Tiles where there are four rows, what NEON's body does with the rows that are left.
struct Tiled : Body<Level> {
  static void linear_q8(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const void* w, const float* bias, size_t bias_n,
                        size_t panels, size_t groups) {
    linear<HalfQ8>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups, Body<Level>::linear_q8);
  }
  static void linear_q4(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const void* w, const float* bias, size_t bias_n,
                        size_t panels, size_t groups) {
    linear<HalfQ4>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups, Body<Level>::linear_q4);
  }
};

}  // namespace

PHASOR_PRODUCTS(Dotprod, Tiled)

}  // namespace phasor
