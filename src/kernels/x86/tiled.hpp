// Linear products of the quantized types on a matrix unit: tiles of 16 rows by 16 outputs whose
// integer sums are exact in any order (rules 1.2, 1.4, 1.18, 1.20, 1.21, 1.23, 1.24, 1.27, 1.28 and
// 1.30). 1,024 bytes of a panel of int8 are one tile of 64 values of k; a row of activations is
// taken where it lies.
//
// Plain C++ over two types, so that every machine can test it:
//   Unit  the matrix unit: TileUnit (tile_unit.hpp), or its twin in tests/cpp/tile_twin.h
//   F     V, 16 floats; sums(p), 16 int32 as V; half16(p) and byte16(p), 16 f16 or int8 as V; and
//         linear_q8 and the like of Kernels, for inputs of 8 and of 16 bits, for rows that fill no
//         tile; look_up
#pragma once
#include <type_traits>

#include "../coded.hpp"
#include "../constants.hpp"
#include "../kernels.h"
#include "../outputs.hpp"

namespace phasor {
namespace {

// What ldtilecfg reads.
struct alignas(64) TileConfig {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(TileConfig) == 64, "64 bytes");

constexpr size_t kTileRows = 16, kTileRowBytes = 64;
// The tiles' parts: the sums of up to four blocks of 16 outputs, activations, weights.
constexpr size_t kSumTiles = 4, kRowTile = 4, kWeightTile = 6, kTiles = 8;

// For `rows` rows of activations and `depth` values of k at a time.
PHASOR_INLINE TileConfig tile_config(size_t rows, size_t depth) {
  TileConfig c = {};
  c.palette = 1;
  for (size_t t = 0; t < kTiles; ++t) {
    c.rows[t] = static_cast<uint8_t>(t < kWeightTile ? rows : depth / 4);
    c.row_bytes[t] =
        static_cast<uint16_t>(t >= kRowTile && t < kWeightTile ? depth : kTileRowBytes);
  }
  return c;
}

// Rows in int8 as quantize_row or quantize_whole leave them: `stride` bytes apart, with `scales`
// scales, and as many sums in each plane.
struct TileInput {
  const int8_t* q;
  const float* scale;
  const int32_t* sum;
  size_t stride, scales;
};

template <class F, class Unit>
struct Tiled {
  using V = typename F::V;

  // ---------------------------------------------------------------- the types

  // Codes of `count` groups at `from`, in a panel that begins with a table if its type has one, as
  // the int8 that they stand for.
  template <Type T>
  static PHASOR_INLINE void unpack(unsigned char* to, const unsigned char* panel,
                                   const unsigned char* from, size_t count) {
    constexpr unsigned kBits = value_bits(T);
    constexpr size_t kBytes = kLanes * code_bytes(kBits);
    for (size_t g = 0; g < count; ++g, to += kLanes * kGroup, from += kBytes) {
      if constexpr (lookup_type(T))
        F::look_up(to, from,
                   table_type(T) ? panel : reinterpret_cast<const unsigned char*>(kRoundedTable));
      else if constexpr (low_bits(kBits) != kBits)
        each<kGroup / 4>([&](auto s) PHASOR_LAMBDA {
          using Step = CodeStep<T, s>;
          constexpr int kMove = Step::kHighMove, kLeft = kMove < 0 ? -kMove : 0,
                        kRight = kMove < 0 ? 0 : kMove;
          for (size_t i = 0; i < kTileRowBytes; ++i) {
            const unsigned low = from[Step::kLowAt + i],
                           moved = unsigned{from[Step::kHighAt + i]} << kLeft >> kRight;
            to[s * kTileRowBytes + i] = static_cast<unsigned char>(
                (low >> Step::kLowMove & Step::kLowMask) + (moved & Step::kHighMask) -
                code_less(T));
          }
        });
      else
        PHASOR_UNROLL for (size_t f = 0; f < 8 / kBits; ++f)
          for (size_t i = 0; i < kBytes; ++i)
            to[f * kBytes + i] = static_cast<unsigned char>(
                code_value(T, panel, unsigned{from[i]} >> f * kBits & ((1u << kBits) - 1)));
    }
  }

  // Where the values of `count` groups from `from` on are as int8, and how many groups at once:
  // codes become what they stand for.
  template <Type T>
  struct WeightsOf {
    static constexpr Type kType = T;
    static constexpr size_t kPlanes = 1;
    static constexpr bool kCoded = value_bits(T) < 8;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T)),
                            kAtOnce = kCoded ? 8 : SIZE_MAX,
                            kRoom = kCoded ? kAtOnce * kLanes * kGroup : 1;
    static PHASOR_INLINE const unsigned char* values(unsigned char* to, const unsigned char* panel,
                                                     const unsigned char* from, size_t count) {
      if constexpr (kCoded) unpack<T>(to, panel, from, count);
      return kCoded ? to : from;
    }
  };
#define PHASOR_OF_TILES(type, Name, ...)                                            \
  struct Name : WeightsOf<Type::type> {                                              \
    static constexpr auto *kRows = F::linear_##type, *kRows16 = F::linear16_##type; \
  };
  PHASOR_INT8_TYPES(PHASOR_OF_TILES, )
#undef PHASOR_OF_TILES
  // The same weights for inputs of 16 bits: a tile of sums for each plane (rule 1.21).
  template <class Q>
  struct Wide : Q {
    static constexpr size_t kPlanes = 2;
    static constexpr auto* kRows = Q::kRows16;
  };

  // ---------------------------------------------------------------- q8r, q2r: sums of all of K

  // Sums that are in memory and not yet outputs: they become some while the next are computed,
  // for which the vector unit has time. Of inputs of 16 bits each output has two (rule 1.21), those
  // of the planes lo behind all of hi.
  template <size_t Planes>
  class Waiting {
   public:
    // `rows` rows of the tile whose sums are in place `tile`, or will be: their outputs from o on.
    PHASOR_INLINE void add(size_t tile, const Outputs& out, const float* scale,
                           const unsigned char* panel, size_t o) {
      y_[tile] = out.y + o;
      x_scale_[tile] = scale;
      V::load(reinterpret_cast<const float*>(panel)).store(w_scale_[tile]);
      bias_lanes<V>(out, o).store(bias_[tile]);
    }
    PHASOR_INLINE void start(size_t tiles, size_t rows, size_t ldy) {
      tiles_ = tiles;
      rows_ = rows;
      ldy_ = ldy;
      tile_ = row_ = 0;
    }
    PHASOR_INLINE int32_t* sums(size_t tile) { return sums_[tile]; }
    PHASOR_INLINE size_t count() const { return tiles_ * rows_; }
    // The outputs of `count` rows more, or of those that are left.
    PHASOR_INLINE void some(size_t count) {
      for (; tile_ < tiles_ && count != 0; ++tile_, row_ = 0) {
        const V w = V::load(w_scale_[tile_]), bias = V::load(bias_[tile_]);
        for (; row_ < rows_ && count != 0; ++row_, --count) {
          V sum = F::sums(sums_[tile_] + row_ * kLanes);
          if constexpr (Planes == 2)
            sum = fma(V::set(255.0f), sum, F::sums(sums_[tiles_ + tile_] + row_ * kLanes));
          (sum * (V::set(x_scale_[tile_][row_]) * w) + bias).store(y_[tile_] + row_ * ldy_);
        }
        if (row_ < rows_) return;
      }
    }

   private:
    alignas(64) int32_t sums_[kSumTiles][kTileRows * kLanes];
    alignas(64) float w_scale_[kSumTiles][kLanes];
    alignas(64) float bias_[kSumTiles][kLanes];
    float* y_[kSumTiles];
    const float* x_scale_[kSumTiles];
    size_t tiles_ = 0, rows_ = 0, ldy_ = 0, tile_ = 0, row_ = 0;
  };

  // The rows in tiles of equal height, the last of which may begin within the one before: its
  // outputs are the same.
  struct Split {
    size_t tiles, height, last;
    explicit Split(size_t rows)
        : tiles((rows + kTileRows - 1) / kTileRows),
          height((rows + tiles - 1) / tiles),
          last(rows - height) {}
    size_t begin(size_t i) const { return i * height < last ? i * height : last; }
  };

  template <class Q>
  struct Whole {
    static constexpr Type T = Q::kType;
    static constexpr size_t kPlanes = Q::kPlanes;
    static constexpr bool kCoded = Q::kCoded;
    static constexpr size_t kStepBytes = kTileRows * kRowStep * value_bits(T) / 8;
    const Outputs& out;
    const TileInput& in;
    const unsigned char* w;
    size_t bytes, steps;  // of a panel; of 64 values
    Split split;

    // R tiles of rows, from tile i on, by P panels, from panel p on.
    template <size_t R, size_t P>
    PHASOR_INLINE void block(Unit& unit, Waiting<kPlanes>& wait, Ahead& ahead, size_t i,
                             size_t p) const {
      constexpr size_t kInputs = R * kPlanes;  // tiles
      static_assert(kInputs * P <= kSumTiles && kInputs <= kWeightTile - kRowTile,
                    "more than the tiles hold");
      const int8_t* x[kInputs];
      const unsigned char* values[P];
      for (size_t n = 0; n < kInputs; ++n)
        x[n] = in.q + split.begin(i + n % R) * in.stride + n / R * (in.stride / kPlanes);
      for (size_t j = 0; j < P; ++j) values[j] = w + (p + j) * bytes + kLanes * sizeof(float);
      alignas(64) unsigned char room[kCoded ? kTileRows * kTileRowBytes : 1];
      const size_t count = steps, stride = in.stride, some = (wait.count() + count - 1) / count;
      each<kInputs * P>([&](auto t) PHASOR_LAMBDA { unit.template zero<t>(); });
      for (size_t k = 0; k < count; ++k) {
        each<kInputs>([&](auto n) PHASOR_LAMBDA {
          unit.template load<kRowTile + n>(x[n], stride);
          x[n] += kTileRowBytes;
        });
        each<P>([&](auto j) PHASOR_LAMBDA {
          constexpr size_t kColumn = j, kWeights = kWeightTile + kColumn % 2;
          if constexpr (kCoded) unpack<T>(room, values[j], values[j], kRowStep / kGroup);
          unit.template load<kWeights>(kCoded ? room : values[j], kTileRowBytes);
          values[j] += kStepBytes;
          each<kInputs>([&](auto n) PHASOR_LAMBDA {
            unit.template dot<n * P + kColumn, kRowTile + n, kWeights>();
          });
        });
        ahead.ask();
        wait.some(some);
      }
      wait.some(wait.count());
      each<kInputs * P>([&](auto t) PHASOR_LAMBDA {
        unit.template store<t>(wait.sums(t), kTileRowBytes);
      });
      each<R * P>([&](auto t) PHASOR_LAMBDA {
        const size_t row = split.begin(i + t / P), panel = p + t % P;
        wait.add(t, out.from(row), in.scale + row, w + panel * bytes, panel * kLanes);
      });
      wait.start(R * P, split.height, out.ldy);
    }
    // All rows by P panels: as many tiles of rows at a time as there is room for, the last alone
    // where it is left over.
    template <size_t P>
    PHASOR_APART void rows(Unit& unit, Waiting<kPlanes>& wait, size_t p) const {
      constexpr size_t kRows = 2 / kPlanes, kPair = P < 2 ? P : 2;
      const Next next = {reinterpret_cast<uintptr_t>(w) + (p + P) * bytes, P * bytes, 1, 0};
      Ahead ahead(next, (split.tiles / kRows * (P / kPair) + split.tiles % kRows) * steps);
      size_t i = 0;
      for (; i + kRows <= split.tiles; i += kRows)
        for (size_t j = 0; j < P; j += kPair) block<kRows, kPair>(unit, wait, ahead, i, p + j);
      if constexpr (kRows > 1)
        if (i < split.tiles) block<1, P>(unit, wait, ahead, i, p);
    }
  };

  template <class Q>
  static void whole(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum,
                    size_t rows, const void* w, const float* bias, size_t bias_n, size_t panels,
                    size_t groups) {
    if (rows < 2) return Q::kRows(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
    const Outputs out = {y, ldy, bias, bias_n};
    const TileInput in = {xq, xs, xsum, Q::kPlanes * groups * kGroup, 1};
    const Whole<Q> product = {out,
                              in,
                              static_cast<const unsigned char*>(w),
                              static_cast<size_t>(panel_bytes(Q::kType, groups * kGroup)),
                              groups * kGroup / kRowStep,
                              Split(rows)};
    const TileConfig config = tile_config(product.split.height, kRowStep);
    Unit unit(config);
    Waiting<Q::kPlanes> wait;
    size_t p = 0;
    for (; p + 4 <= panels; p += 4) product.template rows<4>(unit, wait, p);
    if (p + 2 <= panels) product.template rows<2>(unit, wait, p), p += 2;
    if (p < panels) product.template rows<1>(unit, wait, p);
    wait.some(wait.count());
  }

  // ---------------------------------------------------------------- the others: sums of a group

  // Scales of eight groups are in a record, and become floats.
  static constexpr bool in_records(Type type) { return record_groups(type) == kSuper; }
  template <Type T>
  using Record = std::conditional_t<minimum_type(T), Super<F>, Coded<F, T>>;
  // Columns of a sum, and sums of a group.
  template <class Q>
  static constexpr size_t kWidth = scale_span(Q::kType);
  template <class Q>
  static constexpr size_t kParts = kGroup / kWidth<Q>;
  static constexpr size_t kAhead = 2;  // tiles: multiplied before the ones before are scaled
  template <class Q>
  static constexpr size_t kAheadSums = kAhead / Q::kPlanes;
  using Sums = int32_t[kAhead][kTileRows * kLanes];
  // A tile of rows and the values of a panel, of a run of sums.
  struct Groups {
    const int8_t* x;
    size_t stride;
    const unsigned char* values;
    const float* x_scale;  // of the first row's first group, x_scales further the next row's
    const int32_t* x_sum;  // the same of each plane
    size_t x_scales;
    const unsigned char* w_scale;  // floats of types in records
    size_t sharing;                // sums of a scale
    size_t count;
  };
  // N sums from g on, into as many tiles from tile First on.
  template <class Q, size_t N, size_t First>
  static PHASOR_INLINE void multiply(Unit& unit, const Groups& in, size_t g) {
    each<N>([&](auto n) PHASOR_LAMBDA {
      constexpr size_t kAt = n * Q::kPlanes, kWeights = kWeightTile + n;
      unit.template load<kWeights>(in.values + (g + n) * (kLanes * kWidth<Q>), kTileRowBytes);
      const int8_t* x = in.x + (g + n) * kWidth<Q>;
      each<Q::kPlanes>([&](auto i) PHASOR_LAMBDA {
        unit.template zero<First + kAt + i>();
        unit.template load<kRowTile + kAt + i>(x + i * in.x_scales * kGroup, in.stride);
        unit.template dot<First + kAt + i, kRowTile + kAt + i, kWeights>();
      });
    });
  }
  template <class Q, size_t N, size_t First>
  static PHASOR_INLINE void store(Unit& unit, Sums& sums) {
    each<N * Q::kPlanes>(
        [&](auto n) PHASOR_LAMBDA { unit.template store<First + n>(sums[n], kTileRowBytes); });
  }
  template <class Q, size_t N>
  static PHASOR_INLINE void scale(V (&acc)[kTileRows], const Sums& sums, const Groups& in,
                                  size_t g) {
    constexpr bool kMinima = minimum_type(Q::kType), kFloats = in_records(Q::kType);
    constexpr size_t kBytes = kLanes * (kFloats ? 4 : 2), kScale = kBytes << kMinima;
    const auto number = [](const unsigned char* p) PHASOR_LAMBDA {
      return kFloats ? V::load(reinterpret_cast<const float*>(p)) : F::half16(p);
    };
    PHASOR_UNROLL for (size_t n = 0; n < N; ++n) {
      const unsigned char* p = in.w_scale + (g + n) / in.sharing * kScale;
      const V w = number(p), least = number(p + (kMinima ? kBytes : 0));
      PHASOR_UNROLL for (size_t r = 0; r < kTileRows; ++r) {
        const size_t at = r * in.x_scales + (g + n) / kParts<Q>;
        V sum = F::sums(sums[n * Q::kPlanes] + r * kLanes);
        if constexpr (Q::kPlanes == 2)
          sum = fma(V::set(255.0f), sum, F::sums(sums[n * 2 + 1] + r * kLanes));
        acc[r] = fma(sum, V::set(in.x_scale[at]) * w, acc[r]);
        if constexpr (kMinima) {
          const int32_t* s = in.x_sum + r * Q::kPlanes * in.x_scales + g + n;
          const int32_t total = Q::kPlanes == 2 ? 255 * s[0] + s[in.x_scales] : s[0];
          acc[r] = fma(V::set(in.x_scale[at] * static_cast<float>(total)), least, acc[r]);
        }
      }
    }
  }
  // The chains of 16 rows go on over these sums: while some are scaled the next are multiplied.
  template <class Q>
  static PHASOR_INLINE void chains(V (&acc)[kTileRows], Unit& unit, const Groups& in,
                                   Ahead& ahead) {
    constexpr size_t kN = kAheadSums<Q>;
    alignas(64) Sums sums;
    const size_t even = in.count / kN * kN;
    if (even != 0) {
      size_t g = 0;
      multiply<Q, kN, 0>(unit, in, 0);
      store<Q, kN, 0>(unit, sums);
      for (; g + 2 * kN < even; g += 2 * kN) {
        ahead.ask();
        multiply<Q, kN, kAhead>(unit, in, g + kN);
        scale<Q, kN>(acc, sums, in, g);
        store<Q, kN, kAhead>(unit, sums);
        ahead.ask();
        multiply<Q, kN, 0>(unit, in, g + 2 * kN);
        scale<Q, kN>(acc, sums, in, g + kN);
        store<Q, kN, 0>(unit, sums);
      }
      if (g + kN < even) {
        multiply<Q, kN, kAhead>(unit, in, g + kN);
        scale<Q, kN>(acc, sums, in, g);
        store<Q, kN, kAhead>(unit, sums);
        g += kN;
      }
      ahead.ask();
      scale<Q, kN>(acc, sums, in, g);
    }
    if (even == in.count) return;
    multiply<Q, 1, 0>(unit, in, even);
    store<Q, 1, 0>(unit, sums);
    scale<Q, 1>(acc, sums, in, even);
  }

  // 16 rows by one panel: the chains begin at +0 or wait in y, and get the bias with the last
  // groups.
  template <class Q>
  static PHASOR_APART void grouped_tile(const Outputs& out, Unit& unit, const Groups& in, size_t o,
                                        bool first, bool last, Ahead& ahead) {
    V acc[kTileRows];
    float* y = out.y + o;
    PHASOR_UNROLL for (size_t r = 0; r < kTileRows; ++r)
      acc[r] = first ? V::set(0.0f) : V::load(y + r * out.ldy);
    chains<Q>(acc, unit, in, ahead);
    const V bias = last ? bias_lanes<V>(out, o) : V::set(-0.0f);
    PHASOR_UNROLL for (size_t r = 0; r < kTileRows; ++r) (acc[r] + bias).store(y + r * out.ldy);
  }

  // Rows that are left over: from as many on, a tile that begins before them costs less. Not where
  // chains wait in y: they would go on twice in rows that two tiles have.
  static constexpr size_t kWorthTile = 10;
  template <class Q>
  static size_t tiles_of(size_t rows, size_t groups) {
    const bool overlap =
        rows > kTileRows && rows % kTileRows >= kWorthTile && groups <= Q::kAtOnce;
    return rows / kTileRows + overlap;
  }

  // The tiles of rows by panels first … stop − 1.
  template <class Q>
  static PHASOR_APART void grouped_panels(const Outputs& out, Unit& unit, const TileInput& in,
                                          size_t rows, const unsigned char* w, size_t first,
                                          size_t stop) {
    constexpr bool kMinima = minimum_type(Q::kType), kRecords = in_records(Q::kType);
    static_assert(!kRecords || Q::kAtOnce == kSuper, "one record at a time");
    const size_t groups = in.scales, tiles = tiles_of<Q>(rows, groups),
                 plane = kMinima
                             ? static_cast<size_t>(record_plane_bytes(Q::kType, kLanes, groups))
                             : panel_plane_bytes(Q::kType, groups),
                 bytes = plane + groups * Q::kGroupBytes;
    alignas(64) unsigned char room[Q::kRoom];
    alignas(64) float scales[kRecords ? kSuper * kParts<Q> : 1][1 + kMinima][kLanes];
    for (size_t p = first; p < stop; ++p) {
      const unsigned char* panel = w + p * bytes;
      Ahead ahead({reinterpret_cast<uintptr_t>(panel) + bytes, bytes, 1, 0},
                  tiles * (groups * kParts<Q> / kAheadSums<Q>));
      for (size_t g = 0, count; g < groups; g += count) {
        count = groups - g < Q::kAtOnce ? groups - g : Q::kAtOnce;
        const unsigned char* values =
            Q::values(room, panel, panel + plane + g * Q::kGroupBytes, count);
        const unsigned char* w_scale = panel + (kMinima ? g * kLanes * 4
                                                        : panel_scale(Q::kType, 0, g));
        if constexpr (kRecords) {
          Record<Q::kType> of;
          super_of(of, panel, g);
          for (size_t i = 0; i < count * kParts<Q>; ++i)
            PHASOR_UNROLL for (size_t n = 0; n < 1 + kMinima; ++n)
              of.at(i / kParts<Q>, kMinima ? n : i % kParts<Q>).store(scales[i][n]);
          w_scale = reinterpret_cast<const unsigned char*>(scales);
        }
        for (size_t i = 0; i < tiles; ++i) {
          const size_t r = i * kTileRows + kTileRows < rows ? i * kTileRows : rows - kTileRows;
          const Groups run = {in.q + r * in.stride + g * kGroup,
                              in.stride,
                              values,
                              in.scale + r * groups + g,
                              in.sum + r * Q::kPlanes * groups + g,
                              groups,
                              w_scale,
                              static_cast<size_t>(sharing_of(Q::kType)),
                              count * kParts<Q>};
          grouped_tile<Q>(out.from(r), unit, run, p * kLanes, g == 0, g + count == groups, ahead);
        }
      }
    }
  }

  template <class Q>
  static void grouped(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum,
                      size_t rows, const void* w, const float* bias, size_t bias_n, size_t panels,
                      size_t groups) {
    const size_t tiles = tiles_of<Q>(rows, groups),
                 done = tiles * kTileRows < rows ? tiles * kTileRows : rows, left = rows - done;
    if (tiles == 0 || groups == 0)
      return Q::kRows(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
    const Outputs out = {y, ldy, bias, bias_n};
    const TileInput in = {xq, xs, xsum, Q::kPlanes * groups * kGroup, groups};
    const unsigned char* weights = static_cast<const unsigned char*>(w);
    const size_t bytes = static_cast<size_t>(panel_bytes(Q::kType, groups * kGroup));
    const TileConfig config = tile_config(kTileRows, kWidth<Q>);
    Unit unit(config);
    // Panels at a time, so that rows that are left find their weights in the cache.
    const size_t at_once = left == 0 ? panels : 8;
    for (size_t p = 0, stop; p < panels; p = stop) {
      stop = panels - p < at_once ? panels : p + at_once;
      grouped_panels<Q>(out, unit, in, rows, weights, p, stop);
      const size_t o = p * kLanes;
      if (left != 0)
        Q::kRows(y + done * ldy + o, ldy, xq + done * in.stride, xs + done * groups,
                 xsum + done * Q::kPlanes * groups, left, weights + p * bytes,
                 bias != nullptr && o < bias_n ? bias + o : nullptr, o < bias_n ? bias_n - o : 0,
                 stop - p, groups);
    }
  }

  // ---------------------------------------------------------------- as PHASOR_PRODUCTS takes them

  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    if constexpr (whole_type(Q::kType))
      whole<Q>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
    else
      grouped<Q>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  template <class Q>
  static void linear_int16(float* y, size_t ldy, const int8_t* xq, const float* xs,
                           const int32_t* xsum, size_t rows, const void* w, const float* bias,
                           size_t bias_n, size_t panels, size_t groups) {
    linear_int8<Wide<Q>>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  // What the unit does at most.
  static uint64_t peak_int8(float* y, uint64_t rounds) {
    constexpr size_t kChains = 6;
    alignas(64) unsigned char bytes[kTileRows * kTileRowBytes];
    alignas(64) int32_t sums[kTileRows * kLanes];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 37);
    const TileConfig config = tile_config(kTileRows, kRowStep);
    Unit unit(config);
    each<kTiles>([&](auto t) PHASOR_LAMBDA { unit.template load<t>(bytes, kTileRowBytes); });
    for (uint64_t n = 0; n < rounds; ++n)
      each<kChains>(
          [&](auto t) PHASOR_LAMBDA { unit.template dot<t, kChains, kChains + 1>(); });
    V all = V::set(0.0f);
    each<kChains>([&](auto t) PHASOR_LAMBDA {
      unit.template store<t>(sums, kTileRowBytes);
      all = all + F::sums(sums);
    });
    all.store(y);
    return rounds * kChains * kTileRows * kLanes * kRowStep;
  }
};

}  // namespace
}  // namespace phasor
