#include "convolution.h"

namespace phasor {
namespace {

// The row of u at a position of the row's sequence: pages have [16][width] of a layer.
float* row_at(const Session& s, const Heads& h, const Row& row, uint32_t position,
              uint32_t width) {
  const uint64_t floats = uint64_t{position % kSlots} * width,
                 page = h.page(s, row, position / kSlots) * h.page_bytes;
  return s.span<float>(h.part, page + h.offset, uint64_t{kSlots} * width).at(floats, width);
}

}  // namespace

void convolve(const Chunk& c, const Heads& h, const Layer& l) noexcept {
  const Session& s = c.session;
  const uint32_t width = h.heads * h.width, taps = h.window;
  const Rows<float> q = c.wide(), k = q.right(lanes(width)), v = k.right(lanes(width));
  const float* const w = c.model.floats(l.taps);
  const float* const bias = c.model.floats(l.taps_bias);
  c.each_row(width, [&](uint32_t r) {
    c.kernels.mul(k.row(r, width), v.row(r, width), width);
    memcpy(row_at(s, h, c.rows[r], c.rows[r].position, width), k.row(r, width),
           width * sizeof(float));
  });
  c.each_row(uint64_t{width} * taps, [&](uint32_t r) {
    float* y = c.attention().row(r, width);
    memset(y, 0, width * sizeof(float));
    const uint32_t end = c.rows[r].position + 1;  // the first tap's row is end − taps
    for (uint32_t i = end < taps ? taps - end : 0; i < taps; ++i)
      c.kernels.mul_add(y, row_at(s, h, c.rows[r], end + i - taps, width), w + i * width, width);
    if (bias != nullptr) c.kernels.add(y, bias, width);
    c.kernels.mul(y, q.row(r, width), width);
  });
}

}  // namespace phasor
