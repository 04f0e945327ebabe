// What the vector levels do with one row element by element, or with sums over it by lanes: norms,
// rotary positions, activations, the largest (rules 1.9, 1.11 and 1.12). level_scalar.cpp says in
// plain loops what each of them computes.
#pragma once
#include "functions.hpp"
#include "simd.hpp"

namespace phasor {
namespace {

// y = f(y, place, lanes), 16 at a time; the tail's absent lanes are +0 and dropped.
template <class V, class F>
PHASOR_INLINE void each(float* y, size_t n, F f) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(V::load(y + i), i, kLanes).store(y + i);
  if (i < n) f(V::load_part(y + i, n - i), i, n - i).store_part(y + i, n - i);
}

template <class L>
struct Elementwise {
  using V = v16<typename L::Arch>;

  // y = (x − mean)·r scaled by g and shifted by b, for both norms.
  static PHASOR_INLINE void normed(float* y, const float* x, const float* g, const float* b,
                                   size_t n, V mean, V r, bool centered) {
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t m = n - i;
      const V xi = V::load(x + i, m), z = (centered ? xi - mean : xi) * r, gi = V::load(g + i, m);
      (b != nullptr ? fma(z, gi, V::load(b + i, m)) : z * gi).store(y + i, m);
    }
  }
  static float layer_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                          float eps) {
    V sum = V::set(0.0f), squares = sum;
    for (size_t i = 0; i < n; i += kLanes) sum = sum + V::load(x + i, n - i);
    const float mean = tree(sum) / float_of_size(n);
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const V d = V::load(x + i) - V::set(mean);
      squares = fma(d, d, squares);
    }
    if (i < n) {  // an absent lane is mean − mean
      alignas(64) float t[16];
      V::set(mean).store(t);
      for (size_t j = i; j < n; ++j) t[j - i] = x[j];
      const V d = V::load(t) - V::set(mean);
      squares = fma(d, d, squares);
    }
    const float square = tree(squares) / float_of_size(n);
    normed(y, x, g, b, n, V::set(mean), V::set(1.0f / sqrt1(square + eps)), true);
    return square;
  }
  // Σx² by lanes and the fixed tree.
  static PHASOR_INLINE float sum_of_squares(const float* x, size_t n) {
    V squares = V::set(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      const V xi = V::load(x + i, n - i);
      squares = fma(xi, xi, squares);
    }
    return tree(squares);
  }
  static float rms_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                        float eps) {
    const float square = sum_of_squares(x, n) / float_of_size(n);
    normed(y, x, g, b, n, V::set(0.0f), V::set(1.0f / sqrt1(square + eps)), false);
    return square;
  }
  static float unit(float* y, const float* x, size_t n) {
    const float square = sum_of_squares(x, n), length = sqrt1(square);
    const V divisor = V::set(length > 1e-12f ? length : 1e-12f);
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t m = n - i;
      (V::load(x + i, m) / divisor).store(y + i, m);
    }
    return square;
  }

  static void rotate_halves(float* x, const float* c, const float* s, size_t half) {
    size_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const V x0 = V::load(x + i), x1 = V::load(x + half + i), ci = V::load(c + i),
              si = V::load(s + i);
      fma(x0, ci, negated(x1 * si)).store(x + i);
      fma(x0, si, x1 * ci).store(x + half + i);
    }
    for (; i < half; ++i) turn(x + i, x + half + i, c[i], s[i]);
  }
  static void rotate_pairs(float* x, const float* c, const float* s, size_t half) {
    for (size_t i = 0; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
  }

  static void add(float* y, const float* x, size_t n) {
    each<V>(y, n, [=](V v, size_t i, size_t m) PHASOR_LAMBDA { return v + V::load(x + i, m); });
  }
  static void mul(float* y, const float* x, size_t n) {
    each<V>(y, n, [=](V v, size_t i, size_t m) PHASOR_LAMBDA { return v * V::load(x + i, m); });
  }
  static void mul_add(float* y, const float* x, const float* w, size_t n) {
    each<V>(y, n, [=](V v, size_t i, size_t m)
                      PHASOR_LAMBDA { return fma(V::load(x + i, m), V::load(w + i, m), v); });
  }
  static void scale(float* y, const float* x, size_t n, float s) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) (V::load(x + i) * V::set(s)).store(y + i);
    if (i < n) (V::load_part(x + i, n - i) * V::set(s)).store_part(y + i, n - i);
  }
  static void clip(float* y, size_t n, float limit) {
    const V most = V::set(limit);
    each<V>(y, n, [=](V v, size_t, size_t) PHASOR_LAMBDA { return clip_of(v, most); });
  }
  static void xielu(float* y, size_t n, const float* numbers) {
    each<V>(y, n, [=](V v, size_t, size_t) PHASOR_LAMBDA { return xielu_of(v, numbers); });
  }
  static void soft_cap(float* y, size_t n, float cap) {
    const V c = V::set(cap), inv = V::set(1.0f / cap);
    each<V>(y, n, [=](V v, size_t, size_t) PHASOR_LAMBDA { return c * tanh_of(v * inv); });
  }
  // y = f(y), of the value alone.
  template <class F>
  static void each_of(float* y, size_t n) {
    size_t i = 0;
    for (; i + kLanes <= n; i += kLanes) F::of(V::load(y + i)).store(y + i);
    if (i < n) F::of(V::load_part(y + i, n - i)).store_part(y + i, n - i);
  }

  // The largest of all lanes, then the first place that holds it: two passes without an index in
  // the vectors.
  static size_t argmax(const float* x, size_t n, float* largest) {
    const V zero = V::set(0.0f), one = V::set(1.0f);
    V m = V::set(-kInfinity), numbers = one;  // a lane of `numbers` becomes 0 at a NaN
    for (size_t i = 0; i < n; i += kLanes) {
      const size_t rest = n - i;
      V v = V::load(x + i, rest);
      numbers = where_gt(V::set(kInfinity), v, numbers, where_gt(v, zero, numbers, zero));
      if (rest >= kLanes) m = larger(m, v);
    }
    float best = largest_lane(m);
    alignas(64) float ok[16];
    numbers.store(ok);
    for (size_t i = 0; i < kLanes; ++i)
      if (!(ok[i] > 0.0f)) {
        *largest = __builtin_nanf("");
        return n;
      }
    for (size_t i = n / kLanes * kLanes; i < n; ++i) best = x[i] > best ? x[i] : best;
    // Where all are below 0 and the largest is subnormal, a level that flushes sees 0 as the
    // largest, and none is as large.
    size_t at = 0;
    while (at < n && !(x[at] >= best)) ++at;
    if (at == n) {
      at = 0;
      for (size_t i = 1; i < n; ++i) at = x[i] > x[at] ? i : at;
    }
    *largest = x[at];
    return at;
  }
};

}  // namespace
}  // namespace phasor
