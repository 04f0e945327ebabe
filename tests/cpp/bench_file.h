// What the benchmarks' drivers share: a weight file and blocks of memory as the program has them (src/cli/memory.h). Kept until the process ends.
#pragma once
#include <sys/stat.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>

#include "cli/memory.h"

namespace bench {

// NULL when there is no memory.
inline void* block(size_t bytes) {
  cli::Block* b = new cli::Block;
  return b->allocate(bytes) ? b->data() : nullptr;
}

// NULL when the file cannot be read.
inline const void* load(const char* path, size_t* bytes) {
  const int fd = open(path, O_RDONLY);
  struct stat s {};
  if (fd < 0 || fstat(fd, &s) != 0) return nullptr;
  *bytes = static_cast<size_t>(s.st_size);
  if (!cli::worth_huge_pages(*bytes)) {
    void* p = mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED ? nullptr : p;
  }
  unsigned char* to = static_cast<unsigned char*>(block(*bytes));
  if (to == nullptr) return nullptr;
  for (size_t done = 0; done < *bytes;) {
    const ssize_t n = read(fd, to + done, *bytes - done);
    if (n <= 0) return nullptr;
    done += static_cast<size_t>(n);
  }
  close(fd);
  return to;
}

}  // namespace bench
