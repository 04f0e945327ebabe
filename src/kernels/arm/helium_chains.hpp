// Helium: products with weights in floats (rules 1.1, 1.5 and 1.8), whose chains attention takes
// too. scalar_products.hpp says in plain loops what each function computes.
#pragma once
#include "helium.hpp"

#define PHASOR_APART __attribute__((noinline))

namespace phasor {
namespace {

struct HeliumChains {
  // Weights of one or, where kStep is 2, of two steps of k: load<V>(w, p) gives V vectors of 4
  // outputs each for either step. f16 is read 8 outputs at a time where N, the vectors of a tile,
  // is even: the even ones are one vector, the odd ones the other, and the sums are stored
  // interleaved.
  struct F32 {
    using Value = float;
    static constexpr size_t kStep = 1;
    static constexpr size_t kBytes = kLanes * 4, kVector = 16;
    template <size_t N>
    static constexpr size_t kTogether = 1;
    template <size_t V>
    static PHASOR_INLINE void load_weights(v4 (&w)[1][V], const unsigned char* p) {
      w[0][0] = load(reinterpret_cast<const float*>(p));
    }
    template <size_t N>
    static PHASOR_INLINE void load_sums(v4 (&a)[N], const float* y) {
      PHASOR_UNROLL for (size_t i = 0; i < N; ++i) a[i] = load(y + 4 * i);
    }
    template <size_t N>
    static PHASOR_INLINE void store_sums(float* y, const v4 (&a)[N]) {
      PHASOR_UNROLL for (size_t i = 0; i < N; ++i) store(y + 4 * i, a[i]);
    }
  };
  struct F16 {
    using Value = uint16_t;
    static constexpr size_t kStep = 1;
    static constexpr size_t kBytes = kLanes * 2, kVector = 8;
    template <size_t N>
    static constexpr size_t kTogether = N % 2 == 0 ? 2 : 1;
    template <size_t V>
    static PHASOR_INLINE void load_weights(v4 (&w)[1][V], const unsigned char* p) {
      if constexpr (V == 1) {
        w[0][0] = halves(p);
      } else {
        const uint16x8_t h = vldrhq_u16(reinterpret_cast<const uint16_t*>(p));
        w[0][0] = widened<0>(h);
        w[0][1] = widened<1>(h);
      }
    }
    template <size_t N>
    static PHASOR_INLINE void load_sums(v4 (&a)[N], const float* y) {
      if constexpr (N % 2 != 0) {
        F32::load_sums(a, y);
      } else {
        PHASOR_UNROLL for (size_t i = 0; i < N / 2; ++i) {
          const float32x4x2_t both = vld2q_f32(y + 8 * i);
          a[2 * i].v = both.val[0];
          a[2 * i + 1].v = both.val[1];
        }
      }
    }
    template <size_t N>
    static PHASOR_INLINE void store_sums(float* y, const v4 (&a)[N]) {
      if constexpr (N % 2 != 0) {
        F32::store_sums(y, a);
      } else {
        PHASOR_UNROLL for (size_t i = 0; i < N / 2; ++i) {
          float32x4x2_t both;
          both.val[0] = a[2 * i].v;
          both.val[1] = a[2 * i + 1].v;
          vst2q_f32(y + 8 * i, both);
        }
      }
    }
  };
  struct Bf16 : F32 {  // two values of k share a lane: the even one has the low half
    static constexpr size_t kStep = 2;
    template <size_t V>
    static PHASOR_INLINE void load_weights(v4 (&w)[2][V], const unsigned char* p) {
      const uint16x8_t both = vldrhq_u16(reinterpret_cast<const uint16_t*>(p));
      w[0][0] = as_float(vshllbq_n_u16(both, 16));
      w[1][0] = as_float(vshlltq_n_u16(both, 16));
    }
  };

  // Steps k … k + S − 1 of the chains of R rows by N vectors of outputs; w and each row of x at
  // step k.
  template <class W, size_t S, size_t R, size_t N>
  static PHASOR_INLINE void multiply(v4 (&acc)[R][N], const float* const (&x)[R], size_t k,
                                     const unsigned char* w) {
    constexpr size_t kVectors = W::template kTogether<N>;
    float s[R][S];
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
      PHASOR_UNROLL for (size_t j = 0; j < S; ++j) s[r][j] = x[r][k + j];
    PHASOR_UNROLL for (size_t n = 0; n < N; n += kVectors) {
      v4 v[W::kStep][kVectors];
      W::load_weights(v, w + n * W::kVector);
      PHASOR_UNROLL for (size_t i = 0; i < kVectors; ++i)
        PHASOR_UNROLL for (size_t j = 0; j < S; ++j)
          PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
            acc[r][n + i] = fma(v[j][i], s[r][j], acc[r][n + i]);
    }
  }
  // Chains of R rows by N vectors of outputs, begun at +0 or, with `on`, at what y has. A step of k
  // further the weights lie `step` bytes on.
  template <class W, size_t R, size_t N>
  static PHASOR_APART void chains(float* y, size_t ldy, const float* x, size_t ldx,
                                  const unsigned char* w, size_t step, size_t cols, bool on) {
    v4 acc[R][N];
    const float* rows[R];
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
      rows[r] = x + r * ldx;
      PHASOR_UNROLL for (size_t n = 0; n < N; ++n) acc[r][n] = v4::set(0.0f);
      if (on) W::load_sums(acc[r], y + r * ldy);
    }
    size_t k = 0;
    for (size_t fours = cols / 4; fours != 0; --fours, k += 4)
      PHASOR_UNROLL for (size_t j = 0; j < 4; j += W::kStep, w += step)
        multiply<W, W::kStep>(acc, rows, k + j, w);
    for (; k + W::kStep <= cols; k += W::kStep, w += step) multiply<W, W::kStep>(acc, rows, k, w);
    if (k < cols) multiply<W, 1>(acc, rows, k, w);
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) W::store_sums(y + r * ldy, acc[r]);
  }

  // All rows by one panel: kRows rows by half of it at a time, then row by row.
  static constexpr size_t kRows = 3;
  template <class W>
  static PHASOR_INLINE void panel_rows(float* y, size_t ldy, const float* x, size_t ldx,
                                       size_t rows, const unsigned char* w, size_t cols) {
    size_t r = 0;
    for (; r + kRows <= rows; r += kRows)
      for (size_t i = 0; i < 4; i += 2)
        chains<W, kRows, 2>(y + r * ldy + 4 * i, ldy, x + r * ldx, ldx, w + i * W::kVector,
                            W::kBytes, cols, false);
    for (; r < rows; ++r)
      chains<W, 1, 4>(y + r * ldy, 0, x + r * ldx, 0, w, W::kBytes, cols, false);
  }

  // y += x
  static void add(float* y, const float* x, size_t n) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, load(y + i, p) + load(x + i, p), p);
    });
  }
  static PHASOR_APART void add_bias(float* y, size_t ldy, size_t rows, const float* bias,
                                    size_t bias_n, size_t at) {
    if (bias == nullptr || at >= bias_n) return;
    for (size_t r = 0; r < rows; ++r)
      add(y + r * ldy, bias + at, bias_n - at < kLanes ? bias_n - at : kLanes);
  }

  template <class W>
  static void linear(float* y, size_t ldy, const float* x, size_t ldx, size_t rows, const void* w,
                     const float* bias, size_t bias_n, size_t panels, size_t cols) {
    const size_t bytes = (cols + W::kStep - 1) / W::kStep * W::kBytes;
    for (size_t p = 0; p < panels; ++p) {
      panel_rows<W>(y + p * kLanes, ldy, x, ldx, rows,
                    static_cast<const unsigned char*>(w) + p * bytes, cols);
      add_bias(y + p * kLanes, ldy, rows, bias, bias_n, p * kLanes);
    }
  }
};

}  // namespace
}  // namespace phasor
