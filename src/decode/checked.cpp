#include "checked.h"

namespace phasor {
namespace {

phasor_status bad_input(phasor_error* error, uint64_t expected, uint64_t found, const char* a,
                        uint64_t x, const char* b, uint64_t y) {
  return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, expected, found}, a, x, b, y);
}

// Segments and positions, where the caller gives them. An item's first position is its sequence's
// length (0 for a source, which starts anew).
phasor_status check_places(const phasor_item& it, uint32_t segments, uint32_t start,
                           phasor_error* error) {
  for (uint32_t t = 0; it.segments != nullptr && t < it.count; ++t)
    if (it.segments[t] >= (segments == 0 ? 1 : segments))
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, segments, it.segments[t]},
                  "segment ", it.segments[t], " at place ", t, ", the model has ", segments);
  for (uint32_t t = 0; it.positions != nullptr && t < it.count; ++t)
    if (it.positions[t] != start + t)
      return fail(error, PHASOR_BAD_INPUT,
                  {PHASOR_NONE, PHASOR_NONE, uint64_t(start) + t, it.positions[t]}, "position ",
                  it.positions[t], " at place ", t, ", expected ", start + t,
                  ": positions count the tokens from 0, they are not token ids");
  return PHASOR_OK;
}

// What holds for an item of either stack; `room` is how many tokens its sequence can still take.
phasor_status check_item(const Session& s, const phasor_item* items, uint32_t i, uint32_t stack,
                         phasor_error* error) {
  const uint32_t vocabulary = s.model->descriptor.sides[stack].vocabulary,
                 segments = s.model->descriptor.stacks[stack].segments;
  const phasor_item& it = items[i];
  if (it.sequence >= s.plan.sequences)
    return bad_input(error, s.plan.sequences, it.sequence, "sequence ", it.sequence,
                     ", expected one below ", s.plan.sequences);
  for (uint32_t j = 0; j < i; ++j)
    if (items[j].sequence == it.sequence)
      return bad_input(error, 0, it.sequence, "sequence ", it.sequence,
                       " stands twice in a call, in item ", i);
  if (it.count == 0)
    return bad_input(error, 1, 0, "sequence ", it.sequence, ": no tokens; expected at least ", 1);
  if (it.struct_size != sizeof(phasor_item))
    return bad_input(error, sizeof(phasor_item), it.struct_size, "item ", i,
                     ": struct_size is not that of this library's phasor_item, ",
                     sizeof(phasor_item));
  if ((it.ids == nullptr) == (it.embeddings == nullptr))
    return fail(error, PHASOR_BAD_INPUT, {}, "sequence ", it.sequence,
                ": expected either ids or embeddings");
  for (uint32_t t = 0; it.ids != nullptr && t < it.count; ++t)
    if (it.ids[t] >= vocabulary)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, vocabulary, it.ids[t]},
                  "token id ", it.ids[t], " at place ", t, ", the vocabulary has ", vocabulary);
  return check_places(it, segments, stack == 0 ? 0 : s.sequences()[it.sequence].length, error);
}

}  // namespace

phasor_status checked_encode(Session* s, const phasor_item* items, uint32_t count,
                             phasor_error* error) noexcept {
  const Model& m = *s->model.pointer;
  if (!m.descriptor.has(kEncoder))
    return fail(error, PHASOR_BAD_INPUT, {}, "this model is a decoder: there is nothing to encode");
  for (uint32_t i = 0; i < count; ++i) {
    const phasor_status status = check_item(*s, items, i, 0, error);
    if (status != PHASOR_OK) return status;
    if (items[i].count > s->plan.source)
      return bad_input(error, s->plan.source, items[i].count, "a source of ", items[i].count,
                       " tokens, the limits hold ", s->plan.source);
  }
  for (uint32_t i = 0; i < count; ++i) sequence_clear(s, items[i].sequence);
  s->logits = s->best = 0;
  const uint64_t mode = fp_mode_enter();
  const phasor_status status = encode_sources(s, items, count, error);
  fp_mode_leave(mode);
  return status;
}

// An encoder's sequence whose hidden states are there and sound.
phasor_status check_encoded(const Session& s, uint32_t sequence, phasor_error* error) {
  if (s.model->descriptor.has(kDecoder))
    return fail(error, PHASOR_BAD_INPUT, {},
                "this model is no encoder: it has no output of its own for a source");
  if (sequence >= s.plan.sequences)
    return bad_input(error, s.plan.sequences, sequence, "sequence ", sequence,
                     ", expected one below ", s.plan.sequences);
  const Sequence& q = s.sequences()[sequence];
  if (q.encoded == 0)
    return fail(error, PHASOR_BAD_INPUT, {}, "sequence ", sequence,
                ": not encoded by the last call");
  if (q.status != PHASOR_OK)
    return fail(error, PHASOR_NOT_FINITE, {}, "sequence ", sequence,
                " has failed: a value is not finite");
  return PHASOR_OK;
}

phasor_status checked_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count,
                             phasor_error* error) noexcept {
  const phasor_status status = check_encoded(*s, sequence, error);
  if (status != PHASOR_OK) return status;
  const OutputDescriptor& o = s->model->descriptor.output;
  if (!s->model->output.weight)
    return fail(error, PHASOR_BAD_INPUT, {},
                "this model gives vectors: it has neither logits nor classes");
  const uint32_t rows = output_rows(s->model->descriptor, s->sequences()[sequence].encoded);
  if (count == 0 || first >= rows || count > rows - first)
    return bad_input(error, rows, uint64_t(first) + count,
                     o.pooling != kPoolNone ? "a pooled output has one row, asked up to row "
                                            : "output rows up to ",
                     uint64_t(first) + count, ", the sequence has ", rows);
  if (count > s->plan.logit_rows)
    return bad_input(error, s->plan.logit_rows, count, "logits of ", count,
                     " rows, the limits hold ", s->plan.logit_rows);
  const uint64_t mode = fp_mode_enter();
  const phasor_status now = encoder_output(s, sequence, first, count, error);
  fp_mode_leave(mode);
  return now;
}

phasor_status checked_embedding(Session* s, uint32_t sequence, uint32_t pooling, uint32_t normalise,
                                uint32_t dim, const float** out, phasor_error* error) noexcept {
  const phasor_status status = check_encoded(*s, sequence, error);
  if (status != PHASOR_OK) return status;
  const Descriptor& d = s->model->descriptor;
  if (pooling > PHASOR_POOL_LAST || normalise > PHASOR_NORMALISE_NO)
    return bad_input(error, PHASOR_POOL_LAST, pooling, "pooling ", pooling, ", normalise ",
                     normalise);
  const uint32_t how = pooling == PHASOR_POOL_MODEL ? d.output.pooling : pooling;
  if (how == kPoolNone)
    return fail(error, PHASOR_BAD_INPUT, {},
                "this model says nothing of pooling: choose mean, first or last");
  const uint32_t width = d.output.output == kOutputPooled ? output_width(d) : d.stacks[0].width;
  if (dim == 0 || dim > width)
    return bad_input(error, width, dim, "a vector of ", dim, " values, expected 1 to ", width);
  const bool unit = normalise == PHASOR_NORMALISE_MODEL ? d.output.normalise != 0
                                                        : normalise == PHASOR_NORMALISE_YES;
  const uint64_t mode = fp_mode_enter();
  const phasor_status now = embedding(s, sequence, how, unit, dim, out, error);
  fp_mode_leave(mode);
  return now;
}

phasor_status checked_step(Session* s, const phasor_item* items, uint32_t count,
                           phasor_error* error) noexcept {
  const Model& m = *s->model.pointer;
  s->logits = s->best = 0;
  if (!m.descriptor.has(kDecoder))
    return fail(error, PHASOR_BAD_INPUT, {}, "this model is an encoder: it has no decoder to step");
  uint64_t rows[2] = {0, 0};  // of logits, of best tokens
  for (uint32_t i = 0; i < count; ++i) {
    const phasor_item& it = items[i];
    phasor_status status = check_item(*s, items, i, 1, error);
    if (status != PHASOR_OK) return status;
    const Sequence& q = s->sequences()[it.sequence];
    if (q.status != PHASOR_OK)
      return fail(error, PHASOR_NOT_FINITE, {}, "sequence ", it.sequence,
                  " has failed: clear it first");
    if (m.cross.values != 0 && q.source == PHASOR_NONE)
      return fail(error, PHASOR_BAD_INPUT, {}, "sequence ", it.sequence,
                  " has no source: encode one first");
    if (it.count > s->plan.target - q.length)
      return fail(error, PHASOR_FULL,
                  {PHASOR_NONE, PHASOR_NONE, s->plan.target, uint64_t(q.length) + it.count},
                  "sequence ", it.sequence, ": ", q.length, " tokens and ", it.count,
                  " more, the limits hold ", s->plan.target);
    if (it.logits > PHASOR_BEST_ALL)
      return bad_input(error, PHASOR_BEST_ALL, it.logits, "item ", i, ": logits ", it.logits);
    rows[wants_best(it.logits)] += wanted_rows(it);
  }
  if (rows[0] > s->plan.logit_rows)
    return bad_input(error, s->plan.logit_rows, rows[0], "logits of ", rows[0],
                     " rows, the limits hold ", s->plan.logit_rows);
  if (rows[1] > s->plan.best_rows)
    return bad_input(error, s->plan.best_rows, rows[1], "best tokens of ", rows[1],
                     " rows, limits.best_rows holds ", s->plan.best_rows);
  if (rows[0] != 0 && rows[1] != 0)
    return fail(error, PHASOR_BAD_INPUT, {},
                "a step gives logits or best tokens: its items ask for both");
  s->best = rows[1] != 0 ? 1 : 0;
  return take_step(s, items, count, error);
}

phasor_status take_step(Session* s, const phasor_item* items, uint32_t count,
                        phasor_error* error) noexcept {
  for (uint32_t i = 0; i < count; ++i) sequence_reserve(s, items[i].sequence, items[i].count);
  const uint64_t mode = fp_mode_enter();
  const phasor_status status = decode_step(s, items, count, error);
  fp_mode_leave(mode);
  if (status == PHASOR_STOPPED)  // pages that were reserved and not used go back
    for (uint32_t i = 0; i < count; ++i) {
      Sequence& q = s->sequences()[items[i].sequence];
      const uint32_t length = q.length;
      q.length += items[i].count;
      (void)sequence_truncate(s, items[i].sequence, length);
    }
  return status;
}

phasor_status check_decoder(const Session& s, uint32_t sequence, phasor_error* error) noexcept {
  if (!s.model->descriptor.has(kDecoder))
    return fail(error, PHASOR_BAD_INPUT, {}, "this model is an encoder: it has no decoder to step");
  if (sequence >= s.plan.sequences)
    return bad_input(error, s.plan.sequences, sequence, "sequence ", sequence,
                     ", expected one below ", s.plan.sequences);
  return PHASOR_OK;
}

phasor_status start_token(const Session& s, const uint32_t** id, phasor_error* error) noexcept {
  const SideDescriptor& side = s.model->descriptor.sides[1];
  *id = side.decoder_start != PHASOR_NONE ? &side.decoder_start : &side.start;
  return **id != PHASOR_NONE ? PHASOR_OK
                             : fail(error, PHASOR_BAD_INPUT, {},
                                    "an empty prompt, and the model has no start token");
}

phasor_status best_token(const Session& s, uint32_t row, uint32_t* id, float* logit) noexcept {
  if (s.best != 0) {
    const Best& found = s.span<Best>(kPartBest, 0, s.plan.best_rows)[row];
    *id = found.id;
    *logit = found.logit;
    return found.id != PHASOR_NONE ? PHASOR_OK : PHASOR_NOT_FINITE;
  }
  const uint32_t width = output_width(s.model->descriptor);
  const size_t best = s.model->kernels->argmax(s.logit_rows().row(row, width), width, logit);
  if (best >= width) return PHASOR_NOT_FINITE;
  *id = static_cast<uint32_t>(best);
  return PHASOR_OK;
}

}  // namespace phasor
