// Exact dot products of 16 outputs by 4 activations for NEON. Without dot-product instructions: two
// steps of k in 16 bits (2·128·127 = 32512 fits), added in pairs to 32 bits; c = 0, 1 and c = 2, 3
// stay apart until the group's end. With: SDOT.
#pragma once
#include <arm_neon.h>

#include "../simd.hpp"

namespace phasor {
namespace {

#if defined(__aarch64__)
using ArchNeon = xsimd::neon64;
#else
using ArchNeon = xsimd::neon;
#endif
using VNeon = v16<ArchNeon>;

// Four activations, twice.
PHASOR_INLINE int8x8_t repeated(const int8_t* p) {
  return vreinterpret_s8_s32(vdup_n_s32(four_bytes(p)));
}

struct Int8Neon {
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<ArchNeon>& a,
                                      const Int16<ArchNeon>& b) {
    return narrow_group(q, a, b);
  }
  static constexpr int kSteps = 2;
  static constexpr size_t kChains = 1;
  struct Sum {
    int32x4_t v[8];  // 2i + h: outputs 4i + 2h and 4i + 2h + 1
  };
  struct Weights {
    int8x16_t v[8];
  };
  struct Values {
    int8x8_t v[2];
  };
  static PHASOR_INLINE Sum start(int32_t) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = vdupq_n_s32(0);
    return s;
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) w.v[i] = vreinterpretq_s8_u8(vld1q_u8(p + 16 * i));
    return w;
  }
  static PHASOR_INLINE Values values(const int8_t* p) { return {{repeated(p), repeated(p + 4)}}; }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, const Values& x) {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const int8x16_t a = w.v[i], b = w.v[4 + i];
      const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(a), x.v[0]), vget_low_s8(b), x.v[1]);
      const int16x8_t high = vmlal_s8(vmull_s8(vget_high_s8(a), x.v[0]), vget_high_s8(b), x.v[1]);
      s.v[2 * i] = vpadalq_s16(s.v[2 * i], low);
      s.v[2 * i + 1] = vpadalq_s16(s.v[2 * i + 1], high);
    }
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, const Values& x) { dot(s, w, x); }
  static PHASOR_INLINE VNeon to_float(const Sum& s) {
    VNeon r;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const int32x4_t a = s.v[2 * i], b = s.v[2 * i + 1];
      const int32x4_t sum = vcombine_s32(vpadd_s32(vget_low_s32(a), vget_high_s32(a)),
                                         vpadd_s32(vget_low_s32(b), vget_high_s32(b)));
      r.v[i] = VNeon::B(vcvtq_f32_s32(sum));
    }
    return r;
  }
};

#if defined(__ARM_FEATURE_DOTPROD)
struct Int8Dotprod {
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<ArchNeon>& a,
                                      const Int16<ArchNeon>& b) {
    return narrow_group(q, a, b);
  }
  static constexpr int kSteps = 2;
  static constexpr size_t kChains = 1;
  struct Sum {
    int32x4_t v[4];
  };
  struct Weights {
    int8x16_t v[8];  // of one step of k, then of the next
  };
  using Values = int8x8_t;  // a lane for each of the two
  static PHASOR_INLINE Sum start(int32_t) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[i] = vdupq_n_s32(0);
    return s;
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) w.v[i] = vreinterpretq_s8_u8(vld1q_u8(p + 16 * i));
    return w;
  }
  static PHASOR_INLINE Values values(const int8_t* p) { return vld1_s8(p); }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[i] = vdotq_lane_s32(s.v[i], w.v[i], x, 0);
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[i] = vdotq_lane_s32(s.v[i], w.v[4 + i], x, 1);
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, const Values& x) { dot(s, w, x); }
  static PHASOR_INLINE VNeon to_float(const Sum& s) {
    VNeon r;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) r.v[i] = VNeon::B(vcvtq_f32_s32(s.v[i]));
    return r;
  }
};
#endif

// The bits of Mask of each byte moved right by At.
template <int At, int Mask>
PHASOR_INLINE int8x16_t field(uint8x16_t n) {
  if constexpr (At < 0) n = vshlq_n_u8(n, -At);
  if constexpr (At > 0) n = vshrq_n_u8(n, At);
  if constexpr (At < 0 || 255 >> (At < 0 ? 0 : At) != Mask) n = vandq_u8(n, vdupq_n_u8(Mask));
  return vreinterpretq_s8_u8(n);
}

template <int At>
PHASOR_INLINE uint8x16_t moved(uint8x16_t n) {
  if constexpr (At > 0) n = vshrq_n_u8(n, At);
  return n;
}

// Codes as they are. Two fields of a byte are what two steps of k are above.
struct Int4Neon : Int8Neon {
  using Nibbles = Weights;
  using Both = Values;
  // each register has two outputs, in two lanes each: the sum in one of them
  static PHASOR_INLINE Sum start(int32_t sum) {
    Sum s;
    const int32x4_t one = vcombine_s32(vset_lane_s32(sum, vdup_n_s32(0), 0),
                                       vset_lane_s32(sum, vdup_n_s32(0), 0));
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = one;
    return s;
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    Nibbles w;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const uint8x16_t n = vld1q_u8(p + 16 * i);
      w.v[i] = field<First, Mask>(n);
      w.v[4 + i] = field<Second, Mask>(n);
    }
    return w;
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return {{repeated(p), repeated(p + apart)}};
  }
};

#if defined(__ARM_FEATURE_DOTPROD)
// One field is a step of k, the other another.
struct Int4Dotprod : Int8Dotprod {
  using Nibbles = Weights;
  using Both = Values;
  static PHASOR_INLINE Sum start(int32_t sum) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) s.v[i] = vdupq_n_s32(sum);
    return s;
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    Nibbles w;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const uint8x16_t n = vld1q_u8(p + 16 * i);
      w.v[i] = field<First, Mask>(n);
      w.v[4 + i] = field<Second, Mask>(n);
    }
    return w;
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return vreinterpret_s8_s32(
        vset_lane_s32(four_bytes(p + apart), vdup_n_s32(four_bytes(p)), 1));
  }
};
#endif

// Codes in two fields (CodeStep), of step S and the next: as they are, or with Less as what they
// stand for.
template <Type T, class Int8, bool Less>
struct FineCodes : Int8 {
  using Weights = typename Int8::Weights;
  template <size_t S>
  static PHASOR_INLINE Weights codes(const unsigned char* group) {
    Weights w;
    step<S>(w.v, group);
    step<S + 1>(w.v + 4, group);
    return w;
  }
  template <size_t S>
  static PHASOR_INLINE void step(int8x16_t* to, const unsigned char* group) {
    using Step = CodeStep<T, S>;
    constexpr int kBits = value_bits(T), kHigh = Step::kHighMove + int{Step::kLow};
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const uint8x16_t low = moved<Step::kLowMove>(vld1q_u8(group + Step::kLowAt + 16 * i)),
                       high = moved<kHigh>(vld1q_u8(group + Step::kHighAt + 16 * i)),
                       n = vandq_u8(vsliq_n_u8(low, high, Step::kLow),
                                    vdupq_n_u8((1 << kBits) - 1));
      to[i] = vreinterpretq_s8_u8(Less ? vsubq_u8(n, vdupq_n_u8(code_less(T))) : n);
    }
  }
};
// Half a group's sums in 16 bits: 4·32·127 fits, and a whole one's of five bits: 8·31·127.
template <Type T>
struct FineNeon : FineCodes<T, Int8Neon, true> {
  using Weights = Int8Neon::Weights;
  using Values = Int8Neon::Values;
  struct Sum {
    int16x8_t v[8];
  };
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t*) { to[0] = to[1] = 0; }
  static PHASOR_INLINE Sum start(int32_t) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = vdupq_n_s16(0);
    return s;
  }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, const Values& x) {
    PHASOR_UNROLL for (size_t j = 0; j < 2; ++j)
      PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
        const int8x16_t a = w.v[4 * j + i];
        s.v[2 * i] = vmlal_s8(s.v[2 * i], vget_low_s8(a), x.v[j]);
        s.v[2 * i + 1] = vmlal_s8(s.v[2 * i + 1], vget_high_s8(a), x.v[j]);
      }
  }
  static PHASOR_INLINE VNeon to_float(const Sum& s) {
    Int8Neon::Sum wide;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) wide.v[i] = vpaddlq_s16(s.v[i]);
    return Int8Neon::to_float(wide);
  }
};
#if defined(__ARM_FEATURE_DOTPROD)
template <Type T>
struct FineDotprod : FineCodes<T, Int8Dotprod, false> {
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t* x) {
    PHASOR_UNROLL for (size_t h = 0; h < 2; ++h)
      to[h] = -static_cast<int32_t>(code_less(T)) * vaddlvq_s8(vld1q_s8(x + h * kHalf));
  }
  static PHASOR_INLINE Int8Dotprod::Sum start(int32_t word) { return Int4Dotprod::start(word); }
};
#endif

PHASOR_INLINE uint8x16_t looked_up(uint8x16_t table, uint8x16_t at) {
#if defined(__aarch64__)
  return vqtbl1q_u8(table, at);
#else
  const uint8x8x2_t halves = {{vget_low_u8(table), vget_high_u8(table)}};
  return vcombine_u8(vtbl2_u8(halves, vget_low_u8(at)), vtbl2_u8(halves, vget_high_u8(at)));
#endif
}

// What the levels of ARM have in common.
struct LevelNeon {
  using Arch = ArchNeon;
  // The conversion instruction keeps f16 subnormals even where ARMv7's NEON flushes f32 ones.
  static PHASOR_INLINE VNeon half16(const unsigned char* p) {
    VNeon r;
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const float16x8_t eight = vreinterpretq_f16_u8(vld1q_u8(p + 16 * i));
      r.v[2 * i] = vcvt_f32_f16(vget_low_f16(eight));
#if defined(__aarch64__)
      r.v[2 * i + 1] = vcvt_high_f32_f16(eight);
#else
      r.v[2 * i + 1] = vcvt_f32_f16(vget_high_f16(eight));
#endif
    }
    return r;
  }
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    const uint8x16_t of = vld1q_u8(table);
    PHASOR_UNROLL for (size_t i = 0; i < 256; i += 16) {
      const uint8x16_t n = vld1q_u8(codes + i);
      vst1q_u8(to + i, looked_up(of, vandq_u8(n, vdupq_n_u8(15))));
      vst1q_u8(to + 256 + i, looked_up(of, vshrq_n_u8(n, 4)));
    }
  }
  static PHASOR_INLINE VNeon byte16(const unsigned char* p) {
    VNeon r;
    const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const int16x8_t eight = vmovl_s8(i == 0 ? vget_low_s8(bytes) : vget_high_s8(bytes));
      r.v[2 * i] = VNeon::B(vcvtq_f32_s32(vmovl_s16(vget_low_s16(eight))));
      r.v[2 * i + 1] = VNeon::B(vcvtq_f32_s32(vmovl_s16(vget_high_s16(eight))));
    }
    return r;
  }
};

}  // namespace
}  // namespace phasor
