// quantize: groups with a scale and a minimum, q4m and q4k. tools/phasor/format/minima.py makes the
// same bytes; docs/format.md has the order of the operations.
#pragma once
#include "../layout.h"

namespace phasor {

// Values that share a record of scales and minima: a group of q4m, eight of q4k.
constexpr size_t kMostOfRecord = kGroup * kSuper;
constexpr size_t values_of_record(Type type) { return record_groups(type) * kGroup; }

// x (count ≤ values_of_record): n (count) of 0 … 15 each, and their record (record_bytes). False
// where a value is not finite or a scale does not fit f16.
bool quantize_minimum(unsigned char* record, unsigned char* n, const float* x, size_t count,
                      Type type) noexcept;

}  // namespace phasor
