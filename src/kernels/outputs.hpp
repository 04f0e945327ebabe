// Where the vectors of a product go, and which weights are asked for meanwhile: what products of
// vectors and of tiles share. Templates over a vector type V of 16 floats.
#pragma once
#include "scalar_math.h"

// A function that holds one micro-kernel: inlined into each other, or cloned for constant
// arguments, they would be ten times the code.
#if defined(__clang__)
#define PHASOR_APART __attribute__((noinline))
#else
#define PHASOR_APART __attribute__((noinline, noclone))
#endif

namespace phasor {
namespace {

// Where a product goes: rows of y, ldy apart. The bias is added where there is one: bias_n of the
// outputs have one.
struct Outputs {
  float* y;
  size_t ldy;
  const float* bias;
  size_t bias_n;
  PHASOR_INLINE Outputs from(size_t r) const { return {y + r * ldy, ldy, bias, bias_n}; }
};

// Weights that are needed next: `bytes` of each of `pieces` panels, `stride` bytes apart. No
// pieces: they need not be asked for.
struct Next {
  uintptr_t at;
  size_t bytes, pieces, stride;
};
constexpr Next kNothingNext{0, 0, 0, 0};
// Asks for them in equal parts, one at each of `steps` steps of what is computed meanwhile: a burst
// of requests would hold up the loads behind it. What lies beyond the last panel is the next matrix
// of the file, as a rule; asking for an address that is nowhere does no harm.
class Ahead {
 public:
  PHASOR_INLINE Ahead(const Next& n, size_t steps) : at_(n.at), piece_((n.bytes + 63) / 64) {
    in_piece_ = piece_;
    left_ = piece_ * n.pieces;
    part_ = steps == 0 ? 0 : (left_ + steps - 1) / steps;
    jump_ = n.stride - piece_ * 64;
  }
  PHASOR_INLINE void ask() {
    if (left_ == 0) return;
    size_t i = left_ < part_ ? left_ : part_;
    left_ -= i;
    do {
      __builtin_prefetch(reinterpret_cast<const void*>(at_), 0, 2);
      at_ += 64;
      if (--in_piece_ == 0) in_piece_ = piece_, at_ += jump_;
    } while (--i != 0);
  }

 private:
  uintptr_t at_;
  size_t piece_, in_piece_, left_, part_, jump_;
};

// 16 lanes of the bias from output o on. A lane that has none gets −0, which leaves every value as
// it is, −0 too.
template <class V>
PHASOR_APART V last_bias(const float* bias, size_t bias_n, size_t o) {
  alignas(64) float lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = o + i < bias_n ? bias[o + i] : -0.0f;
  return V::load(lanes);
}
template <class V>
PHASOR_INLINE V bias_lanes(const Outputs& out, size_t o) {
  if (out.bias == nullptr) return V::set(-0.0f);
  return o + kLanes <= out.bias_n ? V::load(out.bias + o) : last_bias<V>(out.bias, out.bias_n, o);
}

}  // namespace
}  // namespace phasor
