#include "machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "mapping.h"
#include "memory.h"
#include "pool.h"
#include "system.h"

extern char** environ;

namespace cli {
namespace {

constexpr int kPasses = 5;
constexpr double kPeakSeconds = 0.01;

using Words = uint64_t __attribute__((vector_size(16)));

// Reads everything, eight chains wide.
uint64_t read_all(const unsigned char* p, size_t bytes) {
  Words sum[8] = {};
  for (const unsigned char* end = p + bytes / 128 * 128; p != end; p += 128) {
    const Words* w = reinterpret_cast<const Words*>(p);
    for (int i = 0; i < 8; ++i) sum[i] ^= w[i];
  }
  for (int i = 1; i < 8; ++i) sum[0] ^= sum[i];
  return sum[0][0] ^ sum[0][1];
}

// work(thread) on each of `threads` threads, all begun together; the seconds until the last is
// done.
template <class F>
double timed(Pool* pool, uint32_t threads, F work) {
  const double start = now();
  pool->run([](void* f, uint32_t thread) { (*static_cast<F*>(f))(thread); }, &work, threads);
  return now() - start;
}

uint64_t number_in(const string& path) {
  return strtoull(line_of(path.c_str(), "").c_str(), nullptr, 10);
}

}  // namespace

size_t beyond_caches() {
  uint64_t wanted = uint64_t(128) << 20;
#if defined(_SC_LEVEL3_CACHE_SIZE)
  const long last = sysconf(_SC_LEVEL3_CACHE_SIZE);
  if (last > 0) wanted = max(wanted, 4 * uint64_t(last));
#endif
  return size_t(min(free_memory() / 4, wanted));
}

double read_bandwidth(size_t bytes, uint32_t threads) {
  Block block;
  Pool pool;
  const size_t part = bytes / threads / 128 * 128;
  if (part == 0 || !block.allocate(bytes) || !pool.start(threads)) return 0;
  unsigned char* data = static_cast<unsigned char*>(block.data());
  memset(data, 1, bytes);
  const size_t times = 1 + (size_t(16) << 20) / bytes;  // long enough for the clock
  vector<uint64_t> sums(threads * 8);                   // a cache line each
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    const double s = timed(&pool, threads, [&](uint32_t t) {
      for (size_t n = 0; n < times; ++n) sums[t * 8] += read_all(data + t * part, part);
    });
    best = max(best, double(part) * double(times) * threads / s);
  }
  volatile uint64_t sink = 0;  // the reading is not left out
  for (uint64_t s : sums) sink = sink ^ s;
  return best;
}

double peak_arithmetic(const phasor_model* model, uint32_t what, uint32_t threads) {
  Pool pool;
  if (!pool.start(threads)) return 0;
  uint64_t rounds = 1;
  double once = 0;
  while (once < kPeakSeconds) {  // on one thread: how many rounds take long enough for the clock
    rounds *= 2;
    const double start = now();
    (void)phasor_model_peak(model, what, rounds);
    once = now() - start;
  }
  vector<uint64_t> done(threads * 8);
  double best = 0;
  for (int i = 0; i < kPasses; ++i) {
    const double s = timed(
        &pool, threads, [&](uint32_t t) { done[t * 8] = phasor_model_peak(model, what, rounds); });
    uint64_t all = 0;
    for (uint32_t t = 0; t < threads; ++t) all += done[t * 8];
    best = max(best, 2.0 * double(all) / s);
  }
  return best;
}

// A piece waits until each thread has one, so that none is left out.
double fork_and_join(uint32_t threads) {
  struct Meeting {
    alignas(64) std::atomic<uint32_t> here{0};
    uint32_t wanted = 0;
  } meeting;
  constexpr int kJobs = 32, kBlocks = 501;
  Pool pool;
  if (threads < 2 || processors() < threads || !pool.start(threads)) return 0;
  vector<double> seconds;
  const double begun = now();
  for (int block = 0; block < kBlocks && (block == 0 || now() - begun < kPeakSeconds * 10);
       ++block) {
    const double start = now();
    for (int i = 0; i < kJobs; ++i) {
      meeting.wanted += threads;
      pool.run(
          [](void* self, uint32_t) {
            Meeting* m = static_cast<Meeting*>(self);
            m->here.fetch_add(1, std::memory_order_relaxed);
            for (int turn = 0; m->here.load(std::memory_order_relaxed) < m->wanted; ++turn)
              if (turn > 10000) sched_yield();  // the other's processor is busy with something else
          },
          &meeting, threads);
    }
    seconds.push_back((now() - start) / kJobs);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

Energy::Energy() {
  const string root = "/sys/class/powercap/";
  DIR* folder = opendir(root.c_str());
  if (folder == nullptr) return;
  while (const dirent* entry = readdir(folder)) {
    unsigned package = 0;
    int length = 0;  // "intel-rapl:0", not its parts "intel-rapl:0:0"
    if (sscanf(entry->d_name, "intel-rapl:%u%n", &package, &length) != 1 ||
        entry->d_name[length] != 0)
      continue;
    const string zone = root + entry->d_name;
    if (access((zone + "/energy_uj").c_str(), R_OK) == 0)
      zones_.push_back({zone + "/energy_uj", number_in(zone + "/energy_uj"),
                        number_in(zone + "/max_energy_range_uj")});
  }
  closedir(folder);
}

double Energy::since_last() {
  double joules = 0;
  for (Zone& z : zones_) {
    const uint64_t at = number_in(z.file);
    joules += double(at >= z.last ? at - z.last : at + z.range - z.last) * 1e-6;
    z.last = at;
  }
  return joules;
}

// What the system says of each mapping is exact; its sum in /proc/self/status may be some pages
// behind. Those of a file and of a block are theirs alone.
Memory memory_in_use(const void* file, size_t file_bytes, const void* arena, size_t arena_bytes) {
  Memory m;
  FILE* f = fopen("/proc/self/smaps", "r");
  if (f == nullptr) return m;
  const unsigned long long at = reinterpret_cast<uintptr_t>(file),
                           arena_at = reinterpret_cast<uintptr_t>(arena);
  unsigned long long low = 0, high = 0, kib = 0;
  bool beyond = true;
  char line[512];
  while (fgets(line, sizeof line, f) != nullptr) {
    if (sscanf(line, "%llx-%llx ", &low, &high) == 2)
      beyond = (high <= at || low >= at + file_bytes) &&
               (high <= arena_at || low >= arena_at + arena_bytes);
    else if (sscanf(line, "Rss: %llu", &kib) == 1) {
      m.now += kib * 1024;
      if (beyond) m.beyond += kib * 1024;
    } else if (beyond && sscanf(line, "Anonymous: %llu", &kib) == 1) {
      m.own += kib * 1024;
    }
  }
  fclose(f);
  struct rusage usage;
  m.peak = getrusage(RUSAGE_SELF, &usage) == 0 ? uint64_t(usage.ru_maxrss) * 1024 : 0;
  m.peak = max(m.peak, m.now);
  return m;
}

Faults page_faults() {
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return {};
  return {uint64_t(usage.ru_minflt), uint64_t(usage.ru_majflt)};
}

Faults operator-(Faults a, Faults b) { return {a.minor - b.minor, a.major - b.major}; }

double seconds_to_output(const vector<string>& arguments) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addclose(&actions, ends[0]);
  posix_spawn_file_actions_addclose(&actions, ends[1]);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  string program = "phasor";
  vector<string> words = arguments;
  vector<char*> argv = {&program[0]};
  for (string& word : words) argv.push_back(&word[0]);
  argv.push_back(nullptr);
  pid_t child = 0;
  const double start = now();
  const int failed = posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  char bytes[256];
  ssize_t got = failed == 0 ? read(ends[0], bytes, sizeof bytes) : 0;
  const bool came = got > 0;
  const double seconds = now() - start;
  while (got > 0) got = read(ends[0], bytes, sizeof bytes);
  close(ends[0]);
  int status = 1;
  if (failed == 0) (void)waitpid(child, &status, 0);
  return came && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? seconds : -1;
}

double forget_pages(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat s;
  Mapping mapping;
#if defined(POSIX_FADV_DONTNEED)
  if (fd >= 0) (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
  const bool mapped =
      fd >= 0 && fstat(fd, &s) == 0 && s.st_size > 0 && mapping.map(fd, size_t(s.st_size));
  if (fd >= 0) close(fd);
  return mapped ? share_in_memory(mapping.data(), size_t(s.st_size)) : 1;
}

}  // namespace cli
