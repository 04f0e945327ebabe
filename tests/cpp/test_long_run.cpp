// Runs that go on for as long as one likes: steps, stops, forks, cuts, states and sources at
// random, on models with windows and without, against an oracle that forgets nothing.
//   LONG_STEPS=10000000   calls of phasor_step in place of the quick run's
//   LONG_SEED=7           other choices
//   LONG_LEVEL=scalar     an instruction-set level; the hash is that of every other
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "cases.h"
#include "generator/model_generator.h"
#include "heap_counter.h"
#include "long_run/epoch.h"

using namespace generator;
using namespace long_run;

namespace {

constexpr uint64_t kQuickSteps = 4000, kMostOfAModel = 20000;
constexpr long kMostGrowth = 4096;  // KiB: models differ in size
// Windows beside whole layers, rotary positions, a table of distances, encoder-decoders.
constexpr const char* kGolden[] = {"tiny-olmo2-f32", "tiny-three-way-lm-q8", "tiny-rotary-f16",
                                   "tiny-t5-q8", "tiny-clipped-f32"};
constexpr uint64_t kGoldens = sizeof kGolden / sizeof kGolden[0];
constexpr uint64_t kGoldenHash = 14508671766166443047u;  // of the quick run's, seed 1

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// KiB of this process that are in memory; 0 where the system does not say.
long resident() {
  long pages = 0;
  if (std::FILE* f = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(f, "%*s %ld", &pages) != 1) pages = 0;
    std::fclose(f);
  }
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

// A decoder with some positions and tokens, small enough for a long run.
bool fits(const Opened& o) {
  if (o.encoder() || o.inside().descriptor.sides[phasor::kDecoder].vocabulary < 4) return false;
  const uint32_t longest = phasor::longest_sequence(o.inside(), phasor::kDecoder);
  phasor_cost cost{};
  cost.struct_size = sizeof cost;
  need(phasor_model_cost(o.model(), 10, 32, &cost) == PHASOR_OK, "cost");
  return (longest == 0 || longest >= 16) && cost.step_macs < 60000 && cost.encode_macs < 600000;
}

// Golden models, a fifth of `steps` each, each one's sessions open all the time.
void run_golden(uint64_t seed, uint64_t steps, uint32_t bits, const char* level, Counts* counts) {
  Choices choices(seed);
  for (const char* name : kGolden) {
    const Block file = golden_file(name);
    Plan plan;
    plan.bits = bits;
    plan.steps = steps / kGoldens;
    need(play(&choices, Opened(file, level), plan, counts), "a golden model is not finite");
  }
}

struct Kinds {
  uint32_t models = 0, windowed = 0, sourced = 0;
};

// Models that nobody wrote; of those without a window, half.
void run_generated(uint64_t seed, uint64_t steps, uint64_t each, const char* level, Counts* counts,
                   Kinds* kinds) {
  Choices choices(~seed);
  for (const uint64_t end = counts->steps + steps; counts->steps < end; ++seed) {
    const Bytes bytes = generate_model(seed);
    const Block file(bytes.data(), bytes.size());
    const Opened opened(file, level);
    const bool windowed = opened.inside().window != 0;
    if (!fits(opened) || (!windowed && seed % 2 != 0)) continue;
    Plan plan;
    plan.steps = std::min(each, end - counts->steps);
    try {
      if (!play(&choices, opened, plan, counts)) continue;
    } catch (const Broken& what) {
      throw Broken("model " + std::to_string(seed) + ": " + what.what());
    }
    ++kinds->models;
    kinds->windowed += windowed;
    kinds->sourced += opened.sourced();
  }
}

void print(const Counts& c, const Kinds& kinds, double seconds, long before, long after) {
  for (uint32_t i = 0; i < kOperations; ++i)
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(c.operations[i]),
                kOperationNames[i]);
  std::printf(
      "%llu steps of %llu tokens, %llu rows compared; %llu cuts out of a ring's reach, %llu "
      "sequences emptied by a stop\n",
      static_cast<unsigned long long>(c.steps), static_cast<unsigned long long>(c.tokens),
      static_cast<unsigned long long>(c.rows), static_cast<unsigned long long>(c.cut_refused),
      static_cast<unsigned long long>(c.emptied));
  std::printf("%u generated models, %u with windows, %u with an encoder\n", kinds.models,
              kinds.windowed, kinds.sourced);
  std::printf("%.0f s, %.0f steps a second; resident %ld KiB, at the end %ld; hash %016llx\n",
              seconds, static_cast<double>(c.steps) / seconds, before, after,
              static_cast<unsigned long long>(c.hash));
}

std::string broken_by(const Plan& plan) {
  const Block file = golden_file("tiny-olmo2-f32");
  Choices choices(5);
  Counts counts;
  try {
    (void)play(&choices, Opened(file), plan, &counts);
  } catch (const Broken& what) {
    return what.what();
  }
  return "";
}

}  // namespace

TEST_CASE("long run: every result is that of a sequence from the start") {
  const uint64_t steps = number_of("LONG_STEPS", kQuickSteps), seed = number_of("LONG_SEED", 1);
  const char* const level = std::getenv("LONG_LEVEL");
  const auto start = std::chrono::steady_clock::now();
  Counts counts;
  Kinds kinds;
  run_golden(seed, steps / 2, steps > kQuickSteps ? 6 : 4, level, &counts);
  const uint64_t golden = counts.hash;
  const uint64_t each = std::min(kMostOfAModel, std::max<uint64_t>(steps / 10, 1));
  // A first part brings the heap to its size.
  run_generated(1000 * seed, steps / 10, each, level, &counts, &kinds);
  const long before = resident();
  run_generated(1000 * seed + 500000, steps - counts.steps, each, level, &counts, &kinds);
  const long after = resident();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print(counts, kinds, seconds.count(), before, after);
  CHECK(counts.steps >= steps);
  if (HeapCounter::active()) {
    CHECK(counts.allocations == 0);
    CHECK(after <= before + kMostGrowth);
  }
  if (steps == kQuickSteps && seed == 1) CHECK(golden == kGoldenHash);
}

TEST_CASE("long run: layers with the keys and values of earlier ones, and per-layer embeddings") {
  Choices choices(3);
  Counts counts;
  for (const char* name : {"tiny-gemma4-f32", "tiny-gemma4-q8"}) {
    const Block file = golden_file(name);
    Plan plan;
    plan.bits = 1;
    plan.steps = 400;
    CHECK(play(&choices, Opened(file), plan, &counts));
  }
  CHECK(counts.steps >= 800);
}

TEST_CASE("long run: every level gives the same") {
  Counts best;
  run_golden(2, 500, 1, nullptr, &best);
  for (uint32_t i = 1; phasor_isa_name(i) != nullptr; ++i) {
    CAPTURE(phasor_isa_name(i));
    Counts counts;
    run_golden(2, 500, 1, phasor_isa_name(i), &counts);
    CHECK(counts.hash == best.hash);
  }
}

TEST_CASE("long run: the oracle sees a bit that changed, and a page that was not given back") {
  Plan plan;
  plan.steps = 600;
  CHECK(broken_by(plan) == "");
  plan.spoil = true;
  CHECK(broken_by(plan).find("than from the start") != std::string::npos);
  plan.spoil = false;
  plan.lose_page = true;
  CHECK(broken_by(plan).find("another number of references") != std::string::npos);
}
