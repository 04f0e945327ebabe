// q4x, codes of a table with six-bit codes of scales: products at every level, and rows of tables.
#include "compare_products.h"
#include "share.h"

using namespace kernel_test;

namespace {

constexpr int kTableOfFile[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                1,    13,   25,  38,  53,  69,  89,  113};

// As docs/reference/file-format.md has it, of row o of a panel: a record of 256 columns has 16
// numbers in f16, then six bytes of 16 rows; a group 256 bytes of nibbles.
struct Panel {
  Type type;
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
  float scale(size_t o, size_t k) const {
    const size_t g = k / 32;
    return widen_f16(number(o, g)) * static_cast<float>(scale_code(o, g));
  }
};

}  // namespace

TEST_CASE("rule 1.28: linear q4x, with codes of scales of −32 and 31 and activations of ±127") {
  Share share;
  for (const size_t rows : Sizes{1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 35})
    for (const size_t panels : Sizes{1, 2, 3, 7})
      for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 54, 67, 260}) {
        if (groups > 18 && (rows > 1 || panels > 2) && (groups != 54 || rows < 35)) continue;
        if (!share.takes()) continue;
        compare_products<Panel, 32>(Type::q4x, rows, panels, groups);
      }
}

TEST_CASE("rule 1.28: the largest sums of q4x, with inputs of 8 and of 16 bits") {
  const size_t groups = 9, n = groups * kGroup;
  for (const int nibbles : {0x00, 0xff})
    for (const int sign : {1, -1})
      for (const int codes : {0x00, 0xff}) {
        const int by = codes == 0 ? -32 : 31, value = nibbles == 0 ? -127 : 113;
        const size_t plane = Panel{Type::q4x, nullptr, groups}.plane();
        std::vector<unsigned char> w(Panel{Type::q4x, nullptr, groups}.bytes(),
                                     static_cast<unsigned char>(nibbles));
        for (size_t i = 0; i < plane; ++i)
          w[i] = i % 128 >= 32 ? static_cast<unsigned char>(codes) : i % 2 == 0 ? 0 : 0x3c;  // 1
        const Panel panel{Type::q4x, w.data(), groups};
        REQUIRE(panel.value(5, 77) == value);
        REQUIRE(panel.scale(5, 77) == static_cast<float>(by));
        REQUIRE(compare_largest<Panel, 32>(panel, sign) ==
                static_cast<float>(by * value * 127 * sign) * static_cast<float>(n));
      }
}

TEST_CASE("rows of tables: q4x in panels and in rows") {
  for (const size_t cols : Sizes{1, 31, 32, 70, 255, 256, 257, 288, 520}) {
    const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
    Random random(cols);
    const std::vector<unsigned char> w = coded_panels(random, Type::q4x, panels, groups);
    const size_t bytes = static_cast<size_t>(panel_bytes(Type::q4x, cols));
    REQUIRE(bytes == Panel{Type::q4x, w.data(), groups}.bytes());
    const size_t record = (cols + 255) / 256 * 8, plane = (rows * record + 63) / 64 * 64;
    std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(Type::q4x, rows, cols)));
    REQUIRE(flat.size() == plane + rows * groups * 16);
    for (size_t row = 0; row < rows; ++row) {
      const Panel panel{Type::q4x, w.data() + row / kLanes * bytes, groups};
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
        if (k < cols) wanted[k] = panel.scale(o, k) * static_cast<float>(panel.value(o, k));
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
