// What the benchmarks' drivers share: the clock, errors, flags, and a weight file and blocks of
// memory as the program has them (src/cli/host/memory.h), kept until the process ends.
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
#include <functional>
#include <initializer_list>
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

// A flag, and what is done with its value.
struct Flag {
  const char* name;
  std::function<void(const char*)> take;
};
inline uint32_t number(const char* text) {
  return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
}
// Puts a flag's number at a place.
inline auto into(uint32_t* place) {
  return [place](const char* text) { *place = number(text); };
}

// Takes flags and their values in turns, from argument `first` on.
inline void read_flags(int argc, char** argv, int first, std::initializer_list<Flag> flags) {
  for (int i = first; i + 1 < argc; i += 2) {
    const Flag* flag = flags.begin();
    while (flag != flags.end() && std::strcmp(flag->name, argv[i]) != 0) ++flag;
    if (flag == flags.end()) die(argv[i], "unknown flag");
    flag->take(argv[i + 1]);
  }
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
