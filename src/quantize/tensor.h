// quantize: one matrix of one type as another. In the caller's memory, a block of 16 rows and 32
// columns at a time.
#pragma once
#include "../format/file.h"
#include "groups.h"

namespace phasor {

// What storing did to the values.
struct StoredError {
  float largest = 0;  // |stored − given|
  float value = 0;    // the largest |given|
};

// Whether the weights that are stored are the rotated matrix's, of a type and a form of inputs.
constexpr bool rotates(Type type, uint8_t inputs) {
  return rotated_type(type) || inputs == kInputsRotated;
}

// Whether every value of a tensor may be stored as `to`, with that form of inputs: what has lost
// nothing but its last bits may lose more; what was quantized goes back to f32.
bool convertible(const Entry& from, Type to, uint8_t inputs) noexcept;

// Fills out (the bytes that type and shape ask for) from the tensor at `in`, which `entry`
// describes, for inputs of that form. moments (cols) or NULL. False when a value, or a scale, is
// too large for the type.
bool convert_matrix(unsigned char* out, Type type, uint8_t inputs, const unsigned char* in,
                    const Entry& entry, const float* moments, StoredError* error) noexcept;

}  // namespace phasor
