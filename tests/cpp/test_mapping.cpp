// The program's mapping of a file: its bytes, and those of them that are the program's own.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../src/cli/host/mapping.h"
#include "../../src/cli/host/memory.h"
#include "cases.h"

namespace {

// A file of its own, gone when it is closed.
struct Temporary {
  int fd;
  std::vector<unsigned char> bytes;
  explicit Temporary(size_t size) : bytes(size) {
    char name[] = "/tmp/phasor-mapping-XXXXXX";
    fd = mkstemp(name);
    unlink(name);
    uint32_t state = 1;
    for (unsigned char& b : bytes)
      b = static_cast<unsigned char>((state = state * 1664525 + 1013904223) >> 24);
    for (size_t at = 0; at < size;)
      at += static_cast<size_t>(write(fd, bytes.data() + at, size - at));
  }
  ~Temporary() { close(fd); }
};

}  // namespace

TEST_CASE("mapping: files of any size, read ahead or not") {
  for (const size_t size : {size_t{1}, size_t{4096}, size_t{70000}, cli::kLarge - 1, cli::kLarge,
                            2 * cli::kLarge + 12345}) {
    const Temporary file(size);
    for (const bool ahead : {false, true}) {
      cli::Mapping mapping;
      CHECK(mapping.data() == nullptr);
      REQUIRE(mapping.map(file.fd, size));
      if (ahead) mapping.read_ahead();
      CHECK(memcmp(mapping.data(), file.bytes.data(), size) == 0);
    }
  }
  cli::Mapping none;
  CHECK(!none.map(-1, 4096));
  CHECK(none.data() == nullptr);
  none.read_ahead();
}

TEST_CASE("mapping: what is the program's own stays, whatever becomes of the file") {
  const size_t size = 3 * cli::kLarge + 777, own = 70000,
               page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const bool ahead : {false, true}) {
    const Temporary file(size);
    cli::Mapping mapping;
    REQUIRE(mapping.map(file.fd, size));
    REQUIRE(mapping.own(file.fd, 1));
    REQUIRE(mapping.own(file.fd, own));
    REQUIRE(mapping.own(file.fd, 5));  // no less than before
    CHECK(memcmp(mapping.data(), file.bytes.data(), size) == 0);
    const std::vector<unsigned char> noise(size, 0x5A);
    REQUIRE(pwrite(file.fd, noise.data(), size, 0) == static_cast<ssize_t>(size));
    const unsigned char* const data = static_cast<const unsigned char*>(mapping.data());
    const size_t whole = (own + page - 1) / page * page;
    CHECK(memcmp(data, file.bytes.data(), whole) == 0);
    CHECK(memcmp(data + whole, noise.data(), size - whole) == 0);  // the file's
    if (ahead) mapping.read_ahead();
    CHECK(memcmp(data, file.bytes.data(), whole) == 0);
    CHECK(memcmp(data + whole, noise.data(), size - whole) == 0);
  }
  for (const size_t small : {size_t{1}, page - 1, page, page + 1}) {
    const Temporary file(small);
    cli::Mapping mapping;
    REQUIRE(mapping.map(file.fd, small));
    REQUIRE(mapping.own(file.fd, 100 * page));  // all of it
    REQUIRE(ftruncate(file.fd, 0) == 0);
    CHECK(memcmp(mapping.data(), file.bytes.data(), small) == 0);
  }
  const Temporary file(4 * page);
  cli::Mapping mapping;
  REQUIRE(mapping.map(file.fd, 4 * page));
  REQUIRE(ftruncate(file.fd, static_cast<off_t>(page)) == 0);
  CHECK(!mapping.own(file.fd, 4 * page));
  CHECK(errno == 0);
}

TEST_CASE("mapping: readers see the same bytes while it is read ahead") {
  const size_t size = 6 * cli::kLarge + 4321;
  const Temporary file(size);
  for (int round = 0; round < 4; ++round) {
    cli::Mapping mapping;
    REQUIRE(mapping.map(file.fd, size));
    const void* const at = mapping.data();
    std::atomic<uint32_t> wrong{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i)
      readers.emplace_back([&] { wrong += memcmp(at, file.bytes.data(), size) != 0; });
    mapping.read_ahead();
    mapping.read_ahead();  // once is enough
    for (std::thread& t : readers) t.join();
    CHECK(wrong == 0);
    CHECK(mapping.data() == at);
  }
}

TEST_CASE("mapping: ends while it is read ahead") {
  const size_t size = 8 * cli::kLarge;
  const Temporary file(size);
  for (int i = 0; i < 20; ++i) {
    cli::Mapping mapping;
    REQUIRE(mapping.map(file.fd, size));
    mapping.read_ahead();
    std::this_thread::sleep_for(std::chrono::microseconds(i * 100));
    CHECK(static_cast<const unsigned char*>(mapping.data())[size - 1] == file.bytes[size - 1]);
  }
}
