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

// The first position that is saved of a sequence: of the layers with a window, what the next
// position sees; of the others all.
uint32_t first_saved(const Session& s, bool ring, uint32_t length) {
  return !ring || length < s.model->window ? 0 : length - (s.model->window - 1);
}
uint64_t bytes_for(const Session& s, uint32_t length, uint32_t source) {
  uint64_t bytes = kHeader + uint64_t(length) * 4 + blocks_of(source) * s.source_page_bytes();
  for (uint32_t ring = 0; ring <= kHasRing; ++ring) {
    const Pages pages = s.pages(ring != 0);
    if (pages.places != 0)
      bytes += (blocks_of(length) - first_saved(s, ring != 0, length) / kSlots) * pages.bytes;
  }
  return bytes;
}

// visit(page, bytes, ring, first, i) for each page that is saved: of positions 16·i … 16·i + 15, of
// which those from `first` on are.
template <class F>
void each_page(const Session& s, uint32_t sequence, uint32_t length, F visit) {
  for (uint32_t ring = 0; ring <= kHasRing; ++ring) {
    const Pages pages = s.pages(ring != 0);
    const uint32_t first = first_saved(s, ring != 0, length);
    for (uint32_t i = first / kSlots; pages.places != 0 && i < blocks_of(length); ++i)
      visit(pages.page(pages.number(sequence, i)).at(0, pages.bytes),
            static_cast<size_t>(pages.bytes), ring != 0, first, i);
  }
}

// How many of the slots for positions 16·i … 16·i + 15 lie before `position`.
uint32_t slots_before(uint32_t position, uint32_t i) {
  const uint32_t begin = i * kSlots;
  return position <= begin ? 0 : position - begin < kSlots ? position - begin : kSlots;
}

// A page of the decoder layers that are in the ring, or that are not; zeros in slots first … end
// − 1.
void clear_slots(const Session& s, unsigned char* page, bool ring, uint32_t first, uint32_t end) {
  const Model& m = *s.model.pointer;
  const CacheFormat& format = cache_of(s.plan);
  for (uint32_t l = 0; l < m.layer_count[kDecoder] && first < end; ++l) {
    const Layer& layer = m.layer(kDecoder, l);
    const KindDescriptor& k = m.kind(layer);
    if (m.ringed(layer) != ring || borrows(k)) continue;
    unsigned char* const rows = page + format.bytes(layer.cache_offset);
    const uint32_t width = kv_width(k);
    if (convolves(k)) {
      const size_t row = width * sizeof(float);
      memset(rows + first * row, 0, (end - first) * row);
      continue;
    }
    float* zeros = s.span<float>(kPartWide, 0, width).at(0, width);  // not in use
    memset(zeros, 0, width * sizeof(float));
    format.store(*m.kernels.pointer, rows, k.kv_heads, k.head_width, first, end - first, zeros,
                 zeros, 0);
  }
}

// Of the header, but for this sum itself, and of what follows it.
uint32_t checksum(Header h, const unsigned char* body, size_t bytes) {
  h.crc = 0;
  return crc32c(crc32c(0, &h, sizeof h), body, bytes);
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
  const auto save = [&](const unsigned char* page, size_t bytes, bool ring, uint32_t first,
                        uint32_t i) {
    memcpy(p, page, bytes);
    clear_slots(s, p, ring, 0, slots_before(first, i));
    clear_slots(s, p, ring, slots_before(h.length, i), kSlots);
    p += bytes;
  };
  each_page(s, sequence, h.length, save);
  const size_t bytes = static_cast<size_t>(s.source_page_bytes());
  for (uint32_t i = 0; i < blocks_of(h.source); ++i, p += bytes)
    memcpy(p, s.source_page(q.source, i).at(0, bytes), bytes);
  h.crc = checksum(h, out + kHeader, static_cast<size_t>(h.bytes - kHeader));
  memcpy(out, &h, sizeof h);
}

phasor_status state_restore(Session* s, uint32_t sequence, const unsigned char* state,
                            uint64_t bytes, phasor_error* error) noexcept {
  const Model& m = *s->model.pointer;
  const auto bad = [&](uint64_t expected, uint64_t found, auto... parts) {
    return fail(error, PHASOR_BAD_STATE, {PHASOR_NONE, PHASOR_NONE, expected, found},
                "state: ", parts...);
  };
  Header h{};
  if (bytes < kHeader) return bad(kHeader, bytes, bytes, " bytes, a header has 64");
  memcpy(&h, state, sizeof h);
  if (h.magic != kMagic) return bad(0, 0, "not a saved sequence");
  if (h.numerics != phasor_numerics())
    return bad(phasor_numerics(), h.numerics, "arithmetic number ", h.numerics, ", expected ",
               phasor_numerics());
  if (h.head_crc != m.head_crc) return bad(m.head_crc, h.head_crc, "of another weight file");
  if (h.cache_type != s->plan.cache_type)
    return bad(s->plan.cache_type, h.cache_type, "cache type ", h.cache_type, ", the limits have ",
               s->plan.cache_type);
  if (h.length > s->plan.target || h.source > s->plan.source || h.has_source > 1 ||
      (h.has_source == 0 && h.source != 0) ||
      (h.has_source != 0 && (h.source == 0 || m.cross.values == 0)) || h.status > PHASOR_MISMATCH)
    return bad(s->plan.target, h.length, h.length, " positions and a source of ", h.source,
               " do not fit the limits");
  if (h.has_source != 0 && s->shortlist.pointer != nullptr)
    return bad(0, 0, "it has no shortlist, and the session's callbacks have one");
  const uint64_t expected = bytes_for(*s, h.length, h.source);
  if (h.bytes != bytes || bytes != expected)
    return bad(expected, bytes, bytes, " bytes, expected ", expected);
  const unsigned char* p = state + kHeader;
  if (checksum(h, p, static_cast<size_t>(bytes - kHeader)) != h.crc)
    return bad(0, 0, "damaged, its checksum is wrong");
  const uint32_t vocabulary = m.descriptor.sides[kDecoder].vocabulary;
  for (uint32_t i = 0; i < h.length; ++i) {
    const uint32_t id = load_u32(p + 4u * i);
    if (id >= vocabulary && id != PHASOR_NONE)
      return bad(vocabulary, id, "a token id out of range");
  }
  sequence_clear(s, sequence);
  sequence_reserve(s, sequence, h.length);
  if (h.length != 0) memcpy(s->ids(sequence).at(0, h.length), p, h.length * 4u);
  p += h.length * 4u;
  // Pages are zeros, or hold another page's slots of the ring, which are zeros in this one.
  const auto restore = [&](unsigned char* page, size_t size, bool, uint32_t, uint32_t) {
    for (size_t b = 0; b < size; ++b) page[b] |= p[b];
    p += size;
  };
  each_page(*s, sequence, h.length, restore);
  if (h.has_source != 0) {
    const uint32_t source = sequence_new_source(s, sequence, h.source);
    const size_t size = static_cast<size_t>(s->source_page_bytes());
    for (uint32_t i = 0; i < blocks_of(h.source); ++i, p += size)
      memcpy(s->source_page(source, i).at(0, size), p, size);
  }
  Sequence& q = s->sequences()[sequence];
  q.length = h.length;
  q.status = h.status;
  if (kHasRing && s->plan.ring_pages != 0) q.kept = first_saved(*s, true, h.length);
  return PHASOR_OK;
}

}  // namespace phasor
