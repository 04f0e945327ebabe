// What holds for every model, whatever its file says.
#pragma once
#include "cli/host/pool.h"
#include "generator/bytes.h"
#include "generator/choices.h"

namespace generator {

// How a model was tried.
struct Outcome {
  bool finite;  // no value of the plain forward pass became infinite or NaN
  uint32_t cache_type, outputs, beams, sequences;
};

// Tries all of it on one file; throws Broken. `pool` has three threads.
Outcome check_properties(Choices* choices, const Bytes& file, cli::Pool* pool);

}  // namespace generator
