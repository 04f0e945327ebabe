#include "runner.h"

#include "../io/json.h"
#include "sampling.h"
#include "sentences.h"

namespace cli {

Output Runner::output_of(const Line& line, const TokenIds& ids, const uint32_t* out, size_t count,
                         uint32_t finish, uint32_t sample) const {
  Output one;
  one.ids.assign(out, out + count);
  one.finish = finish;
  one.text = beams.text_of(prompt_of(ids), one, 0);
  one.seed = seed_of(seed, line.number, sample);
  return one;
}

void Runner::read(const Input& input, Line* line) {
  line->number = ++read_;
  line->where = input.where;
  line->why = input.error;
  line->nothing =
      e.has_source() && (input.is_ids ? input.ids.empty() && o.ids.from_input
                                      : input.text.find_first_not_of(" \t") == string::npos);
  if (!line->why.empty() || read_ids(input, &line->ids, &line->why)) return;
  if (o.split != 0 && line->ids.size() > e.limits.source)
    (void)split(input.text, &line->sentences, &line->why);
}

bool Runner::has_room(const TokenIds& ids, string* why) const {
  const size_t room = e.has_source() ? e.limits.source : e.limits.target;
  size_t count = ids.size();
  const bool begun = !e.has_source() && !prefix_.empty();
  // what a prompt goes on with; an output's last token enters no sequence, but a search goes on
  if (begun) count += prefix_.size() - (beams.wanted() ? 0 : 1);
  if (count <= room || (!e.has_source() && o.keep.given)) return true;
  const char* other = "";  // a flag that goes with those that are given
  if (e.has_source() && o.split == 0 && !o.arrays() && !first_given(o.ids, o.n_best, o.samples))
    other = "--split sentences takes it apart";
  if (!e.has_source() && o.batch < 2 && !o.arrays() && !beams.wanted())
    other = "--keep 0 forgets what is oldest";
  *why = no_room(count, room, more_room(e, e.input_side(), other));
  if (begun) *why += o.prefix != nullptr ? ", with --prefix" : ", with --prefix-ids";
  return false;
}

bool Runner::read_ids(const Input& input, TokenIds* ids, string* why) {
  *ids = input.ids;
  if (!input.is_ids &&
      (!e.hold_text(input.text.size(), why) ||
       !text_ids(e, e.input_side(), o.load_state == nullptr, input.text, ids, why)))
    return false;
  return has_room(*ids, why);
}

// The ids of each sentence of a text that is too long.
bool Runner::split(const string& text, vector<TokenIds>* sentences, string* why) {
  size_t from = 0;
  for (const size_t end : sentence_ends(text)) {
    string sentence = text.substr(from, end - from);
    from = end;
    sentence.erase(sentence.find_last_not_of(" \t\r\n") + 1);
    if (sentence.empty()) continue;
    sentences->emplace_back();
    if (!text_ids(e, PHASOR_SOURCE, true, sentence, &sentences->back(), why)) return false;
    const size_t count = sentences->back().size();
    if (count <= e.limits.source) continue;
    *why =
        format("sentence %zu: ", sentences->size()) +
        no_room(count, e.limits.source, more_room(e, PHASOR_SOURCE, ""));
    return false;
  }
  why->clear();
  return true;
}

// The best output, or the first sample, is the line's. Sentences are joined: their texts with a
// space between, their ids as one list.
bool Runner::complete(Line* line, uint32_t sequence, bool encoded) {
  vector<Output>& outputs = line->outputs;
  if (aligner.wanted() && !aligner.align(sequence, encoded, line->ids, &outputs, &line->why))
    return false;
  if (!outputs.empty()) line->all = outputs[0];
  for (size_t i = 1; i < outputs.size() && !line->sentences.empty(); ++i) {
    line->all.text += " " + outputs[i].text;
    line->all.ids.insert(line->all.ids.end(), outputs[i].ids.begin(), outputs[i].ids.end());
    line->all.finish = outputs[i].finish;
  }
  return true;
}

void Runner::print(const Line& line, bool streamed) {
  printed_ = line.number;
  if (!line.why.empty()) {
    status = bad_line(e, o, line.where, line.number, line.why);
  } else {
    if (o.json)
      print_json(line);
    else if (!streamed)
      output(beams.lines(line.sentences.empty() ? line.outputs : vector<Output>{line.all}));
    else if (aligner.wanted() && !line.nothing)
      output("\t" + pairs_text(line.all.alignment));
    output("\n");
    tokens_ += made(line);
  }
  // Each line of input has the same number of lines, also where nothing is drawn.
  const bool none = !line.why.empty() || line.outputs.empty();
  for (uint32_t i = 1; i < o.samples && !o.json && none; ++i) output("\n");
}

size_t Runner::made(const Line& line) const {
  size_t all_made = 0;
  for (const Output& one : line.outputs) all_made += one.ids.size();
  return o.samples != 0 ? all_made : line.all.ids.size();
}

void Runner::print_json(const Line& line) const {
  const bool one = !beams.wanted() && o.samples == 0;
  const size_t count = made(line);
  Json json;
  json.open('{').add("line", line.number);
  if (e.target.has_tokenizer) json.add("text", line.all.text);
  json.add("ids", line.all.ids)
      .add("finish", finish_name(line.all.finish))
      .add("input_tokens", line.ids.size())
      .add("tokens", count)
      .add("seconds", line.seconds)
      .add("tokens_per_second", line.seconds > 0 ? double(count) / line.seconds : 0);
  if (options.temperature > 0) json.add("seed", seed_of(seed, line.number, 0));
  if (o.lookahead.given)
    json.add("steps", line.sum.steps)
        .add("proposed", line.sum.proposed)
        .add("accepted", line.sum.accepted);
  if (o.keep.given) json.add("slides", line.sum.slides);
  if (aligner.wanted() && one) add_alignment(&json, line.all.alignment);
  if (o.samples != 0) beams.add_outputs(&json, line.outputs);
  if (beams.wanted()) {
    json.add("beams", o.beam.value);
    if (batch < 2) json.add("steps", line.sum.steps);
    beams.add_outputs(&json, line.outputs);
  }
  json.add("arena_bytes", e.arena_bytes)
      .add("isa", phasor_model_isa(e.model))
      .add("threads", e.limits.threads)
      .close('}');
  output(json.str());
}

void Runner::tell() {
  const double time = now();
  if (o.quiet || time - told_ < 0.2) return;
  told_ = time;
  progress(grouped(printed_) + " line" + plural(printed_) + ", " + grouped(tokens_) + " tokens");
}

void Runner::figures() const {
  print_figures(e, "line", printed_, tokens_, seconds);
  if (o.lookahead.given)
    note("lookahead: %u of %u guesses right, %u steps, %.2f tokens a step", all.accepted,
         all.proposed, all.steps, all.steps != 0 ? double(tokens_) / all.steps : 0.0);
}

}  // namespace cli
