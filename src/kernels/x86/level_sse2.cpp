// SSE2, what every x86-64 has. No fused multiply-add: f32 chains are exact and slow, q8 is the type
// to use. Flags: -msse2
#include "../body.hpp"
#include "int8_sse2.hpp"

namespace phasor {
namespace {

struct Level {
  using Arch = xsimd::sse2;
  using Int8 = Int8Sse2;
  using Int4 = Int4Sse2;
  using Int4m = Int4Sse2;
  template <Type T>
  using Fine = FineSse2<T>;
  // The emulated multiply-add keeps its own 16 registers busy.
  struct Tiles {
    static constexpr int kOneRow = 1, kRows = 1, kPanels = 1;
    static constexpr int kOneRowInt8 = 1, kRowsInt8 = 2, kPanelsInt8 = 1;
    static constexpr int kRowsWhole = 2, kPanelsWhole = 1;
    static constexpr bool kStream = false;
  };
  static PHASOR_INLINE v16<Arch> half16(const unsigned char* p) { return half16_sse2(p); }
  // SSE2 has no shuffle of bytes.
  static PHASOR_INLINE void look_up(unsigned char* to, const unsigned char* codes,
                                    const unsigned char* table) {
    look_up_each(to, codes, table);
  }
  static PHASOR_INLINE v16<Arch> byte16(const unsigned char* p) { return byte16_sse2(p); }
};

}  // namespace

extern const Kernels kernels_sse2;
const Kernels kernels_sse2 = kernel_table<Body<Level>>("sse2");

}  // namespace phasor
