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
  uint64_t hash;
  uint32_t position;  // of the target token at hand
};

float magnitude(float x) { return x < 0 ? -x : x; }

// The first thing that differs is the one that is reported.
template <class... Parts>
void differ(Replay* r, uint32_t layer, Parts... parts) {
  if (r->status == PHASOR_OK)
    r->status = fail(r->error, PHASOR_MISMATCH, {kSectionVectors, layer, 0, 0}, parts...);
}

// The residual after a block, at the sampled position and places.
void compare_residual(Replay* r, const phasor_view& view, uint32_t row, const unsigned char* places,
                      const unsigned char* stored) {
  const uint32_t n = r->header->samples;
  const float* x = view.data + row * view.stride;
  float scale = 0, worst = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const float want = load_f32(stored + 4 * i), got = x[load_u32(places + 4 * i)];
    if (magnitude(want) > scale) scale = magnitude(want);
    const float difference = magnitude(got - want);
    if (!(difference <= worst)) worst = difference;
  }
  const float share = scale > 0 ? worst / scale : worst;
  if (!(share <= r->result->worst_residual)) {
    r->result->worst_residual = share;
    r->result->worst_stack = view.stack;
    r->result->worst_layer = view.layer;
  }
  if (!(share <= r->header->tolerance))
    differ(r, view.layer, stack_name(view.stack), " layer ", view.layer,
           ": the residual differs by ", share, " of its largest value, tolerance ",
           r->header->tolerance);
}

void see(void* user, const phasor_view* view) {
  Replay* r = static_cast<Replay*>(user);
  if (view->what != PHASOR_SEE_RESIDUAL) return;
  const bool encoder = view->stack == block_stack(kEncoder);
  const uint32_t wanted = encoder ? r->v->source_residual : r->v->target_residual;
  if (wanted < view->position || wanted >= view->position + view->rows) return;
  const unsigned char* stored = encoder ? r->v->source_residuals : r->v->target_residuals;
  compare_residual(r, *view, wanted - view->position,
                   encoder ? r->v->source_places : r->v->target_places,
                   stored + uint64_t(view->layer) * r->header->samples * 4);
}

void compare_logits(Replay* r, const float* logits, uint32_t vocabulary, uint32_t best) {
  const uint32_t n = r->header->samples;
  const unsigned char* stored = r->v->logits + uint64_t(r->position) * (3 + n) * 4;
  for (uint32_t i = 0; i < vocabulary; ++i) {
    uint32_t bits;
    memcpy(&bits, logits + i, sizeof bits);
    for (int byte = 0; byte < 4; ++byte)
      r->hash = (r->hash ^ (bits >> (8 * byte) & 255u)) * 0x100000001B3u;
  }
  const float range = load_f32(stored + 8);
  float worst = magnitude(logits[load_u32(stored)] - load_f32(stored + 4));  // the reference's best
  for (uint32_t i = 0; i < n; ++i) {
    const float difference =
        magnitude(logits[load_u32(r->v->logit_ids + 4 * i)] - load_f32(stored + 4 * (3 + i)));
    if (!(difference <= worst)) worst = difference;
  }
  const float share = range > 0 ? worst / range : worst;
  if (!(share <= r->result->worst_logit)) {
    r->result->worst_logit = share;
    r->result->worst_position = r->position;
  }
  if (!(share <= r->header->tolerance))
    differ(r, PHASOR_NONE, "position ", r->position, ": a logit differs by ", share,
           " of the range, tolerance ", r->header->tolerance);
  if (best == load_u32(stored)) return;
  ++r->result->argmax_differs;
  // Another best token is an error only where the two are further apart than rounding explains.
  const float gap = magnitude(logits[best] - logits[load_u32(stored)]);
  const float lead = range > 0 ? gap / range : gap;
  if (!(lead <= r->result->worst_lead)) r->result->worst_lead = lead;
  if (!(gap <= 2 * r->header->tolerance * range))
    differ(r, PHASOR_NONE, "position ", r->position, ": the best token is ", best, ", expected ",
           load_u32(stored));
}

// One output row: its best place, then its values.
phasor_status compare_row(Replay* r, const float* row, uint32_t width) {
  float largest = 0;
  const size_t best = r->s->model->kernels->argmax(row, width, &largest);
  if (best >= width)
    return fail(r->error, PHASOR_NOT_FINITE, {kSectionVectors, PHASOR_NONE, 0, 0}, "position ",
                r->position, ": an output is not a number");
  compare_logits(r, row, width, static_cast<uint32_t>(best));
  ++r->position;
  return PHASOR_OK;
}

// What an encoder gives: hidden states, a pooled vector, or rows of logits or classes, as many at a
// time as the limits hold.
phasor_status run_encoder_output(Replay* r) {
  Session* s = r->s;
  const Descriptor& d = s->model->descriptor;
  const uint32_t width = output_width(d), rows = output_rows(d, r->v->source);
  if (d.output.output == kOutputPooled) {
    const float* y = nullptr;
    const phasor_status status =
        checked_embedding(s, 0, PHASOR_POOL_MODEL, PHASOR_NORMALISE_MODEL, width, &y, r->error);
    return status != PHASOR_OK                     ? status
           : compare_row(r, y, width) != PHASOR_OK ? PHASOR_NOT_FINITE
                                                   : r->status;
  }
  for (uint32_t done = 0; done < rows;) {
    const bool hidden = d.output.output == kOutputHidden;
    const uint32_t left = rows - done,
                   count = hidden || left < s->plan.logit_rows ? left : s->plan.logit_rows;
    if (count == 0)
      return fail(r->error, PHASOR_BAD_LIMITS, {},
                  "limits.logit_rows: 0, a test vector needs at least 1");
    const phasor_status status = hidden ? PHASOR_OK : checked_output(s, 0, done, count, r->error);
    if (status != PHASOR_OK) return status;
    for (uint32_t row = 0; row < count; ++row) {
      const float* values = hidden
                                ? s->hidden_rows().row(s->sequences()[0].hidden + done + row, width)
                                : s->logit_rows().row(row, width);
      const phasor_status now = compare_row(r, values, width);
      if (now != PHASOR_OK) return now;
    }
    done += count;
  }
  return r->status;
}

phasor_status run_vector(Replay* r) {
  Session* s = r->s;
  const TestVector& v = *r->v;
  sequence_clear(s, 0);
  if (v.source != 0) {
    phasor_item item{sizeof(phasor_item),
                     0,
                     v.source,
                     PHASOR_LOGITS_NONE,
                     reinterpret_cast<const uint32_t*>(v.source_ids),
                     nullptr,
                     nullptr,
                     nullptr};
    const phasor_status status = checked_encode(s, &item, 1, r->error);
    if (status != PHASOR_OK) return status;
  }
  if (v.target == 0) return run_encoder_output(r);
  // As many tokens at a time as there are rows of logits: the same bits in any chunking.
  for (uint32_t done = 0; done < v.target;) {
    const uint32_t left = v.target - done,
                   count = left < s->plan.logit_rows ? left : s->plan.logit_rows;
    phasor_item item{sizeof(phasor_item),
                     0,
                     count,
                     PHASOR_LOGITS_ALL,
                     reinterpret_cast<const uint32_t*>(v.target_ids) + done,
                     nullptr,
                     nullptr,
                     nullptr};
    const phasor_status status = checked_step(s, &item, 1, r->error);
    if (status != PHASOR_OK) return status;
    for (uint32_t row = 0; row < count; ++row) {
      const phasor_status now =
          compare_row(r, s->logit_rows().row(row, output_width(s->model->descriptor)),
                      output_width(s->model->descriptor));
      if (now != PHASOR_OK) return now;
    }
    done += count;
  }
  return r->status;
}

bool ids_below(const unsigned char* ids, uint64_t count, uint32_t limit) {
  for (uint64_t i = 0; i < count; ++i)
    if (load_u32(ids + 4 * i) >= limit) return false;
  return true;
}

bool vector_is_sound(const Model& m, const VectorsHeader& h, const TestVector& v) {
  const Descriptor& d = m.descriptor;
  if (!ids_below(v.source_ids, v.source, d.sides[0].vocabulary) ||
      !ids_below(v.target_ids, v.target, d.sides[1].vocabulary))
    return false;
  if (v.source != 0 && !ids_below(v.source_places, h.samples, d.stacks[0].width)) return false;
  if (v.target != 0 && !ids_below(v.target_places, h.samples, d.stacks[1].width)) return false;
  if (!ids_below(v.logit_ids, h.samples, output_width(d))) return false;
  for (uint32_t t = 0; t < v.rows; ++t)
    if (load_u32(v.logits + uint64_t(t) * (3 + h.samples) * 4) >= output_width(d)) return false;
  return true;
}

VectorShape shape_of(const Model& m) {
  return {{m.layer_count[0], m.layer_count[1]}, m.descriptor.output.pooling != kPoolNone};
}

}  // namespace

bool find_vector(TestVector* out, VectorsHeader* header, const Model& m, uint32_t index) noexcept {
  const File file = m.file();
  if (file.sections[kSectionVectors].bytes == 0 || !read_vectors_header(header, file) ||
      index >= header->count)
    return false;
  uint64_t at = header->first;
  for (uint32_t i = 0; i <= index; ++i)
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

phasor_status replay_vector(Session* s, uint32_t index, phasor_vector_result* result,
                            phasor_error* error) noexcept {
  VectorsHeader header{};
  TestVector v{};
  if (!find_vector(&v, &header, *s->model.pointer, index))
    return fail(error, PHASOR_BAD_INPUT, {kSectionVectors, PHASOR_NONE, 0, index},
                "no test vector ", index);
  phasor_vector_result made{};
  // an older caller's struct is shorter
  made.struct_size =
      result->struct_size < sizeof made ? result->struct_size : static_cast<uint32_t>(sizeof made);
  Replay r{s, &header, &v, &made, error, PHASOR_OK, 0xCBF29CE484222325u, 0};
  const Session before = *s;  // the caller's callbacks come back afterwards
  s->see.set(&see);
  s->progress.set(nullptr);
  s->user.set(&r);
  phasor_status status = run_vector(&r);
  s->see.set(before.see.pointer);
  s->progress.set(before.progress.pointer);
  s->user.set(before.user.pointer);
  made.hash = r.hash;
  memcpy(result, &made, made.struct_size);
  if (status == PHASOR_OK && v.hash != 0 && header.numerics == phasor_numerics() &&
      v.hash != r.hash)
    status = fail(error, PHASOR_MISMATCH, {kSectionVectors, PHASOR_NONE, v.hash, r.hash}, "vector ",
                  index, ": within the tolerance, but not the bits that were recorded");
  return status;
}

}  // namespace phasor
