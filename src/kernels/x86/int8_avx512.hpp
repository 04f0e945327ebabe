// Exact dot products of 16 outputs by 4 activations for the 512-bit levels. With VNNI: weights xor
// 0x80 are w + 128 unsigned, so the sum starts at −128·Σx (1.4). Without: |w| times sign(x, w) as
// on AVX2, the sign applied under a mask. Codes of four bits and fewer are unsigned as they are.
#pragma once
#include "narrow_avx2.hpp"

namespace phasor {
namespace {

using V512 = v16<xsimd::avx512bw>;

struct Int8Avx512 {
  static constexpr int kSteps = 1;
  static constexpr size_t kChains = 1;
  using Sum = __m512i;
  struct Weights {
    __m512i size;
    __mmask64 negative;
  };
  using Values = __m512i;
  static PHASOR_INLINE int32_t narrow(int8_t* q, const Int16<xsimd::avx512bw>& a,
                                      const Int16<xsimd::avx512bw>& b) {
    const __m256i both = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm512_cvtsepi32_epi8(a.v[0])), _mm512_cvtsepi32_epi8(b.v[0]), 1);
    return store_group(q, both);
  }
  static PHASOR_INLINE Sum start(int32_t) { return _mm512_setzero_si512(); }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    const __m512i w = _mm512_loadu_si512(p);
    return {_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
  }
  static PHASOR_INLINE Values values(const int8_t* p) { return _mm512_set1_epi32(four_bytes(p)); }
  static PHASOR_INLINE void dot(Sum& s, const Weights& w, Values x) {
    const __m512i signed_x = _mm512_mask_sub_epi8(x, w.negative, _mm512_setzero_si512(), x);
    s = _mm512_add_epi32(
        s, _mm512_madd_epi16(_mm512_maddubs_epi16(w.size, signed_x), _mm512_set1_epi16(1)));
    keep(s);
  }
  static PHASOR_INLINE void whole_dot(Sum& s, const Weights& w, Values x) { dot(s, w, x); }
  static PHASOR_INLINE V512 to_float(Sum s) { return {{V512::B(_mm512_cvtepi32_ps(s))}}; }
};

#if defined(__AVX512VNNI__)
struct Int8Vnni : Int8Avx512 {
  using Weights = __m512i;
  static PHASOR_INLINE Sum start(int32_t sum) { return _mm512_set1_epi32(-128 * sum); }
  static PHASOR_INLINE Weights weights(const unsigned char* p) {
    return _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128));
  }
  static PHASOR_INLINE void dot(Sum& s, Weights w, Values x) { s = _mm512_dpbusd_epi32(s, w, x); }
  // gcc 12 spills the sums of a large tile around the intrinsic.
  static PHASOR_INLINE void whole_dot(Sum& s, Weights w, Values x) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(w), "v"(x));
  }
  static constexpr size_t kChains = 4;
  static PHASOR_INLINE void join(Sum& a, Sum b) { a = _mm512_add_epi32(a, b); }
};
#endif

template <class Int8>
struct Int4Of512 : Int8 {
  using Sum = __m512i;
  struct Nibbles {
    __m512i low, high;
  };
  struct Both {
    __m512i low, high;
  };
  static PHASOR_INLINE Sum start(int32_t sum) { return _mm512_set1_epi32(sum); }
  // The bits of Mask of each byte moved right by At.
  template <int At, int Mask>
  static PHASOR_INLINE __m512i field(__m512i n) {
    if constexpr (At < 0) n = _mm512_slli_epi16(n, -At);
    if constexpr (At > 0) n = _mm512_srli_epi16(n, At);
    return _mm512_and_si512(n, _mm512_set1_epi8(Mask));
  }
  template <int First, int Second, int Mask>
  static PHASOR_INLINE Nibbles nibbles(const unsigned char* p) {
    __m512i n = _mm512_loadu_si512(p);
    keep(n);  // gcc 12 loads it for each field
    return {field<First, Mask>(n), field<Second, Mask>(n)};
  }
  static PHASOR_INLINE Both both(const int8_t* p, size_t apart) {
    return {Int8::values(p), Int8::values(p + apart)};
  }
  // Where a group of one bit's codes is looked up in the tables of a row (narrow_avx2.hpp).
  static constexpr size_t kTables = kPairs * kPairTable;
  static PHASOR_INLINE int32_t tables(int8_t* to, const int8_t* x) { return pair_tables(to, x); }
  struct Places {
    __m512i of[kPairs];
  };
  template <int32_t Bits, int32_t Place>
  static PHASOR_INLINE __m512i place(__m512i n) {
    constexpr int kAndOr = 0xea;
    return _mm512_ternarylogic_epi32(n, _mm512_set1_epi32(Bits), _mm512_set1_epi32(Place), kAndOr);
  }
  static PHASOR_INLINE Places places(const unsigned char* p) {
    const __m512i n = _mm512_loadu_si512(p), high = _mm512_srli_epi16(n, 4);
    return {{place<kEvenBits, kEvenPlaces>(n), place<kOddBits, kOddPlaces>(n),
             place<kEvenBits, kEvenPlaces>(high), place<kOddBits, kOddPlaces>(high)}};
  }
  static PHASOR_INLINE __m512i looked(const int8_t* table, const Places& at, size_t i) {
    const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + i * kPairTable));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), at.of[i]);
  }
};

struct Int4Avx512 : Int4Of512<Int8Avx512> {
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {  // 4·15·127 fits 16 bits
    const __m512i pairs =
        _mm512_add_epi16(_mm512_maddubs_epi16(w.low, x.low), _mm512_maddubs_epi16(w.high, x.high));
    s = _mm512_add_epi32(s, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    keep(s);
  }
};

// The same in 16 bits for all of a group: 16·15·127 fits, and of codes of two bits or of 0 and 2
// with a start of −Σx.
struct Int4mAvx512 : Int4Of512<Int8Avx512> {
  static PHASOR_INLINE Sum start(int32_t sum) { return _mm512_set1_epi32(sum & 0xffff); }
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    s = _mm512_add_epi16(s, _mm512_add_epi16(_mm512_maddubs_epi16(w.low, x.low),
                                             _mm512_maddubs_epi16(w.high, x.high)));
    keep(s);
  }
  static PHASOR_INLINE void look_up(Sum& s, const int8_t* table, const Places& at) {
    const __m512i twos = _mm512_set1_epi8(2);
    PHASOR_UNROLL for (size_t i = 0; i < kPairs; ++i)
      s = _mm512_add_epi16(s, _mm512_maddubs_epi16(looked(table, at, i), twos));
  }
  static PHASOR_INLINE V512 to_float(Sum s) {
    return Int8Avx512::to_float(_mm512_madd_epi16(s, _mm512_set1_epi16(1)));
  }
  // 255 times one and the other: below 2^24.
  static PHASOR_INLINE V512 to_float(Sum high, Sum low) {
    return Int8Avx512::to_float(_mm512_add_epi32(_mm512_madd_epi16(high, _mm512_set1_epi16(255)),
                                                 _mm512_madd_epi16(low, _mm512_set1_epi16(1))));
  }
  static PHASOR_INLINE void add(Sum& to, Sum s) {  // of 32 bits
    to = _mm512_add_epi32(to, _mm512_madd_epi16(s, _mm512_set1_epi16(1)));
  }
};

#if defined(__AVX512VNNI__)
struct Int4Vnni : Int4Of512<Int8Vnni> {
  static PHASOR_INLINE void dot(Sum& s, const Nibbles& w, const Both& x) {
    s = _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(s, w.low, x.low), w.high, x.high);
  }
  static PHASOR_INLINE void look_up(Sum& s, const int8_t* table, const Places& at) {
    const __m512i twos = _mm512_set1_epi8(2);
    PHASOR_UNROLL for (size_t i = 0; i < kPairs; ++i)
      s = _mm512_dpbusd_epi32(s, looked(table, at, i), twos);
  }
};
#endif

// Codes in two fields, from 0 on (CodeStep).
template <Type T, class Int8>
struct FineOf512 : Int8 {
  using Weights = __m512i;
  using Sum = __m512i;
  static PHASOR_INLINE Sum start(int32_t word) { return _mm512_set1_epi32(word); }
  template <size_t S>
  static PHASOR_INLINE Weights codes(const unsigned char* group) {
    using Step = CodeStep<T, S>;
    constexpr int kAndOr = 0xea;
    __m512i low = _mm512_loadu_si512(group + Step::kLowAt);
    if constexpr (Step::kLowMove != 0) low = _mm512_srli_epi16(low, Step::kLowMove);
    return _mm512_ternarylogic_epi32(
        low, _mm512_set1_epi8(Step::kLowMask),
        Int4Of512<Int8>::template field<Step::kHighMove, Step::kHighMask>(
            _mm512_loadu_si512(group + Step::kHighAt)),
        kAndOr);
  }
};
// 8·32·127 of codes less 32 fits 16 bits; sums of a whole group have 32.
template <Type T>
struct FineAvx512 : FineOf512<T, Int8Avx512> {
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t* x) {
    fine_words<T, false>(to, x);
  }
  static PHASOR_INLINE void dot(__m512i& s, __m512i w, Int8Avx512::Values x) {
    const __m512i pairs = _mm512_maddubs_epi16(w, x);
    s = minimum_type(T) ? _mm512_add_epi32(s, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)))
                        : _mm512_add_epi16(s, pairs);
    keep(s);
  }
  static PHASOR_INLINE V512 to_float(__m512i s) {
    return minimum_type(T) ? Int8Avx512::to_float(s) : Int4mAvx512::to_float(s);
  }
};
#if defined(__AVX512VNNI__)
template <Type T>
struct FineVnni : FineOf512<T, Int8Vnni> {
  static PHASOR_INLINE void words(int32_t (&to)[2], const int8_t* x) { fine_words<T, true>(to, x); }
  static PHASOR_INLINE void dot(__m512i& s, __m512i w, Int8Vnni::Values x) {
    s = _mm512_dpbusd_epi32(s, w, x);
  }
};
#endif

PHASOR_INLINE V512 half16_avx512(const unsigned char* p) {
  return {{V512::B(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))))}};
}
PHASOR_INLINE void look_up_avx512(unsigned char* to, const unsigned char* codes,
                                  const unsigned char* table) {
  const __m512i of = _mm512_broadcast_i32x4(
                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(table))),
                mask = _mm512_set1_epi8(15);
  PHASOR_UNROLL for (size_t i = 0; i < 256; i += 64) {
    const __m512i n = _mm512_loadu_si512(codes + i);
    _mm512_store_si512(to + i, _mm512_shuffle_epi8(of, _mm512_and_si512(n, mask)));
    _mm512_store_si512(
        to + 256 + i, _mm512_shuffle_epi8(of, _mm512_and_si512(_mm512_srli_epi16(n, 4), mask)));
  }
}
PHASOR_INLINE V512 byte16_avx512(const unsigned char* p) {
  return {{V512::B(_mm512_cvtepi32_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))))}};
}

}  // namespace
}  // namespace phasor
