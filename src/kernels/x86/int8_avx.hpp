// Exact dot products of 16 outputs by 4 activations for the 256-bit levels. AVX2: |w| as unsigned
// bytes times sign(x, w), so that the pairs' sums stay below 2·128·127 = 32512 and never saturate
// (1.4); the activations are within ±127, so negation is exact. AVX-VNNI: weights xor 0x80 are w +
// 128 unsigned, so the sum starts at −128·Σx (1.4). Codes of four bits and fewer are unsigned as
// they are.
#pragma once
#include "narrow_avx2.hpp"

namespace phasor {
namespace {

struct Int8Avx2 {
  static constexpr int kSteps = 1;
  static constexpr size_t kChains = 1;
  struct Sum {
    __m256i v[2];
  };
  struct Weights {
    __m256i v[2], size[2];
  };
  using Values = __m256i;
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<xsimd::fma3<xsimd::avx2>>& a,
                                      const Int16<xsimd::fma3<xsimd::avx2>>& b) {
    const __m256i low = _mm256_packs_epi32(a.v[0], a.v[1]),
                  high = _mm256_packs_epi32(b.v[0], b.v[1]);
    return store_group(q, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high),
                                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
  }
  static PHASOR_INLINE Sum start(int32_t) {
    return {{_mm256_setzero_si256(), _mm256_setzero_si256()}};
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
    return {{a, b}, {_mm256_abs_epi8(a), _mm256_abs_epi8(b)}};
  }
  static PHASOR_INLINE Values values(const int8_t* p) { return _mm256_set1_epi32(four_bytes(p)); }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    const __m256i ones = _mm256_set1_epi16(1);
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i pairs = _mm256_maddubs_epi16(w.size[i], _mm256_sign_epi8(x, w.v[i]));
      s.v[i] = _mm256_add_epi32(s.v[i], _mm256_madd_epi16(pairs, ones));
      keep(s.v[i]);
    }
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, Values x) { dot(s, w, x); }
  static PHASOR_INLINE auto to_float(const Sum& s) {
    using V = v16<xsimd::fma3<xsimd::avx2>>;
    return V{{V::B(_mm256_cvtepi32_ps(s.v[0])), V::B(_mm256_cvtepi32_ps(s.v[1]))}};
  }
};

#if defined(__AVXVNNI__)
struct Int8AvxVnni : Int8Avx2 {
  struct Weights {
    __m256i v[2];
  };
  static PHASOR_INLINE Sum start(int32_t sum) {
    const __m256i s = _mm256_set1_epi32(-128 * sum);
    return {{s, s}};
  }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    const __m256i flip = _mm256_set1_epi8(-128);
    return {{_mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)), flip),
             _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32)), flip)}};
  }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      s.v[i] = _mm256_dpbusd_avx_epi32(s.v[i], w.v[i], x);
  }
  static constexpr size_t kChains = 4;
  // gcc 12 spills the sums of a tile around the intrinsic.
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s.v[i]) : "x"(w.v[i]), "x"(x));
  }
  static PHASOR_INLINE void join(Sum& a, const Sum& b) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) a.v[i] = _mm256_add_epi32(a.v[i], b.v[i]);
  }
};
#endif

template <class Int8>
struct Int4Of256 : Int8 {
  using Sum = typename Int8::Sum;
  struct Nibbles {
    __m256i low[2], high[2];
  };
  struct Both {
    __m256i low, high;
  };
  static PHASOR_INLINE Sum start(int32_t sum) {
    const __m256i s = _mm256_set1_epi32(sum);
    return {{s, s}};
  }
  // The bits of Mask of each byte moved right by At.
  template <int At, int Mask>
  static PHASOR_INLINE __m256i field(__m256i n) {
    if constexpr (At < 0) n = _mm256_slli_epi16(n, -At);
    if constexpr (At > 0) n = _mm256_srli_epi16(n, At);
    return _mm256_and_si256(n, _mm256_set1_epi8(Mask));
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    Nibbles w;
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i n = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * i));
      w.low[i] = field<First, Mask>(n);
      w.high[i] = field<Second, Mask>(n);
    }
    return w;
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return {Int8::values(p), Int8::values(p + apart)};
  }
  // Where a group of one bit's codes is looked up in the tables of a row (narrow_avx2.hpp).
  static constexpr size_t kTables = kPairs * kPairTable;
  static PHASOR_INLINE int32_t tables(int8_t* to, const int8_t* x) { return pair_tables(to, x); }
  struct Places {
    __m256i of[kPairs][2];
  };
  template <int32_t Bits, int32_t Place>
  static PHASOR_INLINE __m256i place(__m256i n) {
    return _mm256_or_si256(_mm256_and_si256(n, _mm256_set1_epi32(Bits)), _mm256_set1_epi32(Place));
  }
  static PHASOR_INLINE Places places(const unsigned char* p) {
    Places at;
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i n = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32 * i)),
                    high = _mm256_srli_epi16(n, 4);
      at.of[0][i] = place<kEvenBits, kEvenPlaces>(n);
      at.of[1][i] = place<kOddBits, kOddPlaces>(n);
      at.of[2][i] = place<kEvenBits, kEvenPlaces>(high);
      at.of[3][i] = place<kOddBits, kOddPlaces>(high);
    }
    return at;
  }
  // add(s, sums): sums of two values of k, as bytes, to half the outputs.
  template <class Add>
  static PHASOR_INLINE void look_up(Sum& s, const int8_t* table, const Places& at, Add add) {
    PHASOR_UNROLL for (size_t i = 0; i < kPairs; ++i) {
      const __m256i t = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + i * kPairTable)));
      PHASOR_UNROLL for (size_t h = 0; h < 2; ++h)
        s.v[h] = add(s.v[h], _mm256_shuffle_epi8(t, at.of[i][h]));
    }
  }
};

struct Int4Avx2 : Int4Of256<Int8Avx2> {
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {  // 4·15·127 fits 16 bits
    const __m256i ones = _mm256_set1_epi16(1);
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(w.low[i], x.low),
                                             _mm256_maddubs_epi16(w.high[i], x.high));
      s.v[i] = _mm256_add_epi32(s.v[i], _mm256_madd_epi16(pairs, ones));
      keep(s.v[i]);
    }
  }
};

// The same in 16 bits for all of a group: 16·15·127 fits, and of codes of two bits or of 0 and 2
// with a start of −Σx.
struct Int4mAvx2 : Int4Of256<Int8Avx2> {
  static PHASOR_INLINE Sum start(int32_t sum) {
    const __m256i s = _mm256_set1_epi32(sum & 0xffff);
    return {{s, s}};
  }
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      s.v[i] = _mm256_add_epi16(s.v[i], _mm256_add_epi16(_mm256_maddubs_epi16(w.low[i], x.low),
                                                         _mm256_maddubs_epi16(w.high[i], x.high)));
      keep(s.v[i]);
    }
  }
  static PHASOR_INLINE void look_up(Sum& s, const int8_t* table, const Places& at) {
    const __m256i twos = _mm256_set1_epi8(2);
    Int4Of256::look_up(s, table, at, [&](__m256i to, __m256i sums) PHASOR_LAMBDA {
      return _mm256_add_epi16(to, _mm256_maddubs_epi16(sums, twos));
    });
  }
  static PHASOR_INLINE auto to_float(const Sum& s) {
    const __m256i ones = _mm256_set1_epi16(1);
    return Int8Avx2::to_float({{_mm256_madd_epi16(s.v[0], ones), _mm256_madd_epi16(s.v[1], ones)}});
  }
  // 255 times one and the other: below 2^24.
  static PHASOR_INLINE auto to_float(const Sum& high, const Sum& low) {
    const __m256i ones = _mm256_set1_epi16(1), base = _mm256_set1_epi16(255);
    Sum s;
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      s.v[i] = _mm256_add_epi32(_mm256_madd_epi16(high.v[i], base),
                                _mm256_madd_epi16(low.v[i], ones));
    return Int8Avx2::to_float(s);
  }
  static PHASOR_INLINE void add(Sum& to, const Sum& s) {  // of 32 bits
    const __m256i ones = _mm256_set1_epi16(1);
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      to.v[i] = _mm256_add_epi32(to.v[i], _mm256_madd_epi16(s.v[i], ones));
  }
};

#if defined(__AVXVNNI__)
struct Int4AvxVnni : Int4Of256<Int8AvxVnni> {
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      s.v[i] = _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(s.v[i], w.low[i], x.low), w.high[i],
                                       x.high);
  }
  static PHASOR_INLINE void look_up(Sum& s, const int8_t* table, const Places& at) {
    const __m256i twos = _mm256_set1_epi8(2);
    Int4Of256::look_up(s, table, at, [&](__m256i to, __m256i sums) PHASOR_LAMBDA {
      return _mm256_dpbusd_avx_epi32(to, sums, twos);
    });
  }
};
#endif

// Codes in two fields, from 0 on (CodeStep).
template <Type T, class Int8>
struct FineOf256 : Int8 {
  using Sum = typename Int8::Sum;
  struct Weights {
    __m256i v[2];
  };
  static PHASOR_INLINE Sum start(int32_t word) {
    const __m256i s = _mm256_set1_epi32(word);
    return {{s, s}};
  }
  template <size_t S>
  static PHASOR_INLINE Weights codes(const unsigned char* group) {
    using Int4 = Int4Of256<Int8>;
    using Step = CodeStep<T, S>;
    Weights w;
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i* const low = reinterpret_cast<const __m256i*>(group + Step::kLowAt) + i;
      const __m256i* const high = reinterpret_cast<const __m256i*>(group + Step::kHighAt) + i;
      w.v[i] = _mm256_or_si256(
          Int4::template field<Step::kLowMove, Step::kLowMask>(_mm256_loadu_si256(low)),
          Int4::template field<Step::kHighMove, Step::kHighMask>(_mm256_loadu_si256(high)));
    }
    return w;
  }
};
// 8·32·127 of codes less 32 fits 16 bits; sums of a whole group have 32.
template <Type T>
struct FineAvx2 : FineOf256<T, Int8Avx2> {
  using Sum = Int8Avx2::Sum;
  using Weights = typename FineOf256<T, Int8Avx2>::Weights;
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t* x) {
    fine_words<T, false>(to, x);
  }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Int8Avx2::Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
      const __m256i pairs = _mm256_maddubs_epi16(w.v[i], x);
      s.v[i] = minimum_type(T)
                   ? _mm256_add_epi32(s.v[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
                   : _mm256_add_epi16(s.v[i], pairs);
      keep(s.v[i]);
    }
  }
  static PHASOR_INLINE auto to_float(const Sum& s) {
    return minimum_type(T) ? Int8Avx2::to_float(s) : Int4mAvx2::to_float(s);
  }
};
#if defined(__AVXVNNI__)
template <Type T>
struct FineAvxVnni : FineOf256<T, Int8AvxVnni> {
  using Weights = typename FineOf256<T, Int8AvxVnni>::Weights;
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t* x) { fine_words<T, true>(to, x); }
  static PHASOR_INLINE void dot(Int8AvxVnni::Sum& s, const Weights& w, Int8AvxVnni::Values x) {
    PHASOR_UNROLL for (size_t i = 0; i < 2; ++i)
      s.v[i] = _mm256_dpbusd_avx_epi32(s.v[i], w.v[i], x);
  }
};
#endif

PHASOR_INLINE v16<xsimd::fma3<xsimd::avx2>> half16_avx(const unsigned char* p) {
  using V = v16<xsimd::fma3<xsimd::avx2>>;
  return {{V::B(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))),
           V::B(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16))))}};
}
PHASOR_INLINE void look_up_avx(unsigned char* to, const unsigned char* codes,
                               const unsigned char* table) {
  const __m256i of = _mm256_broadcastsi128_si256(
                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(table))),
                mask = _mm256_set1_epi8(15);
  PHASOR_UNROLL for (size_t i = 0; i < 256; i += 32) {
    const __m256i n = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes + i)),
                  high = _mm256_and_si256(_mm256_srli_epi16(n, 4), mask);
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + i),
                       _mm256_shuffle_epi8(of, _mm256_and_si256(n, mask)));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to + 256 + i), _mm256_shuffle_epi8(of, high));
  }
}
PHASOR_INLINE v16<xsimd::fma3<xsimd::avx2>> byte16_avx(const unsigned char* p) {
  using V = v16<xsimd::fma3<xsimd::avx2>>;
  return {{V::B(_mm256_cvtepi32_ps(
               _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))))),
           V::B(_mm256_cvtepi32_ps(
               _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8)))))}};
}

}  // namespace
}  // namespace phasor
