#include "observe.h"

namespace phasor {
namespace {

// The rows of a chunk that belong to one sequence: the first that does not, from row r on.
uint32_t run_end(const Chunk& c, uint32_t r) {
  uint32_t end = r + 1;
  while (end < c.count && c.rows[end].sequence == c.rows[r].sequence) ++end;
  return end;
}

// A view of rows r … end − 1, without its values.
phasor_view view_of(const Chunk& c, uint32_t r, uint32_t end, uint32_t what, uint32_t layer) {
  phasor_view view{};
  view.struct_size = sizeof view;
  view.what = what;
  view.stack = block_stack(static_cast<Half>(c.stack));
  view.layer = layer;
  view.sequence = c.rows[r].sequence;
  view.position = c.rows[r].position;
  view.rows = end - r;
  return view;
}

}  // namespace

void show(const Pass& pass, const Chunk& c, uint32_t what, uint32_t layer) noexcept {
  const Session& s = pass.session;
  if (!kHasViews || s.see.pointer == nullptr) return;
  for (uint32_t r = 0, end; r < c.count; r = end) {
    end = run_end(c, r);
    phasor_view view = view_of(c, r, end, what, layer);
    view.cols = pass.width(c);
    view.heads = 1;
    view.stride = pass.plan.ld;
    view.data = c.x.rows(r, end - r, pass.plan.ld);
    s.see.pointer(s.user.pointer, &view);
  }
}

void show_attention(const Pass& pass, const Chunk& c, const Heads& heads, const KeysOf& keys,
                    uint32_t layer, uint32_t what) noexcept {
  Session& s = pass.session;
  const Plan& p = pass.plan;
  const bool wanted = kHasViews && (p.outputs & PHASOR_WANT_ATTENTION) != 0;
  if (!wanted || s.see.pointer == nullptr) return;
  const Rows<float> weights =
      s.rows<float>(kPartAttentionWeights, uint64_t(p.most_heads) * p.chunk, p.score_ld);
  for (uint32_t r = 0, end; r < c.count; r = end) {
    end = run_end(c, r);
    phasor_view view = view_of(c, r, end, what, layer);
    view.cols = keys.count(s, c.rows[end - 1]);
    view.heads = heads.heads;
    view.stride = p.score_ld;
    view.head_stride = size_t(p.chunk) * p.score_ld;
    view.data = weights.rows(r, end - r, p.score_ld);
    s.see.pointer(s.user.pointer, &view);
  }
}

bool stopped(const Pass& pass, uint32_t stack, uint32_t layer) noexcept {
  const Session& s = pass.session;
  return s.progress.pointer != nullptr &&
         s.progress.pointer(s.user.pointer, block_stack(static_cast<Half>(stack)), layer,
                            pass.model.layer_count[stack]) != 0;
}

}  // namespace phasor
