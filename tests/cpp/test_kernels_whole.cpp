// q8r and q2r, a scale for each row: rounding whole rows of activations, with their rotation, and
// the products, at every level.
#include "rounded_groups.h"
#include "share.h"
#include "tile_level.h"

using namespace kernel_test;

namespace {

constexpr Sizes kWidths = {1,  2,  3,  6,  8,   20,  31,  32,  33,   48,
                           63, 64, 65, 96, 100, 128, 203, 576, 1536, 1600};

// As the rule has it, one number after the other.
std::vector<float> rotated(const float* x, size_t cols) {
  const size_t block = rotation_block(cols);
  std::vector<float> y(x, x + cols);
  for (size_t first = 0; first < cols; first += block) {
    for (size_t i = 0; i < block; ++i) y[first + i] = y[first + i] / static_cast<float>(block);
    for (size_t apart = 1; apart != block; apart *= 2) {
      const std::vector<float> before = y;
      for (size_t i = 0; i < block; ++i) {
        volatile float sum = before[first + (i & ~apart)];
        sum = (i & apart) == 0 ? sum + before[first + (i | apart)]
                               : sum - before[first + (i | apart)];
        y[first + i] = sum;
      }
    }
    for (size_t i = 0; i < block; ++i)
      y[first + i] = std::ldexp(y[first + i], static_cast<int>(std::log2(block)) / 2);
  }
  return y;
}

void check_row(const Kernels& k, Array<float>& x, size_t cols, bool rotate) {
  const size_t padded = static_cast<size_t>(round_up(cols, kRowStep));
  Array<int8_t> q(padded, 1);
  Array<float> s(1, 1);
  Array<int32_t> sum(1, 3);
  k.quantize_whole(q, s, sum, x, cols, rotate ? rotation_block(cols) : 0);
  INFO(k.name << " cols " << cols << (rotate ? " rotated" : ""));
  REQUIRE((q.intact() && s.intact() && sum.intact()));
  const std::vector<float> v = rotate ? rotated(x, cols) : std::vector<float>(x + 0, x + cols);
  float amax = 0.0f;
  for (const float value : v) amax = std::fmax(amax, std::fabs(value));
  const bool zero = amax < 0x1p-80f;
  REQUIRE(same(s[0], zero ? 0.0f : amax * static_cast<float>(1.0 / 127.0)));
  int32_t total = 0;
  for (size_t i = 0; i < padded; ++i) {
    int wanted = 0;
    if (i < cols && !zero) {
      volatile float scaled = v[i] * (127.0f / amax);
      wanted = static_cast<int>(std::nearbyint(scaled));
    }
    REQUIRE(int{q[i]} == std::min(127, std::max(-127, wanted)));
    total += wanted;
  }
  REQUIRE(sum[0] == total);
}

// Value (o, k) of a panel, whose bytes begin at p (docs/reference/file-format.md, Layouts).
int weight(Type type, const unsigned char* p, size_t o, size_t k) {
  if (type == Type::q8r) return static_cast<signed char>(p[64 + panel_index_q8(o, k)]);
  return (p[64 + k / 32 * 128 + k % 8 / 4 * 64 + o * 4 + k % 4] >> k % 32 / 8 * 2 & 3) - 1;
}

}  // namespace

TEST_CASE("rule 1.18 and 1.19: a whole row of activations to int8") {
  for (const size_t cols : kWidths)
    for (const Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros})
      for (const bool rotate : {false, true}) {
        Random random(cols * 7 + static_cast<size_t>(fill));
        Array<float> x = floats(random, cols, fill, cols % 5);
        for (const Kernels* k : levels()) check_row(*k, x, cols, rotate);
      }
}

TEST_CASE("rule 1.29: groups of rotated activations to int8") {
  for (const size_t cols : kWidths)
    for (const Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros}) {
      Random random(cols * 17 + static_cast<size_t>(fill));
      Array<float> x = floats(random, cols, fill, cols % 5);
      const std::vector<float> v = rotated(x, cols);
      const size_t groups = static_cast<size_t>(groups_of(cols));
      for (const Kernels* k : levels()) {
        Array<int8_t> q(groups * kGroup, 1);
        Array<float> s(groups, 1);
        Array<int32_t> sum(groups, 3);
        k->quantize_rotated(q, s, sum, x, cols, rotation_block(cols));
        INFO(k->name << " cols " << cols);
        REQUIRE((q.intact() && s.intact() && sum.intact()));
        check_groups(q, s, sum, v.data(), cols);
      }
    }
}

TEST_CASE("rule 1.29: a row that is looked up is rotated back") {
  for (const Type type : {Type::q8, Type::q4, Type::q4t, Type::q4m, Type::q4k, Type::q6, Type::q4x,
                          Type::q3, Type::q5m, Type::q5k})
    for (const size_t cols : Sizes{20, 96, 100, 192, 576}) {
      Random random(cols);
      const std::vector<unsigned char> w =
          panels_of(random, type, 1, static_cast<size_t>(groups_of(cols)));
      for (size_t row = 0; row < kLanes; ++row) {
        Array<float> stored(cols, 1), back(cols, 1);
        gather_row(stored, w.data(), type, Layout::panel16, kLanes, cols, row);
        gather_row(back, w.data(), type, Layout::panel16, kLanes, cols, row, true);
        const std::vector<float> wanted = rotated(stored, cols);
        REQUIRE(first_difference(back, wanted.data(), cols) == cols);
        REQUIRE(back.intact());
      }
    }
}

TEST_CASE("rule 1.18: below the floor a row is zeros, the largest values stay finite") {
  for (const Kernels* k : levels())
    for (const float size : {0x1p-100f, 0x1.fffffep+127f}) {
      Array<float> x(64, 1);
      for (size_t i = 0; i < 64; ++i) x[i] = i % 3 == 0 ? -size : size;
      check_row(*k, x, 64, false);
      if (size < 1.0f) check_row(*k, x, 64, true);
      Array<int8_t> q(64);
      Array<float> s(1);
      Array<int32_t> sum(1);
      k->quantize_whole(q, s, sum, x, 64, 64);  // a scale that is not finite is found; never a NaN
      CHECK((size < 1.0f ? s[0] == 0.0f : s[0] > 0.0f));
    }
}

TEST_CASE("rule 1.19: a rotation is orthonormal, and undone by itself and the weights' own scale") {
  for (const size_t cols : kWidths) {
    Random random(cols);
    Array<float> x = floats(random, cols);
    const size_t block = rotation_block(cols);
    REQUIRE(cols % block == 0);
    const std::vector<float> y = rotated(x, cols);
    std::vector<float> back(x + 0, x + cols);
    for (size_t first = 0; first < cols; first += block) {
      rotate_block(back.data() + first, block, rotation_scale(block));
      for (size_t i = 0; i < block; ++i) {
        REQUIRE(same(back[first + i], y[first + i]));
        double wanted = 0;
        for (size_t j = 0; j < block; ++j)
          wanted += double{x[first + j]} * (__builtin_parityll(i & j) != 0 ? -1 : 1);
        wanted *= double{rotation_scale(block)} / static_cast<double>(block);
        CHECK(std::fabs(y[first + i] - wanted) < 1e-5 * (1 + std::fabs(wanted)));
      }
      rotate_block(back.data() + first, block, weight_rotation_scale(block));
      for (size_t i = 0; i < block; ++i)
        CHECK(std::fabs(back[first + i] - x[first + i]) < 1e-5f * (1 + std::fabs(x[first + i])));
    }
  }
}

TEST_CASE("rule 1.18 and 1.24: linear q8r and q2r, with weights of −128 and activations of ±127") {
  Share share;
  for (const Type type : {Type::q8r, Type::q2r})
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17, 33})
      for (const size_t panels : Sizes{1, 2, 3, 4, 7})
        for (const size_t groups : Sizes{2, 4, 6, 18}) {
          if (!share.takes()) continue;
          Random random(rows * 10007 + panels * 101 + groups);
          const std::vector<unsigned char> w = whole_panels(random, panels, groups, type);
          Int8Activations x(&random, rows, groups * kGroup);
          Array<float> bias = floats(random, panels * kLanes, Fill::ordinary, 1);
          const size_t bias_n = random.below(panels * kLanes + 1), ldy = panels * kLanes + 5;
          const size_t bytes = kLanes * 4 + groups * kGroup * kLanes / (type == Type::q8r ? 1 : 4);
          const size_t n = panels * kLanes, cols = groups * kGroup;
          std::vector<float> wanted(rows * n);
          std::vector<int> weights(cols);
          for (size_t o = 0; o < n; ++o) {
            const unsigned char* panel = w.data() + o / kLanes * bytes;
            for (size_t i = 0; i < cols; ++i) weights[i] = weight(type, panel, o % kLanes, i);
            float sw;
            std::memcpy(&sw, panel + o % kLanes * 4, 4);
            for (size_t r = 0; r < rows; ++r) {
              int64_t isum = 0;
              for (size_t i = 0; i < cols; ++i) isum += x.q[r * cols + i] * weights[i];
              volatile float scale = x.scale[r] * sw, value = static_cast<float>(isum) * scale;
              wanted[r * n + o] = o < bias_n ? value + bias[o] : value;
            }
          }
          for (const Kernels* k : product_levels()) {
            Array<float> y(rows * ldy, 3);
            k->linear_int8(type)(y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels,
                                 groups);
            INFO(k->name << " rows " << rows << " panels " << panels << " groups " << groups);
            REQUIRE(y.intact());
            for (size_t r = 0; r < rows; ++r)
              REQUIRE(first_difference(y + r * ldy, &wanted[r * n], n) == n);
          }
        }
}

TEST_CASE("rule 1.18: the sums of the widest rows fit") {
  const size_t groups = static_cast<size_t>(whole_groups_of(kMostInRow)), rows = 4;
  for (const int weight : {-128, 127})
    for (const int sign : {1, -1}) {
      std::vector<unsigned char> w(kLanes * 4 + groups * kGroup * kLanes);
      const float one = 1.0f;
      for (size_t i = 0; i < kLanes; ++i) std::memcpy(&w[i * 4], &one, 4);
      for (size_t k = 0; k < kMostInRow; ++k)
        for (size_t o = 0; o < kLanes; ++o)
          w[kLanes * 4 + panel_index_q8(o, k)] = static_cast<unsigned char>(weight & 255);
      Array<int8_t> q(rows * groups * kGroup);
      Array<float> scale(rows), y(rows * kLanes);
      Array<int32_t> sum(rows);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t k = 0; k < groups * kGroup; ++k)  // activations behind a row's end are 0
          q[r * groups * kGroup + k] = static_cast<int8_t>(k < kMostInRow ? 127 * sign : 0);
        scale[r] = 1.0f;
        sum[r] = 127 * sign * static_cast<int32_t>(kMostInRow);
      }
      const float wanted = static_cast<float>(int64_t{weight} * sum[0]);
      for (const Kernels* k : product_levels())
        for (const size_t n : {rows, size_t{1}}) {
          k->linear_q8r(y, kLanes, q, scale, sum, n, w.data(), nullptr, 0, 1, groups);
          INFO(k->name);
          for (size_t i = 0; i < n * kLanes; ++i) REQUIRE(same(y[i], wanted));
        }
    }
}

TEST_CASE("rule 1.24: the sums of the widest rows of q2r fit, with inputs of 8 and of 16 bits") {
  const size_t groups = static_cast<size_t>(whole_groups_of(kMostInRow)), n = groups * kGroup;
  for (const int code : {0, 3})
    for (const int sign : {1, -1}) {
      std::vector<unsigned char> w(kLanes * 4 + n * kLanes / 4,
                                   static_cast<unsigned char>(code * 0x55));
      const float one = 1.0f;
      for (size_t i = 0; i < kLanes; ++i) std::memcpy(&w[i * 4], &one, 4);
      Array<int8_t> q(4 * n);  // 4 rows, or 2 of two planes
      Array<float> scale(4), y(4 * kLanes);
      Array<int32_t> sum(4);
      for (size_t r = 0; r < 4; ++r) {
        for (size_t k = 0; k < n; ++k)
          q[r * n + k] = static_cast<int8_t>(k < kMostInRow ? 127 * sign : 0);
        scale[r] = 1.0f;
        sum[r] = 127 * sign * static_cast<int32_t>(kMostInRow);
      }
      const float wanted = static_cast<float>(int64_t{code - 1} * sum[0]),
                  wide = std::fma(255.0f, wanted, wanted);
      for (const Kernels* k : product_levels())
        for (const size_t rows : Sizes{1, 2, 4}) {
          k->linear_q2r(y, kLanes, q, scale, sum, rows, w.data(), nullptr, 0, 1, groups);
          INFO(k->name);
          for (size_t i = 0; i < rows * kLanes; ++i) REQUIRE(same(y[i], wanted));
          if (rows == 4) continue;
          k->linear16_q2r(y, kLanes, q, scale, sum, rows, w.data(), nullptr, 0, 1, groups);
          for (size_t i = 0; i < rows * kLanes; ++i) REQUIRE(same(y[i], wide));
        }
    }
}

TEST_CASE("rows of tables: q2r in panels and in rows") {
  for (const size_t cols : Sizes{1, 31, 64, 70, 128, 131}) {
    const size_t rows = 37, panels = 3, groups = static_cast<size_t>(whole_groups_of(cols)),
                 plane = static_cast<size_t>(round_up(rows * 4, 64)),
                 bytes = static_cast<size_t>(panel_bytes(Type::q2r, cols));
    Random random(cols);
    const std::vector<unsigned char> w = whole_panels(random, panels, groups, Type::q2r);
    REQUIRE(bytes == 64 + groups * 128);
    std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(Type::q2r, rows, cols)));
    REQUIRE(flat.size() == plane + rows * groups * 8);
    for (size_t row = 0; row < rows; ++row) {
      const unsigned char* panel = w.data() + row / kLanes * bytes;
      float scale;
      std::memcpy(&scale, panel + row % kLanes * 4, 4);
      std::memcpy(&flat[row * 4], &scale, 4);
      std::vector<float> wanted(cols);
      for (size_t k = 0; k < groups * kGroup; ++k) {
        const int value = weight(Type::q2r, panel, row % kLanes, k);
        flat[plane + row * groups * 8 + k / 32 * 8 + k % 8] |=
            static_cast<unsigned char>((value + 1) << k % 32 / 8 * 2);
        if (k < cols) wanted[k] = scale * static_cast<float>(value);
      }
      Array<float> y(cols, 1);
      gather_row(y, w.data(), Type::q2r, Layout::panel16, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      gather_row(y, flat.data(), Type::q2r, Layout::rows, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      REQUIRE(y.intact());
    }
  }
}

TEST_CASE("rows of tables: q8r and q8rh in panels and in rows") {
  for (const size_t cols : Sizes{70, 71, 96, 128}) {
    const size_t rows = 37, panels = 3, groups = static_cast<size_t>(whole_groups_of(cols));
    const size_t padded = groups * kGroup, plane = static_cast<size_t>(round_up(rows * 4, 64)),
                 block = rotation_block(cols);
    Random random(cols);
    const std::vector<unsigned char> w = whole_panels(random, panels, groups);
    REQUIRE(w.size() == panels * panel_bytes(Type::q8r, cols) + 64);
    std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(Type::q8rh, rows, cols)));
    REQUIRE(flat.size() == plane + rows * padded);
    for (size_t row = 0; row < rows; ++row) {
      const unsigned char* panel =
          w.data() + row / kLanes * static_cast<size_t>(panel_bytes(Type::q8r, cols));
      std::vector<float> plain(cols);
      float scale;
      std::memcpy(&scale, panel + row % kLanes * 4, 4);
      std::memcpy(&flat[row * 4], &scale, 4);
      for (size_t k = 0; k < cols; ++k) {
        const unsigned char value = panel[kLanes * 4 + panel_index_q8(row % kLanes, k)];
        flat[plane + row * padded + k] = value;
        plain[k] = scale * static_cast<float>(static_cast<int8_t>(value));
      }
      std::vector<float> turned = plain;
      for (size_t k = 0; k < cols; k += block)
        rotate_block(turned.data() + k, block, rotation_scale(block));
      for (const Type type : {Type::q8r, Type::q8rh}) {
        const std::vector<float>& wanted = type == Type::q8r ? plain : turned;
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
  }
}
