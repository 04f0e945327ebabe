// runtime: views of the arena's parts. Nobody has a bare pointer to a part: a Session gives out
// views, which know how much of it the planner has counted. Builds with red zones check every
// access and stop with a line that names the part. In all others a view is its pointer, and a check
// is nothing.
#pragma once
#include "zones.h"

namespace phasor {

#if defined(PHASOR_RED_ZONES)

// What a view reaches: `rows` rows of `width` values of a part.
class Extent {
 public:
  Extent() = default;
  Extent(uint64_t rows, uint64_t width, uint32_t part) : rows_(rows), width_(width), part_(part) {}
  void need(uint64_t row, uint64_t rows, uint64_t column, uint64_t columns) const {
    if (row > rows_ || rows > rows_ - row) outside_part(part_, "rows", row, rows, rows_);
    if (column > width_ || columns > width_ - column)
      outside_part(part_, "values", column, columns, width_);
  }
  Extent inner(uint64_t rows, uint64_t width) const { return Extent(rows, width, part_); }
  Extent without(uint64_t rows, uint64_t columns) const {
    return inner(rows_ - rows, width_ - columns);
  }

 private:
  uint64_t rows_ = 0, width_ = 0;
  uint32_t part_ = 0;
};

#else

class Extent {
 public:
  Extent() = default;
  Extent(uint64_t, uint64_t, uint32_t) {}
  void need(uint64_t, uint64_t, uint64_t, uint64_t) const {}
  Extent inner(uint64_t, uint64_t) const { return {}; }
  Extent without(uint64_t, uint64_t) const { return {}; }
};

#endif

// Rows of values, `stride` values from one to the next.
template <class T>
class Rows : private Extent {
 public:
  Rows() = default;
  Rows(T* data, uint64_t stride, const Extent& extent)
      : Extent(extent), data_(data), stride_(stride) {}
  operator Rows<const T>() const { return {data_, stride_, *this}; }
  uint64_t stride() const { return stride_; }
  // The first `width` values of row `r`; of `count` rows from row `r` on.
  T* row(uint64_t r, uint64_t width) const {
    need(r, 1, 0, width);
    return data_ + r * stride_;
  }
  T* rows(uint64_t r, uint64_t count, uint64_t width) const {
    need(r, count, 0, width);
    return data_ + r * stride_;
  }
  // Without the first rows; without the first values of each row.
  Rows below(uint64_t rows) const {
    need(rows, 0, 0, 0);
    return {data_ + rows * stride_, stride_, without(rows, 0)};
  }
  Rows right(uint64_t columns) const {
    need(0, 0, columns, 0);
    return {data_ + columns, stride_, without(0, columns)};
  }

 private:
  T* data_ = nullptr;
  uint64_t stride_ = 0;
};

// Values one after the other.
template <class T>
class Span : private Extent {
 public:
  Span() = default;
  Span(T* data, const Extent& extent) : Extent(extent), data_(data) {}
  operator Span<const T>() const { return {data_, *this}; }
  explicit operator bool() const { return data_ != nullptr; }
  T& operator[](uint64_t i) const {
    need(0, 1, i, 1);
    return data_[i];
  }
  T* at(uint64_t first, uint64_t count) const {
    need(0, 1, first, count);
    return data_ + first;
  }
  const T* data() const { return data_; }  // for who only reads
  Span part(uint64_t first, uint64_t count) const { return {at(first, count), inner(1, count)}; }
  Rows<T> rows(uint64_t count, uint64_t stride) const {
    return {at(0, count * stride), stride, inner(count, stride)};
  }

 private:
  T* data_ = nullptr;
};

}  // namespace phasor
