// NEON with SDOT (ARMv8.2). Flags: -march=armv8.2-a+dotprod
// Only what multiplies integers is compiled here; the rest of the level is NEON's (level_neon.cpp has the table).
#include "body.hpp"
#include "int8_neon.hpp"
#include "products.hpp"

namespace phasor {
namespace {

struct Level : LevelNeon {
  using Int8 = Int8Dotprod;
  using Int4 = Int4Dotprod;
  // 32 registers, 4 a panel: an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
};

}  // namespace

PHASOR_PRODUCTS(Dotprod, Body<Level>)

}  // namespace phasor
