// decode: the main loop, from a prompt to an end token, a stop string or a limit.
#pragma once
#include "sample.h"

namespace phasor {

// As phasor_generate says; result is complete.
[[nodiscard]] phasor_status generate(Session* s, uint32_t sequence, const uint32_t* ids,
                                     uint32_t count, uint32_t* out, uint32_t capacity,
                                     const phasor_generate_options& options,
                                     phasor_generation* result, phasor_error* error) noexcept;

}  // namespace phasor
