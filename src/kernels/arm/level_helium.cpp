// Helium with floating point (Cortex-M55, M85): the kernels that level_scalar.cpp says in plain
// loops, four lanes at a time. Flags: -mcpu=cortex-m55 -fno-tree-vectorize (the compiler's own
// vectors would flush subnormals where nobody expects it)
#include <type_traits>

#include "../table.h"
#include "helium.hpp"

#if !defined(__ARM_FEATURE_MVE) || (__ARM_FEATURE_MVE & 2) == 0
#error "phasor: level_helium.cpp needs Helium with floating point: -mcpu=cortex-m55"
#endif
#if defined(__clang__)
// Its comparisons are turned around, and a NaN is lost (clang 19).
#error "phasor: clang has no level for Helium: build with gcc, or with -DPHASOR_SCALAR_ONLY"
#endif

#define PHASOR_APART __attribute__((noinline))

namespace phasor {
namespace {

struct Helium {
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

  struct CacheQ8 {};  // has the scalar loops
  template <class W>
  static void scores(float* s, size_t lds, const float* q, size_t ldq, size_t rows,
                     const void* const* k_pages, size_t pages, size_t width) {
    if constexpr (std::is_same<W, CacheQ8>::value)
      kernels_scalar.scores[kCacheQ8](s, lds, q, ldq, rows, k_pages, pages, width);
    else
      for (size_t p = 0; p < pages; ++p)
        panel_rows<W>(s + p * kLanes, lds, q, ldq, rows,
                      static_cast<const unsigned char*>(k_pages[p]), width);
  }

  static void quantize_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    for (size_t first = 0; first < cols; first += kGroup, x += kGroup) {
      const size_t n = cols - first;
      float amax = 0.0f;
      for (size_t i = 0; i < kGroup && i < n; i += 4)
        amax = vmaxnmavq_f32(amax, load(x + i, first_lanes(n - i)).v);
      const bool zero = amax < 0x1p-80f;
      const float inv = zero ? 0.0f : 127.0f / amax;
      int32_t total = 0;
      for (size_t i = 0; i < kGroup; i += 4, q += 4) {
        const v4 xi = zero || i >= n ? v4::set(0.0f) : load(x + i, first_lanes(n - i));
        int32x4_t v = vsubq_n_s32(vreinterpretq_s32_f32((xi * v4::set(inv) + v4::set(kRound)).v),
                                  static_cast<int32_t>(bits_of(kRound)));
        v = vmaxq_s32(vminq_s32(v, vdupq_n_s32(127)), vdupq_n_s32(-127));
        total = vaddvaq_s32(total, v);
        vstrbq_s32(q, v);
      }
      *scale++ = zero ? 0.0f : amax * 0x1.020408p-7f;
      *sum++ = total;
    }
  }

  // Has the scalar loops.
  static void quantize_whole(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                             size_t block) {
    kernels_scalar.quantize_whole(q, scale, sum, x, cols, block);
  }

  static void quantize_row16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
    kernels_scalar.quantize_row16(q, scale, sum, x, cols);
  }
  static void quantize_whole16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    kernels_scalar.quantize_whole16(q, scale, sum, x, cols, block);
  }

  static void quantize_rotated(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                               size_t block) {
    kernels_scalar.quantize_rotated(q, scale, sum, x, cols, block);
  }

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
    static constexpr Type kMinima = Type::f32;  // none
    static PHASOR_INLINE int32x4_t less(int32x4_t sum, int32_t) { return sum; }
  };
  template <Type T>
  struct Codes {
    static constexpr Type kType = T;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
    static constexpr Type kMinima = Type::f32;
    static PHASOR_INLINE int32x4_t less(int32x4_t sum, int32_t total) {
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
  struct Q4m : Q4 {  // nibbles as they are, and minima
    static constexpr Type kMinima = Type::q4m;
    static PHASOR_INLINE int32x4_t less(int32x4_t sum, int32_t) { return sum; }
  };
  struct Q4k : Q4m {
    static constexpr Type kMinima = Type::q4k;
  };
  // What eight groups of q4k share, for 16 outputs: their scale and minimum, and the codes of
  // scale_code and minimum_code that multiply them.
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
  static constexpr bool kSupers = Q::kMinima == Type::q4k || coded_type(Q::kType);
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
      return halves(minimum_type(Q::kMinima)
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
    if constexpr (minimum_type(Q::kMinima)) {
      float total = static_cast<float>(xsum[g]);
      if constexpr (Planes == 2)
        total = fma1(255.0f, total, static_cast<float>(xsum[groups + g]));
      acc = fma(scale_of<Q>(plane, g, First, true), xs[g] * total, acc);
    }
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
        constexpr Type kOf = coded_type(Q::kType) ? Q::kType : Type::q4k;
        if (g % kSuper == 0) unpack(&plane, scales + g / kSuper * (record_bytes(kOf) * kLanes));
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
  // Codes in two fields (CodeStep), with a scale for each half of a group (1.27, 1.30).
  template <Type T>
  struct Fine {
    static constexpr Type kType = T, kMinima = Type::f32;
    static constexpr unsigned kLow = low_bits(value_bits(T)), kHigh = value_bits(T) - kLow;
    static constexpr size_t kGroupBytes = kLanes * code_bytes(value_bits(T));
    static_assert((kLow == 4 && kHigh == 2) || (kLow == 2 && kHigh == 1), "as in codes");
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
        const uint8x16_t six = vdupq_n_u8(63);
        n[0] = vreinterpretq_s8_u8(vandq_u8(vsliq_n_u8(below, above, 4), six));
        n[1] = vreinterpretq_s8_u8(vandq_u8(vsriq_n_u8(above, below, 4), six));
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
  // The sums of output First + O with each plane's halves x into the lanes of `sum`.
  template <Type T, size_t Planes, int First, int O>
  static PHASOR_INLINE void fine_sums(int32x4_t (&sum)[Planes][2], const Fine<T>& fine,
                                      uint32_t at, const int8x16_t (&x)[Planes][2]) {
    int8x16_t n[2];
    fine.template codes<First + O>(n, at);
    PHASOR_UNROLL for (size_t i = 0; i < Planes; ++i)
      PHASOR_UNROLL for (size_t h = 0; h < 2; ++h)
        sum[i][h] = O == 0 ? vdupq_n_s32(vmladavq_s8(n[h], x[i][h]))
                           : vsetq_lane_s32(vmladavq_s8(n[h], x[i][h]), sum[i][h], O);
  }
  // Adds one group to the chains of outputs First … First + 3. less: 32·Σx or 4·Σx of each plane's
  // halves.
  template <Type T, size_t Planes, int First>
  static PHASOR_INLINE void four_fine(v4& acc, const Fine<T>& fine, uint32_t at,
                                      const int8x16_t (&x)[Planes][2],
                                      const int32_t (&less)[Planes][2], const Coded<T>& scales,
                                      size_t g, float sx) {
    int32x4_t sum[Planes][2];
    fine_sums<T, Planes, First, 0>(sum, fine, at, x);
    fine_sums<T, Planes, First, 1>(sum, fine, at, x);
    fine_sums<T, Planes, First, 2>(sum, fine, at, x);
    fine_sums<T, Planes, First, 3>(sum, fine, at, x);
    PHASOR_UNROLL for (size_t h = 0; h < 2; ++h) {
      const auto of = [&](size_t i) PHASOR_LAMBDA {
        return v4{vcvtq_f32_s32(vsubq_n_s32(sum[i][h], less[i][h]))};
      };
      v4 total = of(0);
      if constexpr (Planes == 2) total = fma(total, 255.0f, of(1));
      const v4 scale = coded_scale(scales, 2 * (g % kSuper) + h, First);
      acc = fma(total, v4{vmulq_n_f32(scale.v, sx)}, acc);
    }
  }
  template <Type T, size_t Planes>
  static PHASOR_APART void fine_chains(float* y, const int8_t* x, const float* xs,
                                       const unsigned char* plane, const unsigned char* w,
                                       size_t groups) {
    const size_t apart = groups * kGroup;
    const Fine<T> fine;
    Coded<T> scales;
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
      if (g % kSuper == 0) unpack(&scales, plane + g / kSuper * (record_bytes(T) * kLanes));
      four_fine<T, Planes, 0>(acc[0], fine, at, values, less, scales, g, xs[g]);
      four_fine<T, Planes, 4>(acc[1], fine, at, values, less, scales, g, xs[g]);
      four_fine<T, Planes, 8>(acc[2], fine, at, values, less, scales, g, xs[g]);
      four_fine<T, Planes, 12>(acc[3], fine, at, values, less, scales, g, xs[g]);
    }
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) store(y + 4 * i, acc[i]);
  }
  using Q6 = Fine<Type::q6>;
  using Q3 = Fine<Type::q3>;
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
                         : minimum_type(Q::kMinima)
                             ? static_cast<size_t>(record_plane_bytes(Q::kMinima, kLanes, groups))
                             : panel_plane_bytes(Q::kType, groups),
                 bytes = plane + groups * Q::kGroupBytes, row = Planes * groups * kGroup;
    for (size_t p = 0; p < panels; ++p) {
      const unsigned char* panel = static_cast<const unsigned char*>(w) + p * bytes;
      for (size_t r = 0; r < rows && kOneScale; ++r)
        if constexpr (kOneScale)
          whole_row<Q, Planes>(y + r * ldy + p * kLanes, xq + r * row, xs[r], xsum + r * Planes,
                               panel, groups);
      for (size_t r = 0; r < rows && !kOneScale; ++r)
        if constexpr (fine_type(Q::kType))
          fine_chains<Q::kType, Planes>(y + r * ldy + p * kLanes, xq + r * row, xs + r * groups,
                                        panel, panel + plane, groups);
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

  // y (n): y[i] = Σ_d x[d]·t[d·step + i], or the chain goes on from y.
  static PHASOR_APART void table_chains(float* y, size_t n, const float* x, const float* t,
                                        size_t step, size_t terms, bool on) {
    for (size_t i = 0; i < n; i += 4) {
      const mve_pred16_t p = first_lanes(n - i);
      v4 acc = on ? load(y + i, p) : v4::set(0.0f);
      for (size_t d = 0; d < terms; ++d) acc = fma(load(t + d * step + i, p), x[d], acc);
      store(y + i, acc, p);
    }
  }
  static void table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                           const float* t, size_t ldt, size_t n, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      table_chains(y + r * ldy, n, q + r * ldq, t, ldt, width, false);
  }
  static void mix_table(float* out, const float* e, const float* t, size_t step, size_t n,
                        size_t width) {
    table_chains(out, width, e, t, step, n, true);
  }

  // Key j in f32: its first value.
  static PHASOR_INLINE const float* key_at(const void* const* k_pages, size_t j) {
    return static_cast<const float*>(k_pages[j / kLanes]) + j % kLanes;
  }
  static void key_table_scores(float* y, size_t ldy, const float* q, size_t ldq, size_t rows,
                               const void* const* k_pages, size_t first, size_t end, const float* t,
                               size_t ldt, size_t step, size_t width) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t j = first; j < end;) {
        const size_t in_page = kLanes - j % kLanes, left = end - j < in_page ? end - j : in_page,
                     n = left < 4 ? left : 4;
        const mve_pred16_t p = first_lanes(n);
        const float *keys = key_at(k_pages, j), *entries = t + (j - first) - r * step;
        v4 acc = v4::set(0.0f);
        for (size_t d = 0; d < width; ++d) {
          v4 key = load(keys + d * kLanes, p);
          if (q != nullptr) key = v4::set(q[r * ldq + d]) * key;
          acc = fma(key, load(entries + d * ldt, p), acc);
        }
        store(y + r * ldy + j - first, acc, p);
        j += n;
      }
  }

  static void additive_scores(float* s, const float* q, const float* v, const void* const* k_pages,
                              size_t pages, size_t width) {
    for (size_t j = 0; j < pages * kLanes; j += 4) {
      v4 acc = v4::set(0.0f);
      for (size_t d = 0; d < width; ++d)
        acc = fma(tanh_of(v4::set(q[d]) + load(key_at(k_pages, j) + d * kLanes)), v[d], acc);
      store(s + j, acc);
    }
  }

  static void distance_bias(float* s, size_t first, size_t end, size_t query, float slope) {
    uint32x4_t at = vaddq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(first));
    for (size_t j = first; j < end; j += 4, at = vaddq_n_u32(at, 4)) {
      const mve_pred16_t p = first_lanes(end - j);
      const v4 distance = {vcvtq_f32_u32(vabdq_u32(at, vdupq_n_u32(static_cast<uint32_t>(query))))};
      store(s + j, fma(v4::set(0.0f) - distance, slope, load(s + j, p)), p);
    }
  }

  // `other` in the places of the first and the last block that are not first … end − 1.
  static PHASOR_APART void mask_edges(float* s, size_t first, size_t end, float other) {
    for (size_t t = first / kLanes * kLanes; t < first; ++t) s[t] = other;
    for (size_t t = end; t < up_to_lanes(end); ++t) s[t] = other;
  }
  static float softmax(float* s, size_t first, size_t end) {
    if (first >= end) return 0.0f;
    mask_edges(s, first, end, -kInfinity);
    const size_t begin = first / kLanes * kLanes, n = up_to_lanes(end) - begin;
    float largest = -kInfinity;
    for (size_t t = 0; t < n; t += 4) largest = vmaxnmvq_f32(largest, load(s + begin + t).v);
    Lanes sum;
    for (size_t t = 0; t < n; t += 4) {
      const v4 e = exp_not_positive(load(s + begin + t) - v4::set(largest));
      store(s + begin + t, e);
      store(sum.t + t % kLanes, load(sum.t + t % kLanes) + e);
    }
    mask_edges(s, first, end, 0.0f);
    return 1.0f / sum.tree();
  }

  // 16 places of the width at a time: page after page its chains go on in `lanes`.
  template <class W>
  static void mix_pages(float* out, size_t ldo, const float* e, size_t lde, const float* inv,
                        size_t rows, const void* const* v_pages, const KeyRange& keys,
                        size_t width) {
    using Value = typename W::Value;
    const size_t ldv = up_to_lanes(width);
    for (size_t r = 0; r < rows; ++r)
      for (size_t at = 0; at < width; at += kLanes) {
        alignas(16) float lanes[kLanes] = {};
        const size_t end = keys.end + r * keys.more;
        for (size_t t = keys.first + r * keys.skip, n; t < end; t += n) {
          n = kLanes - t % kLanes < end - t ? kLanes - t % kLanes : end - t;
          const Value* v = static_cast<const Value*>(v_pages[t / kLanes]) + t % kLanes * ldv + at;
          chains<W, 1, 4>(lanes, 0, e + r * lde + t, 0, reinterpret_cast<const unsigned char*>(v),
                          ldv * sizeof(Value), n, true);
        }
        for (size_t i = 0; i < kLanes && at + i < width; i += 4)
          store(out + r * ldo + at + i, load(lanes + i) * v4::set(inv[r]),
                first_lanes(width - at - i));
      }
  }
  template <class W>
  static void mix(float* out, size_t ldo, const float* e, size_t lde, const float* inv, size_t rows,
                  const void* const* v_pages, KeyRange keys, size_t width) {
    if constexpr (std::is_same<W, CacheQ8>::value)
      kernels_scalar.mix[kCacheQ8](out, ldo, e, lde, inv, rows, v_pages, keys, width);
    else
      mix_pages<W>(out, ldo, e, lde, inv, rows, v_pages, keys, width);
  }

  // y = (x − mean)·r scaled by g and shifted by b, for both norms.
  static PHASOR_APART void normed(float* y, const float* x, const float* g, const float* b,
                                  size_t n, float mean, float r) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      const v4 z = (load(x + i, p) - v4::set(mean)) * v4::set(r);
      store(y + i, b != nullptr ? fma(z, load(g + i, p), load(b + i, p)) : z * load(g + i, p), p);
    });
  }
  static float layer_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                          float eps) {
    Lanes sum, squares;
    each_lane(sum, n,
              [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA { return lane + load(x + i, p); });
    const float mean = sum.tree() / float_of_size(n);
    each_lane(squares, n, [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA {
      const v4 d = load(x + i, p) - v4::set(mean);
      return fma(d, d, lane, p);
    });
    const float square = squares.tree() / float_of_size(n);
    normed(y, x, g, b, n, mean, 1.0f / sqrt1(square + eps));
    return square;
  }
  // Σx² by lanes and the fixed tree.
  static PHASOR_APART float sum_of_squares(const float* x, size_t n) {
    Lanes squares;
    each_lane(squares, n, [=](v4 lane, size_t i, auto p) PHASOR_LAMBDA {
      const v4 xi = load(x + i, p);
      return fma(xi, xi, lane);
    });
    return squares.tree();
  }
  static float rms_norm(float* y, const float* x, const float* g, const float* b, size_t n,
                        float eps) {
    const float square = sum_of_squares(x, n) / float_of_size(n);
    normed(y, x, g, b, n, 0.0f, 1.0f / sqrt1(square + eps));  // x − 0 is x
    return square;
  }

  static void rotate_halves(float* x, const float* c, const float* s, size_t half) {
    each_part(half, [=](size_t i, mve_pred16_t p) PHASOR_LAMBDA {
      const v4 x0 = load(x + i, p), x1 = load(x + half + i, p), ci = load(c + i, p),
               si = load(s + i, p);
      store(x + i, fma(x0, ci, negated(x1 * si)), p);
      store(x + half + i, fma(x0, si, x1 * ci), p);
    });
  }
  static void rotate_pairs(float* x, const float* c, const float* s, size_t half) {
    size_t i = 0;
    for (; i + 4 <= half; i += 4) {
      float32x4x2_t both = vld2q_f32(x + 2 * i);
      const v4 x0 = {both.val[0]}, x1 = {both.val[1]}, ci = load(c + i), si = load(s + i);
      both.val[0] = fma(x0, ci, negated(x1 * si)).v;
      both.val[1] = fma(x0, si, x1 * ci).v;
      vst2q_f32(x + 2 * i, both);
    }
    for (; i < half; ++i) turn(x + 2 * i, x + 2 * i + 1, c[i], s[i]);
  }

  // y = f(y), four at a time.
  template <class F>
  static PHASOR_INLINE void each(float* y, size_t n, F f) {
    each_part(n,
              [=](size_t i, mve_pred16_t p) PHASOR_LAMBDA { store(y + i, f(load(y + i, p)), p); });
  }
  static float unit(float* y, const float* x, size_t n) {
    const float square = sum_of_squares(x, n), length = sqrt1(square);
    const float divisor = length > 1e-12f ? length : 1e-12f;
    for (size_t i = 0; i < n; ++i) y[i] = x[i] / divisor;
    return square;
  }
  static void scale(float* y, const float* x, size_t n, float s) {
    each_vector(
        n, [=](size_t i, auto p) PHASOR_LAMBDA { store(y + i, load(x + i, p) * v4::set(s), p); });
  }
  static void mul(float* y, const float* x, size_t n) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, load(y + i, p) * load(x + i, p), p);
    });
  }
  static void mul_add(float* y, const float* x, const float* w, size_t n) {
    each_vector(n, [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, fma(load(x + i, p), load(w + i, p), load(y + i, p)), p);
    });
  }
  static void clip(float* y, size_t n, float limit) {
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return clip_of(v, v4::set(limit)); });
  }
  template <class F>
  static void each_of(float* y, size_t n) {
    const auto one = [=](size_t i, auto p) PHASOR_LAMBDA {
      store(y + i, F::of(load(y + i, p)), p);
    };
    if constexpr (std::is_same<F, Formula<kRelu>>::value || std::is_same<F, Formula<kRelu2>>::value)
      each_vector(n, one);  // short
    else
      each_part(n, one);
  }
  static void xielu(float* y, size_t n, const float* numbers) {
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return xielu_of(v, numbers); });
  }
  static void soft_cap(float* y, size_t n, float cap) {
    const float inv = 1.0f / cap;
    each(y, n, [=](v4 v) PHASOR_LAMBDA { return v4::set(cap) * tanh_of(v * v4::set(inv)); });
  }

  // The largest of all, then the first place that holds it. Where all are below 0 and the largest
  // is subnormal, the vectors see 0, and none is as large.
  static size_t argmax(const float* x, size_t n, float* largest) {
    float best = -kInfinity;
    unsigned nan = 0;
    for (size_t i = 0; i < n; i += 4) {
      const mve_pred16_t p = first_lanes(n - i);
      const v4 v = load(x + i, p);
      best = vmaxnmvq_p_f32(best, v.v, p);
      nan |= vcmpneq_f32(v.v, v.v);
    }
    size_t at = 0;
    while (nan == 0 && at < n && !(x[at] >= best)) ++at;
    if (at == n) {
      at = 0;
      for (size_t i = 1; i < n; ++i) at = x[i] > x[at] ? i : at;
    }
    *largest = nan != 0 ? __builtin_nanf("") : x[at];
    return nan != 0 ? n : at;
  }

  static uint64_t peak_f32(float* out, uint64_t rounds) {
    v4 acc[4];
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = v4::set(static_cast<float>(i));
    const v4 w = v4::set(0x1p-20f);
    for (uint64_t n = 0; n < rounds; ++n)
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) acc[i] = fma(w, 0.5f, acc[i]);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) store(out + 4 * i, acc[i]);
    return rounds * kLanes;
  }
  static uint64_t peak_int8(float* out, uint64_t rounds) {
    int8_t bytes[5 * kLanes];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<int8_t>(i * 37 % 255 - 127);
    const int8x16_t w[3] = {vldrbq_s8(bytes), vldrbq_s8(bytes + 16), vldrbq_s8(bytes + 32)};
    int32_t sum[3] = {};  // wraps
    for (uint64_t n = 0; n < rounds; ++n) {
      const int8x16_t x = vldrbq_s8(bytes + (n & 1) * 16 + 48);
      PHASOR_UNROLL for (size_t i = 0; i < 3; ++i) sum[i] = vmladavaq_s8(sum[i], w[i], x);
    }
    for (size_t i = 0; i < kLanes; ++i) out[i] = static_cast<float>(sum[i % 3]);
    return rounds * 3 * kLanes;
  }
};

}  // namespace

extern const Kernels kernels_helium;
const Kernels kernels_helium = kernel_table<Helium>("helium");

}  // namespace phasor
