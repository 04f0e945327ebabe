// cli: `phasor run --beam`: a search with the flags' options, and its outputs as lines; so are
// those of `--samples`.
#pragma once
#include <utility>

#include "../io/json.h"
#include "options.h"

namespace cli {

// 0, or 2 when a line on standard error says which flags do not go with --beam, or need it.
int check_beams(const RunOptions& options);

// Which words (or pieces) of a source and of an output belong together.
struct Alignment {
  vector<string> source, target;
  vector<pair<uint32_t, uint32_t>> pairs;  // (source, target), in order
};

struct Output {
  TokenIds ids;
  string text;
  uint32_t finish = 0;
  float score = 0, log_probability = 0;
  uint64_t seed = 0;    // --samples, which has no scores
  Alignment alignment;  // --align
};

class Beams {
 public:
  Beams(const Engine& engine, const RunOptions& options) : e_(engine), o_(options) {}
  bool wanted() const { return o_.beam != 0; }
  // Searches from a sequence that is empty but for its source, in *steps steps: the best outputs,
  // as many as --n-best. False when *why says what is wrong.
  bool search(const TokenIds& prompt, const phasor_generate_options& shared,
              vector<Output>* outputs, uint32_t* steps, string* why) const;
  // What the flags ask for.
  phasor_beam_options options(const phasor_generate_options& shared) const;
  uint32_t n_best() const { return o_.n_best != 0 ? uint32_t{o_.n_best} : 1; }
  // What was found, best first; `forced` tokens begin each of them.
  vector<Output> outputs(const phasor_hypothesis* found, size_t count, const TokenIds& prompt,
                         uint32_t forced) const;
  // What goes to standard output, without the last line's end: a line for each output, with its
  // score in front where --n-best is given, and its pairs behind it with --align.
  string lines(const vector<Output>& outputs) const;
  void add_outputs(Json* json, const vector<Output>& outputs) const;  // as the member "outputs"
  // The text of one, as it goes on in the prompt's, without the stop string that ended it.
  string text_of(const TokenIds& prompt, const Output& one, uint32_t forced) const;

 private:
  size_t stop_at(const string& text, size_t before) const;

  const Engine& e_;
  const RunOptions& o_;
};

}  // namespace cli
