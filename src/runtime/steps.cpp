#include "steps.h"

#include "positions.h"
#include "rows.h"

namespace phasor {

void norm_rows(const Pass& pass, const Rows<float>& y, const Rows<const float>& x, uint32_t width,
               const Chunk& c, const NormTensors& n, uint32_t kind, float eps,
               uint32_t at) noexcept {
  const float* g = pass.model.floats(n.weight) + at;
  const float* b = n.bias ? pass.model.floats(n.bias) + at : nullptr;
  const bool rms = kHasRmsNorm && (!kHasLayerNorm || kind == kNormRms);
  const auto normalise = rms ? pass.kernels.rms_norm : pass.kernels.layer_norm;
  pass.each_row(c, uint64_t(width) * 4, [&](uint32_t r) {
    const float square = normalise(y.row(r, width), x.row(r, width), g, b, width, eps);
    // Equal values and no epsilon: a division by zero, which a finite mean square does not show.
    if (!is_finite(square) || !(square + eps > 0)) c.not_finite[r] = 1;
  });
}

void norm(const Pass& pass, const Rows<float>& y, const Rows<const float>& x, const Chunk& c,
          const NormTensors& n, uint32_t kind, float eps) noexcept {
  norm_rows(pass, y, x, pass.width(c), c, n, kind, eps);
}

void norm_heads(const Pass& pass, const Rows<float>& x, uint32_t heads, const Chunk& c,
                const NormTensors& n, const KindDescriptor& k) noexcept {
  if (!n.weight) return;
  if (k.qk_norm_over == kOverAllHeads)
    return norm_rows(pass, x, x, heads * k.head_width, c, n, k.qk_norm, k.norm_eps);
  for (uint32_t h = 0; h < heads; ++h) {
    const Rows<float> head = x.right(h * k.head_width);
    const uint32_t at = k.qk_norm_over == kOverOwnHead ? h * k.head_width : 0;
    norm_rows(pass, head, head, k.head_width, c, n, k.qk_norm, k.norm_eps, at);
  }
}

LinearInput sublayer_input(const Pass& pass, const Chunk& c, const KindDescriptor& k,
                           const NormTensors& before, const Tensor& scale) noexcept {
  const uint32_t width = pass.width(c);
  const Rows<float> normed = pass.normed();
  if (k.norm_place == kNormSublayer) test_finite(c, c.x, width);  // no norm sees x itself
  if (!before.weight && !scale) return input_of(c.x, width, c.count);
  if (before.weight) norm(pass, normed, c.x, c, before, k.norm, k.norm_eps);
  for (uint32_t r = 0; r < c.count && scale; ++r) {
    float* y = normed.row(r, width);
    if (!before.weight) memcpy(y, c.x.row(r, width), width * sizeof(float));
    pass.kernels.mul(y, pass.model.floats(scale), width);
  }
  return input_of(normed, width, c.count);
}

void residual(const Pass& pass, const Chunk& c, const KindDescriptor& k,
              const NormTensors& after) noexcept {
  const uint32_t width = pass.width(c);
  const bool of_sublayer = k.norm_place == kNormBoth || k.norm_place == kNormSublayer;
  const Rows<float> given = pass.normed();
  if (k.residual_scale != 1)
    pass.each_row(c, width, [&](uint32_t r) {
      pass.kernels.scale(given.row(r, width), given.row(r, width), width, k.residual_scale);
    });
  if (of_sublayer) norm(pass, given, given, c, after, k.norm, k.norm_eps);
  pass.each_row(c, width, [&](uint32_t r) {
    pass.kernels.add(c.x.row(r, width), given.row(r, width), width);
  });
  if (after.weight && !of_sublayer) norm(pass, c.x, c.x, c, after, k.norm, k.norm_eps);
}

void rotate(const Pass& pass, const Chunk& c, const Rows<float>& x, uint32_t heads,
            uint32_t kind) noexcept {
  const KindDescriptor& k = pass.model.kind(kind);
  if (k.rotary_width == 0) return;
  pass.each_row(c, uint64_t(heads) * k.rotary_width * 4, [&](uint32_t r) {
    rotate_row(&pass.session, x.row(r, heads * k.head_width), heads, kind, c.rows[r].position, r);
  });
}

void clip(const Pass& pass, const Rows<float>& x, uint32_t width, const Chunk& c,
          float limit) noexcept {
  if (limit == 0) return;
  pass.each_row(c, width, [&](uint32_t r) { pass.kernels.clip(x.row(r, width), width, limit); });
}

ActivationKernel activation(const Pass& pass, uint32_t which) noexcept {
  const Kernels& k = pass.kernels;
  return which == kRelu       ? k.relu
         : which == kGeluErf  ? k.gelu_erf
         : which == kGeluTanh ? k.gelu_tanh
                              : k.silu;
}

}  // namespace phasor
