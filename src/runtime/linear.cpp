#include "linear.h"

namespace phasor {
namespace {

// kPartQuantised for rows of `groups` groups.
struct Int8Rows {
  Rows<int8_t> values;  // (chunk, groups, 32)
  Rows<float> scales;   // (chunk, groups)
  Rows<int32_t> sums;   // (chunk, groups)
};

Int8Rows int8_rows(const Pass& pass, uint64_t groups) {
  const Session& s = pass.session;
  const uint64_t chunk = pass.plan.chunk, most = chunk * pass.plan.groups;
  const uint64_t scales = most * kGroup, sums = scales + most * sizeof(float);
  return {s.span<int8_t>(kPartQuantised, 0, scales).rows(chunk, groups * kGroup),
          s.span<float>(kPartQuantised, scales, most).rows(chunk, groups),
          s.span<int32_t>(kPartQuantised, sums, most).rows(chunk, groups)};
}

}  // namespace

void quantise(const Chunk& c, LinearInput* in, Type type) noexcept {
  if (!quantised_type(type) || in->quantised) return;
  const uint64_t groups = groups_of(in->cols);
  const Int8Rows to = int8_rows(c, groups);
  c.each_row(in->cols, [&](uint32_t r) {
    c.kernels.quantize_row(to.values.row(r, groups * kGroup), to.scales.row(r, groups),
                           to.sums.row(r, groups), in->x.row(r, in->cols), in->cols);
  });
  in->quantised = true;
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
  if (quantised_type(type)) {
    const uint64_t groups = groups_of(in.cols);
    const Int8Rows q = int8_rows(c, groups);
    (type == Type::q8 ? k.linear_q8 : k.linear_q4)(
        y, ldy, q.values.rows(0, c.count, groups * kGroup), q.scales.rows(0, c.count, groups),
        q.sums.rows(0, c.count, groups), c.count, w, part_bias, bias_n, panels,
        static_cast<size_t>(groups));
    return;
  }
  const auto multiply = type == Type::f32   ? k.linear_f32
                        : type == Type::f16 ? k.linear_f16
                                            : k.linear_bf16;
  multiply(y, ldy, in.x.rows(0, c.count, in.cols), static_cast<size_t>(in.x.stride()), c.count, w,
           part_bias, bias_n, panels, in.cols);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput* in, const Linear& layer,
            uint32_t first, uint32_t panels) noexcept {
  quantise(c, in, layer.weight.type);
  const auto part = [&](uint32_t begin, uint32_t end, uint32_t) {
    linear_part(c, y.right(uint64_t(begin) * kLanes), *in, layer, first + begin, first + end);
  };
  spread(c.session, panels, linear_cost(c, *in, panels), part);
}

void linear(const Chunk& c, const Rows<float>& y, LinearInput in, const Linear& layer) noexcept {
  linear(c, y, &in, layer, 0, layer.weight.panels);
}

}  // namespace phasor
