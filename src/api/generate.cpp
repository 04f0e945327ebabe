// Generation.
#include "../decode/generate.h"
#include "../decode/beam.h"
#include "../decode/jobs.h"
#include "../decode/random.h"
#include "api.h"

using namespace phasor;

namespace {

template <class T>
void set(T* to, T from) {
  if (from != 0) *to = from;
}

// What the file recommends for a choice with and without beams.
template <class Options>
void set_shared(const Model& m, Options* all) {
  const GenerationDescriptor& g = m.descriptor.generation;
  set(&all->repetition_penalty, g.repetition_penalty);
  set(&all->no_repeat_ngram, g.no_repeat_ngram);
  set(&all->source_no_repeat_ngram, g.source_no_repeat_ngram);
  set(&all->min_new, g.min_new);
  set(&all->max_new, g.max_new);
  if (g.suppressed.count != 0) {
    all->suppressed = ids_at(m, g.suppressed);
    all->suppressed_count = g.suppressed.count;
  }
  if (g.bad_words.count != 0) {
    all->bad_words = ids_at(m, g.bad_words);
    all->bad_words_count = g.bad_words.count;
  }
  if (g.forced_last != PHASOR_NONE) all->forced_last = &g.forced_last;
}

phasor_status no_beams(phasor_error* error) {
  return fail(error, PHASOR_UNSUPPORTED, {}, "beam search is not in this build (PHASOR_ONLY)");
}

// Behind a job that failed, whose line is there, the call itself did.
phasor_status told(phasor_status status, phasor_error* error) {
  const bool has_code = error != nullptr && error->struct_size >= offsetof(phasor_error, section);
  if (status == PHASOR_OK || !has_code || error->code == status) return status;
  return fail(error, status, {}, "jobs: ", phasor_status_name(status), ", after one that failed");
}

// Steps until all are over.
template <class Step, class Options>
phasor_status run_jobs(Step step, phasor_session* session, phasor_job* jobs, uint32_t count,
                       const Options* options, phasor_error* error) {
  phasor_status status = PHASOR_OK;
  phasor_error* line = error;  // the first job's that failed stays
  uint32_t left = 0;
  do {  // once without a job: what is wrong with the options is said
    status = step(session, jobs, count, options, &left, line);
    for (uint32_t i = 0; i < count && line != nullptr && status == PHASOR_OK; ++i)
      if (jobs[i].status != PHASOR_OK) line = nullptr;
  } while (status == PHASOR_OK && left != 0);
  return told(status, error);
}

}  // namespace

extern "C" {

void phasor_random_seed(phasor_random* random, uint64_t seed) {
  required(random);
  random_seed(random, seed);
}

phasor_status phasor_generate(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                              uint32_t count, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options* options, phasor_generation* result,
                              phasor_error* error) {
  const Call call(session);
  phasor_generate_options all = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_generation made = PHASOR_GENERATION_INIT;
  phasor_status status = read_options(&all, options, "phasor_generate_options", error);
  if (status == PHASOR_OK) status = write_result(result, made, "phasor_generation", error);
  if (status != PHASOR_OK) return status;
  status = generate(session, sequence, ids, count, out, capacity, all, &made, error);
  (void)write_result(result, made);
  return status;
}

phasor_status phasor_choose(phasor_session* session, uint32_t* id, float* probabilities,
                            uint32_t row, const uint32_t* ids, uint32_t count, uint32_t new_count,
                            const phasor_generate_options* options, phasor_error* error) {
  const Call call(session, id);
  phasor_generate_options all = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_status status = read_options(&all, options, "phasor_generate_options", error);
  if (status == PHASOR_OK) status = check_generator(*session->model.pointer, error);
  if (status == PHASOR_OK) status = check_choice(*session, all, error);
  if (status != PHASOR_OK) return status;
  if (session->best != 0)
    return bad_input(error, "the last step gave best tokens: a choice is made from logits");
  if (row >= session->logits)
    return bad_input(error, {session->logits, row}, "row ", row, " of logits, the last step gave ",
                     session->logits);
  if (new_count > count)
    return bad_input(error, {count, new_count}, new_count, " new tokens of ", count);
  const uint32_t* made = ids + (count - new_count);
  status = check_ids(*session, kDecoder, "", made, new_count, error);
  if (status != PHASOR_OK) return status;
  if (all.temperature > 0 && all.random == nullptr)
    return bad_input(error, "options.random: missing, a choice draws from it");
  status = choose(session, row, all, {ids, count, made, new_count}, all.random, id, probabilities,
                  error);
  return status == PHASOR_NOT_FINITE ? fail(error, status, {}, "a logit is not a number") : status;
}

phasor_status phasor_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                               const phasor_generate_options* options, uint32_t* left,
                               phasor_error* error) {
  const Call call(session, left);
  phasor_generate_options all = PHASOR_GENERATE_OPTIONS_INIT;
  const phasor_status status = read_options(&all, options, "phasor_generate_options", error);
  return status != PHASOR_OK ? status
                             : told(jobs_step(session, jobs, count, all, left, error), error);
}

phasor_status phasor_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                              const phasor_generate_options* options, phasor_error* error) {
  return run_jobs(phasor_jobs_step, session, jobs, count, options, error);
}

phasor_status phasor_beam_search(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                                 uint32_t count, const phasor_beam_options* options,
                                 phasor_beam_result* result, phasor_error* error) {
  const Call call(session);
  phasor_beam_options all = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result made = PHASOR_BEAM_RESULT_INIT;
  if (!kHasBeam) return no_beams(error);
  phasor_status status = read_options(&all, options, "phasor_beam_options", error);
  if (status == PHASOR_OK) status = write_result(result, made, "phasor_beam_result", error);
  if (status != PHASOR_OK) return status;
  status = beam_search(session, sequence, ids, count, all, &made, error);
  (void)write_result(result, made);
  return status;
}

phasor_status phasor_hypothesis_get(const phasor_session* session, uint32_t index,
                                    phasor_hypothesis* out) {
  phasor_hypothesis made{};
  required(session);
  if (!kHasBeam || !hypothesis(*session, index, &made)) return PHASOR_BAD_INPUT;
  return write_result(out, made);
}

phasor_status phasor_beam_jobs_step(phasor_session* session, phasor_job* jobs, uint32_t count,
                                    const phasor_beam_options* options, uint32_t* left,
                                    phasor_error* error) {
  const Call call(session, left);
  if (!kHasBeam) return no_beams(error);
  phasor_beam_options all = PHASOR_BEAM_OPTIONS_INIT;
  const phasor_status status = read_options(&all, options, "phasor_beam_options", error);
  return status != PHASOR_OK ? status
                             : told(beam_jobs_step(session, jobs, count, all, left, error), error);
}

phasor_status phasor_beam_jobs_run(phasor_session* session, phasor_job* jobs, uint32_t count,
                                   const phasor_beam_options* options, phasor_error* error) {
  return run_jobs(phasor_beam_jobs_step, session, jobs, count, options, error);
}

int phasor_generation_defaults(const phasor_model* model, phasor_generate_options* options) {
  required(model, options);
  const GenerationDescriptor& g = model->descriptor.generation;
  phasor_generate_options all = PHASOR_GENERATE_OPTIONS_INIT;
  if (g.present == 0 ||
      read_options(&all, options, "phasor_generate_options", nullptr) != PHASOR_OK)
    return 0;
  set(&all.temperature, g.temperature);
  if (g.sample != 0 && !(all.temperature > 0)) all.temperature = 1;
  if (g.sample == 0) all.temperature = 0;
  set(&all.top_k, g.top_k);
  set(&all.top_p, g.top_p);
  set(&all.min_p, g.min_p);
  set(&all.typical_p, g.typical_p);
  set_shared(*model, &all);
  (void)write_result(options, all);
  return 1;
}

int phasor_beam_defaults(const phasor_model* model, phasor_beam_options* options) {
  required(model, options);
  const GenerationDescriptor& g = model->descriptor.generation;
  phasor_beam_options all = PHASOR_BEAM_OPTIONS_INIT;
  if (g.present == 0 || read_options(&all, options, "phasor_beam_options", nullptr) != PHASOR_OK)
    return 0;
  set(&all.beams, g.beams);
  all.length_penalty = g.length_penalty;
  all.early_stopping = g.early_stopping;
  all.renormalize = g.renormalize;
  set_shared(*model, &all);
  (void)write_result(options, all);
  return 1;
}

}  // extern "C"
