// The panel layout: sizes and index functions, and nothing else (file-format.md, "Layouts").
//
// The header that format, kernels, model and the quantizer share. It includes the types and the two
// headers of fixed-width types, and holds no data. A matrix W (N outputs, K inputs) is kept in
// panels of 16 outputs, interleaved so that one vector holds 16 outputs at the same k.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "types.h"

namespace phasor {

constexpr size_t kLanes = 16;  // outputs of a panel; positions of a cache page
constexpr size_t kHalf = 16;   // values of k that share a code of a scale in a fine type (q6)
constexpr size_t kGroup = 32;  // values of k that share a scale, or a few groups do (shared_groups)
constexpr size_t kSuper = 8;   // groups that share a record in q4k, q5k and q6

constexpr size_t kRowStep = 64;  // q8r pads k to a multiple of it
// Inputs of a matrix in q8r: the sums of its rows fit an int32 (rule 1.18).
constexpr uint32_t kMostInRow = 132104;

// The form of the inputs that a matrix is multiplied by, beside its type's own, which is 0: whole
// numbers of 16 bits in place of 8 (rule 1.21); of 8 bits, rotated before they are rounded in
// groups (rule 1.29), the weights being the rotated matrix's.
constexpr uint8_t kInputs16 = 1, kInputsRotated = 2;

enum class Layout : uint8_t { panel16 = 1, rows = 2, vector = 3 };

// no overflow for n < 2^63
constexpr uint64_t round_up(uint64_t n, uint64_t m) { return (n + m - 1) / m * m; }
constexpr uint64_t groups_of(uint64_t cols) { return (cols + kGroup - 1) / kGroup; }
constexpr uint64_t whole_groups_of(uint64_t cols) { return round_up(cols, kRowStep) / kGroup; }
constexpr uint64_t panels_of(uint64_t rows) { return (rows + kLanes - 1) / kLanes; }

// The inputs that are rotated together: the largest power of two that divides K, at most 64 (rule
// 1.19).
constexpr size_t rotation_block(size_t cols) {
  const size_t power = cols & (~cols + 1);
  return power < kRowStep ? power : kRowStep;
}
// What a rotated block is multiplied by at the end, after its division by its length: powers of
// two, so exact. Both together are 1/√64 of 64 inputs; of lengths that are no square the weights'
// makes up for the inputs'.
constexpr float rotation_scale(size_t block) {
  return block >= 64 ? 8.0f : block >= 16 ? 4.0f : block >= 4 ? 2.0f : 1.0f;
}
constexpr float weight_rotation_scale(size_t block) {
  return static_cast<float>(block) / rotation_scale(block);
}

// A row's scale is 0 or at least this: its product with the least of an input's (rule 1.3) is no
// subnormal.
constexpr float kSmallestRowScale = 0x1p-38f;

// Of types with f16 scales: those of a row, the place of one in a panel's plane or in that of
// `rows` layout, and the plane's bytes, which a build without the type counts too: it refuses that
// by name, later. A plane begins with the table of a type that has one.
constexpr size_t kTable = 16;
constexpr uint64_t table_bytes(Type type) { return kHasTables && table_type(type) ? kTable : 0; }
constexpr uint64_t sharing_of(Type type) {
  return kHasShared && shared_groups(type) != 0 ? shared_groups(type) : 1;
}
constexpr uint64_t scales_of(Type type, uint64_t groups) {
  const unsigned n = shared_groups(type);
  return n == 0 ? groups : (groups + n - 1) / n;
}
constexpr size_t panel_scale(Type type, size_t o, size_t g) {
  return static_cast<size_t>(table_bytes(type)) +
         2 * (g / static_cast<size_t>(sharing_of(type)) * kLanes + o);
}
constexpr uint64_t row_scale(Type type, uint64_t groups, uint64_t row, uint64_t g) {
  const uint64_t in_row = kHasShared ? scales_of(type, groups) : groups;
  return table_bytes(type) + 2 * (row * in_row + g / sharing_of(type));
}
constexpr uint64_t scale_plane_used(Type type, uint64_t rows, uint64_t groups) {
  return (table_type(type) ? kTable : 0) + rows * scales_of(type, groups) * 2;
}
constexpr uint64_t scale_plane_bytes(Type type, uint64_t rows, uint64_t groups) {
  return round_up(scale_plane_used(type, rows, groups), 64);
}

// Of a coded type eight groups have an f16 number and signed codes that it is multiplied by, each
// of as many columns as scale_span says.
constexpr size_t scale_span(Type type) { return fine_type(type) ? kHalf : kGroup; }
constexpr size_t record_codes(Type type) { return kSuper * kGroup / scale_span(type); }
// Code i of `bits` bits of N. Codes of six bits have 32 added; their low four bits are the nibbles
// of N/2 bytes, and the upper two are fields of the N/4 bytes behind: of these code i has nibble
// i/(N/2) of byte i mod N/2, and field i/(N/4) of byte i mod N/4.
template <class Byte>
constexpr int signed_code(unsigned bits, size_t count, size_t i, Byte byte) {
  if (bits == 8) return static_cast<int8_t>(byte(i));
  const size_t half = count / 2, quarter = count / 4;
  const unsigned low = unsigned{byte(i % half)} >> (i / half * 4) & 15u,
                 upper = unsigned{byte(half + i % quarter)} >> (i / quarter * 2) & 3u;
  return static_cast<int>(low | upper << 4) - 32;
}
// Of q4k and q5k eight groups have an f16 scale, an f16 minimum, and in twelve bytes eight scales
// and eight minima of six bits.
constexpr size_t kCodeBytes = 12, kSuperBytes = 4 + kCodeBytes;
// Bytes of a row's records in types that have any; and of the plane of `rows` rows' (of a panel:
// 16).
constexpr uint64_t row_record_bytes(Type type, uint64_t groups) {
  const unsigned n = record_groups(type);
  return n == 0 ? 0 : (groups + n - 1) / n * record_bytes(type);
}
constexpr uint64_t record_plane_bytes(Type type, uint64_t rows, uint64_t groups) {
  return round_up(rows * row_record_bytes(type, groups), 64);
}
// A code of group i of the eight, 0 … 63, of the twelve bytes: the first four are in the low six
// bits of a byte each, the others in four bits of one and the upper two of another.
template <class Byte>
constexpr unsigned scale_code(size_t i, Byte byte) {
  return i < 4 ? byte(i) & 63u : (byte(i + 4) & 15u) | (byte(i - 4) >> 6) << 4;
}
template <class Byte>
constexpr unsigned minimum_code(size_t i, Byte byte) {
  return i < 4 ? byte(i + 4) & 63u : byte(i + 4) >> 4 | (byte(i) >> 6) << 4;
}

// Columns of a row as it is stored, with those of its padding.
constexpr uint64_t stored_cols(Type type, uint64_t cols) {
  if (whole_type(type)) return round_up(cols, kRowStep);
  return grouped_type(type) ? round_up(cols, kGroup) : cols;
}
// Bytes of the scales of `rows` rows, which lie in front of their values.
constexpr uint64_t plane_bytes(Type type, uint64_t rows, uint64_t cols) {
  if (record_groups(type) != 0) return record_plane_bytes(type, rows, groups_of(cols));
  if (whole_type(type)) return round_up(rows * 4, 64);
  return grouped_type(type) ? scale_plane_bytes(type, rows, groups_of(cols)) : 0;
}
// Bytes of a tensor in `rows` layout, and of one panel of 16 rows by `cols`; 0 for a type that has
// none.
constexpr uint64_t rows_bytes(Type type, uint64_t rows, uint64_t cols) {
  if (no_matrix_type(type)) return 0;
  return plane_bytes(type, rows, cols) + rows * (stored_cols(type, cols) * value_bits(type) / 8);
}
constexpr uint64_t panel_bytes(Type type, uint64_t cols) {
  return rows_bytes(type, kLanes, pair_type(type) ? round_up(cols, 2) : cols);
}

// Element (o, k) of a panel: index in units of the type's elements, after the scales of a quantized
// type; q8r has q8's order. Values of fewer than 8 bits share a byte: 8/bits of a group that lie
// code_bytes apart, the first in the lowest bits. A code of 6, 5 or 3 bits is in two places
// (code_at).
constexpr size_t panel_index_f32(size_t o, size_t k) { return k * kLanes + o; }
constexpr size_t panel_index_q8(size_t o, size_t k) {
  return k / kGroup * (kGroup * kLanes) + k % kGroup / 4 * (kLanes * 4) + o * 4 + k % 4;
}
constexpr size_t panel_index_bf16(size_t o, size_t k) {
  return k / 2 * (kLanes * 2) + o * 2 + k % 2;
}
constexpr size_t code_bytes(unsigned bits) { return kGroup * bits / 8; }  // of a row's group
constexpr unsigned code_shift(unsigned bits, size_t k) {
  return static_cast<unsigned>(k % kGroup / code_bytes(bits)) * bits;
}
constexpr size_t panel_index_code(unsigned bits, size_t o, size_t k) {  // of the byte
  const size_t group = code_bytes(bits);
  return k / kGroup * (group * kLanes) + k % kGroup % group / 4 * (kLanes * 4) + o * 4 + k % 4;
}
// The code in its byte.
constexpr unsigned code_in(unsigned byte, unsigned bits, size_t k) {
  return byte >> code_shift(bits, k) & ((1u << bits) - 1u);
}
// Field (o, k) of a group of `lanes` rows: of a panel's 16, or of one in `rows` layout.
constexpr unsigned field_at(const unsigned char* group, unsigned bits, size_t lanes, size_t o,
                            size_t k) {
  const size_t in = k % code_bytes(bits);
  return code_in(group[in / 4 * (lanes * 4) + o * 4 + in % 4], bits, k);
}
// A code, which is a field; those of 6 and 5 bits have their low four bits first, as codes of four
// bits lie, then the upper two or one as codes of so many; those of 3 bits their low two and the
// upper one.
constexpr unsigned low_bits(unsigned bits) {
  return bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits;
}
constexpr unsigned code_at(const unsigned char* group, unsigned bits, size_t lanes, size_t o,
                           size_t k) {
  const unsigned low = low_bits(bits);
  return !kHasSplit || low == bits
             ? field_at(group, bits, lanes, o, k)
             : field_at(group, low, lanes, o, k) |
                   field_at(group + code_bytes(low) * lanes, bits - low, lanes, o, k) << low;
}
// Step S of a group of such codes, four values of k of a panel's 16 outputs: where the bytes of
// both fields are, how far right these move to become a code, and their bits then.
template <Type T, size_t S>
struct CodeStep {
  static constexpr unsigned kLow = low_bits(value_bits(T)), kHigh = value_bits(T) - kLow;
  static constexpr size_t kLowAt = panel_index_code(kLow, 0, 4 * S),
                          kHighAt = code_bytes(kLow) * kLanes + panel_index_code(kHigh, 0, 4 * S);
  static constexpr int kLowMove = static_cast<int>(code_shift(kLow, 4 * S)),
                       kHighMove = static_cast<int>(code_shift(kHigh, 4 * S)) -
                                   static_cast<int>(kLow),
                       kLowMask = (1 << kLow) - 1, kHighMask = ((1 << kHigh) - 1) << kLow;
};
// What a code stands for; with minima itself. table: that of a type whose panels have one.
constexpr int32_t code_value(Type type, const unsigned char* table, unsigned code) {
  return kHasTables && lookup_type(type)
             ? table_type(type) ? static_cast<int8_t>(table[code]) : kRoundedTable[code]
             : static_cast<int32_t>(code * code_step(type)) - static_cast<int32_t>(code_less(type));
}
constexpr size_t panel_index(Type type, size_t o, size_t k) {
  const unsigned bits = value_bits(type);
  if (bits <= 8) return bits == 8 ? panel_index_q8(o, k) : panel_index_code(bits, o, k);
  return pair_type(type) ? panel_index_bf16(o, k) : panel_index_f32(o, k);
}
// The same of a row in `rows` layout.
constexpr size_t row_index(Type type, size_t cols, size_t row, size_t k) {
  const size_t at = row * static_cast<size_t>(stored_cols(type, cols)) + k;
  const unsigned bits = value_bits(type);
  return bits >= 8 ? at : (at - k % kGroup) * bits / 8 + k % kGroup % code_bytes(bits);
}
// Of a value of fewer than 8 bits its byte's.
constexpr size_t value_bytes(Type type) { return (value_bits(type) + 7) / 8; }
// Byte i of the records of row o, as `rows` layout has them one after the other, in a panel's
// plane: numbers and bytes of the 16 rows lie side by side.
constexpr size_t panel_index_record(Type type, size_t o, size_t i) {
  const size_t size = record_bytes(type), of = i % size, at = i / size * size * 16;
  const size_t numbers = coded_type(type) ? 2 : 4;
  return of < numbers ? at + of / 2 * (kLanes * 2) + o * 2 + of % 2 : at + of * kLanes + o;
}
// Keys or values of one head at 16 positions in a cache of q8 (rule 1.8): for each group of 32 of
// the head's width the positions' f32 scales [16], then keys [32][16], or values [2][16][16],
// blocks of 16 of the width. The last group has the rows that are left, or the blocks.
constexpr size_t kCacheScales = kLanes * 4, kCacheGroup = kCacheScales + kGroup * kLanes;  // bytes
constexpr uint64_t cache_q8_bytes(uint64_t width) {
  return groups_of(width) * kCacheScales + width * kLanes;
}
constexpr size_t cache_scale_q8(size_t slot, size_t d) {
  return d / kGroup * kCacheGroup + slot * 4;
}
constexpr size_t cache_key_q8(size_t slot, size_t d) {
  return d / kGroup * kCacheGroup + kCacheScales + d % kGroup * kLanes + slot;
}
constexpr size_t cache_value_q8(size_t slot, size_t d) {
  return d / kGroup * kCacheGroup + kCacheScales + d % kGroup / kLanes * (kLanes * kLanes) +
         slot * kLanes + d % kLanes;
}
}  // namespace phasor
