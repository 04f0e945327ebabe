#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace cli {
namespace {

bool changed_file = false;

// Numbers of the file format (file-format.md): where its table of sections says that the weights
// begin.
constexpr unsigned char kMagic[8] = {0x89, 'P', 'H', 'A', 'S', 'O', 'R', 0x0A};
constexpr size_t kHeaderBytes = 64, kSectionBytes = 32, kMostSections = 16,
                 kTableBytes = kHeaderBytes + kMostSections * kSectionBytes;
constexpr uint64_t kMostHead = uint64_t{1} << 28, kMostBeforeWeights = uint64_t{1} << 30;
constexpr uint32_t kWeights = 15;

constexpr size_t kHeld = size_t{1} << 16;  // bytes that are written at a time
// of a name, so that there is room for what makes it another's
constexpr size_t kLongestBase = 230;

uint64_t number_at(const unsigned char* p, size_t bytes) {
  uint64_t value = 0;
  for (size_t i = bytes; i-- != 0;) value = value << 8 | p[i];
  return value;
}

// The bytes of a weight file that are no weights and that the engine reads: the head, and what the
// table puts before the weights. Of a table that is not as it should be the engine reads no further
// than the head; of another file, than the header. `p` has the table.
uint64_t before_weights(const unsigned char* p, size_t bytes) {
  if (bytes < kTableBytes || memcmp(p, kMagic, sizeof kMagic) != 0) return 0;
  const uint64_t head = number_at(p + 32, 8), count = number_at(p + 20, 4);
  uint64_t end = head <= kMostHead ? head : 0;
  for (uint64_t i = 0; i < count && i < kMostSections; ++i) {
    const unsigned char* e = p + kHeaderBytes + i * kSectionBytes;
    const uint64_t offset = number_at(e + 8, 8);
    if (number_at(e, 4) == kWeights && offset <= bytes && offset > end) end = offset;
  }
  return end;
}

// On a file system that has nothing to wait for, there is nothing to do.
bool on_disk(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
}

#if defined(__APPLE__)
#define st_mtim st_mtimespec
#endif

bool same_time(const struct timespec& a, const struct timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

}  // namespace

bool file_has_changed() { return changed_file; }

size_t base_of(const string& path) {
  const size_t slash = path.rfind('/');
  return slash == string::npos ? 0 : slash + 1;
}

// ---------------------------------------------------------------- reading

ReadFile::~ReadFile() {
  if (!unchanged()) changed_file = true;
  if (fd_ >= 0) close(fd_);
}

const unsigned char* ReadFile::section(uint32_t kind, size_t* bytes) const {
  const unsigned char* const p = static_cast<const unsigned char*>(data_);
  const uint64_t count = bytes_ < kTableBytes ? 0 : number_at(p + 20, 4);
  for (uint64_t i = 0; i < count && i < kMostSections; ++i) {
    const unsigned char* e = p + kHeaderBytes + i * kSectionBytes;
    const uint64_t offset = number_at(e + 8, 8), size = number_at(e + 16, 8);
    if (number_at(e, 4) != kind || offset > bytes_ || size > bytes_ - offset) continue;
    *bytes = size_t(size);
    return p + offset;
  }
  *bytes = 0;
  return p;
}

bool ReadFile::refuse(const char* why) const {
  data_error("%s: %s", path_.c_str(), why);
  return false;
}

bool ReadFile::refuse_reading() const {
  return refuse(errno != 0 ? strerror(errno) : "became shorter while it was read");
}

bool ReadFile::check_kind(const char* kind) const {
  const char* is = S_ISDIR(seen_.st_mode)    ? "is a directory"
                   : !S_ISREG(seen_.st_mode) ? "is not a regular file"
                   : seen_.st_size == 0      ? "is empty"
                                             : nullptr;
  if (is != nullptr) return data_error("%s: %s, expected %s", path_.c_str(), is, kind), false;
  return uint64_t(seen_.st_size) <= SIZE_MAX || refuse("is too large for this machine");
}

bool ReadFile::copy(int fd) {
  if (!block_.allocate(bytes_)) return refuse("there is no memory for a copy of it");
  unsigned char* to = static_cast<unsigned char*>(block_.data());
  if (!read_bytes(fd, to, 0, bytes_)) return refuse_reading();
  block_.protect();
  data_ = to;
  return true;
}

// What decides how much becomes the program's own is its own already.
bool ReadFile::map(int fd) {
  if (!mapping_.map(fd, bytes_)) return refuse(strerror(errno));
  if (!mapping_.own(fd, kTableBytes)) return refuse_reading();
  const uint64_t end = before_weights(static_cast<const unsigned char*>(mapping_.data()), bytes_);
  if (end > kMostBeforeWeights)
    return refuse("has more than 1 GiB before its weights, expected a .phasor file with less");
  if (!mapping_.own(fd, size_t(end))) return refuse_reading();
  const string gone =
      "phasor: " + one_line(path_) + ": was cut short while it was in use, or cannot be read\n";
  if (!watch_.begin(mapping_.data(), bytes_, gone)) return refuse("too many files are mapped");
  data_ = mapping_.data();
  return true;
}

bool ReadFile::open(const char* path, Load how, const char* kind) {
  path_ = path;
  if (stat(path, &seen_) != 0) return refuse(errno == ENOENT ? "no such file" : strerror(errno));
  if (!check_kind(kind)) return false;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return refuse(strerror(errno));
  const bool known = fstat(fd, &seen_) == 0 ? check_kind(kind) : refuse(strerror(errno));
  bytes_ = size_t(seen_.st_size);
  const bool copied =
      how == Load::copy || (how == Load::copy_if_faster && worth_huge_pages(bytes_));
  const bool read = known && (copied ? copy(fd) : map(fd));
  if (read && !copied)
    fd_ = fd;
  else
    close(fd);
  if (read && how == Load::automatic) mapping_.read_ahead();
  return read;
}

bool ReadFile::unchanged() const {
  struct stat s;
  if (changed_ || fd_ < 0) return !changed_;
  changed_ = true;
  if (fstat(fd_, &s) != 0) return refuse(strerror(errno));
  changed_ = s.st_size != seen_.st_size || !same_time(s.st_mtim, seen_.st_mtim);
  if (!changed_) return true;
  return refuse(
      "was changed while it was in use, what was computed meanwhile may be wrong: start again");
}

// ---------------------------------------------------------------- writing

NewFile::~NewFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (direct()) return;
  (void)unlink(part_.c_str());
  drop_part(part_.c_str());
}

bool NewFile::refuse(const char* why) const {
  data_error("%s: %s", given_, why);
  return false;
}

bool NewFile::fail() const {
  data_error("%s: cannot be written: %s", given_, strerror(errno));
  return false;
}

bool NewFile::open(const char* path) {
  struct stat s;
  given_ = path;
  if (stat(path, &s) != 0) return errno == ENOENT ? make() : fail();
  if (S_ISDIR(s.st_mode)) return refuse("is a directory, expected a file");
  if (S_ISREG(s.st_mode)) return access(path, W_OK) == 0 ? make() : fail();
  if (!S_ISFIFO(s.st_mode) && !S_ISCHR(s.st_mode))
    return refuse("is neither a file nor a pipe, expected one that can be written");
  fd_ = ::open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  return fd_ >= 0 || fail();
}

// A file beside the one that the path leads to, behind links.
bool NewFile::make() {
  struct stat s;
  path_ = given_;
  if (lstat(given_, &s) == 0 && S_ISLNK(s.st_mode)) {
    char* real = realpath(given_, nullptr);
    if (real == nullptr)
      return refuse(errno == ENOENT ? "is a link to a file that is not there" : strerror(errno));
    path_ = real;
    free(real);
  }
  const size_t base = base_of(path_);
  const HoldSignals held;
  part_ = path_.substr(0, base) + path_.substr(base, kLongestBase) + ".XXXXXX.part";
  fd_ = mkostemps(&part_[0], sizeof ".part" - 1, O_CLOEXEC);
  if (fd_ < 0) return fail();
  if (!add_part(part_.c_str())) return refuse("too many files are written at a time");
  const mode_t mask = umask(0);  // it can only be read by setting it
  umask(mask);
  return fchmod(fd_, 0666 & ~mask) == 0 || fail();
}

bool NewFile::flush() {
  const bool written = write_all(fd_, held_.data(), held_.size());
  held_.clear();
  return written || fail();
}

bool NewFile::write(const void* data, size_t bytes) {
  if (!direct() && bytes >= kHeld) return flush() && (write_all(fd_, data, bytes) || fail());
  held_.append(static_cast<const char*>(data), bytes);
  return direct() || held_.size() < kHeld || flush();
}

bool NewFile::write_first(const void* data, size_t bytes) {
  if (direct()) {
    held_.replace(0, bytes, static_cast<const char*>(data), bytes);
    return true;
  }
  return flush() && ((lseek(fd_, 0, SEEK_SET) == 0 && write_all(fd_, data, bytes)) || fail());
}

bool NewFile::finish() { return direct() || (flush() && (on_disk(fd_) || fail())); }

// The name goes last: until then the old file is there.
bool NewFile::commit() {
  if (!flush()) return false;
  bool done = close(fd_) == 0 || errno == EINTR;
  fd_ = -1;
  if (direct()) return done || fail();
  done = done && rename(part_.c_str(), path_.c_str()) == 0;
  const int failed = errno;
  if (!done) (void)unlink(part_.c_str());
  drop_part(part_.c_str());
  errno = failed;
  return done || fail();
}

}  // namespace cli
