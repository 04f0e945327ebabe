// cli: --embeddings, sequences of vectors in place of texts.
#pragma once
#include "engine.h"

namespace cli {

// Values of a vector, of a model that reads vectors in place of ids; 0: it reads ids.
uint32_t vector_width(const Engine& engine);

// Sequences of one length, from an array of (positions, values) or (sequences, positions, values).
class Vectors {
 public:
  // False after an error, which has been printed.
  bool read(const Engine& engine, const char* path);
  size_t sequences() const { return sequences_; }
  // Of each sequence, with what the model puts around one: PHASOR_NONE where a vector stands, else
  // an id.
  const TokenIds& places() const { return places_; }
  // Its rows, (places, width of the embedding); zeros where an id stands.
  vector<float> rows(size_t sequence) const;

 private:
  vector<float> given_;
  TokenIds places_;
  size_t sequences_ = 0, width_ = 0, row_ = 0;  // row: of the embedding
};

}  // namespace cli
