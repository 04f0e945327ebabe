// The main loop (src/decode/generate.cpp): sampled output, lookahead, prefix reuse, a context that
// slides, text and stop strings.
#include <algorithm>
#include <limits>

#include "cases.h"
#include "decode/random.h"
#include "heap_counter.h"
#include "items.h"
#include "share.h"
#include "support.h"
#include "weight_file.h"

namespace {

struct Made {
  Ids ids;
  phasor_generation figures = PHASOR_GENERATION_INIT;
  phasor_status status = PHASOR_OK;
  std::string error, text;
};

phasor_limits limits_of(const phasor_model* model, uint32_t target = 40) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  phasor_limits_for(model, phasor_model_stack(model) == PHASOR_DECODER ? 0 : 20, target, &limits);
  limits.chunk = 5;
  limits.outputs = PHASOR_WANT_SAMPLING;
  limits.logit_rows = 9;
  return limits;
}

Made generate(const Engine& e, const Ids& prompt,
              phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT,
              uint32_t capacity = 39) {
  Made made;
  made.ids.resize(capacity);
  phasor_error error = PHASOR_ERROR_INIT;
  if (options.user == nullptr) options.user = &made;
  made.status = phasor_generate(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                                made.ids.data(), capacity, &options, &made.figures, &error);
  made.ids.resize(made.figures.count);
  made.error = error.text;
  return made;
}

int add_text(void* user, const char* text, std::size_t bytes) {
  static_cast<Made*>(user)->text.append(text, bytes);
  return 0;
}

phasor_generate_options sampled() {
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  o.temperature = 1.2f;
  o.top_p = 0.95f;
  o.repetition_penalty = 1.1f;
  o.frequency_penalty = 0.1f;
  o.seed = 7;
  return o;
}

}  // namespace

TEST_CASE(
    "promise 1: the arena is exact with sampling, and nothing is allocated while it draws, guesses "
    "and matches stop strings") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model), plain = [&] {
    phasor_limits l = limits;
    l.outputs = 0;
    return l;
  }();
  std::size_t need = 0, less = 0;
  REQUIRE(phasor_session_size(&need, probe.model, &limits, nullptr) == PHASOR_OK);
  REQUIRE(phasor_session_size(&less, probe.model, &plain, nullptr) == PHASOR_OK);
  CHECK(need - less == 3 * 48 * sizeof(float));  // 47 tokens in whole lanes
  Block arena(need);
  phasor_session* session = nullptr;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                            &error) == PHASOR_NO_MEMORY);
  REQUIRE(phasor_session_open(&session, arena.data(), need, probe.model, &limits, nullptr,
                              &error) == PHASOR_OK);

  const Engine e(file, nullptr, &limits);
  begin(e);
  phasor_generate_options o = sampled();
  const char* stop[] = {"target40 target41 target42", "nothing"};
  o.typical_p = 0.9f;
  o.no_repeat_ngram = 4;
  o.min_new = 3;
  o.stop = stop;
  o.stop_count = 2;
  o.text = [](void* user, const char*, std::size_t bytes) {
    return (*static_cast<uint32_t*>(user) += static_cast<uint32_t>(bytes)), 0;
  };
  o.lookahead = 8;
  o.slide = 1;
  o.keep = 2;
  o.reuse = 1;
  uint32_t characters = 0, out[100];
  o.user = &characters;
  phasor_generation figures = PHASOR_GENERATION_INIT;
  HeapCounter heap;
  const phasor_status status =
      phasor_generate(e.session, 0, nullptr, 0, out, 100, &o, &figures, &error);
  const uint64_t allocations = heap.allocations();
  CAPTURE(error.text);
  CHECK(status == PHASOR_OK);
  CHECK(characters > 0);
  if (HeapCounter::active()) CHECK(allocations == 0);
}

TEST_CASE(
    "sampled output is the loop of steps and choices, at every level, number of threads and "
    "chunking") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = limits_of(probe.model);
    const Engine e(file, nullptr, &limits);
    const Ids prompt = random_ids(5, 8, vocabulary_of(e.model));
    begin(e);
    const Made made = generate(e, prompt, sampled(), 25);
    REQUIRE(made.status == PHASOR_OK);
    // on every machine
    if (name == "tiny-lm-q8")
      CHECK(fnv1a(kFnvStart, made.ids.data(), made.ids.size() * sizeof(uint32_t)) ==
            14700278098782055823u);

    phasor_generate_options o = sampled();
    phasor_random random;
    phasor_random_seed(&random, o.seed);
    o.random = &random;
    const Engine loop(file, nullptr, &limits);
    begin(loop);
    Ids ids = prompt, next = prompt;
    for (uint32_t i = 0; i < made.ids.size(); ++i) {
      const phasor_item item =
          item_of(0, static_cast<uint32_t>(next.size()), PHASOR_LOGITS_LAST, next.data());
      REQUIRE(phasor_step(loop.session, &item, 1, nullptr) == PHASOR_OK);
      uint32_t id = 0;
      REQUIRE(phasor_choose(loop.session, &id, nullptr, 0, ids.data(),
                            static_cast<uint32_t>(ids.size()), i, &o, nullptr) == PHASOR_OK);
      REQUIRE(id == made.ids[i]);
      ids.push_back(id);
      next = {id};
    }
    for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
      const Engine other(file, phasor_isa_name(level), &limits);
      begin(other);
      CHECK(generate(other, prompt, sampled(), 25).ids == made.ids);
    }
    limits.chunk = 64;
    limits.threads = 3;
    const Engine threads(file, nullptr, &limits, 3);
    begin(threads);
    CHECK(generate(threads, prompt, sampled(), 25).ids == made.ids);
    phasor_generate_options another = sampled();
    another.seed = 8;
    begin(e);
    if (made.ids.size() > 5) CHECK(generate(e, prompt, another, 25).ids != made.ids);
  }
}

TEST_CASE(
    "lookahead gives the very tokens and leaves the very state of plain decoding, greedy and "
    "sampled, for 50 prompts") {
  Share share;
  uint64_t proposed = 0, accepted = 0, steps = 0, tokens = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model);
    const Engine plain(file, nullptr, &limits), ahead(file, nullptr, &limits);
    for (uint64_t seed = 0; seed < 50; ++seed) {
      if (!share.takes()) continue;
      CAPTURE(seed);
      phasor_generate_options o =
          seed % 3 == 2 ? sampled() : phasor_generate_options PHASOR_GENERATE_OPTIONS_INIT;
      o.seed = seed;
      o.max_new = seed % 5 == 0 ? 7 : 0;
      const Ids prompt =
          random_ids(seed, 2 + static_cast<uint32_t>(seed % 9), vocabulary_of(probe.model));
      begin(plain, seed);
      begin(ahead, seed);
      const Made want = generate(plain, prompt, o);
      o.lookahead = 1 + static_cast<uint32_t>(seed % 8);
      const Made got = generate(ahead, prompt, o);
      REQUIRE(got.status == want.status);
      REQUIRE(got.ids == want.ids);
      REQUIRE(got.figures.finish == want.figures.finish);
      REQUIRE(state_of(ahead) == state_of(plain));
      CHECK(got.figures.steps + got.figures.accepted == want.figures.steps);
      if (o.temperature > 0) continue;
      proposed += got.figures.proposed;
      accepted += got.figures.accepted;
      steps += got.figures.steps;
      tokens += got.figures.count;
    }
  }
  MESSAGE("lookahead: ", accepted, " of ", proposed, " guesses right, ",
          static_cast<double>(tokens) / static_cast<double>(steps), " tokens a step");
  CHECK(accepted > 0);
  CHECK(accepted < proposed);
}

TEST_CASE(
    "lookahead: a text that repeats itself needs fewer steps; a callback stops it where it stops "
    "plain decoding") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  // The logits of a model that repeats 5 6 7 8.
  o.logits = [](void*, float* logits, uint32_t, const uint32_t* ids, uint32_t count) {
    logits[5 + (ids[count - 1] - 4) % 4] = 1e6f;
    return 0;
  };
  o.max_new = 30;
  const Ids prompt = {5, 6, 7, 8, 5, 6};
  begin(e);
  const Made plain = generate(e, prompt, o);
  const std::vector<unsigned char> state = state_of(e);
  o.lookahead = 8;
  begin(e);
  const Made ahead = generate(e, prompt, o);
  CHECK(ahead.ids == plain.ids);
  CHECK(state_of(e) == state);
  CHECK(plain.figures.steps == 30);
  CHECK(ahead.figures.steps <= 5);
  CHECK(ahead.figures.accepted == 30 - ahead.figures.steps);
  struct Stop {
    uint32_t left;
  };
  std::vector<unsigned char> states[2];
  Ids ids[2];
  for (const uint32_t n : {0u, 8u}) {
    Stop stop{11};
    o.lookahead = n;
    o.user = &stop;
    o.token = [](void* user, uint32_t, uint32_t) {
      return --static_cast<Stop*>(user)->left == 0 ? 1 : 0;
    };
    begin(e);
    const Made made = generate(e, prompt, o);
    CHECK(made.figures.finish == PHASOR_FINISH_STOPPED);
    CHECK(made.ids.size() == 11);
    states[n != 0] = state_of(e);
    ids[n != 0] = made.ids;
  }
  CHECK(states[0] == states[1]);
  CHECK(ids[0] == ids[1]);
}

TEST_CASE("a prompt that reuses what the sequence has gives the bits of a fresh one") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model);
    const Engine e(file, nullptr, &limits), fresh(file, nullptr, &limits);
    const uint32_t vocabulary = vocabulary_of(e.model);
    begin(e);
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    o.reuse = 1;
    const Ids first = random_ids(1, 12, vocabulary), other = random_ids(2, 9, vocabulary);
    for (uint32_t common : {0u, 3u, 12u, 18u, 12u}) {
      const Ids had(phasor_sequence_ids(e.session, 0),
                    phasor_sequence_ids(e.session, 0) + phasor_sequence_length(e.session, 0));
      Ids prompt = common <= had.size() ? Ids(had.begin(), had.begin() + common) : first;
      if (common != 12 || had.empty()) prompt.insert(prompt.end(), other.begin(), other.end());
      const uint32_t same =
          phasor_sequence_common(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()));
      if (common <= had.size()) CHECK(same >= common);
      const Made made = generate(e, prompt, o, 6);
      begin(fresh);
      const Made want = generate(fresh, prompt, PHASOR_GENERATE_OPTIONS_INIT, 6);
      REQUIRE(made.status == PHASOR_OK);
      CHECK(made.ids == want.ids);
      CHECK(state_of(e) == state_of(fresh));
      const std::size_t reused = std::min<std::size_t>(same, prompt.size() - 1);
      CHECK((made.figures.reused == reused ||
             (made.figures.reused == 0 && lets_go(e.model, limits))));
    }
  }
}

TEST_CASE(
    "a full context slides: the first tokens and the newer half of the others, as if computed "
    "anew") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 20);
    const Engine e(file, nullptr, &limits), fresh(file, nullptr, &limits);
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    // Any end token would stop it.
    o.logits = [](void*, float* logits, uint32_t vocabulary, const uint32_t*, uint32_t) {
      for (uint32_t i = 0; i < 3 && i < vocabulary; ++i)
        logits[i] = -std::numeric_limits<float>::infinity();
      return 0;
    };
    o.slide = 1;
    o.keep = 3;
    const Ids prompt = random_ids(4, 6, vocabulary_of(e.model));
    begin(e);
    const Made made = generate(e, prompt, o, 50);
    REQUIRE(made.status == PHASOR_OK);
    if (made.figures.finish == PHASOR_FINISH_END) continue;
    REQUIRE(made.ids.size() == 50);
    CHECK(made.figures.slides == 4);  // 55 tokens enter, nine more at each
    // By hand: 15 tokens fill the context of 20; the next one enters after 3 + 8 that stay.
    Ids context = prompt;
    for (uint32_t i = 0; i < 50; ++i) {
      begin(fresh);
      phasor_generate_options one = o;
      one.slide = 0;
      const Made next = generate(fresh, context, one, 1);
      REQUIRE(next.ids.size() == 1);
      REQUIRE(next.ids[0] == made.ids[i]);
      if (context.size() == 20) context.erase(context.begin() + 3, context.begin() + 12);
      context.push_back(made.ids[i]);
    }
    o.lookahead = 5;
    begin(e);
    CHECK(generate(e, prompt, o, 50).ids == made.ids);

    // A prompt that is too long loses its middle.
    const Ids text = random_ids(6, 33, vocabulary_of(e.model));
    Ids cut(text.begin(), text.begin() + 3);
    cut.insert(cut.end(), text.end() - 17, text.end());
    o.lookahead = 0;
    begin(e);
    const Made longer = generate(e, text, o, 1);
    CHECK(longer.status == PHASOR_OK);
    const std::vector<unsigned char> state = state_of(e);
    begin(fresh);
    const Made want = generate(fresh, cut, o, 1);
    CHECK(longer.ids == want.ids);
    CHECK(state == state_of(fresh));
    o.reuse = 1;
    begin(e);
    REQUIRE(generate(e, Ids(text.begin(), text.begin() + 9), o, 1).status == PHASOR_OK);
    CHECK(generate(e, text, o, 1).ids == want.ids);
    CHECK(state == state_of(e));
    o.slide = o.reuse = 0;
    begin(e);
    CHECK(generate(e, text, o, 1).status == PHASOR_FULL);
  }
}

TEST_CASE(
    "rule 3.8: a generation that is saved goes on at another level, the random numbers with "
    "it") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model);
    const Engine whole(file, nullptr, &limits), here(file, nullptr, &limits),
        there(file, "scalar", &limits);
    const Ids prompt = random_ids(3, 5, vocabulary_of(whole.model));
    phasor_random random;
    phasor_generate_options o = sampled();
    o.frequency_penalty = 0;  // counts the tokens of one call
    begin(whole);
    const Made want = generate(whole, prompt, o, 20);
    phasor_random_seed(&random, o.seed);
    o.random = &random;
    begin(here);
    Made made = generate(here, prompt, o, 8);
    REQUIRE(made.status == PHASOR_OK);
    if (made.figures.finish == PHASOR_FINISH_LENGTH) {
      const std::vector<unsigned char> state = state_of(here);
      REQUIRE(phasor_state_restore(there.session, 0, state.data(), state.size(), nullptr) ==
              PHASOR_OK);
      phasor_random copy = random;
      o.random = &copy;
      const Made rest = generate(there, {made.ids.back()}, o, 12);
      made.ids.insert(made.ids.end(), rest.ids.begin(), rest.ids.end());
    }
    CHECK(made.ids == want.ids);
  }
}

TEST_CASE(
    "text comes in whole pieces, and a stop string ends it wherever the borders of the tokens "
    "lie") {
  // words: "target4 … target46" with spaces between
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  const Ids forced = {5, 6, 17, 17, 18, 6, 7};
  const std::string all = "target5 target6 target17 target17 target18 target6 target7";
  const struct {
    std::vector<const char*> stop;
    std::string text;
    uint32_t tokens;  // 0: it does not stop
  } cases[] = {
      {{}, all, 0},
      {{"nothing", "target17 target6", "get18x", "target7 "}, all, 0},
      {{"target17"}, "target5 target6 ", 3},
      {{"7 target18"}, "target5 target6 target17 target1", 5},
      {{"17 target17 target18 target6 target"}, "target5 target6 target", 7},
      {{"5 target6 target1"}, "target", 3},
      {{"t"}, "", 1},
      {{" "}, "target5", 2},
      // the second has begun when the first comes
      {{"17 target18", "17 target17 x"}, "target5 target6 target17 target", 5},
      {{"6 t", "get6 t"}, "target5 tar", 3},  // both end there: the one that began first
      {{"target17 target18 target6 zzz", "8 targ"}, "target5 target6 target17 target17 target1", 6},
  };
  for (const auto& c : cases)
    for (const uint32_t ahead : {0u, 4u}) {
      phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
      o.forced = forced.data();
      o.forced_count = static_cast<uint32_t>(forced.size());
      o.max_new = static_cast<uint32_t>(forced.size());
      o.stop = c.stop.data();
      o.stop_count = static_cast<uint32_t>(c.stop.size());
      o.text = add_text;
      o.lookahead = ahead;
      begin(e);
      Made made;
      o.user = &made;
      const Made result = generate(e, {}, o);
      CAPTURE(result.error);
      REQUIRE(result.status == PHASOR_OK);
      CHECK(made.text == c.text);
      CHECK(result.figures.finish == (c.tokens != 0 ? PHASOR_FINISH_STRING : PHASOR_FINISH_LENGTH));
      CHECK(result.ids.size() == (c.tokens != 0 ? c.tokens : forced.size()));
    }
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  o.text = [](void*, const char*, std::size_t) { return 1; };
  begin(e);
  CHECK(generate(e, {}, o).figures.finish == PHASOR_FINISH_STOPPED);
}

TEST_CASE("stop strings: random texts and strings beside a plain search") {
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  phasor_random r;
  phasor_random_seed(&r, 17);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(phasor::random_next(&r) % n);
  };
  uint32_t stopped = 0;
  for (int i = 0; i < 400; ++i) {
    Ids forced(1 + below(12));
    std::string all;
    for (uint32_t& id : forced) {
      const uint32_t few[] = {4, 5, 44, 45};
      id = few[below(4)];
      all += (all.empty() ? "target" : " target") + std::to_string(id);
    }
    std::vector<std::string> strings(1 + below(3));
    std::vector<const char*> stop;
    for (std::string& t : strings) {
      const std::size_t at = below(all.size());
      t = all.substr(at, 1 + below(20));
      if (below(3) == 0) t.back() = "t45 "[below(4)];  // often one that never comes
      stop.push_back(t.c_str());
    }
    // The occurrence that ends first; of those that end together the one that begins first.
    std::size_t end = std::string::npos, begins = all.size();
    for (const std::string& t : strings) {
      const std::size_t at = all.find(t);
      if (at == std::string::npos || at + t.size() > end) continue;
      if (at + t.size() < end || at < begins) begins = at;
      end = at + t.size();
    }
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    o.forced = forced.data();
    o.forced_count = o.max_new = static_cast<uint32_t>(forced.size());
    o.stop = stop.data();
    o.stop_count = static_cast<uint32_t>(stop.size());
    o.text = add_text;
    Made made;
    o.user = &made;
    begin(e);
    const Made result = generate(e, {}, o);
    CAPTURE(all);
    CAPTURE(strings[0]);
    REQUIRE(made.text == all.substr(0, begins));
    REQUIRE((result.figures.finish == PHASOR_FINISH_STRING) == (end != std::string::npos));
    stopped += result.figures.finish == PHASOR_FINISH_STRING;
  }
  CHECK(stopped > 100);
  CHECK(stopped < 395);
}

TEST_CASE("lookahead changes nothing under any options") {
  phasor_random r;
  phasor_random_seed(&r, 23);
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(phasor::random_next(&r) % n); };
  const auto maybe = [&](float value) { return below(2) == 0 ? 0.0f : value; };
  uint32_t slides = 0, accepted = 0;
  for (const char* name : {"tiny-lm-f32", "tiny-d2l-q8", "tiny-alibi-f32"}) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_side side = target_of(probe.model);
    const phasor_limits limits = limits_of(probe.model, 24);
    const Engine plain(file, nullptr, &limits), ahead(file, nullptr, &limits);
    for (uint64_t seed = 0; seed < 120; ++seed) {
      phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
      const Ids forced = random_ids(seed, below(5), side.vocabulary),
                banned = random_ids(seed + 1, below(5), side.vocabulary),
                ends = random_ids(seed + 2, below(3), side.vocabulary);
      const char* stop[] = {"4 target", "target7"};
      o.temperature = maybe(1.5f);
      o.top_k = below(2) * 10;
      o.top_p = maybe(0.9f);
      o.min_p = maybe(0.05f);
      o.typical_p = maybe(0.9f);
      o.repetition_penalty = maybe(below(2) == 0 ? 1.3f : 0.7f);
      o.presence_penalty = maybe(0.5f);
      o.frequency_penalty = maybe(-0.3f);
      o.no_repeat_ngram = below(3) == 0 ? 4 : 0;
      o.min_new = below(20);
      o.forced = forced.data();
      o.forced_count = static_cast<uint32_t>(forced.size());
      o.suppressed = banned.data();
      o.suppressed_count = static_cast<uint32_t>(banned.size());
      o.end = ends.data();
      o.end_count = static_cast<uint32_t>(ends.size());
      o.seed = seed;
      o.slide = below(2);
      o.keep = below(10);
      o.reuse = below(2);
      o.max_new = below(3) == 0 ? 1 + below(12) : 0;
      if (side.has_tokenizer != 0) {
        o.stop = stop;
        o.stop_count = below(3);
        o.text = add_text;
      }
      const Ids prompt = random_ids(seed + 3, 1 + below(20), side.vocabulary);
      // else what the last round has left, reused or too much
      if (seed % 4 == 0) begin(plain, seed), begin(ahead, seed);
      const Made want = generate(plain, prompt, o, 60);
      o.lookahead = 1 + below(8);
      const Made got = generate(ahead, prompt, o, 60);
      CAPTURE(name);
      CAPTURE(seed);
      CAPTURE(want.error);
      REQUIRE(got.status == want.status);
      REQUIRE(got.ids == want.ids);
      REQUIRE(got.figures.finish == want.figures.finish);
      REQUIRE(got.text == want.text);
      REQUIRE(got.figures.slides == want.figures.slides);
      REQUIRE(phasor_sequence_length(ahead.session, 0) == phasor_sequence_length(plain.session, 0));
      REQUIRE(state_of(ahead) == state_of(plain));
      slides += got.figures.slides;
      accepted += got.figures.accepted;
    }
  }
  CHECK(slides > 20);
  CHECK(accepted > 100);
}

TEST_CASE("the caller's end tokens, fewest new tokens and suppressed tokens act in the loop") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  begin(e);
  const Made plain = generate(e, {5, 6, 7}, PHASOR_GENERATE_OPTIONS_INIT, 12);
  REQUIRE(plain.ids.size() == 12);
  const uint32_t stop[] = {plain.ids[1]};
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  o.end = stop;
  o.end_count = 1;
  begin(e);
  const Made ended = generate(e, {5, 6, 7}, o, 12);
  CHECK(ended.ids == Ids(plain.ids.begin(), plain.ids.begin() + 2));
  CHECK(ended.figures.finish == PHASOR_FINISH_END);
  o.min_new = 6;
  begin(e);
  const Made later = generate(e, {5, 6, 7}, o, 12);
  CHECK(later.ids.size() > 6);
  CHECK(std::find(later.ids.begin(), later.ids.begin() + 6, stop[0]) == later.ids.begin() + 6);
  o = PHASOR_GENERATE_OPTIONS_INIT;
  o.suppressed = stop;
  o.suppressed_count = 1;
  begin(e);
  const Made without = generate(e, {5, 6, 7}, o, 12);
  CHECK(std::find(without.ids.begin(), without.ids.end(), stop[0]) == without.ids.end());
}

TEST_CASE("rule 3.5: generation refuses by name what it cannot do, and changes nothing") {
  const Block file = golden_file("tiny-d2l-f32"), words = golden_file("tiny-lm-f32"),
              encoder = golden_file("tiny-bert-f32");
  const Engine probe(file, nullptr);
  phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  const Engine none(words, nullptr), bert(encoder, nullptr);
  const char* stops[65];
  std::fill(stops, stops + 65, "x");
  const std::string longer(257, 'a');
  const char *empty[] = {""}, *large[] = {longer.c_str()};
  const uint32_t far[] = {1000000};
  const auto refuse = [&](const Engine& engine, const char* says, auto set) {
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    set(&o);
    const Made made = generate(engine, {}, o);
    CAPTURE(made.error);
    CHECK(made.status == PHASOR_BAD_INPUT);
    CHECK(made.error.find(says) != std::string::npos);
    CHECK(made.error.find('\n') == std::string::npos);
    CHECK(made.ids.empty());
  };
  begin(e);
  refuse(e, "options.temperature: nan",
         [](auto* o) { o->temperature = std::numeric_limits<float>::quiet_NaN(); });
  refuse(e, "options.lookahead: 9", [](auto* o) { o->lookahead = 9; });
  refuse(e, "options.keep: 39", [](auto* o) { o->slide = 1, o->keep = 39; });
  refuse(e, "options.forced: token id 1000000",
         [&](auto* o) { o->forced = far, o->forced_count = 1; });
  refuse(e, "options.stop_count: 65", [&](auto* o) { o->stop = stops, o->stop_count = 65; });
  refuse(e, "options.stop: string 0 is empty",
         [&](auto* o) { o->stop = empty, o->stop_count = 1; });
  refuse(e, "options.stop: string 0 is too long",
         [&](auto* o) { o->stop = large, o->stop_count = 1; });
  refuse(e, "phasor_generate_options.struct_size: 3", [](auto* o) { o->struct_size = 3; });
  refuse(none, "need a tokenizer", [](auto* o) { o->text = add_text; });
  refuse(none, "PHASOR_WANT_SAMPLING", [](auto* o) { o->min_new = 3; });
  refuse(bert, "encoder", [](auto*) {});
  limits.text_bytes = 0;
  const Engine textless(file, nullptr, &limits);
  refuse(textless, "limits.text_bytes", [](auto* o) { o->text = add_text; });
  CHECK(phasor_sequence_length(e.session, 0) == 0);
  phasor_generation figures = PHASOR_GENERATION_INIT;
  CHECK(phasor_generate(e.session, 3, nullptr, 0, nullptr, 0, nullptr, &figures, nullptr) ==
        PHASOR_BAD_INPUT);
}

TEST_CASE("an output does not begin behind another one") {
  // The start token in the middle of a sequence gives another output, which nobody has asked for.
  const Block file = golden_file("tiny-d2l-f32");
  const Engine probe(file, nullptr);
  phasor_limits limits = limits_of(probe.model);
  limits.beams = 2;
  const Engine e(file, nullptr, &limits);
  begin(e);
  const Made first = generate(e, {});
  REQUIRE(first.status == PHASOR_OK);
  const uint32_t length = phasor_sequence_length(e.session, 0);
  uint32_t out[8];
  phasor_generation made = PHASOR_GENERATION_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_generate(e.session, 0, nullptr, 0, out, 8, nullptr, &made, &error) ==
        PHASOR_BAD_INPUT);
  CHECK(std::string(error.text).find("an empty prompt begins an output, and the sequence has ") ==
        0);
  CHECK(phasor_beam_search(e.session, 0, nullptr, 0, nullptr, &found, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_sequence_length(e.session, 0) == length);
  phasor_generate_options again = PHASOR_GENERATE_OPTIONS_INIT;
  again.reuse = 1;
  CHECK(phasor_generate(e.session, 0, nullptr, 0, out, 8, &again, &made, &error) == PHASOR_OK);
  CHECK(out[0] == first.ids[0]);
  REQUIRE(phasor_sequence_truncate(e.session, 0, 0) == PHASOR_OK);
  CHECK(phasor_beam_search(e.session, 0, nullptr, 0, nullptr, &found, &error) == PHASOR_OK);
}

TEST_CASE("rule 3.7: progress aborts a long prompt between layers, and the sequence is as it was") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  begin(e);
  uint32_t layers = 0;
  const phasor_callbacks callbacks{sizeof(phasor_callbacks), nullptr,
                                   [](void* user, uint32_t, uint32_t, uint32_t) {
                                     return ++*static_cast<uint32_t*>(user) == 5 ? 1 : 0;
                                   },
                                   &layers, nullptr};
  phasor_session_callbacks(e.session, &callbacks);
  const Made made = generate(e, random_ids(1, 30, 40));  // six chunks
  CHECK(made.status == PHASOR_STOPPED);
  CHECK(made.ids.empty());
  CHECK(layers == 5);
  CHECK(phasor_sequence_length(e.session, 0) == 0);
}

TEST_CASE("a file's recommended options") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine e(file, nullptr);
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  o.top_k = 3;
  CHECK(phasor_generation_defaults(e.model, &o) == 0);
  CHECK(o.top_k == 3);
  phasor_beam_options b = PHASOR_BEAM_OPTIONS_INIT;
  b.beams = 3;
  CHECK(phasor_beam_defaults(e.model, &b) == 0);
  CHECK(b.beams == 3);
}

TEST_CASE("what a file recommends for beams") {
  weight_files::WeightFile file("tiny-lm-f32");
  file.set("generation.beams", 5);
  file.set("generation.length_penalty", 0.25);
  file.set("generation.early_stopping", 2);
  file.set("generation.renormalize", 1);
  file.set("generation.no_repeat_ngram", 3);
  file.set("generation.min_new", 2);
  file.set("generation.max_new", 9);
  const Block block = file.write();
  const Engine e(block, nullptr);
  phasor_beam_options o = PHASOR_BEAM_OPTIONS_INIT;
  REQUIRE(phasor_beam_defaults(e.model, &o) == 1);
  CHECK(o.beams == 5);
  CHECK(o.length_penalty == 0.25f);
  CHECK(o.early_stopping == PHASOR_EARLY_NEVER);
  CHECK(o.renormalize == 1);
  CHECK(o.no_repeat_ngram == 3);
  CHECK(o.min_new == 2);
  CHECK(o.max_new == 9);
  CHECK(o.suppressed_count == 0);
}
