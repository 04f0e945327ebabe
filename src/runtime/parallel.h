// runtime: spreads independent pieces of work over the caller's threads. What is computed never depends on how many there are:
// a piece is a set of whole outputs, heads or rows (rules 1.1, 1.6).
#pragma once
#include "session.h"

namespace phasor {

constexpr uint64_t kWorthThreads = 1u << 15;  // multiply-adds below which waking a thread costs more than it gives

template <class F>
struct Share {
  F* work;
  uint32_t units, workers;
};

template <class F>
void run_share(void* context, uint32_t worker) {
  const Share<F>* share = static_cast<const Share<F>*>(context);
  const uint64_t units = share->units;
  const uint32_t first = static_cast<uint32_t>(units * worker / share->workers);
  const uint32_t end = static_cast<uint32_t>(units * (worker + 1) / share->workers);
  const uint64_t mode = fp_mode_enter();  // a worker has its own mode (rule 1.13)
  (*share->work)(first, end, worker);
  fp_mode_leave(mode);
}

// Calls work(first, end, worker) so that 0 … units−1 are covered once; worker < limits.threads. `cost` is the whole job's
// multiply-adds.
template <class F>
void spread(Session* s, uint32_t units, uint64_t cost, F work) {
  const uint32_t workers = units < s->plan.threads ? units : s->plan.threads;
  if (workers <= 1 || cost < kWorthThreads || s->run.pointer == nullptr) {
    if (units != 0) work(0u, units, 0u);
    return;
  }
  Share<F> share{&work, units, workers};
  s->run.pointer(s->run_user.pointer, &run_share<F>, &share, workers);
}

}  // namespace phasor
