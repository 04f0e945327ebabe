// runtime: chunks. Which rows (tokens) go through a stack together, the tiles of rows that share a
// pass over keys, and what becomes of rows that met a value that is not finite.
#pragma once
#include "pass.h"

namespace phasor {

// Sources that are encoded together: as many as a chunk holds, or one that is longer.
struct Group {
  Items items;
  uint32_t count, tokens;
  Rows<float> x;  // (tokens, ld) one after the other
};

// The next token that a decoder takes: of which item, and which of its tokens.
struct Next {
  uint32_t item, token;
};

// The chunk of `count` rows of the row table: its tiles, and no flag set.
Chunk make_chunk(const Pass& pass, Half stack, const Rows<float>& x, uint32_t count) noexcept;

// Says that no hidden states are kept.
void forget_hidden(const Pass& pass) noexcept;
// As many of the items as a chunk holds together, or one that is longer; their hidden states begin
// at row `hidden`.
Group next_group(const Pass& pass, Items items, uint32_t count, uint32_t hidden) noexcept;

// Rows first … of a group.
Chunk source_chunk(const Pass& pass, const Group& group, uint32_t first) noexcept;

// As many tokens of the items as a chunk holds, from *next on. Numbers the wanted rows of logits.
Chunk target_chunk(const Pass& pass, Items items, uint32_t count, Next* next) noexcept;

// Rows first … first + count − 1 of one sequence, that lie at the start of `normed`.
Chunk output_chunk(const Pass& pass, uint32_t sequence, uint32_t first, uint32_t count) noexcept;

// Flags the rows of which one of `width` values is not finite, where no norm sees them.
void test_finite(const Chunk& c, const Rows<const float>& x, uint32_t width) noexcept;

// Fails the sequences whose rows are flagged, once; says which layer and position.
phasor_status check_finite(const Chunk& c, uint32_t layer, phasor_error* error) noexcept;

}  // namespace phasor
