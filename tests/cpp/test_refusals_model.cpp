// What of a file's tensors, weights and test vectors is refused, when it is opened or when every
// byte of it is read: a valid file but for the one thing that the line names.
#include "format/tensors.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "test_tokenizer.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

constexpr uint32_t kOutputWeight = kStackOutput << 24 | kRoleOutputWeight;
constexpr uint32_t kTargetEmbedding = kStackTarget << 24 | kRoleEmbedding;
constexpr uint32_t kF32 = 1, kF64 = 6, kPanel16 = 1 << 8, kRows = 2 << 8, kVector = 3 << 8;

}  // namespace

TEST_CASE("refusals: every tensor of another layout, shape or type, gone, or without a use") {
  for (const char* name : {"tiny-lm-f32", "tiny-relative-key-f32"}) {
    CAPTURE(name);
    const WeightFile good(name);
    const Read read(name);
    std::vector<Role> roles;
    const auto keep = [](void* to, const Role& role) {
      static_cast<std::vector<Role>*>(to)->push_back(role);
    };
    each_role(read.file, read.d, read.kinds.data(), keep, &roles);
    for (const Role& role : roles) {
      CAPTURE(role.key);
      const std::string set = std::string(stack_name(role.key >> 24)) + " set " +
                              std::to_string(role.key >> 8 & 0xFFFF);
      // The file with this tensor in place of the one that it has, if any.
      const auto with = [&](const StoredTensor* other) {
        WeightFile made(good);
        auto at = made.tensors.begin();
        while (at != made.tensors.end() && at->key < role.key) ++at;
        if (role.there) at = made.tensors.erase(at);
        if (other != nullptr) made.tensors.insert(at, *other);
        return opened(made.write());
      };
      if (!role.there) {
        const StoredTensor more{role.key, kF32 | kVector, 1, 1, 0, std::string(4, '\0')};
        expect(with(&more), PHASOR_BAD_FILE,
               set + ": tensor \"" + role.name + "\" (role " + std::to_string(role.key & 255) +
                   ") has no use in this model");
        continue;
      }
      expect(with(nullptr), PHASOR_BAD_FILE,
             set + ": no tensor \"" + role.name + "\", the descriptor asks for it");
      const auto number = [](uint32_t n) { return std::to_string(n); };
      const auto shape = [&](uint32_t rows, uint32_t cols, uint32_t panels) {
        return number(rows) + "x" + number(cols) + "/" + number(panels);
      };
      const bool panels_too = (role.layouts >> 1 & 1) != 0;
      const std::string expected = shape(role.rows(), role.cols, panels_too ? role.panels() : 0);
      for (const uint32_t type : {kF32, kF64})
        for (const uint32_t layout : {kPanel16, kRows, kVector})
          for (const int change : {0, -1, 1, -2, 2, -3, 3}) {
            if (type == kF64 && (layout != kVector || change != 0)) continue;
            const auto changed = [&](uint32_t n, int which) {
              return n + (change == which ? 1 : change == -which ? UINT32_MAX : 0);
            };
            const uint32_t rows = changed(role.rows(), 1), cols = changed(role.cols, 2),
                           panels = layout == kPanel16 ? changed(role.panels(), 3) : 0;
            const std::size_t values =
                layout == kPanel16 ? std::size_t{panels} * 16 * cols : std::size_t{rows} * cols;
            // What no directory has is refused there.
            if (values == 0 || (layout == kVector && cols != 1) ||
                (layout != kPanel16 && change * change == 9) ||
                (layout == kPanel16 && panels < (rows + 15) / 16))
              continue;
            const StoredTensor t{role.key, type | layout,
                                 rows,     cols,
                                 panels,   std::string(values * (type == kF64 ? 8 : 4), '\0')};
            const std::string line = set + ", " + role.name + ": ";
            if ((role.layouts >> (layout >> 8) & 1) == 0 || change != 0)
              expect(with(&t), PHASOR_BAD_FILE,
                     line + layout_name(Layout(layout >> 8)) + " " + shape(rows, cols, panels) +
                         ", expected " + expected);
            else if ((role.types >> type & 1) == 0)
              expect(with(&t), PHASOR_UNSUPPORTED,
                     line + "type " + type_name(Type(type)) + " is not supported for this tensor");
            else
              expect(with(&t), PHASOR_OK, "");
          }
    }
  }
  // A key that no row of the table has.
  for (const auto& [key, line] : std::map<uint32_t, const char*>{
           {9u << 24 | 3 << 8 | 1, "? set 3: tensor \"unknown tensor\" (role 1)"},
           {0, "kind set 0: tensor \"unknown tensor\" (role 0)"},
           {block_stack(kDecoder) << 24 | 2 << 8 | 0x20,
            "decoder set 2: tensor \"q,k,v weight\" (role 32)"}}) {
    WeightFile file("tiny-lm-f32");
    auto at = file.tensors.begin();
    while (at != file.tensors.end() && at->key < key) ++at;
    file.tensors.insert(at, {key, kF32 | kVector, 1, 1, 0, std::string(4, '\0')});
    expect(opened(file.write()), PHASOR_BAD_FILE, std::string(line) + " has no use in this model");
  }
}

TEST_CASE("refusals: layers of two kinds with one set of weights, and a tied embedding in rows") {
  WeightFile file("tiny-lm-f32");
  file.add_kind();
  file.sections.clear();  // test vectors of four layers
  file.set("decoder.layers", std::vector<uint32_t>{0, 0, 1, 1, 1, 1});
  expect(opened(file.write()), PHASOR_OK, "");
  file.set("decoder.layers", std::vector<uint32_t>{0, 0, 1, 1, 0, 1});
  expect(opened(file.write()), PHASOR_UNSUPPORTED,
         "decoder.layers: layers 1 and 2 share weights and differ in kind, which is not supported");
  WeightFile tied("tiny-lm-f32");
  tied.tensors.pop_back();
  tied.set("output.tied", 1);
  expect(opened(tied.write()), PHASOR_BAD_FILE,
         "output.tied: the embedding is in rows, a tied one must be in panels");
  tied.tensor(kTargetEmbedding) = {kTargetEmbedding,           kF32 | kPanel16, 59, 32, 4,
                                   std::string(4 * 2048, '\0')};
  expect(opened(tied.write()), PHASOR_OK, "");
}

TEST_CASE("refusals: a tokenizer of more pieces than the vocabulary has") {
  const auto with = [](std::size_t pieces) {
    tokenizer_tests::Parts p{};
    p.model = ModelNumber::words;
    for (std::size_t i = 0; i < pieces; ++i)
      p.pieces.push_back({std::to_string(i), i == 1 ? PieceType::unknown : PieceType::normal, 0});
    p.unknown = 1;
    const tokenizer_tests::Bytes section = tokenizer_tests::build(p);
    WeightFile file("tiny-lm-f32");
    file.sections[kSectionTargetTokenizer] = {0, std::string(section.begin(), section.end())};
    return opened(file.set("target.tokenizer", 4).write());
  };
  expect(with(59), PHASOR_OK, "");
  expect(with(60), PHASOR_BAD_FILE, "tokenizer (section 4): 60 pieces, the vocabulary has 59");
  WeightFile file("tiny-lm-f32");
  file.sections[kSectionTargetTokenizer] = {0, "none"};
  expect(opened(file.set("target.tokenizer", 4).write()), PHASOR_BAD_FILE,
         "tokenizer (section 4): the section is shorter than its header");
}

TEST_CASE("refusals: a model whose descriptor is not sound is not opened") {
  const Block file = WeightFile("tiny-lm-f32").set("kind0.cap", -1.0).write();
  const Block memory(1 << 16);
  File view{};
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(open_file(&view, file.data(), file.size(), &error) == PHASOR_OK);
  Model* model = nullptr;
  CHECK(model_open(&model, memory.data(), view, nullptr, &error) == PHASOR_BAD_FILE);
  CHECK(std::string(error.text) == "kind0.cap: is negative");
  CHECK(model == nullptr);
}

namespace {

// The model with these bits put over a value of a tensor, `at` bytes from its start.
Said with_bytes(const Block& golden, uint32_t key, uint64_t at, const std::string& bits) {
  WeightFile file(golden);
  std::string& bytes = file.tensor(key).bytes;
  REQUIRE(at + bits.size() <= bytes.size());
  bytes.replace(static_cast<std::size_t>(at), bits.size(), bits);
  return checked(file.write());
}
std::string half(uint32_t bits) { return words({bits}).substr(0, 2); }

Block in_type(const char* golden, const char* type) {
  const Block file = golden_file(golden);
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = type;
  std::size_t bytes = 0;
  REQUIRE(phasor_quantize_size(&bytes, file.data(), file.size(), &options, nullptr) == PHASOR_OK);
  Block out(bytes);
  REQUIRE(phasor_quantize(out.data(), bytes, nullptr, 0, file.data(), file.size(), &options,
                          nullptr) == PHASOR_OK);
  return out;
}

}  // namespace

TEST_CASE("refusals: a weight that is not finite, in every type and layout") {
  const char* const output = "output set 0, output weight: a weight is not finite";
  const char* const embedding = "target set 0, embedding: a weight is not finite";
  struct Numbers {
    const char* model;
    std::size_t bytes;  // of a value, or of a scale
    uint32_t largest, wrong[2];
  };
  const Numbers all[] = {{"tiny-gptj-f32", 4, 0x7F7FFFFF, {0x7F800000, 0xFF800001}},
                         {"tiny-gptj-f16", 2, 0x7BFF, {0x7C00, 0xFC01}},
                         {"tiny-gptj-bf16", 2, 0x7F7F, {0x7F80, 0xFF81}},
                         {"tiny-gptj-q8", 2, 0x7BFF, {0x7C00, 0xFC01}},
                         {"tiny-gptj-q4", 2, 0x7BFF, {0x7C00, 0xFC01}}};
  for (const Numbers& n : all) {
    CAPTURE(n.model);
    const Block golden = golden_file(n.model);
    const auto value = [&](uint32_t bits) { return words({bits}).substr(0, n.bytes); };
    const bool quantized = n.model[std::strlen(n.model) - 2] == 'q';
    // The first number of a panel and of a row, and the last that there is.
    const WeightFile file(golden);
    const uint64_t of_panel = quantized ? 2 * 16 : 42 * 16, of_rows = 58 * (quantized ? 2 : 42);
    const uint64_t panel = panel_bytes(
        Type(const_cast<WeightFile&>(file).tensor(kOutputWeight).type_layout & 255), 42);
    for (const uint64_t at : {uint64_t{0}, panel + (of_panel - 16) * n.bytes}) {
      for (const uint32_t wrong : n.wrong)
        expect(with_bytes(golden, kOutputWeight, at, value(wrong)), PHASOR_NOT_FINITE, output);
      expect(with_bytes(golden, kOutputWeight, at, value(n.largest)), PHASOR_OK, "");
    }
    for (const uint64_t at : {uint64_t{0}, (of_rows - 1) * n.bytes}) {
      expect(with_bytes(golden, kTargetEmbedding, at, value(n.wrong[0])), PHASOR_NOT_FINITE,
             embedding);
      expect(with_bytes(golden, kTargetEmbedding, at, value(n.largest)), PHASOR_OK, "");
    }
  }
  const Block lm = golden_file("tiny-lm-f32");
  const uint32_t inv_freq = kStackTarget << 24 | 8;
  const char* const sinusoid = "target set 0, sinusoid inv_freq: a weight is not finite";
  for (const uint64_t at : {0, 8, 120}) {
    expect(with_bytes(lm, inv_freq, at, words({0, 0x7FF00000})), PHASOR_NOT_FINITE, sinusoid);
    expect(with_bytes(lm, inv_freq, at, words({1, 0xFFF00000})), PHASOR_NOT_FINITE, sinusoid);
    expect(with_bytes(lm, inv_freq, at, words({0xFFFFFFFF, 0x7FEFFFFF})), PHASOR_OK, "");
  }
  // What follows the last of them is another tensor's, and named so.
  expect(with_bytes(lm, kStackDecoder << 24 | 0x10, 4, words({0x7FF00000})), PHASOR_NOT_FINITE,
         "decoder set 0, norm before attention, weight: a weight is not finite");
}

TEST_CASE("refusals: scales and minima that are not finite, in panels and in rows") {
  const char* const output = "output set 0, output weight: a weight is not finite";
  const char* const embedding = "target set 0, embedding: a weight is not finite";
  struct Places {
    const char* model;
    uint64_t panel[4], rows[4];  // of numbers: the first and the last scale and minimum
  };
  // 58 rows: of the fourth panel ten lanes are used. 42 columns: two groups, one record of q4k.
  const uint64_t q4m = 3 * panel_bytes(Type::q4m, 42), q4k = 3 * panel_bytes(Type::q4k, 42);
  const Places all[] = {
      {"tiny-gptj-q4m", {0, 32, q4m + 64 + 18, q4m + 96 + 18}, {0, 2, 4 * 115, 4 * 115 + 2}},
      {"tiny-gptj-q4k", {0, 32, q4k + 18, q4k + 32 + 18}, {0, 2, 16 * 57, 16 * 57 + 2}}};
  for (const Places& places : all) {
    CAPTURE(places.model);
    const Block golden = golden_file(places.model);
    for (std::size_t i = 0; i < 4; ++i) {
      for (const uint32_t bits : {0x7C00u, 0xFC00u, 0x7E01u, 0xFC01u}) {
        expect(with_bytes(golden, kOutputWeight, places.panel[i], half(bits)), PHASOR_NOT_FINITE,
               output);
        expect(with_bytes(golden, kTargetEmbedding, places.rows[i], half(bits)), PHASOR_NOT_FINITE,
               embedding);
      }
      for (const uint32_t bits : {0x7BFFu, 0xFBFFu, 0u, 0x8000u, 1u}) {
        expect(with_bytes(golden, kOutputWeight, places.panel[i], half(bits)), PHASOR_OK, "");
        expect(with_bytes(golden, kTargetEmbedding, places.rows[i], half(bits)), PHASOR_OK, "");
      }
    }
  }
}

TEST_CASE("refusals: a row's scale that is out of range, in panels and in rows") {
  const char* const output = "output set 0, output weight: a row's scale is out of range";
  const char* const embedding = "target set 0, embedding: a row's scale is out of range";
  const uint32_t smallest = 0x2C800000, largest = 0x7F7FFFFF;
  REQUIRE(smallest == bits_of(double{kSmallestRowScale}));
  const uint32_t wrong[] = {smallest - 1, 1,          0x80000000, smallest | 1u << 31,
                            0x7F800000,   0x7FC00000, 0xFF800000, 0xFFC00000};
  for (const char* const model : {"tiny-gptj-q8r", "tiny-gptj-q8rh"}) {
    CAPTURE(model);
    const Block golden = golden_file(model);
    // The first row's scale, and the last: 58 rows, of the fourth panel ten lanes are used.
    const uint64_t last_panel = 3 * panel_bytes(Type::q8r, 42) + 4 * 9;
    for (const uint64_t at : {uint64_t{0}, last_panel}) {
      for (const uint32_t bits : wrong)
        expect(with_bytes(golden, kOutputWeight, at, words({bits})), PHASOR_NOT_FINITE, output);
      for (const uint32_t bits : {0u, smallest, largest})
        expect(with_bytes(golden, kOutputWeight, at, words({bits})), PHASOR_OK, "");
    }
    for (const uint64_t at : {uint64_t{0}, uint64_t{4 * 57}}) {
      for (const uint32_t bits : wrong)
        expect(with_bytes(golden, kTargetEmbedding, at, words({bits})), PHASOR_NOT_FINITE,
               embedding);
      for (const uint32_t bits : {0u, smallest, largest})
        expect(with_bytes(golden, kTargetEmbedding, at, words({bits})), PHASOR_OK, "");
    }
  }
}

TEST_CASE("refusals: more inputs than a row of q8r may have") {
  // The first layer's hidden width; the second layer's is another, which is said where this fits.
  const uint32_t layer = block_stack(kDecoder) << 24;
  for (const uint32_t type : {5u, 7u, 8u})  // q4 has sums of groups: any number
    for (const uint32_t hidden : {132104u, 132105u}) {
      if (type == 5 && hidden == 132104) continue;
      WeightFile file("tiny-lm-f32");
      file.sections.clear();
      file.set("kind0.hidden", hidden);
      const auto shape = [&](uint32_t role, uint32_t type_layout, uint32_t rows, uint32_t cols) {
        const bool panels = type_layout >> 8 == 1;
        const uint32_t count = panels ? (rows + 15) / 16 : 0;
        const uint64_t bytes =
            panels ? count * panel_bytes(Type(type_layout & 255), cols) : uint64_t{rows} * 4;
        file.tensor(layer | role) = {
            layer | role, type_layout, rows,
            cols,         count,       std::string(static_cast<std::size_t>(bytes), '\0')};
      };
      shape(0x88, type | kPanel16, hidden, 32);
      shape(0x89, kF32 | kVector, hidden, 1);
      shape(0x90, type | kPanel16, 32, hidden);
      const Said said = opened(file.write());
      if (hidden == 132104 || type == 5)
        expect(said, PHASOR_BAD_FILE,
               "decoder set 1, feed-forward in weight: panel16 44x32/3, expected " +
                   std::to_string(hidden) + "x32/8257");
      else
        expect(said, PHASOR_UNSUPPORTED,
               std::string("decoder set 0, feed-forward out weight: 132105 inputs, ") +
                   type_name(Type(type)) + " has at most 132104");
    }
}

TEST_CASE("refusals: padding that is not zero, in every type and layout") {
  const char* const output = "output set 0, output weight: padding is not zero";
  const char* const embedding = "target set 0, embedding: padding is not zero";
  struct Spot {
    const char* model;
    uint32_t key;
    uint64_t at;  // of a byte
    unsigned char value;
    const char* line;
  };
  const uint64_t q8 = panel_bytes(Type::q8, 42), q4 = panel_bytes(Type::q4, 42),
                 q8r = panel_bytes(Type::q8r, 42), q4m = 3 * panel_bytes(Type::q4m, 42),
                 q4k = 3 * panel_bytes(Type::q4k, 42);
  const uint64_t plane = scale_plane_bytes(Type::q8, 16, 2),
                 rows_plane = scale_plane_bytes(Type::q8, 58, 2);
  const uint64_t f32_last = 3 * panel_bytes(Type::f32, 42), f16_last = f32_last / 2;
  // 58 rows: of the fourth panel ten lanes are used. 42 columns: ten of the second group.
  const std::vector<Spot> spots = {
      {"tiny-gptj-f32", kOutputWeight, f32_last + 4 * panel_index_f32(10, 0), 1, output},
      {"tiny-gptj-f32", kOutputWeight, f32_last + 4 * panel_index_f32(15, 41) + 3, 1, output},
      {"tiny-gptj-f32", kOutputWeight, f32_last + 4 * panel_index_f32(9, 41), 1, ""},
      {"tiny-gptj-f16", kOutputWeight, f16_last + 2 * panel_index_f32(10, 41), 1, output},
      {"tiny-gptj-f16", kOutputWeight, f16_last + 2 * panel_index_f32(9, 41), 1, ""},
      {"tiny-gptj-bf16", kOutputWeight, f16_last + 2 * panel_index_bf16(10, 41) + 1, 1, output},
      {"tiny-gptj-bf16", kOutputWeight, f16_last + 2 * panel_index_bf16(9, 41), 1, ""},
      {"tiny-gptj-q8", kOutputWeight, plane + panel_index_q8(0, 41), 1, ""},
      {"tiny-gptj-q8", kOutputWeight, plane + panel_index_q8(0, 42), 1, output},
      {"tiny-gptj-q8", kOutputWeight, q8 + plane + panel_index_q8(15, 63), 1, output},
      {"tiny-gptj-q8", kOutputWeight, 3 * q8 + plane + panel_index_q8(10, 0), 1, output},
      {"tiny-gptj-q8", kOutputWeight, 3 * q8 + plane + panel_index_q8(9, 0), 1, ""},
      {"tiny-gptj-q8", kOutputWeight, 3 * q8 + 2 * 9, 1, ""},
      {"tiny-gptj-q8", kOutputWeight, 3 * q8 + 2 * 10, 1, output},
      {"tiny-gptj-q8", kOutputWeight, 3 * q8 + 2 * 31 + 1, 1, output},
      {"tiny-gptj-q4", kOutputWeight, plane + panel_index_code(4, 0, 32 + 9), 0x10, output},
      {"tiny-gptj-q4", kOutputWeight, plane + panel_index_code(4, 0, 32 + 10), 0x01, output},
      {"tiny-gptj-q4", kOutputWeight, plane + panel_index_code(4, 0, 32 + 0), 0x10, output},
      {"tiny-gptj-q4", kOutputWeight, plane + panel_index_code(4, 0, 32 + 9), 0x01, ""},
      {"tiny-gptj-q4", kOutputWeight, 3 * q4 + plane + panel_index_code(4, 10, 0), 0x10, output},
      {"tiny-lm-q8", kOutputWeight, 31, 0, ""},
      {"tiny-lm-q8", kOutputWeight, 32, 1, output},
      {"tiny-lm-q8", kOutputWeight, 63, 1, output},
      {"tiny-gptj-q8", kTargetEmbedding, 58 * 2 * 2, 1, embedding},
      {"tiny-gptj-q8", kTargetEmbedding, rows_plane - 1, 1, embedding},
      {"tiny-gptj-q8", kTargetEmbedding, rows_plane + 32 + 9, 1, ""},
      {"tiny-gptj-q8", kTargetEmbedding, rows_plane + 32 + 10, 1, embedding},
      {"tiny-gptj-q8", kTargetEmbedding, rows_plane + 58 * 64 - 1, 1, embedding},
      {"tiny-gptj-q4", kTargetEmbedding, rows_plane + 16 + 9, 0x10, embedding},
      {"tiny-gptj-q4", kTargetEmbedding, rows_plane + 16 + 9, 0x01, ""},
      {"tiny-gptj-q4", kTargetEmbedding, rows_plane + 16 + 10, 0x01, embedding},
      {"tiny-gptj-q4", kTargetEmbedding, rows_plane + 58 * 32 - 1, 0x10, embedding},
      {"tiny-lm-q8", kTargetEmbedding, scale_plane_bytes(Type::q8, 59, 1) + 31, 1, ""},
      {"tiny-gptj-q8r", kOutputWeight, 64 + panel_index_q8(0, 41), 1, ""},
      {"tiny-gptj-q8r", kOutputWeight, 64 + panel_index_q8(0, 42), 1, output},
      {"tiny-gptj-q8r", kOutputWeight, q8r + 64 + panel_index_q8(15, 63), 1, output},
      {"tiny-gptj-q8r", kOutputWeight, 3 * q8r + 64 + panel_index_q8(10, 0), 1, output},
      {"tiny-gptj-q8rh", kOutputWeight, 3 * q8r + 64 + panel_index_q8(9, 0), 1, ""},
      {"tiny-gptj-q8rh", kOutputWeight, 3 * q8r + 4 * 10 + 3, 0x3F, output},
      {"tiny-gptj-q8r", kOutputWeight, 3 * q8r + 4 * 15 + 3, 0x3F, output},
      {"tiny-gptj-q8r", kTargetEmbedding, 58 * 4, 1, embedding},
      {"tiny-gptj-q8rh", kTargetEmbedding, 255, 1, embedding},
      {"tiny-gptj-q8r", kTargetEmbedding, 256 + 41, 1, ""},
      {"tiny-gptj-q8r", kTargetEmbedding, 256 + 42, 1, embedding},
      {"tiny-gptj-q8rh", kTargetEmbedding, 256 + 64 + 41, 1, ""},
      {"tiny-gptj-q8rh", kTargetEmbedding, 256 + 58 * 64 - 1, 1, embedding},
      {"tiny-gptj-q4m", kOutputWeight, 128 + panel_index_code(4, 0, 32 + 9), 0x10, output},
      {"tiny-gptj-q4m", kOutputWeight, 128 + panel_index_code(4, 0, 32 + 10), 0x01, output},
      {"tiny-gptj-q4m", kOutputWeight, 128 + panel_index_code(4, 0, 32 + 9), 0x01, ""},
      {"tiny-gptj-q4m", kOutputWeight, q4m + 128 + panel_index_code(4, 10, 0), 0x10, output},
      {"tiny-gptj-q4m", kOutputWeight, q4m + 128 + panel_index_code(4, 9, 0), 0x10, ""},
      {"tiny-gptj-q4m", kOutputWeight, q4m + 2 * 10, 1, output},
      {"tiny-gptj-q4m", kOutputWeight, q4m + 64 + 32 + 2 * 15 + 1, 1, output},
      {"tiny-gptj-q4m", kOutputWeight, q4m + 64 + 32 + 2 * 9 + 1, 1, ""},
      {"tiny-gptj-q4m", kTargetEmbedding, 58 * 2 * 4, 1, embedding},
      {"tiny-gptj-q4m", kTargetEmbedding, 511, 1, embedding},
      {"tiny-gptj-q4m", kTargetEmbedding, 512 + 16 + 9, 0x01, ""},
      {"tiny-gptj-q4m", kTargetEmbedding, 512 + 16 + 10, 0x01, embedding},
      {"tiny-gptj-q4m", kTargetEmbedding, 512 + 58 * 32 - 1, 0x10, embedding},
      {"tiny-gptj-q4k", kOutputWeight, 256 + panel_index_code(4, 15, 32 + 9), 0x10, output},
      {"tiny-gptj-q4k", kOutputWeight, 256 + panel_index_code(4, 15, 32 + 9), 0x01, ""},
      {"tiny-gptj-q4k", kOutputWeight, q4k + 256 + panel_index_code(4, 10, 0), 0x01, output},
      {"tiny-gptj-q4k", kOutputWeight, q4k + 32 + 2 * 10, 1, output},
      {"tiny-gptj-q4k", kOutputWeight, q4k + 64 + 10, 1, output},
      {"tiny-gptj-q4k", kOutputWeight, q4k + 64 + 11 * 16 + 15, 1, output},
      // Codes of the two groups, and of those that there are not: 2, 4 and 7.
      {"tiny-gptj-q4k", kOutputWeight, 64, 0x3F, ""},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 5 * 16 + 15, 0x3F, ""},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 2 * 16, 0x01, output},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 6 * 16, 0x01, output},
      {"tiny-gptj-q4k", kOutputWeight, 64, 0x40, output},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 4 * 16, 0x80, output},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 11 * 16, 0x01, output},
      {"tiny-gptj-q4k", kOutputWeight, 64 + 11 * 16, 0x10, output},
      {"tiny-gptj-q4k", kTargetEmbedding, 58 * 16, 1, embedding},
      {"tiny-gptj-q4k", kTargetEmbedding, 959, 1, embedding},
      {"tiny-gptj-q4k", kTargetEmbedding, 57 * 16 + 4, 0x3F, ""},
      {"tiny-gptj-q4k", kTargetEmbedding, 57 * 16 + 4, 0x40, embedding},
      {"tiny-gptj-q4k", kTargetEmbedding, 57 * 16 + 15, 0x10, embedding},
      {"tiny-gptj-q4k", kTargetEmbedding, 960 + 16 + 9, 0x01, ""},
      {"tiny-gptj-q4k", kTargetEmbedding, 960 + 16 + 9, 0x10, embedding},
  };
  for (const Spot& s : spots) {
    CAPTURE(s.model);
    CAPTURE(s.at);
    const Said said =
        with_bytes(golden_file(s.model), s.key, s.at, std::string(1, static_cast<char>(s.value)));
    // Some of these spots are the sign of a scale: what counts is that nothing is said of padding.
    expect(said, *s.line == 0 ? PHASOR_OK : PHASOR_BAD_FILE, s.line);
  }
  // bf16 is in pairs of k: an odd number of columns has one that is nothing.
  const Block odd = in_type("tiny-relative-key-f32", "bf16");
  const uint32_t qkv = kStackEncoder << 24 | 0x20;
  expect(checked(odd), PHASOR_OK, "");
  expect(with_bytes(odd, qkv, 2 * panel_index_bf16(0, 32), half(1)), PHASOR_OK, "");
  expect(with_bytes(odd, qkv, 2 * panel_index_bf16(0, 33), half(1)), PHASOR_BAD_FILE,
         "encoder set 0, q,k,v weight: padding is not zero");
}

TEST_CASE("refusals: names of what is no type, layout, stack or part") {
  CHECK(std::string(type_name(Type::f64)) == "f64");
  CHECK(std::string(type_name(Type::q8rh)) == "q8rh");
  CHECK(std::string(type_name(static_cast<Type>(kTypes + 1))) == "?");
  CHECK(std::string(layout_name(Layout::vector)) == "vector");
  CHECK(std::string(layout_name(static_cast<Layout>(4))) == "?");
  Descriptor d{};
  d.output.pooling = kPoolMean;
  CHECK(output_rows(d, 1) == 1);
  CHECK(output_rows(d, 5) == 1);
  d.output.pooling = kPoolNone;
  CHECK(output_rows(d, 5) == 5);
}
