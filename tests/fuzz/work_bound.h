// A bound on counted work (src/work.h), in builds that count it.
#pragma once
#include "support.h"
#include "text/models.h"
#include "text/pieces.h"
#include "text/steps.h"
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

// Of a pipeline's steps, for each byte that the text may have become: what a map or a class takes
// to be found, marks that are put in order, and the patterns.
inline uint64_t steps_bound(const phasor::Tokenizer& t, uint64_t pattern) {
  namespace pieces = phasor::pieces;
  uint64_t most = 0;
  pieces::StepRow row = pieces::steps_of(t);
  for (; row.kind() != pieces::StepKind::spelled; row = row.next()) {
    const bool cuts =
        row.kind() == pieces::StepKind::replace || row.kind() == pieces::StepKind::split;
    most += 512 + (cuts ? pattern : 0);
  }
  return most;
}

// Of text to ids: for each normalized byte the longest piece, or a heap of merges of what it has
// become with a prefix; of nine patterns at most eight slots and no more than 247 steps between
// two, which are walked twice and find their class among 2^20 runs. A model without a normalizer
// reads the text as it is.
inline uint64_t encode_bound(const phasor::Tokenizer& t, size_t bytes) {
  const uint64_t normalized = bytes * (t.expansion != 0 ? uint64_t{t.expansion} : 1) + 8;
  uint64_t log = 1;
  while ((normalized >> log) != 0) ++log;
  const uint64_t pattern = 9 * 248 * 2 * 21;
  const bool pipeline = t.model == &phasor::pieces::kPipeline;
  const uint64_t symbols = pipeline ? 1 + t.prefix_bytes + t.pipeline.suffix_bytes : 1;
  const bool patterns = !pipeline && (t.flags & phasor::pieces::kPatterns) != 0;
  return 4096 + 4 * normalized *
                    (64 + 8 * symbols * (8 + log) + 2 * uint64_t{t.longest} +
                     (pipeline ? steps_bound(t, pattern) : patterns ? 9 * pattern : 0));
}

}  // namespace fuzz
