// cli: `phasor run`. Generation for each input, greedy unless told otherwise, text streamed as it
// is decoded.
#include <string.h>

#include "beams.h"
#include "capture.h"
#include "commands.h"
#include "engine.h"
#include "input.h"
#include "json.h"
#include "sampling.h"

namespace cli {
namespace {

class Runner {
 public:
  explicit Runner(const Options& options) : o_(options), beams_(e_, options) {}
  int run() {
    if (const int status = check_generation(o_)) return status;
    if (const int status = check_beams(o_)) return status;
    if (!e_.open(o_)) return 1;
    if (e_.stack == PHASOR_ENCODER)
      return data_error("%s: is an encoder, expected a decoder or an encoder-decoder", e_.path);
    if (const int status = check_options()) return status;
    if (!capture_.open(o_) || !start() || !make_prefix() || !generate_options(o_, e_, &options_))
      return 1;
    if (o_.save_state != nullptr && !state_.open(o_.save_state)) return 1;
    out_.resize(options_.max_new != 0 && (options_.max_new < e_.limits.target || o_.keep.given)
                    ? options_.max_new
                    : e_.limits.target);
    if (options_.temperature > 0) seed_ = first_seed(o_);
    Inputs inputs(o_, e_.stack == PHASOR_DECODER, LineReader::kLongest);
    if (!capture_.wanted() && !state_.is_open()) {
      for (Input input; e_.going_on() && inputs.next(&input);)
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
    if (o_.source != 0 && !e_.has_source())
      return usage_error("--source: this model is a decoder and has no source");
    return 0;
  }

  bool start() {
    phasor_limits limits = default_limits(e_, o_);
    make_room_for_ids(&limits, e_, o_);
    make_text_room(&limits, longest_argument(o_));
    make_text_room(&limits, o_.prefix != nullptr ? strlen(o_.prefix) : 0);
    for (const char* stop : o_.stop) make_text_room(&limits, strlen(stop));
    if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
    room_for_generation(o_, e_, &limits);
    return e_.start(limits);
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
    seconds_ = 0;
    bool ok = why.empty() && prepare(input, &ids, &why);
    if (ok && o_.load_state != nullptr && !load(&ids)) return false;
    const bool nothing =
        e_.has_source() && (input.is_ids ? ids.empty() && o_.ids.from_input
                                         : input.text.find_first_not_of(" \t") == string::npos);
    ok = ok && (nothing || generate(ids, &why));
    if (!ok) return bad_line(e_, o_, input.where, number_, why), false;
    if (o_.json) print_json(ids.size());
    output("\n");
    output_flush();
    tokens_ += result_.count;
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

  bool generate(const TokenIds& ids, string* why) {
    options_.forced = prefix_.data();
    options_.forced_count = count_of(prefix_);
    options_.source = ids.data();
    options_.source_count = count_of(ids);
    options_.token = &on_token;
    options_.text = e_.target.has_tokenizer && (o_.json || !o_.print_ids) ? &on_text : nullptr;
    options_.user = this;
    options_.seed = seed_ + (number_ - 1);
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
      ok = beams_.search(prompt, options_, why);
      if (ok) take_outputs();
    } else {
      ok = e_.done(phasor_generate(e_.session, 0, prompt.data(), count_of(prompt), out_.data(),
                                   count_of(out_), &options_, &result_, &e_.error),
                   why);
    }
    seconds_ = now() - start;
    return ok;
  }

  // The best output is the line's; all that were asked for are printed.
  void take_outputs() {
    result_.steps = beams_.steps();
    if (!beams_.outputs().empty()) {
      const Output& best = beams_.outputs()[0];
      out_ = best.ids;
      line_ = best.text;
      result_.count = count_of(best.ids);
      result_.finish = best.finish;
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

  void figures() const {
    print_figures(e_, "line", number_, tokens_, total_seconds_);
    if (o_.lookahead.given)
      note("lookahead: %u of %u guesses right, %u steps, %.2f tokens a step", all_.accepted,
           all_.proposed, all_.steps,
           all_.steps != 0 ? static_cast<double>(tokens_) / all_.steps : 0.0);
  }

  void print_json(size_t source_tokens) const {
    Json json;
    json.open('{').add("line", number_);
    if (e_.target.has_tokenizer) json.add("text", line_);
    json.add("ids", TokenIds(out_.data(), out_.data() + result_.count))
        .add("finish", finish_name(result_.finish))
        .add("input_tokens", source_tokens)
        .add("tokens", result_.count)
        .add("seconds", seconds_)
        .add("tokens_per_second", seconds_ > 0 ? result_.count / seconds_ : 0);
    if (options_.temperature > 0) json.add("seed", options_.seed);
    if (o_.lookahead.given)
      json.add("steps", result_.steps)
          .add("proposed", result_.proposed)
          .add("accepted", result_.accepted);
    if (o_.keep.given) json.add("slides", result_.slides);
    if (beams_.wanted()) {
      json.add("beams", o_.beam.value).add("steps", result_.steps);
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
  TokenIds prefix_, out_;
  phasor_generate_options options_ = PHASOR_GENERATE_OPTIONS_INIT;
  NewFile state_;
  string line_;  // --json: the text of this line
  // of this line; sums
  phasor_generation result_ = PHASOR_GENERATION_INIT, all_ = PHASOR_GENERATION_INIT;
  uint64_t seed_ = 0;  // of the first line
  uint64_t number_ = 0, tokens_ = 0;
  uint32_t shown_ = 0;  // ids printed on this line
  double seconds_ = 0, total_seconds_ = 0;
  int status_ = 0;
};

}  // namespace

int run(const Options& options) { return Runner(options).run(); }

}  // namespace cli
