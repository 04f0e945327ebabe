// The scalar level: the kernels as plain loops, in every build, the twin that all other levels are
// tested against. Read this file to know what a kernel computes; the vector levels (body.hpp)
// compute the same bits. Flags: none beyond the target's own.
#include <type_traits>

#include "gather.h"
#include "products.hpp"
#include "table.h"

namespace phasor {
namespace {

struct Scalar {
  // The fixed tree over 16 lanes: distance 8, 4, 2, 1.
  static float tree(float* t) {
    for (size_t half = 8; half != 0; half /= 2)
      for (size_t i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
    return t[0];
  }

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

  // n as it is; the groups have minima (grid_at).
  struct Q4m : Q4 {
    static constexpr Type kMinima = Type::q4m;
  };
  struct Q4k : Q4 {
    static constexpr Type kMinima = Type::q4k;
  };

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

  template <class K>
  static void scores(float* s, size_t lds, const float* q, size_t ldq, size_t rows,
                     const void* const* k_pages, size_t pages, size_t width) {
    for (size_t p = 0; p < pages; ++p)
      for (size_t r = 0; r < rows; ++r)
        chains<K>(s + r * lds + p * kLanes, q + r * ldq, k_pages[p], width);
  }

  // Key j in f32, its value d.
  static float key_at(const void* const* k_pages, size_t j, size_t d) {
    return static_cast<const float*>(k_pages[j / kLanes])[d * kLanes + j % kLanes];
  }

  static void table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                           const float* t, size_t ldt, size_t n, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t i = 0; i < n; ++i) {
        float acc = 0.0f;
        for (size_t d = 0; d < width; ++d) acc = fma1(q[r * ldq + d], t[d * ldt + i], acc);
        y[r * ldy + i] = acc;
      }
  }

  static void key_table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                               const void* const* k_pages, size_t first, size_t end, const float* t,
                               size_t ldt, size_t step, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t j = first; j < end; ++j) {
        float acc = 0.0f;
        for (size_t d = 0; d < width; ++d) {
          const float key = key_at(k_pages, j, d);
          acc = fma1(q != nullptr ? q[r * ldq + d] * key : key, (t + d * ldt - r * step)[j - first],
                     acc);
        }
        y[r * ldy + j - first] = acc;
      }
  }

  static void additive_scores(float* s, const float* q, const float* v, const void* const* k_pages,
                              size_t pages, size_t width) {
    for (size_t j = 0; j < pages * kLanes; ++j) {
      float acc = 0.0f;
      for (size_t d = 0; d < width; ++d)
        acc = fma1(v[d], tanh_of(v1{q[d] + key_at(k_pages, j, d)}).x, acc);
      s[j] = acc;
    }
  }

  static void distance_bias(float* s, size_t first, size_t end, size_t query, float slope) {
    for (size_t j = first; j < end; ++j)
      s[j] = fma1(0.0f - float_of_size(j < query ? query - j : j - query), slope, s[j]);
  }

  static float softmax(float* s, size_t first, size_t end) {
    if (first >= end) return 0.0f;
    float largest = s[first];
    for (size_t t = first; t < end; ++t) largest = s[t] > largest ? s[t] : largest;
    float lanes[kLanes] = {};
    for (size_t t = first / kLanes * kLanes; t < up_to_lanes(end); ++t) {
      s[t] = t >= first && t < end ? exp_not_positive(v1{s[t] - largest}).x : 0.0f;
      lanes[t % kLanes] = lanes[t % kLanes] + s[t];
    }
    return 1.0f / tree(lanes);
  }

  template <class W>
  static void mix(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                  const void* const* v_pages, KeyRange keys, size_t width) {
    const size_t ldv = up_to_lanes(width);
    for (size_t r = 0; r < rows; ++r)
      for (size_t d = 0; d < width; ++d) {
        float acc = 0.0f;
        for (size_t t = keys.first + r * keys.skip; t < keys.end + r * keys.more; ++t) {
          const unsigned char* page = static_cast<const unsigned char*>(v_pages[t / kLanes]);
          acc = fma1(e[r * lde + t], W::value(page, t % kLanes, d, ldv), acc);
        }
        out[r * ldo + d] = acc * inv[r];
      }
  }

  static void mix_table(float* out, const float* e, const float* t, size_t step, size_t n,
                        size_t width) {
    for (size_t i = 0; i < n; ++i)
      for (size_t d = 0; d < width; ++d) out[d] = fma1(e[i], t[i * step + d], out[d]);
  }

  static float layer_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                          float eps) {
    float lanes[kLanes] = {};
    for (size_t i = 0; i < n; ++i) lanes[i % kLanes] = lanes[i % kLanes] + x[i];
    const float mean = tree(lanes) / float_of_size(n);
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = 0.0f;
    for (size_t i = 0; i < n; ++i)
      lanes[i % kLanes] = fma1(x[i] - mean, x[i] - mean, lanes[i % kLanes]);
    const float square = tree(lanes) / float_of_size(n);
    const float r = 1.0f / sqrt1(square + eps);
    for (size_t i = 0; i < n; ++i) {
      const float z = (x[i] - mean) * r;
      y[i] = b != nullptr ? fma1(z, g[i], b[i]) : z * g[i];
    }
    return square;
  }

  // Σx² by lanes and the fixed tree.
  static __attribute__((noinline)) float sum_of_squares(const float* x, size_t n) {
    float lanes[kLanes] = {};
    for (size_t i = 0; i < n; ++i) lanes[i % kLanes] = fma1(x[i], x[i], lanes[i % kLanes]);
    return tree(lanes);
  }

  static float rms_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                        float eps) {
    const float square = sum_of_squares(x, n) / float_of_size(n);
    const float r = 1.0f / sqrt1(square + eps);
    for (size_t i = 0; i < n; ++i) {
      const float z = x[i] * r;
      y[i] = b != nullptr ? fma1(z, g[i], b[i]) : z * g[i];
    }
    return square;
  }

  static void rotate_halves(float* x, const float* c, const float* s, size_t half) {
    for (size_t i = 0; i < half; ++i) turn(x + i, x + half + i, c[i], s[i]);
  }
  static void rotate_pairs(float* x, const float* c, const float* s, size_t half) {
    for (size_t i = 0; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
  }

  static float unit(float* y, const float* x, size_t n) {
    const float square = sum_of_squares(x, n), length = sqrt1(square);
    const float divisor = length > 1e-12f ? length : 1e-12f;
    for (size_t i = 0; i < n; ++i) y[i] = x[i] / divisor;
    return square;
  }

  static void add(float* y, const float* x, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = y[i] + x[i];
  }
  static void scale(float* y, const float* x, size_t n, float s) {
    for (size_t i = 0; i < n; ++i) y[i] = x[i] * s;
  }
  static void mul(float* y, const float* x, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = y[i] * x[i];
  }
  static void mul_add(float* y, const float* x, const float* w, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = fma1(x[i], w[i], y[i]);
  }
  static void clip(float* y, size_t n, float limit) {
    for (size_t i = 0; i < n; ++i) y[i] = clip_of(v1{y[i]}, v1{limit}).x;
  }
  template <class F>
  static void each_of(float* y, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = F::of(v1{y[i]}).x;
  }
  static void xielu(float* y, size_t n, const float* numbers) {
    for (size_t i = 0; i < n; ++i) y[i] = xielu_of(v1{y[i]}, numbers).x;
  }
  static void soft_cap(float* y, size_t n, float cap) {
    const float inv = 1.0f / cap;
    for (size_t i = 0; i < n; ++i) y[i] = cap * tanh_of(v1{y[i] * inv}).x;
  }

  static size_t argmax(const float* x, size_t n, float* largest) {
    size_t best = 0;
    bool nan = false;
    for (size_t i = 0; i < n; ++i) {
      nan = nan || x[i] != x[i];
      if (x[i] > x[best]) best = i;
    }
    *largest = nan ? __builtin_nanf("") : x[best];
    return nan ? n : best;
  }

  static uint64_t peak_f32(float* out, uint64_t rounds) {
    float acc[kLanes];
    for (size_t i = 0; i < kLanes; ++i) acc[i] = static_cast<float>(i);
    for (uint64_t n = 0; n < rounds; ++n)
      for (size_t i = 0; i < kLanes; ++i) acc[i] = fma1(0.5f, 0x1p-20f, acc[i]);
    for (size_t i = 0; i < kLanes; ++i) out[i] = acc[i];
    return rounds * kLanes;
  }
  static uint64_t peak_int8(float* out, uint64_t rounds) {
    int8_t w[kLanes][kGroup], x[2][kGroup];
    for (size_t i = 0; i < kLanes * kGroup; ++i)
      w[i / kGroup][i % kGroup] = static_cast<int8_t>(i * 37 % 255 - 127);
    for (size_t i = 0; i < 2 * kGroup; ++i)
      x[i / kGroup][i % kGroup] = static_cast<int8_t>(i * 29 % 255 - 127);
    uint32_t sum[kLanes] = {};  // wraps
    for (uint64_t n = 0; n < rounds; ++n)
      for (size_t i = 0; i < kLanes; ++i)
        for (size_t k = 0; k < kGroup; ++k) sum[i] += static_cast<uint32_t>(w[i][k] * x[n & 1][k]);
    for (size_t i = 0; i < kLanes; ++i) out[i] = static_cast<float>(sum[i]);
    return rounds * kLanes * kGroup;
  }
};

}  // namespace

extern const Kernels kernels_scalar;
const Kernels kernels_scalar = kernel_table<Scalar>("scalar");

#if defined(PHASOR_DSP_LEVEL)
extern const Kernels kernels_dsp;
const Kernels kernels_dsp = with_products<Dsp>(kernel_table<Scalar>("scalar"));
#endif

}  // namespace phasor
