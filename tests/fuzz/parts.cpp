#include "parts.h"

#include <algorithm>

namespace fuzz {

std::vector<Part> split_parts(const uint8_t* data, size_t size, uint32_t count) {
  std::vector<Part> parts(count, Part{data, 0});
  const size_t head = 2 * (count - 1);
  if (size < head) return parts;
  size_t at = head;
  for (uint32_t i = 0; i < count; ++i) {
    const size_t left = size - at;
    const size_t wanted = i + 1 < count ? size_t{data[2 * i]} | size_t{data[2 * i + 1]} << 8 : left;
    parts[i] = {data + at, std::min(wanted, left)};
    at += parts[i].size;
  }
  return parts;
}

Bytes join_parts(const std::vector<Bytes>& parts) {
  Bytes all;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    all.push_back(static_cast<uint8_t>(parts[i].size()));
    all.push_back(static_cast<uint8_t>(parts[i].size() >> 8));
  }
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace fuzz
