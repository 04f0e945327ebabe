// Test vectors of a stranger: replaying answers; what was recorded of a replay is what the next one
// gives, in a file that still opens and checks.
#include <algorithm>

#include "edit.h"
#include "format/file.h"
#include "models.h"

namespace fuzz {
namespace {

// The hashes of all vectors; false where one was not replayed to its end.
bool replay(const Model& model, Choices* c, std::vector<uint64_t>* hashes, phasor_status* worst) {
  *worst = PHASOR_OK;
  for (uint32_t i = 0; i < phasor_vector_count(model.get()); ++i) {
    auto vector = sized<phasor_vector>();
    demand(phasor_vector_get(model.get(), i, &vector) == PHASOR_OK, "a vector is not there");
    auto limits = sized<phasor_limits>();
    demand(phasor_limits_for(model.get(), vector.source_count, vector.target_count, &limits) ==
               PHASOR_OK,
           "limits_for");
    limits.chunk = c->of({limits.chunk, 1u, 3u});
    limits.logit_rows += c->below(3);
    const Session session(model, limits);
    if (session.get() == nullptr) return false;
    auto result = sized<phasor_vector_result>();
    Answer answer;
    const phasor_status status = phasor_vector_run(session.get(), i, &result, &answer.error);
    if (!answer(status, {PHASOR_MISMATCH, PHASOR_NOT_FINITE, PHASOR_BAD_LIMITS, PHASOR_BAD_INPUT,
                         PHASOR_FULL})) {
      *worst = status;
      if (status != PHASOR_MISMATCH) return false;
    }
    hashes->push_back(result.hash);
    demand(result.worst_position < limits.source + limits.target + 1, "a place that is not there");
  }
  return true;
}

// What is put into a record is read again, in a file that opens and checks.
void put_record(const Model& model, Choices* c) {
  auto record = sized<phasor_record>();
  if (phasor_record_get(model.get(), &record) != PHASOR_OK) return;
  auto output = sized<phasor_output>();
  (void)phasor_model_output(model.get(), &output);
  demand(record.method_bytes >= 1 && record.method_bytes <= 64 && record.divergence >= 0,
         "a record that is not sound");
  for (uint64_t row = 0; row < record.rows; ++row)
    for (uint32_t i = 0; i < record.samples; ++i)
      demand(record.outputs[row * (2 * record.samples + 1) + i] < output.width,
             "a place that is not there");
  const float divergence = any_float(c);
  record.divergence = divergence;
  record.method = "put";
  record.method_bytes = 3;
  Answer answer;
  const phasor_status status =
      phasor_record_put(model.get(), model.file(), &record, &answer.error);
  if (!answer(status, {PHASOR_BAD_INPUT})) {
    demand(!(divergence >= 0 && divergence <= 3e38f), "a sound record is refused");
    return;
  }
  const Model again(model.file(), model.bytes());
  auto second = sized<phasor_record>();
  demand(again.get() != nullptr && phasor_record_get(again.get(), &second) == PHASOR_OK,
         "a file does not open after its record was put");
  demand(second.divergence == divergence && second.rows == record.rows &&
             std::equal(second.method, second.method + second.method_bytes, "put"),
         "a record is not what was put");
}

}  // namespace

void run_vectors(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  Choices choices = parts[2].choices();
  const bool record = parts[2].size % 4 == 1;  // the other inputs are what they were
  const Bytes file = edited_file(parts[0], parts[1],
                                 record ? phasor::kSectionRecord : phasor::kSectionVectors);
  const Model model(file.data(), file.size());
  if (model.get() == nullptr) return;
  if (record) put_record(model, &choices);
  std::vector<uint64_t> hashes;
  phasor_status worst = PHASOR_OK;
  if (!replay(model, &choices, &hashes, &worst) || hashes.empty()) return;

  // Recorded with a tolerance that holds any difference, all but a wrong best token is right.
  const float tolerance = choices.chance(70) ? 1e30f : any_float(&choices);
  Bytes copy(model.file(), model.file() + model.bytes());
  Answer answer;
  if (!answer(phasor_vector_record(model.get(), model.file(), hashes.data(), tolerance,
                                   &answer.error))) {
    demand(std::equal(copy.begin(), copy.end(), model.file()), "a refused record writes");
    return;
  }
  const Model again(model.file(), model.bytes());
  demand(again.get() != nullptr, "a file does not open after its vectors were recorded");
  std::vector<uint64_t> second;
  phasor_status status = PHASOR_OK;
  if (!replay(again, &choices, &second, &status)) return;
  demand(second == hashes, "a second replay gives other hashes");
  if (worst == PHASOR_OK && tolerance == 1e30f)
    demand(status == PHASOR_OK, "a recorded vector is not replayed");
}

}  // namespace fuzz
