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
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_avx512(to, codes, table);
  }
  static constexpr auto linear_q8 = Avx512Vnni::linear_q8, linear_q4 = Avx512Vnni::linear_q4,
                        linear_q4t = Avx512Vnni::linear_q4t, linear_q2 = Avx512Vnni::linear_q2,
                        linear_q1 = Avx512Vnni::linear_q1, linear_q8r = Avx512Vnni::linear_q8r,
                        linear_q2r = Avx512Vnni::linear_q2r;
};
using Level = Tiled<Lanes, TileUnit>;

}  // namespace

void PHASOR_PRODUCT(Amx::linear_q8, Level::grouped<Level::Q8>)
void PHASOR_PRODUCT(Amx::linear_q4, Level::grouped<Level::Q4>)
void PHASOR_PRODUCT(Amx::linear_q4t, Level::grouped<Level::Q4t>)
void PHASOR_PRODUCT(Amx::linear_q2, Level::grouped<Level::Q2>)
void PHASOR_PRODUCT(Amx::linear_q1, Level::grouped<Level::Q1>)
void PHASOR_PRODUCT(Amx::linear_q8r, Level::whole<Type::q8r>)
void PHASOR_PRODUCT(Amx::linear_q2r, Level::whole<Type::q2r>)
uint64_t Amx::peak_int8(float* out, uint64_t rounds) { return Level::peak(out, rounds); }

}  // namespace phasor
