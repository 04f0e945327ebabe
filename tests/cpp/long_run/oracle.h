// What a sequence gives, whatever was done to it before: its logits after each beginning, and the
// bytes of its saved state. From a session that forgets nothing, in which each script was fed from
// the start, a token at a time.
#pragma once
#include "generator/bytes.h"
#include "properties/trial.h"
#include "tokens.h"

namespace long_run {

constexpr uint32_t kNoSource = 0xFFFFFFFFu;

uint64_t hash_of(const void* values, std::size_t bytes);

struct Expected {
  uint64_t logits, state;  // hashes; of the last token's logits
  uint32_t best, best_logit;
  std::size_t state_bytes;
};

class Oracle {
 public:
  // `sources` has no entry where the model takes none.
  Oracle(const generator::Opened& opened, const phasor_limits& limits, const Tokens& tokens,
         const std::vector<generator::Sequences::Tokens>& sources);
  bool finite() const { return finite_; }
  std::size_t largest_state() const { return largest_; }
  const Expected& at(uint32_t source, uint32_t script, uint32_t length) const {
    if (source == kNoSource) return bare_;
    return all_[(source * tokens_.scripts + script) * (tokens_.positions + 1) + length];
  }

 private:
  void feed(const generator::Running& running, uint32_t source, uint32_t script);
  void see_state(const generator::Running& running, Expected* expected);

  const Tokens& tokens_;
  std::vector<Expected> all_;
  Expected bare_{};  // of an encoder-decoder's sequence without a source
  std::vector<unsigned char> state_;
  std::size_t largest_ = 0;
  bool finite_ = true;
};

}  // namespace long_run
