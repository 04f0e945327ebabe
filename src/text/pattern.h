// text: regular expressions that the converter has compiled to tables of states (file-format.md,
// TOKENIZER): checking one, and cutting a stretch of text at its matches. Includes pieces.h only.
// Never allocates; all searches of a text together take time linear in it, whatever a table says
// that check_pattern has accepted.
#pragma once

#include "pieces.h"

namespace phasor::pieces {

constexpr uint32_t kMostStates = 4096, kMostClasses = 255, kMostSlots = 8;
// A state's mark: from here on its memo slot, below its depth.
constexpr uint32_t kFirstSlot = 248;

// What becomes of the matches (Hugging Face's SplitDelimiterBehavior), and bits beside it: the text
// between the matches takes their part; the pattern takes bytes, not characters.
enum class Behavior : uint32_t { removed, isolated, with_previous, with_next, contiguous, end };
constexpr uint32_t kInverted = 8, kBytewise = 16;

// A pattern in a section.
struct Pattern {
  static constexpr uint32_t kHeaderBytes = 12, kAsciiBytes = 128;
  static constexpr uint32_t kAccepts = 0x8000;

  const unsigned char* p;

  uint32_t states() const { return half(p); }
  uint32_t classes() const { return p[2]; }
  uint32_t slots() const { return p[3]; }
  uint32_t runs() const { return load_u32(p + 4); }
  Behavior behavior() const { return static_cast<Behavior>(p[8] & 7); }
  bool inverted() const { return (p[8] & kInverted) != 0; }
  bool bytewise() const { return (p[8] & kBytewise) != 0; }
  const unsigned char* run_table() const { return p + kHeaderBytes + kAsciiBytes; }
  const unsigned char* rows() const { return run_table() + size_t{4} * runs(); }
  const unsigned char* marks() const { return rows() + 2 * size_t{states()} * (classes() + 1); }
  uint64_t bytes() const {
    const uint64_t all = kHeaderBytes + kAsciiBytes + uint64_t{4} * runs() +
                         uint64_t{2} * states() * (classes() + 1) + states();
    return (all + 3) / 4 * 4;
  }

  // What stands in a state's row for a class: the state behind that character, and kAccepts where a
  // match ends before it. The class `classes()` is the end of the text.
  uint32_t step(uint32_t state, uint32_t of) const {
    return half(rows() + 2 * (size_t{state} * (classes() + 1) + of));
  }
  uint32_t mark(uint32_t state) const { return marks()[state]; }

  static uint32_t half(const unsigned char* at) {
    return static_cast<uint32_t>(at[0]) | static_cast<uint32_t>(at[1]) << 8;
  }
};

// Checks the pattern that a part of `bytes` bytes begins with; null, or what is wrong.
const char* check_pattern(Pattern pattern, uint64_t bytes);

// The stretches of a text that a pattern leaves, one after the other.
class PatternCuts {
 public:
  // The stretch of text that is cut next: [begin, end). `memo`: (end) of the whole text, zeros at
  // first; null where the pattern has no slots.
  void enter(size_t begin, size_t end) {
    begin_ = at_ = found_end_ = begin;
    end_ = end;
    found_ = last_ = kNone;
    peeked_ = false;
  }

  struct Segment {
    size_t end;
    bool match;
  };
  // The next match, which may be empty, or the text before it; an empty one that is no match: the
  // text ends.
  Segment next_segment(Pattern pattern, const unsigned char* text, unsigned char* memo);

  // The end of the next stretch, which begins where the one before ended; *removed says that it
  // is none of the text's. The stretch entered must have bytes left.
  size_t next(Pattern pattern, const unsigned char* text, unsigned char* memo, bool* removed);

 private:
  static constexpr size_t kNone = ~size_t{0};

  struct Search;

  Segment segment(const Search& s);
  // The next segment is taken if there is one that is a match, or none, as `match` says.
  bool take(const Search& s, bool match, size_t* end);

  size_t begin_ = 0, end_ = 0;
  size_t at_ = 0;                             // where the next segment begins
  size_t found_ = kNone, found_end_ = 0;      // the match that comes next, if it has been found
  size_t last_ = kNone;                       // where the match before ended
  bool peeked_ = false, peek_match_ = false;  // of the segment that begins at at_
  size_t peek_end_ = 0;
};

}  // namespace phasor::pieces
