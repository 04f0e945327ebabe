#include "oracle.h"

namespace long_run {

using namespace generator;

uint64_t hash_of(const void* values, std::size_t bytes) {
  const unsigned char* p = static_cast<const unsigned char*>(values);
  uint64_t hash = kFnvStart;
  for (uint64_t word = 0; bytes != 0;) {
    const std::size_t n = bytes < sizeof word ? bytes : sizeof word;
    word = 0;
    std::memcpy(&word, p, n);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
    p += n;
    bytes -= n;
  }
  return hash;
}

Oracle::Oracle(const Opened& opened, const phasor_limits& limits, const Tokens& tokens,
               const std::vector<Sequences::Tokens>& sources)
    : tokens_(tokens) {
  phasor_limits all = limits;
  all.chunk = all.target;  // no ring lets go of anything
  all.sequences = all.logit_rows = 1;
  need(!lets_go(opened.model(), all), "the oracle forgets");
  cli::Pool none;
  const uint32_t count = opened.sourced() ? static_cast<uint32_t>(sources.size()) : 1;
  all_.resize(std::size_t{count} * tokens.scripts * (tokens.positions + 1));
  for (uint32_t source = 0; source < count && finite_; ++source)
    for (uint32_t script = 0; script < tokens.scripts && finite_; ++script) {
      const Running running(opened, all, &none);  // a fresh one for each
      if (script == 0) see_state(running, &bare_);
      finite_ = !opened.sourced() || encode_source(running, opened, 0, sources[source]);
      if (finite_) feed(running, source, script);
    }
}

void Oracle::see_state(const Running& running, Expected* expected) {
  need(phasor_state_size(running.session(), 0, &expected->state_bytes) == PHASOR_OK, "state_size");
  if (expected->state_bytes > largest_) largest_ = expected->state_bytes;
  state_.resize(largest_);
  need(phasor_state_save(running.session(), 0, state_.data(), expected->state_bytes) == PHASOR_OK,
       "state_save");
  expected->state = hash_of(state_.data(), expected->state_bytes);
}

void Oracle::feed(const Running& running, uint32_t source, uint32_t script) {
  phasor_error error = PHASOR_ERROR_INIT;
  Expected* const row = const_cast<Expected*>(&at(source, script, 0));
  see_state(running, row);
  for (uint32_t i = 0; i < tokens_.positions; ++i) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.count = 1;
    item.ids = tokens_.ids(script) + i;
    item.segments = tokens_.segments(script, i);
    item.logits = PHASOR_LOGITS_LAST;
    const phasor_status status = phasor_step(running.session(), &item, 1, &error);
    finite_ = status != PHASOR_NOT_FINITE;
    if (!finite_) return;
    need(status, error, "step");
    Expected* const expected = row + i + 1;
    expected->logits =
        hash_of(phasor_logits(running.session(), 0), running.width() * sizeof(float));
    float best = 0;
    finite_ = phasor_argmax(running.session(), 0, &expected->best, &best) == PHASOR_OK;
    if (!finite_) return;
    expected->best_logit = bits_of(best);
    see_state(running, expected);
  }
}

}  // namespace long_run
