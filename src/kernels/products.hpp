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

using PeakInt8 = std::remove_pointer_t<decltype(Kernels::peak_int8)>;

struct AvxVnni {
  static constexpr const char* kName = "avxvnni";
  static LinearInt8 linear_q8, linear_q4, linear_q4m, linear_q4k, linear_q8r;
  static PeakInt8 peak_int8;
};
struct Avx512Vnni {
  static constexpr const char* kName = "avx512vnni";
  static LinearInt8 linear_q8, linear_q4, linear_q4m, linear_q4k, linear_q8r;
  static PeakInt8 peak_int8;
};
struct Amx : Avx512Vnni {
  static constexpr const char* kName = "amx";
  static LinearInt8 linear_q8, linear_q4, linear_q8r;
  static PeakInt8 peak_int8;
};
struct Dotprod {
  static constexpr const char* kName = "dotprod";
  static LinearInt8 linear_q8, linear_q4, linear_q4m, linear_q4k, linear_q8r;
  static PeakInt8 peak_int8;
};
struct I8mm : Dotprod {
  static constexpr const char* kName = "i8mm";
  static LinearInt8 linear_q8r;
};
struct Dsp {
  static constexpr const char* kName = "dsp";
  static LinearInt8 linear_q8, linear_q4, linear_q4m, linear_q4k, linear_q8r;
  static PeakInt8 peak_int8;
};

// The table `k` with those products, under their level's name.
template <class Products>
constexpr Kernels with_products(Kernels k) {
  if constexpr (level_built(Products::kName)) {
    k.name = Products::kName;
    k.linear_q8 = kHasQ8 ? Products::linear_q8 : nullptr;
    k.linear_q4 = kHasQ4 ? Products::linear_q4 : nullptr;
    k.linear_q4m = kHasQ4m ? Products::linear_q4m : nullptr;
    k.linear_q4k = kHasQ4m ? Products::linear_q4k : nullptr;
    k.linear_q8r = kHasQ8r ? Products::linear_q8r : nullptr;
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
#define PHASOR_PRODUCTS(Products, Body)                                    \
  void PHASOR_PRODUCT(Products::linear_q8, Body::linear_int8<Body::Q8>)    \
  void PHASOR_PRODUCT(Products::linear_q4, Body::linear_int8<Body::Q4>)    \
  void PHASOR_PRODUCT(Products::linear_q4m, Body::linear_int8<Body::Q4m>)  \
  void PHASOR_PRODUCT(Products::linear_q4k, Body::linear_int8<Body::Q4k>)  \
  void PHASOR_PRODUCT(Products::linear_q8r, Body::linear_int8<Body::Q8r>)  \
  uint64_t Products::peak_int8(float* out, uint64_t rounds) { return Body::peak_int8(out, rounds); }

}  // namespace phasor
