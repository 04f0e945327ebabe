// Standard input of any bytes, as lines, as one text, as lists of ids: the lines are the bytes, no
// more and no less; a list is ids, or an error with a line.
#include "cli/options/input.h"

#include <algorithm>

#include "capture.h"

namespace fuzz {
namespace {

// What reading lines should give: "\n" ends one, "\r\n" too, a byte-order mark is no text.
std::vector<std::string> lines_of(std::string text, bool whole) {
  if (text.empty()) return {};
  if (whole) {
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n' && !out.empty() && out.back() == '\r') out.pop_back();
      out += text[i];
    }
    if (out.compare(0, 3, "\xEF\xBB\xBF") == 0) out.erase(0, 3);
    return {out};
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (end < text.size() && !line.empty() && line.back() == '\r') line.pop_back();
    if (lines.empty() && line.compare(0, 3, "\xEF\xBB\xBF") == 0) line.erase(0, 3);
    lines.push_back(line);
    at = end + 1;
  }
  return lines;
}

}  // namespace

void run_input(const uint8_t* data, size_t size) {
  if (size < 2) return;
  cli::CommandLine options;
  options.ids.from_input = (data[0] & 1) != 0;
  options.ids.given = options.ids.from_input ? "--ids" : nullptr;
  const bool whole = (data[0] & 2) != 0, ids = options.ids.from_input;
  const size_t most = (data[0] & 4) != 0 ? data[1] : 1 << 20;
  const Block text(data + 2, size - 2);
  const std::vector<std::string> wanted =
      lines_of(std::string(text.as<char>(), text.size()), whole && !ids);
  const StandardInput standard_input(text.as(), text.size());
  const Printed printed;
  cli::Inputs inputs(options, whole, most);
  cli::Input input;
  size_t n = 0;
  for (; inputs.next(&input); ++n) {
    demand(n < wanted.size() && input.text == wanted[n], "a line is another one");
    demand(input.where.compare(0, 14, "standard input") == 0, "a line from nowhere");
    std::string why;
    const bool utf8 = cli::is_utf8(input.text, &why);
    if (!utf8) demand_line(why.c_str(), why.size() + 1);
    if (!input.error.empty()) demand_line(input.error.c_str(), input.error.size() + 1);
    if (ids && input.error.empty()) {
      cli::TokenIds again;
      demand(cli::parse_ids(cli::join(input.ids).c_str(), &again) && again == input.ids,
             "ids are printed as other ids");
    }
    if (!ids) demand(input.error.empty() == (input.text.size() <= most), "a text that is too long");
  }
  demand(n == wanted.size() && !inputs.failed(), "a line is missing");
  printed.demand_nothing();
}

}  // namespace fuzz
