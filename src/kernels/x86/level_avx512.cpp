// AVX-512 without integer dot products. Flags: -mavx512f -mavx512cd -mavx512dq -mavx512bw
// -mavx512vl -mfma -mf16c
#include "../body.hpp"
#include "../products.hpp"
#include "int8_avx512.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::avx512bw;
  using Int8 = Int8Avx512;
  using Int4 = Int4Avx512;
  using Int4m = Int4mAvx512;
  template <Type T>
  using Fine = FineAvx512<T>;
  // 32 registers, 1 a panel.
  struct Tiles {
    static constexpr int kOneRow = 8, kRows = 6, kPanels = 4;
    static constexpr int kOneRowInt8 = 4, kRowsInt8 = 4, kPanelsInt8 = 2;
    static constexpr int kRowsUnpacked16 = 4;
    static constexpr int kRowsWhole = 6, kPanelsWhole = 2;
    static constexpr bool kStream = true;
  };
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_avx512(p); }
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_avx512(to, codes, table);
  }
  static PHASOR_INLINE v16<Arch> byte16(const unsigned char* p) { return byte16_avx512(p); }
};

}  // namespace

extern const Kernels kernels_avx512, kernels_avx512vnni, kernels_amx;
const Kernels kernels_avx512 = kernel_table<Body<Level>>("avx512");
const Kernels kernels_avx512vnni = with_products<Avx512Vnni>(kernel_table<Body<Level>>("avx512"));
const Kernels kernels_amx = with_products<Amx>(kernel_table<Body<Level>>("avx512"));

}  // namespace phasor
