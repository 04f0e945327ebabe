// text: what the rows of a pipeline's section hold, each kind a view of its bytes: for the check of
// a section (step_checks.cpp) and for the run through it. Includes steps.h and pattern.h only. A
// view reads what the check has found to be inside the section.
#pragma once
#include "pattern.h"
#include "steps.h"

namespace phasor::pieces {

inline uint64_t padded(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

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
  // What two characters compose to, or kNoChar.
  uint32_t composed(uint32_t a, uint32_t b) const {
    const uint32_t syllable = compose_hangul(a, b);
    if (syllable != kNoChar) return syllable;
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
inline Span text_at(StepRow row, uint32_t at) {
  return {row.part() + 4 * size_t{at} + 4, row.u32(at)};
}
inline Pattern pattern_of(StepRow row) {
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

}  // namespace phasor::pieces
