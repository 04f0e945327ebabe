// The instructions of a chat program: one table. The check and the machine take from it what they
// know of an instruction. The compiler has the same table in Python, file-format.md (CHAT) has it
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

struct Instruction {
  Operand operand;
  std::uint8_t kinds[5];  // of the value that it puts on the stack, then of those that it takes
};

constexpr const char *kNoText = "a whole message as text",
                     *kNoField = "a field of a message that is not there",
                     *kNoNumbers = "arithmetic with something that is not a number",
                     *kNoOrder = "an order of values that have none",
                     *kNoEnds = "the beginning or end of something that is not a text",
                     *kNotIn = "`in` of values that it is not for";

// Name (with _ where C++ has the word), operand, the error where a value is of another kind, the
// kinds of the value that is put on the stack (kNothing: none), and of those that are taken, the
// last one on top. An instruction's number is its place.
// clang-format off
#define PHASOR_CHAT_INSTRUCTIONS(ROW)                                                             \
  ROW(end,         zero,    nullptr, kNothing)                                                    \
  ROW(line,        line,    nullptr, kNothing)                                                    \
  ROW(label,       place,   nullptr, kNothing)                                                    \
  ROW(text,        text,    nullptr, kNothing)                                                    \
  ROW(emit,        zero,    kNoText, kNothing, kWritten)                                          \
  ROW(emit_string, zero,    "a text is put together with something else", kNothing, kString)      \
  ROW(none,        zero,    nullptr, kNone)                                                       \
  ROW(undefined,   zero,    nullptr, kUndefined)                                                  \
  ROW(bool_,       flag,    nullptr, kBool)                                                       \
  ROW(int_,        integer, nullptr, kInteger)                                                    \
  ROW(string,      text,    nullptr, kString)                                                     \
  ROW(load,        slot,    nullptr, kAny)                                                        \
  ROW(store,       slot,    nullptr, kNothing, kAny)                                              \
  ROW(pop,         zero,    nullptr, kNothing, kAny)                                              \
  ROW(messages,    zero,    nullptr, kList)                                                       \
  ROW(prompt,      zero,    nullptr, kBool)                                                       \
  ROW(item,        item,    nullptr, kUndefined | kMessage)                                       \
  ROW(index,       loop,    nullptr, kInteger)                                                    \
  ROW(count,       loop,    nullptr, kInteger)                                                    \
  ROW(role,        zero,    kNoField, kString, kMessage)                                          \
  ROW(content,     zero,    kNoField, kString, kMessage)                                          \
  ROW(field,       zero,    kNoField, kUndefined, kMessage)                                       \
  ROW(element,     zero,    "an index that is not a number",                                      \
      kUndefined | kMessage, kAny, kNumber)                                                       \
  ROW(slice,       zero,    "a bound that is not a number",                                       \
      kList, kAny, kNumber | kNone, kNumber | kNone, kNumber | kNone)                             \
  ROW(length,      zero,    "the length of something that has none",                              \
      kInteger, kUndefined | kString | kList | kMessage)                                          \
  ROW(not_,        zero,    nullptr, kBool, kAny)                                                 \
  ROW(neg,         zero,    "the negative of something that is not a number", kInteger, kNumber)  \
  ROW(add,         zero,    kNoNumbers, kInteger | kString, kOrdered, kOrdered)                   \
  ROW(sub,         zero,    kNoNumbers, kInteger, kNumber, kNumber)                               \
  ROW(mul,         zero,    kNoNumbers, kInteger, kNumber, kNumber)                               \
  ROW(div,         zero,    kNoNumbers, kInteger, kNumber, kNumber)                               \
  ROW(mod,         zero,    kNoNumbers, kInteger, kNumber, kNumber)                               \
  ROW(concat,      zero,    kNoText, kString, kWritten, kWritten)                                 \
  ROW(eq,          zero,    nullptr, kBool, kAny, kAny)                                           \
  ROW(ne,          zero,    nullptr, kBool, kAny, kAny)                                           \
  ROW(lt,          zero,    kNoOrder, kBool, kOrdered, kOrdered)                                  \
  ROW(le,          zero,    kNoOrder, kBool, kOrdered, kOrdered)                                  \
  ROW(gt,          zero,    kNoOrder, kBool, kOrdered, kOrdered)                                  \
  ROW(ge,          zero,    kNoOrder, kBool, kOrdered, kOrdered)                                  \
  ROW(in,          zero,    kNotIn, kBool, kAny, kUndefined | kString | kMessage)                 \
  ROW(test,        kinds,   nullptr, kBool, kAny)                                                 \
  ROW(jump,        label,   nullptr, kNothing)                                                    \
  ROW(jump_false,  label,   nullptr, kNothing, kAny)                                              \
  ROW(and_,        label,   nullptr, kNothing, kAny)                                              \
  ROW(or_,         label,   nullptr, kNothing, kAny)                                              \
  ROW(for_,        label,   "a loop over something that is not a list of messages",               \
      kNothing, kUndefined | kList)                                                               \
  ROW(next,        label,   nullptr, kNothing)                                                    \
  ROW(break_,      label,   nullptr, kNothing)                                                    \
  ROW(strip,       sides,   "the ends of something that is not a text",                           \
      kString, kString, kString)                                                                  \
  ROW(starts,      zero,    kNoEnds, kBool, kString, kString)                                     \
  ROW(ends,        zero,    kNoEnds, kBool, kString, kString)                                     \
  ROW(split,       zero,    "split of values that it is not for",                                 \
      kUndefined | kInteger | kString, kString, kNone | kString, kNumber, kAny)                   \
  ROW(replace,     zero,    "replace of something that is not a text",                            \
      kString, kString, kString, kString)                                                         \
  ROW(case_,       letters, "letters of something that is not a text", kString, kString)          \
  ROW(json,        zero,    "JSON of something that has none", kString, kNone | kOrdered)         \
  ROW(str,         zero,    kNoText, kString, kWritten)                                           \
  ROW(raise,       zero,    "an exception without a text", kNothing, kString)

#define PHASOR_CHAT_NAME(name, ...) name,
enum class Op : std::uint32_t { PHASOR_CHAT_INSTRUCTIONS(PHASOR_CHAT_NAME) number_of };
#undef PHASOR_CHAT_NAME

#define PHASOR_CHAT_ROW(name, operand, wrong, ...) {Operand::operand, {__VA_ARGS__}},
inline constexpr Instruction kInstructions[] = {PHASOR_CHAT_INSTRUCTIONS(PHASOR_CHAT_ROW)};
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
  while (taken < 4 && row.kinds[1 + taken] != kNothing) ++taken;
  return row.operand == Operand::sides && (argument_of(word) & kStripChars) == 0 ? 1 : taken;
}

}  // namespace chat
}  // namespace phasor

#endif  // PHASOR_TEXT_CHAT_INSTRUCTIONS_H_
