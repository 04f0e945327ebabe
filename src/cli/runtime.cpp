// cli: what the program needs of the C++ run-time library, in a page: strings, the functions behind
// `new` and `delete`, and those by which the headers of libstdc++ report what cannot be done. The
// linker then leaves the library out: the program needs the C library alone, starts sooner and
// holds a megabyte less. With another C++ library, and under sanitizers, all this is that
// library's.
#include <stddef.h>

#include <new>
#include <string>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PHASOR_SANITIZED 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define PHASOR_SANITIZED 1
#endif

#if defined(__GLIBCXX__) && !defined(PHASOR_SANITIZED)
#include <bits/functexcept.h>
#include <stdio.h>
#include <stdlib.h>

#include "ending.h"

template class std::basic_string<char>;

namespace {

[[noreturn]] void give_up(const char* why) {
  cli::remove_parts();
  fprintf(stderr, "phasor: %s\n", why);
  _Exit(1);
}

void* some(void* p) {
  return p != nullptr ? p : (give_up("the system gives no more memory"), nullptr);
}

void* aligned(size_t bytes, std::align_val_t align) {
  const size_t a = static_cast<size_t>(align);
  return some(aligned_alloc(a, (bytes + a - 1) / a * a));
}

}  // namespace

void* operator new(size_t bytes) { return some(malloc(bytes != 0 ? bytes : 1)); }
void* operator new[](size_t bytes) { return operator new(bytes); }
void* operator new(size_t bytes, std::align_val_t align) { return aligned(bytes, align); }
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }
void operator delete(void* p, std::align_val_t) noexcept { free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { free(p); }

namespace std {

void __throw_bad_alloc() { give_up("the system gives no more memory"); }
void __throw_bad_array_new_length() { give_up("the system gives no more memory"); }
void __throw_length_error(const char*) { give_up("the system gives no more memory"); }
void __throw_logic_error(const char* where) { give_up(where); }
void __throw_out_of_range_fmt(const char* where, ...) { give_up(where); }

}  // namespace std
#endif
