// Layers with a window keep no more than they will see: a ring of round_up(window + chunk − 1, 16)
// positions for each sequence (rule 1.7).
#include <algorithm>

#include "cases.h"
#include "items.h"
#include "support.h"

namespace {

constexpr const char* kPart = "keys and values in windows";
constexpr uint32_t kTarget = 41;

struct Windowed {
  std::string name;
  uint32_t window;
};

// The golden models with windows (tests/golden/make_models.py).
std::vector<Windowed> windowed() {
  std::vector<Windowed> found;
  for (const std::string& name : golden_models()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const uint32_t window = name.find("tiny-olmo2") == 0          ? 7
                            : name.find("tiny-three-way-lm") == 0 ? 6
                            : name.find("tiny-lfm2") == 0         ? 5
                            : name.find("tiny-merged") == 0       ? 7
                            : name.find("tiny-gemma4") == 0       ? 7
                                                                  : 0;
    CHECK((part_bytes(probe.model, probe.limits, kPart) != 0) == (window != 0));
    if (window != 0) found.push_back({name, window});
  }
  REQUIRE(found.size() >= 5);
  return found;
}

// Where there is an encoder, the tokens of each sequence's source.
uint32_t source_of(const phasor_model* model) {
  return limits_for_vectors(model).source != 0 ? 19 : 0;
}

phasor_limits limits_of(const phasor_model* model, uint32_t chunk, uint32_t sequences = 1) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, source_of(model), kTarget, &limits) == PHASOR_OK);
  limits.chunk = chunk;
  limits.sequences = sequences;
  limits.logit_rows = kTarget;
  return limits;
}

uint32_t round_up16(uint32_t n) { return (n + 15) / 16 * 16; }
uint32_t ring_positions(uint32_t window, uint32_t chunk) {
  return std::min(round_up16(kTarget), round_up16(window + chunk - 1));
}

Ids ids_of(uint32_t count, uint32_t salt = 0) {
  Ids ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = 3 + (i * 7 + i * i * 3 + salt * 11) % 40;
  return ids;
}

// The sequence's source, where the model has sources.
void encode(const Engine& e, uint32_t sequence) {
  const uint32_t source = source_of(e.model);
  if (source == 0) return;
  const Ids ids = ids_of(source, 5);
  const phasor_item all = item_of(sequence, source, PHASOR_LOGITS_NONE, ids.data());
  REQUIRE(phasor_encode(e.session, &all, 1, nullptr) == PHASOR_OK);
}

// The first tokens of a sequence come behind its source.
phasor_status step(const Engine& e, uint32_t sequence, const Ids& ids) {
  if (phasor_sequence_length(e.session, sequence) == 0) encode(e, sequence);
  const phasor_item item =
      item_of(sequence, static_cast<uint32_t>(ids.size()), PHASOR_LOGITS_ALL, ids.data());
  return phasor_step(e.session, &item, 1, nullptr);
}

// The hash of the logits of all tokens of one step.
uint64_t step_hash(const Engine& e, uint32_t sequence, const Ids& ids) {
  REQUIRE(step(e, sequence, ids) == PHASOR_OK);
  uint64_t hash = kFnvStart;
  for (uint32_t r = 0; r < ids.size(); ++r)
    hash = fnv1a(hash, phasor_logits(e.session, r), vocabulary_of(e.model) * sizeof(float));
  return hash;
}

Ids joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE(
    "rule 1.7: the ring has round_up(window + chunk - 1, 16) positions and gives the bits of "
    "the whole context") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    const phasor_limits whole = limits_of(probe.model, kTarget);
    REQUIRE(!lets_go(probe.model, whole));
    const uint64_t position = part_bytes(probe.model, whole, kPart) / round_up16(kTarget);
    const Ids ids = ids_of(kTarget);
    for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
      const uint64_t expected = step_hash(Engine(file, phasor_isa_name(level), &whole), 0, ids);
      for (const uint32_t chunk : {1u, 4u, 10u, 11u, 20u}) {
        CAPTURE(chunk);
        const phasor_limits limits = limits_of(probe.model, chunk);
        CHECK(part_bytes(probe.model, limits, kPart) ==
              position * ring_positions(model.window, chunk));
        const Engine e(file, phasor_isa_name(level), &limits);
        CHECK(step_hash(e, 0, ids) == expected);
        REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
        CHECK(step_hash(e, 0, ids) == expected);  // over what the first time left in the pages
      }
    }
  }
}

TEST_CASE(
    "rule 1.7: a sequence goes back as far as the ring holds what the next position sees, and "
    "no further") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    for (const uint32_t chunk : {1u, 5u, 12u}) {
      const phasor_limits limits = limits_of(probe.model, chunk, 2),
                          whole = limits_of(probe.model, kTarget);
      const Engine e(file, nullptr, &limits), fresh(file, nullptr, &whole);
      const Ids ids = ids_of(37), more = ids_of(3, 1);
      REQUIRE(step(e, 0, ids) == PHASOR_OK);
      uint32_t reached = 0;
      for (uint32_t length = 0; length <= ids.size(); ++length) {
        CAPTURE(length);
        REQUIRE(phasor_sequence_fork(e.session, 1, 0) == PHASOR_OK);
        // the first position that the ring has
        const uint32_t kept =
            static_cast<uint32_t>(ids.size()) - ring_positions(model.window, chunk);
        const bool reaches = length == 0 || length + 1 >= kept + model.window;
        CHECK(phasor_sequence_truncate(e.session, 1, length) ==
              (reaches ? PHASOR_OK : PHASOR_BAD_INPUT));
        CHECK(phasor_sequence_length(e.session, 1) == (reaches ? length : ids.size()));
        if (!reaches) continue;
        ++reached;
        const Ids before(ids.begin(), ids.begin() + length);
        REQUIRE(phasor_sequence_clear(fresh.session, 0) == PHASOR_OK);
        encode(fresh, 0);
        if (length != 0) REQUIRE(step(fresh, 0, before) == PHASOR_OK);
        CHECK(state_of(e, 1) == state_of(fresh, 0));
        // and the sequence that it came from still has its pages
        CHECK(step_hash(e, 1, more) == step_hash(fresh, 0, more));
        CHECK(state_of(e, 1) == state_of(fresh, 0));
      }
      CHECK(reached == ring_positions(model.window, chunk) - model.window + 3);
      REQUIRE(phasor_sequence_clear(fresh.session, 0) == PHASOR_OK);
      REQUIRE(step(fresh, 0, ids) == PHASOR_OK);
      CHECK(state_of(e, 0) == state_of(fresh, 0));
      CHECK(step_hash(e, 0, more) == step_hash(fresh, 0, more));
    }
  }
}

TEST_CASE("rule 1.7 and 3.8: a state is the same bytes whatever the ring, and goes on in another") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    for (const uint32_t type : {PHASOR_CACHE_F32, PHASOR_CACHE_F16, PHASOR_CACHE_Q8}) {
      phasor_limits one = limits_of(probe.model, 1), five = limits_of(probe.model, 5),
                    whole = limits_of(probe.model, kTarget);
      for (phasor_limits* l : {&one, &five, &whole}) l->cache_type = static_cast<uint32_t>(type);
      std::size_t size = 0;
      // scores that need keys in f32
      if (phasor_session_size(&size, probe.model, &one, nullptr) != PHASOR_OK) continue;
      const Engine a(file, nullptr, &one), b(file, nullptr, &five), c(file, nullptr, &whole);
      for (uint32_t length = 1; length <= 36; ++length) {
        CAPTURE(length);
        const Ids ids = ids_of(length), more = ids_of(3, 2);
        std::vector<unsigned char> state;
        uint64_t expected = 0;
        for (const Engine* from : {&a, &b, &c}) {
          REQUIRE(phasor_sequence_clear(from->session, 0) == PHASOR_OK);
          REQUIRE(step(*from, 0, ids) == PHASOR_OK);
          const std::vector<unsigned char> now = state_of(*from, 0);
          if (!state.empty()) CHECK(now == state);
          state = now;
          expected = step_hash(*from, 0, more);
        }
        for (const Engine* to : {&a, &b, &c}) {
          REQUIRE(phasor_state_restore(to->session, 0, state.data(), state.size(), nullptr) ==
                  PHASOR_OK);
          CHECK(state_of(*to, 0) == state);
          CHECK(step_hash(*to, 0, more) == expected);
        }
      }
    }
  }
}

namespace {

struct Stop {
  uint32_t left;
};
int stop_after(void* user, uint32_t, uint32_t, uint32_t) {
  Stop* stop = static_cast<Stop*>(user);
  return stop->left-- == 0 ? 1 : 0;
}

}  // namespace

TEST_CASE(
    "rule 1.7: a step that is stopped leaves the sequence as it was, or empty where the ring "
    "has gone on") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 5), whole = limits_of(probe.model, kTarget);
    const Engine e(file, nullptr, &limits), fresh(file, nullptr, &whole);
    const Ids ids = ids_of(12), more = ids_of(27, 3);
    uint32_t as_it_was = 0, empty = 0;
    for (uint32_t after = 0;; ++after) {
      CAPTURE(after);
      REQUIRE(phasor_session_callbacks(e.session, nullptr) == PHASOR_OK);
      REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
      REQUIRE(step(e, 0, ids) == PHASOR_OK);
      Stop stop{after};
      phasor_callbacks callbacks{};
      callbacks.struct_size = sizeof callbacks;
      callbacks.progress = stop_after;
      callbacks.user = &stop;
      REQUIRE(phasor_session_callbacks(e.session, &callbacks) == PHASOR_OK);
      const phasor_status status = step(e, 0, more);
      REQUIRE(phasor_session_callbacks(e.session, nullptr) == PHASOR_OK);
      if (status == PHASOR_OK) break;
      REQUIRE(status == PHASOR_STOPPED);
      const uint32_t length = phasor_sequence_length(e.session, 0);
      CHECK((length == ids.size() || length == 0));
      ++(length == 0 ? empty : as_it_was);
      const Ids before(ids.begin(), ids.begin() + length);
      REQUIRE(phasor_sequence_clear(fresh.session, 0) == PHASOR_OK);
      if (length != 0) REQUIRE(step(fresh, 0, before) == PHASOR_OK);
      CHECK(step_hash(e, 0, more) == step_hash(fresh, 0, more));
    }
    CHECK(as_it_was > 0);
    CHECK(empty > 0);
  }
}

TEST_CASE("rule 1.7: sequences that were forked go on alone, and every page is free again") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 3, 4),
                        whole = limits_of(probe.model, kTarget);
    const Engine e(file, nullptr, &limits), fresh(file, nullptr, &whole);
    for (uint32_t round = 0; round < 3; ++round) {
      const Ids common = ids_of(21, round);
      for (uint32_t q = 0; q < 4; ++q) REQUIRE(phasor_sequence_clear(e.session, q) == PHASOR_OK);
      REQUIRE(step(e, 0, common) == PHASOR_OK);
      for (uint32_t q = 1; q < 4; ++q)
        REQUIRE(phasor_sequence_fork(e.session, q, q - 1) == PHASOR_OK);
      for (uint32_t q = 0; q < 4; ++q) {
        const Ids own = ids_of(kTarget - 21, 7 + q);
        REQUIRE(phasor_sequence_clear(fresh.session, 0) == PHASOR_OK);
        REQUIRE(step(fresh, 0, common) == PHASOR_OK);
        CHECK(step_hash(e, q, own) == step_hash(fresh, 0, own));
      }
      for (uint32_t q = 0; q < 4; ++q)
        CHECK(std::equal(common.begin(), common.end(), phasor_sequence_ids(e.session, q)));
    }
  }
}

TEST_CASE(
    "rule 1.7: a context that slides, and a prompt that goes on, over a ring give what a fresh "
    "sequence gives") {
  for (const Windowed& model : windowed()) {
    CAPTURE(model.name);
    const Block file = golden_file(model.name);
    const Engine probe(file, nullptr);
    if (source_of(probe.model) != 0) continue;  // an output does not slide
    const phasor_limits limits = limits_of(probe.model, 4), whole = limits_of(probe.model, kTarget);
    const Engine e(file, nullptr, &limits), fresh(file, nullptr, &whole);
    for (const uint32_t keep : {0u, 3u, 20u}) {
      CAPTURE(keep);
      phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
      o.slide = 1;
      o.keep = keep;
      Ids out[2];
      const Engine* const both[] = {&e, &fresh};
      for (uint32_t i = 0; i < 2; ++i) {
        REQUIRE(phasor_sequence_clear(both[i]->session, 0) == PHASOR_OK);
        out[i].resize(90);
        phasor_generation made = PHASOR_GENERATION_INIT;
        const Ids prompt = ids_of(9);
        REQUIRE(phasor_generate(both[i]->session, 0, prompt.data(), 9, out[i].data(), 90, &o, &made,
                                nullptr) == PHASOR_OK);
        out[i].resize(made.count);
      }
      CHECK(out[0] == out[1]);
      CHECK(state_of(e, 0) == state_of(fresh, 0));
    }
    // The next turn of a conversation: what is there is not computed again.
    phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
    o.reuse = 1;
    REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
    Ids prompt = ids_of(11), out(6);
    phasor_generation made = PHASOR_GENERATION_INIT;
    for (uint32_t turn = 0; turn < 3; ++turn) {
      const uint32_t had = phasor_sequence_length(e.session, 0);
      REQUIRE(phasor_generate(e.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                              out.data(), 6, &o, &made, nullptr) == PHASOR_OK);
      CHECK(made.reused == had);
      prompt = joined(joined(prompt, Ids(out.begin(), out.begin() + made.count)), ids_of(2, turn));
    }
  }
}
