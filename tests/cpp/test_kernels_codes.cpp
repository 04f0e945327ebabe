// q4t, q2, q2w and q1, codes of four bits and fewer: the products at every level, and rows of
// tables.
#include "compare_products.h"
#include "share.h"

using namespace kernel_test;

namespace {

constexpr Type kCodes[] = {Type::q4t, Type::q2, Type::q2w, Type::q1};

// As docs/reference/file-format.md has them, of a panel: code (o, k), what it stands for, the scale
// of its group.
struct Panel {
  Type type;
  const unsigned char* p;
  size_t groups;
  size_t bits() const { return type == Type::q4t ? 4 : type == Type::q1 ? 1 : 2; }
  size_t span() const { return type == Type::q4t ? 1 : type == Type::q2w ? 8 : 4; }  // groups
  size_t plane() const {
    const size_t table = type == Type::q4t ? 16 : 0;
    return (table + (groups + span() - 1) / span() * 32 + 63) / 64 * 64;
  }
  size_t bytes() const { return plane() + groups * 64 * bits(); }
  int code(size_t o, size_t k) const {
    const size_t apart = 4 * bits(), in = k % 32;
    return p[plane() + k / 32 * 64 * bits() + in % apart / 4 * 64 + o * 4 + in % 4] >>
               in / apart * bits() &
           ((1 << bits()) - 1);
  }
  int value(size_t o, size_t k) const {
    const int n = code(o, k);
    if (type == Type::q4t) return static_cast<signed char>(p[n]);
    return type == Type::q1 ? 2 * n - 1 : n - 1;
  }
  float scale(size_t o, size_t k) const {
    const unsigned char* at = p + (type == Type::q4t ? 16 : 0) + k / 32 / span() * 32 + o * 2;
    return widen_f16(static_cast<uint16_t>(at[0] | at[1] << 8));
  }
};

}  // namespace

TEST_CASE("rule 1.23: linear q4t, q2, q2w and q1, with activations of ±127") {
  Share share;
  for (const Type type : kCodes)
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 8, 13, 16, 17, 30, 35})
      for (const size_t panels : Sizes{1, 2, 3, 7})
        for (const size_t groups : Sizes{1, 2, 4, 7, 8, 9, 18, 67, 260}) {
          if (groups > 67 && rows > 1) continue;  // one row takes 256 at once
          if (!share.takes()) continue;
          compare_products<Panel, 32>(type, rows, panels, groups);
        }
}

TEST_CASE("rows of tables: q4t, q2, q2w and q1 in panels and in rows") {
  for (const Type type : kCodes)
    for (const size_t cols : Sizes{1, 31, 32, 70, 127, 128, 129, 256, 257, 520}) {
      const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
      Random random(cols);
      std::vector<unsigned char> w = code_panels(random, type, panels, groups);
      const size_t bytes = Panel{type, w.data(), groups}.bytes();
      REQUIRE(bytes == panel_bytes(type, cols));
      // A table in rows has one table of values.
      for (size_t p = 1; p < panels && type == Type::q4t; ++p)
        std::memcpy(&w[p * bytes], &w[0], 16);
      const size_t bits = Panel{type, w.data(), groups}.bits(), table = type == Type::q4t ? 16 : 0,
                   span = Panel{type, w.data(), groups}.span(), in_row = (groups + span - 1) / span,
                   plane = (table + rows * in_row * 2 + 63) / 64 * 64;
      std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(type, rows, cols)));
      REQUIRE(flat.size() == plane + rows * groups * 4 * bits);
      std::memcpy(flat.data(), w.data(), table);
      for (size_t row = 0; row < rows; ++row) {
        const Panel panel{type, w.data() + row / kLanes * bytes, groups};
        const size_t o = row % kLanes;
        for (size_t i = 0; i < in_row; ++i)
          std::memcpy(&flat[table + (row * in_row + i) * 2], panel.p + table + i * 32 + o * 2, 2);
        std::vector<float> wanted(cols);
        for (size_t k = 0; k < groups * kGroup; ++k) {
          const size_t apart = 4 * bits, in = k % 32;
          flat[plane + (row * groups + k / 32) * apart + in % apart] |=
              static_cast<unsigned char>(panel.code(o, k) << in / apart * bits);
          if (k < cols)
            wanted[k] = panel.scale(o, k) * static_cast<float>(panel.value(o, k));
        }
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
}
