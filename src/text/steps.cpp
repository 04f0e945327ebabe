// The steps of a pipeline: their checks, and what each does to a text. Includes the tokenizer's own
// headers only; never allocates.
#include "steps.h"

#include "cluster_map.h"
#include "pattern.h"

namespace phasor::pieces {
namespace {

constexpr uint32_t kRowHead = 8;

uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

// ---- Rows ----

// What becomes of the characters of a run.
enum class Change : uint32_t { keep, remove, add, add_on_even, text, hangul, end };
constexpr uint32_t kChangeBit = 29, kChangeMask = (1u << kChangeBit) - 1, kNoDelta = 1u << 21;

struct MapRow {
  StepRow row;

  static constexpr uint32_t kAscii = 128;
  uint32_t runs() const { return row.u32(0); }
  uint32_t text_bytes() const { return row.u32(1); }
  uint32_t ascii(uint32_t code) const { return row.part()[8 + code]; }
  const unsigned char* table() const { return row.part() + 8 + kAscii; }
  uint32_t first(uint32_t run) const { return u32_at(table(), 2 * size_t{run}); }
  uint32_t change(uint32_t run) const { return u32_at(table(), 2 * size_t{run} + 1); }
  const unsigned char* texts() const { return table() + size_t{8} * runs(); }
  uint64_t bytes() const { return 8 + kAscii + uint64_t{8} * runs() + padded(text_bytes()); }

  uint32_t find(uint32_t code) const {
    if (code < kAscii) return ascii(code);
    return first_where(1, runs(), [&](uint32_t run) { return first(run) > code; }) - 1;
  }
};

struct CanonicalRow {
  StepRow row;

  uint32_t runs() const { return row.u32(0); }
  uint32_t pairs() const { return row.u32(1); }
  bool composes() const { return row.u32(2) != 0; }
  const unsigned char* table() const { return row.part() + 12; }
  const unsigned char* pair(uint32_t i) const {
    return table() + 4 * size_t{runs()} + 12 * size_t{i};
  }
  uint64_t bytes() const { return 12 + uint64_t{4} * runs() + uint64_t{12} * pairs(); }

  // The combining class of a character.
  uint32_t order(uint32_t code) const {
    if (code < (u32_at(table(), 0) >> 8) || code == kNoChar) return 0;
    const uint32_t next =
        first_where(1, runs(), [&](uint32_t run) { return u32_at(table(), run) >> 8 > code; });
    return u32_at(table(), next - 1) & 0xFF;
  }
  bool reaches(uint32_t i, uint32_t a, uint32_t b) const {
    const uint32_t first = load_u32(pair(i));
    return first > a || (first == a && load_u32(pair(i) + 4) >= b);
  }
  // What two characters compose to, or kNoChar; a syllable's parts follow their rule
  // (Unicode, 3.12).
  uint32_t composed(uint32_t a, uint32_t b) const {
    if (a - 0x1100 < 19 && b - 0x1161 < 21) return 0xAC00 + ((a - 0x1100) * 21 + b - 0x1161) * 28;
    if (a - 0xAC00 < 11172 && (a - 0xAC00) % 28 == 0 && b - 0x11A8 < 27) return a + b - 0x11A7;
    const uint32_t i = first_where(0, pairs(), [&](uint32_t of) { return reaches(of, a, b); });
    const bool found = i < pairs() && load_u32(pair(i)) == a && load_u32(pair(i) + 4) == b;
    return found ? load_u32(pair(i) + 8) : kNoChar;
  }
};

// A row's own map of clusters, used in place of the section's.
struct ClustersRow {
  StepRow row;

  uint32_t trie_bytes() const { return row.u32(0); }
  uint32_t string_bytes() const { return row.u32(1); }
  uint32_t longest_rule() const { return row.u32(2); }
  const unsigned char* trie() const { return row.part() + 12; }
  const unsigned char* strings() const { return trie() + trie_bytes(); }
  uint64_t bytes() const { return 12 + padded(uint64_t{trie_bytes()} + string_bytes()); }
};

// A text that a row has at a place of its part: u32 bytes, the text.
Span text_at(StepRow row, uint32_t at) { return {row.part() + 4 * size_t{at} + 4, row.u32(at)}; }
Pattern pattern_of(StepRow row) {
  if (row.kind() != StepKind::replace) return {row.part()};
  return {row.part() + 4 + static_cast<size_t>(padded(row.u32(0)))};
}

// Rows of (id, place, bytes, flags), the texts behind them.
struct SpelledRow {
  StepRow row;

  uint32_t count() const { return row.u32(0); }
  uint32_t text_bytes() const { return row.u32(1); }
  Spelled at(uint32_t i) const { return {row.part() + 8 + size_t{Spelled::kBytes} * i}; }
  uint64_t bytes() const { return 8 + uint64_t{Spelled::kBytes} * count() + padded(text_bytes()); }
};

// ---- Checks ----

const char* check_map(MapRow m) {
  if (m.runs() == 0 || m.first(0) != 0) return "a map of characters does not begin at 0";
  for (uint32_t run = 0; run < m.runs(); ++run) {
    work();
    const uint32_t change = m.change(run), value = change & kChangeMask;
    if (m.first(run) > 0x10FFFF || (run > 0 && m.first(run) <= m.first(run - 1)))
      return "a map of characters is not in order";
    const Change of = static_cast<Change>(change >> kChangeBit);
    if (of >= Change::end) return "a map of characters has an unknown change";
    if (of == Change::text &&
        (value >= m.text_bytes() || m.texts()[value] > m.text_bytes() - 1 - value))
      return "a map's text is outside its part";
  }
  for (uint32_t c = 0; c < MapRow::kAscii; ++c) {
    const uint32_t run = m.ascii(c);
    if (run >= m.runs() || m.first(run) > c || (run + 1 < m.runs() && m.first(run + 1) <= c))
      return "a map's runs of ASCII are wrong";
  }
  return nullptr;
}

const char* check_clusters(ClustersRow r) {
  if (r.trie_bytes() % 4 != 0 || r.string_bytes() == 0 || r.strings()[r.string_bytes() - 1] != 0 ||
      !normalizer_check(r.trie(), r.trie_bytes() / 4, r.string_bytes()))
    return "the map of a step leads out of itself";
  return r.longest_rule() > kLongestRule ? "a step's longest rule is out of range" : nullptr;
}

const char* check_canonical(Tokenizer* t, CanonicalRow r) {
  if (r.runs() == 0) return "canonical order without classes";
  for (uint32_t run = 1; run < r.runs(); ++run)
    if (u32_at(r.table(), run) >> 8 <= u32_at(r.table(), run - 1) >> 8)
      return "the classes of canonical order are not in order";
  for (uint32_t i = 1; i < r.pairs(); ++i)
    if (r.reaches(i - 1, load_u32(r.pair(i)), load_u32(r.pair(i) + 4)))
      return "the pairs of a composition are not in order";
  bool stays = u32_at(r.table(), 0) >> 8 >= 0x80;
  for (uint32_t i = 0; i < r.pairs(); ++i) stays = stays && load_u32(r.pair(i) + 4) >= 0x80;
  if (!stays) t->pipeline.ascii_stays = 0;
  return nullptr;
}

const char* check_spelled(Tokenizer* t, SpelledRow r) {
  for (uint32_t i = 0; i < r.count(); ++i) {
    work();
    const Spelled s = r.at(i);
    const uint64_t bytes = uint64_t{s.first_bytes()} + s.later_bytes();
    const bool last = (s.flags() & Spelled::kLast) != 0;
    const bool again = i > 0 && s.id() == r.at(i - 1).id();
    if (s.id() >= t->ids || last != again || (i > 0 && s.id() < r.at(i - 1).id()) ||
        (again && (r.at(i - 1).flags() & Spelled::kLast) != 0))
      return "the spelled pieces are not in order";
    if (s.place() > r.text_bytes() || bytes > r.text_bytes() - s.place() ||
        s.flags() > (Spelled::kDue | Spelled::kNothing | Spelled::kLast | Spelled::kSkipped) ||
        (s.same() > t->ids && !(last && s.same() == Spelled::kNoId)))
      return "a spelled piece's text is outside its part";
    const uint32_t most = s.longest_bytes();
    if (most > t->pipeline.longest_spelled) t->pipeline.longest_spelled = most;
    if (!last) continue;
    t->pipeline.holds = 1;
    const uint32_t held = r.at(i - 1).longest_bytes();
    if (held > t->pipeline.longest_held) t->pipeline.longest_held = held;
  }
  return nullptr;
}

// A row's own part, `bytes` long.
const char* check_row(Tokenizer* t, StepRow row, uint64_t bytes) {
  constexpr const char* kSize = "a step's size is wrong";
  switch (row.kind()) {
    case StepKind::map: {
      const MapRow m{row};
      return bytes < 8 || m.bytes() != bytes ? kSize : check_map(m);
    }
    case StepKind::canonical: {
      const CanonicalRow r{row};
      return bytes < 12 || r.bytes() != bytes ? kSize : check_canonical(t, r);
    }
    case StepKind::clusters: {
      const ClustersRow r{row};
      if (bytes != 0) return bytes < 12 || r.bytes() != bytes ? kSize : check_clusters(r);
      return t->trie == nullptr ? "a step without its map" : nullptr;
    }
    case StepKind::strip:
      if (bytes != 4) return kSize;
      return row.u32(0) > (kLeft | kRight) ? "white space of an unknown side" : nullptr;
    case StepKind::prefix:
      if (bytes < 8 || 8 + padded(row.u32(1)) != bytes) return kSize;
      return row.u32(0) > (kFirstSplit | kUnlessThere) ? "a prefix has unknown flags" : nullptr;
    case StepKind::replace:
      if (bytes < 4 || 4 + padded(row.u32(0)) > bytes) return kSize;
      [[fallthrough]];
    case StepKind::split: {
      const Pattern pattern = pattern_of(row);
      const uint64_t left = bytes - static_cast<uint64_t>(pattern.p - row.part());
      if (const char* const wrong = check_pattern(pattern, left)) return wrong;
      return pattern.bytes() != left ? kSize : nullptr;
    }
    case StepKind::letters:
    case StepKind::words:
      return bytes != 0 ? kSize : nullptr;
    case StepKind::spelled: {
      const SpelledRow r{row};
      return bytes < 8 || r.bytes() != bytes ? kSize : check_spelled(t, r);
    }
    case StepKind::filter_text:
    case StepKind::filter_ends:
    case StepKind::filter_byte:
      return nullptr;  // check_filters looks at them
    default:
      return "unknown step";
  }
}

}  // namespace

const char* check_steps(Tokenizer* t) {
  uint32_t words = 0, spelled = 0, left = t->pipeline.steps_bytes;
  StepRow row = steps_of(*t);
  for (uint32_t rows = 0; left != 0; ++rows) {
    if (rows == kMostRows) return "too many steps";
    if (left < kRowHead || row.bytes() < kRowHead || row.bytes() > left || row.bytes() % 4 != 0)
      return "a step's size is wrong";
    if (const char* const wrong = check_row(t, row, row.bytes() - kRowHead)) return wrong;
    words += row.kind() == StepKind::words;
    spelled += row.kind() == StepKind::spelled;
    if (spelled == 0 && row.kind() > StepKind::spelled) return "a filter before the decoder";
    left -= row.bytes();
    row = row.next();
  }
  return words != 1 || spelled != 1 ? "the steps are not complete" : nullptr;
}

namespace {

SpelledRow spelled_of(StepRow rows) {
  while (rows.kind() != StepKind::spelled) rows = rows.next();
  return {rows};
}

}  // namespace

Spelled find_spelled(StepRow rows, uint32_t id, bool last) {
  const SpelledRow r = spelled_of(rows);
  const uint32_t i = first_where(0, r.count(), [&](uint32_t of) {
    const Spelled s = r.at(of);
    return s.id() > id || (s.id() == id && (!last || (s.flags() & Spelled::kLast) != 0));
  });
  return i < r.count() && r.at(i).id() == id ? r.at(i) : Spelled{nullptr};
}

Span spelled_text(const Tokenizer& t, Spelled of, bool first) {
  const SpelledRow r = spelled_of(steps_of(t));
  const unsigned char* const text = r.at(r.count()).p + of.place();
  return first ? Span{text, of.first_bytes()} : Span{text + of.first_bytes(), of.later_bytes()};
}

// ---- The run ----

StepRun::StepRun(const Tokenizer& t, unsigned char* scratch, uint64_t capacity, uint32_t* origins)
    : t_(t), capacity_(capacity), memo_(scratch) {
  const size_t room = static_cast<size_t>(capacity);
  unsigned char* at = scratch + room;
  Marked* const places[] = {&all_, &from_, &to_};
  for (Marked* const m : places) {
    *m = {at, at + room, origins, 0};
    at += 2 * room;
    if (wanted(origins)) origins += room;
  }
}

void StepRun::put(const unsigned char* bytes, size_t n, size_t at) {
  put(bytes, n, from_.marks[at], !wanted(from_.origins) ? 0 : from_.origins[at]);
}

void StepRun::put(const unsigned char* bytes, size_t n, unsigned char mark, uint32_t origin) {
  work(1 + n);
  full_ = full_ || capacity_ - to_.size < n;
  if (full_ || n == 0) return;
  std::memcpy(to_.text + to_.size, bytes, n);
  std::memset(to_.marks + to_.size, mark & kOfStart, n);
  if (wanted(to_.origins)) fill_origins(to_.origins + to_.size, origin, n);
  written(n);
}

namespace {

// Eight bytes at a time.
void copy_masked(unsigned char* to, const unsigned char* from, size_t n, unsigned char mask) {
  const uint64_t masks = mask * (~uint64_t{0} / 0xFF);
  size_t at = 0;
  for (uint64_t eight; at + sizeof eight <= n; at += sizeof eight) {
    std::memcpy(&eight, from + at, sizeof eight);
    eight &= masks;
    std::memcpy(to + at, &eight, sizeof eight);
  }
  for (; at < n; ++at) to[at] = from[at] & mask;
}

}  // namespace

void StepRun::copy(size_t at, size_t end) {
  const size_t n = end - at;
  work(1 + n);
  full_ = full_ || capacity_ - to_.size < n;
  if (full_ || n == 0) return;
  std::memcpy(to_.text + to_.size, from_.text + at, n);
  copy_masked(to_.marks + to_.size, from_.marks + at, n, kOfStart);
  if (wanted(to_.origins))
    std::memcpy(to_.origins + to_.size, from_.origins + at, n * sizeof *to_.origins);
  written(n);
}

void StepRun::written(size_t n) {
  if (begins_) to_.marks[to_.size] |= kBegins;
  begins_ = false;
  to_.size += n;
}

// Makes origins of the changes from `begin` on, which at … end − 1 have become. further: the mark
// of characters that count as one with the character before them.
void StepRun::place(size_t begin, size_t at, size_t end, unsigned char further) {
  size_t here = at;
  place_origins(to_.origins + begin, to_.text + begin, to_.size - begin, [&] {
    if (at < end) here = at;
    while (at < end) {
      at += char_at(from_.text + at, end - at).bytes;
      if (at < end && (from_.marks[at] & further) == 0) break;
    }
    return from_.origins[here];
  });
}

void StepRun::turn() {
  const Marked read = from_;
  from_ = to_;
  to_ = read;
  to_.size = 0;
}

size_t StepRun::end_of_split(size_t at) const {
  while (++at < from_.size && (from_.marks[at] & kBegins) == 0) work();
  return at;
}

void StepRun::load(const unsigned char* text, size_t begin, size_t end) {
  to_.size = 0;
  begins_ = true;
  of_start_ = begin == 0 ? kOfStart : 0;
  base_ = static_cast<uint32_t>(begin);
  for (size_t at = begin; at < end && !full_;) {
    const Char c = char_at(text + at, end - at);
    const bool valid = c.code != kNoChar;
    size_t bytes = c.bytes;
    while (at != 0 && c.code < 0x80 && at + bytes < end && text[at + bytes] < 0x80) ++bytes;
    put(valid ? text + at : kReplacement, valid ? bytes : sizeof kReplacement,
        at == 0 ? kOfStart : 0, static_cast<uint32_t>(at));
    for (size_t i = 1; wanted(to_.origins) && c.code < 0x80 && !full_ && i < bytes; ++i)
      to_.origins[to_.size - bytes + i] += static_cast<uint32_t>(i);
    at += bytes;
  }
  turn();
}

StepRow StepRun::normalize(StepRow row) {
  for (; row.kind() != StepKind::words; row = row.next()) run(row);
  const Marked normalized = from_;
  from_ = all_;
  all_ = normalized;
  return row.next();
}

void StepRun::cut(StepRow row, size_t begin, size_t end) {
  from_.size = end - begin;
  work(from_.size);
  std::memcpy(from_.text, all_.text + begin, from_.size);
  copy_masked(from_.marks, all_.marks + begin, from_.size, kOfStart);
  from_.marks[0] |= kBegins;
  if (wanted(from_.origins))
    std::memcpy(from_.origins, all_.origins + begin, from_.size * sizeof *from_.origins);
  for (; row.kind() != StepKind::spelled; row = row.next()) run(row);
}

void StepRun::run(StepRow row) {
  to_.size = 0;
  if (row.kind() == StepKind::replace || row.kind() == StepKind::split) {
    work(from_.size);
    std::memset(memo_, 0, from_.size);
  }
  for (size_t at = 0, end = 0; at < from_.size && !full_; at = end) {
    end = end_of_split(at);
    begins_ = true;
    switch (row.kind()) {
      case StepKind::map:
        map(row, at, end);
        break;
      case StepKind::canonical:
        canonical(row, at, end);
        break;
      case StepKind::clusters:
        clusters(row, at, end);
        break;
      case StepKind::strip:
        strip(row, at, end);
        break;
      case StepKind::replace:
        replace(row, at, end);
        break;
      case StepKind::prefix:
        prefix(row, at, end);
        break;
      case StepKind::letters:
        letters(at, end);
        break;
      default:
        split(row, at, end);
        break;
    }
  }
  turn();
}

void StepRun::map(StepRow row, size_t at, size_t end) {
  const MapRow m{row};
  const auto stays = [&](unsigned char c) {
    return c < MapRow::kAscii &&
           static_cast<Change>(m.change(m.ascii(c)) >> kChangeBit) == Change::keep;
  };
  while (at < end) {
    const unsigned char* const here = from_.text + at;
    const size_t origin = at, begin = to_.size;
    while (at < end && stays(from_.text[at])) ++at;
    if (at != origin) {
      copy(origin, at);
      continue;
    }
    const Char c = char_at(here, end - at);
    at += c.bytes;
    const uint32_t run = m.find(c.code == kNoChar ? 0xFFFD : c.code), change = m.change(run);
    const uint32_t value = change & kChangeMask;
    unsigned char made[9];
    switch (static_cast<Change>(change >> kChangeBit)) {
      case Change::remove:
        work();
        break;
      case Change::add_on_even:
        if ((c.code - m.first(run)) % 2 != 0) {
          put(here, c.bytes, origin);
          break;
        }
        [[fallthrough]];
      case Change::add:
        put(made, write_char(made, (c.code + value - kNoDelta) & 0x1FFFFF), origin);
        break;
      case Change::text:
        put(m.texts() + value + 1, m.texts()[value], origin);
        break;
      case Change::hangul:
        if (c.code - 0xAC00 < 11172) {
          put(made, decompose_hangul(made, c.code), origin);
          break;
        }
        [[fallthrough]];
      default:
        put(here, c.bytes, origin);
        break;
    }
    if (to_.size == begin) continue;
    for (size_t i = begin; (i += char_at(to_.text + i, to_.size - i).bytes) < to_.size;)
      to_.marks[i] |= kFurther;
  }
}

// Marks by their classes, equal ones as they come.
void StepRun::order_marks(StepRow row, size_t at, size_t end) {
  const CanonicalRow r{row};
  const auto size_at = [this, end](size_t place) {
    return char_at(from_.text + place, end - place);
  };
  uint32_t places[256] = {};  // by class: where the next one goes
  for (size_t i = at; i < end;) {
    const Char c = size_at(i);
    places[r.order(c.code)] += c.bytes;
    i += c.bytes;
  }
  uint32_t place = 0;
  for (uint32_t& p : places) {
    const uint32_t bytes = p;
    p = place;
    place += bytes;
  }
  const size_t begin = to_.size;
  put(from_.text + at, end - at, 0, 0);  // makes room
  if (full_) return;
  const unsigned char first = to_.marks[begin] & kBegins;
  // The package counts places: of characters, whatever comes first takes the first one's; further
  // parts of one take that of what is before them.
  bool of_start = begin != 0 && (to_.marks[begin - 1] & kOfStart) != 0;
  bool first_waits = !of_start && (from_.marks[at] & kOfStart) != 0;
  work(256);
  for (size_t i = at; i < end;) {
    const Char c = size_at(i);
    uint32_t& to = places[r.order(c.code)];
    std::memcpy(to_.text + begin + to, from_.text + i, c.bytes);
    std::memset(to_.marks + begin + to, from_.marks[i] & kFurther, c.bytes);
    if (wanted(to_.origins)) fill_origins(to_.origins + begin + to, change(i), c.bytes);
    to += c.bytes;
    i += c.bytes;
  }
  for (size_t i = begin; i < to_.size;) {
    const size_t bytes = char_at(to_.text + i, to_.size - i).bytes;
    if ((to_.marks[i] & kFurther) == 0) {
      of_start = first_waits;
      first_waits = false;
    }
    std::memset(to_.marks + i, of_start ? kOfStart : 0, bytes);
    i += bytes;
  }
  to_.marks[begin] |= first;
}

void StepRun::canonical(StepRow row, size_t at, size_t end) {
  const auto ascii = [this](size_t i) { return from_.text[i] < 0x80; };
  // A character of ASCII before another one stays as it is; offsets count all changes together.
  const bool stays = t_.pipeline.ascii_stays != 0 && !wanted(to_.origins);
  while (stays && at < end) {
    size_t same = at;
    while (same < end && ascii(same) && (same + 1 == end || ascii(same + 1))) ++same;
    copy(at, same);
    for (at = same; at < end && (at == same || !ascii(at));) ++at;
    if (at != same) order_and_compose(row, same, at);
  }
  if (at < end) order_and_compose(row, at, end);
}

void StepRun::order_and_compose(StepRow row, size_t at, size_t end) {
  const CanonicalRow r{row};
  const size_t begin = to_.size, text = at;
  while (at < end) {
    size_t behind = at;
    bool sorted = true;
    for (uint32_t before = 0; behind < end;) {
      const Char c = char_at(from_.text + behind, end - behind);
      const uint32_t order = r.order(c.code);
      work();
      if (order == 0) break;
      sorted = sorted && before <= order;
      before = order;
      behind += c.bytes;
    }
    if (behind == at) behind += char_at(from_.text + at, end - at).bytes;  // it is no mark
    if (!sorted) {
      order_marks(row, at, behind);
    } else {
      for (size_t i = at; i < behind;) {
        const Char c = char_at(from_.text + i, behind - i);
        put(from_.text + i, c.bytes, from_.marks[i], change(i));
        i += c.bytes;
      }
    }
    at = behind;
  }
  if (full_) return;
  if (r.composes()) compose(row, begin);
  if (wanted(to_.origins)) place(begin, text, end, kFurther);
}

void StepRun::compose(StepRow row, size_t begin) {
  const CanonicalRow r{row};
  const auto move = [this](size_t to, size_t from, size_t n) {
    std::memmove(to_.text + to, to_.text + from, n);
    std::memmove(to_.marks + to, to_.marks + from, n);
    if (wanted(to_.origins))
      std::memmove(to_.origins + to, to_.origins + from, n * sizeof *to_.origins);
  };
  // In place: each mark that no mark of its class or a higher one keeps from the last character of
  // class 0.
  constexpr uint32_t kMostComposed = 32;  // into one; no chain of real ones is half as long
  size_t to = begin, base = begin;
  Char base_char{kNoChar, 0};
  uint32_t last = 0, made = 0;
  for (size_t from = begin; from < to_.size;) {
    const Char c = char_at(to_.text + from, to_.size - from);
    const uint32_t order = r.order(c.code);
    uint32_t both = kNoChar;
    if (base_char.bytes != 0 && made < kMostComposed && (last == 0 || last < order))
      both = r.composed(base_char.code, c.code);
    unsigned char text[4];
    const size_t bytes = both == kNoChar ? 0 : write_char(text, both);
    work();
    if (bytes != 0 && bytes <= base_char.bytes + c.bytes) {
      const size_t marks_at = base + base_char.bytes, n = to - marks_at;
      work(n);
      if (wanted(to_.origins)) to_.origins[base] += to_.origins[from] - 1;
      move(base + bytes, marks_at, n);
      std::memcpy(to_.text + base, text, bytes);
      std::memset(to_.marks + base + 1, to_.marks[base] & kOfStart, bytes - 1);
      to = base + bytes + n;
      base_char = {both, static_cast<uint32_t>(bytes)};
      ++made;
    } else {
      if (order == 0) {
        base = to;
        base_char = c;
        made = 0;
      }
      last = order;
      move(to, from, c.bytes);
      to += c.bytes;
    }
    from += c.bytes;
  }
  to_.size = to;
}

void StepRun::clusters(StepRow row, size_t at, size_t end) {
  uint32_t* const origins = !wanted(to_.origins) ? nullptr : to_.origins + to_.size;
  Output out{to_.text + to_.size, capacity_ - to_.size, 0, false, origins};
  const size_t text = at, begin = to_.size;
  Tokenizer of = t_;
  if (const ClustersRow own{row}; row.next().p != row.part()) {
    of.trie = own.trie();
    of.strings = own.strings();
    of.longest_rule = static_cast<uint16_t>(own.longest_rule());
  }
  ClusterMap map(of, &out);
  const unsigned char origin = from_.marks[at];
  while (at < end && !out.full) {
    const Char c = char_at(from_.text + at, end - at);
    map.next(from_.text + at, c);
    at += c.bytes;
  }
  map.end();
  full_ = full_ || out.full;
  if (full_ || out.size == 0) return;
  const size_t n = static_cast<size_t>(out.size), first = static_cast<size_t>(map.first_end());
  std::memset(to_.marks + to_.size, 0, n);
  std::memset(to_.marks + to_.size, origin & kOfStart, first);
  if (begins_) to_.marks[to_.size] |= kBegins;
  begins_ = false;
  to_.size += n;
  if (wanted(origins)) place(begin, text, end, 0);
}

void StepRun::strip(StepRow row, size_t at, size_t end) {
  const auto blank = [this](Char c) { return (classes(t_, c.code) & kSpace) != 0; };
  if ((row.u32(0) & kLeft) != 0)
    for (Char c; at < end && blank(c = char_at(from_.text + at, end - at));) at += c.bytes;
  if ((row.u32(0) & kRight) != 0)
    for (Char c; end > at && blank(c = char_before(from_.text + at, end - at));) end -= c.bytes;
  copy(at, end);
}

void StepRun::replace(StepRow row, size_t at, size_t end) {
  const Pattern pattern = pattern_of(row);
  const Span content = text_at(row, 0);
  PatternCuts cuts;
  cuts.enter(at, end);
  for (;;) {
    const PatternCuts::Segment next = cuts.next_segment(pattern, from_.text, memo_);
    if (next.match)  // the text comes from where the byte before it does, which may be replaced
      put(content.text, content.bytes, next.end > 0 ? from_.marks[next.end - 1] : of_start_,
          origin_before(next.end));
    else if (next.end == at)
      return;
    else
      copy(at, next.end);
    at = next.end;
  }
}

void StepRun::prefix(StepRow row, size_t at, size_t end) {
  const uint32_t flags = row.u32(0);
  const Span text = text_at(row, 1);
  const bool there =
      end - at >= text.bytes && std::memcmp(from_.text + at, text.text, text.bytes) == 0;
  if (((flags & kFirstSplit) == 0 || (from_.marks[at] & kOfStart) != 0) &&
      ((flags & kUnlessThere) == 0 || !there))
    put(text.text, text.bytes, at);
  copy(at, end);
}

void StepRun::letters(size_t at, size_t end) {
  for (; at < end; ++at) {
    unsigned char letter[4];
    put(letter, write_char(letter, letter_of(from_.text[at])), at);
  }
}

void StepRun::split(StepRow row, size_t at, size_t end) {
  const Pattern pattern = pattern_of(row);
  PatternCuts cuts;
  cuts.enter(at, end);
  while (at < end) {
    bool removed = false;
    const size_t next = cuts.next(pattern, from_.text, memo_, &removed);
    begins_ = true;
    if (!removed) copy(at, next);
    at = next;
  }
}

// Bytes that are no printable characters of Latin 1, in their order.
uint32_t letter_of(unsigned char byte) {
  if (byte < 0x21) return 0x100u + byte;
  if (byte < 0x7F) return byte;
  if (byte < 0xA1) return 0x121u + (byte - 0x7Fu);
  return byte == 0xAD ? 0x143u : byte;
}

int byte_of_letter(uint32_t code) {
  if (code >= 0x100 && code < 0x121) return static_cast<int>(code - 0x100);
  if (code >= 0x121 && code < 0x143) return static_cast<int>(code - 0x121 + 0x7F);
  if (code == 0x143) return 0xAD;
  return code >= 0x21 && code < 0x100 && !(code >= 0x7F && code < 0xA1) && code != 0xAD
             ? static_cast<int>(code)
             : -1;
}

}  // namespace phasor::pieces
