// The integer products of the levels that have everything else from another level. They are
// compiled in the level's own file, for its own instructions; the table is in the file of the level
// that the rest is from.
#pragma once
#include <type_traits>

#include "../build.h"
#include "kernels.h"

// The level of a Cortex-M is known when it is compiled: Helium with floating point by gcc
// (level_helium.cpp says why), else the DSP extension.
#if defined(__ARM_ARCH_PROFILE) && !defined(PHASOR_SCALAR_ONLY)
#if defined(__ARM_FEATURE_MVE) && (__ARM_FEATURE_MVE & 2) != 0 && !defined(__clang__)
#define PHASOR_HELIUM_LEVEL 1
#elif __ARM_ARCH_PROFILE == 'M' && defined(__ARM_FEATURE_DSP)
#define PHASOR_DSP_LEVEL 1
#endif
#endif

namespace phasor {

#define PHASOR_DECLARED(type, ...) static LinearInt8 linear_##type, linear16_##type;
using PeakInt8 = std::remove_pointer_t<decltype(Kernels::peak_int8)>;

struct AvxVnni {
  static constexpr const char* kName = "avxvnni";
  PHASOR_INT8_TYPES(PHASOR_DECLARED, )
  static PeakInt8 peak_int8;
};
struct Avx512Vnni {
  static constexpr const char* kName = "avx512vnni";
  PHASOR_INT8_TYPES(PHASOR_DECLARED, )
  static PeakInt8 peak_int8;
};
struct Amx {
  static constexpr const char* kName = "amx";
  PHASOR_INT8_TYPES(PHASOR_DECLARED, )
  static PeakInt8 peak_int8;
};
struct Dotprod {
  static constexpr const char* kName = "dotprod";
  PHASOR_INT8_TYPES(PHASOR_DECLARED, )
  static PeakInt8 peak_int8;
};
struct I8mm : Dotprod {
  static constexpr const char* kName = "i8mm";
  static LinearInt8 linear_q8r;
};
struct Dsp {
  static constexpr const char* kName = "dsp";
  PHASOR_INT8_TYPES(PHASOR_DECLARED, )
  static PeakInt8 peak_int8;
};

// The table `k` with those products, under their level's name.
template <class Products>
constexpr Kernels with_products(Kernels k) {
  if constexpr (level_built(Products::kName)) {
    k.name = Products::kName;
#define PHASOR_SET(type, Weights, built, ...) \
  k.linear_##type = built ? Products::linear_##type : nullptr; \
  k.linear16_##type = built && kHasInputs16 ? Products::linear16_##type : nullptr;
    PHASOR_INT8_TYPES(PHASOR_SET, )
#undef PHASOR_SET
    k.peak_int8 = kHasPeaks ? Products::peak_int8 : nullptr;
  }
  return k;
}

// Defines one of them as `product`, and all from a level's body.
#define PHASOR_PRODUCT(name, product)                                                             \
  name(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, size_t rows, \
       const void* w, const float* bias, size_t bias_n, size_t panels, size_t groups) {           \
    product(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);                         \
  }
#define PHASOR_PRODUCT_OF(type, Weights, built, Products, Body) \
  void PHASOR_PRODUCT(Products::linear_##type, Body::linear_int8<Body::Weights>) \
  void PHASOR_PRODUCT(Products::linear16_##type, Body::linear_int16<Body::Weights>)
#define PHASOR_PRODUCTS(Products, Body)                  \
  PHASOR_INT8_TYPES(PHASOR_PRODUCT_OF, Products, Body)   \
  uint64_t Products::peak_int8(float* out, uint64_t rounds) { return Body::peak_int8(out, rounds); }

}  // namespace phasor
