// simd128 with WebAssembly's relaxed multiply-add, which an engine rounds once or twice as its
// processor does. kernels.cpp offers the level where it is rounded once. Flags: -msimd128
// -mrelaxed-simd
#define PHASOR_RELAXED_MADD 1
#include "simd128.hpp"

namespace phasor {

extern const Kernels kernels_relaxed;
const Kernels kernels_relaxed = kernel_table<Simd128>("relaxed");

}  // namespace phasor
