// The integer products of the levels that have everything else from another level. They are
// compiled in the level's own file, for its own instructions; the table is in the file of the level
// that the rest is from.
#pragma once
#include <type_traits>

#include "../only.h"
#include "kernels.h"

namespace phasor {

using LinearInt8 = std::remove_pointer_t<decltype(Kernels::linear_q8)>;
using PeakInt8 = std::remove_pointer_t<decltype(Kernels::peak_int8)>;

struct AvxVnni {
  static constexpr const char* kName = "avxvnni";
  static LinearInt8 linear_q8, linear_q4;
  static PeakInt8 peak_int8;
};
struct Avx512Vnni {
  static constexpr const char* kName = "avx512vnni";
  static LinearInt8 linear_q8, linear_q4;
  static PeakInt8 peak_int8;
};
struct Dotprod {
  static constexpr const char* kName = "dotprod";
  static LinearInt8 linear_q8, linear_q4;
  static PeakInt8 peak_int8;
};

// The table `k` with those products, under their level's name.
template <class Products>
constexpr Kernels with_products(Kernels k) {
  if constexpr (level_built(Products::kName)) {
    k.name = Products::kName;
    k.linear_q8 = kHasQ8 ? Products::linear_q8 : nullptr;
    k.linear_q4 = kHasQ4 ? Products::linear_q4 : nullptr;
    k.peak_int8 = kHasPeaks ? Products::peak_int8 : nullptr;
  }
  return k;
}

// Defines them from a level's body.
#define PHASOR_PRODUCTS(Products, Body)                                                        \
  void Products::linear_q8(float* y, size_t ldy, const int8_t* xq, const float* xs,            \
                           const int32_t* xsum, size_t rows, const void* w, const float* bias, \
                           size_t bias_n, size_t panels, size_t groups) {                      \
    Body::linear_int8<Body::Q8>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);  \
  }                                                                                            \
  void Products::linear_q4(float* y, size_t ldy, const int8_t* xq, const float* xs,            \
                           const int32_t* xsum, size_t rows, const void* w, const float* bias, \
                           size_t bias_n, size_t panels, size_t groups) {                      \
    Body::linear_int8<Body::Q4>(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);  \
  }                                                                                            \
  uint64_t Products::peak_int8(float* out, uint64_t rounds) { return Body::peak_int8(out, rounds); }

}  // namespace phasor
