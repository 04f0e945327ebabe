// The check of a chat program: one pass without memory. Every label says how many values and loops
// there are where it stands, so that each jump can be compared with its target alone. Jumps go
// forward, but for the end of a loop, which goes back to that loop's start and takes one of its
// messages: a program ends.
#include "../pieces.h"
#include "instructions.h"

namespace phasor {
namespace {

using namespace chat;
using pieces::load_u32;

class Checker {
 public:
  Checker(const ChatProgram& p, std::uint32_t deepest) : p_(p), deepest_(deepest) {}

  const char* run() noexcept {
    for (at_ = 0; at_ < p_.instructions; ++at_) {
      const char* why = one(word(at_));
      if (why != nullptr) return why;
    }
    return op_of(word(p_.instructions - 1)) == Op::end ? nullptr : "chat: the program has no end";
  }

 private:
  std::uint32_t word(std::uint32_t i) const noexcept {
    return load_u32(p_.code + std::size_t{i} * 4);
  }

  const char* one(std::uint32_t w) noexcept {
    const std::uint32_t code = w & 0xFF, arg = argument_of(w);
    if (code >= static_cast<std::uint32_t>(Op::number_of)) return "chat: an operation is unknown";
    const Op op = static_cast<Op>(code);
    if (op == Op::label) return label(arg);
    if (!reached_) return "chat: an operation cannot be reached";
    const Instruction& row = kInstructions[code];
    if (!argument(row.operand, w)) return "chat: the argument of an operation is out of range";
    const std::uint32_t taken = taken_by(w);
    if (depth_ < taken) return "chat: an operation has too few values";
    depth_ = depth_ - taken + (row.kinds[0] != kNothing ? 1u : 0u);
    if (depth_ > deepest_) return "chat: more values at once than the header says";
    if (row.operand == Operand::label) return jump(op, arg);
    if (op == Op::end && (depth_ != 0 || level_ != 0 || at_ + 1 != p_.instructions))
      return "chat: an end that is not the end";
    if (op == Op::raise) reached_ = false;
    return nullptr;
  }

  bool argument(Operand operand, std::uint32_t w) const noexcept {
    const std::uint32_t arg = argument_of(w);
    switch (operand) {
      case Operand::zero:
        return arg == 0;
      case Operand::flag:
        return arg <= 1;
      case Operand::text:
        return arg < p_.string_count;
      case Operand::slot:
        return arg < p_.slots;
      case Operand::label:
        return arg < p_.instructions && op_of(word(arg)) == Op::label;
      case Operand::item:
        return (arg & 0xFF) < level_ && arg >> 8 <= 2;
      case Operand::loop:
        return arg < level_;
      case Operand::kinds:
        return arg <= kAny;
      case Operand::sides:
        return arg < 8 && (arg & (kStripLeft | kStripRight)) != 0;
      case Operand::letters:
        return arg <= kTitleLetters;
      default:
        return true;
    }
  }

  const char* label(std::uint32_t arg) noexcept {
    const std::uint32_t depth = arg & 0xFF, level = arg >> 8;
    if (depth > deepest_ || level > kMostLoops ||
        (reached_ && (depth != depth_ || level != level_)))
      return "chat: a label is not what leads to it";
    depth_ = depth;
    level_ = level;
    reached_ = true;
    return nullptr;
  }

  const char* jump(Op op, std::uint32_t to) noexcept {
    const std::uint32_t target = argument_of(word(to));
    if ((op == Op::break_ || op == Op::next) && level_ == 0)
      return "chat: the end of a loop outside of loops";
    // where AND and OR jump, the value stays
    const std::uint32_t depth = depth_ + (op == Op::and_ || op == Op::or_ ? 1u : 0u),
                        level = level_ - (op == Op::break_ ? 1u : 0u);
    if (target != (depth | level << 8)) return "chat: a jump to a label for something else";
    if (op == Op::next) {
      if (begins_[level_ - 1] == 0 || to != begins_[level_ - 1])
        return "chat: a loop does not go back to its start";
      --level_;
      return nullptr;
    }
    if (to <= at_) return "chat: a jump goes back";
    if (op == Op::for_) {
      if (level_ == kMostLoops) return "chat: too many loops in one another";
      begins_[level_++] = at_ + 1;
    }
    if (op == Op::jump || op == Op::break_) reached_ = false;
    return nullptr;
  }

  const ChatProgram& p_;
  std::uint32_t deepest_, at_ = 0, depth_ = 0, level_ = 0;
  std::uint32_t begins_[kMostLoops] = {};  // the place after the last `for` of each level; 0: none
  bool reached_ = true;
};

// Why a section is refused, or NULL; then *out is its program.
const char* refusal(ChatProgram* out, const unsigned char* section, std::size_t bytes) noexcept {
  if (bytes < kHeader) return "chat: the section is cut off";
  if (load_u32(section) != 1) return "chat: the program's version is not known here";
  ChatProgram p{};
  p.flags = load_u32(section + 4);
  p.instructions = load_u32(section + 8);
  p.string_count = load_u32(section + 12);
  p.text_bytes = load_u32(section + 16);
  p.slots = load_u32(section + 20);
  const std::uint32_t deepest = load_u32(section + 24);
  if (p.flags > kOnlyKnownRoles || load_u32(section + 28) != 0)
    return "chat: a reserved bit is set";
  if (p.instructions == 0 || p.instructions > kMostCode || p.string_count > kMostStrings ||
      p.text_bytes > kMostText || p.slots > kMostSlots || deepest > kMostStack)
    return "chat: a count of the header is out of range";
  const std::size_t strings = kHeader + std::size_t{p.instructions} * 4,
                    text = strings + std::size_t{p.string_count} * 8, end = text + p.text_bytes;
  if (bytes != (end + 3) / 4 * 4) return "chat: the section's size is not that of its parts";
  for (std::size_t i = end; i < bytes; ++i)
    if (section[i] != 0) return "chat: the section is not padded with zeros";
  p.code = section + kHeader;
  p.strings = section + strings;
  p.text = section + text;
  for (std::uint32_t i = 0; i < p.string_count; ++i) {
    const std::uint32_t offset = load_u32(p.strings + std::size_t{i} * 8),
                        length = load_u32(p.strings + std::size_t{i} * 8 + 4);
    if (offset > p.text_bytes || length > p.text_bytes - offset)
      return "chat: a text lies outside the section";
  }
  *out = p;
  return Checker(p, deepest).run();
}

}  // namespace

bool chat_open(ChatProgram* out, const unsigned char* section, std::size_t bytes,
               const char** why) noexcept {
  const char* const wrong = refusal(out, section, bytes);
  if (wrong == nullptr) return true;
  *out = ChatProgram{};
  *why = wrong;
  return false;
}

}  // namespace phasor
