// q6 and q3, codes in two fields with a scale of 16 columns: products at every level, and rows of
// tables.
#include "compare_products.h"
#include "share.h"

using namespace kernel_test;

namespace {

constexpr Type kFine[] = {Type::q6, Type::q3};

// As docs/reference/file-format.md has them, of row o of a panel: a record of 256 columns has 16
// numbers in f16, then their codes, of 16 bytes or of 12; a group its codes' low bits, then the
// upper ones.
struct Panel {
  Type type;
  const unsigned char* p;
  size_t groups;
  bool six() const { return type == Type::q6; }
  int least() const { return six() ? -32 : -4; }
  int least_scale() const { return six() ? -128 : -32; }
  size_t low() const { return six() ? 4 : 2; }  // bits
  size_t high() const { return six() ? 2 : 1; }
  size_t record() const { return six() ? 18 : 14; }
  size_t row_group() const { return six() ? 24 : 12; }
  size_t plane() const { return ((groups + 7) / 8 * record() * 16 + 63) / 64 * 64; }
  size_t bytes() const { return plane() + groups * row_group() * 16; }
  static int field(const unsigned char* group, size_t bits, size_t o, size_t k) {
    const size_t apart = 4 * bits;
    return group[k % apart / 4 * 64 + o * 4 + k % 4] >> k / apart * bits & ((1 << bits) - 1);
  }
  int code(size_t o, size_t k) const {
    const unsigned char* const group = p + plane() + k / 32 * row_group() * 16;
    return field(group, low(), o, k % 32) +
           (field(group + 64 * low(), high(), o, k % 32) << low());
  }
  int value(size_t o, size_t k) const { return code(o, k) + least(); }
  // Byte i of the row's record.
  unsigned char record_byte(size_t o, size_t k, size_t i) const {
    return p[k / 256 * record() * 16 + (i < 2 ? 2 * o + i : 16 * i + o)];
  }
  uint16_t number(size_t o, size_t k) const {
    return static_cast<uint16_t>(record_byte(o, k, 0) | record_byte(o, k, 1) << 8);
  }
  int scale_code(size_t o, size_t k) const {
    const size_t i = k % 256 / 16;
    if (six()) return static_cast<signed char>(record_byte(o, k, 2 + i));
    const int nibble = record_byte(o, k, 2 + i % 8) >> i / 8 * 4 & 15,
              upper = record_byte(o, k, 10 + i % 4) >> i / 4 * 2 & 3;
    return nibble + 16 * upper - 32;
  }
  float scale(size_t o, size_t k) const {
    return widen_f16(number(o, k)) * static_cast<float>(scale_code(o, k));
  }
};

}  // namespace

TEST_CASE("rules 1.27, 1.30: linear q6 and q3, with codes at their ends and activations of ±127") {
  Share share;
  for (const Type type : kFine)
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 30, 35})
      for (const size_t panels : Sizes{1, 2, 3, 4, 7})
        for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 67, 260, 515}) {
          if (groups > 18 && (rows > 1 || panels > 2)) continue;  // one row takes 256 at once
          if (!share.takes()) continue;
          compare_products<Panel, 16>(type, rows, panels, groups);
        }
}

TEST_CASE("rules 1.27, 1.30: the largest sums of q6 and q3, with inputs of 8 and of 16 bits") {
  const size_t groups = 9, n = groups * kGroup;
  for (const Type type : kFine)
    for (const int code : {0x00, 0xff})
      for (const int sign : {1, -1})
        for (const int by : {0x00, 0xff}) {
          const Panel shape{type, nullptr, groups};
          std::vector<unsigned char> w(shape.bytes(), static_cast<unsigned char>(code));
          // Codes of scales at their ends: of eight bits the sign is the upper one.
          const int of = shape.six() ? by ^ 0x80 : by, least = shape.least_scale(),
                    scale_code = by == 0 ? least : -least - 1;
          for (size_t i = 0; i < shape.plane(); ++i)
            w[i] = i % (shape.record() * 16) >= 32 ? static_cast<unsigned char>(of)
                   : i % 2 == 0                    ? 0
                                                   : 0x3c;  // 1
          const Panel panel{type, w.data(), groups};
          const int value = code == 0 ? panel.least() : -panel.least() - 1;
          REQUIRE(panel.value(5, 77) == value);
          REQUIRE(panel.scale(5, 77) == static_cast<float>(scale_code));
          REQUIRE(compare_largest<Panel, 16>(panel, sign) ==
                  static_cast<float>(value * scale_code * 127 * sign) * static_cast<float>(n));
        }
}

TEST_CASE("rows of tables: q6 and q3 in panels and in rows") {
  for (const Type type : kFine)
    for (const size_t cols : Sizes{1, 15, 16, 17, 31, 32, 70, 255, 256, 288, 520}) {
      const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
      Random random(cols);
      const std::vector<unsigned char> w = coded_panels(random, type, panels, groups);
      const Panel shape{type, w.data(), groups};
      const size_t bytes = static_cast<size_t>(panel_bytes(type, cols)), group = shape.row_group();
      REQUIRE(bytes == shape.bytes());
      const size_t record = shape.record(), row_bytes = (cols + 255) / 256 * record,
                   plane = (rows * row_bytes + 63) / 64 * 64, low = shape.low(),
                   high = shape.high();
      std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(type, rows, cols)));
      REQUIRE(flat.size() == plane + rows * groups * group);
      for (size_t row = 0; row < rows; ++row) {
        const Panel panel{type, w.data() + row / kLanes * bytes, groups};
        const size_t o = row % kLanes;
        std::vector<float> wanted(cols);
        for (size_t k = 0; k < groups * kGroup; ++k) {
          unsigned char *const of = &flat[row * row_bytes + k / 256 * record],
                               *const values = &flat[plane + (row * groups + k / 32) * group];
          for (size_t i = 0; i < record; ++i) of[i] = panel.record_byte(o, k, i);
          const size_t in = k % 32;
          const int code = panel.code(o, k), lower = code & ((1 << low) - 1);
          values[in % (4 * low)] |= static_cast<unsigned char>(lower << in / (4 * low) * low);
          values[4 * low + in % (4 * high)] |=
              static_cast<unsigned char>(code >> low << in / (4 * high) * high);
          if (k < cols) wanted[k] = panel.scale(o, k) * static_cast<float>(panel.value(o, k));
        }
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
}

TEST_CASE("layout: a panel of q6 or q3 has each byte of its rows' records once") {
  for (const Type type : kFine)
    for (const size_t groups : Sizes{1, 2, 8, 9, 17}) {
      const size_t row = (groups + 7) / 8 * Panel{type, nullptr, groups}.record();
      std::vector<int> seen(row * kLanes);
      for (size_t o = 0; o < kLanes; ++o)
        for (size_t i = 0; i < row; ++i) ++seen.at(panel_index_record(type, o, i));
      for (const int times : seen) REQUIRE(times == 1);
    }
}
