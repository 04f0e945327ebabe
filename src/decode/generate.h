// decode: the main loop, from a prompt to an end token, a stop string or a limit.
#pragma once
#include "sample.h"

namespace phasor {

// As phasor_generate says; result is complete.
[[nodiscard]] phasor_status generate(Session* s, uint32_t sequence, const uint32_t* ids,
                                     uint32_t count, uint32_t* out, uint32_t capacity,
                                     const phasor_generate_options& options,
                                     phasor_generation* result, phasor_error* error) noexcept;

// What the next token is to follow.
struct Place {
  uint32_t sequence, row;  // of logits
  uint32_t length;         // tokens of the sequence that count
  const uint32_t* out;     // (made) new tokens, of at most `most`
  uint32_t made, most;
  bool begins;  // at the start token
};
// The callback, then the choice, of which forced tokens are none. False in *goes_on: the callback
// stops it.
[[nodiscard]] phasor_status next_token(Session* s, const Place& at,
                                       const phasor_generate_options& options,
                                       phasor_random* random, uint32_t* id, bool* goes_on,
                                       phasor_error* error) noexcept;

// The plain largest logit needs no room for logits, where the limits say so.
bool best_only(const Session& s, const phasor_generate_options& options) noexcept;

}  // namespace phasor
