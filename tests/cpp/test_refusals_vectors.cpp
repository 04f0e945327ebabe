// What of a section of test vectors is refused: a sound one but for one number; the last number
// that is accepted; and what a replay says of vectors that are not the engine's.
#include <functional>

#include "weight_file.h"

using namespace weight_files;

namespace {

// A section of one vector, number by number, for tiny-lm-f32 (V 59, D 32, two layers) or
// tiny-bert-f32 (V 57, D 36, two layers), whose output rows have a value for each token.
struct Vector {
  uint32_t samples = 2, vocabulary, width;
  bool decoder;
  uint32_t count = 1, numerics = 0, author_bytes = 4, reserved = 0, tolerance = bits_of(1e9);
  uint32_t ids = 3, residual = 2;  // of the model's side
  uint32_t other = 0;              // ids of the other side
  uint32_t id = 0, place = 0, sample = 0, best = 0;
  uint64_t hash = 0;
  double value = 0;

  explicit Vector(bool of_decoder)
      : vocabulary(of_decoder ? 59 : 57), width(of_decoder ? 32 : 36), decoder(of_decoder) {}

  std::string bytes() const {
    std::string out = words({count, numerics, author_bytes, tolerance, samples, reserved});
    out += "name";
    for (uint32_t i = 0; i < count; ++i) out += one();
    return out;
  }
  std::string one() const {
    std::string out = words({decoder ? other : ids, decoder ? ids : other, decoder ? 0 : residual,
                             decoder ? residual : 0});
    append_u64(&out, hash);
    for (uint32_t i = 0; i < ids + other; ++i) append_u32(&out, i + 1 < ids + other ? 0 : id);
    for (uint32_t i = 0; i < samples; ++i) append_u32(&out, i + 1 < samples ? 0 : sample);
    for (uint32_t row = 0; row < (other != 0 && !decoder ? other : ids); ++row) {
      out += words({row + 1 < ids ? 0 : best, bits_of(value), bits_of(1)});
      out += std::string(4 * samples, '\0');
    }
    for (uint32_t i = 0; i < samples; ++i) append_u32(&out, i + 1 < samples ? 0 : place);
    return out + std::string(4 * 2 * samples, '\0');
  }
};

Said with_section(bool decoder, const std::string& section) {
  WeightFile file(decoder ? "tiny-lm-f32" : "tiny-bert-f32");
  file.sections[kSectionVectors] = {0, section};
  return opened(file.write());
}

void expect_sound(bool sound, bool decoder, const std::string& section) {
  expect(with_section(decoder, section), sound ? PHASOR_OK : PHASOR_BAD_FILE,
         sound ? "" : "test vectors: the section is not sound");
}

}  // namespace

TEST_CASE("refusals: test vectors, number by number") {
  using Edit = std::function<void(Vector*)>;
  struct Row {
    bool sound;
    Edit edit;
  };
  const uint32_t infinite = 0x7F800000, nan = 0x7FC00000;
  for (const bool decoder : {true, false}) {
    CAPTURE(decoder);
    const Row rows[] = {
        {true, [](Vector*) {}},
        {true, [](Vector* v) { v->count = 64; }},
        {false, [](Vector* v) { v->count = 65; }},
        {false, [](Vector* v) { v->count = 0; }},
        {true, [](Vector* v) { v->samples = 1; }},
        {false, [](Vector* v) { v->samples = 0; }},
        {true, [](Vector* v) { v->samples = 4096; }},
        {false, [](Vector* v) { v->samples = 4097; }},
        {true, [](Vector* v) { v->tolerance = 1; }},
        {true, [](Vector* v) { v->tolerance = 0x7F7FFFFF; }},
        {false, [](Vector* v) { v->tolerance = 0; }},
        {false, [](Vector* v) { v->tolerance = 0x80000001; }},
        {false, [=](Vector* v) { v->tolerance = infinite; }},
        {false, [=](Vector* v) { v->tolerance = nan; }},
        {false, [](Vector* v) { v->reserved = 1; }},
        {true, [](Vector* v) { v->author_bytes = 1; }},
        {false, [](Vector* v) { v->author_bytes = 0; }},
        {false, [](Vector* v) { v->author_bytes = 5; }},
        {false, [](Vector* v) { v->author_bytes = 0xFFFFFFFF; }},
        {true, [](Vector* v) { v->ids = 1, v->residual = 0; }},
        {false, [](Vector* v) { v->ids = 0, v->residual = 0; }},
        {false, [](Vector* v) { v->residual = v->ids; }},
        {true, [](Vector* v) { v->residual = 0; }},
        {false, [](Vector* v) { v->other = 1; }},
        {true, [](Vector* v) { v->id = v->vocabulary - 1; }},
        {false, [](Vector* v) { v->id = v->vocabulary; }},
        {true, [](Vector* v) { v->place = v->width - 1; }},
        {false, [](Vector* v) { v->place = v->width; }},
        {true, [](Vector* v) { v->sample = v->vocabulary - 1; }},
        {false, [](Vector* v) { v->sample = v->vocabulary; }},
        {true, [](Vector* v) { v->best = v->vocabulary - 1; }},
        {false, [](Vector* v) { v->best = v->vocabulary; }},
    };
    std::size_t number = 0;
    for (const Row& row : rows) {
      CAPTURE(number++);
      Vector v(decoder);
      row.edit(&v);
      expect_sound(row.sound, decoder, v.bytes());
    }
  }
}

TEST_CASE("refusals: test vectors whose bytes are there, and whose numbers say otherwise") {
  for (const bool decoder : {true, false}) {
    // A longest author, of whom nothing is there: the vector itself follows.
    Vector v(decoder);
    v.author_bytes = 0xFFFFFFFF;
    std::string section = v.bytes();
    expect_sound(false, decoder, section.erase(24, 4));
    // A side that the model does not have, with its places.
    v = Vector(decoder);
    v.other = 1;
    expect_sound(false, decoder, v.bytes() + std::string(4 * v.samples, '\0'));
    // Without the last residuals, places and rows, and within the second vector's six numbers.
    v = Vector(decoder);
    v.count = 2;
    section = v.bytes();
    const std::size_t one = v.one().size();
    for (const std::size_t cut :
         {std::size_t{1}, std::size_t{4}, std::size_t{4} * v.samples, std::size_t{8} * v.samples,
          std::size_t{12} * v.samples, one - 24, one - 20, one - 4, one})
      expect_sound(false, decoder, section.substr(0, section.size() - cut));
  }
}

TEST_CASE("refusals: test vectors of both sides of a model, and of one of them") {
  // One layer each; a sample of every row.
  const auto with = [](uint32_t source, uint32_t target) {
    WeightFile file("tiny-d2l-f32");
    std::string section = words({1, 0, 0, bits_of(1), 1, 0});
    section += words({source, target, 0, 0, 0, 0});
    const uint32_t rows = target != 0 ? target : source;
    section += std::string(4 * (source + target + 1), '\0');
    for (uint32_t row = 0; row < rows; ++row) section += words({0, 0, bits_of(1), 0});
    section += std::string(8 * ((source != 0) + (target != 0)), '\0');
    file.sections[kSectionVectors] = {0, section};
    return opened(file.write());
  };
  const char* const line = "test vectors: the section is not sound";
  expect(with(3, 3), PHASOR_OK, "");
  expect(with(3, 0), PHASOR_BAD_FILE, line);
  expect(with(0, 3), PHASOR_BAD_FILE, line);
}

TEST_CASE("refusals: a test vector that is longer than its section is not read") {
  // All that follows are zeros, which are ids; the file ends before the vector would.
  WeightFile file("tiny-lm-f32");
  for (StoredTensor& t : file.tensors) t.bytes.assign(t.bytes.size(), '\0');
  constexpr uint32_t kAuthor = 1u << 18, kIds = 20000;
  file.sections[kSectionVectors] = {0, words({1, 0, kAuthor, bits_of(1), 1, 0}) +
                                           std::string(kAuthor, 'a') +
                                           words({0, kIds, 0, 0, 0, 0})};
  const Block block = file.write();
  REQUIRE(block.size() < kAuthor + 4 * kIds);
  expect(opened(block), PHASOR_BAD_FILE, "test vectors: the section is not sound");
}

TEST_CASE("refusals: test vectors that are cut off, or have something behind them") {
  for (const bool decoder : {true, false}) {
    Vector v(decoder);
    v.count = 2;
    const std::string whole = v.bytes();
    expect_sound(true, decoder, whole);
    for (std::size_t n = 1; n < whole.size(); ++n) expect_sound(false, decoder, whole.substr(0, n));
    for (std::size_t n = 1; n <= 8; ++n) expect_sound(false, decoder, whole + std::string(n, '\0'));
    // Counts that would wrap 32 or 64 bits.
    for (const std::size_t at : {std::size_t{28}, std::size_t{32}})
      for (const uint32_t value : {0x40000000u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
        std::string bad = whole;
        bad.replace(at, 4, words({value}));
        expect_sound(false, decoder, bad);
      }
  }
}

namespace {

// Replays the only vector of tiny-lm-f32 in a session.
Said replayed(const Block& file, uint32_t index = 0, uint32_t logit_rows = 3,
              phasor_vector_result* out = nullptr) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  {
    const Engine e(file, nullptr);
    limits = limits_for_vectors(e.model);
  }
  limits.logit_rows = logit_rows;
  limits.best_rows = logit_rows == 0 ? 1 : 0;
  const Engine e(file, nullptr, &limits);
  phasor_vector_result result{};
  result.struct_size = sizeof result;
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_status status = phasor_vector_run(e.session, index, &result, &error);
  if (out != nullptr) *out = result;
  return said_of(status, error);
}

Block with_vector(const Vector& v) {
  WeightFile file("tiny-lm-f32");
  file.sections[kSectionVectors] = {0, v.bytes()};
  return file.write();
}

bool begins(const std::string& line, const char* words) {
  return line.compare(0, std::strlen(words), words) == 0;
}

}  // namespace

TEST_CASE("refusals: a replay of vectors that are not the engine's") {
  Vector v(true);
  expect(replayed(with_vector(v)), PHASOR_OK, "");
  expect(replayed(with_vector(v), 1), PHASOR_BAD_INPUT, "no test vector 1");
  expect(replayed(with_vector(v), 0, 0), PHASOR_BAD_LIMITS,
         "limits.logit_rows: 0, a test vector needs at least 1");
  phasor_vector_result result{};
  expect(replayed(with_vector(v), 0, 1, &result), PHASOR_OK, "");
  Vector exact = v;
  exact.hash = result.hash;
  exact.numerics = phasor_numerics();
  expect(replayed(with_vector(exact)), PHASOR_OK, "");
  exact.hash ^= 1;
  expect(replayed(with_vector(exact)), PHASOR_MISMATCH,
         "vector 0: within the tolerance, but not the bits that were recorded");
  exact.numerics += 1;  // another arithmetic's bits say nothing
  expect(replayed(with_vector(exact)), PHASOR_OK, "");
  v.tolerance = bits_of(1e-6);
  const Said residual = replayed(with_vector(v));
  CHECK(residual.status == PHASOR_MISMATCH);
  CHECK(begins(residual.line, "decoder layer 0: the residual differs by "));
  // None of the file's own.
  WeightFile none("tiny-lm-f32");
  none.sections.clear();
  const Block file = none.write();
  const Engine e(file, nullptr);
  CHECK(phasor_vector_count(e.model) == 0);
  phasor_vector read{};
  read.struct_size = sizeof read;
  CHECK(phasor_vector_get(e.model, 0, &read) == PHASOR_BAD_INPUT);
  phasor_error error = PHASOR_ERROR_INIT;
  result.struct_size = sizeof result;
  CHECK(phasor_vector_run(e.session, 0, &result, &error) == PHASOR_BAD_INPUT);
}

TEST_CASE("refusals: a replay in limits that do not hold the vector's source") {
  const Block file = golden_file("tiny-t5-f32");
  phasor_limits limits{};
  {
    const Engine e(file, nullptr);
    limits = limits_for_vectors(e.model);
  }
  limits.source = 1;
  const Engine e(file, nullptr, &limits);
  phasor_vector_result result{};
  result.struct_size = sizeof result;
  phasor_error error = PHASOR_ERROR_INIT;
  uint32_t refused = 0;
  for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
    phasor_vector v{};
    v.struct_size = sizeof v;
    REQUIRE(phasor_vector_get(e.model, i, &v) == PHASOR_OK);
    const phasor_status status = phasor_vector_run(e.session, i, &result, &error);
    CHECK((status == PHASOR_OK) == (v.source_count <= 1));
    refused += status != PHASOR_OK ? 1u : 0u;
  }
  CHECK(refused != 0);
}

TEST_CASE("refusals: a replay in limits that do not hold the vector's target") {
  const Block file = golden_file("tiny-lm-f32");
  phasor_limits limits{};
  phasor_vector v{};
  v.struct_size = sizeof v;
  uint32_t last = 0;
  {
    const Engine e(file, nullptr);
    limits = limits_for_vectors(e.model);
    last = phasor_vector_count(e.model) - 1;
    REQUIRE(phasor_vector_get(e.model, last, &v) == PHASOR_OK);
  }
  REQUIRE(v.target_count > 1);
  for (const uint32_t target : {v.target_count, v.target_count - 1}) {
    limits.target = target;
    const Engine e(file, nullptr, &limits);
    phasor_vector_result result{};
    result.struct_size = sizeof result;
    CHECK(phasor_vector_run(e.session, last, &result, nullptr) ==
          (target == v.target_count ? PHASOR_OK : PHASOR_FULL));
  }
}

TEST_CASE("refusals: a replay's logits and best tokens are within the tolerance, or named") {
  // The file's own vectors, with one number that is not the engine's.
  const WeightFile golden("tiny-lm-f32");
  const std::string section = golden.sections.at(kSectionVectors).bytes;
  const unsigned char* const p = reinterpret_cast<const unsigned char*>(section.data());
  const uint32_t samples = load_u32(p + 16), author = (load_u32(p + 8) + 3) / 4 * 4;
  const std::size_t vector = 24 + author;
  REQUIRE(load_u32(p + vector) == 0);
  const std::size_t rows = vector + 24 + 4 * (load_u32(p + vector + 4) + samples);
  const auto with = [&](std::size_t at, uint32_t value) {
    WeightFile file("tiny-lm-f32");
    file.sections[kSectionVectors].bytes.replace(at, 4, words({value}));
    return replayed(file.write());
  };
  expect(replayed(golden.write()), PHASOR_OK, "");
  const uint32_t best = load_u32(p + rows), other = best == 0 ? 1 : 0;
  const float largest = load_f32(p + rows + 4);
  const Said logit = with(rows + 4, bits_of(largest + 1));
  CHECK(logit.status == PHASOR_MISMATCH);
  CHECK(begins(logit.line, "position 0: a logit differs by "));
  const Said sample = with(rows + 12, bits_of(1e6));
  CHECK(begins(sample.line, "position 0: a logit differs by "));
  // Its own best token is another: where the tolerance forgives the value, the order is named.
  WeightFile file("tiny-lm-f32");
  std::string& bytes = file.sections[kSectionVectors].bytes;
  bytes.replace(rows, 4, words({other}));
  const Said place = replayed(file.write());
  CHECK(place.status == PHASOR_MISMATCH);
  CHECK(begins(place.line, "position 0: a logit differs by "));
}

TEST_CASE("refusals: a replay whose output is not a number") {
  WeightFile file("tiny-lm-f32");
  std::string& weights = file.tensors.back().bytes;  // the output's; opening does not read them
  for (std::size_t i = 0; i < weights.size(); i += 4) weights.replace(i, 4, words({0x7FC00000}));
  const Said said = replayed(file.write());
  CHECK(said.status == PHASOR_NOT_FINITE);
  CHECK(said.line == "position 0: an output is not a number");
}
