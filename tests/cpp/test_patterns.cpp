// Patterns of byte-level BPE: tables by hand cut as file-format.md says, and damaged ones are
// refused, each by its own line.
#include "pattern_table.h"
#include "test_tokenizer.h"
#include "text/pattern.h"

using namespace tokenizer_tests;

namespace {

using Table = PatternTable;
constexpr std::uint32_t kPatternsFlag = 32768, kWholeFlag = 2;

// Bytes, and all texts of the letters a, b and space up to three of them, which stay whole.
Parts letters() {
  Parts p{};
  p.model = ModelNumber::byte_bpe;
  p.flags = kPatternsFlag | kWholeFlag;
  p.unknown = 0xFFFFFFFFu;
  p.expansion = 1;
  p.runs = {0};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    p.pieces.push_back({std::string(1, static_cast<char>(byte)), PieceType::normal, 5});
    append_u32(&p.model_data, byte);
  }
  for (std::size_t size = 2; size <= 6; ++size)
    for (std::size_t i = 0; i < std::size_t{1} << size; ++i) {
      std::string text;
      for (std::size_t bit = 0; bit < size; ++bit) text += (i >> bit & 1) != 0 ? 'b' : 'a';
      p.pieces.push_back({text, PieceType::normal, 5});
    }
  for (const char* text : {"  ", "a ", " a", "ab ", " ab", "a  ", "  a", " \xC3\xA9", "\xC3\xA9"})
    p.pieces.push_back({text, PieceType::normal, 5});
  return p;
}

Bytes section_of(const std::vector<Bytes>& patterns) {
  Parts p = letters();
  p.rule = 0xE0;
  for (const Bytes& pattern : patterns) {
    p.model_data.insert(p.model_data.end(), pattern.begin(), pattern.end());
    p.word_chars += static_cast<std::uint32_t>(pattern.size());
  }
  Bytes section = build(p);
  for (std::size_t i = 1; i < patterns.size(); ++i) section[119 + i] = 0xE0;
  return section;
}

// The words that the patterns leave of a text.
std::vector<std::string> words(const std::vector<Bytes>& patterns, const std::string& text) {
  const Bytes section = section_of(patterns);
  const Block exact(section.data(), section.size());
  Tokenizer t;
  const char* why = nullptr;
  REQUIRE_MESSAGE(tokenizer_open(&t, static_cast<const unsigned char*>(exact.data), section.size(),
                                 &why),
                  why);
  std::vector<std::string> out;
  for (const std::uint32_t id : encode(t, text)) {
    const PieceView piece = tokenizer_piece(t, id);
    out.emplace_back(piece.text, piece.bytes);
  }
  return out;
}

using Words = std::vector<std::string>;

// A letter a, or nothing before a letter b.
Table a_or_before_b() {
  Table t{{"a", "b"}, {{1, 1, 1, 1}, {2, Table::kAccepts, 0, 0}}, {0, 1, 0}};
  t.rows.push_back({Table::kAccepts, Table::kAccepts, Table::kAccepts, Table::kAccepts});
  return t;
}

// One letter a.
Table one_a(std::uint8_t behavior) {
  Table t{{"a"}, {{1, 1, 1}, {2, 0, 0}}, {0, 1, 0}};
  t.rows.push_back({Table::kAccepts, Table::kAccepts, Table::kAccepts});
  t.behavior = behavior;
  return t;
}

std::string why_not_with(const Table& t) { return why_not(section_of({t.bytes()})); }

}  // namespace

TEST_CASE("patterns: leftmost matches, and what is between them") {
  const Bytes then = Table::a_then_b().bytes();
  CHECK(words({then}, "aab") == Words{"aab"});
  CHECK(words({then}, "aabab") == Words{"aab", "ab"});
  CHECK(words({then}, "bbaab") == Words{"bb", "aab"});
  CHECK(words({then}, "aaaaa") == Words{"aaaaa"});
  CHECK(words({then}, "") == Words{});
  const Bytes either = Table::a_or_b().bytes();
  CHECK(words({either}, "aaa") == Words{"a", "a", "a"});
  CHECK(words({either}, "aabaa") == Words{"aab", "a", "a"});
  CHECK(words({either}, "bbaa") == Words{"b", "b", "a", "a"});
}

TEST_CASE("patterns: what becomes of the matches") {
  const auto cut = [](std::uint32_t behavior, const std::string& text) {
    return words({one_a(static_cast<std::uint8_t>(behavior)).bytes()}, text);
  };
  CHECK(cut(Table::isolated, "bbaab") == Words{"bb", "a", "a", "b"});
  CHECK(cut(Table::isolated | Table::inverted, "bbaab") == Words{"bb", "a", "a", "b"});
  CHECK(cut(Table::removed, "bbaab") == Words{"bb", "b"});
  CHECK(cut(Table::removed | Table::inverted, "bbaab") == Words{"a", "a"});
  CHECK(cut(Table::with_previous, "abbaab") == Words{"a", "bba", "a", "b"});
  CHECK(cut(Table::with_previous | Table::inverted, "bbaab") == Words{"bb", "a", "ab"});
  CHECK(cut(Table::with_next, "abbaab") == Words{"abb", "a", "ab"});
  CHECK(cut(Table::with_next | Table::inverted, "bbaab") == Words{"bba", "a", "b"});
  CHECK(cut(Table::contiguous, "bbaab") == Words{"bb", "aa", "b"});
  CHECK(cut(Table::contiguous | Table::inverted, "bbaab") == Words{"bb", "aa", "b"});
  CHECK(cut(Table::removed, "aaa") == Words{});
}

TEST_CASE("patterns: an empty match cuts, but not where the match before ended") {
  Table t = a_or_before_b();
  CHECK(words({t.bytes()}, "bb") == Words{"b", "b"});
  CHECK(words({t.bytes()}, "abb") == Words{"a", "b", "b"});
  t.behavior = Table::removed;
  CHECK(words({t.bytes()}, "abb") == Words{"b", "b"});
  t.behavior = Table::with_next;  // an empty match belongs to what follows
  CHECK(words({t.bytes()}, " bb") == Words{" ", "b", "b"});
}

TEST_CASE("patterns: one inside the other, and behind other steps") {
  const Bytes removed = one_a(Table::removed).bytes(), then = Table::a_then_b().bytes();
  CHECK(words({then, removed}, "baabb") == Words{"b", "b", "b"});
  CHECK(words({removed, then}, "baabb") == Words{"b", "bb"});
  CHECK(words({then, then, then}, "baabab") == Words{"b", "aab", "ab"});
  Bytes section = section_of({then});
  section[120] = 0x80;  // then runs of class 0
  put_u32(&section, static_cast<std::size_t>(section.size() - then.size() - 1024 - 4), 0);
  CHECK(why_not(section) == "");
}

TEST_CASE("patterns: the character before, the end, and bytes that are no characters") {
  // A letter a that is first in its stretch, or one at its end.
  Table t{{"a"}, {{2, 2, 1}, {3, 0, 0}, {4, 0, 0}}, {0, 1, 1, 0, 0}};
  t.rows.push_back({Table::kAccepts, Table::kAccepts, Table::kAccepts});
  t.rows.push_back({0, 0, Table::kAccepts});
  CHECK(words({t.bytes()}, "aaaa") == Words{"a", "aa", "a"});
  Table before = one_a(Table::removed);
  CHECK(words({before.bytes()}, "a\xC3\xA9"
                                "a") == Words{"\xC3\xA9"});
  // U+00E9 in a run of its own; the two bytes by themselves where bytes are taken
  Table runs = one_a(Table::removed);
  runs.runs = {0xE9u << 8 | 0, 0xEAu << 8 | 1};
  CHECK(words({runs.bytes()}, "b\xC3\xA9 a") == Words{"b", " "});
  runs.runs = {0xC3u << 8 | 0, 0xC4u << 8 | 1};
  runs.behavior = Table::removed | Table::bytewise;
  CHECK(words({runs.bytes()}, "b\xC3\xA9 a") == Words{"b", "\xA9", " "});
  // a byte that is in no character is of its own class
  Bytes bad = one_a(Table::removed).bytes();
  CHECK(words({bad}, "b\xFF") == Words{"b", "\xFF"});
  bad[9] = 0;
  CHECK(words({bad}, "b\xFF") == Words{"b"});
}

TEST_CASE("patterns: damaged ones are refused by name") {
  CHECK(why_not_with(Table::a_then_b()) == "");
  const auto changed = [](auto change) {
    Table t = Table::a_then_b();
    change(&t);
    return why_not_with(t);
  };
  const char* const number = "a pattern's number is out of range";
  const char* const ahead = "a pattern looks ahead without bound";
  const char* const slots = "a pattern's slots are not one state's each";
  CHECK(changed([](Table* t) { t->behavior = 5; }) == number);
  CHECK(changed([](Table* t) { t->behavior = 32; }) == number);
  CHECK(changed([](Table* t) { t->slots = 9; }) == number);
  CHECK(changed([](Table* t) { t->slots = 0; }) == slots);
  CHECK(changed([](Table* t) { t->slots = 2; }) == slots);
  CHECK(changed([](Table* t) { t->marks[3] = 248; }) == slots);
  CHECK(changed([](Table* t) { t->marks[0] = 248; t->marks[2] = 9; }) == slots);
  CHECK(changed([](Table* t) { t->marks[2] = 249; }) == slots);
  CHECK(changed([](Table* t) { t->marks[2] = 1; t->slots = 0; }) == ahead);
  CHECK(changed([](Table* t) { t->rows[3][0] = 3; }) == ahead);
  CHECK(changed([](Table* t) { t->rows[3][0] = 1; }) == ahead);  // as deep
  CHECK(changed([](Table* t) { t->marks[3] = 1; t->rows[3][0] = 1; }) == "");
  CHECK(changed([](Table* t) { t->rows[1][0] = 4; }) == "a pattern's state is out of range");
  CHECK(changed([](Table* t) { t->rows[0][0] = 4; }) == "a pattern's state is out of range");
  CHECK(changed([](Table* t) { t->rows[0][1] = 0x8001; }) ==
        "a pattern accepts before it has begun");
  CHECK(changed([](Table* t) { t->rows[3][3] = 0x8001; }) ==
        "a pattern continues after the end of the text");
  CHECK(changed([](Table* t) { t->runs = {0x80u << 8}; }) == "a pattern's runs are not in order");
  CHECK(changed([](Table* t) { t->runs = {0x110000u << 8}; }) ==
        "a pattern's runs are not in order");
  CHECK(changed([](Table* t) { t->runs = {0x10FFFFu << 8}; }) == "");
  CHECK(changed([](Table* t) { t->runs = {0x90u << 8 | 3}; }) ==
        "a pattern's class is out of range");
  const Bytes good = Table::a_then_b().bytes();
  const auto byte = [&good](std::size_t at, unsigned char value) {
    Bytes pattern = good;
    pattern[at] = value;
    return why_not(section_of({pattern}));
  };
  const char* const classes = "a pattern's class is out of range";
  CHECK(byte(9, 3) == classes);
  CHECK(byte(12, 3) == classes);
  CHECK(byte(139, 3) == classes);
  CHECK(byte(10, 1) == number);
  CHECK(byte(11, 1) == number);
  CHECK(byte(2, 0) == number);
  CHECK(byte(0, 0) == number);
  CHECK(byte(1, 0x10) == number);  // 4,100 states
  CHECK(byte(4, 0) == number);
  CHECK(byte(6, 0x12) == number);
  CHECK(byte(1, 1) == "a pattern is outside its part");
  CHECK(byte(141, 1) == "a pattern's runs are not in order");
  CHECK(why_not(section_of({Bytes(good.begin(), good.begin() + 8)})) ==
        "a pattern is outside its part");
  CHECK(why_not(section_of({Bytes(good.begin(), good.end() - 4)})) ==
        "a pattern is outside its part");
  Table padded = one_a(Table::isolated);
  Bytes end = padded.bytes();
  REQUIRE(padded.marks.size() % 4 != 0);
  end.back() = 1;
  CHECK(why_not(section_of({end})) == "a pattern does not end with zeros");
}

TEST_CASE("patterns: as many as there are steps of them, and the flag") {
  const Bytes pattern = Table::a_then_b().bytes();
  Bytes section = section_of({pattern});
  section[120] = 0xE0;
  CHECK(why_not(section) == "a pattern is outside its part");
  Bytes two = section_of({pattern, pattern});
  two[120] = 0;
  CHECK(why_not(two) == "a pattern that no step has");
  refuses(section_of({pattern}), 4, kWholeFlag, "the patterns' size is wrong");
  refuses(section_of({pattern}), 112, 0, "the patterns' size is wrong");
  Parts none = letters();
  none.flags = kWholeFlag;
  none.rule = 0xE0;
  CHECK(why_not(build(none)) == "unknown rule of the pre-tokenizer");
  std::vector<Bytes> nine(9, pattern);
  CHECK(words(nine, "baab") == Words{"b", "aab"});
}

TEST_CASE("patterns: the scratch has a byte for each byte of text and pattern with slots") {
  const auto scratch = [](const std::vector<Bytes>& patterns) {
    return tokenizer_scratch_bytes(open(section_of(patterns)), 100);
  };
  const Bytes plain = one_a(Table::isolated).bytes(), slots = Table::a_then_b().bytes();
  CHECK(scratch({slots}) == scratch({plain}) + 103);
  CHECK(scratch({slots, plain, slots}) == scratch({plain}) + 206);
}
