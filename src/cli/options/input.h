// cli: the inputs of a command, one after the other: --ids, the arguments, or standard input; each
// with the name that errors use.
#pragma once

#include "command.h"

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
  // whole: standard input is one text. `most_bytes`: longer texts are bad inputs. `other`: the flag
  // by which there is one input, which is neither text nor ids; or NULL.
  Inputs(const CommandLine& line, bool whole, size_t most_bytes, const char* other = nullptr)
      : given_(line), whole_(whole), most_bytes_(most_bytes), other_(other) {}
  bool next(Input* input);  // false: no more, or standard input failed
  // Whether next() would not wait for standard input.
  bool ready() { return !from_input() || reader_.ready(); }
  bool from_input() const {  // lines of standard input, or all of it as one text
    return given_.ids.from_input ||
           (given_.texts.empty() && !given_.ids.given && other_ == nullptr);
  }
  bool failed() const { return reader_.failed(); }

 private:
  bool read(Input* input);
  const CommandLine& given_;
  bool whole_;
  size_t most_bytes_, next_ = 0;
  const char* other_;
  LineReader reader_;
};

// The longest text among the arguments, in bytes.
size_t longest_argument(const CommandLine& line);

}  // namespace cli
