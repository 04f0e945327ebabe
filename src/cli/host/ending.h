// cli: how the program ends when something outside ends it. Files that are half written are removed
// whatever the signal; a mapped file that is cut short is one line and exit status 1. What runs in
// a handler calls nothing but system calls.
#pragma once
#include <signal.h>
#include <stddef.h>

#include "system.h"

namespace cli {

// First in main: a closed descriptor of the three standard ones is opened, so that no file of ours
// gets its number (writing to it stays an error, and so does reading), and the signals are taken.
// One that the caller ignores stays ignored.
void prepare_process();

// A file that goes when the program is ended, until it is dropped. `name` stays where it is. False:
// there are too many.
bool add_part(const char* name);
void drop_part(const char* name);
void remove_parts();

// A file's pages as memory, which may be gone when they are read or written (SIGBUS): then a line
// is printed and the program ends.
class Watch {
 public:
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  bool begin(const void* data, size_t bytes, const string& line);  // false: there are too many

 private:
  string line_;
  int place_ = -1;
};

// No signal ends the program while this lives: a file is made and added in one.
class HoldSignals {
 public:
  HoldSignals();
  ~HoldSignals();
  HoldSignals(const HoldSignals&) = delete;
  HoldSignals& operator=(const HoldSignals&) = delete;

 private:
  [[maybe_unused]] sigset_t before_;  // WebAssembly has no signals
};

}  // namespace cli
