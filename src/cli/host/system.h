// cli: what everything else stands on: names of the C++ library, the time, processors, threads.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace cli {

using std::max;
using std::min;
using std::pair;
using std::string;
using std::to_string;
using std::vector;

// Seconds of a clock that only goes on.
inline double now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

inline uint32_t processors() {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n > 0 ? uint32_t(n) : 1;
}

// A thread behind the main one. Only the main thread takes signals that end the program, SIGABRT
// too: otherwise a handler on another thread could run while the main thread creates a file, or
// while it goes on and prints (ending.h). abort() unblocks SIGABRT itself.
// False when the system gives no more threads.
inline bool start_thread(pthread_t* thread, void* (*work)(void*), void* self) {
#if defined(__EMSCRIPTEN__)
  return pthread_create(thread, nullptr, work, self) == 0;
#else
  sigset_t held, before;
  sigfillset(&held);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    sigdelset(&held, fault);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  const bool started = pthread_create(thread, nullptr, work, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
#endif
}

}  // namespace cli
