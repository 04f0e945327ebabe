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
#include "text.h"

namespace cli {
namespace {

const char* finish_name(uint32_t finish) {
  static const char* const names[] = {"empty", "end", "length", "stopped", "stop string"};
  return names[finish];
}

class Runner {
 public:
  explicit Runner(const Options& options) : o_(options), beams_(e_, options) {}
  int run();

 private:
  int check_options() const;
  bool start();
  bool make_prefix();
  void one(const Input& input);
  bool going_on() const { return !output_failed() && e_.file.unchanged(); }
  bool prepare(const Input& input, std::vector<uint32_t>* ids, std::string* error);
  bool generate(const std::vector<uint32_t>& ids, std::string* error);
  bool take_output();
  static int on_token(void* self, uint32_t id, uint32_t position);
  static int on_text(void* self, const char* text, size_t bytes);
  bool load(std::vector<uint32_t>* ids);
  bool save();
  void figures() const;
  void bad_line(const Input& input, const std::string& error);
  void json_line(const Input& input, size_t source_tokens);
  void json_outputs(Json* json) const;
  bool replay(const std::vector<uint32_t>& ids);

  const Options& o_;
  Engine e_;
  Beams beams_;
  Capture capture_;
  std::vector<uint32_t> prefix_, out_;
  phasor_generate_options options_ = PHASOR_GENERATE_OPTIONS_INIT;
  NewFile state_;
  std::string line_;  // --json: the text of this line
  // of this line; sums
  phasor_generation result_ = PHASOR_GENERATION_INIT, all_ = PHASOR_GENERATION_INIT;
  uint64_t seed_ = 0;  // of the first line
  uint64_t number_ = 0, tokens_ = 0;
  uint32_t shown_ = 0;  // ids printed on this line
  double seconds_ = 0, total_seconds_ = 0;
  int status_ = 0;
};

int Runner::check_options() const {
  if (o_.ids.given && !o_.texts.empty())
    return usage_error("--ids: expected either ids or text, not both");
  if (o_.prefix != nullptr && o_.prefix_ids.given)
    return usage_error("--prefix: expected either --prefix or --prefix-ids, not both");
  if (o_.hidden_decoder != nullptr && e_.stack == PHASOR_DECODER)
    return usage_error(
        "--hidden-decoder: for an encoder-decoder; this model is a decoder, --hidden has its "
        "residuals");
  if ((o_.save_state != nullptr || o_.load_state != nullptr) && e_.has_source())
    return usage_error(
        "--save-state, --load-state: for a decoder; this model is an encoder-decoder");
  const bool arrays = o_.logits != nullptr || o_.hidden != nullptr ||
                      o_.hidden_decoder != nullptr || o_.attention != nullptr;
  if (arrays && (o_.keep.given || o_.load_state != nullptr))
    return usage_error(
        "--keep, --load-state: the arrays of --logits, --hidden and --attention cover one whole "
        "context");
  if (o_.source != 0 && !e_.has_source())
    return usage_error("--source: this model is a decoder and has no source");
  return 0;
}

bool Runner::start() {
  phasor_limits limits = default_limits(e_, o_);
  if (o_.ids.given && e_.has_source() && o_.source == 0)
    limits.source = room_for(limits.source, o_.ids.values.size(), e_.source);
  if (o_.ids.given && !e_.has_source() && o_.context == 0)
    limits.target = room_for(limits.target, o_.ids.values.size() + 1, e_.target);
  make_text_room(&limits, longest_argument(o_));
  make_text_room(&limits, o_.prefix != nullptr ? strlen(o_.prefix) : 0);
  for (const char* stop : o_.stop) make_text_room(&limits, strlen(stop));
  if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
  room_for_generation(o_, &limits);
  return e_.start(limits);
}

bool Runner::make_prefix() {
  std::string error;
  prefix_ = o_.prefix_ids.values;
  if (o_.prefix != nullptr &&
      !text_ids(e_, PHASOR_TARGET, false, o_.prefix, strlen(o_.prefix), &prefix_, &error))
    return data_error("--prefix: %s", error.c_str()), false;
  for (uint32_t id : prefix_)
    if (id >= e_.target.vocabulary)
      return data_error("--prefix-ids: token id %u, the vocabulary has %u", id,
                        e_.target.vocabulary),
             false;
  return true;
}

int Runner::run() {
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
  if (options_.temperature > 0) {
    seed_ = first_seed(o_);
    if (!o_.quiet) fprintf(stderr, "phasor: seed %llu\n", static_cast<unsigned long long>(seed_));
  }
  Inputs inputs(o_, e_.stack == PHASOR_DECODER, e_.limits.text_bytes);
  if (!capture_.wanted() && !state_.is_open()) {
    for (Input input; going_on() && inputs.next(&input);) one(input);
  } else {
    Input input, second;
    const bool one_line = inputs.next(&input) && !inputs.next(&second);
    if (inputs.failed()) return 1;
    if (!one_line)
      return usage_error(
          "--logits, --hidden, --attention and --save-state: expected exactly one line of input");
    one(input);
  }
  if (inputs.failed() || !going_on()) return 1;
  if (status_ == 0 && !o_.quiet) figures();
  return status_;
}

void Runner::one(const Input& input) {
  ++number_;
  std::vector<uint32_t> ids;
  std::string error = input.error;
  line_.clear();
  shown_ = 0;
  result_ = PHASOR_GENERATION_INIT;
  seconds_ = 0;
  if (!error.empty() || !prepare(input, &ids, &error)) return bad_line(input, error);
  if (o_.load_state != nullptr && !load(&ids)) {
    status_ = 1;
    return;
  }
  const bool nothing =
      e_.has_source() && (input.is_ids ? ids.empty() && o_.ids.from_input
                                       : input.text.find_first_not_of(" \t") == std::string::npos);
  if (!nothing) {
    if (!generate(ids, &error)) return bad_line(input, error);
  }
  if (o_.json) json_line(input, ids.size());
  output("\n", 1);
  output_flush();
  tokens_ += result_.count;
  total_seconds_ += seconds_;
  all_.steps += result_.steps;
  all_.proposed += result_.proposed;
  all_.accepted += result_.accepted;
  if (!going_on()) return;  // the files stay as they were
  if (state_.is_open() && !save()) {
    status_ = 1;
    return;
  }
  if (capture_.wanted() && (nothing || !replay(ids))) {
    if (nothing)
      data_error("%s: no text, expected some for --logits, --hidden and --attention",
                 input.where.c_str());
    status_ = 1;
    return;
  }
  const bool whole = going_on() && capture_.commit() && (!state_.is_open() || state_.commit());
  if (!whole) status_ = 1;
}

bool Runner::prepare(const Input& input, std::vector<uint32_t>* ids, std::string* error) {
  const uint32_t side = e_.has_source() ? PHASOR_SOURCE : PHASOR_TARGET;
  const uint32_t room = e_.has_source() ? e_.limits.source : e_.limits.target;
  if (input.is_ids)
    *ids = input.ids;
  else if (!text_ids(e_, side, o_.load_state == nullptr, input.text.data(), input.text.size(), ids,
                     error))
    return false;
  if (ids->size() > room && (e_.has_source() || !o_.keep.given)) {
    *error = std::to_string(ids->size()) + " tokens, there is room for " + std::to_string(room) +
             (e_.has_source() ? " (--source)" : " (--context)");
    return false;
  }
  return true;
}

// What was saved goes before the ids of the text.
bool Runner::load(std::vector<uint32_t>* ids) {
  ReadFile file;
  phasor_error error = PHASOR_ERROR_INIT;
  if (!file.open(o_.load_state, Load::copy, "a saved state")) return false;
  if (phasor_state_restore(e_.session, 0, file.data(), file.bytes(), &error) != PHASOR_OK)
    return data_error("%s: %s", o_.load_state, error.text), false;
  const uint32_t* had = phasor_sequence_ids(e_.session, 0);
  ids->insert(ids->begin(), had, had + phasor_sequence_length(e_.session, 0));
  return true;
}

// The last token has not entered the sequence yet.
bool Runner::save() {
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_item item = {sizeof(phasor_item),      0,       1,       PHASOR_LOGITS_NONE,
                            &out_[result_.count - 1], nullptr, nullptr, nullptr};
  if (result_.count != 0 && phasor_step(e_.session, &item, 1, &error) != PHASOR_OK)
    return data_error("%s: %s (--context)", o_.save_state, error.text), false;
  size_t need = 0;
  (void)phasor_state_size(e_.session, 0, &need);
  std::vector<unsigned char> state(need);
  (void)phasor_state_save(e_.session, 0, state.data(), need);
  return state_.write(state.data(), need) && state_.finish();
}

bool Runner::generate(const std::vector<uint32_t>& ids, std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_generate_options& options = options_;
  options.forced = prefix_.data();
  options.forced_count = static_cast<uint32_t>(prefix_.size());
  options.token = &on_token;
  options.text = e_.target.has_tokenizer && (o_.json || !o_.print_ids) ? &on_text : nullptr;
  options.user = this;
  options.seed = seed_ + (number_ - 1);
  options.reuse = o_.load_state != nullptr ? 1 : 0;
  const uint32_t count = static_cast<uint32_t>(ids.size());
  const double start = now();
  phasor_status status =
      o_.load_state != nullptr ? PHASOR_OK : phasor_sequence_clear(e_.session, 0);
  const phasor_item item = {sizeof(phasor_item), 0,       count,   PHASOR_LOGITS_NONE,
                            ids.data(),          nullptr, nullptr, nullptr};
  if (e_.has_source()) status = phasor_encode(e_.session, &item, 1, &error);
  if (status == PHASOR_OK && beams_.wanted()) {
    const bool found = beams_.search(e_.has_source() ? std::vector<uint32_t>() : ids, options, why);
    seconds_ = now() - start;
    return found && take_output();
  }
  if (status == PHASOR_OK)
    status = phasor_generate(e_.session, 0, e_.has_source() ? nullptr : ids.data(),
                             e_.has_source() ? 0 : count, out_.data(),
                             static_cast<uint32_t>(out_.size()), &options, &result_, &error);
  seconds_ = now() - start;
  if (status != PHASOR_OK) *why = error.text;
  return status == PHASOR_OK;
}

// The best output is the line's; all that were asked for are printed.
bool Runner::take_output() {
  result_.steps = beams_.steps();
  if (!beams_.outputs().empty()) {
    const Output& best = beams_.outputs()[0];
    out_ = best.ids;
    line_ = best.text;
    result_.count = static_cast<uint32_t>(best.ids.size());
    result_.finish = best.finish;
  }
  const std::string lines = beams_.lines();
  if (!o_.json) output(lines.data(), lines.size());
  return true;
}

int Runner::on_token(void* self, uint32_t id, uint32_t) {
  Runner* r = static_cast<Runner*>(self);
  r->e_.count_token();
  if (r->o_.json || r->options_.text != nullptr) return 0;
  output((r->shown_++ != 0 ? "," : "") + std::to_string(id));
  output_flush();
  return output_failed() ? 1 : 0;
}

int Runner::on_text(void* self, const char* text, size_t bytes) {
  Runner* r = static_cast<Runner*>(self);
  if (r->o_.json) {
    r->line_.append(text, bytes);
    return 0;
  }
  output(text, bytes);
  output_flush();
  return output_failed() ? 1 : 0;
}

void Runner::figures() const {
  print_figures(e_, "line", number_, tokens_, total_seconds_);
  if (o_.lookahead.given)
    fprintf(stderr, "phasor: lookahead: %u of %u guesses right, %u steps, %.2f tokens a step\n",
            all_.accepted, all_.proposed, all_.steps,
            all_.steps != 0 ? static_cast<double>(tokens_) / all_.steps : 0.0);
}

void Runner::bad_line(const Input& input, const std::string& error) {
  if (e_.file.unchanged()) data_error("%s: %s", input.where.c_str(), error.c_str());
  status_ = 1;
  if (o_.json) {
    Json json;
    json.open('{').key("line").number(number_).key("error").text(error.c_str()).close('}');
    output(json.str());
  }
  output("\n", 1);
  output_flush();
}

void Runner::json_line(const Input&, size_t source_tokens) {
  Json json;
  json.open('{').key("line").number(number_);
  if (e_.target.has_tokenizer) json.key("text").text(line_.data(), line_.size());
  json.key("ids").open('[');
  for (uint32_t i = 0; i < result_.count; ++i) json.number(out_[i]);
  json.close(']').key("finish").text(finish_name(result_.finish));
  json.key("input_tokens")
      .number(source_tokens)
      .key("tokens")
      .number(result_.count)
      .key("seconds")
      .real(seconds_);
  json.key("tokens_per_second").real(seconds_ > 0 ? result_.count / seconds_ : 0);
  if (options_.temperature > 0) json.key("seed").number(options_.seed);
  if (o_.lookahead.given)
    json.key("steps")
        .number(result_.steps)
        .key("proposed")
        .number(result_.proposed)
        .key("accepted")
        .number(result_.accepted);
  if (o_.keep.given) json.key("slides").number(result_.slides);
  if (beams_.wanted()) json_outputs(&json);
  json.key("arena_bytes")
      .number(e_.arena_bytes)
      .key("isa")
      .text(phasor_model_isa(e_.model))
      .key("threads")
      .number(e_.limits.threads)
      .close('}');
  output(json.str());
}

void Runner::json_outputs(Json* json) const {
  json->key("beams").number(o_.beam).key("steps").number(result_.steps).key("outputs").open('[');
  for (const Output& one : beams_.outputs()) {
    json->open('{').key("score").real(one.score).key("log_probability").real(one.log_probability);
    if (e_.target.has_tokenizer) json->key("text").text(one.text.data(), one.text.size());
    json->key("ids").open('[');
    for (const uint32_t id : one.ids) json->number(id);
    json->close(']').key("finish").text(finish_name(one.finish)).close('}');
  }
  json->close(']');
}

// What the decoder read: the start token or the prompt, and the output but for its last token.
bool Runner::replay(const std::vector<uint32_t>& ids) {
  std::vector<uint32_t> target;
  if (!e_.has_source()) target = ids;
  if (target.empty()) target.push_back(e_.start_id());
  for (uint32_t i = 0; i + 1 < result_.count; ++i) target.push_back(out_[i]);
  return capture_.replay(e_, e_.has_source() ? ids : std::vector<uint32_t>(), target);
}

}  // namespace

int run(const Options& options) { return std::make_unique<Runner>(options)->run(); }

}  // namespace cli
