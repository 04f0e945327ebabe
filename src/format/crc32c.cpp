#include "crc32c.h"

#include "../build.h"
#include "bytes.h"

namespace phasor {
namespace {

// t[s][b]: the effect of byte b with s more bytes after it, so that eight bytes are taken at a time
// (Kounavis & Berry 2005); a small build takes one.
constexpr int kSteps = kHasChecksumTables ? 8 : 1;
struct Tables {
  uint32_t t[kSteps][256];
};

constexpr Tables make_tables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t c = b;
    for (int i = 0; i < 8; ++i) c = (c & 1u) != 0 ? c >> 1 ^ 0x82F63B78u : c >> 1;
    tables.t[0][b] = c;
  }
  for (uint32_t b = 0; b < 256; ++b)
    for (int s = 1; s < kSteps; ++s)
      tables.t[s][b] = tables.t[s - 1][b] >> 8 ^ tables.t[0][tables.t[s - 1][b] & 255u];
  return tables;
}

constexpr Tables kTables = make_tables();

// Eight bytes at a time; what is left is for the caller.
template <int kCount>
const unsigned char* take_eights(const uint32_t (&t)[kCount][256], const unsigned char* p,
                                 size_t* bytes, uint32_t* crc) {
  if constexpr (kCount == 8)
    for (; *bytes >= 8; *bytes -= 8, p += 8) {
      const uint32_t a = load_u32(p) ^ *crc, b = load_u32(p + 4);
      *crc = t[7][a & 255u] ^ t[6][a >> 8 & 255u] ^ t[5][a >> 16 & 255u] ^ t[4][a >> 24] ^
             t[3][b & 255u] ^ t[2][b >> 8 & 255u] ^ t[1][b >> 16 & 255u] ^ t[0][b >> 24];
    }
  return p;
}

}  // namespace

uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) noexcept {
  crc = ~crc;
  const unsigned char* p =
      take_eights(kTables.t, static_cast<const unsigned char*>(data), &bytes, &crc);
  for (; bytes != 0; --bytes, ++p) crc = crc >> 8 ^ kTables.t[0][(crc ^ *p) & 255u];
  return ~crc;
}

}  // namespace phasor
