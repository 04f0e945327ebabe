// text: what the models of the tokenizers package share when a section is opened: classes of
// characters, added tokens, merges. Includes the tokenizer's own headers only.
#pragma once
#include "models.h"

namespace phasor::pieces {

// The parts that only these models' sections have, each where the one before it ends: classes,
// `own` bytes of the model itself, added tokens; then the pieces. Null, or what is wrong.
const char* check_package(Tokenizer* t, SectionReader* s, uint64_t own);

// The added tokens, which a model with a list of ids has too; of the others the classes before
// them.
const char* check_added(Tokenizer* t, SectionReader* s);

}  // namespace phasor::pieces
