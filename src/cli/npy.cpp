#include "npy.h"

#include <string.h>

#include <string>

namespace cli {
namespace {

constexpr size_t kHeader = 128;  // magic, version, length, dictionary; data is aligned to 64

}  // namespace

bool NpyWriter::open(const char* path) {
  const char zeros[kHeader] = {};
  return file_.open(path) && file_.write(zeros, kHeader);
}

bool NpyWriter::append(const float* values, size_t count) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 is written as it lies in memory");
  return file_.write(values, count * sizeof(float));
}

bool NpyWriter::commit(const std::vector<uint64_t>& shape) {
  std::string tuple;
  for (uint64_t n : shape) tuple += std::to_string(n) + ",";
  char header[kHeader + 1];
  const int n = snprintf(header, sizeof header, "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", 0, int(kHeader - 10), 0, tuple.c_str());
  if (n < 0 || size_t(n) >= kHeader) return file_.refuse("a shape of too many dimensions");
  memset(header + n, ' ', kHeader - size_t(n));
  header[kHeader - 1] = '\n';
  return file_.rewind() && file_.write(header, kHeader) && file_.commit();
}

}  // namespace cli
