// Generated from src/facts/descriptor.toml by `make generate`: edit that, not this.
// The values of the descriptor's fields by name, and a struct for each scope.
#pragma once
#include "../activations.h"
#include "file.h"

namespace phasor {

constexpr uint32_t kMaxVocabulary = 16777216;
constexpr uint32_t kMaxWidth = 65536;
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxKinds = 256;
constexpr uint32_t kMaxIds = 16;

enum Mixer : uint32_t { kMixerAttention = 0, kMixerConvolution = 1 };
enum Position : uint32_t {
  kPositionNone = 0,
  kPositionLearned = 1,
  kPositionInterleaved = 2,
  kPositionHalves = 3
};
enum Norm : uint32_t { kNormNone = 0, kNormLayer = 1, kNormRms = 2 };
enum NormPlace : uint32_t { kNormBefore = 1, kNormAfter = 2, kNormBoth = 3, kNormSublayer = 4 };
enum Parallel : uint32_t { kSerial = 0, kSharedInput = 1, kTwoNorms = 2 };
enum Cross : uint32_t { kCrossNone = 0, kCrossOwn = 1, kCrossMerged = 2 };
enum Score : uint32_t { kScoreDot = 0, kScoreAdditive = 1 };
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
enum NormOver : uint32_t { kOverHead = 0, kOverOwnHead = 1, kOverAllHeads = 2 };
enum NormOrder : uint32_t { kNormFirst = 0, kNormLast = 1 };
enum Output : uint32_t {
  kOutputLogits = 1,
  kOutputHidden = 2,
  kOutputPooled = 3,
  kOutputClasses = 4
};
enum Tied : uint32_t { kTiedOwn = 0, kTiedTarget = 1, kTiedSource = 2 };
enum Pooling : uint32_t {
  kPoolNone = 0,
  kPoolMean = 1,
  kPoolFirst = 2,
  kPoolLast = 3,
  kPoolMax = 4
};

enum Scope : uint32_t {
  kScopeModel = 0,
  kScopeSource = 1,
  kScopeTarget = 2,
  kScopeEncoder = 3,
  kScopeDecoder = 4,
  kScopeKind = 5,
  kScopeOutput = 6,
  kScopeGeneration = 7
};
constexpr uint32_t kLastScope = kScopeGeneration;
constexpr const char* kScopeNames[] = {
    "model", "source", "target", "encoder", "decoder", "kind", "output", "generation"};

// Bits.
enum Bias : uint32_t { kBiasQ = 1, kBiasK = 2, kBiasV = 4, kBiasOut = 8 };
enum FfnBias : uint32_t { kBiasIn = 1, kBiasFfnOut = 2 };
enum InnerNorm : uint32_t { kNormOfOut = 1, kNormOfDown = 2 };
enum InputScale : uint32_t { kScaleQkv = 1, kScaleFfn = 2 };

struct SideDescriptor {
  uint32_t vocabulary = 0;
  uint32_t tokenizer = 0;
  uint32_t embedding_shared = 0;
  uint32_t pad = PHASOR_NONE;
  uint32_t unknown = PHASOR_NONE;
  uint32_t start = PHASOR_NONE;
  uint32_t decoder_start = PHASOR_NONE;
  uint32_t forced_first = PHASOR_NONE;
  uint32_t mask = PHASOR_NONE;
  uint32_t pair_segment = 0;
  uint32_t longest_text = 0;
  uint32_t vectors = 0;
  uint32_t own_row = 0;
  uint32_t present = 0;  // the file has this scope
  Array end{};
  Array prefix{};
  Array suffix{};
  Array pair{};
};

struct StackDescriptor {
  uint32_t width = 0;
  uint32_t position = 0;
  uint32_t max_positions = 0;
  float embedding_scale = 1;
  uint32_t embedding_width = 0;
  uint32_t embedding_norm = 0;
  float embedding_norm_eps = 0;
  uint32_t segments = 0;
  uint32_t final_norm = 0;
  float final_norm_eps = 0;
  uint32_t cross_width = 0;
  uint32_t projection_bias = 0;
  uint32_t projection_place = 0;
  uint32_t embedding_norm_place = 0;
  uint32_t per_layer_width = 0;
  float per_layer_scale = 1;
  uint32_t per_layer_norm = 0;
  float per_layer_norm_eps = 0;
  uint32_t present = 0;  // the file has this scope
  Array layers{};
};
inline void resolve(StackDescriptor* d) {
  if (d->embedding_width == 0) d->embedding_width = d->width;
}

struct KindDescriptor {
  uint32_t norm = 0;
  uint32_t norm_place = 0;
  float norm_eps = 0;
  uint32_t parallel = 0;
  uint32_t heads = 0;
  uint32_t kv_heads = 0;
  uint32_t head_width = 0;
  float scale = 0;
  uint32_t score = 0;
  uint32_t attention_biases = 0;
  uint32_t qk_norm = 0;
  uint32_t window = 0;
  float cap = 0;
  uint32_t position = 0;
  uint32_t rotary_width = 0;
  uint32_t max_distance = 0;
  uint32_t hidden = 0;
  uint32_t activation = 0;
  uint32_t gated = 0;
  uint32_t ffn_biases = 0;
  uint32_t cross = 0;
  uint32_t cross_heads = 0;
  uint32_t cross_kv_heads = 0;
  uint32_t cross_head_width = 0;
  float cross_scale = 0;
  uint32_t cross_biases = 0;
  float residual_scale = 1;
  uint32_t norm_biases = PHASOR_NONE;
  uint32_t score_order = 0;
  uint32_t cross_score = 0;
  uint32_t attention_norm = 1;
  float rotary_factor = 1;
  uint32_t input_scales = 0;
  uint32_t qk_norm_over = 0;
  float qkv_clip = 0;
  uint32_t causal = 0;
  uint32_t qk_norm_place = 0;
  uint32_t separate_v = 0;
  uint32_t mixer = 0;
  uint32_t convolution_bias = 0;
  uint32_t inner_norms = 0;
  uint32_t value_norm = 0;
  uint32_t keys_of = 0;
  uint32_t layer_scale = 0;
};
inline void resolve(KindDescriptor* d) {
  if (d->kv_heads == 0) d->kv_heads = d->heads;
  if (d->cross_heads == 0) d->cross_heads = d->heads;
  if (d->cross_kv_heads == 0) d->cross_kv_heads = d->kv_heads;
  if (d->cross_head_width == 0) d->cross_head_width = d->head_width;
  if (d->cross_scale == 0) d->cross_scale = d->scale;
}

struct OutputDescriptor {
  uint32_t output = 0;
  uint32_t tied = 0;
  float scale = 1;
  float cap = 0;
  uint32_t bias = 0;
  uint32_t pooling = 0;
  uint32_t normalize = 0;
  uint32_t classes = 0;
  uint32_t head_width = 0;
  uint32_t head_activation = 0;
  uint32_t head_norm = 0;
  float head_norm_eps = 0;
  uint32_t head_bias = 0;
  uint32_t scores = 0;
  uint32_t query_length = 0;
  uint32_t document_length = 0;
  uint32_t query_marker = PHASOR_NONE;
  uint32_t document_marker = PHASOR_NONE;
  uint32_t expansion = 0;
  Array labels{};
  Array prompts{};
  Array skipped{};
};

struct GenerationDescriptor {
  uint32_t sample = 0;
  float temperature = 0;
  uint32_t top_k = 0;
  float top_p = 0;
  float min_p = 0;
  float typical_p = 0;
  float repetition_penalty = 0;
  uint32_t no_repeat_ngram = 0;
  uint32_t min_new = 0;
  uint32_t max_new = 0;
  uint32_t beams = 0;
  float length_penalty = 1;
  uint32_t early_stopping = 0;
  uint32_t source_no_repeat_ngram = 0;
  uint32_t forced_last = PHASOR_NONE;
  uint32_t renormalize = 0;
  uint32_t present = 0;  // the file has this scope
  Array suppressed{};
  Array bad_words{};
};

}  // namespace phasor
