// A group of activations as int8, for the levels that have 256-bit integers.
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

}  // namespace
}  // namespace phasor
