#include "tile_level.h"

#include <cstdio>
#include <cstdlib>

#include "tile_lanes.h"
#include "tile_twin.h"

namespace kernel_test {
namespace {

void must(bool done, const char* what) {
  if (done) return;
  std::fprintf(stderr, "the twin of the tiles: %s: a processor would stop here\n", what);
  std::abort();
}

// As TileUnit of src/kernels/x86/tile_unit.hpp.
class TwinUnit {
 public:
  explicit TwinUnit(const TileConfig& config) {
    must(tiles_.configure(&config), "ldtilecfg");
    ++units_alive;
    ++units_made;
  }
  ~TwinUnit() {
    tiles_.release();
    --units_alive;
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

}  // namespace

const Kernels& tile_twin_level() {
  static const Kernels twin = [] {
    Kernels k = kernels_scalar;
    k.name = "amx, over the twin of its tiles";
#define PHASOR_OF_TWIN(type, Weights, ...)            \
  k.linear_##type = Twin::linear_int8<Twin::Weights>; \
  k.linear16_##type = Twin::linear_int16<Twin::Weights>;
    PHASOR_INT8_TYPES(PHASOR_OF_TWIN, )
#undef PHASOR_OF_TWIN
    k.peak_int8 = Twin::peak_int8;
    return k;
  }();
  return twin;
}

}  // namespace kernel_test
