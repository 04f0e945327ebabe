// Saved sequences at their limits: a sequence that grows token by token over a ring of one page and
// over none, and the numbers of a header, one less and one more.
#include "cases.h"
#include "format/bytes.h"
#include "format/crc32c.h"
#include "items.h"
#include "support.h"
#include "weight_file.h"

namespace {

using State = std::vector<unsigned char>;

phasor_limits limits_of(const phasor_model* model, uint32_t target, uint32_t chunk) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, 0, target, &limits) == PHASOR_OK);
  limits.chunk = chunk;
  return limits;
}

void step(const Engine& e, uint32_t id) {
  const phasor_item item = item_of(0, 1, PHASOR_LOGITS_ALL, &id);
  REQUIRE(phasor_step(e.session, &item, 1, nullptr) == PHASOR_OK);
}
uint64_t step_hash(const Engine& e, uint32_t id) {
  step(e, id);
  return fnv1a(kFnvStart, phasor_logits(e.session, 0), vocabulary_of(e.model) * sizeof(float));
}

phasor_status restore(const Engine& e, const State& state) {
  return phasor_state_restore(e.session, 0, state.data(), state.size(), nullptr);
}

}  // namespace

TEST_CASE("limits of a state: every length over a ring of one page, and over none") {
  constexpr uint32_t kTarget = 41, kWindow = 7;
  const Block file = golden_file("tiny-olmo2-f32");
  const Engine probe(file, nullptr);
  const phasor_limits small = limits_of(probe.model, kTarget, 1),
                      large = limits_of(probe.model, kTarget, kTarget);
  const Engine ring(file, nullptr, &small), whole(file, nullptr, &large),
      other(file, nullptr, &small);
  const uint64_t page = part_bytes(probe.model, small, "keys and values in windows"),
                 all = part_bytes(probe.model, small, "decoder keys and values") / 3;
  REQUIRE(page != 0);
  for (uint32_t length = 1; length <= 36; ++length) {
    CAPTURE(length);
    step(ring, 3 + length * 7 % 40);
    step(whole, 3 + length * 7 % 40);
    const State state = state_of(ring);
    CHECK(state == state_of(whole));
    CHECK(phasor::load_u32(state.data() + 64 + 4 * (length - 1)) == 3 + length * 7 % 40);
    const uint32_t first = length < kWindow ? 0 : length - (kWindow - 1);
    const uint64_t blocks = (length + 15) / 16;
    CHECK(state.size() == 64 + 4 * length + blocks * all + (blocks - first / 16) * page);
    REQUIRE(restore(other, state) == PHASOR_OK);
    CHECK(state_of(other) == state);
    if (length % 5 != 0 && length != kWindow) continue;
    const uint64_t next = step_hash(other, 5);
    const Engine fresh(file, nullptr, &large);
    REQUIRE(restore(fresh, state) == PHASOR_OK);
    CHECK(step_hash(fresh, 5) == next);
    // Two tokens back its next position would see one that was not saved, if any was not.
    REQUIRE(restore(fresh, state) == PHASOR_OK);
    const phasor_status cut = phasor_sequence_truncate(fresh.session, 0, length - 2);
    CHECK((cut == PHASOR_OK) == (first == 0));
  }
  // And the sequences that were saved go on as what was restored does.
  REQUIRE(restore(other, state_of(ring)) == PHASOR_OK);
  const uint64_t next = step_hash(other, 5);
  CHECK(step_hash(ring, 5) == next);
  CHECK(step_hash(whole, 5) == next);
}

TEST_CASE("limits of a state: a source of one page and of two") {
  const Block file = golden_file("tiny-d2l-f32");
  for (const uint32_t count : {1u, 15u, 16u, 17u}) {
    CAPTURE(count);
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    {
      const Engine probe(file, nullptr);
      REQUIRE(phasor_limits_for(probe.model, 17, 20, &limits) == PHASOR_OK);
    }
    const Engine from(file, nullptr, &limits), to(file, nullptr, &limits);
    Ids ids(count);
    for (uint32_t i = 0; i < count; ++i) ids[i] = 3 + i % 5;
    phasor_item item = PHASOR_ITEM_INIT;
    item.count = count;
    item.ids = ids.data();
    REQUIRE(phasor_encode(from.session, &item, 1, nullptr) == PHASOR_OK);
    for (uint32_t i = 0; i < 17; ++i) step(from, 3 + i);
    const State state = state_of(from);
    REQUIRE(restore(to, state) == PHASOR_OK);
    CHECK(state_of(to) == state);
    CHECK(step_hash(to, 5) == step_hash(from, 5));
  }
}

TEST_CASE("limits of a state: without windows a sequence goes back to its first token") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine from(file, nullptr), to(file, nullptr);
  for (uint32_t i = 0; i < 5; ++i) step(from, 3 + i);
  const State state = state_of(from);
  REQUIRE(restore(to, state) == PHASOR_OK);
  CHECK(state_of(to) == state);
  CHECK(phasor_sequence_truncate(to.session, 0, 1) == PHASOR_OK);
  const Engine one(file, nullptr);
  step(one, 3);
  CHECK(state_of(to) == state_of(one));
}

TEST_CASE("limits of a state: a header's numbers, one less and one more") {
  const Block file = golden_file("tiny-lm-f32");
  const Engine e(file, nullptr);
  step(e, 3);
  const State good = state_of(e);
  REQUIRE(restore(e, good) == PHASOR_OK);
  for (const std::size_t at : {0, 4, 8, 32})
    for (const uint32_t change : {1u, 0xFFFFFFFFu}) {
      CAPTURE(at);
      State state = good;
      phasor::store_u32(state.data() + at, phasor::load_u32(state.data() + at) + change);
      phasor::store_u32(state.data() + 24, 0);
      phasor::store_u32(state.data() + 24, phasor::crc32c(0, state.data(), state.size()));
      CHECK(restore(e, state) == PHASOR_BAD_STATE);
    }
  // A state of f32 where the limits have f16, and the reverse.
  phasor_limits limits = e.limits;
  limits.cache_type = PHASOR_CACHE_F16;
  const Engine half(file, nullptr, &limits);
  step(half, 3);
  const auto line = [](const Engine& to, const State& state) {
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_state_restore(to.session, 0, state.data(), state.size(), &error) ==
          PHASOR_BAD_STATE);
    return std::string(error.text);
  };
  CHECK(line(half, good) == "state: cache type 0, the limits have 1");
  CHECK(line(e, state_of(half)) == "state: cache type 1, the limits have 0");
}

TEST_CASE("limits of a state: more layers that see all than layers with a window, and fewer") {
  for (const std::vector<uint32_t>& layers :
       {std::vector<uint32_t>{0, 0, 0, 0, 1, 1}, std::vector<uint32_t>{0, 0, 1, 1, 1, 1}}) {
    weight_files::WeightFile changed("tiny-olmo2-f32");
    changed.sections.clear();  // test vectors of two layers
    const Block file = changed.set("decoder.layers", layers).write();
    const Engine probe(file, nullptr);
    const phasor_limits limits = limits_of(probe.model, 41, 1);
    const Engine from(file, nullptr, &limits), to(file, nullptr, &limits);
    for (uint32_t i = 0; i < 19; ++i) step(from, 3 + i);
    const State state = state_of(from);
    REQUIRE(restore(to, state) == PHASOR_OK);
    CHECK(state_of(to) == state);
    CHECK(step_hash(to, 5) == step_hash(from, 5));
  }
}
