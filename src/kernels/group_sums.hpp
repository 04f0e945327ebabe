// What the vector levels' products with quantized weights are made of: rows of whole numbers, the
// exact sums of a group of 32 or of its halves, and a step of the chains over the groups (rules 1.2
// to 1.4, and 1.20 where the groups have a minimum). Inputs of 16 bits are two rows of int8 with
// the same weights (rule 1.21).
#pragma once
#include "weights.hpp"

namespace phasor {
namespace {

// Rows of activations as quantize_row leaves them: values, and a scale and a sum for each of the
// groups; or as quantize_whole does, with one of each for a row. Of inputs of 16 bits each row has
// two planes, of values and of sums: hi, then lo.
template <size_t Planes>
struct IntRows {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  size_t groups, scales;
  PHASOR_INLINE IntRows from(size_t r) const {
    return {q + r * Planes * groups * kGroup, scale + r * scales, sum + r * Planes * scales, groups,
            scales};
  }
  // The same from group g on.
  PHASOR_INLINE IntRows group(size_t g) const {
    return {q + g * kGroup, scale + g, sum + g, groups, scales};
  }
  PHASOR_INLINE const int8_t* plane(size_t i) const { return q + i * groups * kGroup; }
  PHASOR_INLINE int32_t sum_at(size_t i, size_t g) const { return sum[i * scales + g]; }
  // Σx of a group times its scale.
  PHASOR_INLINE float scaled_total(size_t g) const {
    return scale[g] * static_cast<float>(Planes == 1 ? sum[g] : 255 * sum[g] + sum[scales + g]);
  }
};
using Int8Rows = IntRows<1>;

template <class L>
struct GroupSums {
  using V = v16<typename L::Arch>;

  // What a sum is as a float: of inputs of 16 bits exact where the planes' sums are below 2^24, and
  // rounded once.
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE V sum_of(const typename Q::Sum (&sum)[R][P], size_t r, size_t p) {
    if constexpr (Q::kPlanes == 1)
      return Q::to_float(sum[r][p]);
    else
      return wide_sum<Q>(sum[2 * r][p], sum[2 * r + 1][p], 0);
  }
  template <class Q>
  static PHASOR_INLINE auto wide_sum(const typename Q::Sum& high, const typename Q::Sum& low, int)
      -> decltype(Q::to_float(high, low)) {
    return Q::to_float(high, low);
  }
  template <class Q>
  static PHASOR_INLINE V wide_sum(const typename Q::Sum& high, const typename Q::Sum& low, long) {
    return fma(V::set(255.0f), Q::to_float(high), Q::to_float(low));
  }

  // The sums of group g, begun, and where its inputs are.
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE void start_group(typename Q::Sum (&sum)[R * Q::kPlanes][P],
                                        const int8_t* (&x)[R * Q::kPlanes],
                                        const IntRows<Q::kPlanes> (&rows)[R], size_t g) {
    constexpr size_t kPlanes = Q::kPlanes;
    PHASOR_UNROLL for (size_t i = 0; i < R * kPlanes; ++i) {
      const IntRows<kPlanes>& row = rows[i / kPlanes];
      x[i] = row.q + (i % kPlanes * row.groups + g) * Q::kInputs;
      const typename Q::Sum start = Q::start(row.sum_at(i % kPlanes, g));
      PHASOR_UNROLL for (size_t p = 0; p < P; ++p) sum[i][p] = start;
    }
  }
  // The sums of group g: R rows by P panels, whose planes and groups begin at plane and w.
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE void sum_group(typename Q::Sum (&sum)[R * Q::kPlanes][P],
                                      const IntRows<Q::kPlanes> (&rows)[R],
                                      const unsigned char* const (&plane)[P],
                                      const unsigned char* const (&w)[P], size_t g) {
    const int8_t* x[R * Q::kPlanes];
    const unsigned char* wg[P];
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) wg[p] = w[p] + g * Q::kGroupBytes;
    alignas(64) unsigned char values[P][Q::kTabled ? IntWeights<L>::Q8::kGroupBytes : 1];
    if constexpr (Q::kTabled)
      PHASOR_UNROLL for (size_t p = 0; p < P; ++p) {
        L::look_up(values[p], wg[p], Q::table(plane[p]));
        wg[p] = values[p];
      }
    start_group<Q, R, P>(sum, x, rows, g);
    Q::products(sum, x, wg);
  }
  // The chains go on by them; scales: 16 of each panel, and 16 minima where there are any.
  // total(r): Σx·sx of row r.
  template <class Q, size_t R, size_t P, class Total>
  static PHASOR_INLINE void add_group(V (&acc)[R][P],
                                      const typename Q::Sum (&sum)[R * Q::kPlanes][P],
                                      const IntRows<Q::kPlanes> (&rows)[R], size_t g,
                                      const V (&scales)[P][kOf<Q>], Total total) {
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
      const V sx = V::set(rows[r].scale[g]);
      PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
        acc[r][p] = fma(sum_of<Q>(sum, r, p), sx * scales[p][0], acc[r][p]);
      if constexpr (Q::kMinima) {
        const V all = V::set(total(r));
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
          acc[r][p] = fma(all, scales[p][1], acc[r][p]);
      }
    }
  }
  // The chains go on by group g, half by half, whose weights are at w, packed or not. words: those
  // of each row's planes.
  template <class Q, size_t R, size_t P, class Group>
  static PHASOR_INLINE void add_halves(V (&acc)[R][P], const IntRows<Q::kPlanes> (&rows)[R],
                                       const Group* const (&w)[P], size_t g,
                                       const V (&scales)[P][2],
                                       const int32_t (&words)[R * Q::kPlanes][2]) {
    constexpr size_t kPlanes = Q::kPlanes, kRows = R * kPlanes;
    const int8_t* x[kRows];
    PHASOR_UNROLL for (size_t i = 0; i < kRows; ++i)
      x[i] = rows[i / kPlanes].plane(i % kPlanes) + g * kGroup;
    each<2>([&](auto h) PHASOR_LAMBDA {
      typename Q::Sum sum[kRows][P];
      PHASOR_UNROLL for (size_t i = 0; i < kRows; ++i)
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) sum[i][p] = Q::start(words[i][h]);
      Q::template products<h>(sum, x, w);
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
        const V sx = V::set(rows[r].scale[g]);
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
          acc[r][p] = fma(sum_of<Q>(sum, r, p), sx * scales[p][h], acc[r][p]);
      }
    });
  }
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE void add_halves(V (&acc)[R][P], const IntRows<Q::kPlanes> (&rows)[R],
                                       const unsigned char* const (&values)[P], size_t g,
                                       const V (&scales)[P][2]) {
    const unsigned char* w[P];
    int32_t words[R * Q::kPlanes][2];
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) w[p] = values[p] + g * Q::kGroupBytes;
    PHASOR_UNROLL for (size_t i = 0; i < R * Q::kPlanes; ++i) words_of<Q>(words[i], rows, i, g);
    add_halves<Q, R, P, unsigned char>(acc, rows, w, g, scales, words);
  }
  // Those of plane i of the rows' planes.
  template <class Q, size_t R>
  static PHASOR_INLINE void words_of(int32_t (&to)[2], const IntRows<Q::kPlanes> (&rows)[R],
                                     size_t i, size_t g) {
    const IntRows<Q::kPlanes>& row = rows[i / Q::kPlanes];
    const size_t plane = i % Q::kPlanes;
    Q::words(to, row, plane, g, row.plane(plane) + g * kGroup);
  }
};

}  // namespace
}  // namespace phasor
