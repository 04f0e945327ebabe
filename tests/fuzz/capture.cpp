#include "capture.h"

#include <unistd.h>

#include <algorithm>

// The program's calls of the system, by the linker's --wrap (tools/make/fuzz.mk).
extern "C" {
ssize_t __real_read(int fd, void* to, size_t bytes);
ssize_t __real_write(int fd, const void* from, size_t bytes);
ssize_t __wrap_read(int fd, void* to, size_t bytes);
ssize_t __wrap_write(int fd, const void* from, size_t bytes);
}

namespace fuzz {
namespace {

std::string printed;
bool captures = false;

struct Bytes {
  const uint8_t* data;
  size_t left;
} input;
bool feeds = false;

}  // namespace

Printed::Printed() {
  printed.clear();
  captures = true;
}

Printed::~Printed() { captures = false; }

const std::string& Printed::text() const { return printed; }

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

StandardInput::StandardInput(const uint8_t* data, size_t size) {
  input = {data, size};
  feeds = true;
}

StandardInput::~StandardInput() { feeds = false; }

}  // namespace fuzz

ssize_t __wrap_read(int fd, void* to, size_t bytes) {
  if (!fuzz::feeds || fd != STDIN_FILENO) return __real_read(fd, to, bytes);
  const size_t n = std::min(bytes, fuzz::input.left);
  if (n != 0) std::memcpy(to, fuzz::input.data, n);
  fuzz::input.data += n;
  fuzz::input.left -= n;
  return static_cast<ssize_t>(n);
}

ssize_t __wrap_write(int fd, const void* from, size_t bytes) {
  if (!fuzz::captures || fd != STDERR_FILENO) return __real_write(fd, from, bytes);
  fuzz::printed.append(static_cast<const char*>(from), bytes);
  return static_cast<ssize_t>(bytes);
}
