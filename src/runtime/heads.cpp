// The heads of a layer's attentions, from the descriptor and the layer's tables, and where their
// keys and values lie: an encoder's layer at hand, a decoder's cache or ring, and the source of
// cross-attention.
#include "heads.h"

namespace phasor {
namespace {

uint64_t encoder_page(const Session&, const Row& row, uint32_t i) { return uint64_t(row.page) + i; }
uint32_t encoder_keys(const Session&, const Row& row) { return row.seen; }

template <bool kRing>
uint64_t decoder_page(const Session& s, const Row& row, uint32_t i) {
  return s.pages(kRing).number(row.sequence, i);
}
uint32_t decoder_keys(const Session&, const Row& row) { return row.position + 1; }

uint64_t source_page(const Session& s, const Row& row, uint32_t i) {
  return uint64_t(s.sequences()[row.sequence].source) * s.plan.source_pages + i;
}
uint32_t source_keys(const Session& s, const Row& row) {
  return s.sources()[s.sequences()[row.sequence].source].length;
}

}  // namespace

Heads self_heads(const Session& s, Half half, uint32_t i) noexcept {
  const Model& m = *s.model.pointer;
  const Layer& l = m.layer(half, i);
  const KindDescriptor& k = m.kind(l);
  const KindTables& tables = m.tables(l.kind);
  Heads h{};
  h.layer = i;
  h.heads = k.heads;
  h.kv_heads = k.kv_heads;
  h.width = k.head_width;
  h.scale = k.scale;
  h.cap = k.cap;
  h.window = k.window;
  h.bidirectional = half == kEncoder && k.causal == 0 ? 1 : 0;
  h.position = k.position;
  h.reach = relative_keys(k) || k.position == kT5Bias ? reach(k) : 0;
  h.relative_keys = m.floats(l.relative_keys);
  h.relative_values = m.floats(l.relative_values);
  h.relative_queries = m.floats(l.relative_queries);
  h.bias = m.floats(tables.bias);
  h.slopes = m.floats(tables.slopes);
  h.additive = m.floats(l.score);
  if (half == kEncoder) {  // a page of the encoder belongs to one layer
    h.cache = PHASOR_CACHE_F32;
    h.part = kPartEncoderCache;
    h.page_bytes = h.kv_heads * h.format().head_bytes(h.width);
    h.page = encoder_page;
    h.keys = encoder_keys;
    return h;
  }
  const bool ring = m.ringed(l);
  h.cache = s.plan.cache_type;
  h.part = s.pages(ring).part;
  h.page_bytes = s.pages(ring).bytes;
  h.offset = h.format().bytes(l.cache_offset);
  h.page = kHasRing && ring ? decoder_page<true> : decoder_page<false>;
  h.keys = decoder_keys;
  return h;
}

Heads cross_heads(const Session& s, uint32_t i) noexcept {
  const Layer& l = s.model->layer(kDecoder, i);
  const KindDescriptor& k = s.model->kind(l);
  Heads h{};  // no positions here (rule 1.9)
  h.layer = i;
  h.heads = k.cross_heads;
  h.kv_heads = k.cross_kv_heads;
  h.width = k.cross_head_width;
  h.scale = k.cross_scale;
  h.cap = k.cap;
  h.bidirectional = 1;
  h.additive = s.model->floats(l.cross_score);
  h.cache = s.plan.cache_type;
  h.part = kPartCrossCache;
  h.page_bytes = s.source_page_bytes();
  h.offset = h.format().bytes(l.cross_offset);
  h.weights_at = merges(k) ? s.plan.target_pages * kSlots : 0;  // behind those of the target
  h.page = source_page;
  h.keys = source_keys;
  return h;
}

// The rows of a chunk to their pages, as many at a time as share one. What is behind a source's
// last position is zeros.
void store_keys(const Chunk& c, const Heads& h, const Rows<const float>& keys) noexcept {
  const uint32_t width = h.kv_heads * h.width, values = lanes(width);  // where the values begin
  for (uint32_t r = 0; h.part == kPartEncoderCache && r < c.count; ++r) {
    const uint32_t position = c.rows[r].position;
    if (position % kSlots == 0 && h.keys(c.session, c.rows[r]) - position < kSlots)
      memset(h.at(c.session, c.rows[r], position / kSlots), 0, static_cast<size_t>(h.page_bytes));
  }
  const uint64_t cost = uint64_t(c.count) * values * 16;
  spread(c.session, c.count, cost, [&](uint32_t first, uint32_t end, uint32_t) {
    for (uint32_t r = first, next; r < end; r = next) {
      const Row& row = c.rows[r];
      const auto shares = [&](const Row& other) {
        return other.sequence == row.sequence && other.position % kSlots != 0;
      };
      for (next = r + 1; next < end && shares(c.rows[next]);) ++next;
      h.format().store(c.kernels, h.at(c.session, row, row.position / kSlots), h.kv_heads, h.width,
                       row.position % kSlots, next - r, keys.rows(r, next - r, width),
                       keys.right(values).rows(r, next - r, width), keys.stride());
    }
  });
}

}  // namespace phasor
