// kernels: the table of a level that has all functions of its own, under the names that the fields have. What the build leaves out (only.h) is NULL: no
// model that would call it can be opened.
#pragma once
#include "../only.h"
#include "kernels.h"

#define PHASOR_KERNEL_TABLE(name)                             \
  {                                                           \
    name,                                                     \
    linear_f32,                                               \
    kHasF16 ? linear_f16 : nullptr,                           \
    kHasBf16 ? linear_bf16 : nullptr,                         \
    kHasQ8 || kHasQ4 || kHasCacheQ8 ? quantize_row : nullptr, \
    kHasQ8 ? linear_q8 : nullptr,                             \
    kHasQ4 ? linear_q4 : nullptr,                             \
    scores,                                                   \
    kHasCacheF16 ? scores_f16 : nullptr,                      \
    kHasCacheQ8 ? scores_q8 : nullptr,                        \
    kHasRelative ? table_scores : nullptr,                    \
    kHasRelative ? key_table_scores : nullptr,                \
    kHasAdditive ? additive_scores : nullptr,                 \
    kHasAlibi ? distance_bias : nullptr,                      \
    softmax,                                                  \
    mix,                                                      \
    kHasCacheF16 ? mix_f16 : nullptr,                         \
    kHasCacheQ8 ? mix_q8 : nullptr,                           \
    kHasRelative ? mix_table : nullptr,                       \
    kHasLayerNorm ? layer_norm : nullptr,                     \
    kHasRmsNorm ? rms_norm : nullptr,                         \
    kHasRotary ? rotate_halves : nullptr,                     \
    kHasRotary ? rotate_pairs : nullptr,                      \
    kHasOutputs ? unit : nullptr,                             \
    add,                                                      \
    scale,                                                    \
    mul,                                                      \
    clip,                                                     \
    kHasRelu ? relu : nullptr,                                \
    kHasGelu ? gelu_erf : nullptr,                            \
    kHasGeluTanh ? gelu_tanh : nullptr,                       \
    kHasSilu ? silu : nullptr,                                \
    soft_cap,                                                 \
    argmax,                                                   \
    kHasSampling ? exp_all : nullptr,                         \
    kHasSampling ? log_all : nullptr,                         \
    kHasPeaks ? peak_f32 : nullptr,                           \
    kHasPeaks ? peak_int8 : nullptr,                          \
  }
