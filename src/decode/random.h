// decode: random numbers that are the same on every machine. Integers only.
#pragma once
#include "../../include/phasor.h"

namespace phasor {

// SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators").
inline uint64_t splitmix64(uint64_t* state) noexcept {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

inline void random_seed(phasor_random* r, uint64_t seed) noexcept {
  for (uint64_t& word : r->state) word = splitmix64(&seed);
}

// xoshiro256** 1.0 (Blackman and Vigna 2018, "Scrambled linear pseudorandom number generators").
inline uint64_t random_next(phasor_random* r) noexcept {
  const auto rotate = [](uint64_t x, unsigned n) { return x << n | x >> (64 - n); };
  uint64_t* s = r->state;
  const uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = rotate(s[3], 45);
  return result;
}

// All zeros is the one state that it never leaves.
inline bool random_is_seeded(const phasor_random& r) noexcept {
  return (r.state[0] | r.state[1] | r.state[2] | r.state[3]) != 0;
}

// The upper half of a·b: a whole number below b when a is any of 64 bits.
inline uint64_t multiply_high(uint64_t a, uint64_t b) noexcept {
  const uint64_t low = 0xFFFFFFFFu, a0 = a & low, a1 = a >> 32, b0 = b & low, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & low);
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

}  // namespace phasor
