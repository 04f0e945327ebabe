#include "draft.h"

#include <algorithm>

#include "tokenizers.h"

namespace generator {
namespace {

using namespace phasor;
using Numbers = std::vector<uint32_t>;

// One axis of a model may be large; the others are small, so that a model takes milliseconds.
class Sizes {
 public:
  explicit Sizes(Choices* c) : c_(c) {
    static const std::vector<std::string> axes = {
        "width",      "embedding_width", "heads",        "head_width", "hidden",
        "vocabulary", "max_positions",   "max_distance", "classes",    "output head_width"};
    if (c->chance(30)) large_ = c->of(axes);
  }
  bool is_large(const char* axis) const { return large_ == axis; }
  uint32_t of(const char* axis) const {
    static const Numbers small = {1, 2, 3, 4, 5, 7, 8, 12, 15, 16, 17, 20, 24, 31, 32, 33};
    static const Numbers large = {48, 63, 64, 65, 100, 130, 257, 512};
    return c_->of(is_large(axis) ? large : small);
  }
  // A width beside heads that are many, or wide: often 1.
  uint32_t width() const {
    const bool heads = is_large("heads") || is_large("head_width");
    return heads && c_->chance(40) ? 1 : of("width");
  }

 private:
  Choices* c_;
  std::string large_;
};

// What families have in common, as settings of a block; the rest is chosen as for any other.
struct Preset {
  const char* family;
  std::vector<std::pair<const char*, uint32_t>> settings;
};
const Preset kPresets[] = {
    {"Transformer 2017",
     {{"norm", 1}, {"norm_place", 2}, {"activation", 1}, {"attention_biases", 15}}},
    {"GPT-2, OPT", {{"norm", 1}, {"norm_place", 1}, {"activation", 3}, {"attention_biases", 15}}},
    {"Llama, Qwen",
     {{"norm", 2}, {"norm_place", 1}, {"position", 5}, {"activation", 4}, {"gated", 1}}},
    {"Gemma", {{"norm", 2}, {"norm_place", 3}, {"position", 5}, {"qk_norm", 2}, {"gated", 1}}},
    {"OLMo 2",
     {{"norm", 2}, {"norm_place", 4}, {"position", 5}, {"qk_norm", 2}, {"qk_norm_over", 2}}},
    {"HunYuan",
     {{"norm", 2}, {"norm_place", 1}, {"position", 5}, {"qk_norm", 2}, {"qk_norm_place", 1}}},
    {"GPT-J", {{"norm", 1}, {"norm_place", 1}, {"parallel", 1}, {"position", 4}}},
    {"GPT-NeoX", {{"norm", 1}, {"norm_place", 1}, {"parallel", 2}, {"position", 5}}},
    {"T5", {{"norm", 2}, {"norm_place", 1}, {"position", 6}, {"activation", 3}, {"gated", 1}}},
    {"BLOOM", {{"norm", 1}, {"norm_place", 1}, {"position", 7}, {"activation", 3}}},
    {"ModernBERT",
     {{"norm", 1}, {"norm_place", 1}, {"attention_norm", 0}, {"norm_biases", 0}, {"gated", 1}}},
    {"Shaw 2018", {{"norm", 1}, {"norm_place", 2}, {"position", 3}}},
};

uint32_t even(uint32_t n) { return n + n % 2; }
bool rotary(uint32_t position) {
  return position == kRotaryInterleaved || position == kRotaryHalves;
}

// Heads, and heads of keys and values that divide them.
struct Heads {
  uint32_t heads, kv_heads, width;
};
Heads choose_heads(Choices* c, const Sizes& sizes) {
  if (sizes.is_large("heads")) return {512, c->of({1u, 8u, 256u, 512u}), c->of({1u, 2u, 3u})};
  const uint32_t kv = c->of({1u, 1u, 2u, 3u}), group = c->of({1u, 1u, 2u, 3u, 5u});
  if (sizes.is_large("head_width")) return {kv, kv, c->of({64u, 65u, 128u, 257u, 512u})};
  return {kv * group, kv, c->of({1u, 2u, 3u, 4u, 5u, 6u, 8u, 15u, 16u, 17u, 24u, 33u, 40u})};
}

// Values of fields of which one forbids, or needs, what another says.
void agree(Choices* c, const Sizes& sizes, Group* k, bool encoder) {
  const uint32_t position = k->number("position");
  if (rotary(position)) {
    const uint32_t width = std::max(k->number("head_width"), 2u);
    k->set("head_width", width);
    k->set("rotary_width", 2 * c->between(1, width / 2));
  }
  const bool keys = position == kRelativeKey || position == kRelativeKeyQuery ||
                    position == kClippedRelative || position == kThreeWay ||
                    position == kDisentangled;
  if (keys || position == kT5Bias)
    k->set("max_distance",
           sizes.is_large("max_distance") ? 300 : c->of({1u, 2u, 3u, 5u, 16u, 17u, 40u}));
  if (keys) k->leave_out({"score"});
  if (k->number("qk_norm") == kNormNone) k->leave_out({"qk_norm_over", "value_norm"});
  if (k->number("qk_norm") == kNormNone || !rotary(position)) k->leave_out({"qk_norm_place"});
  if (!encoder) k->leave_out({"causal"});
  const bool parallel = k->number("parallel") != kSerial;
  if (parallel && k->number("cross") == 0 && c->chance(60)) k->set("norm_place", kNormBefore);
  if (parallel && (k->number("cross") != 0 || k->number("norm_place") != kNormBefore))
    k->leave_out({"parallel"});
  if (k->number("norm_place") != kNormBefore || k->number("parallel") != kSerial)
    k->leave_out({"attention_norm"});
  if (k->number("parallel") == kSharedInput) k->leave_out({"input_scales"});
}

Group choose_kind(Choices* c, const Sizes& sizes, uint32_t index, bool encoder, uint32_t cross) {
  Group k(kScopeKind, index);
  const Heads own = choose_heads(c, sizes);
  k.set("heads", own.heads);
  k.set("head_width", own.width);
  k.set("hidden", sizes.of("hidden"));
  k.leave_out({"kv_heads", "rotary_width", "max_distance", "cross", "cross_heads", "cross_kv_heads",
               "cross_head_width"});
  const bool merged = cross == kCrossMerged,
             short_convolution = !encoder && !merged && c->chance(12);
  if (short_convolution) {
    k.set("mixer", kMixerConvolution);
    k.set("window", c->of({1u, 2u, 3u, 4u, 7u, 19u}));
    k.leave_out({"position", "score", "qk_norm", "cap"});
  } else {
    k.leave_out({"mixer", "convolution_bias"});
  }
  const bool as_many = own.kv_heads == own.heads || short_convolution;
  if (!as_many || c->chance(50)) k.set("kv_heads", as_many ? own.heads : own.kv_heads);
  if (!short_convolution && c->chance(25)) {
    const Preset& preset = kPresets[c->below(sizeof kPresets / sizeof kPresets[0])];
    for (const auto& setting : preset.settings) k.set(setting.first, setting.second);
  }
  k.leave_out({"keys_of"});
  if (encoder) k.leave_out({"layer_scale"});
  if (merged) k.leave_out({"value_norm"});
  if (cross != kCrossOwn) k.leave_out({"cross_scale", "cross_biases", "cross_score"});
  if (cross != kCrossNone) k.set("cross", cross);
  if (merged) {  // of dot products, without relative keys or scales of its input
    k.leave_out({"score", "input_scales"});
    k.set("position", c->of({uint32_t(kRotaryNone), uint32_t(kRotaryInterleaved),
                             uint32_t(kRotaryHalves), uint32_t(kT5Bias), uint32_t(kAlibi)}));
  }
  if (cross == kCrossOwn && c->chance(60)) {
    const Heads other = choose_heads(c, sizes);
    k.set("cross_heads", other.heads);
    k.set("cross_kv_heads", other.kv_heads);
    k.set("cross_head_width", other.width);
  }
  k.fill(c);
  agree(c, sizes, &k, encoder);
  k.zero_or_absent(c, {"rotary_width", "max_distance", "cross", "mixer", "keys_of"});
  return k;
}

// Adds a layer that uses the keys and values of one before it, and its kind.
void borrow(Choices* c, std::vector<Group>* kinds, Numbers* layers) {
  const uint32_t count = static_cast<uint32_t>(layers->size() / 2), from = c->below(count);
  const Group& lender = (*kinds)[(*layers)[2 * from]];
  if (lender.number("mixer") != kMixerAttention || lender.number("cross") == kCrossMerged) return;
  const uint32_t index = static_cast<uint32_t>(kinds->size()), sets = layers->back();
  Group kind = lender.copy(index);
  kind.leave_out({"separate_v", "value_norm"});
  kind.set("keys_of", from + 1);
  kind.set("attention_biases", lender.number("attention_biases") & (kBiasQ | kBiasOut));
  if (c->chance(50)) kind.set("hidden", c->of({1u, 5u, 17u, 40u}));
  kinds->push_back(kind);
  uint32_t set = sets;
  for (uint32_t i = 1; i < layers->size(); i += 2) set = std::max(set, (*layers)[i]);
  layers->insert(layers->end(), {index, set + 1});
}

// Pairs (kind, set): a layer has weights of its own, or those of another layer of its kind.
Numbers choose_layers(Choices* c, uint32_t first_kind, uint32_t kinds) {
  Numbers pairs;
  uint32_t sets = 0;
  for (uint32_t i = 0, count = c->of({1u, 1u, 2u, 2u, 3u, 5u}); i < count; ++i) {
    const uint32_t same = i != 0 && c->chance(25) ? c->below(i) : i;
    pairs.push_back(same != i ? pairs[2 * same] : first_kind + c->below(kinds));
    pairs.push_back(same != i ? pairs[2 * same + 1] : sets++);
  }
  return pairs;
}

// given: the width that it must have, or 0.
Group choose_stack(Choices* c, const Sizes& sizes, uint32_t which, const Numbers& layers,
                   uint32_t given) {
  Group s(which == 0 ? kScopeEncoder : kScopeDecoder);
  const uint32_t width = given != 0 ? given : sizes.width();
  s.set("width", width);
  s.set_ids("layers", layers);
  s.leave_out({"cross_width", "embedding_width", "max_positions", "segments"});
  if (given % 2 != 0) s.set("position", kPositionNone);
  if (c->chance(35)) s.set("embedding_width", sizes.of("embedding_width"));
  if (c->chance(35)) s.set("segments", c->of({0u, 1u, 2u, 3u, 5u}));
  if (c->chance(90))
    s.choose(c, {"embedding_norm_eps", "final_norm_eps", "per_layer_norm_eps"});
  if (which == 1 && c->chance(20))
    s.set("per_layer_width", c->of({1u, 2u, 5u, 16u, 17u, 33u}));
  else
    s.leave_out({"per_layer_width", "per_layer_norm"});
  s.fill(c);
  if (s.number("embedding_norm") == kNormNone) s.leave_out({"embedding_norm_place"});
  const uint32_t position = s.number("position"), embedding = s.number("embedding_width", width);
  if (embedding == width) s.leave_out({"projection_bias", "projection_place"});
  if (position == kPositionInterleaved ||
      position == kPositionHalves) {  // pairs of sine and cosine
    s.set("width", even(width));
    if (s.has("embedding_width")) s.set("embedding_width", even(embedding));
    if (even(embedding) == even(width)) s.leave_out({"projection_bias", "projection_place"});
  }
  if (position == kPositionLearned || c->chance(20))
    s.set("max_positions", sizes.is_large("max_positions") ? 300 : c->of({1u, 2u, 17u, 40u, 70u}));
  s.zero_or_absent(c, {"max_positions", "per_layer_width", "per_layer_norm"});
  return s;
}

Numbers some_ids(Choices* c, uint32_t vocabulary) {
  Numbers ids(c->chance(3) ? 16 : c->of({0u, 1u, 1u, 2u, 3u}));
  for (uint32_t& id : ids) id = c->below(vocabulary);
  return ids;
}

Group choose_side(Choices* c, uint32_t which, uint32_t vocabulary, uint32_t tokenizer,
                  uint32_t segments) {
  Group s(which == 0 ? kScopeSource : kScopeTarget);
  s.set("vocabulary", vocabulary);
  s.leave_out({"tokenizer", "embedding_shared", "pair_segment"});
  if (c->chance(10)) s.set("embedding_shared", 0);
  if (tokenizer != 0 || c->chance(20)) s.set("tokenizer", tokenizer);
  for (const char* name : {"pad", "unknown", "start", "decoder_start", "forced_first", "mask"}) {
    s.leave_out({name});
    if (c->chance(40)) s.set(name, c->below(vocabulary));
  }
  for (const char* name : {"end", "prefix", "suffix", "pair"}) {
    s.leave_out({name});
    if (c->chance(50)) s.set_ids(name, some_ids(c, vocabulary));
  }
  if (c->chance(15)) s.set("own_row", c->below(vocabulary + 1));
  if (c->chance(20)) s.set("longest_text", c->of({0u, 1u, 8u, 1u << 24}));
  if (segments != 0 && c->chance(50)) s.set("pair_segment", c->below(segments));
  return s;
}

constexpr char kRecordEnd = 0x1E, kUnitEnd = 0x1F;  // of lists in one string

// `count` records, or now and then any text that has such signs; the second half of a pair is a
// text.
std::string choose_records(Choices* c, uint32_t count, bool pairs) {
  const bool any = c->chance(10);
  std::string all;
  for (uint32_t i = any ? c->below(5) : count; i > 0; --i) {
    all += any_text(c);
    if (pairs && (!any || c->chance(70))) all += kUnitEnd + any_text(c);
    if (!any || c->chance(70)) all += kRecordEnd;
  }
  return all;
}

// Late interaction, of classes at each position; `mask`: there is such a token.
void choose_late(Choices* c, Group* o, uint32_t vocabulary, bool mask) {
  o->set("query_length", c->of({1u, 5u, 32u, 1u << 24}));
  o->set("document_length", c->of({1u, 9u, 180u, 1u << 24}));
  if (mask) o->set("expansion", c->below(3));
  for (const char* name : {"query_marker", "document_marker"})
    if (c->chance(60)) o->set(name, c->below(vocabulary));
  if (c->chance(60)) o->set_ids("skipped", some_ids(c, vocabulary));
}

Group choose_output(Choices* c, const Sizes& sizes, uint32_t stack, const Group& source) {
  Group o(kScopeOutput);
  o.leave_out({"tied", "classes", "head_width", "labels", "prompts"});
  o.leave_out({"query_length", "document_length", "expansion", "query_marker", "document_marker",
               "skipped"});
  if (c->chance(35)) o.set("head_width", sizes.of("output head_width"));
  if (c->chance(30)) o.set_text("prompts", choose_records(c, c->below(4), true));
  if (stack != kEncoderOnly) {
    const bool classes = stack == kEncoderDecoder && c->chance(20);
    o.set("output", classes ? kOutputClasses : kOutputLogits);
    o.leave_out({"pooling", "normalize"});
  }
  if (c->chance(80)) o.choose(c, {"head_norm_eps"});
  o.fill(c);
  const uint32_t output = o.number("output");
  const uint32_t classes = output == kOutputClasses ? sizes.of("classes") : 0;
  if (classes != 0) o.set("classes", classes);
  if (classes != 0 ? c->chance(50) : c->chance(2))
    o.set_text("labels", choose_records(c, classes, false));
  // What means nothing to this output is seldom said.
  if (classes == 0 && !c->chance(5)) o.leave_out({"scores"});
  if (output != kOutputLogits && classes == 0 && !c->chance(10)) o.leave_out({"bias"});
  if (output == kOutputPooled && o.number("pooling") == kPoolNone)
    o.set("pooling", c->of({1u, 2u, 3u, 4u}));
  if (output != kOutputPooled && output != kOutputClasses) o.leave_out({"pooling"});
  if (output != kOutputPooled) o.leave_out({"normalize"});
  if (output == kOutputHidden) o.leave_out({"head_width", "head_activation", "head_norm"});
  if (o.number("head_width") == 0) o.leave_out({"head_bias"});
  if (c->chance(10)) o.set("query_length", 0), o.set("document_length", 0);
  if (stack == kEncoderOnly && classes != 0 && o.number("pooling") == kPoolNone && c->chance(50))
    choose_late(c, &o, source.number("vocabulary"), source.has("mask"));
  return o;
}

Group choose_generation(Choices* c, uint32_t vocabulary) {
  Group g(kScopeGeneration);
  if (c->chance(50))
    g.set_ids("suppressed", some_ids(c, vocabulary));
  else
    g.leave_out({"suppressed"});
  std::vector<uint32_t> words;
  for (uint32_t i = c->below(4); i > 0; --i) {
    words.push_back(c->between(1, 4));
    for (uint32_t n = words.back(); n > 0; --n) words.push_back(c->below(vocabulary));
  }
  if (words.empty() && c->chance(50))
    g.leave_out({"bad_words"});
  else
    g.set_ids("bad_words", words);
  if (c->chance(30))
    g.set("forced_last", c->below(vocabulary));
  else
    g.leave_out({"forced_last"});
  g.fill(c);
  return g;
}

// The two sides of an encoder-decoder may have one embedding, and an output's matrix may be an
// embedding: then their shapes are one.
void choose_shared(Choices* c, const Draft& d, Group sides[2], Group stacks[2], Group* output) {
  const auto vocabulary = [&](int i) { return sides[i].number("vocabulary"); };
  const auto embedding = [&](int i) {
    return stacks[i].number("embedding_width", stacks[i].number("width"));
  };
  const bool both = d.encoder() && d.decoder();
  if (both && vocabulary(0) == vocabulary(1) && embedding(0) == embedding(1) && c->chance(60))
    sides[1].set("embedding_shared", 1);
  if (output->number("output") != kOutputLogits || !c->chance(45)) return;
  const int to = d.decoder() ? 1 : 0, from = both ? static_cast<int>(c->below(2)) : to;
  if (vocabulary(from) != vocabulary(to)) return;
  const uint32_t inputs = output->number("head_width", 0);
  if (embedding(from) != (inputs != 0 ? inputs : stacks[to].number("width")))
    output->set("head_width", embedding(from));
  output->set("tied", from == 0 ? kTiedSource : kTiedTarget);
}

uint32_t choose_vocabulary(Choices* c, const Sizes& sizes, uint32_t pieces) {
  if (pieces != 0) return pieces + c->of({0u, 0u, 1u, 5u});
  return sizes.of("vocabulary");
}

}  // namespace

Draft draft_model(Choices* c) {
  Draft d;
  d.stack = c->of<uint32_t>({kEncoderOnly, kDecoderOnly, kEncoderDecoder});
  const Sizes sizes(c);
  Group model(kScopeModel);
  model.set("stack", d.stack);
  model.fill(c);

  // Both sides of an encoder-decoder may name one section.
  const bool has[2] = {d.encoder(), d.decoder()};
  uint32_t named[2] = {0, 0}, vocabularies[2] = {0, 0};
  for (uint32_t i = 0; i < 2; ++i) {
    if (!has[i] || !c->chance(45)) continue;
    const bool again = i == 1 && named[0] != 0 && c->chance(40);
    named[i] = again ? named[0] : kSectionSourceTokenizer + (has[1 - i] ? i : c->below(2));
    if (!again) d.tokenizers[named[i] - kSectionSourceTokenizer] = any_tokenizer(c);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t pieces =
        named[i] == 0 ? 0 : d.tokenizers[named[i] - kSectionSourceTokenizer].pieces;
    vocabularies[i] = choose_vocabulary(c, sizes, pieces);
    if (i == 1 && has[0] && vocabularies[0] >= pieces && c->chance(50))
      vocabularies[1] = vocabularies[0];
  }

  std::vector<Group> kinds;
  std::vector<Group> sides, stacks;
  const bool merges = has[0] && has[1] && c->chance(30);  // some of the decoder's kinds
  for (uint32_t i = 0; i < 2; ++i) {
    const bool crosses = i == 1 && has[0];
    const uint32_t first = static_cast<uint32_t>(kinds.size()),
                   used = has[i] ? c->of({1u, 1u, 2u}) : 0;
    const uint32_t spare = has[i] && c->chance(5) ? 1 : 0;  // a kind that no layer is of
    for (uint32_t k = 0; k < used + spare; ++k) {
      const uint32_t own = crosses ? kCrossOwn : kCrossNone;
      const bool merged = crosses && merges && c->chance(70);
      kinds.push_back(choose_kind(c, sizes, first + k, i == 0, merged ? kCrossMerged : own));
    }
    const uint32_t given = crosses && merges ? stacks[0].number("width") : 0;
    Numbers layers = choose_layers(c, first, used);
    if (i == 1 && used != 0 && c->chance(25)) borrow(c, &kinds, &layers);
    stacks.push_back(choose_stack(c, sizes, i, layers, given));
    const uint32_t segments = stacks[i].number("segments");
    sides.push_back(choose_side(c, i, vocabularies[i], named[i], segments));
  }
  if (d.stack == kEncoderDecoder) {
    if (!sides[1].has("decoder_start")) sides[1].set("decoder_start", c->below(vocabularies[1]));
    if (c->chance(50)) stacks[1].set("cross_width", stacks[0].number("width"));
    const uint32_t width = stacks[0].number("embedding_width", stacks[0].number("width"));
    if (c->chance(30) && width % 2 == 0) {  // so that the embeddings can be one
      stacks[1].set("embedding_width", width);
      if (width == stacks[1].number("width"))
        stacks[1].leave_out({"projection_bias", "projection_place"});
    }
  }
  Group output = choose_output(c, sizes, d.stack, sides[0]);
  choose_shared(c, d, sides.data(), stacks.data(), &output);
  output.zero_or_absent(c, {"tied", "classes", "head_width"});
  if (d.encoder() && c->chance(5)) {
    const uint32_t row = stacks[0].number("embedding_width", stacks[0].number("width"));
    sides[0].set("vectors", c->chance(30) ? 0 : row - c->below(row < 64 ? row : 64));
  }

  model.write(&d.meta, c);
  for (const std::vector<Group>* groups : {&sides, &stacks})
    for (uint32_t i = 0; i < 2; ++i)
      if (has[i]) (*groups)[i].write(&d.meta, c);
  for (const Group& kind : kinds) kind.write(&d.meta, c);
  output.write(&d.meta, c);
  if (d.decoder() && c->chance(50)) choose_generation(c, vocabularies[1]).write(&d.meta, c);
  return d;
}

}  // namespace generator
