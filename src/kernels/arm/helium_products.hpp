// Helium: products with quantized weights (rules 1.2, 1.4, 1.18, 1.20, 1.21, 1.23, 1.24, 1.27, 1.28
// and 1.30): exact sums of a group or of a row, and the chains over the groups. A struct has the
// weights of each type. scalar_products.hpp says in plain loops what each function computes.
#pragma once
#include <type_traits>

#include "helium_chains.hpp"

namespace phasor {
namespace {

struct HeliumProducts : HeliumChains {
  // Four words, each of the same output in four steps of k: with a step's 16 outputs 64 bytes
  // apart, 16 values of one output. A sum over all lanes (VMLADAV) is then a dot product.
  template <int Offset>
  static PHASOR_INLINE int8x16_t gathered(uint32x4_t address) {
    return vreinterpretq_s8_s32(vldrwq_gather_base_s32(address, Offset));
  }
  struct Q8 {
    static constexpr Type kType = Type::q8;
    static constexpr size_t kGroupBytes = kLanes * kGroup;
    static PHASOR_INLINE uint32x4_t steps() { return vmulq_n_u32(vidupq_n_u32(0, 1), 64); }
    template <int Output>
    static PHASOR_INLINE int32_t dot(const unsigned char*, uint32x4_t address, int8x16_t x0,
                                     int8x16_t x1) {
      return vmladavaq_s8(vmladavq_s8(gathered<Output * 4>(address), x0),
                          gathered<256 + Output * 4>(address), x1);
    }
    template <int Output>
    static PHASOR_INLINE int32_t add_dot(int32_t sum, uint32x4_t address, int8x16_t x0,
                                         int8x16_t x1) {
      return vmladavaq_s8(vmladavaq_s8(sum, gathered<Output * 4>(address), x0),
                          gathered<256 + Output * 4>(address), x1);
    }
    static PHASOR_INLINE int32x4_t less(int32x4_t sum, int32_t) { return sum; }
  };
  template <Type T>
  struct Codes {
    static constexpr Type kType = T;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
    static PHASOR_INLINE int32x4_t less(int32x4_t sum, int32_t total) {
      if constexpr (minimum_type(T)) return sum;
      return vsubq_n_s32(sum, static_cast<int32_t>(code_less(T)) * total);
    }
  };
  template <Type T>
  struct Nibbles : Codes<T> {  // the low ones are the first half of the group
    static PHASOR_INLINE uint32x4_t steps() { return Q8::steps(); }
    template <int Output>
    static PHASOR_INLINE int32_t dot(const unsigned char* plane, uint32x4_t address, int8x16_t x0,
                                     int8x16_t x1) {
      const uint8x16_t both = vreinterpretq_u8_s8(gathered<Output * 4>(address)),
                       low = vandq_u8(both, vdupq_n_u8(15)), high = vshrq_n_u8(both, 4);
      if constexpr (lookup_type(T)) {
        const int8_t* const table =
            table_type(T) ? reinterpret_cast<const int8_t*>(plane) : kRoundedTable;
        return vmladavaq_s8(vmladavq_s8(vldrbq_gather_offset_s8(table, low), x0),
                            vldrbq_gather_offset_s8(table, high), x1);
      } else {
        return vmladavaq_s8(vmladavq_s8(vreinterpretq_s8_u8(low), x0), vreinterpretq_s8_u8(high),
                            x1);
      }
    }
  };
  // Codes of one or two bits: a word of an output has 4·8/bits values of k, in lanes of 4 each that
  // are moved by lane. A step of 2 is a field one bit further left.
  template <Type T>
  struct Fields : Codes<T> {
    static constexpr int kBits = value_bits(T), kMore = code_step(T) == 2;
    static PHASOR_INLINE uint32x4_t steps() {
      return kBits == 2 ? vmulq_n_u32(vandq_u32(vidupq_n_u32(0, 1), vdupq_n_u32(1)), 64)
                        : vdupq_n_u32(0);
    }
    // Lanes of four values of k: of 2 bits two steps of a field, then of the next; of 1 bit fields.
    static PHASOR_INLINE int8x16_t values(uint32x4_t words, int first) {
      const int32x4_t lane = vreinterpretq_s32_u32(vidupq_n_u32(0, 1)),
                      by = kBits == 2 ? vmulq_n_s32(vshrq_n_s32(lane, 1), -2) : vnegq_s32(lane);
      const uint32x4_t moved = vshlq_u32(words, vaddq_n_s32(by, kMore - first));
      constexpr unsigned kMask = ((1u << kBits) - 1u) << kMore;
      return vreinterpretq_s8_u32(vandq_u32(moved, vdupq_n_u32(kMask * 0x01010101u)));
    }
    template <int Output>
    static PHASOR_INLINE int32_t dot(const unsigned char*, uint32x4_t address, int8x16_t x0,
                                     int8x16_t x1) {
      const uint32x4_t words = vreinterpretq_u32_s8(gathered<Output * 4>(address));
      return vmladavaq_s8(vmladavq_s8(values(words, 0), x0), values(words, 4), x1);
    }
    template <int Output>
    static PHASOR_INLINE int32_t add_dot(int32_t sum, uint32x4_t address, int8x16_t x0,
                                         int8x16_t x1) {
      return sum + dot<Output>(nullptr, address, x0, x1);
    }
  };
  using Q4 = Nibbles<Type::q4>;
  using Q4t = Nibbles<Type::q4t>;
  using Q4x = Nibbles<Type::q4x>;
  using Q2 = Fields<Type::q2>;
  using Q2w = Fields<Type::q2w>;
  using Q1 = Fields<Type::q1>;
  using Q4m = Nibbles<Type::q4m>;
  using Q4k = Nibbles<Type::q4k>;
  // What eight groups of q4k or q5k share, for 16 outputs: their scale and minimum, and the codes
  // of scale_code and minimum_code that multiply them.
  struct Super {
    float number[2][kLanes];
    unsigned char codes[2][kSuper][kLanes];
  };
  static PHASOR_INLINE void unpack(Super* to, const unsigned char* p) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      PHASOR_UNROLL for (size_t at = 0; at < kLanes; at += 4)
        store(to->number[i] + at, halves(p + i * (kLanes * 2) + 2 * at));
    p += kLanes * 4;
    PHASOR_UNROLL for (size_t g = 0; g < 4; ++g, p += kLanes) {
      const uint8x16_t a = vldrbq_u8(p), b = vldrbq_u8(p + 4 * kLanes),
                       c = vldrbq_u8(p + 8 * kLanes), six = vdupq_n_u8(63);
      vstrbq_u8(to->codes[0][g], vandq_u8(a, six));
      vstrbq_u8(to->codes[1][g], vandq_u8(b, six));
      vstrbq_u8(to->codes[0][4 + g], vsliq_n_u8(c, vshrq_n_u8(a, 6), 4));
      vstrbq_u8(to->codes[1][4 + g], vsliq_n_u8(vshrq_n_u8(c, 4), vshrq_n_u8(b, 6), 4));
    }
  }
  // The same of a coded type: their number, and its codes (signed_code).
  template <Type T>
  struct Coded {
    float number[kLanes];
    unsigned char codes[record_codes(T)][kLanes];
  };
  template <Type T>
  static PHASOR_INLINE void unpack(Coded<T>* to, const unsigned char* p) {
    PHASOR_UNROLL for (size_t at = 0; at < kLanes; at += 4)
      store(to->number + at, halves(p + 2 * at));
    p += kLanes * 2;
    if constexpr (scale_bits(T) == 8) {
      for (size_t i = 0; i < record_codes(T); ++i)
        vstrbq_u8(to->codes[i], vldrbq_u8(p + i * kLanes));
    } else {
      constexpr size_t kPart = record_codes(T) / 4;
      PHASOR_UNROLL for (size_t g = 0; g < kPart; ++g, p += kLanes) {
        const uint8x16_t a = vldrbq_u8(p), b = vldrbq_u8(p + kPart * kLanes),
                         c = vldrbq_u8(p + 2 * kPart * kLanes), upper = vdupq_n_u8(0x30),
                         n[4] = {vsliq_n_u8(a, c, 4), vsliq_n_u8(b, vshrq_n_u8(c, 2), 4),
                                 vorrq_u8(vshrq_n_u8(a, 4), vandq_u8(c, upper)),
                                 vorrq_u8(vshrq_n_u8(b, 4), vandq_u8(vshrq_n_u8(c, 2), upper))};
        PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
          vstrbq_u8(to->codes[kPart * i + g], vsubq_n_u8(vandq_u8(n[i], vdupq_n_u8(63)), 32));
      }
    }
  }
  // Scale i of the record, of outputs first … first + 3.
  template <Type T>
  static PHASOR_INLINE v4 coded_scale(const Coded<T>& of, size_t i, size_t first) {
    const int8_t* const code = reinterpret_cast<const int8_t*>(of.codes[i] + first);
    return load(of.number + first) * v4{vcvtq_f32_s32(vldrbq_s32(code))};
  }
  template <class Q>
  static constexpr bool kSupers = record_groups(Q::kType) == kSuper;
  template <class Q>
  using Plane = std::conditional_t<
      kSupers<Q>, std::conditional_t<coded_type(Q::kType), Coded<Q::kType>, Super>,
      const unsigned char*>;
  // Of group g the scale, or the minimum, of outputs first … first + 3.
  template <class Q>
  static PHASOR_INLINE v4 scale_of(const Plane<Q>& plane, size_t g, size_t first,
                                   bool minimum) {
    if constexpr (coded_type(Q::kType))
      return coded_scale(plane, g % kSuper, first);
    else if constexpr (kSupers<Q>)
      return load(plane.number[minimum] + first) *
             v4{vcvtq_f32_u32(vldrbq_u32(plane.codes[minimum][g % kSuper] + first))};
    else
      return halves(minimum_type(Q::kType)
                        ? plane + (4 * g + 2 * minimum) * kLanes + 2 * first
                        : plane + panel_scale(Q::kType, first, g));
  }

  // The products of outputs First … First + 3 of a panel with one group of a plane.
  template <class Q, int First>
  static PHASOR_INLINE v4 four_sums(const unsigned char* panel, uint32x4_t address, int8x16_t x0,
                                    int8x16_t x1, int32_t xsum) {
    int32x4_t sum = vdupq_n_s32(Q::template dot<First>(panel, address, x0, x1));
    sum = vsetq_lane_s32(Q::template dot<First + 1>(panel, address, x0, x1), sum, 1);
    sum = vsetq_lane_s32(Q::template dot<First + 2>(panel, address, x0, x1), sum, 2);
    sum = vsetq_lane_s32(Q::template dot<First + 3>(panel, address, x0, x1), sum, 3);
    return {vcvtq_f32_s32(Q::less(sum, xsum))};
  }
  // Σx of a group.
  template <size_t Planes>
  static PHASOR_INLINE float total(const int32_t* xsum, size_t groups, size_t g) {
    const float sum = static_cast<float>(xsum[g]);
    return Planes == 1 ? sum : fma1(255.0f, sum, static_cast<float>(xsum[groups + g]));
  }
  // Adds one group, with the values x0 and x1, to the rows' chains. With two planes (1.21) the
  // values of lo begin at `lo`.
  template <class Q, size_t Planes, int First>
  static PHASOR_INLINE void four_chains(v4& acc, const unsigned char* panel, uint32x4_t address,
                                        int8x16_t x0, int8x16_t x1, const int8_t* lo, size_t groups,
                                        const Plane<Q>& plane, size_t g, const float* xs,
                                        const int32_t* xsum) {
    v4 sum = four_sums<Q, First>(panel, address, x0, x1, xsum[g]);
    if constexpr (Planes == 2) {
      const v4 low = four_sums<Q, First>(panel, address, vldrbq_s8(lo), vldrbq_s8(lo + 16),
                                         xsum[groups + g]);
      sum = fma(sum, 255.0f, low);
    }
    const v4 scale = {vmulq_n_f32(scale_of<Q>(plane, g, First, false).v, xs[g])};
    acc = fma(sum, scale, acc);
    if constexpr (minimum_type(Q::kType))
      acc = fma(scale_of<Q>(plane, g, First, true), xs[g] * total<Planes>(xsum, groups, g), acc);
  }
  // One row by one panel.
  template <class Q, size_t Planes>
  static PHASOR_APART void group_chains(float* y, const int8_t* x, const float* xs,
                                        const int32_t* xsum, const unsigned char* scales,
                                        const unsigned char* w, size_t groups) {
    const uint32x4_t steps = Q::steps();
    Plane<Q> plane;
    if constexpr (!kSupers<Q>) plane = scales;
    v4 acc[4];
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = v4::set(0.0f);
    for (size_t g = 0; g < groups; ++g, x += kGroup, w += Q::kGroupBytes) {
      if constexpr (kSupers<Q>) {
        if (g % kSuper == 0)
          unpack(&plane, scales + g / kSuper * (record_bytes(Q::kType) * kLanes));
      }
      const uint32x4_t address =
          vaddq_n_u32(steps, static_cast<uint32_t>(reinterpret_cast<uintptr_t>(w)));
      const int8x16_t x0 = vldrbq_s8(x), x1 = vldrbq_s8(x + 16);
      const int8_t* const lo = x + groups * kGroup;
      four_chains<Q, Planes, 0>(acc[0], scales, address, x0, x1, lo, groups, plane, g, xs, xsum);
      four_chains<Q, Planes, 4>(acc[1], scales, address, x0, x1, lo, groups, plane, g, xs, xsum);
      four_chains<Q, Planes, 8>(acc[2], scales, address, x0, x1, lo, groups, plane, g, xs, xsum);
      four_chains<Q, Planes, 12>(acc[3], scales, address, x0, x1, lo, groups, plane, g, xs, xsum);
    }
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) store(y + 4 * i, acc[i]);
  }
  // Codes in two fields (CodeStep), with a scale for each half of a group (1.27, 1.30), or a scale
  // and a minimum for it (1.20).
  template <Type T>
  struct Fine {
    static constexpr Type kType = T;
    static constexpr unsigned kLow = low_bits(value_bits(T)), kHigh = value_bits(T) - kLow;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
    static_assert(kLow == 4 || (kLow == 2 && kHigh == 1), "as in codes");
    // Where an output's words of four values of k are, whose fields begin `Bits` further left in
    // each lane that has the bytes of one before; and how far these move to begin at one place,
    // those of the second half four bits on.
    template <unsigned Bits>
    static PHASOR_INLINE uint32x4_t steps() {
      return Bits == 4   ? Q8::steps()
             : Bits == 2 ? Fields<Type::q2>::steps()
                         : Fields<Type::q1>::steps();
    }
    template <unsigned Bits>
    static PHASOR_INLINE int32x4_t moves(int put) {
      const int32x4_t lane = vreinterpretq_s32_u32(vidupq_n_u32(0, 1));
      return vaddq_n_s32(
          Bits == 2 ? vmulq_n_s32(vshrq_n_s32(lane, 1), -2) : vnegq_s32(lane), put);
    }
    uint32x4_t low, high;       // addresses in a group
    int32x4_t by_low, by_high;  // moves
    PHASOR_INLINE Fine()
        : low(steps<kLow>()),
          high(steps<kHigh>()),
          by_low(moves<2>(0)),
          by_high(moves<kHigh>(kLow == 4 ? 0 : 2)) {}
    // Those of an output in either half of the group at `at`.
    template <int Output>
    PHASOR_INLINE void codes(int8x16_t (&n)[2], uint32_t at) const {
      constexpr int kHighAt = static_cast<int>(CodeStep<T, 0>::kHighAt);
      const int8x16_t a = gathered<Output * 4>(vaddq_n_u32(low, at)),
                      b = gathered<kHighAt + Output * 4>(vaddq_n_u32(high, at));
      const uint8x16_t below = vreinterpretq_u8_s8(a),
                       above = vreinterpretq_u8_u32(
                           vshlq_u32(vreinterpretq_u32_s8(b), by_high));
      if constexpr (kLow == 4) {
        const uint8x16_t all = vdupq_n_u8((1u << value_bits(T)) - 1);
        n[0] = vreinterpretq_s8_u8(vandq_u8(vsliq_n_u8(below, above, 4), all));
        n[1] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(above, below, 4), all));
      } else {
        const uint8x16_t two = vreinterpretq_u8_u32(
                             vshlq_u32(vreinterpretq_u32_s8(a), by_low)),
                         all = vorrq_u8(vandq_u8(two, vdupq_n_u8(0x33)),
                                        vandq_u8(above, vdupq_n_u8(0x44)));
        n[0] = vreinterpretq_s8_u8(vandq_u8(all, vdupq_n_u8(7)));
        n[1] = vreinterpretq_s8_u8(vshrq_n_u8(all, 4));
      }
    }
  };
  // The sums of output First + O with each plane's halves x into the lanes of `sum`: of each scale.
  template <Type T>
  static constexpr size_t kParts = kGroup / scale_span(T);
  template <Type T, size_t Planes, int First, int O>
  static PHASOR_INLINE void fine_sums(int32x4_t (&sum)[Planes][kParts<T>], const Fine<T>& fine,
                                      uint32_t at, const int8x16_t (&x)[Planes][2]) {
    int8x16_t n[2];
    fine.template codes<First + O>(n, at);
    PHASOR_UNROLL for (size_t i = 0; i < Planes; ++i)
      PHASOR_UNROLL for (size_t h = 0; h < kParts<T>; ++h) {
        int32_t of = vmladavq_s8(n[h], x[i][h]);
        if constexpr (kParts<T> == 1) of = vmladavaq_s8(of, n[1], x[i][1]);
        sum[i][h] = O == 0 ? vdupq_n_s32(of) : vsetq_lane_s32(of, sum[i][h], O);
      }
  }
  // Adds one group to the chains of outputs First … First + 3. less: 32·Σx or 4·Σx of each plane's
  // halves. all: sx·Σx of the group.
  template <Type T, size_t Planes, int First>
  static PHASOR_INLINE void four_fine(v4& acc, const Fine<T>& fine, uint32_t at,
                                      const int8x16_t (&x)[Planes][2],
                                      const int32_t (&less)[Planes][2],
                                      const Plane<Fine<T>>& scales, size_t g, float sx, float all) {
    int32x4_t sum[Planes][kParts<T>];
    fine_sums<T, Planes, First, 0>(sum, fine, at, x);
    fine_sums<T, Planes, First, 1>(sum, fine, at, x);
    fine_sums<T, Planes, First, 2>(sum, fine, at, x);
    fine_sums<T, Planes, First, 3>(sum, fine, at, x);
    PHASOR_UNROLL for (size_t h = 0; h < kParts<T>; ++h) {
      const auto of = [&](size_t i) PHASOR_LAMBDA {
        if constexpr (minimum_type(T)) return v4{vcvtq_f32_s32(sum[i][h])};
        return v4{vcvtq_f32_s32(vsubq_n_s32(sum[i][h], less[i][h]))};
      };
      v4 total = of(0);
      if constexpr (Planes == 2) total = fma(total, 255.0f, of(1));
      v4 scale;
      if constexpr (minimum_type(T))
        scale = scale_of<Fine<T>>(scales, g, First, false);
      else
        scale = coded_scale(scales, 2 * (g % kSuper) + h, First);
      acc = fma(total, v4{vmulq_n_f32(scale.v, sx)}, acc);
    }
    if constexpr (minimum_type(T)) acc = fma(scale_of<Fine<T>>(scales, g, First, true), all, acc);
  }
  template <Type T, size_t Planes>
  static PHASOR_APART void fine_chains(float* y, const int8_t* x, const float* xs,
                                       const int32_t* xsum, const unsigned char* plane,
                                       const unsigned char* w, size_t groups) {
    const size_t apart = groups * kGroup;
    const Fine<T> fine;
    Plane<Fine<T>> scales;
    if constexpr (!kSupers<Fine<T>>) scales = plane;
    v4 acc[4];
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = v4::set(0.0f);
    for (size_t g = 0; g < groups; ++g, x += kGroup, w += Fine<T>::kGroupBytes) {
      const uint32_t at = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(w));
      int8x16_t values[Planes][2];
      int32_t less[Planes][2];
      PHASOR_UNROLL for (size_t i = 0; i < Planes; ++i)
        PHASOR_UNROLL for (size_t h = 0; h < 2; ++h) {
          values[i][h] = vldrbq_s8(x + i * apart + h * kHalf);
          less[i][h] = int32_t{code_less(T)} * vaddvq_s8(values[i][h]);
        }
      float all = 0.0f;
      if constexpr (minimum_type(T)) all = xs[g] * total<Planes>(xsum, groups, g);
      if constexpr (kSupers<Fine<T>>)
        if (g % kSuper == 0) unpack(&scales, plane + g / kSuper * (record_bytes(T) * kLanes));
      four_fine<T, Planes, 0>(acc[0], fine, at, values, less, scales, g, xs[g], all);
      four_fine<T, Planes, 4>(acc[1], fine, at, values, less, scales, g, xs[g], all);
      four_fine<T, Planes, 8>(acc[2], fine, at, values, less, scales, g, xs[g], all);
      four_fine<T, Planes, 12>(acc[3], fine, at, values, less, scales, g, xs[g], all);
    }
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) store(y + 4 * i, acc[i]);
  }
  using Q6 = Fine<Type::q6>;
  using Q3 = Fine<Type::q3>;
  using Q5m = Fine<Type::q5m>;
  using Q5k = Fine<Type::q5k>;
  struct Q8r : Q8 {  // q8's values; one scale a row
    static constexpr Type kType = Type::q8r;
  };
  using Q2r = Fields<Type::q2r>;
  // The products of outputs First … First + 3 of a panel with a plane, over all of K.
  template <class Q, int First>
  static PHASOR_INLINE v4 four_totals(const int8_t* x, int32_t xsum, const unsigned char* w,
                                      size_t groups) {
    uint32x4_t address =
        vaddq_n_u32(Q::steps(), static_cast<uint32_t>(reinterpret_cast<uintptr_t>(w)));
    int32_t a = 0, b = 0, c = 0, d = 0;  // an array would be in memory
    for (size_t g = 0; g < groups; ++g, x += kGroup) {
      const int8x16_t x0 = vldrbq_s8(x), x1 = vldrbq_s8(x + 16);
      a = Q::template add_dot<First>(a, address, x0, x1);
      b = Q::template add_dot<First + 1>(b, address, x0, x1);
      c = Q::template add_dot<First + 2>(c, address, x0, x1);
      d = Q::template add_dot<First + 3>(d, address, x0, x1);
      address = vaddq_n_u32(address, Q::kGroupBytes);
    }
    const int32_t total[4] = {a, b, c, d};
    return {vcvtq_f32_s32(Q::less(vldrwq_s32(total), xsum))};
  }
  template <class Q, size_t Planes, int First>
  static PHASOR_INLINE void four_whole(float* y, const int8_t* x, float sx, const int32_t* xsum,
                                       const float* scales, const unsigned char* w,
                                       size_t groups) {
    v4 sum = four_totals<Q, First>(x, xsum[0], w, groups);
    if constexpr (Planes == 2)
      sum = fma(sum, 255.0f, four_totals<Q, First>(x + groups * kGroup, xsum[1], w, groups));
    store(y + First, sum * (load(scales + First) * v4::set(sx)));
  }
  template <class Q, size_t Planes>
  static PHASOR_APART void whole_row(float* y, const int8_t* x, float sx, const int32_t* xsum,
                                     const unsigned char* panel, size_t groups) {
    const float* scales = reinterpret_cast<const float*>(panel);
    const unsigned char* w = panel + kLanes * sizeof(float);
    four_whole<Q, Planes, 0>(y, x, sx, xsum, scales, w, groups);
    four_whole<Q, Planes, 4>(y, x, sx, xsum, scales, w, groups);
    four_whole<Q, Planes, 8>(y, x, sx, xsum, scales, w, groups);
    four_whole<Q, Planes, 12>(y, x, sx, xsum, scales, w, groups);
  }
  template <class Q, size_t Planes>
  static void linear_int(float* y, size_t ldy, const int8_t* xq, const float* xs,
                         const int32_t* xsum, size_t rows, const void* w, const float* bias,
                         size_t bias_n, size_t panels, size_t groups) {
    constexpr bool kOneScale = whole_type(Q::kType);
    const size_t plane = kOneScale ? kLanes * sizeof(float)
                                   : panel_plane_bytes(Q::kType, groups),
                 bytes = plane + groups * Q::kGroupBytes, row = Planes * groups * kGroup;
    for (size_t p = 0; p < panels; ++p) {
      const unsigned char* panel = static_cast<const unsigned char*>(w) + p * bytes;
      for (size_t r = 0; r < rows && kOneScale; ++r)
        if constexpr (kOneScale)
          whole_row<Q, Planes>(y + r * ldy + p * kLanes, xq + r * row, xs[r], xsum + r * Planes,
                               panel, groups);
      for (size_t r = 0; r < rows && !kOneScale; ++r)
        if constexpr (low_bits(value_bits(Q::kType)) != value_bits(Q::kType))
          fine_chains<Q::kType, Planes>(y + r * ldy + p * kLanes, xq + r * row, xs + r * groups,
                                        xsum + r * Planes * groups, panel, panel + plane, groups);
        else
          group_chains<Q, Planes>(y + r * ldy + p * kLanes, xq + r * row, xs + r * groups,
                                  xsum + r * Planes * groups, panel, panel + plane, groups);
      add_bias(y + p * kLanes, ldy, rows, bias, bias_n, p * kLanes);
    }
  }
  template <class Q>
  static void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                          const int32_t* xsum, size_t rows, const void* w, const float* bias,
                          size_t bias_n, size_t panels, size_t groups) {
    linear_int<Q, 1>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  template <class Q>
  static void linear_int16(float* y, size_t ldy, const int8_t* xq, const float* xs,
                           const int32_t* xsum, size_t rows, const void* w, const float* bias,
                           size_t bias_n, size_t panels, size_t groups) {
    linear_int<Q, 2>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
};

}  // namespace
}  // namespace phasor
