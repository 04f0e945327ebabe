// The steps of a pipeline: what each does to a text, and the pieces that a section spells. Includes
// the tokenizer's own headers only; never allocates.
#include "cluster_map.h"
#include "step_rows.h"

namespace phasor::pieces {
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
        if (is_syllable(c.code)) {
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
