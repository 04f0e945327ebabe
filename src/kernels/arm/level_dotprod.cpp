// NEON with SDOT (ARMv8.2). Flags: -march=armv8.2-a+dotprod
// Only what multiplies integers is compiled here; the rest of the level is NEON's (level_neon.cpp
// has the table).
#include "../body.hpp"
#include "../products.hpp"
#include "int8_neon.hpp"

namespace phasor {
namespace {

struct Level : LevelNeon {
  using Int8 = Int8Dotprod;
  using Int4 = Int4Dotprod;
  using Int4m = Int4Dotprod;
  template <Type T>
  using Fine = FineDotprod<T>;
  // 32 registers, 4 a panel: an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr int kRowsWhole = 2, kPanelsWhole = 1;
    static constexpr bool kStream = false;
  };
};

using V = VNeon;
constexpr size_t kRows = 4;

// Many rows: tiles of four rows by half a panel. A weight is read once for four rows, and an
// integer and a float accumulator for each of the 32 sums are 16 of the 32 registers. SMMLA (i8mm)
// in the same tile takes 137 instructions a group, this 129: its operands have to be zipped
// together and its results apart.
struct HalfQ8 {
  static constexpr bool kMinima = false;
  static constexpr size_t kGroupBytes = kLanes * kGroup;
  static PHASOR_INLINE int32_t start(int32_t) { return 0; }
  // Step K of the four that x has: outputs 0 … 3 and 4 … 7 of the half panel that w points into.
  template <int K>
  static PHASOR_INLINE void step(int32x4_t (&s)[kRows][2], const int8x16_t (&x)[kRows],
                                 const unsigned char* w) {
    int8x16_t weights[2];
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      weights[i] = vreinterpretq_s8_u8(vld1q_u8(w + K * 64 + i * 16));
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
      PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
        s[r][i] = vdotq_laneq_s32(s[r][i], weights[i], x[r], K);
  }
  // Rows of x lie `stride` bytes apart.
  static PHASOR_INLINE void products(int32x4_t (&s)[kRows][2], const int8_t* x, size_t stride,
                                     const unsigned char* w) {
    PHASOR_UNROLL for (size_t j = 0; j < 2; ++j) {
      int8x16_t xj[kRows];
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) xj[r] = vld1q_s8(x + r * stride + j * 16);
      step<0>(s, xj, w + j * 256);
      step<1>(s, xj, w + j * 256);
      step<2>(s, xj, w + j * 256);
      step<3>(s, xj, w + j * 256);
    }
  }
};
// Codes of four bits, or of five, whose upper bits are behind the nibbles (CodeStep).
template <Type T>
struct HalfCodes {
  static constexpr bool kMinima = minimum_type(T);
  static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
  static PHASOR_INLINE int32_t start(int32_t sum) {
    return -static_cast<int32_t>(code_less(T)) * sum;
  }
  // With the upper bit of step S.
  template <size_t S>
  static PHASOR_INLINE uint8x16_t whole(uint8x16_t low, const unsigned char* w) {
    if constexpr (value_bits(T) == 5) {
      const uint8x16_t high = moved<S>(vld1q_u8(w + CodeStep<T, S>::kHighAt));
      low = vandq_u8(vsliq_n_u8(low, high, 4), vdupq_n_u8(31));
    }
    return low;
  }
  template <int K>
  static PHASOR_INLINE void step(int32x4_t (&s)[kRows][2], const int8x16_t (&low)[kRows],
                                 const int8x16_t (&high)[kRows], const unsigned char* w) {
    uint8x16_t both[2];
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) both[i] = vld1q_u8(w + K * 64 + i * 16);
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const unsigned char* const at = w + i * 16;
      const int8x16_t a = vreinterpretq_s8_u8(
                          whole<K>(vandq_u8(both[i], vdupq_n_u8(15)), at)),
                      b = vreinterpretq_s8_u8(whole<K + 4>(vshrq_n_u8(both[i], 4), at));
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
        s[r][i] = vdotq_laneq_s32(s[r][i], a, low[r], K);
        s[r][i] = vdotq_laneq_s32(s[r][i], b, high[r], K);
      }
    }
  }
  static PHASOR_INLINE void products(int32x4_t (&s)[kRows][2], const int8_t* x, size_t stride,
                                     const unsigned char* w) {
    int8x16_t low[kRows], high[kRows];
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
      low[r] = vld1q_s8(x + r * stride);
      high[r] = vld1q_s8(x + r * stride + 16);
    }
    step<0>(s, low, high, w);
    step<1>(s, low, high, w);
    step<2>(s, low, high, w);
    step<3>(s, low, high, w);
  }
};

// The same tile of all of K, its sums scaled once: four rows by a whole panel, 16 integer
// accumulators and none in float.
struct Whole {
  static constexpr size_t kGroupBytes = kLanes * kGroup;
  template <int K>
  static PHASOR_INLINE void step(int32x4_t (&s)[kRows][4], const int8x16_t (&x)[kRows],
                                 const unsigned char* w) {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const int8x16_t weights = vreinterpretq_s8_u8(vld1q_u8(w + K * 64 + i * 16));
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
        s[r][i] = vdotq_laneq_s32(s[r][i], weights, x[r], K);
    }
  }
};
PHASOR_INLINE void whole_panel(V (&acc)[kRows][1], const Int8Rows& in, const unsigned char* w) {
  const size_t stride = in.groups * kGroup;
  int32x4_t s[kRows][4];
  PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s[r][i] = vdupq_n_s32(0);
  const unsigned char* values = w + kLanes * sizeof(float);
  for (size_t k = 0; k < stride; k += 16, values += 256) {
    int8x16_t x[kRows];
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) x[r] = vld1q_s8(in.q + r * stride + k);
    Whole::step<0>(s, x, values);
    Whole::step<1>(s, x, values);
    Whole::step<2>(s, x, values);
    Whole::step<3>(s, x, values);
  }
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
    const float32x4_t sw = vld1q_f32(reinterpret_cast<const float*>(w) + i * 4);
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
      acc[r][0].v[i] = V::B(vmulq_f32(vcvtq_f32_s32(s[r][i]), vmulq_n_f32(sw, in.scale[r])));
  }
}

// The chains of four rows and of outputs 8·half … 8·half + 7 of a panel, into acc. Type: what has
// the scales.
template <class Q, class Type>
PHASOR_INLINE void half_panel(V (&acc)[kRows][1], size_t half, const Int8Rows& in,
                              const unsigned char* w, size_t plane) {
  const size_t groups = in.groups;
  typename Type::Record super;
  float32x4_t y[kRows][2];
  PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) y[r][0] = y[r][1] = vdupq_n_f32(0);
  for (size_t g = 0; g < groups; ++g) {
    int32x4_t s[kRows][2];
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
      s[r][0] = s[r][1] = vdupq_n_s32(Q::start(in.sum[r * groups + g]));
    Q::products(s, in.q + g * kGroup, groups * kGroup, w + plane + g * Q::kGroupBytes + half * 32);
    V scales[1 + Q::kMinima];
    if constexpr (Type::kSupers) {
      if (g % kSuper == 0) super_of(super, w, g);
      PHASOR_UNROLL for (size_t i = 0; i < kOf<Type>; ++i) scales[i] = super.at(g % kSuper, i);
    } else {
      Type::scales(scales, w, g);
    }
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
      const float sx = in.scale[r * groups + g];
      PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
        y[r][i] = vfmaq_f32(y[r][i], vcvtq_f32_s32(s[r][i]),
                            vmulq_n_f32(scales[0].v[2 * half + i], sx));
      if constexpr (Q::kMinima) {
        const float all = sx * static_cast<float>(in.sum[r * groups + g]);
        PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
          y[r][i] = vfmaq_n_f32(y[r][i], scales[1].v[2 * half + i], all);
      }
    }
  }
  PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r)
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) acc[r][0].v[2 * half + i] = V::B(y[r][i]);
}

// Outputs and rows by value: what is stored could be theirs otherwise.
template <class Q, class Type>
PHASOR_APART void many_rows(Outputs out, Int8Rows in, size_t rows, const unsigned char* w,
                            size_t panels) {
  constexpr bool kOneScale = std::is_same<Q, Whole>::value;
  const size_t plane = Type::plane(in.groups), bytes = plane + in.groups * Q::kGroupBytes;
  for (size_t p = 0; p < panels; ++p, w += bytes)
    for (size_t r = 0; r < rows; r += kRows) {
      const Int8Rows tile = in.from(r);
      V acc[kRows][1];
      if constexpr (kOneScale) {
        whole_panel(acc, tile, w);
      } else {
        half_panel<Q, Type>(acc, 0, tile, w, plane);
        half_panel<Q, Type>(acc, 1, tile, w, plane);
      }
      store_tile(out.from(r), acc, p * kLanes);
    }
}

// Tiles where there are four rows, what NEON's body does with the rows that are left.
struct Tiled : Body<Level> {
  template <class Q>
  static constexpr bool kTiled = Q::kMinima || std::is_same<Q, Q8>::value ||
                                 std::is_same<Q, Q4>::value || std::is_same<Q, Q8r>::value;
  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    using Nibbles = std::conditional_t<Q::kMinima, HalfCodes<Type::q4m>, HalfCodes<Type::q4>>;
    using Half = std::conditional_t<Q::kGroupBytes == HalfCodes<Type::q5m>::kGroupBytes,
                                    HalfCodes<Type::q5m>, Nibbles>;
    using Grouped = std::conditional_t<std::is_same<Q, Q8>::value, HalfQ8, Half>;
    using Tile = std::conditional_t<Q::kOneScale, Whole, Grouped>;
    const Outputs out = {y, ldy, bias, bias_n};
    const Int8Rows in = rows_of<Q>(xq, xs, xsum, groups);
    size_t tiled = 0;
    if constexpr (kTiled<Q>) {
      tiled = rows / kRows * kRows;
      const unsigned char* bytes = static_cast<const unsigned char*>(w);
      if (tiled != 0) many_rows<Tile, Q>(out, in, tiled, bytes, panels);
    }
    if (tiled != rows)
      linear_quantized<Q>(out.from(tiled), in.from(tiled), rows - tiled, w, panels);
  }
};

}  // namespace

PHASOR_PRODUCTS(Dotprod, Tiled)

}  // namespace phasor
