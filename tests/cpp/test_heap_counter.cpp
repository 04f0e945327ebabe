// The heap counter itself: a count of zero means something only if other counts are right.
#include <cstdlib>
#include <new>

#include "cases.h"
#include "heap_counter.h"

namespace {
// The compiler may not drop an allocation whose address leaves the function.
void* volatile escape;
}  // namespace

TEST_CASE(
    "heap counter: counts malloc, calloc, realloc, aligned and operator new, and nothing else") {
  if (!HeapCounter::active()) return;
  HeapCounter heap;
  const uint64_t none = heap.allocations();
  void* p = std::malloc(10);
  escape = p;
  const uint64_t one = heap.allocations();
  p = std::realloc(p, 1000);
  escape = p;
  const uint64_t two = heap.allocations();
  std::free(p);
  escape = p = std::calloc(3, 5);
  std::free(p);
  const uint64_t three = heap.allocations();
  int* q = new int[7];
  escape = q;
  delete[] q;
  const uint64_t four = heap.allocations();
  escape = p = ::operator new(100, std::align_val_t(64));
  ::operator delete(p, std::align_val_t(64));
  const uint64_t five = heap.allocations();
  escape = p = std::aligned_alloc(64, 128);
  std::free(p);
  const uint64_t six = heap.allocations();
  CHECK(none == 0);
  CHECK(one == 1);
  CHECK(two == 2);
  CHECK(three == 3);
  CHECK(four == 4);
  CHECK(five >= 5);
  CHECK(six > five);
}

TEST_CASE("cases: a text is said, and not where it is") {
  const char* const text = "avx2";
  CHECK(doctest::toString(text) == "avx2");
}
