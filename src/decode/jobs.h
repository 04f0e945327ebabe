// decode: many generations side by side. Each step of the decoder is one of all that run; one that
// is over makes place for the next.
#pragma once
#include "beam.h"
#include "generate.h"

namespace phasor {

// As phasor_jobs_step says.
[[nodiscard]] phasor_status jobs_step(Session* s, phasor_job* jobs, uint32_t count,
                                      const phasor_generate_options& options, uint32_t* left,
                                      phasor_error* error) noexcept;

// As phasor_beam_jobs_step says.
[[nodiscard]] phasor_status beam_jobs_step(Session* s, phasor_job* jobs, uint32_t count,
                                           const phasor_beam_options& options, uint32_t* left,
                                           phasor_error* error) noexcept;

}  // namespace phasor
