#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "args.h"

namespace cli {
namespace {

bool refuse(const char* path, const char* why) {
  data_error("%s: %s", path, why);
  return false;
}

bool check_kind(const char* path, const struct stat& s) {
  if (S_ISDIR(s.st_mode)) return refuse(path, "is a directory, expected a .phasor file");
  if (!S_ISREG(s.st_mode)) return refuse(path, "is not a regular file, expected a .phasor file");
  if (s.st_size == 0) return refuse(path, "is empty, expected a .phasor file");
  if (static_cast<uint64_t>(s.st_size) > SIZE_MAX) return refuse(path, "is too large for this machine");
  return true;
}

}  // namespace

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool MappedFile::open(const char* path) {
  struct stat s;
  if (stat(path, &s) != 0) return refuse(path, errno == ENOENT ? "no such file" : strerror(errno));
  if (!check_kind(path, s)) return false;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refuse(path, strerror(errno));
  if (fstat(fd, &s) != 0 || !check_kind(path, s)) {
    close(fd);
    return false;
  }
  void* data = mmap(nullptr, static_cast<size_t>(s.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  const int failed = errno;
  close(fd);
  if (data == MAP_FAILED) return refuse(path, strerror(failed));
  data_ = data;
  bytes_ = static_cast<size_t>(s.st_size);
  return true;
}

}  // namespace cli
