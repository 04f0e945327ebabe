// One row of a table to f32: the embedding look-up. Exact, so there is one version for every level.
#pragma once
#include "../layout.h"

namespace phasor {

// y (cols) = row `row` of a matrix in panel16 or rows layout (quantized: scale · value, one
// multiplication, which is exact of coded types; one addition of a minimum where there are any, of
// q8rh the rotation back; the others exact). `data` is the tensor's first byte; `rows` its true
// number of rows (the rows layout of quantized types needs it to find the values). rotated: the
// matrix has rotated inputs, and its row is rotated back too.
void gather_row(float* y, const void* data, Type type, Layout layout, size_t rows, size_t cols,
                size_t row, bool rotated = false) noexcept;

// A rotated block (rule 1.19): x (block) becomes H·x · scale/block, H Sylvester's matrix of ±1. It
// is divided by its length first, so that no sum overflows; then butterflies of distance 1, 2, 4 …,
// of x[i] and x[i + distance] their sum and their difference; the scale last. With rotation_scale
// it takes inputs there, and weights that were rotated back.
void rotate_block(float* x, size_t block, float scale) noexcept;

// The scale and the minimum of a group of a type with minima: a code n stands for n·scale + least.
// Both are exact.
struct Grid {
  float scale, least;
};
// Of row `row` (of a panel: of its 16) and group g. plane: where the panel or the tensor begins.
Grid grid_at(const unsigned char* plane, Type type, Layout layout, size_t groups, size_t row,
             size_t g) noexcept;

// Scale i of a row of a coded type, of scale_span columns: a code times an f16 number, exact.
float coded_scale(const unsigned char* plane, Type type, Layout layout, size_t groups, size_t row,
                  size_t i) noexcept;

float widen_f16(uint16_t h) noexcept;  // exact, subnormals included (1.5)
float widen_bf16(uint16_t h) noexcept;
// The nearest f16, ties to even; what is too large becomes an infinity, a NaN stays one (1.8).
uint16_t narrow_f16(float x) noexcept;

// sin and cos of position·inv_freq, reduced and evaluated in double by the project's own code
// (1.10), rounded to f32.
void sincos_row(float* s, float* c, size_t n, const unsigned char* inv_freq_f64,
                uint64_t position) noexcept;

// sin and cos of x in double, own reduction and series, no C library. |x| ≤ 2^31, else NaN;
// absolute error below 2^-52.
void sin_cos(double x, double* s, double* c) noexcept;

}  // namespace phasor
