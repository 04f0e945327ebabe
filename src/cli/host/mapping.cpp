#include "mapping.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"
#include "system.h"

namespace cli {
namespace {

// A page fault of a file's mapping brings in the pages around it, as a rule those of 64 KiB: a
// touch for each such piece is enough, and a third faster than to ask for all pages
// (MADV_POPULATE_READ), which looks at every one.
constexpr size_t kAhead = size_t{64} << 10;

}  // namespace

double share_in_memory(void* data, size_t bytes) {
  const size_t page = page_size();
  vector<unsigned char> there((bytes + page - 1) / page);
  if (mincore(data, bytes, there.data()) != 0) return 1;
  const auto are = std::count_if(there.begin(), there.end(), [](int flags) { return flags & 1; });
  return double(are) / double(there.size());
}

bool read_bytes(int fd, unsigned char* to, size_t from, size_t end) {
  while (from < end) {
    const ssize_t n = pread(fd, to + from, end - from, static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    from += size_t(n);
  }
  return true;
}

bool write_all(int fd, const void* data, size_t bytes) {
  for (const char* p = static_cast<const char*>(data); bytes != 0;) {
    const ssize_t n = write(fd, p, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = EIO;
    if (n <= 0) return false;
    p += n;
    bytes -= size_t(n);
  }
  return true;
}

Mapping::~Mapping() {
  stop_.store(true);
  if (reading_) pthread_join(thread_, nullptr);
  if (data_ != nullptr) munmap(data_, bytes_);
}

bool Mapping::map(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return false;
  data_ = static_cast<unsigned char*>(data);
  bytes_ = bytes;
  return true;
}

#if defined(__EMSCRIPTEN__)  // a mapping is a copy there
bool Mapping::own(int, size_t) { return true; }
#else
bool Mapping::own(int fd, size_t end) {
  const size_t page = page_size();
  end = end < bytes_ ? end : bytes_;
  if (end <= own_) return true;
  const size_t whole = (end + page - 1) / page * page, last = whole < bytes_ ? whole : bytes_;
  unsigned char* from = data_ + own_;
  void* given = mmap(from, whole - own_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
  if (given == MAP_FAILED) return false;
  if (!read_bytes(fd, data_, own_, last) || mprotect(from, whole - own_, PROT_READ) != 0)
    return false;
  own_ = whole;
  return true;
}
#endif

void Mapping::read_ahead() {
  if (bytes_ >= kLarge && !reading_) reading_ = start_thread(&thread_, &ahead, this);
}

// Of a file that is in memory the pages are touched from the end on, towards the reader: in the
// reader's own order both would wait for the same ones. A disk is read in its order.
void* Mapping::ahead(void* self) {
  Mapping* m = static_cast<Mapping*>(self);
  const size_t first = m->own_ / kAhead,  // what is the program's own is there
      end = (m->bytes_ + kAhead - 1) / kAhead, tail = (m->bytes_ / kHugePage - 1) * kHugePage;
  const bool backwards = share_in_memory(m->data_ + tail, m->bytes_ - tail) > 0.99;
  for (size_t i = first; i < end && !m->stop_.load(std::memory_order_relaxed); ++i)
    (void)*static_cast<const volatile unsigned char*>(
        m->data_ + (backwards ? end - 1 - (i - first) : i) * kAhead);
  return nullptr;
}

}  // namespace cli
