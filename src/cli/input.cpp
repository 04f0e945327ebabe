#include "input.h"

#include <string.h>

namespace cli {

size_t longest_argument(const Options& options) {
  size_t longest = 0;
  for (const char* text : options.texts)
    if (strlen(text) > longest) longest = strlen(text);
  return longest;
}

bool Inputs::next(Input* input) {
  *input = Input();
  const size_t i = given_++;
  if (options_.ids.given && !options_.ids.from_input) {
    if (i != 0) return false;
    input->where = "--ids";
    input->is_ids = true;
    input->ids = options_.ids.values;
    return true;
  }
  if (options_.ids.from_input || options_.texts.empty()) return from_input(input);
  if (i >= options_.texts.size()) return false;
  input->where = "argument " + std::to_string(i + 1);
  input->text = options_.texts[i];
  return true;
}

bool Inputs::from_input(Input* input) {
  if (!(whole_ && !options_.ids.given ? reader_.whole() : reader_.next())) return false;
  input->where = whole_ && !options_.ids.given
                     ? "standard input"
                     : "standard input, line " + std::to_string(reader_.number());
  input->text = reader_.line();
  if (options_.ids.given) {
    input->is_ids = true;
    if (!parse_ids(input->text.c_str(), &input->ids))
      input->error = "expected token ids separated by commas, such as 1,2,3";
  } else if (reader_.bytes() > most_bytes_ || reader_.bytes() != input->text.size()) {
    input->error = "a text of " + std::to_string(reader_.bytes()) + " bytes, there is room for " +
                   std::to_string(most_bytes_);
  }
  return true;
}

}  // namespace cli
