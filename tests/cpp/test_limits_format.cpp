// The checks of the framing and the descriptor at their limits, where test_refusals_file.cpp and
// test_refusals_descriptor.cpp have another number than the next one: found by `make mutants`.
#include "format/tensors.h"
#include "model/model.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

using Layers = std::vector<uint32_t>;

constexpr const char *kLm = "tiny-lm-f32", *kBert = "tiny-bert-f32", *kT5 = "tiny-t5-f32",
                     *kD2l = "tiny-d2l-f32", *kChat = "tiny-chat-f32";

struct Edits {
  const char* model;
  std::vector<std::pair<const char*, Item>> items;
};
Block made(const Edits& edits) {
  WeightFile file(edits.model);
  for (const auto& [name, item] : edits.items) file.set(name, item);
  return file.write();
}

// What is said of a model with these values; "" where it is accepted.
std::string said_of(const Edits& edits) { return measured(made(edits)).line; }

Block changed(const Block& file, std::size_t at, uint32_t value) {
  Block copy(file.data(), file.size());
  store_u32(copy.data() + at, value);
  WeightFile::reseal(&copy);
  return copy;
}

// The descriptor and the kinds of a model with these values.
struct Read {
  Descriptor d{};
  std::vector<KindDescriptor> kinds;
  Block block;
  File file{};
  explicit Read(const Edits& edits) : block(made(edits)) {
    REQUIRE(open_file(&file, block.data(), block.size(), nullptr) == PHASOR_OK);
    REQUIRE(read_descriptor(&d, nullptr, file, nullptr) == PHASOR_OK);
    kinds.resize(d.kinds);
    REQUIRE(read_descriptor(&d, kinds.data(), file, nullptr) == PHASOR_OK);
  }
};

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

TEST_CASE("limits of the format: every word of every choice") {
  uint32_t count = 0;
  const Field* const fields = descriptor_fields(&count);
  for (uint32_t i = 0; i < count; ++i) {
    const Field& f = fields[i];
    if (f.choices == nullptr) continue;
    CAPTURE(f.name);
    std::string left = f.choices;
    for (uint32_t value = f.low; value <= f.high; ++value) {
      const std::string expected = left.substr(0, left.find('|'));
      left = expected.size() < left.size() ? left.substr(expected.size() + 1) : "";
      unsigned char bytes[4];
      store_u32(bytes, value);
      const Meta meta{uint32_t{f.scope} << 24 | f.number, kMetaU32, true, 4, bytes};
      char name[64], text[64];
      Line names(name, sizeof name), words(text, sizeof text);
      describe_meta(meta, &names, &words);
      CHECK(std::string(text) == expected);
      CHECK_FALSE(expected.empty());
    }
  }
}

TEST_CASE("limits of the format: values of another type, and what follows from others") {
  CHECK(said_of({kLm, {{"kind0.norm_eps", 1}}}) == "kind0.norm_eps: has type 1, expected 2");
  CHECK(said_of({kLm, {{"kind0.kv_heads", 3}, {"kind0.cross_kv_heads", 1}}}) ==
        "kind0.kv_heads: does not divide the heads");
  const KindDescriptor plain = Read({kLm, {}}).kinds[0];
  CHECK(plain.cross_head_width == plain.head_width);
  CHECK(plain.cross_scale == plain.scale);
  const KindDescriptor own =
      Read({kLm, {{"kind0.cross_head_width", 7}, {"kind0.cross_scale", 0.5}}}).kinds[0];
  CHECK(own.cross_head_width == 7);
  CHECK(plain.cross_heads == 2);
  CHECK(Read({kLm, {{"kind0.cross_heads", 6}}}).kinds[0].cross_heads == 6);
  CHECK(own.cross_scale == 0.5f);
  for (const uint32_t norm : {kNormLayer, kNormRms}) {
    WeightFile none(kLm);
    none.erase("kind0.norm_biases").set("kind0.norm", norm);
    const Block block = none.write();
    File file{};
    Descriptor d{};
    KindDescriptor k{};
    REQUIRE(open_file(&file, block.data(), block.size(), nullptr) == PHASOR_OK);
    REQUIRE(read_descriptor(&d, &k, file, nullptr) == PHASOR_OK);
    CHECK(k.norm_biases == (norm == kNormLayer ? 1 : 0));
    CHECK(Read({kLm, {{"kind0.norm_biases", 1}, {"kind0.norm", norm}}}).kinds[0].norm_biases == 1);
    CHECK(Read({kLm, {{"kind0.norm_biases", 0}, {"kind0.norm", norm}}}).kinds[0].norm_biases == 0);
  }
  // A kind that has no cross-attention has no tensor of one.
  expect(opened(WeightFile(kLm).set("kind0.cross_score", 1).write()), PHASOR_OK, "");
}

TEST_CASE("limits of the format: the first of several ids, and the sets of weights") {
  const char* const id = "target: special id 59 is not below the vocabulary 59";
  CHECK(said_of({kLm, {{"target.end", Layers{59, 0}}}}) == id);
  CHECK(said_of({kLm, {{"target.end", Layers{58, 0}}}}) == "");
  // Where there is a tokenizer behind the ids too.
  const uint32_t vocabulary = Read({kChat, {}}).d.sides[kDecoder].vocabulary;
  const std::string n = std::to_string(vocabulary);
  CHECK(said_of({kChat, {{"target.pad", vocabulary}}}) ==
        "target: special id " + n + " is not below the vocabulary " + n);
  const char* const order =
      "decoder.layers: sets of weights must be numbered in order of first use";
  CHECK(said_of({kLm, {{"decoder.layers", Layers{0, 0, 0, 0, 0, 1}}}}) == "");
  CHECK(said_of({kLm, {{"decoder.layers", Layers{0, 0, 0, 0, 0, 2}}}}) == order);
  CHECK(said_of({kLm, {{"decoder.layers", Layers{0, 0, 0, 1, 0, 0, 0, 2}}}}) == "");
  CHECK(said_of({kLm, {{"decoder.layers", Layers{0, 0, 0, 1, 0, 0, 0, 3}}}}) == order);
}

TEST_CASE("limits of the format: widths and vocabularies, larger and smaller") {
  const Read t5({kT5, {}});
  const uint32_t width = t5.d.stacks[kEncoder].width;
  CHECK(said_of({kT5, {{"decoder.cross_width", width + 1}}}) ==
        "decoder.cross_width: " + std::to_string(width + 1) + ", the encoder's width is " +
            std::to_string(width));
  const char* const shared = "target.embedding_shared: the sides differ in vocabulary or width";
  const uint32_t words = t5.d.sides[kEncoder].vocabulary;
  const Edits larger[] = {
      {kT5, {{"source.vocabulary", words + 1}}},
      {kT5, {{"source.vocabulary", words - 1}}},
      {kT5, {{"encoder.embedding_width", width + 2}}},
      {kT5, {{"encoder.embedding_width", width - 2}}},
  };
  for (const Edits& edits : larger) CHECK(said_of(edits) == shared);
  for (const uint32_t n : {words - 1, words + 1})
    CHECK(
        said_of({kT5,
                 {{"output.tied", 2}, {"source.vocabulary", n}, {"target.embedding_shared", 0}}}) ==
        "output.tied: the source embedding has another shape");
  const uint32_t lm = Read({kLm, {}}).d.stacks[kDecoder].width;
  for (const uint32_t n : {lm - 1, lm + 1})
    CHECK(said_of({kLm, {{"output.tied", 1}, {"output.head_width", n}}}) ==
          "output.tied: the target embedding has another shape");
  CHECK(said_of({kLm, {{"output.tied", 1}, {"output.head_width", lm}}}) == "");
  // Of an encoder's hidden states nothing is tied; a head's width alone is a head.
  WeightFile hidden(kBert);
  for (const char* name : {"head_width", "head_activation", "head_norm", "head_bias"})
    hidden.erase(std::string("output.") + name);
  hidden.set("output.output", 2).set("output.tied", 1);
  expect(measured(hidden.write()), PHASOR_OK, "");
  hidden.set("output.head_width", 8);
  expect(measured(hidden.write()), PHASOR_BAD_FILE, "output: hidden states have no head");
}

TEST_CASE("limits of the format: halves of a side alone, and the last scope") {
  const auto without = [](const char* model, uint32_t scope) {
    WeightFile file(model);
    for (auto it = file.meta.begin(); it != file.meta.end();)
      it = it->first >> 24 == scope ? file.meta.erase(it) : std::next(it);
    return measured(file.write()).line;
  };
  const char* const decoder = "target side and decoder: missing, the stack needs them";
  const char* const encoder = "source side and encoder: missing, the stack needs them";
  CHECK(without(kLm, kScopeDecoder) == decoder);
  CHECK(without(kLm, kScopeTarget) == decoder);
  CHECK(without(kBert, kScopeEncoder) == encoder);
  CHECK(without(kBert, kScopeSource) == encoder);
  CHECK(without(kD2l, kScopeEncoder) == encoder);
  CHECK(without(kD2l, kScopeSource) == encoder);
  WeightFile last(kLm);
  for (auto it = last.meta.begin(); it != last.meta.end();)
    it = it->first >> 24 > kScopeOutput ? last.meta.erase(it) : std::next(it);
  last.erase("output.output").set("output.scale", 2.0);
  expect(measured(last.write()), PHASOR_BAD_FILE, "output.output: is missing");
  // A descriptor that is refused is not handed out.
  const Block block = last.write();
  File file{};
  REQUIRE(open_file(&file, block.data(), block.size(), nullptr) == PHASOR_OK);
  Descriptor d{};
  d.kinds = 77;
  CHECK(read_descriptor(&d, nullptr, file, nullptr) == PHASOR_BAD_FILE);
  CHECK(d.kinds == 77);
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

TEST_CASE("limits of the format: the table of roles reads the kinds that there are") {
  const Read lm({kLm, {}});
  const Block exact(lm.kinds.data(), lm.kinds.size() * sizeof(KindDescriptor));
  uint32_t count = 0;
  each_role(
      lm.file, lm.d, reinterpret_cast<const KindDescriptor*>(exact.data()),
      [](void* context, const Role& role) { *static_cast<uint32_t*>(context) += role.there; },
      &count);
  CHECK(count == entry_count(lm.file));
}
