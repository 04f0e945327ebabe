#include "npy.h"

#include <string.h>

#include <string>

#include "args.h"

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

bool read_npy(const char* path, std::vector<float>* out) {
  ReadFile file;
  if (!file.open(path, Load::map)) return false;
  const char* p = static_cast<const char*>(file.data());
  const size_t bytes = file.bytes(), start = 10;
  const size_t header = bytes >= start ? static_cast<size_t>(static_cast<unsigned char>(p[8]) | static_cast<unsigned char>(p[9]) << 8) : 0;
  if (bytes < start || memcmp(p, "\x93NUMPY\x01", 7) != 0 || header > bytes - start) return data_error("%s: not a NumPy file of version 1.0", path), false;
  const std::string text(p + start, header);
  if (text.find("'descr': '<f4'") == std::string::npos || text.find("'fortran_order': False") == std::string::npos)
    return data_error("%s: expected an array of little-endian f32, in C's order", path), false;
  if ((bytes - start - header) % sizeof(float) != 0) return data_error("%s: the array is cut off", path), false;
  out->resize((bytes - start - header) / sizeof(float));
  memcpy(out->data(), p + start + header, out->size() * sizeof(float));
  return true;
}

}  // namespace cli
