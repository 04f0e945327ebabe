// A group of activations as int8, for the levels that have 256-bit integers; and what codes of one
// bit make of it.
#pragma once
#include "../simd.hpp"

namespace phasor {
namespace {

// Stores 32 values, −128 made −127; their sum, by sums of eight bytes that are 128 too large each.
PHASOR_INLINE int32_t store_group(int8_t* q, __m256i values) {
  values = _mm256_max_epi8(values, _mm256_set1_epi8(-127));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(q), values);
  const __m256i eights =
      _mm256_sad_epu8(_mm256_xor_si256(values, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m128i fours =
      _mm_add_epi64(_mm256_castsi256_si128(eights), _mm256_extracti128_si256(eights, 1));
  return _mm_cvtsi128_si32(_mm_add_epi64(fours, _mm_unpackhi_epi64(fours, fours))) -
         128 * static_cast<int32_t>(kGroup);
}

// One row by codes of one bit: a byte's bits 2p and 2p + 1 choose one of four sums of two values of
// k, less the least of them, which is a byte without a sign. A table has those of four bytes, and a
// lane of 16 is looked up at once: pairs 0 and 2 have the byte's place above their bits, pairs 1
// and 3 below, so that two pairs need no shift.
constexpr size_t kPairs = 4, kPairTable = 16;
constexpr int32_t kEvenBits = 0x03030303, kEvenPlaces = 0x0c080400, kOddBits = 0x0c0c0c0c,
                  kOddPlaces = 0x03020100;
// The tables of a group. Gives what twice the sums of all begin at: −Σ|x|.
PHASOR_INLINE int32_t pair_tables(int8_t* to, const int8_t* x) {
  const __m256i none = _mm256_setzero_si256(),
                first = _mm256_setr_epi32(0, -1, 0, -1, 0, -1, 0, -1),
                second = _mm256_setr_epi32(0, 0, -1, -1, 0, 0, -1, -1),
                order = _mm256_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15,  //
                                         0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m256i sizes = none;
  PHASOR_UNROLL for (size_t i = 0; i < 2; ++i) {
    const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + 16 * i));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_castsi128_si256(half), 0x50),
                  below = _mm256_max_epi8(_mm256_sub_epi8(none, both), none),
                  least = _mm256_add_epi8(below, _mm256_shuffle_epi32(below, 0xb1)),
                  one = _mm256_and_si256(_mm256_shuffle_epi32(both, 0x00), first),
                  other = _mm256_and_si256(_mm256_shuffle_epi32(both, 0x55), second);
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(to + 32 * i),
        _mm256_shuffle_epi8(_mm256_add_epi8(least, _mm256_add_epi8(one, other)), order));
    sizes = _mm256_add_epi64(sizes, _mm256_sad_epu8(_mm256_abs_epi8(both), none));
  }
  const __m128i once =
      _mm_add_epi64(_mm256_castsi256_si128(sizes), _mm256_extracti128_si256(sizes, 1));
  return -_mm_cvtsi128_si32(once);
}

// What the sums of the halves of a group begin at where a type's codes have no sign: −32·Σx of a
// half of six bits, −4·Σx of three. Of sums in 16 bits, which have two inputs of four each, both
// lanes of a word.
template <Type T, bool Wide>
PHASOR_INLINE void fine_words(int32_t (&to)[2], const int8_t* x) {
  const auto added = [](__m256i a, __m256i b) PHASOR_LAMBDA {
    return Wide ? _mm256_add_epi32(a, b) : _mm256_add_epi16(a, b);
  };
  __m256i t = _mm256_maddubs_epi16(_mm256_set1_epi8(static_cast<char>(code_less(T))),
                                   _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
  if (Wide) t = _mm256_madd_epi16(t, _mm256_set1_epi16(-1));
  t = added(t, _mm256_shuffle_epi32(t, 0x4e));
  t = added(t, _mm256_shuffle_epi32(t, 0xb1));
  if (!Wide) t = _mm256_sub_epi16(_mm256_setzero_si256(), t);
  to[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(t));
  to[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(t, 1));
}

}  // namespace
}  // namespace phasor
