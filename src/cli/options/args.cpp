#include "args.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <variant>

#include "../../../include/phasor.h"
#include "../io/file.h"

namespace cli {
namespace {

constexpr uint32_t kGenerate = kRun | kChat;
constexpr uint32_t kEncoders = kEmbed | kFill | kClassify;
constexpr uint32_t kTexts = kEncoders | kTag | kAnswer | kRank;
constexpr uint32_t kSteps = kGenerate | kScore | kBench | kTexts;
constexpr uint32_t kForward = kSteps | kVerify;
constexpr uint32_t kAll = kForward | kTokenize | kInspect | kQuantize;
constexpr uint32_t kWithoutTexts = kChat | kInspect | kVerify | kBench;
constexpr uint64_t kLookahead = 8;  // where --lookahead has no number

// From the least to the most that a value may be, where the most is 0 to any; `above`: from above
// the least.
struct Range {
  double least, most;
  bool above;
};
constexpr Range from(double least, double most) { return {least, most, false}; }
constexpr Range above(double least, double most) { return {least, most, true}; }
constexpr double kMost = 1 << 24, kMostBytes = 0x1p40;

// One flag.
struct Flag {
  const char* name;
  // How the help calls its value. NULL: it has none; "a|b|c": one of these; "[=N]", "[=a|b]": may
  // be left out.
  const char* value;
  uint32_t commands;
  std::variant<bool Options::*, Number Options::*, Real Options::*, const char * Options::*,
               vector<const char*> Options::*, Ids Options::*>
      member;
  const char* help;
  Range range = from(1, kMost);
};

constexpr Flag kFlags[] = {
    {"--ids", "IDS", kRun | kTokenize | kScore | kBench | kEncoders, &Options::ids,
     "token ids 1,2,3 in place of text, as given; -: a list a line of standard input"},
    {"--print-ids", nullptr, kRun | kTokenize, &Options::print_ids,
     "the output's token ids, separated by commas, in place of text"},
    {"--decode", nullptr, kTokenize, &Options::decode,
     "ids to text: the lists of ids are the input"},
    {"--target", "TEXT", kScore, &Options::target,
     "encoder-decoder: the target that is scored; its end token is added"},
    {"--target-ids", "IDS", kScore, &Options::target_ids, "the same as token ids, as given"},
    {"--segments", "IDS", kEncoders, &Options::segments,
     "the segment (token type) of each of --ids"},
    {"--pair", nullptr, kTokenize | kEncoders, &Options::pair,
     "each text is two, with a tab between them"},
    {"--truncate", nullptr, kTexts, &Options::truncate,
     "cuts a text to --source, or to what the model's makers say (else too long is an error)"},
    {"--pooling", "mean|first|last", kEmbed, &Options::pooling,
     "of the vectors (as the file says)"},
    {"--normalize", nullptr, kEmbed, &Options::normalize, "vectors of length 1 (as the file says)"},
    {"--no-normalize", nullptr, kEmbed, &Options::no_normalize, "vectors as they are"},
    {"--dim", "N", kEmbed, &Options::dim, "only the first N values (Matryoshka), then normalized",
     from(1, 65536)},
    {"--source-lang", "NAME", kRun | kTokenize | kScore, &Options::source_lang,
     "encoder-decoder: the text's language, as the model's tokenizer calls it (as the file says)"},
    {"--target-lang", "NAME", kRun | kTokenize | kScore, &Options::target_lang,
     "encoder-decoder: the output's language (as the file says)"},
    {"--prompt", "NAME", kRun | kTokenize | kScore | kEmbed, &Options::prompt,
     "the file's prefix of that name before each text (embed: its first one; else none)"},
    {"--prompt-text", "TEXT", kRun | kTokenize | kScore | kEmbed, &Options::prompt_text,
     "this prefix before each text"},
    {"--labels", "TEXTS", kClassify, &Options::labels,
     "classes of your own, a,b,c: does the text entail a sentence with each (for a model of "
     "inference)"},
    {"--template", "TEXT", kClassify, &Options::hypothesis,
     "with --labels: that sentence, {} for the label (\"This example is {}.\")"},
    {"--multi-label", nullptr, kClassify, &Options::multi_label,
     "with --labels: a score for each label by itself"},
    {"--npy", "FILE.npy", kEmbed, &Options::npy,
     "the vectors as one array, (texts, values), in place of text"},
    {"--batch", "N", kRun | kTexts, &Options::batch,
     "texts that are encoded together (32; 1 from a terminal); run: lines that are generated from "
     "side by side, the same output, printed whole and in their order (of standard input up to 16, "
     "in 256 MiB; else 1)",
     from(1, 4096)},
    {"--sparse", nullptr, kEmbed, &Options::sparse,
     "a masked language model's weights of the vocabulary (SPLADE) in place of a vector"},
    {"--top", "N", kEmbed | kFill | kClassify | kAnswer | kRank, &Options::top,
     "only the N best (fill: 5; answer: 1; embed --sparse, classify, rank: all)", from(1, 1 << 20)},
    {"--late", nullptr, kRank, &Options::late,
     "by late interaction: the sum, over the query's vectors, of the best product with one of the "
     "text's (ColBERT)"},
    {"--max-answer", "N", kAnswer, &Options::max_answer, "an answer has at most N tokens (15)"},
    {"--null", nullptr, kAnswer, &Options::null_answer,
     "\"no answer\" is one too (SQuAD 2.0): an empty text"},
    {"--mask", "ID", kFill, &Options::mask, "the mask's id (as the file says)", from(0, kMost)},
    {"-n", "N", kRun | kChat | kBench, &Options::n,
     "at most N new tokens (run, chat: as the file says, and as many as the context holds; "
     "bench: 32)"},
    {"--prefix", "TEXT", kRun, &Options::prefix, "the output begins with TEXT"},
    {"--prefix-ids", "IDS", kRun, &Options::prefix_ids, "the output begins with these token ids"},
    {"--system", "TEXT", kChat, &Options::system,
     "a system message that stands before the conversation"},
    {"--greedy", nullptr, kChat, &Options::greedy,
     "the best token each time, whatever the file recommends"},
    {"--print-prompt", nullptr, kChat, &Options::print_prompt,
     "the text that the template makes of the conversation, on standard error"},
    {"--temperature", "X", kGenerate, &Options::temperature,
     "tokens are drawn, logits divided by X; 0: the best is taken (0; 1 where a flag asks for "
     "draws)",
     from(0, 1000)},
    {"--top-k", "N", kGenerate, &Options::top_k, "draw from the N most probable tokens (0: all)",
     from(0, kMost)},
    {"--top-p", "X", kGenerate, &Options::top_p,
     "draw from the fewest tokens that have X of the probability (1: all)", above(0, 1)},
    {"--min-p", "X", kGenerate, &Options::min_p,
     "draw from tokens with at least X of the best one's probability (0: all)", from(0, 1)},
    {"--typical", "X", kGenerate, &Options::typical,
     "draw from the tokens of expected surprise that have X of the probability (1: all)",
     above(0, 1)},
    {"--seed", "N", kGenerate, &Options::seed,
     "of the draws, line by line one more; the same seed, the same text (a new one each time)",
     from(0, 0)},
    {"--sample", nullptr, kRun, &Options::sample,
     "draw as the file recommends; other flags change that"},
    {"--samples", "N", kRun, &Options::samples,
     "N outputs are drawn for each input, a line each, with seeds 2^32 apart", from(1, 256)},
    {"--repeat-penalty", "X", kGenerate, &Options::repeat_penalty,
     "divides the logits of tokens that are there already (1)", above(0, 100)},
    {"--presence-penalty", "X", kGenerate, &Options::presence_penalty,
     "taken from the logits of tokens that are in the output (0)", from(-100, 100)},
    {"--frequency-penalty", "X", kGenerate, &Options::frequency_penalty,
     "the same, times how often (0)", from(-100, 100)},
    {"--no-repeat-ngram", "N", kGenerate, &Options::no_repeat_ngram,
     "no N tokens in a row twice (0: no such rule)", from(0, kMost)},
    {"--source-no-repeat-ngram", "N", kRun, &Options::source_no_repeat_ngram,
     "no N tokens in a row that stand in the source, or in a decoder's prompt (as the file says, "
     "or 0: no such rule)",
     from(0, kMost)},
    {"--min-new", "N", kGenerate, &Options::min_new,
     "at least N new tokens before an end token (0)", from(0, kMost)},
    {"--suppress", "IDS", kGenerate, &Options::suppress, "tokens that are never chosen"},
    {"--bad-words", "IDS", kGenerate, &Options::bad_words,
     "tokens that never come one after the other; may be given several times (as the file says)"},
    {"--forced-last", "ID", kGenerate, &Options::forced_last,
     "stands last where an output ends for its length; \"\": none (as the file says)"},
    {"--end", "IDS", kGenerate, &Options::end, "tokens that end the output, besides the model's"},
    {"--stop", "TEXT", kGenerate, &Options::stop,
     "ends the output before this text; may be given several times"},
    {"--keep", "N", kRun, &Options::keep,
     "a full context keeps its first N tokens and the newer half of the others, and goes on",
     from(0, kMost)},
    {"--lookahead", "[=N]", kGenerate, &Options::lookahead,
     "guess up to N tokens (8) from what stood before and check them in one step: the same "
     "output",
     from(1, 64)},
    {"--beam", "N", kRun | kInspect | kBench, &Options::beam,
     "run: the best of a beam search with N beams; bench measures one too, inspect counts its "
     "memory",
     from(1, 256)},
    {"--length-penalty", "X", kRun, &Options::length_penalty,
     "with --beam: an output's score is its log-probability / tokens^X (as the file says, or 1)",
     from(-4, 4)},
    {"--length-norm", "power|gnmt", kRun, &Options::length_norm,
     "with --beam: gnmt: the score is divided by ((5 + tokens) / 6)^X (power: by tokens^X)"},
    {"--early-stopping", "no|yes|never", kRun, &Options::early_stopping,
     "with --beam: yes: ends with N outputs; never: goes on while a longer one may be better "
     "(no: while one as long may)"},
    {"--renormalize", "no|yes", kRun, &Options::renormalize,
     "with --beam: yes: what penalties and bans leave of the probabilities is divided by its sum "
     "(as the file of an encoder-decoder says, or no)"},
    {"--coverage-penalty", "X", kRun, &Options::coverage_penalty,
     "with --beam, encoder-decoder: X times the sum of log(min(c, 1)) is added to a score, c what "
     "a "
     "token of the source has got of cross-attention (0)",
     from(0, 1000)},
    {"--groups", "N", kRun, &Options::groups,
     "with --beam: N groups of beams, which choose one after the other; needs --diversity",
     from(2, 256)},
    {"--diversity", "X", kRun, &Options::diversity,
     "with --groups: taken from the log-probability of a token for each beam of an earlier group "
     "that has just chosen it",
     above(0, 1000)},
    {"--n-best", "N", kRun, &Options::n_best,
     "with --beam: the N best outputs, a line each: score, a tab, text", from(1, 256)},
    {"--split", "no|sentences", kRun, &Options::split,
     "encoder-decoder: a text that is too long goes in sentence by sentence (no: is an error)"},
    {"--align", "[=words|pieces]", kRun, &Options::align,
     "encoder-decoder: behind each output a tab and which words of the source and of it belong "
     "together, as 0-0 1-2; pieces: their tokens"},
    {"--align-heads", "L:H,…", kRun, &Options::align_heads,
     "with --align: by these heads of cross-attention, layer:head from 0 (the mean of all)"},
    {"--shortlist", "FILE", kRun, &Options::shortlist,
     "encoder-decoder: the tokens that an output may have, source by source: CTranslate2's vmap, "
     "or "
     "Marian's lexical shortlist as text"},
    {"--shortlist-first", "N", kRun, &Options::shortlist_first,
     "with a lexical --shortlist: the first N tokens of the vocabulary are of every source (100)",
     from(0, kMost)},
    {"--shortlist-best", "N", kRun, &Options::shortlist_best,
     "with a lexical --shortlist: the N best translations of each source token (100)",
     from(1, kMost)},
    {"--embeddings", "FILE.npy", kRun, &Options::embeddings,
     "encoder-decoder: in place of a text the output of an encoder, (positions, width) in f32; the "
     "model's own does not run"},
    {"--save-state", "FILE", kRun, &Options::save_state,
     "decoder: the prompt and the output as they lie in the cache, to go on from"},
    {"--load-state", "FILE", kRun, &Options::load_state,
     "decoder: goes on from there; the text, if any, follows"},
    {"--stride", "N", kScore, &Options::stride,
     "decoder: scores a text of any length in windows of --context tokens that begin N apart"},
    {"--blocks", nullptr, kScore, &Options::blocks,
     "decoder: as llama.cpp's perplexity: windows side by side, the second half of each is "
     "scored"},
    {"--context", "N", kRun | kChat | kInspect | kScore | kBench, &Options::context,
     "room for N tokens of the target (the model's maximum up to 2048; 256 when it has none)"},
    {"--source", "N", kRun | kInspect | kScore | kBench | kTexts, &Options::source,
     "room for N tokens of the source (as --context; bench: 32)"},
    {"--cache", "f32|f16|q8", kRun | kInspect | kScore | kBench, &Options::cache,
     "of the decoder's keys and values: f16 takes half the memory, q8 little more than a "
     "quarter (f32)"},
    {"--threads", "N", kForward | kQuantize | kInspect, &Options::threads, "threads (1)",
     from(1, 64)},
    {"--isa", "NAME", kForward | kQuantize, &Options::isa,
     "instruction set, one of those that phasor --version lists (the best)"},
    {"--load", "auto|map|copy", kSteps, &Options::load,
     "the weights: the file mapped, or a copy in huge pages; auto: mapped, for score and bench "
     "a copy (auto)"},
    {"--check", nullptr, kSteps, &Options::check,
     "first read the whole file: checksums and finite weights"},
    {"--logits", "FILE.npy", kRun | kFill | kClassify, &Options::logits,
     "logits of each position, (positions, vocabulary)"},
    {"--hidden", "FILE.npy", kRun | kEncoders, &Options::hidden,
     "residuals of the encoder, or of a lone decoder, (layers + 2, positions, width)"},
    {"--hidden-decoder", "FILE.npy", kRun, &Options::hidden_decoder,
     "the same of an encoder-decoder's decoder"},
    {"--attention", "FILE.npy", kRun | kEncoders, &Options::attention,
     "attention, (layers, heads, queries, keys): cross, or a lone stack's own"},
    {"--chunk", "N", kInspect | kBench, &Options::chunk,
     "tokens that are computed together (64, or the length where that is less): any number "
     "gives the same bits",
     from(1, 1 << 16)},
    {"--text-bytes", "N", kInspect, &Options::text_bytes,
     "the longest text for the tokenizer; 0: none, ids only (4096)", from(0, 1 << 28)},
    {"--tables", "whole|rows", kInspect, &Options::tables,
     "sinusoid and rotary rows: whole, computed once, or rows, as they are needed: less "
     "memory, the same bits (whole)"},
    {"--ram", "SIZE", kInspect, &Options::ram,
     "does it fit a board's RAM: bytes, or 128K, or 1M; exit status 1 where it does not",
     from(1, kMostBytes)},
    {"--flash", "SIZE", kInspect, &Options::flash, "does the file fit a board's flash",
     from(1, kMostBytes)},
    {"--emit", "c|asm|h", kInspect, &Options::emit,
     "on standard output: the file as a source for a linker, aligned to 64; h: these limits "
     "and the sizes of the two blocks as a C header"},
    {"--type", "f32|f16|bf16|q8|q4|q8r|q8rh|q4m|q4k", kQuantize, &Options::type, "of the matrices"},
    {"--output-type", "f32|f16|bf16|q8|q4|q8r|q8rh|q4m|q4k", kQuantize, &Options::output_type,
     "of the embeddings and the output's matrix (as --type)"},
    {"--moments", "FILE.npy", kQuantize, &Options::moments,
     "q8 and q4: how much each input counts (tools/moments.py)"},
    {"--length", "N", kBench, &Options::length, "tokens of the prompt (32)"},
    {"--reps", "N", kBench, &Options::reps, "repetitions, of which the median counts (5)",
     from(1, 10000)},
    {"--json", nullptr, kRun | kChat | kInspect | kVerify | kScore | kBench | kTexts,
     &Options::json, "results and figures as JSON"},
    {"--quiet", nullptr, kRun | kChat | kVerify | kScore | kBench | kQuantize | kTexts,
     &Options::quiet, "no figures on standard error; verify: only the verdict; quantize: nothing"},
    {"--help", nullptr, kAll, &Options::help, "this text"},
};

const Flag* find(const string& name) {
  for (const Flag& f : kFlags)
    if (name == f.name) return &f;
  return nullptr;
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
  const uint64_t least = static_cast<uint64_t>(f.range.least),
                 most = f.range.most > 0 ? static_cast<uint64_t>(f.range.most) : UINT64_MAX;
  const char* end = value + strlen(value);
  const bool size = strcmp(f.value, "SIZE") == 0;  // may end in K or M, which count in 1,024s
  const uint64_t unit = !size || end == value ? 1
                        : end[-1] == 'K'      ? 1 << 10
                        : end[-1] == 'M'      ? 1 << 20
                                              : 1;
  if (parse_number(value, unit == 1 ? end : end - 1, most, out) && *out >= least) {
    *out *= unit;
    return 0;
  }
  if (size) return usage_error("%s %s: expected bytes, such as 131072, 128K or 1M", f.name, value);
  return usage_error("%s %s: expected a whole number from %" PRIu64 " to %" PRIu64, f.name, value,
                     least, most);
}

int set_real(const Flag& f, const char* value, float* out) {
  char* end = nullptr;
  *out = strtof(value, &end);
  // not "nan", "inf" or hexadecimal
  const bool number = end != value && *end == 0 && strpbrk(value, "nNxX ") == nullptr;
  const Range& range = f.range;
  if (number && (range.above ? *out > range.least : *out >= range.least) && *out <= range.most)
    return 0;
  return usage_error("%s %s: expected a number %s %g %s %g", f.name, value,
                     range.above ? "above" : "from", range.least, range.above ? "up to" : "to",
                     range.most);
}

int set_ids(const Flag& f, const char* value, Ids* out) {
  Ids one{true, strcmp(f.name, "--ids") == 0 && strcmp(value, "-") == 0, {}};
  if (one.from_input || parse_ids(value, &one.values)) {
    if (strcmp(f.name, "--bad-words") == 0) {  // behind those before
      TokenIds all = out->values;
      if (!one.values.empty()) all.push_back(count_of(one.values));
      all.insert(all.end(), one.values.begin(), one.values.end());
      one.values.swap(all);
    }
    return *out = one, 0;
  }
  return usage_error("%s %s: expected token ids separated by commas, such as 1,2,3", f.name, value);
}

int check_isa(const char* name) {
  string known = "auto";
  if (name == known) return 0;
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i) {
    if (strcmp(phasor_isa_name(i), name) == 0) return 0;
    known += string(" ") + phasor_isa_name(i);
  }
  return usage_error("--isa %s: expected one that runs here: %s", name, known.c_str());
}

// The place of `value` among a flag's choices; the first where it was left out.
int set_choice(const Flag& f, const char* value, uint64_t* out) {
  *out = 0;
  if (value == nullptr) return 0;
  string choices = f.value;
  if (choices[0] == '[') choices = choices.substr(2, choices.size() - 3);  // "[=a|b]"
  for (const char* at = choices.c_str(); *at != 0; ++*out) {
    const size_t length = strcspn(at, "|");
    if (strlen(value) == length && strncmp(at, value, length) == 0) return 0;
    at += length + (at[length] != 0 ? 1 : 0);
  }
  std::replace(choices.begin(), choices.end(), '|', ' ');
  return usage_error("%s %s: expected one of: %s", f.name, value, choices.c_str());
}

// The member behind a flag, where it is of this type.
template <class T>
T* member(const Flag& f, Options* out) {
  const auto* found = std::get_if<T Options::*>(&f.member);
  return found != nullptr ? &(out->**found) : nullptr;
}

// `value` is NULL where the flag has none, or it was left out.
int set(Options* out, const Flag& f, const char* value) {
  out->given.push_back(f.name);
  const bool choice = f.value != nullptr && strchr(f.value, '|') != nullptr;
  uint64_t number = kLookahead;
  if (choice)
    if (const int status = set_choice(f, value, &number)) return status;
  if (bool* on = member<bool>(f, out)) *on = true;
  if (const char** text = member<const char*>(f, out)) *text = value;
  if (auto* texts = member<vector<const char*>>(f, out)) texts->push_back(value);
  if (Ids* ids = member<Ids>(f, out)) return set_ids(f, value, ids);
  if (Real* real = member<Real>(f, out)) {
    real->given = true;
    return set_real(f, value, &real->value);
  }
  if (Number* whole = member<Number>(f, out)) {
    if (!choice && value != nullptr)
      if (const int status = set_number(f, value, &number)) return status;
    *whole = {true, number};
  }
  return strcmp(f.name, "--isa") == 0 ? check_isa(value) : 0;
}

}  // namespace

int usage_error(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(one_line(format_list(pattern, arguments)));
  va_end(arguments);
  return 2;
}

int data_error(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(one_line(format_list(pattern, arguments)));
  va_end(arguments);
  return 1;
}

void note(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(one_line(format_list(pattern, arguments)));
  va_end(arguments);
}

const char* Options::first_given(std::initializer_list<const char*> names) const {
  for (const char* name : names)
    for (const char* one : given)
      if (strcmp(name, one) == 0) return name;
  return nullptr;
}

bool parse_ids(const char* text, TokenIds* ids) {
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

// The rest of the line: what goes with what, and what is not said.
static int complete(Options* out, Command command, const char* name) {
  if (out->model == nullptr)
    return usage_error("%s: expected a model file (phasor %s --help)", name, name);
  if (!out->texts.empty() && (command & kWithoutTexts) != 0)
    return usage_error("%s: unexpected argument %s", name, out->texts[0]);
  if (!out->texts.empty() && out->ids.given)
    return usage_error("--ids: expected either ids or text, not both");
  // What looks at the file once needs no more than a mapping; what reads its weights many times
  // begins with a copy.
  if ((command & kSteps) == 0) out->load.value = static_cast<uint64_t>(Load::map);
  if ((command & (kScore | kBench)) != 0 && out->load == 0)
    out->load.value = static_cast<uint64_t>(Load::copy_if_faster);
  return 0;
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
      if (out->model == nullptr)
        out->model = word;
      else
        out->texts.push_back(word);
      continue;
    }
    const char* equals = strncmp(word, "--", 2) == 0 ? strchr(word, '=') : nullptr;
    const string given(word, equals != nullptr ? equals : word + strlen(word));
    const Flag* f = find(given);
    if (f == nullptr)
      return usage_error("%s: unknown flag (phasor %s --help lists them)", given.c_str(), name);
    if ((f->commands & command) == 0)
      return usage_error("%s: not a flag of %s (phasor %s --help lists them)", f->name, name, name);
    if (f->value == nullptr && equals != nullptr)
      return usage_error("%s: expected no value", f->name);
    const char* value = equals != nullptr ? equals + 1 : nullptr;
    const bool wanted = f->value != nullptr && f->value[0] != '[';
    if (wanted && value == nullptr && ++i < argc) value = argv[i];
    if (wanted && value == nullptr)
      return usage_error("%s: expected a value, %s", f->name, f->value);
    if (const int status = set(out, *f, value)) return status;
    if (out->help) return 0;
  }
  return complete(out, command, name);
}

void print_flags(Command command) {
  for (const Flag& f : kFlags) {
    if ((f.commands & command) == 0) continue;
    string left = f.name;
    if (f.value != nullptr) left += (f.value[0] != '[' ? " " : "") + string(f.value);
    output(format("  %-25s  %s\n", left.c_str(), f.help));
  }
}

}  // namespace cli
