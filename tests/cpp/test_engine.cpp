// Whole models: the test vectors, the exact arena, the same bits in any chunking, at any level and
// number of threads, and the operations on sequences.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cases.h"
#include "heap_counter.h"
#include "items.h"
#include "share.h"
#include "support.h"

namespace {

// The hash of what an encoder gives for sequence 0: hidden states, a vector, or output rows, `step`
// at a time.
uint64_t output_hash(const Engine& e, uint32_t step) {
  phasor_output o{};
  o.struct_size = sizeof o;
  REQUIRE(phasor_model_output(e.model, &o) == PHASOR_OK);
  phasor_error error = PHASOR_ERROR_INIT;
  uint32_t rows = 0, stride = 0;
  const float* hidden = phasor_hidden(e.session, 0, &rows, &stride);
  REQUIRE(hidden != nullptr);
  uint64_t hash = kFnvStart;
  if (o.output == PHASOR_OUTPUT_POOLED) {
    std::vector<float> y(o.width);
    REQUIRE(phasor_embedding(e.session, 0, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_MODEL, y.data(),
                             o.width, &error) == PHASOR_OK);
    return fnv1a(hash, y.data(), o.width * sizeof(float));
  }
  if (o.pooling != 0) rows = 1;
  for (uint32_t done = 0; done < rows;) {
    const uint32_t count = std::min(step, rows - done);
    if (o.output != PHASOR_OUTPUT_HIDDEN)
      REQUIRE(phasor_encoder_output(e.session, 0, done, count, &error) == PHASOR_OK);
    for (uint32_t r = 0; r < count; ++r)
      hash = fnv1a(hash,
                   o.output == PHASOR_OUTPUT_HIDDEN ? hidden + (done + r) * stride
                                                    : phasor_logits(e.session, r),
                   o.width * sizeof(float));
    done += count;
  }
  return hash;
}

// The output's hash of a vector, fed in chunks of `step` tokens, with `chunk` rows computed
// together.
uint64_t vector_hash(const Block& file, uint32_t index, const char* isa, uint32_t threads,
                     uint32_t chunk, uint32_t step, uint32_t cache = PHASOR_CACHE_F32) {
  const Engine probe(file, isa);
  phasor_limits limits = probe.limits;
  limits.chunk = chunk;
  limits.cache_type = cache;
  if (limits.logit_rows != 0) limits.logit_rows = step;
  const Engine e(file, isa, &limits, threads);
  phasor_vector v{};
  v.struct_size = sizeof v;
  REQUIRE(phasor_vector_get(e.model, index, &v) == PHASOR_OK);
  phasor_error error = PHASOR_ERROR_INIT;
  if (v.source_count != 0) {
    phasor_item item = item_of(0, v.source_count, PHASOR_LOGITS_NONE, v.source);
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  }
  phasor_side side{};
  side.struct_size = sizeof side;
  if (phasor_model_side(e.model, PHASOR_TARGET, &side) != PHASOR_OK) return output_hash(e, step);
  uint64_t hash = kFnvStart;
  for (uint32_t done = 0; done < v.target_count;) {
    const uint32_t count = std::min(step, v.target_count - done);
    phasor_item item = item_of(0, count, PHASOR_LOGITS_ALL, v.target + done);
    REQUIRE(phasor_step(e.session, &item, 1, &error) == PHASOR_OK);
    for (uint32_t r = 0; r < count; ++r)
      hash = fnv1a(hash, phasor_logits(e.session, r), side.vocabulary * sizeof(float));
    CHECK(phasor_logits(e.session, count) == nullptr);
    done += count;
  }
  return hash;
}

std::vector<uint32_t> start_ids(const phasor_model* model) {
  const phasor_side side = target_of(model);
  return {side.decoder_start != PHASOR_NONE ? side.decoder_start : 1u};
}

// Encodes ids 3 4 5 … for an encoder-decoder; nothing for a decoder.
void give_source(const Engine& e, uint32_t sequence, uint32_t length) {
  if (phasor_model_stack(e.model) == PHASOR_DECODER) return;
  std::vector<uint32_t> ids(length);
  for (uint32_t i = 0; i < length; ++i) ids[i] = 3 + (i * 7 + sequence) % 40;
  phasor_item item = item_of(sequence, length, PHASOR_LOGITS_NONE, ids.data());
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
}

// One step; the hash of the last token's logits.
uint64_t step_hash(const Engine& e, uint32_t sequence, const std::vector<uint32_t>& ids) {
  phasor_item item =
      item_of(sequence, static_cast<uint32_t>(ids.size()), PHASOR_LOGITS_LAST, ids.data());
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_status status = phasor_step(e.session, &item, 1, &error);
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  const phasor_side side = target_of(e.model);
  return fnv1a(kFnvStart, phasor_logits(e.session, 0), side.vocabulary * sizeof(float));
}

phasor_limits small_limits(const phasor_model* model, uint32_t sequences) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  phasor_limits_for(model, phasor_model_stack(model) == PHASOR_DECODER ? 0 : 20, 40, &limits);
  limits.sequences = sequences;
  limits.chunk = 5;
  if (limits.logit_rows != 0) limits.logit_rows = sequences;
  return limits;
}

}  // namespace

TEST_CASE("promise 4: every model's own test vectors, at every level") {
  for (const std::string& name : golden_models()) {
    const Block file = golden_file(name);
    for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
      const Engine e(file, phasor_isa_name(level));
      REQUIRE(phasor_vector_count(e.model) > 0);
      for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
        phasor_error error = PHASOR_ERROR_INIT;
        phasor_vector_result result{};
        result.struct_size = sizeof result;
        const phasor_status status = phasor_vector_run(e.session, i, &result, &error);
        CAPTURE(name);
        CAPTURE(phasor_isa_name(level));
        CAPTURE(i);
        CAPTURE(error.text);
        CHECK(status == PHASOR_OK);
      }
    }
  }
}

TEST_CASE("promise 2, rule 1.16: the same bits at every level, number of threads and chunking") {
  Share share;
  for (const std::string& name : golden_models()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    for (uint32_t i = 0; i < phasor_vector_count(probe.model); ++i) {
      const uint64_t expected = vector_hash(file, i, "scalar", 1, 1, 1);
      CAPTURE(name);
      CAPTURE(i);
      for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level) {
        const char* isa = phasor_isa_name(level);
        CAPTURE(isa);
        if (share.takes()) CHECK(vector_hash(file, i, isa, 1, 64, 64) == expected);
        if (share.takes()) CHECK(vector_hash(file, i, isa, 1, 7, 7) == expected);
        if (share.takes()) CHECK(vector_hash(file, i, isa, 1, 7, 1) == expected);
      }
      for (const uint32_t threads : {2u, 3u, 7u}) {
        CAPTURE(threads);
        if (share.takes()) CHECK(vector_hash(file, i, nullptr, threads, 64, 64) == expected);
        if (share.takes()) CHECK(vector_hash(file, i, nullptr, threads, 1, 1) == expected);
      }
    }
  }
}

TEST_CASE(
    "promise 1: N bytes of arena work, N - 1 is an error, for every model and length; nothing is "
    "written outside") {
  Share share;
  for (const std::string& name : golden_models()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    for (const uint32_t length : {1u, 2u, 15u, 16u, 17u, 40u})
      for (const uint32_t chunk : {1u, 5u, 64u})
        for (const uint32_t tables : {0u, 1u}) {
          if (!share.takes()) continue;
          phasor_limits limits = small_limits(probe.model, 2);
          phasor_side side{};
          side.struct_size = sizeof side;
          const uint32_t which = limits.source != 0 ? PHASOR_SOURCE : PHASOR_TARGET;
          REQUIRE(phasor_model_side(probe.model, which, &side) == PHASOR_OK);
          if (side.max_positions != 0 && length > side.max_positions) continue;
          if (limits.source != 0) limits.source = length;
          if (limits.target != 0) limits.target = length;
          limits.chunk = chunk;
          limits.tables = tables;
          limits.outputs = length == 17   ? PHASOR_WANT_ATTENTION
                           : length == 16 ? PHASOR_WANT_SAMPLING
                                          : 0;
          std::size_t need = 0;
          phasor_error error = PHASOR_ERROR_INIT;
          limits.cache_type = length == 15                  ? PHASOR_CACHE_F16
                              : length == 2 || length == 40 ? PHASOR_CACHE_Q8
                                                            : PHASOR_CACHE_F32;
          if (phasor_session_size(&need, probe.model, &limits, &error) == PHASOR_BAD_LIMITS)
            limits.cache_type = PHASOR_CACHE_F32;
          REQUIRE(phasor_session_size(&need, probe.model, &limits, &error) == PHASOR_OK);
          uint64_t parts = 0, bytes = 0;
          const char* part = nullptr;
          for (uint32_t p = 0;
               phasor_session_part(probe.model, &limits, p, &part, &bytes) == PHASOR_OK; ++p)
            parts += bytes;
          CHECK(parts == need);
          Block arena(need);  // exactly: a sanitizer sees the first byte too many
          phasor_session* session = nullptr;
          CHECK(phasor_session_open(&session, arena.data(), need - 1, probe.model, &limits, nullptr,
                                    &error) == PHASOR_NO_MEMORY);
          CHECK(error.expected == need);
          CHECK(error.found == need - 1);
          REQUIRE(phasor_session_open(&session, arena.data(), need, probe.model, &limits, nullptr,
                                      &error) == PHASOR_OK);
          const std::vector<uint32_t> ids(length, 3);
          phasor_item item = item_of(1, length, PHASOR_LOGITS_LAST, ids.data());
          if (limits.source != 0) CHECK(phasor_encode(session, &item, 1, &error) == PHASOR_OK);
          if (limits.target != 0) CHECK(phasor_step(session, &item, 1, &error) == PHASOR_OK);
          if (limits.target == 0) continue;
          CHECK(phasor_sequence_length(session, 1) == length);
          item.count = 1;
          CHECK(phasor_step(session, &item, 1, &error) == PHASOR_FULL);
        }
  }
}

TEST_CASE("rule 3.1: a model's block needs exactly its bytes too") {
  const Block file = golden_file(golden_models().front());
  std::size_t need = 0;
  REQUIRE(phasor_model_size(&need, file.data(), file.size(), nullptr) == PHASOR_OK);
  Block memory(need);
  phasor_model* model = nullptr;
  phasor_error error = PHASOR_ERROR_INIT;
  CHECK(phasor_model_open(&model, memory.data(), need - 1, file.data(), file.size(), nullptr,
                          &error) == PHASOR_NO_MEMORY);
  CHECK(model == nullptr);
  CHECK(phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr, &error) ==
        PHASOR_OK);
}

TEST_CASE("promise 1: no allocation between open and close") {
  for (const std::string& name : decoders()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = small_limits(probe.model, 2);
    const Engine e(file, nullptr, &limits);
    std::vector<uint32_t> out(40);
    phasor_generation result{};
    result.struct_size = sizeof result;
    const std::vector<uint32_t> prompt = start_ids(e.model), source(9, 4);
    std::vector<unsigned char> state(1 << 20);
    phasor_error error = PHASOR_ERROR_INIT;
    HeapCounter heap;
    phasor_status status = PHASOR_OK;
    phasor_item item = item_of(0, 9, PHASOR_LOGITS_NONE, source.data());
    if (limits.source != 0) status = phasor_encode(e.session, &item, 1, &error);
    if (status == PHASOR_OK)
      status =
          phasor_generate(e.session, 0, prompt.data(), 1, out.data(), 30, nullptr, &result, &error);
    if (status == PHASOR_OK) status = phasor_sequence_fork(e.session, 1, 0);
    if (status == PHASOR_OK) status = phasor_state_save(e.session, 1, state.data(), state.size());
    if (status == PHASOR_OK) status = phasor_sequence_clear(e.session, 0);
    const uint64_t allocations = heap.allocations();
    CHECK(status == PHASOR_OK);
    CHECK(result.count > 0);
    if (HeapCounter::active()) CHECK(allocations == 0);
  }
}

TEST_CASE("rule 3.3: several sequences in one step give what each gives alone") {
  for (const std::string& name : decoders()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = small_limits(probe.model, 3);
    const Engine alone(file, nullptr, &limits), together(file, nullptr, &limits);
    std::vector<uint32_t> ids[3] = {{1}, {1, 5, 9, 7, 3, 2, 8}, {1, 2, 3}};
    uint64_t expected[3];
    for (uint32_t q = 0; q < 3; ++q) {
      give_source(alone, q, 3 + 6 * q);
      give_source(together, q, 3 + 6 * q);
      expected[q] = step_hash(alone, q, ids[q]);
    }
    phasor_item items[3];
    for (uint32_t q = 0; q < 3; ++q)
      items[q] =
          item_of(q, static_cast<uint32_t>(ids[q].size()), PHASOR_LOGITS_LAST, ids[q].data());
    phasor_error error = PHASOR_ERROR_INIT;
    REQUIRE(phasor_step(together.session, items, 3, &error) == PHASOR_OK);
    const phasor_side side = target_of(together.model);
    for (uint32_t q = 0; q < 3; ++q)
      CHECK(fnv1a(kFnvStart, phasor_logits(together.session, q), side.vocabulary * 4) ==
            expected[q]);
  }
}

TEST_CASE("rule 3.3: truncate, fork and clear") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = small_limits(probe.model, 3);
    const Engine e(file, nullptr, &limits);
    std::vector<uint32_t> first(19), a(14), b(3, 9);
    for (uint32_t i = 0; i < 19; ++i) first[i] = 1 + i % 11;
    for (uint32_t i = 0; i < 14; ++i) a[i] = 2 + i % 5;
    give_source(e, 0, 11);
    step_hash(e, 0, first);
    REQUIRE(phasor_sequence_fork(e.session, 1, 0) == PHASOR_OK);
    CHECK(phasor_sequence_length(e.session, 1) == 19);
    // writes into a page that both had: sequence 0 must not see it
    const uint64_t of_a = step_hash(e, 1, a);
    const uint64_t of_b = step_hash(e, 0, b);
    CHECK(of_a != of_b);
    REQUIRE(phasor_sequence_fork(e.session, 2, 1) == PHASOR_OK);
    if (lets_go(e.model, limits)) {  // test_ring.cpp says how far back such a sequence can go
      CHECK(phasor_sequence_truncate(e.session, 2, 19) == PHASOR_BAD_INPUT);
    } else {
      REQUIRE(phasor_sequence_truncate(e.session, 2, 19) == PHASOR_OK);
      CHECK(step_hash(e, 2, b) == of_b);  // back to the fork, then the other way
    }
    REQUIRE(phasor_sequence_truncate(e.session, 0, 19) == PHASOR_OK);
    CHECK(step_hash(e, 0, a) == of_a);
    REQUIRE(phasor_sequence_truncate(e.session, 1, 0) == PHASOR_OK);
    step_hash(e, 1, first);
    CHECK(step_hash(e, 1, b) == of_b);
    CHECK(phasor_sequence_truncate(e.session, 1, 30) == PHASOR_BAD_INPUT);
    REQUIRE(phasor_sequence_clear(e.session, 1) == PHASOR_OK);
    CHECK(phasor_sequence_length(e.session, 1) == 0);
    if (limits.source != 0) {
      phasor_item item = item_of(1, 1, PHASOR_LOGITS_LAST, b.data());
      phasor_error error = PHASOR_ERROR_INIT;
      CHECK(phasor_step(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);  // its source went too
    }
  }
}

TEST_CASE(
    "rule 3.8: a saved sequence goes on elsewhere with the same bits, and a wrong one is "
    "refused") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = small_limits(probe.model, 2);
    limits.cache_type = name.find("-q8") != std::string::npos    ? PHASOR_CACHE_F16
                        : name.find("-f32") != std::string::npos ? PHASOR_CACHE_Q8
                                                                 : PHASOR_CACHE_F32;
    std::size_t size = 0;
    if (phasor_session_size(&size, probe.model, &limits, nullptr) != PHASOR_OK)
      limits.cache_type = PHASOR_CACHE_F32;
    phasor_limits other = limits;
    other.cache_type = limits.cache_type == PHASOR_CACHE_F32 ? PHASOR_CACHE_F16 : PHASOR_CACHE_F32;
    const Engine here(file, nullptr, &limits), there(file, "scalar", &limits);
    std::vector<uint32_t> ids(21, 7);
    give_source(here, 0, 13);
    step_hash(here, 0, ids);
    std::size_t need = 0;
    REQUIRE(phasor_state_size(here.session, 0, &need) == PHASOR_OK);
    std::vector<unsigned char> state(need), again(need);
    CHECK(phasor_state_save(here.session, 0, state.data(), need - 1) == PHASOR_NO_MEMORY);
    REQUIRE(phasor_state_save(here.session, 0, state.data(), need) == PHASOR_OK);
    phasor_error error = PHASOR_ERROR_INIT;
    REQUIRE(phasor_state_restore(there.session, 1, state.data(), need, &error) == PHASOR_OK);
    REQUIRE(phasor_state_save(there.session, 1, again.data(), need) == PHASOR_OK);
    CHECK(state == again);
    CHECK(step_hash(there, 1, {5, 6}) == step_hash(here, 0, {5, 6}));
    for (std::size_t bit = 0; bit < need * 8; bit += bit < 64 * 8 ? 1 : 487) {  // any one
      state[bit / 8] = static_cast<unsigned char>(state[bit / 8] ^ 1 << bit % 8);
      CHECK(phasor_state_restore(there.session, 0, state.data(), need, &error) == PHASOR_BAD_STATE);
      state[bit / 8] = static_cast<unsigned char>(state[bit / 8] ^ 1 << bit % 8);
    }
    CHECK(phasor_state_restore(there.session, 0, state.data(), need - 1, &error) ==
          PHASOR_BAD_STATE);
    CHECK(phasor_state_restore(there.session, 0, state.data(), 10, &error) == PHASOR_BAD_STATE);
    if (phasor_session_size(&size, probe.model, &other, nullptr) != PHASOR_OK) continue;
    const Engine elsewhere(file, nullptr, &other);
    CHECK(phasor_state_restore(elsewhere.session, 0, state.data(), need, &error) ==
          PHASOR_BAD_STATE);
    CHECK(std::string(error.text).find("cache type") != std::string::npos);
  }
}

// The logits of a vector's last position, with this cache.
std::vector<float> last_logits(const Block& file, uint32_t index, uint32_t cache) {
  const Engine probe(file, nullptr);
  phasor_limits limits = probe.limits;
  limits.cache_type = cache;
  const Engine e(file, nullptr, &limits);
  phasor_vector v{};
  v.struct_size = sizeof v;
  REQUIRE(phasor_vector_get(e.model, index, &v) == PHASOR_OK);
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_item source = item_of(0, v.source_count, PHASOR_LOGITS_NONE, v.source);
  if (v.source_count != 0) REQUIRE(phasor_encode(e.session, &source, 1, &error) == PHASOR_OK);
  const phasor_item target = item_of(0, v.target_count, PHASOR_LOGITS_LAST, v.target);
  REQUIRE(phasor_step(e.session, &target, 1, &error) == PHASOR_OK);
  const phasor_side side = target_of(e.model);
  return std::vector<float>(phasor_logits(e.session, 0),
                            phasor_logits(e.session, 0) + side.vocabulary);
}

// Bytes of the decoder's keys and values, cross-attention's too.
uint64_t cache_of(const Engine& e, const phasor_limits& limits) {
  return part_bytes(e.model, limits, "decoder keys and values") +
         part_bytes(e.model, limits, "keys and values in windows") +
         part_bytes(e.model, limits, "cross-attention keys and values");
}

TEST_CASE(
    "rule 1.8: keys and values in f16 and q8 give the same bits everywhere, shrink the cache, "
    "and are near those in f32") {
  Share share;
  uint32_t refused = 0;
  for (const std::string& name : decoders())
    for (const uint32_t type : {uint32_t{PHASOR_CACHE_F16}, uint32_t{PHASOR_CACHE_Q8}}) {
      CAPTURE(name);
      CAPTURE(type);
      const Block file = golden_file(name);
      const Engine probe(file, nullptr);
      phasor_limits limits = probe.limits;
      limits.cache_type = type;
      std::size_t less = 0, whole = 0;
      phasor_error error = PHASOR_ERROR_INIT;
      const phasor_status status = phasor_session_size(&less, probe.model, &limits, &error);
      const bool needs_f32 = name.find("relative-lm") != std::string::npos ||
                             name.find("three-way") != std::string::npos ||
                             name.find("disentangled") != std::string::npos ||
                             name.find("additive") != std::string::npos;
      CHECK(status == (needs_f32 ? PHASOR_BAD_LIMITS : PHASOR_OK));
      if (needs_f32) {
        CHECK(std::string(error.text)
                  .find(type == PHASOR_CACHE_F16 ? "limits.cache_type: f16"
                                                 : "limits.cache_type: q8") == 0);
        ++refused;
        continue;
      }
      REQUIRE(phasor_session_size(&whole, probe.model, &probe.limits, &error) == PHASOR_OK);
      const uint64_t cache = cache_of(probe, limits), all = cache_of(probe, probe.limits);
      CHECK(whole - less == all - cache);
      // rows of a convolution stay f32 (1.22)
      const bool convolves = name.find("lfm2") != std::string::npos;
      if (type == PHASOR_CACHE_F16) CHECK((convolves ? cache < all : all == 2 * cache));
      // a scale for 32 values at best, a narrow head has one for fewer
      if (type == PHASOR_CACHE_Q8)
        CHECK((convolves ? cache < all : 32 * cache >= 9 * all && 2 * cache < all));
      const uint32_t last = phasor_vector_count(probe.model) - 1;  // the longest
      const uint64_t expected = vector_hash(file, last, "scalar", 1, 1, 1, type);
      CHECK(expected != vector_hash(file, last, "scalar", 1, 1, 1));
      for (uint32_t level = 0; phasor_isa_name(level) != nullptr; ++level)
        for (const uint32_t chunk : {64u, 7u})
          if (share.takes())
            CHECK(vector_hash(file, last, phasor_isa_name(level), 1, chunk, chunk, type) ==
                  expected);
      CHECK(vector_hash(file, last, nullptr, 3, 64, 64, type) == expected);
      const std::vector<float> rounded = last_logits(file, last, type),
                               exact = last_logits(file, last, PHASOR_CACHE_F32);
      const auto range = std::minmax_element(exact.begin(), exact.end());
      const float near = type == PHASOR_CACHE_F16 ? 0.02f : 0.06f;
      for (std::size_t i = 0; i < exact.size(); ++i)
        CHECK(std::fabs(rounded[i] - exact[i]) <= near * (*range.second - *range.first));
    }
  CHECK(refused == 12);  // three models in f32 and q8, two types
}

TEST_CASE("greedy output is the plain loop's: the whole prefix again at each step") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = small_limits(probe.model, 1);
    const Engine e(file, nullptr, &limits), plain(file, nullptr, &limits);
    give_source(e, 0, 12);
    std::vector<uint32_t> prefix = start_ids(e.model), out(39);
    phasor_generation result{};
    result.struct_size = sizeof result;
    phasor_error error = PHASOR_ERROR_INIT;
    REQUIRE(phasor_generate(e.session, 0, prefix.data(), 1, out.data(), 39, nullptr, &result,
                            &error) == PHASOR_OK);
    for (uint32_t i = 0; i < result.count; ++i) {
      phasor_sequence_clear(plain.session, 0);
      give_source(plain, 0, 12);
      step_hash(plain, 0, prefix);
      uint32_t id = 0;
      float logit = 0;
      REQUIRE(phasor_argmax(plain.session, 0, &id, &logit) == PHASOR_OK);
      REQUIRE(id == out[i]);
      prefix.push_back(id);
    }
    CHECK((result.finish == PHASOR_FINISH_END || result.finish == PHASOR_FINISH_LENGTH));
  }
}

namespace {
struct Watch {
  uint32_t tokens = 0, logits = 0, stop_at = PHASOR_NONE, force = PHASOR_NONE;
};
int on_token(void* user, uint32_t, uint32_t) {
  Watch* w = static_cast<Watch*>(user);
  return ++w->tokens == w->stop_at ? 1 : 0;
}
int on_logits(void* user, float* logits, uint32_t vocabulary, const uint32_t*, uint32_t) {
  Watch* w = static_cast<Watch*>(user);
  ++w->logits;
  if (w->force < vocabulary) logits[w->force] = 1e9f;
  return 0;
}
}  // namespace

TEST_CASE("rule 3.7: callbacks stop, edit and see") {
  const std::string name = decoders().front();
  const Block file = golden_file(name);
  const Engine probe(file, nullptr);
  const phasor_limits limits = small_limits(probe.model, 1);
  const Engine e(file, nullptr, &limits);
  give_source(e, 0, 5);
  Watch watch;
  watch.stop_at = 4;
  watch.force = 7;
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.token = on_token;
  options.logits = on_logits;
  options.user = &watch;
  const uint32_t forced[2] = {9, 8};
  options.forced = forced;
  options.forced_count = 2;
  std::vector<uint32_t> start = start_ids(e.model), out(20);
  phasor_generation result{};
  result.struct_size = sizeof result;
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_generate(e.session, 0, start.data(), 1, out.data(), 20, &options, &result,
                          &error) == PHASOR_OK);
  CHECK(result.finish == PHASOR_FINISH_STOPPED);
  CHECK(result.count == 4);
  CHECK(watch.logits == 4);
  CHECK(out[0] == 9);
  CHECK(out[1] == 8);
  CHECK(out[2] == 7);
  CHECK(out[3] == 7);
}

TEST_CASE("rule 3.5: bad input is a status with one line, and changes nothing") {
  const std::string name = decoders().front();
  const Block file = golden_file(name);
  const Engine probe(file, nullptr);
  const phasor_limits limits = small_limits(probe.model, 2);
  const Engine e(file, nullptr, &limits);
  const phasor_side side = target_of(e.model);
  give_source(e, 0, 5);
  give_source(e, 1, 5);
  const uint32_t good[3] = {1, 2, 3}, bad[3] = {1, side.vocabulary, 3};
  phasor_error error = PHASOR_ERROR_INIT;
  const auto step = [&](phasor_item item) { return phasor_step(e.session, &item, 1, &error); };
  CHECK(step(item_of(0, 3, PHASOR_LOGITS_LAST, bad)) == PHASOR_BAD_INPUT);
  CHECK(error.found == side.vocabulary);
  CHECK(step(item_of(2, 3, PHASOR_LOGITS_LAST, good)) == PHASOR_BAD_INPUT);
  CHECK(step(item_of(0, 0, PHASOR_LOGITS_LAST, good)) == PHASOR_BAD_INPUT);
  CHECK(step(item_of(0, 3, PHASOR_LOGITS_LAST, nullptr)) == PHASOR_BAD_INPUT);
  // three rows, room for two
  CHECK(step(item_of(0, 3, PHASOR_LOGITS_ALL, good)) == PHASOR_BAD_INPUT);
  phasor_item twice[2] = {item_of(1, 1, 0, good), item_of(1, 1, 0, good)};
  CHECK(phasor_step(e.session, twice, 2, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_sequence_length(e.session, 0) == 0);
  CHECK(phasor_sequence_length(e.session, 1) == 0);
  CHECK(phasor_logits(e.session, 0) == nullptr);
  CHECK(step(item_of(0, 3, PHASOR_LOGITS_LAST, good)) == PHASOR_OK);
}

TEST_CASE("rule 1.14: a value that is not finite fails its sequence only, and names the layer") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    const phasor_limits limits = small_limits(probe.model, 2);
    const Engine e(file, nullptr, &limits), reference(file, nullptr, &limits);
    for (uint32_t q = 0; q < 2; ++q) {
      give_source(e, q, 5);
      give_source(reference, q, 5);
    }
    const phasor_side side = target_of(e.model);
    std::vector<float> embedding(side.width, 0.5f);
    embedding[3] = std::numeric_limits<float>::quiet_NaN();
    const uint32_t id = 4;
    phasor_item items[2] = {item_of(0, 1, PHASOR_LOGITS_LAST, nullptr, embedding.data()),
                            item_of(1, 1, PHASOR_LOGITS_LAST, &id)};
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_step(e.session, items, 2, &error) == PHASOR_NOT_FINITE);
    CHECK(error.layer == 0);
    CHECK(phasor_sequence_status(e.session, 0) == PHASOR_NOT_FINITE);
    CHECK(phasor_sequence_status(e.session, 1) == PHASOR_OK);
    CHECK(fnv1a(kFnvStart, phasor_logits(e.session, 1), side.vocabulary * 4) ==
          step_hash(reference, 1, {4}));
    items[0] = item_of(0, 1, PHASOR_LOGITS_LAST, &id);
    CHECK(phasor_step(e.session, items, 1, &error) == PHASOR_NOT_FINITE);  // until it is cleared
    phasor_sequence_clear(e.session, 0);
    give_source(e, 0, 5);
    CHECK(phasor_step(e.session, items, 1, &error) == PHASOR_OK);
  }
}

TEST_CASE("rule 1.13: the caller's rounding mode does not change a bit") {
#if defined(__x86_64__)
  const Block file = golden_file(golden_models().front());
  const uint64_t expected = vector_hash(file, 0, nullptr, 1, 64, 64);
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040u | 0x6000u);  // flush subnormals, round toward zero
  const uint64_t hash = vector_hash(file, 0, nullptr, 2, 64, 64);
  const unsigned after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  CHECK(hash == expected);
  CHECK((after & 0xE040u) == 0xE040u);  // and it is given back
#endif
}

TEST_CASE("rule 3.2: sinusoid rows as needed are the table's bits") {
  for (const std::string& name : golden_models()) {
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = probe.limits;
    uint64_t hashes[2];
    for (uint32_t tables = 0; tables < 2; ++tables) {
      limits.tables = tables;
      const Engine e(file, nullptr, &limits);
      phasor_vector_result result{};
      result.struct_size = sizeof result;
      phasor_error error = PHASOR_ERROR_INIT;
      CHECK(phasor_vector_run(e.session, 0, &result, &error) == PHASOR_OK);
      hashes[tables] = result.hash;
    }
    CHECK(hashes[0] == hashes[1]);
  }
}

TEST_CASE("rule 3.9: versions") {
  CHECK(phasor_numerics() == 1);
  CHECK(phasor_format_max() == 1);
  CHECK(phasor_version() == PHASOR_VERSION);
  CHECK(std::string(phasor_status_name(PHASOR_NOT_FINITE)) == "not finite");
}

TEST_CASE("rule 3.1: sessions on one model, each on a thread of its own, do not meet") {
  const std::string name = decoders().front();
  const Block file = golden_file(name);
  const Engine e(file, nullptr);
  const uint64_t expected = vector_hash(file, 0, nullptr, 1, 64, 64);
  uint64_t hashes[4] = {0, 0, 0, 0};
  struct Job {
    const Engine* e;
    uint64_t* hashes;
  } job{&e, hashes};
  run_threads(
      nullptr,
      [](void* context, uint32_t index) {
        const Job* j = static_cast<const Job*>(context);
        for (int repeat = 0; repeat < 5; ++repeat) {
          std::size_t need = 0;
          phasor_session_size(&need, j->e->model, &j->e->limits, nullptr);
          Block arena(need);
          phasor_session* session = nullptr;
          phasor_session_open(&session, arena.data(), need, j->e->model, &j->e->limits, nullptr,
                              nullptr);
          phasor_vector_result result{};
          result.struct_size = sizeof result;
          phasor_error error = PHASOR_ERROR_INIT;
          if (phasor_vector_run(session, 0, &result, &error) == PHASOR_OK)
            j->hashes[index] = result.hash;
        }
      },
      &job, 4);
  for (const uint64_t hash : hashes) CHECK(hash == expected);
}

namespace {
struct Seen {
  uint32_t residuals[2] = {0, 0}, self[2] = {0, 0}, cross = 0, embeddings = 0, finals = 0;
  float worst_sum = 0;
  bool merged = false;             // has layers with one softmax over both
  std::vector<double> first = {};  // sums of the one of a layer that came first
};
void on_view(void* user, const phasor_view* v) {
  Seen* s = static_cast<Seen*>(user);
  const int stack = v->stack == 2 ? 0 : 1;
  if (v->what == PHASOR_SEE_RESIDUAL) s->residuals[stack] += v->rows;
  if (v->what == PHASOR_SEE_EMBEDDING) s->embeddings += v->rows;
  if (v->what == PHASOR_SEE_FINAL) s->finals += v->rows;
  if (v->what == PHASOR_SEE_SELF_ATTENTION) s->self[stack] += v->rows;
  if (v->what == PHASOR_SEE_CROSS_ATTENTION) s->cross += v->rows;
  if (v->what != PHASOR_SEE_SELF_ATTENTION && v->what != PHASOR_SEE_CROSS_ATTENTION) return;
  std::vector<double> sums;
  for (uint32_t h = 0; h < v->heads; ++h)
    for (uint32_t r = 0; r < v->rows; ++r) {
      const float* row = v->data + h * v->head_stride + r * v->stride;
      sums.push_back(std::accumulate(row, row + v->cols, 0.0));
    }
  const auto off = [](double sum) { return static_cast<float>(std::abs(sum - 1)); };
  if (s->merged && stack == 1) {  // of some layers each is 1, of the merged ones both together
    s->first.swap(sums);
    if (sums.empty()) return;
    REQUIRE(sums.size() == s->first.size());
    for (std::size_t i = 0; i < sums.size(); ++i)
      s->worst_sum = std::max(s->worst_sum, std::min(std::max(off(sums[i]), off(s->first[i])),
                                                     off(sums[i] + s->first[i])));
    s->first.clear();
    return;
  }
  for (const double sum : sums) s->worst_sum = std::max(s->worst_sum, off(sum));
}
int stop_at_layer_one(void*, uint32_t stack, uint32_t layer, uint32_t) {
  return stack == 4 && layer == 1 ? 1 : 0;
}
}  // namespace

TEST_CASE(
    "rule 3.7: an observer sees every block, and attention weights that add up to one; "
    "progress can stop a step") {
  for (const std::string& name : decoders()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const Engine probe(file, nullptr);
    phasor_limits limits = small_limits(probe.model, 1);
    limits.outputs = PHASOR_WANT_ATTENTION;
    const Engine e(file, nullptr, &limits);
    Seen seen;
    seen.merged = name.find("merged") != std::string::npos;
    phasor_callbacks callbacks{sizeof(phasor_callbacks), on_view, nullptr, &seen, nullptr};
    phasor_session_callbacks(e.session, &callbacks);
    give_source(e, 0, 13);
    step_hash(e, 0, {1, 2, 3, 4, 5, 6, 7});
    phasor_side source{}, target{};
    source.struct_size = target.struct_size = sizeof source;
    const bool encoder = phasor_model_side(e.model, PHASOR_SOURCE, &source) == PHASOR_OK;
    REQUIRE(phasor_model_side(e.model, PHASOR_TARGET, &target) == PHASOR_OK);
    CHECK(seen.residuals[0] == (encoder ? 13 * source.layers : 0));
    CHECK(seen.residuals[1] == 7 * target.layers);
    CHECK(seen.self[0] == seen.residuals[0]);
    // A layer with a convolution has no attention.
    const bool convolves = name.find("lfm2") != std::string::npos;
    CHECK(seen.self[1] == (convolves ? 7 : seen.residuals[1]));
    CHECK(seen.cross == (encoder ? 7 * target.layers : 0));
    CHECK(seen.embeddings == (encoder ? 13u : 0u) + 7u);
    CHECK(seen.finals == (encoder ? 13u : 0u) + 1u);
    CHECK(seen.worst_sum < 1e-5f);
    if (target.layers < 2) continue;
    callbacks = {sizeof(phasor_callbacks), nullptr, stop_at_layer_one, nullptr, nullptr};
    phasor_session_callbacks(e.session, &callbacks);
    const uint32_t more[20] = {1};
    phasor_item item = item_of(0, 20, PHASOR_LOGITS_LAST, more);
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_step(e.session, &item, 1, &error) == PHASOR_STOPPED);
    CHECK(phasor_sequence_length(e.session, 0) == 7);
    phasor_session_callbacks(e.session, nullptr);
    const uint64_t after = step_hash(e, 0, {9});
    const Engine fresh(file, nullptr, &limits);
    give_source(fresh, 0, 13);
    step_hash(fresh, 0, {1, 2, 3, 4, 5, 6, 7});
    CHECK(step_hash(fresh, 0, {9}) == after);
  }
}
