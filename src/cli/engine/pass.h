// cli: one pass over a model, timed phase by phase.
#pragma once
#include "../host/machine.h"
#include "engine.h"

namespace cli {

enum { kEncode, kPrefill, kDecode, kBeam, kPhases };

// Tokens of a source, of a prompt and of what follows, where nobody asks for others.
constexpr uint32_t kPassTokens = 32;

// What one pass takes.
struct Taken {
  double seconds[kPhases] = {}, joules[kPhases] = {};
};

// The same ids every time, all in the vocabulary.
TokenIds some_ids(uint32_t count, uint32_t vocabulary);
// 0: no limit
uint32_t at_most(uint32_t wanted, uint32_t limit);
// of at least one
double median(vector<double> values);

// One pass over the source, a prompt and `tokens` greedy steps; then as many of a beam search from
// the prompt's last token, where the limits have beams.
phasor_status pass(const Engine& e, const TokenIds& source, const TokenIds& prompt, uint32_t tokens,
                   Energy* energy, Taken* taken);

// Seconds of a token, as a pass of the usual lengths has them: of a greedy step, without a decoder
// of the encoder. The median of some passes, in a session of its own with the limits' threads and
// cache. False: a line says why.
bool seconds_of_token(Engine* e, uint32_t threads, uint32_t cache_type, double* seconds);

}  // namespace cli
