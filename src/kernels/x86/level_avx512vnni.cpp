// AVX-512 with VNNI. Flags: those of avx512 and -mavx512vnni
// Only what multiplies integers is compiled here; the rest of the level is AVX-512's
// (level_avx512.cpp has the table).
#include "../body.hpp"
#include "int8_avx512.hpp"
#include "../products.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::avx512bw;
  using Int8 = Int8Vnni;
  using Int4 = Int4Vnni;
  using Int4m = Int4Vnni;
  template <Type T>
  using Fine = FineVnni<T>;
  // 32 registers, 1 a panel: an integer and a float accumulator for each.
  struct Tiles {
    static constexpr int kOneRowInt8 = 8, kRowsInt8 = 4, kPanelsInt8 = 2;
    static constexpr int kRowsUnpacked16 = 4;
    static constexpr int kRowsWhole = 8, kPanelsWhole = 2;
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

PHASOR_PRODUCTS(Avx512Vnni, Body<Level>)

}  // namespace phasor
