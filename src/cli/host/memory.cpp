#include "memory.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "../../../include/phasor.h"
#include "system.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace cli {
namespace {

bool granted() {
  const string choice = line_of("/sys/kernel/mm/transparent_hugepage/enabled", "");
  return choice.find("[always]") != string::npos || choice.find("[madvise]") != string::npos;
}

}  // namespace

size_t page_size() {
  const long told = sysconf(_SC_PAGESIZE);
  return told > 0 ? size_t(told) : 4096;
}

string line_of(const char* path, const char* name) {
  char line[512] = "";
  const size_t length = strlen(name);
  FILE* file = fopen(path, "r");
  if (file == nullptr) return "";
  bool found = false;
  while (!found && fgets(line, sizeof line, file) != nullptr)
    found = strncmp(line, name, length) == 0;
  fclose(file);
  return found ? line + length : "";
}

uint64_t free_memory() {
  return strtoull(line_of("/proc/meminfo", "MemAvailable:").c_str(), nullptr, 10) * 1024;
}

Block::~Block() {
#if defined(__SANITIZE_ADDRESS__)  // a session's red zones: the next mapping here may be another's
  if (mapping_ != nullptr) __asan_unpoison_memory_region(mapping_, mapped_);
#endif
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

// Between two pages that nobody may touch: a block is a mapping of its own, and running over its
// end is an error at once.
bool Block::allocate(size_t bytes) {
  const size_t page = page_size(), align = bytes >= kLarge ? kHugePage : page;
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

void Block::swap(Block* other) {
  std::swap(data_, other->data_);
  std::swap(bytes_, other->bytes_);
  std::swap(mapping_, other->mapping_);
  std::swap(mapped_, other->mapped_);
}

void Block::protect() { (void)mprotect(data_, bytes_, PROT_READ); }

bool worth_huge_pages(size_t bytes) {
  return bytes >= kLarge && granted() && bytes <= free_memory() / 2;
}

}  // namespace cli
