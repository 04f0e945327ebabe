// Level amx's tiling code (src/kernels/x86/tiled.hpp) without vectors: 16 floats as an array, and
// the scalar level for rows that fill no tile. So every machine can compile it.
#pragma once
#include "kernels/gather.h"
#include "kernels/x86/tiled.hpp"

namespace phasor {
namespace {

struct Lanes16 {
  float v[kLanes];
  static Lanes16 set(float s) {
    Lanes16 r;
    for (float& x : r.v) x = s;
    return r;
  }
  static Lanes16 load(const float* p) {
    Lanes16 r;
    __builtin_memcpy(r.v, p, sizeof r.v);
    return r;
  }
  void store(float* p) const { __builtin_memcpy(p, v, sizeof v); }
  friend Lanes16 operator+(Lanes16 a, const Lanes16& b) {
    for (size_t i = 0; i < kLanes; ++i) a.v[i] = a.v[i] + b.v[i];
    return a;
  }
  friend Lanes16 operator*(Lanes16 a, const Lanes16& b) {
    for (size_t i = 0; i < kLanes; ++i) a.v[i] = a.v[i] * b.v[i];
    return a;
  }
  friend Lanes16 fma(const Lanes16& a, const Lanes16& b, Lanes16 c) {
    for (size_t i = 0; i < kLanes; ++i) c.v[i] = fma1(a.v[i], b.v[i], c.v[i]);
    return c;
  }
};

struct PlainLanes {
  using V = Lanes16;
  static V sums(const int32_t* p) {
    V r;
    for (size_t i = 0; i < kLanes; ++i) r.v[i] = static_cast<float>(p[i]);
    return r;
  }
  static V half16(const unsigned char* p) {
    V r;
    for (size_t i = 0; i < kLanes; ++i) {
      uint16_t h;
      __builtin_memcpy(&h, p + 2 * i, 2);
      r.v[i] = widen_f16(h);
    }
    return r;
  }
  static V byte16(const unsigned char* p) {
    V r;
    for (size_t i = 0; i < kLanes; ++i) r.v[i] = static_cast<float>(static_cast<int8_t>(p[i]));
    return r;
  }
#define PHASOR_OF_SCALAR(field)                                                                   \
  static void field(float* y, size_t ldy, const int8_t* xq, const float* xs, const int32_t* xsum, \
                    size_t rows, const void* w, const float* bias, size_t bias_n, size_t panels,  \
                    size_t groups) {                                                              \
    kernels_scalar.field(y, ldy, xq, xs, xsum, rows, w, bias, bias_n, panels, groups);            \
  }
#define PHASOR_BOTH_INPUTS(type, ...) \
  PHASOR_OF_SCALAR(linear_##type) PHASOR_OF_SCALAR(linear16_##type)
  PHASOR_INT8_TYPES(PHASOR_BOTH_INPUTS, )
#undef PHASOR_BOTH_INPUTS
#undef PHASOR_OF_SCALAR
  static void look_up(unsigned char* to, const unsigned char* codes, const unsigned char* table) {
    look_up_each(to, codes, table);
  }
};

}  // namespace
}  // namespace phasor
