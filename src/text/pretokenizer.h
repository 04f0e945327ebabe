// text: cutting a stretch of text into the words that byte-level BPE merges in: the section's
// steps, one inside the other. Includes pattern.h only. Never allocates; every step takes time
// linear in the stretch.
#pragma once

#include "../build.h"
#include "pattern.h"

namespace phasor::pieces {

// Steps (file-format.md has the regular expression of each). From kRunStep on: a run of the
// characters of one class, whose bit is in bits 0 … 3, in the form that bits 4 … 6 say.
enum Step : unsigned char {
  kGpt2 = 1,
  kWhole,
  kLlama3,
  kQwen2,
  kO200k,
  kTekken,
  kDeepseek3,
  kLineEnd,
  kQwen35,
  kByteDigits,
  kByteDigit,
  kLlama3Plain,
  kQwen2Plain,
  kSeed,
  kCl100k,
  kStepsEnd,
  kRunStep = 0x80,
  kPatternStep = 0xE0  // the next of the section's patterns
};

constexpr uint32_t kMostSteps = 9;

enum class RunForm : uint32_t { any, one, up_to_three, three, after_space, after_blank, end };

// Steps that need no pattern.
inline bool known_step(uint32_t step) {
  if (step >= kRunStep)
    return (step >> 4 & 7) < static_cast<uint32_t>(RunForm::end) && (step & 15) < 32 - 21;
  return step >= kGpt2 && step < kStepsEnd;
}

class Words {
 public:
  // patterns: of the steps, one behind the other; memo: (n) for each of them that has slots, zeros
  Words(const Tokenizer& t, const unsigned char* text, size_t n, const unsigned char* patterns,
        unsigned char* memo)
      : t_(t), text_(text), n_(n), patterns_(patterns), memo_(memo) {}

  // The next word, between *begin and *end; false at the end of the text.
  bool next(size_t* begin, size_t* end);

 private:
  uint32_t step(uint32_t i) const {
    return i == 0 ? t_.rule : i < kMostSteps ? t_.more_steps[i - 1] : 0;
  }
  size_t end_of_stretch(uint32_t step, size_t at, size_t limit) const;

  const Tokenizer& t_;
  const unsigned char* text_;
  size_t n_;
  const unsigned char* patterns_;
  unsigned char* memo_;
  size_t at_ = 0;
  size_t ends_[kMostSteps] = {};  // of the stretch of each step that the word lies in
  PatternCuts cuts_[kHasPatterns ? kMostSteps : 1];
};

}  // namespace phasor::pieces
