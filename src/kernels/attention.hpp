// Attention in the vector levels: scores, softmax and the mix of the values (rules 1.6, 1.8 and
// 1.9). A page holds 16 positions: of keys as a panel of weights, of values row by row.
// level_scalar.cpp says in plain loops what each function computes.
#pragma once
#include <type_traits>

#include "elementwise.hpp"
#include "kernels.h"
#include "linear.hpp"

namespace phasor {
namespace {

constexpr float kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

template <class L>
struct Attention : Linear<L> {
  using A = typename L::Arch;
  using V = v16<A>;
  using T = typename L::Tiles;
  using Base = Linear<L>;

  template <class W>
  static void scores(float* s, size_t lds, const float* q, size_t ldq, size_t rows,
                     const void* const* k_pages, size_t pages, size_t width) {
    const Outputs out = {s, lds, nullptr, 0};
    const Inputs in = {q, ldq};
    size_t page_bytes = width * W::kBytes;
    if constexpr (std::is_same<W, typename Base::CacheQ8>::value)
      page_bytes = static_cast<size_t>(cache_q8_bytes(width));
    // The pages of a layer lie far from each other: while some are computed, those after them are
    // asked for.
    const auto panel = [=](size_t p) PHASOR_LAMBDA {
      if (T::kStream && p + T::kOneRow < pages) ask(k_pages[p + T::kOneRow], page_bytes);
      return static_cast<const unsigned char*>(k_pages[p]);
    };
    if (rows == 1)
      Base::template linear_panels<W, 1, T::kOneRow, false>(out, in, 1, panel, 0, pages, width, 0);
    else
      Base::template linear_panels<W, T::kRows, T::kPanels, false>(out, in, rows, panel, 0, pages,
                                                                   width, 0);
  }

  // R rows by N blocks of 16 distances from place i on, the last with n lanes.
  template <size_t R, size_t N>
  static PHASOR_INLINE void table_tile(const Outputs& out, const Inputs& q, const float* t,
                                       size_t ldt, size_t i, size_t n, size_t width) {
    V acc[R][N];
    start_chains(acc);
    for (size_t d = 0; d < width; ++d) {
      const float* entries = t + d * ldt + i;
      V td[N];
      PHASOR_UNROLL for (size_t b = 0; b < N; ++b)
        td[b] = V::load(entries + b * kLanes, b == N - 1 ? n : kLanes);
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
        const V qd = V::set(q.x[r * q.ldx + d]);
        PHASOR_UNROLL for (size_t b = 0; b < N; ++b) acc[r][b] = fma(qd, td[b], acc[r][b]);
      }
    }
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
      PHASOR_UNROLL for (size_t b = 0; b < N; ++b)
        acc[r][b].store(out.y + r * out.ldy + i + b * kLanes, b == N - 1 ? n : kLanes);
  }
  template <size_t R>
  static PHASOR_APART void table_rows(const Outputs& out, const Inputs& q, const float* t,
                                      size_t ldt, size_t n, size_t width) {
    constexpr size_t kStep = T::kPanels * kLanes;
    size_t i = 0;
    for (; i + kStep <= n; i += kStep) table_tile<R, T::kPanels>(out, q, t, ldt, i, kLanes, width);
    for (; i < n; i += kLanes) table_tile<R, 1>(out, q, t, ldt, i, n - i, width);
  }
  static void table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                           const float* t, size_t ldt, size_t n, size_t width) {
    const Outputs out = {y, ldy, nullptr, 0};
    const Inputs in = {q, ldq};
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) table_rows<4>(out.from(r), in.from(r), t, ldt, n, width);
    for (; r < rows; ++r) table_rows<1>(out.from(r), in.from(r), t, ldt, n, width);
  }

  // Keys by a table, and by the queries where q.x is not NULL: row r's entries lie at t − r·step.
  struct KeyTable {
    const void* const* k_pages;
    const float* t;
    size_t ldt, step, width;
  };
  // Lanes low … high − 1 of a block whose lane `low` is at p; the others are +0.
  static PHASOR_INLINE V load_lanes(const float* p, size_t low, size_t high) {
    if (high - low == kLanes) return V::load(p);
    alignas(64) float lanes[kLanes] = {};
    for (size_t i = low; i < high; ++i) lanes[i] = p[i - low];
    return V::load(lanes);
  }
  // R rows by N whole pages from page `page` on, whose outputs and entries begin at `at`.
  template <size_t R, size_t N>
  static PHASOR_INLINE void key_table_tile(float* y, size_t ldy, const Inputs& q,
                                           const KeyTable& keys, size_t page, size_t at) {
    V acc[R][N];
    start_chains(acc);
    for (size_t d = 0; d < keys.width; ++d) {
      const float* entries = keys.t + at + d * keys.ldt;
      PHASOR_UNROLL for (size_t b = 0; b < N; ++b) {
        const V key = V::load(static_cast<const float*>(keys.k_pages[page + b]) + d * kLanes);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
          const V product = q.x != nullptr ? V::set(q.x[r * q.ldx + d]) * key : key;
          acc[r][b] = fma(product, V::load(entries - r * keys.step + b * kLanes), acc[r][b]);
        }
      }
    }
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
      PHASOR_UNROLL for (size_t b = 0; b < N; ++b) acc[r][b].store(y + r * ldy + at + b * kLanes);
  }
  // Keys low … high − 1 of one page, whose entries lie at t.
  static PHASOR_INLINE void key_table_part(float* y, const float* q, const float* keys, size_t low,
                                           size_t high, const float* t, size_t ldt, size_t width) {
    V acc = V::set(0.0f);
    for (size_t d = 0; d < width; ++d) {
      V key = V::load(keys + d * kLanes);
      if (q != nullptr) key = V::set(q[d]) * key;
      acc = fma(key, load_lanes(t + d * ldt, low, high), acc);
    }
    alignas(64) float lanes[kLanes];
    acc.store(lanes);
    for (size_t i = low; i < high; ++i) y[i - low] = lanes[i];
  }
  template <size_t R>
  static PHASOR_APART void key_table_rows(float* y, size_t ldy, const Inputs& q,
                                          const KeyTable& keys, size_t first, size_t end) {
    for (size_t j = first; j < end;) {
      const size_t page = j / kLanes, low = j % kLanes, left = end - j, at = j - first;
      if (low == 0 && left >= 2 * kLanes) {
        key_table_tile<R, 2>(y, ldy, q, keys, page, at);
        j += 2 * kLanes;
      } else if (low == 0 && left >= kLanes) {
        key_table_tile<R, 1>(y, ldy, q, keys, page, at);
        j += kLanes;
      } else {
        const size_t high = low + left < kLanes ? low + left : kLanes;
        for (size_t r = 0; r < R; ++r)
          key_table_part(y + r * ldy + at, q.x != nullptr ? q.x + r * q.ldx : nullptr,
                         static_cast<const float*>(keys.k_pages[page]), low, high,
                         keys.t + at - r * keys.step, keys.ldt, keys.width);
        j += high - low;
      }
    }
  }
  static void key_table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                               const void* const* k_pages, size_t first, size_t end, const float* t,
                               size_t ldt, size_t step, size_t width) {
    const size_t of_q = q != nullptr ? ldq : 0;
    size_t r = 0;
    for (; r + 4 <= rows; r += 4)
      key_table_rows<4>(y + r * ldy, ldy, {q + r * of_q, ldq},
                        {k_pages, t - r * step, ldt, step, width}, first, end);
    for (; r < rows; ++r)
      key_table_rows<1>(y + r * ldy, ldy, {q + r * of_q, ldq},
                        {k_pages, t - r * step, ldt, step, width}, first, end);
  }

  static PHASOR_APART void additive_scores(float* s, const float* q, const float* v,
                                           const void* const* k_pages, size_t pages, size_t width) {
    for (size_t p = 0; p < pages; ++p) {
      const float* keys = static_cast<const float*>(k_pages[p]);
      V acc = V::set(0.0f);
      for (size_t d = 0; d < width; ++d)
        acc = fma(V::set(v[d]), tanh_of(V::set(q[d]) + V::load(keys + d * kLanes)), acc);
      acc.store(s + p * kLanes);
    }
  }

  static void distance_bias(float* s, size_t first, size_t end, size_t query, float slope) {
    const V at = V::load(kLaneNumbers), query_at = V::set(float_of_size(query)),
            factor = V::set(slope), zero = V::set(0.0f);
    each<V>(s + first, end - first, [=](V x, size_t i, size_t) PHASOR_LAMBDA {
      // whole numbers below 2^24: exact
      const V distance = abs(query_at - (V::set(float_of_size(first + i)) + at));
      return fma(zero - distance, factor, x);
    });
  }

  // `other` in the lanes of the first and the last block that are not first … end − 1: whole
  // vectors, for the next reads are.
  static PHASOR_APART void mask_edges(float* s, size_t begin, size_t stop, size_t first, size_t end,
                                      float other) {
    const V lane = V::load(kLaneNumbers), none = V::set(other);
    where_gt(V::set(float_of_size(first - begin)), lane, none, V::load(s + begin)).store(s + begin);
    where_gt(V::set(float_of_size(end - (stop - kLanes))), lane, V::load(s + stop - kLanes), none)
        .store(s + stop - kLanes);
  }
  static float softmax(float* s, size_t first, size_t end) {
    if (first >= end) return 0.0f;
    const size_t begin = first / kLanes * kLanes, stop = up_to_lanes(end);
    const bool edges = begin != first || stop != end;
    if (edges) mask_edges(s, begin, stop, first, end, -kInfinity);
    V m = V::load(s + begin);
    for (size_t i = begin + kLanes; i < stop; i += kLanes) m = larger(m, V::load(s + i));
    const V largest = V::set(largest_lane(m));
    V sum = V::set(0.0f);
    for (size_t i = begin; i < stop; i += kLanes) {
      const V e = exp_not_positive(V::load(s + i) - largest);
      sum = sum + e;
      e.store(s + i);
    }
    // they are 0 already unless a key is NaN or all are −inf
    if (edges) mask_edges(s, begin, stop, first, end, 0.0f);
    return 1.0f / tree(sum);
  }

  static constexpr size_t kPagesAhead = 2;
  static PHASOR_INLINE V load_values(const float* p) { return V::load(p); }
  static PHASOR_INLINE V load_values(const uint16_t* p) {
    return L::half16(reinterpret_cast<const unsigned char*>(p));
  }
  // The values of a position from place `at` of the width on, block by block; next() goes to the
  // page's next position.
  template <class Value>
  struct Values {
    const Value* v;
    size_t ld;
    PHASOR_INLINE Values(const void* page, size_t slot, size_t ldv, size_t at)
        : v(static_cast<const Value*>(page) + slot * ldv + at), ld(ldv) {}
    PHASOR_INLINE V load(size_t block) const { return load_values(v + block * kLanes); }
    PHASOR_INLINE void ask_for(size_t blocks) const {
      for (size_t slot = 0; slot < kLanes; ++slot)
        ask(v + slot * ld, blocks * kLanes * sizeof(Value));
    }
    PHASOR_INLINE void next() { v += ld; }
  };
  // two blocks share a group; `at` is the first of its group, or there is one block only
  struct ValuesQ8 {
    const unsigned char *scale, *v;
    PHASOR_INLINE ValuesQ8(const void* page, size_t slot, size_t, size_t at)
        : scale(static_cast<const unsigned char*>(page) + cache_scale_q8(slot, at)),
          v(static_cast<const unsigned char*>(page) + cache_value_q8(slot, at)) {}
    PHASOR_INLINE V load(size_t block) const {
      float s;
      __builtin_memcpy(&s, scale + cache_scale_q8(0, block * kLanes), 4);
      return L::byte16(v + (cache_value_q8(0, block * kLanes) - kCacheScales)) * V::set(s);
    }
    PHASOR_INLINE void ask_for(size_t blocks) const {
      for (size_t block = 0; block < blocks; block += 2)
        ask(scale + cache_scale_q8(0, block * kLanes),
            block + 2 <= blocks ? kCacheGroup : kCacheScales + kLanes * kLanes);
    }
    PHASOR_INLINE void next() {
      scale += 4;
      v += kLanes;
    }
  };
  // What is mixed, for all rows: weights e with a factor inv each, over the keys of the pages'
  // values, ldv to a position.
  template <class Value>
  struct Mix {
    float* out;
    size_t ldo;
    const float* e;
    size_t lde;
    const float* inv;
    const void* const* v_pages;
    size_t ldv;
    KeyRange keys;
    using Of =
        std::conditional_t<std::is_same<Value, unsigned char>::value, ValuesQ8, Values<Value>>;
    PHASOR_INLINE Of values(size_t t, size_t at) const {
      return Of(v_pages[t / kLanes], t % kLanes, ldv, at);
    }
    PHASOR_INLINE size_t first(size_t row) const { return keys.first + row * keys.skip; }
    PHASOR_INLINE size_t end(size_t row) const { return keys.end + row * keys.more; }
  };
  // Goes on with the chains of R rows from `row` on by D blocks of 16 of the value's width, from
  // `at` on, over keys first … end − 1.
  template <size_t R, size_t D, class Value>
  static PHASOR_INLINE void mix_keys(V (&acc)[R][D], const Mix<Value>& mix, size_t row, size_t at,
                                     size_t first, size_t end) {
    const float* e[R];
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) e[r] = mix.e + (row + r) * mix.lde;
    for (size_t t = first; t < end;) {
      const size_t next_page = t / kLanes * kLanes + kLanes,
                   stop = next_page < end ? next_page : end;
      auto v = mix.values(t, at);
      if (T::kStream && t / kLanes + kPagesAhead <= (end - 1) / kLanes)
        mix.values((t / kLanes + kPagesAhead) * kLanes, at).ask_for(D);
      if constexpr (kByLane)
        for (; t + 4 <= stop; t += 4) {
          Four<A> et[R];
          PHASOR_UNROLL for (size_t r = 0; r < R; ++r) et[r] = Four<A>::load(e[r] + t);
          PHASOR_UNROLL for (size_t j = 0; j < 4; ++j, v.next())
            PHASOR_UNROLL for (size_t d = 0; d < D; ++d) {
              const V vt = v.load(d);
              PHASOR_UNROLL for (size_t r = 0; r < R; ++r) acc[r][d] = et[r].fma(j, vt, acc[r][d]);
            }
        }
      for (; t < stop; ++t, v.next()) {
        constexpr size_t kHeld = kHeldOf<V, R, D>;
        PHASOR_UNROLL for (size_t b = 0; b < D; b += kHeld) {
          V vt[kHeld];
          PHASOR_UNROLL for (size_t d = 0; d < kHeld; ++d) vt[d] = v.load(b + d);
          PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
            const V et = V::set(e[r][t]);
            PHASOR_UNROLL for (size_t d = 0; d < kHeld; ++d)
              acc[r][b + d] = fma(et, vt[d], acc[r][b + d]);
          }
        }
      }
    }
  }
  // The same for one row of several, over keys that it sees and not all others do.
  template <size_t D, class Value>
  static PHASOR_APART void mix_own(V (&acc)[1][D], const Mix<Value>& mix, size_t row, size_t at,
                                   size_t first, size_t end) {
    mix_keys(acc, mix, row, at, first, end);
  }
  template <size_t D, class Value>
  static PHASOR_INLINE void mix_one(V (&acc)[D], const Mix<Value>& mix, size_t row, size_t at,
                                    size_t first, size_t end) {
    if (first >= end) return;
    V own[1][D];
    PHASOR_UNROLL for (size_t d = 0; d < D; ++d) own[0][d] = acc[d];
    mix_own(own, mix, row, at, first, end);
    PHASOR_UNROLL for (size_t d = 0; d < D; ++d) acc[d] = own[0][d];
  }
  // n of the last block's lanes are written.
  template <size_t R, size_t D, class Value>
  static PHASOR_APART void mix_tile(const Mix<Value>& mix, size_t row, size_t at, size_t n) {
    V acc[R][D];
    start_chains(acc);
    if constexpr (R == 1) {
      mix_keys(acc, mix, row, at, mix.first(row), mix.end(row));
    } else {  // Keys that all rows see are mixed together; those before and after them row by row.
      const size_t last = mix.first(row + R - 1), end = mix.end(row),
                   shared = last < end ? last : end;
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
        mix_one(acc[r], mix, row + r, at, mix.first(row + r), shared);
      mix_keys(acc, mix, row, at, shared, end);
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
        const size_t first = mix.first(row + r);
        mix_one(acc[r], mix, row + r, at, first > end ? first : end, mix.end(row + r));
      }
    }
    const float* const inv = mix.inv + row;
    const size_t ldo = mix.ldo;
    float* const out = mix.out + row * ldo + at;
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
      const V factor = V::set(inv[r]);
      PHASOR_UNROLL for (size_t d = 0; d < D; ++d)
        (acc[r][d] * factor).store(out + r * ldo + d * kLanes, d == D - 1 ? n : kLanes);
    }
  }
  // All rows from `row` on: R rows at a time, the rest in one tile.
  template <size_t R, size_t D, class Value>
  static PHASOR_INLINE void mix_rows(const Mix<Value>& mix, size_t row, size_t rows, size_t at,
                                     size_t n) {
    for (; row + R <= rows; row += R) mix_tile<R, D>(mix, row, at, n);
    if constexpr (R > 1)
      if (row < rows) mix_rows<R - 1, D>(mix, row, rows, at, n);
  }
  template <size_t R, size_t D, class Value>
  static void mix_blocks(const Mix<Value>& mix, size_t rows, size_t at, size_t width) {
    const size_t step = D * kLanes;
    for (; at + step <= mix.ldv; at += step)
      mix_rows<R, D>(mix, 0, rows, at, at + step <= width ? kLanes : kLanes - (mix.ldv - width));
    if constexpr (D > 1)
      if (at < mix.ldv) mix_blocks<R, D / 2>(mix, rows, at, width);
  }
  template <class W>
  static void mix(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                  const void* const* v_pages, KeyRange keys, size_t width) {
    Mix<typename W::Value> mix;
    mix.out = out;
    mix.ldo = ldo;
    mix.e = e;
    mix.lde = lde;
    mix.inv = inv;
    mix.v_pages = v_pages;
    mix.ldv = up_to_lanes(width);
    mix.keys = keys;
    if (rows == 1)
      mix_blocks<1, T::kOneRow>(mix, 1, 0, width);
    else
      mix_blocks<(T::kRows < 4 ? T::kRows : 4), T::kPanels>(mix, rows, 0, width);
  }

  static PHASOR_APART void mix_table(float* out, const float* e, const float* t, size_t step,
                                     size_t n, size_t width) {
    for (size_t at = 0; at < width; at += kLanes) {
      const size_t m = width - at;
      V acc = V::load(out + at, m);
      for (size_t i = 0; i < n; ++i) acc = fma(V::set(e[i]), V::load(t + i * step + at, m), acc);
      acc.store(out + at, m);
    }
  }
};

}  // namespace
}  // namespace phasor
