#include "capture.h"

#include <algorithm>

namespace fuzz {
namespace {

std::string printed;

// One stream for all, since making one takes longer than most of what is tried.
std::FILE* memory_stream() {
  static std::FILE* const stream = [] {
    cookie_io_functions_t functions{};
    functions.write = [](void*, const char* text, size_t bytes) -> ssize_t {
      printed.append(text, bytes);
      return static_cast<ssize_t>(bytes);
    };
    return fopencookie(nullptr, "w", functions);
  }();
  return stream;
}

struct Bytes {
  const uint8_t* data;
  size_t left;
} input;

std::FILE* input_stream() {
  static std::FILE* const stream = [] {
    cookie_io_functions_t functions{};
    functions.read = [](void*, char* to, size_t bytes) -> ssize_t {
      const size_t n = std::min(bytes, input.left);
      if (n != 0) std::memcpy(to, input.data, n);
      input.data += n;
      input.left -= n;
      return static_cast<ssize_t>(n);
    };
    return fopencookie(nullptr, "r", functions);
  }();
  return stream;
}

}  // namespace

Printed::Printed() : before_(stderr) {
  printed.clear();
  stderr = memory_stream();
}

Printed::~Printed() {
  std::fflush(stderr);
  stderr = before_;
}

const std::string& Printed::text() const {
  std::fflush(stderr);
  return printed;
}

void Printed::demand_nothing() const { demand(text().empty(), "a line without an error"); }

void Printed::demand_one_line() const {
  const std::string& line = text();
  demand(line.size() > 9 && line.compare(0, 8, "phasor: ") == 0, "an error without a line");
  demand(line.back() == '\n', "a line without an end");
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(line[i]);
    demand(c >= 0x20 && c != 0x7F, "a line with a control character");
  }
}

StandardInput::StandardInput(const uint8_t* data, size_t size) : before_(stdin) {
  input = {data, size};
  stdin = input_stream();
  std::clearerr(stdin);
}

StandardInput::~StandardInput() {
  while (std::getc(stdin) != EOF) {
  }
  stdin = before_;
}

}  // namespace fuzz
