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

// The reason is left in errno.
bool ReadFile::copy(int fd) {
  if (!block_.allocate(bytes_)) return false;
  unsigned char* to = static_cast<unsigned char*>(block_.data());
  for (size_t done = 0; done < bytes_;) {
    const ssize_t n = read(fd, to + done, bytes_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;  // it has become shorter
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  block_.protect();
  data_ = to;
  return true;
}

bool ReadFile::open(const char* path, Load how) {
  struct stat s;
  if (stat(path, &s) != 0) return refuse(path, errno == ENOENT ? "no such file" : strerror(errno));
  if (!check_kind(path, s)) return false;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return refuse(path, strerror(errno));
  if (fstat(fd, &s) != 0 || !check_kind(path, s)) {
    close(fd);
    return false;
  }
  bytes_ = static_cast<size_t>(s.st_size);
  automatic_ = how == Load::automatic;
  const bool copied = how == Load::copy || (how == Load::copy_to_huge_pages && worth_huge_pages(bytes_));
  const bool read = copied ? copy(fd) : mapping_.map(fd, bytes_);
  const int failed = errno;
  close(fd);
  if (!read) return refuse(path, strerror(failed));
  if (!copied) data_ = mapping_.data();
  if (automatic_) mapping_.read_ahead();
  return true;
}

void ReadFile::much_used() {
  if (automatic_) mapping_.move_to_huge_pages();
}

NewFile::~NewFile() {
  if (file_ == nullptr) return;
  fclose(file_);
  unlink(part_.c_str());
}

bool NewFile::refuse(const char* why) const {
  data_error("%s: %s", path_.c_str(), why);
  return false;
}

bool NewFile::open(const char* path) {
  path_ = path;
  struct stat s;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) return refuse("is not a regular file, expected one that can be written");
  part_ = path_ + "." + std::to_string(getpid()) + ".part";
  file_ = fopen(part_.c_str(), "wbx");
  return file_ != nullptr || refuse(strerror(errno));
}

bool NewFile::write(const void* data, size_t bytes) { return fwrite(data, 1, bytes, file_) == bytes || refuse(strerror(errno)); }

bool NewFile::rewind() { return fseek(file_, 0, SEEK_SET) == 0 || refuse(strerror(errno)); }

bool NewFile::commit() {
  if (fflush(file_) != 0) return refuse(strerror(errno));
  const int closed = fclose(file_);
  file_ = nullptr;
  if (closed == 0 && rename(part_.c_str(), path_.c_str()) == 0) return true;
  const int failed = errno;
  unlink(part_.c_str());
  return refuse(strerror(failed));
}

NewMapping::~NewMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ < 0) return;
  close(fd_);
  unlink(part_.c_str());
}

bool NewMapping::open(const char* path, size_t bytes) {
  path_ = path;
  bytes_ = bytes;
  struct stat s;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) return refuse(path, "is not a regular file, expected one that can be written");
  part_ = path_ + "." + std::to_string(getpid()) + ".part";
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) return refuse(path, strerror(errno));
  const int failed = posix_fallocate(fd_, 0, static_cast<off_t>(bytes));
  if (failed != 0) return refuse(path, strerror(failed));
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return refuse(path, strerror(errno));
  data_ = data;
  return true;
}

bool NewMapping::commit() {
  const bool written = msync(data_, bytes_, MS_SYNC) == 0 && fsync(fd_) == 0 && rename(part_.c_str(), path_.c_str()) == 0;
  if (!written) return refuse(path_.c_str(), strerror(errno));
  close(fd_);
  fd_ = -1;
  return true;
}

}  // namespace cli
