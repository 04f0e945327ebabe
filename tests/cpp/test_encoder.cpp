// Encoders: short sources that share the products, output rows, vectors, segments, and the
// positions that are checked.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "cases.h"
#include "heap_counter.h"
#include "share.h"
#include "support.h"

namespace {

const std::vector<uint32_t> kLengths = {3, 1, 16, 7, 17, 2, 20};

std::vector<uint32_t> ids_of(uint32_t which, uint32_t count) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = (which * 11 + i * 7 + 2) % 40;
  return ids;
}

phasor_item item_of(uint32_t sequence, const std::vector<uint32_t>& ids) {
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.count = static_cast<uint32_t>(ids.size());
  item.ids = ids.data();
  return item;
}

std::vector<std::string> models_of(uint32_t stack) {
  std::vector<std::string> names;
  for (const std::string& name : golden_models())
    if (phasor_model_stack(Engine(golden_file(name), nullptr).model) == stack)
      names.push_back(name);
  return names;
}

phasor_output output_of(const Engine& e) {
  phasor_output o{};
  o.struct_size = sizeof o;
  REQUIRE(phasor_model_output(e.model, &o) == PHASOR_OK);
  return o;
}

phasor_side source_of(const Engine& e) {
  phasor_side side{};
  side.struct_size = sizeof side;
  REQUIRE(phasor_model_side(e.model, PHASOR_SOURCE, &side) == PHASOR_OK);
  return side;
}

// Room for all of kLengths in one call.
phasor_limits batch_limits(const Block& file, uint32_t chunk) {
  const Engine probe(file, nullptr);
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  phasor_limits_for(probe.model, 20, phasor_model_stack(probe.model) == PHASOR_ENCODER ? 0 : 8,
                    &limits);
  limits.sequences = static_cast<uint32_t>(kLengths.size());
  limits.chunk = chunk;
  if (limits.logit_rows != 0) limits.logit_rows = 20;
  return limits;
}

uint64_t hidden_hash(const Engine& e, uint32_t sequence) {
  uint32_t rows = 0, stride = 0;
  const float* h = phasor_hidden(e.session, sequence, &rows, &stride);
  REQUIRE(h != nullptr);
  uint64_t hash = kFnvStart;
  for (uint32_t r = 0; r < rows; ++r)
    hash = fnv1a(hash, h + r * stride, source_of(e).width * sizeof(float));
  return hash;
}

}  // namespace

TEST_CASE(
    "promise 2: sources of unequal lengths in one call give the bits of each alone, in any chunk "
    "and with any threads") {
  Share share;
  for (const std::string& name : models_of(PHASOR_ENCODER)) {
    CAPTURE(name);
    const Block file = golden_file(name);
    std::vector<std::vector<uint32_t>> ids;
    std::vector<uint64_t> alone;
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_limits one = batch_limits(file, 64);
    const Engine single(file, nullptr, &one);
    for (uint32_t i = 0; i < kLengths.size(); ++i) {
      ids.push_back(ids_of(i, kLengths[i]));
      const phasor_item item = item_of(2, ids[i]);
      REQUIRE(phasor_encode(single.session, &item, 1, &error) == PHASOR_OK);
      alone.push_back(hidden_hash(single, 2));
    }
    std::vector<phasor_item> items;
    for (uint32_t i = 0; i < ids.size(); ++i) items.push_back(item_of(i, ids[i]));
    for (const uint32_t chunk : {1u, 5u, 18u, 64u, 200u})
      for (const uint32_t threads : {1u, 3u}) {
        if (!share.takes()) continue;
        CAPTURE(chunk);
        const phasor_limits limits = batch_limits(file, chunk);
        const Engine e(file, nullptr, &limits, threads);
        REQUIRE(phasor_encode(e.session, items.data(), static_cast<uint32_t>(items.size()),
                              &error) == PHASOR_OK);
        for (uint32_t i = 0; i < ids.size(); ++i) CHECK(hidden_hash(e, i) == alone[i]);
        REQUIRE(phasor_encode(e.session, items.data(), 1, &error) == PHASOR_OK);
        uint32_t rows = 0, stride = 0;
        CHECK(phasor_hidden(e.session, 1, &rows, &stride) == nullptr);  // until the next call
      }
  }
}

TEST_CASE("promise 2: an encoder-decoder's sources in one call leave what each leaves alone") {
  for (const std::string& name : models_of(PHASOR_ENCODER_DECODER)) {
    CAPTURE(name);
    const Block file = golden_file(name);
    phasor_error error = PHASOR_ERROR_INIT;
    std::vector<std::vector<uint32_t>> ids;
    std::vector<phasor_item> items;
    for (uint32_t i = 0; i < kLengths.size(); ++i) ids.push_back(ids_of(i, kLengths[i]));
    for (uint32_t i = 0; i < ids.size(); ++i) items.push_back(item_of(i, ids[i]));
    const std::vector<uint32_t> target = {2, 5, 9};
    for (const uint32_t chunk : {4u, 64u}) {
      const phasor_limits limits = batch_limits(file, chunk);
      const Engine together(file, nullptr, &limits), alone(file, nullptr, &limits);
      REQUIRE(phasor_encode(together.session, items.data(), static_cast<uint32_t>(items.size()),
                            &error) == PHASOR_OK);
      for (uint32_t i = 0; i < items.size(); ++i) {
        REQUIRE(phasor_encode(alone.session, &items[i], 1, &error) == PHASOR_OK);
        phasor_item step = item_of(i, target);
        step.logits = PHASOR_LOGITS_LAST;
        REQUIRE(phasor_step(together.session, &step, 1, &error) == PHASOR_OK);
        REQUIRE(phasor_step(alone.session, &step, 1, &error) == PHASOR_OK);
        const phasor_side side = target_of(alone.model);
        CHECK(std::memcmp(phasor_logits(together.session, 0), phasor_logits(alone.session, 0),
                          side.vocabulary * sizeof(float)) == 0);
      }
    }
  }
}

TEST_CASE("promise 1: encoding, output rows and vectors allocate nothing") {
  for (const std::string& name : models_of(PHASOR_ENCODER)) {
    const Block file = golden_file(name);
    const phasor_limits limits = batch_limits(file, 18);
    const Engine e(file, nullptr, &limits);
    const phasor_output o = output_of(e);
    const std::vector<uint32_t> ids = ids_of(4, 20);
    std::vector<float> y(source_of(e).width);
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_item item = item_of(0, ids);
    const HeapCounter heap;
    const phasor_status encoded = phasor_encode(e.session, &item, 1, &error);
    phasor_status rows = PHASOR_OK;
    if (limits.logit_rows != 0)
      rows = phasor_encoder_output(e.session, 0, 0, o.pooling != 0 ? 1 : 20, &error);
    const phasor_status pooled =
        phasor_embedding(e.session, 0, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_YES, y.data(),
                         o.output == PHASOR_OUTPUT_POOLED ? o.width : 1, &error);
    const auto allocations = heap.allocations();
    CHECK(allocations == 0);
    CHECK(encoded == PHASOR_OK);
    CHECK(rows == PHASOR_OK);
    CHECK(pooled == PHASOR_OK);
  }
}

TEST_CASE("vectors: mean, first and last position, maximum, length one, and their first values") {
  const Block file = golden_file("tiny-relative-key-f32");
  const phasor_limits limits = batch_limits(file, 6);
  const Engine e(file, nullptr, &limits);
  const uint32_t width = source_of(e).width;
  const std::vector<uint32_t> ids = ids_of(1, 17);
  const phasor_item item = item_of(3, ids);
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  uint32_t rows = 0, stride = 0;
  const float* h = phasor_hidden(e.session, 3, &rows, &stride);
  REQUIRE(rows == 17);
  std::vector<float> mean(width), first(width), last(width), most(width), part(7);
  REQUIRE(phasor_embedding(e.session, 3, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_NO, mean.data(), width,
                           &error) == PHASOR_OK);
  REQUIRE(phasor_embedding(e.session, 3, PHASOR_POOL_FIRST, PHASOR_NORMALIZE_MODEL, first.data(),
                           width, &error) == PHASOR_OK);
  REQUIRE(phasor_embedding(e.session, 3, PHASOR_POOL_LAST, PHASOR_NORMALIZE_YES, last.data(), width,
                           &error) == PHASOR_OK);
  REQUIRE(phasor_embedding(e.session, 3, PHASOR_POOL_MAX, PHASOR_NORMALIZE_NO, most.data(), width,
                           &error) == PHASOR_OK);
  REQUIRE(phasor_embedding(e.session, 3, PHASOR_POOL_FIRST, PHASOR_NORMALIZE_YES, part.data(), 7,
                           &error) == PHASOR_OK);
  double last_length = 0, part_length = 0;
  for (uint32_t d = 0; d < width; ++d)
    last_length += double(h[16 * stride + d]) * double(h[16 * stride + d]);
  for (uint32_t d = 0; d < 7; ++d) part_length += double(h[d]) * double(h[d]);
  for (uint32_t d = 0; d < width; ++d) {
    double sum = 0;
    float greatest = h[d];
    for (uint32_t r = 0; r < 17; ++r) {
      sum += double(h[r * stride + d]);
      greatest = std::max(greatest, h[r * stride + d]);
    }
    CHECK(std::memcmp(&most[d], &greatest, 4) == 0);
    CHECK(std::fabs(double(mean[d]) - sum / 17) < 1e-6);
    CHECK(std::memcmp(&first[d], &h[d], 4) == 0);
    CHECK(std::fabs(double(last[d]) - double(h[16 * stride + d]) / std::sqrt(last_length)) < 1e-6);
    if (d < 7) CHECK(std::fabs(double(part[d]) - double(h[d]) / std::sqrt(part_length)) < 1e-6);
  }
  CHECK(phasor_embedding(e.session, 3, PHASOR_POOL_MODEL, PHASOR_NORMALIZE_NO, mean.data(), width,
                         &error) == PHASOR_BAD_INPUT);
  CHECK(std::strstr(error.text, "says nothing of pooling") != nullptr);
  CHECK(phasor_embedding(e.session, 3, PHASOR_POOL_MAX + 1, PHASOR_NORMALIZE_NO, mean.data(), width,
                         &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_embedding(e.session, 3, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_NO, mean.data(),
                         width + 1, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_embedding(e.session, 2, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_NO, mean.data(), width,
                         &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_encoder_output(e.session, 3, 0, 1, &error) == PHASOR_BAD_INPUT);  // it has no logits
}

TEST_CASE("output rows: any of them at a time, and none beyond") {
  const Block file = golden_file("tiny-bert-f32");
  const phasor_limits limits = batch_limits(file, 6);
  const Engine e(file, nullptr, &limits);
  const uint32_t vocabulary = source_of(e).vocabulary;
  const std::vector<uint32_t> ids = ids_of(2, 20);
  const phasor_item item = item_of(0, ids);
  phasor_error error = PHASOR_ERROR_INIT;
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  REQUIRE(phasor_encoder_output(e.session, 0, 0, 20, &error) == PHASOR_OK);
  std::vector<uint64_t> all;
  for (uint32_t r = 0; r < 20; ++r)
    all.push_back(fnv1a(kFnvStart, phasor_logits(e.session, r), vocabulary * sizeof(float)));
  for (uint32_t r = 0; r < 20; ++r) {
    REQUIRE(phasor_encoder_output(e.session, 0, r, 1, &error) == PHASOR_OK);
    CHECK(fnv1a(kFnvStart, phasor_logits(e.session, 0), vocabulary * sizeof(float)) == all[r]);
    CHECK(phasor_logits(e.session, 1) == nullptr);
  }
  CHECK(phasor_encoder_output(e.session, 0, 19, 2, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_encoder_output(e.session, 0, 20, 1, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_encoder_output(e.session, 0, 0, 0, &error) == PHASOR_BAD_INPUT);
  CHECK(phasor_encoder_output(e.session, 1, 0, 1, &error) == PHASOR_BAD_INPUT);
}

TEST_CASE("labels have names, and prompts are none where the file has none") {
  const Block file = golden_file("tiny-classes-f32");
  const Engine e(file, nullptr);
  const phasor_output o = output_of(e);
  CHECK(o.classes == 3);
  CHECK(o.prompts == 0);
  std::size_t bytes = 0;
  const char* label = phasor_label(e.model, 1, &bytes);
  REQUIRE(label != nullptr);
  CHECK(std::string(label, bytes) == "neutral");
  CHECK(phasor_label(e.model, 3, &bytes) == nullptr);
}

TEST_CASE("segments are a second table, and one that the model does not have is refused") {
  const Block file = golden_file("tiny-bert-f32");
  const Engine e(file, nullptr);
  const std::vector<uint32_t> ids = ids_of(3, 9);
  std::vector<uint32_t> zeros(9, 0), types = {0, 0, 0, 0, 1, 1, 1, 1, 1};
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_item item = item_of(0, ids);
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  const uint64_t plain = hidden_hash(e, 0);
  item.segments = zeros.data();
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  CHECK(hidden_hash(e, 0) == plain);
  item.segments = types.data();
  REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
  CHECK(hidden_hash(e, 0) != plain);
  types[8] = 2;
  CHECK(phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) == "segment 2 at place 8, the model has 2");
}

// `seen` of `ids`, of which the first `check` rows count.
uint64_t seen_hash(const Engine& e, const std::vector<uint32_t>& ids, uint32_t seen, uint32_t first,
                   uint32_t end) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_item item = item_of(0, ids);
  item.seen = seen;
  const phasor_status status = phasor_encode(e.session, &item, 1, &error);
  CAPTURE(error.text);
  REQUIRE(status == PHASOR_OK);
  uint32_t rows = 0, stride = 0;
  const float* h = phasor_hidden(e.session, 0, &rows, &stride);
  REQUIRE((h != nullptr && rows == ids.size()));
  uint64_t hash = kFnvStart;
  for (uint32_t r = first; r < end; ++r)
    hash = fnv1a(hash, h + r * stride, source_of(e).width * sizeof(float));
  return hash;
}

TEST_CASE("tokens that are not seen have outputs of their own, and change no other's") {
  Share share;
  uint32_t tried = 0;
  for (const std::string& name : models_of(PHASOR_ENCODER)) {
    CAPTURE(name);
    const Block file = golden_file(name);
    for (const uint32_t chunk : {64u, 5u, 1u}) {
      const phasor_limits limits = batch_limits(file, chunk);
      const Engine e(file, nullptr, &limits);
      for (const uint32_t seen : {1u, 3u, 15u, 16u, 17u, 19u}) {
        if (!share.takes()) continue;
        CAPTURE(seen);
        std::vector<uint32_t> ids = ids_of(1, 20), other = ids;
        phasor_error error = PHASOR_ERROR_INIT;
        phasor_item item = item_of(0, ids);
        item.seen = seen;
        if (phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT) {
          const std::string why(error.text);
          CHECK((why.find("tables of distances") != std::string::npos ||
                 why.find("the window holds") != std::string::npos));
          continue;
        }
        ++tried;
        const std::vector<uint32_t> alone(ids.begin(), ids.begin() + seen);
        CHECK(seen_hash(e, ids, seen, 0, seen) == seen_hash(e, alone, 0, 0, seen));
        const uint64_t last = seen_hash(e, ids, seen, 19, 20);
        for (uint32_t i = seen; i < 19; ++i) other[i] = (other[i] + 5) % 40;
        CHECK(seen_hash(e, other, seen, 19, 20) == last);
        other[19] = (other[19] + 5) % 40;
        CHECK(seen_hash(e, other, seen, 19, 20) != last);
        CHECK(seen_hash(e, ids, 20, 0, 20) == seen_hash(e, ids, 0, 0, 20));
      }
    }
  }
  CHECK(tried * share.of() > 30);
}

TEST_CASE("how many tokens are seen is checked") {
  const auto why = [](const char* name, uint32_t seen, uint32_t reserved) {
    const Block file = golden_file(name);
    const Engine e(file, nullptr);
    const std::vector<uint32_t> ids = ids_of(1, 9);
    phasor_error error = PHASOR_ERROR_INIT;
    phasor_item item = item_of(0, ids);
    item.seen = seen;
    item.reserved = reserved;
    CHECK(phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);
    return std::string(error.text);
  };
  CHECK(why("tiny-bert-f32", 10, 0) == "sequence 0: 10 tokens are seen, there are 9");
  CHECK(why("tiny-bert-f32", 0, 1) == "sequence 0: the item's reserved field is not 0");
  CHECK(why("tiny-d2l-f32", 3, 0) == "sequence 0: tokens that are not seen are an encoder's");
  CHECK(why("tiny-relative-query-f32", 3, 0) ==
        "sequence 0: all tokens are seen where positions have tables of distances");
}

TEST_CASE(
    "positions are counted: token ids in their place, and a position past the table, are errors "
    "that say so") {
  const Block file = golden_file("tiny-relative-query-f32");
  const Engine probe(file, nullptr);
  CHECK(source_of(probe).max_positions == 33);
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  phasor_limits_for(probe.model, 0, 0, &limits);
  CHECK(limits.source == 33);
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  limits.source = 34;
  CHECK(phasor_session_size(&need, probe.model, &limits, &error) == PHASOR_BAD_LIMITS);
  CHECK(std::string(error.text) == "limits.source: 34, expected 1 to 33");

  const std::vector<uint32_t> ids = ids_of(0, 5);
  std::vector<uint32_t> positions = {0, 1, 2, 3, 4};
  phasor_item item = item_of(0, ids);
  item.positions = positions.data();
  CHECK(phasor_encode(probe.session, &item, 1, &error) == PHASOR_OK);
  item.positions = ids.data();
  CHECK(phasor_encode(probe.session, &item, 1, &error) == PHASOR_BAD_INPUT);
  CHECK(std::string(error.text) ==
        "position 2 at place 0, expected 0: positions count the tokens from 0, they are not token "
        "ids");
  item.positions = nullptr;
}

TEST_CASE("rule 3.3: ids and embeddings in one item") {
  for (const std::string& name : models_of(PHASOR_ENCODER)) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const phasor_limits limits = batch_limits(file, 64);
    const Engine e(file, nullptr, &limits);
    std::vector<uint32_t> ids = ids_of(3, 6);
    // at least as wide as what the model takes
    std::vector<float> embeddings(ids.size() * source_of(e).width, 0.25f);
    phasor_error error = PHASOR_ERROR_INIT;
    phasor_item item = item_of(1, ids);
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    const uint64_t plain = hidden_hash(e, 1);
    item.embeddings = embeddings.data();  // of which no id asks for one
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    CHECK(hidden_hash(e, 1) == plain);
    ids[1] = PHASOR_NONE;
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    const uint64_t mixed = hidden_hash(e, 1);
    CHECK(mixed != plain);
    embeddings[0] += 1;  // of a place that has an id
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    CHECK(hidden_hash(e, 1) == mixed);
    std::fill(ids.begin(), ids.end(), PHASOR_NONE);
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    const uint64_t all = hidden_hash(e, 1);
    item.ids = nullptr;
    REQUIRE(phasor_encode(e.session, &item, 1, &error) == PHASOR_OK);
    CHECK(hidden_hash(e, 1) == all);
    item.embeddings = nullptr;
    CHECK(phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);
    CHECK(std::string(error.text) == "sequence 1: expected ids or embeddings");
    item.ids = ids.data();
    CHECK(phasor_encode(e.session, &item, 1, &error) == PHASOR_BAD_INPUT);
    CHECK(std::string(error.text).find("token id 4294967295 at place 0") != std::string::npos);
  }
}

TEST_CASE("rule 1.14: a source with a NaN fails alone") {
  for (const std::string& name : models_of(PHASOR_ENCODER)) {
    CAPTURE(name);
    const Block file = golden_file(name);
    const phasor_limits limits = batch_limits(file, 64);
    const Engine e(file, nullptr, &limits);
    // at least as wide as what the model takes
    std::vector<float> embeddings(size_t(3) * source_of(e).width, 0.25f);
    embeddings[1] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<uint32_t> ids = ids_of(2, 6);
    phasor_error error = PHASOR_ERROR_INIT;
    phasor_item items[2] = {PHASOR_ITEM_INIT, item_of(1, ids)};
    items[0].count = 2;
    items[0].embeddings = embeddings.data();
    REQUIRE(phasor_encode(e.session, items + 1, 1, &error) == PHASOR_OK);
    const uint64_t alone = hidden_hash(e, 1);
    CHECK(phasor_encode(e.session, items, 2, &error) == PHASOR_NOT_FINITE);
    CHECK(phasor_sequence_status(e.session, 0) == PHASOR_NOT_FINITE);
    CHECK(phasor_sequence_status(e.session, 1) == PHASOR_OK);
    CHECK(hidden_hash(e, 1) == alone);
    float y = 0;
    CHECK(phasor_embedding(e.session, 0, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_NO, &y, 1, &error) ==
          PHASOR_NOT_FINITE);
  }
}
