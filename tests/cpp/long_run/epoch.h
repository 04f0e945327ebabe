// One model, sessions of several chunks, and any number of operations on their sequences, chosen at
// random: each result is compared with the oracle's. Nothing is allocated in between.
#pragma once
#include "shadow.h"

namespace long_run {

enum Operation : uint32_t {
  kStep,
  kStop,
  kFork,
  kTruncate,
  kClear,
  kSave,
  kRestore,
  kEncode,
  kStopEncode,
  kRefused,
  kOperations
};
extern const char* const kOperationNames[kOperations];

struct Counts {
  uint64_t operations[kOperations] = {};
  uint64_t steps = 0;        // calls of phasor_step that came to their end
  uint64_t tokens = 0;       // in them
  uint64_t rows = 0;         // of logits and best tokens that were compared
  uint64_t cut_refused = 0;  // cuts that a ring does not reach
  uint64_t emptied = 0;      // sequences that a stopped step left empty
  uint64_t allocations = 0;
  uint64_t hash = kFnvStart;  // of all that came out
};

// How a model is played.
struct Plan {
  uint32_t bits = 4;       // of the tree of tokens
  uint64_t steps = 0;      // so many, or a few more
  bool spoil = false;      // a byte of a used page is changed half-way: the oracle must see it
  bool lose_page = false;  // the same for a reference to a page
};

// Throws generator::Broken at the first difference. False, and nothing was counted, where a value
// of the model is not finite.
bool play(generator::Choices* choices, const generator::Opened& opened, const Plan& plan,
          Counts* counts);

}  // namespace long_run
