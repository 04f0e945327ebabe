// cli: threads for phasor_parallel. Workers stay; they spin for a bounded time between jobs, so
// that the pieces of a forward pass, microseconds apart, cost no system call, and then park. The
// caller takes part. Knows nothing of models.
#pragma once
#include <pthread.h>
#include <stdint.h>

#include <atomic>

#include "../../../include/phasor.h"

#include "system.h"

namespace cli {

class Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();

  // the caller's included; false when the system gives no more threads
  bool start(uint32_t threads);
  void run(phasor_task task, void* context, uint32_t count);
  phasor_parallel parallel();  // for phasor_session_open; the pool outlives the session

 private:
  static void* worker(void* self);
  void work();      // until the pool stops
  bool take_one();  // one piece of the job at hand; false when there is none left
  void park();

  // A job is one word: its number in the high half, the pieces not yet taken in the low one. A
  // piece is taken by a compare-and-swap on it, so a worker that is late cannot take a piece of a
  // job it has not seen; and while a piece is not taken the job is not done, so task and context
  // are the job's own whenever the swap succeeds.
  std::atomic<uint64_t> job_{0};
  std::atomic<phasor_task> task_{nullptr};
  std::atomic<void*> context_{nullptr};
  alignas(64) std::atomic<uint32_t> done_{0};
  alignas(64) std::atomic<uint32_t> parked_{0};
  std::atomic<bool> stop_{false};
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_ = PTHREAD_COND_INITIALIZER;
  vector<pthread_t> workers_;
  uint32_t number_ = 0;
  double spin_ = 0;  // seconds
};

}  // namespace cli
