// runtime: the formats of keys and values in pages of 16 positions. All that is known of one is a
// row of a table here; its scores and its mix are the kernels' (rules 1.6 and 1.8), under its
// number.
#pragma once
#include "../model/model.h"

namespace phasor {

constexpr uint32_t kSlots = static_cast<uint32_t>(kLanes);  // positions of a page
// Pages of `count` positions; panels of `count` outputs.
inline uint32_t blocks_of(uint32_t count) { return static_cast<uint32_t>(panels_of(count)); }

// A head takes its keys and then its values of a page: `width` and round_up(width, 16) rows of 16
// values, and in q8 the scales of their groups.
struct CacheFormat {
  uint32_t value_bytes, scale_bytes;  // of a value; of a group's scale
  // Puts the keys and values (kv_heads · width floats each, ld from one position to the next) of
  // `count` positions into slots `slot` and on of a page's heads, rounded to the format.
  void (*store)(const Kernels& kernels, unsigned char* heads, uint32_t kv_heads, uint32_t width,
                uint32_t slot, uint32_t count, const float* k, const float* v, uint64_t ld);

  uint64_t bytes(const CacheSize& size) const {
    return size.values * value_bytes + size.scales * scale_bytes + size.floats * sizeof(float);
  }
  uint64_t rows_bytes(uint32_t rows) const {
    return bytes({rows * kLanes, groups_of(rows) * kLanes, 0});
  }
  uint64_t head_bytes(uint32_t width) const { return rows_bytes(width) + rows_bytes(lanes(width)); }
};

// That of a PHASOR_CACHE_; NULL when there is no such.
const CacheFormat* cache_format(uint32_t type) noexcept;

}  // namespace phasor
