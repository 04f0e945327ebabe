// What only reading every weight can tell: finite numbers, and zeros where a layout has padding.
#include "model.h"

namespace phasor {
namespace {

// Numbers are halves where the type is one; `exponent` has the bits that are all set in an infinity
// or a NaN.
bool finite_numbers(const unsigned char* p, uint64_t n, Type type) {
  const uint32_t exponent = type == Type::f16 ? 0x7C00 : type == Type::bf16 ? 0x7F80 : 0x7F800000;
  for (uint64_t i = 0; i < n; ++i)
    if (((type == Type::f32 ? load_u32(p + 4 * i) : load_u16(p + 2 * i)) & exponent) == exponent)
      return false;
  return true;
}

// The bits of element (o, k) of a panel's values.
uint32_t bits_at(const unsigned char* p, Type type, size_t o, size_t k) {
  const size_t at = panel_index(type, o, k);
  const unsigned bits = value_bits(type);
  switch (bits) {
    case 32:
      return load_u32(p + 4 * at);
    case 16:
      return load_u16(p + 2 * at);
    case 8:
      return p[at];
    default:
      return code_at(p + k / kGroup * code_bytes(bits) * kLanes, bits, kLanes, o, k % kGroup);
  }
}

bool has_records(Type type) { return has_minima(type) || has_coded(type); }

// A row's scale is finite, and 0 or no smaller than it may be.
bool row_scales(const unsigned char* p, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i) {
    const uint32_t bits = load_u32(p + 4 * i);
    if (bits != 0 && (load_f32(p + 4 * i) < kSmallestRowScale || !is_finite_f32(bits)))
      return false;
  }
  return true;
}

// Of types with minima: the f16 numbers of a row's scales and minima are finite; those of a row of
// padding are zero, as are the codes of groups that there are not. byte(i): byte i of the row's.
template <class Byte>
void check_minima(bool* finite, bool* padded, Type type, uint64_t groups, bool used, Byte byte) {
  const uint64_t bytes = row_record_bytes(type, groups);
  const size_t size = record_bytes(type), in_record = record_groups(type);
  for (uint64_t i = 0; i < bytes; i += size) {
    *finite = *finite && (byte(i + 1) & 0x7Cu) != 0x7C && (byte(i + 3) & 0x7Cu) != 0x7C;
    for (uint64_t j = 0; j < size && !used; ++j) *padded = *padded && byte(i + j) == 0;
  }
  const auto code = [=](size_t i) {
    return byte(bytes - kCodeBytes + i);
  };  // of the last record's groups
  for (size_t g = static_cast<size_t>(groups % in_record); g != 0 && g < in_record; ++g)
    *padded = *padded && scale_code(g, code) == 0 && minimum_code(g, code) == 0;
}

// The same of a coded type: a number and codes. Those of columns that there are not have no bits.
template <class Byte>
void check_coded(bool* finite, bool* padded, Type type, uint64_t cols, bool used, Byte byte) {
  const unsigned bits = scale_bits(type);
  const size_t codes = record_codes(type), size = record_bytes(type);
  for (uint64_t k = 0, i = 0; k < cols; k += kSuper * kGroup, i += size) {
    *finite = *finite && (byte(i + 1) & 0x7Cu) != 0x7C;
    for (uint64_t j = 0; j < size && !used; ++j) *padded = *padded && byte(i + j) == 0;
    const auto code = [=](size_t b) { return byte(i + 2 + b); };
    for (size_t c = 0; c < codes; ++c)
      if (k + c * scale_span(type) >= cols)
        *padded = *padded && signed_code(bits, codes, c, code) == (bits == 8 ? 0 : -32);
  }
}

// Lanes of a panel from `used` on, which may be none of them, are zero, and k from cols to the end
// of its pair or group.
bool padding_is_zero(const unsigned char* panel, Type type, uint32_t cols, uint32_t used) {
  const bool whole = has_row_scale(type);
  const uint64_t groups = groups_of(cols),
                 plane = plane_bytes(type, kLanes, cols);
  const bool scaled = grouped_type(type) && record_groups(type) == 0;
  for (size_t o = used; o < kLanes && whole; ++o)
    if (load_u32(panel + 4 * o) != 0) return false;
  for (uint64_t i = scale_plane_used(type, kLanes, groups); i < plane && scaled; ++i)
    if (panel[i] != 0) return false;
  for (size_t g = 0; g < groups && scaled; g += static_cast<size_t>(sharing_of(type)))
    for (size_t o = used; o < kLanes; ++o)
      if (load_u16(panel + panel_scale(type, o, g)) != 0) return false;
  const uint64_t stored = stored_cols(type, cols);
  const size_t end = static_cast<size_t>(pair_type(type) ? round_up(stored, 2) : stored);
  for (size_t o = 0; o < kLanes; ++o)
    for (size_t k = o < used ? cols : 0; k < end; ++k)
      if (bits_at(panel + plane, type, o, k) != 0) return false;
  return true;
}

// Rows of a quantized table: nothing between the scales and the values, nor from cols to the end of
// a row's last group.
bool rows_padding_is_zero(const unsigned char* p, Type type, uint32_t rows, uint32_t cols) {
  const uint64_t groups = groups_of(cols),
                 count = has_row_scale(type) ? uint64_t(rows) * 4
                         : has_records(type) ? rows * row_record_bytes(type, groups)
                                             : scale_plane_used(type, rows, groups),
                 plane = round_up(count, 64);
  const unsigned bits = value_bits(type);
  for (uint64_t i = count; i < plane; ++i)
    if (p[i] != 0) return false;
  for (size_t r = 0; r < rows; ++r)
    for (size_t k = cols; k < stored_cols(type, cols); ++k) {
      const unsigned char* const group = p + plane + row_index(type, cols, r, k - k % kGroup);
      if ((bits == 8 ? group[k % kGroup] : code_at(group, bits, 1, 0, k % kGroup)) != 0)
        return false;
    }
  return true;
}

// Records of the 16 rows of a panel, of which `used` are the matrix's, or of all rows.
void check_plane(bool* finite, bool* padded, const unsigned char* p, const Entry& e,
                 uint32_t used) {
  const uint64_t groups = groups_of(e.cols), bytes = row_record_bytes(e.type, groups);
  const bool panel = e.layout == Layout::panel16;
  for (size_t o = 0; o < (panel ? kLanes : used); ++o) {
    const auto byte = [=, type = e.type](uint64_t i) {
      return unsigned{
          p[panel ? panel_index_record(type, o, static_cast<size_t>(i)) : o * bytes + i]};
    };
    if (has_minima(e.type))
      check_minima(finite, padded, e.type, groups, o < used, byte);
    else
      check_coded(finite, padded, e.type, e.cols, o < used, byte);
  }
}

// One tensor; of a matrix each part starts a panel.
phasor_status check_tensor(const unsigned char* p, const Entry& e, const Role& r,
                           phasor_error* error) {
  bool finite = true, padded = true;
  if (e.layout == Layout::panel16) {
    const uint64_t bytes = panel_bytes(e.type, e.cols);
    const uint64_t scales = scales_of(e.type, groups_of(e.cols)) * kLanes,
                   values = uint64_t(e.cols) * kLanes;
    for (const uint32_t rows : r.parts)
      for (uint32_t row = 0; row < rows; row += kLanes, p += bytes) {
        const uint32_t used = rows - row;
        if (has_records(e.type))
          check_plane(&finite, &padded, p, e, used);
        else
          finite = finite && (has_row_scale(e.type) ? row_scales(p, kLanes)
                              : grouped_type(e.type)
                                  ? finite_numbers(p + table_bytes(e.type), scales, Type::f16)
                                  : finite_numbers(p, values, e.type));
        padded = padded && padding_is_zero(p, e.type, e.cols, used);
      }
  } else if (has_row_scale(e.type)) {
    finite = row_scales(p, e.rows);
    padded = rows_padding_is_zero(p, e.type, e.rows, e.cols);
  } else if (has_records(e.type)) {
    padded = rows_padding_is_zero(p, e.type, e.rows, e.cols);
    check_plane(&finite, &padded, p, e, e.rows);
  } else if (quantized_type(e.type)) {
    finite = finite_numbers(p + table_bytes(e.type), e.rows * scales_of(e.type, groups_of(e.cols)),
                            Type::f16);
    padded = rows_padding_is_zero(p, e.type, e.rows, e.cols);
  } else if (e.type != Type::f64) {
    finite = finite_numbers(p, uint64_t(e.rows) * e.cols, e.type);
  } else {
    for (uint32_t i = 0; i < e.rows; ++i)
      finite = finite && (load_u16(p + 8 * i + 6) & 0x7FF0) != 0x7FF0;
  }
  if (finite && padded) return PHASOR_OK;
  const uint32_t set = e.key >> 8 & 0xFFFF;
  return fail(error, finite ? PHASOR_BAD_FILE : PHASOR_NOT_FINITE, {kSectionData, set, 0, 0},
              stack_name(e.key >> 24), " set ", set, ", ", r.name,
              finite                          ? ": padding is not zero"
              : has_row_scale(e.type) ? ": a row's scale is out of range"
                                              : ": a weight is not finite");
}

}  // namespace

phasor_status model_check(const Model& m, phasor_error* error) noexcept {
  // The directory has the tensors in the order of the table's rows: open has bound them.
  struct Checker {
    const File file;
    phasor_error* error;
    uint32_t next = 0;
    phasor_status status = PHASOR_OK;
  } checker{m.file(), error};
  const auto check = [](void* context, const Role& role) {
    Checker* c = static_cast<Checker*>(context);
    if (!role.there || c->status != PHASOR_OK) return;
    const Entry e = entry_at(c->file, c->next++);
    c->status = check_tensor(c->file.data + e.offset, e, role, c->error);
  };
  each_role(checker.file, m.descriptor, &m.kind(0), check, &checker);
  return checker.status;
}

}  // namespace phasor
