// Files that the engine opens: any descriptor that its checks accept, with weights, tokenizers, a
// chat program and test vectors. The property test (test_generated.cpp) lives on them, and any
// fuzzer can.
#pragma once
#include "bytes.h"
#include "choices.h"

namespace generator {

// The file that these choices lead to. Its test vectors have values that nobody computed and a
// tolerance that accepts all: phasor_vector_record makes them the engine's own.
Bytes generate_model(Choices* choices);
Bytes generate_model(uint64_t seed);

}  // namespace generator
