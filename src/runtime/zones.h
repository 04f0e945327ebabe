// runtime: red zones. Builds with PHASOR_RED_ZONES (config=debug and sanitize, the fuzzers) put
// bytes that nobody may touch behind every part of an arena: poisoned for the address sanitizer
// where there is one, and with a known value, which is looked at when a call ends. The memory
// sanitizer is told which bytes of a block nobody has written yet. The sizes of other builds have
// none of it.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace phasor {

struct Session;

#if defined(PHASOR_RED_ZONES)
constexpr bool kRedZones = true;
#else
constexpr bool kRedZones = false;
#endif
constexpr uint32_t kZoneBytes =
    kRedZones ? 256 : 0;  // behind each part, and what rounds it up to 64

#if defined(PHASOR_RED_ZONES)

// Ends the program with a line: who asked for `count` rows or values from `first` on, and the
// part's view has `held`.
[[noreturn]] void outside_part(uint32_t part, const char* what, uint64_t first, uint64_t count,
                               uint64_t held) noexcept;

// Memory that may have had a session's zones in it is plain again.
void clear_zones(void* memory, uint64_t bytes) noexcept;
void set_zones(Session* s) noexcept;
// Ends the program with a line that names the part behind which something was written.
void check_zones(const Session& s) noexcept;
// For the memory sanitizer: what is in these bytes means nothing until they are written again.
void forget(void* memory, uint64_t bytes) noexcept;
// The same for the parts that no call leaves anything in for the next.
void forget_work(const Session& s) noexcept;

#else

inline void clear_zones(void*, uint64_t) noexcept {}
inline void set_zones(Session*) noexcept {}
inline void check_zones(const Session&) noexcept {}
inline void forget(void*, uint64_t) noexcept {}
inline void forget_work(const Session&) noexcept {}

#endif

// Looks at a session's zones when a call ends. The call begins with nothing in the rows in work.
class ZoneGuard {
 public:
  explicit ZoneGuard(const Session* session) : s_(session) {
    if (session != nullptr) forget_work(*session);
  }
  ~ZoneGuard() { check_zones(*s_); }
  ZoneGuard(const ZoneGuard&) = delete;
  ZoneGuard& operator=(const ZoneGuard&) = delete;

 private:
  const Session* s_;
};

}  // namespace phasor
