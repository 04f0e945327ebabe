#include "npy.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"

namespace cli {
namespace {

constexpr size_t kHeader = 128;  // magic, version, length, dictionary; data is aligned to 64

}  // namespace

NpyWriter::~NpyWriter() {
  if (file_ == nullptr) return;
  fclose(file_);
  unlink(part_.c_str());
}

bool NpyWriter::refuse(const char* why) {
  data_error("%s: %s", path_.c_str(), why);
  return false;
}

bool NpyWriter::open(const char* path) {
  path_ = path;
  struct stat s;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) return refuse("is not a regular file, expected one that can be written");
  part_ = path_ + "." + std::to_string(getpid()) + ".part";
  file_ = fopen(part_.c_str(), "wbx");
  if (file_ == nullptr) return refuse(strerror(errno));
  const char zeros[kHeader] = {};
  return fwrite(zeros, 1, kHeader, file_) == kHeader || refuse(strerror(errno));
}

bool NpyWriter::append(const float* values, size_t count) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 is written as it lies in memory");
  return fwrite(values, sizeof(float), count, file_) == count || refuse(strerror(errno));
}

bool NpyWriter::commit(const std::vector<uint64_t>& shape) {
  std::string tuple;
  for (uint64_t n : shape) tuple += std::to_string(n) + ",";
  char header[kHeader + 1];
  const int n = snprintf(header, sizeof header, "\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", 0, int(kHeader - 10), 0, tuple.c_str());
  if (n < 0 || size_t(n) >= kHeader) return refuse("a shape of too many dimensions");
  memset(header + n, ' ', kHeader - size_t(n));
  header[kHeader - 1] = '\n';
  if (fseek(file_, 0, SEEK_SET) != 0 || fwrite(header, 1, kHeader, file_) != kHeader || fflush(file_) != 0) return refuse(strerror(errno));
  const int closed = fclose(file_);
  file_ = nullptr;
  if (closed == 0 && rename(part_.c_str(), path_.c_str()) == 0) return true;
  const int failed = errno;
  unlink(part_.c_str());
  return refuse(strerror(failed));
}

}  // namespace cli
