// cli: the types of a model's matrices for a file of at most so many bytes, a session in so much
// memory, and at least so many tokens a second.
#pragma once

#include "../engine/board.h"
#include "probe.h"

namespace cli {

struct Wanted {
  const char* name;     // of the model, for messages
  uint64_t bytes;       // of the file, at most; 0: any
  const char* flag;     // that says so
  uint64_t ram;         // for a session with the board's limits, at most; 0: any
  bool resident;        // the file takes its part of the RAM
  double seconds;       // of a token here, at most; 0: any
  const BoardOptions* board;
  const char* text;     // NULL: the file's test vectors
  const char* isa;
  uint32_t inputs;      // 8, 16, or 0 for what costs least
  const float* moments; // (moment_count), or NULL: as phasor_quantize_options has them
  uint64_t moment_count;
  bool quiet;
};

// One matrix: its type, and what the outputs lose when it alone has that type.
struct Chosen {
  string name;
  const char* type;
  uint64_t bytes;
  double harm;
  double share;  // of the products of a token
};

struct Choices {
  vector<const char*> types;  // of each tensor, for phasor_quantize; NULL: no matrix
  uint32_t inputs = 0;        // of quantized matrices, in bits
  vector<Chosen> matrices;
  string measured;         // what the whole file was measured on and gives, beside uniform types
  double divergence = 0;
  Fit fit;             // of the session, where RAM is limited
  double seconds = 0;  // of a token, where that is limited
};

// Chooses by measurement. `file` (bytes) is the model in f32, f16 or bf16. False: a line says why.
bool choose_types(const Wanted& wanted, const void* file, size_t bytes, Choices* out);

}  // namespace cli
