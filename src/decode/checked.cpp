#include "checked.h"

namespace phasor {
namespace {

// Segments and positions, where the caller gives them. An item's first position is its sequence's
// length (0 for a source, which starts anew).
phasor_status check_places(const phasor_item& it, uint32_t segments, uint32_t start,
                           phasor_error* error) {
  for (uint32_t t = 0; it.segments != nullptr && t < it.count; ++t)
    if (it.segments[t] >= (segments == 0 ? 1 : segments))
      return bad_input(error, {segments, it.segments[t]}, "segment ", it.segments[t], " at place ",
                       t, ", the model has ", segments);
  for (uint32_t t = 0; it.positions != nullptr && t < it.count; ++t)
    if (it.positions[t] != start + t)
      return bad_input(error, {uint64_t(start) + t, it.positions[t]}, "position ", it.positions[t],
                       " at place ", t, ", expected ", start + t,
                       ": positions count the tokens from 0, they are not token ids");
  return PHASOR_OK;
}

// Tokens that nobody attends to: an encoder's, behind those that are seen. Each token sees one of
// them, and none looks up a distance beyond the keys.
phasor_status check_seen(const Session& s, const phasor_item& it, phasor_error* error) {
  const Model& m = *s.model.pointer;
  if (it.reserved != 0)
    return bad_input(error, "sequence ", it.sequence, ": the item's reserved field is not 0");
  if (it.seen == 0) return PHASOR_OK;
  if (m.descriptor.has(kDecoder))
    return bad_input(error, "sequence ", it.sequence,
                     ": tokens that are not seen are an encoder's");
  if (it.seen > it.count)
    return bad_input(error, {it.count, it.seen}, "sequence ", it.sequence, ": ", it.seen,
                     " tokens are seen, there are ", it.count);
  for (uint32_t i = 0; i < m.layer_count[kEncoder]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(kEncoder, i));
    if (relative_keys(k) || k.position == kT5Bias)
      return bad_input(error, "sequence ", it.sequence,
                       ": all tokens are seen where positions have tables of distances");
    const uint32_t before = k.causal != 0 ? k.window - 1 : (k.window - 1) / 2;
    if (k.window != 0 && it.count - it.seen > before)
      return bad_input(error, {before, it.count - it.seen}, "sequence ", it.sequence, ": ",
                       it.count - it.seen, " tokens are not seen, the window holds ", before);
  }
  return PHASOR_OK;
}

// What holds for an item of either stack; `start` is its first position.
phasor_status check_item(const Session& s, Items items, uint32_t i, Half stack,
                         phasor_error* error) {
  const phasor_item it = items[i];
  phasor_status status = check_sequence(s, it.sequence, error);
  if (status != PHASOR_OK) return status;
  for (uint32_t j = 0; j < i; ++j)
    if (items[j].sequence == it.sequence)
      return bad_input(error, {0, it.sequence}, "sequence ", it.sequence,
                       " appears twice in a call, in item ", i);
  if (it.count == 0)
    return bad_input(error, {1, 0}, "sequence ", it.sequence, ": no tokens; expected at least 1");
  if (it.states != nullptr) {
    if (stack != kEncoder || !s.model->descriptor.has_both())
      return bad_input(error, "sequence ", it.sequence,
                       ": states are the source of an encoder-decoder");
    if (it.ids != nullptr || it.embeddings != nullptr || it.segments != nullptr)
      return bad_input(error, "sequence ", it.sequence,
                       ": expected states without ids, embeddings and segments");
  } else if (it.ids == nullptr && it.embeddings == nullptr) {
    return bad_input(error, "sequence ", it.sequence, ": expected ids or embeddings");
  }
  if (it.ids != nullptr)
    status = check_ids(s, stack, "", it.ids, it.count, error, it.embeddings != nullptr);
  if (status == PHASOR_OK) status = check_seen(s, it, error);
  if (status != PHASOR_OK) return status;
  return check_places(it, s.model->descriptor.stacks[stack].segments,
                      stack == kEncoder ? 0 : s.sequences()[it.sequence].length, error);
}

// An item of a step, and the state of its sequence.
phasor_status check_step(const Session& s, Items items, uint32_t i, phasor_error* error) {
  const phasor_status status = check_item(s, items, i, kDecoder, error);
  if (status != PHASOR_OK) return status;
  const phasor_item it = items[i];
  const Sequence& q = s.sequences()[it.sequence];
  const uint64_t length = uint64_t(q.length) + it.count;
  if (q.status != PHASOR_OK)
    return fail(error, PHASOR_NOT_FINITE, {}, "sequence ", it.sequence,
                " has failed: clear it first");
  if (s.model->cross.values != 0 && q.source == PHASOR_NONE)
    return bad_input(error, "sequence ", it.sequence, " has no source: encode one first");
  if (length > s.plan.target)
    return fail(error, PHASOR_FULL, {PHASOR_NONE, PHASOR_NONE, s.plan.target, length}, "sequence ",
                it.sequence, ": ", q.length, " tokens and ", it.count, " more, the limits hold ",
                s.plan.target);
  if (it.logits > PHASOR_BEST_ALL)
    return bad_input(error, {PHASOR_BEST_ALL, it.logits}, "item ", i, ": logits ", it.logits);
  return PHASOR_OK;
}

// `rows` of what a step or an encoder gives; the limits hold `most`.
phasor_status check_rows(const char* what, uint64_t rows, const char* held, uint32_t most,
                         phasor_error* error) {
  if (rows <= most) return PHASOR_OK;
  return bad_input(error, {most, rows}, what, rows, held, most);
}
constexpr char kLogits[] = "logits of ", kHeld[] = " rows, the limits hold ";

// An encoder's sequence whose hidden states are there and sound.
phasor_status check_encoded(const Session& s, uint32_t sequence, phasor_error* error) {
  if (s.model->descriptor.has(kDecoder))
    return bad_input(error, "this model is no encoder: it has no output of its own for a source");
  const phasor_status status = check_sequence(s, sequence, error);
  if (status != PHASOR_OK) return status;
  const Sequence& q = s.sequences()[sequence];
  if (q.encoded == 0)
    return bad_input(error, "sequence ", sequence, ": not encoded by the last call");
  if (q.status != PHASOR_OK)
    return fail(error, PHASOR_NOT_FINITE, {}, "sequence ", sequence,
                " has failed: a value is not finite");
  return PHASOR_OK;
}

}  // namespace

phasor_status check_decoder(const Model& m, phasor_error* error) noexcept {
  if (m.descriptor.has(kDecoder)) return PHASOR_OK;
  return bad_input(error, "this model is an encoder: it has no decoder to step");
}

phasor_status check_generator(const Model& m, phasor_error* error) noexcept {
  const phasor_status status = check_decoder(m, error);
  if (status != PHASOR_OK || m.descriptor.output.output == kOutputLogits) return status;
  return bad_input(error, "this model gives classes: it has no tokens to choose from");
}

phasor_status check_sequence(const Session& s, uint32_t sequence, phasor_error* error) noexcept {
  if (sequence < s.plan.sequences) return PHASOR_OK;
  return bad_input(error, {s.plan.sequences, sequence}, "sequence ", sequence,
                   ", expected one below ", s.plan.sequences);
}

phasor_status check_ids(const Session& s, Half side, const char* name, const uint32_t* ids,
                        uint32_t count, phasor_error* error, bool none) noexcept {
  const uint32_t vocabulary = s.model->descriptor.sides[side].vocabulary;
  for (uint32_t i = 0; i < count; ++i)
    if (ids[i] >= vocabulary && !(none && ids[i] == PHASOR_NONE))
      return bad_input(error, {vocabulary, ids[i]}, name, "token id ", ids[i], " at place ", i,
                       ", the vocabulary has ", vocabulary);
  return PHASOR_OK;
}

phasor_status checked_encode(Session* s, Items items, uint32_t count,
                             phasor_error* error) noexcept {
  if (!s->model->descriptor.has(kEncoder))
    return bad_input(error, "this model is a decoder: there is nothing to encode");
  phasor_status status = items.check("phasor_item", count, error);
  for (uint32_t i = 0; i < count && status == PHASOR_OK; ++i) {
    const uint32_t tokens = items[i].count, most = s->plan.source;
    status = check_item(*s, items, i, kEncoder, error);
    if (status == PHASOR_OK && tokens > most)
      status = bad_input(error, {most, tokens}, "a source of ", tokens, " tokens, the limits hold ",
                         most);
    const bool all_ids = items[i].ids != nullptr && items[i].embeddings == nullptr;
    if (status == PHASOR_OK && !all_ids && s->shortlist.pointer != nullptr)
      status = bad_input(error, "a source without ids: a shortlist needs them");
  }
  if (status != PHASOR_OK) return status;
  for (uint32_t i = 0; i < count; ++i) sequence_clear(s, items[i].sequence);
  s->logits = s->best = 0;
  const FpMode mode;
  return encode_sources(s, items, count, error);
}

phasor_status checked_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count,
                             phasor_error* error) noexcept {
  phasor_status status = check_encoded(*s, sequence, error);
  if (status != PHASOR_OK) return status;
  const Descriptor& d = s->model->descriptor;
  if (!s->model->output.weight)
    return bad_input(error, "this model gives vectors: it has neither logits nor classes");
  const uint32_t rows = output_rows(d, s->sequences()[sequence].encoded);
  const uint64_t end = uint64_t(first) + count;
  if (count == 0 || end > rows)
    return bad_input(error, {rows, end},
                     d.output.pooling != kPoolNone ? "a pooled output has one row, asked up to row "
                                                   : "output rows up to ",
                     end, ", the sequence has ", rows);
  status = check_rows(kLogits, count, kHeld, s->plan.logit_rows, error);
  if (status != PHASOR_OK) return status;
  const FpMode mode;
  return encoder_output(s, sequence, first, count, error);
}

phasor_status checked_embedding(Session* s, uint32_t sequence, uint32_t pooling, uint32_t normalize,
                                uint32_t dim, const float** out, phasor_error* error) noexcept {
  const phasor_status status = check_encoded(*s, sequence, error);
  if (status != PHASOR_OK) return status;
  const Descriptor& d = s->model->descriptor;
  if (pooling > PHASOR_POOL_MAX || normalize > PHASOR_NORMALIZE_NO)
    return bad_input(error, {PHASOR_POOL_MAX, pooling}, "pooling ", pooling, ", normalize ",
                     normalize);
  const uint32_t how = pooling == PHASOR_POOL_MODEL ? d.output.pooling : pooling;
  if (how == kPoolNone)
    return bad_input(error, "this model says nothing of pooling: choose mean, first, last or max");
  const uint32_t width =
      d.output.output == kOutputPooled ? output_width(d) : d.stacks[kEncoder].width;
  if (dim == 0 || dim > width)
    return bad_input(error, {width, dim}, "a vector of ", dim, " values, expected 1 to ", width);
  const bool unit = normalize == PHASOR_NORMALIZE_MODEL ? d.output.normalize != 0
                                                        : normalize == PHASOR_NORMALIZE_YES;
  const FpMode mode;
  return embedding(s, sequence, how, unit, dim, out, error);
}

phasor_status checked_step(Session* s, Items items, uint32_t count, phasor_error* error) noexcept {
  s->logits = s->best = 0;
  phasor_status status = check_decoder(*s->model.pointer, error);
  if (status == PHASOR_OK) status = items.check("phasor_item", count, error);
  uint64_t rows[2] = {0, 0};  // of logits, of best tokens
  for (uint32_t i = 0; i < count && status == PHASOR_OK; ++i) {
    status = check_step(*s, items, i, error);
    rows[wants_best(items[i].logits)] += wanted_rows(items[i]);
  }
  if (status == PHASOR_OK) status = check_rows(kLogits, rows[0], kHeld, s->plan.logit_rows, error);
  if (status == PHASOR_OK)
    status = check_rows("best tokens of ", rows[1], " rows, limits.best_rows holds ",
                        s->plan.best_rows, error);
  if (status != PHASOR_OK) return status;
  if (rows[0] != 0 && rows[1] != 0)
    return bad_input(error, "a step gives logits or best tokens: its items ask for both");
  s->best = rows[1] != 0 ? 1 : 0;
  return take_step(s, items, count, error);
}

phasor_status take_step(Session* s, Items items, uint32_t count, phasor_error* error) noexcept {
  for (uint32_t i = 0; i < count; ++i) sequence_reserve(s, items[i].sequence, items[i].count);
  const FpMode mode;
  const phasor_status status = decode_step(s, items, count, error);
  if (status == PHASOR_STOPPED)  // pages that were reserved and not used go back
    for (uint32_t i = 0; i < count; ++i) {
      const phasor_item it = items[i];
      uint32_t& length = s->sequences()[it.sequence].length;
      const uint32_t before = length;
      length += it.count;
      (void)sequence_truncate(s, it.sequence, before);
    }
  return status;
}

phasor_item item_of(uint32_t sequence, const uint32_t* ids, uint32_t count,
                    uint32_t logits) noexcept {
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.ids = ids;
  item.count = count;
  item.logits = logits;
  return item;
}

phasor_status feed(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                   uint32_t logits, phasor_error* error) noexcept {
  const phasor_item item = item_of(sequence, ids, count, logits);
  return checked_step(s, &item, 1, error);
}

phasor_status begin(const Session& s, uint32_t length, const uint32_t** ids, uint32_t* count,
                    phasor_error* error) noexcept {
  const SideDescriptor& side = s.model->descriptor.sides[kDecoder];
  if (*count != 0) return PHASOR_OK;
  if (length != 0)
    return bad_input(error, {0, length}, "an empty prompt begins an output, and the sequence has ",
                     length, " tokens: truncate it to 0");
  *ids = side.decoder_start != PHASOR_NONE ? &side.decoder_start : &side.start;
  *count = 1;
  if (**ids != PHASOR_NONE) return PHASOR_OK;
  return bad_input(error, "an empty prompt, and the model has no start token");
}

phasor_status not_finite(Session* s, uint32_t slot, const char* whose, uint32_t sequence,
                         uint32_t length, phasor_error* error) noexcept {
  s->sequences()[slot].status = PHASOR_NOT_FINITE;
  return fail(error, PHASOR_NOT_FINITE, {PHASOR_NONE, s->model->layer_count[kDecoder], 0, 0},
              "output: a logit of ", whose, "sequence ", sequence, " at position ", length - 1,
              " is not a number");
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
