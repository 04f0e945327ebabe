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
  const Plan& p = pass.plan;
  const uint64_t most = uint64_t(p.chunk) * p.groups;
  const uint64_t scales = most * kGroup, sums = scales + most * sizeof(float);
  return {pass.session.span<int8_t>(kPartQuantised, 0, scales).rows(p.chunk, groups * kGroup),
          pass.session.span<float>(kPartQuantised, scales, most).rows(p.chunk, groups),
          pass.session.span<int32_t>(kPartQuantised, sums, most).rows(p.chunk, groups)};
}

}  // namespace

void quantise(const Pass& pass, LinearInput* in, Type type) noexcept {
  if (!quantised_type(type) || in->quantised) return;
  const uint64_t groups = groups_of(in->cols), work = uint64_t(in->count) * in->cols;
  const Int8Rows to = int8_rows(pass, groups);
  spread(&pass.session, in->count, work, [&](uint32_t begin, uint32_t end, uint32_t) {
    for (uint64_t r = begin; r < end; ++r)
      pass.kernels.quantize_row(to.values.row(r, groups * kGroup), to.scales.row(r, groups),
                                to.sums.row(r, groups), in->x.row(r, in->cols), in->cols);
  });
  in->quantised = true;
}

void linear_part(const Pass& pass, const Rows<float>& out, const LinearInput& in,
                 const Linear& layer, uint32_t begin, uint32_t end) noexcept {
  const Kernels& k = pass.kernels;
  const Type type = layer.weight.type;
  const unsigned char* w = pass.model.at(layer.weight.offset) + begin * panel_bytes(type, in.cols);
  const float* bias = pass.model.floats(layer.bias);
  const uint32_t row = begin * static_cast<uint32_t>(kLanes), panels = end - begin;
  const float* part_bias = bias != nullptr && row < layer.bias.rows ? bias + row : nullptr;
  const uint32_t bias_n = part_bias == nullptr ? 0 : layer.bias.rows - row;
  const size_t ldy = static_cast<size_t>(out.stride()), ldx = static_cast<size_t>(in.x.stride());
  float* y = out.rows(0, in.count, uint64_t(panels) * kLanes);
  const float* x = in.x.rows(0, in.count, in.cols);
  if (type == Type::f32) {
    k.linear_f32(y, ldy, x, ldx, in.count, reinterpret_cast<const float*>(w), part_bias, bias_n,
                 panels, in.cols);
  } else if (quantised_type(type)) {
    const uint64_t groups = groups_of(in.cols);
    const Int8Rows q = int8_rows(pass, groups);
    (type == Type::q8 ? k.linear_q8 : k.linear_q4)(
        y, ldy, q.values.rows(0, in.count, groups * kGroup), q.scales.rows(0, in.count, groups),
        q.sums.rows(0, in.count, groups), in.count, w, part_bias, bias_n, panels,
        static_cast<size_t>(groups));
  } else {
    (type == Type::f16 ? k.linear_f16 : k.linear_bf16)(y, ldy, x, ldx, in.count, w, part_bias,
                                                       bias_n, panels, in.cols);
  }
}

void linear(const Pass& pass, const Rows<float>& y, LinearInput* in, const Linear& layer,
            uint32_t first, uint32_t panels) noexcept {
  quantise(pass, in, layer.weight.type);
  const uint64_t cost = linear_cost(*in, panels);
  spread(&pass.session, panels, cost, [&](uint32_t begin, uint32_t end, uint32_t) {
    linear_part(pass, y.right(uint64_t(begin) * kLanes), *in, layer, first + begin, first + end);
  });
}

void linear(const Pass& pass, const Rows<float>& y, LinearInput in, const Linear& layer) noexcept {
  linear(pass, y, &in, layer, 0, layer.weight.panels);
}

}  // namespace phasor
