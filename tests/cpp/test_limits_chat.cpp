// The check of a chat program at its limits: the last value that opens and the first that is
// refused, of each count, argument, label and jump.
#include "cases.h"
#include "test_chat.h"

using namespace chat_tests;

namespace {

constexpr Op kNone = Op::none, kEnd = Op::end;
const char* const kOutOfRange = "chat: the argument of an operation is out of range";
const char* const kCounts = "chat: a count of the header is out of range";
const char* const kSize = "chat: the section's size is not that of its parts";
const char* const kLabel = "chat: a label is not what leads to it";
const char* const kElsewhere = "chat: a jump to a label for something else";

// Why a section is refused; "" where it opens.
std::string why(const std::vector<unsigned char>& section) {
  ChatProgram p{};
  const char* text = nullptr;
  const std::vector<unsigned char> exact(section);
  return chat_open(&p, exact.data(), exact.size(), &text) ? "" : text;
}
std::string why(const Program& p) { return why(p.section()); }

// A program of this code, in which two texts and two variables can be named.
std::string code(const std::vector<uint32_t>& words, uint32_t stack = 8) {
  Program p;
  p.code = words;
  p.strings = {"a", "b"};
  p.slots = 2;
  p.stack = stack;
  return why(p);
}

// One word of the header changed.
std::string with_header(const Program& p, size_t at, uint32_t value) {
  std::vector<unsigned char> section = p.section();
  for (size_t i = 0; i < 4; ++i) section[4 * at + i] = static_cast<unsigned char>(value >> 8 * i);
  return why(section);
}

// A value, an instruction that takes it, and the end.
std::string of_value(Op value, uint32_t argument, Op then = Op::pop) {
  return code({word(value, argument), word(then), word(kEnd)});
}

}  // namespace

TEST_CASE("chat limits: the header's counts") {
  Program p;
  p.code = {word(kEnd)};
  CHECK(why(p) == "");
  CHECK(why(std::vector<unsigned char>(31)) == "chat: the section is cut off");
  CHECK(with_header(p, 0, 0) == "chat: the program's version is not known here");
  CHECK(with_header(p, 0, 2) == "chat: the program's version is not known here");
  p.flags = chat::kOnlyKnownRoles;
  CHECK(why(p) == "");
  p.flags = 2;
  CHECK(why(p) == "chat: a reserved bit is set");
  p.flags = 0;
  CHECK(with_header(p, 7, 1) == "chat: a reserved bit is set");
  CHECK(with_header(p, 2, 0) == kCounts);
  CHECK(with_header(p, 2, 2) == kSize);
  CHECK(with_header(p, 2, chat::kMostCode + 1) == kCounts);
  CHECK(with_header(p, 3, 1) == kSize);
  CHECK(with_header(p, 3, chat::kMostStrings) == kSize);
  CHECK(with_header(p, 3, chat::kMostStrings + 1) == kCounts);
  CHECK(with_header(p, 4, 1) == kSize);
  CHECK(with_header(p, 4, chat::kMostText) == kSize);
  CHECK(with_header(p, 4, chat::kMostText + 1) == kCounts);
  CHECK(with_header(p, 5, chat::kMostSlots) == "");
  CHECK(with_header(p, 5, chat::kMostSlots + 1) == kCounts);
  CHECK(with_header(p, 6, chat::kMostStack) == "");
  CHECK(with_header(p, 6, chat::kMostStack + 1) == kCounts);
}

TEST_CASE("chat limits: as many instructions, texts and bytes as there may be") {
  Program p;
  p.code.assign(chat::kMostCode, word(Op::line));
  p.code.back() = word(kEnd);
  CHECK(why(p) == "");
  p.code.insert(p.code.begin(), word(Op::line));
  CHECK(why(p) == kCounts);
  p.code = {word(kEnd)};
  p.strings.assign(chat::kMostStrings, "");
  CHECK(why(p) == "");
  p.strings.push_back("");
  CHECK(why(p) == kCounts);
  p.strings = {std::string(chat::kMostText, 'a')};
  CHECK(why(p) == "");
  p.strings[0] += "a";
  CHECK(why(p) == kCounts);
}

TEST_CASE("chat limits: a section has its parts, zeros to a multiple of 4, and no more") {
  for (size_t bytes = 0; bytes < 9; ++bytes) {
    Program p;
    p.code = {word(Op::text, 0), word(kEnd)};
    p.strings = {std::string(bytes, 'a')};
    std::vector<unsigned char> section = p.section();
    CHECK(why(section) == "");
    for (size_t i = 0; i < (4 - bytes % 4) % 4; ++i) {
      section[section.size() - 1 - i] = 1;
      CHECK(why(section) == "chat: the section is not padded with zeros");
      section[section.size() - 1 - i] = 0;
    }
    section.resize(section.size() + 4);
    CHECK(why(section) == kSize);
    section.resize(section.size() - 8);
    CHECK(why(section) == kSize);
  }
}

TEST_CASE("chat limits: a text lies in the section's texts") {
  Program p;
  p.code = {word(Op::text, 1), word(kEnd)};
  p.strings = {"abc", "de"};  // rows (0, 3) and (3, 2), behind two instructions
  const char* const outside = "chat: a text lies outside the section";
  const size_t row = 8 + 2 + 2;
  CHECK(with_header(p, row, 3) == "");  // (3, 2) ends with the texts
  CHECK(with_header(p, row, 4) == outside);
  CHECK(with_header(p, row + 1, 1) == "");
  CHECK(with_header(p, row + 1, 3) == outside);
  CHECK(with_header(p, row, 5) == outside);
  CHECK(with_header(p, row, 6) == outside);  // begins behind the texts
  CHECK(with_header(p, row, ~0u) == outside);
  p.strings = {"abcde", ""};  // rows (0, 5) and (5, 0)
  CHECK(with_header(p, row, 5) == "");
  CHECK(with_header(p, row, 6) == outside);
}

TEST_CASE("chat limits: arguments") {
  CHECK(code({word(kEnd, 1)}) == kOutOfRange);
  CHECK(code({static_cast<uint32_t>(Op::number_of)}) == "chat: an operation is unknown");
  CHECK(code({255}) == "chat: an operation is unknown");
  CHECK(code({word(Op::line, 0xFFFFFF), word(kEnd)}) == "");
  CHECK(of_value(Op::bool_, 1) == "");
  CHECK(of_value(Op::bool_, 2) == kOutOfRange);
  CHECK(of_value(Op::int_, 0xFFFFFF) == "");
  CHECK(of_value(Op::string, 1) == "");
  CHECK(of_value(Op::string, 2) == kOutOfRange);
  CHECK(of_value(Op::load, 1) == "");
  CHECK(of_value(Op::load, 2) == kOutOfRange);
  CHECK(code({word(kNone), word(Op::test, chat::kAny), word(Op::pop), word(kEnd)}) == "");
  CHECK(code({word(kNone), word(Op::test, chat::kAny + 1), word(Op::pop), word(kEnd)}) ==
        kOutOfRange);
  const auto letters = [](uint32_t which) {
    return code({word(Op::string, 0), word(Op::case_, which), word(Op::pop), word(kEnd)});
  };
  CHECK(letters(chat::kTitleLetters) == "");
  CHECK(letters(chat::kTitleLetters + 1) == kOutOfRange);
  const auto sides = [](uint32_t which) {
    return code({word(Op::string, 0), word(Op::string, 1), word(Op::strip, which), word(Op::pop),
                 word(kEnd)});
  };
  CHECK(sides(7) == "");
  CHECK(sides(5) == "");
  CHECK(sides(4) == kOutOfRange);
  CHECK(sides(8 | 7) == kOutOfRange);
  CHECK(code({word(Op::string, 0), word(Op::strip, 3), word(Op::pop), word(kEnd)}) == "");
  CHECK(code({word(Op::string, 0), word(Op::strip, 0), word(Op::pop), word(kEnd)}) == kOutOfRange);
}

TEST_CASE("chat limits: values on the stack") {
  CHECK(code({word(Op::pop), word(kEnd)}) == "chat: an operation has too few values");
  CHECK(code({word(kNone), word(Op::eq), word(Op::pop), word(kEnd)}) ==
        "chat: an operation has too few values");
  CHECK(code({word(kNone), word(kNone), word(Op::eq), word(Op::pop), word(kEnd)}, 2) == "");
  CHECK(code({word(kNone), word(kNone), word(Op::eq), word(Op::pop), word(kEnd)}, 1) ==
        "chat: more values at once than the header says");
  CHECK(code({word(kNone), word(kEnd)}) == "chat: an end that is not the end");
  // four values at once are the most that one instruction takes
  const uint32_t s = word(Op::string, 0), n = word(kNone);
  CHECK(code({s, n, word(Op::int_, 1), n, word(Op::split), word(Op::pop), word(kEnd)}, 4) == "");
  CHECK(code({s, n, word(Op::int_, 1), word(Op::split), word(Op::pop), word(kEnd)}, 4) ==
        "chat: an operation has too few values");
}

TEST_CASE("chat limits: the end of a program") {
  CHECK(code({word(Op::line)}) == "chat: the program has no end");
  CHECK(code({word(kEnd), word(kEnd)}) == "chat: an end that is not the end");
  CHECK(code({word(kEnd), label(0, 0), word(kEnd)}) == "chat: an end that is not the end");
  // behind a jump or an exception only a label can be reached
  const uint32_t s = word(Op::string, 0);
  CHECK(code({s, word(Op::raise), word(kEnd)}) == "chat: an operation cannot be reached");
  CHECK(code({s, word(Op::raise), label(0, 0), word(kEnd)}) == "");
  CHECK(code({word(Op::jump, 2), word(kEnd), label(0, 0), word(kEnd)}) ==
        "chat: an operation cannot be reached");
  CHECK(code({word(Op::jump, 1), label(0, 0), word(kEnd)}) == "");
}

TEST_CASE("chat limits: labels and jumps") {
  const uint32_t n = word(kNone), pop = word(Op::pop), end = word(kEnd);
  CHECK(code({label(0, 0), end}) == "");
  CHECK(code({label(1, 0), end}) == kLabel);
  CHECK(code({label(0, 1), end}) == kLabel);
  CHECK(code({n, label(0, 0), end}) == kLabel);
  CHECK(code({n, label(1, 0), pop, end}) == "");
  CHECK(code({word(Op::jump, 3), end}) == kOutOfRange);
  CHECK(code({word(Op::jump, 2), end}) == kOutOfRange);  // one behind the last
  CHECK(code({word(Op::jump, 1), end}) == kOutOfRange);  // not a label
  // what nothing leads to may be for as many values and loops as there may be
  CHECK(code({word(Op::jump, 2), label(3, 0), label(0, 0), end}, 3) == kLabel);
  const auto alone = [&](uint32_t depth, uint32_t level) {
    return code({word(Op::jump, 4), label(depth, level), word(Op::string, 0), word(Op::raise),
                 label(0, 0), end},
                3);
  };
  CHECK(alone(2, 0) == "");
  CHECK(alone(3, 0) == "chat: more values at once than the header says");
  CHECK(alone(4, 0) == kLabel);
  CHECK(alone(0, chat::kMostLoops) == "");
  CHECK(alone(0, chat::kMostLoops + 1) == kLabel);
  // a jump goes forward; where AND and OR jump the value stays
  CHECK(code({label(0, 0), word(Op::jump, 0), label(0, 0), end}) == "chat: a jump goes back");
  CHECK(code({n, word(Op::jump_false, 2), label(0, 0), end}) == "");
  CHECK(code({n, n, word(Op::jump_false, 3), label(0, 0), end}) == kElsewhere);
  for (const Op op : {Op::and_, Op::or_}) {
    CHECK(code({n, word(op, 3), n, label(1, 0), pop, end}) == "");
    CHECK(code({n, word(op, 2), label(0, 0), end}) == kElsewhere);
  }
}

TEST_CASE("chat limits: loops") {
  const uint32_t pop = word(Op::pop), end = word(kEnd), list = word(Op::messages);
  const auto loop = [&](const std::vector<uint32_t>& body, uint32_t back = 2) {
    std::vector<uint32_t> all = {list, word(Op::for_, 0), label(0, 1)};
    all.insert(all.end(), body.begin(), body.end());
    all.push_back(word(Op::next, back));
    all[1] = word(Op::for_, static_cast<uint32_t>(all.size()));
    all.push_back(label(0, 0));
    all.push_back(end);
    return code(all);
  };
  const char* const start = "chat: a loop does not go back to its start";
  CHECK(loop({}) == "");
  CHECK(loop({label(0, 1)}, 3) == start);
  CHECK(loop({word(Op::item, 0), pop}) == "");
  CHECK(loop({word(Op::item, 2 << 8), pop}) == "");
  CHECK(loop({word(Op::item, 3 << 8), pop}) == kOutOfRange);
  CHECK(loop({word(Op::item, 1), pop}) == kOutOfRange);
  CHECK(loop({word(Op::index, 0), pop}) == "");
  CHECK(loop({word(Op::index, 1), pop}) == kOutOfRange);
  CHECK(code({word(Op::item, 0), pop, end}) == kOutOfRange);
  CHECK(code({word(Op::count, 0), pop, end}) == kOutOfRange);
  const char* const outside = "chat: the end of a loop outside of loops";
  CHECK(code({label(0, 0), word(Op::next, 0), label(0, 0), end}) == outside);
  CHECK(code({word(Op::break_, 1), label(0, 0), end}) == outside);
  // a label that says it is in a loop that nothing began
  CHECK(code({word(Op::jump, 3), label(0, 1), word(Op::next, 1), label(0, 0), end}) == start);
  CHECK(code({word(Op::jump, 4), label(0, 1), label(0, 1), word(Op::next, 1), label(0, 0), end}) ==
        start);
  // an end inside a loop
  CHECK(code({list, word(Op::for_, 4), label(0, 1), end, label(0, 0), end}) ==
        "chat: an end that is not the end");
  // a break goes on behind the loop, and only a label can be reached after it
  const auto breaks = [&](uint32_t target) {
    return code({list, word(Op::for_, 6), label(0, 1), word(Op::break_, target), label(0, 1),
                 word(Op::next, 2), label(0, 0), end});
  };
  CHECK(breaks(6) == "");
  CHECK(breaks(4) == kElsewhere);
  CHECK(code({list, word(Op::for_, 5), label(0, 1), word(Op::break_, 5), word(Op::next, 2),
              label(0, 0), end}) == "chat: an operation cannot be reached");
  // two loops in one another, and a third
  const auto nested = [&](uint32_t deep) {
    std::vector<uint32_t> all;
    std::vector<uint32_t> begins;
    for (uint32_t i = 0; i < deep; ++i) {
      all.push_back(list);
      all.push_back(word(Op::for_, 0));
      begins.push_back(static_cast<uint32_t>(all.size()));
      all.push_back(label(0, i + 1));
    }
    for (uint32_t i = deep; i-- > 0;) {
      all.push_back(word(Op::next, begins[i]));
      all[begins[i] - 1] = word(Op::for_, static_cast<uint32_t>(all.size()));
      all.push_back(label(0, i));
    }
    all.push_back(end);
    return code(all);
  };
  CHECK(nested(1) == "");
  CHECK(nested(2) == "");
  CHECK(nested(3) == "chat: too many loops in one another");
}

TEST_CASE("chat limits: what lies behind the instructions is no label, and a loop's own start") {
  CHECK(why(std::vector<unsigned char>(chat::kHeader)) ==
        "chat: the program's version is not known here");
  // The first text's offset has the bits of a label.
  Program p;
  p.code = {word(kNone), word(Op::jump_false, 3), word(kEnd)};
  p.strings = {"", std::string(300, 'a')};
  CHECK(with_header(p, 8 + 3, static_cast<uint32_t>(Op::label)) == kOutOfRange);
  const uint32_t s = word(Op::string, 0), end = word(kEnd), list = word(Op::messages);
  // The last instruction is an end, in a loop.
  CHECK(code({list, word(Op::for_, 4), label(0, 1), word(Op::jump, 7), label(0, 0), s,
              word(Op::raise), label(0, 1), end}) == "chat: an end that is not the end");
  // The end of a loop goes to a label before its start that says the same.
  CHECK(code({word(Op::jump, 4), label(0, 1), s, word(Op::raise), label(0, 0), list,
              word(Op::for_, 9), label(0, 1), word(Op::next, 1), label(0, 0), end}) ==
        "chat: a loop does not go back to its start");
  CHECK(code({word(Op::jump, 4), label(0, 1), s, word(Op::raise), label(0, 0), list,
              word(Op::for_, 9), label(0, 1), word(Op::next, 7), label(0, 0), end}) == "");
}
