#include "npy.h"

#include <string.h>

#include <string>

#include "args.h"

namespace cli {
namespace {

constexpr size_t kHeader = 128;  // magic, version, length, dictionary; data is aligned to 64

// The product of a header's 'shape': (2, 3); false where there is no such thing, or it has more
// than `most` values.
bool values_of(const std::string& header, size_t most, size_t* out) {
  const char kShape[] = "'shape': (";
  size_t at = header.find(kShape);
  if (at == std::string::npos) return false;
  *out = 1;
  for (at += sizeof kShape - 1; at < header.size() && header[at] != ')';) {
    size_t n = 0, digits = 0;
    for (; at < header.size() && header[at] >= '0' && header[at] <= '9'; ++at, ++digits) {
      n = n * 10 + static_cast<size_t>(header[at] - '0');
      if (n > most) return false;
    }
    if (digits == 0 || (n != 0 && *out > most / n)) return false;
    *out *= n;
    while (at < header.size() && (header[at] == ',' || header[at] == ' ')) ++at;
  }
  return at < header.size();
}

}  // namespace

bool NpyWriter::open(const char* path) {
  const char zeros[kHeader] = {};
  return file_.open(path) && file_.write(zeros, kHeader);
}

bool NpyWriter::append(const float* values, size_t count) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 is written as it lies in memory");
  return file_.write(values, count * sizeof(float));
}

bool NpyWriter::finish(const std::vector<uint64_t>& shape) {
  std::string tuple;
  for (uint64_t n : shape) tuple += std::to_string(n) + ",";
  char header[kHeader + 1];
  const int n =
      snprintf(header, sizeof header,
               "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", 0,
               int(kHeader - 10), 0, tuple.c_str());
  if (n < 0 || size_t(n) >= kHeader) return file_.refuse("a shape of too many dimensions");
  memset(header + n, ' ', kHeader - size_t(n));
  header[kHeader - 1] = '\n';
  return file_.write_first(header, kHeader) && file_.finish();
}

bool read_npy(const char* path, std::vector<float>* out) {
  ReadFile file;
  if (!file.open(path, Load::copy, "a NumPy file")) return false;
  const char* p = static_cast<const char*>(file.data());
  const size_t bytes = file.bytes(), start = 10;
  const size_t header = bytes >= start ? static_cast<size_t>(static_cast<unsigned char>(p[8]) |
                                                             static_cast<unsigned char>(p[9]) << 8)
                                       : 0;
  if (bytes < start || memcmp(p, "\x93NUMPY\x01", 7) != 0 || header > bytes - start)
    return data_error("%s: not a NumPy file of version 1.0", path), false;
  const std::string text(p + start, header);
  if (text.find("'descr': '<f4'") == std::string::npos ||
      text.find("'fortran_order': False") == std::string::npos)
    return data_error("%s: expected an array of little-endian f32, in C's order", path), false;
  size_t values = 0;
  if (!values_of(text, (bytes - start - header) / sizeof(float), &values) ||
      values * sizeof(float) != bytes - start - header)
    return data_error("%s: the array is cut off, or longer than its shape", path), false;
  out->resize(values);
  memcpy(out->data(), p + start + header, out->size() * sizeof(float));
  return true;
}

}  // namespace cli
