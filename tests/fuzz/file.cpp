// Files of any bytes, mapped and copied: the bytes are the file's in every way of reading, or one
// line says what is wrong. Their weight files' tables say what becomes the program's own.
#include "cli/io/file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "capture.h"
#include "cli/io/foreign.h"

namespace fuzz {
namespace {

int memory_file() {
  static const int fd = memfd_create("phasor-fuzz", MFD_CLOEXEC);
  return fd;
}

}  // namespace

void run_file(const uint8_t* data, size_t size) {
  const int fd = memory_file();
  demand(
      fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size),
      "no memory for a file");
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  for (const cli::Load how : {cli::Load::map, cli::Load::copy}) {
    const Printed printed;
    cli::ReadFile file;
    if (!file.open(path.c_str(), how, "a .phasor file")) {
      printed.demand_one_line();
      continue;
    }
    demand(file.bytes() == size && std::memcmp(file.data(), data, size) == 0,
           "other bytes than the file's");
    demand(file.unchanged(), "a file that has changed");
    const std::string is = cli::foreign_bytes(file.data(), file.bytes());
    if (!is.empty()) demand_line(is.c_str(), 160);
    printed.demand_nothing();
  }
}

}  // namespace fuzz
