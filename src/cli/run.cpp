// cli: `phasor run`. Generation for each input, greedy unless told otherwise, text streamed as it
// is decoded.
#include <string.h>

#include <algorithm>
#include <deque>

#include "align.h"
#include "beams.h"
#include "capture.h"
#include "commands.h"
#include "engine.h"
#include "input.h"
#include "json.h"
#include "sampling.h"
#include "sentences.h"

namespace cli {
namespace {

class Runner {
 public:
  explicit Runner(const Options& options)
      : o_(options), beams_(e_, options), aligner_(e_, options) {}
  int run() {
    if (const int status = check_generation(o_)) return status;
    if (const int status = check_beams(o_)) return status;
    if (const int status = check_alignment(o_)) return status;
    if (const int status = check_batch()) return status;
    if (const char* needs = o_.first_given({"--shortlist-first", "--shortlist-best"});
        needs != nullptr && o_.shortlist == nullptr)
      return usage_error("%s: needs --shortlist", needs);
    if (!e_.open(o_)) return 1;
    if (e_.stack == PHASOR_ENCODER)
      return data_error("%s: is an encoder, expected a decoder or an encoder-decoder", e_.path);
    if (const int status = check_options()) return status;
    if (const int status = aligner_.check()) return status;
    if (const int status = e_.choose(o_)) return status;
    if (!load_shortlist() || !capture_.open(o_) || !start() || !make_prefix() ||
        !generate_options(o_, e_, &options_))
      return 1;
    if (o_.save_state != nullptr && !state_.open(o_.save_state)) return 1;
    out_.resize(options_.max_new != 0 && (options_.max_new < e_.limits.target || o_.keep.given)
                    ? options_.max_new
                    : e_.limits.target);
    capacity_ = out_.size();
    if (options_.temperature > 0) seed_ = first_seed(o_);
    Inputs inputs(o_, e_.stack == PHASOR_DECODER, LineReader::kLongest);
    if (o_.batch > 1) {
      batches(&inputs);
    } else if (!capture_.wanted() && !state_.is_open()) {
      for (Input input; e_.going_on() && inputs.next(&input); tell())
        if (!one(input)) status_ = 1;
    } else {
      Input input, second;
      const bool one_line = inputs.next(&input) && !inputs.next(&second);
      if (inputs.failed()) return 1;
      if (!one_line)
        return usage_error(
            "--logits, --hidden, --attention and --save-state: expected exactly one line of input");
      if (!one(input) || !e_.going_on() || !capture_.commit() ||
          (state_.is_open() && !state_.commit()))
        status_ = 1;
    }
    progress("");
    if (inputs.failed() || !e_.going_on()) return 1;
    if (status_ == 0 && !o_.quiet) figures();
    return status_;
  }

 private:
  int check_options() const {
    if (o_.prefix != nullptr && o_.prefix_ids.given)
      return usage_error("--prefix: expected either --prefix or --prefix-ids, not both");
    if (o_.hidden_decoder != nullptr && e_.stack == PHASOR_DECODER)
      return usage_error(
          "--hidden-decoder: for an encoder-decoder; this model is a decoder, --hidden has its "
          "residuals");
    if ((o_.save_state != nullptr || o_.load_state != nullptr) && e_.has_source())
      return usage_error(
          "--save-state, --load-state: for a decoder; this model is an encoder-decoder");
    if (o_.arrays() && (o_.keep.given || o_.load_state != nullptr))
      return usage_error(
          "--keep, --load-state: the arrays of --logits, --hidden and --attention cover one whole "
          "context");
    if (o_.split != 0 && !e_.has_source())
      return usage_error("--split: for an encoder-decoder; this model is a decoder");
    if (o_.shortlist != nullptr && !e_.has_source())
      return usage_error("--shortlist: for an encoder-decoder; this model is a decoder");
    if (o_.shortlist != nullptr && (e_.source.has_tokenizer == 0 || e_.target.has_tokenizer == 0))
      return usage_error("--shortlist: its tokens are pieces of tokenizers, the model has none");
    if (o_.source != 0 && !e_.has_source())
      return usage_error("--source: this model is a decoder and has no source");
    return 0;
  }

  int check_batch() const {
    if (o_.samples != 0 && (o_.arrays() || o_.save_state != nullptr))
      return usage_error("%s: does not go with --samples",
                         o_.arrays() ? "--logits, --hidden, --attention" : "--save-state");
    if (o_.split != 0) {
      const char* flag = o_.arrays() ? "--logits, --hidden, --attention"
                                     : o_.first_given({"--ids", "--n-best", "--samples"});
      if (flag != nullptr) return usage_error("%s: does not go with --split", flag);
    }
    if (o_.batch < 2) return 0;
    const char* flag =
        o_.arrays() ? "--logits, --hidden, --attention"
                    : o_.first_given({"--keep", "--lookahead", "--save-state", "--load-state"});
    return flag != nullptr ? usage_error("%s: does not go with --batch", flag) : 0;
  }

  Pieces pieces_of(uint32_t side, uint32_t vocabulary) const {
    Pieces out;
    for (uint32_t id = 0; id < vocabulary; ++id) out.emplace(piece_text(e_, side, id), id);
    return out;
  }

  // False after an error, which has been printed.
  bool load_shortlist() {
    if (o_.shortlist == nullptr) return true;
    ReadFile file;
    if (!file.open(o_.shortlist, Load::copy, "a shortlist")) return false;
    const Pieces source = pieces_of(PHASOR_SOURCE, e_.source.vocabulary),
                 target = pieces_of(PHASOR_TARGET, e_.target.vocabulary);
    ShortlistShape shape;
    shape.first = o_.shortlist_first;
    shape.best = o_.shortlist_best;
    shape.shared = source == target;
    string why;
    if (!shortlist_.parse(static_cast<const char*>(file.data()), file.bytes(), source, target,
                          shape, &why))
      return data_error("%s: %s", o_.shortlist, why.c_str()), false;
    if (shortlist_.unknown() != 0 && !o_.quiet)
      note("%s: %s of %s tokens are not the model's", o_.shortlist,
           grouped(shortlist_.unknown()).c_str(), grouped(shortlist_.pieces()).c_str());
    shortlist_.always(e_.target.end, e_.target.end_count);
    shortlist_.always(o_.end.values.data(), o_.end.values.size());
    const uint32_t more[] = {e_.target.unknown, e_.target.start};
    for (const uint32_t id : more)
      if (id != PHASOR_NONE) shortlist_.always(&id, 1);
    return true;
  }

  bool start() {
    phasor_limits limits = default_limits(e_, o_);
    make_room_for_ids(&limits, e_, o_);
    make_text_room(&limits, longest_argument(o_));
    make_text_room(&limits, o_.prefix != nullptr ? strlen(o_.prefix) : 0);
    for (const char* stop : o_.stop) make_text_room(&limits, strlen(stop));
    if (capture_.wants_attention() || aligner_.wanted()) limits.outputs |= PHASOR_WANT_ATTENTION;
    room_for_generation(o_, e_, &limits);
    if (o_.batch > 1) {
      limits.sequences = o_.batch + (aligner_.wanted() ? 1 : 0);  // the last one to look again
      limits.searches = beams_.wanted() ? uint32_t{o_.batch} : 0;
      (limits.best_rows != 0 ? limits.best_rows : limits.logit_rows) = o_.batch;
      const uint32_t rows = o_.batch * std::max(limits.beams, 1u);
      limits.chunk = std::max(limits.chunk, std::min(rows, 64u));
    }
    if (o_.shortlist != nullptr) limits.outputs |= PHASOR_WANT_SHORTLIST;
    if (!e_.start(limits)) return false;
    if (o_.shortlist != nullptr) e_.use(&shortlist_);
    return true;
  }

  bool make_prefix() {
    string why;
    prefix_ = o_.prefix_ids.values;
    if (o_.prefix != nullptr && !text_ids(e_, PHASOR_TARGET, false, o_.prefix, &prefix_, &why))
      return data_error("--prefix: %s", why.c_str()), false;
    return known_ids("--prefix-ids", prefix_, e_.target);
  }

  // False after an error, which has been printed.
  bool one(const Input& input) {
    ++number_;
    TokenIds ids;
    string why = input.error;
    line_.clear();
    shown_ = 0;
    result_ = PHASOR_GENERATION_INIT;
    beams_.take(nullptr, 0, {}, 0);  // none of the line before
    alignment_ = Alignment();
    out_.resize(capacity_);
    seconds_ = 0;
    bool ok = why.empty() && prepare(input, &ids, &why);
    vector<TokenIds> parts;
    if (!ok && o_.split != 0 && ids.size() > e_.limits.source) ok = split(input.text, &parts, &why);
    if (ok && o_.load_state != nullptr && !load(&ids)) return false;
    const bool nothing =
        e_.has_source() && (input.is_ids ? ids.empty() && o_.ids.from_input
                                         : input.text.find_first_not_of(" \t") == string::npos);
    ok = ok && (nothing || (parts.empty() ? generate(ids, &why) : generate_parts(parts, &why)));
    if (!ok) return bad(input.where, why), false;
    if (o_.json)
      print_json(ids.size());
    else if (aligner_.wanted() && !beams_.wanted() && o_.samples == 0 && !nothing)
      output("\t" + pairs_text(alignment_));
    output("\n");
    if (nothing) empty_samples();
    output_flush();
    tokens_ += made();
    total_seconds_ += seconds_;
    all_.steps += result_.steps;
    all_.proposed += result_.proposed;
    all_.accepted += result_.accepted;
    if (!e_.going_on()) return false;  // the files stay as they were
    if (state_.is_open() && !save()) return false;
    if (!capture_.wanted()) return true;
    if (nothing)
      data_error("%s: no text, expected some for --logits, --hidden and --attention",
                 input.where.c_str());
    return !nothing && replay(ids);
  }

  // Line number_ is bad: its error, and its place in the output.
  void bad(const string& where, const string& why) {
    status_ = bad_line(e_, o_, where, number_, why);
    empty_samples();
  }

  // Each line of input has the same number of lines, also where nothing is drawn.
  void empty_samples() const {
    for (uint32_t i = 1; i < o_.samples && !o_.json; ++i) output("\n");
  }

  // Tokens of this line's output, or of all of --samples.
  size_t made() {
    if (o_.samples == 0) return result_.count;
    size_t all = 0;
    for (const Output& one : beams_.outputs()) all += one.ids.size();
    return all;
  }

  bool prepare(const Input& input, TokenIds* ids, string* why) {
    const size_t room = e_.has_source() ? e_.limits.source : e_.limits.target;
    *ids = input.ids;
    if (!input.is_ids && !e_.hold_text(input.text.size(), why)) return false;
    if (!input.is_ids &&
        !text_ids(e_, e_.input_side(), o_.load_state == nullptr, input.text, ids, why))
      return false;
    if (ids->size() <= room || (!e_.has_source() && o_.keep.given)) return true;
    *why = no_room(ids->size(), room, e_.has_source() ? "--source" : "--context");
    return false;
  }

  // The ids of each sentence of a text that is too long.
  bool split(const string& text, vector<TokenIds>* parts, string* why) {
    size_t from = 0;
    for (const size_t end : sentence_ends(text)) {
      string sentence = text.substr(from, end - from);
      from = end;
      sentence.erase(sentence.find_last_not_of(" \t\r\n") + 1);
      if (sentence.empty()) continue;
      parts->emplace_back();
      if (!text_ids(e_, PHASOR_SOURCE, true, sentence, &parts->back(), why)) return false;
      const size_t count = parts->back().size();
      if (count <= e_.limits.source) continue;
      *why = format("sentence %zu: ", parts->size()) + no_room(count, e_.limits.source, "--source");
      return false;
    }
    why->clear();
    return true;
  }

  // One after the other; their texts with a space between, their ids as one list.
  bool generate_parts(const vector<TokenIds>& parts, string* why) {
    string text;
    TokenIds ids;
    phasor_generation all = PHASOR_GENERATION_INIT;
    double seconds = 0;
    for (const TokenIds& part : parts) {
      const bool more = &part != &parts[0];
      const bool by_id = e_.target.has_tokenizer == 0 || o_.print_ids;
      if (more && !o_.json && !(by_id && !beams_.wanted())) (void)stream(by_id ? "," : " ");
      line_.clear();
      if (!generate(part, why)) return false;
      text += (more ? " " : "") + line_;
      ids.insert(ids.end(), out_.data(), out_.data() + result_.count);
      all.count += result_.count;
      all.steps += result_.steps;
      all.finish = result_.finish;
      seconds += seconds_;
      out_.resize(capacity_);
      if (!e_.going_on()) break;
    }
    line_ = text;
    out_ = ids;
    result_ = all;
    seconds_ = seconds;
    return true;
  }

  bool generate(const TokenIds& ids, string* why) {
    options_.forced = prefix_.data();
    options_.forced_count = count_of(prefix_);
    options_.source = ids.data();
    options_.source_count = count_of(ids);
    options_.token = &on_token;
    options_.text = e_.target.has_tokenizer && (o_.json || !o_.print_ids) ? &on_text : nullptr;
    options_.user = this;
    options_.seed = seed_of(seed_, number_, 0);
    options_.reuse = o_.load_state != nullptr ? 1 : 0;
    const double start = now();
    phasor_status status = PHASOR_OK;
    if (e_.has_source())
      status = e_.encode(ids);
    else if (o_.load_state == nullptr)
      status = phasor_sequence_clear(e_.session, 0);
    if (!e_.done(status, why)) return false;
    const TokenIds prompt = e_.has_source() ? TokenIds() : ids;
    bool ok = false;
    if (beams_.wanted()) {
      ok = beams_.search(prompt, options_, why) && align_outputs(0, ids, why);
      if (ok) take_outputs();
    } else if (o_.samples != 0) {
      ok = draw_samples(ids, prompt, why);
    } else {
      ok = e_.done(phasor_generate(e_.session, 0, prompt.data(), count_of(prompt), out_.data(),
                                   count_of(out_), &options_, &result_, &e_.error),
                   why) &&
           align_tokens(0, ids, prompt, why);
    }
    seconds_ = now() - start;
    return ok;
  }

  // --samples, one after the other: the source and the prompt stay in the cache.
  bool draw_samples(const TokenIds& source, const TokenIds& prompt, string* why) {
    options_.token = nullptr;
    options_.text = nullptr;
    phasor_generation sum = PHASOR_GENERATION_INIT;
    for (uint32_t i = 0; i < o_.samples && e_.going_on(); ++i) {
      options_.seed = seed_of(seed_, number_, i);
      if (i != 0) options_.reuse = 1;
      if (!e_.done(phasor_generate(e_.session, 0, prompt.data(), count_of(prompt), out_.data(),
                                   count_of(out_), &options_, &result_, &e_.error),
                   why))
        return false;
      add_sample({out_.data(), out_.data() + result_.count}, result_.finish, prompt, i);
      sum.steps += result_.steps;
      sum.proposed += result_.proposed;
      sum.accepted += result_.accepted;
      sum.slides += result_.slides;
    }
    result_ = sum;
    return take_samples(0, source, why);
  }

  void add_sample(const TokenIds& ids, uint32_t finish, const TokenIds& prompt, uint32_t sample) {
    Output one;
    one.ids = ids;
    one.finish = finish;
    one.text = beams_.text_of(prompt, one, options_.forced_count);
    one.seed = seed_of(seed_, number_, sample);
    beams_.outputs().push_back(one);
  }

  // The first sample is the line's; all are printed.
  bool take_samples(uint32_t sequence, const TokenIds& source, string* why) {
    if (!align_outputs(sequence, source, why)) return false;
    options_.seed = seed_of(seed_, number_, 0);
    take_first();
    return true;
  }

  // --align, of what a search has found, or of --samples.
  bool align_outputs(uint32_t sequence, const TokenIds& source, string* why) {
    for (Output& one : beams_.outputs())
      if (aligner_.wanted() && !aligner_.align(sequence, source, one.text, &one, why)) return false;
    return true;
  }
  // The same of the tokens in out_.
  bool align_tokens(uint32_t sequence, const TokenIds& source, const TokenIds& prompt,
                    string* why) {
    if (!aligner_.wanted()) return true;
    Output one;
    one.ids.assign(out_.data(), out_.data() + result_.count);
    one.finish = result_.finish;
    one.text = beams_.text_of(prompt, one, options_.forced_count);
    const bool ok = aligner_.align(sequence, source, one.text, &one, why);
    alignment_ = one.alignment;
    return ok;
  }

  // ---- lines side by side

  struct Line {
    uint64_t number = 0;
    string where, why;  // why: not empty, the line is bad
    TokenIds ids, out;
    vector<phasor_hypothesis> outputs;  // --beam
    phasor_job job = PHASOR_JOB_INIT;
    double entered = 0, seconds = 0;
    bool done = false;
    bool goes_on = false;     // --split, --samples: the next one is of the same line
    uint32_t sample = 0;      // --samples: which
    size_t input_tokens = 0;  // of the whole line
  };
  using Lines = std::deque<Line>;

  // Lines enter as others are over, and are printed in their order. So many wait to be printed that
  // one long line does not keep the others from running.
  void batches(Inputs* inputs) {
    constexpr size_t kWaiting = 8;  // for each that runs
    Lines lines;
    Input input;
    bool held = false, more = true;
    options_.forced = prefix_.data();
    options_.forced_count = count_of(prefix_);
    while (e_.going_on()) {
      size_t running = 0;
      for (const Line& line : lines) running += line.done ? 0 : 1;
      while (more && running < o_.batch && lines.size() < kWaiting * o_.batch + o_.samples) {
        if (!held) more = inputs->next(&input);
        held = more && running != 0 && !input.is_ids &&
               input.text.size() + e_.prompt.size() > e_.limits.text_bytes;
        if (!more || held) break;  // a larger arena has nothing of what runs
        running += enter(input, &lines);
      }
      print_done(&lines);
      if (running == 0 && !more) return;
      if (running != 0 && !advance(&lines)) return;
    }
  }

  // The line, or its sentences or samples; how many run.
  size_t enter(const Input& input, Lines* lines) {
    lines->emplace_back();
    Line* line = &lines->back();
    line->number = ++lines_;
    line->where = input.where;
    line->why = input.error;
    line->entered = now();
    const phasor_side& side = e_.has_source() ? e_.source : e_.target;
    vector<TokenIds> parts;
    bool ok = line->why.empty() && prepare(input, &line->ids, &line->why);
    line->input_tokens = line->ids.size();
    if (!ok && o_.split != 0 && line->ids.size() > e_.limits.source)
      ok = split(input.text, &parts, &line->why);
    if (!parts.empty()) line->ids = parts[0];
    ok = ok && known_ids(line->ids, side, &line->why);
    const bool nothing =
        e_.has_source() && (input.is_ids ? line->ids.empty() && o_.ids.from_input
                                         : input.text.find_first_not_of(" \t") == string::npos);
    line->done = !ok || nothing;
    make_job(line);
    if (line->done) return 0;
    const size_t all = std::max({parts.size(), static_cast<size_t>(o_.samples), size_t{1}});
    for (size_t i = 1; i < all; ++i) {
      Line next;
      next.number = line->number;
      next.where = line->where;
      next.entered = line->entered;
      next.ids = parts.empty() ? lines->back().ids : parts[i];
      next.sample = parts.empty() ? static_cast<uint32_t>(i) : 0;
      make_job(&next);
      lines->back().goes_on = true;
      lines->push_back(next);
    }
    return all;
  }

  void make_job(Line* line) const {
    const size_t outputs = beams_.wanted() ? beams_.n_best() : 1;
    line->out.resize(line->done ? 0 : outputs * capacity_);
    if (beams_.wanted()) line->outputs.resize(outputs, sized<phasor_hypothesis>());
    line->job.count = count_of(line->ids);
    line->job.capacity = line->done ? 0 : static_cast<uint32_t>(capacity_);
    line->job.n_best = count_of(line->outputs);
    phasor_random_seed(&line->job.random, seed_of(seed_, line->number, line->sample));
  }

  phasor_status step(uint32_t* left) {
    const uint32_t count = count_of(jobs_);
    if (!beams_.wanted())
      return phasor_jobs_step(e_.session, jobs_.data(), count, &options_, left, &e_.error);
    const phasor_beam_options search = beams_.options(options_);
    return phasor_beam_jobs_step(e_.session, jobs_.data(), count, &search, left, &e_.error);
  }

  // A step of all that run. False after an error, which has been printed.
  bool advance(Lines* lines) {
    jobs_.clear();
    for (Line& line : *lines) {
      if (line.done) continue;
      line.job.ids = line.ids.data();
      line.job.out = line.out.data();
      line.job.outputs = line.outputs.data();
      jobs_.push_back(line.job);
    }
    uint32_t left = 0;
    const double begin = now();
    e_.error.text[0] = 0;
    const phasor_status status = step(&left);
    total_seconds_ += now() - begin;
    ++all_.steps;
    if (status != PHASOR_OK) return status_ = 1, e_.fail();
    size_t at = 0;
    for (Line& line : *lines) {
      if (line.done) continue;
      line.job = jobs_[at++];
      line.done = line.job.finish != 0 || line.job.status != PHASOR_OK;
      line.seconds = now() - line.entered;
      if (line.job.status != PHASOR_OK)
        line.why = e_.error.text[0] != 0
                       ? e_.error.text
                       : phasor_status_name(static_cast<phasor_status>(line.job.status));
    }
    return true;
  }

  void print_done(Lines* lines) {
    for (size_t parts = 0; !output_failed() && (parts = done_parts(*lines)) != 0;
         lines->erase(lines->begin(), lines->begin() + static_cast<std::ptrdiff_t>(parts))) {
      Line& line = lines->front();
      number_ = line.number;
      if (o_.samples != 0) {
        print_samples(*lines, parts);
        continue;
      }
      if (parts > 1) {
        print_parts(*lines, parts);
        continue;
      }
      if (!line.why.empty()) {
        status_ = bad_line(e_, o_, line.where, line.number, line.why);
        continue;
      }
      out_ = line.out;
      out_.resize(line.job.made);  // for --json
      result_ = PHASOR_GENERATION_INIT;
      result_.count = line.job.made;
      result_.finish = line.job.finish;
      seconds_ = line.seconds;
      options_.seed = seed_of(seed_, number_, 0);
      const TokenIds prompt = e_.has_source() ? TokenIds() : line.ids;
      if (beams_.wanted()) {
        line_.clear();
        beams_.take(line.outputs.data(), line.job.found, prompt, options_.forced_count);
      }
      alignment_ = Alignment();
      if (!(beams_.wanted() ? align_outputs(o_.batch, line.ids, &line.why)
                            : align_tokens(o_.batch, line.ids, prompt, &line.why))) {
        status_ = bad_line(e_, o_, line.where, line.number, line.why);
        continue;
      }
      if (beams_.wanted()) {
        take_outputs();
      } else {
        Output one;
        one.ids = out_;
        one.finish = line.job.finish;
        line_ = beams_.text_of(prompt, one, options_.forced_count);
      }
      if (o_.json)
        print_json(line.ids.size());
      else if (!beams_.wanted())
        output((e_.target.has_tokenizer != 0 && !o_.print_ids ? line_ : join(out_)) +
               (aligner_.wanted() && line.job.finish != 0 ? '\t' + pairs_text(alignment_) : ""));
      output("\n");
      tokens_ += line.job.made;
    }
    output_flush();
    tell();
  }

  // Of the first line: 1, or how many sentences it has; 0 where something of it still runs.
  static size_t done_parts(const Lines& lines) {
    size_t parts = 0;
    bool more = !lines.empty();
    while (more && lines[parts].done) more = lines[parts++].goes_on;
    return more ? 0 : parts;
  }

  // A line's samples, or none where it is empty or bad: as draw_samples has them.
  void print_samples(const Lines& lines, size_t parts) {
    const Line& first = lines.front();
    const TokenIds prompt = e_.has_source() ? TokenIds() : first.ids;
    beams_.take(nullptr, 0, {}, 0);
    line_.clear();
    result_ = PHASOR_GENERATION_INIT;
    options_.seed = seed_of(seed_, number_, 0);
    seconds_ = 0;
    string why;
    for (size_t i = 0; i < parts && why.empty(); ++i) {
      const Line& line = lines[i];
      why = line.why;
      if (line.job.finish != 0)
        add_sample({line.out.data(), line.out.data() + line.job.made}, line.job.finish, prompt,
                   line.sample);
      seconds_ = std::max(seconds_, line.seconds);
    }
    const bool nothing = beams_.outputs().empty();
    if (!why.empty() || (!nothing && !take_samples(o_.batch, first.ids, &why))) {
      bad(first.where, why);
      return;
    }
    if (o_.json) print_json(first.input_tokens);
    output("\n");
    if (nothing) empty_samples();
    tokens_ += made();
  }

  // A line of several sentences: as generate_parts joins them.
  void print_parts(const Lines& lines, size_t parts) {
    const bool by_id = e_.target.has_tokenizer == 0 || o_.print_ids;
    line_.clear();
    out_.clear();
    result_ = PHASOR_GENERATION_INIT;
    seconds_ = 0;
    options_.seed = seed_of(seed_, number_, 0);
    for (size_t i = 0; i < parts; ++i) {
      const Line& line = lines[i];
      if (!line.why.empty()) {
        status_ = bad_line(e_, o_, line.where, line.number, line.why);
        return;
      }
      Output one;
      if (beams_.wanted()) {
        beams_.take(line.outputs.data(), line.job.found, {}, options_.forced_count);
        if (!beams_.outputs().empty()) one = beams_.outputs()[0];
      } else {
        one.ids.assign(line.out.data(), line.out.data() + line.job.made);
        one.finish = line.job.finish;
        one.text = beams_.text_of({}, one, options_.forced_count);
      }
      line_ += (i != 0 ? " " : "") + one.text;
      out_.insert(out_.end(), one.ids.begin(), one.ids.end());
      result_.finish = one.finish;
      seconds_ = std::max(seconds_, line.seconds);
    }
    result_.count = count_of(out_);
    if (o_.json)
      print_json(lines.front().input_tokens);
    else
      output(by_id ? join(out_) : line_);
    output("\n");
    tokens_ += result_.count;
  }

  // The best output is the line's; all that were asked for are printed.
  void take_outputs() {
    result_.steps = beams_.steps();
    take_first();
  }

  void take_first() {
    if (!beams_.outputs().empty()) {
      const Output& first = beams_.outputs()[0];
      out_ = first.ids;
      line_ = first.text;
      result_.count = count_of(first.ids);
      result_.finish = first.finish;
    }
    if (!o_.json) output(beams_.lines());
  }

  static int on_token(void* self, uint32_t id, uint32_t) {
    Runner* r = static_cast<Runner*>(self);
    if (r->o_.json || r->options_.text != nullptr) return 0;
    return stream((r->shown_++ != 0 ? "," : "") + std::to_string(id));
  }

  static int on_text(void* self, const char* text, size_t bytes) {
    Runner* r = static_cast<Runner*>(self);
    if (!r->o_.json) return stream({text, bytes});
    r->line_.append(text, bytes);
    return 0;
  }

  // What was saved goes before the ids of the text.
  bool load(TokenIds* ids) {
    ReadFile file;
    if (!file.open(o_.load_state, Load::copy, "a saved state")) return false;
    if (phasor_state_restore(e_.session, 0, file.data(), file.bytes(), &e_.error) != PHASOR_OK)
      return data_error("%s: %s", o_.load_state, e_.error.text), false;
    const uint32_t* had = phasor_sequence_ids(e_.session, 0);
    ids->insert(ids->begin(), had, had + phasor_sequence_length(e_.session, 0));
    return true;
  }

  // The last token has not entered the sequence yet.
  bool save() {
    if (result_.count != 0 && e_.step(&out_[result_.count - 1], 1, PHASOR_LOGITS_NONE) != PHASOR_OK)
      return data_error("%s: %s (--context)", o_.save_state, e_.error.text), false;
    size_t need = 0;
    (void)phasor_state_size(e_.session, 0, &need);
    vector<unsigned char> state(need);
    (void)phasor_state_save(e_.session, 0, state.data(), need);
    return state_.write(state.data(), need) && state_.finish();
  }

  // At most five times a second.
  void tell() {
    const double time = now();
    if (o_.quiet || time - told_ < 0.2) return;
    told_ = time;
    progress(grouped(number_) + " line" + plural(number_) + ", " + grouped(tokens_) + " tokens");
  }

  void figures() const {
    print_figures(e_, "line", number_, tokens_, total_seconds_);
    if (o_.lookahead.given)
      note("lookahead: %u of %u guesses right, %u steps, %.2f tokens a step", all_.accepted,
           all_.proposed, all_.steps,
           all_.steps != 0 ? static_cast<double>(tokens_) / all_.steps : 0.0);
  }

  void print_json(size_t source_tokens) {
    Json json;
    json.open('{').add("line", number_);
    if (e_.target.has_tokenizer) json.add("text", line_);
    json.add("ids", TokenIds(out_.data(), out_.data() + result_.count))
        .add("finish", finish_name(result_.finish))
        .add("input_tokens", source_tokens)
        .add("tokens", made())
        .add("seconds", seconds_)
        .add("tokens_per_second", seconds_ > 0 ? static_cast<double>(made()) / seconds_ : 0);
    if (options_.temperature > 0) json.add("seed", options_.seed);
    if (o_.lookahead.given)
      json.add("steps", result_.steps)
          .add("proposed", result_.proposed)
          .add("accepted", result_.accepted);
    if (o_.keep.given) json.add("slides", result_.slides);
    if (aligner_.wanted() && !beams_.wanted() && o_.samples == 0) add_alignment(&json, alignment_);
    if (o_.samples != 0) beams_.add_outputs(&json);
    if (beams_.wanted()) {
      json.add("beams", o_.beam.value);
      if (o_.batch < 2) json.add("steps", result_.steps);
      beams_.add_outputs(&json);
    }
    json.add("arena_bytes", e_.arena_bytes)
        .add("isa", phasor_model_isa(e_.model))
        .add("threads", e_.limits.threads)
        .close('}');
    output(json.str());
  }

  // What the decoder read: the start token or the prompt, and the output but for its last token.
  bool replay(const TokenIds& ids) {
    TokenIds target = e_.has_source() ? TokenIds() : ids;
    if (target.empty()) target.push_back(e_.start_id());
    for (uint32_t i = 0; i + 1 < result_.count; ++i) target.push_back(out_[i]);
    return capture_.replay(e_, e_.has_source() ? ids : TokenIds(), target);
  }

  const Options& o_;
  Engine e_;
  Beams beams_;
  Capture capture_;
  Aligner aligner_;
  Shortlist shortlist_;
  Alignment alignment_;  // of this line
  TokenIds prefix_, out_;
  phasor_generate_options options_ = PHASOR_GENERATE_OPTIONS_INIT;
  NewFile state_;
  string line_;  // --json: the text of this line
  // of this line; sums
  phasor_generation result_ = PHASOR_GENERATION_INIT, all_ = PHASOR_GENERATION_INIT;
  uint64_t seed_ = 0;  // of the first line
  uint64_t number_ = 0, tokens_ = 0;
  size_t capacity_ = 0;      // new tokens of a line
  uint64_t lines_ = 0;       // --batch: lines read
  vector<phasor_job> jobs_;  // --batch: those that run
  uint32_t shown_ = 0;       // ids printed on this line
  double seconds_ = 0, total_seconds_ = 0;
  double told_ = now();  // when the progress was shown
  int status_ = 0;
};

}  // namespace

int run(const Options& options) { return Runner(options).run(); }

}  // namespace cli
