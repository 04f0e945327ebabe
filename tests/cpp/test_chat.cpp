// Chat programs in C++: the size that is asked for to the byte, nothing beyond the capacity, no
// allocation, the limits of the scratch, and programs that are damaged: cut short, with every bit
// flipped, and wrong in ways that a person would make. tests/python/test_chat.py has what they say.
#include <sys/mman.h>

#include <cstring>
#include <string>
#include <vector>

#include "cases.h"
#include "format/bytes.h"
#include "format/crc32c.h"
#include "heap_counter.h"
#include "support.h"
#include "test_chat.h"

using namespace chat_tests;

namespace {

// <role>content</role> of each message: a variable holds a text that is put together.
Program talker() {
  Program p;
  p.strings = {"<", ">", "</", "go on"};
  p.slots = 1;
  // 0
  p.code = {word(Op::line, 1), word(Op::messages), word(Op::for_, 19), label(0, 1),
            // 4: role and '>'
            word(Op::item, 1 << 8), word(Op::role), word(Op::string, 1), word(Op::add),
            word(Op::store, 0),
            // 9
            word(Op::text, 0), word(Op::load, 0), word(Op::emit), word(Op::item, 1 << 8),
            word(Op::content), word(Op::emit),
            // 15
            word(Op::text, 2), word(Op::load, 0), word(Op::emit), word(Op::next, 3), label(0, 0),
            // 20
            word(Op::prompt), word(Op::jump_false, 23), word(Op::text, 3), label(0, 0),
            word(Op::end)};
  return p;
}

bool opens(const std::vector<unsigned char>& section, const char** why = nullptr) {
  ChatProgram p{};
  const char* text = nullptr;
  const bool ok = chat_open(&p, section.data(), section.size(), &text);
  CHECK(ok == (text == nullptr));
  if (why != nullptr) *why = text;
  return ok;
}

std::string refusal(const Program& p) {
  const char* why = nullptr;
  return opens(p.section(), &why) ? "" : why;
}

// Runs a program; its output, or why there is none.
ChatResult run(const Program& p, std::string* out, const Talk& talk = {}, std::size_t room = 4096) {
  const std::vector<unsigned char> section = p.section();
  ChatProgram program{};
  const char* why = nullptr;
  const bool ok = chat_open(&program, section.data(), section.size(), &why);
  INFO(std::string(why != nullptr ? why : ""));
  REQUIRE(ok);
  std::vector<char> scratch(room), text(4096);
  const ChatResult r = chat_render(program, text.data(), text.size(), talk.view(), false,
                                   scratch.data(), scratch.size());
  *out = r.status == ChatStatus::ok ? std::string(text.data(), r.need)
                                    : std::string(r.text, r.text_bytes);
  return r;
}

}  // namespace

TEST_CASE("chat: the size is exact, nothing is written beyond the capacity, nothing is allocated") {
  const std::vector<unsigned char> section = talker().section();
  ChatProgram p{};
  const char* why = nullptr;
  REQUIRE(chat_open(&p, section.data(), section.size(), &why));
  const Talk talk{{{"user", "Hello"}, {"assistant", ""}, {"user", "caf\xC3\xA9"}}};
  const std::string expected = "<user>Hello</user><assistant></assistant><user>caf\xC3\xA9</user>";
  const std::string expected_open =
      "<user>Hello</user><assistant></assistant><user>caf\xC3\xA9</user>go on";
  for (const bool prompt : {false, true}) {
    const std::string& text = prompt ? expected_open : expected;
    for (std::size_t capacity = 0; capacity <= text.size() + 3; ++capacity) {
      std::vector<char> out(text.size() + 8, '#'), scratch(16);
      HeapCounter heap;
      const ChatResult r = chat_render(p, capacity != 0 ? out.data() : nullptr, capacity,
                                       talk.view(), prompt, scratch.data(), scratch.size());
      const uint64_t allocations = heap.allocations();
      CHECK(allocations == 0);
      CHECK(r.status == ChatStatus::ok);
      CHECK(r.need == text.size());
      const std::size_t written = capacity < text.size() ? capacity : text.size();
      CHECK(std::string(out.data(), written) == text.substr(0, written));
      CHECK(out[written] == '#');
    }
  }
}

TEST_CASE("chat: the scratch holds what is kept and no more is needed") {
  const std::vector<unsigned char> section = talker().section();
  ChatProgram p{};
  const char* why = nullptr;
  REQUIRE(chat_open(&p, section.data(), section.size(), &why));
  const Talk talk{{{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}}};
  // "user>" and then "assistant>" beside it, until the variable is written over: 15 bytes; the next
  // round's text beside it, 15 again.
  for (std::size_t room = 0; room <= 20; ++room) {
    std::vector<char> out(256), scratch(room);
    const ChatResult r =
        chat_render(p, out.data(), out.size(), talk.view(), false, scratch.data(), scratch.size());
    CHECK(r.status == (room < 15 ? ChatStatus::no_room : ChatStatus::ok));
    if (r.status == ChatStatus::ok)
      CHECK(std::string(out.data(), r.need) ==
            "<user>a</user><assistant>b</assistant><user>c</user><assistant>d</assistant>");
  }
}

TEST_CASE("chat: every cut and every flipped bit is refused or runs to its end") {
  const std::vector<unsigned char> section = talker().section();
  CHECK(opens(section));
  for (std::size_t bytes = 0; bytes < section.size(); ++bytes)
    CHECK(!opens({section.begin(), section.begin() + static_cast<std::ptrdiff_t>(bytes)}));
  const Talk talk{{{"system", "x"}, {"user", " y "}, {"tool", "\xFF\xC3"}}};
  unsigned opened = 0;
  for (std::size_t bit = 0; bit < section.size() * 8; ++bit) {
    std::vector<unsigned char> bad = section;
    bad[bit / 8] = static_cast<unsigned char>(bad[bit / 8] ^ (1u << bit % 8));
    ChatProgram p{};
    const char* why = nullptr;
    if (!chat_open(&p, bad.data(), bad.size(), &why)) {
      CHECK(std::strncmp(why, "chat: ", 6) == 0);
      continue;
    }
    ++opened;
    std::vector<char> out(64), scratch(64);
    const ChatResult r =
        chat_render(p, out.data(), out.size(), talk.view(), true, scratch.data(), scratch.size());
    CHECK(r.status <= ChatStatus::no_room);
  }
  CHECK(opened > 20);  // other texts, other lines, other values
}

TEST_CASE("chat: random programs are refused or run to their end") {
  uint64_t state = 1;
  const auto random = [&state](uint32_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 33) % below;
  };
  const Talk talk{{{"user", "a b"}, {"assistant", " c\n"}, {"user", ""}}};
  unsigned opened = 0;
  for (int round = 0; round < 60000; ++round) {
    Program p;
    p.strings = {"a", "", " b\n"};
    p.slots = 2;
    uint32_t depth = 0;
    const uint32_t n = 2 + random(14);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t target = random(n + 1);
      switch (random(6)) {
        case 0:
          p.code.push_back(label(random(2) != 0 ? depth : random(3), random(2)));
          break;
        case 1:
          p.code.push_back(
              word(static_cast<Op>(static_cast<uint32_t>(Op::jump) + random(7)), target));
          break;
        default:
          p.code.push_back(word(static_cast<Op>(random(static_cast<uint32_t>(Op::number_of))),
                                random(3) != 0 ? 0 : random(260)));
          break;
      }
    }
    p.code.push_back(word(Op::end));
    const std::vector<unsigned char> section = p.section();
    ChatProgram program{};
    const char* why = nullptr;
    if (!chat_open(&program, section.data(), section.size(), &why)) continue;
    ++opened;
    std::vector<char> out(64), scratch(64);
    CHECK(chat_render(program, out.data(), out.size(), talk.view(), true, scratch.data(),
                      scratch.size())
              .status <= ChatStatus::no_room);
  }
  CHECK(opened > 20);
}

TEST_CASE("chat: what is wrong with a program is named") {
  const auto with = [](std::vector<uint32_t> code) {
    Program p;
    p.code = std::move(code);
    p.strings = {"a"};
    p.slots = 1;
    return p;
  };
  CHECK(refusal(with({word(Op::end)})).empty());
  CHECK(refusal(with({word(Op::none)})) == "chat: the program has no end");
  CHECK(refusal(with({word(Op::none), word(Op::end)})) == "chat: an end that is not the end");
  CHECK(refusal(with({word(Op::end), word(Op::end)})) == "chat: an end that is not the end");
  CHECK(refusal(with({word(Op::pop), word(Op::end)})) == "chat: an operation has too few values");
  CHECK(refusal(with({word(Op::string, 1), word(Op::pop), word(Op::end)})) ==
        "chat: the argument of an operation is out of range");
  CHECK(refusal(with({word(Op::load, 1), word(Op::pop), word(Op::end)})) ==
        "chat: the argument of an operation is out of range");
  CHECK(refusal(with({word(Op::number_of), word(Op::end)})) == "chat: an operation is unknown");
  CHECK(refusal(with({word(Op::index, 0), word(Op::pop), word(Op::end)})) ==
        "chat: the argument of an operation is out of range");
  CHECK(refusal(with({word(Op::jump, 0), word(Op::end)})) ==
        "chat: the argument of an operation is out of range");
  CHECK(refusal(with({label(0, 0), word(Op::jump, 0), label(0, 0), word(Op::end)})) ==
        "chat: a jump goes back");
  CHECK(refusal(with({word(Op::jump, 2), word(Op::none), label(0, 0), word(Op::end)})) ==
        "chat: an operation cannot be reached");
  CHECK(refusal(with({word(Op::none), label(0, 0), word(Op::end)})) ==
        "chat: a label is not what leads to it");
  CHECK(refusal(with({word(Op::none), word(Op::jump, 2), label(0, 0), word(Op::end)})) ==
        "chat: a jump to a label for something else");
  CHECK(refusal(with({word(Op::next, 1), label(0, 0), word(Op::end)})) ==
        "chat: the end of a loop outside of loops");
  CHECK(refusal(with({label(0, 1), word(Op::next, 0), word(Op::end)})) ==
        "chat: a label is not what leads to it");
  CHECK(refusal(with({word(Op::messages), word(Op::for_, 6), label(0, 1), label(0, 1),
                      word(Op::next, 3), word(Op::jump, 6), label(0, 0), word(Op::end)})) ==
        "chat: a loop does not go back to its start");
  Program deep =
      with({word(Op::none), word(Op::none), word(Op::pop), word(Op::pop), word(Op::end)});
  deep.stack = 1;
  CHECK(refusal(deep) == "chat: more values at once than the header says");
  Program nested = with({word(Op::messages), word(Op::for_, 13), label(0, 1), word(Op::messages),
                         word(Op::for_, 11), label(0, 2), word(Op::messages), word(Op::for_, 9),
                         label(0, 3), label(0, 2), word(Op::next, 5), label(0, 1),
                         word(Op::next, 2), label(0, 0), word(Op::end)});
  CHECK(refusal(nested) == "chat: too many loops in one another");
}

TEST_CASE("chat: what is wrong with a program's loops and its section is named") {
  const auto with = [](std::vector<uint32_t> code) {
    Program p;
    p.code = std::move(code);
    return refusal(p);
  };
  CHECK(with({word(Op::messages), word(Op::for_, 4), label(0, 1), word(Op::end), label(0, 0),
              word(Op::end)}) == "chat: an end that is not the end");
  CHECK(with({word(Op::messages), word(Op::for_, 2), label(0, 0), word(Op::jump, 4), label(0, 1),
              word(Op::end)}) == "chat: a label is not what leads to it");
  // A loop that a label says is open, and no `for` has begun.
  CHECK(with({word(Op::jump, 3), label(0, 1), word(Op::next, 1), label(0, 0), word(Op::end)}) ==
        "chat: a loop does not go back to its start");
  Program p;
  p.code = {word(Op::end)};
  p.strings = {"abc"};
  const std::vector<unsigned char> good = p.section();
  const auto edited = [&](std::size_t at, uint32_t value) {
    std::vector<unsigned char> section = good;
    for (std::size_t i = 0; i < 4; ++i)
      section[at + i] = static_cast<unsigned char>(value >> (8 * i));
    const char* why = "";
    return std::string(opens(section, &why) ? "" : why);
  };
  const char* const count = "chat: a count of the header is out of range";
  const char* const size = "chat: the section's size is not that of its parts";
  CHECK(edited(0, 1) == "");
  CHECK(edited(0, 2) == "chat: the program's version is not known here");
  CHECK(edited(4, chat::kOnlyKnownRoles) == "");
  CHECK(edited(4, chat::kOnlyKnownRoles + 1) == "chat: a reserved bit is set");
  CHECK(edited(28, 1) == "chat: a reserved bit is set");
  CHECK(edited(8, 0) == count);
  CHECK(edited(8, 2) == size);
  const std::pair<std::size_t, uint32_t> most[] = {
      {8, chat::kMostCode}, {12, chat::kMostStrings}, {16, chat::kMostText}};
  for (const auto& [at, last] : most) {
    CHECK(edited(at, last) == size);
    CHECK(edited(at, last + 1) == count);
    CHECK(edited(at, 0xFFFFFFFF) == count);
  }
  CHECK(edited(20, chat::kMostSlots) == "");
  CHECK(edited(20, chat::kMostSlots + 1) == count);
  CHECK(edited(24, chat::kMostStack) == "");
  CHECK(edited(24, chat::kMostStack + 1) == count);
  CHECK(edited(40, 3) == "");
  CHECK(edited(36, 0) == "");
  CHECK(edited(36, 1) == "chat: a text lies outside the section");
  CHECK(edited(36, 4) == "chat: a text lies outside the section");
  CHECK(edited(40, 4) == "chat: a text lies outside the section");
  CHECK(edited(40, 0xFFFFFFFF) == "chat: a text lies outside the section");
  std::vector<unsigned char> padded = good;
  padded.back() = 1;
  const char* why = "";
  CHECK_FALSE(opens(padded, &why));
  CHECK(std::string(why) == "chat: the section is not padded with zeros");
  CHECK_FALSE(opens(std::vector<unsigned char>(good.begin(), good.begin() + 31), &why));
  CHECK(std::string(why) == "chat: the section is cut off");
}

TEST_CASE("chat: failures have their line, and end the program") {
  Program p;
  p.strings = {"no", "x"};
  std::string out;
  p.code = {word(Op::line, 7), word(Op::string, 0), word(Op::raise)};
  p.code.push_back(label(0, 0));
  p.code.push_back(word(Op::end));
  ChatResult r = run(p, &out);
  CHECK((r.status == ChatStatus::raised && r.line == 7 && out == "no"));
  p.code = {word(Op::line, 9), word(Op::messages), word(Op::int_, 0), word(Op::element),
            word(Op::role),    word(Op::emit),     word(Op::end)};
  r = run(p, &out);
  CHECK((r.status == ChatStatus::failed && r.line == 9 &&
         out == "a field of a message that is not there"));
  p.code = {word(Op::int_, 0x7FFFFF), word(Op::int_, 0x7FFFFF), word(Op::mul), word(Op::emit),
            word(Op::end)};
  CHECK(run(p, &out).status == ChatStatus::failed);  // beyond 2^31
  p.code = {word(Op::int_, 5), word(Op::int_, 0), word(Op::mod), word(Op::emit), word(Op::end)};
  CHECK(run(p, &out).status == ChatStatus::failed);
  p.code = {word(Op::int_, 0xFFFFF9),
            word(Op::int_, 3),
            word(Op::mod),
            word(Op::emit),
            word(Op::int_, 0xFFFFF9),
            word(Op::int_, 3),
            word(Op::div),
            word(Op::emit),
            word(Op::end)};
  CHECK(run(p, &out).status == ChatStatus::ok);
  CHECK(out == "2-3");  // −7 % 3 and −7 // 3 as Python has them
}

TEST_CASE("chat: no number is beyond 2^31, wherever it comes from") {
  // A content of more characters than that, which is nowhere: pages of zeros that nobody writes.
  const std::size_t bytes = (std::size_t{1} << 31) + 1;
  if (sizeof(void*) < 8) {
    MESSAGE("skipped: 2 GB of addresses are too much here");
    return;
  }
  void* const zeros =
      mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(zeros != MAP_FAILED);
  ChatMessage message{"user", 4, static_cast<const char*>(zeros), bytes};
  const ChatMessages messages{
      &message, 1, [](const void* m, uint32_t) { return *static_cast<const ChatMessage*>(m); }};
  Program p;
  p.code = {word(Op::line, 6), word(Op::messages), word(Op::int_, 0), word(Op::element),
            word(Op::content), word(Op::length),   word(Op::emit),    word(Op::end)};
  for (const std::size_t less : {std::size_t{0}, std::size_t{1}}) {
    message.content_bytes = bytes - less;
    const std::vector<unsigned char> section = p.section();
    ChatProgram program{};
    const char* why = nullptr;
    REQUIRE(chat_open(&program, section.data(), section.size(), &why));
    char out[32];
    const ChatResult r = chat_render(program, out, sizeof out, messages, false, nullptr, 0);
    CHECK(r.status == (less == 0 ? ChatStatus::failed : ChatStatus::ok));
    CHECK(r.line == (less == 0 ? 6 : 0));
    CHECK((less == 0 ? std::string(r.text, r.text_bytes) : std::string(out, r.need)) ==
          (less == 0 ? "a number beyond 2147483648" : "2147483648"));
  }
  munmap(zeros, bytes);
}

// ------------------------------------------------------------------ through the C interface, with
// a golden model

namespace {

phasor_chat_message say(const char* role, const char* content) {
  return {sizeof(phasor_chat_message), role, std::strlen(role), content, std::strlen(content)};
}

}  // namespace

TEST_CASE("chat: a model's conversation through the C interface") {
  const Block file = golden_file("tiny-chat-f32");
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  Engine sizes(file, nullptr);
  REQUIRE(phasor_limits_for(sizes.model, 0, 128, &limits) == PHASOR_OK);
  limits.text_bytes = 400;
  Engine e(file, nullptr, &limits);
  CHECK(phasor_chat_available(e.model) == 1);
  CHECK(phasor_piece_flags(e.model, PHASOR_TARGET, 2) ==  // </s>
        (PHASOR_PIECE_ADDED | PHASOR_PIECE_SPECIAL));
  CHECK(phasor_piece_flags(e.model, PHASOR_TARGET, 266) == 0);
  CHECK(phasor_piece_flags(e.model, PHASOR_TARGET, 1u << 30) == 0);
  CHECK(phasor_piece_flags(e.model, PHASOR_SOURCE, 2) == 0);
  const phasor_chat_message talk[] = {say("system", "Be brief."), say("user", "Hello"),
                                      say("assistant", "<think>\nhm\n</think>\n\nYes."),
                                      say("user", "caf\xC3\xA9")};
  const std::string expected =
      "<|im_start|>system\nBe "
      "brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>"
      "\n<|im_start|>user\ncaf\xC3\xA9<|im_end|>\n<|im_start|>assistant\n";
  phasor_error error = PHASOR_ERROR_INIT;
  std::vector<char> out(expected.size(), '#');
  std::size_t bytes = 0;
  HeapCounter heap;
  const phasor_status first =
      phasor_chat_to_text(e.session, 1, nullptr, 0, &bytes, talk, 4, &error);
  const std::size_t needed = bytes;
  const phasor_status short_of_one =
      phasor_chat_to_text(e.session, 1, out.data(), needed - 1, &bytes, talk, 4, &error);
  const char last = out.back();
  const phasor_status fits =
      phasor_chat_to_text(e.session, 1, out.data(), needed, &bytes, talk, 4, &error);
  const uint64_t allocations = heap.allocations();
  CHECK(allocations == 0);
  CHECK(first == PHASOR_FULL);
  CHECK(needed == expected.size());
  CHECK(short_of_one == PHASOR_FULL);
  CHECK(last == '#');
  CHECK(fits == PHASOR_OK);
  CHECK(std::string(out.data(), bytes) == expected);

  // No messages: the template reads the first one. A message of another library's size. A model
  // without a program.
  CHECK(phasor_chat_to_text(e.session, 1, nullptr, 0, &bytes, talk, 0, &error) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) ==
        "chat template, line 12: a field of a message that is not there");
  phasor_chat_message odd = talk[0];
  odd.struct_size += 8;
  CHECK(phasor_chat_to_text(e.session, 1, nullptr, 0, &bytes, &odd, 1, &error) == PHASOR_BAD_INPUT);
  const Block other = golden_file("tiny-lm-f32");
  Engine plain(other, nullptr);
  CHECK(phasor_chat_available(plain.model) == 0);
  CHECK(phasor_chat_to_text(plain.session, 1, nullptr, 0, &bytes, talk, 4, &error) ==
        PHASOR_UNSUPPORTED);
  CHECK(std::string(error.text) == "the file has no chat program");
}

TEST_CASE("chat: a damaged program is refused when the file is opened") {
  const Block file = golden_file("tiny-chat-f32");
  std::size_t at = 0;  // of the section: kind 8 in the section table
  for (std::size_t entry = 64; at == 0; entry += 32)
    if (file.data()[entry] == 8) std::memcpy(&at, file.data() + entry + 8, sizeof(uint32_t));
  for (const std::size_t place :
       {std::size_t{0}, std::size_t{4}, std::size_t{28}, std::size_t{40}}) {
    Block bad(file.data(), file.size());
    bad.data()[at + place] ^= 0x80;
    phasor_error error = PHASOR_ERROR_INIT;
    std::size_t need = 0;
    REQUIRE(phasor_model_size(&need, bad.data(), bad.size(), &error) == PHASOR_OK);
    Block memory(need);
    phasor_model* model = nullptr;
    CHECK(phasor_model_open(&model, memory.data(), need, bad.data(), bad.size(), nullptr, &error) ==
          PHASOR_BAD_FILE);
    CHECK(error.section == 8);
    CHECK(std::strncmp(error.text, "chat: ", 6) == 0);
  }
}

TEST_CASE("chat: what a template refuses with is one line") {
  const Block file = golden_file("tiny-chat-f32");
  unsigned char* entry = file.data() + 64;
  while (*entry != 8) entry += 32;
  Program p;
  p.strings = {"no\nway \x1b[31m\x7F"};
  p.code = {word(Op::string, 0), word(Op::raise), label(0, 0), word(Op::end)};
  const std::vector<unsigned char> section = p.section();
  REQUIRE(section.size() < load_u32(entry + 16));
  std::memcpy(file.data() + load_u32(entry + 8), section.data(), section.size());
  store_u32(entry + 16, static_cast<uint32_t>(section.size()));
  const uint32_t head = load_u32(file.data() + 32);
  store_u32(file.data() + 40, 0);
  store_u32(file.data() + 40, crc32c(0, file.data(), head));
  const Engine e(file, nullptr);
  const phasor_chat_message hello = say("user", "Hello");
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t bytes = 0;
  CHECK(phasor_chat_to_text(e.session, 1, nullptr, 0, &bytes, &hello, 1, &error) ==
        PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "chat template, line 0: no way  [31m ");
}
