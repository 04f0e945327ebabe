// The scalar level's products: weights of each type, their linear products with inputs in floats
// and in whole numbers, and how inputs become these. The first half of level_scalar.cpp.
#pragma once
#include "functions.hpp"
#include "gather.h"

namespace phasor {
namespace {

struct ScalarProducts {
  // Types of weights, and what of a page is in them: a type, the weight (output i, k) of a panel,
  // the value (slot, d) of a page whose positions have ldv values.
  struct F32 {
    static constexpr Type kType = Type::f32;
    static float weight(const unsigned char* w, size_t i, size_t k) {
      float v;
      __builtin_memcpy(&v, w + panel_index_f32(i, k) * 4, 4);
      return v;
    }
    static float value(const unsigned char* page, size_t slot, size_t d, size_t ldv) {
      float v;
      __builtin_memcpy(&v, page + (slot * ldv + d) * 4, 4);
      return v;
    }
  };
  static float half_at(const unsigned char* p, size_t i) {
    uint16_t h;
    __builtin_memcpy(&h, p + i * 2, 2);
    return widen_f16(h);
  }
  struct F16 {
    static constexpr Type kType = Type::f16;
    static float weight(const unsigned char* w, size_t i, size_t k) {
      return half_at(w, panel_index_f32(i, k));
    }
    static float value(const unsigned char* page, size_t slot, size_t d, size_t ldv) {
      return half_at(page, slot * ldv + d);
    }
  };
  struct Bf16 {
    static constexpr Type kType = Type::bf16;
    static float weight(const unsigned char* w, size_t i, size_t k) {
      uint16_t h;
      __builtin_memcpy(&h, w + panel_index_bf16(i, k) * 2, 2);
      return widen_bf16(h);
    }
  };
  // Keys and values of a cache in q8: float(q)·scale.
  struct CacheQ8 {
    static float at(const unsigned char* p, size_t scale, size_t value) {
      float s;
      __builtin_memcpy(&s, p + scale, 4);
      return static_cast<float>(static_cast<int8_t>(p[value])) * s;
    }
    static float weight(const unsigned char* p, size_t i, size_t k) {
      return at(p, cache_scale_q8(i, k), cache_key_q8(i, k));
    }
    static float value(const unsigned char* p, size_t slot, size_t d, size_t) {
      return at(p, cache_scale_q8(slot, d), cache_value_q8(slot, d));
    }
  };
  // Value (output i, k of a group) of the group's bytes g in a panel, and what it lies above the
  // one that it stands for: q8, and of codes step·n. q8r has q8's values.
  struct Q8 {
    static constexpr Type kType = Type::q8;
    static constexpr size_t kGroupBytes = kLanes * kGroup;
    static constexpr int32_t kOffset = 0;
    static constexpr Type kMinima = Type::f32;  // none
    static int32_t value(const unsigned char*, const unsigned char* g, size_t i, size_t k) {
      return static_cast<int8_t>(g[panel_index_q8(i, k)]);
    }
  };
  template <Type T>
  struct Codes {
    static constexpr Type kType = T;
    static constexpr unsigned kBits = value_bits(T);
    static constexpr size_t kGroupBytes = kLanes * code_bytes(kBits);
    static constexpr int32_t kOffset = static_cast<int32_t>(code_less(T));
    static constexpr Type kMinima = Type::f32;
    static int32_t value(const unsigned char* panel, const unsigned char* g, size_t i, size_t k) {
      const unsigned char* const group = g + k / kGroup * kGroupBytes;
      return code_value(T, panel, code_at(group, kBits, kLanes, i, k)) + kOffset;
    }
  };
  struct Q4 : Codes<Type::q4> {};
  struct Q4t : Codes<Type::q4t> {};
  struct Q2 : Codes<Type::q2> {};
  struct Q2w : Codes<Type::q2w> {};
  struct Q1 : Codes<Type::q1> {};

  // The groups have minima (grid_at).
  template <Type T>
  struct Minima : Codes<T> {
    static constexpr Type kMinima = T;
  };
  struct Q4m : Minima<Type::q4m> {};
  struct Q4k : Minima<Type::q4k> {};
  struct Q5m : Minima<Type::q5m> {};
  struct Q5k : Minima<Type::q5k> {};

  struct Q8r : Q8 {
    static constexpr Type kType = Type::q8r;
  };
  struct Q2r : Codes<Type::q2r> {};
  struct Q6 : Codes<Type::q6> {};
  struct Q3 : Codes<Type::q3> {};
  struct Q4x : Codes<Type::q4x> {};

  // Chains of one row and one panel: 16 outputs, k ascending.
  template <class W>
  static void chains(float* acc, const float* x, const void* w, size_t cols) {
    for (size_t i = 0; i < kLanes; ++i) acc[i] = 0.0f;
    for (size_t k = 0; k < cols; ++k)
      for (size_t i = 0; i < kLanes; ++i)
        acc[i] = fma1(x[k], W::weight(static_cast<const unsigned char*>(w), i, k), acc[i]);
  }

  static void store_with_bias(float* y, const float* acc, const float* bias, size_t bias_n,
                              size_t at) {
    for (size_t i = 0; i < kLanes; ++i)
      y[i] = bias != nullptr && at + i < bias_n ? acc[i] + bias[at + i] : acc[i];
  }

  template <class W>
  static void linear(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w,
                     const float* bias, size_t bias_n, size_t panels, size_t cols) {
    const size_t bytes = static_cast<size_t>(panel_bytes(W::kType, cols));
    float acc[kLanes];
    for (size_t p = 0; p < panels; ++p)
      for (size_t r = 0; r < rows; ++r) {
        chains<W>(acc, x + r * ldx, static_cast<const unsigned char*>(w) + p * bytes, cols);
        store_with_bias(y + r * ldy + p * kLanes, acc, bias, bias_n, p * kLanes);
      }
  }

  // t, which has kRound in it, as a whole number within ±kMost.
  template <size_t Planes>
  static PHASOR_INLINE int32_t whole_number(float t) {
    constexpr int32_t kMost = static_cast<int32_t>(IntInputs<Planes>::kMost);
    const int32_t v = static_cast<int32_t>(bits_of(t) - bits_of(kRound));
    return v < -kMost ? -kMost : v > kMost ? kMost : v;
  }
  // It to the planes at q, `apart` bytes apart, and to their sums: of two v = 255·hi + lo, hi the
  // nearest to v/255.
  template <size_t Planes>
  static PHASOR_INLINE void put(int8_t* q, size_t apart, int32_t (&sum)[Planes], int32_t v) {
    int32_t hi = v;
    if (Planes == 2) {
      hi = (v + (v < 0 ? -127 : 127)) / 255;
      q[apart] = static_cast<int8_t>(v - 255 * hi);
      sum[Planes - 1] += v - 255 * hi;
    }
    *q = static_cast<int8_t>(hi);
    sum[0] += hi;
  }
  template <size_t Planes>
  static PHASOR_INLINE void row_to_int(int8_t* q, float* scale, int32_t* sum, const float* x,
                                       size_t cols) {
    using In = IntInputs<Planes>;
    const size_t groups = (cols + kGroup - 1) / kGroup;
    for (size_t first = 0; first < cols; first += kGroup, ++sum) {
      const size_t n = cols - first < kGroup ? cols - first : kGroup;
      float amax = 0.0f;
      for (size_t i = 0; i < n; ++i) {
        const float a = abs(v1{x[first + i]}).x;
        amax = a > amax ? a : amax;
      }
      const bool zero = amax < In::kLeast;
      const float inv = zero ? 0.0f : In::kMost / amax;
      int32_t total[Planes] = {};
      for (size_t i = 0; i < kGroup; ++i, ++q) {
        const float t = (i < n && !zero ? x[first + i] * inv : 0.0f) + kRound;
        put<Planes>(q, groups * kGroup, total, whole_number<Planes>(t));
      }
      for (size_t p = 0; p < Planes; ++p) sum[p * groups] = total[p];
      *scale++ = zero ? 0.0f : amax * In::kPart;
    }
  }
  static void quantize_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    row_to_int<1>(q, scale, sum, x, cols);
  }
  static void quantize_row16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    row_to_int<2>(q, scale, sum, x, cols);
  }

  // 64 inputs from x on, or the n that there are, as they are rounded.
  static void load_whole(float* v, const float* x, size_t n, size_t block) {
    for (size_t i = 0; i < kRowStep; ++i) v[i] = i < n ? x[i] : 0.0f;
    for (size_t i = 0; block != 0 && i < n && i < kRowStep; i += block)
      rotate_block(v + i, block, rotation_scale(block));
  }
  static void quantize_rotated(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    float v[kRowStep];
    constexpr size_t kGroups = kRowStep / kGroup;
    for (size_t k = 0; k < cols; k += kRowStep, q += kRowStep, scale += kGroups, sum += kGroups) {
      const size_t n = cols - k < kRowStep ? cols - k : kRowStep;
      load_whole(v, x + k, n, block);
      row_to_int<1>(q, scale, sum, v, n);
    }
  }
  template <size_t Planes>
  static void whole_to_int(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                           size_t block) {
    using In = IntInputs<Planes>;
    float v[kRowStep], amax = 0.0f;
    for (size_t k = 0; k < cols; k += kRowStep) {
      load_whole(v, x + k, cols - k, block);
      for (const float value : v) {
        const float a = abs(v1{value}).x;
        amax = a > amax ? a : amax;
      }
    }
    const bool zero = amax < In::kLeast;
    const float inv = zero ? 0.0f : In::kMost / amax;
    const size_t padded = (cols + kRowStep - 1) / kRowStep * kRowStep;
    int32_t total[Planes] = {};
    for (size_t k = 0; k < cols; k += kRowStep) {
      load_whole(v, x + k, cols - k, block);
      for (const float value : v)
        put<Planes>(q++, padded, total, whole_number<Planes>((zero ? 0.0f : value * inv) + kRound));
    }
    for (size_t i = 0; i < Planes; ++i) sum[i] = total[i];
    *scale = zero ? 0.0f : amax * In::kPart;
  }
  static void quantize_whole(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                             size_t block) {
    whole_to_int<1>(q, scale, sum, x, cols, block);
  }
  static void quantize_whole16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    whole_to_int<2>(q, scale, sum, x, cols, block);
  }

  // Of one row and one panel: the sums over all groups, then one scale.
  template <class Q>
  static void whole_row(float* y, const int8_t* x, float sx, int32_t xsum,
                        const unsigned char* panel, size_t groups) {
    int32_t isum[kLanes];
    for (size_t i = 0; i < kLanes; ++i) isum[i] = -Q::kOffset * xsum;
    for (size_t k = 0; k < groups * kGroup; ++k)
      for (size_t i = 0; i < kLanes; ++i)
        isum[i] += x[k] * Q::value(panel, panel + kLanes * 4, i, k);
    for (size_t i = 0; i < kLanes; ++i)
      y[i] = static_cast<float>(isum[i]) * (sx * F32::weight(panel, i, 0));
  }

  // The chains of one row and one panel over all groups, of scales and minima.
  template <class Q>
  static void minimum_row(float* acc, const int8_t* x, const float* xs, const int32_t* xsum,
                          const unsigned char* panel, const unsigned char* values, size_t groups) {
    for (size_t g = 0; g < groups; ++g, x += kGroup, values += Q::kGroupBytes)
      for (size_t i = 0; i < kLanes; ++i) {
        int32_t isum = 0;
        for (size_t k = 0; k < kGroup; ++k) isum += x[k] * Q::value(panel, values, i, k);
        const Grid grid = grid_at(panel, Q::kMinima, Layout::panel16, groups, i, g);
        acc[i] = fma1(static_cast<float>(isum), xs[g] * grid.scale, acc[i]);
        acc[i] = fma1(xs[g] * static_cast<float>(xsum[g]), grid.least, acc[i]);
      }
  }

  // The chains of one row and one panel whose groups have two scales (1.27).
  template <class Q, size_t Planes>
  static void fine_row(float* acc, const int8_t* x, const float* xs, const unsigned char* panel,
                       const unsigned char* values, size_t groups) {
    for (size_t k = 0; k < groups * kGroup; k += kHalf)
      for (size_t i = 0; i < kLanes; ++i) {
        int32_t sum[2] = {};  // of either plane
        for (size_t j = k; j < k + kHalf; ++j) {
          const int32_t w = Q::value(panel, values, i, j) - Q::kOffset;
          for (size_t plane = 0; plane < Planes; ++plane)
            sum[plane] += x[plane * groups * kGroup + j] * w;
        }
        const float total = Planes == 2 ? joined(sum[0], sum[1]) : static_cast<float>(sum[0]),
                    scale = coded_scale(panel, Q::kType, Layout::panel16, groups, i, k / kHalf);
        acc[i] = fma1(total, xs[k / kGroup] * scale, acc[i]);
      }
  }

  template <class Q>
  static float scale_of(const unsigned char* panel, size_t groups, size_t i, size_t g) {
    return coded_type(Q::kType) ? coded_scale(panel, Q::kType, Layout::panel16, groups, i, g)
                                : half_at(panel + panel_scale(Q::kType, i, g), 0);
  }

  template <class Q>
  static void linear_minimum(float* y, size_t ldy, const int8_t* xq, const float* xs,
                             const int32_t* xsum, size_t rows, const void* w, const float* bias,
                             size_t bias_n, size_t panels, size_t groups) {
    const size_t plane = static_cast<size_t>(record_plane_bytes(Q::kMinima, kLanes, groups));
    const unsigned char* panel = static_cast<const unsigned char*>(w);
    for (size_t p = 0; p < panels; ++p, panel += plane + groups * Q::kGroupBytes)
      for (size_t r = 0; r < rows; ++r) {
        float acc[kLanes] = {};
        minimum_row<Q>(acc, xq + r * groups * kGroup, xs + r * groups, xsum + r * groups, panel,
                       panel + plane, groups);
        store_with_bias(y + r * ldy + p * kLanes, acc, bias, bias_n, p * kLanes);
      }
  }

  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    if (minimum_type(Q::kMinima))
      return linear_minimum<Q>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
    constexpr bool kOneScale = whole_type(Q::kType), kFine = fine_type(Q::kType);
    const size_t plane = kOneScale ? kLanes * 4 : panel_plane_bytes(Q::kType, groups),
                 bytes = plane + groups * Q::kGroupBytes;
    for (size_t p = 0; p < panels; ++p) {
      const unsigned char* panel = static_cast<const unsigned char*>(w) + p * bytes;
      for (size_t r = 0; r < rows; ++r) {
        float acc[kLanes] = {};
        if (kOneScale)
          whole_row<Q>(acc, xq + r * groups * kGroup, xs[r], xsum[r], panel, groups);
        if (kFine)
          fine_row<Q, 1>(acc, xq + r * groups * kGroup, xs + r * groups, panel, panel + plane,
                         groups);
        for (size_t g = 0; g < groups && !kOneScale && !kFine; ++g) {
          const int8_t* x = xq + (r * groups + g) * kGroup;
          int32_t isum[kLanes];
          for (size_t i = 0; i < kLanes; ++i) {
            isum[i] = -Q::kOffset * xsum[r * groups + g];
            for (size_t k = 0; k < kGroup; ++k)
              isum[i] += x[k] * Q::value(panel, panel + plane + g * Q::kGroupBytes, i, k);
          }
          for (size_t i = 0; i < kLanes; ++i)
            acc[i] = fma1(static_cast<float>(isum[i]),
                          xs[r * groups + g] * scale_of<Q>(panel, groups, i, g), acc[i]);
        }
        store_with_bias(y + r * ldy + p * kLanes, acc, bias, bias_n, p * kLanes);
      }
    }
  }

  // The same of inputs of 16 bits (1.21). The products of output i with `count` inputs of both
  // planes, `apart` bytes apart, rounded once more: 255·hi + lo.
  static float joined(int32_t high, int32_t low) {
    return fma1(255.0f, static_cast<float>(high), static_cast<float>(low));
  }
  template <class Q>
  static float wide_sum(const int8_t* x, size_t apart, size_t count, const unsigned char* panel,
                        const unsigned char* values, size_t i, int32_t high, int32_t low) {
    for (size_t k = 0; k < count; ++k) {
      const int32_t w = Q::value(panel, values, i, k);
      high += x[k] * w;
      low += x[apart + k] * w;
    }
    return joined(high, low);
  }
  // The chains of one row and one panel over all groups.
  template <class Q>
  static void wide_row(float* acc, const int8_t* x, const float* xs, const int32_t* xsum,
                       const unsigned char* panel, const unsigned char* values, size_t groups) {
    const size_t apart = groups * kGroup;
    constexpr int32_t kLess = minimum_type(Q::kMinima) ? 0 : Q::kOffset;
    for (size_t g = 0; g < groups; ++g, x += kGroup, values += Q::kGroupBytes)
      for (size_t i = 0; i < kLanes; ++i) {
        const int32_t high = xsum[g], low = xsum[groups + g];
        const float sum =
            wide_sum<Q>(x, apart, kGroup, panel, values, i, -kLess * high, -kLess * low);
        if (minimum_type(Q::kMinima)) {
          const Grid grid = grid_at(panel, Q::kMinima, Layout::panel16, groups, i, g);
          acc[i] = fma1(sum, xs[g] * grid.scale, acc[i]);
          acc[i] = fma1(xs[g] * joined(high, low), grid.least, acc[i]);
        } else {
          acc[i] = fma1(sum, xs[g] * scale_of<Q>(panel, groups, i, g), acc[i]);
        }
      }
  }
  template <class Q>
  static void linear_int16(float* y, size_t ldy, const int8_t* xq, const float* xs,
                           const int32_t* xsum, size_t rows, const void* w, const float* bias,
                           size_t bias_n, size_t panels, size_t groups) {
    constexpr bool kOneScale = whole_type(Q::kType);
    const size_t plane = kOneScale ? kLanes * 4
                         : minimum_type(Q::kMinima)
                             ? static_cast<size_t>(record_plane_bytes(Q::kMinima, kLanes, groups))
                             : panel_plane_bytes(Q::kType, groups),
                 cols = groups * kGroup;
    const unsigned char* panel = static_cast<const unsigned char*>(w);
    for (size_t p = 0; p < panels; ++p, panel += plane + groups * Q::kGroupBytes)
      for (size_t r = 0; r < rows; ++r) {
        const int8_t* x = xq + r * 2 * cols;
        float acc[kLanes] = {};
        for (size_t i = 0; i < kLanes && kOneScale; ++i)
          acc[i] = wide_sum<Q>(x, cols, cols, panel, panel + plane, i, -Q::kOffset * xsum[2 * r],
                               -Q::kOffset * xsum[2 * r + 1]) *
                   (xs[r] * F32::weight(panel, i, 0));
        if (fine_type(Q::kType))
          fine_row<Q, 2>(acc, x, xs + r * groups, panel, panel + plane, groups);
        else if (!kOneScale)
          wide_row<Q>(acc, x, xs + r * groups, xsum + r * 2 * groups, panel, panel + plane, groups);
        store_with_bias(y + r * ldy + p * kLanes, acc, bias, bias_n, p * kLanes);
      }
  }
};

}  // namespace
}  // namespace phasor
