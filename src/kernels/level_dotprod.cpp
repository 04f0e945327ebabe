// NEON with SDOT (ARMv8.2). Flags: -march=armv8.2-a+dotprod
#include "body.hpp"
#include "int8_neon.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = ArchNeon;
  using Int8 = Int8Dotprod;
  using Int4 = Int4Dotprod;
  // 32 registers, 4 a panel; int8 needs an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRow = 4, kRows = 4, kPanels = 1;
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_neon(p); }
};

}  // namespace

extern const Kernels kernels_dotprod;
const Kernels kernels_dotprod = Body<Level>::table("dotprod");

}  // namespace phasor
