// The scalar level: the kernels as plain loops, in every build, the twin that all other levels are
// tested against. Read this file and scalar_products.hpp to know what a kernel computes; the vector
// levels (body.hpp) compute the same bits. Flags: none beyond the target's own.
#include "products.hpp"
#include "scalar_products.hpp"
#include "table.h"

namespace phasor {
namespace {

struct Scalar : ScalarProducts {
  // The fixed tree over 16 lanes: distance 8, 4, 2, 1.
  static float tree(float* t) {
    for (size_t half = 8; half != 0; half /= 2)
      for (size_t i = 0; i < half; ++i) t[i] = t[i] + t[i + half];
    return t[0];
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
