// NEON with a fused multiply-add: AArch64, and ARMv7 with VFPv4.
// Flags: none on AArch64; -march=armv7-a+neon-vfpv4 -mfp16-format=ieee on ARMv7
#include "body.hpp"
#include "int8_neon.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = ArchNeon;
  using Int8 = Int8Neon;
  using Int4 = Int4Neon;
#if defined(__aarch64__)
  // 32 registers, 4 a panel.
  struct Tiles {
    static constexpr int kOneRow = 4, kRows = 4, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 1, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
#else
  // 16 registers, 4 a panel.
  struct Tiles {
    static constexpr int kOneRow = 2, kRows = 2, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 1, kPanelsInt8 = 1;
    static constexpr bool kStream = false;
  };
#endif
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_neon(p); }
};

}  // namespace

extern const Kernels kernels_neon;
const Kernels kernels_neon = Body<Level>::table("neon");

}  // namespace phasor
