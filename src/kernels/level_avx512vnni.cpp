// AVX-512 with VNNI. Flags: those of avx512 and -mavx512vnni
#include "body.hpp"
#include "int8_avx512.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::avx512bw;
  using Int8 = Int8Vnni;
  using Int4 = Int4Vnni;
  // 32 registers, 1 a panel; int8 needs an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRow = 8, kRows = 6, kPanels = 4;
    static constexpr int kOneRowInt8 = 8, kRowsInt8 = 4, kPanelsInt8 = 2;
    static constexpr bool kStream = true;
  };
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_avx512(p); }
};

}  // namespace

extern const Kernels kernels_avx512vnni;
const Kernels kernels_avx512vnni = Body<Level>::table("avx512vnni");

}  // namespace phasor
