// AVX-VNNI: AVX2 with 256-bit integer dot products. Flags: -mavx2 -mfma -mf16c -mavxvnni
// Only what multiplies integers is compiled here; the rest of the level is AVX2's
// (level_avx2.cpp has the table).
#include "../body.hpp"
#include "int8_avx.hpp"
#include "../products.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::fma3<xsimd::avx2>;
  using Int8 = Int8AvxVnni;
  using Int4 = Int4AvxVnni;
  using Int4m = Int4AvxVnni;
  template <Type T>
  using Fine = FineAvxVnni<T>;
  // As AVX2; no intermediate values in the integer products, so one row more. Whole rows have no
  // float accumulators: 6 by 1 are 12 sums, beside 2 weights, 1 broadcast and what flips them; 10
  // hide a product's latency of 5 cycles where two begin in each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 2, kRowsInt8 = 3, kPanelsInt8 = 1;
    static constexpr int kRowsUnpacked16 = 2;
    static constexpr int kRowsWhole = 6, kPanelsWhole = 1;
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

PHASOR_PRODUCTS(AvxVnni, Body<Level>)

}  // namespace phasor
