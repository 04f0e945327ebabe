// cli: threads behind the main one. Signals that end the program are the main thread's, so that
// what it has begun to do about a file is not cut in two by a handler on another thread (ending.h).
#pragma once
#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace cli {

// False when the system gives no more threads.
inline bool start_thread(pthread_t* thread, void* (*work)(void*), void* self) {
#if defined(__EMSCRIPTEN__)
  return pthread_create(thread, nullptr, work, self) == 0;
#else
  sigset_t held, before;
  sigfillset(&held);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS})
    sigdelset(&held, fault);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  const bool started = pthread_create(thread, nullptr, work, self) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
#endif
}

}  // namespace cli
