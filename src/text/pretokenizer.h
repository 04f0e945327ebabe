// text: cutting a stretch of text into the words that byte-level BPE merges in: the section's
// steps, one inside the other. Includes pieces.h only. Never allocates; every step takes time
// linear in the stretch.
#pragma once

#include "pieces.h"

namespace phasor::pieces {

// Steps (docs/format.md has the regular expression of each). From kRunStep on: a run of the
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
  kRunStep = 0x80
};

constexpr uint32_t kMostSteps = 9;

enum class RunForm : uint32_t { any, one, up_to_three, three, after_space, after_blank, end };

inline bool known_step(uint32_t step) {
  if (step >= kRunStep)
    return (step >> 4 & 7) < static_cast<uint32_t>(RunForm::end) && (step & 15) < 32 - 21;
  return step >= kGpt2 && step < kStepsEnd;
}

class Words {
 public:
  Words(const Tokenizer& t, const unsigned char* text, size_t n) : t_(t), text_(text), n_(n) {}

  // The end of the next word, which begins where the one before ended; false at the end of the
  // text.
  bool next(size_t* end) {
    if (at_ == n_) return false;
    size_t limit = n_;
    for (uint32_t i = 0, step = t_.rule; step != 0;
         step = i < kMostSteps ? t_.more_steps[i - 1] : 0) {
      if (ends_[i] <= at_) ends_[i] = end_of_stretch(step, at_, limit);
      limit = ends_[i++];
    }
    *end = at_ = limit;
    return true;
  }

 private:
  size_t end_of_stretch(uint32_t step, size_t at, size_t limit) const;

  const Tokenizer& t_;
  const unsigned char* text_;
  size_t n_;
  size_t at_ = 0;
  size_t ends_[kMostSteps] = {};  // of the stretch of each step that the word lies in
};

}  // namespace phasor::pieces
