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
void best_tokens(const Pass& pass, LinearInput in, uint32_t first) {
  constexpr uint32_t kSide = static_cast<uint32_t>(kLanes), kPanels = kBestLogits / kSide;
  const Linear& output = pass.model.output;
  const uint32_t width = output.weight.rows, panels = output.weight.panels;
  const uint32_t workers = pass.plan.threads;
  const BestRows best(pass);
  for (uint32_t worker = 0; worker < workers; ++worker)
    for (uint32_t r = 0; r < in.count; ++r) best.found_by(worker)[r] = kNoBest;
  quantise(pass, &in, output.weight.type);
  const uint64_t cost = linear_cost(in, panels);
  spread(&pass.session, panels, cost, [&](uint32_t begin, uint32_t end, uint32_t worker) {
    const Rows<float> logits = best.logits_of(worker);
    const Span<Best> found = best.found_by(worker);
    for (uint32_t at = begin; at < end; at += kPanels) {
      const uint32_t stop = end - at < kPanels ? end : at + kPanels;
      const uint32_t id = at * kSide, after = stop * kSide < width ? stop * kSide : width;
      const uint32_t n = after - id;
      linear_part(pass, logits, in, output, at, stop);
      for (uint32_t r = 0; r < in.count; ++r) {
        float* row = logits.row(r, n);
        scale_logits(pass, row, n);
        Best one{0, 0};
        const size_t where = pass.kernels.argmax(row, n, &one.logit);
        one.id = where < n ? id + static_cast<uint32_t>(where) : PHASOR_NONE;
        keep_best(&found[r], one);
      }
    }
  });
  const Span<Best> all = best.all();
  for (uint32_t r = 0; r < in.count; ++r) {
    all[first + r] = kNoBest;
    for (uint32_t worker = 0; worker < workers; ++worker)
      keep_best(&all[first + r], best.found_by(worker)[r]);
  }
}

// What the output matrix reads: norm(activation(dense(x))), each step where the head has it (a
// decoder's has no norm).
Rows<float> head_rows(const Pass& pass, const Chunk& c) {
  const Model& m = pass.model;
  const OutputDescriptor& o = m.descriptor.output;
  const uint32_t width = output_inputs(m.descriptor);
  if (m.head.weight) linear(pass, pass.wide(), input_of(c.x, pass.width(c), c.count), m.head);
  const Rows<float> y = m.head.weight ? pass.wide() : c.x;
  for (uint32_t r = 0; r < c.count && o.head_activation != kHeadNone; ++r) {
    if (o.head_activation == kHeadTanh)
      pass.kernels.soft_cap(y.row(r, width), width, 1.0f);  // 1·tanh(x·1)
    else
      activation(pass, o.head_activation)(y.row(r, width), width);
  }
  if (m.head_norm.weight)
    norm_rows(pass, y, y, width, c, m.head_norm, o.head_norm, o.head_norm_eps);
  return y;
}

// Rows of logits or classes from row `first` on: output matrix, scale and cap.
void logits(const Pass& pass, LinearInput in, uint32_t first) {
  const Linear& output = pass.model.output;
  const Rows<float> rows = pass.session.logit_rows().below(first);
  const uint32_t width = output.weight.rows, count = in.count;
  linear(pass, rows, in, output);
  for (uint32_t r = 0; r < count; ++r) scale_logits(pass, rows.row(r, width), width);
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

void decoder_output(const Pass& pass, const Chunk& c) noexcept {
  const StackDescriptor& d = pass.stack(c);
  const NormTensors& final_norm = pass.model.final_norms[1];
  uint32_t count = 0, first = 0;
  for (uint32_t r = 0; r < c.count; ++r) {
    if (c.rows[r].logits == 0) continue;
    const Rows<float> y = pass.normed().below(count);
    if (count++ == 0) first = c.rows[r].logits - 1;
    memcpy(y.row(0, d.width), c.x.row(r, d.width), d.width * sizeof(float));
    const Chunk one{1, y, c.rows.part(r, 1), 1, {}, 0, c.not_finite.part(r, 1)};
    if (final_norm.weight)
      norm(pass, y, y, one, final_norm, d.final_norm, d.final_norm_eps);
    else
      test_finite(one, y, d.width);  // no norm sees what the last block gave
    show(pass, one, PHASOR_SEE_FINAL, pass.model.layer_count[1]);
  }
  if (count == 0) return;
  const Chunk wanted{1, pass.normed(), {}, count, {}, 0, {}};
  const LinearInput in =
      input_of(head_rows(pass, wanted), output_inputs(pass.model.descriptor), count);
  if (pass.session.best != 0)
    best_tokens(pass, in, first);
  else
    logits(pass, in, first);
}

phasor_status encoder_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count,
                             phasor_error* error) noexcept {
  const Pass pass(s);
  const Descriptor& d = pass.model.descriptor;
  s->logits = 0;
  for (uint32_t done = 0; done < count;) {
    const uint32_t left = count - done, n = left < pass.plan.chunk ? left : pass.plan.chunk;
    const Chunk c = hidden_chunk(pass, sequence, d.output.pooling, first + done, n);
    logits(pass, input_of(head_rows(pass, c), output_inputs(d), n), done);
    const phasor_status status = check_finite(pass, c, pass.model.layer_count[0], error);
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
  float* y = (pooled ? head_rows(pass, c) : c.x).row(0, dim);
  if (normalise) pass.kernels.unit(y, y, dim);
  *out = y;
  return check_finite(pass, c, pass.model.layer_count[0], error);
}

}  // namespace phasor
