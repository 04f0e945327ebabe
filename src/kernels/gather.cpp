// Rows of tables to f32, f16 to f32, and sin and cos: plain code, one version for every level.
// Includes the layout and nothing of the machine; needs double arithmetic (in software on small
// Cortex-M).
#include "gather.h"

#include "../build.h"
#include "scalar_math.h"

namespace phasor {
namespace {

// π/2 in three parts of 22 bits, so that their products with a 31-bit integer are exact, and the
// rest (2^-122).
constexpr double kPio2[4] = {0x1.921fb00000000p+0, 0x1.5110b00000000p-22, 0x1.1846980000000p-44,
                             0x1.3198a2e037073p-69};
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// adding it rounds to an integer below 2^51, whose low bits it then holds
constexpr double kRoundDouble = 0x1.8p52;

// s + the error of a + b (Knuth 1969): hi + lo becomes hi + lo + b, with lo collecting what hi
// cannot hold.
PHASOR_INLINE void add_to(double& hi, double& lo, double b) {
  const double s = hi + b, t = s - hi;
  lo += (hi - (s - t)) + (b - t);
  hi = s;
}

}  // namespace

float widen_f16(uint16_t h) noexcept {
  const uint32_t sign = (h & 0x8000u) << 16, body = h & 0x7fffu;
  if (body >= 0x7c00u) return float_of(sign | 0x7f800000u | (body & 0x3ffu) << 13);
  if (body >= 0x0400u) return float_of(sign | ((body << 13) + (112u << 23)));
  // A subnormal is body·2^-24; both are exact in f32, and never subnormal there.
  const float x = static_cast<float>(body) * 0x1p-24f;
  return sign != 0 ? -x : x;
}

uint16_t narrow_f16(float x) noexcept {
  const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u, body = u & 0x7fffffffu;
  if (body > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (body >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and more
  if (body < 0x38800000u) {  // below 2^-14: a multiple of 2^-24, the sum's last bit is 2^-24
    const float rounded = float_of(body) + 0x1p-1f;
    return static_cast<uint16_t>(sign | (bits_of(rounded) - 0x3f000000u));
  }
  const uint32_t exponent = body - (112u << 23);
  return static_cast<uint16_t>(sign | ((exponent + 0xfffu + (exponent >> 13 & 1u)) >> 13));
}

float widen_bf16(uint16_t h) noexcept { return float_of(uint32_t{h} << 16); }

void rotate_block(float* x, size_t block, float scale) noexcept {
  const float first = 1.0f / static_cast<float>(block);
  for (size_t i = 0; i < block; ++i) x[i] = x[i] * first;
  for (size_t distance = 1; distance < block; distance *= 2)
    for (float* pair = x; pair != x + block; pair += 2 * distance)
      for (size_t i = 0; i < distance; ++i) {
        const float a = pair[i], b = pair[i + distance];
        pair[i] = a + b;
        pair[i + distance] = a - b;
      }
  for (size_t i = 0; i < block; ++i) x[i] = x[i] * scale;
}

namespace {

float half_at(const unsigned char* p) {
  uint16_t h;
  __builtin_memcpy(&h, p, 2);
  return widen_f16(h);
}

}  // namespace

Grid grid_at(const unsigned char* plane, Type type, Layout layout, size_t groups, size_t row,
             size_t g) noexcept {
  const bool panel = layout == Layout::panel16;
  const size_t lanes = panel ? kLanes : 1;  // of what lies side by side
  if (record_groups(type) == 1) {
    const unsigned char* p = plane + 4 * (panel ? g * kLanes : row * groups + g);
    return {half_at(p + (panel ? 2 * row : 0)), half_at(p + (panel ? 2 * row : 0) + 2 * lanes)};
  }
  const size_t supers = (groups + kSuper - 1) / kSuper, s = g / kSuper;
  const unsigned char* p = plane + kSuperBytes * (panel ? s * kLanes : row * supers + s);
  const unsigned char* codes = p + 4 * lanes + (panel ? row : 0);
  const auto byte = [=](size_t i) { return static_cast<unsigned>(codes[i * lanes]); };
  if (panel) p += 2 * row;
  return {half_at(p) * static_cast<float>(scale_code(g % kSuper, byte)),
          half_at(p + 2 * lanes) * static_cast<float>(minimum_code(g % kSuper, byte))};
}

float coded_scale(const unsigned char* plane, Type type, Layout layout, size_t groups, size_t row,
                  size_t i) noexcept {
  const bool panel = layout == Layout::panel16;
  const size_t codes = record_codes(type), s = i / codes, lanes = panel ? kLanes : 1,
               o = panel ? row : 0, supers = (groups + kSuper - 1) / kSuper;
  const unsigned char* p =
      plane + record_bytes(type) * (panel ? s * kLanes : row * supers + s);
  const int code = signed_code(scale_bits(type), codes, i % codes,
                               [=](size_t b) { return p[(2 + b) * lanes + o]; });
  return half_at(p + 2 * o) * static_cast<float>(code);
}

namespace {

// The row of a type whose groups share records, whose panel or table begins at p.
void record_row(float* y, const unsigned char* p, Type type, Layout layout, size_t rows,
                size_t cols, size_t row) {
  const bool panels = layout == Layout::panel16;
  const size_t groups = static_cast<size_t>(groups_of(cols)), lanes = panels ? kLanes : 1,
               o = panels ? row % kLanes : 0;
  const unsigned bits = value_bits(type);
  const size_t bytes = code_bytes(bits) * lanes;
  const unsigned char* values =
      p + static_cast<size_t>(record_plane_bytes(type, panels ? kLanes : rows, groups));
  if (!panels) values += row * groups * bytes;
  const size_t span = scale_span(type), at = panels ? o : row;
  Grid grid = {0.0f, 0.0f};
  for (size_t k = 0; k < cols; ++k) {
    const size_t i = k / span;
    if (k % span == 0)
      grid = has_minima(type) ? grid_at(p, type, layout, groups, at, i)
                              : Grid{coded_scale(p, type, layout, groups, at, i), 0.0f};
    const unsigned n = code_at(values + k / kGroup * bytes, bits, lanes, o, k % kGroup);
    y[k] = grid.scale * static_cast<float>(code_value(type, p, n));
    if (has_minima(type)) y[k] += grid.least;
  }
}

// The row as it is stored.
void stored_row(float* y, const void* data, Type type, Layout layout, size_t rows, size_t cols,
                size_t row) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  const bool panels = layout == Layout::panel16;
  const size_t o = row % kLanes;
  if (panels) p += static_cast<size_t>(panel_bytes(type, cols)) * (row / kLanes);
  const auto half = [](const unsigned char* at) {
    uint16_t h;
    __builtin_memcpy(&h, at, 2);
    return h;
  };
  if (!quantized_type(type)) {
    for (size_t k = 0; k < cols; ++k) {
      const size_t at = !panels              ? row * cols + k
                        : pair_type(type) ? panel_index_bf16(o, k)
                                          : panel_index_f32(o, k);
      if (type == Type::f32)
        __builtin_memcpy(y + k, p + at * 4, 4);
      else
        y[k] = type == Type::f16 ? widen_f16(half(p + at * 2)) : widen_bf16(half(p + at * 2));
    }
    return;
  }
  // Value k of the row, whose bytes of values begin at `values`; its panel or table begins at p.
  const unsigned bits = value_bits(type);
  const auto value_at = [=](const unsigned char* values, size_t k) {
    const unsigned byte = values[panels ? panel_index(type, o, k) : row_index(type, cols, row, k)];
    return static_cast<float>(bits == 8 ? static_cast<int8_t>(byte)
                                        : code_value(type, p, code_in(byte, bits, k)));
  };
  if (has_row_scale(type)) {
    float scale;
    __builtin_memcpy(&scale, p + 4 * (panels ? o : row), 4);
    const unsigned char* values =
        p + (panels ? kLanes * 4 : static_cast<size_t>(round_up(rows * 4, 64)));
    for (size_t k = 0; k < cols; ++k) y[k] = scale * value_at(values, k);
    return;
  }
  if (has_minima(type) || has_coded(type))
    return record_row(y, p, type, layout, rows, cols, row);
  const size_t groups = static_cast<size_t>(groups_of(cols));
  // The scale of each group, then its values.
  const unsigned char* values =
      p + static_cast<size_t>(scale_plane_bytes(type, panels ? kLanes : rows, groups));
  float scale = 0.0f;
  for (size_t k = 0; k < cols; ++k) {
    const size_t g = k / kGroup;
    if (k % kGroup == 0)
      scale = widen_f16(half(p + static_cast<size_t>(panels ? panel_scale(type, o, g)
                                                            : row_scale(type, groups, row, g))));
    y[k] = scale * value_at(values, k);
  }
}

}  // namespace

void gather_row(float* y, const void* data, Type type, Layout layout, size_t rows, size_t cols,
                size_t row, bool rotated) noexcept {
  stored_row(y, data, type, layout, rows, cols, row);
  const size_t block = rotation_block(cols);
  for (size_t k = 0; k < cols && (rotated || (kHasRows && rotated_type(type))); k += block)
    rotate_block(y + k, block, rotation_scale(block));
}

// Reduction by Cody and Waite (1980) with a second word for what the first cannot hold; then
// Taylor's series on |r| ≤ π/4, whose first omitted term is below 2^-60. Absolute error under 2^-52
// for |x| ≤ 2^31; not a number beyond.
void sin_cos(double x, double* s, double* c) noexcept {
  if (!(x <= 0x1p31 && x >= -0x1p31)) {
    *s = *c = __builtin_nan("");
    return;
  }
  const double t = x * kTwoOverPi + kRoundDouble, n = t - kRoundDouble;
  uint64_t quadrant;
  __builtin_memcpy(&quadrant, &t, 8);
  double hi = x, lo = 0.0;
  for (double part : kPio2) add_to(hi, lo, -(n * part));
  const double r = hi + lo, rest = (hi - r) + lo;
  const double z = r * r;
  static const double sin_terms[] = {
      1.0 / 355687428096000, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800,
      1.0 / 362880,          -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
  static const double cos_terms[] = {
      -1.0 / 6402373705728000, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600,
      -1.0 / 3628800,          1.0 / 40320,          -1.0 / 720,         1.0 / 24};
  double sp = 0.0, cp = 0.0;
  for (double term : sin_terms) sp = sp * z + term;
  for (double term : cos_terms) cp = cp * z + term;
  // sin(r + rest) and cos(r + rest), first order in rest.
  const double sr = r + (sp * z * r + rest * (1.0 - 0.5 * z));
  const double cr = 1.0 - (0.5 * z - (cp * z * z - rest * r));
  const bool swap = (quadrant & 1u) != 0;
  const double a = swap ? cr : sr, b = swap ? sr : cr;
  *s = (quadrant & 2u) != 0 ? -a : a;
  *c = ((quadrant + 1) & 2u) != 0 ? -b : b;
}

void sincos_row(float* s, float* c, size_t n, const unsigned char* inv_freq_f64,
                uint64_t position) noexcept {
  for (size_t i = 0; i < n; ++i) {
    uint64_t u = 0;  // little-endian, unaligned
    for (size_t b = 8; b-- != 0;) u = u << 8 | inv_freq_f64[8 * i + b];
    double f, sd, cd;
    __builtin_memcpy(&f, &u, 8);
    sin_cos(static_cast<double>(position) * f, &sd, &cd);
    s[i] = static_cast<float>(sd);
    c[i] = static_cast<float>(cd);
  }
}

}  // namespace phasor
