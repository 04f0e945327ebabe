// decode: the choice of a token from a row of logits. Penalties, bans, filters and the draw, in the
// order that phasor_generate_options says.
#pragma once
#include "checked.h"

namespace phasor {

// What a choice may look at.
struct History {
  const uint32_t* ids;  // (count) the sequence so far; PHASOR_NONE where an embedding stood
  uint32_t count;
  const uint32_t* made;  // (made_count) the new tokens
  uint32_t made_count;
};

// The largest logit as it is: needs no memory.
bool takes_largest(const phasor_generate_options& options) noexcept;

// Whether the vocabulary has the ids of an option; one line names it.
[[nodiscard]] phasor_status check_ids(const Session& s, const char* name, const uint32_t* ids,
                                      uint32_t count, phasor_error* error) noexcept;

// Checks what concerns a choice; one line names the option.
[[nodiscard]] phasor_status check_choice(const Session& s, const phasor_generate_options& options,
                                         phasor_error* error) noexcept;

// Chooses from `row`, which stays as it is. Options have been checked; `random` is seeded where
// they draw. probabilities (V) may be NULL.
[[nodiscard]] phasor_status choose(Session* s, uint32_t row, const phasor_generate_options& options,
                                   const History& history, phasor_random* random, uint32_t* id,
                                   float* probabilities, phasor_error* error) noexcept;

// The id ends an output: one of the model's, or of the options'.
bool ends(const Session& s, const phasor_generate_options& options, uint32_t id) noexcept;

}  // namespace phasor
