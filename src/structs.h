// The structs of the interface that begin with struct_size (rule 3.9): read and written as far as
// the caller knows them.
#pragma once
#include <stddef.h>
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

// A struct's size in the first release, 0.2.0. A field that is added after that release gets a line
// here: a specialization that says the offset of the first new field.
template <class T>
constexpr size_t kFirstSize = sizeof(T);
template <>
inline constexpr size_t kFirstSize<phasor_tensor> = offsetof(phasor_tensor, inputs);
template <>
inline constexpr size_t kFirstSize<phasor_quantize_options> =
    offsetof(phasor_quantize_options, inputs);

// A shorter struct is an older caller's. A longer one asks for what this library does not know.
template <class T>
constexpr bool known_size(uint32_t size) {
  return size >= kFirstSize<T> && size <= sizeof(T);
}
// What is read and written of a struct of that size: no half of a pointer. Versions of a struct
// have one alignment, so that this is all of an older one.
template <class T>
constexpr size_t whole_bytes(uint32_t size) {
  return size / alignof(T) * alignof(T);
}
// One line names the struct and the size that it breaks: `limit` is the first release's or today's.
[[nodiscard]] phasor_status wrong_size(const char* name, uint32_t size, size_t limit,
                                       phasor_error* error) noexcept;
template <class T>
[[nodiscard]] phasor_status check_size(const char* name, uint32_t size,
                                       phasor_error* error) noexcept {
  if (known_size<T>(size)) return PHASOR_OK;
  return wrong_size(name, size, size > sizeof(T) ? sizeof(T) : kFirstSize<T>, error);
}

// Reads what the caller gave, or nothing when `given` is NULL. *out has the defaults, and keeps
// those of the fields that an older caller does not know.
template <class T>
[[nodiscard]] phasor_status read_options(T* out, const T* given, const char* name,
                                         phasor_error* error) noexcept {
  if (given == nullptr) return PHASOR_OK;
  const phasor_status status = check_size<T>(kHasMessages ? name : "", given->struct_size, error);
  if (status == PHASOR_OK) memcpy(out, given, whole_bytes<T>(given->struct_size));
  return status;
}

// Writes as much of a result as the caller knows; nothing when it is refused.
template <class T>
[[nodiscard]] phasor_status write_result(T* out, const T& made, const char* name = "",
                                         phasor_error* error = nullptr) noexcept {
  required(out);
  const uint32_t size = out->struct_size;
  const phasor_status status = check_size<T>(kHasMessages ? name : "", size, error);
  if (status != PHASOR_OK) return status;
  memcpy(out, &made, whole_bytes<T>(size));
  out->struct_size = size;
  return PHASOR_OK;
}

// Struct `i` of an array that results are written to.
template <class T>
T* result_at(T* first, uint32_t i) noexcept {
  return reinterpret_cast<T*>(reinterpret_cast<unsigned char*>(first) +
                              size_t{i} * first->struct_size);
}

// An array of the caller's structs. They lie as far apart as the first one is long.
template <class T>
class Given {
 public:
  // Nothing is read of an array of none, whose pointer may be any.
  Given(const T* first) : data_(reinterpret_cast<const unsigned char*>(first)) {}

  // Struct `i`, what an older caller does not know being 0. The sizes have been checked.
  T operator[](uint32_t i) const {
    T one{};
    memcpy(&one, at(i), whole_bytes<T>(size_of(0)));
    return one;
  }
  Given operator+(uint32_t n) const {
    Given rest = *this;
    if (n != 0) rest.data_ = at(n);
    return rest;
  }

  // All of one size, and one that this library knows.
  [[nodiscard]] phasor_status check(const char* name, uint32_t count,
                                    phasor_error* error) const noexcept {
    if (count == 0) return PHASOR_OK;
    required(data_);
    const uint32_t first = size_of(0);
    phasor_status status = check_size<T>(name, first, error);
    for (uint32_t i = 1; i < count && status == PHASOR_OK; ++i)
      if (const uint32_t size = size_of(i); size != first)
        status = bad_input(error, {first, size}, name, " ", i, ".struct_size: ", size,
                           ", that of the first is ", first);
    return status;
  }

 private:
  uint32_t size_of(uint32_t i) const {
    uint32_t size;
    memcpy(&size, i == 0 ? data_ : at(i), sizeof size);
    return size;
  }
  const unsigned char* at(uint32_t i) const { return data_ + size_t{i} * size_of(0); }

  const unsigned char* data_;
};

}  // namespace phasor
