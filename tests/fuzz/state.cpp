// A saved sequence is restored as the same bytes; a changed one is refused with a line, or goes on:
// what is saved of it can be restored again as the same bytes, and steps answer.
#include <algorithm>

#include "edit.h"
#include "format/crc32c.h"
#include "models.h"

namespace fuzz {
namespace {

constexpr size_t kHeader = 64, kCrc = 24;

Bytes saved(const Session& s, uint32_t sequence) {
  size_t need = 0;
  demand(phasor_state_size(s.get(), sequence, &need) == PHASOR_OK, "a state without a size");
  const Block state(need);
  demand(phasor_state_save(s.get(), sequence, state.as(), need - 1) == PHASOR_NO_MEMORY,
         "a state is saved in a byte less than its size");
  demand(phasor_state_save(s.get(), sequence, state.as(), need) == PHASOR_OK, "a state is refused");
  return Bytes(state.as(), state.as() + need);
}

// Words of the header, of the ids and pages, the size; and the checksum as it must be.
Bytes changed(Bytes state, Choices* c) {
  for (uint32_t i = c->below(5); i > 0; --i) {
    if (c->chance(50))
      edit_word(state.data(), kHeader / 4, c);
    else if (state.size() > kHeader)
      edit_word(state.data() + kHeader, (state.size() - kHeader) / 4, c);
  }
  if (c->chance(10)) state.resize(c->chance(50) ? state.size() - 1 : c->below(200));
  if (c->chance(90) && state.size() >= kHeader) {
    std::memset(state.data() + kCrc, 0, sizeof(uint32_t));
    const uint32_t crc = phasor::crc32c(0, state.data(), state.size());
    std::memcpy(state.data() + kCrc, &crc, sizeof crc);
  }
  return state;
}

bool restored(const Session& s, uint32_t sequence, const Bytes& state) {
  const Block exact(state.data(), state.size());
  Answer answer;
  return answer(phasor_state_restore(s.get(), sequence, exact.as(), state.size(), &answer.error),
                {PHASOR_BAD_STATE, PHASOR_BAD_INPUT});
}

bool step(Choices* c, const Model& model, const Session& s, uint32_t sequence, uint32_t count) {
  const std::vector<uint32_t> ids = any_ids(c, model.vocabulary(PHASOR_TARGET), count);
  phasor_item item = PHASOR_ITEM_INIT;
  item.sequence = sequence;
  item.ids = ids.data();
  item.count = count;
  Answer answer;
  return answer(phasor_step(s.get(), &item, 1, &answer.error));
}

}  // namespace

void run_state(const uint8_t* data, size_t size) {
  const std::vector<Part> parts = split_parts(data, size, 3);
  const Model* const generated = generated_model(parts[0]);
  if (generated == nullptr) return;
  const Model& model = *generated;
  Choices choices = parts[1].choices(), use = parts[2].choices();
  Choices* const c = &use;
  phasor_limits limits = any_limits(c, model);
  limits.sequences = 2;
  const Session session(model, limits);
  if (session.get() == nullptr) return;
  if (!encode_any(c, model, session, 0, std::min(limits.source, 18u))) return;
  if (model.decodes())
    for (uint32_t i = c->below(3); i > 0; --i)
      (void)step(c, model, session, 0, c->between(1, std::min(limits.target, 20u)));

  const Bytes first = saved(session, 0);
  demand(restored(session, 1, first), "a saved state is refused");
  demand(saved(session, 1) == first, "a restored state is saved as other bytes");
  const Bytes other = changed(first, &choices);
  const bool accepted = restored(session, 1, other);
  const Bytes again = saved(session, 1);
  if (!accepted) demand(again == first, "a state that is refused changes its sequence");
  demand(restored(session, 0, again), "a saved state is refused");
  demand(saved(session, 0) == again, "a restored state is saved as other bytes");
  if (model.decodes() && phasor_sequence_length(session.get(), 1) < limits.target)
    (void)step(c, model, session, 1, 1);
}

}  // namespace fuzz
