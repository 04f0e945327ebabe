// Generated from src/facts/descriptor.toml by `make generate`: edit that, not this.
// The activations; formulas are in src/kernels.
#pragma once
#include <stdint.h>

#include "build.h"

namespace phasor {

enum Activation : uint32_t {
  kHeadNone = 0,
  kRelu = 1,
  kGeluErf = 2,
  kGeluTanh = 3,
  kSilu = 4,
  kHeadTanh = 5,
  kRelu2 = 6,
  kXielu = 7
};

constexpr bool kHasRelu = built("relu");
constexpr bool kHasGelu = built("gelu");
constexpr bool kHasGeluTanh = built("gelu-tanh");
constexpr bool kHasSilu = built("silu");
constexpr bool kHasRelu2 = built("relu2");
constexpr bool kHasXielu = built("xielu");

// How many words of PHASOR_ONLY are activations.
constexpr unsigned kActivationWords =
    has_word(PHASOR_ONLY, "relu") +
    has_word(PHASOR_ONLY, "gelu") +
    has_word(PHASOR_ONLY, "gelu-tanh") +
    has_word(PHASOR_ONLY, "silu") +
    has_word(PHASOR_ONLY, "relu2") +
    has_word(PHASOR_ONLY, "xielu");

// What a build has of a feed-forward's and of a head's, a bit by number.
constexpr uint32_t kFfnActivations =
    (kHasRelu ? 1u << kRelu : 0u) |
    (kHasGelu ? 1u << kGeluErf : 0u) |
    (kHasGeluTanh ? 1u << kGeluTanh : 0u) |
    (kHasSilu ? 1u << kSilu : 0u) |
    (kHasRelu2 ? 1u << kRelu2 : 0u) |
    (kHasXielu ? 1u << kXielu : 0u);
constexpr uint32_t kHeadActivations =
    (kFfnActivations & ~(1u << kXielu)) |
    1u << kHeadNone |
    1u << kHeadTanh;
constexpr uint32_t kActivationCodes = 8;  // with 0

// ROW(constant, built) of each that a feed-forward may have.
#define PHASOR_ACTIVATIONS(ROW) \
  ROW(kRelu, kHasRelu)          \
  ROW(kGeluErf, kHasGelu)       \
  ROW(kGeluTanh, kHasGeluTanh)  \
  ROW(kSilu, kHasSilu)          \
  ROW(kRelu2, kHasRelu2)        \
  ROW(kXielu, kHasXielu)

}  // namespace phasor
