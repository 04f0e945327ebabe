// A walk through what a real-time thread may call, on any model: each call goes through `around`,
// which whoever includes this file defines.
#pragma once
#include <phasor.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../../../src/cli/host/memory.h"

namespace {

using Bytes = std::vector<unsigned char>;
using Ids = std::vector<uint32_t>;

std::map<std::string, unsigned> calls;
unsigned failures = 0;

void took(const std::string& what, phasor_status status, const phasor_error& error) {
  ++calls[what];
  if (status == PHASOR_OK) return;
  std::printf("FAIL %s: %s: %s\n", what.c_str(), phasor_status_name(status), error.text);
  ++failures;
}

// The call, and what is to be done around it.
template <class F>
[[gnu::noinline]] phasor_status around(const std::string& name, F call);

#define TAKE(call)                                                                   \
  do {                                                                               \
    phasor_error error = PHASOR_ERROR_INIT;                                          \
    const std::string name = std::string(#call).substr(0, std::strcspn(#call, "(")); \
    const phasor_status status = around(name, [&] { return call; });                 \
    took(name, status, error);                                                       \
  } while (0)

// ------------------------------------------------------------------ callbacks

struct Seen {
  float sum = 0;
  unsigned layers = 0, tokens = 0, bytes = 0;
} seen;

void see(void*, const phasor_view* view) { seen.sum += view->data[0]; }
int progress(void*, uint32_t, uint32_t, uint32_t) { return ++seen.layers == 0; }
int token(void*, uint32_t, uint32_t) { return ++seen.tokens == 0; }
int text(void*, const char*, size_t bytes) {
  return (seen.bytes += static_cast<unsigned>(bytes)) == 1u << 31;
}
int logits(void*, float* row, uint32_t vocabulary, const uint32_t*, uint32_t) {
  row[vocabulary - 1] -= 1;
  return 0;
}

// ------------------------------------------------------------------ the walk

struct Session {
  phasor_model* model = nullptr;
  phasor_session* session = nullptr;
  phasor_limits limits{};
  phasor_side side{};  // of the first stack's tokens
  uint32_t stack = 0;
};

phasor_item item_of(const Ids& ids, uint32_t sequence, uint32_t rows) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = static_cast<uint32_t>(ids.size());
  item.logits = rows;
  item.ids = ids.data();
  return item;
}

Ids made_up(uint32_t count, uint32_t vocabulary, uint32_t seed) {
  Ids ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = 3 + (i * i * 7 + i * 5 + seed) % (vocabulary - 3);
  return ids;
}

void walk_text(const Session& s, uint32_t side) {
  phasor_side of{};
  of.struct_size = sizeof of;
  if (phasor_model_side(s.model, side, &of) != PHASOR_OK || !of.has_tokenizer) return;
  Ids ids(64), segments(64);
  char out[256];
  size_t count = 0, bytes = 0;
  const char sample[] =
      "source7 The cat, 12 caf\xC3\xA9s "
      "\xE6\x88\x91\xE6\x9C\x89\xE4\xB8\x80\xE5\x8F\xAA\xE7\x8C\xAB\xE3\x80\x82";
  TAKE(phasor_text_to_ids(s.session, side, 1, ids.data(), ids.size(), &count, sample,
                          sizeof sample - 1, &error));
  Ids offsets(2 * ids.size());
  TAKE(phasor_text_to_offsets(s.session, side, 1, ids.data(), offsets.data(), ids.size(), &count,
                              sample, sizeof sample - 1, &error));
  phasor_text state = PHASOR_TEXT_INIT;
  for (size_t i = 0; i < count && i < ids.size(); ++i)
    TAKE(phasor_id_to_text(s.model, side, &state, ids[i], out, sizeof out, &bytes));
  TAKE(phasor_text_flush(s.model, side, &state, out, sizeof out, &bytes));
  if (phasor_piece(s.model, side, 3, &bytes) != nullptr) ++calls["phasor_piece"];
  (void)phasor_piece_flags(s.model, side, 3);
  ++calls["phasor_piece_flags"];
  // No golden model has both a tokenizer and a template for pairs: as far as that.
  (void)phasor_pair_to_ids(s.session, side, ids.data(), segments.data(), ids.size(), &count, sample,
                           8, sample + 8, 8, nullptr);
  ++calls["phasor_pair_to_ids"];
  if (!phasor_chat_available(s.model)) return;
  const phasor_chat_message talk = {sizeof talk, "user", 4, sample, sizeof sample - 1};
  TAKE(phasor_chat_to_text(s.session, 1, out, sizeof out, &bytes, &talk, 1, &error));
}

void walk_encoder(const Session& s) {
  phasor_output output{};
  output.struct_size = sizeof output;
  phasor_model_output(s.model, &output);
  const Ids one = made_up(s.limits.source, s.side.vocabulary, 1),
            other = made_up(3, s.side.vocabulary, 2);
  const phasor_item items[] = {item_of(one, 0, PHASOR_LOGITS_NONE),
                               item_of(other, 1, PHASOR_LOGITS_NONE)};
  TAKE(phasor_encode(s.session, items, 2, &error));
  uint32_t rows = 0, stride = 0;
  const float* const hidden = phasor_hidden(s.session, 1, &rows, &stride);
  if (hidden != nullptr) ++calls["phasor_hidden"];
  if (s.stack != PHASOR_ENCODER) {  // what an encoder gave, in place of a source
    if (hidden == nullptr) return;
    const std::vector<float> states(hidden, hidden + s.side.width);
    phasor_item given = PHASOR_ITEM_INIT;
    given.sequence = 1;
    given.count = 1;
    given.states = states.data();
    TAKE(phasor_encode(s.session, &given, 1, &error));
    return;
  }
  std::vector<float> vector(s.side.width);
  TAKE(phasor_embedding(s.session, 0, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_YES, vector.data(), 8,
                        &error));
  if (s.limits.logit_rows != 0) TAKE(phasor_encoder_output(s.session, 0, 0, 1, &error));
}

// Three jobs in two sequences: the last one waits.
void walk_jobs(const Session& s, const Ids& ids) {
  phasor_job jobs[3] = {PHASOR_JOB_INIT, PHASOR_JOB_INIT, PHASOR_JOB_INIT};
  uint32_t out[3][6], left = 0;
  for (unsigned i = 0; i < 3; ++i) {
    jobs[i].ids = ids.data();
    jobs[i].count = static_cast<uint32_t>(ids.size()) - i;
    jobs[i].out = out[i];
    jobs[i].capacity = 6;
  }
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.temperature = 0.9f;
  options.repetition_penalty = 1.1f;
  options.no_repeat_ngram = 3;
  options.logits = logits;
  TAKE(phasor_sequence_clear(s.session, 0));
  TAKE(phasor_jobs_step(s.session, jobs, 3, &options, &left, &error));
  TAKE(phasor_jobs_run(s.session, jobs, 3, &options, &error));
  for (phasor_job& job : jobs) {
    if (job.finish == 0) took("phasor_jobs_run", PHASOR_BAD_INPUT, phasor_error{});
    job.finish = job.made = 0;
  }
  phasor_beam_options search = PHASOR_BEAM_OPTIONS_INIT;
  search.repetition_penalty = 1.1f;
  search.no_repeat_ngram = 3;
  search.logits = logits;
  TAKE(phasor_beam_jobs_step(s.session, jobs, 3, &search, &left, &error));
  TAKE(phasor_beam_jobs_run(s.session, jobs, 3, &search, &error));
  for (const phasor_job& job : jobs)
    if (job.finish == 0) took("phasor_beam_jobs_run", PHASOR_BAD_INPUT, phasor_error{});
}

void walk_decoder(const Session& s, phasor_random* random) {
  phasor_side side{};
  side.struct_size = sizeof side;
  phasor_model_side(s.model, PHASOR_TARGET, &side);
  const Ids prompt = made_up(9, side.vocabulary, 4);
  const phasor_item prefill = item_of(prompt, 0, PHASOR_LOGITS_ALL);
  TAKE(phasor_step(s.session, &prefill, 1, &error));
  TAKE(phasor_sequence_fork(s.session, 1, 0));
  TAKE(phasor_sequence_truncate(s.session, 1, 5));

  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.temperature = 0.9f;
  options.top_k = 20;
  options.top_p = 0.95f;
  options.min_p = 0.01f;
  options.typical_p = 0.98f;
  options.repetition_penalty = 1.1f;
  options.presence_penalty = options.frequency_penalty = 0.1f;
  options.no_repeat_ngram = 3;
  options.random = random;
  std::vector<float> shares(side.vocabulary);
  Ids next(1);
  for (unsigned i = 0; i < 3; ++i) {  // two sequences share a step
    const uint32_t length = phasor_sequence_length(s.session, 0);
    TAKE(phasor_choose(s.session, next.data(), shares.data(), 0, phasor_sequence_ids(s.session, 0),
                       length, i, &options, &error));
    float largest = 0;
    uint32_t best = 0;
    TAKE(phasor_argmax(s.session, 0, &best, &largest));
    const Ids greedy(1, best);
    const phasor_item items[] = {item_of(next, 0, PHASOR_LOGITS_LAST),
                                 item_of(greedy, 1, PHASOR_LOGITS_NONE)};
    TAKE(phasor_step(s.session, items, 2, &error));
  }
  ++calls["phasor_sequence_length"], ++calls["phasor_sequence_ids"];
  TAKE(phasor_sequence_status(s.session, 0));
  if (phasor_sequence_common(s.session, 0, prompt.data(), 9) == 9)
    ++calls["phasor_sequence_common"];
  if (phasor_logits(s.session, 0) != nullptr) ++calls["phasor_logits"];

  size_t need = 0;
  TAKE(phasor_state_size(s.session, 0, &need));
  Bytes state(need);
  TAKE(phasor_state_save(s.session, 0, state.data(), need));
  TAKE(phasor_state_restore(s.session, 1, state.data(), need, &error));

  // The main loop, with all that it can do, and once greedy; both with callbacks.
  Ids out(12);
  phasor_generation made = PHASOR_GENERATION_INIT;
  const char* stop[] = {"no such text"};
  options.token = token;
  options.logits = logits;
  options.max_new = 6;
  options.min_new = 2;
  options.seed = 5;
  if (side.has_tokenizer) {
    options.text = text;
    options.stop = stop;
    options.stop_count = 1;
  }
  TAKE(phasor_generate(s.session, 1, next.data(), 1, out.data(), 12, &options, &made, &error));
  phasor_generate_options greedy = PHASOR_GENERATE_OPTIONS_INIT;
  greedy.token = token;
  greedy.lookahead = 4;
  greedy.reuse = greedy.slide = 1;
  const bool decoder = s.stack == PHASOR_DECODER;
  if (decoder) {  // as long as it takes the context to slide
    Ids longer(s.limits.target + 8);
    TAKE(phasor_generate(s.session, 0, prompt.data(), 9, longer.data(),
                         static_cast<uint32_t>(longer.size()), &greedy, &made, &error));
    calls["(slides)"] += made.slides;
  } else {
    walk_encoder(s);
    TAKE(phasor_generate(s.session, 0, nullptr, 0, out.data(), 12, &greedy, &made, &error));
  }
  phasor_beam_options search = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  phasor_hypothesis output{};
  output.struct_size = sizeof output;
  search.length_penalty = 0.6f;
  search.renormalize = 1;
  search.no_repeat_ngram = 3;
  search.repetition_penalty = 1.1f;
  search.max_new = 12;
  if (side.has_tokenizer) {
    search.stop = stop;
    search.stop_count = 1;
  }
  search.logits = logits;
  TAKE(phasor_sequence_clear(s.session, 0));
  if (!decoder) walk_encoder(s);
  TAKE(phasor_beam_search(s.session, 0, decoder ? prompt.data() : nullptr, decoder ? 9 : 0, &search,
                          &found, &error));
  TAKE(phasor_hypothesis_get(s.session, found.count - 1, &output));
  TAKE(phasor_sequence_clear(s.session, 1));
  walk_jobs(s, decoder ? prompt : made_up(9, s.side.vocabulary, 2));
}

void walk(const Session& s) {
  const phasor_callbacks callbacks = {sizeof callbacks, see, progress, nullptr, nullptr};
  phasor_session_callbacks(s.session, &callbacks);
  ++calls["phasor_session_callbacks"];
  phasor_random random;
  phasor_random_seed(&random, 7);
  ++calls["phasor_random_seed"];
  walk_text(s, PHASOR_SOURCE);
  walk_text(s, PHASOR_TARGET);
  if (s.stack != PHASOR_DECODER) walk_encoder(s);
  if (s.stack != PHASOR_ENCODER) walk_decoder(s, &random);
}

// ------------------------------------------------------------------ sessions

[[noreturn]] void give_up(const char* what, const char* why) {
  std::printf("FAIL %s: %s\n", what, why);
  std::exit(1);
}

Bytes contents(const char* path) {
  Bytes bytes;
  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) give_up(path, "cannot be read");
  unsigned char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) != 0;)
    bytes.insert(bytes.end(), buffer, buffer + n);
  std::fclose(f);
  return bytes;
}

struct Opened : Session {
  Opened(const char* path, const char* isa, uint32_t threads, uint32_t cache,
         void (*run)(void*, phasor_task, void*, uint32_t)) {
    phasor_error error = PHASOR_ERROR_INIT;
    const Bytes bytes = contents(path);
    size_t need = 0;
    if (!file_.allocate(bytes.size())) give_up(path, "no memory");
    std::memcpy(file_.data(), bytes.data(), bytes.size());
    phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
    options.isa = isa;
    if (phasor_model_size(&need, file_.data(), bytes.size(), &error) != PHASOR_OK ||
        !model_.allocate(need) ||
        phasor_model_open(&model, model_.data(), need, file_.data(), bytes.size(), &options,
                          &error) != PHASOR_OK)
      give_up(path, error.text);
    stack = phasor_model_stack(model);
    side.struct_size = sizeof side;
    phasor_model_side(model, stack == PHASOR_DECODER ? PHASOR_TARGET : PHASOR_SOURCE, &side);
    limits.struct_size = sizeof limits;
    phasor_limits_for(model, 12, 24, &limits);
    limits.chunk = 5;
    limits.sequences = 2;
    limits.threads = threads;
    limits.cache_type = cache;
    limits.outputs = PHASOR_WANT_SAMPLING | PHASOR_WANT_ATTENTION | PHASOR_WANT_OFFSETS;
    if (limits.logit_rows != 0) limits.logit_rows = 9;
    if (stack != PHASOR_ENCODER) limits.beams = 3, limits.searches = 2;
    const phasor_parallel parallel = {sizeof parallel, run, nullptr};
    if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK || !arena_.allocate(need) ||
        phasor_session_open(&session, arena_.data(), need, model, &limits,
                            threads > 1 ? &parallel : nullptr, &error) != PHASOR_OK)
      give_up(path, error.text);
  }

 private:
  cli::Block file_, model_, arena_;
};

}  // namespace
