// Limits of a caller that nobody checks: sizes are refused with a line or they are exact, the
// parts add up, and what is planned can be opened. Costs of any position.
#include "models.h"

namespace fuzz {
namespace {

// Each field is what a small plan has, or any number.
phasor_limits hostile_limits(Choices* c, const Model& model) {
  phasor_limits l = any_limits(c, model);
  uint32_t* const fields[] = {&l.source,     &l.target,     &l.sequences,  &l.chunk,   &l.threads,
                              &l.text_bytes, &l.logit_rows, &l.cache_type, &l.outputs, &l.tables,
                              &l.best_rows,  &l.beams,      &l.searches};
  for (uint32_t* field : fields)
    if (c->chance(20)) *field = any_number(c);
  if (c->chance(10)) l.struct_size = c->below(2 * sizeof l);
  return l;
}

}  // namespace

void run_limits(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 2);
  const Model* const generated = generated_model(parts[0]);
  if (generated == nullptr) return;
  const Model& model = *generated;
  Choices choices = parts[1].choices();
  Choices* const c = &choices;
  for (uint32_t round = 0; round < 4; ++round) {
    const phasor_limits given = hostile_limits(c, model);
    // no byte behind struct_size is read
    const bool known = phasor::known_size<phasor_limits>(given.struct_size);
    const Block exact(&given, known ? given.struct_size : sizeof given);
    const auto* limits = exact.as<phasor_limits>();
    Answer answer;
    size_t need = 0;
    const phasor_status status = phasor_session_size(&need, model.get(), limits, &answer.error);
    const char* name = nullptr;
    uint64_t part = 0, sum = 0;
    if (!answer(status)) {
      demand(phasor_session_part(model.get(), limits, 0, &name, &part) == status,
             "a part of a plan that is refused");
      continue;
    }
    uint32_t count = 0;
    while (phasor_session_part(model.get(), limits, count, &name, &part) == PHASOR_OK) {
      demand(name != nullptr && part % PHASOR_ALIGN == 0, "a part without a name or of odd size");
      sum += part;
      ++count;
    }
    demand(sum == need && count != 0, "the parts do not add up to the size");
    if (need > kMostMemory / 8 || limits->struct_size != sizeof given) continue;
    const Session session(model, *limits);
    demand(session.get() != nullptr, "a session does not open in its size");
  }
  auto cost = sized<phasor_cost>();
  (void)ok(phasor_model_cost(model.get(), any_number(c), any_number(c), &cost));
  auto limits = sized<phasor_limits>();
  limits.struct_size = c->below(2 * sizeof limits);
  const Block out(limits.struct_size < 4 ? 4 : limits.struct_size);
  std::memcpy(out.as(), &limits, 4);
  const bool known = phasor::known_size<phasor_limits>(limits.struct_size);
  const phasor_status status =
      phasor_limits_for(model.get(), any_number(c), any_number(c), out.as<phasor_limits>());
  demand((status == PHASOR_OK) == known, "limits of an unknown size are filled");
  demand(*out.as<uint32_t>() == limits.struct_size, "struct_size is changed");
}

}  // namespace fuzz
