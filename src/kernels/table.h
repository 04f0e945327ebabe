// The table of a level: a struct whose static functions have the names that the fields have, and
// are templates over a type of weights, a format of the cache or an activation where the level has
// one function for several fields. What the build leaves out (build.h) is NULL: no model that would
// call it can be opened.
#pragma once
#include "functions.hpp"
#include "kernels.h"

namespace phasor {
namespace {

template <class Level>
constexpr Kernels kernel_table(const char* name) {
  using CacheF32 = typename Level::F32;
  using CacheF16 = typename Level::F16;
  using CacheQ8 = typename Level::CacheQ8;
  Kernels k = {};
  k.name = name;
#define PHASOR_SET(type, Weights, built, ...) \
  k.linear_##type = built ? Level::template linear<typename Level::Weights> : nullptr;
  PHASOR_FLOAT_TYPES(PHASOR_SET, )
#undef PHASOR_SET
  k.quantize_row = kHasGroups || kHasCacheQ8 ? Level::quantize_row : nullptr;
  k.quantize_whole = kHasRows ? Level::quantize_whole : nullptr;
  k.quantize_row16 = kHasGroups && kHasInputs16 ? Level::quantize_row16 : nullptr;
  k.quantize_whole16 = kHasRows && kHasInputs16 ? Level::quantize_whole16 : nullptr;
  k.quantize_rotated = kHasGroups && kHasRotatedInputs ? Level::quantize_rotated : nullptr;
#define PHASOR_SET(type, Weights, built, ...) \
  k.linear_##type = built ? Level::template linear_int8<typename Level::Weights> : nullptr; \
  k.linear16_##type = built && kHasInputs16                                               \
                          ? Level::template linear_int16<typename Level::Weights>         \
                          : nullptr;
  PHASOR_INT8_TYPES(PHASOR_SET, )
#undef PHASOR_SET
#define PHASOR_SET(Cache)                                                      \
  k.scores[k##Cache] = kHas##Cache ? Level::template scores<Cache> : nullptr; \
  k.mix[k##Cache] = kHas##Cache ? Level::template mix<Cache> : nullptr;
  PHASOR_CACHES(PHASOR_SET)
#undef PHASOR_SET
  k.table_scores = kHasRelative ? Level::table_scores : nullptr;
  k.key_table_scores = kHasRelative ? Level::key_table_scores : nullptr;
  k.additive_scores = kHasAdditive ? Level::additive_scores : nullptr;
  k.distance_bias = kHasAlibi ? Level::distance_bias : nullptr;
  k.softmax = Level::softmax;
  k.mix_table = kHasRelative ? Level::mix_table : nullptr;
  k.layer_norm = kHasLayerNorm ? Level::layer_norm : nullptr;
  k.rms_norm = kHasRmsNorm ? Level::rms_norm : nullptr;
  k.rotate_halves = kHasRotary ? Level::rotate_halves : nullptr;
  k.rotate_pairs = kHasRotary ? Level::rotate_pairs : nullptr;
  k.unit = kHasOutputs ? Level::unit : nullptr;
  k.add = Level::add;
  k.scale = Level::scale;
  k.mul = Level::mul;
  k.mul_add = kHasConvolution ? Level::mul_add : nullptr;
  k.clip = Level::clip;
#define PHASOR_SET(code, built) k.activation[code] = built ? kernel_of<Level, code>() : nullptr;
  PHASOR_ACTIVATIONS(PHASOR_SET)
#undef PHASOR_SET
  k.xielu = kHasXielu ? Level::xielu : nullptr;
  k.soft_cap = Level::soft_cap;
  k.argmax = Level::argmax;
  k.exp = kHasSampling ? Level::template each_of<Exp> : nullptr;
  k.log = kHasSampling ? Level::template each_of<Log> : nullptr;
  k.peak_f32 = kHasPeaks ? Level::peak_f32 : nullptr;
  k.peak_int8 = kHasPeaks ? Level::peak_int8 : nullptr;
  return k;
}

}  // namespace
}  // namespace phasor
