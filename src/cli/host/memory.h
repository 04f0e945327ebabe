// cli: blocks of memory, in huge pages where they are large and the system grants them: a
// translation of an address then serves 2 MiB in place of 4 KiB, and reading weights from memory is
// about a third faster.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "system.h"

namespace cli {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kLarge = 2 * kHugePage;  // below it the rest of a last page would weigh

size_t page_size();

// The line of a file that begins with `name`, without it; "" when there is none.
string line_of(const char* path, const char* name);

// Bytes that the system would give without swapping; 0 where it does not say.
uint64_t free_memory();

// Zeroed, aligned to PHASOR_ALIGN at least; NULL data when there is no memory.
class Block {
 public:
  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();
  bool allocate(size_t bytes);
  void* data() const { return data_; }
  void swap(Block* other);
  void protect();  // from now on the bytes are only read

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;  // whole pages
  void* mapping_ = nullptr;
  size_t mapped_ = 0;
};

// Whether a file of that size is better read into such a block than mapped: huge pages are to be
// had for the asking, and half of the memory that is free holds it.
bool worth_huge_pages(size_t bytes);

}  // namespace cli
