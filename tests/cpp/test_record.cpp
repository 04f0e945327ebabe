// The record of a file: what of its section is refused, number by number; what is put into it is
// read again.
#include <cmath>
#include <functional>
#include <limits>

#include "format/record.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

// A section for tiny-lm-f32 (V 59) or tiny-bert-f32 (V 57), with the rows of their test vectors.
struct Written {
  uint32_t rows, samples = 2, numerics = 0, divergence = bits_of(0.5), value = bits_of(-1);
  std::vector<uint32_t> places = {0, 5};
  std::string method = std::string("rounded").append(kMethodBytes - 7, '\0'), behind = {};

  explicit Written(uint32_t count) : rows(count) {}

  std::string bytes() const {
    std::string out = words({rows, samples, divergence, numerics});
    for (const char c : {'s', 'c'}) out += std::string(kDigestBytes, c);
    out += method;
    for (uint32_t row = 0; row < rows; ++row) {
      out += words(places);
      for (uint32_t i = 0; i <= samples; ++i) append_u32(&out, value);
    }
    return out + behind;
  }
};

uint32_t rows_of(const std::string& golden) {
  const Block file = golden_file(golden);
  const Engine e(file, nullptr);
  uint32_t rows = 0;
  for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
    phasor_vector v = PHASOR_VECTOR_INIT;
    REQUIRE(phasor_vector_get(e.model, i, &v) == PHASOR_OK);
    rows += v.target_count != 0 ? v.target_count : v.source_count;
  }
  return rows;
}

Block file_with(const std::string& golden, const Written& record) {
  WeightFile file(golden);
  file.sections[kSectionRecord] = {0, record.bytes()};
  return file.write();
}

}  // namespace

TEST_CASE("refusals: a record, number by number") {
  using Edit = std::function<void(Written*)>;
  struct Row {
    bool sound;
    Edit edit;
  };
  const uint32_t infinite = 0x7F800000, nan = 0x7FC00000;
  const std::string text = "0123456789012345678901234567890123456789012345678901234567890123";
  for (const auto& [golden, width] : {std::pair("tiny-lm-f32", 59u), {"tiny-bert-f32", 57u}}) {
    CAPTURE(golden);
    const uint32_t last = width - 1, most = width;
    std::vector<uint32_t> every(most);
    for (uint32_t i = 0; i < most; ++i) every[i] = i;
    const Row rows[] = {
        {true, [](Written*) {}},
        {true, [](Written* r) { r->rows = 0, r->samples = 0; }},
        {false, [](Written* r) { r->rows = 0; }},
        {false, [](Written* r) { r->samples = 0, r->places = {}; }},
        {false, [](Written* r) { r->rows = 0, r->samples = 0, r->numerics = 1; }},
        {true, [](Written* r) { r->numerics = 0xFFFFFFFF; }},
        {false, [](Written* r) { ++r->rows; }},
        {false, [](Written* r) { --r->rows; }},
        {false, [](Written* r) { r->behind = std::string(4, '\0'); }},
        {true, [&](Written* r) { r->samples = most, r->places = every; }},
        {false,
         [&](Written* r) {
           r->samples = most + 1, r->places = every;
           r->places.push_back(0);
         }},
        {true, [](Written* r) { r->samples = 1, r->places = {0}; }},
        {true, [=](Written* r) { r->places = {0, last}; }},
        {false, [=](Written* r) { r->places = {0, last + 1}; }},
        {false, [](Written* r) { r->places = {5, 5}; }},
        {false, [](Written* r) { r->places = {5, 4}; }},
        {true, [](Written* r) { r->value = 0x7F7FFFFF; }},
        {false, [=](Written* r) { r->value = infinite; }},
        {false, [=](Written* r) { r->value = nan; }},
        {true, [](Written* r) { r->divergence = 0; }},
        {false, [](Written* r) { r->divergence = bits_of(-0.5); }},
        {false, [=](Written* r) { r->divergence = infinite; }},
        {false, [=](Written* r) { r->divergence = nan; }},
        {true, [&](Written* r) { r->method = text; }},
        {false, [](Written* r) { r->method.assign(kMethodBytes, '\0'); }},
        {false, [](Written* r) { r->method[0] = '\0'; }},
        {false, [](Written* r) { r->method[0] = '\x1F'; }},
        {true, [](Written* r) { r->method[0] = '~'; }},
        {false, [](Written* r) { r->method[0] = '\x7F'; }},
        {false, [](Written* r) { r->method[3] = '\0'; }},
        {false, [](Written* r) { r->method.back() = 'a'; }},
    };
    std::size_t number = 0;
    const uint32_t count = rows_of(golden);
    for (const Row& row : rows) {
      CAPTURE(number++);
      Written record(count);
      row.edit(&record);
      expect(opened(file_with(golden, record)), row.sound ? PHASOR_OK : PHASOR_BAD_FILE,
             row.sound ? "" : "record: the section is not sound");
    }
    const std::string whole = Written(count).bytes();
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{143}, std::size_t{144}, whole.size() - 1}) {
      CAPTURE(size);
      WeightFile file(golden);
      file.sections[kSectionRecord] = {0, whole.substr(0, size)};
      expect(opened(file.write()), PHASOR_BAD_FILE, "record: the section is not sound");
    }
    // Rows of outputs without the test vectors whose they are.
    WeightFile file(golden);
    file.sections.erase(kSectionVectors);
    file.sections[kSectionRecord] = {0, whole};
    expect(opened(file.write()), PHASOR_BAD_FILE, "record: the section is not sound");
  }
}

TEST_CASE("a record is what was put, and its rows stay") {
  const Block file = file_with("tiny-lm-f32", Written(rows_of("tiny-lm-f32")));
  Engine e(file, nullptr);
  phasor_record record = PHASOR_RECORD_INIT;
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_record_get(e.model, &record) == PHASOR_OK);
  CHECK(record.samples == 2);
  CHECK(record.outputs[1] == 5);
  CHECK(std::string(record.method, record.method_bytes) == "rounded");
  CHECK(std::string(reinterpret_cast<const char*>(record.source), 32) == std::string(32, 's'));
  const std::string method = "rounded moments";
  const Block before(file.data(), file.size());
  const auto put = [&](const char* line) {
    CHECK(phasor_record_put(e.model, file.data(), &record, &error) ==
          (*line == 0 ? PHASOR_OK : PHASOR_BAD_INPUT));
    if (*line != 0) CHECK(std::string(error.text) == line);
  };
  record.method = method.data();
  record.method_bytes = static_cast<uint32_t>(method.size());
  record.numerics = 7;
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    record.divergence = static_cast<float>(wrong);
    CHECK(phasor_record_put(e.model, file.data(), &record, &error) == PHASOR_BAD_INPUT);
  }
  record.divergence = 0.25f;
  record.method_bytes = 65;
  put("method: expected 1 to 64 printable characters");
  record.method_bytes = 0;
  put("method: expected 1 to 64 printable characters");
  record.method = "a\nb";
  record.method_bytes = 3;
  put("method: expected 1 to 64 printable characters");
  CHECK(phasor_record_put(e.model, before.data(), &record, &error) ==
        PHASOR_BAD_INPUT);
  CHECK(std::memcmp(before.data(), file.data(), file.size()) == 0);
  record.method = method.data();
  record.method_bytes = static_cast<uint32_t>(method.size());
  put("");
  Engine again(file, nullptr);
  CHECK(phasor_model_check(again.model, &error) == PHASOR_OK);
  phasor_record second = PHASOR_RECORD_INIT;
  REQUIRE(phasor_record_get(again.model, &second) == PHASOR_OK);
  CHECK(second.divergence == 0.25f);
  CHECK(second.numerics == 7);
  CHECK(std::string(second.method, second.method_bytes) == method);
  CHECK(second.rows == record.rows);
  CHECK(second.outputs[1] == 5);
}

TEST_CASE("a file without a record says so") {
  const Block file = golden_file("tiny-lm-f32");
  Engine e(file, nullptr);
  phasor_record record = PHASOR_RECORD_INIT;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_record_get(e.model, &record) == PHASOR_BAD_INPUT);
  const unsigned char none[32] = {};
  record.source = record.calibration = none;
  record.method = "a";
  record.method_bytes = 1;
  CHECK(phasor_record_put(e.model, file.data(), &record, &error) == PHASOR_BAD_FILE);
  CHECK(std::string(error.text) == "no record");
}
