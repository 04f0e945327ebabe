#include "cache.h"

#include "../kernels/gather.h"

namespace phasor {
namespace {

float as_it_is(float x) { return x; }

// Sixteen dimensions of all the positions, then the next: a line of a position is read once, and
// the lines that it goes to are at hand.
template <class Value, Value convert(float)>
void store_plain(const Kernels&, unsigned char* heads, uint32_t kv_heads, uint32_t width,
                 uint32_t slot, uint32_t count, const float* k, const float* v, uint64_t ld) {
  Value* page = reinterpret_cast<Value*>(heads);
  for (uint32_t h = 0; h < kv_heads; ++h, page += page_floats(width), k += width, v += width) {
    for (uint32_t from = 0; from < width; from += kSlots) {
      const uint32_t end = width - from < kSlots ? width : from + kSlots;
      for (uint32_t i = 0; i < count; ++i)
        for (uint32_t d = from; d < end; ++d) page[d * kLanes + slot + i] = convert(k[i * ld + d]);
    }
    Value* values = page + size_t(width) * kSlots + size_t(slot) * lanes(width);
    for (uint32_t i = 0; i < count; ++i, values += lanes(width))
      for (uint32_t d = 0; d < width; ++d) values[d] = convert(v[i * ld + d]);
  }
}

// The keys, or the values, of one position: int8 by rule 1.3, the groups along d. What is not
// finite gives a scale that is NaN (1.14).
void store_rounded(const Kernels& kernels, unsigned char* rows, size_t (*place)(size_t, size_t),
                   uint32_t slot, const float* x, uint32_t width) {
  for (uint32_t d = 0; d < width; d += kGroup) {
    const uint32_t n = width - d < kGroup ? width - d : static_cast<uint32_t>(kGroup);
    int8_t q[kGroup];
    float scale;
    int32_t sum;
    kernels.quantize_row(q, &scale, &sum, x + d, n);
    for (uint32_t i = 0; i < n; ++i) {
      if (!is_finite(x[d + i])) scale = __builtin_nanf("");
      rows[place(slot, d + i)] = static_cast<unsigned char>(q[i]);
    }
    memcpy(rows + cache_scale_q8(slot, d), &scale, sizeof scale);
  }
}
void store_q8(const Kernels& kernels, unsigned char* heads, uint32_t kv_heads, uint32_t width,
              uint32_t slot, uint32_t count, const float* k, const float* v, uint64_t ld) {
  for (uint32_t h = 0; h < kv_heads; ++h, k += width, v += width) {
    unsigned char* values = heads + cache_q8_bytes(width);
    for (uint32_t i = 0; i < count; ++i) {
      store_rounded(kernels, heads, cache_key_q8, slot + i, k + i * ld, width);
      store_rounded(kernels, values, cache_value_q8, slot + i, v + i * ld, width);
    }
    heads = values + cache_q8_bytes(lanes(width));
  }
}

const CacheFormat kFormats[kCacheTypes] = {
    {sizeof(float), 0, store_plain<float, as_it_is>},
    {sizeof(uint16_t), 0, kHasCacheF16 ? store_plain<uint16_t, narrow_f16> : nullptr},
    {1, sizeof(float), kHasCacheQ8 ? store_q8 : nullptr},
};

}  // namespace

const CacheFormat* cache_format(uint32_t type) noexcept {
  return type < kCacheTypes ? &kFormats[type] : nullptr;
}

}  // namespace phasor
