// runtime: attention over pages of 16 positions (Vaswani et al. 2017, section 3.2; rules 1.6, 1.7
// and 1.9), with every term that a position adds to a score: relative keys and values (Shaw et al.
// 2018), k·a and the three-way product (Huang et al. 2020), T5's bias by distance (Raffel et al.
// 2020) and ALiBi (Press et al. 2022); and the additive score (Bahdanau et al. 2015).
#pragma once
#include "session.h"

namespace phasor {

// Heads of one attention, and what makes their scores. Pointers to tables that the attention does
// not have are NULL.
struct Heads {
  uint32_t heads, kv_heads, width;
  float scale, cap;
  uint32_t window;               // keys that a query sees, 0: all
  uint32_t bidirectional;        // the window lies on both sides
  uint32_t position;             // a KindPosition
  uint32_t reach;                // tables have the distances −reach … reach, then clipped
  const float* relative_keys;    // (width, 2·reach + 1)
  const float* relative_values;  // (2·reach + 1, width)
  const float* bias;             // (heads, 2·reach + 1)
  const float* slopes;           // (heads)
  const float* additive;         // v (heads·width) of an additive score
  uint32_t cache;                // the type of keys and values, a PHASOR_CACHE_
};

// The heads of a layer's self-attention (stack: 0 encoder, 1 decoder) and cross-attention.
Heads self_heads(const Session& s, const Layer& layer, uint32_t stack) noexcept;
Heads cross_heads(const Session& s, const Layer& layer) noexcept;

// Where the keys and values of a row's sequence are: a self-attention's in its cache, a
// cross-attention's with its source.
struct KeysOf {
  // Page p of the tile's sequence, at this layer's values.
  const void* (*page)(const Session& s, const Row& row, uint32_t layer, uint32_t p);
  // How many keys the row sees, a window aside.
  uint32_t (*count)(const Session& s, const Row& row);
};

// For every row of every tile: out (rows, attention_ld) = softmax(scores)·v, heads side by side. q
// (rows, wide_ld). Fills kPartAttentionWeights too, where it is wanted: 0 for keys that a row does
// not see.
void attend(Session* s, const Rows<float>& out, const Rows<const float>& q,
            const Span<const Tile>& tiles, uint32_t tile_count, const Span<const Row>& rows,
            const Heads& heads, const KeysOf& keys, uint32_t layer) noexcept;

// Puts the keys and values (kv_heads · width each, ld floats from row to row) of `count` positions,
// one after the other, into slots `slot` and on of their page, rounded to the page's type (1.8).
void store_keys_values(const Kernels& kernels, void* page, uint32_t cache, uint32_t slot,
                       uint32_t count, const float* k, const float* v, uint64_t ld,
                       uint32_t kv_heads, uint32_t width) noexcept;

}  // namespace phasor
