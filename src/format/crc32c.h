// CRC-32C (Castagnoli; RFC 3720, appendix B.4): crc32c(0, "123456789", 9) is 0xE3069283.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace phasor {

// The checksum of what `crc` covers followed by `data` (bytes); start with 0.
uint32_t crc32c(uint32_t crc, const void* data, size_t bytes) noexcept;

}  // namespace phasor
