// The table of a level whose functions have the names that the fields have: `from` is what stands
// before them, Body:: or nothing. What the build leaves out (build.h) is NULL: no model that would
// call it can be opened.
#pragma once
#include "../build.h"
#include "kernels.h"

#define PHASOR_KERNEL_TABLE(level, from)                                            \
  [](const char* name) {                                                            \
    Kernels k = {};                                                                 \
    k.name = name;                                                                  \
    k.linear_f32 = from linear_f32;                                                 \
    k.linear_f16 = kHasF16 ? from linear_f16 : nullptr;                             \
    k.linear_bf16 = kHasBf16 ? from linear_bf16 : nullptr;                          \
    k.quantize_row = kHasQ8 || kHasQ4 || kHasCacheQ8 ? from quantize_row : nullptr; \
    k.linear_q8 = kHasQ8 ? from linear_q8 : nullptr;                                \
    k.linear_q4 = kHasQ4 ? from linear_q4 : nullptr;                                \
    k.scores = from scores;                                                         \
    k.scores_f16 = kHasCacheF16 ? from scores_f16 : nullptr;                        \
    k.scores_q8 = kHasCacheQ8 ? from scores_q8 : nullptr;                           \
    k.table_scores = kHasRelative ? from table_scores : nullptr;                    \
    k.key_table_scores = kHasRelative ? from key_table_scores : nullptr;            \
    k.additive_scores = kHasAdditive ? from additive_scores : nullptr;              \
    k.distance_bias = kHasAlibi ? from distance_bias : nullptr;                     \
    k.softmax = from softmax;                                                       \
    k.mix = from mix;                                                               \
    k.mix_f16 = kHasCacheF16 ? from mix_f16 : nullptr;                              \
    k.mix_q8 = kHasCacheQ8 ? from mix_q8 : nullptr;                                 \
    k.mix_table = kHasRelative ? from mix_table : nullptr;                          \
    k.layer_norm = kHasLayerNorm ? from layer_norm : nullptr;                       \
    k.rms_norm = kHasRmsNorm ? from rms_norm : nullptr;                             \
    k.rotate_halves = kHasRotary ? from rotate_halves : nullptr;                    \
    k.rotate_pairs = kHasRotary ? from rotate_pairs : nullptr;                      \
    k.unit = kHasOutputs ? from unit : nullptr;                                     \
    k.add = from add;                                                               \
    k.scale = from scale;                                                           \
    k.mul = from mul;                                                               \
    k.clip = from clip;                                                             \
    k.relu = kHasRelu ? from relu : nullptr;                                        \
    k.gelu_erf = kHasGelu ? from gelu_erf : nullptr;                                \
    k.gelu_tanh = kHasGeluTanh ? from gelu_tanh : nullptr;                          \
    k.silu = kHasSilu ? from silu : nullptr;                                        \
    k.soft_cap = from soft_cap;                                                     \
    k.argmax = from argmax;                                                         \
    k.exp = kHasSampling ? from exp_all : nullptr;                                  \
    k.log = kHasSampling ? from log_all : nullptr;                                  \
    k.peak_f32 = kHasPeaks ? from peak_f32 : nullptr;                               \
    k.peak_int8 = kHasPeaks ? from peak_int8 : nullptr;                             \
    return k;                                                                       \
  }(level)
