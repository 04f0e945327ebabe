// Only builds with red zones have anything of this file.
#include "zones.h"

#if defined(PHASOR_RED_ZONES)

#include "session.h"

// The core includes nothing of a system: these builds run on hosts that have it.
extern "C" intptr_t write(int file, const void* bytes, size_t count);

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PHASOR_ASAN 1
#endif
#if __has_feature(memory_sanitizer)
#define PHASOR_MSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define PHASOR_ASAN 1
#endif
#if defined(PHASOR_ASAN)
extern "C" void __asan_poison_memory_region(const volatile void* memory, size_t bytes);
extern "C" void __asan_unpoison_memory_region(const volatile void* memory, size_t bytes);
#endif
#if defined(PHASOR_MSAN)
extern "C" void __msan_allocated_memory(const volatile void* memory, size_t bytes);
#endif

namespace phasor {
namespace {

constexpr unsigned char kZoneValue = 0xC5;

// The bytes between the end of a part's values and the next part.
struct Zone {
  unsigned char* first;
  uint64_t bytes;
};
Zone zone_of(const Session& s, uint32_t part) {
  const Plan& p = s.plan;
  const uint64_t begin = p.offset[part] + p.bytes[part];
  const uint64_t end = part + 1 < kPartCount ? p.offset[part + 1] : p.total;
  return {reinterpret_cast<unsigned char*>(const_cast<Session*>(&s)) + begin, end - begin};
}

// Also of bytes that are poisoned.
__attribute__((no_sanitize("address"))) bool untouched(const Zone& zone) {
  for (uint64_t i = 0; i < zone.bytes; ++i)
    if (zone.first[i] != kZoneValue) return false;
  return true;
}

template <class... Parts>
[[noreturn]] void stop(Parts... parts) {
  char text[200];
  Line line(text, sizeof text);
  (line.add(parts), ...);
  (void)!write(2, text, __builtin_strlen(text));
  __builtin_abort();
}

}  // namespace

void outside_part(uint32_t part, const char* what, uint64_t first, uint64_t count,
                  uint64_t held) noexcept {
  stop("phasor: part \"", part_name(part), "\" of the arena: ", count, " ", what, " from ", first,
       " on, its view has ", held, "\n");
}

void clear_zones(void* memory, uint64_t bytes) noexcept {
#if defined(PHASOR_ASAN)
  __asan_unpoison_memory_region(memory, static_cast<size_t>(bytes));
#endif
  forget(memory, bytes);
}

void forget(void* memory, uint64_t bytes) noexcept {
#if defined(PHASOR_MSAN)
  __msan_allocated_memory(memory, static_cast<size_t>(bytes));
#else
  (void)memory, (void)bytes;
#endif
}

void forget_work(const Session& s) noexcept {
  constexpr Part kWork[] = {kPartEncoderCache, kPartResidual,         kPartNormed, kPartWide,
                            kPartAttention,    kPartQuantized,        kPartScores, kPartPointers,
                            kPartRows,         kPartAttentionWeights, kPartText};
  for (const Part p : kWork)
    forget(s.whole<unsigned char>(p).at(0, s.plan.bytes[p]), s.plan.bytes[p]);
}

void set_zones(Session* s) noexcept {
  for (uint32_t part = 0; part < kPartCount; ++part) {
    const Zone zone = zone_of(*s, part);
    memset(zone.first, kZoneValue, static_cast<size_t>(zone.bytes));
#if defined(PHASOR_ASAN)
    __asan_poison_memory_region(zone.first, static_cast<size_t>(zone.bytes));
#endif
  }
}

void check_zones(const Session& s) noexcept {
  for (uint32_t part = 0; part < kPartCount; ++part) {
    if (untouched(zone_of(s, part))) continue;
    stop("phasor: the red zone behind part \"", part_name(part), "\" of the arena was written\n");
  }
}

}  // namespace phasor

#endif
