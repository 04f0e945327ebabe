// cli: what this machine can do, and what this process takes of it: read bandwidth, peak
// arithmetic, energy, memory, page faults, start-up. Knows the model only as something whose
// level's arithmetic can be asked for its peak.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "../../../include/phasor.h"

#include "system.h"

namespace cli {

// The best of several passes, on `threads` threads at once. 0: could not be measured.
// bytes a second, of a block of this size read again and again
double read_bandwidth(size_t bytes, uint32_t threads);
// operations a second, two for each multiply-add
double peak_arithmetic(const phasor_model* model, uint32_t what, uint32_t threads);
// Seconds of a job without work that every thread has a piece of, from giving it out to the last
// one's end: the median. 0 for one thread.
double fork_and_join(uint32_t threads);

// Joules that the processor's packages have used so far, as the system tells (RAPL); they start
// over, so look at differences.
class Energy {
 public:
  Energy();
  bool told() const { return !zones_.empty(); }
  double since_last();  // joules

 private:
  struct Zone {
    string file;
    uint64_t last, range;  // microjoules
  };
  vector<Zone> zones_;
};

struct Memory {
  uint64_t peak = 0;  // largest resident size
  uint64_t now = 0;   // resident
  // resident beside the file's pages and the arena's: the program, its libraries, and what follows
  uint64_t beyond = 0;
  // of these, what only this process has: data, heap, stacks, the model's block
  uint64_t own = 0;
};
Memory memory_in_use(const void* file, size_t file_bytes, const void* arena, size_t arena_bytes);

struct Faults {
  uint64_t minor = 0, major = 0;
};
Faults page_faults();  // of this process so far
Faults operator-(Faults a, Faults b);

// Seconds from starting this program with these arguments to the first byte of its output; negative
// when it fails.
double seconds_to_output(const vector<string>& arguments);

// Asks the system to forget the file's pages. Returns the share of them that it still has.
double forget_pages(const char* path);

// bytes: far more than the caches hold, and no more than a quarter of the memory that is free
size_t beyond_caches();

}  // namespace cli
