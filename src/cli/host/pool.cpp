#include "pool.h"

#include <sched.h>

#include "system.h"

namespace cli {
namespace {

// Longer than anything a forward pass does on one thread between two jobs, short enough not to be
// felt when work ends.
constexpr double kSpinSeconds = 200e-6;
constexpr uint32_t kPausesBeforeYield = 2000;

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || (defined(__arm__) && (__ARM_ARCH >= 7 || defined(__ARM_ARCH_6K__)))
  __asm__ volatile("yield" ::: "memory");
#endif
}

uint32_t left(uint64_t job) { return uint32_t(job); }

}  // namespace

Pool::~Pool() {
  pthread_mutex_lock(&mutex_);
  stop_.store(true);
  pthread_cond_broadcast(&wake_);
  pthread_mutex_unlock(&mutex_);
  for (pthread_t t : workers_) pthread_join(t, nullptr);
}

bool Pool::start(uint32_t threads) {
  // With fewer cores than threads a spinning worker would only keep the one that has work from
  // running.
  spin_ = threads > 1 && processors() >= threads ? kSpinSeconds : 0;
  for (uint32_t i = 1; i < threads; ++i) {
    pthread_t t;
    if (!start_thread(&t, &worker, this)) return false;
    workers_.push_back(t);
  }
  return true;
}

phasor_parallel Pool::parallel() {
  return {sizeof(phasor_parallel),
          [](void* self, phasor_task task, void* context, uint32_t count) {
            static_cast<Pool*>(self)->run(task, context, count);
          },
          this};
}

void Pool::run(phasor_task task, void* context, uint32_t count) {
  if (workers_.empty() || count < 2) {
    for (uint32_t i = 0; i < count; ++i) task(context, i);
    return;
  }
  task_.store(task, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  done_.store(0, std::memory_order_relaxed);
  job_.store(uint64_t(++number_) << 32 | count);
  // A worker counts itself as parked before it looks at the job for the last time, and we store the
  // job before we look at the count: both in the one order of sequential consistency, so one of the
  // two sees the other.
  if (parked_.load() != 0) {
    pthread_mutex_lock(&mutex_);
    pthread_cond_broadcast(&wake_);
    pthread_mutex_unlock(&mutex_);
  }
  while (take_one()) {
  }
  const uint32_t patience = spin_ > 0 ? kPausesBeforeYield : 0;
  for (uint32_t i = 0; done_.load(std::memory_order_acquire) != count; ++i) {
    if (i < patience)
      pause_cpu();
    else
      sched_yield();
  }
}

bool Pool::take_one() {
  uint64_t job = job_.load(std::memory_order_acquire);
  while (left(job) != 0) {
    const phasor_task task = task_.load(std::memory_order_relaxed);
    void* context = context_.load(std::memory_order_relaxed);
    if (!job_.compare_exchange_weak(job, job - 1, std::memory_order_acq_rel,
                                    std::memory_order_acquire))
      continue;
    task(context, left(job) - 1);
    done_.fetch_add(1, std::memory_order_release);
    return true;
  }
  return false;
}

void* Pool::worker(void* self) {
  static_cast<Pool*>(self)->work();
  return nullptr;
}

void Pool::work() {
  double since = now();
  while (!stop_.load(std::memory_order_relaxed)) {
    bool worked = false;
    while (take_one()) worked = true;
    if (worked) since = now();
    for (int i = 0; i < 32 && left(job_.load(std::memory_order_relaxed)) == 0; ++i) pause_cpu();
    if (now() - since < spin_) continue;
    park();
    since = now();
  }
}

void Pool::park() {
  pthread_mutex_lock(&mutex_);
  parked_.fetch_add(1);
  while (left(job_.load()) == 0 && !stop_.load()) pthread_cond_wait(&wake_, &mutex_);
  parked_.fetch_sub(1);
  pthread_mutex_unlock(&mutex_);
}

}  // namespace cli
