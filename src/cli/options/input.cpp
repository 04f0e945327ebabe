#include "input.h"

#include <string.h>

namespace cli {

size_t longest_argument(const CommandLine& line) {
  size_t longest = 0;
  for (const char* text : line.texts)
    if (strlen(text) > longest) longest = strlen(text);
  return longest;
}

bool Inputs::next(Input* input) {
  *input = Input();
  if (other_ != nullptr) {
    input->where = other_;
    return input->is_ids = next_++ == 0;
  }
  input->is_ids = given_.ids.given != nullptr;
  if (from_input()) return read(input);
  const size_t i = next_++;
  if (i >= (input->is_ids ? 1 : given_.texts.size())) return false;
  input->where = input->is_ids ? given_.ids.given : format("argument %zu", i + 1);
  if (input->is_ids)
    input->ids = given_.ids.values;
  else
    input->text = given_.texts[i];
  return true;
}

bool Inputs::read(Input* input) {
  const bool whole = whole_ && !input->is_ids;
  if (!(whole ? reader_.whole() : reader_.next())) return false;
  input->where = "standard input";
  if (!whole) input->where += ", line " + to_string(reader_.number());
  input->text = reader_.line();
  if (input->is_ids) {
    if (!parse_ids(input->text.c_str(), &input->ids))
      input->error = "expected token ids separated by commas, such as 1,2,3";
  } else if (reader_.bytes() > most_bytes_ || reader_.bytes() != input->text.size()) {
    input->error = "a text of " + to_string(reader_.bytes()) + " bytes, there is room for " +
                   to_string(most_bytes_);
  }
  return true;
}

}  // namespace cli
