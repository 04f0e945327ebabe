// runtime: scaled dot-product attention over pages of 16 positions (Vaswani et al. 2017, section 3.2; rules 1.6 and 1.9).
#pragma once
#include "session.h"

namespace phasor {

// Heads of one attention, and where a head's queries, keys and values lie.
struct Heads {
  uint32_t heads, kv_heads, width;
  float scale, cap;
};

// Where the keys and values of a row's sequence are: a self-attention's in its cache, a cross-attention's with its source.
struct KeysOf {
  // Page p of the tile's sequence, at this layer's floats.
  const float* (*page)(const Session& s, const Row& row, uint32_t layer, uint32_t p);
  // How many keys the row sees.
  uint32_t (*count)(const Session& s, const Row& row);
};

// For every row of every tile: out (rows, attention_ld) = softmax(q·kᵀ·scale)·v, heads side by side. q (rows, wide_ld).
// Fills kPartAttentionWeights too, where it is wanted.
void attend(Session* s, float* out, const float* q, const Tile* tiles, uint32_t tile_count, const Row* rows,
            const Heads& heads, const KeysOf& keys, uint32_t layer) noexcept;

// Puts one position's keys and values (kv_heads · width each) into slot `slot` of its page.
void store_keys_values(float* page, uint32_t slot, const float* k, const float* v, uint32_t kv_heads, uint32_t width) noexcept;

}  // namespace phasor
