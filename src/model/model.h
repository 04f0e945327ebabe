// model: the descriptor and the file's tensors, bound by name, type and shape. A Model is one block
// of plain data in the caller's memory, read-only once it is open, of the same size on every
// machine. It knows format, the kernels' table and the tokenizer's view; it never computes.
#pragma once
#include "../format/descriptor.h"
#include "../kernels/kernels.h"
#include "../text/tokenizer.h"

namespace phasor {

// A pointer that takes eight bytes on every machine, so that sizes do not depend on it (rule 3.1).
template <class T>
struct alignas(8) Ref {
  union {
    T* pointer;
    uint64_t bits;
  };
  void set(T* p) {
    bits = 0;
    pointer = p;
  }
  T* operator->() const { return pointer; }
};

// A tensor where it lies; offset 0 is "the model has none".
struct alignas(8) Tensor {
  uint64_t offset;  // from the file's first byte
  uint32_t rows, cols, panels;
  Type type;
  Layout layout;
  uint8_t padding[2];
  explicit operator bool() const { return offset != 0; }
};

struct Linear {
  Tensor weight;  // panel16 (N, K)
  Tensor bias;    // vector, or none
};

struct NormTensors {
  Tensor weight, bias;
};

// What a page of 16 positions holds of keys and values: the values, and in q8 the scales of their
// groups.
struct CacheSize {
  uint64_t values, scales;
};

// The tensors of one block, in the order of a forward pass.
struct alignas(8) Layer {
  uint32_t kind, set;
  // decoder: what lies between the start of a page, of the cache or of the ring, and this layer's
  // keys and values
  CacheSize cache_offset;
  CacheSize cross_offset;  // decoder: the same in a page of 16 source positions
  NormTensors attention_before;
  Linear qkv, attention_out;
  Tensor qkv_scale, ffn_scale;  // (D) of the inputs of qkv and ffn_in
  Tensor relative_keys;         // (w, entries)
  Tensor relative_values;       // (entries, w)
  NormTensors q_norm, k_norm;
  Tensor score, cross_score;  // v (H·w) of an additive score
  NormTensors attention_after, cross_before;
  Linear cross_q, cross_kv, cross_out;
  NormTensors cross_after, ffn_before;
  Linear ffn_in, ffn_out;
  NormTensors ffn_after;
};

// What stands before the first block of a stack.
struct alignas(8) Input {
  Tensor embedding;  // (V, E), rows or panel16
  Tensor positions;  // (max_positions, E), learned
  Tensor segments;   // (segments, E)
  NormTensors norm;
  Linear projection;  // (D, E)
  Tensor inv_freq;    // (E/2) f64, sinusoidal
};

// Lists of the file that are walked from their start. The model's block has the place of every 16th
// record of each, so that any record is at most 15 steps away.
enum List : uint32_t { kLabels, kPrompts, kFields, kLists };
constexpr uint32_t kRecordsToAMark = 16;

// What belongs to a kind of block and not to a layer.
struct alignas(8) KindTables {
  Tensor inv_freq;  // rotary: (rotary_width/2) f64, or none
  Tensor bias;      // T5: (heads, 2·max_distance + 1)
  Tensor slopes;    // ALiBi: (heads)
  uint32_t stacks;  // bit 0: an encoder layer is of this kind, bit 1: a decoder layer
  uint32_t reserved;
};

struct alignas(8) Model {
  Ref<const unsigned char> data;  // the file
  Ref<const Kernels> kernels;
  uint64_t file_bytes;
  // bytes from the Model to its KindDescriptors, KindTables and Layers
  uint64_t kinds_at, tables_at, layers_at[2];
  uint32_t head_crc;
  uint32_t has_tokenizer[2];
  uint32_t layer_count[2];
  // the widest of the decoder's layers that are in the ring, 0 when none is
  uint32_t window;
  uint64_t tokenizer_at[2];  // bytes from the Model to its Tokenizers
  // bytes from the Model to the marks (u32) of its lists, one list after the other
  uint64_t marks_at;
  uint32_t records[kLists];  // of each list
  uint32_t reserved;
  // of one page of 16 positions, the decoder layers that see all positions
  CacheSize cache;
  CacheSize ring;   // the same of those with a window (rule 1.7)
  CacheSize cross;  // of one page of 16 source positions, all decoder layers
  Descriptor descriptor;
  Input inputs[2];
  NormTensors final_norms[2];
  Linear output;  // the vocabulary's logits, or the classifier
  Linear head;    // the dense layer before it
  NormTensors head_norm;
  // of a record, from the list's start; index < records[list]
  uint64_t place_of(List list, uint32_t index) const;
  File file() const;  // its view, from the section table that open has checked

  const unsigned char* at(uint64_t offset) const { return data.pointer + offset; }
  const float* floats(const Tensor& t) const {  // of an f32 tensor; NULL when there is none
    return t ? reinterpret_cast<const float*>(data.pointer + t.offset) : nullptr;
  }
  const KindDescriptor& kind(uint32_t i) const {
    return reinterpret_cast<const KindDescriptor*>(reinterpret_cast<const unsigned char*>(this) +
                                                   kinds_at)[i];
  }
  const KindDescriptor& kind(const Layer& layer) const { return kind(layer.kind); }
  const KindTables& tables(uint32_t kind) const {
    return reinterpret_cast<const KindTables*>(reinterpret_cast<const unsigned char*>(this) +
                                               tables_at)[kind];
  }
  const Layer& layer(uint32_t stack, uint32_t i) const {  // stack: 0 encoder, 1 decoder
    return reinterpret_cast<const Layer*>(reinterpret_cast<const unsigned char*>(this) +
                                          layers_at[stack])[i];
  }
  bool ringed(const Layer& decoder_layer) const {
    return kHasRing && kind(decoder_layer).window != 0;
  }
  const Tokenizer* tokenizer(uint32_t side) const {  // 0 source, 1 target; NULL when there is none
    return has_tokenizer[side] == 0
               ? nullptr
               : reinterpret_cast<const Tokenizer*>(reinterpret_cast<const unsigned char*>(this) +
                                                    tokenizer_at[side]);
  }
};

// Roles of docs/format.md.
enum Role : uint32_t {
  kRoleEmbedding = 1,
  kRolePositions = 2,
  kRoleSegments = 3,
  kRoleEmbeddingNorm = 4,
  kRoleProjection = 6,
  kRoleInvFreq = 8,
  kRoleAttentionBefore = 0x10,
  kRoleQkv = 0x20,
  kRoleQkvScale = 0x22,
  kRoleFfnScale = 0x8A,
  kRoleRelativeKeys = 0x30,
  kRoleRelativeValues = 0x31,
  kRoleQNorm = 0x38,
  kRoleKNorm = 0x3A,
  kRoleScore = 0x3C,
  kRoleCrossScore = 0x64,
  kRoleAttentionOut = 0x40,
  kRoleAttentionAfter = 0x48,
  kRoleCrossBefore = 0x50,
  kRoleCrossQ = 0x58,
  kRoleCrossKv = 0x60,
  kRoleCrossOut = 0x68,
  kRoleCrossAfter = 0x70,
  kRoleFfnBefore = 0x80,
  kRoleFfnIn = 0x88,
  kRoleFfnOut = 0x90,
  kRoleFfnAfter = 0x98,
  kRoleFinalNorm = 0xF0,
  kRoleOutput = 1,
  kRoleHead = 3,
  kRoleHeadNorm = 5,
  kRoleClassifier = 7,
  kRoleRotary = 1,
  kRoleT5Bias = 2,
  kRoleSlopes = 3
};
enum TensorStack : uint32_t {
  kStackKinds = 0,
  kStackSource = 1,
  kStackEncoder = 2,
  kStackTarget = 3,
  kStackDecoder = 4,
  kStackOutput = 5
};
constexpr uint32_t kFinalSet = 0xFFFF;

// "encoder q,k,v weight": the name of a directory key; static.
const char* tensor_name(uint32_t key) noexcept;

// Bytes of the block for a model of this file: a multiple of 64, a function of the file only.
[[nodiscard]] phasor_status model_bytes(uint64_t* need, const File& file,
                                        phasor_error* error) noexcept;

// Fills `memory` (model_bytes, aligned to 64). Every tensor of the directory must have a use, and
// every use a tensor.
[[nodiscard]] phasor_status model_open(Model** out, void* memory, const File& file,
                                       const Kernels* kernels, phasor_error* error) noexcept;

// Reads all weights: finite values, and zeros where the layout has padding.
[[nodiscard]] phasor_status model_check(const Model& model, phasor_error* error) noexcept;

// Parts of a fused linear layer, in outputs: the panels of a part begin at a multiple of 16.
inline uint32_t q_width(const KindDescriptor& k) { return k.heads * k.head_width; }
inline uint32_t kv_width(const KindDescriptor& k) { return k.kv_heads * k.head_width; }
inline uint32_t cross_q_width(const KindDescriptor& k) {
  return k.cross_heads * k.cross_head_width;
}
inline uint32_t cross_kv_width(const KindDescriptor& k) {
  return k.cross_kv_heads * k.cross_head_width;
}
inline uint32_t lanes(uint32_t n) { return static_cast<uint32_t>(round_up(n, kLanes)); }

// Positions of a stack's longest sequence: its own limit, and where its relative tables end; 0: no
// limit.
inline uint32_t longest_sequence(const Model& m, uint32_t stack) {
  uint32_t most = m.descriptor.stacks[stack].max_positions;
  for (uint32_t i = 0; i < m.layer_count[stack]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(stack, i));
    if (bounded(k) && (most == 0 || k.max_distance < most)) most = k.max_distance;
  }
  return most;
}

// What the matrix of the output reads, and the width of an output row (the pooled vector's where
// there is no matrix).
inline uint32_t output_inputs(const Descriptor& d) {
  return d.output.head_width != 0 ? d.output.head_width
                                  : d.stacks[d.stack == kEncoder ? 0 : 1].width;
}
inline uint32_t output_width(const Descriptor& d) {
  if (d.output.output == kOutputClasses) return d.output.classes;
  return d.output.output == kOutputLogits ? d.sides[d.stack == kEncoder ? 0 : 1].vocabulary
                                          : output_inputs(d);
}
// Output rows of `count` positions.
inline uint32_t output_rows(const Descriptor& d, uint32_t count) {
  return d.output.pooling != kPoolNone && count != 0 ? 1 : count;
}

// Floats that 16 positions of one key/value head take: keys [w][16], then values [16][round_up(w,
// 16)].
inline uint64_t page_floats(uint32_t head_width) {
  return uint64_t(head_width) * kLanes + uint64_t(lanes(head_width)) * kLanes;
}
inline void add_heads(CacheSize* size, uint32_t kv_heads, uint32_t head_width) {
  size->values += kv_heads * page_floats(head_width);
  if (kHasCacheQ8) size->scales += kv_heads * (2 * kLanes * groups_of(head_width));
}

}  // namespace phasor
