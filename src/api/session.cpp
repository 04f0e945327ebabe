// Limits and the arena, the forward pass, and sequences.
#include "../decode/replay.h"
#include "api.h"

using namespace phasor;

namespace {

// The plan of a session, from the limits of a caller that may be older than this library.
phasor_status plan_of(Plan* plan, phasor_limits* all, const phasor_model* model,
                      const phasor_limits* limits, phasor_error* error) {
  required(model, limits);
  *all = phasor_limits{};
  const phasor_status status = read_options(all, limits, "phasor_limits", error);
  return status == PHASOR_OK ? make_plan(plan, *model, *all, error) : status;
}

bool has(const phasor_session* session, uint32_t sequence) {
  required(session);
  return sequence < session->plan.sequences;
}

}  // namespace

extern "C" {

// ------------------------------------------------------------------ limits and the arena

phasor_status phasor_limits_for(const phasor_model* model, uint32_t source, uint32_t target,
                                phasor_limits* limits) {
  required(model);
  const Descriptor& d = model->descriptor;
  const uint32_t wanted[2] = {source, target};
  uint32_t lengths[2] = {0, 0};
  for (Half i : kHalves) {
    const uint32_t most = longest_sequence(*model, i);
    if (d.stacks[i].present != 0) lengths[i] = wanted[i] != 0 ? wanted[i] : most != 0 ? most : 256;
  }
  phasor_limits made{};
  made.source = lengths[0];
  made.target = lengths[1];
  made.sequences = made.threads = 1;
  made.chunk = smaller(lengths[0] > lengths[1] ? lengths[0] : lengths[1], 64);
  made.text_bytes = model->has_tokenizer[0] != 0 || model->has_tokenizer[1] != 0 ? 4096 : 0;
  made.logit_rows = d.output.output == kOutputLogits || d.output.output == kOutputClasses ? 1 : 0;
  return write_result(limits, made);
}

phasor_status phasor_session_size(size_t* need, const phasor_model* model,
                                  const phasor_limits* limits, phasor_error* error) {
  Plan plan{};
  phasor_limits all;
  required(need);
  const phasor_status status = plan_of(&plan, &all, model, limits, error);
  if (status == PHASOR_OK) *need = static_cast<size_t>(plan.total);
  return status;
}

phasor_status phasor_session_part(const phasor_model* model, const phasor_limits* limits,
                                  uint32_t index, const char** name, uint64_t* bytes) {
  Plan plan{};
  phasor_limits all;
  required(name, bytes);
  const phasor_status status = plan_of(&plan, &all, model, limits, nullptr);
  if (status != PHASOR_OK) return status;
  if (kRedZones && index == kPartCount) {
    *name = "red zones";
    *bytes = uint64_t{kPartCount} * kZoneBytes;
    return PHASOR_OK;
  }
  if (index >= kPartCount) return PHASOR_BAD_INPUT;
  *name = part_name(index);
  *bytes = round_up(plan.bytes[index], PHASOR_ALIGN);
  return PHASOR_OK;
}

phasor_status phasor_session_open(phasor_session** session, void* memory, size_t memory_bytes,
                                  const phasor_model* model, const phasor_limits* limits,
                                  const phasor_parallel* parallel, phasor_error* error) {
  phasor_limits all{};
  phasor_parallel threads{};
  Session* s = nullptr;
  required(session, memory, model, limits);
  *session = nullptr;
  if (!aligned(memory, PHASOR_ALIGN)) return bad_input(error, "the arena is not aligned to 64");
  phasor_status status = read_options(&all, limits, "phasor_limits", error);
  if (status == PHASOR_OK) status = read_options(&threads, parallel, "phasor_parallel", error);
  if (status == PHASOR_OK)
    status = session_open(&s, memory, memory_bytes, *model, all, &threads, error);
  if (status == PHASOR_OK) *session = static_cast<phasor_session*>(s);
  return status;
}

// ------------------------------------------------------------------ the forward pass

phasor_status phasor_encode(phasor_session* session, const phasor_item* items, uint32_t count,
                            phasor_error* error) {
  const Call call(session);
  return checked_encode(session, items, count, error);
}

phasor_status phasor_step(phasor_session* session, const phasor_item* items, uint32_t count,
                          phasor_error* error) {
  const Call call(session);
  return checked_step(session, items, count, error);
}

float* phasor_logits(phasor_session* session, uint32_t row) {
  required(session);
  return session->best == 0 && row < session->logits
             ? session->logit_rows().row(row, session->plan.logit_ld)
             : nullptr;
}

const float* phasor_hidden(const phasor_session* session, uint32_t sequence, uint32_t* rows,
                           uint32_t* stride) {
  required(rows, stride);
  if (!has(session, sequence)) return nullptr;
  const Sequence& q = session->sequences()[sequence];
  if (q.encoded == 0) return nullptr;
  *rows = q.encoded;
  *stride = session->plan.ld;
  return session->hidden_rows().rows(q.hidden, q.encoded, session->plan.ld);
}

phasor_status phasor_encoder_output(phasor_session* session, uint32_t sequence, uint32_t first,
                                    uint32_t count, phasor_error* error) {
  const Call call(session);
  return checked_output(session, sequence, first, count, error);
}

phasor_status phasor_embedding(phasor_session* session, uint32_t sequence, uint32_t pooling,
                               uint32_t normalize, float* out, uint32_t dim, phasor_error* error) {
  const Call call(session, out);
  const float* vector = nullptr;
  const phasor_status status =
      checked_embedding(session, sequence, pooling, normalize, dim, &vector, error);
  if (vector != nullptr) memcpy(out, vector, dim * sizeof(float));
  return status;
}

phasor_status phasor_argmax(phasor_session* session, uint32_t row, uint32_t* id, float* logit) {
  required(session, id, logit);
  return row < session->logits ? best_token(*session, row, id, logit) : PHASOR_BAD_INPUT;
}

phasor_status phasor_vector_run(phasor_session* session, uint32_t index,
                                phasor_vector_result* result, phasor_error* error) {
  const Call call(session);
  phasor_vector_result made{};
  if (!kHasVectors)
    return fail(error, PHASOR_UNSUPPORTED, {}, "test vectors are not in this build (PHASOR_ONLY)");
  phasor_status status = write_result(result, made, "phasor_vector_result", error);
  if (status != PHASOR_OK) return status;
  status = replay_vector(session, index, &made, error);
  (void)write_result(result, made);
  return status;
}

// ------------------------------------------------------------------ sequences

uint32_t phasor_sequence_length(const phasor_session* session, uint32_t sequence) {
  return has(session, sequence) ? session->sequences()[sequence].length : 0;
}

phasor_status phasor_sequence_status(const phasor_session* session, uint32_t sequence) {
  return has(session, sequence) ? static_cast<phasor_status>(session->sequences()[sequence].status)
                                : PHASOR_BAD_INPUT;
}

const uint32_t* phasor_sequence_ids(const phasor_session* session, uint32_t sequence) {
  return has(session, sequence) ? session->ids(sequence).data() : nullptr;
}

uint32_t phasor_sequence_common(const phasor_session* session, uint32_t sequence,
                                const uint32_t* ids, uint32_t count) {
  const uint32_t most = smaller(phasor_sequence_length(session, sequence), count);
  uint32_t common = 0;
  while (common < most && session->ids(sequence)[common] == ids[common]) ++common;
  return common;
}

phasor_status phasor_sequence_truncate(phasor_session* session, uint32_t sequence,
                                       uint32_t length) {
  const Call call(session);
  if (length > phasor_sequence_length(session, sequence) || !has(session, sequence) ||
      !sequence_reaches(*session, sequence, length))
    return PHASOR_BAD_INPUT;
  (void)sequence_truncate(session, sequence, length);
  return PHASOR_OK;
}

phasor_status phasor_sequence_fork(phasor_session* session, uint32_t to, uint32_t from) {
  const Call call(session);
  if (!has(session, to) || !has(session, from)) return PHASOR_BAD_INPUT;
  sequence_fork(session, to, from);
  return PHASOR_OK;
}

phasor_status phasor_sequence_clear(phasor_session* session, uint32_t sequence) {
  const Call call(session);
  if (!has(session, sequence)) return PHASOR_BAD_INPUT;
  sequence_clear(session, sequence);
  return PHASOR_OK;
}

phasor_status phasor_state_size(const phasor_session* session, uint32_t sequence, size_t* need) {
  required(need);
  if (!has(session, sequence)) return PHASOR_BAD_INPUT;
  *need = static_cast<size_t>(state_bytes(*session, sequence));
  return PHASOR_OK;
}

phasor_status phasor_state_save(const phasor_session* session, uint32_t sequence, void* out,
                                size_t capacity) {
  required(out);
  if (!has(session, sequence)) return PHASOR_BAD_INPUT;
  if (capacity < state_bytes(*session, sequence)) return PHASOR_NO_MEMORY;
  state_save(*session, sequence, static_cast<unsigned char*>(out));
  return PHASOR_OK;
}

phasor_status phasor_state_restore(phasor_session* session, uint32_t sequence, const void* state,
                                   size_t bytes, phasor_error* error) {
  const Call call(session, state);
  if (!has(session, sequence)) return bad_input(error, "no sequence ", sequence);
  return state_restore(session, sequence, static_cast<const unsigned char*>(state), bytes, error);
}

phasor_status phasor_session_callbacks(phasor_session* session, const phasor_callbacks* callbacks) {
  phasor_callbacks all{};
  required(session);
  const phasor_status status = read_options(&all, callbacks, "phasor_callbacks", nullptr);
  if (status != PHASOR_OK) return status;
  if (!kHasViews && all.see != nullptr) return PHASOR_UNSUPPORTED;
  if (all.shortlist != nullptr && !session->has_shortlists()) return PHASOR_BAD_LIMITS;
  session->see.set(all.see);
  session->progress.set(all.progress);
  session->shortlist.set(all.shortlist);
  session->user.set(all.user);
  return PHASOR_OK;
}

}  // extern "C"
