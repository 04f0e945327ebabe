// q6, codes of six bits with a scale of 16 columns: products at every level, and rows of tables.
#include "kernel_data.h"
#include "tile_level.h"

using namespace kernel_test;

namespace {

// As docs/reference/file-format.md has it, of row o of a panel: a record of 256 columns has 16
// numbers in f16, then 16 · 16 codes; a group 256 bytes of low bits, then 128 of upper ones.
struct Panel {
  const unsigned char* p;
  size_t groups;
  size_t plane() const { return ((groups + 7) / 8 * 288 + 63) / 64 * 64; }
  size_t bytes() const { return plane() + groups * 384; }
  int code(size_t o, size_t k) const {
    const unsigned char* const group = p + plane() + k / 32 * 384;
    const size_t in = k % 32;
    const int low = group[in % 16 / 4 * 64 + o * 4 + in % 4] >> in / 16 * 4 & 15,
              high = group[256 + in % 8 / 4 * 64 + o * 4 + in % 4] >> in / 8 * 2 & 3;
    return low + 16 * high;
  }
  int value(size_t o, size_t k) const { return code(o, k) - 32; }
  uint16_t number(size_t o, size_t k) const {
    const unsigned char* const at = p + k / 256 * 288 + 2 * o;
    return static_cast<uint16_t>(at[0] | at[1] << 8);
  }
  signed char scale_code(size_t o, size_t k) const {
    return static_cast<signed char>(p[k / 256 * 288 + 32 + k % 256 / 16 * 16 + o]);
  }
  float scale(size_t o, size_t k) const {
    return widen_f16(number(o, k)) * static_cast<float>(scale_code(o, k));
  }
};

// Output o of a row of whole numbers at(k), 32 of which have a scale.
template <class At>
float output(const Panel& panel, size_t o, const float* scale, At at) {
  float acc = 0.0f;
  for (size_t k = 0; k < panel.groups * 32; k += 16) {
    int64_t sum = 0;
    for (size_t j = k; j < k + 16; ++j) sum += at(j) * panel.value(o, j);
    volatile float by = scale[k / 32] * panel.scale(o, k);
    acc = std::fma(static_cast<float>(sum), by, acc);
  }
  return acc;
}

}  // namespace

TEST_CASE("rule 1.27: linear q6, with weights of −32 and 31 and activations of ±127") {
  for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 30})
    for (const size_t panels : Sizes{1, 2, 3, 4, 7})
      for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 67, 260, 515}) {
        if (groups > 18 && (rows > 1 || panels > 2)) continue;  // one row takes 256 at once
        Random random(rows * 10007 + panels * 101 + groups);
        const std::vector<unsigned char> w = coded_panels(random, Type::q6, panels, groups);
        Int8Activations x(&random, rows * groups, kGroup);
        Array<float> bias = floats(random, panels * kLanes, Fill::ordinary, 1);
        const size_t bias_n = random.below(panels * kLanes + 1), ldy = panels * kLanes + 5;
        const size_t bytes = Panel{w.data(), groups}.bytes();
        REQUIRE(w.size() == panels * bytes + 64);
        std::vector<float> wanted(rows * ldy);
        for (size_t r = 0; r < rows; ++r)
          for (size_t i = 0; i < panels * kLanes; ++i) {
            const Panel panel{w.data() + i / kLanes * bytes, groups};
            volatile float value = output(
                panel, i % kLanes, x.scale + r * groups,
                [&](size_t k) { return int64_t{x.q[r * groups * kGroup + k]}; });
            if (i < bias_n) value = value + bias[i];
            wanted[r * ldy + i] = value;
          }
        for (const Kernels* k : product_levels()) {
          Array<float> y(rows * ldy, 3);
          k->linear_q6(y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels, groups);
          INFO(k->name << " rows " << rows << " panels " << panels << " groups " << groups);
          REQUIRE(y.intact());
          for (size_t r = 0; r < rows; ++r)
            for (size_t i = 0; i < panels * kLanes; ++i) {
              const float value = wanted[r * ldy + i];
              if (!flushes(*k) || std::isnormal(value)) REQUIRE(same(y[r * ldy + i], value));
            }
        }
      }
}

TEST_CASE("rule 1.27: the largest sums of q6, with inputs of 8 and of 16 bits") {
  const size_t groups = 9, n = groups * kGroup, rows = 3;
  for (const int code : {0x00, 0xff})
    for (const int sign : {1, -1})
      for (const int by : {-128, 127}) {
        const size_t plane = Panel{nullptr, groups}.plane();
        std::vector<unsigned char> w(Panel{nullptr, groups}.bytes(),
                                     static_cast<unsigned char>(code));
        for (size_t i = 0; i < plane; ++i)
          w[i] = i % 288 >= 32 ? static_cast<unsigned char>(by) : i % 2 == 0 ? 0 : 0x3c;  // 1
        const Panel panel{w.data(), groups};
        REQUIRE(panel.value(5, 77) == (code == 0 ? -32 : 31));
        REQUIRE(panel.scale(5, 77) == static_cast<float>(by));
        Array<int8_t> q(2 * rows * n);
        Array<float> scale(rows * groups), y(rows * kLanes);
        Array<int32_t> sum(2 * rows * groups);
        for (size_t i = 0; i < 2 * rows * n; ++i) q[i] = static_cast<int8_t>(127 * sign);
        for (size_t i = 0; i < rows * groups; ++i) scale[i] = 1.0f;
        for (size_t i = 0; i < 2 * rows * groups; ++i) sum[i] = 127 * sign * 32;
        const float narrow = output(panel, 0, scale, [=](size_t) { return int64_t{127} * sign; }),
                    wide = output(panel, 0, scale, [=](size_t) { return int64_t{32512} * sign; });
        REQUIRE(std::fabs(narrow) == static_cast<float>(std::abs(by * (code == 0 ? 32 : 31))) *
                                         127.0f * static_cast<float>(n));
        for (const Kernels* k : product_levels())
          for (const size_t at_once : Sizes{1, 2, 3}) {
            INFO(std::string(k->name));
            k->linear_q6(y, kLanes, q, scale, sum, at_once, w.data(), nullptr, 0, 1, groups);
            for (size_t i = 0; i < at_once * kLanes; ++i) REQUIRE(same(y[i], narrow));
            k->linear16_q6(y, kLanes, q, scale, sum, at_once, w.data(), nullptr, 0, 1, groups);
            for (size_t i = 0; i < at_once * kLanes; ++i) REQUIRE(same(y[i], wide));
          }
      }
}

TEST_CASE("rows of tables: q6 in panels and in rows") {
  for (const size_t cols : Sizes{1, 15, 16, 17, 31, 32, 70, 255, 256, 288, 520}) {
    const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
    Random random(cols);
    const std::vector<unsigned char> w = coded_panels(random, Type::q6, panels, groups);
    const size_t bytes = static_cast<size_t>(panel_bytes(Type::q6, cols));
    REQUIRE(bytes == Panel{w.data(), groups}.bytes());
    const size_t record = (cols + 255) / 256 * 18, plane = (rows * record + 63) / 64 * 64;
    std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(Type::q6, rows, cols)));
    REQUIRE(flat.size() == plane + rows * groups * 24);
    for (size_t row = 0; row < rows; ++row) {
      const Panel panel{w.data() + row / kLanes * bytes, groups};
      const size_t o = row % kLanes;
      std::vector<float> wanted(cols);
      for (size_t k = 0; k < groups * kGroup; ++k) {
        unsigned char *const of = &flat[row * record + k / 256 * 18],
                             *const values = &flat[plane + (row * groups + k / 32) * 24];
        const uint16_t number = panel.number(o, k);
        of[0] = static_cast<unsigned char>(number);
        of[1] = static_cast<unsigned char>(number >> 8);
        of[2 + k % 256 / 16] = static_cast<unsigned char>(panel.scale_code(o, k));
        values[k % 16] |= static_cast<unsigned char>((panel.code(o, k) & 15) << k % 32 / 16 * 4);
        values[16 + k % 8] |= static_cast<unsigned char>(panel.code(o, k) >> 4 << k % 32 / 8 * 2);
        if (k < cols) wanted[k] = panel.scale(o, k) * static_cast<float>(panel.value(o, k));
      }
      Array<float> y(cols, 1);
      gather_row(y, w.data(), Type::q6, Layout::panel16, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      gather_row(y, flat.data(), Type::q6, Layout::rows, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      REQUIRE(y.intact());
    }
  }
}

TEST_CASE("layout: a panel of q6 has each byte of its rows' records once") {
  for (const size_t groups : Sizes{1, 2, 8, 9, 17}) {
    std::vector<int> seen((groups + 7) / 8 * 288);
    for (size_t o = 0; o < kLanes; ++o)
      for (size_t i = 0; i < (groups + 7) / 8 * 18; ++i)
        ++seen.at(panel_index_record(Type::q6, o, i));
    for (const int times : seen) REQUIRE(times == 1);
  }
}
