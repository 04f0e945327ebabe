// runtime: what every line of a forward pass has at hand: the session with its model, kernels and
// plan, and a chunk of rows on its way through a stack. It computes nothing.
#pragma once
#include "parallel.h"

namespace phasor {

struct Pass {
  explicit Pass(Session* s)
      : session(*s), model(*s->model.pointer), kernels(*model.kernels.pointer), plan(s->plan) {}

  Session& session;
  const Model& model;
  const Kernels& kernels;
  const Plan& plan;

  // The rows in work: what a sub-layer reads or gives; q, k, v and feed-forward; the heads' values.
  Rows<float> normed() const { return session.rows<float>(kPartNormed, plan.chunk, plan.ld); }
  Rows<float> wide() const { return session.rows<float>(kPartWide, plan.chunk, plan.wide_ld); }
  Rows<float> attention() const {
    return session.rows<float>(kPartAttention, plan.chunk, plan.attention_ld);
  }
  // Attention weights, `chunk` rows for each head, where they are wanted.
  bool wants_weights() const {
    return kHasViews && (plan.outputs & (PHASOR_WANT_ATTENTION | PHASOR_WANT_COVERAGE)) != 0;
  }
  Rows<float> weights() const {
    return session.rows<float>(kPartAttentionWeights, uint64_t(plan.most_heads) * plan.chunk,
                               plan.score_ld);
  }
};

// Rows (tokens) of one or several sequences that go through a stack together.
struct Chunk : Pass {
  explicit Chunk(const Pass& pass) : Pass(pass) {}

  uint32_t stack = 0;    // 0 encoder, 1 decoder
  uint32_t count = 0;    // rows
  Rows<float> x;         // (count, ld) the residual
  Span<const Row> rows;  // (count)
  Span<const Tile> tiles;
  uint32_t tile_count = 0;
  Span<uint32_t> not_finite;  // (count) set where a value is infinite or a NaN (rule 1.14)

  const StackDescriptor& descriptor() const { return model.descriptor.stacks[stack]; }
  uint32_t width() const { return descriptor().width; }

  // work(r) for each row, over the threads; `cost` is a row's in multiply-adds.
  template <class F>
  void each_row(uint64_t cost, F work) const {
    spread(session, count, count * cost, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first; r < end; ++r) work(r);
    });
  }
};

}  // namespace phasor
