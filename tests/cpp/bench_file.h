// What the benchmarks' drivers share: the clock, errors, and a weight file and blocks of memory as
// the program has them (src/cli/host/memory.h), kept until the process ends.
#pragma once
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "cli/host/memory.h"

namespace bench {

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] inline void die(const char* what, const char* why) {
  std::fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
  std::exit(1);
}

// A line of /proc/self/status, in bytes.
inline unsigned long long memory(const char* field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(field, 0) == 0)
      return std::strtoull(line.c_str() + std::strlen(field), nullptr, 10) * 1024;
  return 0;
}

inline void* block(size_t bytes) {
  cli::Block* b = new cli::Block;
  if (!b->allocate(bytes)) die("memory", "none left");
  return b->data();
}

// NULL when the file cannot be read.
inline const void* load(const char* path, size_t* bytes) {
  const int fd = open(path, O_RDONLY);
  struct stat s{};
  if (fd < 0 || fstat(fd, &s) != 0) return nullptr;
  *bytes = static_cast<size_t>(s.st_size);
  if (!cli::worth_huge_pages(*bytes)) {
    void* p = mmap(nullptr, *bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    return p == MAP_FAILED ? nullptr : p;
  }
  unsigned char* to = static_cast<unsigned char*>(block(*bytes));
  for (size_t done = 0; done < *bytes;) {
    const ssize_t n = read(fd, to + done, *bytes - done);
    if (n <= 0) return nullptr;
    done += static_cast<size_t>(n);
  }
  close(fd);
  return to;
}

}  // namespace bench
