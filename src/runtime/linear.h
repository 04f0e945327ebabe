// runtime: linear layers. The rows of activations are rounded to 8 or 16 bits where the weights
// want it, once for all layers that read them (rules 1.3 and 1.21), and panels of outputs go over
// the threads.
#pragma once
#include "pass.h"

namespace phasor {

// The input of linear layers.
struct LinearInput {
  Rows<const float> x;  // (rows of the chunk, cols)
  uint32_t cols = 0;
  uint32_t rounded = 0;  // bit r: rounding r of plan.h is there
};

// y = x·Wᵀ + b for panels first … first + panels − 1 of the layer; y begins with the first of them.
void linear(const Chunk& c, const Rows<float>& y, LinearInput* in, const Linear& layer,
            uint32_t first, uint32_t panels) noexcept;
// The whole layer.
void linear(const Chunk& c, const Rows<float>& y, LinearInput in, const Linear& layer) noexcept;

// For who spreads panels in another way: rounds the input where `weight` wants it; computes panels
// begin … end − 1 on the calling thread, of an input that is rounded; what they cost.
void quantize(const Chunk& c, LinearInput* in, const Tensor& weight) noexcept;
void linear_part(const Chunk& c, const Rows<float>& y, const LinearInput& in, const Linear& layer,
                 uint32_t begin, uint32_t end) noexcept;
inline uint64_t linear_cost(const Chunk& c, const LinearInput& in, uint32_t panels) {
  return uint64_t(panels) * kLanes * in.cols * c.count;
}

}  // namespace phasor
