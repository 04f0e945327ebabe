// q4m, q4k, q5m and q5k, a scale and a minimum for each group: the products at every level, and
// rows of tables.
#include "compare_products.h"
#include "share.h"

using namespace kernel_test;

namespace {

constexpr Type kMinima[] = {Type::q4m, Type::q4k, Type::q5m, Type::q5k};

// As docs/reference/file-format.md has them, of row o of a panel: n·d + m, or n·(d·s) + m·t where
// eight groups share a record. Of five bits a group's nibbles have a byte of upper ones behind them
// for eight columns four apart.
struct Panel {
  Type type;
  const unsigned char* p;
  size_t groups;
  bool five() const { return type == Type::q5m || type == Type::q5k; }
  bool alone() const { return type == Type::q4m || type == Type::q5m; }
  size_t plane() const { return alone() ? groups * 64 : (groups + 7) / 8 * 256; }
  size_t row_group() const { return five() ? 20 : 16; }
  size_t bytes() const { return plane() + groups * row_group() * 16; }
  int value(size_t o, size_t k) const {
    const unsigned char* const group = p + plane() + k / 32 * row_group() * 16;
    const int low = group[k % 16 / 4 * 64 + o * 4 + k % 4] >> (k % 32 < 16 ? 0 : 4) & 15;
    return five() ? low + 16 * (group[256 + o * 4 + k % 4] >> k % 32 / 4 & 1) : low;
  }
  // Number `which` of a record, and the code that multiplies it where there is one.
  float number(size_t o, size_t k, size_t which) const {
    const unsigned char* const at =
        p + (alone() ? k / 32 * 64 : k / 256 * 256) + 32 * which + 2 * o;
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
    return alone() ? of : of * static_cast<float>(code(o, k, which));
  }
  float scale(size_t o, size_t k) const { return grid(o, k, 0); }
  float minimum(size_t o, size_t k) const { return grid(o, k, 1); }
};

}  // namespace

TEST_CASE("rule 1.20: products with minima, of the largest codes and activations of ±127") {
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

TEST_CASE("rules 1.20, 1.21: the largest sums with minima, of inputs of 8 and of 16 bits") {
  const size_t groups = 9;
  for (const Type type : kMinima)
    for (const int sign : {1, -1}) {
      const Panel shape{type, nullptr, groups};
      std::vector<unsigned char> w(shape.bytes(), 0xff);
      for (size_t i = 0; i < shape.plane(); ++i)  // scales of 1, or of 63; no minima
        if (i % (record_bytes(type) * kLanes) < 64) w[i] = i % 64 < 32 && i % 2 != 0 ? 0x3c : 0;
      const Panel panel{type, w.data(), groups};
      const int most = panel.five() ? 31 : 15, scale = panel.alone() ? 1 : 63;
      REQUIRE(panel.value(5, 77) == most);
      REQUIRE(panel.scale(5, 77) == static_cast<float>(scale));
      REQUIRE(compare_largest<Panel, 32>(panel, sign) ==
              static_cast<float>(most * scale * 127 * sign) * static_cast<float>(groups * kGroup));
    }
}

TEST_CASE("rows of tables: types with minima in panels and in rows") {
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
      const size_t group = Panel{type, w.data(), groups}.row_group();
      REQUIRE(flat.size() == flat_plane + rows * groups * group);
      for (size_t row = 0; row < rows; ++row) {
        const Panel panel{type, w.data() + row / kLanes * bytes, groups};
        const size_t o = row % kLanes;
        for (size_t i = 0; i < record; ++i)
          flat[row * record + i] = panel.p[panel_index_record(type, o, i)];
        std::vector<float> wanted(cols);
        for (size_t k = 0; k < groups * kGroup; ++k) {
          const int n = panel.value(o, k);
          unsigned char* const to = &flat[flat_plane + (row * groups + k / 32) * group];
          to[k % 16] |= static_cast<unsigned char>((n & 15) << (k % 32 < 16 ? 0 : 4));
          if (panel.five()) to[16 + k % 4] |= static_cast<unsigned char>(n >> 4 << k % 32 / 4);
          volatile float value = static_cast<float>(n) * panel.scale(o, k);
          if (k < cols) wanted[k] = value + panel.minimum(o, k);
        }
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
}

TEST_CASE("layout: a panel with minima has each byte of its rows' records once") {
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
