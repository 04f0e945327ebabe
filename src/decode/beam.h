// decode: beam search (Graves 2012, "Sequence transduction with recurrent neural networks",
// algorithm 1; its ends and scores as transformers has them). The beams are sequences of one step
// that share their pages; nothing is allocated. A search lies in the arena between two steps, so
// that many run side by side.
#pragma once
#include "sample.h"

namespace phasor {

// As phasor_beam_search says; result is complete. It is search 0.
[[nodiscard]] phasor_status beam_search(Session* s, uint32_t sequence, const uint32_t* ids,
                                        uint32_t count, const phasor_beam_options& options,
                                        phasor_beam_result* result, phasor_error* error) noexcept;

// Fills *out, which is zero, with output `index` of the last beam_search; false past the last.
bool hypothesis(const Session& s, uint32_t index, phasor_hypothesis* out) noexcept;

// What of the options is the same without beams.
phasor_generate_options bans_of(const phasor_beam_options& options) noexcept;
[[nodiscard]] phasor_status search_check(Session* s, const phasor_beam_options& options,
                                         phasor_error* error) noexcept;

// ------------------------------------------------------------------ searches side by side

// Search `search`, below limits.searches, with options that have been checked. They are the same
// from its first step to its last.
struct SearchCall {
  Session* s;
  uint32_t search;
  const phasor_beam_options& options;
  phasor_error* error;
};

// Begins in a sequence that is empty but for its source, with the prompt ids/count.
[[nodiscard]] phasor_status search_enter(const SearchCall& c, uint32_t sequence,
                                         const uint32_t* ids, uint32_t count) noexcept;
// It has read nothing yet.
bool search_is_new(const SearchCall& c) noexcept;
// It runs in that sequence, and everything is as its last step left it.
bool search_is_sound(const SearchCall& c, uint32_t sequence) noexcept;
// Items of the next step of all searches.
Span<phasor_item> search_items(Session* s) noexcept;
// Writes those of this one, from item `at` on, given the prompt again; how many.
uint32_t search_make_items(const SearchCall& c, uint32_t at, const uint32_t* ids,
                           uint32_t count) noexcept;
// The rows of logits that they want.
uint32_t search_rows(const SearchCall& c) noexcept;
// Goes on after the step, with the logits from `row` on.
[[nodiscard]] phasor_status search_advance(const SearchCall& c, uint32_t row, bool* over) noexcept;
// It is over: all its sequences but the first are free. Its outputs stay until another begins.
void search_leave(const SearchCall& c) noexcept;
// As `hypothesis`, of this search.
bool search_output(const SearchCall& c, uint32_t index, phasor_hypothesis* out) noexcept;

}  // namespace phasor
