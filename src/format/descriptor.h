// format: the metadata as plain structs. One table (descriptor.cpp) says for every key of
// docs/format.md its type, range, default, name and place, and which values this build has; a value
// that is known but not built is refused by name.
#pragma once
#include "../activations.h"
#include "file.h"

namespace phasor {

// u32 values, or the bytes of a string, in the file.
struct Array {
  uint64_t offset;  // from the file's first byte
  uint32_t count;
  uint32_t present;  // 0: the key is absent
};

// Index of what a model has for its encoder and for its decoder: stacks, layers, and the sides that
// are their inputs, source and target. tensors.h has the stacks of the file's keys.
enum Half : uint32_t { kEncoder = 0, kDecoder = 1 };
constexpr Half kHalves[] = {kEncoder, kDecoder};
constexpr const char* kStackNames[] = {"encoder", "decoder"};
constexpr const char* kSideNames[] = {"source", "target"};

enum Position : uint32_t {
  kPositionNone = 0,
  kPositionLearned = 1,
  kPositionInterleaved = 2,
  kPositionHalves = 3
};
enum Norm : uint32_t { kNormNone = 0, kNormLayer = 1, kNormRms = 2 };
enum NormPlace : uint32_t { kNormBefore = 1, kNormAfter = 2, kNormBoth = 3, kNormSublayer = 4 };
enum Parallel : uint32_t { kSerial = 0, kSharedInput = 1, kTwoNorms = 2 };
enum NormOver : uint32_t { kOverHead = 0, kOverOwnHead = 1, kOverAllHeads = 2 };
enum NormOrder : uint32_t { kNormFirst = 0, kNormLast = 1 };  // of q and k, and their rotation
enum KindPosition : uint32_t {
  kRotaryNone = 0,
  kRelativeKey = 1,
  kRelativeKeyQuery = 2,
  kClippedRelative = 3,
  kRotaryInterleaved = 4,
  kRotaryHalves = 5,
  kT5Bias = 6,
  kAlibi = 7,
  kThreeWay = 8,
  kDisentangled = 9
};
enum InputScale : uint32_t { kScaleQkv = 1, kScaleFfn = 2 };
enum Score : uint32_t { kScoreDot = 0, kScoreAdditive = 1 };
enum Bias : uint32_t {
  kBiasQ = 1,
  kBiasK = 2,
  kBiasV = 4,
  kBiasOut = 8,
  kBiasIn = 1,
  kBiasFfnOut = 2
};
enum Output : uint32_t {
  kOutputLogits = 1,
  kOutputHidden = 2,
  kOutputPooled = 3,
  kOutputClasses = 4
};
enum Pooling : uint32_t { kPoolNone = 0, kPoolMean = 1, kPoolFirst = 2, kPoolLast = 3 };
constexpr uint32_t kHeadNone = 0;  // of a head; the other numbers are those of activations.h
enum Tied : uint32_t { kTiedOwn = 0, kTiedTarget = 1, kTiedSource = 2 };

// Token ids that are absent are PHASOR_NONE.
struct SideDescriptor {
  uint32_t vocabulary, tokenizer, embedding_shared;
  uint32_t pad, unknown, start, decoder_start, forced_first, mask;
  uint32_t pair_segment, longest_text;
  uint32_t present;  // the model has this side
  Array end, prefix, suffix, pair;
};

struct StackDescriptor {
  uint32_t width, position, max_positions, embedding_width, embedding_norm, segments, final_norm,
      cross_width, projection_bias, projection_place, embedding_norm_place;
  float embedding_scale, embedding_norm_eps, final_norm_eps;
  uint32_t present;
  Array layers;  // pairs (kind, weights)
};

struct KindDescriptor {
  uint32_t norm, norm_place, parallel, heads, kv_heads, head_width, score, attention_biases,
      qk_norm, window;
  uint32_t position, rotary_width, max_distance, hidden, activation, gated, ffn_biases;
  uint32_t cross, cross_heads, cross_kv_heads, cross_head_width, cross_biases, norm_biases,
      score_order;
  uint32_t cross_score, attention_norm, input_scales, qk_norm_over, qk_norm_place, causal,
      separate_v;
  float norm_eps, scale, cap, cross_scale, residual_scale, rotary_factor, qkv_clip;
};

struct OutputDescriptor {
  uint32_t output, tied, bias, pooling, normalize, classes, head_width, head_activation, head_norm,
      head_bias, scores;
  uint32_t query_length, document_length, expansion;  // of late interaction
  uint32_t query_marker, document_marker;             // or PHASOR_NONE
  float scale, cap, head_norm_eps;
  Array labels, prompts;  // bytes of text
  Array skipped;          // ids
};

// What the makers of a model recommend for generation; 0: they say nothing.
struct GenerationDescriptor {
  uint32_t sample, top_k, no_repeat_ngram, min_new, max_new, beams, early_stopping, renormalize;
  float temperature, top_p, min_p, typical_p, repetition_penalty;
  float length_penalty;  // 1: they say nothing
  uint32_t source_no_repeat_ngram;
  uint32_t forced_last;  // or PHASOR_NONE
  uint32_t present;
  Array suppressed, bad_words;  // bad_words: of each sequence its length, then its ids
};

constexpr float kSteepest = 4;  // length penalty: the largest count to this power is still an f32
constexpr uint32_t kMaxKinds = 256, kMaxLayers = 1024;

struct Descriptor {
  uint32_t halves;            // bit 0: it has an encoder, bit 1: a decoder
  uint32_t kinds;             // number of kinds
  SideDescriptor sides[2];    // by Half: source, target
  StackDescriptor stacks[2];  // by Half
  OutputDescriptor output;
  GenerationDescriptor generation;

  bool has(Half half) const { return (halves >> half & 1u) != 0; }
  bool has_both() const { return has(kEncoder) && has(kDecoder); }
  Half last() const { return has(kDecoder) ? kDecoder : kEncoder; }  // whose output is the model's
};

enum Scope : uint32_t {
  kScopeModel = 0,
  kScopeSource = 1,
  kScopeTarget = 2,
  kScopeEncoder = 3,
  kScopeDecoder = 4,
  kScopeKind = 5,
  kScopeOutput = 6,
  kScopeGeneration = 7,
  kLastScope = kScopeGeneration
};

// One key. `built` has a bit for each built value of a choice; for numbers it has all bits, or bit
// 0 where only 0 is built. `choices` names the values from `low` on, separated by '|'.
struct Field {
  uint8_t scope, type;
  uint16_t number;
  uint8_t needed;
  uint16_t place;      // of the value in its struct
  uint32_t low, high;  // of a u32, or the number of values of an array
  uint32_t built;
  const char* name;
  const char* choices;
};

// The table of all keys; scopes 2 and 4 have the fields of 1 and 3. The tests' generator of models
// makes its metadata from it.
const Field* descriptor_fields(uint32_t* count) noexcept;

// Reads the metadata into *out and, when it is not NULL, `kinds` (out->kinds of them: call twice).
// Checks every value by itself and the values against each other.
[[nodiscard]] phasor_status read_descriptor(Descriptor* out, KindDescriptor* kinds,
                                            const File& file, phasor_error* error) noexcept;

// One record of a list that is one string: labels, prompts. The last one's end may be missing.
struct Record {
  const char* text;
  uint32_t bytes;
};

// Walks such a list: *at starts at 0; false at the end.
bool next_record(const File& file, const Array& list, uint64_t* at, Record* out) noexcept;

// Entry `meta` as text: "decoder.width", "256".
void describe_meta(const Meta& meta, Line* name, Line* value) noexcept;

// The width of segments, positions and the embedding's norm: the projection comes after them, or
// before.
inline uint32_t input_width(const StackDescriptor& s) {
  return s.projection_place != 0 ? s.width : s.embedding_width;
}

inline bool sinusoidal(const StackDescriptor& s) {
  return s.position == kPositionInterleaved || s.position == kPositionHalves;
}

// Distances that a kind's tables have on each side of 0: entries are 2·reach + 1, and distance d is
// at entry d + reach.
inline uint32_t reach(const KindDescriptor& k) {
  return k.position == kClippedRelative || k.position == kT5Bias ? k.max_distance
                                                                 : k.max_distance - 1;
}
inline bool relative_keys(const KindDescriptor& k) {
  return k.position == kRelativeKey || k.position == kRelativeKeyQuery ||
         k.position == kClippedRelative || k.position == kThreeWay || k.position == kDisentangled;
}
// A table that ends: a sequence has at most max_distance positions.
inline bool bounded(const KindDescriptor& k) {
  return relative_keys(k) && k.position != kClippedRelative;
}

// Entries of such a table.
inline uint32_t entries(const KindDescriptor& k) { return 2 * reach(k) + 1; }

// Parts of a fused linear layer, in outputs: the panels of a part begin at a multiple of 16.
inline uint32_t q_width(const KindDescriptor& k) { return k.heads * k.head_width; }
inline uint32_t kv_width(const KindDescriptor& k) { return k.kv_heads * k.head_width; }
inline uint32_t cross_q_width(const KindDescriptor& k) {
  return k.cross_heads * k.cross_head_width;
}
inline uint32_t cross_kv_width(const KindDescriptor& k) {
  return k.cross_kv_heads * k.cross_head_width;
}

// What the matrix of the output reads, and the width of an output row (the pooled vector's where
// there is no matrix).
inline uint32_t output_inputs(const Descriptor& d) {
  return d.output.head_width != 0 ? d.output.head_width : d.stacks[d.last()].width;
}
inline uint32_t output_width(const Descriptor& d) {
  if (d.output.output == kOutputClasses) return d.output.classes;
  return d.output.output == kOutputLogits ? d.sides[d.last()].vocabulary : output_inputs(d);
}

// Element i of an array.
inline uint32_t array_at(const File& file, const Array& a, uint32_t i) {
  return load_u32(file.data + a.offset + 4u * i);
}

struct LayerOf {
  uint32_t kind, set;  // of tensors
};
inline uint32_t layer_count(const StackDescriptor& s) { return s.layers.count / 2; }
inline LayerOf layer_of(const File& file, const StackDescriptor& s, uint32_t i) {
  return {array_at(file, s.layers, 2 * i), array_at(file, s.layers, 2 * i + 1)};
}

}  // namespace phasor
