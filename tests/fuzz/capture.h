// What the program's own functions print on standard error while a target runs, and standard input
// made of its bytes: their calls of read and write come here.
#pragma once
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
};

class StandardInput {
 public:
  StandardInput(const uint8_t* data, size_t size);
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;
};

}  // namespace fuzz
