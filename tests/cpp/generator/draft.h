// What a model is to be: the groups of its metadata, chosen so that they agree with each other. The
// engine's checks are the judge of it.
#pragma once
#include "metadata.h"

namespace generator {

// A tokenizer section; `pieces` is the least vocabulary that its side can have.
struct TokenizerSection {
  Bytes bytes;
  uint32_t pieces = 0;
};

// Values of the key "stack".
enum : uint32_t { kEncoderOnly = 1, kDecoderOnly = 2, kEncoderDecoder = 3 };

struct Draft {
  uint32_t stack = kEncoderOnly;
  TokenizerSection tokenizers[2];  // sections 3 and 4
  Bytes meta;
  bool encoder() const { return stack != kDecoderOnly; }
  bool decoder() const { return stack != kEncoderOnly; }
};

Draft draft_model(Choices* choices);

}  // namespace generator
