// runtime: what the caller's observer gets to see of a pass: residuals and attention weights.
#pragma once
#include "attention.h"

namespace phasor {

// Rows of the residual, a sequence at a time. `what`: a PHASOR_SEE_.
void show(const Chunk& c, uint32_t what, uint32_t layer) noexcept;
// The attention weights of the layer, where they are wanted.
void show_attention(const Chunk& c, uint32_t what, const Heads& heads) noexcept;
// Adds the mean of the layer's heads to the coverage of the rows' sequences (kPartCoverage). A
// position that has been added before the caller stopped a step is not added again.
void add_coverage(const Chunk& c, const Heads& heads) noexcept;
// Whether the caller's progress asks to stop before a layer; the error then says where.
bool stopped(const Pass& pass, Half stack, uint32_t layer, phasor_error* error) noexcept;

}  // namespace phasor
