// Sentences of texts (src/cli/generation/sentences.cpp) are those that Perl's \b{sb} finds:
// tests/golden/sentences.txt, by make_sentences.py.
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "cases.h"
#include "cli/generation/sentences.h"

namespace {

std::string utf8(uint32_t c) {
  const auto byte = [](uint32_t b) { return static_cast<char>(b); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}

// Those of a text of numbers with spaces between them.
std::vector<std::size_t> numbers(const std::string& text, int base) {
  std::vector<std::size_t> out;
  const char* at = text.c_str();
  for (char* end;; at = end) {
    const std::size_t number = std::strtoul(at, &end, base);
    if (end == at) return out;
    out.push_back(number);
  }
}

std::vector<std::string> sentences(const std::string& text) {
  std::vector<std::string> out;
  std::size_t from = 0;
  for (const std::size_t end : cli::sentence_ends(text)) {
    out.push_back(text.substr(from, end - from));
    from = end;
  }
  return out;
}

}  // namespace

TEST_CASE("sentences: those of Unicode's rules, as Perl finds them") {
  std::ifstream file("tests/golden/sentences.txt");
  REQUIRE(file.good());
  std::size_t texts = 0, ends = 0;
  for (std::string line; std::getline(file, line); ++texts) {
    CAPTURE(line);
    const std::size_t colon = line.find(':');
    std::string text;
    std::vector<std::size_t> offsets, want;
    for (const std::size_t code : numbers(line.substr(0, colon), 16)) {
      text += utf8(static_cast<uint32_t>(code));
      offsets.push_back(text.size());
    }
    for (const std::size_t at : numbers(line.substr(colon + 1), 10))
      want.push_back(offsets.at(at - 1));
    CHECK(cli::sentence_ends(text) == want);
    ends += want.size();
  }
  CHECK(texts == 500);
  CHECK(ends > 2000);
}

TEST_CASE("sentences: those that everybody knows, and texts of one kind") {
  using Texts = std::vector<std::string>;
  CHECK(sentences("").empty());
  CHECK(sentences("Is 3.4 it? Yes, e.g. this. \"No!\" she said.") ==
        Texts{"Is 3.4 it? ", "Yes, e.g. this. ", "\"No!\" ", "she said."});
  CHECK(sentences("我有一只猫。你呢？") == Texts{"我有一只猫。", "你呢？"});
  CHECK(sentences("a\r\nb\xE2\x80\xA9"
                  "c") == Texts{"a\r\n", "b\xE2\x80\xA9", "c"});
  // as long as one looks ahead: linear
  std::string text;
  for (uint32_t i = 0; i < 300000; ++i) text += ". 1,";
  CHECK(sentences(text).size() == 300001);
}
