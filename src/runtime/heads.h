// runtime: the heads of a layer's attentions: what makes their scores, and where their keys and
// values lie. heads.cpp fills them in, from the descriptor, the layer's tables and the session.
#pragma once
#include "pass.h"

namespace phasor {

// Heads of one attention: what makes their scores, and where their keys and values lie. Pointers to
// tables that the attention does not have are NULL.
struct Heads {
  uint32_t layer;  // of its stack
  uint32_t heads, kv_heads, width;
  float scale, cap;
  uint32_t window;         // keys that a query sees, 0: all
  uint32_t bidirectional;  // a query sees what follows it too; a window is on both sides
  uint32_t position;       // a KindPosition
  uint32_t reach;          // tables have the distances −reach … reach, then clipped
  // (width, 2·reach + 1), of all heads or, where there are relative queries, of each
  const float* relative_keys;
  const float* relative_queries;  // (heads, width, 2·reach + 1)
  const float* relative_values;   // (2·reach + 1, width)
  const float* bias;              // (heads, 2·reach + 1)
  const float* slopes;            // (heads)
  const float* additive;          // v (heads·width) of an additive score

  uint32_t cache;       // the format of keys and values, a PHASOR_CACHE_
  Part part;            // where their pages are
  uint64_t page_bytes;  // of a page, with all its layers
  uint64_t offset;      // of this layer's heads in it
  uint32_t weights_at;  // where its weights begin in a row of kPartAttentionWeights
  // The page of positions 16·i … 16·i + 15 of the row's sequence; how many keys there are for
  // the row, of which the mask and the window leave some.
  uint64_t (*page)(const Session& s, const Row& row, uint32_t i);
  uint32_t (*keys)(const Session& s, const Row& row);

  const CacheFormat& format() const { return *cache_format(cache); }
  // The keys and values of one head after the other in such a page.
  unsigned char* at(const Session& s, const Row& row, uint32_t i) const {
    const uint64_t bytes = kv_heads * format().head_bytes(width);
    return s.span<unsigned char>(part, page(s, row, i) * page_bytes + offset, bytes).at(0, bytes);
  }
};

// The heads of layer i's self-attention, and of a decoder's cross-attention.
Heads self_heads(const Session& s, Half half, uint32_t i) noexcept;
Heads cross_heads(const Session& s, uint32_t i) noexcept;

// Puts keys (in the first values of each row) and the values behind them into their pages.
void store_keys(const Chunk& c, const Heads& heads, const Rows<const float>& keys) noexcept;

}  // namespace phasor
