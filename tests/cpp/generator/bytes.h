// Little-endian values at the end of a vector of bytes, or inside of it.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "format/bytes.h"

namespace generator {

using Bytes = std::vector<unsigned char>;

inline void put_u32(Bytes* to, std::size_t value) {
  to->resize(to->size() + 4);
  phasor::store_u32(to->data() + to->size() - 4, static_cast<uint32_t>(value));
}
inline void put_u64(Bytes* to, uint64_t value) {
  put_u32(to, static_cast<uint32_t>(value));
  put_u32(to, static_cast<uint32_t>(value >> 32));
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline void put_f32(Bytes* to, float value) { put_u32(to, bits_of(value)); }
inline void put_f64(Bytes* to, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  put_u64(to, bits);
}
inline void put_text(Bytes* to, const std::string& text) {
  to->insert(to->end(), text.begin(), text.end());
}
inline void pad(Bytes* to, std::size_t multiple) {
  to->resize((to->size() + multiple - 1) / multiple * multiple);
}

}  // namespace generator
