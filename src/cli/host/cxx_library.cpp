// cli: the little that the program needs of the C++ run-time library, so that it is linked with the
// C library alone (no-cxx-library.md): strings, `new` and `delete` over malloc, and
// the functions by which libstdc++'s headers say what cannot be done: here that ends the program
// with a line. With another C++ library, and under sanitizers, that library has all this.
//
// A type with an alignment beyond malloc's may not be made with `new`: there is none for it here.
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
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <initializer_list>

#include "ending.h"
#include "mapping.h"

template class std::basic_string<char>;

namespace {

[[noreturn]] void give_up(const char* why) {
  cli::remove_parts();
  for (const char* part : {"phasor: ", why, "\n"})
    cli::write_all(STDERR_FILENO, part, strlen(part));
  _Exit(1);
}

[[noreturn]] void no_memory() { give_up("the system gives no more memory"); }

}  // namespace

void* operator new(size_t bytes) {
  void* memory = malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) no_memory();
  return memory;
}
void* operator new[](size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { free(p); }
void operator delete[](void* p) noexcept { free(p); }
void operator delete(void* p, size_t) noexcept { free(p); }
void operator delete[](void* p, size_t) noexcept { free(p); }

namespace std {

void __throw_bad_alloc() { no_memory(); }
void __throw_bad_array_new_length() { no_memory(); }
void __throw_length_error(const char*) { no_memory(); }
void __throw_logic_error(const char* where) { give_up(where); }
void __throw_out_of_range_fmt(const char* where, ...) { give_up(where); }

}  // namespace std
#endif
