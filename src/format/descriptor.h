// format: the metadata as plain structs. One table (src/facts/descriptor.toml) says for every key
// of file-format.md its type, range, default, name and place, and which values this build has; a
// value that is known but not supported is refused by name.
#pragma once
#include "fields.h"

namespace phasor {

// Index of what a model has for its encoder and for its decoder: stacks, layers, and the sides that
// are their inputs, source and target. tensors.h has the stacks of the file's keys.
enum Half : uint32_t { kEncoder = 0, kDecoder = 1 };
constexpr Half kHalves[] = {kEncoder, kDecoder};
constexpr const char* kStackNames[] = {"encoder", "decoder"};
constexpr const char* kSideNames[] = {"source", "target"};

constexpr float kSteepest = 4;  // length penalty: the largest count to this power is still an f32

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

inline bool convolves(const KindDescriptor& k) {
  return kHasConvolution && k.mixer == kMixerConvolution;
}
inline bool merges(const KindDescriptor& k) { return kHasMerged && k.cross == kCrossMerged; }
// Whether a kind's layers use the keys and values of an earlier one.
inline bool borrows(const KindDescriptor& k) { return k.keys_of != 0; }
constexpr uint32_t kMostTaps = 64;  // of a short convolution: its window

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
// What the layer's own matrix gives of k, and of v.
inline uint32_t own_kv_width(const KindDescriptor& k) { return borrows(k) ? 0 : kv_width(k); }
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

// Per-layer embeddings: whether the stack has them, and a token's values in all layers.
inline bool has_per_layer(const StackDescriptor& s) {
  return kHasPerLayer && s.per_layer_width != 0;
}
inline uint32_t per_layer_values(const StackDescriptor& s) {
  return s.per_layer_width * layer_count(s);
}
inline LayerOf layer_of(const File& file, const StackDescriptor& s, uint32_t i) {
  return {array_at(file, s.layers, 2 * i), array_at(file, s.layers, 2 * i + 1)};
}

}  // namespace phasor
