// cli: the types of a model's matrices for a file of at most so many bytes.
#pragma once

#include "probe.h"

namespace cli {

struct Wanted {
  const char* name;       // of the model, for messages
  uint64_t bytes;         // of the file, at most
  const char* text;       // NULL: the file's test vectors
  const char* isa;
  uint32_t threads, inputs;  // inputs: 8, 16, or 0 for what costs least
  const float* moments;      // (moment_count), or NULL: as phasor_quantize_options has them
  uint64_t moment_count;
  bool quiet;
};

// One matrix: its type, and what the outputs lose when it alone has that type.
struct Chosen {
  string name;
  const char* type;
  uint64_t bytes;
  double harm;
};

struct Choices {
  vector<const char*> types;  // of each tensor, for phasor_quantize; NULL: no matrix
  uint32_t inputs = 0;        // of quantized matrices, in bits
  vector<Chosen> matrices;
  string measured;         // what the whole file was measured on and gives, beside uniform types
  double divergence = 0;
};

// Chooses by measurement. `file` (bytes) is the model in f32, f16 or bf16. False: a line says why.
bool choose_types(const Wanted& wanted, const void* file, size_t bytes, Choices* out);

}  // namespace cli
