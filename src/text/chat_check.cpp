// The check of a chat program: one pass without memory. Every label says how many values and loops
// there are where it stands, so that each jump can be compared with its target alone. Jumps go
// forward, but for the end of a loop, which goes back to that loop's start and takes one of its
// messages: a program ends.
#include "chat_code.h"
#include "pieces.h"

namespace phasor {
namespace {

using namespace chat;
using pieces::load_u32;

struct Effect {
  std::uint8_t taken, put;  // values of the stack
  enum Argument : std::uint8_t {
    zero,
    any,
    flag,
    number,
    string,
    slot,
    target,
    place,
    item,
    level,
    kinds,
    sides,
    letters
  } argument;
};

constexpr Effect kEffects[static_cast<unsigned>(Op::number_of)] = {
    {0, 0, Effect::zero},     // end
    {0, 0, Effect::any},      // line
    {0, 0, Effect::place},    // label
    {0, 0, Effect::string},   // text
    {1, 0, Effect::zero},     // emit
    {1, 0, Effect::zero},     // emit_string
    {0, 1, Effect::zero},     // none
    {0, 1, Effect::zero},     // undefined
    {0, 1, Effect::flag},     // boolean
    {0, 1, Effect::number},   // integer
    {0, 1, Effect::string},   // string
    {0, 1, Effect::slot},     // load
    {1, 0, Effect::slot},     // store
    {1, 0, Effect::zero},     // pop
    {0, 1, Effect::zero},     // messages
    {0, 1, Effect::zero},     // prompt
    {0, 1, Effect::item},     // item
    {0, 1, Effect::level},    // index
    {0, 1, Effect::level},    // count
    {1, 1, Effect::zero},     // role
    {1, 1, Effect::zero},     // content
    {1, 1, Effect::zero},     // field
    {2, 1, Effect::zero},     // element
    {4, 1, Effect::zero},     // slice
    {1, 1, Effect::zero},     // length
    {1, 1, Effect::zero},     // not
    {1, 1, Effect::zero},     // neg
    {2, 1, Effect::zero},     // add
    {2, 1, Effect::zero},     // sub
    {2, 1, Effect::zero},     // mul
    {2, 1, Effect::zero},     // div
    {2, 1, Effect::zero},     // mod
    {2, 1, Effect::zero},     // concat
    {2, 1, Effect::zero},     // eq
    {2, 1, Effect::zero},     // ne
    {2, 1, Effect::zero},     // lt
    {2, 1, Effect::zero},     // le
    {2, 1, Effect::zero},     // gt
    {2, 1, Effect::zero},     // ge
    {2, 1, Effect::zero},     // in
    {1, 1, Effect::kinds},    // test
    {0, 0, Effect::target},   // jump
    {1, 0, Effect::target},   // jump_false
    {1, 1, Effect::target},   // and: the value stays for the jump
    {1, 1, Effect::target},   // or
    {1, 0, Effect::target},   // for
    {0, 0, Effect::target},   // next
    {0, 0, Effect::target},   // break
    {1, 1, Effect::sides},    // strip: one more where it has characters
    {2, 1, Effect::zero},     // starts
    {2, 1, Effect::zero},     // ends
    {4, 1, Effect::zero},     // split
    {3, 1, Effect::zero},     // replace
    {1, 1, Effect::letters},  // case
    {1, 1, Effect::zero},     // json
    {1, 1, Effect::zero},     // str
    {1, 0, Effect::zero},     // raise
};

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
    const Effect& e = kEffects[code];
    if (!argument(e.argument, w)) return "chat: the argument of an operation is out of range";
    const std::uint32_t taken = e.taken + (op == Op::strip && (arg & kStripChars) != 0 ? 1u : 0u);
    if (depth_ < taken) return "chat: an operation has too few values";
    depth_ = depth_ - taken + e.put;
    if (depth_ > deepest_) return "chat: more values at once than the header says";
    if (e.argument == Effect::target) return jump(op, arg);
    if (op == Op::end && (depth_ != 0 || level_ != 0 || at_ + 1 != p_.instructions))
      return "chat: an end that is not the end";
    if (op == Op::end || op == Op::raise) reached_ = false;
    return nullptr;
  }

  bool argument(Effect::Argument kind, std::uint32_t w) const noexcept {
    const std::uint32_t arg = argument_of(w);
    switch (kind) {
      case Effect::zero:
        return arg == 0;
      case Effect::flag:
        return arg <= 1;
      case Effect::string:
        return arg < p_.string_count;
      case Effect::slot:
        return arg < p_.slots;
      case Effect::target:
        return arg < p_.instructions && op_of(word(arg)) == Op::label;
      case Effect::item:
        return (arg & 0xFF) < level_ && arg >> 8 <= 2;
      case Effect::level:
        return arg < level_;
      case Effect::kinds:
        return arg <= 0xFF;
      case Effect::sides:
        return arg < 8 && (arg & (kStripLeft | kStripRight)) != 0;
      case Effect::letters:
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
    std::uint32_t level = level_;
    if (op == Op::break_ || op == Op::next) {
      if (level_ == 0) return "chat: the end of a loop outside of loops";
      if (op == Op::break_) --level;
    }
    if ((target & 0xFF) != depth_ || target >> 8 != level)
      return "chat: a jump to a label for something else";
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
    if (op == Op::and_ || op == Op::or_) --depth_;
    if (op == Op::jump || op == Op::break_) reached_ = false;
    return nullptr;
  }

  const ChatProgram& p_;
  std::uint32_t deepest_, at_ = 0, depth_ = 0, level_ = 0;
  std::uint32_t begins_[kMostLoops] = {};  // the place after the last `for` of each level; 0: none
  bool reached_ = true;
};

}  // namespace

bool chat_open(ChatProgram* out, const unsigned char* section, std::size_t bytes,
               const char** why) noexcept {
  *out = ChatProgram{};
  const auto no = [why](const char* text) {
    *why = text;
    return false;
  };
  if (bytes < kHeader) return no("chat: the section is cut off");
  if (load_u32(section) != 1) return no("chat: the program's version is not known here");
  ChatProgram p{};
  p.flags = load_u32(section + 4);
  p.instructions = load_u32(section + 8);
  p.string_count = load_u32(section + 12);
  p.text_bytes = load_u32(section + 16);
  p.slots = load_u32(section + 20);
  const std::uint32_t deepest = load_u32(section + 24);
  if (p.flags > kOnlyKnownRoles || load_u32(section + 28) != 0)
    return no("chat: a reserved bit is set");
  if (p.instructions == 0 || p.instructions > kMostCode || p.string_count > kMostStrings ||
      p.text_bytes > kMostText || p.slots > kMostSlots || deepest > kMostStack)
    return no("chat: a count of the header is out of range");
  const std::size_t strings = kHeader + std::size_t{p.instructions} * 4,
                    text = strings + std::size_t{p.string_count} * 8, end = text + p.text_bytes;
  if (bytes != (end + 3) / 4 * 4) return no("chat: the section's size is not that of its parts");
  for (std::size_t i = end; i < bytes; ++i)
    if (section[i] != 0) return no("chat: the section is not padded with zeros");
  p.code = section + kHeader;
  p.strings = section + strings;
  p.text = section + text;
  for (std::uint32_t i = 0; i < p.string_count; ++i) {
    const std::uint32_t offset = load_u32(p.strings + std::size_t{i} * 8),
                        length = load_u32(p.strings + std::size_t{i} * 8 + 4);
    if (offset > p.text_bytes || length > p.text_bytes - offset)
      return no("chat: a text lies outside the section");
  }
  const char* wrong = Checker(p, deepest).run();
  if (wrong != nullptr) return no(wrong);
  *out = p;
  return true;
}

}  // namespace phasor
