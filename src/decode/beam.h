// decode: beam search (Graves 2012, "Sequence transduction with recurrent neural networks",
// algorithm 1; its ends and scores as transformers has them). The beams are sequences of one step
// that share their pages; nothing is allocated.
#pragma once
#include "sample.h"

namespace phasor {

// As phasor_beam_search says; result is complete.
[[nodiscard]] phasor_status beam_search(Session* s, uint32_t sequence, const uint32_t* ids,
                                        uint32_t count, const phasor_beam_options& options,
                                        phasor_beam_result* result, phasor_error* error) noexcept;

// Fills *out, which is zero, with output `index` of the last search; false past the last.
bool hypothesis(const Session& s, uint32_t index, phasor_hypothesis* out) noexcept;

}  // namespace phasor
