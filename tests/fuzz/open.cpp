// Whatever the bytes are, opening answers with a status; what opens can be listed, checked, planned
// and run for a token, and says what it is in text. Each input is tried as it is and, sealed, once
// more: or the checksum only would be proved.
#include <algorithm>

#include "edit.h"
#include "models.h"

namespace fuzz {
namespace {

void list(const phasor_model* model) {
  for (uint32_t i = 0; i < phasor_tensor_count(model); ++i) {
    auto tensor = sized<phasor_tensor>();
    demand(phasor_tensor_get(model, i, &tensor) == PHASOR_OK && tensor.name != nullptr,
           "a tensor cannot be described");
  }
  for (uint32_t i = 0; i < phasor_field_count(model); ++i) {
    auto field = sized<phasor_field>();
    demand(phasor_field_get(model, i, &field) == PHASOR_OK &&
               memchr(field.value, 0, sizeof field.value) != nullptr,
           "a field has no text");
  }
  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    auto vector = sized<phasor_vector>();
    demand(phasor_vector_get(model, i, &vector) == PHASOR_OK, "a test vector is not there");
    look_at(vector.source, vector.source_count);
    look_at(vector.target, vector.target_count);
  }
  auto output = sized<phasor_output>();
  demand(phasor_model_output(model, &output) == PHASOR_OK, "a model without an output");
  size_t bytes = 0, more = 0;
  for (uint32_t i = 0; i < std::min(output.classes, 300u); ++i)
    if (const char* label = phasor_label(model, i, &bytes)) look_at(label, bytes);
  const char *name = nullptr, *text = nullptr;
  for (uint32_t i = 0; i < output.prompts; ++i) {
    demand(phasor_prompt(model, i, &name, &bytes, &text, &more) == PHASOR_OK, "no such prompt");
    look_at(name, bytes);
    look_at(text, more);
  }
  uint32_t skipped = 0;
  if (const uint32_t* ids = phasor_skipped(model, &skipped)) look_at(ids, skipped);
  auto cost = sized<phasor_cost>();
  demand(phasor_model_cost(model, 7, 9, &cost) == PHASOR_OK, "a model without a cost");
}

void run_once(const Model& model) {
  auto limits = sized<phasor_limits>();
  demand(phasor_limits_for(model.get(), 2, 2, &limits) == PHASOR_OK, "limits_for");
  limits.text_bytes = 16;
  const Session session(model, limits);
  if (session.get() == nullptr) return;
  const uint32_t ids[2] = {0, 1};
  phasor_item item = PHASOR_ITEM_INIT;
  item.ids = ids;
  item.count = 1;
  Answer answer;
  if (model.encodes() && !answer(phasor_encode(session.get(), &item, 1, &answer.error),
                                 {PHASOR_NOT_FINITE, PHASOR_BAD_INPUT}))
    return;
  if (!model.decodes()) return;
  item.logits = PHASOR_LOGITS_LAST;
  if (answer(phasor_step(session.get(), &item, 1, &answer.error)))
    look_at(phasor_logits(session.get(), 0), model.vocabulary(PHASOR_TARGET));
}

void open(const uint8_t* data, size_t size) {
  const Model model(data, size);
  if (model.get() == nullptr) return;
  list(model.get());
  Answer answer;
  (void)answer(phasor_model_check(model.get(), &answer.error));
  run_once(model);
}

}  // namespace

void run_open(const uint8_t* data, size_t size) {
  open(data, size);
  Bytes sealed(data, data + size);
  seal(sealed.data(), size);
  open(sealed.data(), size);
}

}  // namespace fuzz
