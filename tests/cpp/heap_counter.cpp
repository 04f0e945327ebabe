// The test program's own malloc and friends: they count and pass on to the C library's. A dynamic
// link replaces the library's symbols; a static one (PHASOR_HEAP_WRAP, with the linker's --wrap)
// renames the references to them.
#include "heap_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer) || \
    __has_feature(thread_sanitizer)
#define HEAP_IS_THE_SANITIZERS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HEAP_IS_THE_SANITIZERS 1
#endif

namespace {
std::atomic<uint64_t> counted{0};
}

uint64_t HeapCounter::total() { return counted.load(std::memory_order_relaxed); }

#if defined(HEAP_IS_THE_SANITIZERS) || !defined(__GLIBC__)

bool HeapCounter::active() { return false; }

#else

bool HeapCounter::active() { return true; }

namespace {
void count() { counted.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

#if defined(PHASOR_HEAP_WRAP)
#define OURS(name) __wrap_##name
#define THEIRS(name) __real_##name
extern "C" {
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_realloc(void*, size_t);
void* __real_memalign(size_t, size_t);
void* __wrap_malloc(size_t);
void* __wrap_calloc(size_t, size_t);
void* __wrap_realloc(void*, size_t);
void* __wrap_memalign(size_t, size_t);
void* __wrap_aligned_alloc(size_t, size_t);
int __wrap_posix_memalign(void**, size_t, size_t);
}
#else
#define OURS(name) name
#define THEIRS(name) __libc_##name
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* memalign(size_t, size_t);
}
#endif

extern "C" {
void* OURS(malloc)(size_t bytes) {
  count();
  return THEIRS(malloc)(bytes);
}
void* OURS(calloc)(size_t n, size_t bytes) {
  count();
  return THEIRS(calloc)(n, bytes);
}
void* OURS(realloc)(void* old, size_t bytes) {
  count();
  return THEIRS(realloc)(old, bytes);
}
void* OURS(memalign)(size_t alignment, size_t bytes) {
  count();
  return THEIRS(memalign)(alignment, bytes);
}
void* OURS(aligned_alloc)(size_t alignment, size_t bytes) {
  count();
  return THEIRS(memalign)(alignment, bytes);
}
int OURS(posix_memalign)(void** out, size_t alignment, size_t bytes) {
  count();
  void* p = THEIRS(memalign)(alignment, bytes);
  if (p == nullptr) return 12;  // ENOMEM
  *out = p;
  return 0;
}
}

#endif
