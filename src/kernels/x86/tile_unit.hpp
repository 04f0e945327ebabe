// The matrix unit of AMX: eight tiles of up to 16 rows of 64 bytes (Intel SDM 1, chapter 18), as
// inline assembly. gcc 12's intrinsics lose stores: its _tile_loadconfig reads 8 of the 64 bytes,
// its _tile_loadd has no memory clobber. The compiler knows nothing of tiles and keeps nothing in
// them; `volatile` keeps the order. Sanitizers do not see what these instructions read and write:
// tests/cpp/tile_twin.h computes the same on memory that they see.
#pragma once
#include "tiled.hpp"

namespace phasor {
namespace {

class TileUnit {
 public:
  explicit PHASOR_INLINE TileUnit(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(config));
  }
  // Without it the kernel would save 8 KiB at each switch of threads from now on.
  PHASOR_INLINE ~TileUnit() { __asm__ volatile("tilerelease"); }
  TileUnit(const TileUnit&) = delete;
  TileUnit& operator=(const TileUnit&) = delete;

  template <size_t T>
  PHASOR_INLINE void zero() {
    __asm__ volatile("tilezero %%tmm%c0" ::"i"(T));
  }
  // Rows of the tile, `stride` bytes apart in memory.
  template <size_t T>
  PHASOR_INLINE void load(const void* from, size_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
  }
  template <size_t T>
  PHASOR_INLINE void store(void* to, size_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
  }
  // Tile C += A·B: int8 times int8, sums of int32; a row of B has four values of each column.
  template <size_t C, size_t A, size_t B>
  PHASOR_INLINE void dot() {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
  }
};

}  // namespace
}  // namespace phasor
