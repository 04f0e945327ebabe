// The checks of the framing and the descriptor at their limits, where test_refusals_file.cpp and
// test_refusals_descriptor.cpp have another number than the next one: found by `make mutants`.
#include "format/tensors.h"
#include "model/model.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

constexpr const char* kLm = "tiny-lm-f32";

Block changed(const Block& file, std::size_t at, uint32_t value) {
  Block copy(file.data(), file.size());
  store_u32(copy.data() + at, value);
  WeightFile::reseal(&copy);
  return copy;
}

}  // namespace

TEST_CASE("limits of the format: the header's sizes") {
  const Block good = golden_file(kLm);
  const std::string bytes = std::to_string(good.size());
  const auto says = [&](const std::string& n) {
    return "the header says " + n + " bytes, the file has ";
  };
  Block most(good.data(), good.size());
  store_u64(most.data() + 24, UINT64_MAX);
  if (SIZE_MAX < UINT64_MAX)  // a machine of 32 bits
    expect(measured(most), PHASOR_TOO_LARGE,
           "the file has 18446744073709551615 bytes: too large for this machine");
  else
    expect(measured(most), PHASOR_BAD_FILE, says("18446744073709551615") + bytes);
  Block longer(good.size() + 64);
  std::memset(longer.data(), 0, longer.size());
  std::memcpy(longer.data(), good.data(), good.size());
  expect(measured(longer), PHASOR_BAD_FILE, says(bytes) + std::to_string(good.size() + 64));
  for (const uint32_t off : {1u, 0xFFFFFFFFu}) {
    Block sum(good.data(), good.size());
    store_u32(sum.data() + 40, load_u32(sum.data() + 40) + off);
    expect(measured(sum), PHASOR_BAD_CHECKSUM,
           "the head's checksum is wrong: the header, metadata or directory is damaged");
  }
  // A file that is all head: the sections behind the head are what is wrong with it.
  WeightFile made(kLm);
  made.sections.clear();
  const Block plain = made.write();
  Block whole((plain.size() + 63) / 64 * 64);
  std::memset(whole.data(), 0, whole.size());
  std::memcpy(whole.data(), plain.data(), plain.size());
  store_u64(whole.data() + 24, whole.size());
  store_u64(whole.data() + 32, whole.size());
  WeightFile::reseal(&whole);
  expect(measured(whole), PHASOR_BAD_FILE, "section 15: must lie after the head");
  // A head that ends with the table, and one that ends with the metadata.
  made.sections[9] = {0, "x"};  // four sections: 64 + 128 bytes
  const Block four = made.write();
  const std::size_t meta_at = load_u32(four.data() + 72);
  REQUIRE(meta_at == 192);
  expect(measured(changed(four, 32, 192)), PHASOR_BAD_FILE, "section 1: must lie in the head");
  const std::size_t rest = (made.meta_bytes().size() + 12) % 64;
  made.meta[200u << 24] = {kMetaString, 0, std::string(64 - rest, 'x')};
  const std::string padded = made.meta_bytes();
  REQUIRE(padded.size() % 64 == 0);
  const Block full = made.write();
  expect(measured(full), PHASOR_OK, "");
  const uint32_t meta_end = static_cast<uint32_t>(192 + padded.size());
  expect(measured(changed(full, 32, meta_end)), PHASOR_BAD_FILE, "section 2: must lie in the head");
}

TEST_CASE("limits of the format: as many sections as there may be") {
  for (const uint32_t more : {13u, 14u}) {
    WeightFile made(kLm);
    made.sections.clear();
    for (uint32_t i = 0; i < more; ++i) made.sections[20 + i] = {0, "x"};
    const Said said = measured(made.write());
    CHECK(said.line == (more == 13 ? "" : "17 sections, expected 2 to 16"));
  }
}

TEST_CASE("limits of the format: numbers that are not finite end with their value") {
  // The next key has the bits of an infinity.
  WeightFile made(kLm);
  made.meta[0x7F000001] = {kMetaF32, 0, words({bits_of(1)})};
  made.meta[0x7F800000] = {kMetaU32, 0, words({1})};
  expect(measured(made.write()), PHASOR_BAD_FILE, "metadata: index 2048 of scope 127, expected 0");
}

TEST_CASE("limits of the format: the directory's numbers") {
  const Block good = golden_file(kLm);
  const std::size_t at =
      static_cast<std::size_t>(load_u64(section_entry(good, kSectionDirectory) + 8));
  const uint32_t count = load_u32(good.data() + at);
  // What is expected stands in the error too.
  const Block less = changed(good, at, count - 1);
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  REQUIRE(phasor_model_size(&need, less.data(), less.size(), &error) == PHASOR_BAD_FILE);
  CHECK(error.expected == 8 + 48 * uint64_t{count - 1});
  CHECK(error.found == 8 + 48 * uint64_t{count});
  // Fewer bytes than the shape has, and none of a tensor that has none.
  const uint32_t bytes = load_u32(good.data() + at + 8 + 16);
  expect(measured(changed(good, at + 8 + 16, bytes - 4)), PHASOR_BAD_FILE,
         "directory: tensor 0: " + std::to_string(bytes - 4) +
             " bytes, its type, layout and shape ask for " + std::to_string(bytes));
  WeightFile made(kLm);
  made.tensors = {{1, 1 | 3 << 8, 0, 1, 0, ""}};
  Block none = made.write();
  store_u64(section_entry(none, kSectionData) + 16, 64);
  Block room(none.size() + 64);
  std::memset(room.data(), 0, room.size());
  std::memcpy(room.data(), none.data(), none.size());
  store_u64(room.data() + 24, room.size());
  WeightFile::reseal(&room);
  expect(measured(room), PHASOR_BAD_FILE,
         "directory: tensor 0: 0 bytes, its type, layout and shape ask for 0");
  // The most rows of 2^32 - 33 columns that can be counted: 2^28 of them.
  const uint32_t wide = 0xFFFFFFFF - kGroup;
  for (const uint32_t rows : {1u << 28, (1u << 28) + 1}) {
    made.tensors = {{1, 1 | 2 << 8, rows, wide, 0, std::string(1, '\0')}};
    const uint64_t expected = rows == 1u << 28 ? (uint64_t{wide} << 28) * 4 : 0;
    expect(measured(made.write()), PHASOR_BAD_FILE,
           "directory: tensor 0: 1 bytes, its type, layout and shape ask for " +
               std::to_string(expected));
  }
}

TEST_CASE("limits of the format: a tensor's checksum is too small or too large") {
  const Block good = golden_file(kLm);
  const std::size_t at =
      static_cast<std::size_t>(load_u64(section_entry(good, kSectionDirectory) + 8));
  const std::string line = "tensor 0 (key " + std::to_string(load_u32(good.data() + at + 8)) +
                           ") is damaged: its checksum is wrong";
  const uint32_t crc = load_u32(good.data() + at + 8 + 36);
  for (const uint32_t wrong : {crc - 1, crc + 1})
    expect(checked(changed(good, at + 8 + 36, wrong)), PHASOR_BAD_CHECKSUM, line);
  const std::size_t data =
      static_cast<std::size_t>(section_entry(good, kSectionData) - good.data());
  const uint32_t whole = load_u32(good.data() + data + 24);
  for (const uint32_t wrong : {whole - 1, whole + 1})
    expect(checked(changed(good, data + 24, wrong)), PHASOR_BAD_CHECKSUM,
           "section 15 is damaged: its checksum is wrong");
}

TEST_CASE("limits of the format: lists of texts end with their bytes") {
  const auto records = [](const std::string& text, uint32_t count) {
    const Block exact(text.data(), text.size());
    File file{};
    file.data = exact.data();
    file.bytes = exact.size();
    std::vector<std::string> found;
    Record record{};
    const Array list{0, count, 1};
    for (uint64_t at = 0; found.size() < 9 && next_record(file, list, &at, &record);)
      found.emplace_back(record.text, record.bytes);
    return found;
  };
  using Texts = std::vector<std::string>;
  CHECK(records("", 0) == Texts{});
  CHECK(records("a\x1E"
                "bc",
                4) == Texts{"a", "bc"});
  CHECK(records("a\x1E"
                "bc\x1E",
                5) == Texts{"a", "bc"});
  CHECK(records("a\x1E"
                "bcd",
                4) == Texts{"a", "bc"});
  CHECK(records("\x1E", 1) == Texts{""});
}
