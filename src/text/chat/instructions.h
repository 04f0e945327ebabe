// The instructions of a chat program: one table. The check and the machine take from it what they
// know of an instruction. The compiler has the same table in Python, docs/format.md (CHAT) has it
// for people, and tests/python/test_chat_instructions.py compares the three row by row.
//
// A new instruction is a row at the end of the table, a case in machine.cpp, a row in Python and on
// the page, and its use in the compiler. Includes nothing but the chat header.
#ifndef PHASOR_TEXT_CHAT_INSTRUCTIONS_H_
#define PHASOR_TEXT_CHAT_INSTRUCTIONS_H_

#include "program.h"

namespace phasor {
namespace chat {

// Kinds of values, a bit each: what a value is, what an instruction takes, what TEST asks for.
enum Kinds : std::uint8_t {
  kNothing = 0,
  kUndefined = 1,
  kNone = 2,
  kFalse = 4,
  kTrue = 8,
  kInteger = 16,
  kString = 32,
  kList = 64,
  kMessage = 128,
  kBool = kFalse | kTrue,
  kNumber = kBool | kInteger,
  kOrdered = kNumber | kString,
  kWritten = kUndefined | kNone | kOrdered,  // what STR makes a text of
  kAny = kWritten | kList | kMessage
};

// What an instruction's argument is.
enum class Operand : std::uint8_t {
  zero,     // there is none
  line,     // of the template
  place,    // values on the stack; above bit 8 open loops
  text,     // one of the program's texts
  flag,     // 0 or 1
  integer,  // 24 bits in two's complement
  slot,     // one of the program's variables
  item,     // an open loop; above bit 8 which of three messages
  loop,     // an open loop
  kinds,    // bits of Kinds
  label,    // the number of a LABEL
  sides,    // kStripLeft …; without kStripChars the last value is not taken
  letters   // kUpper …
};

// A text that is written in the code, and its length.
struct Literal {
  const char* text = nullptr;
  std::size_t bytes = 0;

  constexpr Literal() = default;
  template <std::size_t N>
  constexpr Literal(const char (&literal)[N]) : text(literal), bytes(N - 1) {}
};

struct Instruction {
  Operand operand;
  std::uint8_t puts;           // the kinds of what it puts on the stack; kNothing: no value
  std::uint8_t takes[4] = {};  // and of what it takes, the last one on top; kNothing behind them
  Literal wrong = {};          // the error where a value is of another kind
};

constexpr Literal kNoText = "a whole message as text",
                  kNoField = "a field of a message that is not there",
                  kNoNumbers = "arithmetic with something that is not a number",
                  kNoOrder = "an order of values that have none",
                  kNoEnds = "the beginning or end of something that is not a text",
                  kNotIn = "`in` of values that it is not for";

// Name (with _ where C++ has the word), operand, what is put on the stack, what is taken, the
// error. An instruction's number is its place.
// clang-format off
#define PHASOR_CHAT_INSTRUCTIONS(ROW)                                                             \
  ROW(end,         zero,    kNothing)                                                             \
  ROW(line,        line,    kNothing)                                                             \
  ROW(label,       place,   kNothing)                                                             \
  ROW(text,        text,    kNothing)                                                             \
  ROW(emit,        zero,    kNothing, {kWritten}, kNoText)                                        \
  ROW(emit_string, zero,    kNothing, {kString}, "a text is put together with something else")    \
  ROW(none,        zero,    kNone)                                                                \
  ROW(undefined,   zero,    kUndefined)                                                           \
  ROW(bool_,       flag,    kBool)                                                                \
  ROW(int_,        integer, kInteger)                                                             \
  ROW(string,      text,    kString)                                                              \
  ROW(load,        slot,    kAny)                                                                 \
  ROW(store,       slot,    kNothing, {kAny})                                                     \
  ROW(pop,         zero,    kNothing, {kAny})                                                     \
  ROW(messages,    zero,    kList)                                                                \
  ROW(prompt,      zero,    kBool)                                                                \
  ROW(item,        item,    kUndefined | kMessage)                                                \
  ROW(index,       loop,    kInteger)                                                             \
  ROW(count,       loop,    kInteger)                                                             \
  ROW(role,        zero,    kString, {kMessage}, kNoField)                                        \
  ROW(content,     zero,    kString, {kMessage}, kNoField)                                        \
  ROW(field,       zero,    kUndefined, {kMessage}, kNoField)                                     \
  ROW(element,     zero,    kUndefined | kMessage, {kAny, kNumber},                               \
      "an index that is not a number")                                                            \
  ROW(slice,       zero,    kList, {kAny, kNumber | kNone, kNumber | kNone, kNumber | kNone},     \
      "a bound that is not a number")                                                             \
  ROW(length,      zero,    kInteger, {kUndefined | kString | kList | kMessage},                  \
      "the length of something that has none")                                                    \
  ROW(not_,        zero,    kBool, {kAny})                                                        \
  ROW(neg,         zero,    kInteger, {kNumber}, "the negative of something that is not a number")\
  ROW(add,         zero,    kInteger | kString, {kOrdered, kOrdered}, kNoNumbers)                 \
  ROW(sub,         zero,    kInteger, {kNumber, kNumber}, kNoNumbers)                             \
  ROW(mul,         zero,    kInteger, {kNumber, kNumber}, kNoNumbers)                             \
  ROW(div,         zero,    kInteger, {kNumber, kNumber}, kNoNumbers)                             \
  ROW(mod,         zero,    kInteger, {kNumber, kNumber}, kNoNumbers)                             \
  ROW(concat,      zero,    kString, {kWritten, kWritten}, kNoText)                               \
  ROW(eq,          zero,    kBool, {kAny, kAny})                                                  \
  ROW(ne,          zero,    kBool, {kAny, kAny})                                                  \
  ROW(lt,          zero,    kBool, {kOrdered, kOrdered}, kNoOrder)                                \
  ROW(le,          zero,    kBool, {kOrdered, kOrdered}, kNoOrder)                                \
  ROW(gt,          zero,    kBool, {kOrdered, kOrdered}, kNoOrder)                                \
  ROW(ge,          zero,    kBool, {kOrdered, kOrdered}, kNoOrder)                                \
  ROW(in,          zero,    kBool, {kAny, kUndefined | kString | kMessage}, kNotIn)               \
  ROW(test,        kinds,   kBool, {kAny})                                                        \
  ROW(jump,        label,   kNothing)                                                             \
  ROW(jump_false,  label,   kNothing, {kAny})                                                     \
  ROW(and_,        label,   kNothing, {kAny})                                                     \
  ROW(or_,         label,   kNothing, {kAny})                                                     \
  ROW(for_,        label,   kNothing, {kUndefined | kList},                                       \
      "a loop over something that is not a list of messages")                                     \
  ROW(next,        label,   kNothing)                                                             \
  ROW(break_,      label,   kNothing)                                                             \
  ROW(strip,       sides,   kString, {kString, kString},                                          \
      "the ends of something that is not a text")                                                 \
  ROW(starts,      zero,    kBool, {kString, kString}, kNoEnds)                                   \
  ROW(ends,        zero,    kBool, {kString, kString}, kNoEnds)                                   \
  ROW(split,       zero,    kUndefined | kInteger | kString, {kString, kNone | kString, kNumber, kAny},\
      "split of values that it is not for")                                                       \
  ROW(replace,     zero,    kString, {kString, kString, kString},                                 \
      "replace of something that is not a text")                                                  \
  ROW(case_,       letters, kString, {kString}, "letters of something that is not a text")        \
  ROW(json,        zero,    kString, {kNone | kOrdered}, "JSON of something that has none")       \
  ROW(str,         zero,    kString, {kWritten}, kNoText)                                         \
  ROW(raise,       zero,    kNothing, {kString}, "an exception without a text")

#define PHASOR_CHAT_NAME(name, ...) name,
enum class Op : std::uint32_t { PHASOR_CHAT_INSTRUCTIONS(PHASOR_CHAT_NAME) number_of };
#undef PHASOR_CHAT_NAME

#define PHASOR_CHAT_ROW(name, operand, ...) {Operand::operand, __VA_ARGS__},
constexpr Instruction kInstructions[] = {PHASOR_CHAT_INSTRUCTIONS(PHASOR_CHAT_ROW)};
#undef PHASOR_CHAT_ROW
// clang-format on

constexpr std::uint32_t kMostCode = 1u << 16, kMostStrings = 1u << 14, kMostText = 1u << 20,
                        kMostSlots = 64, kMostStack = 32, kMostLoops = 2;
constexpr std::uint64_t kStepsToAByte = 256;  // of the program and the messages
constexpr std::uint32_t kHeader = 32;         // bytes
constexpr std::uint32_t kOnlyKnownRoles = 1;  // flag
constexpr std::uint32_t kStripLeft = 1, kStripRight = 2, kStripChars = 4;
enum : std::uint32_t {
  kUpper = 0,
  kLower = 1,
  kCapitalize = 2,
  kTitleWords = 3,
  kTitleLetters = 4
};

inline Op op_of(std::uint32_t word) noexcept { return static_cast<Op>(word & 0xFF); }
inline std::uint32_t argument_of(std::uint32_t word) noexcept { return word >> 8; }
inline std::int32_t signed_argument(std::uint32_t word) noexcept {  // 24 bits in two's complement
  return static_cast<std::int32_t>(argument_of(word) ^ 0x800000u) - 0x800000;
}
// How many values an instruction takes from the stack.
inline std::uint32_t taken_by(std::uint32_t word) noexcept {
  const Instruction& row = kInstructions[word & 0xFF];
  std::uint32_t taken = 0;
  while (taken < 4 && row.takes[taken] != kNothing) ++taken;
  return row.operand == Operand::sides && (argument_of(word) & kStripChars) == 0 ? taken - 1
                                                                                 : taken;
}

}  // namespace chat
}  // namespace phasor

#endif  // PHASOR_TEXT_CHAT_INSTRUCTIONS_H_
