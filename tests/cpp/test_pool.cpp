// The program's thread pool: every piece of a job exactly once, whatever the number of threads, and
// the time it takes to meet.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "../../src/cli/host/pool.h"
#include "cases.h"

namespace {

struct Job {
  std::vector<std::atomic<uint32_t>> times;
  explicit Job(uint32_t count) : times(count) {}
  static void piece(void* self, uint32_t i) {
    static_cast<Job*>(self)->times[i].fetch_add(1, std::memory_order_relaxed);
  }
  bool each_once() const {
    for (const auto& t : times)
      if (t.load() != 1) return false;
    return true;
  }
};

}  // namespace

TEST_CASE("pool: every piece exactly once") {
  for (uint32_t threads = 1; threads <= 7; ++threads) {
    cli::Pool pool;
    REQUIRE(pool.start(threads));
    uint32_t wrong = 0;
    for (uint32_t round = 0; round < 300; ++round)
      for (uint32_t count : {0u, 1u, 2u, threads, 64u}) {
        Job job(count);
        pool.run(&Job::piece, &job, count);
        wrong += !job.each_once();
      }
    Job many(1000);
    pool.run(&Job::piece, &many, 1000);
    CHECK(many.each_once());
    CHECK_MESSAGE(wrong == 0, threads, " threads");
  }
}

TEST_CASE("pool: what a piece writes is there afterwards") {
  cli::Pool pool;
  REQUIRE(pool.start(3));
  struct Sum {
    uint64_t part[5];
  } sum{};
  uint64_t total = 0;
  for (uint32_t round = 0; round < 2000; ++round) {
    pool.run([](void* s, uint32_t i) { static_cast<Sum*>(s)->part[i] += i + 1; }, &sum, 5);
    total += sum.part[round % 5];  // not atomic: the pool orders it
  }
  CHECK(total != 0);
  for (uint32_t i = 0; i < 5; ++i) CHECK(sum.part[i] == 2000 * (i + 1));
}

TEST_CASE("pool: a signal that ends the program is the main thread's, a fault is who made it's") {
  cli::Pool pool;
  REQUIRE(pool.start(3));
  struct Masks {
    std::atomic<uint32_t> here{0}, held{0}, faults{0};
  } masks;
  pool.run(
      [](void* self, uint32_t) {  // a piece ends when each thread has one
        Masks* m = static_cast<Masks*>(self);
        sigset_t now;
        pthread_sigmask(SIG_BLOCK, nullptr, &now);
        const auto held = [&now](int number) { return sigismember(&now, number) == 1; };
        m->held += held(SIGTERM) && held(SIGINT) && held(SIGHUP) && held(SIGPIPE) && held(SIGABRT);
        m->faults += held(SIGBUS) || held(SIGSEGV) || held(SIGFPE);
        m->here.fetch_add(1);
        while (m->here.load() < 3) std::this_thread::yield();
      },
      &masks, 3);
  CHECK(masks.held == 2);  // the caller's thread is as it was
  CHECK(masks.faults == 0);
}

TEST_CASE("pool: workers that have parked come back") {
  cli::Pool pool;
  REQUIRE(pool.start(4));
  for (int round = 0; round < 20; ++round) {
    // around the end of the spin
    std::this_thread::sleep_for(std::chrono::microseconds(round * 50));
    Job job(16);
    pool.run(&Job::piece, &job, 16);
    CHECK(job.each_once());
  }
}

TEST_CASE("pool: time of a job that needs every thread") {
  const uint32_t cores = std::thread::hardware_concurrency();
  for (uint32_t threads = 2; threads <= 4 && threads <= cores; ++threads) {
    cli::Pool pool;
    REQUIRE(pool.start(threads));
    struct Meeting {
      std::atomic<uint32_t> here{0};
      uint32_t threads;
    } meeting;
    meeting.threads = threads;
    constexpr uint32_t kJobs = 2000;
    const auto start = std::chrono::steady_clock::now();
    for (uint32_t i = 0; i < kJobs; ++i) {
      meeting.here.store(0);
      pool.run(
          [](void* m, uint32_t) {  // a piece ends when each thread has one
            Meeting* all = static_cast<Meeting*>(m);
            all->here.fetch_add(1);
            while (all->here.load() < all->threads) std::this_thread::yield();
          },
          &meeting, threads);
    }
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count() /
        kJobs;
    MESSAGE(threads, " threads on ", cores, " cores: ", us, " us a job");
  }
}
