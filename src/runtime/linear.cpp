#include "linear.h"

namespace phasor {
namespace {

// Rows of one input in whole numbers, as kPartQuantized holds them: the rounding of the matrix at
// hand, of 16 bits in two planes.
struct IntRows {
  Rows<int8_t> values;  // (chunk, planes, groups, 32)
  Rows<float> scales;   // (chunk, scales)
  Rows<int32_t> sums;   // (chunk, planes, scales)
  uint64_t groups, in_row, scaled, summed;
};

IntRows int_rows(const Pass& pass, const Tensor& weight) {
  const Session& s = pass.session;
  const bool whole = has_row_scale(weight.type);
  const uint32_t rounding = rounding_of(weight);
  const uint64_t chunk = pass.plan.chunk, planes = planes_of(rounding),
                 groups = whole ? whole_groups_of(weight.cols) : groups_of(weight.cols),
                 scaled = whole ? 1 : groups, in_row = planes * groups * kGroup,
                 summed = planes * scaled;
  const RoundedRows at = rounded_rows(pass.plan, rounding);
  const uint64_t scales = at.at + at.values, sums = scales + at.scales;
  return {s.span<int8_t>(kPartQuantized, at.at, at.values).rows(chunk, in_row),
          s.span<float>(kPartQuantized, scales, at.scales / sizeof(float)).rows(chunk, scaled),
          s.span<int32_t>(kPartQuantized, sums, at.sums / sizeof(int32_t)).rows(chunk, summed),
          groups,
          in_row,
          scaled,
          summed};
}

}  // namespace

void quantize(const Chunk& c, LinearInput* in, const Tensor& weight) noexcept {
  const Type type = weight.type;
  const uint32_t bit = 1u << rounding_of(weight);  // each is computed at most once
  if (!quantized_type(type) || (in->rounded & bit) != 0) return;
  const IntRows to = int_rows(c, weight);
  const bool wide = has_wide_inputs(weight);
  const auto row = wide ? c.kernels.quantize_row16 : c.kernels.quantize_row;
  const auto whole = has_rotated_inputs(weight) ? c.kernels.quantize_rotated
                     : wide                     ? c.kernels.quantize_whole16
                                                : c.kernels.quantize_whole;
  const bool rotated = has_rotated_inputs(weight) || rotated_type(type);
  const size_t block = rotated ? rotation_block(in->cols) : 0;
  c.each_row(in->cols, [&](uint32_t r) {
    int8_t* q = to.values.row(r, to.in_row);
    float* scale = to.scales.row(r, to.scaled);
    int32_t* sum = to.sums.row(r, to.summed);
    const float* x = in->x.row(r, in->cols);
    if (rotated || has_row_scale(type))
      whole(q, scale, sum, x, in->cols, block);
    else
      row(q, scale, sum, x, in->cols);
  });
  in->rounded |= bit;
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
    const IntRows q = int_rows(c, layer.weight);
    const auto product = has_wide_inputs(layer.weight) ? k.linear_int16(type) : k.linear_int8(type);
    product(y, ldy, q.values.rows(0, c.count, q.in_row), q.scales.rows(0, c.count, q.scaled),
            q.sums.rows(0, c.count, q.summed), c.count, w, part_bias, bias_n, panels,
            static_cast<size_t>(q.groups));
    return;
  }
  k.linear_float(type)(y, ldy, in.x.rows(0, c.count, in.cols), static_cast<size_t>(in.x.stride()),
                       c.count, w, part_bias, bias_n, panels, in.cols);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput* in, const Linear& layer,
            uint32_t first, uint32_t panels) noexcept {
  quantize(c, in, layer.weight);
  const auto part = [&](uint32_t begin, uint32_t end, uint32_t) {
    linear_part(c, y.right(uint64_t(begin) * kLanes), *in, layer, first + begin, first + end);
  };
  spread(c.session, panels, linear_cost(c, *in, panels), part);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput in, const Linear& layer) noexcept {
  linear(c, y, &in, layer, 0, layer.weight.panels);
}

}  // namespace phasor
