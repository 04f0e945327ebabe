#include "sha256.h"

#include <string.h>

#include "file.h"

namespace cli {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (4.2.2).
constexpr uint32_t kRounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t turned(uint32_t x, int by) { return x >> by | x << (32 - by); }

// One block of 64 bytes (6.2.2).
void add_block(uint32_t* state, const unsigned char* p) {
  uint32_t w[64], s[8];
  for (int i = 0; i < 16; ++i)
    w[i] = uint32_t{p[4 * i]} << 24 | uint32_t{p[4 * i + 1]} << 16 | uint32_t{p[4 * i + 2]} << 8 |
           p[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    const uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[i - 7] +
           (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
  }
  memcpy(s, state, sizeof s);
  for (int i = 0; i < 64; ++i) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t one = s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                         ((e & s[5]) ^ (~e & s[6])) + kRounds[i] + w[i],
                   two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                         ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += one;
    s[0] = one + two;
  }
  for (int i = 0; i < 8; ++i) state[i] += s[i];
}

}  // namespace

Digest sha256(const void* data, size_t bytes) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const unsigned char* p = static_cast<const unsigned char*>(data);
  const size_t whole = bytes / 64 * 64, rest = bytes - whole;
  for (size_t at = 0; at < whole; at += 64) add_block(state, p + at);
  unsigned char end[128] = {};
  if (rest != 0) memcpy(end, p + whole, rest);
  end[rest] = 0x80;
  const size_t size = rest < 56 ? 64 : 128;
  for (size_t i = 0; i < 8; ++i)
    end[size - 1 - i] = static_cast<unsigned char>(uint64_t{bytes} * 8 >> (8 * i));
  for (size_t at = 0; at < size; at += 64) add_block(state, end + at);
  Digest out;
  for (size_t i = 0; i < 32; ++i)
    out[i] = static_cast<unsigned char>(state[i / 4] >> (24 - 8 * (i % 4)));
  return out;
}

bool sha256_of(const char* path, Digest* out) {
  ReadFile file;
  if (!file.open(path, Load::map, "a file")) return false;
  *out = sha256(file.data(), file.bytes());
  return file.unchanged();
}

string hex(const unsigned char* digest) {
  string out;
  for (size_t i = 0; i < 32; ++i) out += format("%02x", digest[i]);
  return out;
}

}  // namespace cli
