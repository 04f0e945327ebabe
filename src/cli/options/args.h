// cli: the command line as a struct. One table in args.cpp has every flag, its commands and its
// help.
#pragma once
#include <stdint.h>

#include <initializer_list>

#include "../io/text.h"

namespace cli {

enum Command : uint32_t {
  kRun = 1,
  kTokenize = 2,
  kInspect = 4,
  kVerify = 8,
  kScore = 16,
  kBench = 32,
  kEmbed = 64,
  kFill = 128,
  kClassify = 256,
  kChat = 512,
  kQuantize = 1024,
  kRank = 2048,
  kTag = 4096,
  kAnswer = 8192
};

// Values of flags, with whether they were given.
struct Ids {
  bool given;
  bool from_input;  // "-": one list a line of standard input
  TokenIds values;
};
struct Real {
  bool given;
  float value;
};
// A whole number, or the place of a word among a flag's choices. The default, unless it is said
// here, is 0.
struct Number {
  bool given;
  uint64_t value;
  operator uint32_t() const { return static_cast<uint32_t>(value); }
};

// Made with {}: what is not given is NULL, 0 or false, but where it is said here.
struct Options {
  const char* model;
  vector<const char*> texts;
  Ids ids, prefix_ids, target_ids, segments, suppress, end, forced_last;
  Ids bad_words;  // of each list its length, then its ids
  const char *prefix, *target, *system, *prompt, *prompt_text, *isa, *type, *output_type, *labels,
      *hypothesis, *source_lang, *target_lang;
  // names of files
  const char *logits, *hidden, *hidden_decoder, *attention, *npy, *moments, *save_state,
      *load_state, *embeddings;
  const char *align_heads, *shortlist;
  vector<const char*> stop;
  Real temperature, top_p, min_p, typical, repeat_penalty, presence_penalty, frequency_penalty,
      length_penalty, coverage_penalty;
  Number seed, top_k, no_repeat_ngram, source_no_repeat_ngram, min_new, keep, lookahead, beam,
      n_best, samples;
  Number n, context, source, length, chunk, text_bytes, dim, batch, top, mask, stride, ram, flash;
  Number threads{false, 1}, reps{false, 5}, max_answer{false, 15}, groups;
  Real diversity;
  Number shortlist_first{false, 100}, shortlist_best{false, 100};
  // places among choices: cache is PHASOR_CACHE_…, early_stopping PHASOR_EARLY_…, length_norm
  // PHASOR_LENGTH_…, tables PHASOR_TABLES_…, load Load;
  // renormalize, split and align 0 or 1
  Number cache, early_stopping, length_norm, renormalize, tables, load, pooling, emit, split, align;
  bool print_ids, decode, check, json, quiet, blocks, pair, truncate, normalize, no_normalize,
      sample, greedy, print_prompt, null_answer, sparse, multi_label, late, help;
  vector<const char*> given;  // the flags, by name

  // The first of these flags that was given, or NULL.
  const char* first_given(std::initializer_list<const char*> names) const;
  // --logits and its like, which are of one whole pass
  bool arrays() const { return logits || hidden || hidden_decoder || attention; }
};

// Reads what stands after the command. 0, or 2 when a line on standard error says what is wrong.
int parse(Options* out, Command command, const char* name, int argc, char** argv);

// "1,2,3"; an empty text is an empty list. False when it is not that.
bool parse_ids(const char* text, TokenIds* ids);

// The flags of a command, a line each.
void print_flags(Command command);

// "phasor: " and a line on standard error; returns 2 (the command line), 1 (the model or the data)
// or nothing.
__attribute__((format(printf, 1, 2))) int usage_error(const char* pattern, ...);
__attribute__((format(printf, 1, 2))) int data_error(const char* pattern, ...);
__attribute__((format(printf, 1, 2))) void note(const char* pattern, ...);

}  // namespace cli
