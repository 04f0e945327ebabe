#include "beams.h"

#include "align.h"
#include "sampling.h"

namespace cli {
int check_beams(const RunOptions& o) {
  if (o.beam == 0) {
    const char* needs = first_given(o.length_penalty, o.length_norm, o.coverage_penalty, o.n_best,
                                    o.early_stopping, o.renormalize, o.groups, o.diversity);
    return needs != nullptr ? usage_error("%s: needs --beam", needs) : 0;
  }
  if (o.groups.given && !o.diversity.given) return usage_error("--groups: needs --diversity");
  if (o.diversity.given && !o.groups.given) return usage_error("--diversity: needs --groups");
  if (o.groups.given && o.beam % o.groups != 0)
    return usage_error("--groups %u: expected a divisor of --beam, %u", uint32_t{o.groups},
                       uint32_t{o.beam});
  // what belongs to decoding token by token
  const char* flag = first_given(o.temperature, o.top_k, o.top_p, o.min_p, o.typical, o.seed,
                                 o.sample, o.samples, o.presence_penalty, o.frequency_penalty,
                                 o.keep, o.lookahead, o.save_state, o.load_state);
  if (flag != nullptr) return usage_error("%s: does not go with --beam", flag);
  return o.n_best > o.beam ? usage_error("--n-best %u: expected at most --beam, %u",
                                         uint32_t{o.n_best}, uint32_t{o.beam})
                           : 0;
}

phasor_beam_options Beams::options(const phasor_generate_options& shared) const {
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  if (e_.has_source()) (void)phasor_beam_defaults(e_.model, &options);
  options.beams = 0;
  if (o_.length_penalty.given) options.length_penalty = o_.length_penalty.value;
  if (o_.early_stopping.given) options.early_stopping = o_.early_stopping;
  if (o_.renormalize.given) options.renormalize = o_.renormalize;
  options.length_norm = o_.length_norm;
  options.coverage_penalty = o_.coverage_penalty.value;
  options.groups = o_.groups;
  if (o_.diversity.given) options.diversity_penalty = o_.diversity.value;
  options.max_new = shared.max_new;
  options.forced = shared.forced;
  options.forced_count = shared.forced_count;
  options.repetition_penalty = shared.repetition_penalty;
  options.no_repeat_ngram = shared.no_repeat_ngram;
  options.source = shared.source;
  options.source_count = shared.source_count;
  options.source_no_repeat_ngram = shared.source_no_repeat_ngram;
  options.bad_words = shared.bad_words;
  options.bad_words_count = shared.bad_words_count;
  options.forced_last = shared.forced_last;
  options.min_new = shared.min_new;
  options.suppressed = shared.suppressed;
  options.suppressed_count = shared.suppressed_count;
  options.end = shared.end;
  options.end_count = shared.end_count;
  options.stop = shared.stop;
  options.stop_count = shared.stop_count;
  return options;
}

bool Beams::search(const TokenIds& prompt, const phasor_generate_options& shared,
                   vector<Output>* made, uint32_t* steps, string* why) const {
  const phasor_beam_options all = options(shared);
  phasor_beam_result result = PHASOR_BEAM_RESULT_INIT;
  if (!e_.done(phasor_beam_search(e_.session, 0, prompt.data(), count_of(prompt), &all, &result,
                                  &e_.error),
               why))
    return false;
  vector<phasor_hypothesis> found(n_best(), sized<phasor_hypothesis>());
  size_t count = 0;
  while (count < found.size() &&
         phasor_hypothesis_get(e_.session, uint32_t(count), &found[count]) == PHASOR_OK)
    ++count;
  *made = outputs(found.data(), count, prompt, shared.forced_count);
  *steps = result.steps;
  return true;
}

vector<Output> Beams::outputs(const phasor_hypothesis* found, size_t count, const TokenIds& prompt,
                              uint32_t forced) const {
  vector<Output> all;
  for (size_t i = 0; i < count; ++i) {
    Output one;
    one.ids.assign(found[i].ids, found[i].ids + found[i].count);
    one.finish = found[i].finish;
    one.text = text_of(prompt, one, forced);
    one.score = found[i].score;
    one.log_probability = found[i].log_probability;
    all.push_back(one);
  }
  return all;
}

// In a search a stop string ends behind the text of the first `forced` tokens.
string Beams::text_of(const TokenIds& prompt, const Output& one, uint32_t forced) const {
  if (!e_.target.has_tokenizer) return string();
  Detokenizer text(e_, PHASOR_TARGET);
  string out;
  size_t before = 0;
  for (const uint32_t id : prompt) (void)text.add(id);
  for (uint32_t i = 0; i < one.ids.size(); ++i) {
    out += text.add(one.ids[i]);
    if (i < forced) before = out.size();
  }
  out += text.end();
  const bool cut = one.finish == PHASOR_FINISH_STRING || !wanted();
  return cut ? out.substr(0, stop_at(out, before)) : out;
}

// Where the stop string begins that is the first to end after `before`; of several the longest.
size_t Beams::stop_at(const string& text, size_t before) const {
  size_t first = text.size(), end = string::npos;
  for (const string stop : o_.stop.values) {
    const size_t from = before < stop.size() ? 0 : before - stop.size() + 1;
    const size_t at = text.find(stop, from);
    if (at == string::npos || at + stop.size() > end) continue;
    first = at + stop.size() < end ? at : min(first, at);
    end = at + stop.size();
  }
  return first;
}

string Beams::lines(const vector<Output>& all) const {
  string out;
  for (const Output& one : all) {
    if (&one != &all[0]) out += '\n';
    if (o_.n_best != 0) out += format("%.6f\t", one.score);
    out += e_.target.has_tokenizer != 0 && !o_.print_ids ? one.text : join(one.ids);
    if (o_.align.given) out += '\t' + pairs_text(one.alignment);
  }
  return out;
}

void Beams::add_outputs(Json* json, const vector<Output>& all) const {
  json->open("outputs", '[');
  for (const Output& one : all) {
    json->open('{');
    if (wanted())
      json->add("score", one.score).add("log_probability", one.log_probability);
    else
      json->add("seed", one.seed);
    if (e_.target.has_tokenizer != 0) json->add("text", one.text);
    json->add("ids", one.ids).add("finish", finish_name(one.finish));
    if (o_.align.given) add_alignment(json, one.alignment);
    json->close('}');
  }
  json->close(']');
}

}  // namespace cli
