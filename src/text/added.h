// Added tokens, as the tokenizers package treats them: found before the model sees the text, in the
// text as it is or in the normalized text. Includes pieces.h and build.h only. Never allocates.
#pragma once

#include "../build.h"
#include "pieces.h"

namespace phasor::pieces {

// flags of an added token
constexpr uint32_t kSingleWord = 1, kStripLeft = 2, kStripRightOf = 4, kNormalized = 8;

// One row of the table of added tokens.
struct AddedRow {
  const unsigned char* p;
  uint32_t offset() const { return load_u32(p); }
  uint32_t length() const { return load_u32(p + 4); }
  uint32_t id() const { return load_u32(p + 8); }
  uint32_t flags() const { return load_u32(p + 12); }
};

inline AddedRow added_row(const Tokenizer& t, uint32_t i) {
  return {t.added + 64 + size_t{i} * 16};
}

// Cuts a text at the added tokens of one kind: the leftmost, of those the longest, then on behind
// it. A token that the normalizer has emptied is before every character, and at the end, where the
// package's automaton meets none other; but not right behind another one.
class AddedSplit {
 public:
  struct Stretch {
    size_t begin, end;
    uint32_t id;  // kNoToken: text between added tokens
  };

  AddedSplit(const Tokenizer& t, const unsigned char* text, size_t bytes, bool normalized);

  // The next stretch, never an empty text; false at the end.
  bool next(Stretch* out);

 private:
  bool emptied() const { return built("pipeline") && empty_; }
  bool begins(uint32_t byte) const;  // a token of this kind
  uint32_t longest(size_t at, size_t* read) const;
  uint32_t next_row();
  bool find();
  size_t skip_spaces(size_t at);
  bool space_before(size_t at, size_t* bytes) const;
  bool space_at(size_t at, size_t* bytes) const;

  const Tokenizer& t_;
  const unsigned char* text_;
  size_t bytes_;
  uint32_t first_, last_;        // the rows of this kind
  bool merged_;                  // two spaces and more stand for one ▁, which is not white space
  uint32_t starts_;              // where u32[8] begins; bit b: a token begins with byte b
  bool empty_;                   // the first of them is an empty text
  size_t barren_ = 0;            // before it, each place has the emptied token alone
  size_t search_ = 0;            // where the next match may begin
  size_t matched_ = ~size_t{0};  // where the last one ended
  size_t done_ = 0;              // what is handed out ends here
  size_t spaces_end_ = 0;        // of the white space that was skipped last
  Stretch match_{0, 0, kNoToken};
  bool pending_ = false;
};

}  // namespace phasor::pieces
