// All kernels of a vector level, as templates over a Level, which says
//   using Arch                    the xsimd architecture
//   struct Tiles                  how many rows and panels a micro-kernel takes at once
//   half16(p)                     16 f16 values to f32
//   byte16(p)                     16 int8 values to f32
//   struct Int8                   the exact dot product of 16 outputs by 4 activations (int8_*.hpp)
//   look_up(to, codes, table)     a panel's group of 4-bit codes as the int8 at their places
//   struct Int4                   the same with two fields of bytes: 16 outputs by 4 and 4 inputs
//   struct Int4m                  the same where the sums are of one group at most
//   Fine<Type>                    codes in two fields (CodeStep): the sums are of half a group
// level_scalar.cpp and scalar_products.hpp say in plain loops what each of them computes.
#pragma once
#include "attention.hpp"
#include "quantized.hpp"
#include "table.h"

namespace phasor {
namespace {

template <class L>
struct Body : Attention<L>, Quantized<L>, Elementwise<L> {
  using V = v16<typename L::Arch>;
  using T = typename L::Tiles;

  static PHASOR_APART uint64_t peak_f32(float* out, uint64_t rounds) {
    constexpr size_t kChains = T::kRows * T::kPanels;
    V acc[kChains];
    PHASOR_UNROLL for (size_t i = 0; i < kChains; ++i) acc[i] = V::set(static_cast<float>(i));
    const V x = V::set(0.5f), w = V::set(0x1p-20f);
    for (uint64_t n = 0; n < rounds; ++n)
      PHASOR_UNROLL for (size_t i = 0; i < kChains; ++i) acc[i] = fma(x, w, acc[i]);
    PHASOR_UNROLL for (size_t i = 0; i < kChains - 1; ++i) acc[0] = acc[0] + acc[i + 1];
    acc[0].store(out);
    return rounds * kChains * kLanes;
  }
  // Rows of activations by panels of one vector of weights each. The activations change from round
  // to round, so that no product is left out.
  static PHASOR_APART uint64_t peak_int8(float* out, uint64_t rounds) {
    using Int8 = typename L::Int8;
    constexpr size_t kRows = V::N == 1                         ? 6
                             : sizeof(typename Int8::Sum) > 64 ? 1
                                                               : 4,
                     kPanels = V::N == 1 ? 2 : 1;
    alignas(64) unsigned char bytes[kPanels * 128];
    alignas(64) int8_t values[2][kRows][kGroup];
    for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = static_cast<unsigned char>(i * 37);
    for (size_t i = 0; i < sizeof values; ++i)
      values[i / (kRows * kGroup)][i / kGroup % kRows][i % kGroup] =
          static_cast<int8_t>(i * 29 % 255 - 127);
    typename Int8::Weights w[kPanels];
    typename Int8::Sum sum[kRows][kPanels];
    PHASOR_UNROLL for (size_t p = 0; p < kPanels; ++p) w[p] = Int8::weights(bytes + p * 128);
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
      PHASOR_UNROLL for (size_t p = 0; p < kPanels; ++p) sum[r][p] = Int8::start(0);
    }
    for (uint64_t n = 0; n < rounds; ++n)
      PHASOR_UNROLL for (size_t j = 0; j < 8 / Int8::kSteps; ++j) {
        PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
          const typename Int8::Values x = Int8::values(values[n & 1][r] + j * Int8::kSteps * 4);
          PHASOR_UNROLL for (size_t p = 0; p < kPanels; ++p) Int8::dot(sum[r][p], w[p], x);
        }
      }
    V all = V::set(0.0f);
    PHASOR_UNROLL for (size_t r = 0; r < kRows; ++r) {
      PHASOR_UNROLL for (size_t p = 0; p < kPanels; ++p) all = all + Int8::to_float(sum[r][p]);
    }
    all.store(out);
    return rounds * kRows * kPanels * kLanes * kGroup;
  }
};

}  // namespace
}  // namespace phasor
