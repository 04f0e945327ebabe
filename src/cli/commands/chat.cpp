// cli: `phasor chat`. A conversation by the model's own template: each line of standard input is a
// message, and is answered.
#include <string.h>
#include <unistd.h>

#include "../generation/sampling.h"
#include "../io/json.h"
#include "commands.h"

namespace cli {
namespace {

struct ChatOptions : CommandLine, OpenOptions, MemoryOptions, SamplingOptions {
  Word system{"--system TEXT", "System message before the conversation."};
  Switch greedy{"--greedy",
                "Always take the most probable token, even if the file recommends sampling."};
  Switch print_prompt{"--print-prompt", "Print the formatted conversation on standard error."};
  FlagGroups flags() {
    return {group("Conversation", system, greedy, print_prompt), group("Output", n, json, quiet),
            choosing(), group("Memory and speed", context, threads, isa, load, check)};
  }
};

struct Message {
  const char* role;
  string content;
};

bool is_blank(const string& text, const char* blanks) {
  return text.find_first_not_of(blanks) == string::npos;
}

// Of a piece: white space, or ▁ for it.
bool is_white(const string& piece) { return is_blank(piece, " \n\t\xE2\x96\x81"); }

class Chat {
 public:
  explicit Chat(const ChatOptions& options) : o_(options) {}
  int run() {
    string why;
    if (const int status = check_generation(o_)) return status;
    if (o_.greedy && draws(o_)) return usage_error("--greedy: expected without flags that draw");
    if (!e_.open(o_.model, o_)) return 1;
    if (const int status = e_.fit(o_)) return status;
    if (o_.system != nullptr && !is_utf8(o_.system.value, &why))
      return usage_error("--system: expected UTF-8");
    if (!start() || !find_end() || !prepare_options()) return 1;
    const bool terminal = isatty(0) != 0 && isatty(1) != 0;
    reset();
    for (;;) {
      if (terminal) stream("> ");
      if (!e_.going_on() || !reader_.next() || reader_.line() == "/quit") break;
      if (reader_.line() == "/reset")
        reset();
      else if (!is_blank(reader_.line(), " \t"))
        answer(reader_.line());
    }
    if (reader_.failed() || !e_.going_on()) return 1;
    if (status_ == 0 && !o_.quiet) print_figures(e_, "answer", answers_, tokens_, total_seconds_);
    return status_;
  }

 private:
  bool start() {
    phasor_limits limits = default_limits(e_, o_);
    // of the whole conversation: far more than its tokens have
    make_text_room(&limits, min(size_t{limits.target} * 16, LineReader::kLongest));
    phasor_generate_options recommended = PHASOR_GENERATE_OPTIONS_INIT;
    if (!o_.greedy && phasor_generation_defaults(e_.model, &recommended) != 0)
      limits.outputs |= PHASOR_WANT_SAMPLING;
    room_for_generation(o_, e_, false, false, &limits);
    return e_.start(limits);
  }

  bool prepare_options() {
    if (!o_.greedy) (void)phasor_generation_defaults(e_.model, &options_);
    if (!generate_options(o_, e_, &end_, &options_)) return false;
    if (options_.temperature > 0) {
      phasor_random_seed(&random_, first_seed(o_, o_.quiet));
      options_.random = &random_;
    }
    stop_ = o_.stop.values;
    if (!end_text_.empty()) stop_.push_back(end_text_.c_str());
    options_.stop = stop_.data();
    options_.stop_count = count_of(stop_);
    options_.reuse = 1;
    options_.text = &on_text;
    options_.user = this;
    out_.resize(options_.max_new != 0 ? min(options_.max_new, e_.limits.target) : e_.limits.target);
    return true;
  }

  // What the template writes behind an answer: a token of its own, special or only added, ends the
  // answer, as the model's end tokens do; else the text before the next message does, so that the
  // model does not write that message itself.
  bool find_end() {
    const string mark = "phasor answers", next = "phasor asks";
    string text, why;
    // it has other rules: then the model's own end
    if (!render({{"user", "a"}, {"assistant", mark}, {"user", next}}, false, &text, &why))
      return true;
    const size_t at = text.rfind(mark), end = text.rfind(next);
    if (at == string::npos || end == string::npos || end < at) return true;
    const string behind = text.substr(at + mark.size(), end - at - mark.size());
    TokenIds ids;
    if (!ids_of(behind, &ids, &why)) return data_error("%s: %s", e_.path, why.c_str()), false;
    bool text_before = false;  // more than white space
    for (const uint32_t id : ids) {
      const string shown = text_of(e_, PHASOR_TARGET, {id}),
                   piece = piece_text(e_, PHASOR_TARGET, id);
      if (is_white(piece)) continue;
      if (phasor_piece_flags(e_.model, PHASOR_TARGET, id) != 0) {
        // its text, if it has any, is not the answer's; text before it ends the answer by itself
        if (!text_before) end_.push_back(id);
        end_text(text_before ? behind.substr(0, behind.find(piece)) : shown);
        return true;
      }
      text_before |= !is_blank(shown, " \n");
    }
    end_text(behind);
    return true;
  }

  void end_text(const string& behind) {
    const size_t last = behind.find_last_not_of(" \n");
    if (last != string::npos && last < 256) end_text_ = behind.substr(0, last + 1);
  }

  void reset() {
    messages_.clear();
    if (o_.system != nullptr) messages_.push_back({"system", o_.system.value});
  }

  void answer(const string& line) {
    string why;
    TokenIds ids;
    reply_.clear();
    const vector<Message> before = messages_;
    messages_.push_back({"user", line});
    bool ok = reader_.bytes() == line.size();
    if (!ok) why = "a line of " + to_string(reader_.bytes()) + " bytes is too long";
    ok = ok && is_utf8(line, &why) && fit(&ids, &why) && generate(ids, &why);
    if (ok) return end_answer(ids.size());
    messages_ = before;
    status_ = bad_line(e_, o_, "standard input, line " + to_string(reader_.number()),
                       reader_.number(), why);
    if (!o_.json) stream("\n");
  }

  // The ids of the conversation, with room for an answer: -n tokens, or a quarter of the context.
  // What is oldest goes until there is.
  bool fit(TokenIds* ids, string* why) {
    const uint32_t context = e_.limits.target, bytes = e_.limits.text_bytes;
    uint32_t room = context / 4, dropped = 0;
    if (options_.max_new != 0) room = min(room, options_.max_new);
    for (;; ++dropped) {
      string text;
      if (!render(messages_, true, &text, why)) return false;
      const bool long_text = text.size() > bytes;
      if (!long_text && !ids_of(text, ids, why)) return false;
      if ((long_text || ids->size() + room > context) && drop_oldest()) continue;
      if (o_.print_prompt) (void)write_all(STDERR_FILENO, (text + "\n").data(), text.size() + 1);
      *why = long_text ? format("%zu bytes, there is room for %u (--context)", text.size(), bytes)
                       : no_room(ids->size(), context, more_room(e_, PHASOR_TARGET, ""));
      if (long_text || ids->size() > context) return false;
      if (dropped != 0)
        note("the context of %u tokens is full: the oldest %s dropped", context,
             dropped == 1 ? "exchange is" : format("%u exchanges are", dropped).c_str());
      return true;
    }
  }

  // The first message that is not the system's, and what follows it up to the next of the user;
  // false when there is only the newest left.
  bool drop_oldest() {
    const auto first = messages_.begin() + (o_.system != nullptr ? 1 : 0);
    const auto next = std::find_if(first + 1, messages_.end(), [](const Message& message) {
      return strcmp(message.role, "user") == 0;
    });
    if (next == messages_.end()) return false;
    messages_.erase(first, next);
    return true;
  }

  bool render(const vector<Message>& messages, bool prompt, string* text, string* why) {
    vector<phasor_chat_message> views;
    for (const Message& message : messages) {
      auto view = sized<phasor_chat_message>();
      view.role = message.role;
      view.role_bytes = strlen(message.role);
      view.content = message.content.data();
      view.content_bytes = message.content.size();
      views.push_back(view);
    }
    return e_.done(with_room(text,
                             [&](char* out, size_t capacity, size_t* bytes) {
                               return phasor_chat_to_text(e_.session, prompt, out, capacity, bytes,
                                                          views.data(), count_of(views), &e_.error);
                             }),
                   why);
  }

  bool ids_of(const string& text, TokenIds* ids, string* why) const {
    return text_ids(e_, PHASOR_TARGET, false, text, ids, why);
  }

  bool generate(const TokenIds& ids, string* why) {
    result_ = PHASOR_GENERATION_INIT;
    const double start = now();
    const bool ok = e_.done(phasor_generate(e_.session, 0, ids.data(), count_of(ids), out_.data(),
                                            count_of(out_), &options_, &result_, &e_.error),
                            why);
    seconds_ = now() - start;
    if (!ok) (void)phasor_sequence_clear(e_.session, 0);
    return ok;
  }

  static int on_text(void* self, const char* text, size_t bytes) {
    Chat* chat = static_cast<Chat*>(self);
    chat->reply_.append(text, bytes);
    return chat->o_.json ? 0 : stream({text, bytes});
  }

  // What follows the text of an answer.
  void end_answer(size_t input_tokens) {
    messages_.push_back({"assistant", reply_});
    ++answers_;
    tokens_ += result_.count;
    total_seconds_ += seconds_;
    Json json;
    json.open('{')
        .add("line", reader_.number())
        .add("text", reply_)
        .add("ids", TokenIds(out_.data(), out_.data() + result_.count))
        .add("finish", finish_name(result_.finish))
        .add("input_tokens", input_tokens)
        .add("reused", result_.reused)
        .add("messages", messages_.size())
        .add("tokens", result_.count)
        .add("seconds", seconds_)
        .close('}');
    if (stream(o_.json ? json.str() + "\n" : "\n\n") != 0) return;
    if (result_.finish == PHASOR_FINISH_LENGTH && !o_.quiet && !o_.json)
      note("the answer is cut: %s", options_.max_new != 0 && result_.count == options_.max_new
                                        ? "-n"
                                        : "the context is full");
  }

  const ChatOptions& o_;
  Engine e_;
  LineReader reader_;
  vector<Message> messages_;
  TokenIds out_, end_;
  string end_text_;  // where the template ends an answer with text, not with a token
  vector<const char*> stop_;
  phasor_generate_options options_ = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_random random_{};
  phasor_generation result_ = PHASOR_GENERATION_INIT;
  string reply_;
  uint64_t answers_ = 0, tokens_ = 0;
  double seconds_ = 0, total_seconds_ = 0;
  int status_ = 0;
};

const char* unfit(const phasor_model* model) {
  if (phasor_model_stack(model) != PHASOR_DECODER)
    return "is not a decoder, expected a language model";
  if (!phasor_chat_available(model))
    return "has no chat template, expected a file that was converted with one";
  auto target = sized<phasor_side>();
  (void)phasor_model_side(model, PHASOR_TARGET, &target);
  return target.has_tokenizer ? nullptr : "has no tokenizer";
}

}  // namespace

const Command chat_command = command<ChatOptions, run_as<Chat>>(
    "chat", "MODEL", "chat with a model, using its own template",
    "Each line of standard input is a message. Each answer ends with an empty line. Phasor samples "
    "as the file recommends; if it recommends nothing, it takes the best token. /reset starts a "
    "new conversation, /quit ends the program. When the context is full, the oldest messages are "
    "dropped, but not the system message.",
    "phasor chat language.phasor\n"
    "phasor chat language.phasor --system \"Answer in one sentence.\" -n 200\n"
    "phasor chat language.phasor --greedy --json < messages.txt",
    unfit);

}  // namespace cli
