// runtime: the forward pass. Read forward.cpp from the bottom: encode and decode say what a pass does, a block is a call for each
// line of the paper, and the parts above them are the lines.
#pragma once
#include "session.h"

namespace phasor {

// Runs the encoder over each item's whole source (Vaswani et al. 2017, section 3.1, left half), several short ones at a time, and for
// an encoder-decoder computes the keys and values of cross-attention. The items have been checked.
[[nodiscard]] phasor_status encode_sources(Session* s, const phasor_item* items, uint32_t count, phasor_error* error) noexcept;

// Output rows first … first + count − 1 of an encoded sequence (the vocabulary's logits or classes) into kPartLogits; its one row where
// the output is pooled. The sequence's hidden states are there and the rows fit.
[[nodiscard]] phasor_status encoder_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count, phasor_error* error) noexcept;

// The first `dim` values of the sequence's pooled vector, after the head where the model's output
// is pooled. *out gets the row of the arena in which they have been computed.
[[nodiscard]] phasor_status embedding(Session* s, uint32_t sequence, uint32_t pooling,
                                      bool normalise, uint32_t dim, const float** out,
                                      phasor_error* error) noexcept;

// Appends the tokens of all items to their sequences and computes the wanted logits (right half). The items have been checked
// and their sequences have room.
[[nodiscard]] phasor_status decode_step(Session* s, const phasor_item* items, uint32_t count, phasor_error* error) noexcept;

}  // namespace phasor
