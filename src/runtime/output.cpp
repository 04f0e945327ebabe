#include "output.h"

#include "observe.h"
#include "rows.h"
#include "steps.h"

namespace phasor {
namespace {

// No logit yet; a later one counts when it is larger, or not a number.
constexpr uint32_t kNothing = PHASOR_NONE - 1;
constexpr Best kNoBest{kNothing, 0};
void keep_best(Best* best, const Best& next) {
  if (best->id == PHASOR_NONE || next.id == kNothing) return;
  if (best->id == kNothing || next.id == PHASOR_NONE || next.logit > best->logit) *best = next;
}

void scale_logits(const Pass& pass, float* row, uint32_t n) {
  const OutputDescriptor& o = pass.model.descriptor.output;
  if (o.scale != 1) pass.kernels.scale(row, row, n, o.scale);
  if (o.cap != 0) pass.kernels.soft_cap(row, n, o.cap);
}

// kPartBest: the rows' best tokens, then each worker's, then each worker's logits at hand.
struct BestRows {
  explicit BestRows(const Pass& p)
      : pass(p),
        rows(p.plan.best_rows < p.plan.chunk ? p.plan.best_rows : p.plan.chunk),
        ld(p.plan.logit_ld < kBestLogits ? p.plan.logit_ld : kBestLogits) {}
  const Pass& pass;
  uint32_t rows, ld;

  Span<Best> all() const { return span(0); }
  Span<Best> found_by(uint32_t worker) const { return span(uint64_t(worker) + 1); }
  Rows<float> logits_of(uint32_t worker) const {
    const uint64_t each = uint64_t(rows) * ld;
    const uint64_t at = best_bytes(pass.plan) + worker * each * sizeof(float);
    return pass.session.span<float>(kPartBest, at, each).rows(rows, ld);
  }

 private:
  Span<Best> span(uint64_t i) const {
    const uint32_t most = pass.plan.best_rows;
    return pass.session.span<Best>(kPartBest, i * most * sizeof(Best), most);
  }
};

// The best tokens of rows from `first` on: each worker goes through its outputs a few panels at a
// time and keeps the largest of each row; the workers' are merged in the order of the outputs (rule
// 1.15).
void best_tokens(const Chunk& c, LinearInput in, uint32_t first) {
  constexpr uint32_t kPanels = kBestLogits / kSlots;
  const Linear& output = c.model.output;
  const uint32_t width = output.weight.rows, panels = output.weight.panels;
  const uint32_t workers = c.plan.threads;
  const BestRows best(c);
  for (uint32_t worker = 0; worker < workers; ++worker)
    for (uint32_t r = 0; r < c.count; ++r) best.found_by(worker)[r] = kNoBest;
  quantise(c, &in, output.weight.type);
  const auto search = [&](uint32_t begin, uint32_t end, uint32_t worker) {
    const Rows<float> logits = best.logits_of(worker);
    const Span<Best> found = best.found_by(worker);
    for (uint32_t at = begin; at < end; at += kPanels) {
      const uint32_t stop = end - at < kPanels ? end : at + kPanels;
      const uint32_t id = at * kSlots, after = stop * kSlots < width ? stop * kSlots : width;
      const uint32_t n = after - id;
      linear_part(c, logits, in, output, at, stop);
      for (uint32_t r = 0; r < c.count; ++r) {
        float* row = logits.row(r, n);
        scale_logits(c, row, n);
        Best one{0, 0};
        const size_t where = c.kernels.argmax(row, n, &one.logit);
        one.id = where < n ? id + static_cast<uint32_t>(where) : PHASOR_NONE;
        keep_best(&found[r], one);
      }
    }
  };
  spread(c.session, panels, linear_cost(c, in, panels), search);
  const Span<Best> all = best.all();
  for (uint32_t r = 0; r < c.count; ++r) {
    all[first + r] = kNoBest;
    for (uint32_t worker = 0; worker < workers; ++worker)
      keep_best(&all[first + r], best.found_by(worker)[r]);
  }
}

// What the output matrix reads: norm(activation(dense(x))), each step where the head has it.
Rows<float> head_rows(const Chunk& c) {
  const Model& m = c.model;
  const OutputDescriptor& o = m.descriptor.output;
  const uint32_t width = output_inputs(m.descriptor);
  if (m.head.weight) linear(c, c.wide(), {c.x, c.width()}, m.head);
  const Rows<float> y = m.head.weight ? c.wide() : c.x;
  for (uint32_t r = 0; r < c.count && o.head_activation != kHeadNone; ++r) {
    if (o.head_activation == kHeadTanh)
      c.kernels.soft_cap(y.row(r, width), width, 1.0f);  // 1·tanh(x·1)
    else
      c.kernels.activation[o.head_activation](y.row(r, width), width);
  }
  if (m.head_norm.weight) norm_rows(c, y, y, width, m.head_norm, o.head_norm, o.head_norm_eps);
  return y;
}

// Rows of logits or classes from row `first` on: output matrix, scale and cap.
void logits(const Chunk& c, const LinearInput& in, uint32_t first) {
  const Linear& output = c.model.output;
  const Rows<float> rows = c.session.logit_rows().below(first);
  const uint32_t width = output.weight.rows;
  linear(c, rows, in, output);
  for (uint32_t r = 0; r < c.count; ++r) scale_logits(c, rows.row(r, width), width);
}

// y (D): the pooled vector of `rows` hidden states.
void pool(const Pass& pass, float* y, const Rows<const float>& hidden, uint32_t rows,
          uint32_t pooling) {
  const uint32_t width = pass.model.descriptor.stacks[0].width;
  if (pooling != kPoolMean) {
    const uint32_t r = pooling == kPoolLast ? rows - 1 : 0;
    memcpy(y, hidden.row(r, width), width * sizeof(float));
    return;
  }
  memset(y, 0, width * sizeof(float));
  for (uint32_t r = 0; r < rows; ++r) pass.kernels.add(y, hidden.row(r, width), width);
  pass.kernels.scale(y, y, width, 1.0f / static_cast<float>(rows));
}

// Rows first … first + count − 1 of a sequence's hidden states, or its pooled vector, at the start
// of `normed`.
Chunk hidden_chunk(const Pass& pass, uint32_t sequence, uint32_t pooling, uint32_t first,
                   uint32_t count) {
  const Sequence& q = pass.session.sequences()[sequence];
  const Rows<float> hidden = pass.session.hidden_rows().below(q.hidden), y = pass.normed();
  const uint64_t ld = pass.plan.ld;
  if (pooling != kPoolNone)
    pool(pass, y.row(0, pass.model.descriptor.stacks[0].width), hidden, q.encoded, pooling);
  else
    memcpy(y.rows(0, count, ld), hidden.rows(first, count, ld),
           static_cast<size_t>(count * ld * sizeof(float)));
  return output_chunk(pass, sequence, first, count);
}

}  // namespace

void decoder_output(const Chunk& c) noexcept {
  const uint32_t width = c.width();
  uint32_t first = 0;
  Chunk wanted = c;  // the rows that want an output, one after the other in `normed`
  wanted.x = c.normed();
  wanted.count = 0;
  for (uint32_t r = 0; r < c.count; ++r) {
    if (c.rows[r].logits == 0) continue;
    Chunk one = c;
    one.x = wanted.x.below(wanted.count);
    one.rows = c.rows.part(r, 1);
    one.count = 1;
    one.not_finite = c.not_finite.part(r, 1);
    if (wanted.count++ == 0) first = c.rows[r].logits - 1;
    memcpy(one.x.row(0, width), c.x.row(r, width), width * sizeof(float));
    final_norm(one);
    show(one, PHASOR_SEE_FINAL, c.model.layer_count[1]);
  }
  if (wanted.count == 0) return;
  const LinearInput in{head_rows(wanted), output_inputs(c.model.descriptor)};
  if (c.session.best != 0)
    best_tokens(wanted, in, first);
  else
    logits(wanted, in, first);
}

phasor_status encoder_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count,
                             phasor_error* error) noexcept {
  const Pass pass(s);
  s->logits = 0;
  for (uint32_t done = 0; done < count;) {
    const uint32_t left = count - done, n = left < pass.plan.chunk ? left : pass.plan.chunk;
    const Chunk c =
        hidden_chunk(pass, sequence, pass.model.descriptor.output.pooling, first + done, n);
    logits(c, {head_rows(c), output_inputs(pass.model.descriptor)}, done);
    const phasor_status status = check_finite(c, pass.model.layer_count[0], error);
    if (status != PHASOR_OK) return status;
    done += n;
  }
  s->logits = count;
  return PHASOR_OK;
}

phasor_status embedding(Session* s, uint32_t sequence, uint32_t pooling, bool normalise,
                        uint32_t dim, const float** out, phasor_error* error) noexcept {
  const Pass pass(s);
  const Chunk c = hidden_chunk(pass, sequence, pooling, 0, 1);
  const bool pooled = pass.model.descriptor.output.output == kOutputPooled;
  float* y = (pooled ? head_rows(c) : c.x).row(0, dim);
  if (normalise) pass.kernels.unit(y, y, dim);
  *out = y;
  return check_finite(c, pass.model.layer_count[0], error);
}

}  // namespace phasor
