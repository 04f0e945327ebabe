// Added tokens, as the tokenizers package treats them: found before the model sees the text, in the
// text as it is or in the normalised text. Includes tokenizer.h only. Never allocates.
#ifndef PHASOR_TEXT_ADDED_H_
#define PHASOR_TEXT_ADDED_H_

#include "pieces.h"

namespace phasor {
namespace pieces {

// flags of an added token
constexpr std::uint32_t kSingleWord = 1, kStripLeft = 2, kStripRightOf = 4, kNormalized = 8;

// One row of the table of added tokens.
struct AddedRow {
  const unsigned char* p;
  std::uint32_t offset() const noexcept { return load_u32(p); }
  std::uint32_t length() const noexcept { return load_u32(p + 4); }
  std::uint32_t id() const noexcept { return load_u32(p + 8); }
  std::uint32_t flags() const noexcept { return load_u32(p + 12); }
};

inline AddedRow added_row(const Tokenizer& t, std::uint32_t i) noexcept {
  return {t.added + 64 + std::size_t{i} * 16};
}

// Cuts a text at the added tokens of one kind: the leftmost, of those the longest, then on behind
// it.
class AddedSplit {
 public:
  struct Stretch {
    std::size_t begin, end;
    std::uint32_t id;  // kNoToken: text between added tokens
  };

  AddedSplit(const Tokenizer& t, const unsigned char* text, std::size_t bytes,
             bool normalized) noexcept;

  // The next stretch, never an empty text; false at the end.
  bool next(Stretch* out) noexcept;

 private:
  std::uint32_t longest(std::size_t at) const noexcept;
  bool find() noexcept;
  std::size_t skip_spaces(std::size_t at) noexcept;
  bool space_before(std::size_t at, std::size_t* bytes) const noexcept;
  bool space_at(std::size_t at, std::size_t* bytes) const noexcept;

  const Tokenizer& t_;
  const unsigned char* text_;
  std::size_t bytes_;
  std::uint32_t first_, last_;   // the rows of this kind
  bool merged_;                  // two spaces and more stand for one ▁, which is not white space
  const unsigned char* starts_;  // u32[8]: bit b: a token begins with byte b
  std::size_t search_ = 0;       // where the next match may begin
  std::size_t done_ = 0;         // what is handed out ends here
  std::size_t spaces_begin_ = 0, spaces_end_ = 0;  // white space that was skipped last
  Stretch match_{0, 0, kNoToken};
  bool pending_ = false;
};

}  // namespace pieces
}  // namespace phasor

#endif  // PHASOR_TEXT_ADDED_H_
