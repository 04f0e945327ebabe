// Many threads, one model: every session gives the bits that it gives alone. `make test-threads`
// runs these under the thread sanitizer.
#include "cases.h"
#include "generator/model_generator.h"
#include "properties/properties.h"
#include "threads/jobs.h"

using namespace generator;
using namespace threads_test;

namespace {

constexpr uint32_t kThreads = 4;
// Every stack, every output, the tokenizers, the chat program, windows, tables of distances.
constexpr const char* kGolden[] = {"tiny-post-sin-q4", "tiny-d2l-q8",          "tiny-bert-f16",
                                   "tiny-classes-q8",  "tiny-olmo2-f32",       "tiny-t5-f32",
                                   "tiny-chat-q8",     "tiny-three-way-lm-q8", "tiny-alibi-bf16"};
constexpr uint64_t kGenerated = 16;

// All jobs of a model on each thread, each beginning with another one.
std::string wrong_at_once(const Shared& shared) {
  const std::vector<Job> jobs = jobs_for(shared);
  std::vector<uint64_t> alone;
  for (const Job& job : jobs) alone.push_back(job.run(shared));
  const std::vector<std::string> lines = at_once(kThreads, [&](uint32_t thread) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const std::size_t at = (i + thread * jobs.size() / kThreads) % jobs.size();
      need(jobs[at].run(shared) == alone[at], jobs[at].name);
    }
  });
  return lines.empty() ? "" : lines[0];
}

Block file_of(uint64_t seed) {
  const Bytes bytes = generate_model(seed);
  return Block(bytes.data(), bytes.size());
}

}  // namespace

TEST_CASE("threads: sessions of one model, each with the bits that it has alone") {
  for (const char* name : kGolden) {
    CAPTURE(name);
    CHECK(wrong_at_once(Shared(golden_file(name), 1)) == "");
  }
  for (uint64_t seed = 0; seed < kGenerated; ++seed) {
    CAPTURE(seed);
    CHECK(wrong_at_once(Shared(file_of(seed), seed)) == "");
  }
}

TEST_CASE("threads: what holds for a model is tried on several at once, on one by two threads") {
  for (uint64_t first = 100; first < 100 + kGenerated; first += 2) {
    const Bytes files[] = {generate_model(first), generate_model(first + 1)};
    const std::vector<std::string> lines = at_once(kThreads, [&](uint32_t thread) {
      Choices choices(first + thread % 2);
      cli::Pool pool;
      need(pool.start(3), "no threads");
      (void)check_properties(&choices, files[thread % 2], &pool);
    });
    CHECK((lines.empty() ? "" : lines[0]) == "");
  }
}

TEST_CASE("threads: states go from session to session while those who saved them go on") {
  for (const char* name : {"tiny-olmo2-q8", "tiny-t5-q8"}) {
    CAPTURE(name);
    const Shared shared(golden_file(name), 3);
    cli::Pool none;
    phasor_limits limits = shared.limits;
    limits.target = 40;
    limits.logit_rows = 8;
    std::vector<std::unique_ptr<Running>> running;
    std::vector<std::vector<unsigned char>> states(kThreads);
    std::vector<Sequences::Tokens> begun(kThreads), rest(kThreads);
    for (uint32_t i = 0; i < kThreads; ++i) {
      running.push_back(std::make_unique<Running>(shared.opened, limits, &none));
      begun[i].ids = random_ids(i, 12 + i, vocabulary_of(shared.opened.model()));
      rest[i].ids = random_ids(9 + i, 8, vocabulary_of(shared.opened.model()));
    }
    std::vector<Bits> own(kThreads), taken(kThreads);
    const auto lines_of = [](const std::vector<std::string>& lines) {
      return lines.empty() ? std::string() : lines[0];
    };
    CHECK(lines_of(at_once(kThreads, [&](uint32_t i) {
            Bits bits;
            if (!shared.in.sources.empty())
              need(encode_source(*running[i], shared.opened, 0, shared.in.sources[0]), "encode");
            step_target(*running[i], 0, begun[i], 0, 5, &bits);
            std::size_t size = 0;
            need(phasor_state_size(running[i]->session(), 0, &size) == PHASOR_OK, "state_size");
            states[i].resize(size);
            need(phasor_state_save(running[i]->session(), 0, states[i].data(), size) == PHASOR_OK,
                 "state_save");
          })) == "");
    CHECK(lines_of(at_once(2 * kThreads, [&](uint32_t i) {
            const uint32_t from = i % kThreads;
            if (i < kThreads) return step_target(*running[i], 0, rest[i], 0, 8, &own[i]);
            const Running other(shared.opened, limits, &none);
            need(phasor_state_restore(other.session(), 0, states[from].data(), states[from].size(),
                                      nullptr) == PHASOR_OK,
                 "state_restore");
            step_target(other, 0, rest[from], 0, 8, &taken[from]);
          })) == "");
    for (uint32_t i = 0; i < kThreads; ++i) CHECK(own[i] == taken[i]);
  }
}

// Not a test that passes: what the interface forbids, so that `make test-threads` can see that the
// sanitizer would say so.
TEST_CASE("threads: two threads in one session" * doctest::skip()) {
  const Shared shared(golden_file("tiny-olmo2-f32"), 1);
  cli::Pool none;
  const Running running(shared.opened, shared.limits, &none);
  (void)at_once(2, [&](uint32_t) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.ids = shared.in.targets[0].ids.data();
    item.count = 1;
    (void)phasor_step(running.session(), &item, 1, nullptr);
  });
}
