// cli: the inputs of a command, one after the other: --ids, --embeddings (which are an input
// without ids), the arguments, or standard input; each with the name that errors use.
#pragma once

#include "../options/args.h"
#include "text.h"

namespace cli {

struct Input {
  string where;  // "--ids", "argument 2", "standard input, line 3"
  bool is_ids = false;
  TokenIds ids;  // is_ids
  string text;   // else
  string error;  // not empty: this input is bad
};

class Inputs {
 public:
  // whole: standard input is one text. `most_bytes`: longer texts are bad inputs.
  Inputs(const Options& options, bool whole, size_t most_bytes)
      : options_(options), whole_(whole), most_bytes_(most_bytes) {}
  bool next(Input* input);  // false: no more, or standard input failed
  // Whether next() would not wait for standard input.
  bool ready() { return !from_input() || reader_.ready(); }
  bool from_input() const {  // lines of standard input, or all of it as one text
    return options_.ids.from_input ||
           (options_.texts.empty() && !options_.ids.given && options_.embeddings == nullptr);
  }
  bool failed() const { return reader_.failed(); }

 private:
  bool read(Input* input);
  const Options& options_;
  bool whole_;
  size_t most_bytes_, given_ = 0;
  LineReader reader_;
};

// The longest text among the arguments, in bytes.
size_t longest_argument(const Options& options);

}  // namespace cli
