// NEON with a fused multiply-add: AArch64, and ARMv7 with VFPv4.
// Flags: none on AArch64; -march=armv7-a+neon-vfpv4 -mfp16-format=ieee on ARMv7
#include "../body.hpp"
#include "int8_neon.hpp"
#include "../products.hpp"

namespace phasor {
namespace {

struct Level : LevelNeon {
  using Int8 = Int8Neon;
  using Int4 = Int4Neon;
  using Int4m = Int4Neon;
  template <Type T>
  using Fine = FineNeon<T>;
#if defined(__aarch64__)
  // 32 registers, 4 a panel.
  struct Tiles {
    static constexpr int kOneRow = 4, kRows = 4, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr int kRowsWhole = 2, kPanelsWhole = 1;
    static constexpr bool kStream = false;
  };
#else
  // 16 registers, 4 a panel.
  struct Tiles {
    static constexpr int kOneRow = 2, kRows = 2, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 1, kPanelsInt8 = 1;
    static constexpr int kRowsWhole = 1, kPanelsWhole = 1;
    static constexpr bool kStream = false;
  };
#endif
};

}  // namespace

extern const Kernels kernels_neon;
const Kernels kernels_neon = kernel_table<Body<Level>>("neon");

#if defined(__aarch64__)
extern const Kernels kernels_dotprod, kernels_i8mm;
const Kernels kernels_dotprod = with_products<Dotprod>(kernel_table<Body<Level>>("neon"));
const Kernels kernels_i8mm = with_products<I8mm>(kernel_table<Body<Level>>("neon"));
#endif

}  // namespace phasor
