#include "cache.h"

namespace phasor {
namespace {

// Heads of one layer in a page: `offset` bytes from the page's begin, `bytes` of them.
struct Place {
  uint64_t offset, bytes;
};

uint64_t heads_bytes(const Plan& p, uint32_t heads, uint32_t width) {
  CacheSize size{};
  add_heads(&size, heads, width);
  return cache_bytes(p, size);
}
Place encoder_place(const KindDescriptor& k) {  // a page of the encoder belongs to one layer
  return {0, k.kv_heads * page_floats(k.head_width) * sizeof(float)};
}
Place decoder_place(const Plan& p, const Layer& l, const KindDescriptor& k) {
  return {cache_bytes(p, l.cache_offset), heads_bytes(p, k.kv_heads, k.head_width)};
}
Place source_place(const Plan& p, const Layer& l, const KindDescriptor& k) {
  return {cache_bytes(p, l.cross_offset), heads_bytes(p, k.cross_kv_heads, k.cross_head_width)};
}

// ---- reading

const void* encoder_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
  const uint64_t bytes = encoder_place(s.model->kind(s.model->layer(0, layer))).bytes;
  return s.span<unsigned char>(kPartEncoderCache, (row.page + uint64_t(page)) * bytes, bytes)
      .data();
}
uint32_t encoder_count(const Session& s, const Row& row) {
  return s.sequences()[row.sequence].encoded;
}

const void* decoder_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
  const Layer& l = s.model->layer(1, layer);
  const Place place = decoder_place(s.plan, l, s.model->kind(l));
  return s.layer_page(row.sequence, l, page).at(place.offset, place.bytes);
}
uint32_t decoder_count(const Session&, const Row& row) { return row.position + 1; }

const void* source_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
  const Layer& l = s.model->layer(1, layer);
  const Place place = source_place(s.plan, l, s.model->kind(l));
  return s.cross_page(s.sequences()[row.sequence].source, page).at(place.offset, place.bytes);
}
uint32_t source_count(const Session& s, const Row& row) {
  return s.sources()[s.sequences()[row.sequence].source].length;
}

// ---- writing

using PageOf = void* (*)(Session& s, const Row& row, uint32_t page, const Place& place);
void* page_of_encoder(Session& s, const Row& row, uint32_t page, const Place& place) {
  const uint64_t at = (row.page + uint64_t(page)) * place.bytes;
  return s.span<unsigned char>(kPartEncoderCache, at, place.bytes).at(0, place.bytes);
}
void* page_of_decoder(Session& s, const Row& row, uint32_t page, const Place& place) {
  return s.cache_page(s.page_table(row.sequence)[page]).at(place.offset, place.bytes);
}
void* page_of_ring(Session& s, const Row& row, uint32_t page, const Place& place) {
  return s.ring_page_at(row.sequence, page).at(place.offset, place.bytes);
}
void* page_of_source(Session& s, const Row& row, uint32_t page, const Place& place) {
  return s.cross_page(s.sequences()[row.sequence].source, page).at(place.offset, place.bytes);
}

// The rows of a chunk to their pages, as many at a time as share one.
void store(const Pass& pass, const Chunk& c, const Rows<const float>& keys, uint32_t type,
           uint32_t heads, uint32_t width, const Place& place, PageOf page_of) {
  constexpr uint32_t kSlots = static_cast<uint32_t>(kLanes);
  const uint32_t values = lanes(heads * width);  // where they begin
  const uint64_t cost = uint64_t(c.count) * values * 16;
  spread(&pass.session, c.count, cost, [&](uint32_t first, uint32_t end, uint32_t) {
    for (uint32_t r = first, next; r < end; r = next) {
      const Row& row = c.rows[r];
      const auto shares = [&](const Row& other) {
        return other.sequence == row.sequence && other.position % kSlots != 0;
      };
      for (next = r + 1; next < end && shares(c.rows[next]);) ++next;
      const uint32_t many = next - r;
      void* page = page_of(pass.session, row, row.position / kSlots, place);
      store_keys_values(
          pass.kernels, page, type, row.position % kSlots, many, keys.rows(r, many, heads * width),
          keys.right(values).rows(r, many, heads * width), keys.stride(), heads, width);
    }
  });
}

}  // namespace

const KeysOf kEncoderKeys = {encoder_keys, encoder_count};
const KeysOf kDecoderKeys = {decoder_keys, decoder_count};
const KeysOf kSourceKeys = {source_keys, source_count};

void store_encoder_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                        const KindDescriptor& k) noexcept {
  store(pass, c, keys, PHASOR_CACHE_F32, k.kv_heads, k.head_width, encoder_place(k),
        page_of_encoder);
}

void store_decoder_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                        const Layer& layer, const KindDescriptor& k) noexcept {
  store(pass, c, keys, pass.plan.cache_type, k.kv_heads, k.head_width,
        decoder_place(pass.plan, layer, k),
        pass.model.ringed(layer) ? page_of_ring : page_of_decoder);
}

void store_source_keys(const Pass& pass, const Chunk& c, const Rows<const float>& keys,
                       const Layer& layer, const KindDescriptor& k) noexcept {
  store(pass, c, keys, pass.plan.cache_type, k.cross_kv_heads, k.cross_head_width,
        source_place(pass.plan, layer, k), page_of_source);
}

}  // namespace phasor
