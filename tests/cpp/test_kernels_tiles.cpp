// Level amx's tiling on every machine, over the twin of its tiles. The whole level, over it, is
// among product_levels().
#include "tile_lanes.h"
#include "tile_level.h"
#include "tile_shapes.h"
#include "tile_twin.h"

using namespace kernel_test;

namespace {

struct Config {
  unsigned char bytes[64] = {};
  Config() { bytes[0] = 1; }
  Config& tile(size_t t, unsigned rows, unsigned row_bytes) {
    bytes[16 + 2 * t] = static_cast<unsigned char>(row_bytes);
    bytes[17 + 2 * t] = static_cast<unsigned char>(row_bytes >> 8);
    bytes[48 + t] = static_cast<unsigned char>(rows);
    return *this;
  }
};

}  // namespace

TEST_CASE("tiles: what a configuration may be") {
  tile_twin::Tiles tiles;
  CHECK(!tiles.zero(0));  // none yet
  CHECK(tiles.configure(Config().tile(0, 16, 64).tile(7, 1, 4).bytes));
  CHECK(tiles.zero(7));
  CHECK(!tiles.zero(6));  // not configured
  CHECK(!tiles.zero(8));
  CHECK(!tiles.configure(Config().tile(0, 17, 64).bytes));
  CHECK(!tiles.configure(Config().tile(0, 16, 65).bytes));
  CHECK(!tiles.configure(Config().tile(0, 16, 256).bytes));
  CHECK(!tiles.configure(Config().tile(0, 16, 0).bytes));
  CHECK(!tiles.configure(Config().tile(0, 0, 64).bytes));
  CHECK(!tiles.configure(Config().tile(8, 1, 4).bytes));
  for (const size_t reserved : Sizes{2, 15, 47, 63}) {
    Config c;
    c.bytes[reserved] = 1;
    CHECK(!tiles.configure(c.bytes));
  }
  Config two;
  two.bytes[0] = 2;
  CHECK(!tiles.configure(two.bytes));
  two.bytes[0] = 0;  // as tilerelease
  CHECK(tiles.configure(two.bytes));
  CHECK(!tiles.configured());
  for (size_t rows = 1; rows <= kTileRows; ++rows)
    for (const size_t depth : {kGroup, kRowStep}) {
      const TileConfig c = tile_config(rows, depth);
      CHECK(tiles.configure(&c));
      for (unsigned t = 0; t < kTiles; ++t) CHECK(tiles.zero(t));
      CHECK(tiles.dot(0, kRowTile, kWeightTile));
      CHECK(tiles.dot(3, kRowTile + 1, kWeightTile + 1));
    }
}

TEST_CASE("tiles: rows, strides and what a tile does not have") {
  tile_twin::Tiles tiles;
  unsigned char from[1024], to[1024];
  for (size_t i = 0; i < sizeof from; ++i) from[i] = static_cast<unsigned char>(i * 7 + 1);
  Config c = Config().tile(1, 3, 12);
  REQUIRE(tiles.configure(c.bytes));
  std::memset(to, 0xEE, sizeof to);
  REQUIRE(tiles.store(1, to, 12));  // a new tile is zeros
  for (size_t i = 0; i < 64; ++i) CHECK(to[i] == (i < 36 ? 0 : 0xEE));
  REQUIRE(tiles.load(1, from + 200, -100));
  REQUIRE(tiles.store(1, to, 20));
  for (size_t r = 0; r < 3; ++r)
    for (size_t i = 0; i < 20; ++i)
      CHECK(to[r * 20 + i] == (i < 12            ? from[200 - 100 * r + i]
                               : r < 2 || i < 12 ? (r * 20 + i < 36 ? 0 : 0xEE)
                                                 : 0xEE));
  c.bytes[1] = 2;  // goes on at row 2, as after a page fault
  REQUIRE(tiles.configure(c.bytes));
  REQUIRE(tiles.load(1, from, 64));
  REQUIRE(tiles.store(1, to, 12));
  for (size_t i = 0; i < 36; ++i) CHECK(to[i] == (i < 24 ? 0 : from[128 + i - 24]));
}

TEST_CASE("tiles: a product, and the shapes that are none") {
  tile_twin::Tiles tiles;
  int8_t a[5][8], b[2][12];
  int32_t sums[5][3];
  for (size_t i = 0; i < sizeof a; ++i) a[i / 8][i % 8] = static_cast<int8_t>(i * 53);
  for (size_t i = 0; i < sizeof b; ++i) b[i / 12][i % 12] = static_cast<int8_t>(i * 91 + 128);
  REQUIRE(tiles.configure(
      Config().tile(0, 5, 12).tile(1, 5, 8).tile(2, 2, 12).tile(3, 4, 12).tile(4, 5, 10).bytes));
  REQUIRE(tiles.load(1, a, 8));
  REQUIRE(tiles.load(2, b, 12));
  for (int times = 1; times <= 2; ++times) {
    REQUIRE(tiles.dot(0, 1, 2));
    REQUIRE(tiles.store(0, sums, 12));
    for (size_t m = 0; m < 5; ++m)
      for (size_t n = 0; n < 3; ++n) {
        int32_t wanted = 0;
        for (size_t k = 0; k < 8; ++k) wanted += a[m][k] * b[k / 4][4 * n + k % 4];
        CHECK(sums[m][n] == times * wanted);
      }
  }
  CHECK(!tiles.dot(0, 0, 2));
  CHECK(!tiles.dot(0, 1, 1));
  CHECK(!tiles.dot(0, 1, 3));  // four rows where two are needed
  CHECK(!tiles.dot(3, 1, 2));  // four rows of sums for five
  CHECK(!tiles.dot(0, 4, 2));  // ten bytes
  CHECK(!tiles.dot(0, 1, 5));
}

TEST_CASE("tiles: level amx gives the scalar level's bits in every shape") {
  const Kernels& twin = tile_twin_level();
  check_shapes(twin, {1, 2, 3, 15, 16, 17, 26, 33}, {1, 2, 3, 4, 11}, {1, 2, 3, 9});
  for (size_t rows = 1; rows <= 80; ++rows)
    check_shapes(twin, {rows}, {1 + rows % 5}, {1 + rows % 4});
  check_shapes(twin, {49}, {9}, {17, 64});
}

TEST_CASE("tiles: one configuration for a call, released at its end; none for one row") {
  const Kernels& twin = tile_twin_level();
  for (const size_t rows : Sizes{1, 2, 15, 16, 40, 64})
    for (const Type type : {Type::q8r, Type::q2r, Type::q8, Type::q4, Type::q4k}) {
      units_made = 0;
      check_shape(twin, {type, rows, 6, 4, 96, 1 + rows % 2});
      CHECK(units_made == (rows >= (whole_type(type) ? 2 : kTileRows) ? 1 : 0));
      CHECK(units_alive == 0);
    }
}
