// Where a generator's decisions come from: a number, or the bytes of a fuzzer's input. Bytes that
// are missing are 0, which chooses the plainest thing there is, so every input ends in a model.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "decode/random.h"

namespace generator {

class Choices {
 public:
  explicit Choices(uint64_t seed) : seed_(seed) {}
  Choices(const unsigned char* bytes, std::size_t count) : bytes_(bytes), left_(count) {}

  // 0 … count − 1; count is not 0.
  uint32_t below(uint32_t count) {
    if (count <= 1) return 0;
    const uint64_t r = bytes_ == nullptr ? phasor::splitmix64(&seed_) >> 32 : taken(count);
    return static_cast<uint32_t>(r % count);
  }
  uint32_t between(uint32_t low, uint32_t high) { return low + below(high - low + 1); }
  // True `percent` times of a hundred.
  bool chance(uint32_t percent) { return below(100) >= 100 - percent; }

  template <class T>
  T of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<uint32_t>(values.size()))];
  }
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(static_cast<uint32_t>(values.size()))];
  }

  // A seed for what there is too much of to choose one by one: weights.
  uint64_t seed() {
    const uint64_t high = below(0xFFFFFFFFu);
    return high << 32 | below(0xFFFFFFFFu);
  }

 private:
  // As many bytes of the input as a choice among `count` needs.
  uint64_t taken(uint32_t count) {
    uint64_t value = 0;
    for (uint32_t rest = count - 1; rest != 0; rest >>= 8) {
      value = value << 8 | (left_ != 0 ? *bytes_ : 0u);
      if (left_ != 0) ++bytes_, --left_;
    }
    return value;
  }

  uint64_t seed_ = 0;
  const unsigned char* bytes_ = nullptr;
  std::size_t left_ = 0;
};

}  // namespace generator
