// The choice of a token (src/decode/sample.cpp, random.h) through phasor_choose: each option
// against its definition in double, exact cases, the generator against published numbers, the
// draw's frequencies, and one line for each bad value.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "cases.h"
#include "decode/random.h"
#include "items.h"
#include "support.h"

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

phasor_generate_options options_at(float temperature) {
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  o.temperature = temperature;
  return o;
}

// A session whose row 0 of logits is the test's own.
class Row {
 public:
  explicit Row(const char* isa = nullptr, uint32_t outputs = PHASOR_WANT_SAMPLING)
      : file_(golden_file("tiny-lm-f32")), probe_(file_, isa) {
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    phasor_limits_for(probe_.model, 0, 40, &limits);
    limits.outputs = outputs;
    e_ = std::make_unique<Engine>(file_, isa, &limits);
    phasor_side side{};
    side.struct_size = sizeof side;
    REQUIRE(phasor_model_side(e_->model, PHASOR_TARGET, &side) == PHASOR_OK);
    n = side.vocabulary;
    ends.assign(side.end, side.end + side.end_count);
    const uint32_t start = 1;
    const phasor_item item = item_of(0, 1, PHASOR_LOGITS_LAST, &start);
    REQUIRE(phasor_step(e_->session, &item, 1, nullptr) == PHASOR_OK);
    phasor_random_seed(&random, 1);
  }

  phasor_status status(phasor_generate_options o, const std::vector<float>& logits,
                       const std::vector<uint32_t>& ids = {}, uint32_t made = 0) {
    std::copy(logits.begin(), logits.end(), phasor_logits(e_->session, 0));
    p.assign(n, -1.0f);
    if (o.random == nullptr) o.random = &random;
    const phasor_status s = phasor_choose(e_->session, &id, p.data(), 0, ids.data(),
                                          static_cast<uint32_t>(ids.size()), made, &o, &error);
    // the row is as it was
    CHECK(std::equal(logits.begin(), logits.end(), phasor_logits(e_->session, 0),
                     [](float a, float b) { return a == b || a != a; }));
    return s;
  }
  const std::vector<float>& choose(const phasor_generate_options& o,
                                   const std::vector<float>& logits,
                                   const std::vector<uint32_t>& ids = {}, uint32_t made = 0) {
    const phasor_status s = status(o, logits, ids, made);
    CAPTURE(error.text);
    REQUIRE(s == PHASOR_OK);
    CHECK(p[id] > 0);
    return p;
  }
  // Logits of which only these may be chosen.
  std::vector<float> only(const std::vector<float>& few) const {
    std::vector<float> logits(n, -kInf);
    std::copy(few.begin(), few.end(), logits.begin());
    return logits;
  }
  std::vector<float> random_logits(uint64_t seed) const {
    phasor_random r;
    phasor_random_seed(&r, seed);
    std::vector<float> logits(n);
    for (float& v : logits)
      v = (static_cast<float>(phasor::random_next(&r) >> 40) * 0x1p-24f - 0.5f) * 9;
    return logits;
  }

  uint32_t n = 0, id = 0;
  std::vector<uint32_t> ends;
  std::vector<float> p;
  phasor_random random{};
  phasor_error error = PHASOR_ERROR_INIT;

 private:
  Block file_;
  Engine probe_;
  std::unique_ptr<Engine> e_;
};

// The definitions, in double.
using Scores = std::vector<double>;
Scores softmax(const Scores& s) {
  const double top = *std::max_element(s.begin(), s.end());
  Scores p(s.size());
  double sum = 0;
  for (std::size_t i = 0; i < s.size(); ++i) sum += p[i] = std::exp(s[i] - top);
  for (double& v : p) v /= sum;
  return p;
}
std::vector<uint32_t> sorted_by(const Scores& key) {  // largest first, then by id
  std::vector<uint32_t> ids(key.size());
  std::iota(ids.begin(), ids.end(), 0u);
  std::sort(ids.begin(), ids.end(), [&](uint32_t a, uint32_t b) {
    return key[a] > key[b] || (!(key[b] > key[a]) && a < b);
  });
  return ids;
}
void keep(Scores* s, const std::vector<uint32_t>& order,
          const std::function<bool(std::size_t, double)>& more) {
  const Scores p = softmax(*s);
  double sum = 0;
  std::size_t kept = 0;
  while (kept < order.size() && (kept == 0 || more(kept, sum))) sum += p[order[kept++]];
  for (std::size_t i = kept; i < order.size(); ++i) (*s)[order[i]] = -HUGE_VAL;
}
Scores expected(const std::vector<float>& logits, const phasor_generate_options& o) {
  Scores s(logits.begin(), logits.end());
  for (double& v : s) v /= static_cast<double>(o.temperature);
  if (o.top_k != 0)
    keep(&s, sorted_by(s), [&](std::size_t kept, double) { return kept < o.top_k; });
  if (o.top_p != 0)
    keep(&s, sorted_by(s),
         [&](std::size_t, double sum) { return sum < static_cast<double>(o.top_p); });
  if (o.min_p != 0) {
    const Scores p = softmax(s);
    const double top = *std::max_element(p.begin(), p.end());
    for (std::size_t i = 0; i < s.size(); ++i)
      if (p[i] < static_cast<double>(o.min_p) * top) s[i] = -HUGE_VAL;
  }
  if (o.typical_p != 0) {
    const Scores p = softmax(s);
    double entropy = 0;
    for (const double v : p) entropy -= v > 0 ? v * std::log(v) : 0;
    Scores near(p.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      near[i] = p[i] > 0 ? -std::abs(-std::log(p[i]) - entropy) : -HUGE_VAL;
    keep(&s, sorted_by(near),
         [&](std::size_t, double sum) { return sum < static_cast<double>(o.typical_p); });
  }
  return softmax(s);
}

double worst(const std::vector<float>& p, const Scores& want) {
  double most = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if ((p[i] > 0) != (want[i] > 0)) return 1;  // another set
    most = std::max(most, std::abs(static_cast<double>(p[i]) - want[i]));
  }
  return most;
}

}  // namespace

TEST_CASE("random: the published numbers of SplitMix64 and xoshiro256**") {
  phasor_random r;
  phasor_random_seed(&r, 1234567);
  CHECK(r.state[0] == 6457827717110365317u);
  CHECK(r.state[1] == 3203168211198807973u);
  CHECK(r.state[2] == 9817491932198370423u);
  CHECK(r.state[3] == 4593380528125082431u);
  r = {{1, 2, 3, 4}};
  for (const uint64_t v : {11520u, 0u, 1509978240u}) CHECK(phasor::random_next(&r) == v);
  CHECK(phasor::random_next(&r) == 1215971899390074240u);
  CHECK(phasor::multiply_high(~0ull, ~0ull) == ~0ull - 1);
  CHECK(phasor::multiply_high(0x123456789ABCDEFu, 1ull << 60) == 0x123456789ABCDEFu >> 4);
}

TEST_CASE("sampling: each filter alone and all together are their definitions") {
  Row row;
  const std::function<void(phasor_generate_options*)> knobs[] = {
      [](phasor_generate_options*) {},
      [](phasor_generate_options* o) { o->top_k = 7; },
      [](phasor_generate_options* o) { o->top_p = 0.7f; },
      [](phasor_generate_options* o) { o->min_p = 0.2f; },
      [](phasor_generate_options* o) { o->typical_p = 0.6f; },
      [](phasor_generate_options* o) { o->top_k = 20, o->top_p = 0.9f; },
      [](phasor_generate_options* o) {
        o->top_k = 30, o->top_p = 0.95f, o->min_p = 0.02f, o->typical_p = 0.8f;
      },
      [](phasor_generate_options* o) { o->top_k = 1; },
      [](phasor_generate_options* o) { o->top_p = 1e-6f; },
      [](phasor_generate_options* o) { o->typical_p = 1e-6f; },
      [](phasor_generate_options* o) { o->top_k = 1000000, o->top_p = 1, o->typical_p = 1; },
  };
  for (const float temperature : {1.0f, 0.6f, 2.5f})
    for (const auto& knob : knobs)
      for (uint64_t seed = 0; seed < 20; ++seed) {
        phasor_generate_options o = options_at(temperature);
        knob(&o);
        const std::vector<float> logits = row.random_logits(seed);
        phasor_generate_options want = o;
        if (!(want.top_p < 1)) want.top_p = 0;
        if (!(want.typical_p < 1)) want.typical_p = 0;
        CAPTURE(seed);
        CHECK(worst(row.choose(o, logits), expected(logits, want)) < 1e-6);
      }
}

TEST_CASE("sampling: exact cases") {
  Row row;
  phasor_generate_options o = options_at(0.7f);
  CHECK(row.choose(o, row.only({3, 3, 3, 3}))[2] == 0.25f);
  o.top_k = 3;  // of equals the lowest ids
  CHECK(row.choose(o, row.only({1, 3, 3, 3, 3}))[4] == 0);
  CHECK(row.p[1] == static_cast<float>(1.0 / 3));
  o.top_k = 0;
  o.top_p = 0.5f;  // two of four equals are the half already
  CHECK(row.choose(o, row.only({3, 3, 3, 3}))[1] == 0.5f);
  CHECK(row.p[2] == 0);
  o = options_at(1e-30f);  // so cold that only the largest is left
  CHECK(row.choose(o, row.only({1, 2, 1.999f}))[1] == 1);
  o = options_at(1);
  CHECK(row.choose(o, row.only({-1e38f}))[0] == 1);
  o.temperature = 0;
  CHECK(row.choose(o, row.only({1, 2, 2}))[1] == 1);  // the largest, of equals the lowest id
  CHECK(row.id == 1);
}

TEST_CASE("sampling: penalties and bans") {
  Row row;
  const float log2 = 0.69314718f;
  phasor_generate_options o = options_at(1);
  o.repetition_penalty = 2;
  // 2/2, −1·2, 1; a token counts once, an embedding not at all
  row.choose(o, row.only({2, -1, 1}), {0, 1, 0, PHASOR_NONE});
  CHECK(row.p[0] == row.p[2]);
  CHECK(std::abs(row.p[1] / row.p[2] - std::exp(-3.0f)) < 1e-6f);
  o = options_at(1);
  o.presence_penalty = log2;
  row.choose(o, row.only({0, 0, 0}), {0, 1, 1, 1}, 3);  // only the last three are new
  CHECK(row.p[0] == row.p[2]);
  CHECK(std::abs(row.p[1] / row.p[0] - 0.5f) < 1e-6f);
  o.frequency_penalty = log2;
  row.choose(o, row.only({0, 0, 0}), {0, 1, 1, 1}, 3);
  CHECK(std::abs(row.p[1] / row.p[0] - 0.0625f) < 1e-6f);
  o.presence_penalty = 0;
  o.frequency_penalty = -log2;  // a reward
  row.choose(o, row.only({0, 0, 0}), {0, 1, 2}, 2);
  CHECK(std::abs(row.p[1] / row.p[0] - 2) < 1e-6f);
  o = options_at(1);
  o.no_repeat_ngram = 3;
  row.choose(o, row.only({0, 0, 0, 0}), {1, 2, 3, 2, 1, 2, 0, 1, 2});  // 1 2 3 and 1 2 0 are there
  CHECK(row.p[0] == 0);
  CHECK(row.p[3] == 0);
  CHECK(row.p[1] == 0.5f);
  o.no_repeat_ngram = 1;
  row.choose(o, row.only({0, 0, 0, 0}), {1, 3});
  CHECK(row.p[0] == 0.5f);
  CHECK(row.p[2] == 0.5f);
  row.choose(o, row.only({0, 0}), {});
  CHECK(row.p[0] == 0.5f);
  REQUIRE(row.ends.size() == 1);
  const uint32_t more[] = {5};
  o = options_at(1);
  o.min_new = 2;
  o.end = more;
  o.end_count = 1;
  std::vector<float> logits(row.n, -kInf);
  logits[row.ends[0]] = logits[5] = logits[7] = 1;
  CHECK(row.choose(o, logits, {3, 7}, 1)[7] == 1);
  CHECK(row.choose(o, logits, {3, 7}, 2)[5] == static_cast<float>(1.0 / 3));
  o = options_at(0);  // greedy too
  o.suppressed = more;
  o.suppressed_count = 1;
  CHECK(row.choose(o, logits)[5] == 0);
  CHECK(row.id == std::min(row.ends[0], 7u));
}

TEST_CASE(
    "sampling: a draw takes one number, and the frequencies are the probabilities (chi-square, "
    "fixed seed)") {
  Row row;
  phasor_generate_options o = options_at(1.3f);
  o.top_k = 12;
  phasor_random_seed(&row.random, 42);
  phasor_random plain = row.random;
  const std::vector<float> logits = row.random_logits(3);
  std::vector<uint32_t> counts(row.n);
  constexpr uint32_t kDraws = 20000;
  std::vector<float> p;
  for (uint32_t i = 0; i < kDraws; ++i) {
    p = row.choose(o, logits);
    ++counts[row.id];
    phasor::random_next(&plain);
  }
  CHECK(std::equal(plain.state, plain.state + 4, row.random.state));
  double chi = 0;
  for (uint32_t i = 0; i < row.n; ++i) {
    const double want = kDraws * static_cast<double>(p[i]);
    if (want > 0)
      chi += (counts[i] - want) * (counts[i] - want) / want;
    else
      CHECK(counts[i] == 0);
  }
  CHECK(chi < 31.26);  // 11 degrees of freedom: more in one of a thousand cases
  CHECK(chi > 1.59);   // less in one of a thousand: frequencies that are too good
}

TEST_CASE("rule 1.15: every level draws the same tokens from the same logits") {
  phasor_generate_options o = options_at(0.9f);
  o.top_p = 0.9f;
  o.typical_p = 0.95f;
  std::vector<uint32_t> first;
  std::vector<float> first_p;
  for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
    Row row(phasor_isa_name(level));
    std::vector<uint32_t> ids;
    std::vector<float> p;
    for (uint64_t seed = 0; seed < 50; ++seed) {
      row.choose(o, row.random_logits(seed));
      p.insert(p.end(), row.p.begin(), row.p.end());
      ids.push_back(row.id);
    }
    if (level == 0) first = ids, first_p = p;
    // The same on every machine that the tests run on.
    CHECK(fnv1a(fnv1a(kFnvStart, ids.data(), ids.size() * sizeof(uint32_t)), p.data(),
                p.size() * sizeof(float)) == 3701027283749366137u);
    CHECK(ids == first);
    CHECK(p == first_p);
  }
}

TEST_CASE("rule 3.5: a bad option is one line that names it") {
  Row row;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const uint32_t far[] = {row.n};
  const struct {
    const char* name;
    std::function<void(phasor_generate_options*)> set;
  } bad[] = {
      {"temperature", [](phasor_generate_options* o) { o->temperature = -0.5f; }},
      {"temperature", [=](phasor_generate_options* o) { o->temperature = nan; }},
      {"temperature", [](phasor_generate_options* o) { o->temperature = kInf; }},
      {"top_p", [](phasor_generate_options* o) { o->top_p = 1.01f; }},
      {"top_p", [](phasor_generate_options* o) { o->top_p = -0.1f; }},
      {"min_p", [=](phasor_generate_options* o) { o->min_p = nan; }},
      {"typical_p", [](phasor_generate_options* o) { o->typical_p = 2; }},
      {"repetition_penalty", [](phasor_generate_options* o) { o->repetition_penalty = -1; }},
      {"presence_penalty", [](phasor_generate_options* o) { o->presence_penalty = kInf; }},
      {"frequency_penalty", [=](phasor_generate_options* o) { o->frequency_penalty = nan; }},
      {"suppressed",
       [&](phasor_generate_options* o) { o->suppressed = far, o->suppressed_count = 1; }},
      {"end", [&](phasor_generate_options* o) { o->end = far, o->end_count = 1; }},
  };
  for (const auto& b : bad) {
    phasor_generate_options o = options_at(1);
    b.set(&o);
    CAPTURE(b.name);
    CHECK(row.status(o, row.only({1})) == PHASOR_BAD_INPUT);
    CHECK(std::string(row.error.text).find("options." + std::string(b.name)) == 0);
  }
  phasor_random zero{};
  phasor_generate_options o = options_at(1);
  o.struct_size += 8;
  CHECK(row.status(o, row.only({1})) == PHASOR_BAD_INPUT);
  CHECK(std::string(row.error.text).find("phasor_generate_options.struct_size") == 0);
  o = options_at(1);
  o.random = &zero;
  CHECK(row.status(o, row.only({1})) == PHASOR_BAD_INPUT);
  CHECK(row.status(options_at(1), row.only({})) == PHASOR_BAD_INPUT);  // nothing may be chosen
  CHECK(std::string(row.error.text).find("no token") == 0);
  CHECK(row.status(options_at(0), row.only({})) == PHASOR_BAD_INPUT);
  CHECK(row.status(options_at(1), row.only({1, nan})) == PHASOR_NOT_FINITE);
  CHECK(row.status(options_at(0), row.only({1, nan})) == PHASOR_NOT_FINITE);
  CHECK(row.status(options_at(1), row.only({1, kInf})) == PHASOR_NOT_FINITE);
  CHECK(row.status(options_at(1), row.only({1}), {row.n}, 1) == PHASOR_BAD_INPUT);
  CHECK(row.status(options_at(1), row.only({1}), {1}, 2) == PHASOR_BAD_INPUT);

  Row plain(nullptr, 0);
  CHECK(plain.status(options_at(1), plain.only({1})) == PHASOR_BAD_INPUT);
  CHECK(std::string(plain.error.text).find("PHASOR_WANT_SAMPLING") != std::string::npos);
  CHECK(plain.status(options_at(0), plain.only({1})) == PHASOR_OK);
}
