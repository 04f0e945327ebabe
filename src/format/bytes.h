// Little-endian values by byte copies: any alignment, no aliasing. Includes nothing of the project.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace phasor {

inline uint16_t load_u16(const unsigned char* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
inline uint32_t load_u32(const unsigned char* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}
inline uint64_t load_u64(const unsigned char* p) {
  return static_cast<uint64_t>(load_u32(p)) | static_cast<uint64_t>(load_u32(p + 4)) << 32;
}
inline float load_f32(const unsigned char* p) {
  const uint32_t bits = load_u32(p);
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
inline void store_u32(unsigned char* p, uint32_t value) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<unsigned char>(value >> (8 * i) & 255u);
}
inline void store_u64(unsigned char* p, uint64_t value) {
  store_u32(p, static_cast<uint32_t>(value & 0xFFFFFFFFu));
  store_u32(p + 4, static_cast<uint32_t>(value >> 32));
}
inline bool is_finite_f32(uint32_t bits) { return (bits & 0x7F800000u) != 0x7F800000u; }
inline bool is_finite(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return is_finite_f32(bits);
}

}  // namespace phasor
