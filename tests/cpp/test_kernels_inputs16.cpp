// Inputs of 16 bits (rule 1.21): their rounding, in groups, whole and rotated, and their products
// with every quantized type, at every level.
#include <algorithm>

#include "kernel_data.h"
#include "share.h"
#include "tile_level.h"

using namespace kernel_test;

namespace {

constexpr int32_t kMost = 32512, kBase = 255;

// The whole numbers of `planes` as hi and lo have them; each must be 255·hi + lo within ±127.
int32_t whole(const int8_t* q, size_t at, size_t apart) {
  const int32_t hi = q[at], lo = q[at + apart];
  REQUIRE((hi >= -127 && lo >= -127));
  return kBase * hi + lo;
}

// values (n) as the rule rounds them, at their scale.
int32_t nearest(float x, float amax) {
  if (amax < 0x1p-72f) return 0;
  volatile float inv = static_cast<float>(kMost) / amax, scaled = x * inv;
  return std::min(kMost, std::max(-kMost, static_cast<int32_t>(std::nearbyint(scaled))));
}
float scale_of(float amax) {
  return amax < 0x1p-72f ? 0.0f : amax * static_cast<float>(1.0 / kMost);
}
float largest(const float* x, size_t n) {
  float amax = 0.0f;
  for (size_t i = 0; i < n; ++i) amax = std::fmax(amax, std::fabs(x[i]));
  return amax;
}

// Value (o, k) of a panel whose values begin at p.
int32_t weight(Type type, const unsigned char* panel, const unsigned char* p, size_t o, size_t k) {
  if (value_bits(type) == 8) return static_cast<int8_t>(p[panel_index_q8(o, k)]);
  const unsigned bits = value_bits(type),
                 n = code_at(p + k / kGroup * code_bytes(bits) * kLanes, bits, kLanes, o,
                             k % kGroup);
  return code_value(type, panel, n);
}

// Output o of a row, as the rule has it, from whole numbers of 64 bits; `values` are its weights.
float output(Type type, Int16Activations& x, size_t r, size_t groups, const unsigned char* panel,
             size_t o, const std::vector<int32_t>& values) {
  const size_t n = groups * kGroup, row = r * 2 * n;
  const bool by_row = whole_type(type);
  const auto sums = [&](size_t from, size_t to) {
    int64_t high = 0, low = 0;
    for (size_t k = from; k < to; ++k) {
      const int64_t w = values[k];
      high += w * x.q[row + k];
      low += w * x.q[row + n + k];
    }
    return std::fma(255.0f, static_cast<float>(high), static_cast<float>(low));
  };
  if (by_row) {
    float sw;
    std::memcpy(&sw, panel + o * 4, 4);
    volatile float scale = x.scale[r] * sw, value = sums(0, n) * scale;
    return value;
  }
  float acc = 0.0f;
  const size_t span = scale_span(type);
  for (size_t k = 0; k < n && coded_type(type); k += span) {
    volatile float scale = x.scale[r * groups + k / kGroup] *
                           coded_scale(panel, type, Layout::panel16, groups, o, k / span);
    acc = std::fma(sums(k, k + span), scale, acc);
  }
  for (size_t g = 0; g < groups && !coded_type(type); ++g) {
    Grid grid = {0, 0};
    const unsigned char* at = panel + panel_scale(type, o, g);
    if (minimum_type(type))
      grid = grid_at(panel, type, Layout::panel16, groups, o, g);
    else
      grid.scale = widen_f16(static_cast<uint16_t>(at[0] | at[1] << 8));
    const float sx = x.scale[r * groups + g];
    volatile float scale = sx * grid.scale;
    acc = std::fma(sums(g * kGroup, (g + 1) * kGroup), scale, acc);
    if (!minimum_type(type)) continue;
    const int32_t total = kBase * x.sum[r * 2 * groups + g] + x.sum[r * 2 * groups + groups + g];
    volatile float all = sx * static_cast<float>(total);
    acc = std::fma(all, grid.least, acc);
  }
  return acc;
}

}  // namespace

TEST_CASE("rule 1.21: groups of activations to 16 bits") {
  for (const size_t cols : Sizes{1, 20, 31, 32, 33, 64, 100, 203})
    for (const Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros, Fill::subnormal}) {
      Random random(cols * 11 + static_cast<size_t>(fill));
      Array<float> x = floats(random, cols, fill, cols % 5);
      const size_t groups = static_cast<size_t>(groups_of(cols)), n = groups * kGroup;
      for (const Kernels* k : levels()) {
        Array<int8_t> q(2 * n, 1);
        Array<float> s(groups, 1);
        Array<int32_t> sum(2 * groups, 3);
        k->quantize_row16(q, s, sum, x, cols);
        INFO(k->name << " cols " << cols);
        REQUIRE((q.intact() && s.intact() && sum.intact()));
        for (size_t g = 0; g < groups; ++g) {
          const size_t first = g * kGroup, here = std::min(kGroup, cols - first);
          const float amax = largest(x + first, here);
          REQUIRE(same(s[g], scale_of(amax)));
          int32_t high = 0, low = 0;
          for (size_t i = first; i < first + kGroup; ++i) {
            REQUIRE(whole(q, i, n) == (i < cols ? nearest(x[i], amax) : 0));
            high += q[i];
            low += q[n + i];
          }
          REQUIRE(sum[g] == high);
          REQUIRE(sum[groups + g] == low);
        }
      }
    }
}

TEST_CASE("rule 1.21: whole rows of activations to 16 bits, rotated or not") {
  for (const size_t cols : Sizes{1, 20, 63, 64, 65, 96, 203, 576, 1600})
    for (const Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros})
      for (const bool rotate : {false, true}) {
        Random random(cols * 13 + static_cast<size_t>(fill));
        Array<float> x = floats(random, cols, fill, cols % 5);
        const size_t n = static_cast<size_t>(round_up(cols, kRowStep));
        const size_t block = rotate ? rotation_block(cols) : 0;
        std::vector<float> v(x + 0, x + cols);
        for (size_t i = 0; rotate && i < cols; i += block)
          rotate_block(v.data() + i, block, rotation_scale(block));
        const float amax = largest(v.data(), cols);
        for (const Kernels* k : levels()) {
          Array<int8_t> q(2 * n, 1);
          Array<float> s(1, 1);
          Array<int32_t> sum(2, 3);
          k->quantize_whole16(q, s, sum, x, cols, block);
          INFO(k->name << " cols " << cols << (rotate ? " rotated" : ""));
          REQUIRE((q.intact() && s.intact() && sum.intact()));
          REQUIRE(same(s[0], scale_of(amax)));
          int32_t high = 0, low = 0;
          for (size_t i = 0; i < n; ++i) {
            REQUIRE(whole(q, i, n) == (i < cols ? nearest(v[i], amax) : 0));
            high += q[i];
            low += q[n + i];
          }
          REQUIRE(sum[0] == high);
          REQUIRE(sum[1] == low);
        }
      }
}

TEST_CASE("rule 1.21: products of every type, with weights of −128 and inputs of ±32512") {
  Share share;
  for (const Type type : {Type::q8, Type::q4, Type::q4t, Type::q2, Type::q1, Type::q4m, Type::q4k,
                          Type::q8r, Type::q2r, Type::q6, Type::q4x, Type::q3, Type::q2w,
                          Type::q5m, Type::q5k})
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 7, 9, 16, 17, 30, 35})
      for (const size_t panels : Sizes{1, 2, 3, 9})
        for (const size_t groups : Sizes{2, 8, 10, 18, 54, 130}) {
          if (groups == 54 && rows < 35) continue;  // many rows take 24 groups or fewer at once
          if (groups > 54 && rows > 1) continue;  // one row of q1 takes 128 at once
          if (!share.takes()) continue;
          Random random(rows * 10007 + panels * 101 + groups + static_cast<size_t>(type) * 7);
          const std::vector<unsigned char> w = panels_of(random, type, panels, groups);
          const bool by_row = whole_type(type);
          Int16Activations x(&random, rows, by_row ? 1 : groups, by_row ? groups * kGroup : kGroup);
          Array<float> bias = floats(random, panels * kLanes, Fill::ordinary, 1);
          const size_t bias_n = random.below(panels * kLanes + 1), ldy = panels * kLanes + 5;
          const size_t bytes = static_cast<size_t>(panel_bytes(type, groups * kGroup));
          const size_t n = panels * kLanes, cols = groups * kGroup;
          std::vector<float> wanted(rows * n);
          std::vector<int32_t> values(cols);
          for (size_t o = 0; o < n; ++o) {
            const unsigned char* panel = w.data() + o / kLanes * bytes;
            const unsigned char* codes = panel + plane_bytes(type, kLanes, cols);
            for (size_t i = 0; i < cols; ++i) values[i] = weight(type, panel, codes, o % kLanes, i);
            for (size_t r = 0; r < rows; ++r) {
              volatile float value = output(type, x, r, groups, panel, o % kLanes, values);
              wanted[r * n + o] = o < bias_n ? value + bias[o] : value;
            }
          }
          for (const Kernels* k : product_levels()) {
            Array<float> y(rows * ldy, 3);
            k->linear_int16(type)(y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels,
                                  groups);
            INFO(k->name << " type " << kTypeNames[static_cast<int>(type)] << " rows " << rows
                         << " panels " << panels << " groups " << groups);
            REQUIRE(y.intact());
            require_outputs(*k, y, ldy, wanted, n);
          }
        }
}

TEST_CASE("rule 1.21: the sums of the widest rows fit") {
  const size_t groups = static_cast<size_t>(whole_groups_of(kMostInRow)), n = groups * kGroup;
  for (const int sign : {1, -1}) {
    std::vector<unsigned char> w(kLanes * 4 + n * kLanes);
    const float one = 1.0f;
    for (size_t i = 0; i < kLanes; ++i) std::memcpy(&w[i * 4], &one, 4);
    for (size_t k = 0; k < kMostInRow; ++k)
      for (size_t o = 0; o < kLanes; ++o) w[kLanes * 4 + panel_index_q8(o, k)] = 128;
    Array<int8_t> q(2 * n);
    Array<float> scale(1), y(kLanes);
    Array<int32_t> sum(2);
    for (size_t k = 0; k < n; ++k)
      q[k] = q[n + k] = static_cast<int8_t>(k < kMostInRow ? 127 * sign : 0);
    scale[0] = 1.0f;
    sum[0] = sum[1] = 127 * sign * static_cast<int32_t>(kMostInRow);
    const float part = static_cast<float>(int64_t{-128} * sum[0]),
                wanted = std::fma(255.0f, part, part);
    for (const Kernels* k : levels()) {
      k->linear16_q8r(y, kLanes, q, scale, sum, 1, w.data(), nullptr, 0, 1, groups);
      INFO(k->name);
      for (size_t i = 0; i < kLanes; ++i) REQUIRE(same(y[i], wanted));
    }
  }
}
