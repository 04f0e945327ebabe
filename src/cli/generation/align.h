// cli: `phasor run --align`: which part of the source each part of the output looks at, by the
// weights of cross-attention. The decoder's pass is repeated with an observer, in one step.
#pragma once
#include <utility>

#include "../engine/engine.h"
#include "../io/json.h"
#include "beams.h"

namespace cli {

class Aligner {
 public:
  Aligner(const Engine& engine, const RunOptions& options) : e_(engine), o_(options) {}
  bool wanted() const { return o_.align.given != nullptr; }
  // 0, or 2 when a line on standard error says which flags are wrong, or do not go with --align.
  int check_flags();
  // 0 where the model has what is asked for; else the exit status, after a line.
  int check();
  // Of all outputs of `source`: their pairs, and the words or pieces that they count. Uses
  // `sequence`, which has the source already where it is `encoded`, and leaves it empty. False when
  // *why says what is wrong.
  bool align(uint32_t sequence, bool encoded, const TokenIds& source, vector<Output>* outputs,
             string* why);

 private:
  struct Unit {
    bool part = false;             // a token that belongs to words, or is a piece of its own
    uint32_t first = 0, last = 0;  // from 0
  };
  // The weights of the output's tokens.
  bool look(uint32_t sequence, bool encoded, const TokenIds& source, const TokenIds& ids,
            string* why);
  void add_pairs(const TokenIds& source, Output* out) const;
  static void see(void* self, const phasor_view* view);
  void add(const phasor_view& view);
  bool is_special(uint32_t side, uint32_t id) const;
  // What each token belongs to; `units` gets their texts.
  vector<Unit> units_of(uint32_t side, const TokenIds& ids, vector<string>* units) const;

  const Engine& e_;
  const RunOptions& o_;
  vector<pair<uint32_t, uint32_t>> heads_;  // (layer, head); empty: all
  size_t keys_ = 0, found_ = 0;             // found: heads that have been seen
  vector<double> weights_;                  // (tokens of the output, keys), the sum over the heads
};

// "0-0 1-2", and the same with the texts as the member "alignment".
string pairs_text(const Alignment& alignment);
void add_alignment(Json* json, const Alignment& alignment);

}  // namespace cli
