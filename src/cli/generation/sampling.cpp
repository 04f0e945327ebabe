#include "sampling.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

namespace cli {
namespace {

constexpr uint32_t kMostStops = 64, kMostStopBytes = 256;  // as phasor.h says

// The flag that asks for draws, or NULL.
const char* asks_for_draws(const SamplingOptions& o) {
  return first_given(o.top_k, o.top_p, o.min_p, o.typical, o.seed, o.sample, o.samples);
}

template <class To, class Flag>
void set(To* to, const Flag& flag) {
  if (flag.given) *to = static_cast<To>(flag.value);
}

}  // namespace

int check_generation(const SamplingOptions& o) {
  const char* asks = asks_for_draws(o);
  if (asks != nullptr && o.temperature.given && !(o.temperature.value > 0))
    return usage_error("%s: has no effect at --temperature 0", asks);
  if (o.forced_last.values.size() > 1)
    return usage_error("%s: expected one token id", o.forced_last.given);
  if (o.stop.values.size() > kMostStops)
    return usage_error("%s: expected at most %u", o.stop.given, kMostStops);
  for (const char* s : o.stop.values)
    if (s[0] == 0 || strlen(s) > kMostStopBytes)
      return usage_error("%s: expected 1 to %u bytes", o.stop.given, kMostStopBytes);
  return 0;
}

bool draws(const SamplingOptions& o) {
  return o.temperature.given ? o.temperature.value > 0 : asks_for_draws(o) != nullptr;
}

namespace {

// What the file recommends: of an encoder-decoder all but draws, with --sample draws too.
void recommend(const SamplingOptions& o, const Engine& e, phasor_generate_options* out) {
  if (!o.sample && !e.has_source()) return;
  (void)phasor_generation_defaults(e.model, out);
  if (o.sample) return;
  out->temperature = out->top_p = out->min_p = out->typical_p = 0;
  out->top_k = 0;
}

}  // namespace

void room_for_generation(const SamplingOptions& o, const Engine& e, bool search, bool whole,
                         phasor_limits* limits) {
  phasor_generate_options file = PHASOR_GENERATE_OPTIONS_INIT;
  recommend(o, e, &file);
  const bool edited = file.suppressed_count != 0 || file.no_repeat_ngram != 0 ||
                      file.min_new != 0 || file.repetition_penalty > 0 ||
                      file.bad_words_count != 0 || file.source_no_repeat_ngram != 0;
  const char* edits =
      first_given(o.repeat_penalty, o.presence_penalty, o.frequency_penalty, o.no_repeat_ngram,
                  o.source_no_repeat_ngram, o.bad_words, o.min_new, o.suppress);
  if (!search && (draws(o) || edits != nullptr || edited)) limits->outputs |= PHASOR_WANT_SAMPLING;
  limits->logit_rows = o.lookahead.given ? uint32_t(o.lookahead.value) + 1 : 1;
  if (!whole && !search && (limits->outputs & PHASOR_WANT_SAMPLING) == 0)
    greedy_room(limits, limits->logit_rows);
}

namespace {

// A special token is no text, so its text is never found in an output: its id ends the output
// instead. False where a stop string has more than it.
bool end_at_special(const SamplingOptions& o, const Engine& e, TokenIds* end) {
  for (uint32_t id = 0; o.stop.given != nullptr && id < e.target.vocabulary; ++id) {
    const string piece = piece_text(e, PHASOR_TARGET, id);
    for (const string stop : o.stop.values) {
      if (piece.empty() || stop.find(piece) == string::npos ||
          (phasor_piece_flags(e.model, PHASOR_TARGET, id) & PHASOR_PIECE_SPECIAL) == 0)
        continue;
      if (stop != piece)
        return data_error("--stop %s: %s is a special token, and no text; --end %u ends there",
                          stop.c_str(), piece.c_str(), id),
               false;
      end->push_back(id);
    }
  }
  return true;
}

}  // namespace

bool generate_options(const SamplingOptions& o, const Engine& e, TokenIds* end,
                      phasor_generate_options* out) {
  recommend(o, e, out);
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
  set(&out->source_no_repeat_ngram, o.source_no_repeat_ngram);
  set(&out->min_new, o.min_new);
  set(&out->keep, o.keep);
  set(&out->lookahead, o.lookahead);
  out->slide = o.keep.given ? 1 : 0;
  if (o.n != 0) out->max_new = o.n;
  if (o.suppress.given) {
    out->suppressed = o.suppress.values.data();
    out->suppressed_count = count_of(o.suppress.values);
  }
  if (o.bad_words.given) {
    out->bad_words = o.bad_words.values.data();
    out->bad_words_count = count_of(o.bad_words.values);
  }
  if (o.forced_last.given)
    out->forced_last = o.forced_last.values.empty() ? nullptr : o.forced_last.values.data();
  if (o.stop.given && !e.target.has_tokenizer)
    return data_error("%s: the model has no tokenizer for its output", o.stop.given), false;
  if (!end_at_special(o, e, end)) return false;
  end->insert(end->end(), o.end.values.begin(), o.end.values.end());
  out->end = end->data();
  out->end_count = count_of(*end);
  out->stop = o.stop.values.data();
  out->stop_count = count_of(o.stop.values);
  const TokenIds& words = o.bad_words.values;
  for (size_t i = 0; i < words.size(); i += 1 + words[i]) {
    const uint32_t* word = words.data() + i + 1;
    if (!known_ids(o.bad_words.given, {word, word + words[i]}, e.target)) return false;
  }
  return known_ids(o.forced_last.given, o.forced_last.values, e.target) &&
         known_ids(o.suppress.given, o.suppress.values, e.target) &&
         known_ids(o.end.given, o.end.values, e.target);
}

uint64_t first_seed(const SamplingOptions& o, bool quiet) {
  uint64_t seed = o.seed.value;
  if (!o.seed.given) {
    struct timespec t = {};
    clock_gettime(CLOCK_REALTIME, &t);
    seed = (uint64_t(t.tv_sec) * 1000000007u + uint64_t(t.tv_nsec)) * 0x9E3779B97F4A7C15u +
           uint64_t(getpid()) * 0xBF58476D1CE4E5B9u;
    seed >>= 32;  // short enough to be typed again
  }
  if (!quiet) note("seed %" PRIu64, seed);
  return seed;
}

const char* finish_name(uint32_t finish) {
  static const char* const names[] = {"empty", "end", "length", "stopped", "stop string"};
  return names[finish];
}

}  // namespace cli
