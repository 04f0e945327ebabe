// runtime: spreads independent pieces of work over the caller's threads. What is computed never
// depends on how many there are: a piece is a set of whole outputs, heads or rows (rules 1.1, 1.6).
#pragma once
#include "session.h"

namespace phasor {

// Units first … end − 1 of a job, on one worker.
using Piece = void (*)(void* job, uint32_t first, uint32_t end, uint32_t worker);
void spread_pieces(const Session& s, uint32_t units, uint64_t cost, Piece piece,
                   void* job) noexcept;

// Calls work(first, end, worker) so that 0 … units−1 are covered once; worker < limits.threads.
// `cost` is the whole job's multiply-adds.
template <class F>
void spread(const Session& s, uint32_t units, uint64_t cost, F work) {
  spread_pieces(
      s, units, cost,
      [](void* job, uint32_t first, uint32_t end, uint32_t worker) {
        (*static_cast<F*>(job))(first, end, worker);
      },
      &work);
}

}  // namespace phasor
