// What the targets share: blocks that a sanitizer sees the end of, properties that must hold, what
// an answer with an error must look like.
#pragma once
#include <phasor.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "../../src/structs.h"
#include "generator/bytes.h"
#include "generator/choices.h"

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#define PHASOR_FUZZ_UNWRITTEN(p, n) __msan_poison(p, n)
#define PHASOR_FUZZ_PLAIN(p, n) __msan_unpoison(p, n)
#define PHASOR_FUZZ_WRITTEN(p, n) __msan_check_mem_is_initialized(p, n)
#endif
#endif
#if !defined(PHASOR_FUZZ_UNWRITTEN)
#define PHASOR_FUZZ_UNWRITTEN(p, n) (void)(p)
#define PHASOR_FUZZ_PLAIN(p, n) (void)(p)
#define PHASOR_FUZZ_WRITTEN(p, n) (void)(p)
#endif

namespace fuzz {

using generator::Bytes;
using generator::Choices;

// Ends the program, with a line that says which property does not hold.
[[noreturn]] void broken(const char* what);
inline void demand(bool holds, const char* what) {
  if (!holds) broken(what);
}

// Bytes at a multiple of 64, exactly as many as asked for, whose values nobody has written.
class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes) {
    if (posix_memalign(&data_, PHASOR_ALIGN, bytes == 0 ? 1 : bytes) != 0) std::abort();
    PHASOR_FUZZ_UNWRITTEN(data_, bytes);
  }
  Block(const void* from, size_t bytes) : Block(bytes) {
    if (bytes != 0) std::memcpy(data_, from, bytes);
  }
  ~Block() {
    PHASOR_FUZZ_PLAIN(data_, bytes_);
    std::free(data_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  template <class T = uint8_t>
  T* as() const {
    return static_cast<T*>(data_);
  }
  size_t size() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

template <class T>
T sized() {
  T t{};
  t.struct_size = sizeof(T);
  return t;
}

// All values of an array, so that a sanitizer sees one that is not there, or was never written.
template <class T>
void look_at(const T* values, size_t count) {
  PHASOR_FUZZ_WRITTEN(values, count * sizeof(T));
  uint32_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i] == T{} ? 1u : 0u;
  __asm__ volatile("" : : "r"(sum));
}

// One line for people: not empty, terminated, no control character.
void demand_line(const char* text, size_t room);

// The answer of a function that takes a phasor_error:
//   Answer a; if (!a(phasor_step(…, &a.error))) return;
struct Answer {
  phasor_error error = PHASOR_ERROR_INIT;
  // Whether it is PHASOR_OK; else it is a status, and `error` has it and its line.
  bool operator()(phasor_status status);
  // The same where no other status than these may come.
  bool operator()(phasor_status status, std::initializer_list<phasor_status> others);
};

// A status of a function without a phasor_error.
inline bool ok(phasor_status status) {
  demand(status >= PHASOR_OK && status <= PHASOR_MISMATCH, "an answer is no status");
  return status == PHASOR_OK;
}

// An id of the vocabulary, now and then one beyond.
inline uint32_t any_id(Choices* c, uint32_t vocabulary) {
  return c->chance(2) ? c->of<uint32_t>({vocabulary, PHASOR_NONE}) : c->below(vocabulary);
}
// Any bits of a float: 0, 1, −1, infinities, NaN, or what four bytes are.
float any_float(Choices* c);
// A number that bounds are wrong at, or a small one.
uint32_t any_number(Choices* c);

}  // namespace fuzz
