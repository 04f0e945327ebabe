// The tokenizers' models by their numbers in a section (file-format.md), beside the engine's own
// table.
#pragma once
#include "text/models.h"

enum class ModelNumber : uint32_t {
  unigram = 1,
  bpe,
  words,
  wordpiece,
  byte_bpe,
  metaspace,
  char_bpe,
  metaspace_bpe,
  pipeline
};

// The engine's model, or null where the build leaves it out.
inline const phasor::pieces::TokenizerModel* model_of(ModelNumber number) {
  return phasor::pieces::kModels[static_cast<uint32_t>(number) - 1].model;
}
inline bool is_built(ModelNumber number) { return model_of(number) != nullptr; }
