// decode: the choice of a token from a row of logits. Penalties, bans, filters and the draw, in the
// order that phasor_generate_options says.
#pragma once
#include "checked.h"

namespace phasor {

constexpr float kNever = -__builtin_inff();  // the score of a token that may not come
constexpr float kLargest = 0x1.fffffep127f;  // the largest finite number

// Adds 16 lanes by the tree (rule 1.15): the sum is in the first.
template <class T>
void add_lanes(T* sums) noexcept {
  for (uint32_t step = kLanes / 2; step != 0; step /= 2)
    for (uint32_t i = 0; i < step; ++i) sums[i] += sums[i + step];
}

// What a choice may look at.
struct History {
  const uint32_t* ids;  // (count) the sequence so far; PHASOR_NONE where an embedding stood
  uint32_t count;
  const uint32_t* made;  // (made_count) the new tokens
  uint32_t made_count;
};

// The largest logit as it is: needs no memory.
bool takes_largest(const phasor_generate_options& options) noexcept;

// A number of the options between `low` and `high`, which `expected` says in words.
[[nodiscard]] phasor_status check_range(const char* name, float value, float low, float high,
                                        const char* expected, phasor_error* error) noexcept;
// Whether the vocabulary has the ids that the options force, suppress and end with.
[[nodiscard]] phasor_status check_option_ids(const Session& s,
                                             const phasor_generate_options& options,
                                             phasor_error* error) noexcept;

[[nodiscard]] phasor_status none_left(phasor_error* error) noexcept;  // all tokens are forbidden

// Checks what concerns a choice; one line names the option.
[[nodiscard]] phasor_status check_choice(const Session& s, const phasor_generate_options& options,
                                         phasor_error* error) noexcept;

// Chooses from `row`, which stays as it is. Options have been checked; `random` is seeded where
// they draw. probabilities (V) may be NULL.
[[nodiscard]] phasor_status choose(Session* s, uint32_t row, const phasor_generate_options& options,
                                   const History& history, phasor_random* random, uint32_t* id,
                                   float* probabilities, phasor_error* error) noexcept;

// Forbids, by −infinity among the scores (V) of a row: tokens that would make n in a row stand
// twice or stand in the source, the last of a sequence that never comes, ends that come too soon,
// and suppressed ones.
void forbid(float* scores, const Session& s, const phasor_generate_options& options,
            const History& history) noexcept;

// The id ends an output: one of the model's, or of the options'.
bool ends(const Session& s, const phasor_generate_options& options, uint32_t id) noexcept;

}  // namespace phasor
