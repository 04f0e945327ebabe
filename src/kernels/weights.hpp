// Quantized weights of the vector levels by type: where a panel has what, the sums of one group's
// products, and a group unpacked for many rows.
#pragma once
#include "coded.hpp"
#include "constants.hpp"
#include "linear.hpp"

namespace phasor {
namespace {

template <class L>
struct IntWeights {
  using V = v16<typename L::Arch>;
  using T = typename L::Tiles;

  // The plane of f16 scales of a type's panels.
  template <Type T>
  struct Scales {
    using Record = char;  // none
    static constexpr bool kOneScale = false, kMinima = false, kSupers = false, kFine = false,
                          kTabled = table_type(T);
    static constexpr size_t kPlanes = 1, kSharing = static_cast<size_t>(sharing_of(T)),
                            kInputs = kGroup,          // bytes of a group
                            kScaleBytes = kLanes * 2;  // of what one call of scales() reads
    static PHASOR_INLINE size_t plane(size_t groups) { return panel_plane_bytes(T, groups); }
    static PHASOR_INLINE void scales(V (&to)[1], const unsigned char* plane, size_t g) {
      to[0] = L::half16(plane + panel_scale(T, 0, g));
    }
  };
  // The records of a type's panels that have scales and minima.
  template <Type T>
  struct Grids : Scales<T> {
    static constexpr bool kMinima = true, kSupers = record_groups(T) == kSuper;
    using Record = std::conditional_t<kSupers, Super<L>, char>;
    static constexpr size_t kScaleBytes = kLanes * record_bytes(T);
    static PHASOR_INLINE void scales(V (&to)[2], const unsigned char* plane, size_t g) {
      to[0] = L::half16(plane + g * kScaleBytes);
      to[1] = L::half16(plane + g * kScaleBytes + kLanes * 2);
    }
  };
  // One group: R rows of activations by P panels.
  struct Q8 : L::Int8, Scales<Type::q8> {
    using Int8 = typename L::Int8;
    static constexpr size_t kGroupBytes = kLanes * kGroup, kStep = Int8::kSteps * 4;
    // weights(p, k): of panel p, from value k of the group on.
    template <size_t R, size_t P, class Weights>
    static PHASOR_INLINE void steps(typename Int8::Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                    Weights weights) {
      PHASOR_UNROLL for (size_t k = 0; k < kGroup; k += kStep) {
        typename Int8::Weights wk[P];
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) wk[p] = weights(p, k);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
          const typename Int8::Values xk = Int8::values(x[r] + k);
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p) Int8::dot(sum[r][p], wk[p], xk);
        }
      }
    }
    template <size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int8::Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                       const unsigned char* const (&w)[P]) {
      steps(sum, x, [&](size_t p, size_t k) PHASOR_LAMBDA {
        return Int8::weights(w[p] + k * kLanes);
      });
    }
    // A group as `dot` takes it.
    struct Unpacked {
      typename Int8::Weights of[kGroup / kStep];
    };
    static PHASOR_INLINE void unpack(Unpacked& to, const unsigned char* w, const unsigned char*) {
      PHASOR_UNROLL for (size_t k = 0; k < kGroup; k += kStep)
        to.of[k / kStep] = Int8::weights(w + k * kLanes);
    }
    template <size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int8::Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                       const Unpacked* const (&w)[P]) {
      steps(sum, x, [&](size_t p, size_t k) PHASOR_LAMBDA { return w[p]->of[k / kStep]; });
    }
  };
  // The same values with one scale a row: C sums of each output, joined at the end, where one alone
  // would have to wait for itself.
  struct Q8r : Q8 {
    using Int8 = typename L::Int8;
    static constexpr bool kOneScale = true;
    static PHASOR_INLINE size_t plane(size_t) { return kLanes * sizeof(float); }
    template <size_t C, size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int8::Sum (&sum)[C][R][P],
                                       const int8_t* const (&x)[R],
                                       const unsigned char* const (&w)[P]) {
      constexpr size_t kStep = Int8::kSteps * 4;
      PHASOR_UNROLL for (size_t k = 0; k < kGroup; k += kStep) {
        typename Int8::Weights wk[P];
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) wk[p] = Int8::weights(w[p] + k * kLanes);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
          const typename Int8::Values xk = Int8::values(x[r] + k);
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p)
            Int8::whole_dot(sum[k / kStep % C][r][p], wk[p], xk);
        }
      }
    }
  };
  // Codes n of a type, as step·n: its fields of a byte are values of k that lie kApart apart, and
  // are multiplied by twos.
  template <Type T, class Int4>
  struct Codes : Int4, std::conditional_t<minimum_type(T), Grids<T>, Scales<T>> {
    static constexpr unsigned kBits = value_bits(T);
    static constexpr size_t kApart = code_bytes(kBits), kGroupBytes = kLanes * kApart;
    // A step of 2 is a field one bit further left.
    static constexpr int kMore = code_step(T) == 2, kMask = ((1 << kBits) - 1) << kMore;
    static PHASOR_INLINE typename Int4::Sum start(int32_t sum) {
      return Int4::start(-static_cast<int32_t>(code_less(T)) * sum);
    }
    static constexpr size_t kPairs = 4 / kBits, kSteps = kApart / 4 * kPairs;
    // The fields 2·I and 2·I + 1 of the bytes from k on.
    template <size_t I>
    static PHASOR_INLINE typename Int4::Nibbles fields(const unsigned char* w, size_t k) {
      constexpr int kFirst = static_cast<int>(2 * I * kBits) - kMore,
                    kSecond = kFirst + static_cast<int>(kBits);
      return Int4::template nibbles<kFirst, kSecond, kMask>(w + k * kLanes);
    }
    // at(step, r, p): the sum that a step of the group is added to. weights(p, k, i): `fields`.
    template <size_t R, size_t P, class Weights, class At>
    static PHASOR_INLINE void steps(const int8_t* const (&x)[R], Weights weights, At at) {
      constexpr size_t kHeld = kHeldOf<V, R, P>;
      PHASOR_UNROLL for (size_t k = 0; k < kApart; k += 4)
        PHASOR_UNROLL for (size_t b = 0; b < P; b += kHeld)
          each<kPairs>([&](auto i) PHASOR_LAMBDA {
            typename Int4::Nibbles wk[kHeld];
            PHASOR_UNROLL for (size_t p = 0; p < kHeld; ++p) wk[p] = weights(b + p, k, i);
            PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
              const typename Int4::Both xk = Int4::both(x[r] + k + 2 * i * kApart, kApart);
              PHASOR_UNROLL for (size_t p = 0; p < kHeld; ++p)
                Int4::dot(at(k / 4 * kPairs + i, r, b + p), wk[p], xk);
            }
          });
    }
    template <size_t R, size_t P, class At>
    static PHASOR_INLINE void packed_steps(const int8_t* const (&x)[R],
                                           const unsigned char* const (&w)[P], At at) {
      steps<R, P>(x, [&](size_t p, size_t k, auto i) PHASOR_LAMBDA { return fields<i>(w[p], k); },
                  at);
    }
    template <size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int4::Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                       const unsigned char* const (&w)[P]) {
      packed_steps(x, w, [&](size_t, size_t r, size_t p) PHASOR_LAMBDA -> typename Int4::Sum& {
        return sum[r][p];
      });
    }
    // A group as `dot` takes it.
    struct Unpacked {
      typename Int4::Nibbles of[kSteps];
    };
    static PHASOR_INLINE void unpack(Unpacked& to, const unsigned char* w, const unsigned char*) {
      PHASOR_UNROLL for (size_t k = 0; k < kApart; k += 4)
        each<kPairs>([&](auto i) PHASOR_LAMBDA { to.of[k / 4 * kPairs + i] = fields<i>(w, k); });
    }
    template <size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int4::Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                       const Unpacked* const (&w)[P]) {
      steps<R, P>(
          x,
          [&](size_t p, size_t k, size_t i) PHASOR_LAMBDA { return w[p]->of[k / 4 * kPairs + i]; },
          [&](size_t, size_t r, size_t p) PHASOR_LAMBDA -> typename Int4::Sum& {
            return sum[r][p];
          });
    }
  };
  struct Q4 : Codes<Type::q4, typename L::Int4> {};
  struct Q2 : Codes<Type::q2, typename L::Int4m> {};
  struct Q2w : Codes<Type::q2w, typename L::Int4m> {};
  struct Q1 : Codes<Type::q1, typename L::Int4m> {};
  // One row of q1, whose inputs have become tables.
  struct LookedUp : Q1 {
    static constexpr size_t kInputs = L::Int4m::kTables, kStarts = 1;
    static PHASOR_INLINE size_t scales_at(size_t g) { return panel_scale(Type::q1, 0, g); }
    static PHASOR_INLINE void prepare(int8_t* to, int32_t* starts, const int8_t* x) {
      *starts = L::Int4m::tables(to, x);
    }
    static PHASOR_INLINE typename L::Int4m::Sum start(int32_t sum) { return L::Int4m::start(sum); }
    template <size_t R>
    static PHASOR_INLINE void products(typename L::Int4m::Sum (&sum)[R][1],
                                       const int8_t* const (&x)[R],
                                       const unsigned char* const (&w)[1]) {
      const typename L::Int4m::Places at = L::Int4m::places(w[0]);
      PHASOR_UNROLL for (size_t r = 0; r < R; ++r) L::Int4m::look_up(sum[r][0], x[r], at);
    }
  };
  // Codes with one scale a row. Where sums of a group have 16 bits they are added to those of the
  // row; else there are C of these, as of Q8r.
  struct Q2r : Codes<Type::q2r, typename L::Int4> {
    using Int4 = typename L::Int4;
    using Group = Codes<Type::q2r, typename L::Int4m>;
    static constexpr bool kOneScale = true;
    static PHASOR_INLINE size_t plane(size_t) { return kLanes * sizeof(float); }
    template <size_t C, size_t R, size_t P>
    static PHASOR_INLINE void products(typename Int4::Sum (&sum)[C][R][P],
                                       const int8_t* const (&x)[R],
                                       const unsigned char* const (&w)[P]) {
      if constexpr (std::is_same<Int4, typename L::Int4m>::value) {
        const auto at = [&](size_t i, size_t r, size_t p) PHASOR_LAMBDA -> typename Int4::Sum& {
          return sum[i % C][r][p];
        };
        Group::packed_steps(x, w, at);
      } else {
        typename Int4::Sum group[R][P];
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p) group[r][p] = L::Int4m::start(0);
        Group::products(group, x, w);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r)
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p) L::Int4m::add(sum[0][r][p], group[r][p]);
      }
    }
  };
  // Codes of a table: a group becomes one of q8 first (sum_group).
  struct Q4t : Q8 {
    static constexpr bool kTabled = true;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(4);
    static PHASOR_INLINE size_t plane(size_t groups) { return Scales<Type::q4t>::plane(groups); }
    static PHASOR_INLINE void scales(V (&to)[1], const unsigned char* plane, size_t g) {
      Scales<Type::q4t>::scales(to, plane, g);
    }
    // The table of a panel whose plane begins at `plane`.
    static PHASOR_INLINE const unsigned char* table(const unsigned char* plane) { return plane; }
    static PHASOR_INLINE void unpack(typename Q8::Unpacked& to, const unsigned char* w,
                                     const unsigned char* plane) {
      looked_up(to, w, table(plane));
    }
    static PHASOR_INLINE void looked_up(typename Q8::Unpacked& to, const unsigned char* w,
                                        const unsigned char* table) {
      alignas(64) unsigned char values[Q8::kGroupBytes];
      L::look_up(values, w, table);
      Q8::unpack(to, values, table);
    }
  };
  // The codes of the table that floats are rounded to, with codes for scales (1.28).
  struct Q4x : Q4t {
    using Record = Coded<L, Type::q4x>;
    static constexpr bool kSupers = true;
    static constexpr size_t kScaleBytes = kLanes * record_bytes(Type::q4x);
    static PHASOR_INLINE size_t plane(size_t groups) {
      return panel_plane_bytes(Type::q4x, groups);
    }
    static PHASOR_INLINE const unsigned char* table(const unsigned char*) {
      return reinterpret_cast<const unsigned char*>(kRoundedTable);
    }
    static PHASOR_INLINE void unpack(typename Q8::Unpacked& to, const unsigned char* w,
                                     const unsigned char* plane) {
      Q4t::looked_up(to, w, table(plane));
    }
  };
  // Nibbles as they are, with a scale and a minimum for each group.
  struct Q4m : Codes<Type::q4m, typename L::Int4m> {};
  struct Q4k : Codes<Type::q4k, typename L::Int4m> {};

  // Codes in two fields.
  template <Type T>
  struct Split : L::template Fine<T> {
    using Ints = typename L::template Fine<T>;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
    // A group as `dot` takes it.
    struct Unpacked {
      typename Ints::Weights of[kGroup / 4 / Ints::kSteps];
    };
    static PHASOR_INLINE void unpack(Unpacked& to, const unsigned char* w, const unsigned char*) {
      each<kGroup / 4 / Ints::kSteps>([&](auto i) PHASOR_LAMBDA {
        to.of[i] = Ints::template codes<Ints::kSteps * i>(w);
      });
    }
    template <size_t S>
    static PHASOR_INLINE typename Ints::Weights step(const unsigned char* w) {
      return Ints::template codes<S>(w);
    }
    template <size_t S>
    static PHASOR_INLINE typename Ints::Weights step(const Unpacked* w) {
      return w->of[S / Ints::kSteps];
    }
    // Half of a group's. w: groups, packed or not.
    template <size_t Half, size_t R, size_t P, class Group>
    static PHASOR_INLINE void products(typename Ints::Sum (&sum)[R][P],
                                       const int8_t* const (&x)[R], const Group* const (&w)[P]) {
      each<4 / Ints::kSteps>([&](auto i) PHASOR_LAMBDA {
        constexpr size_t kStep = 4 * Half + Ints::kSteps * i;
        typename Ints::Weights wk[P];
        PHASOR_UNROLL for (size_t p = 0; p < P; ++p) wk[p] = step<kStep>(w[p]);
        PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
          const typename Ints::Values xk = Ints::values(x[r] + 4 * kStep);
          PHASOR_UNROLL for (size_t p = 0; p < P; ++p) Ints::dot(sum[r][p], wk[p], xk);
        }
      });
    }
  };
  // Those of 5 bits, from 0 on, with a scale and a minimum for each group.
  template <Type T>
  struct Fives : Split<T>, Grids<T> {
    using Sum = typename L::template Fine<T>::Sum;
    static PHASOR_INLINE Sum start(int32_t) { return L::template Fine<T>::start(0); }
    template <size_t R, size_t P, class Group>
    static PHASOR_INLINE void products(Sum (&sum)[R][P], const int8_t* const (&x)[R],
                                       const Group* const (&w)[P]) {
      Split<T>::template products<0>(sum, x, w);
      Split<T>::template products<1>(sum, x, w);
    }
  };
  struct Q5m : Fives<Type::q5m> {};
  struct Q5k : Fives<Type::q5k> {};
  // Those with a scale for each half of a group (1.27, 1.30). Where a level's codes have no sign,
  // the sums of a half begin at what its inputs make of that: a word.
  template <Type T>
  struct Halves : Split<T> {
    using Ints = typename L::template Fine<T>;
    using Record = Coded<L, T>;
    static constexpr bool kOneScale = false, kMinima = false, kSupers = true, kTabled = false,
                          kFine = true;
    static constexpr size_t kPlanes = 1, kSharing = 1, kScaleBytes = kLanes * record_bytes(T);
    static PHASOR_INLINE size_t plane(size_t groups) { return panel_plane_bytes(T, groups); }
    template <class Rows>
    static PHASOR_INLINE void words(int32_t (&to)[2], const Rows&, size_t, size_t,
                                    const int8_t* x) {
      Ints::words(to, x);
    }
  };
  struct Q6 : Halves<Type::q6> {};
  struct Q3 : Halves<Type::q3> {};
  // One row, whose words are there.
  template <class Q>
  struct Begun : Q {
    static constexpr size_t kInputs = 0, kStarts = 2;
    static PHASOR_INLINE size_t scales_at(size_t g) { return g / kSuper * Q::kScaleBytes; }
    static PHASOR_INLINE void prepare(int8_t*, int32_t* starts, const int8_t* x) {
      int32_t of[2];
      Q::Ints::words(of, x);
      starts[0] = of[0];
      starts[1] = of[1];
    }
    template <class Rows>
    static PHASOR_INLINE void words(int32_t (&to)[2], const Rows& row, size_t plane, size_t g,
                                    const int8_t*) {
      to[0] = row.sum_at(plane, 2 * g);
      to[1] = row.sum_at(plane, 2 * g + 1);
    }
  };

  // The same weights for inputs of 16 bits.
  template <class Q>
  struct Wide : Q {
    static constexpr size_t kPlanes = 2;
  };
};

// How many numbers a group has: its scale, and a minimum or the scale of its second half.
template <class Q>
constexpr size_t kOf = 1 + (Q::kMinima || Q::kFine);

}  // namespace
}  // namespace phasor
