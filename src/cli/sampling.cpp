#include "sampling.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

namespace cli {
namespace {

constexpr uint32_t kMostStops = 64, kMostStopBytes = 256;  // as phasor.h says

// The flag that asks for draws, or NULL.
const char* asks_for_draws(const Options& o) {
  const struct {
    const char* name;
    bool given;
  } flags[] = {{"--top-k", o.top_k.given}, {"--top-p", o.top_p.given},
               {"--min-p", o.min_p.given}, {"--typical", o.typical.given},
               {"--seed", o.seed.given},   {"--sample", o.sample}};
  for (const auto& f : flags)
    if (f.given) return f.name;
  return nullptr;
}

void set(uint32_t* to, const Number& from) {
  if (from.given) *to = static_cast<uint32_t>(from.value);
}
void set(float* to, const Real& from) {
  if (from.given) *to = from.value;
}

bool known(const char* flag, const Ids& ids, const Engine& e) {
  for (const uint32_t id : ids.values)
    if (id >= e.target.vocabulary)
      return data_error("%s: token id %u, the vocabulary has %u", flag, id, e.target.vocabulary),
             false;
  return true;
}

}  // namespace

int check_generation(const Options& o) {
  const char* asks = asks_for_draws(o);
  if (asks != nullptr && o.temperature.given && !(o.temperature.value > 0))
    return usage_error("%s: has no effect at --temperature 0", asks);
  if (o.stop.size() > kMostStops) return usage_error("--stop: expected at most %u", kMostStops);
  for (const char* s : o.stop)
    if (s[0] == 0 || strlen(s) > kMostStopBytes)
      return usage_error("--stop: expected 1 to %u bytes", kMostStopBytes);
  return 0;
}

bool draws(const Options& o) {
  return o.temperature.given ? o.temperature.value > 0 : asks_for_draws(o) != nullptr;
}

void room_for_generation(const Options& o, phasor_limits* limits) {
  const bool penalties = o.repeat_penalty.given || o.presence_penalty.given ||
                         o.frequency_penalty.given || o.no_repeat_ngram.given;
  if (draws(o) || penalties || o.min_new.given || o.suppress.given)
    limits->outputs |= PHASOR_WANT_SAMPLING;
  const uint32_t rows = o.lookahead.given ? static_cast<uint32_t>(o.lookahead.value) + 1 : 1;
  // their replay looks at logits
  const bool arrays = o.logits != nullptr || o.hidden != nullptr || o.hidden_decoder != nullptr ||
                      o.attention != nullptr;
  limits->logit_rows = rows;
  if (!arrays && o.beam == 0 && (limits->outputs & PHASOR_WANT_SAMPLING) == 0)
    greedy_room(limits, rows);
}

bool generate_options(const Options& o, const Engine& e, phasor_generate_options* out) {
  if (o.sample) (void)phasor_generation_defaults(e.model, out);
  if (draws(o) && !(out->temperature > 0)) out->temperature = 1;
  set(&out->temperature, o.temperature);
  set(&out->top_k, o.top_k);
  set(&out->top_p, o.top_p);
  set(&out->min_p, o.min_p);
  set(&out->typical_p, o.typical);
  set(&out->repetition_penalty, o.repeat_penalty);
  set(&out->presence_penalty, o.presence_penalty);
  set(&out->frequency_penalty, o.frequency_penalty);
  set(&out->no_repeat_ngram, o.no_repeat_ngram);
  set(&out->min_new, o.min_new);
  set(&out->keep, o.keep);
  set(&out->lookahead, o.lookahead);
  out->slide = o.keep.given ? 1 : 0;
  if (o.n != 0) out->max_new = o.n;
  if (o.suppress.given) {
    out->suppressed = o.suppress.values.data();
    out->suppressed_count = static_cast<uint32_t>(o.suppress.values.size());
  }
  out->end = o.end.values.data();
  out->end_count = static_cast<uint32_t>(o.end.values.size());
  out->stop = o.stop.data();
  out->stop_count = static_cast<uint32_t>(o.stop.size());
  if (!o.stop.empty() && e.target.has_tokenizer == 0)
    return data_error("--stop: the model has no tokenizer for its output"), false;
  return known("--suppress", o.suppress, e) && known("--end", o.end, e);
}

uint64_t first_seed(const Options& o) {
  if (o.seed.given) return o.seed.value;
  struct timespec t = {};
  clock_gettime(CLOCK_REALTIME, &t);
  const uint64_t mixed =
      (static_cast<uint64_t>(t.tv_sec) * 1000000007u + static_cast<uint64_t>(t.tv_nsec)) *
          0x9E3779B97F4A7C15u +
      static_cast<uint64_t>(getpid()) * 0xBF58476D1CE4E5B9u;
  return mixed >> 32;  // short enough to be typed again
}

}  // namespace cli
