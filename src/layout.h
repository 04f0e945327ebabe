// The panel layout: sizes and index functions, and nothing else (docs/format.md, "Layouts").
//
// The one header that format, kernels, model and the quantizer share. It includes only the two
// headers of fixed-width types, and holds no data. A matrix W (N outputs, K inputs) is kept in
// panels of 16 outputs, interleaved so that one vector holds 16 outputs at the same k.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace phasor {

constexpr size_t kLanes = 16;  // outputs of a panel; positions of a cache page
constexpr size_t kGroup = 32;  // values of k that share a scale in q8, q4, q4m and q4k
constexpr size_t kSuper = 8;   // groups whose scales and minima share theirs in q4k

constexpr size_t kRowStep = 64;  // q8r pads k to a multiple of it
// Inputs of a matrix in q8r: the sums of its rows fit an int32 (rule 1.18).
constexpr uint32_t kMostInRow = 132104;

// The codes of docs/format.md. q8rh is q8r of inputs that are rotated.
enum class Type : uint8_t {
  f32 = 1,
  f16 = 2,
  bf16 = 3,
  q8 = 4,
  q4 = 5,
  f64 = 6,
  q8r = 7,
  q8rh = 8,
  q4m = 9,
  q4k = 10
};
constexpr unsigned kTypes = 10;
enum class Layout : uint8_t { panel16 = 1, rows = 2, vector = 3 };

// no overflow for n < 2^63
constexpr uint64_t round_up(uint64_t n, uint64_t m) { return (n + m - 1) / m * m; }
constexpr uint64_t groups_of(uint64_t cols) { return (cols + kGroup - 1) / kGroup; }
constexpr uint64_t whole_groups_of(uint64_t cols) { return round_up(cols, kRowStep) / kGroup; }
constexpr uint64_t panels_of(uint64_t rows) { return (rows + kLanes - 1) / kLanes; }

// A scale for each group of 32, and a minimum too; a scale for each row, in f32.
constexpr bool minimum_type(Type type) { return type == Type::q4m || type == Type::q4k; }
constexpr bool grouped_type(Type type) {
  return type == Type::q8 || type == Type::q4 || minimum_type(type);
}
constexpr bool whole_type(Type type) { return type == Type::q8r || type == Type::q8rh; }
constexpr bool quantized_type(Type type) { return grouped_type(type) || whole_type(type); }

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

// Bytes of the plane of f16 scales at the head of a quantized panel (or of `rows` layout: count =
// rows · groups).
constexpr uint64_t scale_plane_bytes(uint64_t count) { return round_up(count * 2, 64); }

// Of q4k eight groups have an f16 scale, an f16 minimum, and in twelve bytes eight scales and eight
// minima of six bits.
constexpr size_t kCodeBytes = 12, kSuperBytes = 4 + kCodeBytes;
constexpr uint64_t supers_of(uint64_t groups) { return (groups + kSuper - 1) / kSuper; }
// Bytes of a row's scales and minima in q4m and q4k; and of the plane of `rows` rows' (of a panel:
// 16).
constexpr uint64_t minimum_scale_bytes(Type type, uint64_t groups) {
  return type == Type::q4m ? groups * 4 : supers_of(groups) * kSuperBytes;
}
constexpr uint64_t minimum_plane_bytes(Type type, uint64_t rows, uint64_t groups) {
  return round_up(rows * minimum_scale_bytes(type, groups), 64);
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

// Bytes of one panel of 16 rows by `cols`; 0 for a type that has no panels.
constexpr uint64_t panel_bytes(Type type, uint64_t cols) {
  switch (type) {
    case Type::f32:
      return cols * kLanes * 4;
    case Type::f16:
      return cols * kLanes * 2;
    case Type::bf16:
      return (cols + 1) / 2 * kLanes * 4;
    case Type::q8:
      return scale_plane_bytes(groups_of(cols) * kLanes) + groups_of(cols) * kLanes * kGroup;
    case Type::q4:
      return scale_plane_bytes(groups_of(cols) * kLanes) + groups_of(cols) * kLanes * kGroup / 2;
    case Type::q4m:
    case Type::q4k:
      return minimum_plane_bytes(type, kLanes, groups_of(cols)) +
             groups_of(cols) * kLanes * kGroup / 2;
    case Type::q8r:
    case Type::q8rh:
      return kLanes * 4 + round_up(cols, kRowStep) * kLanes;
    default:
      return 0;
  }
}

// Bytes of a tensor in `rows` layout; 0 for a type that has none.
constexpr uint64_t rows_bytes(Type type, uint64_t rows, uint64_t cols) {
  switch (type) {
    case Type::f32:
      return rows * cols * 4;
    case Type::f16:
    case Type::bf16:
      return rows * cols * 2;
    case Type::q8:
      return scale_plane_bytes(rows * groups_of(cols)) + rows * groups_of(cols) * kGroup;
    case Type::q4:
      return scale_plane_bytes(rows * groups_of(cols)) + rows * groups_of(cols) * kGroup / 2;
    case Type::q4m:
    case Type::q4k:
      return minimum_plane_bytes(type, rows, groups_of(cols)) + rows * groups_of(cols) * kGroup / 2;
    case Type::q8r:
    case Type::q8rh:
      return round_up(rows * 4, 64) + rows * round_up(cols, kRowStep);
    default:
      return 0;
  }
}

// Element (o, k) of a panel: index in units of the type's elements, after the scales of a quantized
// type; q8r has q8's order. Two values of q4, q4m and q4k share a byte: the one of the group's
// first half in the low bits, the other, 16 further, in the high ones.
constexpr size_t panel_index_f32(size_t o, size_t k) { return k * kLanes + o; }
constexpr size_t panel_index_q8(size_t o, size_t k) {
  return k / kGroup * (kGroup * kLanes) + k % kGroup / 4 * (kLanes * 4) + o * 4 + k % 4;
}
constexpr size_t panel_index_bf16(size_t o, size_t k) {
  return k / 2 * (kLanes * 2) + o * 2 + k % 2;
}
constexpr size_t panel_index_q4(size_t o, size_t k) {  // of the byte
  return k / kGroup * (kGroup / 2 * kLanes) + k % (kGroup / 2) / 4 * (kLanes * 4) + o * 4 + k % 4;
}
// Byte i of the scales and minima of row o, as `rows` layout has them one after the other, in a
// panel's plane: numbers and bytes of the 16 rows lie side by side.
constexpr size_t panel_index_minimum(Type type, size_t o, size_t i) {
  const size_t size = type == Type::q4m ? 4 : kSuperBytes, of = i % size, at = i / size * size * 16;
  return of < 4 ? at + of / 2 * (kLanes * 2) + o * 2 + of % 2 : at + of * kLanes + o;
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
