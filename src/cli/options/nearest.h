// cli: which of the words that there are a mistyped one may mean.
#pragma once
#include "../io/text.h"

namespace cli {

// Near is a word within a third of its letters in edits (Damerau 1964: a letter more, less or
// another, two that changed places), or one that begins the other. Case, leading dashes and "_" for
// "-" count for nothing.
class Nearest {
 public:
  explicit Nearest(const char* mistyped) : mistyped_(mistyped) {}
  // One of the words that there are; of equally near ones the first is kept.
  void see(const string& word);
  // ", did you mean WORD?", or nothing.
  string hint() const { return best_.empty() ? "" : ", did you mean " + best_ + "?"; }

 private:
  string mistyped_, best_;
  unsigned best_cost_ = ~0u;
};

}  // namespace cli
