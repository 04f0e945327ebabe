// Level amx's code over a twin of the matrix unit, which does what the instructions do on memory
// that sanitizers see; and the levels that have products in int8.
#pragma once
#include <atomic>

#include "kernel_data.h"

namespace kernel_test {

// How many units there are, and how many there were: of all threads.
inline std::atomic<uint32_t> units_alive{0}, units_made{0};

// The scalar level with the products of level amx, on a twin of its tiles.
const Kernels& tile_twin_level();

// For tests of products in int8: every level that this processor runs, and that one.
inline std::vector<const Kernels*> product_levels() {
  std::vector<const Kernels*> all = levels();
  all.insert(all.end() - 1, &tile_twin_level());
  return all;
}

}  // namespace kernel_test
