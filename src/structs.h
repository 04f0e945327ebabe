// The structs of the interface that begin with struct_size (rule 3.9): read and written as far as
// the caller knows them.
#pragma once
#include <string.h>

#include "status.h"

namespace phasor {

// NULL for a required pointer is the caller's bug: a build without NDEBUG stops here.
template <class... Pointers>
void required([[maybe_unused]] Pointers... pointers) noexcept {
#ifndef NDEBUG
  if (!(... && (pointers != nullptr))) __builtin_trap();
#endif
}

// A shorter struct is an older caller's. A longer one asks for what this library does not know.
constexpr bool known_size(uint32_t size, size_t known) {
  return size >= sizeof(uint32_t) && size <= known;
}
// What is read and written of a struct of that size: no half of a pointer. Versions of a struct
// have one alignment, so that this is all of an older one.
template <class T>
constexpr size_t whole_bytes(uint32_t size) {
  return size / alignof(T) * alignof(T);
}
// One line names the struct when its size is neither.
[[nodiscard]] phasor_status check_size(const char* name, uint32_t size, size_t known,
                                       phasor_error* error) noexcept;

// Reads what the caller gave, or nothing when `given` is NULL. *out has the defaults, and keeps
// those of the fields that an older caller does not know.
template <class T>
[[nodiscard]] phasor_status read_options(T* out, const T* given, const char* name,
                                         phasor_error* error) noexcept {
  if (given == nullptr) return PHASOR_OK;
  const phasor_status status =
      check_size(kHasMessages ? name : "", given->struct_size, sizeof *out, error);
  if (status == PHASOR_OK) memcpy(out, given, whole_bytes<T>(given->struct_size));
  return status;
}

// Writes as much of a result as the caller knows; nothing when it is refused.
template <class T>
[[nodiscard]] phasor_status write_result(T* out, const T& made, const char* name = "",
                                         phasor_error* error = nullptr) noexcept {
  required(out);
  const uint32_t size = out->struct_size;
  const phasor_status status = check_size(kHasMessages ? name : "", size, sizeof *out, error);
  if (status != PHASOR_OK) return status;
  memcpy(out, &made, whole_bytes<T>(size));
  out->struct_size = size;
  return PHASOR_OK;
}

// An array of the caller's structs. They lie as far apart as the first one is long.
template <class T>
class Given {
 public:
  Given(const T* first)
      : data_(reinterpret_cast<const unsigned char*>(first)),
        size_(first != nullptr ? first->struct_size : 0) {}

  // Struct `i`, what an older caller does not know being 0. The sizes have been checked.
  T operator[](uint32_t i) const {
    T one{};
    memcpy(&one, data_ + size_t{i} * size_, whole_bytes<T>(size_));
    return one;
  }
  Given operator+(uint32_t n) const {
    Given rest = *this;
    rest.data_ += size_t{n} * size_;
    return rest;
  }

  // All of one size, and one that this library knows.
  [[nodiscard]] phasor_status check(const char* name, uint32_t count,
                                    phasor_error* error) const noexcept {
    if (count == 0) return PHASOR_OK;
    required(data_);
    phasor_status status = check_size(name, size_, sizeof(T), error);
    for (uint32_t i = 1; i < count && status == PHASOR_OK; ++i) {
      uint32_t size;
      memcpy(&size, data_ + size_t{i} * size_, sizeof size);
      if (size != size_)
        status = bad_input(error, {size_, size}, name, " ", i, ".struct_size: ", size,
                           ", that of the first is ", size_);
    }
    return status;
  }

 private:
  const unsigned char* data_;
  uint32_t size_;
};

}  // namespace phasor
