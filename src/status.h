// Errors as one line of text, without a C library: every room from format upwards reports through
// `fail`. Includes the public header for its status codes, and nothing else of the project.
#pragma once
#include "../include/phasor.h"
#include "build.h"

namespace phasor {

// Appends text and numbers to a phasor_error's line; what does not fit is cut, the terminator
// always fits.
class Line {
 public:
  Line(char* out, size_t capacity) : out_(out), capacity_(capacity) { out_[0] = 0; }
  void add(const char* text) {
    while (*text != 0) put(*text++);
  }
  void add(uint64_t value);
  void add(uint32_t value) { add(static_cast<uint64_t>(value)); }
  void add(float value);  // six significant digits, as %g prints them
  void add_hex(uint64_t value, unsigned digits);
  void put(char c) {
    if (used_ + 1 < capacity_) {
      out_[used_++] = c;
      out_[used_] = 0;
    }
  }

 private:
  char* out_;
  size_t capacity_;
  size_t used_ = 0;
};

// Where a failure is: parts of phasor_error that are numbers.
struct At {
  uint32_t section = PHASOR_NONE;
  uint32_t layer = PHASOR_NONE;
  uint64_t expected = 0;
  uint64_t found = 0;
};

// Writes the numbers into *error and returns the room that its text has: 0 without a struct of a
// known size (rule 3.9).
size_t open_error(phasor_error* error, phasor_status status, const At& at) noexcept;

// Fills *error (when there is one) with a line made of `parts`, and returns `status`.
template <class... Parts>
[[nodiscard]] phasor_status fail(phasor_error* error, phasor_status status, const At& at,
                                 [[maybe_unused]] Parts... parts) noexcept {
  const size_t room = open_error(error, status, at);
  if constexpr (kHasMessages) {
    if (room != 0) {
      Line line(error->text, room);
      (line.add(parts), ...);
    }
  }
  return status;
}

// The same for what a caller gave, PHASOR_BAD_INPUT, with the numbers that say it or with none.
struct Numbers {
  uint64_t expected, found;
};
template <class... Parts>
[[nodiscard]] phasor_status bad_input(phasor_error* error, const Numbers& numbers,
                                      Parts... parts) noexcept {
  return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, numbers.expected, numbers.found},
              parts...);
}

template <class... Parts>
[[nodiscard]] phasor_status bad_input(phasor_error* error, const char* text,
                                      Parts... parts) noexcept {
  return fail(error, PHASOR_BAD_INPUT, {}, text, parts...);
}

}  // namespace phasor
