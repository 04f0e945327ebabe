#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

namespace cli {
namespace {

bool changed_file = false;

// Numbers of the file format (docs/format.md): where its table of sections says that the weights
// begin.
constexpr unsigned char kMagic[8] = {0x89, 'P', 'H', 'A', 'S', 'O', 'R', 0x0A};
constexpr size_t kHeaderBytes = 64, kSectionBytes = 32, kMostSections = 16,
                 kTableBytes = kHeaderBytes + kMostSections * kSectionBytes;
constexpr uint64_t kMostHead = uint64_t{1} << 28, kMostBeforeWeights = uint64_t{1} << 30;
constexpr uint32_t kWeights = 15;

constexpr size_t kHeld = size_t{1} << 16;  // bytes that are written at a time
constexpr size_t kLongestBase =
    230;  // of a name, so that there is room for what makes it another's
constexpr int kTries = 100;

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

bool write_all(int fd, const void* data, size_t bytes) {
  for (const char* p = static_cast<const char*>(data); bytes != 0;) {
    const ssize_t n = write(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    p += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

// On a file system that has nothing to wait for, there is nothing to do.
bool on_disk(int fd) {
  return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
}

// The space of a file is taken: by the system, or where it cannot, by writing zeros.
bool take_space(int fd, size_t bytes) {
  int failed = EINTR;
  while (failed == EINTR) failed = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (failed == 0) return true;
  errno = failed;
  if (failed != EOPNOTSUPP && failed != EINVAL && failed != ENOSYS) return false;
  const std::string zeros(kHeld, '\0');
  for (size_t left = bytes; left != 0;) {
    const size_t n = left < kHeld ? left : kHeld;
    if (!write_all(fd, zeros.data(), n)) return false;
    left -= n;
  }
  return true;
}

bool same_time(const struct stat& a, const struct stat& b) {
#if defined(__APPLE__)
  return a.st_mtimespec.tv_sec == b.st_mtimespec.tv_sec &&
         a.st_mtimespec.tv_nsec == b.st_mtimespec.tv_nsec;
#else
  return a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
#endif
}

// Where a name begins in a path.
size_t base_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

// One more number at each call, and on no other program of the machine or of a folder that several
// machines share.
std::string unlike_any() {
  static uint64_t calls = 0;
  struct timespec t = {};
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t x = static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
  x += ++calls * 0x9E3779B97F4A7C15u;
  x ^= (static_cast<uint64_t>(getpid()) << 32) ^
       static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&t));
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  std::string out;
  for (int i = 0; i < 16; ++i, x >>= 4) out += "0123456789abcdef"[x & 15];
  return out;
}

// What a path, or a descriptor, leads to: a file that is there, or a name in a folder.
struct Target {
  const char* what;
  const char* path;  // NULL: a standard stream
  bool output;
  struct stat s;
  bool known;
  std::string name;
};

Target target_of_path(const char* what, const char* path, bool output) {
  Target t{};
  t.what = what;
  t.path = path;
  t.output = output;
  t.known = stat(path, &t.s) == 0;
  if (t.known) return t;
  const std::string all = path;
  const size_t base = base_of(all);
  t.name = all.substr(base);
  t.known = stat(base == 0 ? "." : all.substr(0, base).c_str(), &t.s) == 0;
  return t;
}

Target target_of_stream(const char* what, int fd) {
  Target t{};
  t.what = what;
  t.output = fd != STDIN_FILENO;
  t.known = fstat(fd, &t.s) == 0;
  return t;
}

bool same(const Target& a, const Target& b) {
  const bool one = a.known && b.known && a.s.st_dev == b.s.st_dev && a.s.st_ino == b.s.st_ino &&
                   a.name == b.name;
  return one && !S_ISCHR(a.s.st_mode);  // /dev/null may be all of them
}

}  // namespace

bool file_has_changed() { return changed_file; }

bool check_places(const Options& o, Command command) {
  const bool quantizes = command == kQuantize;
  const struct {
    const char* what;
    const char* path;
    bool output;
  } named[] = {{"the model", o.model, false},
               {"--moments", o.moments, false},
               {"--load-state", o.load_state, false},
               {"OUT", quantizes && !o.texts.empty() ? o.texts[0] : nullptr, true},
               {"--logits", o.logits, true},
               {"--hidden", o.hidden, true},
               {"--hidden-decoder", o.hidden_decoder, true},
               {"--attention", o.attention, true},
               {"--npy", o.npy, true},
               {"--save-state", o.save_state, true}};
  std::vector<Target> all;
  for (const auto& n : named) {
    if (n.path == nullptr) continue;
    if (n.output && (n.path[0] == 0 || strcmp(n.path, "-") == 0))
      return data_error("%s \"%s\": expected the name of a file (standard output has the results)",
                        n.what, n.path),
             false;
    all.push_back(target_of_path(n.what, n.path, n.output));
  }
  all.push_back(target_of_stream("standard input", STDIN_FILENO));
  all.push_back(target_of_stream("standard output", STDOUT_FILENO));
  all.push_back(target_of_stream("standard error", STDERR_FILENO));
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t k = i + 1; k < all.size() && all[i].path != nullptr; ++k)
      if ((all[i].output || all[k].output) && same(all[i], all[k]))
        return data_error("%s: is both %s and %s, expected a file of its own for what is written",
                          all[i].path, all[i].what, all[k].what),
               false;
  return true;
}

// ---------------------------------------------------------------- reading

ReadFile::~ReadFile() {
  if (!unchanged()) changed_file = true;
  if (fd_ >= 0) close(fd_);
}

bool ReadFile::refuse(const char* why) const {
  data_error("%s: %s", path_.c_str(), why);
  return false;
}

bool ReadFile::check_kind(const struct stat& s, const char* kind) const {
  const auto no = [&](const char* why) {
    return data_error("%s: %s, expected %s", path_.c_str(), why, kind), false;
  };
  if (S_ISDIR(s.st_mode)) return no("is a directory");
  if (!S_ISREG(s.st_mode)) return no("is not a regular file");
  if (s.st_size == 0) return no("is empty");
  if (static_cast<uint64_t>(s.st_size) > SIZE_MAX) return refuse("is too large for this machine");
  return true;
}

bool ReadFile::copy(int fd) {
  if (!block_.allocate(bytes_)) return refuse("there is no memory for a copy of it");
  unsigned char* to = static_cast<unsigned char*>(block_.data());
  for (size_t done = 0; done < bytes_;) {
    const ssize_t n = read(fd, to + done, bytes_ - done);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) return refuse("became shorter while it was read");
    if (n < 0) return refuse(strerror(errno));
    done += static_cast<size_t>(n);
  }
  block_.protect();
  data_ = to;
  return true;
}

// What decides how much becomes the program's own is its own already.
bool ReadFile::map(int fd) {
  if (!mapping_.map(fd, bytes_)) return refuse(strerror(errno));
  const auto failed = [this] {
    return refuse(errno != 0 ? strerror(errno) : "became shorter while it was read");
  };
  if (!mapping_.own(fd, kTableBytes)) return failed();
  const uint64_t end = before_weights(static_cast<const unsigned char*>(mapping_.data()), bytes_);
  if (end > kMostBeforeWeights)
    return refuse("has more than 1 GiB before its weights, expected a .phasor file with less");
  if (!mapping_.own(fd, static_cast<size_t>(end))) return failed();
  const std::string gone =
      "phasor: " + path_ + ": was cut short while it was in use, or cannot be read\n";
  if (!watch_.begin(mapping_.data(), bytes_, gone)) return refuse("too many files are mapped");
  data_ = mapping_.data();
  return true;
}

bool ReadFile::open(const char* path, Load how, const char* kind) {
  path_ = path;
  if (stat(path, &seen_) != 0) return refuse(errno == ENOENT ? "no such file" : strerror(errno));
  if (!check_kind(seen_, kind)) return false;
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return refuse(strerror(errno));
  bool read = fstat(fd, &seen_) == 0 && check_kind(seen_, kind);
  const bool copied = how == Load::copy || (how == Load::copy_to_huge_pages &&
                                            worth_huge_pages(static_cast<size_t>(seen_.st_size)));
  bytes_ = static_cast<size_t>(seen_.st_size);
  read = read && (copied ? copy(fd) : map(fd));
  if (!read || copied) {
    close(fd);
    return read;
  }
  fd_ = fd;
  automatic_ = how == Load::automatic;
  if (automatic_) mapping_.read_ahead();
  return true;
}

void ReadFile::much_used() {
  if (automatic_) mapping_.move_to_huge_pages();
}

bool ReadFile::unchanged() const {
  struct stat s;
  if (changed_ || fd_ < 0 ||
      (fstat(fd_, &s) == 0 && s.st_size == seen_.st_size && same_time(s, seen_)))
    return !changed_;
  changed_ = true;
  return refuse(
      "was changed while it was in use, what was computed meanwhile may be wrong: start again");
}

// ---------------------------------------------------------------- writing

Place::~Place() {
  if (fd_ < 0) return;
  close(fd_);
  if (direct()) return;
  (void)unlink(part_.c_str());
  drop_part(part_.c_str());
}

bool Place::refuse(const char* why) const {
  data_error("%s: %s", given_, why);
  return false;
}

bool Place::fail() const {
  data_error("%s: cannot be written: %s", given_, strerror(errno));
  return false;
}

// The file itself, behind links.
bool Place::find(const char* path) {
  struct stat s;
  path_ = path;
  if (lstat(path, &s) != 0 || !S_ISLNK(s.st_mode)) return true;
  char* real = realpath(path, nullptr);
  if (real == nullptr)
    return refuse(errno == ENOENT ? "is a link to a file that is not there" : strerror(errno));
  path_ = real;
  free(real);
  return true;
}

bool Place::make() {
  const size_t base = base_of(path_);
  for (int i = 0; i < kTries; ++i) {
    const HoldSignals held;
    part_ = path_.substr(0, base) + path_.substr(base, kLongestBase) + "." + unlike_any() + ".part";
    fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0 && errno == EEXIST) continue;
    if (fd_ < 0) return fail();
    if (!add_part(part_.c_str())) return refuse("too many files are written at a time");
    return true;
  }
  return fail();
}

bool Place::open(const char* path) {
  struct stat s;
  given_ = path;
  if (stat(path, &s) != 0) return (errno == ENOENT || fail()) && find(path) && make();
  if (S_ISDIR(s.st_mode)) return refuse("is a directory, expected a file");
  if (S_ISREG(s.st_mode)) {
    if (access(path, W_OK) != 0) return fail();
    return find(path) && make();
  }
  if (!S_ISFIFO(s.st_mode) && !S_ISCHR(s.st_mode))
    return refuse("is neither a file nor a pipe, expected one that can be written");
  fd_ = ::open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  return fd_ >= 0 || fail();
}

bool Place::write(const void* data, size_t bytes) { return write_all(fd_, data, bytes) || fail(); }

bool Place::write_first(const void* data, size_t bytes) {
  return (lseek(fd_, 0, SEEK_SET) == 0 && write_all(fd_, data, bytes) &&
          lseek(fd_, 0, SEEK_END) > 0) ||
         fail();
}

bool Place::finish() { return direct() || on_disk(fd_) || fail(); }

// The name goes last: until then the old file is there.
bool Place::commit() {
  const int fd = fd_;
  fd_ = -1;
  bool done = close(fd) == 0 || errno == EINTR;
  if (direct()) return done || fail();
  done = done && rename(part_.c_str(), path_.c_str()) == 0;
  const int failed = errno;
  if (!done) (void)unlink(part_.c_str());
  drop_part(part_.c_str());
  errno = failed;
  return done || fail();
}

bool NewFile::open(const char* path) { return place_.open(path); }

bool NewFile::flush() {
  const bool written = held_.empty() || place_.write(held_.data(), held_.size());
  held_.clear();
  return written;
}

bool NewFile::write(const void* data, size_t bytes) {
  held_.append(static_cast<const char*>(data), bytes);
  return place_.direct() || held_.size() < kHeld || flush();
}

bool NewFile::write_first(const void* data, size_t bytes) {
  if (!place_.direct()) return flush() && place_.write_first(data, bytes);
  held_.replace(0, bytes, static_cast<const char*>(data), bytes);
  return true;
}

bool NewFile::finish() { return place_.direct() || (flush() && place_.finish()); }

bool NewFile::commit() { return flush() && place_.commit(); }

NewMapping::~NewMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool NewMapping::open(const char* path, size_t bytes) {
  if (!place_.open(path)) return false;
  const bool direct = place_.direct();
  if (!direct && !take_space(place_.fd(), bytes)) return place_.fail();
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
           direct ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, direct ? -1 : place_.fd(), 0);
  if (data == MAP_FAILED) return place_.fail();
  data_ = data;
  bytes_ = bytes;
  const std::string gone =
      std::string("phasor: ") + path +
      ": cannot be written: the disk is full, or the file was cut short meanwhile\n";
  return watch_.begin(data_, bytes_, gone) || place_.refuse("too many files are mapped");
}

bool NewMapping::commit() {
  if (place_.direct()) return place_.write(data_, bytes_) && place_.commit();
  return (msync(data_, bytes_, MS_SYNC) == 0 || place_.fail()) && place_.finish() &&
         place_.commit();
}

}  // namespace cli
