#include "chat.h"

#include <algorithm>

#include "text/chat/instructions.h"

namespace generator {
namespace {

using namespace phasor::chat;

// Writes a program and keeps count of what stands on its stack.
class Program {
 public:
  explicit Program(Choices* c) : c_(c) {
    for (uint32_t i = 0; i < kTexts; ++i) strings_.push_back(c->of(words()));
  }

  Bytes section() {
    block(c_->between(1, 5), 3);
    op(Op::end, 0, 0);
    Bytes out;
    std::string text;
    for (const std::string& s : strings_) text += s;
    const std::size_t header[] = {1,           c_->below(2), code_.size(), strings_.size(),
                                  text.size(), kSlots,       deepest_,     0};
    for (const std::size_t value : header) put_u32(&out, value);
    for (const uint32_t word : code_) put_u32(&out, word);
    std::size_t at = 0;
    for (const std::string& s : strings_) {
      put_u32(&out, at);
      put_u32(&out, s.size());
      at += s.size();
    }
    put_text(&out, text);
    pad(&out, 4);
    return out;
  }

 private:
  static constexpr uint32_t kTexts = 6, kSlots = 3;
  static const std::vector<std::string>& words() {
    static const std::vector<std::string> all = {"",  "user",     "system", "<|",        "|>\n",
                                                 " ", "\xC3\xA9", "a",      "assistant", "no"};
    return all;
  }

  // An operation, and what it takes from the stack and puts there.
  void op(Op code, uint32_t argument, int change) {
    code_.push_back(static_cast<uint32_t>(code) | argument << 8);
    depth_ += change;
    deepest_ = std::max(deepest_, static_cast<uint32_t>(depth_));
  }
  // A jump to a label that `land` places later.
  std::size_t jump(Op code, int change) {
    op(code, 0, change);
    return code_.size() - 1;
  }
  void land(std::initializer_list<std::size_t> jumps) {
    for (const std::size_t from : jumps) code_[from] |= static_cast<uint32_t>(code_.size()) << 8;
    label();
  }
  void label() { op(Op::label, static_cast<uint32_t>(depth_) | level_ << 8, 0); }

  void block(uint32_t statements, uint32_t nested) {
    for (uint32_t i = 0; i < statements; ++i) statement(nested);
  }

  void statement(uint32_t nested) {
    if (c_->chance(30)) op(Op::line, c_->below(40), 0);
    switch (c_->below(nested != 0 ? 8 : 4)) {
      case 0:
        return op(Op::text, c_->below(kTexts), 0);
      case 1:
        return text(2), op(c_->chance(80) ? Op::emit : Op::emit_string, 0, -1);
      case 2:
        return text(2), op(Op::store, c_->below(kSlots), -1);
      case 3:
        return text(1), op(Op::pop, 0, -1);
      case 4:
      case 5:
        return choice(nested);
      case 6:
        return loop(nested);
      default:
        return refusal();
    }
  }

  void choice(uint32_t nested) {
    truth(2);
    const std::size_t no = jump(Op::jump_false, -1);
    block(1, nested - 1);
    if (c_->chance(50)) return land({no});
    const std::size_t done = jump(Op::jump, 0);
    land({no});
    block(1, nested - 1);
    land({done});
  }

  void loop(uint32_t nested) {
    if (level_ == kMostLoops) return choice(nested);
    list();
    const std::size_t empty = jump(Op::for_, -1);
    const std::size_t begin = code_.size();
    ++level_;
    label();
    block(c_->between(1, 3), nested - 1);
    std::size_t left = 0;
    if (c_->chance(30)) {
      truth(1);
      const std::size_t stay = jump(Op::jump_false, -1);
      left = jump(Op::break_, 0);
      land({stay});
    }
    op(Op::next, static_cast<uint32_t>(begin), 0);
    --level_;
    if (left != 0)
      land({empty, left});
    else
      land({empty});
  }

  // The template refuses what it does not like.
  void refusal() {
    truth(1);
    const std::size_t fine = jump(Op::jump_false, -1);
    op(Op::string, c_->below(kTexts), 1);
    op(Op::raise, 0, -1);
    land({fine});
  }

  void list() {
    op(Op::messages, 0, 1);
    if (!c_->chance(30)) return;
    number(0);
    op(Op::none, 0, 1);
    op(c_->chance(50) ? Op::none : Op::int_, 0, 1);
    if ((code_.back() & 0xFF) == static_cast<uint32_t>(Op::int_))
      code_.back() |= c_->of({1u, 2u, 0xFFFFFFu}) << 8;
    op(Op::slice, 0, -3);
  }

  void message() {
    if (level_ != 0 && c_->chance(80)) return op(Op::item, c_->below(level_) | 1 << 8, 1);
    list();
    number(0);
    op(Op::element, 0, -1);
  }

  void number(uint32_t nested) {
    const uint32_t first = level_ != 0 ? 0 : 2;  // what asks for a loop comes first
    switch (c_->between(first, nested != 0 ? 6 : 2)) {
      case 0:
        return op(Op::index, c_->below(level_), 1);
      case 1:
        return op(Op::count, c_->below(level_), 1);
      case 2:
        return op(Op::int_, c_->of({0u, 1u, 2u, 7u, 0xFFFFFFu, 0x800000u}), 1);
      case 3:
        return text(nested - 1), op(Op::length, 0, 0);
      case 4:
        return number(nested - 1), op(Op::neg, 0, 0);
      default:
        number(nested - 1);
        number(nested - 1);
        return op(c_->of({Op::add, Op::sub, Op::mul, Op::div, Op::mod}), 0, -1);
    }
  }

  void truth(uint32_t nested) {
    switch (c_->below(nested != 0 ? 8 : 2)) {
      case 0:
        return op(Op::bool_, c_->below(2), 1);
      case 1:
        return op(Op::prompt, 0, 1);
      case 2:
        return two_texts(nested), op(c_->of({Op::eq, Op::ne, Op::lt, Op::ge, Op::in}), 0, -1);
      case 3:
        return two_texts(nested), op(c_->of({Op::starts, Op::ends}), 0, -1);
      case 4:
        return truth(nested - 1), op(Op::not_, 0, 0);
      case 5:
        op(Op::load, c_->below(kSlots), 1);
        return op(Op::test, c_->below(256), 0);
      case 6: {
        truth(nested - 1);
        const std::size_t enough = jump(c_->of({Op::and_, Op::or_}), -1);
        truth(nested - 1);
        return land({enough});
      }
      default:
        number(nested - 1);
        number(nested - 1);
        return op(c_->of({Op::eq, Op::ne, Op::lt, Op::le, Op::gt, Op::ge}), 0, -1);
    }
  }

  void two_texts(uint32_t nested) {
    text(nested - 1);
    text(nested - 1);
  }

  void text(uint32_t nested) {
    switch (c_->below(nested != 0 ? 14 : 2)) {
      case 0:
        return op(Op::string, c_->below(kTexts), 1);
      case 1:
        return message(), op(c_->of({Op::role, Op::content}), 0, 0);
      case 2:
        return op(Op::load, c_->below(kSlots), 1), op(Op::str, 0, 0);
      case 3:
        return two_texts(nested), op(Op::add, 0, -1);
      case 4:
        return two_texts(nested), op(Op::concat, 0, -1);
      case 5:
        return text(nested - 1), op(Op::strip, c_->between(1, 3), 0);
      case 6:
        return two_texts(nested), op(Op::strip, c_->between(5, 7), -1);
      case 7:
        return text(nested - 1), op(Op::case_, c_->below(5), 0);
      case 8:
        return text(nested - 1), op(Op::json, 0, 0);
      case 9:
        return number(nested - 1), op(Op::str, 0, 0);
      case 10:
        return op(Op::undefined, 0, 1), op(Op::str, 0, 0);
      case 11:
        return message(), op(Op::field, 0, 0), op(Op::str, 0, 0);
      case 12:
        two_texts(nested);
        text(0);
        return op(Op::replace, 0, -2);
      default:
        two_texts(nested);
        number(0);
        number(0);
        op(Op::split, 0, -3);
        return op(Op::str, 0, 0);
    }
  }

  Choices* c_;
  std::vector<uint32_t> code_;
  std::vector<std::string> strings_;
  int depth_ = 0;
  uint32_t deepest_ = 0, level_ = 0;
};

}  // namespace

Bytes any_chat(Choices* c) { return Program(c).section(); }

}  // namespace generator
