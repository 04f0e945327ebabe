#include "replay.h"

#include "checked.h"

namespace phasor {
namespace {

struct Replay {
  Session* s;
  const VectorsHeader* header;
  const TestVector* v;
  phasor_vector_result* result;
  phasor_error* error;
  phasor_status status;
  uint32_t position;  // of the target token at hand
};

float share_of(float part, float whole) { return whole > 0 ? part / whole : part; }

// Keeps the larger one, and a NaN; true when `x` is it.
bool grows(float* worst, float x) {
  if (x <= *worst) return false;
  *worst = x;
  return true;
}

// The samples of a row: the largest difference between what is there and what is stored.
float worst_difference(const Replay& r, const float* x, const unsigned char* places,
                       const unsigned char* stored) {
  float worst = 0;
  for (uint32_t i = 0; i < r.header->samples; ++i)
    (void)grows(&worst, __builtin_fabsf(x[load_u32(places + 4 * i)] - load_f32(stored + 4 * i)));
  return worst;
}

// The first thing that differs is the one that is reported.
template <class... Parts>
void differ(Replay* r, uint32_t layer, Parts... parts) {
  if (r->status == PHASOR_OK)
    r->status = fail(r->error, PHASOR_MISMATCH, {kSectionVectors, layer, 0, 0}, parts...);
}

// The residual after a block, at the sampled position and places.
void see(void* user, const phasor_view* view) {
  Replay* r = static_cast<Replay*>(user);
  if (view->what != PHASOR_SEE_RESIDUAL) return;
  const TestVector& v = *r->v;
  const bool encoder = view->stack == block_stack(kEncoder);
  const uint32_t wanted = encoder ? v.source_residual : v.target_residual;
  if (wanted < view->position || wanted >= view->position + view->rows) return;
  const uint32_t n = r->header->samples;
  const unsigned char* stored =
      (encoder ? v.source_residuals : v.target_residuals) + uint64_t(view->layer) * n * 4;
  float scale = 0;
  for (uint32_t i = 0; i < n; ++i) (void)grows(&scale, __builtin_fabsf(load_f32(stored + 4 * i)));
  const float worst = worst_difference(*r, view->data + (wanted - view->position) * view->stride,
                                       encoder ? v.source_places : v.target_places, stored);
  const float share = share_of(worst, scale), tolerance = r->header->tolerance;
  if (grows(&r->result->worst_residual, share)) {
    r->result->worst_stack = view->stack;
    r->result->worst_layer = view->layer;
  }
  if (!(share <= tolerance))
    differ(r, view->layer, stack_name(view->stack), " layer ", view->layer,
           ": the residual differs by ", share, " of its largest value, tolerance ", tolerance);
}

void add_to_hash(uint64_t* hash, const float* row, uint32_t width) {
  for (uint32_t i = 0; i < width; ++i) {
    uint32_t bits;
    memcpy(&bits, row + i, sizeof bits);
    for (int byte = 0; byte < 4; ++byte)
      *hash = (*hash ^ (bits >> (8 * byte) & 255u)) * 0x100000001B3u;
  }
}

// One output row: its values, then its best place. Stored are the reference's best place and its
// value, the row's range, and the samples.
phasor_status compare_row(Replay* r, const float* row, uint32_t width) {
  const unsigned char* stored = r->v->logits + uint64_t(r->position) * (3 + r->header->samples) * 4;
  const float range = load_f32(stored + 8), tolerance = r->header->tolerance;
  const uint32_t place = load_u32(stored);
  float largest = 0;
  const size_t best = r->s->model->kernels->argmax(row, width, &largest);
  if (best >= width)
    return fail(r->error, PHASOR_NOT_FINITE, {kSectionVectors, PHASOR_NONE, 0, 0}, "position ",
                r->position, ": an output is not a number");
  add_to_hash(&r->result->hash, row, width);
  float worst = __builtin_fabsf(row[place] - load_f32(stored + 4));
  (void)grows(&worst, worst_difference(*r, row, r->v->logit_ids, stored + 12));
  const float share = share_of(worst, range);
  if (grows(&r->result->worst_logit, share)) r->result->worst_position = r->position;
  if (!(share <= tolerance))
    differ(r, PHASOR_NONE, "position ", r->position, ": a logit differs by ", share,
           " of the range, tolerance ", tolerance);
  if (best != place) {
    ++r->result->argmax_differs;
    // An error only where the two are further apart than rounding explains.
    const float gap = __builtin_fabsf(row[best] - row[place]);
    (void)grows(&r->result->worst_lead, share_of(gap, range));
    if (!(gap <= 2 * tolerance * range))
      differ(r, PHASOR_NONE, "position ", r->position, ": the best token is ", uint64_t(best),
             ", expected ", place);
  }
  ++r->position;
  return PHASOR_OK;
}

// Output rows from `first` on, `count` of them: a decoder's logits, or what an encoder gives. They
// are *stride floats apart.
phasor_status output_of(Replay* r, uint32_t first, uint32_t count, const float** rows,
                        uint64_t* stride) {
  Session* s = r->s;
  const Descriptor& d = s->model->descriptor;
  const uint32_t width = output_width(d);
  if (r->v->target == 0 && d.output.output == kOutputPooled)
    return checked_embedding(s, 0, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_MODEL, width, rows,
                             r->error);
  if (r->v->target == 0 && d.output.output == kOutputHidden) {
    *rows = s->hidden_rows().rows(s->sequences()[0].hidden + first, count, width);
    *stride = s->plan.ld;
    return PHASOR_OK;
  }
  *rows = s->logit_rows().rows(0, count, width);
  *stride = s->plan.logit_ld;
  return r->v->target == 0 ? checked_output(s, 0, first, count, r->error)
                           : feed(s, 0, reinterpret_cast<const uint32_t*>(r->v->target_ids) + first,
                                  count, PHASOR_LOGITS_ALL, r->error);
}

phasor_status run_vector(Replay* r) {
  Session* s = r->s;
  const TestVector& v = *r->v;
  const Descriptor& d = s->model->descriptor;
  const uint32_t width = output_width(d),
                 rows = v.target != 0 ? v.target : output_rows(d, v.source);
  const bool vectors = d.output.output == kOutputPooled || d.output.output == kOutputHidden;
  phasor_status status = PHASOR_OK;
  sequence_clear(s, 0);
  if (v.source != 0) {
    const phasor_item item =
        item_of(0, reinterpret_cast<const uint32_t*>(v.source_ids), v.source, PHASOR_LOGITS_NONE);
    status = checked_encode(s, &item, 1, r->error);
  }
  // As many at a time as there are rows of logits: the same bits in any chunking.
  const uint32_t most = v.target == 0 && vectors ? rows : s->plan.logit_rows;
  if (status == PHASOR_OK && most == 0)
    return fail(r->error, PHASOR_BAD_LIMITS, {},
                "limits.logit_rows: 0, a test vector needs at least 1");
  for (uint32_t done = 0; done < rows && status == PHASOR_OK;) {
    const uint32_t count = smaller(rows - done, most);
    const float* row = nullptr;
    uint64_t stride = 0;
    status = output_of(r, done, count, &row, &stride);
    for (uint32_t i = 0; i < count && status == PHASOR_OK; ++i)
      status = compare_row(r, row + i * stride, width);
    done += count;
  }
  return status == PHASOR_OK ? r->status : status;
}

bool ids_below(const unsigned char* ids, uint64_t count, uint32_t limit) {
  for (uint64_t i = 0; i < count; ++i)
    if (load_u32(ids + 4 * i) >= limit) return false;
  return true;
}

bool vector_is_sound(const Model& m, const VectorsHeader& h, const TestVector& v) {
  const Descriptor& d = m.descriptor;
  if (!ids_below(v.source_ids, v.source, d.sides[kEncoder].vocabulary) ||
      !ids_below(v.target_ids, v.target, d.sides[kDecoder].vocabulary))
    return false;
  if (v.source != 0 && !ids_below(v.source_places, h.samples, d.stacks[kEncoder].width))
    return false;
  if (v.target != 0 && !ids_below(v.target_places, h.samples, d.stacks[kDecoder].width))
    return false;
  if (!ids_below(v.logit_ids, h.samples, output_width(d))) return false;
  for (uint32_t t = 0; t < v.rows; ++t)
    if (load_u32(v.logits + uint64_t(t) * (3 + h.samples) * 4) >= output_width(d)) return false;
  return true;
}

VectorShape shape_of(const Model& m) {
  return {{m.layer_count[kEncoder], m.layer_count[kDecoder]},
          m.descriptor.output.pooling != kPoolNone};
}

}  // namespace

bool find_vector(TestVector* out, VectorsHeader* header, const Model& m, uint32_t index) noexcept {
  const File file = m.file();
  if (!read_vectors_header(header, file) || index >= header->count) return false;
  uint64_t at = header->first;
  for (uint32_t i = 0; i <= index; ++i)
    // never: open has read every vector
    if (!next_vector(out, &at, *header, file, shape_of(m))) return false;
  return true;
}

bool vectors_are_sound(const Model& m) noexcept {
  const File file = m.file();
  if (file.sections[kSectionVectors].bytes == 0) return true;
  VectorsHeader header{};
  if (!read_vectors_header(&header, file)) return false;
  uint64_t at = header.first;
  for (uint32_t i = 0; i < header.count; ++i) {
    TestVector v{};
    if (!next_vector(&v, &at, header, file, shape_of(m)) || !vector_is_sound(m, header, v))
      return false;
  }
  return at == file.sections[kSectionVectors].bytes;
}

bool find_record(SourceRecord* out, const Model& m) noexcept {
  const File file = m.file();
  return file.sections[kSectionRecord].bytes != 0 &&
         read_record(out, file, output_width(m.descriptor));
}

bool record_is_sound(const Model& m) noexcept {
  const File file = m.file();
  if (file.sections[kSectionRecord].bytes == 0) return true;
  SourceRecord record{};
  if (!find_record(&record, m)) return false;
  if (record.rows == 0) return true;
  VectorsHeader header{};
  if (!read_vectors_header(&header, file)) return false;
  uint64_t at = header.first, rows = 0;
  for (uint32_t i = 0; i < header.count; ++i) {
    TestVector v{};
    if (!next_vector(&v, &at, header, file, shape_of(m))) return false;  // never: it was walked
    rows += v.rows;
  }
  return rows == record.rows;
}

phasor_status replay_vector(Session* s, uint32_t index, phasor_vector_result* result,
                            phasor_error* error) noexcept {
  VectorsHeader header{};
  TestVector v{};
  if (!find_vector(&v, &header, *s->model.pointer, index))
    return fail(error, PHASOR_BAD_INPUT, {kSectionVectors, PHASOR_NONE, 0, index},
                "no test vector ", index);
  result->hash = 0xCBF29CE484222325u;
  Replay r{s, &header, &v, result, error, PHASOR_OK, 0};
  const Session before = *s;  // the caller's callbacks come back afterwards
  s->see.set(&see);
  s->progress.set(nullptr);
  s->user.set(&r);
  const phasor_status status = run_vector(&r);
  s->see.set(before.see.pointer);
  s->progress.set(before.progress.pointer);
  s->user.set(before.user.pointer);
  if (status != PHASOR_OK || v.hash == 0 || header.numerics != phasor_numerics() ||
      v.hash == result->hash)
    return status;
  return fail(error, PHASOR_MISMATCH, {kSectionVectors, PHASOR_NONE, v.hash, result->hash},
              "vector ", index, ": within the tolerance, but not the bits that were recorded");
}

}  // namespace phasor
