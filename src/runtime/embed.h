// runtime: the first line of a stack: embedding, segments, positions, norm and projection.
#pragma once
#include "pass.h"

namespace phasor {

// x = projection(norm(embedding · scale + segment + position)), or the projection first. The items
// are those of the chunk's rows; they may give embeddings in place of ids.
void embed(const Chunk& c, const phasor_item* items) noexcept;

}  // namespace phasor
