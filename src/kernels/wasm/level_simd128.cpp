// WebAssembly's SIMD of 128 bits. No fused multiply-add: f32 chains are exact and slow, integer
// types are those to use. Flags: -msimd128
#include "simd128.hpp"

namespace phasor {

extern const Kernels kernels_simd128;
const Kernels kernels_simd128 = kernel_table<Simd128>("simd128");

}  // namespace phasor
