// What of a caller's limits and of a saved sequence is refused: sound ones but for one number, and
// beside it the last number that is accepted.
#include <algorithm>
#include <functional>

#include "items.h"
#include "model/model.h"
#include "runtime/plan.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

struct Opened : OpenModel {
  using OpenModel::OpenModel;
  Said plan(const phasor_limits& limits) const {
    std::size_t need = 0;
    phasor_error error = PHASOR_ERROR_INIT;
    return said_of(phasor_session_size(&need, model, &limits, &error), error);
  }
};

}  // namespace

TEST_CASE("refusals: limits, each outside its range and at its ends") {
  struct Row {
    const char* name;
    uint32_t phasor_limits::* member;
    uint32_t low, high;
  };
  using L = phasor_limits;
  const uint32_t kLength = 1u << 24;
  const auto try_all = [](const Opened& m, const phasor_limits& good, const Row* begin,
                          const Row* end) {
    CHECK(m.plan(good).line == "");
    for (const Row* row = begin; row != end; ++row) {
      CAPTURE(row->name);
      const auto with = [&](uint32_t value) {
        phasor_limits limits = good;
        limits.*row->member = value;
        return m.plan(limits);
      };
      const auto line = [&](uint32_t value) {
        return std::string("limits.") + row->name + ": " + std::to_string(value) + ", expected " +
               std::to_string(row->low) + " to " + std::to_string(row->high);
      };
      expect(with(row->low), PHASOR_OK, "");
      expect(with(row->high), PHASOR_OK, "");
      expect(with(row->high + 1), PHASOR_BAD_LIMITS, line(row->high + 1));
      if (row->low != 0) expect(with(row->low - 1), PHASOR_BAD_LIMITS, line(row->low - 1));
    }
  };
  const Row all[] = {{"sequences", &L::sequences, 1, 65536},
                     {"chunk", &L::chunk, 1, 65536},
                     {"threads", &L::threads, 1, 256},
                     {"text_bytes", &L::text_bytes, 0, 1u << 28},
                     {"cache_type", &L::cache_type, 0, 2},
                     {"outputs", &L::outputs, 0, 3},
                     {"tables", &L::tables, 0, 1}};
  const Row decoder[] = {{"source", &L::source, 0, 0},
                         {"target", &L::target, 1, kLength},
                         {"logit_rows", &L::logit_rows, 1, kLength},
                         {"best_rows", &L::best_rows, 0, kLength},
                         {"beams", &L::beams, 0, 256},
                         {"searches", &L::searches, 0, 0}};
  const Row encoder[] = {{"source", &L::source, 1, 48},
                         {"target", &L::target, 0, 0},
                         {"logit_rows", &L::logit_rows, 0, kLength},
                         {"best_rows", &L::best_rows, 0, 0},
                         {"beams", &L::beams, 0, 0},
                         {"searches", &L::searches, 0, 0}};
  const Opened lm("tiny-rotary-f32"), bert("tiny-bert-f32");
  try_all(lm, lm.limits(0, 8), std::begin(all), std::end(all));
  try_all(lm, lm.limits(0, 8), std::begin(decoder), std::end(decoder));
  try_all(bert, bert.limits(8, 0), std::begin(all), std::end(all));
  try_all(bert, bert.limits(8, 0), std::begin(encoder), std::end(encoder));
  const Row outputs[] = {{"outputs", &L::outputs, 0, 7}, {"outputs", &L::outputs, 0, 3}};
  const Opened translator("tiny-d2l-f32"), judge("../archive/v1-entailment-f16");
  try_all(translator, translator.limits(8, 8), outputs, outputs + 1);
  try_all(judge, judge.limits(8, 8), outputs + 1, outputs + 2);
  const Row searches[] = {{"searches", &L::searches, 0, 3}};  // as many as sequences
  phasor_limits beams = lm.limits(0, 8);
  beams.beams = 2;
  beams.sequences = 3;
  try_all(lm, beams, std::begin(searches), std::end(searches));
  // Best tokens in place of logits.
  phasor_limits best = lm.limits(0, 8);
  best.best_rows = 1;
  best.logit_rows = 0;
  expect(lm.plan(best), PHASOR_OK, "");
  // Where its table of distances ends.
  const Opened relative("tiny-relative-lm-f32");
  expect(relative.plan(relative.limits(0, 45)), PHASOR_OK, "");
  expect(relative.plan(relative.limits(0, 46)), PHASOR_BAD_LIMITS,
         "limits.target: 46, expected 1 to 45");
}

TEST_CASE("refusals: keys that scores need in f32") {
  const auto with = [](const char* name, uint32_t cache) {
    const Opened m(name);
    phasor_limits limits = m.limits(8, 8);
    limits.cache_type = cache;
    return m.plan(limits);
  };
  struct Row {
    const char* model;
    const char* kind;
  };
  for (const Row& row : {Row{"tiny-relative-lm-f32", "0"}, Row{"tiny-three-way-lm-f32", "0"},
                         Row{"tiny-additive-f32", "1"}}) {
    expect(with(row.model, PHASOR_CACHE_F32), PHASOR_OK, "");
    expect(with(row.model, PHASOR_CACHE_F16), PHASOR_BAD_LIMITS,
           std::string("limits.cache_type: f16, kind ") + row.kind +
               " has scores that need keys in f32");
    expect(with(row.model, PHASOR_CACHE_Q8), PHASOR_BAD_LIMITS,
           std::string("limits.cache_type: q8, kind ") + row.kind +
               " has scores that need keys in f32");
  }
  expect(with("tiny-clipped-f32", PHASOR_CACHE_F16), PHASOR_OK, "");
}

TEST_CASE("refusals: each reason why scores need keys in f32 by itself") {
  const auto with = [](WeightFile* file, uint32_t cache) {
    const Opened m(file->write());
    phasor_limits limits = m.limits(8, 8);
    limits.cache_type = cache;
    return m.plan(limits);
  };
  const uint32_t layer = block_stack(kDecoder) << 24;
  WeightFile tables("tiny-relative-lm-f32");  // 4 heads of 9, 89 distances
  tables.sections.clear();
  tables.set("kind0.position", 9);
  for (uint32_t set = 0; set < 2; ++set) {
    StoredTensor& keys = tables.tensor(layer | set << 8 | 0x30);
    keys.rows = 36;
    keys.bytes = std::string(36 * 89 * 4, '\0');
    StoredTensor queries = keys;
    queries.key += 2;
    const auto next = [&](const StoredTensor& t) { return t.key > queries.key; };
    tables.tensors.insert(std::find_if(tables.tensors.begin(), tables.tensors.end(), next),
                          queries);
  }
  expect(with(&tables, PHASOR_CACHE_F32), PHASOR_OK, "");
  expect(with(&tables, PHASOR_CACHE_F16), PHASOR_BAD_LIMITS,
         "limits.cache_type: f16, kind 0 has scores that need keys in f32");
  WeightFile own("tiny-additive-f32");  // self-attention's score alone is additive
  own.sections.clear();
  own.erase("kind1.cross_score");
  const auto of_cross = [](const StoredTensor& t) { return (t.key & 255) == 0x64; };
  own.tensors.erase(std::remove_if(own.tensors.begin(), own.tensors.end(), of_cross),
                    own.tensors.end());
  expect(with(&own, PHASOR_CACHE_F32), PHASOR_OK, "");
  expect(with(&own, PHASOR_CACHE_F16), PHASOR_BAD_LIMITS,
         "limits.cache_type: f16, kind 1 has scores that need keys in f32");
}

TEST_CASE("refusals: an arena of more rows, pages or bytes than can be counted") {
  const auto of = [](const Opened& m, uint32_t sequences, uint32_t source, uint32_t target) {
    phasor_limits limits = m.limits(1, 1);
    limits.sequences = sequences;
    limits.source = source;
    limits.target = target;
    return m.plan(limits);
  };
  const auto sources = [](uint32_t sequences, uint32_t source) {
    return "limits: " + std::to_string(sequences) + " sequences of " + std::to_string(source) +
           " source positions";
  };
  const Opened encoder("tiny-alibi-tokens-f32"), both("tiny-d2l-f32"), decoder("tiny-alibi-f32");
  expect(of(encoder, 65535, 65537, 0), PHASOR_OK, "");  // 2^32 − 1 rows
  expect(of(encoder, 65536, 65536, 0), PHASOR_TOO_LARGE, sources(65536, 65536));
  expect(of(both, 65535, 65537 * 16, 1), PHASOR_OK, "");  // 2^32 − 1 pages
  expect(of(both, 65536, 65536 * 16, 1), PHASOR_TOO_LARGE, sources(65536, 65536 * 16));
  expect(of(decoder, 65535, 0, 65537 * 16), PHASOR_OK, "");
  expect(of(decoder, 65536, 0, 65536 * 16), PHASOR_TOO_LARGE,
         "limits: 65536 sequences of 1048576 positions");
  // Sizes saturate, they never wrap: a cache that no file can ask for.
  const phasor_limits limits = decoder.limits(0, 32);
  Model* const big = &decoder.inside();
  for (const uint64_t floats :
       {uint64_t{1} << 61, (uint64_t{1} << 61) - 1, (uint64_t{1} << 61) - 17}) {
    big->cache.values = floats;
    Plan plan{};
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(make_plan(&plan, *big, limits, &error) == PHASOR_TOO_LARGE);
    CHECK(std::string(error.text) == "the arena for these limits is too large for this machine");
    CHECK(plan.total == 0);
  }
  big->cache.values = uint64_t{1} << 60;  // two pages: 2^63 bytes
  Plan plan{};
  CHECK(make_plan(&plan, *big, limits, nullptr) == PHASOR_OK);
  CHECK(plan.bytes[kPartCache] == uint64_t{1} << 63);
  CHECK(std::string(part_name(kPartBeams)) == "beams");
  CHECK(std::string(part_name(kPartCount)) == "?");
}

// ---- saved sequences

namespace {

using State = std::vector<unsigned char>;

void seal(State* state) {
  store_u32(state->data() + 24, 0);
  store_u32(state->data() + 24, crc32c(0, state->data(), state->size()));
}

struct Saved {
  Block file;
  Engine e;
  State state;
  explicit Saved(const char* name, uint32_t tokens) : file(golden_file(name)), e(file, nullptr) {
    begin(e);
    const Ids ids = random_ids(7, tokens, vocabulary_of(e.model));
    const phasor_item item = item_of(0, tokens, PHASOR_LOGITS_NONE, ids.data());
    if (tokens != 0) REQUIRE(phasor_step(e.session, &item, 1, nullptr) == PHASOR_OK);
    state = state_of(e);
  }
  Said restore(const State& s) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_status status = phasor_state_restore(e.session, 0, s.data(), s.size(), &error);
    return said_of(status, error);
  }
  Said with(std::size_t at, uint32_t value) {
    State s = state;
    store_u32(s.data() + at, value);
    seal(&s);
    return restore(s);
  }
};

}  // namespace

TEST_CASE("refusals: a saved sequence, number by number") {
  Saved lm("tiny-lm-f32", 5), t5("tiny-t5-f32", 5);
  for (Saved* s : {&lm, &t5}) {
    const uint32_t length = load_u32(s->state.data() + 16), source = load_u32(s->state.data() + 20);
    REQUIRE(length == 5);
    const uint32_t size = static_cast<uint32_t>(s->state.size());
    const auto fits = [&](uint32_t positions, uint32_t of_source) {
      return "state: " + std::to_string(positions) + " positions and a source of " +
             std::to_string(of_source) + " do not fit the limits";
    };
    const auto bytes = [](uint64_t n, uint64_t expected) {
      return "state: " + std::to_string(n) + " bytes, expected " + std::to_string(expected);
    };
    const auto bad = [&](std::size_t at, uint32_t value, const std::string& line) {
      CAPTURE(at);
      expect(s->with(at, value), PHASOR_BAD_STATE, line);
    };
    expect(s->restore(s->state), PHASOR_OK, "");
    const uint32_t target = s->e.limits.target, most = s->e.limits.source;
    bad(0, 0, "state: not a saved sequence");
    bad(4, 99, "state: arithmetic number 99, expected " + std::to_string(phasor_numerics()));
    bad(8, load_u32(s->state.data() + 8) ^ 1, "state: of another weight file");
    bad(12, 1, "state: cache type 1, the limits have 0");
    bad(16, target + 1, fits(target + 1, source));
    bad(16, 0xFFFFFFFF, fits(0xFFFFFFFF, source));
    bad(20, most + 1, fits(5, most + 1));
    bad(28, 2, fits(5, source));
    if (source == 0) {
      bad(20, 1, fits(5, 1));
      bad(28, 1, fits(5, 0));
    } else {
      bad(20, 0, fits(5, 0));
      bad(28, 0, fits(5, source));
    }
    expect(s->with(40, PHASOR_MISMATCH), PHASOR_OK, "");
    bad(40, PHASOR_MISMATCH + 1, fits(5, source));
    bad(32, size + 1, bytes(size, size));
    bad(36, 1, bytes(size, size));
    // As many bytes as it says, and not as many as its lengths ask for.
    for (const int more : {-1, 1}) {
      State other = s->state;
      other.resize(other.size() + static_cast<std::size_t>(more));
      store_u32(other.data() + 32, size + static_cast<uint32_t>(more));
      seal(&other);
      expect(s->restore(other), PHASOR_BAD_STATE, bytes(other.size(), size));
    }
    State damaged = s->state;
    damaged.back() = static_cast<unsigned char>(damaged.back() ^ 1);
    expect(s->restore(damaged), PHASOR_BAD_STATE, "state: damaged, its checksum is wrong");
    const uint32_t vocabulary = vocabulary_of(s->e.model);
    expect(s->with(64, vocabulary - 1), PHASOR_OK, "");
    expect(s->with(64 + 16, PHASOR_NONE), PHASOR_OK, "");
    bad(64, vocabulary, "state: a token id out of range");
    bad(64 + 16, PHASOR_NONE - 1, "state: a token id out of range");
    const Said cut = s->restore(State(s->state.begin(), s->state.begin() + 63));
    expect(cut, PHASOR_BAD_STATE, "state: 63 bytes, a header has 64");
  }
}

TEST_CASE("refusals: a saved sequence that is empty, as long as the limits, or of no source here") {
  Saved empty("tiny-lm-f32", 0);
  REQUIRE(load_u32(empty.state.data() + 16) == 0);
  expect(empty.restore(empty.state), PHASOR_OK, "");
  // A decoder has nothing that a source could be read from.
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  const Block file = golden_file("tiny-d2l-f32");
  const Engine first(file, nullptr);
  REQUIRE(phasor_limits_for(first.model, 16, 4, &limits) == PHASOR_OK);
  const Engine small(file, nullptr, &limits);
  begin(small);
  const Ids ids = random_ids(3, 4, vocabulary_of(small.model));
  const phasor_item item = item_of(0, 4, PHASOR_LOGITS_NONE, ids.data());
  REQUIRE(phasor_step(small.session, &item, 1, nullptr) == PHASOR_OK);
  const State whole = state_of(small);
  REQUIRE(load_u32(whole.data() + 16) == limits.target);
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_state_restore(small.session, 0, whole.data(), whole.size(), &error) == PHASOR_OK);
  CHECK(state_of(small) == whole);
  limits.target = 3;
  const Engine smaller(file, nullptr, &limits);
  CHECK(phasor_state_restore(smaller.session, 0, whole.data(), whole.size(), &error) ==
        PHASOR_BAD_STATE);
  CHECK(std::string(error.text) == "state: 4 positions and a source of 11 do not fit the limits");
  limits.target = 4;
  limits.source = 11;
  const Engine exact(file, nullptr, &limits);
  CHECK(phasor_state_restore(exact.session, 0, whole.data(), whole.size(), &error) == PHASOR_OK);
  limits.source = 10;
  const Engine shorter(file, nullptr, &limits);
  CHECK(phasor_state_restore(shorter.session, 0, whole.data(), whole.size(), &error) ==
        PHASOR_BAD_STATE);
  // An encoder keeps nothing of a source for later.
  const Block bert = golden_file("tiny-bert-f32");
  const Engine encoder(bert, nullptr);
  State none = state_of(encoder);
  expect({phasor_state_restore(encoder.session, 0, none.data(), none.size(), nullptr), ""},
         PHASOR_OK, "");
  store_u32(none.data() + 20, 1);
  store_u32(none.data() + 28, 1);
  CHECK(phasor_state_restore(encoder.session, 0, none.data(), none.size(), &error) ==
        PHASOR_BAD_STATE);
  CHECK(std::string(error.text) == "state: 0 positions and a source of 1 do not fit the limits");
}
