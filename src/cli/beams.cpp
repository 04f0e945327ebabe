#include "beams.h"

#include <stdio.h>

namespace cli {
namespace {

// The flag that belongs to decoding token by token, or NULL.
const char* no_flag_of_beams(const Options& o) {
  const struct {
    const char* name;
    bool given;
  } flags[] = {{"--temperature", o.temperature.given},
               {"--top-k", o.top_k.given},
               {"--top-p", o.top_p.given},
               {"--min-p", o.min_p.given},
               {"--typical", o.typical.given},
               {"--seed", o.seed.given},
               {"--sample", o.sample},
               {"--repeat-penalty", o.repeat_penalty.given},
               {"--presence-penalty", o.presence_penalty.given},
               {"--frequency-penalty", o.frequency_penalty.given},
               {"--stop", !o.stop.empty()},
               {"--keep", o.keep.given},
               {"--lookahead", o.lookahead.given},
               {"--save-state", o.save_state != nullptr},
               {"--load-state", o.load_state != nullptr}};
  for (const auto& f : flags)
    if (f.given) return f.name;
  return nullptr;
}

}  // namespace

int check_beams(const Options& o) {
  if (o.beam == 0) {
    const char* needs = o.length_penalty.given  ? "--length-penalty"
                        : o.n_best != 0         ? "--n-best"
                        : o.early_stopping != 0 ? "--early-stopping"
                                                : nullptr;
    return needs != nullptr ? usage_error("%s: needs --beam", needs) : 0;
  }
  if (const char* flag = no_flag_of_beams(o))
    return usage_error("%s: does not go with --beam", flag);
  return o.n_best > o.beam
             ? usage_error("--n-best %u: expected at most --beam, %u", o.n_best, o.beam)
             : 0;
}

bool Beams::search(const std::vector<uint32_t>& prompt, const phasor_generate_options& shared,
                   std::string* why) {
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  if (o_.length_penalty.given) options.length_penalty = o_.length_penalty.value;
  options.early_stopping = o_.early_stopping;
  options.max_new = shared.max_new;
  options.forced = shared.forced;
  options.forced_count = shared.forced_count;
  options.no_repeat_ngram = shared.no_repeat_ngram;
  options.min_new = shared.min_new;
  options.suppressed = shared.suppressed;
  options.suppressed_count = shared.suppressed_count;
  options.end = shared.end;
  options.end_count = shared.end_count;
  phasor_error error = PHASOR_ERROR_INIT;
  outputs_.clear();
  result_ = PHASOR_BEAM_RESULT_INIT;
  if (phasor_beam_search(e_.session, 0, prompt.data(), static_cast<uint32_t>(prompt.size()),
                         &options, &result_, &error) != PHASOR_OK)
    return *why = error.text, false;
  phasor_hypothesis h{};
  h.struct_size = sizeof h;
  for (uint32_t i = 0; i < (o_.n_best != 0 ? o_.n_best : 1) &&
                       phasor_hypothesis_get(e_.session, i, &h) == PHASOR_OK;
       ++i) {
    Output one;
    one.ids.assign(h.ids, h.ids + h.count);
    one.text = text_of(prompt, one.ids);
    one.finish = h.finish;
    one.score = h.score;
    one.log_probability = h.log_probability;
    outputs_.push_back(one);
  }
  return true;
}

// As it goes on in the prompt's text.
std::string Beams::text_of(const std::vector<uint32_t>& prompt,
                           const std::vector<uint32_t>& ids) const {
  if (e_.target.has_tokenizer == 0) return std::string();
  Detokenizer text(e_, PHASOR_TARGET);
  std::string out;
  for (const uint32_t id : prompt) (void)text.add(id);
  for (const uint32_t id : ids) out += text.add(id);
  return out += text.end();
}

std::string Beams::lines() const {
  std::string out;
  for (const Output& one : outputs_) {
    char score[32];
    snprintf(score, sizeof score, "%.6f\t", static_cast<double>(one.score));
    if (&one != &outputs_[0]) out += '\n';
    if (o_.n_best != 0) out += score;
    if (e_.target.has_tokenizer != 0 && !o_.print_ids) {
      out += one.text;
      continue;
    }
    for (size_t i = 0; i < one.ids.size(); ++i)
      out += (i != 0 ? "," : "") + std::to_string(one.ids[i]);
  }
  return out;
}

}  // namespace cli
