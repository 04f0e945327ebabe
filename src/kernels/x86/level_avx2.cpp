// AVX2 with FMA and F16C. Flags: -mavx2 -mfma -mf16c
#include "../body.hpp"
#include "../products.hpp"
#include "int8_avx.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::fma3<xsimd::avx2>;
  using Int8 = Int8Avx2;
  using Int4 = Int4Avx2;
  using Int4m = Int4mAvx2;
  template <Type T>
  using Fine = FineAvx2<T>;
  // 16 registers, 2 a panel: 6 rows by 1 panel leaves 12 accumulators, 2 weights, 1 broadcast.
  struct Tiles {
    static constexpr int kOneRow = 4, kRows = 6, kPanels = 1;
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 4, kPanelsInt8 = 1;
    static constexpr int kRowsUnpacked16 = 2;
    static constexpr int kRowsWhole = 4, kPanelsWhole = 1;
    static constexpr bool kStream = true;
  };
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_avx(p); }
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_avx(to, codes, table);
  }
  static PHASOR_INLINE v16<Arch> byte16(const unsigned char* p) { return byte16_avx(p); }
};

}  // namespace

extern const Kernels kernels_avx2, kernels_avxvnni;
const Kernels kernels_avx2 = kernel_table<Body<Level>>("avx2");
const Kernels kernels_avxvnni = with_products<AvxVnni>(kernel_table<Body<Level>>("avx2"));

}  // namespace phasor
