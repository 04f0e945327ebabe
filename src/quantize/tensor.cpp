#include "tensor.h"

#include "../format/bytes.h"
#include "../kernels/gather.h"

namespace phasor {
namespace {

// 16 rows of a matrix in either layout, and where their values and scales lie.
struct Rows {
  Type type;
  Layout layout;
  size_t cols, rows;  // of the matrix; panel16: 16
  size_t first;       // the first of these rows; panel16: 0
  size_t count;       // of them
  bool rotated;       // the values are the rotated matrix's
};

size_t groups(const Rows& r) { return static_cast<size_t>(groups_of(r.cols)); }

// Where row o's scale of group g lies, in bytes; the row's own one.
size_t scale_at(const Rows& r, size_t o, size_t g) {
  if (whole_type(r.type)) return 4 * (r.layout == Layout::panel16 ? o : r.first + o);
  return static_cast<size_t>(r.layout == Layout::panel16
                                 ? panel_scale(r.type, o, g)
                                 : row_scale(r.type, groups(r), r.first + o, g));
}

size_t plane_bytes(const Rows& r) {
  const uint64_t rows = r.layout == Layout::panel16 ? kLanes : r.rows;
  return static_cast<size_t>(phasor::plane_bytes(r.type, rows, r.cols));
}

// Where the value of row o and column k lies, in bytes; of fewer than 8 bits its byte.
size_t value_at(const Rows& r, size_t o, size_t k) {
  const size_t at = r.layout == Layout::panel16 ? panel_index(r.type, o, k)
                                                : row_index(r.type, r.cols, r.first + o, k);
  return plane_bytes(r) + at * value_bytes(r.type);
}

// Where the group of row o and column k lies, of codes; of a panel all 16 rows'.
size_t group_at(const Rows& r, size_t o, size_t k) {
  const size_t bytes = code_bytes(value_bits(r.type)) * kLanes;
  return plane_bytes(r) + (r.layout == Layout::panel16
                               ? k / kGroup * bytes
                               : row_index(r.type, r.cols, r.first + o, k - k % kGroup));
}

// A field of a group, which is 0.
void put_field(unsigned char* group, unsigned bits, const Rows& r, size_t o, size_t k,
               unsigned value) {
  const bool panel = r.layout == Layout::panel16;
  const size_t in = k % code_bytes(bits), lanes = panel ? kLanes : 1;
  unsigned char& byte = group[in / 4 * (lanes * 4) + (panel ? o * 4 : 0) + in % 4];
  byte = static_cast<unsigned char>(byte | value << code_shift(bits, k));
}

float load_value(const unsigned char* in, const Rows& r, size_t o, size_t k) {
  const unsigned char* p = in + value_at(r, o, k);
  switch (r.type) {
    case Type::f32:
      return load_f32(p);
    case Type::f16:
      return widen_f16(load_u16(p));
    case Type::bf16:
      return widen_bf16(load_u16(p));
    default:
      break;
  }
  const unsigned bits = value_bits(r.type);
  if (record_groups(r.type) != 0) {
    const bool panel = r.layout == Layout::panel16;
    const unsigned code =
        code_at(in + group_at(r, o, k), bits, panel ? kLanes : 1, panel ? o : 0, k % kGroup);
    if (minimum_type(r.type)) {
      const Grid grid = grid_at(in, r.type, r.layout, groups(r), r.first + o, k / kGroup);
      return static_cast<float>(code) * grid.scale + grid.least;
    }
    return static_cast<float>(code_value(r.type, in, code)) *
           coded_scale(in, r.type, r.layout, groups(r), r.first + o, k / scale_span(r.type));
  }
  const unsigned char* at = in + scale_at(r, o, k / kGroup);
  const float scale = whole_type(r.type) ? load_f32(at) : widen_f16(load_u16(at));
  const int32_t value =
      bits == 8 ? static_cast<int8_t>(*p) : code_value(r.type, in, code_in(*p, bits, k));
  return static_cast<float>(value) * scale;
}

// 64 columns of row o from k on, or those that there are, rotated as `scale` says (0: not) from
// what is stored.
void load_step(float (&out)[kRowStep], const unsigned char* in, const Rows& r, size_t o, size_t k,
               float scale) {
  const size_t n = r.cols - k < kRowStep ? r.cols - k : kRowStep, block = rotation_block(r.cols);
  for (size_t i = 0; i < kRowStep; ++i) out[i] = i < n ? load_value(in, r, o, k + i) : 0;
  for (size_t i = 0; i < n && scale != 0; i += block) rotate_block(out + i, block, scale);
}

// How they are turned on the way to another matrix: back, there, or not at all.
float rotation_between(const Rows& from, const Rows& to) {
  const size_t block = rotation_block(from.cols);
  if (from.rotated) return rotation_scale(block);
  return to.rotated ? weight_rotation_scale(block) : 0;
}

// `count` columns of row o from `first` on.
void load_span(float* out, const unsigned char* in, const Rows& r, size_t o, size_t first,
               size_t count, float scale) {
  for (size_t k = first; k < first + count;) {
    float row[kRowStep];
    const size_t step = k / kRowStep * kRowStep;
    load_step(row, in, r, o, step, scale);
    for (; k < first + count && k < step + kRowStep; ++k) *out++ = row[k - step];
  }
}

void load_block(Block* out, const unsigned char* in, const Rows& r, size_t g, float scale) {
  memset(out, 0, sizeof *out);
  if (scale != 0) {
    for (size_t o = 0; o < r.count; ++o) {
      float row[kGroup];
      load_span(row, in, r, o, g * kGroup, kGroup, scale);
      for (size_t k = 0; k < kGroup; ++k) out->x[k][o] = row[k];
    }
    return;
  }
  for (size_t k = g * kGroup; k < r.cols && k < (g + 1) * kGroup; ++k)
    for (size_t o = 0; o < r.count; ++o) out->x[k % kGroup][o] = load_value(in, r, o, k);
}

uint32_t bits_of_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

void store_u16(unsigned char* p, uint32_t value) {
  p[0] = static_cast<unsigned char>(value & 255);
  p[1] = static_cast<unsigned char>(value >> 8 & 255);
}

// f32, f16 or bf16; an f32 subnormal becomes 0 (rule 1.12). *stored gets the value as it is read
// back; false where it is not finite.
bool store_number(unsigned char* p, Type type, float x, float* stored) {
  uint32_t bits = bits_of_f32(x);
  if ((bits & 0x7F800000u) == 0) bits = 0, x = 0;
  *stored = x;
  if (type == Type::f32) {
    store_u16(p, bits & 0xFFFFu);
    store_u16(p + 2, bits >> 16);
    return true;
  }
  const uint32_t half =
      type == Type::f16 ? narrow_f16(x) : (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  store_u16(p, half);
  *stored = type == Type::f16 ? widen_f16(static_cast<uint16_t>(half))
                              : widen_bf16(static_cast<uint16_t>(half));
  return is_finite_f32(bits_of_f32(*stored));
}

void note(StoredError* error, float given, float stored) {
  const float difference = __builtin_fabsf(stored - given), size = __builtin_fabsf(given);
  if (difference > error->largest) error->largest = difference;
  if (size > error->value) error->value = size;
}
// Of values that are rotated, whose own size is not the matrix's.
void note_rotated(StoredError* error, float given, float stored) {
  const float size = error->value;
  note(error, given, stored);
  error->value = size;
}
// The values as they are given; false where one is not finite.
bool note_given(StoredError* error, const unsigned char* in, const Rows& r, size_t o) {
  bool finite = true;
  for (size_t k = 0; k < r.cols; ++k) {
    const float v = load_value(in, r, o, k);
    finite = finite && is_finite_f32(bits_of_f32(v));
    note(error, v, v);
  }
  return finite;
}

// An integer of a type with a scale for each group. Padding columns, and all of a group of 4 bits
// whose scale is 0, stay zero bytes. The value as it is read back.
float store_integer(unsigned char* p, Type type, size_t in_group, int value, uint16_t scale) {
  if (value_bits(type) == 8)
    *p = static_cast<unsigned char>(value & 255);
  else if ((scale & 0x7FFFu) != 0)
    *p = static_cast<unsigned char>(*p | rounded_code(type, value)
                                             << (in_group < kGroup / 2 ? 0 : 4));
  return static_cast<float>(value) * widen_f16(scale);
}

// Columns of a group. False where a value or a scale is too large for the type.
bool store_block(unsigned char* out, const Rows& r, size_t g, const Block& b, const Block* moments,
                 StoredError* error) {
  QuantizedBlock q;
  const bool quantized = quantized_type(r.type);
  bool finite = !quantized || quantize_block(&q, b, r.type, moments);
  if (!finite) return false;
  for (size_t o = 0; quantized && o < r.count; ++o) store_u16(out + scale_at(r, o, g), q.scales[o]);
  for (size_t k = g * kGroup; k < r.cols && k < (g + 1) * kGroup; ++k)
    for (size_t o = 0; o < r.count; ++o) {
      const size_t i = k % kGroup;
      unsigned char* p = out + value_at(r, o, k);
      float stored = 0;
      if (quantized)
        stored = store_integer(p, r.type, i, static_cast<int>(q.q[i][o]), q.scales[o]);
      else
        finite = store_number(p, r.type, b.x[i][o], &stored) && finite;
      (r.rotated ? note_rotated : note)(error, b.x[i][o], stored);
    }
  return finite;
}

void store_f32(unsigned char* p, float x) {
  const uint32_t bits = bits_of_f32(x);
  store_u16(p, bits & 0xFFFFu);
  store_u16(p + 2, bits >> 16);
}

// A row with one scale: its largest value, rotated where the type is, becomes ±127
// (docs/reference/file-format.md). False where a value is not finite, or its scale would not be.
bool store_row(unsigned char* out, const Rows& to, const unsigned char* in, const Rows& from,
               size_t o, StoredError* error) {
  const float rotation = rotation_between(from, to);
  float largest = 0, x[kRowStep];
  const bool finite = note_given(error, in, from, o);
  for (size_t k = 0; k < to.cols; k += kRowStep) {
    load_step(x, in, from, o, k, rotation);
    for (const float v : x) largest = __builtin_fabsf(v) > largest ? __builtin_fabsf(v) : largest;
  }
  float scale = largest / 127.0f;
  if (!(scale >= kSmallestRowScale)) scale = 0;
  if (!finite || !is_finite_f32(bits_of_f32(scale))) return false;
  const float inverse = scale != 0 ? 1.0f / scale : 0;
  store_f32(out + scale_at(to, o, 0), scale);
  for (size_t k = 0; k < to.cols; k += kRowStep) {
    load_step(x, in, from, o, k, rotation);
    for (size_t i = 0; i < kRowStep && k + i < to.cols; ++i) {
      const int q = static_cast<int>(nearest_int8(x[i] * inverse));
      out[value_at(to, o, k + i)] = static_cast<unsigned char>(q & 255);
      note_rotated(error, x[i], static_cast<float>(q) * scale);
    }
  }
  return true;
}

// The moment of an input; of a rotated one the mean of its block's, the parts of it summed in their
// order.
float moment_of(const float* moments, const Rows& to, size_t k) {
  if (!to.rotated) return moments[k];
  const size_t block = rotation_block(to.cols);
  const float part = 1.0f / static_cast<float>(block);
  float sum = 0;
  for (size_t i = k / block * block, end = i + block; i < end; ++i) sum += moments[i] * part;
  return sum;
}

// A row whose groups share records.
bool store_record_row(unsigned char* out, const Rows& to, const unsigned char* in,
                      const Rows& from, size_t o, const float* moments, StoredError* error) {
  const size_t span = values_of_record(to.type), bytes = record_bytes(to.type);
  const float rotation = rotation_between(from, to);
  if (!note_given(error, in, from, o)) return false;
  for (size_t first = 0, at = 0; first < to.cols; first += span, at += bytes) {
    float x[kMostOfRecord], stored[kMostOfRecord], weights[kMostOfRecord];
    unsigned char record[kMostRecordBytes], n[kMostOfRecord];
    const size_t count = to.cols - first < span ? to.cols - first : span;
    load_span(x, in, from, o, first, count, rotation);
    for (size_t j = 0; moments != nullptr && j < count; ++j)
      weights[j] = moment_of(moments, to, first + j);
    if (!quantize_record(record, n, stored, x, moments != nullptr ? weights : nullptr, count,
                         to.type))
      return false;
    for (size_t i = 0; i < bytes; ++i) {
      const size_t row = to.first + o,
                   whole = static_cast<size_t>(row_record_bytes(to.type, groups(to)));
      out[to.layout == Layout::panel16 ? panel_index_record(to.type, o, at + i)
                                       : row * whole + at + i] = record[i];
    }
    for (size_t i = 0; i < count; ++i) {
      unsigned char* const group = out + group_at(to, o, first + i);
      const unsigned bits = value_bits(to.type), low = low_bits(bits);
      put_field(group, low, to, o, i, n[i] & ((1u << low) - 1u));
      if (low != bits) {
        const size_t lanes = to.layout == Layout::panel16 ? kLanes : 1;
        put_field(group + code_bytes(low) * lanes, bits - low, to, o, i, unsigned{n[i]} >> low);
      }
      note_rotated(error, x[i], stored[i]);
    }
  }
  return true;
}

bool convert_rows(unsigned char* out, const Rows& to, const unsigned char* in, const Rows& from,
                  const float* moments, StoredError* error) {
  if (whole_type(to.type) || record_groups(to.type) != 0) {
    for (size_t o = 0; o < to.count; ++o)
      if (!(whole_type(to.type) ? store_row(out, to, in, from, o, error)
                                : store_record_row(out, to, in, from, o, moments, error)))
        return false;
    return true;
  }
  const float rotation = rotation_between(from, to);
  for (size_t o = 0; to.rotated && o < to.count; ++o)
    if (!note_given(error, in, from, o)) return false;
  for (size_t g = 0; g < groups(to); ++g) {
    Block b, padded{};
    load_block(&b, in, from, g, rotation);
    for (size_t k = g * kGroup; k < to.cols && k < (g + 1) * kGroup; ++k)
      for (float& moment : padded.x[k % kGroup])
        moment = moments != nullptr ? moment_of(moments, to, k) : 1;
    // of a table padding is rounded to no 0, and does not count
    const bool weighted = moments != nullptr || table_type(to.type);
    if (!store_block(out, to, g, b, weighted ? &padded : nullptr, error)) return false;
  }
  return true;
}

}  // namespace

bool convertible(const Entry& from, Type to, uint8_t inputs) noexcept {
  if (from.type == to) return rotates(to, from.inputs) == rotates(to, inputs);
  return to == Type::f32 || !quantized_type(from.type);
}

bool convert_matrix(unsigned char* out, Type type, uint8_t inputs, const unsigned char* in,
                    const Entry& e, const float* moments, StoredError* error) noexcept {
  const bool panel = e.layout == Layout::panel16;
  // of each panel; rows lie in one piece
  const size_t from_bytes = panel ? static_cast<size_t>(panel_bytes(e.type, e.cols)) : 0,
               to_bytes = panel ? static_cast<size_t>(panel_bytes(type, e.cols)) : 0;
  memset(out, 0,
         panel ? e.panels * to_bytes : static_cast<size_t>(rows_bytes(type, e.rows, e.cols)));
  Rows from{e.type, e.layout, e.cols, panel ? kLanes : e.rows, 0, kLanes,
            rotates(e.type, e.inputs)},
      to = from;
  to.type = type;
  to.rotated = rotates(type, inputs);
  for (size_t p = 0; p < (panel ? e.panels : panels_of(e.rows)); ++p) {
    if (panel || p == 0)
      memcpy(out + p * to_bytes, kRoundedTable, static_cast<size_t>(table_bytes(type)));
    if (!panel) {
      from.first = to.first = p * kLanes;
      if (e.rows - from.first < kLanes) from.count = to.count = e.rows - from.first;
    }
    if (!convert_rows(out + p * to_bytes, to, in + p * from_bytes, from, moments, error))
      return false;
  }
  return true;
}

}  // namespace phasor
