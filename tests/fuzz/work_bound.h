// A bound on counted work (src/work.h), in builds that count it.
#pragma once
#include "support.h"
#include "text/pieces.h"
#include "work.h"

namespace fuzz {

// From here to the end of its scope at most so many steps.
class WorkBound {
 public:
  WorkBound([[maybe_unused]] uint64_t most, [[maybe_unused]] const char* what) {
#if defined(PHASOR_COUNT_WORK)
    most_ = most;
    what_ = what;
    before_ = phasor::work_done;
#endif
  }
  ~WorkBound() {
#if defined(PHASOR_COUNT_WORK)
    demand(phasor::work_done - before_ <= most_, what_);
#endif
  }

 private:
#if defined(PHASOR_COUNT_WORK)
  uint64_t most_, before_;
  const char* what_;
#endif
};

// Of text to ids: for each normalized byte the longest piece, or a heap of merges; of nine patterns
// at most eight slots and no more than 247 steps between two, which are walked twice and find their
// class among 2^20 runs. A model without a normalizer reads the text as it is.
inline uint64_t encode_bound(const phasor::Tokenizer& t, size_t bytes) {
  const uint64_t normalized = bytes * (t.expansion != 0 ? uint64_t{t.expansion} : 1) + 8;
  uint64_t log = 1;
  while ((normalized >> log) != 0) ++log;
  const uint64_t patterns = (t.flags & phasor::pieces::kPatterns) != 0 ? 9 * 9 * 248 * 2 * 21 : 0;
  return 4096 + 4 * normalized * (64 + 8 * log + 2 * uint64_t{t.longest} + patterns);
}

}  // namespace fuzz
