// cli: what the flags of generation set, a struct for each concern.
#pragma once
#include "../engine/capture.h"
#include "../engine/engine.h"

namespace cli {

// Which token comes next, and where an output ends.
struct SamplingOptions {
  Number n{"-n N",
           "Generate at most N new tokens. Default: the model's recommendation, else until the "
           "context is full."};
  Real temperature{"--temperature X",
                   "Divide the logits by X, then draw a token at random. 0: take the most probable "
                   "token. Default: 0, or 1 if a flag asks for sampling.",
                   0, 1000};
  Number top_k{"--top-k N", "Draw from the N most probable tokens. Default: 0 (off).", 0, kMost};
  Real top_p{"--top-p X",
             "Draw from the smallest set of tokens whose total probability is at least X. Default: "
             "1 (off).",
             0, 1, true};
  Real min_p{
      "--min-p X",
      "Draw from tokens with at least X times the probability of the best token. Default: 0 (off).",
      0, 1};
  Real typical{"--typical X",
               "Locally typical sampling: draw from a set with total probability X, closest to the "
               "entropy first. Default: 1 (off).",
               0, 1, true};
  Number seed{"--seed N",
              "Seed of the random numbers, plus 1 for each input line. The same seed gives the "
              "same text. Default: a new seed each time.",
              0, 0};
  Real repeat_penalty{"--repeat-penalty X",
                      "Make tokens that already occurred less probable: divide a positive logit by "
                      "X, multiply a negative one. Default: 1 (off).",
                      0, 100, true};
  Real presence_penalty{
      "--presence-penalty X",
      "Subtract X from the logit of every token already generated. Default: 0 (off).", -100, 100};
  Real frequency_penalty{
      "--frequency-penalty X",
      "Subtract X from a token's logit for each time it was generated. Default: 0 (off).", -100,
      100};
  Number no_repeat_ngram{"--no-repeat-ngram N",
                         "Never repeat an n-gram of N tokens. Default: 0 (off).", 0, kMost};
  Number min_new{"--min-new N",
                 "Generate at least N new tokens before an end token. Default: 0 (off).", 0, kMost};
  Ids suppress{"--suppress IDS", "Never choose these tokens."};
  IdLists bad_words{"--bad-words IDS",
                    "Never generate this sequence of tokens. You can repeat the flag. Default: the "
                    "model's recommendation."};
  Ids forced_last{"--forced-last ID",
                  "Last token of an output that reaches its length limit. \"\": none. Default: the "
                  "model's recommendation."};
  Ids end{"--end IDS", "More tokens that end the output, besides the model's own."};
  Words stop{"--stop TEXT", "Stop before this text. You can repeat the flag."};
  Number lookahead{"--lookahead[=N]",
                   "Prompt lookahead: guess up to N tokens from earlier text and check them in one "
                   "step. Faster, same output. Default for N: 8.",
                   1, 64, 8};
  Switch sample{"--sample",
                "Sample with the settings that the file recommends. Other flags override them."};
  Number samples{"--samples N",
                 "Draw N outputs for each input, one line each, with seeds 2^32 apart.", 1, 256};
  Number source_no_repeat_ngram{"--source-no-repeat-ngram N",
                                "Never repeat an n-gram of the source, or of a decoder's prompt. "
                                "Default: the model's recommendation, or 0 (off).",
                                0, kMost};
  Number keep{"--keep N",
              "When the context is full, keep its first N tokens and the newer half of the others, "
              "then continue.",
              0, kMost};
  // Those that a conversation has too, and more.
  template <class... More>
  FlagGroup choosing(More&... more) {
    return group("Choosing tokens", temperature, top_k, top_p, min_p, typical, seed, repeat_penalty,
                 presence_penalty, frequency_penalty, no_repeat_ngram, min_new, suppress, bad_words,
                 forced_last, end, stop, lookahead, more...);
  }
};

// Values of PHASOR_LENGTH_… and PHASOR_EARLY_… are the places of their words.
struct BeamOptions {
  Real length_penalty{"--length-penalty X",
                      "Needs --beam. Divide the log-probability of an output by tokens^X. Default: "
                      "the model's recommendation, or 1.",
                      -4, 4};
  Choice length_norm{"--length-norm power|gnmt",
                     "Needs --beam. power: divide by tokens^X. gnmt: divide by ((5 + tokens) / "
                     "6)^X. Default: power."};
  Choice early_stopping{"--early-stopping no|yes|never",
                        "Needs --beam. When to stop after N outputs. yes: at once. no: when no "
                        "beam of its present length is better. never: when no longer beam can be "
                        "better. Default: the model's recommendation, or no."};
  Choice renormalize{"--renormalize no|yes",
                     "Needs --beam. yes: normalize the probabilities again after penalties and "
                     "bans. Default: the recommendation of an encoder-decoder, or no."};
  Real coverage_penalty{
      "--coverage-penalty X",
      "Encoder-decoder, needs --beam. Add X times the sum of log(min(c, 1)) to the score, where c "
      "is the cross-attention that a source token received. Default: 0 (off).",
      0, 1000};
  Number groups{"--groups N",
                "Diverse beam search, needs --beam and --diversity. Number of groups.", 2, 256};
  Real diversity{"--diversity X",
                 "Needs --groups. Subtract X from a token's log-probability for each beam of an "
                 "earlier group that just chose it.",
                 0, 1000, true};
  Number n_best{"--n-best N",
                "Needs --beam. Print the N best outputs, one line each: score, tab, text.", 1, 256};
};

struct AlignOptions {
  Choice align{"--align[=words|pieces]",
               "Encoder-decoder. Print a tab and the word alignment after each output, such as 0-0 "
               "1-2. pieces: align tokens."};
  Word align_heads{"--align-heads L:H,…",
                   "Needs --align. Use these cross-attention heads, as layer:head from 0. Default: "
                   "the mean of all heads."};
};

struct ShortlistOptions {
  InputFile shortlist{"--shortlist FILE",
                      "Encoder-decoder. Allow only target tokens that this file lists for the "
                      "source: CTranslate2's vmap, or Marian's lexical shortlist as text."};
  Number shortlist_first{
      "--shortlist-first N",
      "Lexical --shortlist: always allow the first N tokens of the vocabulary. Default: 100.", 0,
      kMost, 100};
  Number shortlist_best{
      "--shortlist-best N",
      "Lexical --shortlist: allow the N best translations of each source token. Default: 100.", 1,
      kMost, 100};
};

struct StateOptions {
  OutputFile save_state{"--save-state FILE",
                        "Decoder. Save the prompt and the output with their KV cache."};
  InputFile load_state{"--load-state FILE",
                       "Decoder. Continue from a saved state. Text, if you give any, is appended."};
};

struct RunOptions : CommandLine,
                    OpenOptions,
                    MemoryOptions,
                    TextOptions,
                    ArrayOptions,
                    SamplingOptions,
                    BeamOptions,
                    AlignOptions,
                    ShortlistOptions,
                    StateOptions {
  InputFile embeddings{
      "--embeddings FILE",
      "Encoder-decoder. Read the output of another encoder instead of text: (positions, width) in "
      "f32, a .npy, or numbers in CSV or JSON lines. For a model with vector input, read the input "
      "of its encoder."};
  Choice split{"--split no|sentences",
               "Encoder-decoder. sentences: split a text that is too long. no: report an error. "
               "Default: no."};
  Switch lines{kLines, kLinesHelp};
  Word prefix{"--prefix TEXT", "Begin the output with TEXT."};
  Ids prefix_ids{"--prefix-ids IDS", "Begin the output with these token ids."};
  FlagGroups flags() {
    return {group("Input", ids, lines, source_lang, target_lang, prompt, prompt_text, embeddings,
                  split),
            group("Output", n, prefix, prefix_ids, print_ids, align, align_heads, json, quiet),
            choosing(sample, samples, source_no_repeat_ngram, keep, shortlist, shortlist_first,
                     shortlist_best),
            group("Beam search", beam, length_penalty, length_norm, early_stopping, renormalize,
                  coverage_penalty, groups, diversity, n_best),
            group("Arrays for NumPy", logits, hidden, hidden_decoder, attention),
            group("States", save_state, load_state),
            group("Memory and speed", context, source, cache, batch, threads, isa, load, check)};
  }
};

}  // namespace cli
