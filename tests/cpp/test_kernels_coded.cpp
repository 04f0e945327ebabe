// q4x, codes of a table with six-bit codes of scales: products at every level, and rows of tables.
#include "kernel_data.h"
#include "tile_level.h"

using namespace kernel_test;

namespace {

constexpr int kTableOfFile[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

// As docs/reference/file-format.md has it, of row o of a panel: a record of 256 columns has 16
// numbers in f16, then six bytes of 16 rows; a group 256 bytes of nibbles.
struct Panel {
  const unsigned char* p;
  size_t groups;
  size_t plane() const { return ((groups + 7) / 8 * 128 + 63) / 64 * 64; }
  size_t bytes() const { return plane() + groups * 256; }
  int code(size_t o, size_t k) const {
    const size_t in = k % 32;
    return p[plane() + k / 32 * 256 + in % 16 / 4 * 64 + o * 4 + in % 4] >> in / 16 * 4 & 15;
  }
  int value(size_t o, size_t k) const { return kTableOfFile[code(o, k)]; }
  uint16_t number(size_t o, size_t g) const {
    const unsigned char* const at = p + g / 8 * 128 + 2 * o;
    return static_cast<uint16_t>(at[0] | at[1] << 8);
  }
  unsigned byte(size_t o, size_t g, size_t i) const { return p[g / 8 * 128 + 32 + i * 16 + o]; }
  int scale_code(size_t o, size_t g) const {
    const size_t i = g % 8;
    return static_cast<int>((byte(o, g, i % 4) >> i / 4 * 4 & 15) +
                            16 * (byte(o, g, 4 + i % 2) >> i / 2 * 2 & 3)) -
           32;
  }
  float scale(size_t o, size_t g) const {
    return widen_f16(number(o, g)) * static_cast<float>(scale_code(o, g));
  }
};

// Output o of a row of whole numbers at(k), 32 of which have a scale.
template <class At>
float output(const Panel& panel, size_t o, const float* scale, At at) {
  float acc = 0.0f;
  for (size_t g = 0; g < panel.groups; ++g) {
    int64_t sum = 0;
    for (size_t k = g * 32; k < g * 32 + 32; ++k) sum += at(k) * panel.value(o, k);
    volatile float by = scale[g] * panel.scale(o, g);
    acc = std::fma(static_cast<float>(sum), by, acc);
  }
  return acc;
}

// All outputs of `rows` rows, whose numbers are at(row, k).
template <class At>
std::vector<float> outputs(const unsigned char* w, size_t groups, size_t rows, size_t panels,
                           size_t ldy, const float* scale, const float* bias, size_t bias_n,
                           At at) {
  std::vector<float> y(rows * ldy);
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < panels * kLanes; ++i) {
      const Panel panel{w + i / kLanes * Panel{w, groups}.bytes(), groups};
      volatile float value = output(panel, i % kLanes, scale + r * groups,
                                    [&](size_t k) { return at(r, k); });
      if (i < bias_n) value = value + bias[i];
      y[r * ldy + i] = value;
    }
  return y;
}

void require_same(const Kernels& k, Array<float>& y, const std::vector<float>& wanted,
                  size_t rows, size_t n, size_t ldy) {
  REQUIRE(y.intact());
  for (size_t r = 0; r < rows; ++r)
    for (size_t i = 0; i < n; ++i) {
      const float value = wanted[r * ldy + i];
      if (!flushes(k) || std::isnormal(value)) REQUIRE(same(y[r * ldy + i], value));
    }
}

}  // namespace

TEST_CASE("rule 1.28: linear q4x, with codes of scales of −32 and 31 and activations of ±127") {
  for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 30, 35})
    for (const size_t panels : Sizes{1, 2, 3, 4, 7})
      for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 54, 67, 260}) {
        if (groups > 18 && (rows > 1 || panels > 2) && (groups != 54 || rows < 35)) continue;
        Random random(rows * 10007 + panels * 101 + groups);
        const std::vector<unsigned char> w = coded_panels(random, Type::q4x, panels, groups);
        REQUIRE(w.size() == panels * Panel{w.data(), groups}.bytes() + 64);
        Array<float> bias = floats(random, panels * kLanes, Fill::ordinary, 1);
        const size_t bias_n = random.below(panels * kLanes + 1), ldy = panels * kLanes + 5,
                     cols = groups * kGroup;
        Int8Activations x(&random, rows * groups, kGroup);
        Int16Activations wide(&random, rows, groups, kGroup);
        const std::vector<float>
            wanted = outputs(w.data(), groups, rows, panels, ldy, x.scale, bias, bias_n,
                             [&](size_t r, size_t k) { return int64_t{x.q[r * cols + k]}; }),
            wanted16 = outputs(w.data(), groups, rows, panels, ldy, wide.scale, bias, bias_n,
                               [&](size_t r, size_t k) {
                                 const int8_t* const q = wide.q + r * 2 * cols + k;
                                 return int64_t{255} * q[0] + q[cols];
                               });
        for (const Kernels* k : product_levels()) {
          INFO(k->name << " rows " << rows << " panels " << panels << " groups " << groups);
          Array<float> y(rows * ldy, 3), y16(rows * ldy, 3);
          k->linear_q4x(y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels, groups);
          require_same(*k, y, wanted, rows, panels * kLanes, ldy);
          k->linear16_q4x(y16, ldy, wide.q, wide.scale, wide.sum, rows, w.data(), bias, bias_n,
                          panels, groups);
          require_same(*k, y16, wanted16, rows, panels * kLanes, ldy);
        }
      }
}

TEST_CASE("rule 1.28: the largest sums of q4x, with inputs of 8 and of 16 bits") {
  const size_t groups = 9, n = groups * kGroup, rows = 3;
  for (const int nibbles : {0x00, 0xff})
    for (const int sign : {1, -1})
      for (const int codes : {0x00, 0xff}) {
        const int by = codes == 0 ? -32 : 31, value = nibbles == 0 ? -127 : 113;
        const size_t plane = Panel{nullptr, groups}.plane();
        std::vector<unsigned char> w(Panel{nullptr, groups}.bytes(),
                                     static_cast<unsigned char>(nibbles));
        for (size_t i = 0; i < plane; ++i)
          w[i] = i % 128 >= 32 ? static_cast<unsigned char>(codes) : i % 2 == 0 ? 0 : 0x3c;  // 1
        const Panel panel{w.data(), groups};
        REQUIRE(panel.value(5, 77) == value);
        REQUIRE(panel.scale(5, 2) == static_cast<float>(by));
        Array<int8_t> q(2 * rows * n);
        Array<float> scale(rows * groups), y(rows * kLanes);
        Array<int32_t> sum(2 * rows * groups);
        for (size_t i = 0; i < 2 * rows * n; ++i) q[i] = static_cast<int8_t>(127 * sign);
        for (size_t i = 0; i < rows * groups; ++i) scale[i] = 1.0f;
        for (size_t i = 0; i < 2 * rows * groups; ++i) sum[i] = 127 * sign * 32;
        const float narrow = output(panel, 0, scale, [=](size_t) { return int64_t{127} * sign; }),
                    wide = output(panel, 0, scale, [=](size_t) { return int64_t{32512} * sign; });
        REQUIRE(std::fabs(narrow) ==
                static_cast<float>(std::abs(by * value)) * 127.0f * static_cast<float>(n));
        for (const Kernels* k : product_levels())
          for (const size_t at_once : Sizes{1, 2, 3}) {
            INFO(std::string(k->name));
            k->linear_q4x(y, kLanes, q, scale, sum, at_once, w.data(), nullptr, 0, 1, groups);
            for (size_t i = 0; i < at_once * kLanes; ++i) REQUIRE(same(y[i], narrow));
            k->linear16_q4x(y, kLanes, q, scale, sum, at_once, w.data(), nullptr, 0, 1, groups);
            for (size_t i = 0; i < at_once * kLanes; ++i) REQUIRE(same(y[i], wide));
          }
      }
}

TEST_CASE("rows of tables: q4x in panels and in rows") {
  for (const size_t cols : Sizes{1, 31, 32, 70, 255, 256, 257, 288, 520}) {
    const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
    Random random(cols);
    const std::vector<unsigned char> w = coded_panels(random, Type::q4x, panels, groups);
    const size_t bytes = static_cast<size_t>(panel_bytes(Type::q4x, cols));
    REQUIRE(bytes == Panel{w.data(), groups}.bytes());
    const size_t record = (cols + 255) / 256 * 8, plane = (rows * record + 63) / 64 * 64;
    std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(Type::q4x, rows, cols)));
    REQUIRE(flat.size() == plane + rows * groups * 16);
    for (size_t row = 0; row < rows; ++row) {
      const Panel panel{w.data() + row / kLanes * bytes, groups};
      const size_t o = row % kLanes;
      std::vector<float> wanted(cols);
      for (size_t k = 0; k < groups * kGroup; ++k) {
        unsigned char *const of = &flat[row * record + k / 256 * 8],
                             *const values = &flat[plane + (row * groups + k / 32) * 16];
        const uint16_t number = panel.number(o, k / 32);
        of[0] = static_cast<unsigned char>(number);
        of[1] = static_cast<unsigned char>(number >> 8);
        for (size_t i = 0; i < 6; ++i)
          of[2 + i] = static_cast<unsigned char>(panel.byte(o, k / 32, i));
        values[k % 16] |= static_cast<unsigned char>(panel.code(o, k) << k % 32 / 16 * 4);
        if (k < cols) wanted[k] = panel.scale(o, k / 32) * static_cast<float>(panel.value(o, k));
      }
      Array<float> y(cols, 1);
      gather_row(y, w.data(), Type::q4x, Layout::panel16, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      gather_row(y, flat.data(), Type::q4x, Layout::rows, rows, cols, row);
      REQUIRE(first_difference(y, wanted.data(), cols) == cols);
      REQUIRE(y.intact());
    }
  }
}

TEST_CASE("layout: a panel of q4x has each byte of its rows' records once") {
  for (const size_t groups : Sizes{1, 2, 8, 9, 17}) {
    std::vector<int> seen((groups + 7) / 8 * 128);
    for (size_t o = 0; o < kLanes; ++o)
      for (size_t i = 0; i < (groups + 7) / 8 * 8; ++i)
        ++seen.at(panel_index_record(Type::q4x, o, i));
    for (const int times : seen) REQUIRE(times == 1);
  }
}
