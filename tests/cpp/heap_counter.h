// Counts the process's heap allocations, on all threads: proof that between open and close there
// are none.
//
//   HeapCounter heap;              // from here
//   phasor_step(…);
//   uint64_t n = heap.allocations();  // read before the next CHECK: doctest allocates
//   CHECK(n == 0);
//
// Counted are malloc, calloc, realloc, aligned_alloc, posix_memalign and memalign, hence operator
// new. Under a sanitizer, and with a C library whose allocator cannot be replaced, nothing is
// counted and `active` is false.
#pragma once
#include <cstdint>

struct HeapCounter {
  HeapCounter() : start_(total()) {}
  uint64_t allocations() const { return total() - start_; }  // since construction
  static bool active();

 private:
  static uint64_t total();
  uint64_t start_;
};
