// What sequences of a long run may hold: a tree of tokens. A script is a way from its root to a
// leaf; two scripts have the same tokens up to where they part, which their leading bits say. So
// the beginnings are few, and what follows each can be known, however a sequence came by it.
#pragma once
#include <vector>

#include "generator/choices.h"

namespace long_run {

class Tokens {
 public:
  Tokens(generator::Choices* choices, uint32_t length, uint32_t bits, uint32_t vocabulary,
         uint32_t segments)
      : positions(length), scripts(1u << bits), bits_(bits), ids_(scripts * positions) {
    const uint64_t seed = choices->seed();
    if (segments != 0) segments_.resize(ids_.size());
    for (uint32_t i = 0; i < ids_.size(); ++i) {
      const uint32_t script = i / positions, position = i % positions;
      uint64_t node = seed ^ (uint64_t(position) << 32 | script >> (bits - bits_at(position)));
      const uint64_t value = phasor::splitmix64(&node);
      ids_[i] = static_cast<uint32_t>((value >> 32) % vocabulary);
      if (segments != 0) segments_[i] = static_cast<uint32_t>(value % segments);
    }
  }
  const uint32_t* ids(uint32_t script) const { return ids_.data() + script * positions; }
  // NULL where the model has none.
  const uint32_t* segments(uint32_t script, uint32_t first) const {
    return segments_.empty() ? nullptr : segments_.data() + script * positions + first;
  }
  // A script that begins with the first `length` tokens of this one.
  uint32_t going_on(generator::Choices* choices, uint32_t script, uint32_t length) const {
    const uint32_t open = bits_ - (length == 0 ? 0 : bits_at(length - 1));
    return (script >> open << open) | choices->below(1u << open);
  }

  const uint32_t positions, scripts;

 private:
  // Leading bits of a script that say its token at a position.
  uint32_t bits_at(uint32_t position) const {
    const uint32_t bits = 1 + position * bits_ / positions;
    return bits < bits_ ? bits : bits_;
  }

  uint32_t bits_;
  std::vector<uint32_t> ids_, segments_;
};

}  // namespace long_run
