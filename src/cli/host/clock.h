// cli: the time, and how many processors there are to spend it on.
#pragma once
#include <stdint.h>
#include <time.h>
#include <unistd.h>

namespace cli {

// Seconds of a clock that only goes on.
inline double now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

inline uint32_t processors() {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? static_cast<uint32_t>(n) : 1;
}

}  // namespace cli
