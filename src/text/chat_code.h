// The operations of a chat program and their bounds, as docs/format.md (CHAT) numbers them.
// Includes nothing but the chat header.
#ifndef PHASOR_TEXT_CHAT_CODE_H_
#define PHASOR_TEXT_CHAT_CODE_H_

#include "chat.h"

namespace phasor {
namespace chat {

enum class Op : std::uint32_t {
  end,
  line,
  label,
  text,
  emit,
  emit_string,
  none,
  undefined,
  boolean,
  integer,
  string,
  load,
  store,
  pop,
  messages,
  prompt,
  item,
  index,
  count,
  role,
  content,
  field,
  element,
  slice,
  length,
  not_,
  neg,
  add,
  sub,
  mul,
  div,
  mod,
  concat,
  eq,
  ne,
  lt,
  le,
  gt,
  ge,
  in,
  test,
  jump,
  jump_false,
  and_,
  or_,
  for_,
  next,
  break_,
  strip,
  starts,
  ends,
  split,
  replace,
  letters,
  json,
  str,
  raise,
  number_of
};

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

}  // namespace chat
}  // namespace phasor

#endif  // PHASOR_TEXT_CHAT_CODE_H_
