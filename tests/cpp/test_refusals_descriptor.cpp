// What of a descriptor is refused, value by value: a model that opens, but for the one thing that
// the line names; and beside it the last value that is accepted.
#include "weight_file.h"

using namespace weight_files;

namespace {

const Item kGone(0, 0, "");  // the file is not to have the key

struct Edit {
  const char* name;
  Item item;
};
struct Case {
  const char* model;
  std::vector<Edit> edits;
  const char* line;  // "": it is accepted
};

std::vector<uint32_t> ids(std::size_t count, uint32_t id = 0) {
  return std::vector<uint32_t>(count, id);
}

void try_all(const std::vector<Case>& cases, phasor_status refusal = PHASOR_BAD_FILE) {
  for (const Case& c : cases) {
    WeightFile file(c.model);
    for (const Edit& e : c.edits) {
      CAPTURE(e.name);
      if (e.item.type == 0)
        file.erase(e.name);
      else
        file.set(e.name, e.item);
    }
    CAPTURE(c.model);
    expect(measured(file.write()), *c.line == 0 ? PHASOR_OK : refusal, c.line);
  }
}

constexpr const char *kLm = "tiny-lm-f32", *kBert = "tiny-bert-f32", *kT5 = "tiny-t5-f32",
                     *kAlbert = "tiny-albert-f32", *kClasses = "tiny-classes-f32",
                     *kD2l = "tiny-d2l-f32";

}  // namespace

TEST_CASE("refusals: a file that is taken apart and put together is the file") {
  for (const char* name : {kLm, kBert, kT5, kD2l}) {
    const Block file = golden_file(name), again = WeightFile(file).write();
    REQUIRE(file.size() == again.size());
    CHECK(std::memcmp(file.data(), again.data(), file.size()) == 0);
  }
}

TEST_CASE("refusals: a value outside its range, and the last one inside") {
  try_all({
      {kLm, {{"model.stack", 4}}, "model.stack: 4, expected 1 to 3"},
      {kLm, {{"model.stack", 0}}, "model.stack: 0, expected 1 to 3"},
      {kLm, {{"model.stack", 2.0}}, "model.stack: has type 2, expected 1"},
      {kLm, {{"target.vocabulary", 0}}, "target.vocabulary: 0, expected 1 to 16777216"},
      {kLm, {{"target.vocabulary", 1 << 24}}, ""},
      {kLm,
       {{"target.vocabulary", (1 << 24) + 1}},
       "target.vocabulary: 16777217, expected 1 to 16777216"},
      {kLm, {{"decoder.layers", ids(0)}}, "decoder.layers: 0 values, expected 2 to 2048"},
      {kLm, {{"decoder.layers", ids(1)}}, "decoder.layers: 1 values, expected 2 to 2048"},
      {kLm, {{"decoder.layers", ids(2)}}, ""},
      {kLm, {{"decoder.layers", ids(2048)}}, ""},
      {kLm, {{"decoder.layers", ids(2049)}}, "decoder.layers: 2049 values, expected 2 to 2048"},
      {kLm, {{"target.end", ids(16)}}, ""},
      {kLm, {{"target.end", ids(17)}}, "target.end: 17 values, expected 0 to 16"},
      {kLm, {{"kind0.heads", 0}}, "kind0.heads: 0, expected 1 to 4096"},
      {kLm, {{"kind0.heads", 4096}}, ""},
      {kLm, {{"kind0.heads", 4097}}, "kind0.heads: 4097, expected 1 to 4096"},
      {kLm, {{"kind0.score_order", 1}}, "kind0.score_order: 1, expected 0 to 0"},
      {kLm, {{"kind0.heads", kGone}}, "kind0.heads: is missing"},
      {kLm, {{"model.stack", kGone}}, "model.stack: is missing"},
      {kLm, {{"output.output", kGone}}, "metadata: scope output is missing"},
  });
}

TEST_CASE("refusals: values of a kind that do not go together") {
  const char* const rotary = "tiny-rotary-f32";
  const char* const relative = "tiny-relative-key-f32";
  const char* const place =
      "kind0.qk_norm_place: 1 goes with a norm of q and k, and rotary positions";
  try_all({
      {kLm, {{"kind0.kv_heads", 2}}, ""},
      {kLm, {{"kind0.kv_heads", 3}}, "kind0.kv_heads: does not divide the heads"},
      {kLm, {{"kind0.cross_heads", 4}, {"kind0.cross_kv_heads", 2}}, ""},
      {kLm,
       {{"kind0.cross_heads", 4}, {"kind0.cross_kv_heads", 3}},
       "kind0.kv_heads: does not divide the heads"},
      {kLm, {{"kind0.norm_eps", 0.0}}, ""},
      {kLm, {{"kind0.norm_eps", -1e-9}}, "kind0.norm_eps: is negative"},
      {kLm, {{"kind0.cap", 0.0}}, ""},
      {kLm, {{"kind0.cap", -1.0}}, "kind0.cap: is negative"},
      {kLm, {{"decoder.embedding_norm_eps", 0.0}}, ""},
      {kLm, {{"decoder.embedding_norm_eps", -1e-9}}, "decoder.embedding_norm_eps: is negative"},
      {kLm, {{"decoder.final_norm_eps", 0.0}}, ""},
      {kLm, {{"decoder.final_norm_eps", -1e-9}}, "decoder.final_norm_eps: is negative"},
      {kLm, {{"output.head_norm_eps", 0.0}}, ""},
      {kLm, {{"output.head_norm_eps", -1e-9}}, "output.head_norm_eps: is negative"},
      {kLm, {{"output.cap", 0.0}}, ""},
      {kLm, {{"output.cap", -1.0}}, "output.cap: is negative"},
      {kBert, {{"kind0.causal", 1}}, ""},
      {kBert, {{"kind0.causal", 2}}, "kind0.causal: 2, expected 0 to 1"},
      {kLm, {{"kind0.separate_v", 1}}, ""},
      {kLm, {{"kind0.separate_v", 2}}, "kind0.separate_v: 2, expected 0 to 1"},
      {kLm, {{"kind0.qkv_clip", 0.0}}, ""},
      {kLm, {{"kind0.qkv_clip", -1.0}}, "kind0.qkv_clip: is negative"},
      {kLm, {{"kind0.rotary_width", 2}}, "kind0.rotary_width: nothing is rotary here"},
      {kLm, {{"kind0.max_distance", 1}}, "kind0.max_distance: nothing is relative here"},
      {rotary, {{"kind0.head_width", 6}, {"kind0.rotary_width", 6}}, ""},
      {rotary,
       {{"kind0.head_width", 6}, {"kind0.rotary_width", 8}},
       "kind0.rotary_width: 8, expected an even number up to the head width 6"},
      {rotary,
       {{"kind0.head_width", 7}, {"kind0.rotary_width", 7}},
       "kind0.rotary_width: 7, expected an even number up to the head width 7"},
      {rotary,
       {{"kind0.head_width", 7}, {"kind0.rotary_width", 0}},
       "kind0.rotary_width: 0, expected an even number up to the head width 7"},
      {relative, {{"kind0.max_distance", 1}}, ""},
      {relative,
       {{"kind0.max_distance", 0}},
       "kind0.max_distance: missing, its position needs a table of distances"},
      {kT5,
       {{"kind1.max_distance", 0}},
       "kind1.max_distance: missing, its position needs a table of distances"},
      {relative, {{"kind0.score", 1}}, "kind0.score: an additive score has no relative keys"},
      {kT5, {{"kind0.score", 1}}, ""},
      {kLm, {{"kind0.qk_norm_over", 1}}, "kind0.qk_norm_over: there is no norm of q and k"},
      {kLm, {{"kind0.qk_norm_over", 1}, {"kind0.qk_norm", 1}}, ""},
      {rotary, {{"kind0.qk_norm_place", 1}}, place},
      {rotary, {{"kind0.qk_norm_place", 1}, {"kind0.qk_norm", 1}}, ""},
      {kLm, {{"kind0.qk_norm_place", 1}, {"kind0.qk_norm", 1}}, place},
      {kLm, {{"kind0.activation", 6}}, ""},
      {kLm, {{"kind0.attention_norm", 0}}, ""},
      {kLm,
       {{"kind0.attention_norm", 0}, {"kind0.norm_place", 2}},
       "kind0.attention_norm: 0, which goes with norm_place before only"},
  });
}

TEST_CASE("refusals: parallel sub-layers go with a norm before, and nothing else") {
  const char* const wrong = "kind0.parallel: goes with norm_place before, without cross-attention";
  try_all({
      {kLm, {{"kind0.parallel", 1}}, ""},
      {kLm, {{"kind0.parallel", 2}}, ""},
      {kLm, {{"kind0.parallel", 1}, {"kind0.norm_place", 2}}, wrong},
      {kLm, {{"kind0.parallel", 2}, {"kind0.cross", 1}}, wrong},
      {kLm, {{"kind0.parallel", 2}, {"kind0.attention_norm", 0}}, wrong},
      {kLm,
       {{"kind0.parallel", 1}, {"kind0.input_scales", 1}},
       "kind0.input_scales: the sub-layers of this parallel block read one input"},
      {kLm, {{"kind0.parallel", 2}, {"kind0.input_scales", 1}}, ""},
  });
}

TEST_CASE("refusals: ids that the vocabulary does not have, sections that the file does not have") {
  std::vector<Case> cases;
  for (const char* name : {"pad", "unknown", "start", "decoder_start", "forced_first", "mask"}) {
    static std::vector<std::string> names;  // outlive the rows
    names.reserve(12);
    names.push_back(std::string("target.") + name);
    cases.push_back({kLm, {{names.back().c_str(), 58}}, ""});
    cases.push_back({kLm,
                     {{names.back().c_str(), 59}},
                     "target: special id 59 is not below the vocabulary 59"});
  }
  for (const char* name : {"source.end", "source.prefix", "source.suffix", "source.pair"}) {
    cases.push_back({kBert, {{name, ids(2, 56)}}, ""});
    cases.push_back(
        {kBert, {{name, ids(2, 57)}}, "source: special id 57 is not below the vocabulary 57"});
  }
  cases.push_back({kBert, {{"source.tokenizer", 0}}, ""});
  cases.push_back({kBert, {{"source.tokenizer", 1}}, "source.tokenizer: 1, expected 0, 3 or 4"});
  cases.push_back({kBert, {{"source.tokenizer", 2}}, "source.tokenizer: 2, expected 0, 3 or 4"});
  cases.push_back(
      {kBert, {{"source.tokenizer", 3}}, "source.tokenizer: the file has no section 3"});
  cases.push_back({kD2l, {{"target.tokenizer", 3}}, ""});
  try_all(cases);
}

TEST_CASE("refusals: layers") {
  try_all({
      {kLm, {{"decoder.layers", ids(3)}}, "decoder.layers: an odd number of values"},
      {kLm,
       {{"decoder.layers", std::vector<uint32_t>{0, 0, 1, 1}}},
       "decoder.layers: layer 1 is of kind 1, there are 1"},
      {kLm,
       {{"decoder.layers", std::vector<uint32_t>{0, 1}}},
       "decoder.layers: sets of weights must be numbered in order of first use"},
      {kLm,
       {{"decoder.layers", std::vector<uint32_t>{0, 0, 0, 2}}},
       "decoder.layers: sets of weights must be numbered in order of first use"},
  });
  // With the kinds, which only opening reads.
  const auto of = [](const char* model, const char* name, const Item& item) {
    return opened(WeightFile(model).set(name, item).write());
  };
  expect(of(kBert, "kind0.window", 3), PHASOR_OK, "");
  expect(of(kBert, "kind0.window", 4), PHASOR_BAD_FILE,
         "kind0.window: 4, expected an odd number: an encoder's window has as many keys on both "
         "sides");
  expect(opened(WeightFile(kBert).set("kind0.window", 4).set("kind0.causal", 1).write()), PHASOR_OK,
         "");
  expect(of(kLm, "kind0.causal", 1), PHASOR_BAD_FILE,
         "kind0.causal: a decoder's layers are so by themselves");
  expect(of(kLm, "kind0.window", 4), PHASOR_OK, "");
  expect(of(kLm, "kind0.cross", 1), PHASOR_BAD_FILE,
         "decoder.layers: layer 0 has a cross-attention without an encoder");
  expect(of(kT5, "kind0.cross", 1), PHASOR_BAD_FILE,
         "encoder.layers: layer 0 has a cross-attention without an encoder");
  expect(of(kT5, "kind1.cross", 0), PHASOR_BAD_FILE,
         "decoder.layers: layer 0 has no cross-attention");
}

TEST_CASE("refusals: a stack") {
  try_all({
      {kBert,
       {{"encoder.max_positions", 0}},
       "encoder.max_positions: learned positions need the number of rows"},
      {kBert, {{"encoder.max_positions", 1}}, ""},
      {kLm,
       {{"decoder.width", 33}},
       "decoder.width: 33 is odd, sine and cosine need an even width"},
      {kAlbert,
       {{"encoder.position", 3}, {"encoder.embedding_width", 21}},
       "encoder.width: 21 is odd, sine and cosine need an even width"},
      {kBert, {{"source.pair_segment", 0}}, ""},
      {kBert, {{"source.pair_segment", 2}}, "source.pair_segment: 2, there are 2 segments"},
      {kLm,
       {{"decoder.projection_bias", 1}},
       "decoder.projection_bias: the embedding is not projected"},
      {kLm,
       {{"decoder.projection_place", 1}},
       "decoder.projection_place: the embedding is not projected"},
      {kLm,
       {{"decoder.projection_place", 1},
        {"decoder.projection_bias", 1},
        {"decoder.embedding_width", 16}},
       ""},
      {kLm,
       {{"decoder.embedding_norm_place", 1}},
       "decoder.embedding_norm_place: the embedding has no norm"},
      {kAlbert, {{"encoder.embedding_norm_place", 1}}, ""},
  });
}

TEST_CASE("refusals: an encoder's and a decoder's halves, and what they share") {
  const char* const source = "source side and encoder: present, the stack has none";
  try_all({
      {kT5, {{"model.stack", 2}}, source},
      {kT5, {{"model.stack", 1}}, "target side and decoder: present, the stack has none"},
      {kLm, {{"model.stack", 3}}, "source side and encoder: missing, the stack needs them"},
      {kBert, {{"model.stack", 3}}, "target side and decoder: missing, the stack needs them"},
      {kLm, {{"source.vocabulary", 3}}, source},
      {kLm, {{"encoder.width", 2}, {"encoder.layers", ids(2)}}, source},
      {kT5, {{"decoder.cross_width", 30}}, ""},
      {kT5, {{"decoder.cross_width", 29}}, "decoder.cross_width: 29, the encoder's width is 30"},
      {kLm, {{"decoder.cross_width", 29}}, ""},
      {kT5,
       {{"target.decoder_start", kGone}},
       "target.decoder_start: missing, an encoder-decoder needs it"},
      {kT5,
       {{"source.vocabulary", 54}},
       "target.embedding_shared: the sides differ in vocabulary or width"},
      {kT5,
       {{"encoder.embedding_width", 28}},
       "target.embedding_shared: the sides differ in vocabulary or width"},
      {kLm,
       {{"target.embedding_shared", 1}},
       "target.embedding_shared: the sides differ in vocabulary or width"},
      {kT5,
       {{"source.embedding_shared", 1}},
       "source.embedding_shared: only the target side can share"},
  });
}

TEST_CASE("refusals: an output") {
  const char* const head = "output: hidden states have no head";
  const char* const encoders = "output: pooling is an encoder's";
  const char* const decoders =
      "output.output: a decoder gives logits, behind an encoder classes too";
  const char* const pooling =
      "output.pooling: a pooled vector needs one; logits and hidden states have none";
  const char* const classes =
      "output.classes: their number goes with output classes, and only there";
  const char* const source = "output.tied: the source embedding has another shape";
  const char* const target = "output.tied: the target embedding has another shape";
  const Edit gone[] = {{"output.head_width", kGone},
                       {"output.head_activation", kGone},
                       {"output.head_norm", kGone},
                       {"output.head_bias", kGone}};
  try_all({
      {kLm, {{"output.output", 2}}, decoders},
      {kLm, {{"output.output", 4}, {"output.classes", 3}}, decoders},
      {kT5, {{"output.output", 2}}, decoders},
      {kT5, {{"output.output", 3}, {"output.pooling", 1}}, decoders},
      {kT5, {{"output.output", 4}, {"output.classes", 3}}, ""},
      {kT5, {{"output.output", 4}, {"output.classes", 3}, {"output.pooling", 1}}, encoders},
      {kT5, {{"output.output", 4}}, classes},
      {kLm, {{"output.pooling", 1}}, encoders},
      {kLm, {{"output.normalize", 1}}, encoders},
      {kLm, {{"output.classes", 1}}, classes},
      {kLm, {{"output.head_norm", 1}}, ""},
      {kBert, {{"output.pooling", 1}}, pooling},
      {kBert, {{"output.output", 2}, {"output.pooling", 1}}, pooling},
      {kBert, {{"output.output", 3}}, pooling},
      {kBert, {{"output.output", 3}, {"output.pooling", 1}}, ""},
      {kClasses, {{"output.pooling", 0}}, ""},
      {kClasses, {{"output.classes", 0}}, classes},
      {kClasses, {{"output.classes", 1}}, ""},
      {kBert, {{"output.classes", 1}}, classes},
      {kBert,
       {{"output.normalize", 1}},
       "output.normalize: only a pooled vector can have length 1"},
      {kBert, {{"output.output", 3}, {"output.pooling", 1}, {"output.normalize", 1}}, ""},
      {kBert, {{"output.output", 2}}, head},
      {kBert, {{"output.output", 2}, gone[0], gone[1], gone[2], gone[3]}, ""},
      {kBert, {{"output.output", 2}, gone[0], gone[2], gone[3]}, head},
      {kBert, {{"output.output", 2}, gone[0], gone[1], gone[3]}, head},
      {kBert, {gone[0]}, "output.head_bias: the head has no dense layer"},
      {kBert, {gone[0], gone[3]}, ""},
      {kBert, {{"output.head_width", 35}}, source},
      {kBert, {{"output.tied", 1}}, target},
      {kT5, {{"output.tied", 2}}, ""},
      {kT5, {{"output.head_width", 29}}, target},
      {kT5,
       {{"output.tied", 2}, {"source.vocabulary", 54}, {"target.embedding_shared", 0}},
       source},
  });
}

TEST_CASE("refusals: late interaction") {
  const char* const alone = "output.query_length: missing, late interaction needs it";
  const char* const rows =
      "output.query_length: late interaction is of an encoder's classes at each position";
  const Edit each = {"output.pooling", 0}, query = {"output.query_length", 8},
             text = {"output.document_length", 9};
  try_all({
      {kClasses, {each, query, text}, ""},
      {kClasses, {each, {"output.query_length", 0}}, ""},
      {kClasses, {each, text}, alone},
      {kClasses, {each, {"output.expansion", 1}}, alone},
      {kClasses, {each, {"output.query_marker", 1}}, alone},
      {kClasses, {each, {"output.document_marker", 1}}, alone},
      {kClasses, {each, {"output.skipped", ids(1)}}, alone},
      {kClasses, {query, text}, rows},
      {kBert, {query, text}, rows},
      {kT5, {{"output.output", 4}, {"output.classes", 3}, query, text}, rows},
      {kClasses, {each, query}, "output.document_length: missing, late interaction needs it"},
      {kClasses, {each, query, text, {"output.expansion", 2}}, ""},
      {kClasses,
       {each, query, text, {"output.expansion", 3}},
       "output.expansion: 3, expected 0 to 2"},
      {kClasses,
       {each, query, text, {"output.expansion", 1}, {"source.mask", kGone}},
       "output.expansion: there is no mask token that a query could have behind it"},
      {kClasses, {each, query, text, {"source.mask", kGone}}, ""},
      {kClasses, {each, query, text, {"output.skipped", ids(3, 56)}}, ""},
      {kClasses,
       {each, query, text, {"output.skipped", ids(3, 57)}, {"output.query_marker", 3}},
       "output.skipped: id 57 is not below the vocabulary 57"},
      {kClasses,
       {each, query, text, {"output.query_marker", 56}, {"output.document_marker", 56}},
       ""},
      {kClasses,
       {each, query, text, {"output.query_marker", 57}},
       "output: marker 57 is not below the vocabulary 57"},
      {kClasses,
       {each, query, text, {"output.document_marker", 58}},
       "output: marker 58 is not below the vocabulary 57"},
  });
}

TEST_CASE("refusals: what is recommended for generation") {
  const auto real = [](const char* name, double value, const char* line) {
    return Case{kLm, {{name, value}}, line};
  };
  try_all({
      {kBert, {{"generation.top_k", 0}}, "generation: present, an encoder generates nothing"},
      real("generation.top_p", 1, ""),
      real("generation.top_p", 0, ""),
      real("generation.top_p", 1.5, "generation.top_p: 1.5, expected 0 to 1"),
      real("generation.top_p", -0.5, "generation.top_p: -0.5, expected 0 to 1"),
      real("generation.min_p", 1.5, "generation.min_p: 1.5, expected 0 to 1"),
      real("generation.typical_p", 1.5, "generation.typical_p: 1.5, expected 0 to 1"),
      real("generation.temperature", 0, ""),
      real("generation.temperature", 1.5, ""),
      real("generation.temperature", -0.5, "generation.temperature: -0.5 is negative"),
      real("generation.repetition_penalty", 1.5, ""),
      real("generation.repetition_penalty", -1, "generation.repetition_penalty: -1 is negative"),
      real("generation.length_penalty", 4, ""),
      real("generation.length_penalty", 4.5, "generation.length_penalty: 4.5, expected -4 to 4"),
      real("generation.length_penalty", -4, ""),
      real("generation.length_penalty", -4.5, "generation.length_penalty: -4.5, expected -4 to 4"),
      {kLm, {{"generation.suppressed", ids(3, 58)}}, ""},
      {kLm,
       {{"generation.suppressed", ids(3, 59)}},
       "generation.suppressed: id 59 is not below the vocabulary 59"},
      {kLm, {{"generation.suppressed", ids(65536)}}, ""},
      {kLm,
       {{"generation.suppressed", ids(3, 59)}, {"generation.forced_last", 58}},
       "generation.suppressed: id 59 is not below the vocabulary 59"},
      {kLm, {{"generation.forced_last", 58}}, ""},
      {kLm, {{"generation.renormalize", 1}}, ""},
      {kLm,
       {{"generation.forced_last", 59}},
       "generation.forced_last: id 59 is not below the vocabulary 59"},
      {kLm, {{"generation.bad_words", Ids{1, 58, 2, 0, 58}}}, ""},
      {kLm,
       {{"generation.bad_words", Ids{1, 58, 2, 0, 59}}},
       "generation.bad_words: id 59 is not below the vocabulary 59"},
      {kLm,
       {{"generation.bad_words", Ids{1, 58, 3, 0, 1}}},
       "generation.bad_words: a sequence of 3 ids, expected 1 to 2"},
      {kLm,
       {{"generation.bad_words", Ids{1, 58, 0}}},
       "generation.bad_words: a sequence of 0 ids, expected 1 to 0"},
  });
}

TEST_CASE("refusals: tanh is an activation of a head only, xIELU of a feed-forward") {
  try_all({{kLm, {{"kind0.activation", 5}}, "kind0.activation: tanh is not built yet"}},
          PHASOR_UNSUPPORTED);
  try_all(
      {{kBert, {{"output.head_activation", 7}}, "output.head_activation: xIELU is not built yet"}},
      PHASOR_UNSUPPORTED);
}

TEST_CASE("refusals: scopes and their order") {
  const auto with = [](const char* model, std::vector<uint32_t> keys, unsigned char required) {
    WeightFile file(model);
    for (const uint32_t key : keys) file.meta[key] = {kMetaU32, required, words({1})};
    return measured(file.write());
  };
  expect(with(kLm, {9}, 0), PHASOR_OK, "");
  expect(with(kLm, {9}, 1), PHASOR_UNSUPPORTED,
         "metadata: key 9 (scope 0, field 9) is required and not known here");
  expect(with(kLm, {8u << 24}, 0), PHASOR_OK, "");
  expect(with(kLm, {200u << 24}, 0), PHASOR_OK, "");
  expect(with(kLm, {8u << 24 | 3}, 1), PHASOR_UNSUPPORTED,
         "metadata: key 134217731 (scope 8, field 3) is required and not known here");
  expect(with(kLm, {6u << 24 | 1u << 12 | 1}, 0), PHASOR_BAD_FILE,
         "metadata: index 1 of scope 6, expected 0");
  expect(with(kLm, {2u << 12}, 0), PHASOR_BAD_FILE, "metadata: index 2 of scope 0, expected 0");
  expect(with(kLm, {5u << 24 | 2u << 12 | 1}, 0), PHASOR_BAD_FILE,
         "metadata: index 2 of scope 5, expected 1");
  for (const uint32_t kinds : {256u, 257u}) {
    WeightFile file(kLm);
    std::map<uint32_t, Item> more;
    for (const auto& [key, item] : file.meta)
      for (uint32_t i = 1; key >> 24 == kScopeKind && i < kinds; ++i) more[key + (i << 12)] = item;
    file.meta.insert(more.begin(), more.end());
    expect(measured(file.write()), kinds == 256 ? PHASOR_OK : PHASOR_BAD_FILE,
           kinds == 256 ? "" : "metadata: more than 256 kinds");
  }
  WeightFile file(kLm);
  for (auto it = file.meta.begin(); it != file.meta.end();)
    it = it->first >> 24 == kScopeKind ? file.meta.erase(it) : std::next(it);
  expect(measured(file.write()), PHASOR_BAD_FILE, "metadata: scope kind is missing");
}

TEST_CASE("refusals: the words of a choice, and keys that nobody knows, as people read them") {
  WeightFile file(kLm);
  file.set("generation.temperature", 0.5);
  file.meta[8u << 24 | 3] = {kMetaF32Array, 0, words({bits_of(1.5), bits_of(-2)})};
  file.meta[8u << 24 | 4] = {kMetaString, 0, "a\nb"};
  file.meta[8u << 24 | 5] = {kMetaU32, 0, words({7})};
  const Block block = file.write();
  std::size_t need = 0;
  REQUIRE(phasor_model_size(&need, block.data(), block.size(), nullptr) == PHASOR_OK);
  const Block memory(need);
  phasor_model* model = nullptr;
  REQUIRE(phasor_model_open(&model, memory.data(), need, block.data(), block.size(), nullptr,
                            nullptr) == PHASOR_OK);
  std::map<std::string, std::string> seen;
  for (uint32_t i = 0; i < phasor_field_count(model); ++i) {
    phasor_field field{};
    field.struct_size = sizeof field;
    REQUIRE(phasor_field_get(model, i, &field) == PHASOR_OK);
    seen[field.name] = field.value;
  }
  CHECK(seen["decoder.position"] == "sinusoidal halves");
  CHECK(seen["model.stack"] == "decoder");
  CHECK(seen["output.output"] == "logits");
  CHECK(seen["kind0.norm_place"] == "before");
  CHECK(seen["generation.temperature"] == "0.5");
  CHECK(seen["?.3"] == "1.5 -2");
  CHECK(seen["?.4"] == "a b");
  CHECK(seen["?.5"] == "7");
}
