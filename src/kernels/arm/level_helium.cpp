// Helium with floating point (Cortex-M55, M85): the kernels that level_scalar.cpp says in plain
// loops, four lanes at a time. Flags: -mcpu=cortex-m55 -fno-tree-vectorize (the compiler's own
// vectors would flush subnormals where nobody expects it)
#include <type_traits>

#include "../table.h"
#include "helium_products.hpp"

#if !defined(__ARM_FEATURE_MVE) || (__ARM_FEATURE_MVE & 2) == 0
#error "phasor: level_helium.cpp needs Helium with floating point: -mcpu=cortex-m55"
#endif
#if defined(__clang__)
// Its comparisons are turned around, and a NaN is lost (clang 19).
#error "phasor: clang has no level for Helium: build with gcc, or with -DPHASOR_SCALAR_ONLY"
#endif

namespace phasor {
namespace {

struct Helium : HeliumProducts {
  struct CacheQ8 {};  // has the scalar loops
  template <class W>
  static void scores(float* s, size_t lds, const float* q, size_t ldq, size_t rows,
                     const void* const* k_pages, size_t pages, size_t width) {
    if constexpr (std::is_same<W, CacheQ8>::value)
      kernels_scalar.scores[kCacheQ8](s, lds, q, ldq, rows, k_pages, pages, width);
    else
      for (size_t p = 0; p < pages; ++p)
        panel_rows<W>(s + p * kLanes, lds, q, ldq, rows,
                      static_cast<const unsigned char*>(k_pages[p]), width);
  }

  static void quantize_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    for (size_t first = 0; first < cols; first += kGroup, x += kGroup) {
      const size_t n = cols - first;
      float amax = 0.0f;
      for (size_t i = 0; i < kGroup && i < n; i += 4)
        amax = vmaxnmavq_f32(amax, load(x + i, first_lanes(n - i)).v);
      const bool zero = amax < 0x1p-80f;
      const float inv = zero ? 0.0f : 127.0f / amax;
      int32_t total = 0;
      for (size_t i = 0; i < kGroup; i += 4, q += 4) {
        const v4 xi = zero || i >= n ? v4::set(0.0f) : load(x + i, first_lanes(n - i));
        int32x4_t v = vsubq_n_s32(vreinterpretq_s32_f32((xi * v4::set(inv) + v4::set(kRound)).v),
                                  static_cast<int32_t>(bits_of(kRound)));
        v = vmaxq_s32(vminq_s32(v, vdupq_n_s32(127)), vdupq_n_s32(-127));
        total = vaddvaq_s32(total, v);
        vstrbq_s32(q, v);
      }
      *scale++ = zero ? 0.0f : amax * 0x1.020408p-7f;
      *sum++ = total;
    }
  }

  // Has the scalar loops.
  static void quantize_whole(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                             size_t block) {
    kernels_scalar.quantize_whole(q, scale, sum, x, cols, block);
  }

  static void quantize_row16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    kernels_scalar.quantize_row16(q, scale, sum, x, cols);
  }
  static void quantize_whole16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    kernels_scalar.quantize_whole16(q, scale, sum, x, cols, block);
  }

  static void quantize_rotated(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    kernels_scalar.quantize_rotated(q, scale, sum, x, cols, block);
  }

  // y (n): y[i] = Σ_d x[d]·t[d·step + i], or the chain goes on from y.
  static PHASOR_APART void table_chains(float* y, size_t n, const float* x, const float* t,
                                        size_t step, size_t terms, bool on) {
    for (size_t i = 0; i < n; i += 4) {
      const mve_pred16_t p = first_lanes(n - i);
      v4 acc = on ? load(y + i, p) : v4::set(0.0f);
      for (size_t d = 0; d < terms; ++d) acc = fma(load(t + d * step + i, p), x[d], acc);
      store(y + i, acc, p);
    }
  }
  static void table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                           const float* t, size_t ldt, size_t n, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      table_chains(y + r * ldy, n, q + r * ldq, t, ldt, width, false);
  }
  static void mix_table(float* out, const float* e, const float* t, size_t step, size_t n,
                        size_t width) {
    table_chains(out, width, e, t, step, n, true);
  }

  // Key j in f32: its first value.
  static PHASOR_INLINE const float* key_at(const void* const* k_pages, size_t j) {
    return static_cast<const float*>(k_pages[j / kLanes]) + j % kLanes;
  }
  static void key_table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                               const void* const* k_pages, size_t first, size_t end, const float* t,
                               size_t ldt, size_t step, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t j = first; j < end;) {
        const size_t in_page = kLanes - j % kLanes, left = end - j < in_page ? end - j : in_page,
                     n = left < 4 ? left : 4;
        const mve_pred16_t p = first_lanes(n);
        const float *keys = key_at(k_pages, j), *entries = t + (j - first) - r * step;
        v4 acc = v4::set(0.0f);
        for (size_t d = 0; d < width; ++d) {
          v4 key = load(keys + d * kLanes, p);
          if (q != nullptr) key = v4::set(q[r * ldq + d]) * key;
          acc = fma(key, load(entries + d * ldt, p), acc);
        }
        store(y + r * ldy + j - first, acc, p);
        j += n;
      }
  }

  static void additive_scores(float* s, const float* q, const float* v, const void* const* k_pages,
                              size_t pages, size_t width) {
    for (size_t j = 0; j < pages * kLanes; j += 4) {
      v4 acc = v4::set(0.0f);
      for (size_t d = 0; d < width; ++d)
        acc = fma(tanh_of(v4::set(q[d]) + load(key_at(k_pages, j) + d * kLanes)), v[d], acc);
      store(s + j, acc);
    }
  }

  static void distance_bias(float* s, size_t first, size_t end, size_t query, float slope) {
    uint32x4_t at = vaddq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(first));
    for (size_t j = first; j < end; j += 4, at = vaddq_n_u32(at, 4)) {
      const mve_pred16_t p = first_lanes(end - j);
      const v4 distance = {vcvtq_f32_u32(vabdq_u32(at, vdupq_n_u32(static_cast<uint32_t>(query))))};
      store(s + j, fma(v4::set(0.0f) - distance, slope, load(s + j, p)), p);
    }
  }

  // `other` in the places of the first and the last block that are not first … end − 1.
  static PHASOR_APART void mask_edges(float* s, size_t first, size_t end, float other) {
    for (size_t t = first / kLanes * kLanes; t < first; ++t) s[t] = other;
    for (size_t t = end; t < up_to_lanes(end); ++t) s[t] = other;
  }
  static float softmax(float* s, size_t first, size_t end) {
    if (first >= end) return 0.0f;
    mask_edges(s, first, end, -kInfinity);
    const size_t begin = first / kLanes * kLanes, n = up_to_lanes(end) - begin;
    float largest = -kInfinity;
    for (size_t t = 0; t < n; t += 4) largest = vmaxnmvq_f32(largest, load(s + begin + t).v);
    Lanes sum;
    for (size_t t = 0; t < n; t += 4) {
      const v4 e = exp_not_positive(load(s + begin + t) - v4::set(largest));
      store(s + begin + t, e);
      store(sum.t + t % kLanes, load(sum.t + t % kLanes) + e);
    }
    mask_edges(s, first, end, 0.0f);
    return 1.0f / sum.tree();
  }

  // 16 places of the width at a time: page after page its chains go on in `lanes`.
  template <class W>
  static void mix_pages(float* out, size_t ldo, const float* e, size_t lde, const float* inv,
                        size_t rows, const void* const* v_pages, const KeyRange& keys,
                        size_t width) {
    using Value = typename W::Value;
    const size_t ldv = up_to_lanes(width);
    for (size_t r = 0; r < rows; ++r)
      for (size_t at = 0; at < width; at += kLanes) {
        alignas(16) float lanes[kLanes] = {};
        const size_t end = keys.end + r * keys.more;
        for (size_t t = keys.first + r * keys.skip, n; t < end; t += n) {
          n = kLanes - t % kLanes < end - t ? kLanes - t % kLanes : end - t;
          const Value* v = static_cast<const Value*>(v_pages[t / kLanes]) + t % kLanes * ldv + at;
          chains<W, 1, 4>(lanes, 0, e + r * lde + t, 0, reinterpret_cast<const unsigned char*>(v),
                          ldv * sizeof(Value), n, true);
        }
        for (size_t i = 0; i < kLanes && at + i < width; i += 4)
          store(out + r * ldo + at + i, load(lanes + i) * v4::set(inv[r]),
                first_lanes(width - at - i));
      }
  }
  template <class W>
  static void mix(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                  const void* const* v_pages, KeyRange keys, size_t width) {
    if constexpr (std::is_same<W, CacheQ8>::value)
      kernels_scalar.mix[kCacheQ8](out, ldo, e, lde, inv, rows, v_pages, keys, width);
    else
      mix_pages<W>(out, ldo, e, lde, inv, rows, v_pages, keys, width);
  }

  // y = (x − mean)·r scaled by g and shifted by b, for both norms.
  static PHASOR_APART void normed(float* y, const float* x, const float* g, const float* b,
                                  size_t n, float mean, float r) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      const v4 z = (load(x + i, p) - v4::set(mean)) * v4::set(r);
      store(y + i, b != nullptr ? fma(z, load(g + i, p), load(b + i, p)) : z * load(g + i, p), p);
    });
  }
  static float layer_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                          float eps) {
    Lanes sum, squares;
    each_lane(sum, n,
              [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA { return lane + load(x + i, p); });
    const float mean = sum.tree() / float_of_size(n);
    each_lane(squares, n, [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA {
      const v4 d = load(x + i, p) - v4::set(mean);
      return fma(d, d, lane, p);
    });
    const float square = squares.tree() / float_of_size(n);
    normed(y, x, g, b, n, mean, 1.0f / sqrt1(square + eps));
    return square;
  }
  // Σx² by lanes and the fixed tree.
  static PHASOR_APART float sum_of_squares(const float* x, size_t n) {
    Lanes squares;
    each_lane(squares, n, [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA {
      const v4 xi = load(x + i, p);
      return fma(xi, xi, lane);
    });
    return squares.tree();
  }
  static float rms_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                        float eps) {
    const float square = sum_of_squares(x, n) / float_of_size(n);
    normed(y, x, g, b, n, 0.0f, 1.0f / sqrt1(square + eps));  // x − 0 is x
    return square;
  }

  static void rotate_halves(float* x, const float* c, const float* s, size_t half) {
    each_part(half, [=](size_t i, mve_pred16_t p) PHASOR_LAMBDA {
      const v4 x0 = load(x + i, p), x1 = load(x + half + i, p), ci = load(c + i, p),
               si = load(s + i, p);
      store(x + i, fma(x0, ci, negated(x1 * si)), p);
      store(x + half + i, fma(x0, si, x1 * ci), p);
    });
  }
  static void rotate_pairs(float* x, const float* c, const float* s, size_t half) {
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
      float32x4x2_t both = vld2q_f32(x + 2 * i);
      const v4 x0 = {both.val[0]}, x1 = {both.val[1]}, ci = load(c + i), si = load(s + i);
      both.val[0] = fma(x0, ci, negated(x1 * si)).v;
      both.val[1] = fma(x0, si, x1 * ci).v;
      vst2q_f32(x + 2 * i, both);
    }
    for (; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
  }

  // y = f(y), four at a time.
  template <class F>
  static PHASOR_INLINE void each(float* y, size_t n, F f) {
    each_part(n,
              [=](size_t i, mve_pred16_t p) PHASOR_LAMBDA { store(y + i, f(load(y + i, p)), p); });
  }
  static float unit(float* y, const float* x, size_t n) {
    const float square = sum_of_squares(x, n), length = sqrt1(square);
    const float divisor = length > 1e-12f ? length : 1e-12f;
    for (size_t i = 0; i < n; ++i) y[i] = x[i] / divisor;
    return square;
  }
  static void scale(float* y, const float* x, size_t n, float s) {
    each_vector(
        n, [=](size_t i, auto p) PHASOR_LAMBDA { store(y + i, load(x + i, p) * v4::set(s), p); });
  }
  static void mul(float* y, const float* x, size_t n) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, load(y + i, p) * load(x + i, p), p);
    });
  }
  static void mul_add(float* y, const float* x, const float* w, size_t n) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, fma(load(x + i, p), load(w + i, p), load(y + i, p)), p);
    });
  }
  static void clip(float* y, size_t n, float limit) {
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return clip_of(v, v4::set(limit)); });
  }
  template <class F>
  static void each_of(float* y, size_t n) {
    const auto one = [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, F::of(load(y + i, p)), p);
    };
    if constexpr (std::is_same<F, Formula<kRelu>>::value || std::is_same<F, Formula<kRelu2>>::value)
      each_vector(n, one);  // short
    else
      each_part(n, one);
  }
  static void xielu(float* y, size_t n, const float* numbers) {
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return xielu_of(v, numbers); });
  }
  static void soft_cap(float* y, size_t n, float cap) {
    const float inv = 1.0f / cap;
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return v4::set(cap) * tanh_of(v * v4::set(inv)); });
  }

  // The largest of all, then the first place that holds it. Where all are below 0 and the largest
  // is subnormal, the vectors see 0, and none is as large.
  static size_t argmax(const float* x, size_t n, float* largest) {
    float best = -kInfinity;
    unsigned nan = 0;
    for (size_t i = 0; i < n; i += 4) {
      const mve_pred16_t p = first_lanes(n - i);
      const v4 v = load(x + i, p);
      best = vmaxnmvq_p_f32(best, v.v, p);
      nan |= vcmpneq_f32(v.v, v.v);
    }
    size_t at = 0;
    while (nan == 0 && at < n && !(x[at] >= best)) ++at;
    if (at == n) {
      at = 0;
      for (size_t i = 1; i < n; ++i) at = x[i] > x[at] ? i : at;
    }
    *largest = nan != 0 ? __builtin_nanf("") : x[at];
    return nan != 0 ? n : at;
  }

  static uint64_t peak_f32(float* out, uint64_t rounds) {
    v4 acc[4];
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = v4::set(static_cast<float>(i));
    const v4 w = v4::set(0x1p-20f);
    for (uint64_t n = 0; n < rounds; ++n)
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = fma(w, 0.5f, acc[i]);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) store(out + 4 * i, acc[i]);
    return rounds * kLanes;
  }
  static uint64_t peak_int8(float* out, uint64_t rounds) {
    int8_t bytes[5 * kLanes];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<int8_t>(i * 37 % 255 - 127);
    const int8x16_t w[3] = {vldrbq_s8(bytes), vldrbq_s8(bytes + 16), vldrbq_s8(bytes + 32)};
    int32_t sum[3] = {};  // wraps
    for (uint64_t n = 0; n < rounds; ++n) {
      const int8x16_t x = vldrbq_s8(bytes + (n & 1) * 16 + 48);
      PHASOR_UNROLL for (size_t i = 0; i < 3; ++i) sum[i] = vmladavaq_s8(sum[i], w[i], x);
    }
    for (size_t i = 0; i < kLanes; ++i) out[i] = static_cast<float>(sum[i % 3]);
    return rounds * 3 * kLanes;
  }
};

}  // namespace

extern const Kernels kernels_helium;
const Kernels kernels_helium = kernel_table<Helium>("helium");

}  // namespace phasor
