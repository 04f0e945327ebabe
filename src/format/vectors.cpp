#include "vectors.h"

namespace phasor {
namespace {

// Takes `words` 32-bit values from the section, or fails, and then is not `ok` any more.
struct Words {
  const unsigned char* data;
  uint64_t left, taken;
  bool ok;
  const unsigned char* take(uint64_t words) {
    if (words > left / 4) {
      ok = false;
      return nullptr;
    }
    const unsigned char* p = data + taken;
    taken += words * 4;
    left -= words * 4;
    return p;
  }
};

}  // namespace

bool read_vectors_header(VectorsHeader* out, const File& file) noexcept {
  const Section& s = file.sections[kSectionVectors];
  Words w{file.data + s.offset, s.bytes, 0, true};
  const unsigned char* p = w.take(6);
  if (p == nullptr) return false;
  *out = {load_u32(p),
          load_u32(p + 4),
          load_u32(p + 8),
          load_u32(p + 16),
          load_f32(p + 12),
          nullptr,
          0};
  out->author = w.take(round_up(out->author_bytes, 4) / 4);
  out->first = w.taken;
  return w.ok && out->count >= 1 && out->count <= 64 && out->samples >= 1 && out->samples <= 4096 &&
         load_u32(p + 20) == 0 && is_finite_f32(load_u32(p + 12)) && out->tolerance > 0;
}

void store_vectors_header(unsigned char* section, uint32_t numerics, float tolerance) noexcept {
  store_u32(section + 4, numerics);
  uint32_t bits;
  memcpy(&bits, &tolerance, sizeof bits);
  store_u32(section + 12, bits);
}

void store_vector_hash(unsigned char* ids, uint64_t hash) noexcept { store_u64(ids - 8, hash); }

bool next_vector(TestVector* out, uint64_t* at, const VectorsHeader& h, const File& file,
                 const VectorShape& shape) noexcept {
  const Section& s = file.sections[kSectionVectors];
  work();
  Words w{file.data + s.offset + *at, s.bytes - *at, 0, true};
  const unsigned char* p = w.take(6);
  if (p == nullptr) return false;
  TestVector v{};
  v.source = load_u32(p);
  v.target = load_u32(p + 4);
  v.source_residual = load_u32(p + 8);
  v.target_residual = load_u32(p + 12);
  v.hash = load_u64(p + 16);
  const uint64_t n = h.samples;
  v.source_ids = w.take(v.source);
  v.target_ids = w.take(v.target);
  v.logit_ids = w.take(n);
  v.rows = shape.pooled ? 1 : v.target != 0 ? v.target : v.source;
  v.logits = w.take(v.rows * (3 + n));
  if (v.source != 0) {
    v.source_places = w.take(n);
    v.source_residuals = w.take(shape.layers[0] * n);
  }
  if (v.target != 0) {
    v.target_places = w.take(n);
    v.target_residuals = w.take(shape.layers[1] * n);
  }
  *at += w.taken;
  *out = v;
  const bool positions = (v.source == 0 || v.source_residual < v.source) &&
                         (v.target == 0 || v.target_residual < v.target);
  return w.ok && positions && (v.source != 0) == (shape.layers[0] != 0) &&
         (v.target != 0) == (shape.layers[1] != 0);
}

}  // namespace phasor
