// The machine that runs a chat program: a bounded stack, the program's variables, and loops over
// messages. Texts are pieces of the section, of the messages, or of the caller's scratch, where
// what is put together lies; when the scratch is full, what no value holds any more is given back.
// Includes the chat headers only; trusts a program that chat_open has checked.
#include "../pieces.h"
#include "instructions.h"
#include "text.h"

namespace phasor {
namespace {

using namespace chat;
using pieces::load_u32;

struct Value {
  std::uint8_t kind = kUndefined;  // one of Kinds
  std::int64_t number = 0;         // bool, integer; message: its index; list: the first one's
  std::int64_t step = 0;           // list: from one message's index to the next one's
  Piece text{};                    // string; of a list its bytes are how many messages it has
};

struct Frame {  // a loop over messages
  Value list;
  std::size_t index;
};

constexpr const char* kTooManySteps =
    "more than 256 steps for each byte of the program and of the messages";
// every number is within ± this, so that no sum or product leaves 64 bits
constexpr std::int64_t kMostNumber = std::int64_t{1} << 31;

// Where an instruction takes a value of another kind.
#define PHASOR_CHAT_ERROR(name, operand, error, ...) error,
constexpr const char* kErrors[] = {PHASOR_CHAT_INSTRUCTIONS(PHASOR_CHAT_ERROR)};
#undef PHASOR_CHAT_ERROR

Value of(std::uint8_t kind, std::int64_t number) noexcept {
  Value v;
  v.kind = kind;
  v.number = number;
  return v;
}
Value of(bool value) noexcept { return value ? of(kTrue, 1) : of(kFalse, 0); }
Value of(Piece text) noexcept {
  Value v;
  v.kind = kString;
  v.text = text;
  return v;
}

bool is_number(const Value& v) noexcept { return (v.kind & kNumber) != 0; }
bool is_string(const Value& v) noexcept { return v.kind == kString; }
bool truth(const Value& v) noexcept {
  return v.kind == kMessage || (is_number(v) && v.number != 0) || v.text.bytes != 0;
}

// Message `i` of a list; undefined where there is none.
Value element(const Value& list, std::int64_t i) noexcept {
  const std::int64_t n = static_cast<std::int64_t>(list.text.bytes);
  if (i < 0) i += n;
  return i < 0 || i >= n ? Value{} : of(kMessage, list.number + i * list.step);
}

// Python's list[start:stop:step]; step is not 0.
Value sliced(const Value& list, const Value& start, const Value& stop, std::int64_t step) noexcept {
  const std::int64_t n = static_cast<std::int64_t>(list.text.bytes);
  const auto bound = [n, step](const Value& v, std::int64_t otherwise) noexcept {
    if (v.kind == kNone) return otherwise;
    std::int64_t i = v.number < 0 ? v.number + n : v.number;
    const std::int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    return i < least ? least : i > most ? most : i;
  };
  const std::int64_t first = bound(start, step < 0 ? n - 1 : 0),
                     end = bound(stop, step < 0 ? -1 : n);
  const std::int64_t span = step < 0 ? first - end : end - first, stride = step < 0 ? -step : step;
  Value v = of(kList, 0);
  v.text.bytes = span <= 0 ? 0 : static_cast<std::size_t>((span - 1) / stride + 1);
  if (v.text.bytes != 0) v.number = list.number + first * list.step;
  v.step = v.text.bytes <= 1 ? 1 : list.step * step;
  return v;
}

// A value as str() writes it; a number's digits go into `digits`, of kDigits bytes.
Piece text_of(const Value& v, unsigned char* digits) noexcept {
  switch (v.kind) {
    case kNone:
      return piece("None");
    case kFalse:
      return piece("False");
    case kTrue:
      return piece("True");
    case kInteger:
      return write_number(digits, v.number);
    default:
      return v.text;
  }
}

class Machine {
 public:
  Machine(const ChatProgram& p, char* out, std::size_t capacity, const ChatMessages& messages,
          bool prompt, void* scratch, std::size_t scratch_bytes) noexcept
      : p_(p),
        out_(out),
        capacity_(capacity),
        messages_(messages),
        prompt_(prompt),
        scratch_(static_cast<unsigned char*>(scratch)),
        room_(scratch_bytes) {}
  ChatResult run() noexcept;

 private:
  std::uint64_t all_steps() const noexcept;
  bool known_roles() noexcept;
  bool step(std::uint32_t word) noexcept;
  bool execute(std::uint32_t word, const Value* x) noexcept;

  // What instructions do with the values that they take. False: the program has ended.
  bool slice(const Value* x) noexcept;
  bool length(const Value& v) noexcept;
  bool concat(const Value& a, const Value& b) noexcept;
  bool divide(Op op, std::int64_t a, std::int64_t b) noexcept;
  bool equals(const Value& a, const Value& b, bool* result) noexcept;
  bool equals(Piece a, Piece b, bool* result) noexcept;
  bool order(Op op, const Value& a, const Value& b) noexcept;
  bool contains(const Value& item, const Value& in) noexcept;
  bool strip(const Value* x, std::uint32_t sides) noexcept;
  bool split(const Value* x) noexcept;
  bool replace(const Value* x) noexcept;
  bool change_case(const Value& v, std::uint32_t how) noexcept;
  bool json(const Value& v) noexcept;

  bool write(Piece text) noexcept;
  // Makes a text of so many bytes in the scratch the instruction's value; NULL: no room, or no
  // steps for it. Values may move.
  unsigned char* make_text(std::size_t bytes) noexcept;
  void give_back() noexcept;
  bool spend(std::uint64_t steps) noexcept { return budget_.take(steps) || fail(kTooManySteps); }
  bool fail(const char* why) noexcept { return stop(ChatStatus::failed, piece(why)); }
  bool stop(ChatStatus status, Piece why) noexcept {
    result_ = {status, line_, reinterpret_cast<const char*>(why.text), why.bytes, 0};
    return false;
  }

  bool give(const Value& v) noexcept {  // as the instruction's value
    value_ = v;
    return true;
  }
  bool give_number(std::int64_t value) noexcept {
    if (value > kMostNumber || value < -kMostNumber) return fail("a number beyond 2147483648");
    return give(of(kInteger, value));
  }
  bool give_size(std::size_t n) noexcept {
    constexpr std::size_t kMost = static_cast<std::size_t>(kMostNumber);
    return give_number(static_cast<std::int64_t>(n > kMost ? kMost + 1 : n));
  }
  Piece string(std::uint32_t i) const noexcept {
    const unsigned char* s = p_.strings + std::size_t{i} * 8;
    return {p_.text + load_u32(s), load_u32(s + 4)};
  }
  Piece role(std::int64_t message) const noexcept {
    const ChatMessage m = messages_.at(messages_.messages, static_cast<std::uint32_t>(message));
    return {reinterpret_cast<const unsigned char*>(m.role), m.role_bytes};
  }
  Piece content(std::int64_t message) const noexcept {
    const ChatMessage m = messages_.at(messages_.messages, static_cast<std::uint32_t>(message));
    return {reinterpret_cast<const unsigned char*>(m.content), m.content_bytes};
  }

  const ChatProgram& p_;
  char* out_;
  std::size_t capacity_, need_ = 0;
  const ChatMessages& messages_;
  bool prompt_;
  unsigned char* scratch_;
  std::size_t room_, used_ = 0;
  Budget budget_{0};
  std::uint32_t at_ = 0, depth_ = 0, level_ = 0, line_ = 0;
  Value stack_[kMostStack], slots_[kMostSlots];
  Value value_;  // what the instruction puts on the stack; undefined when it begins
  Frame frames_[kMostLoops] = {};
  unsigned char nowhere_[1] = {};  // where an empty text lies
  ChatResult result_{ChatStatus::ok, 0, nullptr, 0, 0};
};

// What a program may take: a multiple of its length and of its input's.
std::uint64_t Machine::all_steps() const noexcept {
  constexpr std::uint64_t kMost = ~std::uint64_t{0} / kStepsToAByte;
  std::uint64_t bytes = std::uint64_t{p_.instructions} + p_.text_bytes;
  const auto add = [&bytes](std::uint64_t more) noexcept {
    bytes = more < kMost - bytes ? bytes + more : kMost;
  };
  for (std::uint32_t i = 0; i < messages_.count; ++i) {
    work();
    add(1);
    add(role(i).bytes);
    add(content(i).bytes);
  }
  return bytes * kStepsToAByte;
}

ChatResult Machine::run() noexcept {
  budget_.left = all_steps();
  if ((p_.flags & kOnlyKnownRoles) != 0 && !known_roles()) return result_;
  for (;;) {
    const std::uint32_t word = load_u32(p_.code + std::size_t{at_++} * 4);
    if (op_of(word) == Op::end) break;
    if (!step(word)) return result_;
  }
  result_.need = need_;
  return result_;
}

bool Machine::known_roles() noexcept {
  const Piece known[3] = {piece("system"), piece("user"), piece("assistant")};
  for (std::uint32_t i = 0; i < messages_.count; ++i) {
    if (!spend(1)) return false;
    bool found = false;
    for (const Piece& k : known) found = found || equal(role(i), k);
    if (!found) return fail("a role that is not system, user or assistant");
  }
  return true;
}

// What the table says of an instruction, around what it does.
bool Machine::step(std::uint32_t word) noexcept {
  const Instruction& row = kInstructions[word & 0xFF];
  const std::uint32_t taken = taken_by(word);
  const Value* const x = stack_ + (depth_ - taken);
  work();
  if (!spend(1)) return false;
  for (std::uint32_t i = 0; i < taken; ++i)
    if ((x[i].kind & row.kinds[1 + i]) == 0) return fail(kErrors[word & 0xFF]);
  value_ = Value{};
  if (!execute(word, x)) return false;
  depth_ -= taken;
  if (row.kinds[0] != kNothing) stack_[depth_++] = value_;
  return true;
}

// Does what an instruction does with the values x that it takes, which stay on the stack until it
// is done. In one piece: a case for each row of the table, in its order.
bool Machine::execute(std::uint32_t word, const Value* x) noexcept {
  const Op op = op_of(word);
  const std::uint32_t arg = argument_of(word);
  unsigned char digits[kDigits];
  bool same = false;
  switch (op) {
    case Op::line:
      line_ = arg;
      return true;
    case Op::text:
      return write(string(arg));
    case Op::emit:
    case Op::emit_string:
      return write(text_of(x[0], digits));
    case Op::none:
      return give(of(kNone, 0));
    case Op::bool_:
      return give(of(arg != 0));
    case Op::int_:
      return give_number(signed_argument(word));
    case Op::string:
      return give(of(string(arg)));
    case Op::load:
      return give(slots_[arg]);
    case Op::store:
      slots_[arg] = x[0];
      return true;
    case Op::messages:
      value_.kind = kList;
      value_.step = 1;
      value_.text.bytes = messages_.count;
      return true;
    case Op::prompt:
      return give(of(prompt_));
    case Op::item: {
      const Frame& loop = frames_[arg & 0xFF];
      const std::int64_t i = static_cast<std::int64_t>(loop.index) + (arg >> 8) - 1;
      return i < 0 || give(element(loop.list, i));
    }
    case Op::index:
      return give_size(frames_[arg].index);
    case Op::count:
      return give_size(frames_[arg].list.text.bytes);
    case Op::role:
      return give(of(role(x[0].number)));
    case Op::content:
      return give(of(content(x[0].number)));
    case Op::element:
      if (x[0].kind == kNone) return true;
      return x[0].kind == kList ? give(element(x[0], x[1].number))
                                : fail("an element of something that is not a list of messages");
    case Op::slice:
      return slice(x);
    case Op::length:
      return length(x[0]);
    case Op::not_:
      return give(of(!truth(x[0])));
    case Op::neg:
      return give_number(-x[0].number);
    case Op::add:
      if (is_string(x[0]) && is_string(x[1])) return concat(x[0], x[1]);
      if (is_string(x[0]) || is_string(x[1])) return fail(kNoNumbers);
      return give_number(x[0].number + x[1].number);
    case Op::sub:
      return give_number(x[0].number - x[1].number);
    case Op::mul:
      return give_number(x[0].number * x[1].number);
    case Op::div:
    case Op::mod:
      return divide(op, x[0].number, x[1].number);
    case Op::concat:
      return concat(x[0], x[1]);
    case Op::eq:
    case Op::ne:
      return equals(x[0], x[1], &same) && give(of(same == (op == Op::eq)));
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
      return order(op, x[0], x[1]);
    case Op::in:
      return contains(x[0], x[1]);
    case Op::test:
      return give(of((x[0].kind & arg) != 0));
    case Op::jump:
      at_ = arg;
      return true;
    case Op::jump_false:
      if (!truth(x[0])) at_ = arg;
      return true;
    case Op::and_:
    case Op::or_:
      if (truth(x[0]) != (op == Op::or_)) return true;
      ++depth_;  // the value stays
      at_ = arg;
      return true;
    case Op::for_:
      if (x[0].text.bytes == 0)
        at_ = arg;
      else
        frames_[level_++] = {x[0], 0};
      return true;
    case Op::next:
      if (++frames_[level_ - 1].index < frames_[level_ - 1].list.text.bytes)
        at_ = arg;
      else
        --level_;
      return true;
    case Op::break_:
      --level_;
      at_ = arg;
      return true;
    case Op::strip:
      return strip(x, arg);
    case Op::starts:
      return spend(x[1].text.bytes) && give(of(starts(x[0].text, x[1].text)));
    case Op::ends:
      return spend(x[1].text.bytes) && give(of(ends(x[0].text, x[1].text)));
    case Op::split:
      return split(x);
    case Op::replace:
      return replace(x);
    case Op::case_:
      return change_case(x[0], arg);
    case Op::json:
      return json(x[0]);
    case Op::str:
      return is_string(x[0]) ? give(x[0]) : concat(x[0], Value{});
    case Op::raise:
      return stop(ChatStatus::raised, x[0].text);
    default:
      return true;  // it does nothing, or puts undefined
  }
}

bool Machine::slice(const Value* x) noexcept {
  if (x[0].kind != kList) return fail("a slice of something that is not a list of messages");
  const std::int64_t step = x[3].kind == kNone ? 1 : x[3].number;
  return step == 0 ? fail("a slice with step 0") : give(sliced(x[0], x[1], x[2], step));
}

bool Machine::length(const Value& v) noexcept {
  if (is_string(v)) return spend(v.text.bytes) && give_size(characters(v.text));
  return give_size(v.kind == kMessage ? 2 : v.text.bytes);
}

bool Machine::concat(const Value& a, const Value& b) noexcept {
  unsigned char first[kDigits], second[kDigits];
  const std::size_t left = text_of(a, first).bytes, right = text_of(b, second).bytes;
  if (left > kNowhere - 1 - right) return stop(ChatStatus::no_room, {});
  unsigned char* const to = make_text(left + right);
  if (to == nullptr) return false;
  copy(to, text_of(a, first));  // where it is now
  copy(to + left, text_of(b, second));
  return true;
}

bool Machine::divide(Op op, std::int64_t a, std::int64_t b) noexcept {
  if (b == 0) return fail("a division by zero");
  std::int64_t rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;  // towards minus infinity, as Python does
  return give_number(op == Op::mod ? rest : (a - rest) / b);
}

bool Machine::equals(const Value& a, const Value& b, bool* result) noexcept {
  if (is_number(a) && is_number(b))
    *result = a.number == b.number;
  else if (a.kind != b.kind)
    *result = false;
  else if (a.kind == kMessage)
    return equals(role(a.number), role(b.number), result) &&
           (!*result || equals(content(a.number), content(b.number), result));
  else if (a.kind == kList)
    return fail("a comparison of lists");
  else
    return equals(a.text, b.text, result);  // undefined and none have empty ones
  return true;
}

bool Machine::equals(Piece a, Piece b, bool* result) noexcept {
  if (a.bytes == b.bytes && !spend(a.bytes)) return false;
  *result = equal(a, b);
  return true;
}

bool Machine::order(Op op, const Value& a, const Value& b) noexcept {
  std::int64_t sign = a.number - b.number;
  if (is_string(a) != is_string(b)) return fail(kNoOrder);
  if (is_string(a)) {
    if (!spend(a.text.bytes < b.text.bytes ? a.text.bytes : b.text.bytes)) return false;
    sign = compare(a.text, b.text);
  }
  return give(of(op == Op::lt   ? sign < 0
                 : op == Op::le ? sign <= 0
                 : op == Op::gt ? sign > 0
                                : sign >= 0));
}

bool Machine::contains(const Value& item, const Value& in) noexcept {
  if (in.kind == kUndefined) return give(of(false));
  if (in.kind == kMessage)
    return give(of(is_string(item) &&
                   (equal(item.text, piece("role")) || equal(item.text, piece("content")))));
  if (!is_string(item)) return fail(kNotIn);
  return spend(in.text.bytes) && spend(item.text.bytes) &&
         give(of(find(in.text, item.text, 0) != kNowhere));
}

bool Machine::strip(const Value* x, std::uint32_t sides) noexcept {
  const Piece* const chars = (sides & kStripChars) != 0 ? &x[1].text : nullptr;
  const Piece rest = chat::strip(x[0].text, chars, sides, &budget_);
  return spend(0) && give(of(rest));
}

bool Machine::split(const Value* x) noexcept {
  const Piece text = x[0].text, separator = x[1].text;
  const Piece* const at = is_string(x[1]) ? &separator : nullptr;
  if (at != nullptr && separator.bytes == 0) return fail("split at an empty text");
  std::int64_t parts = 0;
  Piece part{};
  if (!spend(text.bytes) || !spend(separator.bytes)) return false;
  for (Splitter s(text, at, x[2].number); s.next(&part);) ++parts;
  if (x[3].kind == kNone) return give_number(parts);
  if (!is_number(x[3])) return fail("an index that is not a number");
  const std::int64_t wanted = x[3].number < 0 ? x[3].number + parts : x[3].number;
  if (wanted < 0 || wanted >= parts) return true;
  if (!spend(text.bytes) || !spend(separator.bytes)) return false;
  Splitter s(text, at, x[2].number);
  for (std::int64_t i = 0; i <= wanted; ++i) (void)s.next(&part);
  return give(of(part));
}

bool Machine::replace(const Value* x) noexcept {
  if (x[1].text.bytes == 0) return fail("replace of an empty text");
  if (!spend(x[0].text.bytes) || !spend(x[1].text.bytes)) return false;
  const std::size_t bytes = chat::replace(nullptr, x[0].text, x[1].text, x[2].text);
  if (bytes == kNowhere) return stop(ChatStatus::no_room, {});
  unsigned char* const to = make_text(bytes);
  if (to != nullptr) chat::replace(to, x[0].text, x[1].text, x[2].text);
  return to != nullptr;
}

bool Machine::change_case(const Value& v, std::uint32_t how) noexcept {
  if (!spend(v.text.bytes)) return false;
  if (!is_ascii(v.text)) return fail("upper and lower case of letters beyond ASCII");
  unsigned char* const to = make_text(v.text.bytes);
  if (to != nullptr) chat::change_case(to, v.text, how);
  return to != nullptr;
}

bool Machine::json(const Value& v) noexcept {
  if (v.kind == kInteger) return concat(v, Value{});
  if (!is_string(v))
    return give(of(v.kind == kNone   ? piece("null")
                   : v.kind == kTrue ? piece("true")
                                     : piece("false")));
  if (!spend(v.text.bytes)) return false;
  unsigned char* const to = make_text(write_json(nullptr, v.text));
  if (to != nullptr) write_json(to, v.text);
  return to != nullptr;
}

// ------------------------------------------------------------------ texts

bool Machine::write(Piece text) noexcept {
  if (text.bytes > kNowhere - 1 - need_) return fail("a text that is too large for this machine");
  if (!spend(text.bytes)) return false;
  work(text.bytes);
  if (need_ < capacity_) {
    const std::size_t room = capacity_ - need_;
    copy(reinterpret_cast<unsigned char*>(out_) + need_,
         {text.text, text.bytes < room ? text.bytes : room});
  }
  need_ += text.bytes;
  return true;
}

unsigned char* Machine::make_text(std::size_t bytes) noexcept {
  if (!spend(bytes)) return nullptr;
  if (bytes > room_ - used_) {
    if (!spend(used_)) return nullptr;
    give_back();
  }
  if (bytes > room_ - used_) {
    (void)stop(ChatStatus::no_room, {});
    return nullptr;
  }
  unsigned char* const to = bytes != 0 ? scratch_ + used_ : nowhere_;
  used_ += bytes;
  value_ = of(Piece{to, bytes});
  return to;
}

// Moves what values hold to the scratch's front. Values that share bytes go on sharing them.
void Machine::give_back() noexcept {
  Piece* held[kMostStack + kMostSlots];
  std::uint32_t n = 0;
  const auto hold = [&](Value& value) noexcept {
    Piece& v = value.text;
    if (!is_string(value) || v.bytes == 0 || v.text < scratch_ || v.text >= scratch_ + used_)
      return;
    std::uint32_t i = n++;
    for (; i > 0 && held[i - 1]->text > v.text; --i) {
      work();
      (void)budget_.take(1);  // whoever spends next fails where there is none
      held[i] = held[i - 1];
    }
    held[i] = &v;
  };
  for (std::uint32_t i = 0; i < depth_; ++i) hold(stack_[i]);
  for (std::uint32_t i = 0; i < p_.slots; ++i) hold(slots_[i]);
  std::size_t end = 0;
  for (std::uint32_t i = 0; i < n;) {
    const unsigned char* const begin = held[i]->text;
    const unsigned char* last = begin;
    std::uint32_t j = i;
    for (; j < n && (j == i || held[j]->text < last); ++j)
      if (held[j]->text + held[j]->bytes > last) last = held[j]->text + held[j]->bytes;
    unsigned char* const to = scratch_ + end;
    const std::size_t bytes = static_cast<std::size_t>(last - begin);
    work(bytes);
    std::memmove(to, begin, bytes);
    for (; i < j; ++i) held[i]->text = to + (held[i]->text - begin);
    end += bytes;
  }
  used_ = end;
}

}  // namespace

ChatResult chat_render(const ChatProgram& program, char* out, std::size_t capacity,
                       const ChatMessages& messages, bool add_generation_prompt, void* scratch,
                       std::size_t scratch_bytes) noexcept {
  Machine machine(program, out, capacity, messages, add_generation_prompt, scratch, scratch_bytes);
  return machine.run();
}

}  // namespace phasor
