// A saved sequence: a header of 64 bytes, the ids, the used cache pages, the used pages of its source. Little-endian, no pointers.
// Slots past the last position are written as zeros, so that equal sequences give equal bytes.
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

uint64_t bytes_for(const Session& s, uint32_t length, uint32_t source) {
  return kHeader + uint64_t(length) * 4 + panels_of(length) * s.cache_page_bytes() + panels_of(source) * s.cross_page_bytes();
}

// The same in a cache of q8: groups of scales, keys [32][16] and values [2][16][16].
void clear_slots_q8(unsigned char* at, uint32_t heads, uint32_t w, uint32_t used) {
  for (uint32_t h = 0; h < heads; ++h) {
    for (uint32_t d = 0; d < w; ++d) memset(at + cache_key_q8(used, d), 0, kLanes - used);
    for (uint32_t d = 0; d < w; d += kGroup) memset(at + cache_scale_q8(used, d), 0, (kLanes - used) * sizeof(float));
    at += cache_q8_bytes(w);
    for (uint32_t d = 0; d < w; d += kLanes) memset(at + cache_value_q8(used, d), 0, (kLanes - used) * kLanes);
    for (uint32_t d = 0; d < w; d += kGroup) memset(at + cache_scale_q8(used, d), 0, (kLanes - used) * sizeof(float));
    at += cache_q8_bytes(lanes(w));
  }
}

// Zeros the slots from `used` on in a page of `heads` heads of width w, whose values have `value` bytes each.
void clear_slots(const Plan& plan, unsigned char* page, const CacheSize& offset, uint32_t heads, uint32_t w, uint32_t used) {
  const uint32_t value = plan.cache_value;
  page += cache_bytes(plan, offset);
  if (kHasCacheQ8 && plan.cache_type == PHASOR_CACHE_Q8) return clear_slots_q8(page, heads, w, used);
  for (uint32_t h = 0; h < heads; ++h) {
    unsigned char* keys = page + h * page_floats(w) * value;
    for (uint32_t d = 0; d < w; ++d) memset(keys + (d * kLanes + used) * value, 0, (kLanes - used) * value);
    unsigned char* values = keys + w * kLanes * value;
    memset(values + uint64_t(used) * lanes(w) * value, 0, (kLanes - used) * size_t(lanes(w)) * value);
  }
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
  if (h.length != 0) memcpy(p, s.ids(sequence), h.length * 4u);
  p += h.length * 4u;
  for (uint32_t i = 0; i < panels_of(h.length); ++i, p += s.cache_page_bytes()) {
    memcpy(p, s.cache_page(s.page_table(sequence)[i]), static_cast<size_t>(s.cache_page_bytes()));
    for (uint32_t l = 0; l < m.layer_count[1] && (i + 1) * kLanes > h.length; ++l) {
      const KindDescriptor& k = m.kind(m.layer(1, l));
      clear_slots(s.plan, p, m.layer(1, l).cache_offset, k.kv_heads, k.head_width, h.length % kLanes);
    }
  }
  for (uint32_t i = 0; i < panels_of(h.source); ++i, p += s.cross_page_bytes()) {
    memcpy(p, s.cross_page(q.source, i), static_cast<size_t>(s.cross_page_bytes()));
    for (uint32_t l = 0; l < m.layer_count[1] && (i + 1) * kLanes > h.source; ++l) {
      const KindDescriptor& k = m.kind(m.layer(1, l));
      if (k.cross != 0) clear_slots(s.plan, p, m.layer(1, l).cross_offset, k.cross_kv_heads, k.cross_head_width, h.source % kLanes);
    }
  }
  h.crc = crc32c(0, out + kHeader, static_cast<size_t>(h.bytes - kHeader));
  memcpy(out, &h, sizeof h);
}

phasor_status state_restore(Session* s, uint32_t sequence, const unsigned char* state, uint64_t bytes, phasor_error* error) noexcept {
  const Model& m = *s->model.pointer;
  Header h{};
  if (bytes < kHeader) return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, kHeader, bytes}, "state: ", bytes, " bytes, a header has 64");
  memcpy(&h, state, sizeof h);
  if (h.magic != kMagic) return fail(error, PHASOR_BAD_STATE, {}, "state: not a saved sequence");
  if (h.numerics != phasor_numerics())
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, phasor_numerics(), h.numerics}, "state: arithmetic number ", h.numerics, ", expected ",
                phasor_numerics());
  if (h.head_crc != m.head_crc) return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, m.head_crc, h.head_crc}, "state: of another weight file");
  if (h.cache_type != s->plan.cache_type)
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, s->plan.cache_type, h.cache_type}, "state: cache type ", h.cache_type, ", the limits have ", s->plan.cache_type);
  if (h.length > s->plan.target || h.source > s->plan.source || h.has_source > 1 || (h.has_source == 0 && h.source != 0) ||
      (h.has_source != 0 && (h.source == 0 || m.cross.values == 0)) || h.status > PHASOR_MISMATCH)
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, s->plan.target, h.length}, "state: ", h.length, " positions and a source of ",
                h.source, " do not fit the limits");
  if (h.bytes != bytes || bytes != bytes_for(*s, h.length, h.source))
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, bytes_for(*s, h.length, h.source), bytes}, "state: ", bytes, " bytes, expected ",
                bytes_for(*s, h.length, h.source));
  if (crc32c(0, state + kHeader, static_cast<size_t>(bytes - kHeader)) != h.crc) return fail(error, PHASOR_BAD_STATE, {}, "state: damaged, its checksum is wrong");
  const uint32_t vocabulary = m.descriptor.sides[1].vocabulary;
  for (uint32_t i = 0; i < h.length; ++i)
    if (load_u32(state + kHeader + 4u * i) >= vocabulary && load_u32(state + kHeader + 4u * i) != PHASOR_NONE)
      return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, vocabulary, load_u32(state + kHeader + 4u * i)}, "state: a token id out of range");
  sequence_clear(s, sequence);
  sequence_reserve(s, sequence, h.length);
  const unsigned char* p = state + kHeader;
  if (h.length != 0) memcpy(s->ids(sequence), p, h.length * 4u);
  p += h.length * 4u;
  for (uint32_t i = 0; i < panels_of(h.length); ++i, p += s->cache_page_bytes())
    memcpy(s->cache_page(s->page_table(sequence)[i]), p, static_cast<size_t>(s->cache_page_bytes()));
  if (h.has_source != 0) {
    const uint32_t source = sequence_new_source(s, sequence, h.source);
    for (uint32_t i = 0; i < panels_of(h.source); ++i, p += s->cross_page_bytes())
      memcpy(s->cross_page(source, i), p, static_cast<size_t>(s->cross_page_bytes()));
  }
  s->sequences()[sequence].length = h.length;
  s->sequences()[sequence].status = h.status;
  return PHASOR_OK;
}

}  // namespace phasor
