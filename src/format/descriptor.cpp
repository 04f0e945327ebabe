#include "descriptor.h"

namespace phasor {
namespace {

constexpr uint32_t kAll = 0xFFFFFFFFu;  // every value in range is built
constexpr uint32_t kZero = 1u;          // only the value 0 is built
constexpr uint32_t kNeeded = 1, kOptional = 0;
constexpr uint32_t bits(bool value, uint32_t mask) { return value ? mask : 0; }
constexpr uint32_t kActivations =
    bits(kHasRelu, 2) | bits(kHasGelu, 4) | bits(kHasGeluTanh, 8) | bits(kHasSilu, 16);
constexpr uint32_t kNorms = bits(kHasLayerNorm, 2) | bits(kHasRmsNorm, 4);
constexpr uint32_t kPositions = 3 | bits(kHasSinusoidal, 12), kScores = 1 | bits(kHasAdditive, 2),
                   kOutputs = 2 | bits(kHasOutputs, 28);
constexpr uint32_t kKindPositions =
    1 | bits(kHasRelative, 0x10E) | bits(kHasRotary, 48) | bits(kHasT5, 64) | bits(kHasAlibi, 128);

#define SIDE(m) static_cast<uint16_t>(offsetof(SideDescriptor, m))
#define STACK(m) static_cast<uint16_t>(offsetof(StackDescriptor, m))
#define KIND(m) static_cast<uint16_t>(offsetof(KindDescriptor, m))
#define OUT(m) static_cast<uint16_t>(offsetof(OutputDescriptor, m))
#define GENERATION(m) static_cast<uint16_t>(offsetof(GenerationDescriptor, m))
constexpr uint32_t kMaxIds = 16, kMaxVocabulary = 1u << 24, kMaxWidth = 65536,
                   kMaxId = kMaxVocabulary - 1;

// Scopes 2 and 4 have the fields of 1 and 3.
constexpr Field kFields[] = {
    {kScopeModel, 1, kMetaU32, kNeeded, 0, 1, 3, kAll, "stack", "encoder|decoder|encoder-decoder"},
    {kScopeModel, 16, kMetaString, kOptional, 0, 0, 0, kAll, "name", nullptr},
    {kScopeModel, 17, kMetaString, kOptional, 0, 0, 0, kAll, "author", nullptr},
    {kScopeModel, 18, kMetaString, kOptional, 0, 0, 0, kAll, "licence", nullptr},
    {kScopeModel, 19, kMetaString, kOptional, 0, 0, 0, kAll, "credit", nullptr},
    {kScopeModel, 20, kMetaString, kOptional, 0, 0, 0, kAll, "origin", nullptr},
    {kScopeModel, 21, kMetaString, kOptional, 0, 0, 0, kAll, "converter", nullptr},

    {kScopeSource, 1, kMetaU32, kNeeded, SIDE(vocabulary), 1, kMaxVocabulary, kAll, "vocabulary",
     nullptr},
    {kScopeSource, 2, kMetaU32, kOptional, SIDE(tokenizer), 0, 4, kAll, "tokenizer", nullptr},
    {kScopeSource, 3, kMetaU32, kOptional, SIDE(embedding_shared), 0, 1, kAll, "embedding_shared",
     nullptr},
    {kScopeSource, 4, kMetaU32, kOptional, SIDE(pad), 0, kMaxId, kAll, "pad", nullptr},
    {kScopeSource, 5, kMetaU32, kOptional, SIDE(unknown), 0, kMaxId, kAll, "unknown", nullptr},
    {kScopeSource, 6, kMetaU32, kOptional, SIDE(start), 0, kMaxId, kAll, "start", nullptr},
    {kScopeSource, 7, kMetaU32Array, kOptional, SIDE(end), 0, kMaxIds, kAll, "end", nullptr},
    {kScopeSource, 8, kMetaU32, kOptional, SIDE(decoder_start), 0, kMaxId, kAll, "decoder_start",
     nullptr},
    {kScopeSource, 9, kMetaU32, kOptional, SIDE(forced_first), 0, kMaxId, kAll, "forced_first",
     nullptr},
    {kScopeSource, 10, kMetaU32, kOptional, SIDE(mask), 0, kMaxId, kAll, "mask", nullptr},
    {kScopeSource, 11, kMetaU32Array, kOptional, SIDE(prefix), 0, kMaxIds, kAll, "prefix", nullptr},
    {kScopeSource, 12, kMetaU32Array, kOptional, SIDE(suffix), 0, kMaxIds, kAll, "suffix", nullptr},
    {kScopeSource, 13, kMetaU32Array, kOptional, SIDE(pair), 0, kMaxIds, kAll, "pair", nullptr},
    {kScopeSource, 14, kMetaU32, kOptional, SIDE(pair_segment), 0, 65535, kAll, "pair_segment",
     nullptr},

    {kScopeEncoder, 1, kMetaU32, kNeeded, STACK(width), 1, kMaxWidth, kAll, "width", nullptr},
    {kScopeEncoder, 2, kMetaU32Array, kNeeded, STACK(layers), 2, 2 * kMaxLayers, kAll, "layers",
     nullptr},
    {kScopeEncoder, 3, kMetaU32, kOptional, STACK(position), 0, 3, kPositions, "position",
     "none|learned|sinusoidal interleaved|sinusoidal halves"},
    {kScopeEncoder, 4, kMetaU32, kOptional, STACK(max_positions), 0, 1u << 24, kAll,
     "max_positions", nullptr},
    {kScopeEncoder, 5, kMetaF32, kOptional, STACK(embedding_scale), 0, 0, kAll, "embedding_scale",
     nullptr},
    {kScopeEncoder, 6, kMetaU32, kOptional, STACK(embedding_width), 1, kMaxWidth, kAll,
     "embedding_width", nullptr},
    {kScopeEncoder, 7, kMetaU32, kOptional, STACK(embedding_norm), 0, 2, 1 | kNorms,
     "embedding_norm", "none|layer norm|RMS norm"},
    {kScopeEncoder, 8, kMetaF32, kOptional, STACK(embedding_norm_eps), 0, 0, kAll,
     "embedding_norm_eps", nullptr},
    {kScopeEncoder, 9, kMetaU32, kOptional, STACK(segments), 0, 65536, kAll, "segments", nullptr},
    {kScopeEncoder, 10, kMetaU32, kOptional, STACK(final_norm), 0, 2, 1 | kNorms, "final_norm",
     "none|layer norm|RMS norm"},
    {kScopeEncoder, 11, kMetaF32, kOptional, STACK(final_norm_eps), 0, 0, kAll, "final_norm_eps",
     nullptr},
    {kScopeEncoder, 12, kMetaU32, kOptional, STACK(cross_width), 1, kMaxWidth, kAll, "cross_width",
     nullptr},
    {kScopeEncoder, 13, kMetaU32, kOptional, STACK(projection_bias), 0, 1, kAll, "projection_bias",
     nullptr},
    {kScopeEncoder, 14, kMetaU32, kOptional, STACK(projection_place), 0, 1, kAll,
     "projection_place", "last|before positions"},

    {kScopeKind, 1, kMetaU32, kNeeded, KIND(norm), 1, 2, kNorms, "norm", "layer norm|RMS norm"},
    {kScopeKind, 2, kMetaU32, kNeeded, KIND(norm_place), 1, 4, kAll, "norm_place",
     "before|after|both|of the sub-layer"},
    {kScopeKind, 3, kMetaF32, kNeeded, KIND(norm_eps), 0, 0, kAll, "norm_eps", nullptr},
    {kScopeKind, 4, kMetaU32, kOptional, KIND(parallel), 0, 2, kAll, "parallel",
     "no|one norm|two norms"},
    {kScopeKind, 5, kMetaU32, kNeeded, KIND(heads), 1, 4096, kAll, "heads", nullptr},
    {kScopeKind, 6, kMetaU32, kOptional, KIND(kv_heads), 1, 4096, kAll, "kv_heads", nullptr},
    {kScopeKind, 7, kMetaU32, kNeeded, KIND(head_width), 1, 4096, kAll, "head_width", nullptr},
    {kScopeKind, 8, kMetaF32, kNeeded, KIND(scale), 0, 0, kAll, "scale", nullptr},
    {kScopeKind, 9, kMetaU32, kOptional, KIND(score), 0, 1, kScores, "score",
     "dot product|additive"},
    {kScopeKind, 10, kMetaU32, kOptional, KIND(attention_biases), 0, 15, kAll, "attention_biases",
     nullptr},
    {kScopeKind, 11, kMetaU32, kOptional, KIND(qk_norm), 0, 2, 1 | kNorms, "qk_norm",
     "none|layer norm|RMS norm"},
    {kScopeKind, 12, kMetaU32, kOptional, KIND(window), 0, 1u << 24, kAll, "window", nullptr},
    {kScopeKind, 13, kMetaF32, kOptional, KIND(cap), 0, 0, kAll, "cap", nullptr},
    {kScopeKind, 14, kMetaU32, kOptional, KIND(position), 0, 8, kKindPositions, "position",
     "none|relative_key|relative_key_query|clipped relative|rotary interleaved|rotary halves|T5 "
     "bias|ALiBi|three-way relative"},
    {kScopeKind, 15, kMetaU32, kOptional, KIND(rotary_width), 0, 4096, kAll, "rotary_width",
     nullptr},
    {kScopeKind, 16, kMetaU32, kOptional, KIND(max_distance), 0, 1u << 24, kAll, "max_distance",
     nullptr},
    {kScopeKind, 17, kMetaU32, kNeeded, KIND(hidden), 1, 1u << 20, kAll, "hidden", nullptr},
    {kScopeKind, 18, kMetaU32, kNeeded, KIND(activation), 1, 4, kActivations, "activation",
     "ReLU|GELU (erf)|GELU (tanh)|SiLU"},
    {kScopeKind, 19, kMetaU32, kOptional, KIND(gated), 0, 1, kAll, "gated", nullptr},
    {kScopeKind, 20, kMetaU32, kOptional, KIND(ffn_biases), 0, 3, kAll, "ffn_biases", nullptr},
    {kScopeKind, 21, kMetaU32, kOptional, KIND(cross), 0, 1, kAll, "cross", nullptr},
    {kScopeKind, 22, kMetaU32, kOptional, KIND(cross_heads), 1, 4096, kAll, "cross_heads", nullptr},
    {kScopeKind, 23, kMetaU32, kOptional, KIND(cross_kv_heads), 1, 4096, kAll, "cross_kv_heads",
     nullptr},
    {kScopeKind, 24, kMetaU32, kOptional, KIND(cross_head_width), 1, 4096, kAll, "cross_head_width",
     nullptr},
    {kScopeKind, 25, kMetaF32, kOptional, KIND(cross_scale), 0, 0, kAll, "cross_scale", nullptr},
    {kScopeKind, 26, kMetaU32, kOptional, KIND(cross_biases), 0, 15, kAll, "cross_biases", nullptr},
    {kScopeKind, 27, kMetaF32, kOptional, KIND(residual_scale), 0, 0, kAll, "residual_scale",
     nullptr},
    {kScopeKind, 28, kMetaU32, kOptional, KIND(norm_biases), 0, 1, kAll, "norm_biases", nullptr},
    {kScopeKind, 29, kMetaU32, kOptional, KIND(score_order), 0, 0, kZero, "score_order", nullptr},
    {kScopeKind, 30, kMetaU32, kOptional, KIND(cross_score), 0, 1, kScores, "cross_score",
     "dot product|additive"},
    {kScopeKind, 31, kMetaU32, kOptional, KIND(attention_norm), 0, 1, kAll, "attention_norm",
     nullptr},
    {kScopeKind, 33, kMetaU32, kOptional, KIND(input_scales), 0, 3, kAll, "input_scales", nullptr},
    {kScopeKind, 32, kMetaF32, kOptional, KIND(rotary_factor), 0, 0, kAll, "rotary_factor",
     nullptr},
    {kScopeKind, 34, kMetaU32, kOptional, KIND(qk_norm_over), 0, 2, kAll, "qk_norm_over",
     "head|head, own weights|all heads"},
    {kScopeKind, 35, kMetaF32, kOptional, KIND(qkv_clip), 0, 0, kAll, "qkv_clip", nullptr},

    {kScopeOutput, 1, kMetaU32, kNeeded, OUT(output), 1, 4, kOutputs, "output",
     "logits|hidden states|pooled|classes"},
    {kScopeOutput, 2, kMetaU32, kOptional, OUT(tied), 0, 2, kAll, "tied",
     "own|target embedding|source embedding"},
    {kScopeOutput, 3, kMetaF32, kOptional, OUT(scale), 0, 0, kAll, "scale", nullptr},
    {kScopeOutput, 4, kMetaF32, kOptional, OUT(cap), 0, 0, kAll, "cap", nullptr},
    {kScopeOutput, 5, kMetaU32, kOptional, OUT(bias), 0, 1, kAll, "bias", nullptr},
    {kScopeOutput, 6, kMetaU32, kOptional, OUT(pooling), 0, 3, kAll, "pooling",
     "none|mean|first|last"},
    {kScopeOutput, 7, kMetaU32, kOptional, OUT(normalise), 0, 1, kAll, "normalise", nullptr},
    {kScopeOutput, 8, kMetaU32, kOptional, OUT(classes), 0, 1u << 24, kAll, "classes", nullptr},
    {kScopeOutput, 9, kMetaU32, kOptional, OUT(head_width), 0, kMaxWidth, kAll, "head_width",
     nullptr},
    {kScopeOutput, 10, kMetaU32, kOptional, OUT(head_activation), 0, 5, kActivations | 33,
     "head_activation", "none|ReLU|GELU (erf)|GELU (tanh)|SiLU|tanh"},
    {kScopeOutput, 11, kMetaU32, kOptional, OUT(head_norm), 0, 2, 1 | kNorms, "head_norm",
     "none|layer norm|RMS norm"},
    {kScopeOutput, 12, kMetaF32, kOptional, OUT(head_norm_eps), 0, 0, kAll, "head_norm_eps",
     nullptr},
    {kScopeOutput, 13, kMetaU32, kOptional, OUT(head_bias), 0, 1, kAll, "head_bias", nullptr},
    {kScopeOutput, 14, kMetaU32, kOptional, OUT(scores), 0, 2, kAll, "scores",
     "softmax|sigmoid|as they are"},
    {kScopeOutput, 16, kMetaString, kOptional, OUT(labels), 0, 0, kAll, "labels", nullptr},
    {kScopeOutput, 17, kMetaString, kOptional, OUT(prompts), 0, 0, kAll, "prompts", nullptr},

    {kScopeGeneration, 1, kMetaU32, kOptional, GENERATION(sample), 0, 1, kAll, "sample", nullptr},
    {kScopeGeneration, 2, kMetaF32, kOptional, GENERATION(temperature), 0, 0, kAll, "temperature",
     nullptr},
    {kScopeGeneration, 3, kMetaU32, kOptional, GENERATION(top_k), 0, kMaxVocabulary, kAll, "top_k",
     nullptr},
    {kScopeGeneration, 4, kMetaF32, kOptional, GENERATION(top_p), 0, 0, kAll, "top_p", nullptr},
    {kScopeGeneration, 5, kMetaF32, kOptional, GENERATION(min_p), 0, 0, kAll, "min_p", nullptr},
    {kScopeGeneration, 6, kMetaF32, kOptional, GENERATION(typical_p), 0, 0, kAll, "typical_p",
     nullptr},
    {kScopeGeneration, 7, kMetaF32, kOptional, GENERATION(repetition_penalty), 0, 0, kAll,
     "repetition_penalty", nullptr},
    {kScopeGeneration, 8, kMetaU32, kOptional, GENERATION(no_repeat_ngram), 0, kMaxVocabulary, kAll,
     "no_repeat_ngram", nullptr},
    {kScopeGeneration, 9, kMetaU32, kOptional, GENERATION(min_new), 0, kMaxVocabulary, kAll,
     "min_new", nullptr},
    {kScopeGeneration, 10, kMetaU32, kOptional, GENERATION(max_new), 0, kMaxVocabulary, kAll,
     "max_new", nullptr},
    {kScopeGeneration, 11, kMetaU32Array, kOptional, GENERATION(suppressed), 0, 65536, kAll,
     "suppressed", nullptr},
};
constexpr unsigned kFieldCount = sizeof kFields / sizeof kFields[0];

const char* scope_name(uint32_t scope) {
  static const char* const names[] = {"model",   "source", "target", "encoder",
                                      "decoder", "kind",   "output", "generation"};
  return scope <= kLastScope ? names[scope] : "?";
}

// The field of a key, or NULL.
const Field* field_of(uint32_t scope, uint32_t field) {
  if (scope == kScopeTarget) scope = kScopeSource;
  if (scope == kScopeDecoder) scope = kScopeEncoder;
  for (const Field& f : kFields)
    if (f.scope == scope && f.field == field) return &f;
  return nullptr;
}

// The name of choice `value`, written to the line.
void add_choice(const Field& f, uint32_t value, Line* line) {
  const char* c = f.choices;
  for (uint32_t i = f.low; i < value; ++i) {
    while (*c != 0 && *c != '|') ++c;
    if (*c == '|') ++c;
  }
  while (*c != 0 && *c != '|') line->put(*c++);
}

void add_key_name(uint32_t key, const Field* f, Line* line) {
  const uint32_t scope = key >> 24, index = key >> 12 & 0xFFF;
  line->add(scope_name(scope));
  if (scope == kScopeKind) line->add(index);
  line->put('.');
  if (f != nullptr) {
    line->add(f->name);
  } else {
    line->add(key & 0xFFF);
  }
}

// A failure that names a key: "decoder.position: …".
template <class... Parts>
phasor_status fail_key(phasor_error* error, phasor_status status, uint32_t key, const Field* f,
                       Parts... parts) {
  char name[64];
  Line line(name, sizeof name);
  add_key_name(key, f, &line);
  return fail(error, status, {kSectionMeta, PHASOR_NONE, 0, 0}, static_cast<const char*>(name),
              ": ", parts...);
}

phasor_status check_value(const Meta& m, const Field& f, phasor_error* error) {
  if (m.type != f.type)
    return fail_key(error, PHASOR_BAD_FILE, m.key, &f, "has type ", uint32_t(m.type), ", expected ",
                    uint32_t(f.type));
  if (f.type == kMetaU32) {
    const uint32_t v = load_u32(m.value);
    if (v < f.low || v > f.high)
      return fail_key(error, PHASOR_BAD_FILE, m.key, &f, v, ", expected ", f.low, " to ", f.high);
    if (f.built == kAll || (v < 32 && (f.built >> v & 1u) != 0)) return PHASOR_OK;
    if (f.choices == nullptr)
      return fail_key(error, PHASOR_UNSUPPORTED, m.key, &f, v, " is not built yet");
    char choice[48];
    Line line(choice, sizeof choice);
    add_choice(f, v, &line);
    return fail_key(error, PHASOR_UNSUPPORTED, m.key, &f, static_cast<const char*>(choice),
                    " is not built yet");
  }
  if (f.type == kMetaU32Array && (m.bytes / 4 < f.low || m.bytes / 4 > f.high))
    return fail_key(error, PHASOR_BAD_FILE, m.key, &f, m.bytes / 4, " values, expected ", f.low,
                    " to ", f.high);
  return PHASOR_OK;
}

void store_value(const File& file, const Meta& m, const Field& f, void* target) {
  unsigned char* p = static_cast<unsigned char*>(target) + f.place;
  if (f.type == kMetaU32) {
    const uint32_t v = load_u32(m.value);
    memcpy(p, &v, sizeof v);
  } else if (f.type == kMetaF32) {
    const float v = load_f32(m.value);
    memcpy(p, &v, sizeof v);
  } else if (f.type == kMetaU32Array || f.type == kMetaString) {
    const Array a{static_cast<uint64_t>(m.value - file.data),
                  f.type == kMetaString ? m.bytes : m.bytes / 4, 1};
    memcpy(p, &a, sizeof a);
  }
}

// The keys that one scope must have, as bits by position in kFields; a kind's bits are checked when
// its scope ends.
struct Seen {
  bool field[kFieldCount];
};

// NULL when every needed field of the scope was seen, else the first that was not.
const Field* missing(const Seen& seen, uint32_t scope) {
  const uint32_t table = scope == kScopeTarget    ? kScopeSource
                         : scope == kScopeDecoder ? kScopeEncoder
                                                  : scope;
  for (unsigned i = 0; i < kFieldCount; ++i)
    if (kFields[i].scope == table && kFields[i].needed != 0 && !seen.field[i]) return &kFields[i];
  return nullptr;
}

SideDescriptor default_side() {
  SideDescriptor s{};
  s.pad = s.unknown = s.start = s.decoder_start = s.forced_first = s.mask = PHASOR_NONE;
  return s;
}

StackDescriptor default_stack() {
  StackDescriptor s{};
  s.embedding_scale = 1;
  return s;
}

KindDescriptor default_kind() {
  KindDescriptor k{};
  k.residual_scale = 1;
  k.norm_biases = PHASOR_NONE;  // resolved by the norm
  k.cross_scale = 0;            // resolved by the scale
  k.attention_norm = 1;
  k.rotary_factor = 1;
  return k;
}

// Defaults that depend on other fields.
void resolve(KindDescriptor* k) {
  if (k->kv_heads == 0) k->kv_heads = k->heads;
  if (k->cross_heads == 0) k->cross_heads = k->heads;
  if (k->cross_kv_heads == 0) k->cross_kv_heads = k->kv_heads;
  if (k->cross_head_width == 0) k->cross_head_width = k->head_width;
  if (k->cross_scale == 0) k->cross_scale = k->scale;
  if (k->norm_biases == PHASOR_NONE) k->norm_biases = k->norm == kNormLayer ? 1 : 0;
}

phasor_status check_kind(const KindDescriptor& k, uint32_t index, phasor_error* error) {
  const At at{kSectionMeta, PHASOR_NONE, 0, index};
  if (k.heads % k.kv_heads != 0 || k.cross_heads % k.cross_kv_heads != 0)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".kv_heads: does not divide the heads");
  if (!(k.norm_eps >= 0))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".norm_eps: is negative");
  const bool rotary = k.position == kRotaryInterleaved || k.position == kRotaryHalves;
  if (rotary && (k.rotary_width == 0 || k.rotary_width % 2 != 0 || k.rotary_width > k.head_width))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".rotary_width: ", k.rotary_width,
                ", expected an even number up to the head width ", k.head_width);
  if (!rotary && k.rotary_width != 0)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".rotary_width: nothing is rotary here");
  if (k.cap < 0) return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".cap: is negative");
  const bool table = relative_keys(k) || k.position == kT5Bias;
  if (table && k.max_distance == 0)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".max_distance: missing, its position needs a table of distances");
  if (!table && k.max_distance != 0)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".max_distance: nothing is relative here");
  if (relative_keys(k) && k.score == kScoreAdditive)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".score: an additive score has no relative keys");
  if (!(k.qkv_clip >= 0))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index, ".qkv_clip: is negative");
  if (k.qk_norm_over != kOverHead && k.qk_norm == kNormNone)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".qk_norm_over: there is no norm of q and k");
  if (k.parallel != kSerial &&
      (k.norm_place != kNormBefore || k.cross != 0 || k.attention_norm == 0))
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".parallel: goes with norm_place before, without cross-attention");
  if (k.parallel == kSharedInput && k.input_scales != 0)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".input_scales: the sub-layers of this parallel block read one input");
  if (k.attention_norm == 0 && k.norm_place != kNormBefore)
    return fail(error, PHASOR_BAD_FILE, at, "kind", index,
                ".attention_norm: 0, which goes with norm_place before only");
  return PHASOR_OK;
}

phasor_status check_ids(const File& file, const SideDescriptor& s, const char* side,
                        phasor_error* error) {
  const uint32_t ids[] = {s.pad, s.unknown, s.start, s.decoder_start, s.forced_first, s.mask};
  for (const uint32_t id : ids)
    if (id != PHASOR_NONE && id >= s.vocabulary)
      return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, s.vocabulary, id}, side,
                  ": special id ", id, " is not below the vocabulary ", s.vocabulary);
  const Array* arrays[] = {&s.end, &s.prefix, &s.suffix, &s.pair};
  for (const Array* a : arrays)
    for (uint32_t i = 0; i < a->count; ++i)
      if (array_at(file, *a, i) >= s.vocabulary)
        return fail(error, PHASOR_BAD_FILE,
                    {kSectionMeta, PHASOR_NONE, s.vocabulary, array_at(file, *a, i)}, side,
                    ": special id ", array_at(file, *a, i), " is not below the vocabulary ",
                    s.vocabulary);
  if (s.tokenizer != 0 && s.tokenizer != kSectionSourceTokenizer &&
      s.tokenizer != kSectionTargetTokenizer)
    return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, 0, s.tokenizer}, side,
                ".tokenizer: ", s.tokenizer, ", expected 0, 3 or 4");
  if (s.tokenizer != 0 && file.sections[s.tokenizer].bytes == 0)
    return fail(error, PHASOR_BAD_FILE, {s.tokenizer, PHASOR_NONE, 0, 0}, side,
                ".tokenizer: the file has no section ", s.tokenizer);
  return PHASOR_OK;
}

phasor_status check_stack(const File& file, const Descriptor& d, const KindDescriptor* kinds,
                          uint32_t which, phasor_error* error) {
  const StackDescriptor& s = d.stacks[which];
  const char* name = which == 0 ? "encoder" : "decoder";
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  if (s.layers.count % 2 != 0)
    return fail(error, PHASOR_BAD_FILE, at, name, ".layers: an odd number of values");
  uint32_t sets = 0;
  for (uint32_t i = 0; i < s.layers.count; i += 2) {
    const uint32_t kind = array_at(file, s.layers, i), set = array_at(file, s.layers, i + 1);
    if (kind >= d.kinds)
      return fail(error, PHASOR_BAD_FILE, at, name, ".layers: layer ", i / 2, " is of kind ", kind,
                  ", there are ", d.kinds);
    if (set > sets)
      return fail(error, PHASOR_BAD_FILE, at, name,
                  ".layers: sets of weights must be numbered in order of first use");
    sets += set == sets ? 1u : 0u;
    if (kinds == nullptr) continue;
    const bool crossing = kinds[kind].cross != 0, wanted = which == 1 && d.stack == kEncoderDecoder;
    if (which == 0 && kinds[kind].window != 0 && kinds[kind].window % 2 == 0)
      return fail(error, PHASOR_BAD_FILE, at, "kind", kind, ".window: ", kinds[kind].window,
                  ", expected an odd number: an encoder's window has as many keys on both sides");
    if (crossing != wanted)
      return fail(error, PHASOR_BAD_FILE, at, name, ".layers: layer ", i / 2,
                  wanted ? " has no cross-attention" : " has a cross-attention without an encoder");
  }
  if (s.position == kPositionLearned && s.max_positions == 0)
    return fail(error, PHASOR_BAD_FILE, at, name,
                ".max_positions: learned positions need the number of rows");
  if ((s.position == kPositionInterleaved || s.position == kPositionHalves) &&
      input_width(s) % 2 != 0)
    return fail(error, PHASOR_BAD_FILE, at, name, ".width: ", input_width(s),
                " is odd, sine and cosine need an even width");
  if (s.embedding_width == s.width && (s.projection_bias != 0 || s.projection_place != 0))
    return fail(error, PHASOR_BAD_FILE, at, name,
                s.projection_bias != 0 ? ".projection_bias" : ".projection_place",
                ": the embedding is not projected");
  if (d.sides[which].pair_segment != 0 && d.sides[which].pair_segment >= s.segments)
    return fail(error, PHASOR_BAD_FILE, at, which == 0 ? "source" : "target",
                ".pair_segment: ", d.sides[which].pair_segment, ", there are ", s.segments,
                " segments");
  return PHASOR_OK;
}

// What an encoder or a decoder may give, and from which matrix.
phasor_status check_output(const Descriptor& d, phasor_error* error) {
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  const OutputDescriptor& o = d.output;
  const bool logits = o.output == kOutputLogits, encoder = d.stack == kEncoder;
  if (!encoder) {
    if (!logits) return fail(error, PHASOR_BAD_FILE, at, "output.output: a decoder gives logits");
    if (o.pooling != 0 || o.normalise != 0 || o.classes != 0)
      return fail(error, PHASOR_BAD_FILE, at, "output: pooling and classes are an encoder's");
    if (o.head_norm != 0)
      return fail(
          error, PHASOR_BAD_FILE, at,
          "output.head_norm: an encoder's; a decoder's head is a dense layer with an activation");
  }
  if ((o.output == kOutputPooled && o.pooling == 0) ||
      (o.pooling != 0 && o.output != kOutputPooled && o.output != kOutputClasses))
    return fail(error, PHASOR_BAD_FILE, at,
                "output.pooling: a pooled vector needs one; logits and hidden states have none");
  if ((o.output == kOutputClasses) != (o.classes != 0))
    return fail(error, PHASOR_BAD_FILE, at,
                "output.classes: their number goes with output classes, and only there");
  if (o.normalise != 0 && o.output != kOutputPooled)
    return fail(error, PHASOR_BAD_FILE, at,
                "output.normalise: only a pooled vector can have length 1");
  if (o.output == kOutputHidden &&
      (o.head_width != 0 || o.head_activation != 0 || o.head_norm != 0))
    return fail(error, PHASOR_BAD_FILE, at, "output: hidden states have no head");
  if (o.head_width == 0 && o.head_bias != 0)
    return fail(error, PHASOR_BAD_FILE, at, "output.head_bias: the head has no dense layer");
  if (!logits || o.tied == kTiedOwn) return PHASOR_OK;
  // A tied matrix takes what its embedding gives.
  const uint32_t from = o.tied == kTiedSource ? 0 : 1, to = encoder ? 0 : 1;
  const uint32_t inputs = o.head_width != 0 ? o.head_width : d.stacks[to].width;
  if (d.stacks[from].present == 0 || d.sides[from].vocabulary != d.sides[to].vocabulary ||
      d.stacks[from].embedding_width != inputs)
    return fail(error, PHASOR_BAD_FILE, at, "output.tied: the ", from == 0 ? "source" : "target",
                " embedding has another shape");
  return PHASOR_OK;
}

// Defaults that phasor_generate would refuse. 0 is "not said" for each of them.
phasor_status check_generation(const File& file, const Descriptor& d, phasor_error* error) {
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  const GenerationDescriptor& g = d.generation;
  if (d.stack == kEncoder && g.present != 0)
    return fail(error, PHASOR_BAD_FILE, at, "generation: present, an encoder generates nothing");
  const struct {
    const char* name;
    float value;
  } shares[] = {{"top_p", g.top_p}, {"min_p", g.min_p}, {"typical_p", g.typical_p}},
    numbers[] = {{"temperature", g.temperature}, {"repetition_penalty", g.repetition_penalty}};
  for (const auto& s : shares)
    if (s.value < 0 || s.value > 1)
      return fail(error, PHASOR_BAD_FILE, at, "generation.", s.name, ": ", s.value,
                  ", expected 0 to 1");
  for (const auto& n : numbers)
    if (n.value < 0)
      return fail(error, PHASOR_BAD_FILE, at, "generation.", n.name, ": ", n.value, " is negative");
  for (uint32_t i = 0; i < g.suppressed.count; ++i)
    if (array_at(file, g.suppressed, i) >= d.sides[1].vocabulary)
      return fail(
          error, PHASOR_BAD_FILE,
          {kSectionMeta, PHASOR_NONE, d.sides[1].vocabulary, array_at(file, g.suppressed, i)},
          "generation.suppressed: id ", array_at(file, g.suppressed, i),
          " is not below the vocabulary ", d.sides[1].vocabulary);
  return PHASOR_OK;
}

phasor_status check_whole(const File& file, const Descriptor& d, const KindDescriptor* kinds,
                          phasor_error* error) {
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  const bool wants[2] = {d.stack != kDecoder, d.stack != kEncoder};
  for (uint32_t i = 0; i < 2; ++i) {
    if ((d.sides[i].present != 0) != wants[i] || (d.stacks[i].present != 0) != wants[i])
      return fail(error, PHASOR_BAD_FILE, at,
                  i == 0 ? "source side and encoder" : "target side and decoder",
                  wants[i] ? ": missing, the stack needs them" : ": present, the stack has none");
    if (!wants[i]) continue;
    phasor_status status = check_ids(file, d.sides[i], i == 0 ? "source" : "target", error);
    if (status == PHASOR_OK) status = check_stack(file, d, kinds, i, error);
    if (status != PHASOR_OK) return status;
  }
  if (d.stack == kEncoderDecoder) {
    if (d.stacks[1].cross_width != d.stacks[0].width)
      return fail(error, PHASOR_BAD_FILE,
                  {kSectionMeta, PHASOR_NONE, d.stacks[0].width, d.stacks[1].cross_width},
                  "decoder.cross_width: ", d.stacks[1].cross_width, ", the encoder's width is ",
                  d.stacks[0].width);
    if (d.sides[1].decoder_start == PHASOR_NONE)
      return fail(error, PHASOR_BAD_FILE, at,
                  "target.decoder_start: missing, an encoder-decoder needs it");
  }
  if (d.sides[1].embedding_shared != 0 &&
      (d.stack != kEncoderDecoder || d.sides[0].vocabulary != d.sides[1].vocabulary ||
       d.stacks[0].embedding_width != d.stacks[1].embedding_width))
    return fail(error, PHASOR_BAD_FILE, at,
                "target.embedding_shared: the sides differ in vocabulary or width");
  if (d.sides[0].embedding_shared != 0)
    return fail(error, PHASOR_BAD_FILE, at,
                "source.embedding_shared: only the target side can share");
  const phasor_status status = check_output(d, error);
  return status != PHASOR_OK ? status : check_generation(file, d, error);
}

}  // namespace

phasor_status read_descriptor(Descriptor* out, KindDescriptor* kinds, const File& file,
                              phasor_error* error) noexcept {
  Descriptor d{};
  for (int i = 0; i < 2; ++i) {
    d.sides[i] = default_side();
    d.stacks[i] = default_stack();
  }
  d.output.scale = 1;
  Seen seen{};
  KindDescriptor kind = default_kind();  // the one being read
  uint32_t scope = kScopeModel;
  uint32_t index = 0;
  bool started[kLastScope + 1] = {true};
  Meta m{};
  uint64_t at = 0;
  for (bool more = true; more;) {
    more = next_meta(file, &at, &m);
    const uint32_t next_scope = more ? m.key >> 24 : kLastScope + 1u,
                   next_index = more ? m.key >> 12 & 0xFFF : 0;
    if (next_scope != scope || next_index != index) {  // the scope that was being read ends here
      if (scope <= kLastScope) {
        const Field* f = missing(seen, scope);
        if (f != nullptr)
          return fail_key(error, PHASOR_BAD_FILE, scope << 24 | index << 12, f, "is missing");
      }
      if (scope == kScopeKind) {
        resolve(&kind);
        const phasor_status status = check_kind(kind, index, error);
        if (status != PHASOR_OK) return status;
        if (kinds != nullptr) kinds[index] = kind;
        d.kinds = index + 1;
      }
      const uint32_t expected = next_scope == kScopeKind && scope == kScopeKind ? index + 1 : 0;
      if (more && next_index != expected)
        return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, expected, next_index},
                    "metadata: index ", next_index, " of scope ", next_scope, ", expected ",
                    expected);
      if (next_index >= kMaxKinds)
        return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, kMaxKinds, next_index},
                    "metadata: more than 256 kinds");
      seen = Seen{};
      kind = default_kind();
      scope = next_scope;
      index = next_index;
      if (more && scope <= kLastScope) started[scope] = true;
    }
    if (!more) break;
    const Field* f = scope <= kLastScope ? field_of(scope, m.key & 0xFFF) : nullptr;
    if (f == nullptr) {
      if (m.required)
        return fail(error, PHASOR_UNSUPPORTED, {kSectionMeta, PHASOR_NONE, 0, m.key},
                    "metadata: key ", m.key, " (scope ", scope, ", field ", m.key & 0xFFF,
                    ") is required and not known here");
      continue;
    }
    const phasor_status status = check_value(m, *f, error);
    if (status != PHASOR_OK) return status;
    seen.field[f - kFields] = true;
    if (scope == kScopeModel && f->type == kMetaU32) d.stack = load_u32(m.value);
    if (scope == kScopeSource || scope == kScopeTarget)
      store_value(file, m, *f, &d.sides[scope - kScopeSource]);
    if (scope == kScopeEncoder || scope == kScopeDecoder)
      store_value(file, m, *f, &d.stacks[scope - kScopeEncoder]);
    if (scope == kScopeKind) store_value(file, m, *f, &kind);
    if (scope == kScopeOutput) store_value(file, m, *f, &d.output);
    if (scope == kScopeGeneration) store_value(file, m, *f, &d.generation);
  }
  const uint32_t scopes[] = {kScopeKind, kScopeOutput};
  for (const uint32_t s : scopes)
    if (!started[s])
      return fail(error, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, 0, 0}, "metadata: scope ",
                  scope_name(s), " is missing");
  for (uint32_t i = 0; i < 2; ++i) {
    d.sides[i].present = started[kScopeSource + i] ? 1u : 0u;
    d.stacks[i].present = started[kScopeEncoder + i] ? 1u : 0u;
    if (d.stacks[i].embedding_width == 0) d.stacks[i].embedding_width = d.stacks[i].width;
  }
  d.generation.present = started[kScopeGeneration] ? 1u : 0u;
  if (d.stacks[1].cross_width == 0) d.stacks[1].cross_width = d.stacks[0].width;
  const phasor_status status = check_whole(file, d, kinds, error);
  if (status != PHASOR_OK) return status;
  *out = d;
  return PHASOR_OK;
}

bool next_record(const File& file, const Array& list, uint64_t* at, Record* out) noexcept {
  constexpr char kRecordEnd = 0x1E;
  if (*at >= list.count) return false;
  const char* text = reinterpret_cast<const char*>(file.data + list.offset + *at);
  const uint32_t left = static_cast<uint32_t>(list.count - *at);
  uint32_t bytes = 0;
  while (bytes < left && text[bytes] != kRecordEnd) ++bytes;
  work(1 + bytes);
  *out = {text, bytes};
  *at += bytes + uint64_t{1};
  return true;
}

const Field* descriptor_fields(uint32_t* count) noexcept {
  *count = kFieldCount;
  return kFields;
}

void describe_meta(const Meta& m, Line* name, Line* value) noexcept {
  const Field* f = m.key >> 24 <= kLastScope ? field_of(m.key >> 24, m.key & 0xFFF) : nullptr;
  add_key_name(m.key, f, name);
  if (m.type == kMetaString) {
    for (uint32_t i = 0; i < m.bytes; ++i)
      value->put(m.value[i] < 0x20 ? ' ' : static_cast<char>(m.value[i]));
  } else if (m.type == kMetaU32 && f != nullptr && f->choices != nullptr) {
    add_choice(*f, load_u32(m.value), value);
  } else {
    for (uint32_t i = 0; i < m.bytes; i += 4) {
      if (i != 0) value->put(' ');
      if (m.type == kMetaF32 || m.type == kMetaF32Array) {
        value->add(load_f32(m.value + i));
      } else {
        value->add(load_u32(m.value + i));
      }
    }
  }
}

}  // namespace phasor
