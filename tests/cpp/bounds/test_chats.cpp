// A chat program's work is in proportion to its length and to the messages: every operation is
// linear in what it reads, and a program that does more than its budget ends with an error that has
// a line.
#include <functional>
#include <vector>

#include "growth.h"
#include "test_chat.h"
#include "text/chat/text.h"

using namespace chat_tests;
using namespace bound_tests;

namespace {

ChatResult render(const Program& p, const Talk& talk, std::string* out = nullptr) {
  const std::vector<unsigned char> section = p.section();
  ChatProgram program{};
  const char* why = nullptr;
  REQUIRE_MESSAGE(chat_open(&program, section.data(), section.size(), &why),
                  std::string(why != nullptr ? why : ""));
  std::size_t bytes = 4096;
  for (const auto& m : talk.messages) bytes += m.second.size() * 4;
  std::vector<char> scratch(bytes), text(bytes);
  const ChatResult r = chat_render(program, text.data(), text.size(), talk.view(), false,
                                   scratch.data(), scratch.size());
  if (out != nullptr)
    *out = std::string(r.status == ChatStatus::ok ? text.data() : r.text,
                       r.status == ChatStatus::ok ? r.need : r.text_bytes);
  return r;
}

// Message i's content on the stack.
std::vector<uint32_t> content(uint32_t i) {
  return {word(Op::messages), word(Op::int_, i), word(Op::element), word(Op::content)};
}

Program with(const std::vector<std::vector<uint32_t>>& parts,
             const std::vector<std::string>& strings) {
  Program p;
  p.strings = strings;
  p.code = {word(Op::line, 3)};
  for (const auto& part : parts) p.code.insert(p.code.end(), part.begin(), part.end());
  p.code.push_back(word(Op::end));
  return p;
}

std::string many(const std::string& unit, std::size_t bytes) {
  std::string text;
  while (text.size() + unit.size() <= bytes) text += unit;
  return text;
}

// The naive search, to compare with.
std::size_t found(const std::string& text, const std::string& what, std::size_t from) {
  const std::size_t at = text.find(what, from);
  return at == std::string::npos ? chat::kNowhere : at;
}

}  // namespace

TEST_CASE("bounds: a text is found where it is, whatever both are") {
  const auto piece = [](const std::string& s) {
    return chat::Piece{reinterpret_cast<const unsigned char*>(s.data()), s.size()};
  };
  uint64_t state = 5;
  const auto random = [&state](uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33) % below;
  };
  for (int round = 0; round < 200000; ++round) {
    std::string text, what;
    const uint32_t letters = 1 + random(3), n = random(40), m = random(12);
    const uint32_t period = 1 + random(4);
    for (uint32_t i = 0; i < n; ++i)
      text += static_cast<char>(random(8) != 0 && i >= period ? text[i - period]
                                                              : 'a' + random(letters));
    if (random(2) != 0 && m <= n) {
      what = text.substr(random(n - m + 1), m);
    } else {
      for (uint32_t i = 0; i < m; ++i) what += static_cast<char>('a' + random(letters));
    }
    const uint32_t from = random(4);
    const std::size_t wanted = found(text, what, from),
                      at = chat::find(piece(text), piece(what), from);
    if (at != wanted) {
      CAPTURE(text);
      CAPTURE(what);
      CAPTURE(from);
      CHECK(at == wanted);
    }
  }
  const std::string bytes = std::string("\x00\xFF\x80\x7F\xFF\x80", 6), what = "\xFF\x80";
  CHECK(chat::find(piece(bytes), piece(what), 0) == 1);
  CHECK(chat::find(piece(bytes), piece(what), 2) == 4);
}

TEST_CASE("bounds: a search is linear in both texts") {
  const auto piece = [](const std::string& s) {
    return chat::Piece{reinterpret_cast<const unsigned char*>(s.data()), s.size()};
  };
  const auto fibonacci = [](std::size_t n) {
    std::string a = "a", b = "ab";
    while (b.size() < n) {
      const std::string next = b + a;
      a = b;
      b = next;
    }
    return b.substr(0, n);
  };
  const auto letters = [](std::size_t n, char of = 'a') { return std::string(n, of); };
  const std::pair<const char*, std::function<std::pair<std::string, std::string>(std::size_t)>>
      cases[] = {
          {"a's and a b, in a's",
           [&](std::size_t n) { return std::make_pair(letters(n), letters(n / 2) + "b"); }},
          {"a b and a's, in a's",
           [&](std::size_t n) { return std::make_pair(letters(n), "b" + letters(n / 2)); }},
          {"a's, in blocks of nearly as many",
           [&](std::size_t n) {
             return std::make_pair(many(letters(n / 16 - 1) + "b", n), letters(n / 16));
           }},
          {"a b between a's, in a's",
           [&](std::size_t n) {
             return std::make_pair(letters(n), letters(n / 4) + "b" + letters(n / 4));
           }},
          {"c and a's, in blocks",
           [&](std::size_t n) {
             return std::make_pair(many(letters(n / 16) + "b", n), "c" + letters(n / 16));
           }},
          {"a period and another letter before it",
           [&](std::size_t n) { return std::make_pair(many("ab", n), "c" + many("ab", n / 3)); }},
          {"a period and another letter behind it",
           [&](std::size_t n) {
             return std::make_pair(many("aab", n), many("aab", n / 3) + "a" + "a" + "a");
           }},
          {"Fibonacci's word, and one that differs at its end",
           [&](std::size_t n) { return std::make_pair(fibonacci(n), fibonacci(n / 3) + "bb"); }},
          {"Fibonacci's word, and one that differs at its beginning",
           [&](std::size_t n) { return std::make_pair(fibonacci(n), "bb" + fibonacci(n / 3)); }},
          {"halves that differ in the middle",
           [&](std::size_t n) {
             return std::make_pair(many(letters(n / 8) + "b" + letters(n / 8) + "c", n),
                                   letters(n / 8) + "b" + letters(n / 8) + "b");
           }},
      };
  for (const auto& [what, make] : cases) {
    const auto run = [&, &m = make](std::size_t n) {
      const auto [text, wanted] = m(n);
      const std::size_t expected = found(text, wanted, 0);
      std::size_t at = 0;
      const uint64_t steps =
          counted([&, &t = text, &w = wanted] { at = chat::find(piece(t), piece(w), 0); });
      CHECK(at == expected);
      CHECK(steps <= 8 * (text.size() + wanted.size()));
    };
    CHECK(check_growth(what, 8192, run) >= 2048);
  }
}

TEST_CASE("bounds: every operation on texts is linear in them") {
  struct Case {
    const char* what;
    // behind message 0's content and, where it takes two texts, message 1's
    std::vector<uint32_t> code;
    bool two;
  };
  const Case cases[] = {
      {"in", {word(Op::in), word(Op::pop)}, true},
      {"equal", {word(Op::eq), word(Op::pop)}, true},
      {"less", {word(Op::lt), word(Op::pop)}, true},
      {"starts", {word(Op::starts), word(Op::pop)}, true},
      {"ends", {word(Op::ends), word(Op::pop)}, true},
      {"concat", {word(Op::concat), word(Op::emit)}, true},
      {"split",
       {word(Op::int_, 0), word(Op::int_, 1), word(Op::neg), word(Op::none), word(Op::split),
        word(Op::emit)},
       true},
      {"replace by more", {word(Op::string, 0), word(Op::replace), word(Op::emit)}, true},
      {"split at white space",
       {word(Op::none), word(Op::int_, 1), word(Op::neg), word(Op::int_, 1), word(Op::neg),
        word(Op::split), word(Op::emit)},
       false},
      {"split at a letter",
       {word(Op::string, 1), word(Op::int_, 1), word(Op::neg), word(Op::none), word(Op::split),
        word(Op::emit)},
       false},
      {"replace a letter",
       {word(Op::string, 1), word(Op::string, 2), word(Op::replace), word(Op::emit)},
       false},
      {"strip", {word(Op::strip, 3), word(Op::emit)}, false},
      {"strip characters", {word(Op::string, 0), word(Op::strip, 7), word(Op::emit)}, false},
      {"length", {word(Op::length), word(Op::emit)}, false},
      {"case", {word(Op::case_, 3), word(Op::emit)}, false},
      {"json", {word(Op::json), word(Op::emit)}, false},
      {"emit", {word(Op::emit)}, false},
  };
  const std::pair<std::string, std::string> units[] = {
      {"a", "b"}, {"b", "a"}, {"ab", "a"}, {" ", "a"}, {"a ", "x"}, {"aab", "c"}, {"\"", "a"}};
  for (const Case& c : cases) {
    std::uint64_t most = 0;
    for (const auto& [unit, other] : units) {
      Program p = c.two ? with({content(0), content(1), c.code}, {"ab", "a", "xy"})
                        : with({content(0), c.code}, {"ab", "a", "xy"});
      // split takes the separator, the most and the part
      if (std::string(c.what) == "split") p.code.erase(p.code.end() - 7);
      // half the text and another, in either order; the same text
      for (const int second : {0, 1, 2}) {
        const auto run = [&, &u = unit, &o = other](std::size_t n) {
          const std::string text = many(u, n),
                            half = second == 2 ? text : text.substr(0, text.size() / 2) + o;
          (void)render(
              p, {{{"user", second == 1 ? half : text}, {"user", second == 1 ? text : half}}});
        };
        const std::uint64_t steps =
            check_growth(std::string(c.what) + " of " + unit + " and " + other, 8192, run);
        if (steps > most) most = steps;
      }
    }
    CAPTURE(c.what);
    CHECK(most >= 4096);  // the counter counts
  }
}

TEST_CASE("bounds: loops over messages, one in the other, end at their budget") {
  Program p;
  p.code = {word(Op::line, 2), word(Op::messages), word(Op::for_, 14), label(0, 1),
            word(Op::line, 4), word(Op::messages), word(Op::for_, 12), label(0, 2),
            word(Op::line, 5), word(Op::none),     word(Op::pop),      word(Op::next, 7),
            label(0, 1),       word(Op::next, 3),  label(0, 0),        word(Op::end)};
  const auto talk = [](std::size_t n) {
    Talk t;
    t.messages.assign(n, {"user", "x"});
    return t;
  };
  // 5 · 200² steps are less than 256 · (16 + 200 · 6)
  CHECK(render(p, talk(200)).status == ChatStatus::ok);
  std::string out;
  const ChatResult r = render(p, talk(4000), &out);
  CHECK(r.status == ChatStatus::failed);
  CHECK(r.line == 5);
  CHECK(out == "more than 256 steps for each byte of the program and of the messages");
  check_growth("nested loops", 4000, [&](std::size_t n) { (void)render(p, talk(n)); });
}

TEST_CASE("bounds: many searches of a long text end at the budget, a few do not") {
  const std::string text = many("a", 100000), half = many("a", 49999) + "b";
  std::vector<std::vector<uint32_t>> parts;
  for (int i = 0; i < 20; ++i)
    parts.push_back({word(Op::string, 0), word(Op::string, 1), word(Op::in), word(Op::pop)});
  CHECK(render(with(parts, {half, text}), {}).status == ChatStatus::ok);
  for (int i = 0; i < 5000; ++i)
    parts.push_back({word(Op::string, 0), word(Op::string, 1), word(Op::in), word(Op::pop)});
  std::string out;
  ChatResult r{};
  const Program p = with(parts, {half, text});
  const uint64_t steps = counted([&] { r = render(p, {}, &out); });
  CHECK(r.status == ChatStatus::failed);
  CHECK(r.line == 3);
  CHECK(steps < 4 * 256 * uint64_t{150000 + 20100});
}

TEST_CASE(
    "bounds: a scratch that is nearly full is not moved for nothing, again and again, without an "
    "end") {
  // A variable holds nearly all of the scratch; each text that is put together beside it makes room
  // first.
  Program p;
  p.strings = {"x"};
  p.slots = 1;
  p.code = {word(Op::line, 1)};
  for (const uint32_t w : content(0)) p.code.push_back(w);
  for (const uint32_t w : {word(Op::string, 0), word(Op::concat), word(Op::store, 0)})
    p.code.push_back(w);
  p.code.push_back(word(Op::line, 2));
  for (int i = 0; i < 15000; ++i)
    for (const uint32_t w :
         {word(Op::string, 0), word(Op::string, 0), word(Op::concat), word(Op::pop)})
      p.code.push_back(w);
  p.code.push_back(word(Op::end));
  // The budget is 256 · (60,000 + 65,536); without one this would move 15,000 · 65,536 bytes.
  const std::string text = many("a", 65536);
  const std::vector<unsigned char> section = p.section();
  ChatProgram program{};
  const char* why = nullptr;
  REQUIRE(chat_open(&program, section.data(), section.size(), &why));
  std::vector<char> scratch(text.size() + 3);
  const Talk talk{{{"user", text}}};
  ChatResult r{};
  const uint64_t steps = counted([&] {
    r = chat_render(program, nullptr, 0, talk.view(), false, scratch.data(), scratch.size());
  });
  CHECK(r.status == ChatStatus::failed);
  CHECK(r.line == 2);
  CHECK(steps < 2 * 256 * uint64_t{90000 + 65536});
}
