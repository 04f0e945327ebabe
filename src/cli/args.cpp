#include "args.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../include/phasor.h"

namespace cli {
namespace {

constexpr uint32_t kEncoders = kEmbed | kFill | kClassify;
constexpr uint32_t kForward = kRun | kVerify | kScore | kBench | kEncoders;
constexpr uint32_t kAll = kForward | kTokenize | kInspect;
constexpr uint32_t kMost = 1u << 24;

// One flag. Exactly one of the members is set: it says what kind of value there is.
struct Flag {
  const char* name;
  const char* value;  // how the value is called in the help; NULL: none
  uint32_t commands;
  bool Options::*on;
  uint32_t Options::*number;
  uint32_t least, most;
  const char* Options::*text;
  Ids Options::*ids;
  const char* help;
};

constexpr Flag on(const char* name, uint32_t commands, bool Options::*member, const char* help) {
  return {name, nullptr, commands, member, nullptr, 0, 0, nullptr, nullptr, help};
}
constexpr Flag number(const char* name, uint32_t commands, uint32_t Options::*member, uint32_t least, uint32_t most, const char* help) {
  return {name, "N", commands, nullptr, member, least, most, nullptr, nullptr, help};
}
constexpr Flag text(const char* name, const char* value, uint32_t commands, const char* Options::*member, const char* help) {
  return {name, value, commands, nullptr, nullptr, 0, 0, member, nullptr, help};
}
constexpr Flag ids(const char* name, uint32_t commands, Ids Options::*member, const char* help) {
  return {name, "IDS", commands, nullptr, nullptr, 0, 0, nullptr, member, help};
}

constexpr Flag kFlags[] = {
    ids("--ids", kRun | kTokenize | kScore | kBench | kEncoders, &Options::ids, "token ids 1,2,3 in place of text, as given; -: a list a line of standard input"),
    on("--print-ids", kRun | kTokenize, &Options::print_ids, "the output's token ids, separated by commas, in place of text"),
    on("--decode", kTokenize, &Options::decode, "ids to text: the lists of ids are the input"),
    text("--target", "TEXT", kScore, &Options::target, "encoder-decoder: the target that is scored; its end token is added"),
    ids("--target-ids", kScore, &Options::target_ids, "the same as token ids, as given"),
    ids("--segments", kEncoders, &Options::segments, "the segment (token type) of each of --ids"),
    on("--pair", kTokenize | kClassify | kFill | kEmbed, &Options::pair, "each text is two, with a tab between them"),
    on("--truncate", kEncoders, &Options::truncate, "cuts a text that is too long for --source (else it is an error)"),
    text("--pooling", "HOW", kEmbed, &Options::pooling, "mean, first or last (as the file says)"),
    on("--normalise", kEmbed, &Options::normalise, "vectors of length 1 (as the file says)"),
    on("--no-normalise", kEmbed, &Options::no_normalise, "vectors as they are"),
    number("--dim", kEmbed, &Options::dim, 1, 65536, "only the first N values (Matryoshka), then normalised"),
    text("--prompt", "NAME", kEmbed, &Options::prompt, "the file's prefix of that name before each text (its first one)"),
    text("--prompt-text", "TEXT", kEmbed, &Options::prompt_text, "this prefix before each text"),
    text("--npy", "FILE.npy", kEmbed, &Options::npy, "the vectors as one array, (texts, values), in place of text"),
    number("--batch", kEncoders, &Options::batch, 1, 4096, "texts that are encoded together (32; 1 from a terminal)"),
    number("--top", kFill | kClassify, &Options::top, 1, 1u << 20, "only the N best (fill: 5; classify: all)"),
    number("-n", kRun | kBench, &Options::n, 1, kMost, "at most N new tokens (run: as many as the context holds; bench: 32)"),
    text("--prefix", "TEXT", kRun, &Options::prefix, "the output begins with TEXT"),
    ids("--prefix-ids", kRun, &Options::prefix_ids, "the output begins with these token ids"),
    number("--context", kRun | kInspect | kScore | kBench, &Options::context, 1, kMost, "room for N tokens of the target (the model's maximum up to 2048; 256 when it has none)"),
    number("--source", kRun | kInspect | kScore | kBench | kEncoders, &Options::source, 1, kMost, "room for N tokens of the source (as --context; bench: 32)"),
    number("--threads", kForward | kInspect, &Options::threads, 1, 64, "threads (1)"),
    text("--isa", "NAME", kForward, &Options::isa, "instruction set, one of those that phasor --version lists (the best)"),
    on("--check", kRun | kScore | kBench | kEncoders, &Options::check, "first read the whole file: checksums and finite weights"),
    text("--logits", "FILE.npy", kRun | kFill | kClassify, &Options::logits, "logits of each position, (positions, vocabulary)"),
    text("--hidden", "FILE.npy", kRun | kEncoders, &Options::hidden, "residuals of the encoder, or of a lone decoder, (layers + 2, positions, width)"),
    text("--hidden-decoder", "FILE.npy", kRun, &Options::hidden_decoder, "the same of an encoder-decoder's decoder"),
    text("--attention", "FILE.npy", kRun | kEncoders, &Options::attention, "attention, (layers, heads, queries, keys): cross, or a lone stack's own"),
    number("--reps", kBench, &Options::reps, 1, 10000, "repetitions, of which the median counts (5)"),
    on("--json", kRun | kInspect | kVerify | kScore | kBench | kEncoders, &Options::json, "results and figures as JSON"),
    on("--quiet", kRun | kVerify | kBench | kEncoders, &Options::quiet, "no figures on standard error; verify: only the verdict"),
    on("--help", kAll, &Options::help, "this text"),
};

// Flags that the program will have: refused by name, never ignored.
constexpr const char* kNotBuilt[] = {"--temperature", "--top-k", "--top-p", "--min-p", "--repeat-penalty", "--seed", "--beam", "--stop"};

const Flag* find(const char* name, size_t length) {
  for (const Flag& f : kFlags)
    if (strlen(f.name) == length && strncmp(f.name, name, length) == 0) return &f;
  return nullptr;
}

bool is_not_built(const char* name, size_t length) {
  for (const char* f : kNotBuilt)
    if (strlen(f) == length && strncmp(f, name, length) == 0) return true;
  return false;
}

// Digits only, no larger than `most`.
bool parse_number(const char* s, const char* end, uint32_t most, uint32_t* out) {
  uint64_t value = 0;
  if (s == end) return false;
  for (; s != end; ++s) {
    if (*s < '0' || *s > '9') return false;
    value = value * 10 + static_cast<uint64_t>(*s - '0');
    if (value > most) return false;
  }
  *out = static_cast<uint32_t>(value);
  return true;
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

int set(Options* out, const Flag& f, const char* value) {
  if (f.on != nullptr) out->*f.on = true;
  if (f.text != nullptr) out->*f.text = value;
  if (f.ids != nullptr) return set_ids(&(out->*f.ids), f.name, value);
  if (f.number != nullptr && (!parse_number(value, value + strlen(value), f.most, &(out->*f.number)) || out->*f.number < f.least))
    return usage_error("%s %s: expected a whole number from %u to %u", f.name, value, f.least, f.most);
  return f.text == &Options::isa ? check_isa(value) : 0;
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
    uint32_t id = 0;
    if (!parse_number(text, end, UINT32_MAX - 1, &id)) return false;
    ids->push_back(id);
    while (*end == ' ') ++end;
    if (*end == 0) return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}

int parse(Options* out, Command command, const char* name, int argc, char** argv) {
  bool flags = true;
  for (int i = 0; i < argc; ++i) {
    const char* word = argv[i];
    if (flags && strcmp(word, "--") == 0) {
      flags = false;
      continue;
    }
    if (!flags || word[0] != '-' || word[1] == 0) {
      if (out->model == nullptr) out->model = word;
      else out->texts.push_back(word);
      continue;
    }
    const char* equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : nullptr;
    const size_t length = equals != nullptr ? static_cast<size_t>(equals - word) : strlen(word);
    const int shown = static_cast<int>(length);
    if (is_not_built(word, length)) return usage_error("%.*s is not built yet", shown, word);
    const Flag* f = find(word, length);
    if (f == nullptr) return usage_error("%.*s: unknown flag (phasor %s --help lists them)", shown, word, name);
    if ((f->commands & command) == 0) return usage_error("%s: not a flag of %s (phasor %s --help lists them)", f->name, name, name);
    if (f->value == nullptr && equals != nullptr) return usage_error("%s: expected no value", f->name);
    const char* value = equals != nullptr ? equals + 1 : nullptr;
    if (f->value != nullptr && value == nullptr && ++i < argc) value = argv[i];
    if (f->value != nullptr && value == nullptr) return usage_error("%s: expected a value, %s", f->name, f->value);
    const int status = set(out, *f, value);
    if (status != 0) return status;
    if (out->help) return 0;
  }
  if (out->model == nullptr) return usage_error("%s: expected a model file (phasor %s --help)", name, name);
  return 0;
}

void print_flags(Command command) {
  for (const Flag& f : kFlags) {
    if ((f.commands & command) == 0) continue;
    char left[40];
    snprintf(left, sizeof left, "%s%s%s", f.name, f.value != nullptr ? " " : "", f.value != nullptr ? f.value : "");
    printf("  %-25s  %s\n", left, f.help);
  }
}

}  // namespace cli
