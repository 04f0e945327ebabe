// The arena's parts: what is written into one stays in it. Builds with red zones (config=debug and
// sanitize) find a write behind a part, and one that a view does not hold; the writes here that
// they must find end a process of their own.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "cases.h"
#include "runtime/session.h"
#include "support.h"

namespace {

using phasor::Session;

constexpr const char* kNarrow = "../arena/narrow-heads";  // pooled, without a dense layer; its
                                                          // heads are narrower than its width

Session* inside(const Engine& e) { return reinterpret_cast<Session*>(e.session); }

phasor_vector_result run_vector(const Engine& e, uint32_t index) {
  phasor_vector_result result{};
  result.struct_size = sizeof result;
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_status status = phasor_vector_run(e.session, index, &result, &error);
  CAPTURE(error.text);
  CHECK(status == PHASOR_OK);
  return result;
}

phasor_vector vector_of(const Engine& e, uint32_t index) {
  phasor_vector v{};
  v.struct_size = sizeof v;
  REQUIRE(phasor_vector_get(e.model, index, &v) == PHASOR_OK);
  return v;
}

void encode_vector(const Engine& e, uint32_t index) {
  const phasor_vector v = vector_of(e, index);
  phasor_item item = PHASOR_ITEM_INIT;
  item.count = v.source_count;
  item.ids = v.source;
  REQUIRE(phasor_encode(e.session, &item, 1, nullptr) == PHASOR_OK);
}

uint32_t width_of(const Engine& e) {
  phasor_output o{};
  o.struct_size = sizeof o;
  REQUIRE(phasor_model_output(e.model, &o) == PHASOR_OK);
  return o.width;
}

// The bytes between the values of a part and the next part.
unsigned char* behind(const Engine& e, uint32_t part) {
  const phasor::Plan& p = inside(e)->plan;
  return reinterpret_cast<unsigned char*>(e.session) + p.offset[part] + p.bytes[part];
}

// As code that no sanitizer looks at writes.
__attribute__((no_sanitize("address"))) void write_unseen(unsigned char* p) {
  *p = static_cast<unsigned char>(*p ^ 0xFFu);
}

struct End {
  bool well;
  std::string text;  // of its standard error
};

// Runs `work` in a process of its own.
template <class Work>
End end_of(Work work) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // not doctest's report
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    work();
    _exit(0);
  }
  close(ends[1]);
  End end{false, {}};
  char bytes[4096];
  for (ssize_t n; (n = read(ends[0], bytes, sizeof bytes)) > 0;)
    end.text.append(bytes, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  end.well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return end;
}

bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}
std::string quoted(const char* part) { return std::string("part \"") + part + "\""; }

}  // namespace

TEST_CASE(
    "a pooled vector that is wider than the heads: its test vectors in exactly N bytes, the same "
    "bits as the embedding") {
  const Block file = golden_file(kNarrow);
  for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level)
    for (const uint32_t chunk : {1u, 2u, 16u}) {
      CAPTURE(phasor_isa_name(level));
      CAPTURE(chunk);
      phasor_limits limits = Engine(file, nullptr).limits;
      limits.chunk = chunk;
      const Engine e(file, phasor_isa_name(level), &limits);
      const uint32_t width = width_of(e);
      REQUIRE(width > inside(e)->plan.attention_ld * 2);
      REQUIRE(phasor_vector_count(e.model) == 2);
      for (uint32_t i = 0; i < 2; ++i) {
        const phasor_vector_result result = run_vector(e, i);
        encode_vector(e, i);
        std::vector<float> y(width);
        REQUIRE(phasor_embedding(e.session, 0, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_MODEL, y.data(),
                                 width, nullptr) == PHASOR_OK);
        CHECK(fnv1a(kFnvStart, y.data(), width * sizeof(float)) == result.hash);
      }
      std::size_t need = 0;
      REQUIRE(phasor_session_size(&need, e.model, &limits, nullptr) == PHASOR_OK);
      Block memory(need);
      phasor_session* session = nullptr;
      CHECK(phasor_session_open(&session, memory.data(), need - 1, e.model, &limits, nullptr,
                                nullptr) == PHASOR_NO_MEMORY);
      CHECK(phasor_session_open(&session, memory.data(), need, e.model, &limits, nullptr,
                                nullptr) == PHASOR_OK);
    }
}

TEST_CASE("red zones are a part of their own, in builds that have them only") {
  const Block file = golden_file(kNarrow);
  const Engine e(file, nullptr);
  std::size_t need = 0;
  REQUIRE(phasor_session_size(&need, e.model, &e.limits, nullptr) == PHASOR_OK);
  uint64_t all = 0, zones = 0, bytes = 0;
  uint32_t count = 0;
  const char* name = nullptr;
  for (; phasor_session_part(e.model, &e.limits, count, &name, &bytes) == PHASOR_OK; ++count) {
    all += bytes;
    if (std::strcmp(name, "red zones") == 0) zones += bytes;
  }
  CHECK(all == need);
  CHECK(zones == uint64_t{phasor::kPartCount} * phasor::kZoneBytes);
  CHECK(count == phasor::kPartCount + (phasor::kRedZones ? 1 : 0));
  for (uint32_t p = 0; p + 1 < phasor::kPartCount; ++p) {
    const phasor::Plan& plan = inside(e)->plan;
    CHECK(plan.offset[p + 1] ==
          plan.offset[p] + (plan.bytes[p] + 63) / 64 * 64 + phasor::kZoneBytes);
  }
}

// What phasor_vector_run did: the vector went where rows of the heads are planned.
TEST_CASE("red zones find a pooled vector in the attention rows") {
  if (!phasor::kRedZones) return;
  const Block file = golden_file(kNarrow);
  const Engine e(file, nullptr);
  encode_vector(e, 1);
  const uint32_t width = width_of(e);
  const End old = end_of([&] {
    float* y = reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(e.session) +
                                        inside(e)->plan.offset[phasor::kPartAttention]);
    (void)phasor_embedding(e.session, 0, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_MODEL, y, width,
                           nullptr);
  });
  CAPTURE(old.text);
  CHECK(!old.well);
  CHECK((has(old.text, "AddressSanitizer: use-after-poison") ||
         has(old.text, "the red zone behind " + quoted("attention rows"))));
  const End view = end_of([&] {
    const phasor::Plan& p = inside(e)->plan;
    (void)inside(e)->rows<float>(phasor::kPartAttention, p.chunk, p.attention_ld).row(0, width);
  });
  CAPTURE(view.text);
  CHECK(!view.well);
  CHECK(has(view.text, quoted("attention rows")));
  const End well = end_of([&] { (void)run_vector(e, 1); });
  CHECK(well.well);
}

TEST_CASE("red zones: one byte behind any part is found when the next call ends") {
  if (!phasor::kRedZones) return;
  const Block file = golden_file(kNarrow);
  const Engine e(file, nullptr);
  for (uint32_t part = 0; part < phasor::kPartCount; ++part) {
    CAPTURE(phasor::part_name(part));
    const uint64_t zone =
        (part + 1 < phasor::kPartCount ? inside(e)->plan.offset[part + 1] : inside(e)->plan.total) -
        inside(e)->plan.offset[part] - inside(e)->plan.bytes[part];
    REQUIRE(zone >= phasor::kZoneBytes);
    for (const uint64_t at : {uint64_t{0}, zone - 1}) {
      const End end = end_of([&] {
        write_unseen(behind(e, part) + at);
        (void)phasor_sequence_clear(e.session, 0);
      });
      CHECK(!end.well);
      CHECK(has(end.text, "the red zone behind " + quoted(phasor::part_name(part))));
    }
  }
  CHECK(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
}

TEST_CASE("red zones: views hold what the planner has counted, to the last value") {
  if (!phasor::kRedZones) return;
  const Block file = golden_file(kNarrow);
  const Engine e(file, nullptr);
  Session* s = inside(e);
  const uint64_t chunk = s->plan.chunk, ld = s->plan.ld;
  const phasor::Rows<float> rows = s->rows<float>(phasor::kPartNormed, chunk, ld);
  CHECK(rows.rows(0, chunk, ld) == rows.row(0, ld));
  CHECK(rows.below(1).right(ld - 1).row(0, 1) == rows.row(1, ld) + (ld - 1));
  const phasor::Span<uint32_t> ids = s->ids(0);
  const auto refused = [&](auto work) { return has(end_of(work).text, "phasor: part \""); };
  CHECK(refused([&] { (void)rows.row(chunk, 1); }));
  CHECK(refused([&] { (void)rows.rows(1, chunk, 1); }));
  CHECK(refused([&] { (void)rows.row(0, ld + 1); }));
  CHECK(refused([&] { (void)rows.right(1).row(0, ld); }));
  CHECK(refused([&] { (void)rows.below(1).row(chunk - 1, 1); }));
  CHECK(refused([&] { (void)s->rows<float>(phasor::kPartNormed, chunk + 1, ld); }));
  CHECK(refused([&] { (void)s->sequences()[s->plan.slots]; }));
  CHECK(refused([&] { (void)ids[s->plan.target]; }));
  CHECK(refused([&] { (void)s->pages(false).page(s->plan.pages).at(0, 1); }));
  CHECK(refused([&] { (void)s->logit_rows().row(s->plan.logit_rows, 1); }));
  CHECK(refused([&] { (void)s->hidden_rows().row(s->plan.encoder_rows, 1); }));
}

TEST_CASE("red zones: memory that had a session in it can be used again") {
  const Block file = golden_file(kNarrow);
  const Engine probe(file, nullptr);
  phasor_limits small = probe.limits, large = probe.limits;
  large.source = 40;
  large.chunk = 7;
  std::size_t need = 0, more = 0, model_bytes = 0;
  REQUIRE(phasor_session_size(&need, probe.model, &small, nullptr) == PHASOR_OK);
  REQUIRE(phasor_session_size(&more, probe.model, &large, nullptr) == PHASOR_OK);
  REQUIRE(phasor_model_size(&model_bytes, file.data(), file.size(), nullptr) == PHASOR_OK);
  REQUIRE(more > need);
  REQUIRE(more >= model_bytes);
  Block memory(more);
  for (const phasor_limits* limits : {&large, &small, &large, &small}) {
    phasor_session* session = nullptr;
    REQUIRE(phasor_session_open(&session, memory.data(), more, probe.model, limits, nullptr,
                                nullptr) == PHASOR_OK);
    const phasor_vector v = vector_of(probe, 1);
    phasor_item item = PHASOR_ITEM_INIT;
    item.count = v.source_count;
    item.ids = v.source;
    CHECK(phasor_encode(session, &item, 1, nullptr) == PHASOR_OK);
  }
  std::memset(memory.data() + need, 0xAB,
              more - need);  // behind a session the memory is its owner's
  phasor_model* model = nullptr;
  CHECK(phasor_model_open(&model, memory.data(), more, file.data(), file.size(), nullptr,
                          nullptr) == PHASOR_OK);
  if (phasor::kRedZones) {
    phasor::clear_zones(memory.data(), more);
    std::memset(memory.data(), 0xAB, more);
  }
}
