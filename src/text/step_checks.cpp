// The check of a pipeline's steps: every row is as long as its part says and in the order of the
// section, and what the run will follow leads nowhere out of it. Includes the tokenizer's own
// headers only; never allocates.
#include "step_rows.h"

namespace phasor::pieces {
namespace {

constexpr uint32_t kRowHead = 8;

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

}  // namespace phasor::pieces
