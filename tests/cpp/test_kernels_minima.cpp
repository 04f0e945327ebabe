// q4m and q4k, a scale and a minimum for each group: the products at every level, and rows of
// tables.
#include "kernel_data.h"
#include "share.h"
#include "tile_level.h"

using namespace kernel_test;

namespace {

constexpr Type kMinima[] = {Type::q4m, Type::q4k};

uint32_t u16(const unsigned char* p) { return static_cast<uint32_t>(p[0] | p[1] << 8); }

// As docs/reference/file-format.md has them, of row o of a panel: n·d + m, of q4k n·(d·s) + m·t.
struct Group {
  float scale, least;
};
Group group_of(Type type, const unsigned char* panel, size_t o, size_t g) {
  if (type == Type::q4m) {
    const unsigned char* p = panel + g * 64;
    return {widen_f16(static_cast<uint16_t>(u16(p + 2 * o))),
            widen_f16(static_cast<uint16_t>(u16(p + 32 + 2 * o)))};
  }
  const unsigned char* p = panel + g / 8 * 256;
  const auto byte = [&](size_t i) { return uint32_t{p[64 + 16 * i + o]}; };
  const size_t i = g % 8;
  const uint32_t s = i < 4 ? byte(i) % 64 : byte(i + 4) % 16 + byte(i - 4) / 64 * 16,
                 t = i < 4 ? byte(i + 4) % 64 : byte(i + 4) / 16 + byte(i) / 64 * 16;
  return {widen_f16(static_cast<uint16_t>(u16(p + 2 * o))) * static_cast<float>(s),
          widen_f16(static_cast<uint16_t>(u16(p + 32 + 2 * o))) * static_cast<float>(t)};
}

size_t plane_of(Type type, size_t groups) {
  return type == Type::q4m ? groups * 64 : (groups + 7) / 8 * 256;
}

int nibble(const unsigned char* values, size_t o, size_t k) {
  return values[k / 32 * 256 + k % 16 / 4 * 64 + o * 4 + k % 4] >> (k % 32 < 16 ? 0 : 4) & 15;
}

}  // namespace

TEST_CASE("rule 1.20: linear q4m and q4k, with nibbles of 15 and activations of ±127") {
  Share share;
  for (const Type type : kMinima)
    for (const size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 16, 17, 30, 35})
      for (const size_t panels : Sizes{1, 2, 3, 4, 7})
        for (const size_t groups : Sizes{0, 1, 2, 7, 8, 9, 18, 53}) {
          if (groups > 18 && rows < 35) continue;  // many rows take 24 groups or fewer at once
          if (!share.takes()) continue;
          Random random(rows * 10007 + panels * 101 + groups);
          const std::vector<unsigned char> w = minimum_panels(random, type, panels, groups);
          Int8Activations x(&random, rows * groups, kGroup);
          Array<float> bias = floats(random, panels * kLanes, Fill::ordinary, 1);
          const size_t bias_n = random.below(panels * kLanes + 1), ldy = panels * kLanes + 5;
          const size_t plane = plane_of(type, groups), bytes = plane + groups * 256;
          REQUIRE(w.size() == panels * bytes + 64);
          const size_t n = panels * kLanes, cols = groups * kGroup;
          std::vector<float> wanted(rows * n);
          std::vector<int> nibbles(cols);
          std::vector<Group> of(groups);
          for (size_t o = 0; o < n; ++o) {
            const unsigned char* panel = w.data() + o / kLanes * bytes;
            for (size_t i = 0; i < cols; ++i) nibbles[i] = nibble(panel + plane, o % kLanes, i);
            for (size_t g = 0; g < groups; ++g) of[g] = group_of(type, panel, o % kLanes, g);
            for (size_t r = 0; r < rows; ++r) {
              float acc = 0.0f;
              for (size_t g = 0; g < groups; ++g) {
                int32_t isum = 0;
                for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i)
                  isum += x.q[r * cols + i] * nibbles[i];
                const float sx = x.scale[r * groups + g];
                volatile float scale = sx * of[g].scale,
                               all = sx * static_cast<float>(x.sum[r * groups + g]);
                acc = std::fma(static_cast<float>(isum), scale, acc);
                acc = std::fma(all, of[g].least, acc);
              }
              wanted[r * n + o] = o < bias_n ? acc + bias[o] : acc;
            }
          }
          for (const Kernels* k : product_levels()) {
            Array<float> y(rows * ldy, 3);
            (type == Type::q4m ? k->linear_q4m : k->linear_q4k)(
                y, ldy, x.q, x.scale, x.sum, rows, w.data(), bias, bias_n, panels, groups);
            INFO(k->name << " rows " << rows << " panels " << panels << " groups " << groups);
            REQUIRE(y.intact());
            require_outputs(*k, y, ldy, wanted, n);
          }
        }
}

TEST_CASE("rows of tables: q4m and q4k in panels and in rows") {
  for (const Type type : kMinima)
    for (const size_t cols : Sizes{1, 31, 32, 70, 255, 256, 288, 520}) {
      const size_t rows = 37, panels = 3, groups = static_cast<size_t>(groups_of(cols));
      Random random(cols);
      const std::vector<unsigned char> w = minimum_panels(random, type, panels, groups);
      const size_t bytes = static_cast<size_t>(panel_bytes(type, cols)),
                   plane = plane_of(type, groups);
      REQUIRE(bytes == plane + groups * 256);
      const size_t record = static_cast<size_t>(row_record_bytes(type, groups)),
                   flat_plane = (rows * record + 63) / 64 * 64;
      std::vector<unsigned char> flat(static_cast<size_t>(rows_bytes(type, rows, cols)));
      REQUIRE(flat.size() == flat_plane + rows * groups * 16);
      for (size_t row = 0; row < rows; ++row) {
        const unsigned char* panel = w.data() + row / kLanes * bytes;
        const size_t o = row % kLanes;
        for (size_t i = 0; i < record; ++i)
          flat[row * record + i] = panel[panel_index_record(type, o, i)];
        std::vector<float> wanted(cols);
        for (size_t k = 0; k < groups * kGroup; ++k) {
          const int n = nibble(panel + plane, o, k);
          flat[flat_plane + row * groups * 16 + k / 32 * 16 + k % 16] |=
              static_cast<unsigned char>(n << (k % 32 < 16 ? 0 : 4));
          const Group of = group_of(type, panel, o, k / kGroup);
          volatile float value = static_cast<float>(n) * of.scale;
          if (k < cols) wanted[k] = value + of.least;
        }
        compare_row(w, flat, type, rows, cols, row, wanted);
      }
    }
}

TEST_CASE("layout: a panel of q4m and q4k has each byte of its rows' records once") {
  for (const Type type : kMinima)
    for (const size_t groups : Sizes{1, 2, 8, 9, 17}) {
      const size_t record = static_cast<size_t>(row_record_bytes(type, groups));
      std::vector<int> seen(plane_of(type, groups));
      REQUIRE(seen.size() == record_plane_bytes(type, kLanes, groups));
      for (size_t o = 0; o < kLanes; ++o)
        for (size_t i = 0; i < record; ++i) ++seen.at(panel_index_record(type, o, i));
      for (const int times : seen) REQUIRE(times == 1);
    }
}
