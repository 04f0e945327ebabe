// A saved sequence: a header of 64 bytes, the ids, the used cache pages, the ring's pages that the
// next position sees something of, in the order of the positions, the used pages of its source.
// Little-endian, no pointers. Slots that no position will see are written as zeros, so that equal
// sequences give equal bytes, whatever the limits.
#include "../format/crc32c.h"
#include "session.h"

namespace phasor {
namespace {

constexpr uint32_t kMagic = 0x53544850u;  // "PHTS"
constexpr uint64_t kHeader = 64;

struct Header {
  uint32_t magic, numerics, head_crc, cache_type, length, source, crc, has_source;
  uint64_t bytes;
  uint32_t status, reserved[5];
};
static_assert(sizeof(Header) == kHeader, "a state's header has 64 bytes on every machine");

// The first position that a layer with a window still sees from position `length`, and the pages
// from there on.
uint32_t ring_first(const Session& s, uint32_t length) {
  return length < s.model->window ? 0 : length - (s.model->window - 1);
}
uint64_t ring_pages(const Session& s, uint32_t length) {
  return !kHasRing || s.plan.ring_pages == 0 ? 0
                                             : panels_of(length) - ring_first(s, length) / kLanes;
}

uint64_t bytes_for(const Session& s, uint32_t length, uint32_t source) {
  return kHeader + uint64_t(length) * 4 + panels_of(length) * s.cache_page_bytes() +
         ring_pages(s, length) * s.ring_page_bytes() + panels_of(source) * s.cross_page_bytes();
}

// The same in a cache of q8: groups of scales, keys [32][16] and values [2][16][16].
void clear_slots_q8(unsigned char* at, uint32_t heads, uint32_t w, uint32_t first, uint32_t end) {
  for (uint32_t h = 0; h < heads; ++h) {
    for (uint32_t d = 0; d < w; ++d) memset(at + cache_key_q8(first, d), 0, end - first);
    for (uint32_t d = 0; d < w; d += kGroup)
      memset(at + cache_scale_q8(first, d), 0, (end - first) * sizeof(float));
    at += cache_q8_bytes(w);
    for (uint32_t d = 0; d < w; d += kLanes)
      memset(at + cache_value_q8(first, d), 0, (end - first) * kLanes);
    for (uint32_t d = 0; d < w; d += kGroup)
      memset(at + cache_scale_q8(first, d), 0, (end - first) * sizeof(float));
    at += cache_q8_bytes(lanes(w));
  }
}

// Zeros slots first … end − 1 in a page of `heads` heads of width w, whose values have `value`
// bytes each.
void clear_slots(const Plan& plan, unsigned char* page, const CacheSize& offset, uint32_t heads,
                 uint32_t w, uint32_t first, uint32_t end) {
  const uint32_t value = plan.cache_value;
  page += cache_bytes(plan, offset);
  if (kHasCacheQ8 && plan.cache_type == PHASOR_CACHE_Q8)
    return clear_slots_q8(page, heads, w, first, end);
  for (uint32_t h = 0; h < heads; ++h) {
    unsigned char* keys = page + h * page_floats(w) * value;
    for (uint32_t d = 0; d < w; ++d)
      memset(keys + (d * kLanes + first) * value, 0, (end - first) * value);
    unsigned char* values = keys + w * kLanes * value;
    memset(values + uint64_t(first) * lanes(w) * value, 0,
           (end - first) * size_t(lanes(w)) * value);
  }
}

// Pages of the decoder layers that are in the ring, or that are not; zeros in slots first … end
// − 1.
void clear_layers(const Session& s, unsigned char* page, bool ring, uint32_t first, uint32_t end) {
  const Model& m = *s.model.pointer;
  for (uint32_t l = 0; l < m.layer_count[1] && first < end; ++l) {
    const KindDescriptor& k = m.kind(m.layer(1, l));
    if (m.ringed(m.layer(1, l)) == ring)
      clear_slots(s.plan, page, m.layer(1, l).cache_offset, k.kv_heads, k.head_width, first, end);
  }
}

// How many of the slots for positions 16·i … 16·i + 15 lie before `length`, which is behind the
// first of them.
uint32_t used_slots(uint32_t i, uint32_t length) {
  return length - i * kLanes < kLanes ? static_cast<uint32_t>(length - i * kLanes)
                                      : static_cast<uint32_t>(kLanes);
}

}  // namespace

uint64_t state_bytes(const Session& s, uint32_t sequence) noexcept {
  const Sequence& q = s.sequences()[sequence];
  return bytes_for(s, q.length, q.source == PHASOR_NONE ? 0 : s.sources()[q.source].length);
}

void state_save(const Session& s, uint32_t sequence, unsigned char* out) noexcept {
  const Model& m = *s.model.pointer;
  const Sequence& q = s.sequences()[sequence];
  Header h{};
  h.magic = kMagic;
  h.numerics = phasor_numerics();
  h.head_crc = m.head_crc;
  h.cache_type = s.plan.cache_type;
  h.length = q.length;
  h.has_source = q.source == PHASOR_NONE ? 0 : 1;
  h.source = h.has_source != 0 ? s.sources()[q.source].length : 0;
  h.bytes = bytes_for(s, h.length, h.source);
  h.status = q.status;
  unsigned char* p = out + kHeader;
  if (h.length != 0) memcpy(p, s.ids(sequence).at(0, h.length), h.length * 4u);
  p += h.length * 4u;
  for (uint32_t i = 0; i < panels_of(h.length); ++i, p += s.cache_page_bytes()) {
    memcpy(p, s.cache_page(s.page_table(sequence)[i]).at(0, s.cache_page_bytes()),
           static_cast<size_t>(s.cache_page_bytes()));
    clear_layers(s, p, false, used_slots(i, h.length), kLanes);
  }
  const uint32_t first = ring_first(s, h.length);
  for (uint32_t i = first / kLanes; kHasRing && s.plan.ring_pages != 0 && i < panels_of(h.length);
       ++i, p += s.ring_page_bytes()) {
    memcpy(p, s.ring_page_at(sequence, i).at(0, s.ring_page_bytes()),
           static_cast<size_t>(s.ring_page_bytes()));
    clear_layers(s, p, true, 0, first > i * kLanes ? static_cast<uint32_t>(first - i * kLanes) : 0);
    clear_layers(s, p, true, used_slots(i, h.length), kLanes);
  }
  for (uint32_t i = 0; i < panels_of(h.source); ++i, p += s.cross_page_bytes()) {
    memcpy(p, s.cross_page(q.source, i).at(0, s.cross_page_bytes()),
           static_cast<size_t>(s.cross_page_bytes()));
    for (uint32_t l = 0; l < m.layer_count[1] && (i + 1) * kLanes > h.source; ++l) {
      const KindDescriptor& k = m.kind(m.layer(1, l));
      if (k.cross != 0)
        clear_slots(s.plan, p, m.layer(1, l).cross_offset, k.cross_kv_heads, k.cross_head_width,
                    h.source % kLanes, kLanes);
    }
  }
  h.crc = crc32c(0, out + kHeader, static_cast<size_t>(h.bytes - kHeader));
  memcpy(out, &h, sizeof h);
}

phasor_status state_restore(Session* s, uint32_t sequence, const unsigned char* state,
                            uint64_t bytes, phasor_error* error) noexcept {
  const Model& m = *s->model.pointer;
  Header h{};
  if (bytes < kHeader)
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, kHeader, bytes},
                "state: ", bytes, " bytes, a header has 64");
  memcpy(&h, state, sizeof h);
  if (h.magic != kMagic) return fail(error, PHASOR_BAD_STATE, {}, "state: not a saved sequence");
  if (h.numerics != phasor_numerics())
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, phasor_numerics(), h.numerics},
                "state: arithmetic number ", h.numerics, ", expected ", phasor_numerics());
  if (h.head_crc != m.head_crc)
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, m.head_crc, h.head_crc},
                "state: of another weight file");
  if (h.cache_type != s->plan.cache_type)
    return fail(error, PHASOR_BAD_STATE,
                {PHASOR_NONE, PHASOR_NONE, s->plan.cache_type, h.cache_type}, "state: cache type ",
                h.cache_type, ", the limits have ", s->plan.cache_type);
  if (h.length > s->plan.target || h.source > s->plan.source || h.has_source > 1 ||
      (h.has_source == 0 && h.source != 0) ||
      (h.has_source != 0 && (h.source == 0 || m.cross.values == 0)) || h.status > PHASOR_MISMATCH)
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, s->plan.target, h.length},
                "state: ", h.length, " positions and a source of ", h.source,
                " do not fit the limits");
  if (h.bytes != bytes || bytes != bytes_for(*s, h.length, h.source))
    return fail(error, PHASOR_BAD_STATE,
                {PHASOR_NONE, PHASOR_NONE, bytes_for(*s, h.length, h.source), bytes},
                "state: ", bytes, " bytes, expected ", bytes_for(*s, h.length, h.source));
  if (crc32c(0, state + kHeader, static_cast<size_t>(bytes - kHeader)) != h.crc)
    return fail(error, PHASOR_BAD_STATE, {}, "state: damaged, its checksum is wrong");
  const uint32_t vocabulary = m.descriptor.sides[1].vocabulary;
  for (uint32_t i = 0; i < h.length; ++i)
    if (load_u32(state + kHeader + 4u * i) >= vocabulary &&
        load_u32(state + kHeader + 4u * i) != PHASOR_NONE)
      return fail(error, PHASOR_BAD_STATE,
                  {PHASOR_NONE, PHASOR_NONE, vocabulary, load_u32(state + kHeader + 4u * i)},
                  "state: a token id out of range");
  sequence_clear(s, sequence);
  sequence_reserve(s, sequence, h.length);
  const unsigned char* p = state + kHeader;
  if (h.length != 0) memcpy(s->ids(sequence).at(0, h.length), p, h.length * 4u);
  p += h.length * 4u;
  for (uint32_t i = 0; i < panels_of(h.length); ++i, p += s->cache_page_bytes())
    memcpy(s->cache_page(s->page_table(sequence)[i]).at(0, s->cache_page_bytes()), p,
           static_cast<size_t>(s->cache_page_bytes()));
  const uint32_t first = ring_first(*s, h.length);
  for (uint32_t i = first / kLanes; kHasRing && s->plan.ring_pages != 0 && i < panels_of(h.length);
       ++i, p += s->ring_page_bytes()) {
    unsigned char* page = s->ring_page_at(sequence, i)
                              .at(0, s->ring_page_bytes());  // zeros, or another page's slots,
                                                             // which are zeros in this one
    for (uint64_t b = 0; b < s->ring_page_bytes(); ++b) page[b] |= p[b];
  }
  if (h.has_source != 0) {
    const uint32_t source = sequence_new_source(s, sequence, h.source);
    for (uint32_t i = 0; i < panels_of(h.source); ++i, p += s->cross_page_bytes())
      memcpy(s->cross_page(source, i).at(0, s->cross_page_bytes()), p,
             static_cast<size_t>(s->cross_page_bytes()));
  }
  s->sequences()[sequence].length = h.length;
  s->sequences()[sequence].status = h.status;
  if (kHasRing && s->plan.ring_pages != 0) s->sequences()[sequence].kept = first;
  return PHASOR_OK;
}

}  // namespace phasor
