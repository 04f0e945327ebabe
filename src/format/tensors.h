// format: the tensors of a model. One table (tensors.cpp) has a row for every role of
// file-format.md: number, name, place, when a model has it, layout, types and shape as expressions
// of descriptor values. Binding, checking and naming walk its rows; a new role is one row, and a
// member of the struct that holds it.
#pragma once
#include "descriptor.h"
#include "roles.h"

namespace phasor {

// A tensor where it lies; offset 0 is "the model has none".
struct alignas(8) Tensor {
  uint64_t offset;  // from the file's first byte
  uint32_t rows, cols, panels;
  Type type;
  Layout layout;
  uint8_t inputs;  // kInputs16, kInputsRotated, or 0: the type's own form
  uint8_t padding;
  explicit operator bool() const { return offset != 0; }
};

constexpr bool has_wide_inputs(const Tensor& t) { return kHasInputs16 && t.inputs == kInputs16; }
constexpr bool has_rotated_inputs(const Tensor& t) {
  return kHasRotatedInputs && t.inputs == kInputsRotated;
}

struct Linear {
  Tensor weight;  // panel16 (N, K)
  Tensor bias;    // vector, or none
};

struct NormTensors {
  Tensor weight, bias;
};

// What belongs to a kind of block and not to a layer.
struct KindTensors {
  Tensor inv_freq;  // rotary: (rotary_width/2) f64, or none
  Tensor bias;      // T5: (heads, 2·max_distance + 1)
  Tensor slopes;    // ALiBi: (heads)
};

// What stands before the first block of a stack.
struct alignas(8) Input {
  Tensor embedding;  // (V, E), rows or panel16
  Tensor own_row;    // (E) in place of a row, or none
  Tensor positions;  // (max_positions, E), learned
  Tensor segments;   // (segments, E)
  NormTensors norm;
  Linear projection;  // (D, E)
  Tensor inv_freq;    // (E/2) f64, sinusoidal
};

// The per-layer embeddings of a decoder of L layers.
struct PerLayerInput {
  Tensor per_layer;             // (V, L·P), rows
  Linear per_layer_projection;  // (L·P, D), without a bias
  NormTensors per_layer_norm;   // (P)
};

// The tensors of one block, in the order of a forward pass.
struct LayerTensors {
  NormTensors attention_before;
  Linear qkv, attention_out;
  NormTensors attention_inner, ffn_inner;  // of what attention_out and ffn_out read
  Linear v;                                // where qkv has no rows of v (separate_v)
  Tensor qkv_scale, ffn_scale;             // (D) of the inputs of qkv and ffn_in
  Tensor taps, taps_bias;   // (window, q) of a short convolution, the oldest first; (q)
  Tensor relative_keys;     // (w, entries)
  Tensor relative_values;   // (entries, w)
  Tensor relative_queries;  // (heads·w, entries)
  NormTensors q_norm, k_norm;
  Tensor score, cross_score;  // v (H·w) of an additive score
  NormTensors attention_after, cross_before;
  Linear cross_q, cross_kv, cross_out;
  NormTensors cross_after, ffn_before;
  Linear ffn_in, ffn_out;
  Tensor xielu;  // (4) αp, αn, β, ε of the activation
  NormTensors ffn_after;
};

// Those that the blocks of few models have: kFirstRareRole … kFirstFinalRole − 1.
struct RareTensors {
  Linear per_layer_gate, per_layer_out;  // (P, D), (D, P), without biases
  NormTensors per_layer_after, v_norm;
  Tensor layer_scale;  // (1)
};

// What comes after the last block.
struct OutputTensors {
  Linear output;  // the vocabulary's logits, or the classifier
  Linear head;    // the dense layer before it
  NormTensors head_norm;
};

// Stacks of the file's keys. Those of the decoder are kStackPerHalf further than the encoder's.
enum TensorStack : uint32_t {
  kStackKinds = 0,
  kStackSource = 1,
  kStackEncoder = 2,
  kStackTarget = 3,
  kStackDecoder = 4,
  kStackOutput = 5
};
constexpr uint32_t kStackPerHalf = kStackDecoder - kStackEncoder;
constexpr uint32_t kFinalSet = 0xFFFF;  // of a stack's final norm
constexpr uint32_t input_stack(Half half) { return kStackSource + kStackPerHalf * half; }
constexpr uint32_t block_stack(Half half) { return kStackEncoder + kStackPerHalf * half; }
constexpr Half half_of(uint32_t stack) {  // of stacks 1 to 4
  return static_cast<Half>((stack - kStackSource) / kStackPerHalf);
}

// One row of the table, with the values of a descriptor in its expressions.
struct Role {
  uint32_t key;    // stack · 2^24 + set · 2^8 + role
  uint32_t index;  // of the kind or of the set's first layer; of a final norm kFinalSet
  const char* name;
  uint32_t place;           // of the Tensor in the struct of its set
  bool there;               // the descriptor asks for it
  uint32_t layouts, types;  // bits by number
  uint32_t parts[3], cols;  // true rows of each part
  uint32_t rows() const;    // N of the directory: of the bias of a fused layer 16·panels
  uint32_t panels() const;
};

// Takes a row. Rows come in the order of the directory.
using VisitRole = void (*)(void* context, const Role& role);

// All rows for a model, also those of tensors that it does not have (Role::there). `kinds` are the
// descriptor's.
void each_role(const File& file, const Descriptor& d, const KindDescriptor* kinds, VisitRole visit,
               void* context) noexcept;

// The row of a key without a model; false where there is none.
bool find_role(uint32_t key, Role* out) noexcept;

// "q,k,v weight": the name of a directory key; static.
const char* tensor_name(uint32_t key) noexcept;
// "encoder" of "encoder set 2, q,k,v weight: …".
const char* stack_name(uint32_t stack) noexcept;

}  // namespace phasor
