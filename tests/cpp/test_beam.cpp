// Beam search (src/decode/beam.cpp) beside a plain one of the tests' own: every candidate of every
// beam is put in order, every beam is computed anew from its first token, on a session that knows
// nothing of beams. Ids are equal and scores to the last bit.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases.h"
#include "decode/random.h"
#include "heap_counter.h"
#include "items.h"
#include "kernels/kernels.h"
#include "share.h"
#include "support.h"

namespace {

using Options = phasor_beam_options;

struct Output {
  Ids ids;
  float score = 0, log_probability = 0;
  uint32_t finish = 0;
  bool operator==(const Output& o) const {
    return ids == o.ids && finish == o.finish && std::memcmp(&score, &o.score, 4) == 0 &&
           std::memcmp(&log_probability, &o.log_probability, 4) == 0;
  }
};

phasor_limits limits_of(const phasor_model* model, uint32_t beams, uint32_t target = 40) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, phasor_model_stack(model) == PHASOR_DECODER ? 0 : 20, target,
                            &limits) == PHASOR_OK);
  limits.chunk = 5;
  limits.beams = beams;
  return limits;
}

Ids prompt_of(const phasor_model* model, uint64_t seed, uint32_t count) {
  return phasor_model_stack(model) == PHASOR_DECODER
             ? random_ids(seed, count, target_of(model).vocabulary)
             : Ids();
}

std::vector<Output> outputs_of(const Engine& e) {
  std::vector<Output> out;
  phasor_hypothesis h{};
  h.struct_size = sizeof h;
  for (uint32_t i = 0; phasor_hypothesis_get(e.session, i, &h) == PHASOR_OK; ++i)
    out.push_back({Ids(h.ids, h.ids + h.count), h.score, h.log_probability, h.finish});
  return out;
}

struct Found {
  std::vector<Output> outputs;
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  phasor_status status = PHASOR_OK;
  std::string error;
};

Found search(const Engine& e, const Ids& prompt, const Options& o) {
  Found f;
  phasor_error error = PHASOR_ERROR_INIT;
  f.status = phasor_beam_search(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                                &o, &f.result, &error);
  f.outputs = outputs_of(e);
  f.error = error.text;
  CHECK(f.result.count == f.outputs.size());
  return f;
}

// ------------------------------------------------------------------ the plain search

std::vector<float> log_softmax(const float* x, uint32_t n) {
  std::vector<float> e((n + 15) / 16 * 16, 0.0f), out(n);
  float largest = -std::numeric_limits<float>::infinity(), lanes[16] = {};
  for (uint32_t i = 0; i < n; ++i) largest = std::max(largest, x[i]);
  for (uint32_t i = 0; i < n; ++i) e[i] = x[i] - largest;
  phasor::kernels_scalar.exp(e.data(), n);
  for (uint32_t i = 0; i < e.size(); ++i) lanes[i % 16] += e[i];
  for (uint32_t step = 8; step != 0; step /= 2)
    for (uint32_t i = 0; i < step; ++i) lanes[i] += lanes[i + step];
  phasor::kernels_scalar.log(lanes, 1);
  for (uint32_t i = 0; i < n; ++i) out[i] = (x[i] - largest) - lanes[0];
  return out;
}

float power(uint32_t count, const Options& o) {
  const float tokens = static_cast<float>(count), p = o.length_penalty;
  const float n = o.length_norm == PHASOR_LENGTH_GNMT ? (5 + tokens) / 6 : tokens,
              size = std::fabs(p), whole = std::floor(size);
  float all = 1, rest = n;
  for (float i = 0; i < whole; ++i) all *= n;
  if (size > whole) {
    phasor::kernels_scalar.log(&rest, 1);
    rest *= size - whole;
    phasor::kernels_scalar.exp(&rest, 1);
    all *= rest;
  }
  return p < 0 ? 1 / all : all;
}

struct Plain {
  float score;
  Ids ids;  // the prompt too
};

bool has(const uint32_t* ids, uint32_t count, uint32_t id) {
  return std::find(ids, ids + count, id) != ids + count;
}

// The logits after `ids`, from the first token on.
const float* logits_after(const Engine& e, const Plain& beam, const Options& o,
                          uint32_t vocabulary) {
  REQUIRE(phasor_sequence_truncate(e.session, 0, 0) == PHASOR_OK);
  const uint32_t count = static_cast<uint32_t>(beam.ids.size());
  const phasor_item item = item_of(0, count, PHASOR_LOGITS_LAST, beam.ids.data());
  REQUIRE(phasor_step(e.session, &item, 1, nullptr) == PHASOR_OK);
  float* x = phasor_logits(e.session, 0);
  if (o.logits != nullptr) REQUIRE(o.logits(o.user, x, vocabulary, beam.ids.data(), count) == 0);
  return x;
}

bool repeats(const Ids& ids, uint32_t id, uint32_t n) {
  if (n == 0 || ids.size() < n) return false;
  Ids last(ids.end() - (n - 1), ids.end());
  last.push_back(id);
  return std::search(ids.begin(), ids.end(), last.begin(), last.end()) != ids.end();
}

// Whether `ids` and then `id` end with a sequence of the list.
bool is_bad_word(const Ids& ids, uint32_t id, const Options& o) {
  Ids all = ids;
  all.push_back(id);
  for (uint32_t i = 0; i < o.bad_words_count; i += 1 + o.bad_words[i]) {
    const uint32_t n = o.bad_words[i];
    if (n <= all.size() && std::equal(o.bad_words + i + 1, o.bad_words + i + 1 + n, all.end() - n))
      return true;
  }
  return false;
}

// Whether the source has n tokens in a row: the last of `ids`, then `id`.
bool is_of_source(const Ids& ids, uint32_t id, const Options& o) {
  const uint32_t n = o.source_no_repeat_ngram;
  if (n == 0 || ids.size() < n - 1) return false;
  Ids last(ids.end() - (n - 1), ids.end());
  last.push_back(id);
  const uint32_t* end = o.source + o.source_count;
  return std::search(o.source, end, last.begin(), last.end()) != end;
}

// The text of `ids` as it goes on in a decoder's prompt's; without what is no character yet.
std::string text_of(const Engine& e, const Ids& prompt, const Ids& ids) {
  phasor_text state = PHASOR_TEXT_INIT;
  std::string text;
  const auto add = [&](uint32_t id) {
    char piece[512];
    std::size_t bytes = 0;
    REQUIRE(phasor_id_to_text(e.model, PHASOR_TARGET, &state, id, piece, sizeof piece, &bytes) ==
            PHASOR_OK);
    return std::string(piece, bytes);
  };
  for (const uint32_t id : prompt)
    if (phasor_model_stack(e.model) == PHASOR_DECODER) add(id);
  for (const uint32_t id : ids) text += add(id);
  return text;
}

bool has_stop(const Engine& e, const Ids& ids, std::size_t first, const Options& o) {
  if (o.stop_count == 0) return false;
  const std::string text =
      text_of(e, Ids(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(first)),
              Ids(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end()));
  for (uint32_t i = 0; i < o.stop_count; ++i)
    if (text.find(o.stop[i]) != std::string::npos) return true;
  return false;
}

std::vector<Output> plain_search(const Engine& e, const Ids& prompt, const Options& o) {
  const phasor_side side = target_of(e.model);
  const uint32_t n = o.beams, v = side.vocabulary;
  const auto ends = [&](uint32_t id) {
    return has(side.end, side.end_count, id) || has(o.end, o.end_count, id);
  };
  Ids start = prompt;
  if (start.empty())
    start.push_back(side.decoder_start != PHASOR_NONE ? side.decoder_start : side.start);
  start.insert(start.end(), o.forced, o.forced + o.forced_count);
  const uint32_t before = static_cast<uint32_t>(start.size()),
                 most = std::min(e.limits.target - before + 1,
                                 o.max_new != 0 ? o.max_new - o.forced_count : 1000);
  std::vector<Plain> beams = {{0, start}};
  std::vector<Output> out;
  for (uint32_t made = 1;; ++made) {
    struct Candidate {
      float score;
      uint32_t beam, id;
    };
    std::vector<Candidate> all;
    for (uint32_t b = 0; b < beams.size(); ++b) {
      const float* x = logits_after(e, beams[b], o, v);
      std::vector<float> p = log_softmax(x, v);
      for (uint32_t i = 0; i < v && o.repetition_penalty != 0; ++i)
        if (has(beams[b].ids.data(), static_cast<uint32_t>(beams[b].ids.size()), i))
          p[i] *= o.repetition_penalty;
      const auto may_not = [&](uint32_t i) {
        return has(o.suppressed, o.suppressed_count, i) ||
               (ends(i) && o.forced_count + made <= o.min_new) ||
               repeats(beams[b].ids, i, o.no_repeat_ngram) || is_bad_word(beams[b].ids, i, o) ||
               is_of_source(beams[b].ids, i, o);
      };
      if (o.renormalize != 0) {  // of what is left
        if (o.repetition_penalty == 0) p.assign(x, x + v);
        for (uint32_t i = 0; i < v; ++i)
          if (may_not(i)) p[i] = -std::numeric_limits<float>::infinity();
        if (*std::max_element(p.begin(), p.end()) > -std::numeric_limits<float>::infinity())
          p = log_softmax(p.data(), v);
      }
      const bool last = made == most && o.forced_last != nullptr;
      for (uint32_t i = 0; i < v; ++i) {
        const bool forced =
            made == 1 && prompt.empty() && o.forced_count == 0 && side.forced_first != PHASOR_NONE;
        const bool banned = may_not(i);
        if (last && !forced) {
          if (i == *o.forced_last) all.push_back({beams[b].score, b, i});
        } else if (forced ? i == side.forced_first : !banned && std::isfinite(p[i]))
          all.push_back({beams[b].score + (forced ? 0 : p[i]), b, i});
      }
    }
    // they are in the order of beams and ids
    std::stable_sort(all.begin(), all.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    std::vector<Plain> next;
    for (std::size_t i = 0; i < all.size() && (i < n || next.size() < n); ++i) {
      Ids ids = beams[all[i].beam].ids;
      ids.push_back(all[i].id);
      const bool token = ends(all[i].id),
                 end = token || has_stop(e, ids, before - o.forced_count, o);
      if (i < n && (end || made == most))
        out.push_back({Ids(ids.begin() + (before - o.forced_count), ids.end()),
                       all[i].score / power(made, o), all[i].score,
                       uint32_t{token ? PHASOR_FINISH_END
                                : end ? PHASOR_FINISH_STRING
                                      : PHASOR_FINISH_LENGTH}});
      if (!end && next.size() < n) next.push_back({all[i].score, ids});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const Output& a, const Output& b) { return a.score > b.score; });
    if (out.size() > n) out.resize(n);
    if (made == most || next.empty()) return out;
    const uint32_t count =
        o.early_stopping == PHASOR_EARLY_NEVER && o.length_penalty > 0 ? most : made;
    if (out.size() == n && (o.early_stopping == PHASOR_EARLY_YES ||
                            !(next[0].score / power(count, o) > out.back().score)))
      return out;
    beams = next;
  }
}

// What the search of `e` finds for a source of this seed: exactly what the plain one does.
std::vector<Output> as_plain(const Engine& e, const Engine& plain, uint64_t seed, const Ids& prompt,
                             const Options& o) {
  begin(e, seed);
  begin(plain, seed);
  const Found found = search(e, prompt, o);
  CAPTURE(found.error);
  REQUIRE(found.status == PHASOR_OK);
  const std::vector<Output> want = plain_search(plain, prompt, o);
  REQUIRE(found.outputs == want);
  return want;
}

// The sum of the log-probabilities of `out` after a prompt, token by token.
float log_probability(const Engine& e, const Ids& prompt, const Ids& out) {
  const phasor_side side = target_of(e.model);
  Plain so_far{0, prompt};
  if (prompt.empty())
    so_far.ids.push_back(side.decoder_start != PHASOR_NONE ? side.decoder_start : side.start);
  for (const uint32_t id : out) {
    so_far.score += log_softmax(logits_after(e, so_far, PHASOR_BEAM_OPTIONS_INIT, side.vocabulary),
                                side.vocabulary)[id];
    so_far.ids.push_back(id);
  }
  return so_far.score;
}

// Logits that have nothing to do with the model: beams change places all the time.
int scramble(void* user, float* logits, uint32_t vocabulary, const uint32_t* ids, uint32_t count) {
  const uint64_t seed = fnv1a(*static_cast<uint64_t*>(user), ids, count * sizeof(uint32_t));
  phasor_random r;
  phasor_random_seed(&r, seed);
  // with many ties
  for (uint32_t i = 0; i < vocabulary; ++i)
    logits[i] = static_cast<float>(phasor::random_next(&r) % 64) / 16.0f;
  return 0;
}

uint64_t hash_of(const std::vector<Output>& outputs) {
  uint64_t hash = kFnvStart;
  for (const Output& o : outputs)
    hash =
        fnv1a(fnv1a(hash, o.ids.data(), o.ids.size() * sizeof(uint32_t)), &o.score, sizeof o.score);
  return hash;
}

Options varied(uint64_t seed) {
  constexpr float kPenalties[] = {1, 0, 0.6f, 2, -0.5f};
  Options o = PHASOR_BEAM_OPTIONS_INIT;
  o.beams = 1 + static_cast<uint32_t>(seed % 5);
  o.length_penalty = kPenalties[seed / 5 % 5];
  o.early_stopping = static_cast<uint32_t>(seed / 3 % 3);
  o.max_new = seed % 4 == 0 ? 0 : 3 + static_cast<uint32_t>(seed % 17);
  if (seed % 2 != 0) o.length_norm = PHASOR_LENGTH_GNMT;
  if (seed % 3 == 1) o.repetition_penalty = seed % 2 != 0 ? 1.7f : 0.4f;
  o.renormalize = static_cast<uint32_t>(seed / 2 % 2);
  return o;
}

}  // namespace

TEST_CASE(
    "rule 1.15: beam search is the plain one, for every model, number of beams, penalty and "
    "way to stop") {
  Share share;
  uint32_t ended = 0, outputs = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 5), none = limits_of(probe.model, 0);
    const Engine e(file, nullptr, &limits), plain(file, nullptr, &none);
    const uint32_t v = target_of(e.model).vocabulary;
    for (uint64_t seed = 0; seed < 15; ++seed) {
      if (!share.takes()) continue;
      CAPTURE(seed);
      const Ids prompt = prompt_of(e.model, seed, 1 + static_cast<uint32_t>(seed % 20)),
                forced = random_ids(seed, 3, v), more = random_ids(seed + 5, 8, v);
      Options o = varied(seed);
      uint64_t salt = seed;
      if (seed % 3 == 1) {  // with ends that come: a random model's own hardly ever does
        o.end = more.data();
        o.end_count = 4;
      }
      if (seed % 5 == 4) {
        o.suppressed = more.data() + 4;
        o.suppressed_count = 4;
        o.forced = forced.data();
        o.forced_count = o.max_new == 3 ? 2 : 3;
        o.no_repeat_ngram = 1 + static_cast<uint32_t>(seed % 2);
        o.min_new = 5;
      }
      if (seed % 4 == 3) {
        o.logits = scramble;
        o.user = &salt;
      }
      const Ids words = {1, more[6], 2, more[0], more[1], 1, more[7], 2, more[2], more[3]};
      const Ids source = random_ids(seed + 9, v, v);
      if (seed % 5 < 2) {
        o.bad_words = words.data();
        o.bad_words_count = static_cast<uint32_t>(words.size());
        o.source = source.data();
        o.source_count = v;
        o.source_no_repeat_ngram = 1 + static_cast<uint32_t>(seed % 2);
        o.forced_last = &more[seed % 8];
      }
      const std::vector<Output> want = as_plain(e, plain, seed, prompt, o);
      for (const Output& one : want) ended += one.finish == PHASOR_FINISH_END;
      outputs += static_cast<uint32_t>(want.size());
    }
  }
  MESSAGE("beam search: ", outputs, " outputs, ", ended, " with an end token");
  CHECK(ended * share.of() > 50);
}

TEST_CASE("stop strings end beams as the plain search's text says") {
  uint32_t models = 0, stopped = 0, outputs = 0;
  for (const std::string& name : decoders()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    if (target_of(probe.model).has_tokenizer == 0) continue;
    CAPTURE(name);
    ++models;
    const phasor_limits limits = limits_of(probe.model, 4), none = limits_of(probe.model, 0);
    const Engine e(file, nullptr, &limits), plain(file, nullptr, &none);
    for (uint64_t seed = 0; seed < 12; ++seed) {
      CAPTURE(seed);
      const Ids prompt = prompt_of(e.model, seed, 4);
      Options o = PHASOR_BEAM_OPTIONS_INIT;
      o.beams = 1 + static_cast<uint32_t>(seed % 4);
      o.max_new = 12;
      o.early_stopping = static_cast<uint32_t>(seed % 3);
      begin(e, seed);
      // What an output has in its middle: across tokens, often.
      const Found free = search(e, prompt, o);
      REQUIRE(!free.outputs.empty());
      std::string text = text_of(e, prompt, free.outputs[0].ids);
      if (text.size() < 6) continue;
      const std::string first = text.substr(text.size() / 2, 3), second = text.substr(2, 1);
      const char* const stops[] = {first.c_str(), second.c_str()};
      o.stop = stops;
      o.stop_count = seed % 4 == 0 ? 2 : 1;
      const std::vector<Output> want = as_plain(e, plain, seed, prompt, o);
      for (const Output& one : want) stopped += one.finish == PHASOR_FINISH_STRING;
      outputs += static_cast<uint32_t>(want.size());
    }
  }
  MESSAGE("stop strings: ", outputs, " outputs of ", models, " models, ", stopped, " with one");
  CHECK(models > 2);
  CHECK(stopped > 20);
}

TEST_CASE(
    "promise 2: the same outputs and bits of scores at every level, number of threads, chunking "
    "and room; beside other sequences") {
  constexpr struct {
    const char* name;
    uint64_t hash;
  } kOnEveryMachine[] = {{"tiny-lm-q8", 2231085898297875097u},
                         {"tiny-d2l-f32", 11552775579672322813u},
                         {"tiny-post-sin-q4", 11160452348268447451u},
                         {"tiny-t5-q8", 7325934221053262059u}};
  Share share;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = limits_of(probe.model, 4);
    const Ids prompt = prompt_of(probe.model, 3, 6);
    Options o = PHASOR_BEAM_OPTIONS_INIT;
    o.length_penalty = 0.7f;
    o.early_stopping = PHASOR_EARLY_NEVER;
    const auto run = [&](const char* isa, uint32_t threads) {
      const Engine e(file, isa, &limits, threads);
      begin(e, 3);
      return search(e, prompt, o).outputs;
    };
    const std::vector<Output> want = run(nullptr, 1);
    REQUIRE(want.size() == 4);
    for (const auto& known : kOnEveryMachine)
      if (name == known.name) CHECK(hash_of(want) == known.hash);
    for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level)
      if (share.takes()) CHECK(run(phasor_isa_name(level), 1) == want);
    for (const uint32_t chunk : {1u, 3u, 64u}) {
      limits.chunk = chunk;
      if (share.takes()) CHECK(run(nullptr, 1) == want);
    }
    for (const uint32_t threads : {2u, 3u, 7u}) {
      limits.threads = threads;
      if (share.takes()) CHECK(run(nullptr, threads) == want);
    }
    if (!share.takes()) continue;
    o.beams = 4;
    limits.beams = 9;
    limits.sequences = 3;
    const Engine e(file, nullptr, &limits, 7);
    begin(e, 3);
    REQUIRE(phasor_sequence_fork(e.session, 2, 0) == PHASOR_OK);
    CHECK(search(e, prompt, o).outputs == want);
    REQUIRE(phasor_sequence_fork(e.session, 0, 2) == PHASOR_OK);
    CHECK(search(e, prompt, o).outputs == want);
  }
}

TEST_CASE(
    "promise 1: the arena is exact with beams, nothing is allocated while they change places, and "
    "the sequence is left as the prompt left it") {
  Share share;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    for (const uint32_t target : {1u, 16u, 17u, 40u}) {
      if (!share.takes()) continue;
      const phasor_limits limits = limits_of(probe.model, 6, target),
                          none = limits_of(probe.model, 0, target);
      std::size_t need = 0;
      REQUIRE(phasor_session_size(&need, probe.model, &limits, nullptr) == PHASOR_OK);
      Block arena(need);  // exactly: a sanitizer sees the first byte too many
      phasor_session* session = nullptr;
      CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                                nullptr) == PHASOR_NO_MEMORY);
      REQUIRE(phasor_session_open(&session, arena.data(), need, probe.model, &limits, nullptr,
                                  nullptr) == PHASOR_OK);
      const Engine e(file, nullptr, &limits), plain(file, nullptr, &none);
      const Ids prompt = prompt_of(e.model, 1, 1);
      uint64_t salt = 4;
      Options o = PHASOR_BEAM_OPTIONS_INIT;
      o.early_stopping = PHASOR_EARLY_NEVER;
      o.logits = scramble;
      o.user = &salt;
      begin(e, 1);
      begin(plain, 1);
      phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
      HeapCounter heap;
      const phasor_status status = phasor_beam_search(
          e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()), &o, &result, nullptr);
      const uint64_t allocations = heap.allocations();
      CHECK(status == PHASOR_OK);
      CHECK(result.steps <= target);
      CHECK(result.count == 6);
      if (HeapCounter::active()) CHECK(allocations == 0);
      const Ids first = prompt.empty() ? Ids{target_of(e.model).decoder_start} : prompt;
      const phasor_item item = item_of(0, 1, PHASOR_LOGITS_NONE, first.data());
      REQUIRE(phasor_step(plain.session, &item, 1, nullptr) == PHASOR_OK);
      CHECK(state_of(e) == state_of(plain));
      // Every page is free again: the longest sequences fit, all at the same time.
      for (uint32_t again = 0; again < 3; ++again) {
        begin(e, 1);
        CHECK(phasor_beam_search(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                                 &o, &result, nullptr) == PHASOR_OK);
      }
    }
  }
}

TEST_CASE("one beam is greedy decoding; beams find outputs that are at least as probable") {
  Share share;
  uint32_t equal = 0, cases = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 30);
    const Engine e(file, nullptr, &limits), plain(file, nullptr, &limits);
    for (uint64_t seed = 0; seed < 10; ++seed) {
      if (!share.takes()) continue;
      const Ids prompt = prompt_of(e.model, seed, 5);
      Ids out(20);
      phasor_generation made = PHASOR_GENERATION_INIT;
      phasor_generate_options greedy = PHASOR_GENERATE_OPTIONS_INIT;
      greedy.max_new = 20;
      begin(plain, seed);
      begin(e, seed);
      REQUIRE(phasor_generate(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                              out.data(), 20, &greedy, &made, nullptr) == PHASOR_OK);
      out.resize(made.count);
      Options o = PHASOR_BEAM_OPTIONS_INIT;
      o.beams = 1;
      o.max_new = 20;
      o.length_penalty = 0;
      begin(e, seed);
      const Found one = search(e, prompt, o);
      REQUIRE(one.outputs.size() == 1);
      // Two tokens whose sums round to the same score come in the order of their ids.
      const Ids& best = one.outputs[0].ids;
      const auto differ = std::mismatch(out.begin(), out.end(), best.begin(), best.end());
      if (best != out)
        CHECK(log_probability(plain, prompt, Ids(out.begin(), differ.first + 1)) ==
              log_probability(plain, prompt, Ids(best.begin(), differ.second + 1)));
      else
        CHECK(one.result.steps == made.steps);
      equal += best == out;
      ++cases;
      o.beams = 30;
      begin(e, seed);
      CHECK(search(e, prompt, o).outputs[0].log_probability >= one.outputs[0].log_probability);
    }
  }
  MESSAGE("one beam: ", equal, " of ", cases,
          " outputs are the greedy ones, the others part at a tie");
  CHECK(cases - equal <= cases * share.of() / 100);
}

TEST_CASE(
    "a search goes on from an output, stops when it is told to, and says what is wrong with its "
    "options") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 4);
  const Engine e(file, nullptr, &limits);
  const uint32_t v = target_of(e.model).vocabulary;
  const Ids prompt = {5, 6, 7};
  Options o = PHASOR_BEAM_OPTIONS_INIT;
  o.max_new = 6;
  begin(e, 0);
  const Found first = search(e, prompt, o);
  Ids whole = prompt;
  whole.insert(whole.end(), first.outputs[0].ids.begin(), first.outputs[0].ids.end());
  phasor_hypothesis h{};
  h.struct_size = sizeof h;
  REQUIRE(phasor_hypothesis_get(e.session, 0, &h) == PHASOR_OK);
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  // straight from the arena
  REQUIRE(phasor_beam_search(e.session, 0, h.ids, h.count, &o, &result, nullptr) == PHASOR_OK);
  const std::vector<Output> second = outputs_of(e);
  begin(e, 0);
  CHECK(search(e, whole, o).outputs == second);
  CHECK(phasor_hypothesis_get(e.session, 4, &h) == PHASOR_BAD_INPUT);

  uint32_t calls = 0;
  Options stop = o;
  stop.user = &calls;
  stop.logits = [](void* user, float*, uint32_t, const uint32_t*, uint32_t) {
    return ++*static_cast<uint32_t*>(user) == 1 + 4 + 4 ? 1 : 0;
  };
  begin(e, 0);
  const Found stopped = search(e, prompt, stop);
  CHECK(stopped.status == PHASOR_OK);
  REQUIRE(stopped.outputs.size() == 4);
  for (const Output& one : stopped.outputs) {
    CHECK(one.finish == PHASOR_FINISH_STOPPED);
    CHECK(one.ids.size() == 2);
  }
  Options two = o;
  two.max_new = 2;
  begin(e, 0);
  CHECK(search(e, prompt, two).outputs[0].ids == stopped.outputs[0].ids);

  Options nan = o;
  nan.logits = [](void*, float* logits, uint32_t, const uint32_t*, uint32_t) {
    return (logits[7] = std::numeric_limits<float>::quiet_NaN()), 0;
  };
  begin(e, 0);
  CHECK(search(e, prompt, nan).status == PHASOR_NOT_FINITE);
  CHECK(phasor_sequence_status(e.session, 0) == PHASOR_NOT_FINITE);
  Ids all(v);
  for (uint32_t i = 0; i < v; ++i) all[i] = i;
  Options nothing = o;
  nothing.suppressed = all.data();
  nothing.suppressed_count = v;
  begin(e, 0);
  const Found none = search(e, prompt, nothing);
  CHECK(none.status == PHASOR_BAD_INPUT);
  CHECK(none.error.find("no token may be chosen") == 0);

  const auto refused = [&](void (*change)(Options*), const char* word) {
    Options bad = o;
    change(&bad);
    begin(e, 0);
    const Found f = search(e, prompt, bad);
    CHECK(f.status == PHASOR_BAD_INPUT);
    CAPTURE(f.error);
    CHECK(f.error.find(word) == 0);
  };
  static const uint32_t kWrong[] = {1, 1000000};
  refused([](Options* b) { b->struct_size += 8; }, "phasor_beam_options.struct_size");
  refused([](Options* b) { b->beams = 5; }, "options.beams: 5, limits.beams holds 4");
  refused([](Options* b) { b->length_penalty = 4.5f; }, "options.length_penalty");
  refused([](Options* b) { b->length_penalty = std::numeric_limits<float>::quiet_NaN(); },
          "options.length_penalty");
  refused([](Options* b) { b->early_stopping = 3; }, "options.early_stopping");
  refused([](Options* b) { b->renormalize = 2; }, "options.renormalize: 2, expected 0 to 1");
  refused([](Options* b) { b->forced = kWrong, b->forced_count = 2; },
          "options.forced: token id 1000000");
  refused([](Options* b) { b->suppressed = kWrong, b->suppressed_count = 2; },
          "options.suppressed");
  static const uint32_t kLong[] = {1, 5, 3, 6, 7}, kNone[] = {0};
  refused([](Options* b) { b->repetition_penalty = -1; }, "options.repetition_penalty: -1");
  refused([](Options* b) { b->length_norm = 2; }, "options.length_norm: 2, expected 0 to 1");
  refused([](Options* b) { b->forced_last = kWrong + 1; }, "options.forced_last: token id 1000000");
  refused([](Options* b) { b->bad_words = kWrong, b->bad_words_count = 2; },
          "options.bad_words: token id 1000000");
  refused([](Options* b) { b->bad_words = kLong, b->bad_words_count = 5; },
          "options.bad_words: a sequence of 3 tokens at place 2, expected 1 to 2");
  refused([](Options* b) { b->bad_words = kNone, b->bad_words_count = 1; },
          "options.bad_words: a sequence of 0 tokens at place 0");
  static const char* const kEmpty[] = {""};
  refused([](Options* b) { b->stop = kEmpty, b->stop_count = 1; }, "options");
  refused([](Options* b) { b->end = kWrong, b->end_count = 2; }, "options.end");
  refused([](Options* b) { b->forced = kWrong, b->forced_count = 1, b->max_new = 1; },
          "options.forced: 1 tokens");
  phasor_limits many = limits;
  many.beams = 257;
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_session_size(&need, e.model, &many, &error) == PHASOR_BAD_LIMITS);
  CHECK(std::string(error.text) == "limits.beams: 257, expected 0 to 256");
}

TEST_CASE("a search asks for limits of beams") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 0);
  const Engine e(file, nullptr, &limits);
  CHECK(search(e, {5}, PHASOR_BEAM_OPTIONS_INIT).error == "options.beams: 0, limits.beams holds 0");
}

TEST_CASE(
    "diverse groups: without a penalty all are the same, with one they part; nothing else moves") {
  uint32_t parted = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = limits_of(probe.model, 6);
    const Engine e(file, nullptr, &limits);
    const Ids prompt = prompt_of(e.model, 3, 4);
    Options o = PHASOR_BEAM_OPTIONS_INIT;
    o.max_new = 8;
    o.groups = 3;
    begin(e);
    const Found same = search(e, prompt, o);
    REQUIRE(same.status == PHASOR_OK);
    REQUIRE(same.outputs.size() % 3 == 0);
    for (std::size_t i = 0; i < same.outputs.size(); i += 3) {
      CHECK(same.outputs[i] == same.outputs[i + 1]);
      CHECK(same.outputs[i] == same.outputs[i + 2]);
    }
    o.diversity_penalty = 100;  // no token that an earlier group has just chosen
    begin(e);
    phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
    HeapCounter heap;
    const phasor_status again = phasor_beam_search(
        e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()), &o, &result, nullptr);
    const uint64_t allocations = heap.allocations();
    CHECK(again == PHASOR_OK);
    CHECK(allocations == 0);
    begin(e);
    const Found parts = search(e, prompt, o);
    REQUIRE(parts.status == PHASOR_OK);
    std::vector<uint32_t> first;
    for (const Output& one : parts.outputs)
      if (!has(first.data(), static_cast<uint32_t>(first.size()), one.ids[0]))
        first.push_back(one.ids[0]);
    parted += first.size() >= 3 ? 1 : 0;
    // and another session, with threads and another chunk, says the same to the bit
    limits.chunk = 64;
    const Engine other(file, nullptr, &limits, 3);
    begin(other);
    CHECK(search(other, prompt, o).outputs == parts.outputs);
    // one group is what no group is
    o.diversity_penalty = 0;
    o.groups = 1;
    begin(e);
    const Found one = search(e, prompt, o);
    o.groups = 0;
    begin(e);
    CHECK(search(e, prompt, o).outputs == one.outputs);
  }
  CHECK(parted > 20);
}

TEST_CASE(
    "renormalized: what is left of the probabilities is the whole; the same bits at every level "
    "and number of threads, in groups too") {
  constexpr struct {
    const char* name;
    uint64_t hashes[2];  // of one group, of three
  } kOnEveryMachine[] = {{"tiny-lm-q8", {11617201177273327131u, 7650834083624747359u}},
                         {"tiny-d2l-f32", {1068917323200651488u, 6997986334351924670u}}};
  for (const auto& known : kOnEveryMachine) {
    CAPTURE(known.name);
    const Block file = golden_file(known.name);
    const Engine probe(file, nullptr);
    phasor_limits limits = limits_of(probe.model, 6);
    const uint32_t v = target_of(probe.model).vocabulary;
    const Ids prompt = prompt_of(probe.model, 3, 4);
    Options o = PHASOR_BEAM_OPTIONS_INIT;
    o.max_new = 8;
    o.no_repeat_ngram = 1;
    o.length_penalty = 0;
    for (const bool groups : {false, true}) {
      CAPTURE(groups);
      o.groups = groups ? 3 : 1;
      o.diversity_penalty = groups ? 0.7f : 0;
      o.repetition_penalty = groups ? 1.3f : 0;
      const auto run = [&](const char* isa, uint32_t threads) {
        const Engine e(file, isa, &limits, threads);
        begin(e, 3);
        return search(e, prompt, o).outputs;
      };
      o.renormalize = 0;
      const std::vector<Output> plain = run(nullptr, 1);
      o.renormalize = 1;
      const std::vector<Output> want = run(nullptr, 1);
      REQUIRE(want.size() == 6);
      CHECK(plain != want);
      CHECK(hash_of(want) == known.hashes[groups ? 1 : 0]);
      for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level)
        CHECK(run(phasor_isa_name(level), 1) == want);
      for (const uint32_t threads : {2u, 7u}) {
        limits.threads = threads;
        CHECK(run(nullptr, threads) == want);
      }
      limits.threads = 1;
    }
    // Where all but one token may not come, that one is certain, also for later groups.
    Ids all;
    for (uint32_t i = 0; i < v; ++i)
      if (i != 7) all.push_back(i);
    o = PHASOR_BEAM_OPTIONS_INIT;
    o.suppressed = all.data();
    o.suppressed_count = v - 1;
    o.max_new = 4;
    o.renormalize = 1;
    o.groups = 3;
    o.diversity_penalty = 1000;
    const Engine e(file, nullptr, &limits);
    begin(e, 3);
    const Found certain = search(e, prompt, o);
    CAPTURE(certain.error);
    REQUIRE(certain.outputs.size() == 3);
    for (const Output& one : certain.outputs) {
      CHECK(one.ids == Ids{7, 7, 7, 7});
      CHECK(one.score == 0);
    }
  }
}

TEST_CASE("diverse groups: options that contradict each other") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model, 6);
  const Engine e(file, nullptr, &limits);
  const auto line = [&](uint32_t groups, float penalty) {
    Options o = PHASOR_BEAM_OPTIONS_INIT;
    o.groups = groups;
    o.diversity_penalty = penalty;
    const Found f = search(e, {5, 6}, o);
    CHECK(f.status == PHASOR_BAD_INPUT);
    return f.error;
  };
  CHECK(line(4, 1) == "options.groups: 4, expected a divisor of the beams, 6");
  CHECK(line(7, 1) == "options.groups: 7, expected a divisor of the beams, 6");
  CHECK(line(1, 1) == "options.diversity_penalty: needs options.groups of 2 or more");
  CHECK(line(2, -1).find("options.diversity_penalty: -1") == 0);
}

namespace {

// What each position of the source gets of the last layer's heads, in double.
struct Coverage {
  uint32_t last = 0;  // layer
  std::vector<double> sums;
  static void see(void* self, const phasor_view* v) {
    Coverage* c = static_cast<Coverage*>(self);
    if (v->what != PHASOR_SEE_CROSS_ATTENTION || v->layer != c->last) return;
    c->sums.resize(v->cols);
    for (uint32_t row = 0; row < v->rows; ++row)
      for (uint32_t k = 0; k < v->cols; ++k)
        for (uint32_t head = 0; head < v->heads; ++head)
          c->sums[k] +=
              static_cast<double>(v->data[head * v->head_stride + row * v->stride + k]) / v->heads;
  }
  double penalty() const {
    double all = 0;
    for (const double sum : sums) all += sum > 0 ? std::log(std::min(sum, 1.0)) : 0.0;
    return all;
  }
};

// Of an output's tokens, in a pass of their own.
double coverage_of(const Engine& e, const Output& one) {
  begin(e);
  const phasor_side side = target_of(e.model);
  Coverage coverage;
  coverage.last = side.layers - 1;
  phasor_callbacks callbacks{};
  callbacks.struct_size = sizeof callbacks;
  callbacks.see = &Coverage::see;
  callbacks.user = &coverage;
  REQUIRE(phasor_session_callbacks(e.session, &callbacks) == PHASOR_OK);
  Ids read{side.decoder_start != PHASOR_NONE ? side.decoder_start : side.start};
  read.insert(read.end(), one.ids.begin(), one.ids.end() - 1);
  const phasor_item item =
      item_of(0, static_cast<uint32_t>(read.size()), PHASOR_LOGITS_NONE, read.data());
  REQUIRE(phasor_step(e.session, &item, 1, nullptr) == PHASOR_OK);
  REQUIRE(phasor_session_callbacks(e.session, nullptr) == PHASOR_OK);
  return coverage.penalty();
}

}  // namespace

TEST_CASE("coverage: scores are those of attention in a pass of its own; off, nothing moves") {
  uint32_t models = 0, outputs = 0, others = 0;
  double worst = 0;
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    if (phasor_model_stack(probe.model) == PHASOR_DECODER) continue;
    ++models;
    const phasor_limits none = limits_of(probe.model, 4);
    phasor_limits limits = none, look = limits_of(probe.model, 0);
    limits.outputs = PHASOR_WANT_COVERAGE;
    look.outputs = PHASOR_WANT_ATTENTION;
    const Engine e(file, nullptr, &limits), plain(file, nullptr, &none), see(file, nullptr, &look);
    const Ids more = random_ids(5, 8, target_of(e.model).vocabulary);
    Options o = PHASOR_BEAM_OPTIONS_INIT;
    o.max_new = 11;
    o.end = more.data();
    o.end_count = 4;
    o.length_norm = models % 2;
    o.forced = more.data() + 6;
    o.forced_count = models % 3;
    begin(plain);
    const Found off = search(plain, {}, o);
    begin(e);
    CHECK(search(e, {}, o).outputs == off.outputs);
    o.coverage_penalty = 0.7f;
    begin(e);
    phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
    HeapCounter heap;
    const phasor_status again = phasor_beam_search(e.session, 0, nullptr, 0, &o, &result, nullptr);
    const uint64_t allocations = heap.allocations();
    CHECK(again == PHASOR_OK);
    CHECK(allocations == 0);
    begin(e);
    const Found on = search(e, {}, o);
    REQUIRE(on.status == PHASOR_OK);
    REQUIRE(!on.outputs.empty());
    float before = std::numeric_limits<float>::infinity();
    for (const Output& one : on.outputs) {
      CHECK(one.score <= before);
      before = one.score;
      const uint32_t searched = static_cast<uint32_t>(one.ids.size()) - o.forced_count;
      const double want = static_cast<double>(one.log_probability) / power(searched, o) +
                          0.7 * coverage_of(see, one);
      worst = std::max(worst, std::fabs(one.score - want) / std::max(1.0, std::fabs(want)));
    }
    outputs += static_cast<uint32_t>(on.outputs.size());
    others += on.outputs[0].ids != off.outputs[0].ids ? 1 : 0;
    limits.chunk = 64;
    const Engine other(file, nullptr, &limits, 3);
    begin(other);
    CHECK(search(other, {}, o).outputs == on.outputs);
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_beam_search(plain.session, 0, nullptr, 0, &o, &result, &error) ==
          PHASOR_BAD_INPUT);
    CHECK(std::string(error.text) ==
          "options.coverage_penalty: needs PHASOR_WANT_COVERAGE in limits.outputs");
    o.coverage_penalty = -1;
    CHECK(phasor_beam_search(e.session, 0, nullptr, 0, &o, &result, &error) == PHASOR_BAD_INPUT);
    CHECK(std::string(error.text).find("options.coverage_penalty: -1") == 0);
    std::size_t need = 0;
    REQUIRE(phasor_session_size(&need, e.model, &limits, nullptr) == PHASOR_OK);
    Block arena(need);
    phasor_session* session = nullptr;
    CHECK(phasor_session_open(&session, arena.data(), need - 1, e.model, &limits, nullptr,
                              nullptr) == PHASOR_NO_MEMORY);
    limits.beams = 0;
    CHECK(phasor_session_size(&need, e.model, &limits, nullptr) == PHASOR_BAD_LIMITS);
  }
  MESSAGE("coverage: ", models, " models, ", outputs, " outputs, largest difference of a score ",
          worst, ", ", others, " best ones are others than without");
  CHECK(worst < 1e-5);
  CHECK(models > 15);
  CHECK(others > 2);
}
