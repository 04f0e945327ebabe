// An input of several parts: first the bytes of each part but the last, two bytes a length, then
// the parts. What is not there is empty, so that any bytes are such an input.
#pragma once
#include <vector>

#include "support.h"

namespace fuzz {

struct Part {
  const uint8_t* data;
  size_t size;
  Choices choices() const {
    static const uint8_t none = 0;
    return Choices(data != nullptr ? data : &none, size);
  }
};

std::vector<Part> split_parts(const uint8_t* data, size_t size, uint32_t count);
Bytes join_parts(const std::vector<Bytes>& parts);

}  // namespace fuzz
