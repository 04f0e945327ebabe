// The best token without room for logits: that of the logits, at every level, number of threads and
// chunk, for every decoder.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>

#include "cases.h"
#include "items.h"
#include "share.h"
#include "support.h"

namespace {

constexpr uint32_t kTokens = 21;

std::vector<Block> decoder_files() {
  std::vector<Block> files;
  for (const std::string& name : golden_models()) {
    Block file = golden_file(name);
    if (phasor_model_stack(Engine(file, nullptr).model) != PHASOR_ENCODER)
      files.push_back(std::move(file));
  }
  // a vocabulary of more than one slice
  std::ifstream in("models/zh-en-small.phasor", std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(in)),
                                std::istreambuf_iterator<char>());
  REQUIRE(!bytes.empty());
  files.emplace_back(bytes.data(), bytes.size());
  return files;
}

phasor_limits limits_of(const Block& file, uint32_t logit_rows, uint32_t best_rows, uint32_t chunk,
                        uint32_t threads) {
  const Engine probe(file, nullptr);
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(probe.model, 16, 40, &limits) == PHASOR_OK);
  limits.sequences = 2;
  limits.chunk = chunk;
  limits.threads = threads;
  limits.logit_rows = logit_rows;
  limits.best_rows = best_rows;
  return limits;
}

// Two sequences of kTokens tokens each, both asked for all rows: (id, logit) of each row.
std::vector<std::pair<uint32_t, float>> rows_of(const Block& file, const char* isa,
                                                const phasor_limits& limits, uint32_t wanted) {
  const Engine e(file, isa, &limits, limits.threads);
  phasor_error error = PHASOR_ERROR_INIT;
  const uint32_t vocabulary = vocabulary_of(e.model);
  std::vector<uint32_t> ids[2];
  phasor_item items[2], sources[2];
  for (uint32_t q = 0; q < 2; ++q) {
    for (uint32_t i = 0; i < kTokens; ++i)
      ids[q].push_back((i * 13 + q * 5 + 3) % std::min(vocabulary, 40u));
    items[q] = item_of(q, kTokens, wanted, ids[q].data());
    sources[q] = item_of(q, 7, PHASOR_LOGITS_NONE, ids[q].data());
  }
  if (phasor_model_stack(e.model) != PHASOR_DECODER)
    REQUIRE(phasor_encode(e.session, sources, 2, &error) == PHASOR_OK);
  REQUIRE(phasor_step(e.session, items, 2, &error) == PHASOR_OK);
  const bool best = wanted == PHASOR_BEST_LAST || wanted == PHASOR_BEST_ALL;
  CHECK((phasor_logits(e.session, 0) == nullptr) == best);
  const uint32_t count = wanted == PHASOR_BEST_ALL || wanted == PHASOR_LOGITS_ALL ? 2 * kTokens : 2;
  std::vector<std::pair<uint32_t, float>> rows(count);
  for (uint32_t r = 0; r < count; ++r) {
    REQUIRE(phasor_argmax(e.session, r, &rows[r].first, &rows[r].second) == PHASOR_OK);
    if (best) continue;
    const float* logits = phasor_logits(e.session, r);  // and the plain loop says the same
    const float* largest = std::max_element(logits, logits + vocabulary);
    REQUIRE(rows[r].first == static_cast<uint32_t>(largest - logits));
    REQUIRE(rows[r].second == *largest);
  }
  uint32_t id;
  float logit;
  CHECK(phasor_argmax(e.session, count, &id, &logit) == PHASOR_BAD_INPUT);
  return rows;
}

uint32_t generated(const Engine& e, uint32_t lookahead, std::vector<uint32_t>* out) {
  phasor_error error = PHASOR_ERROR_INIT;
  const uint32_t source[] = {5, 6, 7, 8, 5, 6, 7, 8}, start[] = {4, 5, 6, 4, 5, 6};
  const phasor_item item = item_of(0, 8, PHASOR_LOGITS_NONE, source);
  if (phasor_model_stack(e.model) != PHASOR_DECODER)
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.lookahead = lookahead;
  phasor_generation made = PHASOR_GENERATION_INIT;
  out->assign(30, 0);
  const phasor_status status =
      phasor_generate(e.session, 0, start, 6, out->data(), 30, &options, &made, &error);
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  out->resize(made.count);
  return made.steps;
}

}  // namespace

TEST_CASE(
    "rule 1.15: the best token without its logits is the logits' own, at every level, number "
    "of threads and chunk") {
  Share share;
  for (const Block& file : decoder_files()) {
    const auto expected =
        rows_of(file, "scalar", limits_of(file, 2 * kTokens, 0, 64, 1), PHASOR_LOGITS_ALL);
    for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level)
      for (const uint32_t threads : {1u, 2u, 3u, 7u})
        for (const uint32_t chunk : {5u, 64u}) {
          if (!share.takes()) continue;
          CHECK(rows_of(file, phasor_isa_name(level),
                        limits_of(file, 0, 2 * kTokens, chunk, threads),
                        PHASOR_BEST_ALL) == expected);
        }
    const auto last = rows_of(file, nullptr, limits_of(file, 0, 2, 16, 2), PHASOR_BEST_LAST);
    CHECK(last[0] == expected[kTokens - 1]);
    CHECK(last[1] == expected[2 * kTokens - 1]);
  }
}

TEST_CASE(
    "greedy decoding without room for logits gives the same tokens in a smaller arena, with "
    "lookahead too") {
  for (const Block& file : decoder_files()) {
    for (const uint32_t lookahead : {0u, 3u}) {
      const phasor_limits with = limits_of(file, 1 + lookahead, 0, 16, 1),
                          without = limits_of(file, 0, 1 + lookahead, 16, 1);
      const Engine a(file, nullptr, &with), b(file, nullptr, &without);
      std::vector<uint32_t> x, y;
      CHECK(generated(a, lookahead, &x) == generated(b, lookahead, &y));
      CHECK(x == y);
      size_t bytes_with = 0, bytes_without = 0;
      phasor_error error = PHASOR_ERROR_INIT;
      REQUIRE(phasor_session_size(&bytes_with, a.model, &with, &error) == PHASOR_OK);
      REQUIRE(phasor_session_size(&bytes_without, b.model, &without, &error) == PHASOR_OK);
      // 256 logits, or all
      const size_t row = (vocabulary_of(a.model) + 15) / 16 * 64,
                   kept = std::min<size_t>(row, 1024);
      const auto whole = [](size_t n) { return (n + 63) / 64 * 64; };
      CHECK(bytes_with - whole((1 + lookahead) * row) ==
            bytes_without - whole(2 * (1 + lookahead) * 8) - (1 + lookahead) * kept);
    }
  }
}

TEST_CASE("best tokens: what the limits do not hold is an error with one line") {
  const Block file = std::move(decoder_files().back());
  const phasor_limits limits = limits_of(file, 0, 1, 16, 1), both = limits_of(file, 1, 1, 16, 1),
                      neither = limits_of(file, 0, 0, 16, 1);
  const Engine e(file, nullptr, &limits), two(file, nullptr, &both);
  phasor_error error = PHASOR_ERROR_INIT;
  size_t bytes = 0;
  CHECK(phasor_session_size(&bytes, e.model, &neither, &error) == PHASOR_BAD_LIMITS);
  CHECK(std::string(error.text) == "limits.logit_rows: 0, expected 1 to 16777216");

  const uint32_t source[] = {5, 6, 7}, ids[] = {1, 2};
  for (const Engine* engine : {&e, &two})
    for (uint32_t q = 0; q < 2; ++q) {
      const phasor_item item = item_of(q, 3, PHASOR_LOGITS_NONE, source);
      REQUIRE(phasor_encode(engine->session, &item, 1, &error) == PHASOR_OK);
    }
  const auto step = [&](const Engine& engine, std::vector<phasor_item> items) {
    return phasor_step(engine.session, items.data(), static_cast<uint32_t>(items.size()), &error);
  };
  const auto item = [&](uint32_t sequence, uint32_t wanted) {
    return item_of(sequence, 2, wanted, ids);
  };
  CHECK(step(e, {item(0, PHASOR_LOGITS_LAST)}) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "logits of 1 rows, the limits hold 0");
  CHECK(step(e, {item(0, PHASOR_BEST_ALL)}) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "best tokens of 2 rows, limits.best_rows holds 1");
  CHECK(step(e, {item(0, 5)}) == PHASOR_BAD_INPUT);
  CHECK(step(two, {item(0, PHASOR_LOGITS_LAST), item(1, PHASOR_BEST_LAST)}) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "a step gives logits or best tokens: its items ask for both");
  REQUIRE(step(two, {item(0, PHASOR_BEST_LAST), item(1, PHASOR_LOGITS_NONE)}) == PHASOR_OK);
  uint32_t id = 0;
  const phasor_generate_options greedy = PHASOR_GENERATE_OPTIONS_INIT;
  CHECK(phasor_choose(two.session, &id, nullptr, 0, ids, 2, 0, &greedy, &error) ==
        PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "the last step gave best tokens: a choice is made from logits");

  phasor_generate_options drawn = PHASOR_GENERATE_OPTIONS_INIT;
  drawn.temperature = 1;
  phasor_limits sampling = limits;
  sampling.outputs = PHASOR_WANT_SAMPLING;
  const Engine s(file, nullptr, &sampling);
  phasor_generation made = PHASOR_GENERATION_INIT;
  uint32_t out[4];
  CHECK(phasor_generate(s.session, 0, ids, 2, out, 4, &drawn, &made, &error) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) ==
        "options: anything but the plain largest logit needs limits.logit_rows, which is 0");
}

TEST_CASE(
    "rule 1.14: a logit that is not a number is an error of the best token too, in any slice") {
  const Block good = std::move(decoder_files().back());
  for (const uint32_t bad : {0u, 300u, 700u}) {
    const Block file(good.data(), good.size());
    {
      const Engine probe(file, nullptr);
      phasor_tensor output{};
      // the matrix of the logits: the last with a row a token
      for (uint32_t i = 0; i < phasor_tensor_count(probe.model); ++i) {
        phasor_tensor t{};
        t.struct_size = sizeof t;
        REQUIRE(phasor_tensor_get(probe.model, i, &t) == PHASOR_OK);
        if (t.rows == vocabulary_of(probe.model) && std::string(t.layout) == "panel16") output = t;
      }
      REQUIRE(std::string(output.type) == "q8");
      const uint64_t panel = bad / 16, bytes = output.bytes / ((output.rows + 15) / 16);
      const uint16_t nan = 0x7e00;  // the scale of the row's first group
      std::memcpy(file.data() + output.offset + panel * bytes + (bad % 16) * 2, &nan, 2);
    }
    for (const uint32_t wanted : {PHASOR_LOGITS_LAST, PHASOR_BEST_LAST})
      for (const uint32_t threads : {1u, 3u}) {
        const phasor_limits limits = limits_of(file, 1, 1, 16, threads);
        const Engine e(file, nullptr, &limits, threads);
        phasor_error error = PHASOR_ERROR_INIT;
        const uint32_t source[] = {5, 6, 7};
        const phasor_item encode = item_of(0, 3, PHASOR_LOGITS_NONE, source),
                          step = item_of(0, 3, wanted, source);
        REQUIRE(phasor_encode(e.session, &encode, 1, &error) == PHASOR_OK);
        REQUIRE(phasor_step(e.session, &step, 1, &error) == PHASOR_OK);
        uint32_t id = 0;
        float logit = 0;
        CHECK(phasor_argmax(e.session, 0, &id, &logit) == PHASOR_NOT_FINITE);
      }
  }
}

TEST_CASE("best tokens: a value that is not finite fails its sequence only") {
  const Block file = golden_file("tiny-lm-q8");
  const phasor_limits limits = limits_of(file, 0, 2, 16, 1);
  const Engine e(file, nullptr, &limits), reference(file, nullptr, &limits);
  const phasor_side side = target_of(e.model);
  std::vector<float> embedding(side.width, 0.5f);
  embedding[3] = std::numeric_limits<float>::quiet_NaN();
  const uint32_t id = 4;
  const phasor_item items[2] = {item_of(0, 1, PHASOR_BEST_LAST, nullptr, embedding.data()),
                                item_of(1, 1, PHASOR_BEST_LAST, &id)};
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_step(e.session, items, 2, &error) == PHASOR_NOT_FINITE);
  CHECK(phasor_sequence_status(e.session, 0) == PHASOR_NOT_FINITE);
  REQUIRE(phasor_step(reference.session, items + 1, 1, &error) == PHASOR_OK);
  uint32_t found[2];
  float logit[2];
  REQUIRE(phasor_argmax(e.session, 1, &found[0], &logit[0]) == PHASOR_OK);
  REQUIRE(phasor_argmax(reference.session, 0, &found[1], &logit[1]) == PHASOR_OK);
  CHECK(found[0] == found[1]);
  CHECK(logit[0] == logit[1]);
}
