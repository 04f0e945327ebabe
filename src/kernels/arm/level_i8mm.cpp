// NEON with SMMLA (i8mm, ARMv8.6). Flags: -march=armv8.2-a+dotprod+i8mm
// Only q8r is compiled here: its sums are zipped apart once, at the end of K, where q8's are at the
// end of each group. The rest of the level is SDOT's and NEON's (level_neon.cpp has the table).
#include "../products.hpp"
#include "../quantized.hpp"
#include "int8_neon.hpp"

namespace phasor {
namespace {

// SMMLA takes two rows by two outputs, eight steps of k at once: the sums of a quarter of a panel
// and two rows are two registers, of outputs 0, 1 and 2, 3. A tile of R rows by Q quarters has R·Q.
template <size_t R, size_t Q>
struct Sums {
  int32x4_t v[R / 2][Q][2];
};

PHASOR_INLINE int8x16_t halves(int8x16_t a, int8x16_t b, bool high) {
  const int64x2_t x = vreinterpretq_s64_s8(a), y = vreinterpretq_s64_s8(b);
  return vreinterpretq_s8_s64(high ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
}
PHASOR_INLINE int32x4_t words(const unsigned char* p) {
  return vreinterpretq_s32_u8(vld1q_u8(p));
}

// Sixteen steps of k: rows of x lie `stride` bytes apart, w is at the tile's first output.
template <size_t R, size_t Q>
PHASOR_INLINE void add_products(Sums<R, Q>& s, const int8_t* x, size_t stride,
                                const unsigned char* w) {
  int8x16_t pairs[R / 2][2];
  PHASOR_UNROLL for (size_t r = 0; r < R / 2; ++r) {
    const int8x16_t a = vld1q_s8(x + 2 * r * stride), b = vld1q_s8(x + (2 * r + 1) * stride);
    pairs[r][0] = halves(a, b, false);
    pairs[r][1] = halves(a, b, true);
  }
  PHASOR_UNROLL for (size_t j = 0; j < 2; ++j)
    PHASOR_UNROLL for (size_t q = 0; q < Q; ++q) {
      const int32x4_t a = words(w + j * 128 + q * 16), b = words(w + j * 128 + 64 + q * 16);
      const int8x16_t first = vreinterpretq_s8_s32(vzip1q_s32(a, b)),
                      second = vreinterpretq_s8_s32(vzip2q_s32(a, b));
      PHASOR_UNROLL for (size_t r = 0; r < R / 2; ++r) {
        s.v[r][q][0] = vmmlaq_s32(s.v[r][q][0], pairs[r][j], first);
        s.v[r][q][1] = vmmlaq_s32(s.v[r][q][1], pairs[r][j], second);
        // in their registers: gcc would move them to others and back
        __asm__("" : "+w"(s.v[r][q][0]), "+w"(s.v[r][q][1]));
      }
    }
}

// Outputs 4·first … 4·(first + Q) − 1 of R rows and a panel, into acc.
template <size_t R, size_t Q>
PHASOR_INLINE void whole_part(VNeon (&acc)[R][1], size_t first, const Int8Rows& in,
                              const unsigned char* panel) {
  const size_t stride = in.groups * kGroup;
  Sums<R, Q> s;
  PHASOR_UNROLL for (size_t r = 0; r < R / 2; ++r)
    PHASOR_UNROLL for (size_t q = 0; q < Q; ++q) s.v[r][q][0] = s.v[r][q][1] = vdupq_n_s32(0);
  const unsigned char* w = panel + kLanes * sizeof(float) + first * 16;
  for (size_t k = 0; k < stride; k += 16, w += 16 * kLanes)
    add_products(s, in.q + k, stride, w);
  PHASOR_UNROLL for (size_t q = 0; q < Q; ++q) {
    const float32x4_t sw = vld1q_f32(reinterpret_cast<const float*>(panel) + (first + q) * 4);
    PHASOR_UNROLL for (size_t r = 0; r < R; ++r) {
      const int64x2_t a = vreinterpretq_s64_s32(s.v[r / 2][q][0]),
                      b = vreinterpretq_s64_s32(s.v[r / 2][q][1]);
      const int32x4_t sum =
          vreinterpretq_s32_s64(r % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
      acc[r][0].v[first + q] =
          VNeon::B(vmulq_f32(vcvtq_f32_s32(sum), vmulq_n_f32(sw, in.scale[r])));
    }
  }
}

// R rows by a panel. Outputs and rows by value: what is stored could be theirs otherwise.
template <size_t R>
PHASOR_APART void whole_rows(Outputs out, Int8Rows in, const unsigned char* panel, size_t at) {
  constexpr size_t kQuarters = 16 / R;
  VNeon acc[R][1];
  PHASOR_UNROLL for (size_t first = 0; first < 4; first += kQuarters)
    whole_part<R, kQuarters>(acc, first, in, panel);
  store_tile(out, acc, at);
}

}  // namespace

// Tiles of eight rows by half a panel and of four by a whole one; what SDOT does with the rest.
void I8mm::linear_q8r(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum,
                      size_t rows, const void* w, const float* bias, size_t bias_n, size_t panels,
                      size_t groups) {
  const size_t tiled = rows / 4 * 4;
  if (tiled != rows)
    Dotprod::linear_q8r(y + tiled * ldy, ldy, xq + tiled * groups * kGroup, xs + tiled,
                        xsum + tiled, rows - tiled, w, bias, bias_n, panels, groups);
  if (tiled == 0) return;
  const Outputs out = {y, ldy, bias, bias_n};
  const Int8Rows in = {xq, xs, xsum, groups, 1};
  const size_t bytes = kLanes * (sizeof(float) + groups * kGroup);
  const unsigned char* panel = static_cast<const unsigned char*>(w);
  for (size_t p = 0; p < panels; ++p, panel += bytes) {
    size_t r = 0;
    for (; r + 8 <= tiled; r += 8) whole_rows<8>(out.from(r), in.from(r), panel, p * kLanes);
    if (r < tiled) whole_rows<4>(out.from(r), in.from(r), panel, p * kLanes);
  }
}

}  // namespace phasor
