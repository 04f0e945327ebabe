// Activations to whole numbers (rules 1.3, 1.18, 1.19, 1.21 and 1.29): row by row, in groups of 32
// or with one scale, rotated or not.
#pragma once
#include "functions.hpp"
#include "simd.hpp"

namespace phasor {
namespace {

// The sign bit of the lanes whose number has S.
template <size_t S>
struct Signs {
  alignas(64) int32_t lane[kLanes];
  constexpr Signs() : lane() {
    for (size_t i = 0; i < kLanes; ++i) lane[i] = (i & S) != 0 ? INT32_MIN : 0;
  }
};
template <size_t S>
constexpr Signs<S> kSigns;

template <class L>
struct Rounding {
  using A = typename L::Arch;
  using V = v16<A>;
  using T = typename L::Tiles;

  static PHASOR_INLINE Int16<A> rounded(V x) {
    Int16<A> t;
    PHASOR_UNROLL for (size_t i = 0; i < V::N; ++i)
      t.v[i] = as_int<A>(x.v[i]) - typename V::I(static_cast<int32_t>(bits_of(kRound)));
    return t;
  }
  // 32 whole numbers to the planes at q, `apart` bytes apart, and to their sums (1.21).
  template <size_t Planes>
  static PHASOR_INLINE void narrow(int8_t* q, size_t apart, int32_t (&sum)[Planes], V a, V b) {
    const V round = V::set(kRound);
    if constexpr (Planes == 1) {
      sum[0] += L::Int8::narrow(q, rounded(a + round), rounded(b + round));
    } else {
      const V part = V::set(0x1.010102p-8f), base = V::set(255.0f);  // 1/255
      a = (a + round) - round;
      b = (b + round) - round;
      const V high_a = (a * part + round) - round, high_b = (b * part + round) - round;
      sum[0] += L::Int8::narrow(q, rounded(high_a + round), rounded(high_b + round));
      sum[1] += L::Int8::narrow(q + apart, rounded((a - high_a * base) + round),
                                   rounded((b - high_b * base) + round));
    }
  }
  static void quantize_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    rows_to_int<1>(q, scale, sum, x, cols);
  }
  static void quantize_row16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    rows_to_int<2>(q, scale, sum, x, cols);
  }
  template <size_t Planes>
  static PHASOR_INLINE void rows_to_int(int8_t* q, float* scale, int32_t* sum, const float* x,
                                        size_t cols) {
    const size_t groups = (cols + kGroup - 1) / kGroup;
    for (size_t first = 0; first < cols; first += kGroup, q += kGroup) {
      const size_t n = cols - first;
      const V none = V::set(0.0f), a = V::load(x + first, n);
      const V b = n >= kGroup  ? V::load(x + first + kLanes)
                  : n > kLanes ? V::load_part(x + first + kLanes, n - kLanes)
                               : none;
      const float amax = largest_lane(larger(abs(a), abs(b)));
      const bool zero = amax < IntInputs<Planes>::kLeast;
      *scale++ = zero ? 0.0f : amax * IntInputs<Planes>::kPart;
      const V inv = V::set(zero ? 0.0f : IntInputs<Planes>::kMost / amax);
      int32_t total[Planes] = {};
      narrow<Planes>(q, groups * kGroup, total, zero ? none : a * inv, zero ? none : b * inv);
      PHASOR_UNROLL for (size_t i = 0; i < Planes; ++i) sum[i * groups] = total[i];
      ++sum;
    }
  }

  // Of lanes i and i + S of each pair the sum and the difference.
  template <size_t S>
  static PHASOR_INLINE V butterfly(V x) {
    V y;
    if constexpr (S >= V::W) {
      constexpr size_t kApart = S / V::W;
      PHASOR_UNROLL for (size_t i = 0; i < V::N; ++i)
        y.v[i] = (i & kApart) == 0 ? x.v[i] + x.v[i + kApart] : x.v[i - kApart] - x.v[i];
    } else {
      PHASOR_UNROLL for (size_t i = 0; i < V::N; ++i) {
        const auto sign = V::I::load_unaligned(kSigns<S>.lane + i * V::W);
        y.v[i] = typename V::B(swapped<S>(x.v[i].data)) + as_float<A>(as_int<A>(x.v[i]) ^ sign);
      }
    }
    return y;
  }
  static PHASOR_INLINE void butterfly(V& a, V& b) {
    const V sum = a + b;
    b = a - b;
    a = sum;
  }
  // rotate_block of each block of 64 values.
  static PHASOR_INLINE void rotate(V (&v)[4], size_t block) {
    const V first = V::set(1.0f / static_cast<float>(block)),
            last = V::set(rotation_scale(block));
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      v[i] = v[i] * first;
      if (block > 1) v[i] = butterfly<1>(v[i]);
      if (block > 2) v[i] = butterfly<2>(v[i]);
      if (block > 4) v[i] = butterfly<4>(v[i]);
      if (block > 8) v[i] = butterfly<8>(v[i]);
    }
    if (block > 16) butterfly(v[0], v[1]), butterfly(v[2], v[3]);
    if (block > 32) butterfly(v[0], v[2]), butterfly(v[1], v[3]);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) v[i] = v[i] * last;
  }
  // 64 inputs from x on, or the n that there are, as they are rounded.
  static PHASOR_INLINE void load_step(V (&v)[4], const float* x, size_t n, size_t block) {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      v[i] = n > i * kLanes ? V::load(x + i * kLanes, n - i * kLanes) : V::set(0.0f);
    if (block != 0) rotate(v, block);
  }
  // Inputs of a row that stay rotated from its first reading to its second, where the stack has
  // room for them (quantized_stream takes more); a longer row is rotated twice.
  static constexpr size_t kKept = T::kStream ? 1536 : 0;
  static void quantize_whole(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                             size_t block) {
    whole_to_int<1>(q, scale, sum, x, cols, block);
  }
  static void quantize_whole16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    whole_to_int<2>(q, scale, sum, x, cols, block);
  }
  static void quantize_rotated(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    alignas(64) float step[kRowStep];
    constexpr size_t kGroups = kRowStep / kGroup;
    for (size_t k = 0; k < cols; k += kRowStep, q += kRowStep, scale += kGroups, sum += kGroups) {
      const size_t n = cols - k < kRowStep ? cols - k : kRowStep;
      V v[4];
      load_step(v, x + k, n, block);
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) v[i].store(step + i * kLanes);
      rows_to_int<1>(q, scale, sum, step, n);
    }
  }
  template <size_t Planes>
  static PHASOR_INLINE void whole_to_int(int8_t* q, float* scale, int32_t* sum, const float* x,
                                         size_t cols, size_t block) {
    alignas(64) float kept[kKept + 1];
    const bool keep = block != 0 && cols <= kKept;
    V v[4], most = V::set(0.0f);
    for (size_t k = 0; k < cols; k += kRowStep) {
      load_step(v, x + k, cols - k, block);
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) most = larger(most, abs(v[i]));
      if constexpr (kKept != 0)
        if (keep) PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) v[i].store(kept + k + i * kLanes);
    }
    if (keep) x = kept, block = 0;
    const float amax = largest_lane(most);
    const bool zero = amax < IntInputs<Planes>::kLeast;
    const V inv = V::set(zero ? 0.0f : IntInputs<Planes>::kMost / amax);
    const size_t padded = (cols + kRowStep - 1) / kRowStep * kRowStep;
    int32_t total[Planes] = {};
    for (size_t k = 0; k < cols; k += kRowStep, q += kRowStep) {
      load_step(v, x + k, cols - k, block);
      PHASOR_UNROLL for (size_t i = 0; i < 4; i += 2)
        narrow<Planes>(q + i * kLanes, padded, total, v[i] * inv, v[i + 1] * inv);
    }
    *scale = zero ? 0.0f : amax * IntInputs<Planes>::kPart;
    PHASOR_UNROLL for (size_t i = 0; i < Planes; ++i) sum[i] = total[i];
  }
};

}  // namespace
}  // namespace phasor
