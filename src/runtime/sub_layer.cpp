#include "sub_layer.h"

#include "positions.h"
#include "rows.h"

namespace phasor {

void norm_rows(const Chunk& c, const Rows<float>& y, const Rows<const float>& x, uint32_t width,
               const NormTensors& n, uint32_t kind, float eps, uint32_t at) noexcept {
  const float* g = c.model.floats(n.weight) + at;
  const float* b = n.bias ? c.model.floats(n.bias) + at : nullptr;
  const bool rms = kHasRmsNorm && (!kHasLayerNorm || kind == kNormRms);
  const auto normalize = rms ? c.kernels.rms_norm : c.kernels.layer_norm;
  c.each_row(uint64_t(width) * 4, [&](uint32_t r) {
    const float square = normalize(y.row(r, width), x.row(r, width), g, b, width, eps);
    // Equal values and no epsilon: a division by zero, which a finite mean square does not show.
    if (!is_finite(square) || !(square + eps > 0)) c.not_finite[r] = 1;
  });
}

void final_norm(const Chunk& c) noexcept {
  const StackDescriptor& d = c.descriptor();
  const NormTensors& n = c.model.final_norms[c.stack];
  if (n.weight)
    norm(c, c.x, c.x, n, d.final_norm, d.final_norm_eps);
  else
    test_finite(c, c.x, d.width);
}

void norm_heads(const Chunk& c, const Rows<float>& x, uint32_t heads, const NormTensors& n,
                const KindDescriptor& k) noexcept {
  if (!n.weight) return;
  if (k.qk_norm_over == kOverAllHeads)
    return norm_rows(c, x, x, heads * k.head_width, n, k.qk_norm, k.norm_eps);
  for (uint32_t at = 0; at < heads * k.head_width; at += k.head_width) {
    const Rows<float> head = x.right(at);
    norm_rows(c, head, head, k.head_width, n, k.qk_norm, k.norm_eps,
              k.qk_norm_over == kOverOwnHead ? at : 0);
  }
}

void norm_inside(const Chunk& c, const Rows<float>& x, uint32_t width, const NormTensors& n,
                 const KindDescriptor& k) noexcept {
  if (n.weight) norm_rows(c, x, x, width, n, k.norm, k.norm_eps);
}

void activate(const Chunk& c, const Layer& l, const KindDescriptor& k, const Rows<float>& inner,
              uint32_t width, bool gated, const Rows<float>& other) noexcept {
  const auto activation = c.kernels.activation[k.activation];
  const float* numbers = kHasXielu && l.xielu ? c.model.floats(l.xielu) : nullptr;
  c.each_row(uint64_t(width) * 4, [&](uint32_t r) {
    float* h = inner.row(r, width);
    if (numbers != nullptr)
      c.kernels.xielu(h, width, numbers);
    else
      activation(h, width);
    if (gated) c.kernels.mul(h, other.row(r, width), width);
  });
}

LinearInput sublayer_input(const Chunk& c, const KindDescriptor& k, const NormTensors& before,
                           const Tensor& scale) noexcept {
  const uint32_t width = c.width();
  const Rows<float> normed = c.normed();
  if (k.norm_place == kNormSublayer) test_finite(c, c.x, width);  // no norm sees x itself
  if (!before.weight && !scale) return {c.x, width};
  if (before.weight) norm(c, normed, c.x, before, k.norm, k.norm_eps);
  for (uint32_t r = 0; r < c.count && scale; ++r) {
    float* y = normed.row(r, width);
    if (!before.weight) memcpy(y, c.x.row(r, width), width * sizeof(float));
    c.kernels.mul(y, c.model.floats(scale), width);
  }
  return {normed, width};
}

void residual(const Chunk& c, const KindDescriptor& k, const NormTensors& after) noexcept {
  const uint32_t width = c.width();
  const bool of_sublayer = k.norm_place == kNormBoth || k.norm_place == kNormSublayer;
  const Rows<float> given = c.normed();
  if (k.residual_scale != 1)
    c.each_row(width, [&](uint32_t r) {
      c.kernels.scale(given.row(r, width), given.row(r, width), width, k.residual_scale);
    });
  if (of_sublayer) norm(c, given, given, after, k.norm, k.norm_eps);
  c.each_row(width,
             [&](uint32_t r) { c.kernels.add(c.x.row(r, width), given.row(r, width), width); });
  if (after.weight && !of_sublayer) norm(c, c.x, c.x, after, k.norm, k.norm_eps);
}

void scale_rows(const Chunk& c, float factor) noexcept {
  const uint32_t width = c.width();
  c.each_row(width, [&](uint32_t r) {
    c.kernels.scale(c.x.row(r, width), c.x.row(r, width), width, factor);
  });
}

void rotate(const Chunk& c, const Rows<float>& x, uint32_t heads, uint32_t kind) noexcept {
  const KindDescriptor& k = c.model.kind(kind);
  if (k.rotary_width == 0) return;
  c.each_row(uint64_t(heads) * k.rotary_width * 4, [&](uint32_t r) {
    rotate_row(c.session, x.row(r, heads * k.head_width), heads, kind, c.rows[r].position, r);
  });
}

void place_heads(const Chunk& c, const Rows<float>& x, uint32_t heads, const NormTensors& n,
                 const Layer& l, const KindDescriptor& k) noexcept {
  if (k.qk_norm_place == kNormFirst) norm_heads(c, x, heads, n, k);
  rotate(c, x, heads, l.kind);
  if (k.qk_norm_place != kNormFirst) norm_heads(c, x, heads, n, k);
}

void clip(const Chunk& c, const Rows<float>& x, uint32_t width, float limit) noexcept {
  if (limit == 0) return;
  c.each_row(width, [&](uint32_t r) { c.kernels.clip(x.row(r, width), width, limit); });
}

}  // namespace phasor
