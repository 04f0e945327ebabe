// NEON with SDOT (ARMv8.2). Flags: -march=armv8.2-a+dotprod
// Only what multiplies integers is compiled here; the rest of the level is NEON's (level_neon.cpp has the table).
#include "body.hpp"
#include "int8_neon.hpp"

namespace phasor {
namespace {

struct Level : LevelNeon {
  using Int8 = Int8Dotprod;
  using Int4 = Int4Dotprod;
  // 32 registers, 4 a panel: an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
};

}  // namespace

void Dotprod::linear_q8(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const void* w, const float* bias,
                        size_t bias_n, size_t panels, size_t groups) {
  Body<Level>::linear_q8(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
}
void Dotprod::linear_q4(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, const void* w, const float* bias,
                        size_t bias_n, size_t panels, size_t groups) {
  Body<Level>::linear_q4(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);
}
uint64_t Dotprod::peak_int8(float* out, uint64_t rounds) { return Body<Level>::peak_int8(out, rounds); }

}  // namespace phasor
