// The heads of a layer's attentions, from the descriptor and the layer's tables.
#include "attention.h"

namespace phasor {

Heads self_heads(const Session& s, const Layer& l, uint32_t stack) noexcept {
  const Model& m = *s.model.pointer;
  const KindDescriptor& k = m.kind(l);
  const KindTables& tables = m.tables(l.kind);
  Heads h{};
  h.heads = k.heads;
  h.kv_heads = k.kv_heads;
  h.width = k.head_width;
  h.scale = k.scale;
  h.cap = k.cap;
  h.window = k.window;
  h.bidirectional = stack == 0 ? 1 : 0;
  h.position = k.position;
  h.reach = relative_keys(k) || k.position == kT5Bias ? reach(k) : 0;
  h.relative_keys = m.floats(l.relative_keys);
  h.relative_values = m.floats(l.relative_values);
  h.bias = m.floats(tables.bias);
  h.slopes = m.floats(tables.slopes);
  h.additive = m.floats(l.score);
  h.cache = stack == 1 ? s.plan.cache_type : uint32_t{PHASOR_CACHE_F32};
  return h;
}

Heads cross_heads(const Session& s, const Layer& l) noexcept {
  const KindDescriptor& k = s.model->kind(l);
  Heads h{};  // no positions here (rule 1.9)
  h.heads = k.cross_heads;
  h.kv_heads = k.cross_kv_heads;
  h.width = k.cross_head_width;
  h.scale = k.cross_scale;
  h.cap = k.cap;
  h.bidirectional = 1;
  h.additive = s.model->floats(l.cross_score);
  h.cache = s.plan.cache_type;
  return h;
}

}  // namespace phasor
