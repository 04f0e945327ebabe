#include "args.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../include/phasor.h"
#include "file.h"

namespace cli {
namespace {

constexpr uint32_t kEncoders = kEmbed | kFill | kClassify;
constexpr uint32_t kSteps = kRun | kChat | kScore | kBench | kEncoders;
constexpr uint32_t kForward = kSteps | kVerify;
constexpr uint32_t kAll = kForward | kTokenize | kInspect | kQuantize;
constexpr uint32_t kMost = 1u << 24;

// One flag. Exactly one of the members is set: it says what kind of value there is.
struct Flag {
  const char* name;
  const char* value;  // how the value is called in the help; NULL: none
  uint32_t commands;
  const char* help;
  bool Options::* on;
  uint32_t Options::* number;
  Number Options::* whole;
  Real Options::* real;
  const char* Options::* text;
  std::vector<const char*> Options::* texts;
  Ids Options::* ids;
  uint64_t least, most;  // of a whole number
  float low, high;       // of a real one; low itself is too little where `open` says so
  bool open;
  uint64_t instead;     // not 0: the value may be left out, and is this
  const char* choices;  // of a number that is given by name: "first second …", from 0 on
};

constexpr Flag flag(const char* name, const char* value, uint32_t commands, const char* help) {
  Flag f{};
  f.name = name;
  f.value = value;
  f.commands = commands;
  f.help = help;
  return f;
}
constexpr Flag on(const char* name, uint32_t commands, bool Options::* member, const char* help) {
  Flag f = flag(name, nullptr, commands, help);
  f.on = member;
  return f;
}
constexpr Flag number(const char* name, uint32_t commands, uint32_t Options::* member,
                      uint32_t least, uint32_t most, const char* help) {
  Flag f = flag(name, "N", commands, help);
  f.number = member;
  f.least = least;
  f.most = most;
  return f;
}
constexpr Flag choice(const char* name, const char* value, uint32_t commands,
                      uint32_t Options::* member, const char* choices, const char* help) {
  Flag f = flag(name, value, commands, help);
  f.number = member;
  f.choices = choices;
  return f;
}
constexpr Flag whole(const char* name, uint32_t commands, Number Options::* member, uint64_t least,
                     uint64_t most, const char* help, uint64_t instead = 0) {
  Flag f = flag(name, instead != 0 ? "[=N]" : "N", commands, help);
  f.whole = member;
  f.least = least;
  f.most = most;
  f.instead = instead;
  return f;
}
constexpr Flag real(const char* name, uint32_t commands, Real Options::* member, float low,
                    bool open, float high, const char* help) {
  Flag f = flag(name, "X", commands, help);
  f.real = member;
  f.low = low;
  f.open = open;
  f.high = high;
  return f;
}
constexpr Flag text(const char* name, const char* value, uint32_t commands,
                    const char* Options::* member, const char* help) {
  Flag f = flag(name, value, commands, help);
  f.text = member;
  return f;
}
constexpr Flag texts(const char* name, uint32_t commands,
                     std::vector<const char*> Options::* member, const char* help) {
  Flag f = flag(name, "TEXT", commands, help);
  f.texts = member;
  return f;
}
constexpr Flag ids(const char* name, uint32_t commands, Ids Options::* member, const char* help) {
  Flag f = flag(name, "IDS", commands, help);
  f.ids = member;
  return f;
}

constexpr Flag kFlags[] = {
    ids("--ids", kRun | kTokenize | kScore | kBench | kEncoders, &Options::ids,
        "token ids 1,2,3 in place of text, as given; -: a list a line of standard input"),
    on("--print-ids", kRun | kTokenize, &Options::print_ids,
       "the output's token ids, separated by commas, in place of text"),
    on("--decode", kTokenize, &Options::decode, "ids to text: the lists of ids are the input"),
    text("--target", "TEXT", kScore, &Options::target,
         "encoder-decoder: the target that is scored; its end token is added"),
    ids("--target-ids", kScore, &Options::target_ids, "the same as token ids, as given"),
    ids("--segments", kEncoders, &Options::segments, "the segment (token type) of each of --ids"),
    on("--pair", kTokenize | kClassify | kFill | kEmbed, &Options::pair,
       "each text is two, with a tab between them"),
    on("--truncate", kEncoders, &Options::truncate,
       "cuts a text that is too long for --source (else it is an error)"),
    text("--pooling", "HOW", kEmbed, &Options::pooling, "mean, first or last (as the file says)"),
    on("--normalise", kEmbed, &Options::normalise, "vectors of length 1 (as the file says)"),
    on("--no-normalise", kEmbed, &Options::no_normalise, "vectors as they are"),
    number("--dim", kEmbed, &Options::dim, 1, 65536,
           "only the first N values (Matryoshka), then normalised"),
    text("--prompt", "NAME", kEmbed, &Options::prompt,
         "the file's prefix of that name before each text (its first one)"),
    text("--prompt-text", "TEXT", kEmbed, &Options::prompt_text, "this prefix before each text"),
    text("--npy", "FILE.npy", kEmbed, &Options::npy,
         "the vectors as one array, (texts, values), in place of text"),
    number("--batch", kEncoders, &Options::batch, 1, 4096,
           "texts that are encoded together (32; 1 from a terminal)"),
    number("--top", kFill | kClassify, &Options::top, 1, 1u << 20,
           "only the N best (fill: 5; classify: all)"),
    number("-n", kRun | kChat | kBench, &Options::n, 1, kMost,
           "at most N new tokens (run, chat: as many as the context holds; bench: 32)"),
    text("--prefix", "TEXT", kRun, &Options::prefix, "the output begins with TEXT"),
    ids("--prefix-ids", kRun, &Options::prefix_ids, "the output begins with these token ids"),
    text("--system", "TEXT", kChat, &Options::system,
         "a system message that stands before the conversation"),
    on("--greedy", kChat, &Options::greedy,
       "the best token each time, whatever the file recommends"),
    on("--print-prompt", kChat, &Options::print_prompt,
       "the text that the template makes of the conversation, on standard error"),
    real("--temperature", kRun | kChat, &Options::temperature, 0, false, 1000,
         "tokens are drawn, logits divided by X; 0: the best is taken (0; 1 where a flag asks for "
         "draws)"),
    whole("--top-k", kRun | kChat, &Options::top_k, 0, kMost,
          "draw from the N most probable tokens (0: all)"),
    real("--top-p", kRun | kChat, &Options::top_p, 0, true, 1,
         "draw from the fewest tokens that have X of the probability (1: all)"),
    real("--min-p", kRun | kChat, &Options::min_p, 0, false, 1,
         "draw from tokens with at least X of the best one's probability (0: all)"),
    real("--typical", kRun | kChat, &Options::typical, 0, true, 1,
         "draw from the tokens of expected surprise that have X of the probability (1: all)"),
    whole(
        "--seed", kRun | kChat, &Options::seed, 0, UINT64_MAX,
        "of the draws, line by line one more; the same seed, the same text (a new one each time)"),
    on("--sample", kRun, &Options::sample, "draw as the file recommends; other flags change that"),
    real("--repeat-penalty", kRun | kChat, &Options::repeat_penalty, 0, true, 100,
         "divides the logits of tokens that are there already (1)"),
    real("--presence-penalty", kRun | kChat, &Options::presence_penalty, -100, false, 100,
         "taken from the logits of tokens that are in the output (0)"),
    real("--frequency-penalty", kRun | kChat, &Options::frequency_penalty, -100, false, 100,
         "the same, times how often (0)"),
    whole("--no-repeat-ngram", kRun | kChat, &Options::no_repeat_ngram, 0, kMost,
          "no N tokens in a row twice (0: no such rule)"),
    whole("--min-new", kRun | kChat, &Options::min_new, 0, kMost,
          "at least N new tokens before an end token (0)"),
    ids("--suppress", kRun | kChat, &Options::suppress, "tokens that are never chosen"),
    ids("--end", kRun | kChat, &Options::end, "tokens that end the output, besides the model's"),
    texts("--stop", kRun | kChat, &Options::stop,
          "ends the output before this text; may be given several times"),
    whole("--keep", kRun, &Options::keep, 0, kMost,
          "a full context keeps its first N tokens and the newer half of the others, and goes on"),
    whole("--lookahead", kRun | kChat, &Options::lookahead, 1, 64,
          "guess up to N tokens (8) from what stood before and check them in one step: the same "
          "output",
          8),
    number("--beam", kRun | kInspect | kBench, &Options::beam, 1, 256,
           "run: the best of a beam search with N beams; bench measures one too, inspect counts "
           "its memory"),
    real("--length-penalty", kRun, &Options::length_penalty, -4, false, 4,
         "with --beam: an output's score is its log-probability / tokens^X (1)"),
    choice("--early-stopping", "HOW", kRun, &Options::early_stopping, "no yes never",
           "with --beam: yes: ends with N outputs; never: goes on while a longer one may be better "
           "(no: while one as long may)"),
    number("--n-best", kRun, &Options::n_best, 1, 256,
           "with --beam: the N best outputs, a line each: score, a tab, text"),
    text("--save-state", "FILE", kRun, &Options::save_state,
         "decoder: the prompt and the output as they lie in the cache, to go on from"),
    text("--load-state", "FILE", kRun, &Options::load_state,
         "decoder: goes on from there; the text, if any, follows"),
    number(
        "--stride", kScore, &Options::stride, 1, kMost,
        "decoder: scores a text of any length in windows of --context tokens that begin N apart"),
    on("--blocks", kScore, &Options::blocks,
       "decoder: as llama.cpp's perplexity: windows side by side, the second half of each is "
       "scored"),
    number(
        "--context", kRun | kChat | kInspect | kScore | kBench, &Options::context, 1, kMost,
        "room for N tokens of the target (the model's maximum up to 2048; 256 when it has none)"),
    number("--source", kRun | kInspect | kScore | kBench | kEncoders, &Options::source, 1, kMost,
           "room for N tokens of the source (as --context; bench: 32)"),
    choice("--cache", "TYPE", kRun | kInspect | kScore | kBench, &Options::cache, "f32 f16 q8",
           "of the decoder's keys and values: f16 takes half the memory, q8 little more than a "
           "quarter (f32)"),
    number("--threads", kForward | kQuantize | kInspect, &Options::threads, 1, 64, "threads (1)"),
    text("--isa", "NAME", kForward | kQuantize, &Options::isa,
         "instruction set, one of those that phasor --version lists (the best)"),
    choice("--load", "HOW", kSteps, &Options::load, "auto map copy",
           "the weight file: map it, copy it to memory in huge pages, or auto: map it and, after "
           "some tokens, move it there (auto; score, bench: copy)"),
    on("--check", kSteps, &Options::check,
       "first read the whole file: checksums and finite weights"),
    text("--logits", "FILE.npy", kRun | kFill | kClassify, &Options::logits,
         "logits of each position, (positions, vocabulary)"),
    text("--hidden", "FILE.npy", kRun | kEncoders, &Options::hidden,
         "residuals of the encoder, or of a lone decoder, (layers + 2, positions, width)"),
    text("--hidden-decoder", "FILE.npy", kRun, &Options::hidden_decoder,
         "the same of an encoder-decoder's decoder"),
    text("--attention", "FILE.npy", kRun | kEncoders, &Options::attention,
         "attention, (layers, heads, queries, keys): cross, or a lone stack's own"),
    number("--chunk", kInspect | kBench, &Options::chunk, 1, 1u << 16,
           "tokens that are computed together (64, or the length where that is less): any number "
           "gives the same bits"),
    whole("--text-bytes", kInspect, &Options::text_bytes, 0, 1u << 28,
          "the longest text for the tokenizer; 0: none, ids only (4096)"),
    text("--tables", "HOW", kInspect, &Options::tables,
         "sinusoid and rotary rows: whole, computed once, or rows, as they are needed: less "
         "memory, the same bits (whole)"),
    text("--ram", "SIZE", kInspect, &Options::ram,
         "does it fit a board's RAM: bytes, or 128K, or 1M; exit status 1 where it does not"),
    text("--flash", "SIZE", kInspect, &Options::flash, "does the file fit a board's flash"),
    text("--emit", "c|asm|h", kInspect, &Options::emit,
         "on standard output: the file as a source for a linker, aligned to 64; h: these limits "
         "and the sizes of the two blocks as a C header"),
    text("--type", "TYPE", kQuantize, &Options::type, "of the matrices: f32, f16, bf16, q8 or q4"),
    text("--output-type", "TYPE", kQuantize, &Options::output_type,
         "of the embeddings and the output's matrix (as --type)"),
    text("--moments", "FILE.npy", kQuantize, &Options::moments,
         "q8 and q4: how much each input counts (tools/moments.py)"),
    number("--length", kBench, &Options::length, 1, kMost, "tokens of the prompt (32)"),
    number("--reps", kBench, &Options::reps, 1, 10000,
           "repetitions, of which the median counts (5)"),
    on("--json", kRun | kChat | kInspect | kVerify | kScore | kBench | kEncoders, &Options::json,
       "results and figures as JSON"),
    on("--quiet", kRun | kChat | kVerify | kScore | kBench | kQuantize | kEncoders, &Options::quiet,
       "no figures on standard error; verify: only the verdict; quantize: nothing"),
    on("--help", kAll, &Options::help, "this text"),
};

const Flag* find(const char* name, size_t length) {
  for (const Flag& f : kFlags)
    if (strlen(f.name) == length && strncmp(f.name, name, length) == 0) return &f;
  return nullptr;
}

bool is_type(const char* name) {
  for (const char* known : {"f32", "f16", "bf16", "q8", "q4"})
    if (strcmp(known, name) == 0) return true;
  return false;
}

// Digits only, no larger than `most`.
bool parse_number(const char* s, const char* end, uint64_t most, uint64_t* out) {
  uint64_t value = 0;
  if (s == end) return false;
  for (; s != end; ++s) {
    const uint64_t digit = static_cast<uint64_t>(*s - '0');
    if (*s < '0' || *s > '9' || digit > most || value > (most - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return value <= most;
}

int set_number(const Flag& f, const char* value, uint64_t* out) {
  if (parse_number(value, value + strlen(value), f.most, out) && *out >= f.least) return 0;
  return usage_error("%s %s: expected a whole number from %llu to %llu", f.name, value,
                     static_cast<unsigned long long>(f.least),
                     static_cast<unsigned long long>(f.most));
}

int set_real(const Flag& f, const char* value, Real* out) {
  char* end = nullptr;
  out->given = true;
  out->value = strtof(value, &end);
  // not "nan", "inf" or hexadecimal
  const bool number = end != value && *end == 0 && strpbrk(value, "nNxX ") == nullptr;
  if (number && (f.open ? out->value > f.low : out->value >= f.low) && out->value <= f.high)
    return 0;
  return usage_error("%s %s: expected a number %s %g %s %g", f.name, value,
                     f.open ? "above" : "from", static_cast<double>(f.low), f.open ? "up to" : "to",
                     static_cast<double>(f.high));
}

int set_ids(Ids* out, const char* name, const char* value) {
  out->given = true;
  out->values.clear();
  out->from_input = strcmp(name, "--ids") == 0 && strcmp(value, "-") == 0;
  if (out->from_input || parse_ids(value, &out->values)) return 0;
  return usage_error("%s %s: expected token ids separated by commas, such as 1,2,3", name, value);
}

int check_isa(const char* name) {
  char known[160] = "auto";
  if (strcmp(name, "auto") == 0) return 0;
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i) {
    if (strcmp(phasor_isa_name(i), name) == 0) return 0;
    const size_t used = strlen(known);
    snprintf(known + used, sizeof known - used, " %s", phasor_isa_name(i));
  }
  return usage_error("--isa %s: expected one that runs here: %s", name, known);
}

// The place of `value` among a flag's choices.
int set_choice(const Flag& f, const char* value, uint64_t* out) {
  *out = 0;
  for (const char* at = f.choices; *at != 0; ++*out) {
    const size_t length = strcspn(at, " ");
    if (strlen(value) == length && strncmp(at, value, length) == 0) return 0;
    at += length + (at[length] != 0 ? 1 : 0);
  }
  return usage_error("%s %s: expected one of: %s", f.name, value, f.choices);
}

int set(Options* out, const Flag& f, const char* value) {
  uint64_t given = f.instead;
  int status = 0;
  if (f.choices != nullptr)
    status = set_choice(f, value, &given);
  else if ((f.number != nullptr || f.whole != nullptr) && value != nullptr)
    status = set_number(f, value, &given);
  if (f.on != nullptr) out->*f.on = true;
  if (f.text != nullptr) out->*f.text = value;
  if (f.texts != nullptr) (out->*f.texts).push_back(value);
  if (f.ids != nullptr) return set_ids(&(out->*f.ids), f.name, value);
  if (f.number != nullptr) out->*f.number = static_cast<uint32_t>(given);
  if (f.whole != nullptr) out->*f.whole = {true, given};
  if (f.real != nullptr) return set_real(f, value, &(out->*f.real));
  if ((f.text == &Options::type || f.text == &Options::output_type) && !is_type(value))
    return usage_error("%s %s: expected f32, f16, bf16, q8 or q4", f.name, value);
  return f.text == &Options::isa ? check_isa(value) : status;
}

int print_error(int code, const char* format, va_list arguments) {
  fputs("phasor: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  return code;
}

}  // namespace

int usage_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int code = print_error(2, format, arguments);
  va_end(arguments);
  return code;
}

int data_error(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int code = print_error(1, format, arguments);
  va_end(arguments);
  return code;
}

bool parse_ids(const char* text, std::vector<uint32_t>* ids) {
  while (*text == ' ') ++text;
  if (*text == 0) return true;
  for (;;) {
    while (*text == ' ') ++text;
    const char* end = text;
    while (*end >= '0' && *end <= '9') ++end;
    uint64_t id = 0;
    if (!parse_number(text, end, UINT32_MAX - 1, &id)) return false;
    ids->push_back(static_cast<uint32_t>(id));
    while (*end == ' ') ++end;
    if (*end == 0) return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}

int parse(Options* out, Command command, const char* name, int argc, char** argv) {
  bool flags = true;
  // What looks at the file once needs no more than a mapping; what reads it for long begins with
  // huge pages.
  if ((command & kSteps) == 0) out->load = static_cast<uint32_t>(Load::map);
  if ((command & (kScore | kBench)) != 0)
    out->load = static_cast<uint32_t>(Load::copy_to_huge_pages);
  for (int i = 0; i < argc; ++i) {
    const char* word = argv[i];
    if (flags && strcmp(word, "--") == 0) {
      flags = false;
      continue;
    }
    if (!flags || word[0] != '-' || word[1] == 0) {
      if (out->model == nullptr)
        out->model = word;
      else
        out->texts.push_back(word);
      continue;
    }
    const char* equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : nullptr;
    const size_t length = equals != nullptr ? static_cast<size_t>(equals - word) : strlen(word);
    const int shown = static_cast<int>(length);
    const Flag* f = find(word, length);
    if (f == nullptr)
      return usage_error("%.*s: unknown flag (phasor %s --help lists them)", shown, word, name);
    if ((f->commands & command) == 0)
      return usage_error("%s: not a flag of %s (phasor %s --help lists them)", f->name, name, name);
    if (f->value == nullptr && equals != nullptr)
      return usage_error("%s: expected no value", f->name);
    const char* value = equals != nullptr ? equals + 1 : nullptr;
    const bool wanted = f->value != nullptr && f->instead == 0;
    if (wanted && value == nullptr && ++i < argc) value = argv[i];
    if (wanted && value == nullptr)
      return usage_error("%s: expected a value, %s", f->name, f->value);
    const int status = set(out, *f, value);
    if (status != 0) return status;
    if (out->help) return 0;
  }
  if (out->model == nullptr)
    return usage_error("%s: expected a model file (phasor %s --help)", name, name);
  return 0;
}

void print_flags(Command command) {
  for (const Flag& f : kFlags) {
    if ((f.commands & command) == 0) continue;
    char left[40];
    snprintf(left, sizeof left, "%s%s%s", f.name,
             f.value != nullptr && f.value[0] != '[' ? " " : "", f.value != nullptr ? f.value : "");
    printf("  %-25s  %s\n", left, f.help);
  }
}

}  // namespace cli
