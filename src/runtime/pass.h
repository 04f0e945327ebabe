// runtime: what every line of a forward pass has at hand: the session with its model, kernels and
// plan, and a chunk of rows on its way through a stack. It computes nothing.
#pragma once
#include "parallel.h"

namespace phasor {

// Rows (tokens) of one or several sequences that go through a stack together.
struct Chunk {
  uint32_t stack;        // 0 encoder, 1 decoder
  Rows<float> x;         // (count, ld) the residual
  Span<const Row> rows;  // (count)
  uint32_t count;
  Span<const Tile> tiles;  // (tile_count)
  uint32_t tile_count;
  Span<uint32_t> not_finite;  // (count) set where a value is infinite or a NaN (rule 1.14)
};

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

  const StackDescriptor& stack(const Chunk& c) const { return model.descriptor.stacks[c.stack]; }
  uint32_t width(const Chunk& c) const { return stack(c).width; }

  // row(r) for each row of a chunk, over the threads; `cost` is a row's in multiply-adds.
  template <class F>
  void each_row(const Chunk& c, uint64_t cost, F row) const {
    spread(&session, c.count, c.count * cost, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first; r < end; ++r) row(r);
    });
  }
};

}  // namespace phasor
