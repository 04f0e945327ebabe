// The linear products of the vector levels with quantized weights, in tiles of rows by panels: one
// chain over groups (group_sums.hpp), or exact sums of all of K (rules 1.18 and 1.19). One row
// streams its weights from memory; many rows share panels that are unpacked once.
#pragma once
#include <type_traits>

#include "group_sums.hpp"
#include "rounding.hpp"

namespace phasor {
namespace {

template <class L>
struct Quantized : Rounding<L> {
  using V = v16<typename L::Arch>;
  using T = typename L::Tiles;
  using Sums = GroupSums<L>;
  using Of = IntWeights<L>;
#define PHASOR_OF_WEIGHTS(type, Weights, ...) using Weights = typename Of::Weights;
  PHASOR_INT8_TYPES(PHASOR_OF_WEIGHTS, )
#undef PHASOR_OF_WEIGHTS
  template <class Q>
  using Wide = typename Of::template Wide<Q>;

  // Outputs of R rows by P panels, whose scales and groups begin at `scales` and w.
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE void grouped_tile(V (&acc)[R][P], const IntRows<Q::kPlanes> (&rows)[R],
                                         const unsigned char* const (&scale_plane)[P],
                                         const unsigned char* const (&values)[P], Ahead& ahead) {
    typename Q::Record supers[P];
    start_chains(acc);
    for (size_t g = 0; g < rows[0].groups; ++g) {
      if constexpr (T::kStream) ahead.ask();
      typename Q::Sum sum[R * Q::kPlanes][P];
      if constexpr (!Q::kFine) Sums::template sum_group<Q, R, P>(sum, rows, scale_plane, values, g);
      V scales[P][kOf<Q>];
      if constexpr (Q::kSupers) {
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) {
          if (g % kSuper == 0) super_of(supers[p], scale_plane[p], g);
          PHASOR_UNROLL for (size_t i = 0; i < kOf<Q>; ++i)
            scales[p][i] = supers[p].at(g % kSuper, i);
        }
      } else {
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) Q::scales(scales[p], scale_plane[p], g);
      }
      if constexpr (Q::kFine)
        Sums::template add_halves<Q, R, P>(acc, rows, values, g, scales);
      else
        Sums::template add_group<Q, R, P>(acc, sum, rows, g, scales,
                           [&](size_t r) PHASOR_LAMBDA { return rows[r].scaled_total(g); });
    }
  }
  // Where P panels that begin at w have their scales, and their values.
  template <class Q, size_t P>
  struct Panels {
    const unsigned char *planes[P], *values[P];
    PHASOR_INLINE Panels(const unsigned char* w, size_t groups) {
      const size_t plane = Q::plane(groups), bytes = plane + groups * Q::kGroupBytes;
      PHASOR_UNROLL for (size_t p = 0; p < P; ++p) {
        planes[p] = w + p * bytes;
        values[p] = planes[p] + plane;
      }
    }
  };
  // Groups of P panels as products take them, with their scales in float, on the stack and in the
  // first-level cache: unpacked once for all rows. With fewer rows than kManyRows that costs more
  // than it saves, and of q8 with inputs of 8 bits there is little to unpack.
  static constexpr size_t kManyRows = 32, kBlockBytes = 12288;
  template <class Q>
  static constexpr bool kUnpacks = T::kStream && !Q::kOneScale && !std::is_same<Q, Q8>::value;
  template <class Q, size_t P>
  struct Block {
    static constexpr size_t kGroups = kBlockBytes / sizeof(typename Q::Unpacked) / P;
    typename Q::Unpacked values[P][kGroups];
    alignas(64) float scales[P][kGroups][kOf<Q>][kLanes];
  };
  template <class Q, size_t P>
  static PHASOR_INLINE void unpack(Block<Q, P>& to, const unsigned char* const (&scale_plane)[P],
                                   const unsigned char* const (&values)[P], size_t first,
                                   size_t count) {
    for (size_t p = 0; p < P; ++p) {
      typename Q::Record super;
      for (size_t i = 0; i < count; ++i) {
        const size_t g = first + i;
        Q::unpack(to.values[p][i], values[p] + g * Q::kGroupBytes, scale_plane[p]);
        V scales[kOf<Q>];
        if constexpr (Q::kSupers) {
          if (i == 0 || g % kSuper == 0) super_of(super, scale_plane[p], g);
          PHASOR_UNROLL for (size_t n = 0; n < kOf<Q>; ++n) scales[n] = super.at(g % kSuper, n);
        } else {
          Q::scales(scales, scale_plane[p], g);
        }
        PHASOR_UNROLL for (size_t n = 0; n < kOf<Q>; ++n) scales[n].store(to.scales[p][i][n]);
      }
    }
  }
  // R rows at a time by `count` groups, from the rows' first on. begins: the chains begin here,
  // else they wait in out.y.
  template <class Q, size_t R, size_t P>
  static PHASOR_APART void block_rows(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                      size_t rows, const Block<Q, P>& block, size_t count,
                                      bool begins, size_t at, Ahead& ahead) {
    for (size_t r = 0; r < rows; r += R) {
      IntRows<Q::kPlanes> tile[R];
      V acc[R][P];
      float totals[R][Q::kMinima ? Block<Q, P>::kGroups : 1];
      int32_t words[Q::kFine ? Block<Q, P>::kGroups : 1][R * Q::kPlanes][2];
      PHASOR_UNROLL for (size_t i = 0; i < R; ++i) {
        tile[i] = in.from(r + i);
        if constexpr (Q::kMinima)
          for (size_t g = 0; g < count; ++g) totals[i][g] = tile[i].scaled_total(g);
      }
      if constexpr (Q::kFine)
        for (size_t g = 0; g < count; ++g)
          PHASOR_UNROLL for (size_t i = 0; i < R * Q::kPlanes; ++i)
            Sums::template words_of<Q>(words[g][i], tile, i, g);
      start_chains(acc);
      if (!begins)
        PHASOR_UNROLL for (size_t i = 0; i < R; ++i)
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
            acc[i][p] = V::load(out.y + (r + i) * out.ldy + at + p * kLanes);
      for (size_t g = 0; g < count; ++g) {
        ahead.ask();
        typename Q::Sum sum[R * Q::kPlanes][P];
        const int8_t* x[R * Q::kPlanes];
        const typename Q::Unpacked* w[P];
        V scales[P][kOf<Q>];
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) w[p] = &block.values[p][g];
        if constexpr (!Q::kFine) {
          Sums::template start_group<Q, R, P>(sum, x, tile, g);
          Q::products(sum, x, w);
        }
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
          PHASOR_UNROLL for (size_t n = 0; n < kOf<Q>; ++n)
            scales[p][n] = V::load(block.scales[p][g][n]);
        if constexpr (Q::kFine)
          Sums::template add_halves<Q, R, P>(acc, tile, w, g, scales, words[g]);
        else
          Sums::template add_group<Q, R, P>(acc, sum, tile, g, scales,
                             [&](size_t i) PHASOR_LAMBDA { return totals[i][g]; });
      }
      store_tile(out.from(r), acc, at);
    }
  }
  // `rows`, a multiple of R, by P panels that begin at w. `at`: the first output.
  template <class Q, size_t R, size_t P>
  static PHASOR_APART void unpacked_rows(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                         size_t rows, const unsigned char* w, size_t at,
                                         const Next& next) {
    const size_t groups = in.groups;
    const Panels<Q, P> of(w, groups);
    Block<Q, P> block;
    Ahead ahead(next, rows / R * groups);
    size_t first = 0, count;
    do {
      const size_t left = groups - first;
      count = left < block.kGroups ? left : block.kGroups;
      unpack<Q, P>(block, of.planes, of.values, first, count);
      block_rows<Q, R, P>(count == left ? out : Outputs{out.y, out.ldy, nullptr, 0},
                          in.group(first), rows, block, count, first == 0, at, ahead);
      first += count;
    } while (first < groups);
  }
  // ask(w): asks for weights, where the first panel's are at w.
  template <class Q, size_t R, size_t P, class Ask>
  static PHASOR_INLINE void whole_tile(V (&acc)[R][P], const IntRows<Q::kPlanes> (&rows)[R],
                                       const unsigned char* const (&scale_plane)[P],
                                       const unsigned char* const (&values)[P], Ask ask) {
    constexpr size_t kPlanes = Q::kPlanes, kRows = R * kPlanes;
    constexpr size_t kSums = R * P == 1 && L::Int8::kChains > 1 ? L::Int8::kChains / kPlanes : 1;
    typename Q::Sum sum[kSums][kRows][P];
    const int8_t* x[kRows];
    const unsigned char* w[P];
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) w[p] = values[p];
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
      x[r] = rows[r / kPlanes].plane(r % kPlanes);
      PHASOR_UNROLL for (size_t i = 0; i < kSums; ++i) {
        const typename Q::Sum start =
            Q::start(i == 0 ? rows[r / kPlanes].sum_at(r % kPlanes, 0) : 0);
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) sum[i][r][p] = start;
      }
    }
    for (size_t g = rows[0].groups; g != 0; --g) {
      ask(w[0]);
      Q::products(sum, x, w);
      PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) x[r] += kGroup;
      PHASOR_UNROLL for (size_t p = 0; p < P; ++p) w[p] += Q::kGroupBytes;
    }
    if constexpr (kSums > 1)
      PHASOR_UNROLL for (size_t i = 1; i < kSums; ++i)
        PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) Q::join(sum[0][r][0], sum[i][r][0]);
    PHASOR_UNROLL for (size_t p = 0; p < P; ++p) {
      const V scales = V::load(reinterpret_cast<const float*>(scale_plane[p]));
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
        acc[r][p] = Sums::template sum_of<Q>(sum[0], r, p) * (V::set(rows[r].scale[0]) * scales);
    }
  }
  // One row's weights come from memory, and the arithmetic of a few groups fills the window of
  // instructions in which a processor begins loads. So each line is asked for ahead of its use:
  // kNear bytes into the first-level cache, and `far` bytes into the second, across the ends of
  // pages where the hardware's own requests stop. In bursts they help half as much.
  static constexpr size_t kNear = 1024, kFar = 4096;
  template <size_t Bytes>
  static PHASOR_INLINE void ask_ahead(const unsigned char* at, size_t far) {
    if constexpr (T::kStream) {
      const uintptr_t from = reinterpret_cast<uintptr_t>(at);
      PHASOR_UNROLL for (size_t i = 0; i < Bytes; i += 64) {
        __builtin_prefetch(reinterpret_cast<const void*>(from + kNear + i), 0, 3);
        __builtin_prefetch(reinterpret_cast<const void*>(from + far + i), 0, 2);
      }
    }
  }
  // One row by one panel: the scales of 64 groups, or what eight groups share of them, then the
  // groups.
  template <class Q>
  static PHASOR_INLINE void stream_tile(V (&acc)[1][1], const IntRows<Q::kPlanes> (&row)[1],
                                        const unsigned char* const (&planes)[1],
                                        const unsigned char* const (&values)[1], size_t groups,
                                        size_t far) {
    const unsigned char* const plane = planes[0];
    constexpr size_t kScales = 64;
    using Kept = std::conditional_t<Q::kSupers, typename Q::Record[kScales / kSuper],
                                    float[kScales][kOf<Q>][kLanes]>;
    alignas(64) Kept kept;
    for (size_t first = 0; first < groups; first += kScales) {
      const size_t end = groups - first < kScales ? groups : first + kScales;
      V of[1][kOf<Q>];
      constexpr size_t kStep = Q::kSupers ? kSuper : Q::kSharing;
      for (size_t g = first; g < end; g += kStep) {
        const size_t at = g / kStep * Q::kScaleBytes;
        if (Q::kScaleBytes >= 64 || at % 64 == 0) ask_ahead<Q::kScaleBytes>(plane + at, far);
        if constexpr (Q::kSupers) {
          super_of(kept[(g - first) / kSuper], plane, g);
        } else {
          Q::scales(of[0], plane, g);
          float(&to)[kOf<Q>][kLanes] = kept[(g - first) / Q::kSharing];
          PHASOR_UNROLL for (size_t i = 0; i < kOf<Q>; ++i) of[0][i].store(to[i]);
        }
      }
      for (size_t g = first; g < end; ++g) {
        ask_ahead<Q::kGroupBytes>(values[0] + g * Q::kGroupBytes, far);
        typename Q::Sum sum[Q::kPlanes][1];
        if constexpr (!Q::kFine) Sums::template sum_group<Q, 1, 1>(sum, row, planes, values, g);
        PHASOR_UNROLL for (size_t i = 0; i < kOf<Q>; ++i) {
          if constexpr (Q::kSupers)
            of[0][i] = kept[(g - first) / kSuper].at(g % kSuper, i);
          else
            of[0][i] = V::load(kept[(g - first) / Q::kSharing][i]);
        }
        if constexpr (Q::kFine)
          Sums::template add_halves<Q, 1, 1>(acc, row, values, g, of);
        else
          Sums::template add_group<Q, 1, 1>(acc, sum, row, g, of,
                             [&](size_t) PHASOR_LAMBDA { return row[0].scaled_total(g); });
      }
    }
  }
  // One row: the weights come from memory, which is fastest when all of it is read in one
  // direction. So one panel after the other, and of each the scales before the groups.
  template <class Q>
  static PHASOR_APART void quantized_stream(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                            const unsigned char* w, size_t panels) {
    const size_t groups = in.groups, plane = Q::plane(groups),
                 bytes = plane + groups * Q::kGroupBytes;
    const size_t far = panels * bytes > Linear<L>::kCached ? kFar : 0;
    const IntRows<Q::kPlanes> row[1] = {in};
    for (size_t p = 0; p < panels; ++p, w += bytes) {
      const unsigned char *planes[1] = {w}, *values[1] = {w + plane};
      V acc[1][1];
      if constexpr (Q::kOneScale) {
        whole_tile<Q, 1, 1>(acc, row, planes, values, [=](const unsigned char* at) PHASOR_LAMBDA {
          ask_ahead<Q::kGroupBytes>(at, far);
        });
      } else {
        start_chains(acc);
        stream_tile<Q>(acc, row, planes, values, groups, far);
      }
      store_tile(out, acc, p * kLanes);
    }
  }
  // The same where the inputs become something first, tables or words: those of some groups, then
  // all panels by them. Chains wait in y.
  template <class Q>
  static PHASOR_APART void prepared_stream(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                            const unsigned char* w, size_t panels) {
    constexpr size_t kPlanes = Q::kPlanes, kAtOnce = 256 / kPlanes;
    constexpr bool kTables = Q::kInputs != 0;
    alignas(64) int8_t tables[kTables ? kPlanes * kAtOnce * Q::kInputs : 1];
    int32_t starts[kPlanes * kAtOnce * Q::kStarts];
    const size_t groups = in.groups, plane = Q::plane(groups),
                 bytes = plane + groups * Q::kGroupBytes,
                 far = panels * bytes > Linear<L>::kCached ? kFar : 0;
    size_t first = 0;
    do {
      const size_t left = groups - first, count = left < kAtOnce ? left : kAtOnce;
      for (size_t i = 0; i < kPlanes; ++i)
        for (size_t g = 0; g < count; ++g)
          Q::prepare(tables + (i * count + g) * Q::kInputs, starts + (i * count + g) * Q::kStarts,
                     in.plane(i) + (first + g) * kGroup);
      const IntRows<kPlanes> row[1] = {{kTables ? tables : in.q + first * kGroup, in.scale + first,
                                        starts, kTables ? count : groups, count * Q::kStarts}};
      const Outputs to = count == left ? out : Outputs{out.y, out.ldy, nullptr, 0};
      for (size_t p = 0; p < panels; ++p) {
        const unsigned char* panel = w + p * bytes;
        const unsigned char *planes[1] = {panel + Q::scales_at(first)},
                            *values[1] = {panel + plane + first * Q::kGroupBytes};
        V acc[1][1];
        start_chains(acc);
        if (first != 0) acc[0][0] = V::load(out.y + p * kLanes);
        stream_tile<Q>(acc, row, planes, values, count, far);
        store_tile(to, acc, p * kLanes);
      }
      first += kAtOnce;
    } while (first < groups);
  }
  // All rows by P panels that begin at w: R rows at a time, the rest in one tile. `at`: the first
  // output.
  template <class Q, size_t R, size_t P>
  static PHASOR_APART void quantized_rows(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                          size_t rows, const unsigned char* w, size_t at,
                                          const Next& next) {
    const Panels<Q, P> of(w, in.groups);
    Ahead ahead(next, rows / R * in.groups);
    size_t r = 0;
    for (; r + R <= rows; r += R) {
      IntRows<Q::kPlanes> tile[R];
      PHASOR_UNROLL for (size_t i = 0; i < R; ++i) tile[i] = in.from(r + i);
      V acc[R][P];
      if constexpr (Q::kOneScale)
        whole_tile<Q, R, P>(acc, tile, of.planes, of.values, [&](const void*) PHASOR_LAMBDA {
          if constexpr (T::kStream && R > 1) ahead.ask();
        });
      else
        grouped_tile<Q, R, P>(acc, tile, of.planes, of.values, ahead);
      store_tile(out.from(r), acc, at);
    }
    if constexpr (R > 1)
      if (r < rows)
        few_rows<Q, R - 1, P>(out.from(r), in.from(r), rows - r, w, at,
                              r == 0 ? next : kNothingNext);
  }
  // R rows or fewer, in one tile.
  template <class Q, size_t R, size_t P>
  static PHASOR_INLINE void few_rows(const Outputs& out, const IntRows<Q::kPlanes>& in, size_t rows,
                                     const unsigned char* w, size_t at, const Next& next) {
    if (rows == R) return quantized_rows<Q, R, P>(out, in, R, w, at, next);
    if constexpr (R > 1) few_rows<Q, R - 1, P>(out, in, rows, w, at, next);
  }
  template <class Q, size_t R, size_t P>
  static void quantized_panels(const Outputs& out, const IntRows<Q::kPlanes>& in, size_t rows,
                               const unsigned char* w, size_t first, size_t stop) {
    const size_t bytes = Q::plane(in.groups) + in.groups * Q::kGroupBytes;
    size_t p = first;
    for (; p + P <= stop; p += P) {
      const unsigned char* const panel = w + p * bytes;
      const Next next{reinterpret_cast<uintptr_t>(panel) + P * bytes, P * bytes, 1, 0};
      size_t done = 0;
      if constexpr (kUnpacks<Q> && R * Q::kPlanes > 1)
        if (rows >= kManyRows) {
          constexpr size_t kAtOnce = Q::kPlanes == 2 ? T::kRowsUnpacked16 : R;
          done = rows / kAtOnce * kAtOnce;
          unpacked_rows<Q, kAtOnce, P>(out, in, done, panel, p * kLanes, next);
        }
      if (done < rows)
        quantized_rows<Q, R, P>(out.from(done), in.from(done), rows - done, panel, p * kLanes,
                                done == 0 ? next : kNothingNext);
    }
    if constexpr (P > 1)
      if (p < stop) quantized_panels<Q, R, P / 2>(out, in, rows, w, p, stop);
  }
  // Planes take the registers of rows.
  template <class Q>
  static constexpr size_t rows_at_once(size_t rows) {
    return rows < Q::kPlanes ? 1 : rows / Q::kPlanes;
  }
  template <class Q>
  static PHASOR_INLINE void linear_quantized(const Outputs& out, const IntRows<Q::kPlanes>& in,
                                             size_t rows, const void* w, size_t panels) {
    const unsigned char* bytes = static_cast<const unsigned char*>(w);
    // Codes take the registers that sums of groups in float have.
    constexpr bool kCoded = std::is_base_of<Q2r, Q>::value;
    constexpr size_t kRows = rows_at_once<Q>(T::kRowsInt8),
                     kRowsWhole = kCoded ? kRows : rows_at_once<Q>(T::kRowsWhole),
                     kPanelsWhole = kCoded ? T::kPanelsInt8 : T::kPanelsWhole;
    constexpr bool kLooked = std::is_base_of<Q1, Q>::value;
    if constexpr (T::kStream && (kLooked || Q::kFine))
      if (rows == 1) {
        using Tables = std::conditional_t<Q::kPlanes == 2, Wide<typename Of::LookedUp>,
                                          typename Of::LookedUp>;
        using One = std::conditional_t<kLooked, Tables, typename Of::template Begun<Q>>;
        return prepared_stream<One>(out, in, bytes, panels);
      }
    if (T::kStream && rows == 1)
      quantized_stream<Q>(out, in, bytes, panels);
    else if (rows == 1)
      quantized_panels<Q, 1, Q::kOneScale ? 1 : T::kOneRowInt8>(out, in, 1, bytes, 0, panels);
    else if constexpr (Q::kOneScale)
      quantized_panels<Q, kRowsWhole, kPanelsWhole>(out, in, rows, bytes, 0, panels);
    else
      quantized_panels<Q, kRows, T::kPanelsInt8>(out, in, rows, bytes, 0, panels);
  }
  template <class Q>
  static PHASOR_INLINE IntRows<Q::kPlanes> rows_of(const int8_t* xq, const float* xs,
                                                   const int32_t* xsum, size_t groups) {
    return {xq, xs, xsum, groups, Q::kOneScale ? 1 : groups};
  }
  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    linear_quantized<Q>({y, ldy, bias, bias_n}, rows_of<Q>(xq, xs, xsum, groups), rows, w, panels);
  }
  template <class Q>
  static void linear_int16(float* y, size_t ldy, const int8_t* xq, const float* xs,
                           const int32_t* xsum, size_t rows, const void* w, const float* bias,
                           size_t bias_n, size_t panels, size_t groups) {
    using W = Wide<Q>;
    linear_quantized<W>({y, ldy, bias, bias_n}, rows_of<W>(xq, xs, xsum, groups), rows, w, panels);
  }
};

}  // namespace
}  // namespace phasor
