// decode: the steps of a session with their arguments checked: items against the model and the
// limits, ids, positions and counts.
#pragma once
#include "../runtime/forward.h"
#include "../runtime/output.h"

namespace phasor {

inline uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// Checks the items of a step against the model and the limits, makes room and runs it.
[[nodiscard]] phasor_status checked_step(Session* s, Items items, uint32_t count,
                                         phasor_error* error) noexcept;
// The same of items that need no check.
[[nodiscard]] phasor_status take_step(Session* s, Items items, uint32_t count,
                                      phasor_error* error) noexcept;
// The first for the encoder.
[[nodiscard]] phasor_status checked_encode(Session* s, Items items, uint32_t count,
                                           phasor_error* error) noexcept;

// Tokens for one sequence, and a checked step with them alone.
phasor_item item_of(uint32_t sequence, const uint32_t* ids, uint32_t count,
                    uint32_t logits) noexcept;
[[nodiscard]] phasor_status feed(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                                 uint32_t logits, phasor_error* error) noexcept;

// phasor_encoder_output and phasor_embedding, with their checks. *out gets the vector where it lies
// in the arena, until the next call; it stays as it was when none was computed.
[[nodiscard]] phasor_status checked_output(Session* s, uint32_t sequence, uint32_t first,
                                           uint32_t count, phasor_error* error) noexcept;
[[nodiscard]] phasor_status checked_embedding(Session* s, uint32_t sequence, uint32_t pooling,
                                              uint32_t normalize, uint32_t dim, const float** out,
                                              phasor_error* error) noexcept;

// The model has a decoder.
[[nodiscard]] phasor_status check_decoder(const Model& m, phasor_error* error) noexcept;
// And it gives logits of a vocabulary.
[[nodiscard]] phasor_status check_generator(const Model& m, phasor_error* error) noexcept;
// The limits hold the sequence.
[[nodiscard]] phasor_status check_sequence(const Session& s, uint32_t sequence,
                                           phasor_error* error) noexcept;
// The vocabulary has the ids; one line begins with `name`.
[[nodiscard]] phasor_status check_ids(const Session& s, Half side, const char* name,
                                      const uint32_t* ids, uint32_t count,
                                      phasor_error* error, bool none = false) noexcept;
// An empty prompt becomes the start token, which lies in the model, at the start of a sequence, of
// which `length` tokens stay.
[[nodiscard]] phasor_status begin(const Session& s, uint32_t length, const uint32_t** ids,
                                  uint32_t* count, phasor_error* error) noexcept;

// Fails the sequence in `slot`: what follows its first `length` tokens is not a number. `whose` and
// `sequence` say which it is.
[[nodiscard]] phasor_status not_finite(Session* s, uint32_t slot, const char* whose,
                                       uint32_t sequence, uint32_t length,
                                       phasor_error* error) noexcept;

// The lowest id with the largest logit; PHASOR_NOT_FINITE when there is a NaN (rule 1.14).
[[nodiscard]] phasor_status best_token(const Session& s, uint32_t row, uint32_t* id,
                                       float* logit) noexcept;

}  // namespace phasor
