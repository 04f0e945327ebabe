#include "observe.h"

namespace phasor {
namespace {

// Calls the observer with a view of the rows of each sequence; fill(view, r, rows) adds the values
// of rows r … r + rows − 1.
template <class F>
void show_rows(const Chunk& c, uint32_t what, uint32_t layer, F fill) {
  const Session& s = c.session;
  if (!kHasViews || s.see.pointer == nullptr) return;
  for (uint32_t r = 0, end; r < c.count; r = end) {
    end = r + 1;
    while (end < c.count && c.rows[end].sequence == c.rows[r].sequence) ++end;
    phasor_view view{};
    view.struct_size = sizeof view;
    view.what = what;
    view.stack = block_stack(static_cast<Half>(c.stack));
    view.layer = layer;
    view.sequence = c.rows[r].sequence;
    view.position = c.rows[r].position;
    view.rows = end - r;
    fill(&view, r, end - r);
    s.see.pointer(s.user.pointer, &view);
  }
}

}  // namespace

void show(const Chunk& c, uint32_t what, uint32_t layer) noexcept {
  show_rows(c, what, layer, [&](phasor_view* view, uint32_t r, uint32_t rows) {
    view->cols = c.width();
    view->heads = 1;
    view->stride = c.plan.ld;
    view->data = c.x.rows(r, rows, c.plan.ld);
  });
}

void show_attention(const Chunk& c, uint32_t what, const Heads& heads) noexcept {
  if (!c.wants_weights()) return;
  show_rows(c, what, heads.layer, [&](phasor_view* view, uint32_t r, uint32_t rows) {
    const uint32_t ld = c.plan.score_ld;
    view->cols = heads.keys(c.session, c.rows[r + rows - 1]);
    view->heads = heads.heads;
    view->stride = ld;
    view->head_stride = size_t(c.plan.chunk) * ld;
    view->data = c.weights().right(heads.weights_at).rows(r, rows, ld - heads.weights_at);
  });
}

void add_coverage(const Chunk& c, const Heads& heads) noexcept {
  const Session& s = c.session;
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    if (s.covered(row.sequence) != row.position) continue;
    ++s.covered(row.sequence);
    const uint32_t keys = heads.keys(s, row);
    float* sums = s.coverage(row.sequence).at(0, keys);
    const float each = 1.0f / static_cast<float>(heads.heads);
    for (uint32_t head = 0; head < heads.heads; ++head) {
      const float* weights =
          c.weights().right(heads.weights_at).row(uint64_t(head) * c.plan.chunk + r, keys);
      for (uint32_t k = 0; k < keys; ++k) sums[k] += weights[k] * each;
    }
  }
}

bool stopped(const Pass& pass, Half stack, uint32_t layer, phasor_error* error) noexcept {
  const Session& s = pass.session;
  if (s.progress.pointer == nullptr ||
      s.progress.pointer(s.user.pointer, block_stack(static_cast<Half>(stack)), layer,
                         pass.model.layer_count[stack]) == 0)
    return false;
  (void)fail(error, PHASOR_STOPPED, {PHASOR_NONE, layer, 0, 0}, "stopped before ",
             kStackNames[stack], " layer ", layer);
  return true;
}

}  // namespace phasor
