// Running a table of states over a text: the leftmost match, and of those that begin there the one
// that the pattern's own order of alternatives prefers, as the table was built to find it. Includes
// the tokenizer's own headers only; never allocates.
//
// A search reads on behind the last end that it has accepted. Where it passes a state with a memo
// slot for nothing, the slot's bit is set for that place, and no later search goes on from there.
#include "pattern.h"

#include "chars.h"

namespace phasor::pieces {
namespace {

// Classes of characters: of ASCII, of a byte that is not UTF-8, and of runs in ascending order.
const char* check_classes(Pattern t) {
  for (uint32_t i = 0; i < Pattern::kAsciiBytes; ++i)
    if (t.p[Pattern::kHeaderBytes + i] >= t.classes()) return "a pattern's class is out of range";
  if (t.p[9] >= t.classes()) return "a pattern's class is out of range";
  uint32_t before = 0x7F;
  for (uint32_t i = 0; i < t.runs(); ++i) {
    const uint32_t run = u32_at(t.run_table(), i), first = run >> 8;
    if (i == 0 ? first != 0x80 : first <= before || first > 0x10FFFF)
      return "a pattern's runs are not in order";
    if ((run & 0xFF) >= t.classes()) return "a pattern's class is out of range";
    before = first;
  }
  return nullptr;
}

// Every slot is one state's, and row 0, which is no state, has none.
bool slots_are_right(Pattern t) {
  uint32_t seen = 0;
  for (uint32_t state = 0; state < t.states(); ++state) {
    const uint32_t mark = t.mark(state);
    if (mark < kFirstSlot) continue;
    const uint32_t bit = 1u << (mark - kFirstSlot);
    if (state == 0 || (seen & bit) != 0) return false;
    seen |= bit;
  }
  return seen == (1u << t.slots()) - 1;
}

// What a step may be. The steps from a state that accept nothing and lead on must lead to a slot,
// or down in depth, unless the state has a slot itself: so a search passes a slot at least every
// kFirstSlot steps behind the last end that it has accepted.
const char* check_steps(Pattern t) {
  for (uint32_t state = 0; state < t.states(); ++state) {
    const uint32_t mark = t.mark(state);
    for (uint32_t of = 0; of <= t.classes(); ++of) {
      work();
      const uint32_t step = t.step(state, of), to = step & (Pattern::kAccepts - 1);
      if (to >= t.states()) return "a pattern's state is out of range";
      if (state == 0) {
        if (step != to) return "a pattern accepts before it has begun";
        continue;
      }
      if (of == t.classes() && to != 0) return "a pattern continues after the end of the text";
      if (step == to && to != 0 && mark < kFirstSlot && t.mark(to) < kFirstSlot &&
          t.mark(to) >= mark)
        return "a pattern looks ahead without bound";
    }
  }
  return nullptr;
}

}  // namespace

const char* check_pattern(Pattern t, uint64_t bytes) {
  if (bytes < Pattern::kHeaderBytes) return "a pattern is outside its part";
  if (t.states() == 0 || t.states() > kMostStates || t.classes() == 0 || t.slots() > kMostSlots ||
      t.runs() == 0 || t.runs() > 0x110000 || t.behavior() >= Behavior::end ||
      t.p[8] >= 2 * kBytewise || t.p[10] != 0 || t.p[11] != 0)
    return "a pattern's number is out of range";
  if (t.bytes() > bytes) return "a pattern is outside its part";
  for (const unsigned char* at = t.marks() + t.states(); at < t.p + t.bytes(); ++at)
    if (*at != 0) return "a pattern does not end with zeros";
  if (const char* const wrong = check_classes(t)) return wrong;
  if (!slots_are_right(t)) return "a pattern's slots are not one state's each";
  return check_steps(t);
}

// One pattern's searches in one stretch of text.
struct PatternCuts::Search {
  const Pattern pattern;
  const unsigned char* const text;
  unsigned char* const memo;
  const size_t begin, end;
  const unsigned char* const rows = pattern.rows();
  const unsigned char* const marks = pattern.marks();
  const uint32_t classes = pattern.classes(), runs = pattern.runs();
  const bool bytewise = pattern.bytewise();

  // The class of the character at `at`, whose bytes go to `*bytes`.
  uint32_t class_at(size_t at, uint32_t* bytes) const {
    work();
    Char c{text[at], 1};
    if (c.code >= 0x80 && !bytewise) c = char_at(text + at, end - at);
    *bytes = c.bytes;
    return class_of(c.code);
  }
  uint32_t class_of(uint32_t code) const {
    if (code < 0x80) return pattern.p[Pattern::kHeaderBytes + code];
    if (code == kNoChar) return pattern.p[9];
    const unsigned char* const table = pattern.run_table();
    const uint32_t next =
        first_where(1, runs, [&](uint32_t run) { return u32_at(table, run) >> 8 > code; });
    return u32_at(table, next - 1) & 0xFF;
  }
  uint32_t class_before(size_t at) const {
    if (at == begin) return classes;
    if (bytewise) return class_of(text[at - 1]);
    return class_of(char_before(text + begin, at - begin).code);
  }

  uint32_t step(uint32_t state, uint32_t of) const {
    return Pattern::half(rows + 2 * (size_t{state} * (classes + 1) + of));
  }
  uint32_t slot(uint32_t state) const {
    return marks[state] < kFirstSlot ? 0 : 1u << (marks[state] - kFirstSlot);
  }

  // The end of the match that begins at `at`, behind a character of class `before`; or kNone.
  size_t match(size_t at, uint32_t before) const {
    size_t accepted = kNone, from = at;
    uint32_t state = step(0, before), from_state = state;
    bool passed = false;  // a slot since `from`
    while (state != 0) {
      uint32_t of = classes, bytes = 0;
      if (at < end) {
        if (const uint32_t bit = slot(state)) {
          if ((memo[at] & bit) != 0) break;
          passed = true;
        }
        of = class_at(at, &bytes);
      }
      const uint32_t to = step(state, of);
      state = to & (Pattern::kAccepts - 1);
      if (to != state) {
        accepted = at;
        from = at + bytes;
        from_state = state;
        passed = false;
      }
      at += bytes;
    }
    if (passed) remember(from, at, from_state);
    return accepted;
  }

  // From `state` at `from` on nothing was accepted up to `to`.
  void remember(size_t from, size_t to, uint32_t state) const {
    for (uint32_t bytes = 0; from < to; from += bytes) {
      memo[from] = static_cast<unsigned char>(memo[from] | slot(state));
      state = step(state, class_at(from, &bytes)) & (Pattern::kAccepts - 1);
    }
  }
};

// The next match, or the text before it. An empty match where the match before ended is none, and
// no other is looked for there, as the package's iterator has it.
PatternCuts::Segment PatternCuts::segment(const Search& s) {
  if (found_ == kNone) {
    uint32_t before = s.class_before(at_), start = s.step(0, before);
    for (size_t at = at_; at < end_;) {
      uint32_t bytes = 0;
      const uint32_t of = s.class_at(at, &bytes);
      const bool begins = start != 0 && s.step(start, of) != 0;
      const size_t end = begins ? s.match(at, before) : kNone;
      if (end != kNone && (end != at || end != last_)) {
        found_ = at;
        found_end_ = end;
        break;
      }
      if (of != before) start = s.step(0, of);
      before = of;
      at += bytes;
    }
    if (found_ == kNone) return {end_, false};
  }
  if (found_ > at_) return {found_, false};
  last_ = found_end_;
  found_ = kNone;
  return {last_, true};
}

bool PatternCuts::take(const Search& s, bool match, size_t* end) {
  if (at_ == end_ && !peeked_) return false;
  if (!peeked_) {
    const Segment next = segment(s);
    peeked_ = true;
    peek_match_ = next.match;
    peek_end_ = next.end;
  }
  if (peek_match_ != match) return false;
  peeked_ = false;
  *end = at_ = peek_end_;
  return true;
}

PatternCuts::Segment PatternCuts::next_segment(Pattern pattern, const unsigned char* text,
                                               unsigned char* memo) {
  const Search s{pattern, text, memo, begin_, end_};
  Segment out{end_, false};
  if (at_ != end_ || found_ != kNone) {
    out = segment(s);
  } else if (last_ != end_) {
    out.match = s.match(end_, s.class_before(end_)) == end_;
    last_ = end_;
  }
  at_ = out.end;
  return out;
}

size_t PatternCuts::next(Pattern pattern, const unsigned char* text, unsigned char* memo,
                         bool* removed) {
  const Search s{pattern, text, memo, begin_, end_};
  const bool inverted = pattern.inverted();
  const size_t begin = at_;
  *removed = false;
  for (size_t end = begin;;) {
    const bool match = take(s, true, &end);
    if (!match) take(s, false, &end);
    const bool is = match != inverted;  // what the behavior calls a match
    switch (pattern.behavior()) {
      case Behavior::removed:
        *removed = is;
        break;
      case Behavior::with_previous:
        if (!is) take(s, !inverted, &end);
        break;
      case Behavior::with_next:
        if (is) take(s, inverted, &end);
        break;
      case Behavior::contiguous:
        while (take(s, match, &end)) {
        }
        break;
      default:
        break;
    }
    if (end > begin) return end;
  }
}

}  // namespace phasor::pieces
