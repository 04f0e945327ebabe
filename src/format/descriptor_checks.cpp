#include "descriptor_checks.h"

namespace phasor {
namespace {

// The failure of a value that does not go with others; the line begins with `where`.
phasor_status refuse(phasor_error* error, const char* where, const char* text) {
  return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, 0, 0}, where, text);
}

phasor_status check_id(uint32_t id, const SideDescriptor& s, const char* where,
                       phasor_error* error) {
  if (id < s.vocabulary) return PHASOR_OK;
  return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, s.vocabulary, id}, where, id,
              " is not below the vocabulary ", s.vocabulary);
}
phasor_status check_ids(const File& file, const Array& ids, const SideDescriptor& s,
                        const char* where, phasor_error* error) {
  phasor_status status = PHASOR_OK;
  for (uint32_t i = 0; i < ids.count && status == PHASOR_OK; ++i)
    status = check_id(array_at(file, ids, i), s, where, error);
  return status;
}

phasor_status check_side(const File& file, const SideDescriptor& s, Half half,
                         phasor_error* error) {
  const char* const side = kSideNames[half];
  const char* const where = half == kEncoder ? "source: special id " : "target: special id ";
  const uint32_t ids[] = {s.pad, s.unknown, s.start, s.decoder_start, s.forced_first, s.mask};
  const Array* const lists[] = {&s.end, &s.prefix, &s.suffix, &s.pair};
  phasor_status status = PHASOR_OK;
  for (const uint32_t id : ids)
    if (status == PHASOR_OK && id != PHASOR_NONE) status = check_id(id, s, where, error);
  for (const Array* list : lists)
    if (status == PHASOR_OK) status = check_ids(file, *list, s, where, error);
  if (status != PHASOR_OK || s.tokenizer == 0) return status;
  if (s.tokenizer != kSectionSourceTokenizer && s.tokenizer != kSectionTargetTokenizer)
    return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, 0, s.tokenizer}, side,
                ".tokenizer: ", s.tokenizer, ", expected 0, 3 or 4");
  if (file.sections[s.tokenizer].bytes == 0)
    return fail(error, PHASOR_BAD_FILE, {s.tokenizer, PHASOR_NONE, 0, 0}, side,
                ".tokenizer: the file has no section ", s.tokenizer);
  return PHASOR_OK;
}

// The layer whose keys and values layer `i` uses.
phasor_status check_borrowed(const File& file, const StackDescriptor& s,
                             const KindDescriptor* kinds, uint32_t i, phasor_error* error) {
  const uint32_t kind = layer_of(file, s, i).kind, from = kinds[kind].keys_of - 1;
  const uint32_t other_kind = layer_of(file, s, from < i ? from : i).kind;
  const KindDescriptor &k = kinds[kind], &other = kinds[other_kind];
  if (from < i && !borrows(other) && other.mixer == k.mixer && other.kv_heads == k.kv_heads &&
      other.head_width == k.head_width && other.window == k.window)
    return PHASOR_OK;
  return fail(error, PHASOR_BAD_FILE, {kSectionMeta, i, 0, k.keys_of}, "kind", kind,
              ".keys_of: ", k.keys_of, ", expected 1 more than a layer before ", i,
              " with keys of its own, and as many, as wide and as far");
}

phasor_status check_layers(const File& file, const Descriptor& d, const KindDescriptor* kinds,
                           Half half, phasor_error* error) {
  const StackDescriptor& s = d.stacks[half];
  const char* const name = kStackNames[half];
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  if (s.layers.count % 2 != 0)
    return fail(error, PHASOR_BAD_FILE, at, name, ".layers: an odd number of values");
  const bool crossing = half == kDecoder && d.has_both();
  uint32_t sets = 0;
  for (uint32_t i = 0; i < layer_count(s); ++i) {
    const LayerOf l = layer_of(file, s, i);
    if (l.kind >= d.kinds)
      return fail(error, PHASOR_BAD_FILE, at, name, ".layers: layer ", i, " is of kind ", l.kind,
                  ", there are ", d.kinds);
    if (l.set > sets)
      return fail(error, PHASOR_BAD_FILE, at, name,
                  ".layers: sets of weights must be numbered in order of first use");
    sets += l.set == sets ? 1u : 0u;
    if (kinds == nullptr) continue;
    const KindDescriptor& k = kinds[l.kind];
    if (half == kDecoder && k.causal != 0)
      return fail(error, PHASOR_BAD_FILE, at, "kind", l.kind,
                  ".causal: a decoder's layers are so by themselves");
    if (half == kEncoder && k.mixer == kMixerConvolution)
      return fail(error, PHASOR_BAD_FILE, at, "kind", l.kind,
                  ".mixer: short convolution is a decoder's");
    if (half == kEncoder && (borrows(k) || k.layer_scale != 0))
      return fail(error, PHASOR_BAD_FILE, at, "kind", l.kind,
                  borrows(k) ? ".keys_of" : ".layer_scale", ": is a decoder's");
    if (borrows(k)) {
      const phasor_status status = check_borrowed(file, s, kinds, i, error);
      if (status != PHASOR_OK) return status;
    }
    if ((k.cross != 0) != crossing)
      return fail(
          error, PHASOR_BAD_FILE, at, name, ".layers: layer ", i,
          crossing ? " has no cross-attention" : " has a cross-attention without an encoder");
    if (k.cross == kCrossMerged && s.cross_width != s.width)
      return fail(error, PHASOR_BAD_FILE, at, name, ".cross_width: ", s.cross_width,
                  ", merged attention needs the decoder's width ", s.width);
  }
  return PHASOR_OK;
}

// Values of an embedding's row beside those of a vector that the model reads.
constexpr uint32_t kMostBeside = 64;

phasor_status check_stack(const Descriptor& d, Half half, phasor_error* error) {
  const StackDescriptor& s = d.stacks[half];
  const SideDescriptor& side = d.sides[half];
  const uint32_t pair_segment = side.pair_segment;
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  if (sinusoidal(s) && input_width(s) % 2 != 0)
    return fail(error, PHASOR_BAD_FILE, at, kStackNames[half], ".width: ", input_width(s),
                " is odd, sine and cosine need an even width");
  if (pair_segment != 0 && pair_segment >= s.segments)
    return fail(error, PHASOR_BAD_FILE, at, kSideNames[half], ".pair_segment: ", pair_segment,
                ", there are ", s.segments, " segments");
  if (side.own_row > side.vocabulary)
    return fail(error, PHASOR_BAD_FILE, at, kSideNames[half], ".own_row: ", side.own_row,
                ", the vocabulary has ", side.vocabulary, " ids");
  const bool projected = s.embedding_width != s.width;
  const auto bad = [&](const char* text) { return refuse(error, kStackNames[half], text); };
  if (s.position == kPositionLearned && s.max_positions == 0)
    return bad(".max_positions: learned positions need the number of rows");
  if (!projected && s.projection_bias != 0)
    return bad(".projection_bias: the embedding is not projected");
  if (!projected && s.projection_place != 0)
    return bad(".projection_place: the embedding is not projected");
  if (s.embedding_norm == kNormNone && s.embedding_norm_place != 0)
    return bad(".embedding_norm_place: the embedding has no norm");
  const uint32_t vectors = d.sides[half].vectors;
  if (vectors != 0 && (half == kDecoder || vectors > s.embedding_width ||
                       s.embedding_width - vectors > kMostBeside))
    return refuse(error, kSideNames[half],
                  ".vectors: expected the width of the source's embedding, or up to 64 less");
  if (s.per_layer_width != 0 && half == kEncoder)
    return bad(".per_layer_width: per-layer embeddings are a decoder's");
  // never: the build that is tested has them
  if (s.per_layer_width != 0 && !kHasPerLayer)
    return fail(error, PHASOR_UNSUPPORTED, at, kStackNames[half],
                ".per_layer_width: per-layer embeddings are not in this build (PHASOR_ONLY)");
  if (s.per_layer_width == 0 && s.per_layer_norm != kNormNone)
    return bad(".per_layer_norm: there are no per-layer embeddings");
  if (!(s.per_layer_norm_eps >= 0)) return bad(".per_layer_norm_eps: is negative");
  if (s.embedding_norm_eps < 0) return bad(".embedding_norm_eps: is negative");
  if (s.final_norm_eps < 0) return bad(".final_norm_eps: is negative");
  return PHASOR_OK;
}

// What an encoder or a decoder may give, and from which matrix.
phasor_status check_output(const Descriptor& d, phasor_error* error) {
  const OutputDescriptor& o = d.output;
  const bool logits = o.output == kOutputLogits, decoder = d.has(kDecoder);
  const bool pooled = o.output == kOutputPooled, classes = o.output == kOutputClasses;
  // A tied matrix takes what its embedding gives.
  const Half from = o.tied == kTiedSource ? kEncoder : kDecoder;
  const bool fits = d.has(from) && d.sides[from].vocabulary == d.sides[d.last()].vocabulary &&
                    d.stacks[from].embedding_width == output_inputs(d);
  const bool tied = logits && o.tied != kTiedOwn;
  const auto bad = [&](const char* text) { return refuse(error, "output", text); };
  if (o.cap < 0) return bad(".cap: is negative");
  if (o.head_norm_eps < 0) return bad(".head_norm_eps: is negative");
  if (decoder && !logits && !(classes && d.has_both()))
    return bad(".output: a decoder gives logits, behind an encoder classes too");
  if (decoder && (o.pooling != 0 || o.normalize != 0)) return bad(": pooling is an encoder's");
  if (pooled ? o.pooling == 0 : o.pooling != 0 && !classes)
    return bad(".pooling: a pooled vector needs one; logits and hidden states have none");
  if (classes != (o.classes != 0))
    return bad(".classes: their number goes with output classes, and only there");
  if (o.normalize != 0 && !pooled) return bad(".normalize: only a pooled vector can have length 1");
  if (o.output == kOutputHidden &&
      (o.head_width != 0 || o.head_activation != 0 || o.head_norm != 0))
    return bad(": hidden states have no head");
  if (o.head_width == 0 && o.head_bias != 0) return bad(".head_bias: the head has no dense layer");
  if (tied && !fits)
    return bad(from == kEncoder ? ".tied: the source embedding has another shape"
                                : ".tied: the target embedding has another shape");
  return PHASOR_OK;
}

// Late interaction: vectors of an encoder's positions.
phasor_status check_late(const File& file, const Descriptor& d, phasor_error* error) {
  const OutputDescriptor& o = d.output;
  const SideDescriptor& side = d.sides[kEncoder];
  const auto bad = [&](const char* text) { return refuse(error, "output", text); };
  const bool marked = o.query_marker != PHASOR_NONE || o.document_marker != PHASOR_NONE;
  if (o.query_length == 0) {
    if (o.document_length != 0 || o.expansion != 0 || marked || o.skipped.count != 0)
      return bad(".query_length: missing, late interaction needs it");
    return PHASOR_OK;
  }
  if (d.has(kDecoder) || o.output != kOutputClasses || o.pooling != 0)
    return bad(".query_length: late interaction needs an encoder with classes at each position");
  if (o.document_length == 0) return bad(".document_length: missing, late interaction needs it");
  if (o.expansion != 0 && side.mask == PHASOR_NONE)
    return bad(".expansion: the model has no mask token to fill a query with");
  phasor_status status = check_ids(file, o.skipped, side, "output.skipped: id ", error);
  const uint32_t both[] = {o.query_marker, o.document_marker};
  for (const uint32_t id : both)
    if (status == PHASOR_OK && id != PHASOR_NONE)
      status = check_id(id, side, "output: marker ", error);
  return status;
}

// Sequences that never come: of each its length, then its ids.
phasor_status check_bad_words(const File& file, const Array& words, const SideDescriptor& side,
                              phasor_error* error) {
  for (uint32_t i = 0; i < words.count;) {
    const uint32_t count = array_at(file, words, i), left = words.count - ++i;
    if (count == 0 || count > left)
      return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, left, count},
                  "generation.bad_words: a sequence of ", count, " ids, expected 1 to ", left);
    for (const uint32_t end = i + count; i < end; ++i) {
      const phasor_status status =
          check_id(array_at(file, words, i), side, "generation.bad_words: id ", error);
      if (status != PHASOR_OK) return status;
    }
  }
  return PHASOR_OK;
}

// Defaults that phasor_generate would refuse. 0 is "not said" for each of them.
phasor_status check_generation(const File& file, const Descriptor& d, phasor_error* error) {
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  const GenerationDescriptor& g = d.generation;
  if (!d.has(kDecoder) && g.present != 0)
    return fail(error, PHASOR_BAD_FILE, at, "generation: present, an encoder generates nothing");
  const struct {
    const char* name;
    float value;
    bool share;
  } numbers[] = {{"top_p", g.top_p, true},
                 {"min_p", g.min_p, true},
                 {"typical_p", g.typical_p, true},
                 {"temperature", g.temperature, false},
                 {"repetition_penalty", g.repetition_penalty, false}};
  for (const auto& n : numbers) {
    if (n.share && (n.value < 0 || n.value > 1))
      return fail(error, PHASOR_BAD_FILE, at, "generation.", n.name, ": ", n.value,
                  ", expected 0 to 1");
    if (n.value < 0)
      return fail(error, PHASOR_BAD_FILE, at, "generation.", n.name, ": ", n.value, " is negative");
  }
  if (g.length_penalty < -kSteepest || g.length_penalty > kSteepest)
    return fail(error, PHASOR_BAD_FILE, at, "generation.length_penalty: ", g.length_penalty,
                ", expected -4 to 4");
  const SideDescriptor& side = d.sides[kDecoder];
  phasor_status status = check_ids(file, g.suppressed, side, "generation.suppressed: id ", error);
  if (status == PHASOR_OK && g.forced_last != PHASOR_NONE)
    status = check_id(g.forced_last, side, "generation.forced_last: id ", error);
  return status == PHASOR_OK ? check_bad_words(file, g.bad_words, side, error) : status;
}

}  // namespace

phasor_status check_kind(const KindDescriptor& k, uint32_t index, phasor_error* error) noexcept {
  const At at{kSectionMeta, PHASOR_NONE, 0, index};
  const bool rotary = k.position == kRotaryInterleaved || k.position == kRotaryHalves;
  if (rotary && (k.rotary_width == 0 || k.rotary_width % 2 != 0 || k.rotary_width > k.head_width))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".rotary_width: ", k.rotary_width,
                ", expected an even number up to the head width ", k.head_width);
  const bool table = relative_keys(k) || k.position == kT5Bias;
  const bool before = k.norm_place == kNormBefore;
  const auto bad = [&](const char* text) {
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, text);
  };
  if (k.heads % k.kv_heads != 0 || k.cross_heads % k.cross_kv_heads != 0)
    return bad(".kv_heads: does not divide the heads");
  if (!(k.norm_eps >= 0)) return bad(".norm_eps: is negative");
  if (!rotary && k.rotary_width != 0) return bad(".rotary_width: nothing is rotary here");
  if (k.cap < 0) return bad(".cap: is negative");
  if (table && k.max_distance == 0)
    return bad(".max_distance: missing, its position needs a table of distances");
  if (!table && k.max_distance != 0) return bad(".max_distance: nothing is relative here");
  if (relative_keys(k) && k.score == kScoreAdditive)
    return bad(".score: an additive score has no relative keys");
  if (!(k.qkv_clip >= 0)) return bad(".qkv_clip: is negative");
  if (k.qk_norm_over != kOverHead && k.qk_norm == kNormNone)
    return bad(".qk_norm_over: there is no norm of q and k");
  if (k.qk_norm_place != kNormFirst && (k.qk_norm == kNormNone || !rotary))
    return bad(".qk_norm_place: 1 goes with a norm of q and k, and rotary positions");
  if (k.parallel != kSerial && (!before || k.cross != 0 || k.attention_norm == 0))
    return bad(".parallel: goes with norm_place before, without cross-attention");
  if (k.parallel == kSharedInput && k.input_scales != 0)
    return bad(".input_scales: the sub-layers of this parallel block read one input");
  if (k.mixer == kMixerConvolution && (k.window == 0 || k.window > kMostTaps))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".window: ", k.window,
                ", expected the taps of the short convolution, 1 to ", kMostTaps);
  if (k.mixer == kMixerConvolution &&
      (k.position != kRotaryNone || k.score != kScoreDot || k.qk_norm != kNormNone || k.cap != 0))
    return bad(".mixer: a short convolution has no positions, scores, or norms of q and k");
  if (k.mixer == kMixerConvolution && k.kv_heads != k.heads)
    return bad(".kv_heads: a short convolution has as many as heads");
  if (k.mixer != kMixerConvolution && k.convolution_bias != 0)
    return bad(".convolution_bias: nothing is a short convolution here");
  if (k.cross == kCrossMerged &&
      (k.cross_heads != k.heads || k.cross_kv_heads != k.kv_heads || k.cross_biases != 0 ||
       k.cross_head_width != k.head_width || !(k.cross_scale == k.scale)))
    return bad(".cross: merged attention has the heads, scale and biases of self-attention");
  if (k.cross == kCrossMerged &&
      (relative_keys(k) || k.score != kScoreDot || k.cross_score != kScoreDot ||
       k.mixer != kMixerAttention || (k.input_scales & kScaleQkv) != 0))
    return bad(
        ".cross: merged attention is of dot products, without relative keys or input scales");
  if (k.value_norm != 0 && (k.qk_norm == kNormNone || borrows(k)))
    return bad(".value_norm: goes with a norm of q and k, and keys of the layer's own");
  if (borrows(k) && (k.mixer == kMixerConvolution || k.separate_v != 0))
    return bad(".keys_of: goes with attention, and without a matrix of v");
  if (borrows(k) && (k.attention_biases & (kBiasK | kBiasV)) != 0)
    return bad(".attention_biases: there is no matrix of k and v here");
  if (k.cross == kCrossMerged && (borrows(k) || k.value_norm != 0))
    return bad(".cross: merged attention has keys of its own, and no norm of v");
  if (k.attention_norm == 0 && !before)
    return bad(".attention_norm: 0, which goes with norm_place before only");
  return PHASOR_OK;
}

phasor_status check_whole(const File& file, const Descriptor& d, const KindDescriptor* kinds,
                          phasor_error* error) noexcept {
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  const SideDescriptor &source = d.sides[kEncoder], &target = d.sides[kDecoder];
  const StackDescriptor &encoder = d.stacks[kEncoder], &decoder = d.stacks[kDecoder];
  for (const Half half : kHalves) {
    const bool wanted = d.has(half);
    if ((d.sides[half].present != 0) != wanted || (d.stacks[half].present != 0) != wanted)
      return fail(error, PHASOR_BAD_FILE, at,
                  half == kEncoder ? "source side and encoder" : "target side and decoder",
                  wanted ? ": missing, the stack needs them" : ": present, the stack has none");
    if (!wanted) continue;
    phasor_status status = check_side(file, d.sides[half], half, error);
    if (status == PHASOR_OK) status = check_layers(file, d, kinds, half, error);
    if (status == PHASOR_OK) status = check_stack(d, half, error);
    if (status != PHASOR_OK) return status;
  }
  if (d.has_both() && decoder.cross_width != encoder.width)
    return fail(
        error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, encoder.width, decoder.cross_width},
        "decoder.cross_width: ", decoder.cross_width, ", the encoder's width is ", encoder.width);
  const bool same = d.has_both() && source.vocabulary == target.vocabulary &&
                    encoder.embedding_width == decoder.embedding_width;
  const auto bad = [&](const char* text) { return refuse(error, "", text); };
  if (d.has_both() && target.decoder_start == PHASOR_NONE)
    return bad("target.decoder_start: missing, an encoder-decoder needs it");
  if (target.embedding_shared != 0 && !same)
    return bad("target.embedding_shared: the sides differ in vocabulary or width");
  if (source.embedding_shared != 0)
    return bad("source.embedding_shared: only the target side can share");
  phasor_status status = check_output(d, error);
  if (status == PHASOR_OK) status = check_late(file, d, error);
  return status != PHASOR_OK ? status : check_generation(file, d, error);
}

}  // namespace phasor
