// text: the steps that a pipeline's section has before its model: what they do to a text, one after
// the other, and to the splits that it falls into. Includes normalizer.h only; never allocates;
// each step takes time linear in the text.
//
// A step is a row of the section: u32 kind, u32 bytes of the whole row, its own part.
#pragma once
#include "normalizer.h"

namespace phasor::pieces {

enum class StepKind : uint32_t {
  map = 1,    // characters become others
  canonical,  // marks in Unicode's canonical order, and composed where it says so
  clusters,   // Precompiled: the section's map, or the row's own
  strip,      // white space at the ends
  replace,    // what a pattern matches becomes a text
  prefix,     // a text goes before each split
  letters,    // each byte becomes a letter of GPT-2's
  split,      // what a pattern matches is cut out
  words,      // no step: here the normalizer ends and the pre-tokenizer begins
  spelled,    // no step: how pieces decode that do not follow the section's flags
  // behind it, no steps: what is done to the decoded text (filters.h)
  filter_text,  // a text becomes another
  filter_ends,  // a character goes at the ends
  filter_byte,  // the name of a byte, alone, becomes the byte
  end
};

struct StepRow {
  const unsigned char* p;

  StepKind kind() const { return static_cast<StepKind>(load_u32(p)); }
  uint32_t bytes() const { return load_u32(p + 4); }
  const unsigned char* part() const { return p + 8; }
  uint32_t u32(uint32_t i) const { return u32_at(part(), i); }
  StepRow next() const { return {p + bytes()}; }
};

inline StepRow steps_of(const Tokenizer& t) { return {t.model_data + t.pipeline.steps_at}; }

constexpr uint32_t kMostRows = 64;
// of strip; of prefix: only the split that begins the whole text, only one without it
constexpr uint32_t kLeft = 1, kRight = 2;
constexpr uint32_t kFirstSplit = 1, kUnlessThere = 2;

// Of a piece that a `spelled` row has: what it decodes to at first and later on.
struct Spelled {
  const unsigned char* p;  // u32 id, u32 place of the texts, u16 bytes of each, u32 flags
  static constexpr uint32_t kBytes = 16;
  // Flags. kDue: a space goes before the next token. kNothing: the decoder skips the token, but the
  // token still separates two equal ones. kLast: the row is the piece's second one, with its texts
  // as the last token; pieces with a second row are held back. kSkipped: the token does not
  // separate two equal ones either.
  static constexpr uint32_t kDue = 1, kNothing = 2, kLast = 4, kSkipped = 8, kNoId = 0xFFFFFF;

  uint32_t id() const { return load_u32(p); }
  uint32_t place() const { return load_u32(p + 4); }
  uint32_t first_bytes() const { return load_u32(p + 8) & 0xFFFF; }
  uint32_t later_bytes() const { return load_u32(p + 8) >> 16; }
  uint32_t flags() const { return load_u32(p + 12) & 0xFF; }
  // 1 + the id that stands for the piece where repeated tokens are dropped; 0: its own. In a second
  // row: the id for the first token of a text; 0: as the first row says; kNoId: no token's.
  uint32_t same() const { return load_u32(p + 12) >> 8; }
  uint32_t longest_bytes() const {
    return first_bytes() > later_bytes() ? first_bytes() : later_bytes();
  }
};

// A piece's row, or one whose p is null; last: its second row, for the last token. Then its text.
Spelled find_spelled(StepRow rows, uint32_t id, bool last);
Span spelled_text(const Tokenizer& t, Spelled of, bool first);

// Checks the rows of a section and sets t->longest_spelled; null, or what is wrong.
const char* check_steps(Tokenizer* t);

// A text with a mark for each byte.
struct Marked {
  unsigned char* text;   // (capacity)
  unsigned char* marks;  // (capacity)
  uint32_t* origins;     // (capacity) or null
  size_t size;
};
// Marks: a split begins here; the byte comes from the beginning of the whole text; a map has made
// its character of another one, and not as the first.
constexpr unsigned char kBegins = 1, kOfStart = 2, kFurther = 4;

// A text on its way through the steps: it is read in one place and written in another, in turns.
class StepRun {
 public:
  // for each byte of capacity: bytes, and numbers where offsets are asked for
  static constexpr uint64_t kScratch = 7, kOrigins = 3;

  // origins: (kOrigins · capacity) or null
  StepRun(const Tokenizer& t, unsigned char* scratch, uint64_t capacity, uint32_t* origins);

  // A stretch of the text as it is; bytes that are not UTF-8 become U+FFFD.
  void load(const unsigned char* text, size_t begin, size_t end);
  // The normalizer's rows; returns those of the pre-tokenizer.
  StepRow normalize(StepRow rows);
  // Takes a part of the normalized text through the pre-tokenizer.
  void cut(StepRow rows, size_t begin, size_t end);
  // False when something did not fit.
  bool fits() const { return !full_; }

  const Marked& normalized() const { return all_; }
  const Marked& words() const { return from_; }

 private:
  void run(StepRow row);
  void turn();
  // Writes bytes that come from the character at a place.
  void put(const unsigned char* bytes, size_t n, size_t at);
  void put(const unsigned char* bytes, size_t n, unsigned char mark, uint32_t origin);
  // Writes at … end − 1 as they are.
  void copy(size_t at, size_t end);
  void written(size_t n);
  void place(size_t begin, size_t at, size_t end, unsigned char further);
  // The change (origins.h) of the character at a place of a text that a map has decomposed.
  uint32_t change(size_t at) const { return (from_.marks[at] & kFurther) != 0 ? 1 : 0; }
  // The origin of what ends before a place.
  uint32_t origin_before(size_t at) const {
    if (!wanted(from_.origins)) return 0;
    return at == 0 ? kEmpty | base_ : from_.origins[at - 1];
  }
  size_t end_of_split(size_t at) const;
  void map(StepRow row, size_t at, size_t end);
  void canonical(StepRow row, size_t at, size_t end);
  void order_and_compose(StepRow row, size_t at, size_t end);
  void compose(StepRow row, size_t begin);
  void order_marks(StepRow row, size_t at, size_t end);
  void clusters(StepRow row, size_t at, size_t end);
  void strip(StepRow row, size_t at, size_t end);
  void replace(StepRow row, size_t at, size_t end);
  void prefix(StepRow row, size_t at, size_t end);
  void letters(size_t at, size_t end);
  void split(StepRow row, size_t at, size_t end);

  const Tokenizer& t_;
  const uint64_t capacity_;
  unsigned char* memo_;  // (capacity)
  Marked all_, from_, to_;
  uint32_t base_ = 0;           // where the text that was loaded begins
  bool begins_ = false;         // the next byte begins a split
  unsigned char of_start_ = 0;  // kOfStart: the stretch begins where the whole text does
  bool full_ = false;
};

// GPT-2's letters for bytes: printable bytes are themselves, the others letters from U+0100 on.
uint32_t letter_of(unsigned char byte);
// The byte of a letter, or −1.
int byte_of_letter(uint32_t code);

}  // namespace phasor::pieces
