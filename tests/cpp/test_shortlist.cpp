// Vocabulary shortlists: the logits of a list's tokens have the bits that they have without it, the
// others are −infinity, and all that chooses tokens gives what it gives when a callback forbids
// the others.
#include <cmath>
#include <set>

#include "cases.h"
#include "heap_counter.h"
#include "support.h"

namespace {

// The list of a source: a few runs of ids, made from the source alone.
bool listed(const uint32_t* ids, uint32_t count, uint32_t id) {
  uint64_t seed = 1;
  for (uint32_t i = 0; i < count; ++i) seed = seed * 31 + ids[i];
  return id < 3 || (id / 5 + seed) % 3 == 0;
}
void mark(void*, const uint32_t* ids, uint32_t count, uint32_t* allowed, uint32_t words) {
  for (uint32_t id = 0; id < words * 32; ++id)  // past the vocabulary too
    if (listed(ids, count, id)) allowed[id / 32] |= 1u << id % 32;
}
void mark_none(void*, const uint32_t*, uint32_t, uint32_t*, uint32_t) {}

// The same by a callback of a generation.
int forbid(void* user, float* logits, uint32_t vocabulary, const uint32_t*, uint32_t) {
  const Ids& source = *static_cast<const Ids*>(user);
  for (uint32_t id = 0; id < vocabulary; ++id)
    if (!listed(source.data(), static_cast<uint32_t>(source.size()), id)) logits[id] = -INFINITY;
  return 0;
}

std::vector<std::string> translators() {
  std::vector<std::string> names;
  for (const std::string& name : golden_models())
    if (phasor_model_stack(Engine(golden_file(name), nullptr).model) == PHASOR_ENCODER_DECODER)
      names.push_back(name);
  return names;
}

phasor_limits limits_of(const phasor_model* model, uint32_t sequences, bool lists) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, 20, 30, &limits) == PHASOR_OK);
  limits.sequences = sequences;
  limits.logit_rows = 4 * sequences;
  limits.outputs = PHASOR_WANT_SAMPLING | (lists ? uint32_t{PHASOR_WANT_SHORTLIST} : 0);
  return limits;
}

void use(const Engine& e, void (*list)(void*, const uint32_t*, uint32_t, uint32_t*, uint32_t)) {
  phasor_callbacks callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.shortlist = list;
  REQUIRE(phasor_session_callbacks(e.session, &callbacks) == PHASOR_OK);
}

phasor_item item_of(const Ids& ids, uint32_t sequence, uint32_t logits) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = ids.data();
  item.count = static_cast<uint32_t>(ids.size());
  item.sequence = sequence;
  item.logits = logits;
  return item;
}

Ids source_of(const Engine& e, uint64_t seed) {
  phasor_side side{};
  side.struct_size = sizeof side;
  REQUIRE(phasor_model_side(e.model, PHASOR_SOURCE, &side) == PHASOR_OK);
  return random_ids(seed, static_cast<uint32_t>(3 + seed % 9), side.vocabulary);
}

// Sources 0 … n − 1 in their sequences, and three tokens of each decoder; the logits of all rows,
// or the best tokens.
std::vector<float> rows_of(const Engine& e, uint32_t n, uint32_t first_list) {
  const uint32_t vocabulary = vocabulary_of(e.model);
  std::vector<Ids> sources, targets;
  std::vector<phasor_item> items;
  for (uint32_t q = 0; q < n; ++q) {
    sources.push_back(source_of(e, q));
    targets.push_back(random_ids(40 + q, 3, vocabulary));
  }
  for (uint32_t q = 0; q < n; ++q) {
    if (q == first_list) use(e, mark);
    const phasor_item item = item_of(sources[q], q, 0);
    REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  }
  for (uint32_t q = 0; q < n; ++q) items.push_back(item_of(targets[q], q, PHASOR_LOGITS_ALL));
  REQUIRE(phasor_step(e.session, items.data(), n, nullptr) == PHASOR_OK);
  std::vector<float> out;
  for (uint32_t row = 0; row < 3 * n; ++row) {
    const float* x = phasor_logits(e.session, row);
    out.insert(out.end(), x, x + vocabulary);
  }
  return out;
}

Ids greedy(const Engine& e, const Ids& source, phasor_generate_options o, uint32_t* finish) {
  Ids out(24);
  phasor_generation made = PHASOR_GENERATION_INIT;
  const phasor_item item = item_of(source, 0, 0);
  REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  REQUIRE(phasor_generate(e.session, 0, nullptr, 0, out.data(), 24, &o, &made, nullptr) ==
          PHASOR_OK);
  out.resize(made.count);
  *finish = made.finish;
  return out;
}

}  // namespace

TEST_CASE("shortlist: the logits of a list have the same bits, the others are -infinity") {
  uint32_t kept = 0, left = 0;
  for (const std::string& name : translators()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits plain = limits_of(probe.model, 3, false);
    const std::vector<float> all = rows_of(Engine(file, nullptr, &plain), 3, 9);
    const uint32_t vocabulary = vocabulary_of(probe.model);
    for (const uint32_t chunk : {1u, 4u, 64u})
      for (const uint32_t threads : {1u, 3u})
        for (const uint32_t first_list : {0u, 1u, 3u}) {  // sequences before it have none
          phasor_limits limits = limits_of(probe.model, 3, true);
          limits.chunk = chunk;
          const Engine e(file, nullptr, &limits, threads);
          const std::vector<float> some = rows_of(e, 3, first_list);
          for (std::size_t at = 0; at < all.size(); ++at) {
            const uint32_t q = static_cast<uint32_t>(at / vocabulary / 3),
                           id = static_cast<uint32_t>(at % vocabulary);
            const Ids source = source_of(e, q);
            const bool allowed =
                q < first_list || listed(source.data(), static_cast<uint32_t>(source.size()), id);
            const float want = allowed ? all[at] : -INFINITY;
            if (std::memcmp(&some[at], &want, 4) != 0) FAIL_CHECK("row " << at / vocabulary);
            ++(allowed ? kept : left);
          }
        }
  }
  CHECK(kept > 10000);
  CHECK(left > 10000);
}

TEST_CASE("shortlist: greedy, best tokens, beams and jobs are those of a callback that forbids") {
  std::set<uint32_t> seen;
  for (const std::string& name : translators()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits plain = limits_of(probe.model, 3, false), lists = limits_of(probe.model, 3, true);
    plain.beams = lists.beams = 3;
    lists.searches = 3;
    phasor_limits best = limits_of(probe.model, 1, true);
    best.logit_rows = 0;
    best.best_rows = 1;
    best.outputs = PHASOR_WANT_SHORTLIST;
    const Engine without(file, nullptr, &plain), with(file, nullptr, &lists),
        least(file, nullptr, &best);
    use(with, mark);
    use(least, mark);
    std::vector<Ids> sources, outs(6, Ids(24)), found(6, Ids(24));
    std::vector<phasor_job> jobs(6, phasor_job PHASOR_JOB_INIT), searches = jobs;
    for (uint32_t i = 0; i < 6; ++i) sources.push_back(source_of(without, i));
    for (uint32_t i = 0; i < 6; ++i) {
      jobs[i].ids = searches[i].ids = sources[i].data();
      jobs[i].count = searches[i].count = static_cast<uint32_t>(sources[i].size());
      jobs[i].capacity = searches[i].capacity = 24;
      jobs[i].out = outs[i].data();
      searches[i].out = found[i].data();
    }
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    o.max_new = 24;
    phasor_beam_options b = PHASOR_BEAM_OPTIONS_INIT;
    b.max_new = 12;
    HeapCounter heap;
    REQUIRE(phasor_jobs_run(with.session, jobs.data(), 6, &o, nullptr) == PHASOR_OK);
    REQUIRE(phasor_beam_jobs_run(with.session, searches.data(), 6, &b, nullptr) == PHASOR_OK);
    const uint64_t allocations = heap.allocations();
    CHECK(allocations == 0);
    for (uint32_t i = 0; i < 6; ++i) {
      phasor_generate_options callback = o;
      callback.logits = forbid;
      callback.user = &sources[i];
      uint32_t finish[3];
      const Ids want = greedy(without, sources[i], callback, finish);
      CHECK(greedy(with, sources[i], o, finish + 1) == want);
      CHECK(greedy(least, sources[i], o, finish + 2) == want);
      CHECK((finish[1] == finish[0] && finish[2] == finish[0]));
      CHECK(Ids(outs[i].data(), outs[i].data() + jobs[i].made) == want);
      seen.insert(want.begin(), want.end());
      phasor_beam_options search = b;
      phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
      phasor_hypothesis h[2] = {};
      for (const Engine* e : {&without, &with}) {
        search.logits = e == &without ? forbid : nullptr;
        search.user = &sources[i];
        const phasor_item item = item_of(sources[i], 0, 0);
        REQUIRE(phasor_encode(e->session, &item, 1, nullptr) == PHASOR_OK);
        REQUIRE(phasor_beam_search(e->session, 0, nullptr, 0, &search, &result, nullptr) ==
                PHASOR_OK);
        phasor_hypothesis& one = h[e == &with];
        one.struct_size = sizeof one;
        REQUIRE(phasor_hypothesis_get(e->session, 0, &one) == PHASOR_OK);
      }
      const Ids one(h[0].ids, h[0].ids + h[0].count), two(h[1].ids, h[1].ids + h[1].count);
      CHECK(one == two);
      CHECK(std::memcmp(&h[0].score, &h[1].score, 4) == 0);
      CHECK(Ids(found[i].data(), found[i].data() + searches[i].made) == one);
    }
  }
  CHECK(seen.size() > 20);
}

TEST_CASE("shortlist: a callback for which the limits have no room is refused") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  for (const bool room : {false, true}) {
    const phasor_limits limits = limits_of(probe.model, 2, room);
    const Engine e(file, nullptr, &limits);
    phasor_callbacks callbacks{};
    callbacks.struct_size = sizeof callbacks;
    callbacks.shortlist = mark;
    CHECK(phasor_session_callbacks(e.session, &callbacks) ==
          (room ? PHASOR_OK : PHASOR_BAD_LIMITS));
  }
}

TEST_CASE("shortlist: the arena is exact, and what a list does not go with is said") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 2, true);
  const uint64_t words = 1 + vocabulary_of(probe.model) / 32 + 1;
  CHECK(part_bytes(probe.model, limits, "shortlists") == (3 * 4 * words + 63) / 64 * 64);
  CHECK(part_bytes(probe.model, limits_of(probe.model, 2, false), "shortlists") == 0);
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_session* session = nullptr;
  REQUIRE(phasor_session_size(&need, probe.model, &limits, nullptr) == PHASOR_OK);
  const Block arena(need);
  CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                            &error) == PHASOR_NO_MEMORY);
  CHECK(phasor_session_open(&session, arena.data(), need, probe.model, &limits, nullptr, &error) ==
        PHASOR_OK);

  const Engine e(file, nullptr, &limits);
  use(e, mark);
  const Ids source = source_of(e, 1);
  phasor_item item = item_of(source, 0, 0);
  REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  const std::vector<unsigned char> state = state_of(e);
  CHECK(phasor_state_restore(e.session, 1, state.data(), state.size(), &error) == PHASOR_BAD_STATE);
  CHECK(std::string(error.text) ==
        "state: it has no shortlist, and the session's callbacks have one");
  const Engine none(file, nullptr, &limits);  // a sequence without a source has no list to lose
  const std::vector<unsigned char> sourceless = state_of(none);
  CHECK(phasor_state_restore(e.session, 1, sourceless.data(), sourceless.size(), &error) ==
        PHASOR_OK);
  const std::vector<float> embeddings(source.size() * 64);
  item.ids = nullptr;
  item.embeddings = embeddings.data();
  CHECK(phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "a source without ids: a shortlist needs them");

  // a list without a token leaves nothing to choose
  item = item_of(source, 0, 0);
  use(e, mark_none);
  REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  uint32_t out[4];
  phasor_generation made = PHASOR_GENERATION_INIT;
  CHECK(phasor_generate(e.session, 0, nullptr, 0, out, 4, nullptr, &made, &error) ==
        PHASOR_BAD_INPUT);
  phasor_limits best = limits_of(probe.model, 1, true);
  best.logit_rows = 0;
  best.best_rows = 1;
  const Engine least(file, nullptr, &best);
  use(least, mark_none);
  REQUIRE(phasor_encode(least.session, &item, 1, nullptr) == PHASOR_OK);
  CHECK(phasor_generate(least.session, 0, nullptr, 0, out, 4, nullptr, &made, &error) ==
        PHASOR_BAD_INPUT);
  // and is there no more once a source is encoded without it
  use(e, nullptr);
  REQUIRE(phasor_state_restore(e.session, 1, state.data(), state.size(), &error) == PHASOR_OK);
  REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
  CHECK(phasor_generate(e.session, 0, nullptr, 0, out, 4, nullptr, &made, &error) == PHASOR_OK);
}
