// cli: SHA-256 (FIPS 180-4) of bytes and of files.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <array>

#include "text.h"

namespace cli {

using Digest = std::array<unsigned char, 32>;

Digest sha256(const void* data, size_t bytes);
// Of a file's bytes. False: a line says why it cannot be read.
bool sha256_of(const char* path, Digest* out);
// In hexadecimal.
string hex(const unsigned char* digest);

}  // namespace cli
