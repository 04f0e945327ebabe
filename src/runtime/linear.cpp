#include "linear.h"

namespace phasor {
namespace {

// Rows of one input in int8, as kPartQuantized holds them: the rounding of the type at hand.
struct Int8Rows {
  Rows<int8_t> values;  // (chunk, groups, 32)
  Rows<float> scales;   // (chunk, scales)
  Rows<int32_t> sums;   // (chunk, scales)
  uint64_t groups, scaled;
};

Int8Rows int8_rows(const Pass& pass, Type type, uint32_t cols) {
  const Session& s = pass.session;
  const Plan& p = pass.plan;
  const bool whole = has_row_scale(type);
  const uint64_t chunk = p.chunk, groups = whole ? whole_groups_of(cols) : groups_of(cols),
                 scaled = whole ? 1 : groups, most = chunk * (whole ? 1 : p.groups);
  const Rounding place = rounding_of(p, type);
  const uint64_t scales = place.at + place.values, sums = scales + most * sizeof(float);
  return {s.span<int8_t>(kPartQuantized, place.at, place.values).rows(chunk, groups * kGroup),
          s.span<float>(kPartQuantized, scales, most).rows(chunk, scaled),
          s.span<int32_t>(kPartQuantized, sums, most).rows(chunk, scaled), groups, scaled};
}

// The roundings that an input may have at once, each computed at most once.
constexpr uint32_t rounding_bit(Type type) {
  return !has_row_scale(type) ? 1 : rotated_type(type) ? 4 : 2;
}

}  // namespace

void quantize(const Chunk& c, LinearInput* in, Type type) noexcept {
  if (!quantized_type(type) || (in->rounded & rounding_bit(type)) != 0) return;
  const Int8Rows to = int8_rows(c, type, in->cols);
  const size_t block = rotated_type(type) ? rotation_block(in->cols) : 0;
  c.each_row(in->cols, [&](uint32_t r) {
    int8_t* q = to.values.row(r, to.groups * kGroup);
    float* scale = to.scales.row(r, to.scaled);
    int32_t* sum = to.sums.row(r, to.scaled);
    const float* x = in->x.row(r, in->cols);
    if (has_row_scale(type))
      c.kernels.quantize_whole(q, scale, sum, x, in->cols, block);
    else
      c.kernels.quantize_row(q, scale, sum, x, in->cols);
  });
  in->rounded |= rounding_bit(type);
}

void linear_part(const Chunk& c, const Rows<float>& out, const LinearInput& in, const Linear& layer,
                 uint32_t begin, uint32_t end) noexcept {
  const Kernels& k = c.kernels;
  const Type type = layer.weight.type;
  const unsigned char* w = c.model.at(layer.weight.offset) + begin * panel_bytes(type, in.cols);
  const float* bias = c.model.floats(layer.bias);
  const uint32_t row = begin * kSlots, panels = end - begin;
  const bool has_bias = bias != nullptr && row < layer.bias.rows;
  const float* part_bias = has_bias ? bias + row : nullptr;
  const uint32_t bias_n = has_bias ? layer.bias.rows - row : 0;
  const size_t ldy = static_cast<size_t>(out.stride());
  float* y = out.rows(0, c.count, uint64_t(panels) * kLanes);
  if (quantized_type(type)) {
    const Int8Rows q = int8_rows(c, type, in.cols);
    k.linear_int8(type)(y, ldy, q.values.rows(0, c.count, q.groups * kGroup),
                        q.scales.rows(0, c.count, q.scaled), q.sums.rows(0, c.count, q.scaled),
                        c.count, w, part_bias, bias_n, panels, static_cast<size_t>(q.groups));
    return;
  }
  k.linear_float(type)(y, ldy, in.x.rows(0, c.count, in.cols), static_cast<size_t>(in.x.stride()),
                       c.count, w, part_bias, bias_n, panels, in.cols);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput* in, const Linear& layer,
            uint32_t first, uint32_t panels) noexcept {
  quantize(c, in, layer.weight.type);
  const auto part = [&](uint32_t begin, uint32_t end, uint32_t) {
    linear_part(c, y.right(uint64_t(begin) * kLanes), *in, layer, first + begin, first + end);
  };
  spread(c.session, panels, linear_cost(c, *in, panels), part);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput in, const Linear& layer) noexcept {
  linear(c, y, &in, layer, 0, layer.weight.panels);
}

}  // namespace phasor
