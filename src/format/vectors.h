// format: the VECTORS section, test vectors that the converter computed in float64
// (docs/reference/file-format.md).
#pragma once
#include "file.h"

namespace phasor {

struct VectorsHeader {
  uint32_t count, numerics, author_bytes, samples;
  float tolerance;
  const unsigned char* author;
  uint64_t first;  // bytes from the section's start to the first vector
};

// One vector; the pointers lie in the file, each to little-endian 32-bit values.
struct TestVector {
  uint32_t source, target;                    // ids of each
  uint32_t source_residual, target_residual;  // the positions whose residuals were sampled
  // of output: one a target token; of an encoder one a source token, or one
  uint32_t rows;
  uint64_t hash;
  const unsigned char* source_ids;        // (source)
  const unsigned char* target_ids;        // (target)
  const unsigned char* logit_ids;         // (samples)
  const unsigned char* logits;            // (rows) × {argmax, largest, range, (samples)}
  const unsigned char* source_places;     // (samples), NULL when source is 0
  const unsigned char* source_residuals;  // (encoder layers, samples)
  const unsigned char* target_places;     // (samples), NULL when target is 0
  const unsigned char* target_residuals;  // (decoder layers, samples)
};

// What the model says of its vectors' shapes.
struct VectorShape {
  uint32_t layers[2];  // of the encoder and the decoder
  bool pooled;         // an encoder's output is one row
};

// Both are false when the section is not sound.
bool read_vectors_header(VectorsHeader* out, const File& file) noexcept;
// Writes into the section, and into the vector whose source ids lie at `ids`; checksums are the
// caller's.
void store_vectors_header(unsigned char* section, uint32_t numerics, float tolerance) noexcept;
void store_vector_hash(unsigned char* ids, uint64_t hash) noexcept;
// Reads the vector that begins `*at` bytes into the section, and moves *at behind it.
bool next_vector(TestVector* out, uint64_t* at, const VectorsHeader& header, const File& file,
                 const VectorShape& shape) noexcept;

}  // namespace phasor
