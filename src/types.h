// Generated from src/facts/types.toml by `make generate`: edit that, not this.
// The types of tensors and what is so of each.
#pragma once
#include <stdint.h>

#include "build.h"

namespace phasor {

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
  q4k = 10,
  q4t = 11,
  q2 = 12,
  q1 = 13,
  q2r = 14,
  q6 = 15,
  q4x = 16,
  q3 = 17,
  q2w = 18,
  q5m = 19,
  q5k = 20
};
constexpr unsigned kTypes = 20;
constexpr const char* kTypeNames[] = {
    "?", "f32", "f16", "bf16", "q8", "q4", "f64", "q8r", "q8rh", "q4m", "q4k", "q4t",
    "q2", "q1", "q2r", "q6", "q4x", "q3", "q2w", "q5m", "q5k"};
// What a matrix of floats becomes.
constexpr const char* kRoundedTypeNames[] = {
    "f32", "f16", "bf16", "q8", "q4", "q8r", "q8rh", "q4m", "q4k", "q4t", "q6", "q4x",
    "q3", "q5m", "q5k"};
#define PHASOR_TYPE_NAMES \
  "f32, f16, bf16, q8, q4, q8r, q8rh, q4m, q4k, q4t, q6, q4x, q3, q5m or q5k"

constexpr bool kHasF16 = built("f16");
constexpr bool kHasBf16 = built("bf16");
constexpr bool kHasQ8 = built("q8");
constexpr bool kHasQ4 = built("q4");
constexpr bool kHasQ8r = built("q8r");
constexpr bool kHasQ4m = built("q4m");
constexpr bool kHasQ4t = built("q4t");
constexpr bool kHasQ2 = built("q2");
constexpr bool kHasQ1 = built("q1");
constexpr bool kHasQ2r = built("q2r");
constexpr bool kHasQ6 = built("q6");
constexpr bool kHasQ3 = built("q3");
constexpr bool kHasQ5m = built("q5m");
// How many words of PHASOR_ONLY are types.
constexpr unsigned kTypeWords =
    has_word(PHASOR_ONLY, "f16") +
    has_word(PHASOR_ONLY, "bf16") +
    has_word(PHASOR_ONLY, "q8") +
    has_word(PHASOR_ONLY, "q4") +
    has_word(PHASOR_ONLY, "q8r") +
    has_word(PHASOR_ONLY, "q4m") +
    has_word(PHASOR_ONLY, "q4t") +
    has_word(PHASOR_ONLY, "q2") +
    has_word(PHASOR_ONLY, "q1") +
    has_word(PHASOR_ONLY, "q2r") +
    has_word(PHASOR_ONLY, "q6") +
    has_word(PHASOR_ONLY, "q3") +
    has_word(PHASOR_ONLY, "q5m");

// What this build reads a matrix of, a bit by code.
constexpr uint32_t kMatrixTypes =
    1u << 1 |
    (kHasF16 ? 1u << 2 : 0u) |
    (kHasBf16 ? 1u << 3 : 0u) |
    (kHasQ8 ? 1u << 4 : 0u) |
    (kHasQ4 ? 1u << 5 : 0u) |
    (kHasQ8r ? 1u << 7 : 0u) |
    (kHasQ8r ? 1u << 8 : 0u) |
    (kHasQ4m ? 1u << 9 : 0u) |
    (kHasQ4m ? 1u << 10 : 0u) |
    (kHasQ4t ? 1u << 11 : 0u) |
    (kHasQ2 ? 1u << 12 : 0u) |
    (kHasQ1 ? 1u << 13 : 0u) |
    (kHasQ2r ? 1u << 14 : 0u) |
    (kHasQ6 ? 1u << 15 : 0u) |
    (kHasQ4t ? 1u << 16 : 0u) |
    (kHasQ3 ? 1u << 17 : 0u) |
    (kHasQ2 ? 1u << 18 : 0u) |
    (kHasQ5m ? 1u << 19 : 0u) |
    (kHasQ5m ? 1u << 20 : 0u);
// Whether it has types with a scale for each group, and with one for each row.
constexpr bool kHasGroups =
    kHasQ8 || kHasQ4 || kHasQ4m || kHasQ4t || kHasQ2 || kHasQ1 || kHasQ6 || kHasQ3 || kHasQ5m;
constexpr bool kHasRows = kHasQ8r || kHasQ2r;
constexpr bool kHasMinima = kHasQ4m || kHasQ5m;
constexpr bool kHasCoded = kHasQ6 || kHasQ4t || kHasQ3;
constexpr bool kHasSplit = kHasQ6 || kHasQ3 || kHasQ5m;  // codes in two fields
constexpr bool kHasTables = kHasQ4t;
constexpr bool kHasShared = kHasQ2 || kHasQ1;

constexpr bool no_matrix_type(Type type) { return type == Type::f64; }
// A scale for each group of 32, and a minimum too; a scale for each row, in f32.
constexpr bool minimum_type(Type type) {
  return type == Type::q4m ||
         type == Type::q4k ||
         type == Type::q5m ||
         type == Type::q5k;
}
constexpr bool grouped_type(Type type) {
  return type == Type::q8 ||
         type == Type::q4 ||
         type == Type::q4m ||
         type == Type::q4k ||
         type == Type::q4t ||
         type == Type::q2 ||
         type == Type::q1 ||
         type == Type::q6 ||
         type == Type::q4x ||
         type == Type::q3 ||
         type == Type::q2w ||
         type == Type::q5m ||
         type == Type::q5k;
}
// A scale is a signed code times an f16 number, and a group has two of them.
constexpr bool coded_type(Type type) {
  return type == Type::q6 ||
         type == Type::q4x ||
         type == Type::q3;
}
constexpr bool fine_type(Type type) { return type == Type::q6 || type == Type::q3; }
constexpr bool whole_type(Type type) {
  return type == Type::q8r ||
         type == Type::q8rh ||
         type == Type::q2r;
}
constexpr bool quantized_type(Type type) {
  return type == Type::q8 ||
         type == Type::q4 ||
         type == Type::q8r ||
         type == Type::q8rh ||
         type == Type::q4m ||
         type == Type::q4k ||
         type == Type::q4t ||
         type == Type::q2 ||
         type == Type::q1 ||
         type == Type::q2r ||
         type == Type::q6 ||
         type == Type::q4x ||
         type == Type::q3 ||
         type == Type::q2w ||
         type == Type::q5m ||
         type == Type::q5k;
}
// The same; false where a build has none of them.
constexpr bool has_minima(Type type) { return kHasMinima && minimum_type(type); }
constexpr bool has_coded(Type type) { return kHasCoded && coded_type(type); }
constexpr bool has_row_scale(Type type) { return kHasRows && whole_type(type); }
// The inputs are rotated; two values lie side by side in a panel.
constexpr bool rotated_type(Type type) { return type == Type::q8rh; }
constexpr bool pair_type(Type type) { return type == Type::bf16; }
constexpr unsigned value_bits(Type type) {
  switch (type) {
    case Type::f32:
      return 32;
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::q8:
    case Type::q8r:
    case Type::q8rh:
      return 8;
    case Type::q4:
    case Type::q4m:
    case Type::q4k:
    case Type::q4t:
    case Type::q4x:
      return 4;
    case Type::f64:
      return 64;
    case Type::q2:
    case Type::q2r:
    case Type::q2w:
      return 2;
    case Type::q1:
      return 1;
    case Type::q6:
      return 6;
    case Type::q3:
      return 3;
    case Type::q5m:
    case Type::q5k:
      return 5;
    default:
      return 0;
  }
}
// A code is an index of a table of 16 int8; and a panel begins with that.
constexpr bool lookup_type(Type type) { return type == Type::q4t || type == Type::q4x; }
constexpr bool table_type(Type type) { return type == Type::q4t; }
// The table that floats are rounded to, and that of types whose panels have none.
alignas(16) constexpr int8_t kRoundedTable[] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// No float is rounded to it.
constexpr bool given_type(Type type) {
  return type == Type::q2 ||
         type == Type::q1 ||
         type == Type::q2r ||
         type == Type::q2w;
}
// Groups of 32 that share a scale, where they are more than one.
constexpr unsigned shared_groups(Type type) {
  switch (type) {
    case Type::q2:
    case Type::q1:
      return 4;
    case Type::q2w:
      return 8;
    default:
      return 0;
  }
}
// What a code n stands for: step·n − less, and of other types 0.
constexpr unsigned code_step(Type type) {
  switch (type) {
    case Type::q4:
    case Type::q4m:
    case Type::q4k:
    case Type::q2:
    case Type::q2r:
    case Type::q6:
    case Type::q3:
    case Type::q2w:
    case Type::q5m:
    case Type::q5k:
      return 1;
    case Type::q1:
      return 2;
    default:
      return 0;
  }
}
constexpr unsigned code_less(Type type) {
  switch (type) {
    case Type::q4:
      return 8;
    case Type::q2:
    case Type::q1:
    case Type::q2r:
    case Type::q2w:
      return 1;
    case Type::q6:
      return 32;
    case Type::q3:
      return 4;
    default:
      return 0;
  }
}
// Of a record of scales, and of minima: its bytes, and the groups that it is of.
constexpr unsigned record_bytes(Type type) {
  switch (type) {
    case Type::q4m:
    case Type::q5m:
      return 4;
    case Type::q4k:
    case Type::q5k:
      return 16;
    case Type::q6:
      return 18;
    case Type::q4x:
      return 8;
    case Type::q3:
      return 14;
    default:
      return 0;
  }
}
constexpr unsigned record_groups(Type type) {
  switch (type) {
    case Type::q4m:
    case Type::q5m:
      return 1;
    case Type::q4k:
    case Type::q6:
    case Type::q4x:
    case Type::q3:
    case Type::q5k:
      return 8;
    default:
      return 0;
  }
}
// Bits of a scale that is a code.
constexpr unsigned scale_bits(Type type) {
  switch (type) {
    case Type::q6:
      return 8;
    case Type::q4x:
    case Type::q3:
      return 6;
    default:
      return 0;
  }
}
// The type whose kernels it takes.
constexpr Type product_type(Type type) {
  return type == Type::q8rh ? Type::q8r : type;
}

// ROW(type, the struct of its weights in a level, whether it is built, …).
#define PHASOR_FLOAT_TYPES(ROW, ...)     \
  ROW(f32, F32, true, __VA_ARGS__)       \
  ROW(f16, F16, kHasF16, __VA_ARGS__)    \
  ROW(bf16, Bf16, kHasBf16, __VA_ARGS__)
#define PHASOR_INT8_TYPES(ROW, ...)   \
  ROW(q8, Q8, kHasQ8, __VA_ARGS__)    \
  ROW(q4, Q4, kHasQ4, __VA_ARGS__)    \
  ROW(q8r, Q8r, kHasQ8r, __VA_ARGS__) \
  ROW(q4m, Q4m, kHasQ4m, __VA_ARGS__) \
  ROW(q4k, Q4k, kHasQ4m, __VA_ARGS__) \
  ROW(q4t, Q4t, kHasQ4t, __VA_ARGS__) \
  ROW(q2, Q2, kHasQ2, __VA_ARGS__)    \
  ROW(q1, Q1, kHasQ1, __VA_ARGS__)    \
  ROW(q2r, Q2r, kHasQ2r, __VA_ARGS__) \
  ROW(q6, Q6, kHasQ6, __VA_ARGS__)    \
  ROW(q4x, Q4x, kHasQ4t, __VA_ARGS__) \
  ROW(q3, Q3, kHasQ3, __VA_ARGS__)    \
  ROW(q2w, Q2w, kHasQ2, __VA_ARGS__)  \
  ROW(q5m, Q5m, kHasQ5m, __VA_ARGS__) \
  ROW(q5k, Q5k, kHasQ5m, __VA_ARGS__)

}  // namespace phasor
