// runtime: the forward pass. Read forward.cpp from the bottom: encode_sources and decode_step say
// what a pass does, a block is a call for each sub-layer, and a sub-layer one for each line of the
// paper.
#pragma once
#include "session.h"

namespace phasor {

// Runs the encoder over each item's whole source (Vaswani et al. 2017, section 3.1, left half),
// several short ones at a time, and for an encoder-decoder computes the keys and values of
// cross-attention. The items have been checked.
[[nodiscard]] phasor_status encode_sources(Session* s, Items items, uint32_t count,
                                           phasor_error* error) noexcept;

// Appends the tokens of all items to their sequences and computes the wanted logits (right half).
// The items have been checked and their sequences have room.
[[nodiscard]] phasor_status decode_step(Session* s, Items items, uint32_t count,
                                        phasor_error* error) noexcept;

}  // namespace phasor
