// quantize: weights of one type as weights of another, in the caller's memory. It knows the file's
// view and the panels' layout, and nothing of what a model does.
// tools/phasor/format/layout.py makes the same bytes; file-format.md has the order of every sum.
#pragma once
#include "../layout.h"

namespace phasor {

// 16 rows at one group of 32 columns, the columns outermost: x[k][o]. What lies outside the matrix
// is 0. Of a coded type the columns are of one row: those that share scale o of its record.
struct Block {
  float x[kGroup][kLanes];
};

// A block as q8, q4, q4t or a coded type: integers, and the bits of 16 f16 scales.
struct QuantizedBlock {
  float q[kGroup][kLanes];
  uint16_t scales[kLanes];
};

// Of the scales that are tried for each row the one whose sum of moment·(x − scale·q)² is smallest.
// moments: of the inputs of the columns; NULL: all 1. False when a scale does not fit f16.
bool quantize_block(QuantizedBlock* out, const Block& in, Type type, const Block* moments) noexcept;

// The code of the integer that a value is rounded to.
unsigned rounded_code(Type type, int value) noexcept;

// The nearest of the table's values to v of −128 … 127, of two the larger one.
float nearest_in_table(float v) noexcept;

// The nearest integer, of two the even one, within ±127.
float nearest_int8(float v) noexcept;

// Values that share a record of scales (layout.h): a group of q4m and q5m, eight of q4k, q5k and
// coded types.
constexpr size_t values_of_record(Type type) { return record_groups(type) * kGroup; }

template <class OfType>
constexpr size_t most_of_types(OfType of) {
  size_t most = 0;
  for (unsigned code = 1; code <= kTypes; ++code) {
    const size_t n = of(static_cast<Type>(code));
    if (n > most) most = n;
  }
  return most;
}
constexpr size_t kMostOfRecord = most_of_types(values_of_record);
constexpr size_t kMostRecordBytes = most_of_types(record_bytes);

// x (count ≤ values_of_record): their codes n (count), their record (record_bytes), and what these
// stand for (count), as tools/phasor/format/minima.py and coded.py make them. moments (count) or
// NULL; types with minima do not take them. False where a value is not finite or a scale does
// not fit f16.
bool quantize_record(unsigned char* record, unsigned char* n, float* stored, const float* x,
                     const float* moments, size_t count, Type type) noexcept;

}  // namespace phasor
