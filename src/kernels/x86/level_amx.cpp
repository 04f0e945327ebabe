// AMX: integer products in tiles of 16 rows by 16 outputs, on processors that have AVX-512 with
// VNNI too. Flags: those of avx512vnni; the tiles' instructions are inline assembly
// What fills no tile is avx512vnni's: one row, and but for q8r and q2r fewer than 16. The rest of
// the level is AVX-512's (level_avx512.cpp has the table).
#include "../products.hpp"
#include "../simd.hpp"
#include "int8_avx512.hpp"
#include "tile_unit.hpp"

namespace phasor {
namespace {

struct Lanes {
  using V = V512;
  static PHASOR_INLINE V sums(const int32_t* p) {
    return {{V::B(_mm512_cvtepi32_ps(_mm512_load_si512(p)))}};
  }
  static PHASOR_INLINE V half16(const unsigned char* p) { return half16_avx512(p); }
  static PHASOR_INLINE V byte16(const unsigned char* p) { return byte16_avx512(p); }
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_avx512(to, codes, table);
  }
#define PHASOR_OF_VNNI(type, ...)                                \
  static constexpr auto linear_##type = Avx512Vnni::linear_##type, \
                        linear16_##type = Avx512Vnni::linear16_##type;
  PHASOR_INT8_TYPES(PHASOR_OF_VNNI, )
#undef PHASOR_OF_VNNI
};
using Level = Tiled<Lanes, TileUnit>;

}  // namespace

PHASOR_PRODUCTS(Amx, Level)

}  // namespace phasor
