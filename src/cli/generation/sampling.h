// cli: what the flags of generation ask for, for every command that generates.
#pragma once
#include "options.h"

namespace cli {

// 0, or 2 when a line on standard error says which flags do not go together.
int check_generation(const SamplingOptions& options);

// Tokens are drawn: a temperature above 0, or a flag that only a draw has a use for.
bool draws(const SamplingOptions& options);

// What the arena needs for it: call before Engine::start. search: by beams; whole: somebody looks
// at the logits themselves.
void room_for_generation(const SamplingOptions& options, const Engine& engine, bool search,
                         bool whole, phasor_limits* limits);

// The library's options: the file's (of a decoder where --sample asks for them), then the flags'.
// `end` may have ids that end the output, and gets those of --end, and of --stop with the text of a
// special token. Points into `options` and `end`, which outlive it. False when a line on standard
// error says what is wrong with an id or a stop string.
bool generate_options(const SamplingOptions& options, const Engine& engine, TokenIds* end,
                      phasor_generate_options* out);

// --seed, or one that is new each time. Not `quiet`: it is printed on standard error.
uint64_t first_seed(const SamplingOptions& options, bool quiet);

// Of draw `sample` (from 0) for a line: it depends on nothing else, so any number of draws and of
// lines side by side gives the same.
constexpr uint64_t seed_of(uint64_t first, uint64_t line, uint32_t sample) {
  return first + (line - 1) + (uint64_t{sample} << 32);
}

const char* finish_name(uint32_t finish);  // of PHASOR_FINISH_…

}  // namespace cli
