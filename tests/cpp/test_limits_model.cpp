// Opening a model at its limits: the last tensor of the directory, a shape one more and one less,
// sets of weights, windows, and lists at the marks of their 16th records.
#include "model/model.h"

#include "format/tensors.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

using Layers = std::vector<uint32_t>;

constexpr uint32_t kF32Rows = 1 | 2 << 8;

// "r0", "r1", … with the character of a record's end between them.
std::string records(uint32_t count) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i) out += (i == 0 ? "r" : "\x1Er") + std::to_string(i);
  return out;
}

}  // namespace

TEST_CASE("limits of a model: behind the last tensor of a directory nothing is read") {
  // One tensor, the embedding: 56 bytes of directory in the last line of the head, and four bytes.
  WeightFile file("tiny-lm-f32");
  for (const char* name : {"target.pad", "target.unknown", "target.start", "target.end"})
    file.erase(name);
  file.set("target.vocabulary", 1).set("decoder.width", 1).set("decoder.position", 0);
  file.sections.clear();
  file.tensors = {{kStackTarget << 24 | kRoleEmbedding, kF32Rows, 1, 1, 0, std::string(4, '\0')}};
  const Said said = opened(file.write());
  expect(said, PHASOR_BAD_FILE,
         "decoder set 0: no tensor \"norm before attention, weight\", the descriptor asks for it");
}

TEST_CASE("limits of a model: one that is refused is not handed out") {
  WeightFile file("tiny-lm-f32");
  file.tensors.pop_back();
  const Block block = file.write(), memory(OpenModel::size_of(block));
  File view{};
  REQUIRE(open_file(&view, block.data(), block.size(), nullptr) == PHASOR_OK);
  Model* model = nullptr;
  CHECK(model_open(&model, memory.data(), view, nullptr, nullptr) == PHASOR_BAD_FILE);
  CHECK(model == nullptr);
}

TEST_CASE("limits of a model: sets of weights that are used again, and one that comes later") {
  WeightFile file("tiny-lm-f32");
  file.sections.clear();  // test vectors of two layers
  file.set("decoder.layers", Layers{0, 0, 0, 0, 0, 1, 0, 0, 0, 1});
  const OpenModel m(file.write());
  const uint32_t sets[] = {0, 0, 1, 0, 1};
  for (uint32_t i = 0; i < 5; ++i) {
    CHECK(m.inside().layer(kDecoder, i).set == sets[i]);
    CHECK(m.inside().layer(kDecoder, i).qkv.weight.offset ==
          m.inside().layer(kDecoder, sets[i] == 0 ? 0 : 2).qkv.weight.offset);
  }
  CHECK(m.inside().layer(kDecoder, 0).qkv.weight.offset !=
        m.inside().layer(kDecoder, 2).qkv.weight.offset);
  // A set whose second layer is of a later kind, as one of an earlier kind is, is refused.
  WeightFile kinds("tiny-lm-f32");
  kinds.add_kind();
  kinds.sections.clear();
  kinds.set("decoder.layers", Layers{0, 0, 1, 0, 1, 1});
  expect(opened(kinds.write()), PHASOR_UNSUPPORTED,
         "decoder.layers: layers 0 and 1 share weights and differ in kind, which is not supported");
}

TEST_CASE("limits of a model: the widest window, wherever it is, and the shortest table") {
  for (const uint32_t first : {6u, 7u, 8u}) {
    WeightFile file("tiny-olmo2-f32");
    file.sections.clear();
    file.set("kind0.window", first);
    const OpenModel m(file.write());
    CHECK(m.inside().window == (first < 7 ? 7 : first));
    CHECK(m.inside().cache.values == 0);
    Model& model = m.inside();
    KindDescriptor* const kinds = model.part<KindDescriptor>(model.kinds_at);
    kinds[0].position = kinds[1].position = kRelativeKey;
    kinds[1].max_distance = 7;
    kinds[0].max_distance = first;
    for (const uint32_t most : {0u, 5u, 6u, 7u, 9u}) {
      model.descriptor.stacks[kDecoder].max_positions = most;
      const uint32_t shortest = first < 7 ? first : 7;
      CHECK(longest_sequence(model, kDecoder) == (most != 0 && most < shortest ? most : shortest));
    }
    kinds[0].position = kClippedRelative;  // its table has no end
    CHECK(longest_sequence(model, kDecoder) == 7);
  }
}

TEST_CASE("limits of a model: hidden states are tied to nothing") {
  WeightFile file("tiny-bert-f32");
  file.sections.clear();
  for (const char* name : {"head_width", "head_activation", "head_norm", "head_bias"})
    file.erase(std::string("output.") + name);
  while (file.tensors.back().key >> 24 == kStackOutput) file.tensors.pop_back();
  expect(opened(file.set("output.output", 2).set("output.tied", 1).write()), PHASOR_OK, "");
}

TEST_CASE("limits of a model: a mark for every 16 records, and every record found from its mark") {
  WeightFile file("tiny-classes-f32");
  const auto size = [&](const char* list, uint32_t count) {
    WeightFile changed = file;
    return OpenModel::size_of(changed.set(list, records(count)).write());
  };
  for (const char* list : {"output.labels", "output.prompts"}) {
    CAPTURE(list);
    // Sixteen marks are a line of the block.
    std::size_t lines = 0;
    for (uint32_t n = 16; n <= 256; n += 16) {
      CHECK(size(list, n - 15) == size(list, n));
      CHECK(size(list, n + 256) == size(list, n) + 64);
      lines += size(list, n + 1) - size(list, n);
    }
    CHECK(lines == 64);
  }
  // 40 labels and 40 prompts before the fields.
  file.sections.clear();
  file.set("output.classes", 40).set("output.labels", records(40));
  file.set("output.prompts", records(40));
  for (StoredTensor& t : file.tensors) {
    if (t.key >> 24 != kStackOutput || t.rows != 3) continue;
    t.rows = 40;
    t.panels = t.panels * 3;
    t.bytes.assign(t.panels != 0 ? std::size_t{3} * 16 * 24 * 4 : 160, '\0');
  }
  const OpenModel m(file.write());
  for (uint32_t i = 0; i < 40; ++i) {
    std::size_t bytes = 0, text_bytes = 0;
    const char *name = nullptr, *text = nullptr;
    const char* const label = phasor_label(m.model, i, &bytes);
    REQUIRE(label != nullptr);
    CHECK(std::string(label, bytes) == "r" + std::to_string(i));
    REQUIRE(phasor_prompt(m.model, i, &name, &bytes, &text, &text_bytes) == PHASOR_OK);
    CHECK(std::string(name, bytes) == "r" + std::to_string(i));
  }
  REQUIRE(phasor_field_count(m.model) == file.meta.size());
  uint32_t i = 0;
  for (const auto& [key, item] : file.meta) {
    phasor_field field{};
    field.struct_size = sizeof field;
    REQUIRE(phasor_field_get(m.model, i++, &field) == PHASOR_OK);
    char text[64], value[208];
    Line name(text, sizeof text), rest(value, sizeof value);
    describe_meta({key, item.type, item.flags != 0, static_cast<uint32_t>(item.value.size()),
                   reinterpret_cast<const unsigned char*>(item.value.data())},
                  &name, &rest);
    CHECK(std::string(field.name) == text);
    CHECK(std::string(field.value) == value);
  }
  CHECK(phasor_field_get(m.model, i, std::make_unique<phasor_field>().get()) == PHASOR_BAD_INPUT);
}

TEST_CASE("limits of a model: an embedding that is wider or narrower than the model is projected") {
  const uint32_t embedding = kStackTarget << 24 | kRoleEmbedding;
  for (const uint32_t width : {30u, 34u}) {
    WeightFile file("tiny-lm-f32");
    file.set("decoder.embedding_width", width).set("decoder.projection_bias", 1);
    file.tensor(embedding) = {embedding, kF32Rows, 59, width, 0, std::string(59 * width * 4, '\0')};
    expect(opened(file.write()), PHASOR_BAD_FILE,
           "target set 0: no tensor \"embedding projection weight\", the descriptor asks for it");
  }
  WeightFile file("tiny-lm-f32");
  expect(opened(file.set("decoder.projection_bias", 1).write()), PHASOR_BAD_FILE,
         "decoder.projection_bias: the embedding is not projected");
}

TEST_CASE("limits of a model: what an output begins with, said at open") {
  const auto begun = [](const char* name, const uint32_t* start, const uint32_t* forced,
                        phasor_side* side) {
    const Block file = WeightFile(name).write(), memory(OpenModel::size_of(file));
    phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
    options.decoder_start = start;
    options.forced_first = forced;
    phasor_model* model = nullptr;
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_status status = phasor_model_open(&model, memory.data(), memory.size(),
                                                   file.data(), file.size(), &options, &error);
    CHECK((model != nullptr) == (status == PHASOR_OK));
    if (status == PHASOR_OK) *side = target_of(model);
    return std::string(error.text);
  };
  phasor_side was{}, side{};
  CHECK(begun("tiny-d2l-f32", nullptr, nullptr, &was) == "");
  const uint32_t five = 5, last = was.vocabulary - 1, past = was.vocabulary;
  CHECK(begun("tiny-d2l-f32", &five, nullptr, &side) == "");
  CHECK(side.decoder_start == 5);
  CHECK(side.forced_first == was.forced_first);
  CHECK(begun("tiny-d2l-f32", nullptr, &last, &side) == "");
  CHECK(side.decoder_start == was.decoder_start);
  CHECK(side.forced_first == last);
  const std::string large = "decoder_start, forced_first: token id " + std::to_string(past) +
                            ", the vocabulary has " + std::to_string(past);
  CHECK(begun("tiny-d2l-f32", &past, nullptr, &side) == large);
  CHECK(begun("tiny-d2l-f32", &five, &past, &side) == large);
  for (const char* name : {"tiny-lm-f32", "tiny-bert-f32"})
    CHECK(begun(name, nullptr, &five, &side) ==
          "decoder_start, forced_first: the model is no encoder-decoder");
}
