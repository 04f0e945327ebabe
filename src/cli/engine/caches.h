// Generated from include/phasor.h by `make generate`: edit that, not this.
// What --cache takes.
#pragma once
#include <stdint.h>

#define CACHE_CHOICES "f32|f16|q8"

namespace cli {
constexpr uint32_t kCacheTypes = 3;
constexpr const char* kCacheNames[] = {"f32", "f16", "q8"};
}  // namespace cli
