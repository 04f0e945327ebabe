// Exact dot products of 16 outputs by 4 activations for SSE2: both sides widened to 16 bits, then
// pmaddwd (1.4). The sums of c = 0, 1 and of c = 2, 3 stay apart until the group's end: register 2i
// + h holds outputs 4i + 2h and 4i + 2h + 1.
#pragma once
#include "../simd.hpp"

namespace phasor {
namespace {

using V128 = v16<xsimd::sse2>;

PHASOR_INLINE __m128i load128(const void* p) {
  return _mm_loadu_si128(static_cast<const __m128i*>(p));
}

struct Int8Sse2 {
  static constexpr int kSteps = 1;
  static constexpr size_t kChains = 1;
  struct Sum {
    __m128i v[8];
  };
  struct Weights {
    __m128i v[8];
  };
  using Values = __m128i;
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<xsimd::sse2>& a,
                                      const Int16<xsimd::sse2>& b) {
    return narrow_group(q, a, b);
  }
  static PHASOR_INLINE Sum start(int32_t) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = _mm_setzero_si128();
    return s;
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const __m128i bytes = load128(p + 16 * i), zero = _mm_setzero_si128();
      w.v[2 * i] = _mm_srai_epi16(_mm_unpacklo_epi8(zero, bytes), 8);
      w.v[2 * i + 1] = _mm_srai_epi16(_mm_unpackhi_epi8(zero, bytes), 8);
    }
    return w;
  }
  static PHASOR_INLINE Values values(const int8_t* p) {
    const __m128i x = _mm_set1_epi32(four_bytes(p));
    return _mm_srai_epi16(_mm_unpacklo_epi8(_mm_setzero_si128(), x), 8);
  }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) {
      s.v[i] = _mm_add_epi32(s.v[i], _mm_madd_epi16(w.v[i], x));
      keep(s.v[i]);
    }
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, Values x) { dot(s, w, x); }
  static PHASOR_INLINE V128 to_float(const Sum& s) {
    V128 r;
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const __m128 a = _mm_castsi128_ps(s.v[2 * i]), b = _mm_castsi128_ps(s.v[2 * i + 1]);
      const __m128i even = _mm_castps_si128(_mm_shuffle_ps(a, b, 0x88)),
                    odd = _mm_castps_si128(_mm_shuffle_ps(a, b, 0xdd));
      r.v[i] = V128::B(_mm_cvtepi32_ps(_mm_add_epi32(even, odd)));
    }
    return r;
  }
};

struct Int4Sse2 : Int8Sse2 {
  struct Nibbles {
    Weights low, high;
  };
  struct Both {
    Values low, high;
  };
  // each register has two outputs, in two lanes each: the sum in one of them
  static PHASOR_INLINE Sum start(int32_t sum) {
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 8; ++i) s.v[i] = _mm_set_epi32(0, sum, 0, sum);
    return s;
  }
  // The bits of Mask of each byte moved right by At.
  template <int At, int Mask>
  static PHASOR_INLINE __m128i field(__m128i n) {
    if constexpr (At < 0) n = _mm_slli_epi16(n, -At);
    if constexpr (At > 0) n = _mm_srli_epi16(n, At);
    return _mm_and_si128(n, _mm_set1_epi8(Mask));
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    Nibbles w;
    const __m128i zero = _mm_setzero_si128();
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const __m128i n = load128(p + 16 * i), low = field<First, Mask>(n),
                    high = field<Second, Mask>(n);
      w.low.v[2 * i] = _mm_unpacklo_epi8(low, zero);
      w.low.v[2 * i + 1] = _mm_unpackhi_epi8(low, zero);
      w.high.v[2 * i] = _mm_unpacklo_epi8(high, zero);
      w.high.v[2 * i + 1] = _mm_unpackhi_epi8(high, zero);
    }
    return w;
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return {values(p), values(p + apart)};
  }
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    Int8Sse2::dot(s, w.low, x.low);
    Int8Sse2::dot(s, w.high, x.high);
  }
};

// Codes in two fields (CodeStep), as what they stand for.
template <Type T>
struct FineSse2 : Int8Sse2 {
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t*) { to[0] = to[1] = 0; }
  template <size_t S>
  static PHASOR_INLINE Weights codes(const unsigned char* group) {
    using Step = CodeStep<T, S>;
    Weights w;
    const __m128i zero = _mm_setzero_si128(),
                  less = _mm_set1_epi16(static_cast<short>(code_less(T)));
    PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
      const __m128i n = _mm_or_si128(
          Int4Sse2::field<Step::kLowMove, Step::kLowMask>(load128(group + Step::kLowAt + 16 * i)),
          Int4Sse2::field<Step::kHighMove, Step::kHighMask>(
              load128(group + Step::kHighAt + 16 * i)));
      w.v[2 * i] = _mm_sub_epi16(_mm_unpacklo_epi8(n, zero), less);
      w.v[2 * i + 1] = _mm_sub_epi16(_mm_unpackhi_epi8(n, zero), less);
    }
    return w;
  }
};

// Each byte goes to the top of its lane, which a shift makes a whole number.
PHASOR_INLINE V128 byte16_sse2(const unsigned char* p) {
  V128 r;
  const __m128i bytes = load128(p), zero = _mm_setzero_si128();
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
    const __m128i pairs = i < 2 ? _mm_unpacklo_epi8(zero, bytes) : _mm_unpackhi_epi8(zero, bytes);
    const __m128i top =
        i % 2 == 0 ? _mm_unpacklo_epi16(zero, pairs) : _mm_unpackhi_epi16(zero, pairs);
    r.v[i] = V128::B(_mm_cvtepi32_ps(_mm_srai_epi32(top, 24)));
  }
  return r;
}

// widen_f16 on vectors: exponent and mantissa moved into place and scaled by 2^112, which also puts
// subnormals right; infinities and NaNs get the largest exponent.
PHASOR_INLINE V128 half16_sse2(const unsigned char* p) {
  V128 r;
  PHASOR_UNROLL for (size_t i = 0; i < 4; ++i) {
    const __m128i h = _mm_unpacklo_epi16(
        _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i)), _mm_setzero_si128());
    const __m128i body = _mm_and_si128(h, _mm_set1_epi32(0x7fff)),
                  sign = _mm_slli_epi32(_mm_xor_si128(h, body), 16);
    const __m128i special =
        _mm_and_si128(_mm_cmpgt_epi32(body, _mm_set1_epi32(0x7bff)), _mm_set1_epi32(0x7f800000));
    const __m128 x = _mm_mul_ps(_mm_castsi128_ps(_mm_slli_epi32(body, 13)), _mm_set1_ps(0x1p112f));
    r.v[i] = V128::B(_mm_or_ps(_mm_or_ps(x, _mm_castsi128_ps(special)), _mm_castsi128_ps(sign)));
  }
  return r;
}

}  // namespace
}  // namespace phasor
