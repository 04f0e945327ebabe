// What threads do at the same time with one open model, each in a session of its own. A job gives
// the hash of all that came out of it; it depends on nothing but the model.
#pragma once
#include <functional>

#include "generator/choices.h"
#include "properties/trial.h"

namespace threads_test {

// What all threads read.
struct Shared {
  Shared(Block bytes, uint64_t seed);
  Block file;
  generator::Opened opened;
  generator::Sequences in;
  phasor_limits limits;
};

struct Job {
  const char* name;
  uint64_t (*run)(const Shared& shared);
};
// Those that this model has something for.
std::vector<Job> jobs_for(const Shared& shared);

// Runs task(0) … task(count − 1), each on a thread of its own, as nearly at once as can be; what
// the tasks threw comes back as lines.
std::vector<std::string> at_once(uint32_t count, const std::function<void(uint32_t)>& task);

}  // namespace threads_test
