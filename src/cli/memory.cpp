#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../include/phasor.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cli {
namespace {

// The line of a file that begins with `name`, without it; "" when there is none.
void find_line(const char* path, const char* name, char* line, size_t size) {
  line[0] = 0;
  FILE* f = fopen(path, "r");
  if (f == nullptr) return;
  const size_t n = strlen(name);
  while (fgets(line, static_cast<int>(size), f) != nullptr) {
    if (strncmp(line, name, n) != 0) continue;
    memmove(line, line + n, strlen(line + n) + 1);
    fclose(f);
    return;
  }
  line[0] = 0;
  fclose(f);
}

bool granted() {
  char line[128];
  find_line("/sys/kernel/mm/transparent_hugepage/enabled", "", line, sizeof line);
  return strstr(line, "[always]") != nullptr || strstr(line, "[madvise]") != nullptr;
}

}  // namespace

Block::~Block() {
#if defined(__SANITIZE_ADDRESS__)  // a session's red zones: the next mapping here may be another's
  if (mapping_ != nullptr) __asan_unpoison_memory_region(mapping_, mapped_);
#endif
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

// Between two pages that nobody may touch: a block is a mapping of its own, and running over its
// end is an error at once.
bool Block::allocate(size_t bytes) {
  const long told = sysconf(_SC_PAGESIZE);
  const size_t page = told > 4096 ? static_cast<size_t>(told) : 4096,
               align = bytes >= kLarge ? kHugePage : page;
  if (bytes > SIZE_MAX - align - 2 * page) return false;
  const size_t whole = (bytes + page - 1) / page * page, size = whole + align + page;
  void* p = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return false;
  mapping_ = p;
  mapped_ = size;
  void* data =
      reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(p) + page + align - 1) / align * align);
  if (mprotect(data, whole, PROT_READ | PROT_WRITE) != 0) return false;
  data_ = data;
  bytes_ = whole;
#if defined(MADV_HUGEPAGE)
  // a wish: refused, the pages are small
  if (bytes >= kLarge) (void)madvise(data_, bytes, MADV_HUGEPAGE);
#endif
  return true;
}

void Block::protect() { (void)mprotect(data_, bytes_, PROT_READ); }

bool worth_huge_pages(size_t bytes) {
  if (bytes < kLarge || !granted()) return false;
  char line[128];
  unsigned long long kilobytes = 0;
  find_line("/proc/meminfo", "MemAvailable:", line, sizeof line);
  return sscanf(line, "%llu", &kilobytes) == 1 && bytes / 1024 <= kilobytes / 2;
}

}  // namespace cli
