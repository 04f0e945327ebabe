// The machine that runs a chat program: a bounded stack, the program's variables, and loops over
// messages. Texts are pieces of the section, of the messages, or of the caller's scratch, where
// what is put together lies; when the scratch is full, what no value holds any more is given back.
// Includes the chat headers only; trusts a program that chat_open has checked.
#include "chat.h"

#include "chat_code.h"
#include "chat_text.h"
#include "pieces.h"

namespace phasor {
namespace {

using namespace chat;
using pieces::load_u32;

enum class Kind : std::uint8_t { undefined, none, boolean, integer, string, list, message };

struct Value {
  Kind kind = Kind::undefined;
  // boolean, integer; message: its index; list: the first one's
  std::int64_t number = 0;
  std::int64_t step = 0;                // list
  const unsigned char* text = nullptr;  // string
  std::size_t bytes = 0;                // string; list: how many messages
};

struct Frame {  // a loop over messages
  Value list;
  std::size_t index;
};

constexpr const char* kTooManySteps =
    "more than 256 steps for each byte of the program and of the messages";
// every number is within ± this, so that no sum or product leaves 64 bits
constexpr std::int64_t kMostNumber = std::int64_t{1} << 31;

Value of(bool value) noexcept {
  Value v;
  v.kind = Kind::boolean;
  v.number = value ? 1 : 0;
  return v;
}

Value of(std::int64_t value) noexcept {
  Value v;
  v.kind = Kind::integer;
  v.number = value;
  return v;
}

Value of(Piece text) noexcept {
  Value v;
  v.kind = Kind::string;
  v.text = text.text;
  v.bytes = text.bytes;
  return v;
}

Value of(Kind kind) noexcept {
  Value v;
  v.kind = kind;
  return v;
}

Piece piece(const Value& v) noexcept { return {v.text, v.bytes}; }
Piece piece(const char* text) noexcept {
  return {reinterpret_cast<const unsigned char*>(text), std::strlen(text)};
}
bool is_number(const Value& v) noexcept {
  return v.kind == Kind::boolean || v.kind == Kind::integer;
}
bool is_string(const Value& v) noexcept { return v.kind == Kind::string; }

bool truth(const Value& v) noexcept {
  switch (v.kind) {
    case Kind::boolean:
    case Kind::integer:
      return v.number != 0;
    case Kind::string:
    case Kind::list:
      return v.bytes != 0;
    case Kind::message:
      return true;
    default:
      return false;
  }
}

std::uint32_t bit(const Value& v) noexcept {  // of the argument of TEST
  switch (v.kind) {
    case Kind::undefined:
      return 1;
    case Kind::none:
      return 2;
    case Kind::boolean:
      return v.number == 0 ? 4 : 8;
    case Kind::integer:
      return 16;
    case Kind::string:
      return 32;
    case Kind::list:
      return 64;
    default:
      return 128;
  }
}

// Message `i` of a list; undefined where there is none.
Value element(const Value& list, std::int64_t i) noexcept {
  const std::int64_t n = static_cast<std::int64_t>(list.bytes);
  if (i < 0) i += n;
  if (i < 0 || i >= n) return Value{};
  Value v = of(Kind::message);
  v.number = list.number + i * list.step;
  return v;
}

// Python's list[start:stop:step]; step is not 0.
Value sliced(const Value& list, const Value& start, const Value& stop, std::int64_t step) noexcept {
  const std::int64_t n = static_cast<std::int64_t>(list.bytes);
  const auto bound = [n, step](const Value& v, std::int64_t otherwise) noexcept {
    if (v.kind == Kind::none) return otherwise;
    std::int64_t i = v.number < 0 ? v.number + n : v.number;
    const std::int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
    return i < least ? least : i > most ? most : i;
  };
  const std::int64_t first = bound(start, step < 0 ? n - 1 : 0),
                     end = bound(stop, step < 0 ? -1 : n);
  const std::int64_t span = step < 0 ? first - end : end - first, stride = step < 0 ? -step : step;
  Value v = of(Kind::list);
  v.bytes = span <= 0 ? 0 : static_cast<std::size_t>((span - 1) / stride + 1);
  v.number = v.bytes == 0 ? 0 : list.number + first * list.step;
  v.step = v.bytes <= 1 ? 1 : list.step * step;
  return v;
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
  bool step(std::uint32_t w) noexcept;
  bool control(Op op, std::uint32_t arg) noexcept;
  bool leaf(Op op, std::uint32_t w) noexcept;
  bool of_one(Op op, std::uint32_t arg) noexcept;
  bool of_two(Op op) noexcept;
  bool of_more(Op op, std::uint32_t arg) noexcept;
  bool arithmetic(Op op, const Value& a, const Value& b) noexcept;
  bool joined(const Value& a, const Value& b) noexcept;
  bool equals(const Value& a, const Value& b, bool* result) noexcept;
  bool same(Piece a, Piece b, bool* result) noexcept {
    *result = a.bytes == b.bytes;
    if (!*result) return true;
    if (!spend(a.bytes)) return false;
    *result = equal(a, b);
    return true;
  }
  bool contains(const Value& item, const Value& in) noexcept;
  bool slice() noexcept;
  bool part_of_split() noexcept;
  bool replaced() noexcept;
  bool begin_loop(std::uint32_t empty) noexcept;
  bool known_roles() noexcept;
  bool text_of(const Value& v, unsigned char* digits, Piece* out) noexcept;  // as str() does
  bool write(Piece text) noexcept;
  unsigned char* take(std::size_t bytes) noexcept;  // of the scratch; NULL: no room
  void give_back() noexcept;
  bool fail(const char* why) noexcept { return stop(ChatStatus::failed, piece(why)); }
  bool spend(std::uint64_t steps) noexcept { return budget_.take(steps) || fail(kTooManySteps); }
  bool stop(ChatStatus status, Piece why) noexcept {
    result_ = {status, line_, reinterpret_cast<const char*>(why.text), why.bytes, 0};
    return false;
  }

  Value& top(std::uint32_t i = 0) noexcept { return stack_[depth_ - 1 - i]; }
  bool put(const Value& v, std::uint32_t taken) noexcept {  // in place of the top `taken` values
    depth_ -= taken;
    stack_[depth_++] = v;
    return true;
  }
  bool put_number(std::int64_t value, std::uint32_t taken) noexcept {
    if (value > kMostNumber || value < -kMostNumber) return fail("a number beyond 2147483648");
    return put(of(value), taken);
  }
  bool put_size(std::size_t n, std::uint32_t taken) noexcept {
    constexpr std::size_t kMost = static_cast<std::size_t>(kMostNumber);
    return put_number(n > kMost ? kMostNumber + 1 : static_cast<std::int64_t>(n), taken);
  }
  Piece string(std::uint32_t i) const noexcept {
    const unsigned char* s = p_.strings + std::size_t{i} * 8;
    return {p_.text + load_u32(s), load_u32(s + 4)};
  }
  ChatMessage message(const Value& v) const noexcept {
    return messages_.at(messages_.messages, static_cast<std::uint32_t>(v.number));
  }
  Piece role(const Value& v) const noexcept {
    const ChatMessage m = message(v);
    return {reinterpret_cast<const unsigned char*>(m.role), m.role_bytes};
  }
  Piece content(const Value& v) const noexcept {
    const ChatMessage m = message(v);
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
  Frame frames_[kMostLoops] = {};
  unsigned char nowhere_[1] = {};  // where an empty text lies
  ChatResult result_{ChatStatus::ok, 0, nullptr, 0, 0};
};

// What a program may take: a multiple of its length and of its input's.
std::uint64_t Machine::all_steps() const noexcept {
  constexpr std::uint64_t kMost = ~std::uint64_t{0} / kStepsToAByte;
  std::uint64_t bytes = std::uint64_t{p_.instructions} + p_.text_bytes;
  for (std::uint32_t i = 0; i < messages_.count; ++i) {
    const ChatMessage m = messages_.at(messages_.messages, i);
    work();
    const std::uint64_t parts[] = {1, m.role_bytes, m.content_bytes};
    for (const std::uint64_t more : parts) {
      if (more > kMost - bytes) return ~std::uint64_t{0};
      bytes += more;
    }
  }
  return bytes * kStepsToAByte;
}

ChatResult Machine::run() noexcept {
  budget_.left = all_steps();
  if ((p_.flags & kOnlyKnownRoles) != 0 && !known_roles()) return result_;
  for (;;) {
    const std::uint32_t w = load_u32(p_.code + std::size_t{at_++} * 4);
    if (op_of(w) == Op::end) break;
    if (!step(w)) return result_;
  }
  result_.need = need_;
  return result_;
}

bool Machine::known_roles() noexcept {
  const Piece known[3] = {piece("system"), piece("user"), piece("assistant")};
  for (std::uint32_t i = 0; i < messages_.count; ++i) {
    if (!spend(1)) return false;
    Value v = of(Kind::message);
    v.number = i;
    bool found = false;
    for (const Piece& k : known) found = found || equal(role(v), k);
    if (!found) return fail("a role that is not system, user or assistant");
  }
  return true;
}

bool Machine::step(std::uint32_t w) noexcept {
  const Op op = op_of(w);
  const std::uint32_t arg = argument_of(w);
  work();
  if (!spend(1)) return false;
  switch (op) {
    case Op::line:
      line_ = arg;
      return true;
    case Op::label:
      return true;
    case Op::text:
      return write(string(arg));
    case Op::emit_string:
      if (!is_string(top())) return fail("a text is put together with something else");
      [[fallthrough]];
    case Op::emit: {
      unsigned char digits[20];
      Piece text{};
      if (!text_of(top(), digits, &text) || !write(text)) return false;
      --depth_;
      return true;
    }
    case Op::jump:
    case Op::jump_false:
    case Op::and_:
    case Op::or_:
    case Op::for_:
    case Op::next:
    case Op::break_:
      return control(op, arg);
    case Op::role:
    case Op::content:
    case Op::field:
    case Op::length:
    case Op::not_:
    case Op::neg:
    case Op::test:
    case Op::letters:
    case Op::json:
    case Op::str:
    case Op::raise:
    case Op::store:
    case Op::pop:
      return of_one(op, arg);
    case Op::strip:
    case Op::slice:
    case Op::split:
    case Op::replace:
      return of_more(op, arg);
    case Op::element:
    case Op::add:
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod:
    case Op::concat:
    case Op::eq:
    case Op::ne:
    case Op::lt:
    case Op::le:
    case Op::gt:
    case Op::ge:
    case Op::in:
    case Op::starts:
    case Op::ends:
      return of_two(op);
    default:
      return leaf(op, w);
  }
}

// ------------------------------------------------------------------ jumps and loops

bool Machine::control(Op op, std::uint32_t to) noexcept {
  switch (op) {
    case Op::jump_false:
      if (!truth(stack_[--depth_])) at_ = to;
      return true;
    case Op::and_:
    case Op::or_:
      if (truth(top()) == (op == Op::or_))
        at_ = to;
      else
        --depth_;
      return true;
    case Op::for_:
      return begin_loop(to);
    case Op::next:
      if (++frames_[level_ - 1].index < frames_[level_ - 1].list.bytes)
        at_ = to;
      else
        --level_;
      return true;
    case Op::break_:
      --level_;
      [[fallthrough]];
    default:
      at_ = to;
      return true;
  }
}

bool Machine::begin_loop(std::uint32_t empty) noexcept {
  const Value list = stack_[--depth_];
  if (list.kind != Kind::list && list.kind != Kind::undefined)
    return fail("a loop over something that is not a list of messages");
  if (list.kind == Kind::undefined || list.bytes == 0) {
    at_ = empty;
    return true;
  }
  frames_[level_++] = {list, 0};
  return true;
}

// ------------------------------------------------------------------ operations, by how many values
// they take

bool Machine::leaf(Op op, std::uint32_t w) noexcept {
  const std::uint32_t arg = argument_of(w);
  Value v;
  switch (op) {
    case Op::none:
      v = of(Kind::none);
      break;
    case Op::boolean:
      v = of(arg != 0);
      break;
    case Op::integer:
      v = of(std::int64_t{signed_argument(w)});
      break;
    case Op::string:
      v = of(string(arg));
      break;
    case Op::load:
      v = slots_[arg];
      break;
    case Op::prompt:
      v = of(prompt_);
      break;
    case Op::index:
      return put_size(frames_[arg].index, 0);
    case Op::count:
      return put_size(frames_[arg].list.bytes, 0);
    case Op::messages:
      v = of(Kind::list);
      v.step = 1;
      v.bytes = messages_.count;
      break;
    case Op::item: {
      const Frame& f = frames_[arg & 0xFF];
      const std::int64_t i =
          static_cast<std::int64_t>(f.index) + static_cast<std::int64_t>(arg >> 8) - 1;
      if (i >= 0) v = element(f.list, i);
      break;
    }
    default:
      break;  // undefined
  }
  return put(v, 0);
}

bool Machine::of_one(Op op, std::uint32_t arg) noexcept {
  const Value v = top();
  switch (op) {
    case Op::store:
      slots_[arg] = v;
      --depth_;
      return true;
    case Op::pop:
      --depth_;
      return true;
    case Op::raise:
      return is_string(v) ? stop(ChatStatus::raised, piece(v))
                          : fail("an exception without a text");
    case Op::not_:
      return put(of(!truth(v)), 1);
    case Op::test:
      return put(of((bit(v) & arg) != 0), 1);
    case Op::neg:
      return is_number(v) ? put_number(-v.number, 1)
                          : fail("the negative of something that is not a number");
    case Op::role:
    case Op::content:
    case Op::field:
      if (v.kind != Kind::message) return fail("a field of a message that is not there");
      return put(op == Op::role ? of(role(v)) : op == Op::content ? of(content(v)) : Value{}, 1);
    case Op::length:
      if (v.kind == Kind::string) return spend(v.bytes) && put_size(characters(piece(v)), 1);
      if (v.kind == Kind::list) return put_size(v.bytes, 1);
      if (v.kind == Kind::message) return put(of(std::int64_t{2}), 1);
      return v.kind == Kind::undefined ? put(of(std::int64_t{0}), 1)
                                       : fail("the length of something that has none");
    default:
      break;
  }
  if (op == Op::letters) {
    if (!is_string(v)) return fail("letters of something that is not a text");
    if (!spend(v.bytes)) return false;
    if (!is_ascii(piece(v))) return fail("upper and lower case of letters beyond ASCII");
    unsigned char* to = take(v.bytes);
    if (to == nullptr) return false;
    change_case(to, piece(top()), arg);
    return put(of(Piece{to, v.bytes}), 1);
  }
  unsigned char digits[20];
  Piece text{};
  if (op == Op::json && is_string(v)) {
    if (!spend(v.bytes)) return false;
    const std::size_t bytes = json_bytes(piece(v));
    unsigned char* to = take(bytes);
    if (to == nullptr) return false;
    write_json(to, piece(top()));
    return put(of(Piece{to, bytes}), 1);
  }
  if (op == Op::str && is_string(v)) return true;
  if (op == Op::json) {
    if (v.kind == Kind::none) return put(of(piece("null")), 1);
    if (v.kind == Kind::boolean) return put(of(piece(v.number != 0 ? "true" : "false")), 1);
    if (v.kind != Kind::integer) return fail("JSON of something that has none");
  }
  if (!text_of(v, digits, &text)) return false;
  unsigned char* to = take(text.bytes);
  if (to == nullptr) return false;
  if (text.bytes != 0) std::memcpy(to, text.text, text.bytes);
  return put(of(Piece{to, text.bytes}), 1);
}

bool Machine::of_two(Op op) noexcept {
  const Value a = top(1), b = top();
  bool same = false;
  switch (op) {
    case Op::element:
      if (!is_number(b)) return fail("an index that is not a number");
      if (a.kind == Kind::none) return put(Value{}, 2);
      return a.kind == Kind::list ? put(element(a, b.number), 2)
                                  : fail("an element of something that is not a list of messages");
    case Op::add:
      if (is_string(a) && is_string(b)) return joined(a, b);
      [[fallthrough]];
    case Op::sub:
    case Op::mul:
    case Op::div:
    case Op::mod:
      return arithmetic(op, a, b);
    case Op::concat:
      return joined(a, b);
    case Op::eq:
    case Op::ne:
      return equals(a, b, &same) && put(of(same == (op == Op::eq)), 2);
    case Op::in:
      return contains(a, b);
    case Op::starts:
    case Op::ends:
      if (!is_string(a) || !is_string(b))
        return fail("the beginning or end of something that is not a text");
      if (!spend(b.bytes)) return false;
      return put(of(op == Op::starts ? starts(piece(a), piece(b)) : ends(piece(a), piece(b))), 2);
    default:
      break;
  }
  std::int64_t order = 0;
  if (is_number(a) && is_number(b))
    order = a.number < b.number ? -1 : a.number > b.number;
  else if (!is_string(a) || !is_string(b))
    return fail("an order of values that have none");
  else if (!spend(a.bytes < b.bytes ? a.bytes : b.bytes))
    return false;
  else
    order = compare(piece(a), piece(b));
  return put(of(op == Op::lt   ? order < 0
                : op == Op::le ? order <= 0
                : op == Op::gt ? order > 0
                               : order >= 0),
             2);
}

bool Machine::of_more(Op op, std::uint32_t arg) noexcept {
  if (op == Op::slice) return slice();
  if (op == Op::split) return part_of_split();
  if (op == Op::replace) return replaced();
  const bool given = (arg & kStripChars) != 0;
  const Value text = top(given ? 1 : 0), chars = top();
  if (!is_string(text) || !is_string(chars))
    return fail("the ends of something that is not a text");
  const Piece set = piece(chars), rest = strip(piece(text), given ? &set : nullptr, arg, &budget_);
  return spend(0) && put(of(rest), given ? 2 : 1);
}

bool Machine::arithmetic(Op op, const Value& a, const Value& b) noexcept {
  if (!is_number(a) || !is_number(b)) return fail("arithmetic with something that is not a number");
  if ((op == Op::div || op == Op::mod) && b.number == 0) return fail("a division by zero");
  std::int64_t r = op == Op::add   ? a.number + b.number
                   : op == Op::sub ? a.number - b.number
                                   : a.number * b.number;
  if (op == Op::div || op == Op::mod) {  // towards minus infinity, as Python does
    std::int64_t quotient = a.number / b.number, rest = a.number % b.number;
    if (rest != 0 && (rest < 0) != (b.number < 0)) {
      rest += b.number;
      --quotient;
    }
    r = op == Op::div ? quotient : rest;
  }
  return put_number(r, 2);
}

bool Machine::joined(const Value& a, const Value& b) noexcept {
  unsigned char first[20], second[20];
  Piece x{}, y{};
  if (!text_of(a, first, &x) || !text_of(b, second, &y)) return false;
  if (x.bytes > kNowhere - 1 - y.bytes) return stop(ChatStatus::no_room, {});
  unsigned char* to = take(x.bytes + y.bytes);
  if (to == nullptr) return false;
  if (is_string(a)) x = piece(top(1));  // where they are now
  if (is_string(b)) y = piece(top());
  if (x.bytes != 0) std::memcpy(to, x.text, x.bytes);
  if (y.bytes != 0) std::memcpy(to + x.bytes, y.text, y.bytes);
  return put(of(Piece{to, x.bytes + y.bytes}), 2);
}

bool Machine::equals(const Value& a, const Value& b, bool* result) noexcept {
  if (is_number(a) && is_number(b))
    *result = a.number == b.number;
  else if (a.kind != b.kind)
    *result = false;
  else if (a.kind == Kind::string)
    return same(piece(a), piece(b), result);
  else if (a.kind == Kind::message)
    return same(role(a), role(b), result) && (!*result || same(content(a), content(b), result));
  else if (a.kind == Kind::list)
    return fail("a comparison of lists");
  else
    *result = true;
  return true;
}

bool Machine::contains(const Value& item, const Value& in) noexcept {
  if (in.kind == Kind::undefined) return put(of(false), 2);
  if (in.kind == Kind::message)
    return put(of(is_string(item) &&
                  (equal(piece(item), piece("role")) || equal(piece(item), piece("content")))),
               2);
  if (!is_string(in) || !is_string(item)) return fail("`in` of values that it is not for");
  if (!spend(in.bytes) || !spend(item.bytes)) return false;
  return put(of(find(piece(in), piece(item), 0) != kNowhere), 2);
}

bool Machine::slice() noexcept {
  const Value &list = top(3), &start = top(2), &stop_at = top(1), &by = top();
  for (std::uint32_t i = 0; i < 3; ++i)
    if (top(i).kind != Kind::none && !is_number(top(i)))
      return fail("a bound that is not a number");
  if (list.kind != Kind::list) return fail("a slice of something that is not a list of messages");
  const std::int64_t step = by.kind == Kind::none ? 1 : by.number;
  if (step == 0) return fail("a slice with step 0");
  return put(sliced(list, start, stop_at, step), 4);
}

bool Machine::part_of_split() noexcept {
  const Value &text = top(3), &by = top(2), &most = top(1), &which = top();
  if (!is_string(text) || !(is_string(by) || by.kind == Kind::none) || !is_number(most))
    return fail("split of values that it is not for");
  if (is_string(by) && by.bytes == 0) return fail("split at an empty text");
  const Piece separator = piece(by);
  const Piece* const at = is_string(by) ? &separator : nullptr;
  std::int64_t parts = 0;
  Piece part{};
  if (!spend(text.bytes) || !spend(separator.bytes)) return false;
  for (Splitter s(piece(text), at, most.number); s.next(&part);) ++parts;
  if (which.kind == Kind::none) return put_number(parts, 4);
  if (!is_number(which)) return fail("an index that is not a number");
  const std::int64_t wanted = which.number < 0 ? which.number + parts : which.number;
  if (wanted < 0 || wanted >= parts) return put(Value{}, 4);
  if (!spend(text.bytes) || !spend(separator.bytes)) return false;
  Splitter s(piece(text), at, most.number);
  for (std::int64_t i = 0; i <= wanted; ++i) (void)s.next(&part);
  return put(of(part), 4);
}

bool Machine::replaced() noexcept {
  if (!is_string(top(2)) || !is_string(top(1)) || !is_string(top()))
    return fail("replace of something that is not a text");
  if (top(1).bytes == 0) return fail("replace of an empty text");
  if (!spend(top(2).bytes) || !spend(top(1).bytes)) return false;
  const std::size_t bytes = replaced_bytes(piece(top(2)), piece(top(1)), piece(top()));
  if (bytes == kNowhere) return stop(ChatStatus::no_room, {});
  unsigned char* to = take(bytes);
  if (to == nullptr) return false;
  chat::replace(to, piece(top(2)), piece(top(1)), piece(top()));
  return put(of(Piece{to, bytes}), 3);
}

// ------------------------------------------------------------------ texts

bool Machine::text_of(const Value& v, unsigned char* digits, Piece* out) noexcept {
  switch (v.kind) {
    case Kind::undefined:
      *out = {digits, 0};
      return true;
    case Kind::none:
      *out = piece("None");
      return true;
    case Kind::boolean:
      *out = piece(v.number != 0 ? "True" : "False");
      return true;
    case Kind::integer:
      *out = {digits, write_number(digits, v.number)};
      return true;
    case Kind::string:
      *out = piece(v);
      return true;
    default:
      return fail("a whole message as text");
  }
}

bool Machine::write(Piece text) noexcept {
  if (text.bytes > kNowhere - 1 - need_) return fail("a text that is too large for this machine");
  if (!spend(text.bytes)) return false;
  work(text.bytes);
  if (need_ < capacity_ && text.bytes != 0) {
    const std::size_t room = capacity_ - need_;
    std::memcpy(out_ + need_, text.text, text.bytes < room ? text.bytes : room);
  }
  need_ += text.bytes;
  return true;
}

unsigned char* Machine::take(std::size_t bytes) noexcept {
  if (bytes == 0) return nowhere_;  // nothing is written there
  if (!spend(bytes)) return nullptr;
  if (bytes > room_ - used_) {
    if (!spend(used_)) return nullptr;
    give_back();
  }
  if (bytes > room_ - used_) {
    (void)stop(ChatStatus::no_room, {});
    return nullptr;
  }
  used_ += bytes;
  return scratch_ + (used_ - bytes);
}

// Moves what values hold to the scratch's front. Values that share bytes go on sharing them.
void Machine::give_back() noexcept {
  Value* held[kMostStack + kMostSlots];
  std::uint32_t n = 0;
  const auto hold = [&](Value& v) noexcept {
    if (v.kind != Kind::string || v.bytes == 0 || v.text < scratch_ || v.text >= scratch_ + used_)
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
