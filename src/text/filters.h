// text: what a pipeline's decoder does to the text of all tokens together, byte by byte as it goes
// out: a text becomes another, a character goes at the ends, a text that is the name of a byte
// becomes the byte. Each filter is a row of the section behind the spelled pieces and has some bits
// of the decoder's state. Includes sinks.h and steps.h only; never allocates.
//
// A text that may go on is not kept: it is the beginning of the filter's own text (Knuth, Morris
// and Pratt 1977), and of a character's run the count is enough.
#pragma once
#include "sinks.h"
#include "steps.h"

namespace phasor::pieces {

constexpr uint32_t kFilterBytes = sizeof TokenDecoder{}.filters, kMostFilters = 24;

// Checks the filters among a section's rows, whose states have at most so many bits together; null,
// or what is wrong.
const char* check_filters(const Tokenizer& t, uint32_t most);

// Bytes that `bytes` of text become at most, with what was held back before.
uint64_t filtered_bytes(const Tokenizer& t, uint64_t bytes);

// What a sink does with a text in place of writing it.
void put_filtered(TextSink* sink, Span text);
// The text ends: what the filters hold goes out, or is gone.
void end_filters(TextSink* sink);

}  // namespace phasor::pieces
