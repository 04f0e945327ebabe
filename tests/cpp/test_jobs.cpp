// Many inputs side by side (src/decode/jobs.cpp): each gets the tokens of phasor_generate for it
// alone, on a session of one sequence, whatever its neighbours and the order in which they come.
#include <doctest/doctest.h>

#include <algorithm>

#include "decode/random.h"
#include "heap_counter.h"
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

TEST_CASE("jobs: what each gives alone, among 31 neighbours, in any order of arrival") {
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
    for (const Options& o : kinds_of_options(more, words)) {
      std::vector<Made> want;
      for (const Case& c : cases) want.push_back(alone(single, c, o));
      for (const Made& made : want) ended += made.finish == PHASOR_FINISH_END;
      for (const uint32_t sequences : {2u, 5u, 32u}) {
        phasor_limits limits = limits_of(probe.model, sequences);
        if (sequences == 5) {  // the best token alone, where the options allow it
          limits.best_rows = 5;
          limits.threads = 2;
        }
        const Engine e(file, nullptr, &limits, limits.threads);
        CHECK(together(e, cases, o, order) == want);
        phasor_random random;
        phasor_random_seed(&random, sequences);
        for (std::size_t i = order.size(); i > 1; --i)
          std::swap(order[i - 1], order[phasor::random_next(&random) % i]);
        CHECK(together(e, cases, o, order) == want);
      }
    }
    ++models;
  }
  MESSAGE("jobs: ", models, " models, ", ended, " outputs with an end token");
  CHECK(ended > 100);
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
