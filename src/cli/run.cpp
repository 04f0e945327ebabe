// cli: `phasor run`. Greedy generation for each input, text streamed as it is decoded.
#include <string.h>

#include "capture.h"
#include "commands.h"
#include "engine.h"
#include "input.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

const char* finish_name(uint32_t finish) { return finish == PHASOR_FINISH_END ? "end" : finish == PHASOR_FINISH_LENGTH ? "length" : "stopped"; }

class Runner {
 public:
  explicit Runner(const Options& options) : o_(options) {}
  int run();

 private:
  int check_options() const;
  bool start();
  bool make_prefix();
  void one(const Input& input);
  bool prepare(const Input& input, std::vector<uint32_t>* ids, std::string* error);
  bool generate(const std::vector<uint32_t>& ids, std::string* error);
  static int on_token(void* self, uint32_t id, uint32_t position);
  int token(uint32_t id);
  void end_of_text();
  void begin_line(const std::vector<uint32_t>& ids);
  void bad_line(const Input& input, const std::string& error);
  void json_line(const Input& input, size_t source_tokens);
  bool replay(const std::vector<uint32_t>& ids);

  const Options& o_;
  Engine e_;
  Capture capture_;
  std::vector<uint32_t> prefix_, out_;
  std::unique_ptr<Detokenizer> text_;
  std::string line_;             // --json: the text of this line
  phasor_generation result_{};
  uint64_t number_ = 0, tokens_ = 0;
  uint32_t shown_ = 0;           // ids printed on this line
  double seconds_ = 0, total_seconds_ = 0;
  int status_ = 0;
};

int Runner::check_options() const {
  if (o_.ids.given && !o_.texts.empty()) return usage_error("--ids: expected either ids or text, not both");
  if (o_.prefix != nullptr && o_.prefix_ids.given) return usage_error("--prefix: expected either --prefix or --prefix-ids, not both");
  if (o_.hidden_decoder != nullptr && e_.stack == PHASOR_DECODER) return usage_error("--hidden-decoder: for an encoder-decoder; this model is a decoder, --hidden has its residuals");
  if (o_.source != 0 && !e_.has_source()) return usage_error("--source: this model is a decoder and has no source");
  return 0;
}

bool Runner::start() {
  phasor_limits limits = default_limits(e_, o_);
  if (o_.ids.given && e_.has_source() && o_.source == 0) limits.source = room_for(limits.source, o_.ids.values.size(), e_.source);
  if (o_.ids.given && !e_.has_source() && o_.context == 0) limits.target = room_for(limits.target, o_.ids.values.size() + 1, e_.target);
  make_text_room(&limits, longest_argument(o_));
  make_text_room(&limits, o_.prefix != nullptr ? strlen(o_.prefix) : 0);
  if (capture_.wants_attention()) limits.outputs |= PHASOR_WANT_ATTENTION;
  return e_.start(limits);
}

bool Runner::make_prefix() {
  std::string error;
  prefix_ = o_.prefix_ids.values;
  if (o_.prefix != nullptr && !text_ids(e_, PHASOR_TARGET, false, o_.prefix, strlen(o_.prefix), &prefix_, &error))
    return data_error("--prefix: %s", error.c_str()), false;
  for (uint32_t id : prefix_)
    if (id >= e_.target.vocabulary) return data_error("--prefix-ids: token id %u, the vocabulary has %u", id, e_.target.vocabulary), false;
  return true;
}

int Runner::run() {
  if (!e_.open(o_)) return 1;
  if (e_.stack == PHASOR_ENCODER) return data_error("%s: is an encoder, expected a decoder or an encoder-decoder", e_.path);
  if (const int status = check_options()) return status;
  if (!capture_.open(o_) || !start() || !make_prefix()) return 1;
  out_.resize(o_.n != 0 && o_.n < e_.limits.target ? o_.n : e_.limits.target);
  Inputs inputs(o_, e_.stack == PHASOR_DECODER, e_.limits.text_bytes);
  if (!capture_.wanted()) {
    for (Input input; !output_failed() && inputs.next(&input);) one(input);
  } else {
    Input input, second;
    if (!inputs.next(&input) || inputs.next(&second)) return usage_error("--logits, --hidden and --attention: expected exactly one line of input");
    one(input);
  }
  if (inputs.failed() || output_failed()) return 1;
  if (status_ == 0 && !o_.quiet) print_figures(e_, "line", number_, tokens_, total_seconds_);
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
  const bool nothing = e_.has_source() && (input.is_ids ? ids.empty() && o_.ids.from_input : input.text.find_first_not_of(" \t") == std::string::npos);
  if (!nothing) {
    begin_line(ids);
    if (!generate(ids, &error)) return bad_line(input, error);
    end_of_text();
  }
  if (o_.json) json_line(input, ids.size());
  output("\n", 1);
  output_flush();
  tokens_ += result_.count;
  total_seconds_ += seconds_;
  if (capture_.wanted() && (nothing || !replay(ids))) {
    if (nothing) data_error("%s: no text, expected some for --logits, --hidden and --attention", input.where.c_str());
    status_ = 1;
  }
}

bool Runner::prepare(const Input& input, std::vector<uint32_t>* ids, std::string* error) {
  const uint32_t side = e_.has_source() ? PHASOR_SOURCE : PHASOR_TARGET;
  const uint32_t room = e_.has_source() ? e_.limits.source : e_.limits.target;
  if (input.is_ids) *ids = input.ids;
  else if (!text_ids(e_, side, true, input.text.data(), input.text.size(), ids, error)) return false;
  if (ids->size() > room) {
    *error = std::to_string(ids->size()) + " tokens, there is room for " + std::to_string(room) + (e_.has_source() ? " (--source)" : " (--context)");
    return false;
  }
  return true;
}

// A decoder's output goes on in the prompt's text: its first piece may begin with a space.
void Runner::begin_line(const std::vector<uint32_t>& ids) {
  text_ = std::make_unique<Detokenizer>(e_, PHASOR_TARGET);
  if (!e_.has_source() && e_.target.has_tokenizer)
    for (uint32_t id : ids) text_->add(id);
}

bool Runner::generate(const std::vector<uint32_t>& ids, std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.forced = prefix_.data();
  options.forced_count = static_cast<uint32_t>(prefix_.size());
  options.token = &on_token;
  options.user = this;
  const uint32_t count = static_cast<uint32_t>(ids.size());
  const double start = now();
  phasor_status status = phasor_sequence_clear(e_.session, 0);
  const phasor_item item = {sizeof(phasor_item), 0, count, PHASOR_LOGITS_NONE, ids.data(), nullptr, nullptr, nullptr};
  if (e_.has_source()) status = phasor_encode(e_.session, &item, 1, &error);
  if (status == PHASOR_OK)
    status = phasor_generate(e_.session, 0, e_.has_source() ? nullptr : ids.data(), e_.has_source() ? 0 : count, out_.data(),
                             static_cast<uint32_t>(out_.size()), &options, &result_, &error);
  seconds_ = now() - start;
  if (status != PHASOR_OK) *why = error.text;
  return status == PHASOR_OK;
}

int Runner::on_token(void* self, uint32_t id, uint32_t) { return static_cast<Runner*>(self)->token(id); }

int Runner::token(uint32_t id) {
  if (o_.json) {
    if (e_.target.has_tokenizer) line_ += text_->add(id);
    return 0;
  }
  if (o_.print_ids || !e_.target.has_tokenizer) {
    output((shown_++ != 0 ? "," : "") + std::to_string(id));
  } else {
    const std::string& piece = text_->add(id);
    if (piece.empty()) return output_failed();
    output(piece);
  }
  output_flush();
  return output_failed() ? 1 : 0;
}

void Runner::end_of_text() {
  if (!e_.target.has_tokenizer) return;
  if (o_.json) line_ += text_->end();
  else if (!o_.print_ids) output(text_->end());
}

void Runner::bad_line(const Input& input, const std::string& error) {
  data_error("%s: %s", input.where.c_str(), error.c_str());
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
  json.close(']').key("finish").text(result_.finish == 0 ? "empty" : finish_name(result_.finish));
  json.key("input_tokens").number(source_tokens).key("tokens").number(result_.count).key("seconds").real(seconds_);
  json.key("tokens_per_second").real(seconds_ > 0 ? result_.count / seconds_ : 0);
  json.key("arena_bytes").number(e_.arena_bytes).key("isa").text(phasor_model_isa(e_.model)).key("threads").number(e_.limits.threads).close('}');
  output(json.str());
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
