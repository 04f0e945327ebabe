// phasor_quantize and phasor_vector_record: in exactly their bytes, for every golden model
// and type; what they refuse.
#include <cmath>

#include "types.h"
#include "weight_file.h"

namespace {

phasor_quantize_options options_for(const char* type) {
  phasor_quantize_options options = PHASOR_QUANTIZE_OPTIONS_INIT;
  options.type = type;
  return options;
}

bool is_f32(const std::string& name) {
  return name.size() > 4 && name.compare(name.size() - 4, 4, "-f32") == 0;
}

Block converted(const Block& file, const phasor_quantize_options& options,
                phasor_rounding* rounding = nullptr) {
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_status status =
      phasor_quantize_size(&need, file.data(), file.size(), &options, &error);
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  Block out(need);
  std::memset(out.data(), 0xAA, need);
  REQUIRE(phasor_quantize(out.data(), need, rounding, PHASOR_TYPES, file.data(), file.size(),
                          &options, &error) == PHASOR_OK);
  return out;
}

std::string refusal(const Block& file, const phasor_quantize_options& options,
                    phasor_status expected) {
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_quantize_size(&need, file.data(), file.size(), &options, &error) == expected);
  return error.text;
}

}  // namespace

TEST_CASE("quantize: every golden model in every type opens, is whole, and runs its vectors") {
  for (const std::string& name : golden_models()) {
    if (!is_f32(name)) continue;
    const Block file = golden_file(name);
    for (const char* type : phasor::kRoundedTypeNames) {
      CAPTURE(name);
      CAPTURE(type);
      phasor_rounding rounding[PHASOR_TYPES] = {};
      for (phasor_rounding& r : rounding) r.struct_size = sizeof r;
      const Block out = converted(file, options_for(type), rounding);
      std::vector<uint64_t> hashes;
      float worst = 0;
      {
        const Engine e(out, nullptr);
        phasor_error error = PHASOR_ERROR_INIT;
        CHECK(phasor_model_check(e.model, &error) == PHASOR_OK);
        REQUIRE(phasor_vector_record(e.model, out.data(), nullptr, 1e9f, &error) == PHASOR_OK);
      }
      const Engine e(out, nullptr);
      for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
        phasor_vector_result result{};
        result.struct_size = sizeof result;
        phasor_error error = PHASOR_ERROR_INIT;
        CHECK(phasor_vector_run(e.session, i, &result, &error) == PHASOR_OK);
        hashes.push_back(result.hash);
        if (result.worst_logit > worst) worst = result.worst_logit;
      }
      if (std::string(type) == "f32")
        CHECK((out.size() == file.size() && worst < 1e-4f));
      else
        CHECK(worst > 0);
      CHECK(phasor_vector_record(e.model, out.data(), hashes.data(), 2, nullptr) == PHASOR_OK);
      const Engine again(out, nullptr);
      phasor_vector v{};
      v.struct_size = sizeof v;
      REQUIRE(phasor_vector_get(again.model, 1, &v) == PHASOR_OK);
      CHECK(v.hash == hashes[1]);
      CHECK(v.tolerance == 2);
      CHECK(phasor_model_check(again.model, nullptr) == PHASOR_OK);
      uint64_t bytes = 0;
      for (const phasor_rounding& r : rounding) bytes += r.bytes;
      CHECK(bytes < out.size());
      CHECK((rounding[0].largest == 0 && rounding[0].tensor == nullptr));
    }
  }
}

TEST_CASE("quantize: of an f32 file the type f32 is the same file") {
  const Block file = golden_file("tiny-rotary-f32");
  const Block out = converted(file, options_for("f32"));
  REQUIRE(out.size() == file.size());
  CHECK(std::memcmp(out.data(), file.data(), file.size()) == 0);
}

// A program that was compiled when there were fewer types.
TEST_CASE("quantize: a caller who gives the count of records gets so many, and no more") {
  const Block file = golden_file("tiny-lm-f32");
  for (const uint32_t known : {6u, 8u}) {
    const phasor_quantize_options options = options_for(known == 6 ? "q8r" : "q4k");
    std::size_t need = 0;
    phasor_error error = PHASOR_ERROR_INIT;
    REQUIRE(phasor_quantize_size(&need, file.data(), file.size(), &options, &error) == PHASOR_OK);
    Block out(need);
    phasor_rounding rounding[8 + PHASOR_TYPES];
    std::memset(static_cast<void*>(rounding), 0xAA, sizeof rounding);
    for (uint32_t i = 0; i < known; ++i) rounding[i].struct_size = sizeof(phasor_rounding);
    REQUIRE(phasor_quantize(out.data(), need, rounding, known, file.data(), file.size(), &options,
                            &error) == PHASOR_OK);
    const char* const names[] = {"f32", "f16", "bf16", "q8", "q4", "f64", "q8r", "q8rh"};
    for (uint32_t i = 0; i < known; ++i) {
      CHECK(std::strcmp(rounding[i].type, names[i]) == 0);
      if (i != 5) CHECK((rounding[i].bytes != 0) == (i == 0));  // f64: frequencies
    }
    const unsigned char* past = reinterpret_cast<const unsigned char*>(rounding + known);
    for (std::size_t i = 0; i < PHASOR_TYPES * sizeof *rounding; ++i) REQUIRE(past[i] == 0xAA);
  }
}

TEST_CASE("quantize: the bits of inputs are set, kept and taken away, and nothing else changes") {
  const Block file = golden_file("tiny-gptj-f32");
  for (const char* type : phasor::kRoundedTypeNames) {
    if (type[0] != 'q') continue;
    CAPTURE(type);
    phasor_quantize_options options = options_for(type);
    const Block narrow = converted(file, options);
    options.inputs = 16;
    const Block wide = converted(file, options), widened = converted(narrow, options);
    REQUIRE(wide.size() == narrow.size());
    CHECK(std::memcmp(wide.data(), widened.data(), wide.size()) == 0);
    const Engine e(wide, nullptr);
    uint32_t set = 0, changed = 0;
    for (uint32_t i = 0; i < phasor_tensor_count(e.model); ++i) {
      phasor_tensor t = PHASOR_TENSOR_INIT;
      REQUIRE(phasor_tensor_get(e.model, i, &t) == PHASOR_OK);
      const bool panel = std::strcmp(t.type, type) == 0 && std::strcmp(t.layout, "panel16") == 0;
      CHECK(t.inputs == (panel ? 16 : 0));
      set += panel;
    }
    for (std::size_t i = 0; i < wide.size(); ++i) changed += wide.data()[i] != narrow.data()[i];
    CHECK(set > 4);
    CHECK((changed >= set && changed <= set + 4));  // and the head's checksum
    options.inputs = 0;
    const Block kept = converted(wide, options);
    CHECK(std::memcmp(kept.data(), wide.data(), wide.size()) == 0);
    options.inputs = 8;
    const Block again = converted(wide, options);
    CHECK(std::memcmp(again.data(), narrow.data(), narrow.size()) == 0);
  }
  phasor_quantize_options options = options_for("f32");
  options.inputs = 16;
  CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
        "inputs of 16 bits go with a quantized type, not with f32");
  options.output_type = "q8";
  CHECK(converted(file, options).size() != 0);
  options.inputs = 12;
  CHECK(refusal(file, options, PHASOR_BAD_INPUT) == "options.inputs: 12, expected 0, 8 or 16");
}

TEST_CASE("quantize: rotated inputs go with types in groups, and rotated weights back to f32") {
  const Block file = golden_file("tiny-gptj-f32");
  for (const char* type : {"q8", "q4", "q4m", "q4k", "q4t"}) {
    CAPTURE(type);
    phasor_quantize_options options = options_for(type);
    const Block plain = converted(file, options);
    options.rotated = 1;
    const Block turned = converted(file, options);
    REQUIRE(turned.size() == plain.size());
    const Engine e(turned, nullptr);
    uint32_t set = 0;
    for (uint32_t i = 0; i < phasor_tensor_count(e.model); ++i) {
      phasor_tensor t = PHASOR_TENSOR_INIT;
      REQUIRE(phasor_tensor_get(e.model, i, &t) == PHASOR_OK);
      const bool panel = std::strcmp(t.type, type) == 0 && std::strcmp(t.layout, "panel16") == 0;
      CHECK(t.rotated == panel);
      CHECK(t.inputs == (panel ? 8 : 0));
      set += panel;
    }
    CHECK(set > 4);
    // Kept with its type; what was rounded is not rounded again.
    options.rotated = 0;
    CHECK(std::memcmp(converted(turned, options).data(), turned.data(), turned.size()) == 0);
    for (const uint32_t bits : {8u, 16u}) {
      options.inputs = bits;
      CHECK(refusal(turned, options, PHASOR_UNSUPPORTED) ==
            "q,k,v weight is " + std::string(type) +
                " for rotated inputs, and what was rounded is not rounded again: give the model "
                "in f32");
    }
    options.inputs = 8;
    options.rotated = 1;
    CHECK(refusal(plain, options, PHASOR_UNSUPPORTED) ==
          "q,k,v weight is " + std::string(type) +
              " for inputs that are not rotated, and what was rounded is not rounded again: give "
              "the model in f32");
    // Its values as f32 are as near to the weights as those of the type are.
    const weight_files::WeightFile exact(file), near(converted(turned, options_for("f32"))),
        other(converted(plain, options_for("f32")));
    double off = 0, usual = 0;
    for (std::size_t i = 0; i < exact.tensors.size(); ++i) {
      const std::string &a = exact.tensors[i].bytes, &b = near.tensors[i].bytes,
                        &c = other.tensors[i].bytes;
      REQUIRE(a.size() == b.size());
      const auto at = [](const std::string& s, std::size_t k) {
        float x;
        std::memcpy(&x, s.data() + k, sizeof x);
        return x;
      };
      for (std::size_t k = 0; k + 4 <= a.size() && a != b; k += 4) {
        off += std::fabs(at(a, k) - at(b, k));
        usual += std::fabs(at(a, k) - at(c, k));
      }
    }
    CHECK(off > 0);
    CHECK(off < 1.3 * usual);
  }
  for (const char* type : {"f32", "q8r", "q8rh"}) {
    phasor_quantize_options options = options_for(type);
    options.rotated = 1;
    CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
          "rotated inputs go with a type that has a scale for each group, not with " +
              std::string(type));
    options.type = "q8";
    options.rotated = 2;
    CHECK(refusal(file, options, PHASOR_BAD_INPUT) == "options.rotated: 2, expected 0 or 1");
    options.rotated = 1;
    options.inputs = 16;
    CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
          "options.rotated: rotated inputs have 8 bits, not 16");
  }
}

TEST_CASE("quantize: what is refused, in one line") {
  const Block file = golden_file("tiny-lm-f32"), q8 = golden_file("tiny-lm-q8");
  CHECK(refusal(file, options_for("q5"), PHASOR_BAD_INPUT) ==
        "type q5: expected " PHASOR_TYPE_NAMES);
  CHECK(refusal(file, options_for(nullptr), PHASOR_BAD_INPUT) ==
        "type (none): expected " PHASOR_TYPE_NAMES);
  CHECK(refusal(q8, options_for("q4"), PHASOR_UNSUPPORTED)
            .find("is q8, and what was rounded is not rounded again to q4") != std::string::npos);
  phasor_quantize_options options = options_for("q8");
  options.output_type = "f64";
  CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
        "type f64: expected " PHASOR_TYPE_NAMES);
  options = options_for("q8");
  options.struct_size = 4;
  refusal(file, options, PHASOR_BAD_INPUT);
  const float moments[2] = {1, 1};
  options = options_for("q8");
  options.moments = moments;
  options.moment_count = 2;
  CHECK(refusal(file, options, PHASOR_BAD_INPUT).find("2 moments, the file's matrices have ") == 0);
  refusal(Block(file.data(), file.size() - 1), options_for("q8"), PHASOR_BAD_FILE);
  options = options_for("q8");
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_quantize_size(&need, file.data(), file.size(), &options, &error) == PHASOR_OK);
  Block out(need);
  CHECK(phasor_quantize(out.data(), need - 1, nullptr, 0, file.data(), file.size(), &options,
                        &error) == PHASOR_NO_MEMORY);
  const Engine e(file, nullptr);
  CHECK(phasor_vector_record(e.model, out.data(), nullptr, 1, &error) == PHASOR_BAD_INPUT);
  for (const float tolerance : {0.0f, -1.0f, __builtin_inff(), __builtin_nanf("")})
    CHECK(phasor_vector_record(e.model, file.data(), nullptr, tolerance, &error) ==
          PHASOR_BAD_INPUT);
}

TEST_CASE("quantize: moments, as many as there are columns, and every one a finite mean square") {
  const Block file = golden_file("tiny-lm-f32");
  const weight_files::WeightFile parts(file);
  std::size_t columns = 0;
  for (const weight_files::StoredTensor& t : parts.tensors)
    if (t.panels != 0 || t.key == (3u << 24 | 1)) columns += t.cols;
  std::vector<float> moments(columns + 1, 1);
  phasor_quantize_options options = options_for("q8");
  options.moments = moments.data();
  for (const std::size_t count : {columns - 1, columns + 1}) {
    options.moment_count = count;
    CHECK(refusal(file, options, PHASOR_BAD_INPUT) == std::to_string(count) +
                                                          " moments, the file's matrices have " +
                                                          std::to_string(columns) + " columns");
  }
  options.moment_count = columns;
  CHECK(converted(file, options).size() != 0);
  for (const float fine : {0.0f, 3e38f}) {
    moments[columns - 1] = fine;
    CHECK(converted(file, options).size() != 0);
  }
  for (const float wrong : {-1e-30f, 3.1e38f, __builtin_inff(), __builtin_nanf("")}) {
    moments[columns - 1] = wrong;
    CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
          "moment " + std::to_string(columns - 1) + " is negative or not finite");
  }
}

TEST_CASE("quantize: a weight that the type cannot hold, and a section behind the data") {
  weight_files::WeightFile file("tiny-lm-f32");
  const phasor_quantize_options options = options_for("f16");
  std::string& weights = file.tensors.back().bytes;
  const auto convert = [&](float largest) {
    weights.replace(0, 4, weight_files::words({weight_files::bits_of(double(largest))}));
    const Block block = file.write();
    std::size_t need = 0;
    phasor_error error = PHASOR_ERROR_INIT;
    REQUIRE(phasor_quantize_size(&need, block.data(), block.size(), &options, &error) == PHASOR_OK);
    const Block out(need);
    const phasor_status status =
        phasor_quantize(out.data(), need, nullptr, 0, block.data(), block.size(), &options, &error);
    return weight_files::said_of(status, error);
  };
  weight_files::expect(convert(65504), PHASOR_OK, "");
  weight_files::expect(convert(65520), PHASOR_UNSUPPORTED,
                       "output weight: a weight is too large for f16");
  file.sections[14] = {0, "before"};
  weight_files::expect(convert(1), PHASOR_OK, "");
  file.sections[16] = {0, "behind"};
  CHECK(refusal(file.write(), options, PHASOR_UNSUPPORTED) ==
        "section 16 lies behind the data, which a converted file ends with");
}

namespace {

// The output's matrix is this row: of a file's tensors, their shapes are all that is looked at.
weight_files::Said as_type(const char* type, const std::vector<uint32_t>& row) {
  weight_files::WeightFile file("tiny-lm-f32");
  weight_files::StoredTensor& t = file.tensors.back();
  REQUIRE(t.key == (5u << 24 | 1));
  const auto cols = static_cast<uint32_t>(row.size());
  t = {t.key, 1 | 2 << 8, 1, cols, 0, weight_files::words(row)};
  const Block block = file.write();
  const phasor_quantize_options options = options_for(type);
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_status status = phasor_quantize_size(&need, block.data(), block.size(), &options, &error);
  if (status != PHASOR_OK) return weight_files::said_of(status, error);
  const Block out(need);
  status =
      phasor_quantize(out.data(), need, nullptr, 0, block.data(), block.size(), &options, &error);
  return weight_files::said_of(status, error);
}

}  // namespace

TEST_CASE("quantize: what q4m and q4k cannot hold") {
  const auto bits = [](double x) { return weight_files::bits_of(x); };
  const auto row = [&](double first, double other, std::size_t at, std::size_t count) {
    std::vector<uint32_t> values(count, bits(other));
    values[at] = bits(first);
    return values;
  };
  for (const std::string type : {"q4m", "q4k"}) {
    const char* const to = type.c_str();
    const std::string large = "output weight: a weight is too large for " + type;
    for (const uint32_t wrong : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u})
      for (const std::size_t at : {0, 31, 32, 256, 299}) {
        std::vector<uint32_t> values(300, 0);
        values[at] = wrong;
        weight_files::expect(as_type(to, values), PHASOR_UNSUPPORTED, large);
      }
    // q4m has the minimum itself in f16, q4k a 63rd of it; of both the range / 15 is, q4k a 63rd.
    const double minimum = type == "q4m" ? 65519 : 65519.0 * 63;
    const double range = type == "q4m" ? 65519.0 * 15 : 65519.0 * 15 * 63;
    for (const std::size_t at : {0, 40, 270}) {
      weight_files::expect(as_type(to, row(-minimum, 0, at, 300)), PHASOR_OK, "");
      weight_files::expect(as_type(to, row(-1.01 * minimum, 0, at, 300)), PHASOR_UNSUPPORTED,
                           large);
      weight_files::expect(as_type(to, row(range, 0, at, 300)), PHASOR_OK, "");
      weight_files::expect(as_type(to, row(1.01 * range, 0, at, 300)), PHASOR_UNSUPPORTED, large);
    }
    weight_files::expect(as_type(to, row(3e38, -3e38, 1, 33)), PHASOR_UNSUPPORTED, large);
  }
}

TEST_CASE("quantize: what q8r cannot hold") {
  const uint32_t one = 0x3F800000, largest = 0x7F7FFFFF;
  for (const std::string type : {"q8r", "q8rh"}) {
    const std::string large = "output weight: a weight is too large for " + type;
    for (const uint32_t wrong : {0x7F800000u, 0xFF800000u, 0x7FC00000u, 0xFFC00000u})
      for (const std::size_t at : {0, 63, 64}) {
        std::vector<uint32_t> row(65, one);
        row[at] = wrong;
        weight_files::expect(as_type(type.c_str(), row), PHASOR_UNSUPPORTED, large);
      }
    weight_files::expect(as_type(type.c_str(), {largest, 1, 0}), PHASOR_OK, "");
    // Rotated, 64 equal ones are one that is eight times as large.
    const bool rotated = type == "q8rh";
    weight_files::expect(as_type(type.c_str(), std::vector<uint32_t>(64, largest)),
                         rotated ? PHASOR_UNSUPPORTED : PHASOR_OK, rotated ? large : "");
    weight_files::expect(as_type(type.c_str(), std::vector<uint32_t>(132104)), PHASOR_OK, "");
    weight_files::expect(as_type(type.c_str(), std::vector<uint32_t>(132105)), PHASOR_UNSUPPORTED,
                         "output weight: 132105 inputs, " + type + " has at most 132104");
  }
}

TEST_CASE("quantize: a table in rows that is no end of the model stays what it is") {
  weight_files::WeightFile file("tiny-lm-f32");
  file.tensors.insert(file.tensors.begin(), {1, 1 | 2 << 8, 2, 3, 0, std::string(24, 'x')});
  const Block block = file.write();  // opening refuses it; converting looks at its shape only
  const Block out = converted(block, options_for("f16"));
  const weight_files::WeightFile made(out);
  CHECK(made.tensors[0].type_layout == (1 | 2 << 8));
  CHECK(made.tensors[0].bytes == std::string(24, 'x'));
  CHECK(made.tensors[1].type_layout == (2 | 2 << 8));
}

TEST_CASE("quantize: types of single tensors") {
  const Block file = golden_file("tiny-lm-f32");
  const weight_files::WeightFile exact(file);
  const weight_files::WeightFile q8(converted(file, options_for("q8"))),
      q4(converted(file, options_for("q4")));
  const std::size_t count = exact.tensors.size();
  std::vector<const char*> types(count);
  phasor_quantize_options options = options_for("q8");
  options.types = types.data();
  options.type_count = static_cast<uint32_t>(count);
  CHECK(converted(file, options).size() == converted(file, options_for("q8")).size());
  std::size_t matrices = 0;
  for (std::size_t i = 0; i < count; ++i) {
    types[i] = "q4";
    if (q4.tensors[i].type_layout == exact.tensors[i].type_layout) {
      CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
            "a type for tensor " + std::to_string(i) + ", which is no matrix");
    } else {
      const weight_files::WeightFile mixed(converted(file, options));
      ++matrices;
      for (std::size_t k = 0; k < count; ++k) {
        CHECK(mixed.tensors[k].bytes == (k == i ? q4 : q8).tensors[k].bytes);
        CHECK(mixed.tensors[k].type_layout == (k == i ? q4 : q8).tensors[k].type_layout);
      }
    }
    types[i] = nullptr;
  }
  CHECK(matrices > 4);
  types[0] = "q5";
  CHECK(refusal(file, options, PHASOR_BAD_INPUT).find("type q5: expected f32") == 0);
  types[0] = nullptr;
  options.type_count = static_cast<uint32_t>(count + 1);
  CHECK(refusal(file, options, PHASOR_BAD_INPUT) ==
        std::to_string(count + 1) + " types, the file has " + std::to_string(count) + " tensors");
  options.struct_size = offsetof(phasor_quantize_options, types);  // a caller of 0.2.0
  CHECK(converted(file, options).size() == converted(file, options_for("q8")).size());
  options = options_for("f32");
  options.inputs = 16;
  options.types = types.data();
  options.type_count = static_cast<uint32_t>(count);
  CHECK(refusal(file, options, PHASOR_BAD_INPUT).find("inputs of 16 bits go with") == 0);
  for (std::size_t i = 0; i < count; ++i)
    if (q4.tensors[i].type_layout != exact.tensors[i].type_layout) types[i] = "q4";
  CHECK(converted(file, options).size() < file.size());
}
