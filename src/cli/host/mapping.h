// cli: a file's bytes where the system has them: its cache of the file, mapped, so that they are
// there at once. A thread brings their pages in, ahead of who reads them.
#pragma once
#include <pthread.h>
#include <stddef.h>

#include <atomic>

namespace cli {

// The share of a mapping of a file that the system has in memory; 1 where it does not say.
double share_in_memory(void* data, size_t bytes);

// The bytes of a file from `from` to `end`, to their places in `to`. False: the reason is in errno,
// 0 when the file has become shorter.
bool read_bytes(int fd, unsigned char* to, size_t from, size_t end);

// All of it, however often the system takes a part or is interrupted; false: the reason is in
// errno.
bool write_all(int fd, const void* data, size_t bytes);

class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();  // ends the thread

  bool map(int fd, size_t bytes);  // false: the reason is in errno
  // The first `end` bytes, as far as whole pages go, become the program's own: read from the file
  // now and never again, at the same address. False: as read_bytes.
  bool own(int fd, size_t end);
  void* data() const { return data_; }

  // A thread touches page after page, so that who follows it waits for fewer page faults.
  void read_ahead();

 private:
  static void* ahead(void* self);

  unsigned char* data_ = nullptr;
  size_t bytes_ = 0, own_ = 0;
  pthread_t thread_{};
  bool reading_ = false;
  std::atomic<bool> stop_{false};
};

}  // namespace cli
