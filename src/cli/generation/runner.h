// cli: what both ways of `phasor run` share, lines one after the other (in_turn.cpp) and side by
// side (side_by_side.cpp): the model with its options, how a line is read (runner.cpp), and how
// what was made of it is printed.
#pragma once

#include "../options/input.h"
#include "align.h"
#include "beams.h"

namespace cli {

// A line of input, and what was made of it.
struct Line {
  uint64_t number = 0;
  string where, why;           // why: not empty, the line is bad
  bool nothing = false;        // there is no text, and no output
  TokenIds ids;                // of the whole line
  vector<TokenIds> sentences;  // --split, where the line is too long: each is generated from
  // --beam: the best first; --samples: in their order; --split: one of each sentence; else one
  vector<Output> outputs;
  Output all;                                      // of the whole line
  phasor_generation sum = PHASOR_GENERATION_INIT;  // but its count
  double seconds = 0;

  size_t parts(uint32_t samples) const {
    return max({sentences.size(), size_t{samples}, size_t{1}});
  }
  const TokenIds& part(size_t i) const { return sentences.empty() ? ids : sentences[i]; }
};

class Runner {
 public:
  explicit Runner(const RunOptions& given) : o(given), beams(e, given), aligner(e, given) {}
  int run();

  // A line's ids. What is wrong with it is in its `why`.
  void read(const Input& input, Line* line);
  // A source's room, or that of a prompt with what its output begins with (--prefix).
  bool has_room(const TokenIds& ids, string* why) const;
  // What a line's output goes on from: its ids, or of an encoder-decoder none.
  TokenIds prompt_of(const TokenIds& ids) const { return e.has_source() ? TokenIds() : ids; }
  // An output without a search: sample `sample` of a line, or of one of its sentences.
  Output output_of(const Line& line, const TokenIds& ids, const uint32_t* out, size_t count,
                   uint32_t finish, uint32_t sample) const;
  // After all outputs: their pairs (--align), and `all`. The line's source is in `sequence` where
  // `encoded`. False: the line is bad.
  bool complete(Line* line, uint32_t sequence, bool encoded);
  // A line, but for the text of its output where that was `streamed`; or its error. What follows
  // flushes it.
  void print(const Line& line, bool streamed);
  // How far it is, on a terminal: at most five times a second.
  void tell();

  const RunOptions& o;
  Engine e;
  Beams beams;
  Aligner aligner;
  Capture capture;
  NewFile state;     // --save-state
  TokenIds end_ids;  // of the options
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  uint32_t batch = 1;                              // lines side by side
  uint64_t seed = 0;                               // of the first line
  size_t capacity = 0;                             // new tokens of a line
  phasor_generation all = PHASOR_GENERATION_INIT;  // of all lines, but its count
  double seconds = 0;
  int status = 0;

 private:
  const char* alone() const;
  int check_batch() const;
  int check_options() const;
  bool load_shortlist();
  bool load_states();
  Pieces pieces_of(uint32_t side, uint32_t vocabulary) const;
  bool start();
  phasor_limits limits_for(uint32_t lines) const;
  uint32_t choose_batch() const;
  bool make_prefix();
  bool has_room_for_prefix() const;
  bool read_ids(const Input& input, TokenIds* ids, string* why);
  bool split(const string& text, vector<TokenIds>* sentences, string* why);
  size_t made(const Line& line) const;  // tokens of its output, or of all of --samples
  void print_json(const Line& line) const;
  void figures() const;

  Shortlist shortlist_;
  TokenIds prefix_;
  uint64_t read_ = 0, printed_ = 0;  // lines
  uint64_t tokens_ = 0;
  double told_ = now();  // when the progress was shown
};

// Until there are no more lines or the output has failed. in_turn: 0, or the exit status after a
// line on standard error.
int in_turn(Runner* runner, Inputs* inputs);
void side_by_side(Runner* runner, Inputs* inputs);

}  // namespace cli
