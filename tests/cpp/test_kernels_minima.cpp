// q4m and q4k, a scale and a minimum for each group: the products at every level, and rows of
// tables.
#include "compare_products.h"
#include "share.h"

using namespace kernel_test;

namespace {

constexpr Type kMinima[] = {Type::q4m, Type::q4k};

// As docs/reference/file-format.md has them, of row o of a panel: n·d + m, of q4k n·(d·s) + m·t.
struct Panel {
  Type type;
  const unsigned char* p;
  size_t groups;
  size_t plane() const { return type == Type::q4m ? groups * 64 : (groups + 7) / 8 * 256; }
  size_t bytes() const { return plane() + groups * 256; }
  int value(size_t o, size_t k) const {
    return p[plane() + k / 32 * 256 + k % 16 / 4 * 64 + o * 4 + k % 4] >> (k % 32 < 16 ? 0 : 4) &
           15;
  }
  // Number `which` of a record, and of q4k the code that multiplies it.
  float number(size_t o, size_t k, size_t which) const {
    const unsigned char* const at =
        p + (type == Type::q4m ? k / 32 * 64 : k / 256 * 256) + 32 * which + 2 * o;
    return widen_f16(static_cast<uint16_t>(at[0] | at[1] << 8));
  }
  uint32_t code(size_t o, size_t k, size_t which) const {
    const auto byte = [&](size_t i) { return uint32_t{p[k / 256 * 256 + 64 + 16 * i + o]}; };
    const size_t i = k % 256 / 32;
    if (i < 4) return byte(i + 4 * which) % 64;
    return (which == 0 ? byte(i + 4) % 16 : byte(i + 4) / 16) + byte(i - 4 + 4 * which) / 64 * 16;
  }
  float grid(size_t o, size_t k, size_t which) const {
    const float of = number(o, k, which);
    return type == Type::q4m ? of : of * static_cast<float>(code(o, k, which));
  }
  float scale(size_t o, size_t k) const { return grid(o, k, 0); }
  float minimum(size_t o, size_t k) const { return grid(o, k, 1); }
};

}  // namespace

TEST_CASE("rule 1.20: linear q4m and q4k, with nibbles of 15 and activations of ±127") {
  Share share;
  for (const Type type : kMinima)
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 30, 35})
      for (const size_t panels : Sizes{1, 2, 3, 4, 7})
        for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 53}) {
          if (groups > 18 && rows < 35) continue;  // many rows take 24 groups or fewer at once
          if (!share.takes()) continue;
          compare_products<Panel, 32>(type, rows, panels, groups);
        }
}

TEST_CASE("rows of tables: q4m and q4k in panels and in rows") {
  for (const Type type : kMinima)
    for (const size_t cols : Sizes{1, 31, 32, 70, 255, 256, 288, 520}) {
      const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
      Random random(cols);
      const std::vector<unsigned char> w = minimum_panels(random, type, panels, groups);
      const size_t bytes = static_cast<size_t>(panel_bytes(type, cols));
      REQUIRE(bytes == Panel{type, w.data(), groups}.bytes());
      const size_t record = static_cast<size_t>(row_record_bytes(type, groups)),
                   flat_plane = (rows * record + 63) / 64 * 64;
      std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(type, rows, cols)));
      REQUIRE(flat.size() == flat_plane + rows * groups * 16);
      for (size_t row = 0; row < rows; ++row) {
        const Panel panel{type, w.data() + row / kLanes * bytes, groups};
        const size_t o = row % kLanes;
        for (size_t i = 0; i < record; ++i)
          flat[row * record + i] = panel.p[panel_index_record(type, o, i)];
        std::vector<float> wanted(cols);
        for (size_t k = 0; k < groups * kGroup; ++k) {
          const int n = panel.value(o, k);
          flat[flat_plane + row * groups * 16 + k / 32 * 16 + k % 16] |=
              static_cast<unsigned char>(n << (k % 32 < 16 ? 0 : 4));
          volatile float value = static_cast<float>(n) * panel.scale(o, k);
          if (k < cols) wanted[k] = value + panel.minimum(o, k);
        }
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
}

TEST_CASE("layout: a panel of q4m and q4k has each byte of its rows' records once") {
  for (const Type type : kMinima)
    for (const size_t groups : Sizes{1, 2, 8, 9, 17}) {
      const size_t record = static_cast<size_t>(row_record_bytes(type, groups));
      std::vector<int> seen(Panel{type, nullptr, groups}.plane());
      REQUIRE(seen.size() == record_plane_bytes(type, kLanes, groups));
      for (size_t o = 0; o < kLanes; ++o)
        for (size_t i = 0; i < record; ++i) ++seen.at(panel_index_record(type, o, i));
      for (const int times : seen) REQUIRE(times == 1);
    }
}
