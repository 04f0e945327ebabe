// Products of quantized types at every level beside a plain loop, by a struct that reads a panel as
// docs/reference/file-format.md has it:
//   Panel{type, bytes, groups}
//   bytes()                       of a panel
//   value(o, k), scale(o, k)      a weight's whole number, and what it is multiplied by
//   minimum(o, k)                 of types that have minima: what is added to that
#pragma once
#include "kernel_data.h"
#include "tile_level.h"

namespace kernel_test {

template <class Panel, class = void>
constexpr bool kHasMinima = false;
template <class Panel>
constexpr bool kHasMinima<Panel, std::void_t<decltype(&Panel::minimum)>> = true;

// Output o of a row of whole numbers at(k) with a scale for each 32, where `Span` columns of the
// panel share one.
template <size_t Span, class Panel, class At>
float plain_output(const Panel& panel, size_t o, const float* scale, At at) {
  float acc = 0.0f;
  for (size_t k = 0; k < panel.groups * 32; k += Span) {
    int64_t sum = 0;
    for (size_t j = k; j < k + Span; ++j) sum += at(j) * panel.value(o, j);
    volatile float by = scale[k / 32] * panel.scale(o, k);
    acc = std::fma(static_cast<float>(sum), by, acc);
    if constexpr (kHasMinima<Panel>) {
      int64_t inputs = 0;
      for (size_t j = k; j < k + Span; ++j) inputs += at(j);
      volatile float all = scale[k / 32] * static_cast<float>(inputs);
      acc = std::fma(all, panel.minimum(o, k), acc);
    }
  }
  return acc;
}

// Output o of a panel, unpacked once for all rows.
template <class Panel, size_t Span>
struct Column {
  size_t groups;
  std::vector<int> values;
  std::vector<float> scales;
  Column(const Panel& panel, size_t o) : groups(panel.groups) {
    for (size_t k = 0; k < groups * 32; ++k) {
      values.push_back(panel.value(o, k));
      if (k % Span == 0) scales.push_back(panel.scale(o, k));
    }
  }
  int value(size_t, size_t k) const { return values[k]; }
  float scale(size_t, size_t k) const { return scales[k / Span]; }
};
template <class Panel, size_t Span>
struct ColumnWithMinima : Column<Panel, Span> {
  std::vector<float> minima;
  ColumnWithMinima(const Panel& panel, size_t o) : Column<Panel, Span>(panel, o) {
    for (size_t k = 0; k < panel.groups * 32; k += Span) minima.push_back(panel.minimum(o, k));
  }
  float minimum(size_t, size_t k) const { return minima[k / Span]; }
};
template <class Panel, size_t Span>
using Unpacked =
    std::conditional_t<kHasMinima<Panel>, ColumnWithMinima<Panel, Span>, Column<Panel, Span>>;

// All outputs (rows, n) of `rows` rows, whose whole numbers are at(row, k), by the panels at w.
template <class Panel, size_t Span, class At>
std::vector<float> plain_outputs(Type type, const unsigned char* w, size_t groups, size_t rows,
                                 size_t n, const float* scale, const float* bias, size_t bias_n,
                                 At at) {
  const size_t bytes = Panel{type, w, groups}.bytes();
  std::vector<float> y(rows * n);
  for (size_t i = 0; i < n; ++i) {
    const Unpacked<Panel, Span> panel(Panel{type, w + i / kLanes * bytes, groups}, i % kLanes);
    for (size_t r = 0; r < rows; ++r) {
      volatile float value =
          plain_output<Span>(panel, 0, scale + r * groups, [&](size_t k) { return at(r, k); });
      if (i < bias_n) value = value + bias[i];
      y[r * n + i] = value;
    }
  }
  return y;
}

// Any panels of the type with any rows of 8 and of 16 bits, and a bias of some outputs.
template <class Panel, size_t Span>
void compare_products(Type type, size_t rows, size_t panels, size_t groups) {
  Random random(rows * 10007 + panels * 101 + groups);
  const std::vector<unsigned char> w = panels_of(random, type, panels, groups);
  REQUIRE(w.size() == panels * Panel{type, w.data(), groups}.bytes() + 64);
  const size_t n = panels * kLanes, ldy = n + 5, cols = groups * kGroup;
  Array<float> bias = floats(random, n, Fill::ordinary, 1);
  const size_t bias_n = random.below(n + 1);
  Int8Activations x(&random, rows * groups, kGroup);
  Int16Activations wide(&random, rows, groups, kGroup);
  const auto outputs = [&](const float* scale, auto at) {
    return plain_outputs<Panel, Span>(type, w.data(), groups, rows, n, scale, bias, bias_n, at);
  };
  const std::vector<float> of[2] = {
      outputs(x.scale, [&](size_t r, size_t k) { return int64_t{x.q[r * cols + k]}; }),
      outputs(wide.scale, [&](size_t r, size_t k) {
        const int8_t* const q = wide.q + r * 2 * cols + k;
        return int64_t{255} * q[0] + q[cols];
      })};
  for (const Kernels* k : product_levels())
    for (const bool two : {false, true}) {
      Array<float> y(rows * ldy, 3);
      if (two)
        k->linear_int16(type)(y, ldy, wide.q, wide.scale, wide.sum, rows, w.data(), bias, bias_n,
                              panels, groups);
      else
        k->linear_int8(type)(y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels,
                             groups);
      INFO(k->name << " type " << kTypeNames[static_cast<int>(type)] << " rows " << rows
                   << " panels " << panels << " groups " << groups << " of 16 bits: " << two);
      REQUIRE(y.intact());
      require_outputs(*k, y, ldy, of[two], n);
    }
}

// The products of a panel whose weights are all alike, and all scales, with inputs of ±127 by
// `sign`, and of 16 bits ±32512; returns an output of the former.
template <class Panel, size_t Span>
float compare_largest(const Panel& panel, int sign) {
  const size_t groups = panel.groups, n = groups * kGroup, rows = 3;
  Array<int8_t> q(2 * rows * n);
  Array<float> scale(rows * groups), y(rows * kLanes);
  Array<int32_t> sum(2 * rows * groups);
  for (size_t i = 0; i < 2 * rows * n; ++i) q[i] = static_cast<int8_t>(127 * sign);
  for (size_t i = 0; i < rows * groups; ++i) scale[i] = 1.0f;
  for (size_t i = 0; i < 2 * rows * groups; ++i) sum[i] = 127 * sign * 32;
  const auto wanted = [&](int64_t input) {
    return plain_output<Span>(panel, 0, scale, [=](size_t) { return input * sign; });
  };
  const float narrow = wanted(127), wide = wanted(32512);
  for (const Kernels* k : product_levels())
    for (const size_t at_once : Sizes{1, 2, 3})
      for (const bool two : {false, true}) {
        INFO(k->name << " of 16 bits: " << two);
        (two ? k->linear_int16(panel.type) : k->linear_int8(panel.type))(
            y, kLanes, q, scale, sum, at_once, panel.p, nullptr, 0, 1, groups);
        for (size_t i = 0; i < at_once * kLanes; ++i) REQUIRE(same(y[i], two ? wide : narrow));
      }
  return narrow;
}

}  // namespace kernel_test
