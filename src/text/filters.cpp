// The filters of a decoded text. Includes the tokenizer's own headers only; never allocates.
#include "filters.h"

namespace phasor::pieces {
namespace {

bool is_filter(StepRow row) {
  return row.kind() >= StepKind::filter_text && row.kind() < StepKind::end;
}

// A text that becomes another; and of each of its beginnings the longest end that it begins with.
struct TextRow {
  StepRow row;

  uint32_t bytes() const { return row.u32(0); }
  const unsigned char* text() const { return row.part() + 8; }
  uint32_t border(uint32_t of) const { return text()[bytes() + of - 1]; }
  Span to() const { return {text() + 2 * size_t{bytes()}, row.u32(1)}; }
  uint64_t size() const { return 8 + (2 * uint64_t{bytes()} + row.u32(1) + 3) / 4 * 4; }
};

// A character of ASCII that goes at the ends, at most so often; behind it as many of it as the end
// may hold back.
struct EndsRow {
  StepRow row;

  uint32_t start() const { return row.u32(0); }
  uint32_t stop() const { return row.u32(1); }
  unsigned char sign() const { return static_cast<unsigned char>(row.u32(2)); }
  Span held(uint32_t count) const { return {row.part() + 12, count}; }
  uint64_t size() const { return 12 + (uint64_t{stop()} + 3) / 4 * 4; }
};

// A text that is `<0xAB>` as a whole becomes the byte. A state: how many characters are held, the
// digits among them; kPassed: it is another text.
constexpr uint32_t kDigitBits = 5, kPassed = 7, kByteStates = 1u << (3 + 2 * kDigitBits);
constexpr unsigned char kOpens[] = {'<', '0', 'x'};
constexpr unsigned char kDigits[] = "0123456789ABCDEFabcdef+";  // what the package reads as digits
constexpr uint32_t kDigitCount = sizeof kDigits - 1;

uint32_t digit_at(uint32_t state, uint32_t i) {
  return (state >> (3 + kDigitBits * i) & 31) % kDigitCount;
}
uint32_t hex_value(uint32_t digit) {
  return digit < 16 ? digit : digit < kDigitCount - 1 ? digit - 6 : 0;
}

// States of a filter.
uint32_t states(StepRow row) {
  if (row.kind() == StepKind::filter_byte) return kByteStates;
  return row.kind() == StepKind::filter_text ? TextRow{row}.bytes()
                                             : EndsRow{row}.start() + EndsRow{row}.stop() + 2;
}

// The bits of the decoder's state that are a filter's.
struct Bits {
  uint32_t at;

  static uint32_t count(StepRow row) {
    uint32_t bits = 0;
    for (uint32_t left = states(row) - 1; left != 0; left >>= 1) ++bits;
    return bits;
  }
  Bits next(StepRow row) const { return {at + count(row)}; }
  uint32_t get(const unsigned char* state, StepRow row) const {
    const uint32_t bits = count(row);
    return bits == 0 ? 0 : static_cast<uint32_t>(all(state) >> at) & ((1u << bits) - 1);
  }
  void set(unsigned char* state, StepRow row, uint32_t value) const {
    if (count(row) == 0) return;  // perhaps behind the last bit
    const uint64_t mask = ((uint64_t{1} << count(row)) - 1) << at;
    const uint64_t now = (all(state) & ~mask) | uint64_t{value} << at;
    for (uint32_t i = 0; i < 8; ++i) state[i] = static_cast<unsigned char>(now >> 8 * i);
  }

 private:
  static uint64_t all(const unsigned char* state) {
    return load_u32(state) | uint64_t{load_u32(state + 4)} << 32;
  }
};

StepRow first_filter(const Tokenizer& t) {
  StepRow row = steps_of(t);
  while (row.kind() != StepKind::spelled) row = row.next();
  return row.next();
}

const unsigned char* end_of(const Tokenizer& t) { return steps_of(t).p + t.pipeline.steps_bytes; }

// A text on its way: what is left of it, and the filter that it goes through next.
struct Part {
  Span left;
  StepRow row;
  Bits bits;
};

// The parts that wait, the first one on top: of each filter the rest of its text, and two that it
// has given.
struct Parts {
  Part of[1 + 2 * kMostFilters];
  uint32_t n = 0;
  unsigned char held[6];  // of the one filter that holds more than its row has

  void push(Span text, StepRow row, Bits bits) {
    if (text.bytes != 0) of[n++] = {text, row, bits};
  }
};

uint32_t step_text(TextRow r, uint32_t at, Span byte, Span out[2]) {
  if (at >= r.bytes()) at = 0;  // a state that was never set
  const uint32_t before = at;
  while (at > 0 && r.text()[at] != *byte.text) at = r.border(at);
  out[0] = {r.text(), before - at};
  if (r.text()[at] != *byte.text)
    out[1] = byte;
  else if (++at == r.bytes()) {
    out[1] = r.to();
    at = 0;
  }
  return at;
}

uint32_t step_ends(EndsRow r, uint32_t at, Span byte, Span out[2]) {
  const bool same = *byte.text == r.sign();
  const uint32_t first = r.start() + 1;  // states from here on: how many are held
  if (at > r.start() + 1 + r.stop()) at = 0;
  if (at < r.start() && same) return at + 1;
  if (at < first) at = first;
  if (!same) {
    out[0] = r.held(at - first);
    at = first;
  }
  if (same && at - first < r.stop()) return at + 1;
  out[1] = byte;
  return at;
}

// What a state holds of `<0xAB>`.
Span held_of(uint32_t state, unsigned char held[6]) {
  std::memcpy(held, kOpens, sizeof kOpens);
  for (uint32_t i = 0; i < 2; ++i) held[3 + i] = kDigits[digit_at(state, i)];
  held[5] = '>';
  return {held, state & 7};
}

uint32_t step_byte(uint32_t state, Span byte, Span out[2], unsigned char held[6]) {
  const uint32_t count = state & 7;
  const unsigned char c = *byte.text;
  if (count < sizeof kOpens && c == kOpens[count]) return state + 1;
  if (count == 5 && c == '>') return state + 1;
  if (count == 3 || count == 4)
    for (uint32_t digit = 0; digit + count < sizeof kDigits + 2; ++digit)  // a sign goes first
      if (c == kDigits[digit]) return (state + 1) | digit << (3 + kDigitBits * (count - 3));
  if (count != kPassed) out[0] = held_of(state, held);
  out[1] = byte;
  return kPassed;
}

// The text that a filter still holds at the end.
Span rest_of(StepRow row, uint32_t state, unsigned char held[6]) {
  if (row.kind() == StepKind::filter_text && state < TextRow{row}.bytes())
    return {TextRow{row}.text(), state};
  if (row.kind() != StepKind::filter_byte || (state & 7) == kPassed) return {nullptr, 0};
  if ((state & 7) < 6) return held_of(state, held);
  const uint32_t value = hex_value(digit_at(state, 0)) << 4 | hex_value(digit_at(state, 1));
  held[0] = static_cast<unsigned char>(value);
  return value < 0x80 ? Span{held, 1} : Span{kReplacement, sizeof kReplacement};
}

// One byte through a filter: what goes out, first and then.
void step(const Part& part, unsigned char* state, Span byte, Span out[2], unsigned char held[6]) {
  const uint32_t at = part.bits.get(state, part.row);
  const StepKind kind = part.row.kind();
  const uint32_t now = kind == StepKind::filter_text   ? step_text({part.row}, at, byte, out)
                       : kind == StepKind::filter_ends ? step_ends({part.row}, at, byte, out)
                                                       : step_byte(at, byte, out, held);
  part.bits.set(state, part.row, now);
}

void run(TextSink* sink, Parts* parts) {
  const unsigned char* const end = end_of(sink->t);
  while (parts->n > 0) {
    work();
    Part& top = parts->of[parts->n - 1];
    if (top.left.bytes == 0) {
      --parts->n;
      continue;
    }
    if (top.row.p == end) {
      sink->write(top.left);
      --parts->n;
      continue;
    }
    const Span byte{top.left.text++, 1};
    --top.left.bytes;
    Span out[2] = {};
    step(top, sink->state.filters, byte, out, parts->held);
    const StepRow next = top.row.next();
    const Bits bits = top.bits.next(top.row);
    parts->push(out[1], next, bits);
    parts->push(out[0], next, bits);
  }
}

}  // namespace

const char* check_filters(const Tokenizer& t, uint32_t most) {
  uint32_t count = 0, bytes_of = 0;
  Bits all{0};
  for (StepRow row = first_filter(t); row.p != end_of(t); row = row.next()) {
    const uint64_t bytes = row.bytes() - 8;
    if (++count > kMostFilters) return "too many filters";
    if (!is_filter(row)) return "a step behind the decoder";
    if (row.kind() == StepKind::filter_text) {
      const TextRow r{row};
      if (bytes < 8 || r.bytes() == 0 || r.bytes() > 255 || r.size() != bytes)
        return "a filter's size is wrong";
      for (uint32_t of = 1; of <= r.bytes(); ++of)
        if (r.border(of) >= of) return "a filter's text does not go back";
    } else if (row.kind() == StepKind::filter_byte) {
      if (bytes != 0 || ++bytes_of > 1) return "a filter's size is wrong";
    } else {
      const EndsRow r{row};
      if (bytes < 12 || r.start() > 127 || r.stop() > 127 || r.size() != bytes)
        return "a filter's size is wrong";
      if (r.row.u32(2) > 127) return "a filter's character is none of ASCII";
    }
    all = all.next(row);
    if (all.at > most) return "too many filters";
  }
  return filtered_bytes(t, 1) > 1u << 12 ? "a decoder that makes too much of a piece" : nullptr;
}

uint64_t filtered_bytes(const Tokenizer& t, uint64_t bytes) {
  for (StepRow row = first_filter(t); row.p != end_of(t); row = row.next()) {
    if (row.kind() == StepKind::filter_text) {
      const TextRow r{row};
      const uint64_t to = r.to().bytes, factor = (to + r.bytes() - 1) / r.bytes();
      bytes = (bytes + r.bytes()) * (factor > 1 ? factor : 1);
    } else {
      bytes += row.kind() == StepKind::filter_ends ? EndsRow{row}.stop() : 6;
    }
  }
  return bytes;
}

void put_filtered(TextSink* sink, Span text) {
  Parts parts;
  parts.push(text, first_filter(sink->t), {0});
  run(sink, &parts);
}

void end_filters(TextSink* sink) {
  Bits bits{0};
  for (StepRow row = first_filter(sink->t); row.p != end_of(sink->t); row = row.next()) {
    Parts parts;
    unsigned char held[6];
    const Span rest = rest_of(row, bits.get(sink->state.filters, row), held);
    bits.set(sink->state.filters, row, 0);
    bits = bits.next(row);
    parts.push(rest, row.next(), bits);
    run(sink, &parts);
  }
}

}  // namespace phasor::pieces
