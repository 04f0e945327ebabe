// runtime: short convolutions in place of self-attention, gated and depthwise (LFM2: Liquid AI
// 2025; rule 1.22). A layer's rows of u = k ∘ v are in pages like keys and values, and a
// convolution of K taps lets go of them as a window of K does (rule 1.7).
#pragma once
#include "heads.h"

namespace phasor {

// For every row at position p: `attention` = q ∘ (Σ taps[i] ∘ u[p − K + 1 + i], then + the bias);
// q, k and v lie in `wide`. Rows before a sequence's first one are 0.
void convolve(const Chunk& c, const Heads& heads, const Layer& l) noexcept;

}  // namespace phasor
