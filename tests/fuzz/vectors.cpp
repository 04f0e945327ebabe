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

}  // namespace

void run_vectors(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  const Bytes file = edited_file(parts[0], parts[1], phasor::kSectionVectors);
  const Model model(file.data(), file.size());
  if (model.get() == nullptr) return;
  Choices choices = parts[2].choices();
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
