// cli: a file's bytes at an address that stays. They are the system's cache of the file, mapped, so
// that they are there at once; behind the back of who reads them a thread brings their pages in,
// and another moves them into huge pages (memory.h).
#pragma once
#include <pthread.h>
#include <stddef.h>

#include <atomic>

#include "thread.h"

namespace cli {

class Mapping {
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();  // ends what goes on behind

  bool map(int fd, size_t bytes);  // false: the reason is in errno
  // The first `end` bytes, as far as whole pages go, become the program's own: read from the file
  // now and never again, at the same address.
  bool own(int fd,
           size_t end);  // false: the reason is in errno, 0 when the file has become shorter
  const void* data() const { return data_; }
  bool is_mapped() const { return data_ != nullptr; }

  // A thread touches page after page, so that who follows it waits for fewer page faults.
  void read_ahead();
  // A thread copies piece after piece to huge pages and puts each in the place of the file's pages:
  // the address stays and so do the bytes, only reading them becomes faster. Nothing happens where
  // the system has no huge pages to give, or no such way to put them there.
  void move_to_huge_pages();
  bool moved() const { return moved_.load(); }

 private:
  class Helper {
   public:
    void start(void* (*work)(void*), void* self) {
      started_ = started_ || start_thread(&thread_, work, self);
    }
    void join() {
      if (started_) pthread_join(thread_, nullptr);
    }

   private:
    pthread_t thread_{};
    bool started_ = false;
  };
  static void* ahead(void* self);
  static void* move(void* self);

  unsigned char* data_ = nullptr;
  size_t bytes_ = 0, own_ = 0;
  void* reserved_ = nullptr;  // what data_ lies in, begun at a multiple of a huge page
  size_t reserved_bytes_ = 0;
  Helper ahead_, mover_;
  std::atomic<bool> stop_{false}, moved_{false};
};

}  // namespace cli
