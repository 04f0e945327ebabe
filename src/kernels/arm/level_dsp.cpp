// Cortex-M with the DSP extension (M4, M7, M33): SMLAD, two products of 16 bits added to a sum of
// 32. Flags: none beyond the processor's own.
// Only what multiplies integers is compiled here; the rest of the level is the scalar one
// (level_scalar.cpp has the table; scalar_products.hpp says in plain loops what these compute).
#include "../gather.h"
#include "../products.hpp"
#include "../scalar_math.h"

#if !defined(PHASOR_DSP_LEVEL)
#error "phasor: level_dsp.cpp needs a Cortex-M with the DSP extension: -mcpu=cortex-m4, cortex-m7"
#endif

// Apart, so that their sums have all registers.
#define PHASOR_APART __attribute__((noinline))

namespace phasor {
namespace {

PHASOR_INLINE uint32_t word(const void* p) {
  uint32_t w;
  __builtin_memcpy(&w, p, 4);
  return w;
}
// Of four int8 the even or the odd ones, as two numbers of 16 bits.
PHASOR_INLINE uint32_t even(uint32_t four) {
  uint32_t two;
  __asm__("sxtb16 %0, %1" : "=r"(two) : "r"(four));
  return two;
}
PHASOR_INLINE uint32_t odd(uint32_t four) {
  uint32_t two;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(two) : "r"(four));
  return two;
}
PHASOR_INLINE void add_products(int32_t& sum, uint32_t a, uint32_t b) {
  __asm__("smlad %0, %1, %2, %0" : "+r"(sum) : "r"(a), "r"(b));
}
// Of each half of two numbers of 16 bits 255·hi + lo, which fits (1.21).
PHASOR_INLINE uint32_t joined(uint32_t hi, uint32_t lo) {
  uint32_t two;
  __asm__("ssub16 %0, %1, %2" : "=r"(two) : "r"(hi << 8 & 0xff00ff00u), "r"(hi));
  __asm__("sadd16 %0, %1, %2" : "=r"(two) : "r"(two), "r"(lo));
  return two;
}
// Four inputs at x as the even and the odd ones; of two planes, `apart` bytes apart, whole.
template <size_t Planes>
PHASOR_INLINE void inputs(uint32_t& x_even, uint32_t& x_odd, const int8_t* x, size_t apart) {
  const uint32_t four = word(x);
  x_even = even(four);
  x_odd = odd(four);
  if constexpr (Planes == 2) {
    const uint32_t low = word(x + apart);
    x_even = joined(x_even, even(low));
    x_odd = joined(x_odd, odd(low));
  }
}
// An f16 scale.
PHASOR_INLINE float half_at(const unsigned char* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, 2);
#if defined(__ARM_FP) && !defined(__SOFTFP__)  // each that a Cortex-M has converts halves
  float y;
  __asm__("vcvtb.f32.f16 %0, %1" : "=t"(y) : "t"(float_of(h)));
  return y;
#else
  return widen_f16(h);
#endif
}

// The sums of four outputs, side by side in registers.
struct Four {
  int32_t a, b, c, d;
};
struct Q8 {
  static constexpr Type kType = Type::q8;
  static constexpr bool kMinima = false;
  static constexpr size_t kGroupBytes = kLanes * kGroup;
  static constexpr int32_t kOffset = 0;
  static PHASOR_INLINE void add_step(int32_t& sum, uint32_t w, uint32_t x_even, uint32_t x_odd) {
    add_products(sum, even(w), x_even);
    add_products(sum, odd(w), x_odd);
  }
  // Groups of k; w is at the first output's first value.
  template <size_t Planes = 1>
  static PHASOR_INLINE void add_groups(Four& s, const int8_t* x, size_t apart, const unsigned char*,
                                       const unsigned char* w, size_t groups) {
    for (const int8_t* const end = x + groups * kGroup; x != end; x += 8, w += 128)
      PHASOR_UNROLL for (size_t j = 0; j < 2; ++j) {
        uint32_t x_even, x_odd;
        inputs<Planes>(x_even, x_odd, x + 4 * j, apart);
        add_step(s.a, word(w + 64 * j), x_even, x_odd);
        add_step(s.b, word(w + 64 * j + 4), x_even, x_odd);
        add_step(s.c, word(w + 64 * j + 8), x_even, x_odd);
        add_step(s.d, word(w + 64 * j + 12), x_even, x_odd);
      }
  }
};
// Codes n as step·n: the fields of a byte are values of k that lie kApart apart, two at a time.
template <Type T>
struct Codes {
  static constexpr Type kType = T;
  static constexpr bool kMinima = minimum_type(T);
  static constexpr unsigned kBits = value_bits(T), kMore = code_step(T) == 2 ? 1 : 0;
  static constexpr size_t kApart = code_bytes(kBits), kGroupBytes = kLanes * kApart;
  static constexpr int32_t kOffset = static_cast<int32_t>(code_less(T));
  // Bits from `at` on of bytes 0 and 2 of w.
  static PHASOR_INLINE uint32_t field(uint32_t w, unsigned at) {
    constexpr uint32_t kMask = (((1u << kBits) - 1u) << kMore) * 0x00010001u;
    return (at < kMore ? w << (kMore - at) : w >> (at - kMore)) & kMask;
  }
  static PHASOR_INLINE void add_step(int32_t& sum, const unsigned char* table, uint32_t w,
                                     unsigned at, const uint32_t (&x)[4]) {
    PHASOR_UNROLL for (unsigned i = 0; i < 4; ++i) {
      const unsigned from = at + i / 2 * kBits + i % 2 * 8;
      if constexpr (lookup_type(T)) {
        const uint32_t of = w >> from;
        const auto value = [=](uint32_t n) { return static_cast<uint32_t>(
            static_cast<int8_t>(table[n & 15u])); };
        add_products(sum, (value(of) & 0xffffu) | value(of >> 16) << 16, x[i]);
      } else {
        add_products(sum, field(w, from), x[i]);
      }
    }
  }
  template <size_t Planes>
  static PHASOR_INLINE void add_groups(Four& s, const int8_t* x, size_t apart,
                                       const unsigned char* panel, const unsigned char* w,
                                       size_t groups) {
    const unsigned char* const table =
        table_type(T) ? panel : reinterpret_cast<const unsigned char*>(kRoundedTable);
    for (; groups != 0; --groups, x += kGroup - kApart)
      for (const int8_t* const end = x + kApart; x != end; x += 4, w += 64)
        PHASOR_UNROLL for (unsigned f = 0; f < 8 / kBits; f += 2) {
          uint32_t both[4];
          inputs<Planes>(both[0], both[1], x + f * kApart, apart);
          inputs<Planes>(both[2], both[3], x + (f + 1) * kApart, apart);
          add_step(s.a, table, word(w), f * kBits, both);
          add_step(s.b, table, word(w + 4), f * kBits, both);
          add_step(s.c, table, word(w + 8), f * kBits, both);
          add_step(s.d, table, word(w + 12), f * kBits, both);
        }
  }
};
// The scales and minima (grid_at) of four outputs side by side: o is the first of them among the
// panel's 16.
template <Type T>
PHASOR_INLINE void grids(Grid (&to)[4], const unsigned char* plane, size_t o, size_t g) {
  if constexpr (record_groups(T) == 1) {
    const unsigned char* p = plane + g * (kLanes * 4) + o * 2;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      to[i] = {half_at(p + 2 * i), half_at(p + kLanes * 2 + 2 * i)};
  } else {
    // scale_code and minimum_code of four outputs, a byte each
    const unsigned char *p = plane + g / kSuper * (kSuperBytes * kLanes) + o * 2,
                        *codes = p + kLanes * 4 - o;
    const size_t i = g % kSuper % 4;
    uint32_t scale = word(codes + i * kLanes), least = word(codes + (i + 4) * kLanes);
    if (g % kSuper < 4) {
      scale &= 0x3f3f3f3fu;
      least &= 0x3f3f3f3fu;
    } else {
      const uint32_t low = word(codes + (i + 8) * kLanes);
      scale = (low & 0x0f0f0f0fu) | (scale >> 2 & 0x30303030u);
      least = (low >> 4 & 0x0f0f0f0fu) | (least >> 2 & 0x30303030u);
    }
    PHASOR_UNROLL for (size_t j = 0; j < 4; ++j)
      to[j] = {half_at(p + 2 * j) * static_cast<float>(scale >> 8 * j & 63u),
               half_at(p + kLanes * 2 + 2 * j) * static_cast<float>(least >> 8 * j & 63u)};
  }
}

// Codes of five bits, from 0 on: four values of k of each half of a group at a time.
template <Type T>
struct Fives {
  static constexpr Type kType = T;
  static constexpr bool kMinima = true;
  static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
  // Steps j and j + 4 of an output.
  static PHASOR_INLINE void add_steps(int32_t& sum, const unsigned char* w, unsigned j,
                                      const uint32_t (&x)[4]) {
    const uint32_t low = word(w + 64 * j), high = word(w + CodeStep<T, 0>::kHighAt) >> j;
    PHASOR_UNROLL for (unsigned i = 0; i < 4; ++i) {
      const unsigned from = i / 2 * 4 + i % 2 * 8;
      const uint32_t upper = from < 4 ? high << 4 : high >> (from - 4);
      add_products(sum, (low >> from & 0x000f000fu) | (upper & 0x00100010u), x[i]);
    }
  }
  template <size_t Planes>
  static PHASOR_INLINE void add_groups(Four& s, const int8_t* x, size_t apart,
                                       const unsigned char*, const unsigned char* w, size_t) {
    for (unsigned j = 0; j < 4; ++j, x += 4) {
      uint32_t both[4];
      inputs<Planes>(both[0], both[1], x, apart);
      inputs<Planes>(both[2], both[3], x + kGroup / 2, apart);
      add_steps(s.a, w, j, both);
      add_steps(s.b, w + 4, j, both);
      add_steps(s.c, w + 8, j, both);
      add_steps(s.d, w + 12, j, both);
    }
  }
};

// Codes in two fields (CodeStep): of a half of a group, with the sums of −32·x or −4·x that make
// them what they stand for.
template <Type T>
struct Fine {
  static constexpr Type kType = T;
  static constexpr bool kMinima = false;
  static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
  // The codes of bytes 0 and 2 of the four of a step, or with `Odd` of 1 and 3.
  template <class Step, int Odd>
  static PHASOR_INLINE uint32_t codes(uint32_t low, uint32_t high) {
    constexpr int kMove = Step::kHighMove + 8 * Odd;
    constexpr uint32_t kLowMask = Step::kLowMask * 0x00010001u,
                       kHighMask = Step::kHighMask * 0x00010001u;
    const uint32_t moved =
        kMove < 0 ? high << (kMove < 0 ? -kMove : 0) : high >> (kMove < 0 ? 0 : kMove);
    return (low >> (Step::kLowMove + 8 * Odd) & kLowMask) | (moved & kHighMask);
  }
  template <class Step>
  static PHASOR_INLINE void add_step(int32_t& sum, const unsigned char* w, uint32_t x_even,
                                     uint32_t x_odd) {
    const uint32_t low = word(w + Step::kLowAt), high = word(w + Step::kHighAt);
    add_products(sum, codes<Step, 0>(low, high), x_even);
    add_products(sum, codes<Step, 1>(low, high), x_odd);
  }
  // Half H of a group; w is at the first output's first value of the group.
  template <size_t H, size_t Planes>
  static PHASOR_INLINE Four sums(const int8_t* x, size_t apart, const unsigned char* w) {
    Four s = {};
    int32_t less = 0;
    const auto step = [&](auto at) PHASOR_LAMBDA {
      constexpr size_t kStep = 4 * H + decltype(at)::value;
      constexpr uint32_t kLess = (0x10000u - code_less(T)) * 0x00010001u;
      using Step = CodeStep<T, kStep>;
      uint32_t x_even, x_odd;
      inputs<Planes>(x_even, x_odd, x + 4 * kStep, apart);
      add_products(less, kLess, x_even);
      add_products(less, kLess, x_odd);
      add_step<Step>(s.a, w, x_even, x_odd);
      add_step<Step>(s.b, w + 4, x_even, x_odd);
      add_step<Step>(s.c, w + 8, x_even, x_odd);
      add_step<Step>(s.d, w + 12, x_even, x_odd);
    };
    step(std::integral_constant<size_t, 0>());
    step(std::integral_constant<size_t, 1>());
    step(std::integral_constant<size_t, 2>());
    step(std::integral_constant<size_t, 3>());
    return {s.a + less, s.b + less, s.c + less, s.d + less};
  }
};

// Σx of a group; of two planes of the whole numbers. Exact.
template <size_t Planes>
PHASOR_INLINE int32_t total(const int32_t* xsum, size_t groups, size_t g) {
  return Planes == 1 ? xsum[g] : 255 * xsum[g] + xsum[groups + g];
}

// Code i of a record of a coded type, of four outputs side by side: a byte each, plus 32 where it
// has six bits. codes: those of the first output.
template <Type T>
PHASOR_INLINE uint32_t scale_codes(const unsigned char* codes, size_t i) {
  if constexpr (scale_bits(T) == 8) return word(codes + i * kLanes);
  constexpr size_t kHalfOf = record_codes(T) / 2, kQuarter = kHalfOf / 2;
  const uint32_t low = word(codes + i % kHalfOf * kLanes) >> i / kHalfOf * 4 & 0x0f0f0f0fu,
                 high = word(codes + (kHalfOf + i % kQuarter) * kLanes) >> i / kQuarter * 2;
  return low | (high & 0x03030303u) << 4;
}
// The scales of outputs o … o + 3 of a panel, group after group: at(to, g).
template <Type T, bool Coded = coded_type(T)>
struct Scales {
  const unsigned char* panel;
  size_t o;
  PHASOR_INLINE void at(float (&to)[4], size_t g) const {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      to[i] = half_at(panel + panel_scale(T, o, g) + 2 * i);
  }
};
// Of a coded type scale after scale: eight groups share four numbers.
template <Type T>
struct Scales<T, true> {
  const unsigned char* panel;
  size_t o;
  const unsigned char* codes = nullptr;
  float number[4] = {};
  PHASOR_INLINE void at(float (&to)[4], size_t i) {
    constexpr size_t kCodes = record_codes(T);
    constexpr int kLess = scale_bits(T) == 8 ? 0 : 32;
    if (i % kCodes == 0) {
      const unsigned char* const record = panel + i / kCodes * (record_bytes(T) * kLanes);
      PHASOR_UNROLL for (size_t j = 0; j < 4; ++j) number[j] = half_at(record + 2 * (o + j));
      codes = record + kLanes * 2 + o;
    }
    const uint32_t four = scale_codes<T>(codes, i % kCodes);
    PHASOR_UNROLL for (size_t j = 0; j < 4; ++j)
      to[j] = number[j] * static_cast<float>(static_cast<int8_t>(four >> 8 * j) - kLess);
  }
};

// Four outputs of one row by groups of 32, each with its scales (1.2). Of inputs of 16 bits the sum
// of a group is exact and rounded once, as the one of its planes' sums is.
template <class Q, size_t Planes>
PHASOR_APART void grouped(float* y, const int8_t* x, const float* xs, const int32_t* xsum,
                           const unsigned char* panel, size_t o, const unsigned char* w,
                           size_t groups) {
  float acc[4] = {};
  Scales<Q::kType> scales{panel, o};
  for (size_t g = 0; g < groups; ++g, x += kGroup, w += Q::kGroupBytes) {
    const int32_t start = -Q::kOffset * total<Planes>(xsum, groups, g);
    Four s = {start, start, start, start};
    Q::template add_groups<Planes>(s, x, groups * kGroup, panel, w, 1);
    const int32_t isum[4] = {s.a, s.b, s.c, s.d};
    float scale[4];
    scales.at(scale, g);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      acc[i] = fma1(static_cast<float>(isum[i]), xs[g] * scale[i], acc[i]);
  }
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) y[i] = acc[i];
}
// The same with minima (1.20).
template <class Q, size_t Planes>
PHASOR_APART void with_minima(float* y, const int8_t* x, const float* xs, const int32_t* xsum,
                              const unsigned char* plane, size_t o, const unsigned char* w,
                              size_t groups) {
  float acc[4] = {};
  for (size_t g = 0; g < groups; ++g, x += kGroup, w += Q::kGroupBytes) {
    Four s = {};
    Q::template add_groups<Planes>(s, x, groups * kGroup, plane, w, 1);
    const int32_t isum[4] = {s.a, s.b, s.c, s.d};
    const float all = xs[g] * static_cast<float>(total<Planes>(xsum, groups, g));
    Grid grid[4];
    grids<Q::kType>(grid, plane, o, g);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      acc[i] = fma1(static_cast<float>(isum[i]), xs[g] * grid[i].scale, acc[i]);
      acc[i] = fma1(all, grid[i].least, acc[i]);
    }
  }
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) y[i] = acc[i];
}
// The same with a scale for each half of a group (1.27, 1.30).
template <Type T, size_t Planes>
PHASOR_APART void with_halves(float* y, const int8_t* x, const float* xs,
                              const unsigned char* plane, size_t o, const unsigned char* w,
                              size_t groups) {
  float acc[4] = {};
  Scales<T> scales{plane, o};
  for (size_t g = 0; g < groups; ++g, x += kGroup, w += Fine<T>::kGroupBytes) {
    const auto add = [&](const Four& s, size_t h) PHASOR_LAMBDA {
      const int32_t isum[4] = {s.a, s.b, s.c, s.d};
      float scale[4];
      scales.at(scale, 2 * g + h);
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
        acc[i] = fma1(static_cast<float>(isum[i]), xs[g] * scale[i], acc[i]);
    };
    add(Fine<T>::template sums<0, Planes>(x, groups * kGroup, w), 0);
    add(Fine<T>::template sums<1, Planes>(x, groups * kGroup, w), 1);
  }
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) y[i] = acc[i];
}
// The same with one scale for all of K (1.18): the planes' sums apart, which 32 bits hold.
template <class Q, size_t Planes>
PHASOR_APART void whole(float* y, const int8_t* x, float sx, const int32_t* xsum,
                         const float* scales, const unsigned char* w, size_t groups) {
  const auto started = [](int32_t sum) {
    sum *= -Q::kOffset;
    return Four{sum, sum, sum, sum};
  };
  Four s = started(xsum[0]);
  Q::template add_groups<1>(s, x, 0, w, w, groups);
  float sum[4] = {static_cast<float>(s.a), static_cast<float>(s.b), static_cast<float>(s.c),
                  static_cast<float>(s.d)};
  if constexpr (Planes == 2) {
    s = started(xsum[1]);
    Q::template add_groups<1>(s, x + groups * kGroup, 0, w, w, groups);
    const int32_t low[4] = {s.a, s.b, s.c, s.d};
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i)
      sum[i] = fma1(255.0f, sum[i], static_cast<float>(low[i]));
  }
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) y[i] = sum[i] * (sx * scales[i]);
}

// Outputs at … at + 3 of a row y.
PHASOR_INLINE void add_bias(float* y, const float* bias, size_t bias_n, size_t at) {
  for (size_t i = at; i < at + 4 && i < bias_n && bias != nullptr; ++i) y[i] += bias[i];
}

template <class Q, size_t Planes>
PHASOR_INLINE void linear_grouped(float* y, size_t ldy, const int8_t* xq, const float* xs,
                                  const int32_t* xsum, size_t rows, const void* w,
                                  const float* bias, size_t bias_n, size_t panels, size_t groups) {
  const unsigned char* panel = static_cast<const unsigned char*>(w);
  const size_t plane = panel_plane_bytes(Q::kType, groups);
  for (size_t at = 0; at < panels * kLanes; at += 4) {
    const size_t i = at % kLanes;
    const unsigned char* values = panel + plane + i * 4;
    for (size_t r = 0; r < rows; ++r) {
      float* const to = y + r * ldy + at;
      const int8_t* const x = xq + r * Planes * groups * kGroup;
      const float* const scales = xs + r * groups;
      const int32_t* const sums = xsum + r * Planes * groups;
      if constexpr (fine_type(Q::kType))
        with_halves<Q::kType, Planes>(to, x, scales, panel, i, values, groups);
      else if constexpr (Q::kMinima)
        with_minima<Q, Planes>(to, x, scales, sums, panel, i, values, groups);
      else
        grouped<Q, Planes>(to, x, scales, sums, panel, i, values, groups);
      add_bias(y + r * ldy, bias, bias_n, at);
    }
    if (i == kLanes - 4) panel += plane + groups * Q::kGroupBytes;
  }
}
template <class Q, size_t Planes>
PHASOR_INLINE void linear_whole(float* y, size_t ldy, const int8_t* xq, const float* xs,
                                const int32_t* xsum, size_t rows, const void* w, const float* bias,
                                size_t bias_n, size_t panels, size_t groups) {
  const unsigned char* panel = static_cast<const unsigned char*>(w);
  for (size_t at = 0; at < panels * kLanes; at += 4) {
    const size_t i = at % kLanes;
    for (size_t r = 0; r < rows; ++r) {
      whole<Q, Planes>(y + r * ldy + at, xq + r * Planes * groups * kGroup, xs[r],
                       xsum + r * Planes, reinterpret_cast<const float*>(panel) + i,
                       panel + kLanes * sizeof(float) + i * 4, groups);
      add_bias(y + r * ldy, bias, bias_n, at);
    }
    if (i == kLanes - 4) panel += kLanes * sizeof(float) + groups * Q::kGroupBytes;
  }
}

// The products by type, as PHASOR_PRODUCTS takes them.
struct Body {
  struct Q8r : phasor::Q8 {
    static constexpr Type kType = Type::q8r;
  };
  using Q8 = phasor::Q8;
  using Q4 = Codes<Type::q4>;
  using Q4t = Codes<Type::q4t>;
  using Q4x = Codes<Type::q4x>;
  using Q2 = Codes<Type::q2>;
  using Q2w = Codes<Type::q2w>;
  using Q1 = Codes<Type::q1>;
  using Q2r = Codes<Type::q2r>;
  using Q4m = Codes<Type::q4m>;
  using Q4k = Codes<Type::q4k>;
  using Q5m = Fives<Type::q5m>;
  using Q5k = Fives<Type::q5k>;
  using Q6 = Fine<Type::q6>;
  using Q3 = Fine<Type::q3>;
  template <class Q, size_t Planes>
  static PHASOR_INLINE void linear(float* y, size_t ldy, const int8_t* xq, const float* xs,
                                   const int32_t* xsum, size_t rows, const void* w,
                                   const float* bias, size_t bias_n, size_t panels,
                                   size_t groups) {
    if constexpr (whole_type(Q::kType))
      linear_whole<Q, Planes>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
    else
      linear_grouped<Q, Planes>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  template <class Q>
  static PHASOR_INLINE void linear_int8(float* y, size_t ldy, const int8_t* xq, const float* xs,
                                        const int32_t* xsum, size_t rows, const void* w,
                                        const float* bias, size_t bias_n, size_t panels,
                                        size_t groups) {
    linear<Q, 1>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  template <class Q>
  static PHASOR_INLINE void linear_int16(float* y, size_t ldy, const int8_t* xq, const float* xs,
                                         const int32_t* xsum, size_t rows, const void* w,
                                         const float* bias, size_t bias_n, size_t panels,
                                         size_t groups) {
    linear<Q, 2>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
  }
  static uint64_t peak_int8(float* out, uint64_t rounds);
};

uint64_t Body::peak_int8(float* out, uint64_t rounds) {
  alignas(16) unsigned char w[kLanes * kGroup];
  alignas(16) int8_t x[2][kGroup];
  for (size_t i = 0; i < sizeof w; ++i) w[i] = static_cast<unsigned char>(i * 37);
  for (size_t i = 0; i < sizeof x; ++i)
    x[i / kGroup][i % kGroup] = static_cast<int8_t>(i * 29 % 255 - 127);
  const float ones[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  const int32_t sum = 0;  // nothing of it is needed
  for (size_t i = 0; i < kLanes; ++i) out[i] = 0.0f;
  for (uint64_t n = 0; n < rounds; ++n)
    for (size_t at = 0; at < kLanes; at += 4) {
      float y[4];
      whole<Q8, 1>(y, x[n & 1], 1.0f, &sum, ones, w + 4 * at, 1);
      for (size_t i = 0; i < 4; ++i) out[at + i] += y[i];
    }
  return rounds * kLanes * kGroup;
}

}  // namespace

PHASOR_PRODUCTS(Dsp, Body)

}  // namespace phasor
