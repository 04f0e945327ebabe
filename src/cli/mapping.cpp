#include "mapping.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory.h"

namespace cli {
namespace {

// A page fault of a file's mapping brings in the pages around it, as a rule those of 64 KiB: a
// touch for each such piece is enough, and a third faster than to ask for all pages
// (MADV_POPULATE_READ), which looks at every one.
constexpr size_t kAhead = size_t{64} << 10;

// Whether the system has the file in memory: it is asked about some pages.
bool in_cache(unsigned char* data, size_t bytes) {
  constexpr size_t kAsked = 16;
  for (size_t i = 0; i < kAsked; ++i) {
    unsigned char there = 0;
    if (mincore(data + bytes / kAsked * i / kHugePage * kHugePage, 1, &there) != 0 ||
        (there & 1u) == 0)
      return false;
  }
  return true;
}

}  // namespace

Mapping::~Mapping() {
  stop_.store(true);
  ahead_.join();
  mover_.join();
  if (reserved_ != nullptr) munmap(reserved_, reserved_bytes_);
}

#if defined(__linux__)
// The place is taken first, with room to begin at a multiple of a huge page, and the file put
// there.
bool Mapping::map(int fd, size_t bytes) {
  const size_t align = bytes >= kLarge ? kHugePage : 4096;
  if (bytes > SIZE_MAX - align) return errno = ENOMEM, false;
  void* place =
      mmap(nullptr, bytes + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return false;
  void* at =
      reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(place) + align - 1) / align * align);
  void* data = mmap(at, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    const int failed = errno;
    munmap(place, bytes + align);
    errno = failed;
    return false;
  }
  reserved_ = place;
  reserved_bytes_ = bytes + align;
  data_ = static_cast<unsigned char*>(data);
  bytes_ = bytes;
  return true;
}
#else
bool Mapping::map(int fd, size_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (data == MAP_FAILED) return false;
  reserved_ = data;
  data_ = static_cast<unsigned char*>(data);
  reserved_bytes_ = bytes_ = bytes;
  return true;
}
#endif

#if defined(__EMSCRIPTEN__)  // a mapping is a copy there
bool Mapping::own(int, size_t) { return true; }
#else
bool Mapping::own(int fd, size_t end) {
  const long told = sysconf(_SC_PAGESIZE);
  const size_t page = told > 0 ? static_cast<size_t>(told) : 4096;
  end = end < bytes_ ? end : bytes_;
  if (end <= own_) return true;
  const size_t whole = (end + page - 1) / page * page, last = whole < bytes_ ? whole : bytes_;
  unsigned char* from = data_ + own_;
  void* given = mmap(from, whole - own_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
  if (given == MAP_FAILED) return false;
  for (size_t done = own_; done < last;) {
    const ssize_t n = pread(fd, data_ + done, last - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  if (mprotect(from, whole - own_, PROT_READ) != 0) return false;
  own_ = whole;
  return true;
}
#endif

void Mapping::read_ahead() {
  if (bytes_ >= kLarge) ahead_.start(&ahead, this);
}

void* Mapping::ahead(void* self) {
  Mapping* m = static_cast<Mapping*>(self);
  const size_t first = m->own_ / kAhead,
               end = (m->bytes_ + kAhead - 1) / kAhead;  // what is the program's own is there
  const bool backwards = in_cache(m->data_, m->bytes_);
  for (size_t i = first; i < end && !m->stop_.load(std::memory_order_relaxed); ++i)
    (void)*static_cast<const volatile unsigned char*>(
        m->data_ + (backwards ? end - 1 - (i - first) : i) * kAhead);
  return nullptr;
}

void Mapping::move_to_huge_pages() {
#if defined(MREMAP_DONTUNMAP) && defined(MADV_HUGEPAGE)
  if (bytes_ >= kLarge && worth_huge_pages(bytes_)) mover_.start(&move, this);
#endif
}

// A piece is put in its place while others may read there: the system holds back who touches an
// address between the old mapping and the new one. Where the piece was copied to stays taken,
// empty, so that nobody else gets that address before the block ends.
void* Mapping::move(void* self) {
#if defined(MREMAP_DONTUNMAP) && defined(MADV_HUGEPAGE)
  Mapping* m = static_cast<Mapping*>(self);
  const size_t pieces = m->bytes_ / kHugePage;  // the last bytes stay where they are
  Block block;
  if (!block.allocate(pieces * kHugePage)) return nullptr;
  unsigned char* copy = static_cast<unsigned char*>(block.data());
  size_t done = 0;
  for (; done < pieces && !m->stop_.load(); ++done, copy += kHugePage) {
    unsigned char* place = m->data_ + done * kHugePage;
    memcpy(copy, place, kHugePage);
    if (mprotect(copy, kHugePage, PROT_READ) != 0) break;
    // before Linux 5.7
    if (mremap(copy, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
               place) == MAP_FAILED)
      break;
  }
  m->moved_.store(done == pieces);
#else
  (void)self;
#endif
  return nullptr;
}

}  // namespace cli
