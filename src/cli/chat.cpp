// cli: `phasor chat`. A conversation by the model's own template: each line of standard input is a
// message, and is answered.
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "engine.h"
#include "json.h"
#include "sampling.h"
#include "text.h"

namespace cli {
namespace {

struct Message {
  const char* role;
  std::string content;
};

class Chat {
 public:
  explicit Chat(const Options& options) : o_(options) {}
  int run();

 private:
  bool start();
  bool prepare_options();
  bool find_end();
  void reset();
  void answer(const std::string& text);
  bool fit(std::vector<uint32_t>* ids, std::string* error);
  bool drop_oldest();
  void note_dropped(uint32_t dropped) const;
  bool render(const std::vector<Message>& messages, bool prompt, std::string* text,
              std::string* error);
  bool ids_of(const std::string& text, std::vector<uint32_t>* ids, std::string* error);
  bool generate(const std::vector<uint32_t>& ids, std::string* error);
  static int on_token(void* self, uint32_t id, uint32_t position);
  static int on_text(void* self, const char* text, size_t bytes);
  void print_json(size_t input_tokens);
  void bad_line(const std::string& error);

  const Options& o_;
  Engine e_;
  LineReader reader_;
  std::vector<Message> messages_;
  std::vector<uint32_t> out_, end_;
  std::string end_text_;  // where the template ends an answer with text, not with a token
  std::vector<const char*> stop_;
  phasor_generate_options options_ = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_random random_{};
  phasor_generation result_ = PHASOR_GENERATION_INIT;
  std::string reply_;
  bool terminal_ = false;
  uint64_t answers_ = 0, tokens_ = 0;
  double seconds_ = 0, total_seconds_ = 0;
  int status_ = 0;
};

int Chat::run() {
  if (!o_.texts.empty()) return usage_error("chat: unexpected argument %s", o_.texts[0]);
  if (const int status = check_generation(o_)) return status;
  if (o_.greedy && draws(o_)) return usage_error("--greedy: expected without flags that draw");
  if (!e_.open(o_)) return 1;
  if (e_.stack != PHASOR_DECODER)
    return data_error("%s: is not a decoder, expected a language model", e_.path);
  if (!phasor_chat_available(e_.model))
    return data_error("%s: has no chat template, expected a file that was converted with one",
                      e_.path);
  if (!e_.target.has_tokenizer) return data_error("%s: has no tokenizer", e_.path);
  if (o_.system != nullptr && utf8_end(o_.system, strlen(o_.system)) < strlen(o_.system))
    return usage_error("--system: expected UTF-8");
  if (!start() || !find_end() || !prepare_options()) return 1;
  terminal_ = isatty(0) != 0 && isatty(1) != 0;
  reset();
  for (;;) {
    if (terminal_) output("> ", 2), output_flush();
    if (output_failed() || !e_.file.unchanged() || !reader_.next()) break;
    const std::string line = reader_.line();
    if (line == "/quit") break;
    if (line == "/reset")
      reset();
    else if (line.find_first_not_of(" \t") != std::string::npos)
      answer(line);
  }
  if (reader_.failed() || output_failed() || !e_.file.unchanged()) return 1;
  if (status_ == 0 && !o_.quiet) print_figures(e_, "answer", answers_, tokens_, total_seconds_);
  return status_;
}

bool Chat::start() {
  phasor_limits limits = default_limits(e_, o_);
  // of the whole conversation: far more than its tokens have
  const uint64_t bytes = uint64_t(limits.target) * 16;
  make_text_room(&limits,
                 static_cast<size_t>(bytes < LineReader::kLongest ? bytes : LineReader::kLongest));
  phasor_generate_options recommended = PHASOR_GENERATE_OPTIONS_INIT;
  if (!o_.greedy && phasor_generation_defaults(e_.model, &recommended) != 0)
    limits.outputs |= PHASOR_WANT_SAMPLING;
  room_for_generation(o_, &limits);
  return e_.start(limits);
}

bool Chat::prepare_options() {
  if (!o_.greedy) (void)phasor_generation_defaults(e_.model, &options_);
  if (!generate_options(o_, e_, &options_)) return false;
  if (options_.temperature > 0) {
    const uint64_t seed = first_seed(o_);
    phasor_random_seed(&random_, seed);
    options_.random = &random_;
    if (!o_.quiet) fprintf(stderr, "phasor: seed %llu\n", static_cast<unsigned long long>(seed));
  }
  stop_ = o_.stop;
  if (!end_text_.empty()) stop_.push_back(end_text_.c_str());
  options_.stop = stop_.data();
  options_.stop_count = static_cast<uint32_t>(stop_.size());
  end_.insert(end_.end(), o_.end.values.begin(), o_.end.values.end());
  options_.end = end_.data();
  options_.end_count = static_cast<uint32_t>(end_.size());
  options_.reuse = 1;
  options_.token = &on_token;
  options_.text = &on_text;
  options_.user = this;
  out_.resize(options_.max_new != 0 && options_.max_new < e_.limits.target ? options_.max_new
                                                                           : e_.limits.target);
  return true;
}

// What the template writes behind an answer: a token of its own ends the answer, as the model's end
// tokens do; else the text before the next message does, so that the model does not write that
// message itself.
bool Chat::find_end() {
  const std::string mark = "phasor answers", next = "phasor asks";
  std::string text, error;
  // it has other rules: then the model's own end
  if (!render({{"user", "a"}, {"assistant", mark}, {"user", next}}, false, &text, &error))
    return true;
  const size_t at = text.rfind(mark), end = text.rfind(next);
  if (at == std::string::npos || end == std::string::npos || end < at) return true;
  const std::string behind = text.substr(at + mark.size(), end - at - mark.size());
  std::vector<uint32_t> ids;
  if (!ids_of(behind, &ids, &error)) return data_error("%s: %s", e_.path, error.c_str()), false;
  for (const uint32_t id : ids) {
    Detokenizer piece(e_, PHASOR_TARGET);
    const std::string shown = piece.add(id) + piece.end();
    if (shown.find_first_not_of(" \n") != std::string::npos) break;
    if (!shown.empty() ||
        piece_text(e_, PHASOR_TARGET, id).find_first_not_of(" \n") == std::string::npos ||
        piece_text(e_, PHASOR_TARGET, id) == "\xE2\x96\x81")
      continue;
    end_.push_back(id);  // a control token
    return true;
  }
  const size_t last = behind.find_last_not_of(" \n");
  if (last != std::string::npos && last < 256) end_text_ = behind.substr(0, last + 1);
  return true;
}

void Chat::reset() {
  messages_.clear();
  if (o_.system != nullptr) messages_.push_back({"system", o_.system});
}

// The first message that is not the system's, and what follows it up to the next of the user; false
// when there is only the newest left.
bool Chat::drop_oldest() {
  const size_t first = o_.system != nullptr ? 1 : 0;
  size_t next = first + 1;
  while (next < messages_.size() && strcmp(messages_[next].role, "user") != 0) ++next;
  if (next >= messages_.size()) return false;
  messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                  messages_.begin() + static_cast<std::ptrdiff_t>(next));
  return true;
}

bool Chat::render(const std::vector<Message>& messages, bool prompt, std::string* text,
                  std::string* why) {
  std::vector<phasor_chat_message> views;
  for (const Message& m : messages)
    views.push_back(
        {sizeof(phasor_chat_message), m.role, strlen(m.role), m.content.data(), m.content.size()});
  const uint32_t count = static_cast<uint32_t>(views.size());
  phasor_error error = PHASOR_ERROR_INIT;
  size_t bytes = 0;
  phasor_status status =
      phasor_chat_to_text(e_.session, prompt, nullptr, 0, &bytes, views.data(), count, &error);
  if (status == PHASOR_FULL) {
    text->resize(bytes);
    status = phasor_chat_to_text(e_.session, prompt, &(*text)[0], bytes, &bytes, views.data(),
                                 count, &error);
  }
  if (status != PHASOR_OK) *why = error.text;
  return status == PHASOR_OK;
}

bool Chat::ids_of(const std::string& text, std::vector<uint32_t>* ids, std::string* error) {
  return text_ids(e_, PHASOR_TARGET, false, text.data(), text.size(), ids, error);
}

void Chat::note_dropped(uint32_t dropped) const {
  fprintf(stderr, "phasor: the context of %u tokens is full: the oldest %s dropped\n",
          e_.limits.target,
          dropped == 1 ? "exchange is" : (std::to_string(dropped) + " exchanges are").c_str());
}

// The ids of the conversation, with room for an answer: -n tokens, or a quarter of the context.
// What is oldest goes until there is.
bool Chat::fit(std::vector<uint32_t>* ids, std::string* error) {
  const uint32_t context = e_.limits.target, quarter = context / 4,
                 room = options_.max_new != 0 && options_.max_new < quarter ? options_.max_new
                                                                            : quarter;
  uint32_t dropped = 0;
  for (;;) {
    std::string text;
    if (!render(messages_, true, &text, error)) return false;
    const bool long_text = text.size() > e_.limits.text_bytes;
    if (!long_text && !ids_of(text, ids, error)) return false;
    if ((long_text || ids->size() + room > context) && drop_oldest()) {
      ++dropped;
      continue;
    }
    if (o_.print_prompt) fprintf(stderr, "%s\n", text.c_str());
    if (!long_text && ids->size() <= context) {
      if (dropped != 0) note_dropped(dropped);
      return true;
    }
    *error = long_text ? std::to_string(text.size()) + " bytes"
                       : std::to_string(ids->size()) + " tokens";
    *error += ", there is room for " + std::to_string(long_text ? e_.limits.text_bytes : context) +
              " (--context)";
    return false;
  }
}

void Chat::answer(const std::string& line) {
  const size_t bad = utf8_end(line.data(), line.size());
  std::string error;
  std::vector<uint32_t> ids;
  reply_.clear();
  if (reader_.bytes() != line.size())
    error = "a line of " + std::to_string(reader_.bytes()) + " bytes is too long";
  else if (bad < line.size())
    error = "invalid UTF-8 at byte " + std::to_string(bad);
  if (!error.empty()) return bad_line(error);
  const std::vector<Message> before = messages_;
  messages_.push_back({"user", line});
  if (!fit(&ids, &error) || !generate(ids, &error)) {
    messages_ = before;
    return bad_line(error);
  }
  messages_.push_back({"assistant", reply_});
  ++answers_;
  tokens_ += result_.count;
  total_seconds_ += seconds_;
  if (o_.json) print_json(ids.size());
  output(o_.json ? "\n" : "\n\n");
  output_flush();
  if (result_.finish == PHASOR_FINISH_LENGTH && !o_.quiet && !o_.json)
    fprintf(
        stderr, "phasor: the answer is cut: %s\n",
        options_.max_new != 0 && result_.count == options_.max_new ? "-n" : "the context is full");
}

bool Chat::generate(const std::vector<uint32_t>& ids, std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  result_ = PHASOR_GENERATION_INIT;
  const double start = now();
  const phasor_status status =
      phasor_generate(e_.session, 0, ids.data(), static_cast<uint32_t>(ids.size()), out_.data(),
                      static_cast<uint32_t>(out_.size()), &options_, &result_, &error);
  seconds_ = now() - start;
  if (status == PHASOR_OK) return true;
  *why = error.text;
  (void)phasor_sequence_clear(e_.session, 0);
  return false;
}

int Chat::on_token(void* self, uint32_t, uint32_t) {
  static_cast<Chat*>(self)->e_.count_token();
  return 0;
}

int Chat::on_text(void* self, const char* text, size_t bytes) {
  Chat* c = static_cast<Chat*>(self);
  c->reply_.append(text, bytes);
  if (c->o_.json) return 0;
  output(text, bytes);
  output_flush();
  return output_failed() ? 1 : 0;
}

void Chat::print_json(size_t input_tokens) {
  static const char* const finish[] = {"empty", "end", "length", "stopped", "stop string"};
  Json json;
  json.open('{')
      .key("line")
      .number(reader_.number())
      .key("text")
      .text(reply_.data(), reply_.size())
      .key("ids")
      .open('[');
  for (uint32_t i = 0; i < result_.count; ++i) json.number(out_[i]);
  json.close(']')
      .key("finish")
      .text(finish[result_.finish])
      .key("input_tokens")
      .number(input_tokens)
      .key("reused")
      .number(result_.reused);
  json.key("messages")
      .number(messages_.size())
      .key("tokens")
      .number(result_.count)
      .key("seconds")
      .real(seconds_)
      .close('}');
  output(json.str());
}

void Chat::bad_line(const std::string& error) {
  if (e_.file.unchanged())
    data_error("standard input, line %llu: %s", static_cast<unsigned long long>(reader_.number()),
               error.c_str());
  status_ = 1;
  if (o_.json) {
    Json json;
    json.open('{').key("line").number(reader_.number()).key("error").text(error.c_str()).close('}');
    output(json.str());
  }
  output(o_.json ? "\n" : "\n\n");
  output_flush();
}

}  // namespace

int chat(const Options& options) { return std::make_unique<Chat>(options)->run(); }

}  // namespace cli
