#include "pass.h"

namespace cli {

double median(vector<double> v) {
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 != 0 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

TokenIds some_ids(uint32_t count, uint32_t vocabulary) {
  TokenIds ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = uint32_t((uint64_t(i) * 7919 + 17) % vocabulary);
  return ids;
}

phasor_status pass(const Engine& e, const TokenIds& source, const TokenIds& prompt, uint32_t tokens,
                   Energy* energy, Taken* taken) {
  phasor_status status = phasor_sequence_clear(e.session, 0);
  (void)energy->since_last();
  double start = now();
  const auto done = [&](int phase) {
    taken->seconds[phase] = now() - start;
    taken->joules[phase] = energy->since_last();
    start = now();
  };
  if (status == PHASOR_OK && e.has_source()) status = e.encode(source);
  done(kEncode);
  if (!e.has_target() || status != PHASOR_OK) return status;
  status = e.step(prompt.data(), prompt.size(), PHASOR_BEST_LAST);
  done(kPrefill);
  for (uint32_t i = 0; i < tokens && status == PHASOR_OK; ++i) {
    uint32_t id = 0;
    float logit = 0;
    status = phasor_argmax(e.session, 0, &id, &logit);
    if (status == PHASOR_OK) status = e.step(&id, 1, PHASOR_BEST_LAST);
  }
  done(kDecode);
  if (e.limits.beams == 0 || status != PHASOR_OK) return status;
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  options.max_new = options.min_new = tokens;
  status = phasor_sequence_truncate(e.session, 0, count_of(prompt) - 1);
  if (status == PHASOR_OK)
    status = phasor_beam_search(e.session, 0, &prompt.back(), 1, &options, &found, &e.error);
  done(kBeam);
  return status;
}

uint32_t at_most(uint32_t wanted, uint32_t limit) {
  return limit != 0 && wanted > limit ? limit : wanted;
}

bool seconds_of_token(Engine* e, uint32_t threads, uint32_t cache_type, double* seconds) {
  constexpr int kPasses = 5;
  const uint32_t most = e->target.max_positions;
  uint32_t source = 0, prompt = 0, steps = 0;
  if (e->has_source()) source = at_most(kPassTokens, e->source.max_positions);
  if (e->has_target()) {
    prompt = at_most(kPassTokens, (most + 1) / 2);
    steps = at_most(kPassTokens, most == 0 ? 0 : max(most - prompt, 1u));
  }
  phasor_limits limits = e->limits_for(source, prompt + steps);
  limits.threads = threads;
  limits.cache_type = cache_type;
  greedy_room(&limits, 1);
  if (!e->start(limits)) return false;
  const TokenIds sources = some_ids(source, e->source.vocabulary),
                 prompts = some_ids(prompt, e->target.vocabulary);
  Energy energy;
  vector<double> all;
  for (int i = 0; i <= kPasses; ++i) {  // the first is not counted
    Taken taken;
    if (pass(*e, sources, prompts, steps, &energy, &taken) != PHASOR_OK) return e->fail();
    const double one = e->has_target() ? taken.seconds[kDecode] / steps
                                       : taken.seconds[kEncode] / source;
    if (i != 0) all.push_back(one);
  }
  *seconds = median(all);
  return true;
}

}  // namespace cli
