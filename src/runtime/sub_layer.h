// runtime: what a sub-layer does between its products, row by row: norms, the residual, rotary
// positions and limits.
#pragma once
#include "linear.h"

namespace phasor {

// y = norm(x), `width` values of each row. The weights are those from place `at` on.
void norm_rows(const Chunk& c, const Rows<float>& y, const Rows<const float>& x, uint32_t width,
               const NormTensors& n, uint32_t kind, float eps, uint32_t at = 0) noexcept;
// The same over the width of the stack.
inline void norm(const Chunk& c, const Rows<float>& y, const Rows<const float>& x,
                 const NormTensors& n, uint32_t kind, float eps) {
  norm_rows(c, y, x, c.width(), n, kind, eps);
}
// The stack's last norm; without one, flags what is not finite: no other norm sees it.
void final_norm(const Chunk& c) noexcept;
// The heads of x, each by itself or all at once, before the rotation.
void norm_heads(const Chunk& c, const Rows<float>& x, uint32_t heads, const NormTensors& n,
                const KindDescriptor& k) noexcept;

// A norm inside a sub-layer, of what its last product reads; x as it is where there is none.
void norm_inside(const Chunk& c, const Rows<float>& x, uint32_t width, const NormTensors& n,
                 const KindDescriptor& k) noexcept;

// activation(h), that of the feed-forward, in `width` values of each row; times `other` where it is
// gated.
void activate(const Chunk& c, const Layer& l, const KindDescriptor& k, const Rows<float>& inner,
              uint32_t width, bool gated, const Rows<float>& other) noexcept;

// What a sub-layer reads: norm(x), or x itself where the norm comes after; times the scales of its
// channels.
LinearInput sublayer_input(const Chunk& c, const KindDescriptor& k, const NormTensors& before,
                           const Tensor& scale) noexcept;
// x += what a sub-layer gave (in the rows of `normed`), then the norm after the residual where
// there is one; or the norm of what the sub-layer gave, then the residual.
void residual(const Chunk& c, const KindDescriptor& k, const NormTensors& after) noexcept;

// x times a number.
void scale_rows(const Chunk& c, float factor) noexcept;

// Rotary positions: the heads at x turn by their row's angles.
void rotate(const Chunk& c, const Rows<float>& x, uint32_t heads, uint32_t kind) noexcept;
// Queries and keys before they meet: their norms, and the rotation by their positions.
void place_heads(const Chunk& c, const Rows<float>& x, uint32_t heads, const NormTensors& n,
                 const Layer& l, const KindDescriptor& k) noexcept;
// `width` values of each row of x within ±limit; 0: as they are.
void clip(const Chunk& c, const Rows<float>& x, uint32_t width, float limit) noexcept;

}  // namespace phasor
