// Level amx's code over a twin of the matrix unit, which does what the instructions do on memory
// that sanitizers see; and the levels that have products in int8.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "kernel_data.h"
#include "tile_lanes.h"
#include "tile_twin.h"

namespace kernel_test {

[[noreturn]] inline void refused(const char* what) {
  std::fprintf(stderr, "the twin of the tiles: %s: a processor would stop here\n", what);
  std::abort();
}
inline void must(bool done, const char* what) {
  if (!done) refused(what);
}

// As TileUnit of src/kernels/x86/tile_unit.hpp.
class TwinUnit {
 public:
  // How many there are, and how many there were: of all threads.
  inline static std::atomic<uint32_t> alive{0}, made{0};
  explicit TwinUnit(const TileConfig& config) {
    must(tiles_.configure(&config), "ldtilecfg");
    ++alive;
    ++made;
  }
  ~TwinUnit() {
    tiles_.release();
    --alive;
  }
  TwinUnit(const TwinUnit&) = delete;
  TwinUnit& operator=(const TwinUnit&) = delete;
  template <size_t T>
  void zero() {
    must(tiles_.zero(T), "tilezero");
  }
  template <size_t T>
  void load(const void* from, size_t stride) {
    must(tiles_.load(T, from, static_cast<int64_t>(stride)), "tileloadd");
  }
  template <size_t T>
  void store(void* to, size_t stride) {
    must(tiles_.store(T, to, static_cast<int64_t>(stride)), "tilestored");
  }
  template <size_t C, size_t A, size_t B>
  void dot() {
    must(tiles_.dot(C, A, B), "tdpbssd");
  }

 private:
  tile_twin::Tiles tiles_;
};
using Twin = Tiled<PlainLanes, TwinUnit>;

// The scalar level with the products of level amx, on a twin of its tiles.
inline const Kernels& tile_twin_level() {
  static const Kernels twin = [] {
    Kernels k = kernels_scalar;
    k.name = "amx, over the twin of its tiles";
    k.linear_q8r = Twin::whole<Type::q8r>;
    k.linear_q2r = Twin::whole<Type::q2r>;
#define PHASOR_GROUPED(type, Weights)             \
  k.linear_##type = Twin::grouped<Twin::Weights>; \
  k.linear16_##type = Twin::grouped<Twin::Wide<Twin::Weights>>;
    PHASOR_TILED(PHASOR_GROUPED)
#undef PHASOR_GROUPED
    k.peak_int8 = Twin::peak;
    return k;
  }();
  return twin;
}

// For tests of products in int8: every level that this processor runs, and that one.
inline std::vector<const Kernels*> product_levels() {
  std::vector<const Kernels*> all = levels();
  all.insert(all.end() - 1, &tile_twin_level());
  return all;
}

}  // namespace kernel_test
