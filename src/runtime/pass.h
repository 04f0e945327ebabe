// runtime: what every line of a forward pass has at hand: the session with its model, kernels and
// plan, a chunk of rows on its way through a stack, and the caller's threads. It computes nothing.
#pragma once
#include "session.h"

namespace phasor {

// Independent pieces of work over the caller's threads. What is computed never depends on how many
// there are: a piece is a set of whole outputs, heads or rows (rules 1.1, 1.6).
// Units first … end − 1 of a job, on one worker.
using Piece = void (*)(void* job, uint32_t first, uint32_t end, uint32_t worker);
void spread_pieces(const Session& s, uint32_t units, uint64_t cost, Piece piece,
                   void* job) noexcept;

// Calls work(first, end, worker) so that 0 … units−1 are covered once; worker < limits.threads.
// `cost` is the whole job's multiply-adds.
template <class F>
void spread(const Session& s, uint32_t units, uint64_t cost, F work) {
  spread_pieces(
      s, units, cost,
      [](void* job, uint32_t first, uint32_t end, uint32_t worker) {
        (*static_cast<F*>(job))(first, end, worker);
      },
      &work);
}

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
  // The per-layer embeddings of each row, layer by layer.
  Rows<float> per_layer() const {
    return session.rows<float>(kPartPerLayer, plan.chunk, plan.per_layer_ld);
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

  Half stack = kEncoder;
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
