// What the program's own functions print on standard error while a target runs, and standard input
// made of its bytes: both streams are exchanged for ones in memory (the GNU C library lets one).
#pragma once
#include <cstdio>
#include <string>

#include "support.h"

namespace fuzz {

class Printed {
 public:
  Printed();
  ~Printed();
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  const std::string& text() const;
  // Nothing; or one line that begins with "phasor: ".
  void demand_nothing() const;
  void demand_one_line() const;

 private:
  std::FILE* before_;
};

class StandardInput {
 public:
  StandardInput(const uint8_t* data, size_t size);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  std::FILE* before_;
};

}  // namespace fuzz
