// runtime: positions. Sinusoids that are added to the embedding (Vaswani et al. 2017, section 3.5)
// and rotary angles that turn queries and keys (Su et al. 2021, equation 34), both from the file's
// inverse frequencies in double (rule 1.10).
#pragma once
#include "session.h"

namespace phasor {

// row (E) of `position`; scratch has E floats. The same bits as a row of the table that is filled
// at open.
void sinusoid_row(float* row, float* scratch, const Model& model, Half stack,
                  uint32_t position) noexcept;

// Floats of the rotary part for kinds 0 … kinds−1: where the table of kind `kinds` begins.
uint64_t rotary_floats(const Plan& plan, const Model& model, uint32_t kinds) noexcept;

// The table of a stack's sinusoids, (positions, E).
Rows<float> sinusoid_table(const Session& s, Half stack) noexcept;
// Fills all tables for the requested lengths, unless rows are wanted as needed.
void fill_tables(const Session& s) noexcept;

// Turns one row's heads in place: x (heads, head width), at `position`. `place` is the row's place
// in its chunk.
void rotate_row(const Session& s, float* x, uint32_t heads, uint32_t kind, uint32_t position,
                uint32_t place) noexcept;

}  // namespace phasor
