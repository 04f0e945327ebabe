// Generated from include/phasor.h by `make generate`: edit that, not this.
// The types of the cache (rule 1.8): the formats of keys and values.
#pragma once
#include <stdint.h>

#include "build.h"

namespace phasor {

enum CacheType : uint32_t { kCacheF32 = 0, kCacheF16 = 1, kCacheQ8 = 2 };
constexpr uint32_t kCacheTypes = 3;
constexpr const char* kCacheNames[] = {"f32", "f16", "q8"};

constexpr bool kHasCacheF32 = true;
constexpr bool kHasCacheF16 = built("cache-f16");
constexpr bool kHasCacheQ8 = built("cache-q8");
// How many words of PHASOR_ONLY are types of the cache.
constexpr unsigned kCacheWords =
    has_word(PHASOR_ONLY, "cache-f16") + has_word(PHASOR_ONLY, "cache-q8");

#define PHASOR_CACHES(ROW) ROW(CacheF32) ROW(CacheF16) ROW(CacheQ8)

}  // namespace phasor
