// Per-layer embeddings, and layers that use the keys and values of earlier ones (rule 1.26): what
// the table of hashes and the models' vectors do not see.
#include <limits>

#include "cases.h"
#include "items.h"
#include "support.h"
#include "weight_file.h"

namespace {

using weight_files::WeightFile;

constexpr const char* kModel = "tiny-gemma4-f32";
constexpr uint32_t kCount = 6, kWidth = 37, kSlots = 16;

// The logits of all positions of one step, of ids or of embeddings.
std::vector<float> logits_of(const Engine& e, const Ids& ids, const float* embeddings = nullptr) {
  const uint32_t count = static_cast<uint32_t>(ids.size());
  const uint32_t* const given = embeddings != nullptr ? nullptr : ids.data();
  const phasor_item item = item_of(0, count, PHASOR_LOGITS_ALL, given, embeddings);
  phasor_error error{};
  CAPTURE(error.text);
  REQUIRE(phasor_step(e.session, &item, 1, &error) == PHASOR_OK);
  std::vector<float> all;
  for (uint32_t r = 0; r < count; ++r) {
    const float* row = phasor_logits(e.session, r);
    all.insert(all.end(), row, row + vocabulary_of(e.model));
  }
  return all;
}

phasor_limits limits_of(const phasor_model* model) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  REQUIRE(phasor_limits_for(model, 0, 48, &limits) == PHASOR_OK);
  limits.chunk = kCount;
  limits.logit_rows = kCount;
  return limits;
}

std::vector<float> logits_in(const Block& file, const Ids& ids, const float* embeddings = nullptr) {
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  return logits_of(Engine(file, nullptr, &limits), ids, embeddings);
}

std::string& bytes_of(WeightFile* file, uint32_t key) {
  for (weight_files::StoredTensor& tensor : file->tensors)
    if (tensor.key == key) return tensor.bytes;
  REQUIRE(false);
  return file->tensors[0].bytes;
}

// The embedding of `count` times one id, as a caller would give it: the output's matrix too, so the
// table lies in panels of 16 rows.
std::vector<float> rows_of(const Block& file, uint32_t id, uint32_t count) {
  constexpr uint32_t kEmbedding = 3u << 24 | 1u;  // stack 3, role 1
  WeightFile made(file);
  const std::string& bytes = bytes_of(&made, kEmbedding);
  std::vector<float> rows(size_t(count) * kWidth);
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const size_t place = (size_t(id) / kSlots * kWidth + i % kWidth) * kSlots + id % kSlots;
    std::memcpy(&rows[i], bytes.data() + 4 * place, sizeof(float));
  }
  return rows;
}

}  // namespace

TEST_CASE("rule 1.26: a position that is no token has the row of padding, or row 0") {
  const Block whole = golden_file(kModel);
  for (const uint32_t id : {5u, 40u}) {
    const std::vector<float> rows = rows_of(whole, id, kCount);
    const Ids ids(kCount, id);
    const std::vector<float> wanted = logits_in(whole, ids);
    CHECK(logits_in(whole, ids, rows.data()) != wanted);  // padding is id 0 in this model
    const Block padded = WeightFile(kModel).edit("target.pad=" + std::to_string(id)).write();
    CHECK(logits_in(padded, ids, rows.data()) == wanted);
  }
  const std::vector<float> first = rows_of(whole, 0, kCount);
  const Ids zeros(kCount, 0);
  const Block without = WeightFile(kModel).edit("-target.pad").write();
  CHECK(logits_in(without, zeros, first.data()) == logits_in(whole, zeros));
}

TEST_CASE("rule 1.26: a layer with the keys and values of an earlier one has no pages") {
  const Block file = golden_file(kModel);
  const Engine e(file, nullptr);
  const phasor_limits limits = limits_of(e.model);
  // Of six layers 0 and 2 have a window and two heads of 10, 1 one head of 18 (keys [18][16],
  // values [16][32]); 3 and 5 use those of 2, 4 those of 1.
  const uint64_t near = 2 * (10 * 16 + 16 * 16), far = 18 * 16 + 16 * 32;
  CHECK(part_bytes(e.model, limits, "decoder keys and values") == 48 / kSlots * far * 4);
  CHECK(part_bytes(e.model, limits, "keys and values in windows") == 1 * 2 * near * 4);
  CHECK(part_bytes(e.model, limits, "per-layer embeddings") == kCount * 48 * 4);  // 6 layers of 7
}

TEST_CASE("rule 1.14: what is not finite in a row of the table fails the sequence that reads it") {
  constexpr uint32_t kTable = 3u << 24 | 10u;
  WeightFile made(kModel);
  const float infinite = std::numeric_limits<float>::infinity();
  std::memcpy(&bytes_of(&made, kTable)[(20 * 42 + 41) * 4], &infinite, sizeof infinite);
  const Block file = made.write();
  const Engine probe(file, nullptr);
  const phasor_limits limits = limits_of(probe.model);
  const Engine e(file, nullptr, &limits);
  const Ids good(kCount, 21), bad(kCount, 20);
  logits_of(e, good);
  REQUIRE(phasor_sequence_clear(e.session, 0) == PHASOR_OK);
  const phasor_item item = item_of(0, kCount, PHASOR_LOGITS_ALL, bad.data());
  CHECK(phasor_step(e.session, &item, 1, nullptr) == PHASOR_NOT_FINITE);
}
