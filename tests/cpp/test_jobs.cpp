// Many inputs side by side (src/decode/jobs.cpp): each gets the tokens of phasor_generate, or the
// outputs of phasor_beam_search, for it alone, on a session of one sequence, whatever its
// neighbors and the order in which they come.
#include <algorithm>

#include "cases.h"
#include "decode/random.h"
#include "heap_counter.h"
#include "share.h"
#include "support.h"

namespace {

using Options = phasor_generate_options;

struct Case {
  Ids ids;  // a source, or a prompt
  uint32_t capacity = 0;
  uint64_t seed = 0;
};
struct Made {
  Ids ids;
  uint32_t finish = 0;
  bool operator==(const Made& o) const { return ids == o.ids && finish == o.finish; }
};

phasor_limits limits_of(const phasor_model* model, uint32_t sequences) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, phasor_model_stack(model) == PHASOR_DECODER ? 0 : 20, 40,
                            &limits) == PHASOR_OK);
  limits.chunk = 7;
  limits.sequences = limits.logit_rows = sequences;
  limits.outputs = PHASOR_WANT_SAMPLING;
  return limits;
}

void shuffle(std::vector<uint32_t>* order, std::uint64_t seed) {
  phasor_random random;
  phasor_random_seed(&random, seed);
  for (std::size_t i = order->size(); i > 1; --i)
    std::swap((*order)[i - 1], (*order)[phasor::random_next(&random) % i]);
}

bool has_source(const phasor_model* model) { return phasor_model_stack(model) != PHASOR_DECODER; }

std::vector<Case> cases_of(const phasor_model* model, uint32_t count) {
  phasor_side side{};
  side.struct_size = sizeof side;
  REQUIRE(phasor_model_side(model, has_source(model) ? PHASOR_SOURCE : PHASOR_TARGET, &side) ==
          PHASOR_OK);
  std::vector<Case> cases(count);
  for (uint32_t i = 0; i < count; ++i)
    cases[i] = {random_ids(i, 1 + i * 7 % 20, side.vocabulary), i * 5 % 30, 100 + i};
  return cases;
}

// Alone.
Made alone(const Engine& e, const Case& c, Options o) {
  Made made;
  made.ids.resize(c.capacity);
  phasor_generation result = PHASOR_GENERATION_INIT;
  REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
  const bool both = has_source(e.model);
  const uint32_t count = static_cast<uint32_t>(c.ids.size());
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = c.ids.data();
  item.count = count;
  if (both) REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  o.source = c.ids.data();
  o.source_count = count;
  o.seed = c.seed;
  REQUIRE(phasor_generate(e.session, 0, both ? nullptr : c.ids.data(), both ? 0 : count,
                          made.ids.data(), c.capacity, &o, &result, nullptr) == PHASOR_OK);
  made.ids.resize(result.count);
  made.finish = result.finish;
  return made;
}

struct Batch {
  std::vector<phasor_job> jobs;
  std::vector<Ids> out;

  phasor_job job_of(const Case& c, Ids* to) {
    to->assign(c.capacity, 0);
    phasor_job job = PHASOR_JOB_INIT;
    job.ids = c.ids.data();
    job.count = static_cast<uint32_t>(c.ids.size());
    job.out = to->data();
    job.capacity = c.capacity;
    phasor_random_seed(&job.random, c.seed);
    return job;
  }
};

// All at once, in the order given.
std::vector<Made> together(const Engine& e, const std::vector<Case>& cases, const Options& o,
                           const std::vector<uint32_t>& order) {
  Batch b;
  b.jobs.resize(cases.size());
  b.out.resize(cases.size());
  for (std::size_t k = 0; k < order.size(); ++k) b.jobs[k] = b.job_of(cases[order[k]], &b.out[k]);
  phasor_error error = PHASOR_ERROR_INIT;
  HeapCounter heap;
  const phasor_status status =
      phasor_jobs_run(e.session, b.jobs.data(), static_cast<uint32_t>(b.jobs.size()), &o, &error);
  const uint64_t allocations = heap.allocations();
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  if (HeapCounter::active() && e.limits.threads == 1) CHECK(allocations == 0);
  std::vector<Made> made(cases.size());
  for (std::size_t k = 0; k < order.size(); ++k) {
    CHECK(b.jobs[k].status == PHASOR_OK);
    CHECK(b.jobs[k].sequence == PHASOR_NONE);
    b.out[k].resize(b.jobs[k].made);
    made[order[k]] = {b.out[k], b.jobs[k].finish};
  }
  return made;
}

std::vector<Options> kinds_of_options(const Ids& more, const Ids& words) {
  std::vector<Options> all(3, PHASOR_GENERATE_OPTIONS_INIT);
  all[0].end = more.data();
  all[0].end_count = 6;
  all[1].temperature = 1.3f;
  all[1].top_p = 0.9f;
  all[1].repetition_penalty = 1.2f;
  all[1].end = more.data();
  all[1].end_count = 3;
  all[2].no_repeat_ngram = 2;
  all[2].source_no_repeat_ngram = 1;
  all[2].bad_words = words.data();
  all[2].bad_words_count = static_cast<uint32_t>(words.size());
  all[2].forced = more.data() + 6;
  all[2].forced_count = 2;
  all[2].forced_last = more.data();
  all[2].max_new = 9;
  return all;
}

}  // namespace

TEST_CASE("jobs: what each gives alone, among 31 neighbors, in any order of arrival") {
  Share share;
  uint32_t models = 0, ended = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits one = limits_of(probe.model, 1);
    const Engine single(file, nullptr, &one);
    const std::vector<Case> cases = cases_of(probe.model, 32);
    const Ids more = random_ids(5, 8, target_of(probe.model).vocabulary),
              words = {1, more[0], 2, more[1], more[2]};
    std::vector<uint32_t> order(cases.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    // each kind of options at another number of sequences, in turn
    uint32_t kind = models;
    for (const Options& o : kinds_of_options(more, words)) {
      const uint32_t sequences = kind % 3 == 0 ? 2u : kind % 3 == 1 ? 5u : 32u;
      ++kind;
      if (!share.takes()) continue;
      std::vector<Made> want;
      for (const Case& c : cases) want.push_back(alone(single, c, o));
      for (const Made& made : want) ended += made.finish == PHASOR_FINISH_END;
      phasor_limits limits = limits_of(probe.model, sequences);
      if (sequences == 5) {  // the best token alone, where the options allow it
        limits.best_rows = 5;
        limits.threads = 2;
      }
      const Engine e(file, nullptr, &limits, limits.threads);
      shuffle(&order, sequences);
      CHECK(together(e, cases, o, order) == want);
    }
    ++models;
  }
  MESSAGE("jobs: ", models, " models, ", ended, " outputs with an end token");
  CHECK(ended * share.of() > 100);
}

TEST_CASE("jobs: a source that several have is encoded once, also where the caller stops") {
  struct Calls {
    uint32_t all = 0, encoded = 0, stop = 0;  // each how many-th call stops; 0: none
  };
  for (const char* name : {"tiny-d2l-f32", "tiny-t5-f32"}) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 4), one = limits_of(probe.model, 1);
    const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
    std::vector<Case> cases = cases_of(probe.model, 24);
    for (uint32_t i = 0; i < 24; ++i) {
      if (i < 20) cases[i].ids = cases[i % 2].ids;  // equal, not the same memory
      cases[i].capacity = 5 + i % 7;
    }
    Options o = PHASOR_GENERATE_OPTIONS_INIT;
    o.temperature = 1.5f;
    std::vector<Made> want;
    for (const Case& c : cases) want.push_back(alone(single, c, o));
    for (const uint32_t stop : {0u, 11u, 17u, 23u}) {
      CAPTURE(stop);
      Calls calls;
      calls.stop = stop;
      phasor_callbacks callbacks{};
      callbacks.struct_size = sizeof callbacks;
      callbacks.user = &calls;
      callbacks.progress = [](void* user, uint32_t stack, uint32_t layer, uint32_t) {
        Calls* c = static_cast<Calls*>(user);
        c->encoded += stack == 2 && layer == 0 ? 1 : 0;
        return ++c->all % (c->stop != 0 ? c->stop : UINT32_MAX) == 0 ? 1 : 0;
      };
      REQUIRE(phasor_session_callbacks(e.session, &callbacks) == PHASOR_OK);
      Batch b;
      b.jobs.resize(cases.size());
      b.out.resize(cases.size());
      for (std::size_t k = 0; k < cases.size(); ++k) b.jobs[k] = b.job_of(cases[k], &b.out[k]);
      for (uint32_t left = 1, steps = 0; left != 0; ++steps) {
        REQUIRE(steps < 1000);
        const phasor_status status =
            phasor_jobs_step(e.session, b.jobs.data(), 24, &o, &left, nullptr);
        REQUIRE((status == PHASOR_OK || (stop != 0 && status == PHASOR_STOPPED)));
      }
      for (std::size_t k = 0; k < cases.size(); ++k) {
        CHECK(b.jobs[k].status == PHASOR_OK);
        b.out[k].resize(b.jobs[k].made);
        CHECK(Made{b.out[k], b.jobs[k].finish} == want[k]);
      }
      // 20 jobs have two sources, four have their own, of which none shares a step's groups
      if (stop == 0) CHECK(calls.encoded <= 10);
    }
    REQUIRE(phasor_session_callbacks(e.session, nullptr) == PHASOR_OK);
  }
}

TEST_CASE("jobs: the arena is exact; a caller's own loop replaces what is over between two steps") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 3), one = limits_of(probe.model, 1);
  CHECK(part_bytes(probe.model, limits, "jobs") == 3 * 128);
  CHECK(part_bytes(probe.model, one, "jobs") == 0);
  std::size_t need = 0;
  REQUIRE(phasor_session_size(&need, probe.model, &limits, nullptr) == PHASOR_OK);
  Block arena(need);
  phasor_session* session = nullptr;
  CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                            nullptr) == PHASOR_NO_MEMORY);
  const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
  const std::vector<Case> cases = cases_of(probe.model, 40);
  Options o = PHASOR_GENERATE_OPTIONS_INIT;
  Batch b;
  b.jobs.resize(3);
  b.out.resize(3);
  std::vector<std::size_t> which(3);
  std::size_t next = 0, checked = 0;
  for (uint32_t k = 0; k < 3; ++k, ++next)
    which[k] = next, b.jobs[k] = b.job_of(cases[next], &b.out[k]);
  for (uint32_t left = 1; left != 0 || next < cases.size();) {
    REQUIRE(phasor_jobs_step(e.session, b.jobs.data(), 3, &o, &left, nullptr) == PHASOR_OK);
    for (uint32_t k = 0; k < 3; ++k) {
      if (b.jobs[k].finish == 0 || which[k] == cases.size()) continue;
      b.out[k].resize(b.jobs[k].made);
      CHECK(Made{b.out[k], b.jobs[k].finish} == alone(single, cases[which[k]], o));
      ++checked;
      which[k] = cases.size();
      if (next == cases.size()) continue;
      which[k] = next;
      b.jobs[k] = b.job_of(cases[next++], &b.out[k]);
    }
  }
  CHECK(checked == cases.size());
}

TEST_CASE("jobs: a bad one fails alone, and what is wrong is said by name") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 4), one = limits_of(probe.model, 1);
  const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
  std::vector<Case> cases = cases_of(probe.model, 6);
  for (Case& c : cases) c.capacity = 8;
  cases[1].ids[0] = 1000000;
  cases[3].ids = random_ids(1, 21, 20);
  cases[4].ids.clear();
  Options o = PHASOR_GENERATE_OPTIONS_INIT;
  Batch b;
  b.jobs.resize(6);
  b.out.resize(6);
  for (uint32_t k = 0; k < 6; ++k) b.jobs[k] = b.job_of(cases[k], &b.out[k]);
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_jobs_run(e.session, b.jobs.data(), 6, &o, &error) == PHASOR_OK);
  CHECK(std::string(error.text).find("a job's token id 1000000 at place 0") == 0);
  for (uint32_t k = 0; k < 6; ++k) {
    const bool bad = k == 1 || k == 3 || k == 4;
    CHECK(b.jobs[k].status == (bad ? PHASOR_BAD_INPUT : PHASOR_OK));
    CHECK((b.jobs[k].finish == 0) == bad);
    if (bad) continue;
    b.out[k].resize(b.jobs[k].made);
    CHECK(Made{b.out[k], b.jobs[k].finish} == alone(single, cases[k], o));
  }

  o.struct_size = 2 * sizeof o;
  CHECK(phasor_jobs_run(e.session, b.jobs.data(), 0, &o, &error) == PHASOR_BAD_INPUT);
  o.struct_size = sizeof o;
  CHECK(phasor_jobs_run(e.session, b.jobs.data(), 0, &o, &error) == PHASOR_OK);

  uint32_t left = 0;
  const auto refused = [&](const Engine& on, const char* word) {
    b.jobs[0] = b.job_of(cases[0], &b.out[0]);
    CHECK(phasor_jobs_step(on.session, b.jobs.data(), 1, &o, &left, &error) == PHASOR_BAD_INPUT);
    CAPTURE(error.text);
    CHECK(std::string(error.text).find(word) == 0);
    o = PHASOR_GENERATE_OPTIONS_INIT;
  };
  refused(single, "jobs: limits.sequences is 1");
  const Block bert = golden_file("tiny-bert-f32");
  phasor_limits two = limits_for_vectors(Engine(bert, nullptr).model);
  two.sequences = 2;
  refused(Engine(bert, nullptr, &two), "this model is an encoder");  // its arena has no such part
  o.lookahead = 2;
  refused(e, "options.lookahead: does not go with jobs");
  o.slide = 1;
  refused(e, "options.slide");
  o.text = [](void*, const char*, std::size_t) { return 0; };
  refused(e, "options.text");
  o.top_p = 2;
  refused(e, "options.top_p");
  // What the library wrote must come back as it was.
  for (const uint32_t sequence : {0u, 9u}) {
    b.jobs[0] = b.job_of(cases[0], &b.out[0]);
    b.jobs[0].sequence = sequence;
    REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
    CHECK(phasor_jobs_step(e.session, b.jobs.data(), 1, &o, &left, &error) == PHASOR_BAD_INPUT);
  }
  b.jobs[0] = b.job_of(cases[0], &b.out[0]);
  b.jobs[0].struct_size = 8;
  CHECK(phasor_jobs_step(e.session, b.jobs.data(), 1, &o, &left, &error) == PHASOR_BAD_INPUT);
}

// ------------------------------------------------------------------ beam searches

namespace {

using BeamOptions = phasor_beam_options;

struct Output {
  Ids ids;
  uint32_t finish = 0;
  float score = 0, log_probability = 0;
  bool operator==(const Output& o) const {
    return ids == o.ids && finish == o.finish && std::memcmp(&score, &o.score, 4) == 0 &&
           std::memcmp(&log_probability, &o.log_probability, 4) == 0;
  }
};
struct Found {
  uint32_t status = 0;
  std::vector<Output> outputs;
  bool operator==(const Found& o) const { return status == o.status && outputs == o.outputs; }
};

Output output_of(const phasor_hypothesis& h) {
  return {Ids(h.ids, h.ids + h.count), h.finish, h.score, h.log_probability};
}

constexpr uint32_t kMostBeams = 4;

phasor_limits search_limits(const phasor_model* model, uint32_t searches, uint32_t sequences) {
  phasor_limits limits = limits_of(model, 1);
  limits.target = 32;  // a context that fills up
  limits.beams = kMostBeams;
  limits.searches = searches;
  limits.sequences = sequences;
  limits.outputs = has_source(model) ? uint32_t{PHASOR_WANT_COVERAGE} : 0;
  return limits;
}

// The case's search, alone.
Found search_alone(const Engine& e, const Case& c, BeamOptions o) {
  o.max_new = o.max_new == 0 ? c.capacity : std::min(o.max_new, c.capacity);
  if (o.max_new == 0) return {};
  const bool both = has_source(e.model);
  const uint32_t count = static_cast<uint32_t>(c.ids.size());
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = c.ids.data();
  item.count = count;
  REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
  if (both) REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  o.source = c.ids.data();
  o.source_count = count;
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  Found found;
  found.status = phasor_beam_search(e.session, 0, both ? nullptr : c.ids.data(), both ? 0 : count,
                                    &o, &result, nullptr);
  if (found.status != PHASOR_OK) return found;
  phasor_hypothesis h{};
  h.struct_size = sizeof h;
  for (uint32_t i = 0; phasor_hypothesis_get(e.session, i, &h) == PHASOR_OK; ++i)
    found.outputs.push_back(output_of(h));
  return found;
}

// Jobs of searches, and what they write to.
struct Searches {
  std::vector<phasor_job> jobs;
  std::vector<Ids> out;
  std::vector<std::vector<phasor_hypothesis>> outputs;

  explicit Searches(std::size_t count) : jobs(count), out(count), outputs(count) {}
  void put(std::size_t at, const Case& c) {
    phasor_job job = PHASOR_JOB_INIT;
    out[at].assign(std::size_t{c.capacity} * kMostBeams, 0);
    outputs[at].assign(kMostBeams, phasor_hypothesis{});
    for (phasor_hypothesis& one : outputs[at]) one.struct_size = sizeof one;
    job.ids = c.ids.data();
    job.count = static_cast<uint32_t>(c.ids.size());
    job.out = out[at].data();
    job.capacity = c.capacity;
    job.n_best = kMostBeams;
    job.outputs = outputs[at].data();
    jobs[at] = job;
  }
  Found found(std::size_t at) const {
    const phasor_job& job = jobs[at];
    Found f;
    f.status = job.status;
    CHECK(job.sequence == PHASOR_NONE);
    for (uint32_t i = 0; i < job.found; ++i) {
      const phasor_hypothesis& h = outputs[at][i];
      CHECK(h.ids == out[at].data() + i * std::size_t{job.capacity});
      f.outputs.push_back(output_of(h));
    }
    if (job.found != 0) {
      CHECK(job.made == outputs[at][0].count);
      CHECK(job.finish == outputs[at][0].finish);
    }
    return f;
  }
};

// All at once, in the order given.
std::vector<Found> searches_together(const Engine& e, const std::vector<Case>& cases,
                                     const BeamOptions& o, const std::vector<uint32_t>& order) {
  Searches s(cases.size());
  for (std::size_t k = 0; k < order.size(); ++k) s.put(k, cases[order[k]]);
  phasor_error error = PHASOR_ERROR_INIT;
  HeapCounter heap;
  const phasor_status status = phasor_beam_jobs_run(
      e.session, s.jobs.data(), static_cast<uint32_t>(s.jobs.size()), &o, &error);
  const uint64_t allocations = heap.allocations();
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  if (HeapCounter::active() && e.limits.threads == 1) CHECK(allocations == 0);
  std::vector<Found> found(cases.size());
  for (std::size_t k = 0; k < order.size(); ++k) found[order[k]] = s.found(k);
  return found;
}

// Logits that have nothing to do with the model and many ties: beams change places all the time.
int scramble(void*, float* logits, uint32_t vocabulary, const uint32_t* ids, uint32_t count) {
  phasor_random r;
  phasor_random_seed(&r, fnv1a(kFnvStart, ids, count * sizeof(uint32_t)));
  for (uint32_t i = 0; i < vocabulary; ++i)
    logits[i] = static_cast<float>(phasor::random_next(&r) % 64) / 16.0f;
  return 0;
}

std::vector<BeamOptions> kinds_of_searches(const Ids& more, const Ids& words,
                                           const char* const* stop) {
  std::vector<BeamOptions> all(5, PHASOR_BEAM_OPTIONS_INIT);
  all[0].end = more.data();
  all[0].end_count = 6;
  all[0].length_penalty = 0.7f;
  all[0].early_stopping = PHASOR_EARLY_NEVER;
  all[1].beams = 3;
  all[1].repetition_penalty = 1.2f;
  all[1].no_repeat_ngram = 2;
  all[1].end = more.data();
  all[1].end_count = 3;
  all[1].length_norm = PHASOR_LENGTH_GNMT;
  all[1].early_stopping = PHASOR_EARLY_YES;
  all[1].renormalize = 1;
  all[2].source_no_repeat_ngram = 1;
  all[2].bad_words = words.data();
  all[2].bad_words_count = static_cast<uint32_t>(words.size());
  all[2].forced = more.data() + 6;
  all[2].forced_count = 2;
  all[2].forced_last = more.data();
  all[2].min_new = 4;
  all[2].max_new = 9;
  all[3].logits = scramble;
  all[3].end = more.data();
  all[3].end_count = 4;
  all[3].stop = stop;
  all[3].stop_count = stop != nullptr ? 1 : 0;
  all[4] = all[3];
  all[4].groups = 2;
  all[4].diversity_penalty = 0.3f;
  all[4].renormalize = 1;
  return all;
}

}  // namespace

TEST_CASE("beam jobs: the outputs and scores of each alone, among 31 neighbors, in any order") {
  static const char* const kStop[] = {"e"};
  Share share;
  uint32_t models = 0, ended = 0, strings = 0, outputs = 0;
  for (const std::string& name : decoders()) {
    if (!share.takes()) {
      ++models;
      continue;
    }
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits one = search_limits(probe.model, 0, 1);
    const Engine single(file, nullptr, &one);
    std::vector<Case> cases = cases_of(probe.model, 32);
    const phasor_side side = target_of(probe.model);
    const Ids more = random_ids(5, 8, side.vocabulary), words = {1, more[0], 2, more[1], more[2]};
    std::vector<uint32_t> order(cases.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    for (Case& c : cases) c.capacity %= 14;
    // another kind of options for each model, in turn, at another number of searches
    BeamOptions o =
        kinds_of_searches(more, words, side.has_tokenizer ? kStop : nullptr)[models % 5];
    if (has_source(probe.model)) o.coverage_penalty = 0.6f;
    std::vector<Found> want;
    for (const Case& c : cases) want.push_back(search_alone(single, c, o));
    for (const Found& found : want) {
      outputs += static_cast<uint32_t>(found.outputs.size());
      for (const Output& output : found.outputs) {
        ended += output.finish == PHASOR_FINISH_END;
        strings += output.finish == PHASOR_FINISH_STRING;
      }
    }
    const uint32_t searches = models % 3 == 0 ? 5u : models % 3 == 1 ? 2u : 32u;
    phasor_limits limits = search_limits(probe.model, searches, searches + models % 2);
    if (models % 5 == 0) limits.threads = 2;
    const Engine e(file, nullptr, &limits, limits.threads);
    shuffle(&order, searches);
    CHECK(searches_together(e, cases, o, order) == want);
    ++models;
  }
  MESSAGE("beam jobs: ", models, " models, ", outputs, " outputs, ", ended, " with an end token, ",
          strings, " with a stop string");
  CHECK(ended * share.of() > 100);
  if (share.of() == 1) CHECK(strings > 10);  // of a few models
}

TEST_CASE("beam jobs: the arena is exact; a caller's own loop, stopped now and then") {
  for (const char* name : {"tiny-d2l-f32", "tiny-lm-f32"}) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = search_limits(probe.model, 3, 3),
                        one = search_limits(probe.model, 0, 1);
    CHECK(part_bytes(probe.model, limits, "beams") ==
          (3 * (64 + 4 * (256 + 4 * 32)) + 63) / 64 * 64);
    std::size_t need = 0, wider = 0;
    REQUIRE(phasor_session_size(&need, probe.model, &limits, nullptr) == PHASOR_OK);
    Block arena(need);
    phasor_session* session = nullptr;
    CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                              nullptr) == PHASOR_NO_MEMORY);
    phasor_limits many = limits;
    many.searches = 4;
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_session_size(&wider, probe.model, &many, &error) == PHASOR_BAD_LIMITS);
    CHECK(std::string(error.text) == "limits.searches: 4, expected 0 to 3");
    many.beams = 0;
    CHECK(phasor_session_size(&wider, probe.model, &many, &error) == PHASOR_BAD_LIMITS);
    const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
    const std::vector<Case> cases = cases_of(probe.model, 20);
    BeamOptions o = PHASOR_BEAM_OPTIONS_INIT;
    o.logits = scramble;
    if (has_source(probe.model)) o.coverage_penalty = 0.4f;
    uint32_t calls = 0, stops = 0;
    phasor_callbacks callbacks{};
    callbacks.struct_size = sizeof callbacks;
    callbacks.user = &calls;
    callbacks.progress = [](void* user, uint32_t, uint32_t, uint32_t) {
      return ++*static_cast<uint32_t*>(user) % 23 == 0 ? 1 : 0;
    };
    REQUIRE(phasor_session_callbacks(e.session, &callbacks) == PHASOR_OK);
    Searches s(3);
    std::vector<std::size_t> which(3);
    std::size_t next = 0, checked = 0;
    for (uint32_t k = 0; k < 3; ++k, ++next) which[k] = next, s.put(k, cases[next]);
    for (uint32_t left = 1; left != 0 || next < cases.size();) {
      const phasor_status status =
          phasor_beam_jobs_step(e.session, s.jobs.data(), 3, &o, &left, nullptr);
      stops += status == PHASOR_STOPPED;
      REQUIRE((status == PHASOR_OK || status == PHASOR_STOPPED));
      for (uint32_t k = 0; k < 3; ++k) {
        if (s.jobs[k].finish == 0 || which[k] == cases.size()) continue;
        CHECK(s.found(k) == search_alone(single, cases[which[k]], o));
        ++checked;
        which[k] = cases.size();
        if (next == cases.size()) continue;
        which[k] = next;
        s.put(k, cases[next++]);
      }
    }
    CHECK(checked == cases.size());
    CHECK(stops > 3);
  }
}

TEST_CASE("beam jobs: one that its caller leaves in the middle gives its room to the next") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = search_limits(probe.model, 2, 2),
                      one = search_limits(probe.model, 0, 1);
  const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
  const std::vector<Case> cases = cases_of(probe.model, 8);
  BeamOptions o = PHASOR_BEAM_OPTIONS_INIT;
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t k = 0; k + 1 < 8; k += 2) {
    CAPTURE(k);
    Searches left_alone(2);
    for (uint32_t i = 0; i < 2; ++i) left_alone.put(i, cases[k + i]);
    uint32_t left = 0;
    for (uint32_t i = 0; i < 3; ++i)
      REQUIRE(phasor_beam_jobs_step(e.session, left_alone.jobs.data(), 2, &o, &left, &error) ==
              PHASOR_OK);
    for (uint32_t q = 0; q < 2; ++q) {  // other sources in their sequences
      const Ids ids = random_ids(q, 4, 20);
      phasor_item item = PHASOR_ITEM_INIT;
      item.sequence = q;
      item.ids = ids.data();
      item.count = 4;
      REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    }
    Searches s(2);
    for (uint32_t i = 0; i < 2; ++i) s.put(i, cases[k + 1 - i]);
    REQUIRE(phasor_beam_jobs_run(e.session, s.jobs.data(), 2, &o, &error) == PHASOR_OK);
    for (uint32_t i = 0; i < 2; ++i) CHECK(s.found(i) == search_alone(single, cases[k + 1 - i], o));
  }
}

TEST_CASE("beam jobs: a bad one fails alone, and what is wrong is said by name") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = search_limits(probe.model, 2, 3),
                      one = search_limits(probe.model, 0, 1);
  const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
  std::vector<Case> cases = cases_of(probe.model, 7);
  for (Case& c : cases) c.capacity = 8;
  cases[1].ids[0] = 1000000;
  cases[3].ids = random_ids(1, 21, 20);
  cases[4].ids.clear();
  cases[5].capacity = 2;
  const uint32_t forced[] = {5, 6};
  BeamOptions o = PHASOR_BEAM_OPTIONS_INIT;
  o.forced = forced;
  o.forced_count = 2;
  Searches s(7);
  for (uint32_t k = 0; k < 7; ++k) s.put(k, cases[k]);
  s.jobs[6].n_best = 0;  // the best one's tokens alone
  s.jobs[6].outputs = nullptr;
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_beam_jobs_run(e.session, s.jobs.data(), 7, &o, &error) == PHASOR_OK);
  CHECK(std::string(error.text).find("a job's token id 1000000 at place 0") == 0);
  for (uint32_t k = 0; k < 6; ++k) {
    const bool bad = k == 1 || k >= 3;
    CHECK(s.jobs[k].status == (bad ? PHASOR_BAD_INPUT : PHASOR_OK));
    if (!bad) CHECK(s.found(k) == search_alone(single, cases[k], o));
  }
  CHECK(s.jobs[6].found == 1);
  CHECK(Ids(s.jobs[6].out, s.jobs[6].out + s.jobs[6].made) ==
        search_alone(single, cases[6], o).outputs[0].ids);

  uint32_t left = 0;
  const auto step = [&] {
    return phasor_beam_jobs_step(e.session, s.jobs.data(), 1, &o, &left, &error);
  };
  const auto says = [&](const char* word) {
    CHECK(step() == PHASOR_BAD_INPUT);
    CAPTURE(error.text);
    CHECK(std::string(error.text).find(word) == 0);
  };
  s.put(0, cases[5]);
  CHECK(step() == PHASOR_OK);  // the job's own mistake
  CHECK(std::string(error.text) == "options.forced: 2 tokens, a job's capacity is 2");
  s.put(0, cases[0]);
  o.beams = 5;
  says("options.beams: 5, limits.beams holds 4");
  o.beams = 0;
  s.outputs[0][0].struct_size = 3;
  says("phasor_hypothesis.struct_size: 3");
  s.outputs[0][0].struct_size = sizeof(phasor_hypothesis);
  s.outputs[0][1].struct_size = 8;
  says("phasor_hypothesis 1.struct_size: 8");
  // What the library wrote, and the options, must come back as they were.
  for (uint32_t lie = 0; lie < 7; ++lie) {
    CAPTURE(lie);
    s.put(0, cases[0]);
    REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
    if (lie == 0) s.jobs[0].sequence = 0;  // it has not begun
    if (lie == 1) s.jobs[0].sequence = 2;  // no search's
    for (uint32_t steps = 0; lie >= 2 && steps < 4; ++steps) REQUIRE(step() == PHASOR_OK);
    if (lie == 2) o.beams = 2;
    if (lie == 3) o.forced_count = 1;
    if (lie == 4) REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
    if (lie == 5) s.jobs[0].capacity = 6;
    if (lie == 6) {
      phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
      REQUIRE(phasor_sequence_clear(e.session, 1) == PHASOR_OK);
      const uint32_t source[] = {5, 6, 7};
      phasor_item item = PHASOR_ITEM_INIT;
      item.sequence = 1;
      item.ids = source;
      item.count = 3;
      REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
      REQUIRE(phasor_beam_search(e.session, 1, nullptr, 0, &o, &result, nullptr) == PHASOR_OK);
    }
    says("job 0: what it says of itself was changed while it ran");
    o.beams = 0;
    o.forced_count = 2;
  }
  phasor_hypothesis h{};
  h.struct_size = sizeof h;
  s.put(0, cases[0]);
  REQUIRE(phasor_beam_jobs_run(e.session, s.jobs.data(), 1, &o, &error) == PHASOR_OK);
  CHECK(s.found(0) == search_alone(single, cases[0], o));
  CHECK(phasor_hypothesis_get(e.session, 0, &h) == PHASOR_BAD_INPUT);  // of no search of its own
  phasor_limits none = limits_of(probe.model, 2);
  const Engine plain(file, nullptr, &none);
  s.put(0, cases[0]);
  CHECK(phasor_beam_jobs_step(plain.session, s.jobs.data(), 1, &o, &left, &error) ==
        PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "options.beams: 0, limits.beams holds 0");
}

TEST_CASE("beam jobs: what is not finite, and a callback that stops, end one search alone") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = search_limits(probe.model, 3, 3),
                      one = search_limits(probe.model, 0, 1);
  const Engine e(file, nullptr, &limits), single(file, nullptr, &one);
  std::vector<Case> cases = cases_of(probe.model, 5);
  for (uint32_t k = 0; k < 5; ++k) cases[k].capacity = 8, cases[k].ids = {5 + k, 6, 7};
  BeamOptions o = PHASOR_BEAM_OPTIONS_INIT;
  o.logits = [](void*, float* logits, uint32_t, const uint32_t* ids, uint32_t count) {
    if (ids[0] == 6 && count > 4) logits[7] = __builtin_nanf("");
    return ids[0] == 7 && count > 5 ? 1 : 0;
  };
  Searches s(5);
  for (uint32_t k = 0; k < 5; ++k) s.put(k, cases[k]);
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_beam_jobs_run(e.session, s.jobs.data(), 5, &o, &error) == PHASOR_OK);
  CHECK(std::string(error.text).find("output: a logit of a beam of sequence 1") == 0);
  for (uint32_t k = 0; k < 5; ++k) {
    const Found want = search_alone(single, cases[k], o);
    CHECK(s.found(k) == want);
    CHECK(s.jobs[k].status == (k == 1 ? PHASOR_NOT_FINITE : PHASOR_OK));
    const bool stopped =
        std::any_of(want.outputs.begin(), want.outputs.end(),
                    [](const Output& output) { return output.finish == PHASOR_FINISH_STOPPED; });
    CHECK(stopped == (k == 2));
  }
}
