// What of a descriptor is refused: each field of the engine's table at its ends and past them, and
// values that do not go together, each beside the last that is accepted.
#include "format/tensors.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

constexpr const char *kLm = "tiny-lm-f32", *kBert = "tiny-bert-f32", *kT5 = "tiny-t5-f32",
                     *kAlbert = "tiny-albert-f32", *kClasses = "tiny-classes-f32",
                     *kChat = "tiny-chat-f32", *kD2l = "tiny-d2l-f32", *kMerged = "tiny-merged-f32",
                     *kGemma4 = "tiny-gemma4-f32";

struct Case {
  std::string model, edits, line;  // no line: it is accepted
};

void try_all(const std::vector<Case>& cases, Said (*look)(const Block&) = measured) {
  for (const Case& c : cases) {
    CAPTURE(c.model);
    CAPTURE(c.edits);
    expect(look(WeightFile(c.model).edit(c.edits).write()),
           c.line.empty() ? PHASOR_OK : PHASOR_BAD_FILE, c.line);
  }
}

Said opened_whole(const Block& file) { return opened(file); }

// A value of each type of metadata, in the order of their numbers.
Item item_of_type(uint32_t type) {
  const Item all[] = {1, 1.0, std::string("x"), std::vector<uint32_t>{1},
                      Item(kMetaF32Array, 1, words({0}))};
  REQUIRE(all[type - 1].type == type);
  return all[type - 1];
}

// What a classifier of each position needs for late interaction.
const std::string late = "output.pooling=0 output.query_length=8 output.document_length=9";
constexpr uint32_t kMostValues = 65536;  // of any list

// The names of a field's choices.
std::vector<std::string> words_of(const Field& f) {
  std::istringstream text(f.choices);
  std::vector<std::string> out;
  for (std::string word; std::getline(text, word, '|');) out.push_back(word);
  REQUIRE(out.size() == f.high - f.low + 1);
  return out;
}

}  // namespace

TEST_CASE("refusals: a file that is taken apart and put together is the file") {
  for (const char* name : {kLm, kBert, kT5, kD2l}) {
    const Block file = golden_file(name), again = WeightFile(file).write();
    REQUIRE(file.size() == again.size());
    CHECK(std::memcmp(file.data(), again.data(), file.size()) == 0);
  }
}

TEST_CASE("refusals: every field at its ends, past them, of another type, and gone") {
  WeightFile good(kT5);    // it has every scope but generation's, which no field must have
  good.tensors.resize(1);  // no more are looked at
  good.sections.clear();
  for (const auto& [bare, field] : named_fields()) {
    const Field& f = *field.field;
    std::string name = bare;
    if (f.scope == kScopeKind) name.insert(name.find('.'), "0");
    CAPTURE(name);
    const auto with = [&, key = field.key](const Item& item) {
      WeightFile file(good);
      file.meta[key] = item;
      return measured(file.write());
    };
    for (const uint32_t type : {kMetaU32, kMetaF32, kMetaString, kMetaU32Array, kMetaF32Array})
      if (type != f.type)
        expect(
            with(item_of_type(type)), PHASOR_BAD_FILE,
            name + ": has type " + std::to_string(type) + ", expected " + std::to_string(f.type));
    WeightFile without(good);
    without.meta.erase(field.key);
    const std::string missing = name + ": is missing";
    CHECK((measured(without.write()).line == missing) == (f.needed != 0));
    if (f.type != kMetaU32 && f.type != kMetaU32Array) continue;
    const bool list = f.type == kMetaU32Array;
    const auto item = [&](uint32_t n) { return list ? Item(std::vector<uint32_t>(n)) : Item(n); };
    const auto outside = [&](uint32_t n) {
      return name + ": " + std::to_string(n) + (list ? " values" : "") + ", expected " +
             std::to_string(f.low) + " to " + std::to_string(f.high);
    };
    for (const uint32_t n : {f.low, f.high}) CHECK(with(item(n)).line != outside(n));
    for (const uint32_t n : {f.low - 1, f.high + 1})
      if (n != UINT32_MAX && (!list || n <= kMostValues))
        expect(with(item(n)), PHASOR_BAD_FILE, outside(n));
    if (f.choices == nullptr) continue;
    for (uint32_t n = f.low; n <= f.high; ++n) {
      const std::string word = words_of(f)[n - f.low];
      CHECK_FALSE(word.empty());
      const std::string not_built = name + ": " + word + " is not supported";
      CHECK((with(n).line == not_built) == ((f.built >> n & 1) == 0));
      char first[64], second[64];
      Line said(first, sizeof first), value(second, sizeof second);
      const std::string bytes = words({n});
      describe_meta(
          {field.key, kMetaU32, true, 4, reinterpret_cast<const unsigned char*>(bytes.data())},
          &said, &value);
      CHECK((first == name && second == word));
    }
  }
}

TEST_CASE("refusals: numbers that are negative, and ids that the vocabulary does not have") {
  for (const char* name :
       {"kind0.norm_eps", "kind0.cap", "kind0.qkv_clip", "decoder.embedding_norm_eps",
        "decoder.final_norm_eps", "output.head_norm_eps", "output.cap", "generation.temperature",
        "generation.repetition_penalty"}) {
    const std::string key = name, wrong = key[0] == 'g' ? ": -0.5 is negative" : ": is negative";
    try_all({{kLm, key + "=0", ""}, {kLm, key + "=1.5", ""}, {kLm, key + "=-0.5", key + wrong}});
  }
  for (const char* name : {"top_p", "min_p", "typical_p"}) {
    const std::string key = std::string("generation.") + name;
    try_all({{kLm, key + "=0", ""},
             {kLm, key + "=1", ""},
             {kLm, key + "=1.5", key + ": 1.5, expected 0 to 1"},
             {kLm, key + "=-0.5", key + ": -0.5, expected 0 to 1"}});
  }
  const auto ids = [](const char* model, const std::string& key, uint32_t size,
                      const std::string& what, const char* before = "") {
    const std::string n = std::to_string(size);
    try_all(
        {{model, key + "=" + before + std::to_string(size - 1), ""},
         {model, key + "=" + before + n, what + " " + n + " is not below the vocabulary " + n}});
  };
  for (const char* name : {"pad", "unknown", "start", "decoder_start", "forced_first", "mask"})
    ids(kLm, std::string("target.") + name, 59, "target: special id");
  for (const char* name : {"end", "prefix", "suffix", "pair"})
    ids(kBert, std::string("source.") + name, 57, "source: special id", "3,");
  const uint32_t vocabulary = Read(kChat).d.sides[kDecoder].vocabulary;
  ids(kChat, "target.pad", vocabulary, "target: special id");  // a tokenizer comes behind the ids
  for (const char* name : {"query_marker", "document_marker"})
    ids(kClasses, late + " output." + name, 57, "output: marker");
  ids(kClasses, late + " output.skipped", 57, "output.skipped: id", "3,");
  ids(kLm, "generation.suppressed", 59, "generation.suppressed: id", "3,");
  ids(kLm, "generation.forced_last", 59, "generation.forced_last: id");
  ids(kLm, "generation.bad_words", 59, "generation.bad_words: id", "1,58,2,0,");
  try_all({{kLm, "target.end=59,0", "target: special id 59 is not below the vocabulary 59"},
           {kLm, "target.end=58,0", ""},
           {kLm, "generation.suppressed=59 generation.forced_last=58",
            "generation.suppressed: id 59 is not below the vocabulary 59"},
           {kClasses, late + " output.skipped=57 output.query_marker=3",
            "output.skipped: id 57 is not below the vocabulary 57"}});
}

TEST_CASE("refusals: values of a kind that do not go together") {
  const char* const rotary = "tiny-rotary-f32";
  const char* const relative = "tiny-relative-key-f32";
  const char* const place =
      "kind0.qk_norm_place: 1 goes with a norm of q and k, and rotary positions";
  try_all({
      {kLm, "kind0.kv_heads=2", ""},
      {kLm, "kind0.kv_heads=3", "kind0.kv_heads: does not divide the heads"},
      {kLm, "kind0.cross_heads=4 kind0.cross_kv_heads=2", ""},
      {kLm, "kind0.cross_heads=4 kind0.cross_kv_heads=3",
       "kind0.kv_heads: does not divide the heads"},
      {kLm, "kind0.rotary_width=2", "kind0.rotary_width: nothing is rotary here"},
      {kLm, "kind0.max_distance=1", "kind0.max_distance: nothing is relative here"},
      {rotary, "kind0.head_width=6 kind0.rotary_width=6", ""},
      {rotary, "kind0.head_width=6 kind0.rotary_width=8",
       "kind0.rotary_width: 8, expected an even number up to the head width 6"},
      {rotary, "kind0.head_width=7 kind0.rotary_width=7",
       "kind0.rotary_width: 7, expected an even number up to the head width 7"},
      {rotary, "kind0.head_width=7 kind0.rotary_width=0",
       "kind0.rotary_width: 0, expected an even number up to the head width 7"},
      {relative, "kind0.max_distance=1", ""},
      {relative, "kind0.max_distance=0",
       "kind0.max_distance: missing, its position needs a table of distances"},
      {kT5, "kind1.max_distance=0",
       "kind1.max_distance: missing, its position needs a table of distances"},
      {relative, "kind0.score=1", "kind0.score: an additive score has no relative keys"},
      {kT5, "kind0.score=1", ""},
      {kLm, "kind0.qk_norm_over=1", "kind0.qk_norm_over: there is no norm of q and k"},
      {kLm, "kind0.qk_norm_over=1 kind0.qk_norm=1", ""},
      {rotary, "kind0.qk_norm_place=1", place},
      {rotary, "kind0.qk_norm_place=1 kind0.qk_norm=1", ""},
      {kLm, "kind0.qk_norm_place=1 kind0.qk_norm=1", place},
      {kLm, "kind0.activation=6", ""},
      {kLm, "kind0.attention_norm=0", ""},
      {kLm, "kind0.attention_norm=0 kind0.norm_place=2",
       "kind0.attention_norm: 0, which goes with norm_place before only"},
      {kLm, "kind0.kv_heads=3 kind0.cross_kv_heads=1", "kind0.kv_heads: does not divide the heads"},
  });
}

TEST_CASE("refusals: parallel sub-layers go with a norm before, and nothing else") {
  const char* const wrong = "kind0.parallel: goes with norm_place before, without cross-attention";
  try_all({
      {kLm, "kind0.parallel=1", ""},
      {kLm, "kind0.parallel=2", ""},
      {kLm, "kind0.parallel=1 kind0.norm_place=2", wrong},
      {kLm, "kind0.parallel=2 kind0.cross=1", wrong},
      {kLm, "kind0.parallel=2 kind0.attention_norm=0", wrong},
      {kLm, "kind0.parallel=1 kind0.input_scales=1",
       "kind0.input_scales: the sub-layers of this parallel block read one input"},
      {kLm, "kind0.parallel=2 kind0.input_scales=1", ""},
  });
}

TEST_CASE("refusals: per-layer embeddings, and what else is a decoder's alone") {
  try_all({
      {kGemma4, "decoder.per_layer_width=65536", ""},
      {kGemma4, "decoder.per_layer_width=65537",
       "decoder.per_layer_width: 65537, expected 0 to 65536"},
      {kGemma4, "decoder.per_layer_norm=0", ""},
      {kGemma4, "decoder.per_layer_norm_eps=0", ""},
      {kGemma4, "decoder.per_layer_norm_eps=-0.5", "decoder.per_layer_norm_eps: is negative"},
      {kLm, "decoder.per_layer_norm=2",
       "decoder.per_layer_norm: there are no per-layer embeddings"},
      {kBert, "encoder.per_layer_width=4",
       "encoder.per_layer_width: per-layer embeddings are a decoder's"},
  });
  try_all({{kBert, "kind0.layer_scale=1", "kind0.layer_scale: is a decoder's"},
           {kBert, "kind0.keys_of=1 kind0.attention_biases=0", "kind0.keys_of: is a decoder's"}},
          opened_whole);
}

TEST_CASE("refusals: layers with the keys and values of earlier ones") {
  const auto wrong = [](const char* keys, const char* layer) {
    return std::string(keys) + ", expected 1 more than a layer before " + layer +
           " with keys of its own, and as many, as wide and as far";
  };
  const char* const values =
      "kind2.value_norm: goes with a norm of q and k, and keys of the layer's own";
  const char* const matrix = "kind2.keys_of: goes with attention, and without a matrix of v";
  try_all(
      {
          {kGemma4, "kind2.keys_of=1", ""},
          {kGemma4, "kind2.keys_of=1025", "kind2.keys_of: 1025, expected 0 to 1024"},
          {kGemma4, "kind2.keys_of=2", wrong("kind2.keys_of: 2", "3")},  // another width
          {kGemma4, "kind2.keys_of=4", wrong("kind2.keys_of: 4", "3")},  // the layer itself
          {kGemma4, "kind2.keys_of=1024", wrong("kind2.keys_of: 1024", "3")},
          {kGemma4, "kind3.keys_of=4", wrong("kind3.keys_of: 4", "4")},  // has none of its own
          {kGemma4, "kind2.window=6", wrong("kind2.keys_of: 3", "3")},
          {kGemma4, "kind2.kv_heads=4", wrong("kind2.keys_of: 3", "3")},
          {kGemma4, "kind2.head_width=12", wrong("kind2.keys_of: 3", "3")},
      },
      opened_whole);
  try_all({
      {kGemma4, "kind2.value_norm=1", values},
      {kLm, "kind0.value_norm=1",
       "kind0.value_norm: goes with a norm of q and k, and keys of the layer's own"},
      {kLm, "kind0.value_norm=1 kind0.qk_norm=1", ""},
      {kGemma4, "kind2.separate_v=1", matrix},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.keys_of=1 kind0.attention_biases=0",
       "kind0.keys_of: goes with attention, and without a matrix of v"},
      {kGemma4, "kind2.attention_biases=9", ""},
      {kGemma4, "kind2.attention_biases=2",
       "kind2.attention_biases: there is no matrix of k and v here"},
      {kGemma4, "kind2.attention_biases=4",
       "kind2.attention_biases: there is no matrix of k and v here"},
  });
}

TEST_CASE("refusals: a short convolution") {
  const char* const scored =
      "kind0.mixer: a short convolution has no positions, scores, or norms of q and k";
  try_all({
      {kLm, "kind0.mixer=1 kind0.window=1", ""},
      {kLm, "kind0.mixer=1 kind0.window=64", ""},
      {kLm, "kind0.mixer=2 kind0.window=3", "kind0.mixer: 2, expected 0 to 1"},
      {kLm, "kind0.mixer=1",
       "kind0.window: 0, expected the taps of the short convolution, 1 to 64"},
      {kLm, "kind0.mixer=1 kind0.window=65",
       "kind0.window: 65, expected the taps of the short convolution, 1 to 64"},
      {kLm, "kind0.mixer=1 kind0.window=16777216",
       "kind0.window: 16777216, expected the taps of the short convolution, 1 to 64"},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.cap=1", scored},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.qk_norm=1", scored},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.score=1", scored},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.position=7", scored},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.kv_heads=1",
       "kind0.kv_heads: a short convolution has as many as heads"},
      {kLm, "kind0.convolution_bias=1",
       "kind0.convolution_bias: nothing is a short convolution here"},
      {kLm, "kind0.mixer=1 kind0.window=3 kind0.convolution_bias=1", ""},
  });
}

TEST_CASE("refusals: merged attention") {
  const char* const own = "kind1.cross: merged attention has keys of its own, and no norm of v";
  const char* const alike =
      "kind1.cross: merged attention has the heads, scale and biases of self-attention";
  const char* const plain =
      "kind1.cross: merged attention is of dot products, without relative keys or input scales";
  try_all({
      {kMerged, "kind1.cross_heads=4 kind1.cross_kv_heads=2 kind1.cross_head_width=10", ""},
      {kMerged, "kind1.cross=3", "kind1.cross: 3, expected 0 to 2"},
      {kMerged, "kind1.qk_norm=1 kind1.value_norm=1", own},
      {kMerged, "kind1.keys_of=1 kind1.attention_biases=0", own},
      {kMerged, "kind1.cross_heads=2", alike},
      {kMerged, "kind1.cross_kv_heads=4", alike},
      {kMerged, "kind1.cross_head_width=9", alike},
      {kMerged, "kind1.cross_biases=1", alike},
      {kMerged, "kind1.cross_scale=0.25", alike},
      {kMerged, "kind1.score=1", plain},
      {kMerged, "kind1.cross_score=1", plain},
      {kMerged, "kind1.input_scales=1", plain},
      {kMerged, "kind2.position=1 kind2.max_distance=9",
       "kind2.cross: merged attention is of dot products, without relative keys or input scales"},
      {kMerged, "kind2.position=0 kind2.mixer=1 kind2.window=3 kind2.cap=0 kind2.kv_heads=4",
       "kind2.cross: merged attention is of dot products, without relative keys or input scales"},
  });
}

TEST_CASE("refusals: layers, and sections that the file does not have") {
  const char* const order =
      "decoder.layers: sets of weights must be numbered in order of first use";
  try_all({
      {kLm, "decoder.layers=0,0,0", "decoder.layers: an odd number of values"},
      {kLm, "decoder.layers=0,0,1,1", "decoder.layers: layer 1 is of kind 1, there are 1"},
      {kLm, "decoder.layers=0,1", order},
      {kLm, "decoder.layers=0,0,0,2", order},
      {kLm, "decoder.layers=0,0,0,0,0,1", ""},
      {kLm, "decoder.layers=0,0,0,0,0,2", order},
      {kLm, "decoder.layers=0,0,0,1,0,0,0,2", ""},
      {kLm, "decoder.layers=0,0,0,1,0,0,0,3", order},
      {kBert, "source.tokenizer=0", ""},
      {kBert, "source.tokenizer=1", "source.tokenizer: 1, expected 0, 3 or 4"},
      {kBert, "source.tokenizer=2", "source.tokenizer: 2, expected 0, 3 or 4"},
      {kBert, "source.tokenizer=3", "source.tokenizer: the file has no section 3"},
      {kD2l, "target.tokenizer=3", ""},
  });
  // With the kinds, which only opening reads.
  try_all(
      {
          {kBert, "kind0.window=3", ""},
          {kBert, "kind0.window=4", ""},
          {kBert, "kind0.window=4 kind0.causal=1", ""},
          {kLm, "kind0.causal=1", "kind0.causal: a decoder's layers are so by themselves"},
          {kLm, "kind0.window=4", ""},
          {kBert, "kind0.mixer=1 kind0.window=3",
           "kind0.mixer: short convolution is a decoder's"},
          {kLm, "kind0.mixer=1 kind0.window=3",
           "decoder set 0: no tensor \"taps of the convolution\", the descriptor asks for it"},
          {kLm, "kind0.cross_score=1", ""},  // no cross-attention, no tensor of one
          {kLm, "kind0.cross=1",
           "decoder.layers: layer 0 has a cross-attention without an encoder"},
          {kLm, "kind0.cross=2",
           "decoder.layers: layer 0 has a cross-attention without an encoder"},
          {kT5, "kind0.cross=1",
           "encoder.layers: layer 0 has a cross-attention without an encoder"},
          {kT5, "kind1.cross=0", "decoder.layers: layer 0 has no cross-attention"},
          {kMerged,
           "encoder.width=36 decoder.cross_width=36 target.embedding_shared=0 output.tied=0",
           "decoder.cross_width: 36, merged attention needs the decoder's width 37"},
      },
      opened_whole);
}

TEST_CASE("refusals: a stack") {
  try_all({
      {kBert, "encoder.max_positions=0",
       "encoder.max_positions: learned positions need the number of rows"},
      {kBert, "encoder.max_positions=1", ""},
      {kLm, "decoder.width=33", "decoder.width: 33 is odd, sine and cosine need an even width"},
      {kAlbert, "encoder.position=3 encoder.embedding_width=21",
       "encoder.width: 21 is odd, sine and cosine need an even width"},
      {kBert, "source.pair_segment=0", ""},
      {kBert, "source.own_row=58", "source.own_row: 58, the vocabulary has 57 ids"},
      {kBert, "source.pair_segment=2", "source.pair_segment: 2, there are 2 segments"},
      {kLm, "decoder.projection_bias=1", "decoder.projection_bias: the embedding is not projected"},
      {kLm, "decoder.projection_place=1",
       "decoder.projection_place: the embedding is not projected"},
      {kLm, "decoder.projection_place=1 decoder.projection_bias=1 decoder.embedding_width=16", ""},
      {kLm, "decoder.embedding_norm_place=1",
       "decoder.embedding_norm_place: the embedding has no norm"},
      {kAlbert, "encoder.embedding_norm_place=1", ""},
  });
}

TEST_CASE("refusals: an encoder's and a decoder's halves, and what they share") {
  const char* const source = "source side and encoder: present, the stack has none";
  const char* const shared = "target.embedding_shared: the sides differ in vocabulary or width";
  try_all({
      {kT5, "model.stack=2", source},
      {kT5, "model.stack=1", "target side and decoder: present, the stack has none"},
      {kLm, "model.stack=3", "source side and encoder: missing, the stack needs them"},
      {kBert, "model.stack=3", "target side and decoder: missing, the stack needs them"},
      {kLm, "source.vocabulary=3", source},
      {kLm, "encoder.width=2 encoder.layers=0,0", source},
      {kT5, "decoder.cross_width=30", ""},
      {kT5, "decoder.cross_width=29", "decoder.cross_width: 29, the encoder's width is 30"},
      {kLm, "decoder.cross_width=29", ""},
      {kT5, "-target.decoder_start", "target.decoder_start: missing, an encoder-decoder needs it"},
      {kT5, "source.vocabulary=54", shared},
      {kT5, "encoder.embedding_width=28", shared},
      {kLm, "target.embedding_shared=1", shared},
      {kT5, "source.embedding_shared=1", "source.embedding_shared: only the target side can share"},
      {kT5, "decoder.cross_width=31", "decoder.cross_width: 31, the encoder's width is 30"},
      {kT5, "source.vocabulary=56", shared},
      {kT5, "encoder.embedding_width=32", shared},
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
  try_all({
      {kLm, "-output.output", "metadata: scope output is missing"},
      {kLm, "output.output=2", decoders},
      {kLm, "output.output=4 output.classes=3", decoders},
      {kT5, "output.output=2", decoders},
      {kT5, "output.output=3 output.pooling=1", decoders},
      {kT5, "output.output=4 output.classes=3", ""},
      {kT5, "output.output=4 output.classes=3 output.pooling=1", encoders},
      {kT5, "output.output=4", classes},
      {kLm, "output.pooling=1", encoders},
      {kLm, "output.normalize=1", encoders},
      {kLm, "output.classes=1", classes},
      {kLm, "output.head_norm=1", ""},
      {kBert, "output.pooling=1", pooling},
      {kBert, "output.output=2 output.pooling=1", pooling},
      {kBert, "output.output=3", pooling},
      {kBert, "output.output=3 output.pooling=1", ""},
      {kClasses, "output.pooling=0", ""},
      {kClasses, "output.classes=0", classes},
      {kClasses, "output.classes=1", ""},
      {kBert, "output.classes=1", classes},
      {kBert, "output.normalize=1", "output.normalize: only a pooled vector can have length 1"},
      {kBert, "output.output=3 output.pooling=1 output.normalize=1", ""},
      {kBert, "output.output=2", head},
      {kBert,
       "output.output=2 -output.head_width -output.head_activation -output.head_norm "
       "-output.head_bias",
       ""},
      {kBert, "output.output=2 -output.head_width -output.head_norm -output.head_bias", head},
      {kBert, "output.output=2 -output.head_width -output.head_activation -output.head_bias", head},
      {kBert, "-output.head_width", "output.head_bias: the head has no dense layer"},
      {kBert, "-output.head_width -output.head_bias", ""},
      {kBert, "output.head_width=35", source},
      {kBert, "output.tied=1", target},
      {kT5, "output.tied=2", ""},
      {kT5, "output.head_width=29", target},
      {kT5, "output.tied=2 source.vocabulary=54 target.embedding_shared=0", source},
      {kT5, "output.tied=2 source.vocabulary=56 target.embedding_shared=0", source},
      {kLm, "output.tied=1 output.head_width=31", target},
      {kLm, "output.tied=1 output.head_width=33", target},
      {kLm, "output.tied=1 output.head_width=32", ""},
      {kBert,
       "output.output=2 output.tied=1 -output.head_width -output.head_activation -output.head_norm "
       "-output.head_bias",
       ""},
      {kBert,
       "output.output=2 output.tied=1 output.head_width=8 -output.head_activation "
       "-output.head_norm -output.head_bias",
       head},
  });
}

TEST_CASE("refusals: late interaction") {
  const char* const alone = "output.query_length: missing, late interaction needs it";
  const char* const rows =
      "output.query_length: late interaction needs an encoder with classes at each position";
  try_all({
      {kClasses, late, ""},
      {kClasses, "output.pooling=0 output.query_length=0", ""},
      {kClasses, "output.pooling=0 output.document_length=9", alone},
      {kClasses, "output.pooling=0 output.expansion=1", alone},
      {kClasses, "output.pooling=0 output.query_marker=1", alone},
      {kClasses, "output.pooling=0 output.document_marker=1", alone},
      {kClasses, "output.pooling=0 output.skipped=0", alone},
      {kClasses, "output.query_length=8 output.document_length=9", rows},
      {kBert, "output.query_length=8 output.document_length=9", rows},
      {kT5, "output.output=4 output.classes=3 output.query_length=8 output.document_length=9",
       rows},
      {kClasses, "output.pooling=0 output.query_length=8",
       "output.document_length: missing, late interaction needs it"},
      {kClasses, late + " output.expansion=2", ""},
      {kClasses, late + " output.expansion=1 -source.mask",
       "output.expansion: the model has no mask token to fill a query with"},
      {kClasses, late + " -source.mask", ""},
  });
}

TEST_CASE("refusals: what is recommended for generation") {
  try_all({
      {kBert, "generation.top_k=0", "generation: present, an encoder generates nothing"},
      {kLm, "generation.renormalize=1", ""},
      {kLm, "generation.bad_words=1,58,2,0,58", ""},
      {kLm, "generation.bad_words=1,58,3,0,1",
       "generation.bad_words: a sequence of 3 ids, expected 1 to 2"},
      {kLm, "generation.bad_words=1,58,0",
       "generation.bad_words: a sequence of 0 ids, expected 1 to 0"},
      {kLm, "generation.length_penalty=4", ""},
      {kLm, "generation.length_penalty=4.5", "generation.length_penalty: 4.5, expected -4 to 4"},
      {kLm, "generation.length_penalty=-4", ""},
      {kLm, "generation.length_penalty=-4.5", "generation.length_penalty: -4.5, expected -4 to 4"},
  });
}

TEST_CASE("refusals: what follows from other values") {
  const KindDescriptor plain = Read(kLm).kinds[0];
  CHECK(plain.cross_head_width == plain.head_width);
  CHECK(plain.cross_scale == plain.scale);
  CHECK(plain.cross_heads == 2);
  const KindDescriptor own =
      Read(kLm, "kind0.cross_head_width=7 kind0.cross_scale=0.5 kind0.cross_heads=6").kinds[0];
  CHECK(own.cross_head_width == 7);
  CHECK(own.cross_heads == 6);
  CHECK(own.cross_scale == 0.5f);
  const auto biases = [](const char* edits) { return Read(kLm, edits).kinds[0].norm_biases; };
  CHECK(biases("-kind0.norm_biases kind0.norm=1") == 1);
  CHECK(biases("-kind0.norm_biases kind0.norm=2") == 0);
  for (const char* norm : {" kind0.norm=1", " kind0.norm=2"})
    for (const uint32_t n : {0u, 1u})
      CHECK(biases(("kind0.norm_biases=" + std::to_string(n) + norm).c_str()) == n);
}

TEST_CASE("refusals: halves of a side alone, and the last scope") {
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

TEST_CASE("refusals: the table of roles reads the kinds that there are") {
  const Read lm(kLm);
  const Block exact(lm.kinds.data(), lm.kinds.size() * sizeof(KindDescriptor));
  uint32_t count = 0;
  each_role(
      lm.file, lm.d, reinterpret_cast<const KindDescriptor*>(exact.data()),
      [](void* context, const Role& role) { *static_cast<uint32_t*>(context) += role.there; },
      &count);
  CHECK(count == entry_count(lm.file));
}
