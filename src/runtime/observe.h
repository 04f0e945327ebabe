// runtime: what the caller's observer gets to see of a pass: residuals and attention weights.
#pragma once
#include "attention.h"
#include "pass.h"

namespace phasor {

// Rows of the residual, a sequence at a time. `what`: a PHASOR_SEE_.
void show(const Pass& pass, const Chunk& c, uint32_t what, uint32_t layer) noexcept;
// The attention weights of the layer, where they are wanted.
void show_attention(const Pass& pass, const Chunk& c, const Heads& heads, const KeysOf& keys,
                    uint32_t layer, uint32_t what) noexcept;
// Whether the caller's progress asks to stop before a layer.
bool stopped(const Pass& pass, uint32_t stack, uint32_t layer) noexcept;

}  // namespace phasor
