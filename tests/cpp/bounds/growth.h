// Tests of bounds of time: the work that a call does is counted (src/work.h), its input is doubled,
// and the work may grow 2.2 times at most. That is less than n log n grows from n = 4,096 on, and
// far less than n squared.
#pragma once
#include <cstdint>
#include <string>

#include "cases.h"
#include "work.h"

namespace bound_tests {

constexpr double kMostGrowth = 2.2;

// What `run` does of counted work.
template <class Run>
std::uint64_t counted(Run run) {
  const std::uint64_t before = phasor::work_done;
  run();
  return phasor::work_done - before;
}

// run(n) and run(2n): the work grows as it may. Returns that of run(n).
template <class Run>
std::uint64_t check_growth(const std::string& what, std::size_t n, Run run) {
  const std::uint64_t once = counted([&] { run(n); }), twice = counted([&] { run(2 * n); });
  CAPTURE(what);
  CAPTURE(n);
  CAPTURE(once);
  CAPTURE(twice);
  CHECK(static_cast<double>(twice) <= kMostGrowth * static_cast<double>(once));
  return once;
}

}  // namespace bound_tests
