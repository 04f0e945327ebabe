// Counted work: what loops over a file's or a text's bytes report where a bound on their time is
// tested (tests/cpp/bounds). A build without PHASOR_COUNT_WORK has no counter and no code for it.
// Includes nothing of the project.
#pragma once
#include <cstdint>

namespace phasor {

#ifdef PHASOR_COUNT_WORK
inline std::uint64_t work_done = 0;
inline void work(std::uint64_t steps = 1) noexcept { work_done += steps; }
#else
inline void work(std::uint64_t = 1) noexcept {}
#endif

}  // namespace phasor
