// runtime: what comes after the last block: the head, logits or classes, the best token without a
// row of logits, and pooled vectors.
#pragma once
#include "linear.h"

namespace phasor {

// Logits, or best tokens, of the rows of a decoder's chunk that want them.
void decoder_output(const Chunk& c) noexcept;

// Output rows first … first + count − 1 of an encoded sequence (the vocabulary's logits or classes)
// into kPartLogits; its one row where the output is pooled. The sequence's hidden states are there
// and the rows fit.
[[nodiscard]] phasor_status encoder_output(Session* s, uint32_t sequence, uint32_t first,
                                           uint32_t count, phasor_error* error) noexcept;

// The first `dim` values of the sequence's pooled vector, after the head where the model's output
// is pooled. *out gets the row of the arena in which they have been computed.
[[nodiscard]] phasor_status embedding(Session* s, uint32_t sequence, uint32_t pooling,
                                      bool normalize, uint32_t dim, const float** out,
                                      phasor_error* error) noexcept;

}  // namespace phasor
