// cli: what the flags of generation set, a struct for each concern.
#pragma once
#include "../engine/capture.h"
#include "../engine/engine.h"

namespace cli {

// Which token comes next, and where an output ends.
struct SamplingOptions {
  Number n{"-n N", "at most N new tokens (as the file says, and as many as the context holds)"};
  Real temperature{"--temperature X",
                   "tokens are drawn, logits divided by X; 0: the best is taken (0; 1 where a flag "
                   "asks for draws)",
                   0, 1000};
  Number top_k{"--top-k N", "draw from the N most probable tokens (0: all)", 0, kMost};
  Real top_p{"--top-p X", "draw from the fewest tokens that have X of the probability (1: all)", 0,
             1, true};
  Real min_p{"--min-p X", "draw from tokens with at least X of the best one's probability (0: all)",
             0, 1};
  Real typical{"--typical X",
               "draw from the tokens of expected surprise that have X of the probability (1: all)",
               0, 1, true};
  Number seed{
      "--seed N",
      "of the draws, line by line one more; the same seed, the same text (a new one each time)", 0,
      0};
  Real repeat_penalty{"--repeat-penalty X",
                      "divides the logits of tokens that are there already (1)", 0, 100, true};
  Real presence_penalty{"--presence-penalty X",
                        "taken from the logits of tokens that are in the output (0)", -100, 100};
  Real frequency_penalty{"--frequency-penalty X", "the same, times how often (0)", -100, 100};
  Number no_repeat_ngram{"--no-repeat-ngram N", "no N tokens in a row twice (0: no such rule)", 0,
                         kMost};
  Number min_new{"--min-new N", "at least N new tokens before an end token (0)", 0, kMost};
  Ids suppress{"--suppress IDS", "tokens that are never chosen"};
  IdLists bad_words{
      "--bad-words IDS",
      "tokens that never come one after the other; may be given several times (as the file says)"};
  Ids forced_last{"--forced-last ID",
                  "stands last where an output ends for its length; \"\": none (as the file says)"};
  Ids end{"--end IDS", "tokens that end the output, besides the model's"};
  Words stop{"--stop TEXT", "ends the output before this text; may be given several times"};
  Number lookahead{
      "--lookahead[=N]",
      "guess up to N tokens (8) from what stood before and check them in one step: the same output",
      1, 64, 8};
  Switch sample{"--sample", "draw as the file recommends; other flags change that"};
  Number samples{"--samples N",
                 "N outputs are drawn for each input, a line each, with seeds 2^32 apart", 1, 256};
  Number source_no_repeat_ngram{"--source-no-repeat-ngram N",
                                "no N tokens in a row that stand in the source, or in a decoder's "
                                "prompt (as the file says, or 0: no such rule)",
                                0, kMost};
  Number keep{
      "--keep N",
      "a full context keeps its first N tokens and the newer half of the others, and goes on", 0,
      kMost};
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
  Real length_penalty{
      "--length-penalty X",
      "with --beam: an output's score is its log-probability / tokens^X (as the file says, or 1)",
      -4, 4};
  Choice length_norm{
      "--length-norm power|gnmt",
      "with --beam: gnmt: the score is divided by ((5 + tokens) / 6)^X (power: by tokens^X)"};
  Choice early_stopping{"--early-stopping no|yes|never",
                        "with --beam: yes: ends with N outputs; never: goes on while a longer one "
                        "may be better (no: while one as long may)"};
  Choice renormalize{"--renormalize no|yes",
                     "with --beam: yes: what penalties and bans leave of the probabilities is "
                     "divided by its sum (as the file of an encoder-decoder says, or no)"};
  Real coverage_penalty{"--coverage-penalty X",
                        "with --beam, encoder-decoder: X times the sum of log(min(c, 1)) is added "
                        "to a score, c what a token of the source has got of cross-attention (0)",
                        0, 1000};
  Number groups{
      "--groups N",
      "with --beam: N groups of beams, which choose one after the other; needs --diversity", 2,
      256};
  Real diversity{"--diversity X",
                 "with --groups: taken from the log-probability of a token for each beam of an "
                 "earlier group that has just chosen it",
                 0, 1000, true};
  Number n_best{"--n-best N", "with --beam: the N best outputs, a line each: score, a tab, text", 1,
                256};
};

struct AlignOptions {
  Choice align{"--align[=words|pieces]",
               "encoder-decoder: behind each output a tab and which words of the source and of it "
               "belong together, as 0-0 1-2; pieces: their tokens"};
  Word align_heads{
      "--align-heads L:H,…",
      "with --align: by these heads of cross-attention, layer:head from 0 (the mean of all)"};
};

struct ShortlistOptions {
  InputFile shortlist{"--shortlist FILE",
                      "encoder-decoder: the tokens that an output may have, source by source: "
                      "CTranslate2's vmap, or Marian's lexical shortlist as text"};
  Number shortlist_first{
      "--shortlist-first N",
      "with a lexical --shortlist: the first N tokens of the vocabulary are of every source (100)",
      0, kMost, 100};
  Number shortlist_best{
      "--shortlist-best N",
      "with a lexical --shortlist: the N best translations of each source token (100)", 1, kMost,
      100};
};

struct StateOptions {
  OutputFile save_state{
      "--save-state FILE",
      "decoder: the prompt and the output as they lie in the cache, to go on from"};
  InputFile load_state{"--load-state FILE",
                       "decoder: goes on from there; the text, if any, follows"};
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
  InputFile embeddings{"--embeddings FILE.npy",
                       "encoder-decoder: in place of a text the output of an encoder, (positions, "
                       "width) in f32; the model's own does not run; of a model that reads vectors "
                       "what its encoder reads"};
  Choice split{
      "--split no|sentences",
      "encoder-decoder: a text that is too long goes in sentence by sentence (no: is an error)"};
  Switch lines{kLines, kLinesHelp};
  Word prefix{"--prefix TEXT", "the output begins with TEXT"};
  Ids prefix_ids{"--prefix-ids IDS", "the output begins with these token ids"};
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
