// runtime: attention over pages of 16 positions (Vaswani et al. 2017, section 3.2; rules 1.6, 1.7
// and 1.9), with every term that a position adds to a score: relative keys and values (Shaw et al.
// 2018), k·a and the three-way product (Huang et al. 2020), tables of each head (He et al. 2021),
// T5's bias by distance (Raffel et al. 2020) and ALiBi (Press et al. 2022); and the additive score
// (Bahdanau et al. 2015).
#pragma once
#include "heads.h"

namespace phasor {

// For every row: `attention` = softmax(scores)·v, heads side by side; the queries lie in `wide`.
// Fills kPartAttentionWeights too, where it is wanted: 0 for keys that a row does not see.
// source: of merged attention, the encoder's keys and values, which the softmax is over too (rule
// 1.25).
void attend(const Chunk& c, const Heads& heads, const Heads* source = nullptr) noexcept;

}  // namespace phasor
