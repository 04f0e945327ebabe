// What a tokenizer.json is written from, each part a stranger's: refused with a line, or a text in
// UTF-8 whose brackets and quotes pair, and which is no larger than is said.
#include <algorithm>

#include "cli/io/tokenizer_json.h"
#include "edit.h"
#include "generator/tokenizers.h"
#include "parts.h"

namespace fuzz {
namespace {

constexpr size_t kHeader = 128, kMostGrowth = 17, kMore = 1 << 17;

// Ends the program where a bracket or a quote has no other.
void demand_pairs(const std::string& text) {
  std::string open;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    demand(static_cast<unsigned char>(c) >= 0x20, "JSON with a control character");
    if (in_string) {
      i += c == '\\' ? 1 : 0;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      open += c == '{' ? '}' : ']';
    } else if (c == '}' || c == ']') {
      demand(!open.empty() && open.back() == c, "a bracket that closes nothing");
      open.pop_back();
    }
  }
  demand(!in_string && open.empty(), "JSON that ends too soon");
}

}  // namespace

void run_export(const uint8_t* data, size_t size) {
  const std::vector<Part> given = split_parts(data, size, 3);
  Choices made = given[0].choices(), choices = given[1].choices();
  Bytes bytes = generator::any_tokenizer(&made).bytes;
  for (uint32_t i = choices.below(4); i > 0; --i) {
    const size_t words = bytes.size() / 4;
    edit_word(bytes.data(), choices.chance(30) ? std::min(words, kHeader / 4) : words, &choices);
  }
  if (choices.chance(5)) bytes.resize(choices.below(static_cast<uint32_t>(bytes.size()) + 1));
  const Block section(bytes.data(), bytes.size()), text(given[2].data, given[2].size);
  cli::TokenizerParts parts{};
  parts.section = section.as();
  parts.section_bytes = section.size();
  parts.text = text.as<char>();
  parts.text_bytes = text.size();
  for (cli::TokenIds* ids : {&parts.prefix, &parts.suffix, &parts.between})
    for (uint32_t i = choices.below(3); i > 0; --i) ids->push_back(any_number(&choices));
  std::string out, why;
  if (!cli::tokenizer_json(parts, &out, &why)) return demand_line(why.c_str(), 200);
  demand(out.size() <= kMostGrowth * (section.size() + text.size()) + kMore, "more than is said");
  demand(cli::is_utf8(out, &why), "JSON that is not UTF-8");
  demand_pairs(out);
}

}  // namespace fuzz
