#include "ending.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <atomic>

namespace cli {
namespace {

constexpr int kMostParts = 16, kMostWatched = 8;

struct Watched {
  std::atomic<const char*> data{nullptr};
  size_t bytes = 0;
  const char* line = nullptr;
};

std::atomic<const char*> parts[kMostParts];
Watched watched[kMostWatched];

#if !defined(__EMSCRIPTEN__)  // no signals, and no descriptor of the system's own

std::atomic<bool> ending{false}, making{false};  // making: a file that is not added yet

constexpr int kEnding[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGABRT, SIGALRM, SIGXCPU};

// The signal's own way to end a program, once this handler returns.
void end_by(int signal_number) {
  remove_parts();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void on_bus(int signal_number, siginfo_t* info, void*) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Watched& w : watched) {
    const uintptr_t data = reinterpret_cast<uintptr_t>(w.data.load());
    if (info->si_code <= 0 || data == 0 || at < data || at - data >= w.bytes) continue;
    while (ending.exchange(true)) pause();  // another thread says so
    while (making.load()) (void)sched_yield();
    remove_parts();
    const ssize_t written = write(STDERR_FILENO, w.line, strlen(w.line));
    (void)written;
    _exit(1);
  }
  end_by(signal_number);
}

void take(int signal_number) {
  struct sigaction before;
  if (sigaction(signal_number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    (void)signal(signal_number, end_by);
}

// Of the wrong direction: writing to what was closed fails, as before.
void fill_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd &&
        open("/", O_RDONLY) != fd)
      _exit(1);
  }
}

#endif

}  // namespace

#if defined(__EMSCRIPTEN__)
void prepare_process() {}
HoldSignals::HoldSignals() : before_() {}
HoldSignals::~HoldSignals() {}
#else
void prepare_process() {
  fill_standard_descriptors();
  for (const int signal_number : kEnding) take(signal_number);
  signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error of write, as a full disk is
  struct sigaction bus = {};
  bus.sa_flags = SA_SIGINFO;
  bus.sa_sigaction = on_bus;
  (void)sigaction(SIGBUS, &bus, nullptr);
}

HoldSignals::HoldSignals() {
  sigset_t held;
  sigemptyset(&held);
  for (const int signal_number : kEnding) sigaddset(&held, signal_number);
  pthread_sigmask(SIG_BLOCK, &held, &before_);
  making.store(true);
}

HoldSignals::~HoldSignals() {
  making.store(false);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}
#endif

bool add_part(const char* name) {
  for (auto& part : parts)
    if (part.load() == nullptr) return part.store(name), true;
  return false;
}

void drop_part(const char* name) {
  for (auto& part : parts)
    if (part.load() == name) part.store(nullptr);
}

void remove_parts() {
  for (const auto& part : parts)
    if (const char* name = part.load()) (void)unlink(name);
}

bool Watch::begin(const void* data, size_t bytes, const string& line) {
  line_ = line;
  for (place_ = 0; place_ < kMostWatched && watched[place_].data.load() != nullptr;) ++place_;
  if (place_ == kMostWatched) return place_ = -1, false;
  watched[place_].bytes = bytes;
  watched[place_].line = line_.c_str();
  watched[place_].data.store(static_cast<const char*>(data));
  return true;
}

Watch::~Watch() {
  if (place_ >= 0) watched[place_].data.store(nullptr);
}

}  // namespace cli
