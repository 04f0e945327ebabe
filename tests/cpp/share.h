// A sample of what a case goes through, for runs in which all of it takes ten times as long (the
// sanitizers, `make test-machines`): of each TEST_SHARE in a row one, drawn by TEST_SEED and by the
// case's name. Without them, and in `make test`, all.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cases.h"

class Share {
 public:
  // Whether the next is among them.
  bool takes() {
    if (at_ % of_ == 0) chosen_ = next() % of_;
    return at_++ % of_ == chosen_;
  }
  // What is counted is about so many times less.
  uint32_t of() const { return of_; }

 private:
  static uint32_t number(const char* variable, uint32_t otherwise) {
    const char* const text = std::getenv(variable);
    if (text == nullptr) return otherwise;
    char* end = nullptr;
    const unsigned long value = std::strtoul(text, &end, 10);
    if (end == text || *end != 0 || value > 1000000) {
      std::fprintf(stderr, "tests: %s=%s: expected a number up to 1000000\n", variable, text);
      std::abort();
    }
    return static_cast<uint32_t>(value);
  }
  static uint64_t seed() {
    uint64_t hash = number("TEST_SEED", 0);
    for (const char* c = doctest::getContextOptions()->currentTest->m_name; *c != 0; ++c)
      hash = (hash ^ static_cast<unsigned char>(*c)) * 0x100000001B3u;
    return hash;
  }
  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  const uint32_t of_ = number("TEST_SHARE", 1) == 0 ? 1 : number("TEST_SHARE", 1);
  uint64_t state_ = seed(), at_ = 0, chosen_ = 0;
};
