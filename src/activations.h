// The activations of docs/format.md, in the order of their numbers. A row has the word of
// PHASOR_ONLY, whether that is built, the constant, the number, and the name for people; FFN is an
// activation of a feed-forward or a head, HEAD of a head only. xIELU has numbers of its layer, and
// is of a feed-forward only. The formulas are in src/kernels.
#pragma once
#include <stdint.h>

#include "build.h"

#define PHASOR_ACTIVATIONS(FFN, HEAD)                         \
  FFN("relu", kHasRelu, kRelu, 1, "ReLU")                     \
  FFN("gelu", kHasGelu, kGeluErf, 2, "GELU (erf)")            \
  FFN("gelu-tanh", kHasGeluTanh, kGeluTanh, 3, "GELU (tanh)") \
  FFN("silu", kHasSilu, kSilu, 4, "SiLU")                     \
  HEAD(kHeadTanh, 5, "tanh")                                  \
  FFN("relu2", kHasRelu2, kRelu2, 6, "squared ReLU")          \
  FFN("xielu", kHasXielu, kXielu, 7, "xIELU")

namespace phasor {

#define PHASOR_CONSTANT(word, is_built, constant, number, name) constant = number,
#define PHASOR_HEAD_CONSTANT(constant, number, name) constant = number,
enum Activation : uint32_t { PHASOR_ACTIVATIONS(PHASOR_CONSTANT, PHASOR_HEAD_CONSTANT) };

#define PHASOR_BUILT(word, is_built, constant, number, name) constexpr bool is_built = built(word);
#define PHASOR_HEAD_BUILT(constant, number, name)
PHASOR_ACTIVATIONS(PHASOR_BUILT, PHASOR_HEAD_BUILT)

// How many words of PHASOR_ONLY are activations.
#define PHASOR_WORD(word, is_built, constant, number, name) +has_word(PHASOR_ONLY, word)
constexpr unsigned kActivationWords = 0 PHASOR_ACTIVATIONS(PHASOR_WORD, PHASOR_HEAD_BUILT);

// Codes go from 1 on without holes; 0 is none.
#define PHASOR_ONE(word, is_built, constant, number, name) +1
#define PHASOR_HEAD_ONE(constant, number, name) +1
constexpr uint32_t kActivationCodes = 1 PHASOR_ACTIVATIONS(PHASOR_ONE, PHASOR_HEAD_ONE);

// A bit by number for each that a feed-forward may have in this build, and the names of all.
#define PHASOR_BIT(word, is_built, constant, number, name) | (is_built ? 1u << number : 0u)
#define PHASOR_NO_BIT(constant, number, name)
constexpr uint32_t kFfnActivations = 0u PHASOR_ACTIVATIONS(PHASOR_BIT, PHASOR_NO_BIT);

// The largest number that a feed-forward may have, built or not.
#define PHASOR_LARGER(word, is_built, constant, number, name) last = number;
constexpr uint32_t last_activation() {
  uint32_t last = 0;
  PHASOR_ACTIVATIONS(PHASOR_LARGER, PHASOR_NO_BIT)
  return last;
}
constexpr uint32_t kLastActivation = last_activation();

#define PHASOR_NAME(word, is_built, constant, number, name) "|" name
#define PHASOR_HEAD_NAME(constant, number, name) "|" name
#define PHASOR_ACTIVATION_NAMES PHASOR_ACTIVATIONS(PHASOR_NAME, PHASOR_HEAD_NAME)

}  // namespace phasor
