#include "output.h"

#include "observe.h"
#include "rows.h"
#include "sub_layer.h"

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

// The shortlists of a chunk's rows: which panels of the output's matrix they leave. What any of
// them has is kept behind the sources' own.
class Listed {
 public:
  explicit Listed(const Chunk& chunk) : c(chunk), all(!c.session.has_shortlists()) {
    if (all) return;
    any = c.session.shortlist_of(c.plan.sequences).at(1, words);
    memset(any, 0, words * sizeof(uint32_t));
    for (uint32_t r = 0; r < c.count && !all; ++r) {
      const uint32_t* list = list_of(r);
      all = list == nullptr;
      if (all || (r != 0 && list == list_of(r - 1))) continue;
      for (uint32_t i = 0; i < words; ++i) any[i] |= list[i];
    }
  }

  // run(first, end) for each run of panels that a row has a token in.
  template <class F>
  void each_run(uint32_t begin, uint32_t end, F run) const {
    static_assert(kSlots == 16, "two panels have a word");
    if (all) return run(begin, end);
    const auto wanted = [this](uint32_t panel) {
      return (any[panel / 2] >> panel % 2 * 16 & 0xFFFF) != 0;
    };
    for (uint32_t stop; begin < end; begin = stop + 1) {
      for (stop = begin; stop < end && wanted(stop);) ++stop;
      if (stop != begin) run(begin, stop);
    }
  }
  // Forbids what row r's list has not, of n logits from token `id` on, the first of a panel.
  void forbid(uint32_t r, float* logits, uint32_t id, uint32_t n) const {
    const uint32_t* list = c.session.has_shortlists() ? list_of(r) : nullptr;
    for (uint32_t i = 0; i < n && list != nullptr; ++i)
      if ((list[(id + i) / 32] >> (id + i) % 32 & 1) == 0) logits[i] = -__builtin_inff();
  }

 private:
  // NULL where its source has none.
  const uint32_t* list_of(uint32_t r) const {
    const uint32_t source = c.session.sequences()[c.rows[r].sequence].source;
    if (source == PHASOR_NONE) return nullptr;
    const Span<uint32_t> list = c.session.shortlist_of(source);
    return list[0] != 0 ? list.at(1, words) : nullptr;
  }
  const Chunk& c;
  bool all;  // some row has none
  const uint32_t words = shortlist_words(output_width(c.model.descriptor));
  uint32_t* any = nullptr;
};

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
  const Listed listed(c);
  for (uint32_t worker = 0; worker < workers; ++worker)
    for (uint32_t r = 0; r < c.count; ++r) best.found_by(worker)[r] = kNoBest;
  quantize(c, &in, output.weight);
  const auto search = [&](uint32_t begin, uint32_t end, uint32_t worker) {
    const Rows<float> logits = best.logits_of(worker);
    const Span<Best> found = best.found_by(worker);
    const auto run = [&](uint32_t at, uint32_t stop) {
      const uint32_t id = at * kSlots, after = stop * kSlots < width ? stop * kSlots : width;
      const uint32_t n = after - id;
      linear_part(c, logits, in, output, at, stop);
      for (uint32_t r = 0; r < c.count; ++r) {
        float* row = logits.row(r, n);
        scale_logits(c, row, n);
        listed.forbid(r, row, id, n);
        Best one{0, 0};
        const size_t where = c.kernels.argmax(row, n, &one.logit);
        one.id = where < n ? id + static_cast<uint32_t>(where) : PHASOR_NONE;
        keep_best(&found[r], one);
      }
    };
    for (uint32_t at = begin; at < end; at += kPanels)
      listed.each_run(at, end - at < kPanels ? end : at + kPanels, run);
  };
  spread(c.session, panels, linear_cost(c, in, panels), search);
  const Span<Best> all = best.all();
  for (uint32_t r = 0; r < c.count; ++r) {
    all[first + r] = kNoBest;
    for (uint32_t worker = 0; worker < workers; ++worker)
      keep_best(&all[first + r], best.found_by(worker)[r]);
    if (all[first + r].id == kNothing) all[first + r] = {0, -__builtin_inff()};  // an empty list
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
void logits(const Chunk& c, LinearInput in, uint32_t first) {
  const Linear& output = c.model.output;
  const Rows<float> rows = c.session.logit_rows().below(first);
  const uint32_t width = output.weight.rows;
  linear(c, rows, in, output);
  for (uint32_t r = 0; r < c.count; ++r) scale_logits(c, rows.row(r, width), width);
}

// The same of a decoder, whose rows may have shortlists: the panels that they leave.
void listed_logits(const Chunk& c, LinearInput in, uint32_t first) {
  if (!c.session.has_shortlists()) return logits(c, in, first);
  const Linear& output = c.model.output;
  const Rows<float> rows = c.session.logit_rows().below(first);
  const uint32_t width = output.weight.rows, panels = output.weight.panels;
  const Listed listed(c);
  quantize(c, &in, output.weight);
  for (uint32_t r = 0; r < c.count; ++r) {
    float* row = rows.row(r, width);
    for (uint32_t i = 0; i < width; ++i) row[i] = -__builtin_inff();
  }
  spread(c.session, panels, linear_cost(c, in, panels),
         [&](uint32_t begin, uint32_t end, uint32_t) {
           listed.each_run(begin, end, [&](uint32_t at, uint32_t stop) {
             linear_part(c, rows.right(uint64_t(at) * kLanes), in, output, at, stop);
           });
         });
  for (uint32_t r = 0; r < c.count; ++r)
    listed.each_run(0, panels, [&](uint32_t at, uint32_t stop) {
      const uint32_t id = at * kSlots, after = stop * kSlots < width ? stop * kSlots : width;
      float* row = rows.right(id).row(r, after - id);
      scale_logits(c, row, after - id);
      listed.forbid(r, row, id, after - id);
    });
}

// y (D): the pooled vector of `rows` hidden states.
void pool(const Pass& pass, float* y, const Rows<const float>& hidden, uint32_t rows,
          uint32_t pooling) {
  const uint32_t width = pass.model.descriptor.stacks[kEncoder].width;
  if (pooling != kPoolMean) {
    const uint32_t r = pooling == kPoolLast ? rows - 1 : 0;
    memcpy(y, hidden.row(r, width), width * sizeof(float));
    for (uint32_t next = 1; pooling == kPoolMax && next < rows; ++next) {
      const float* x = hidden.row(next, width);
      for (uint32_t i = 0; i < width; ++i)
        if (x[i] > y[i] || x[i] != x[i]) y[i] = x[i];  // one that is not a number stays
    }
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
    pool(pass, y.row(0, pass.model.descriptor.stacks[kEncoder].width), hidden, q.encoded, pooling);
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
    show(one, PHASOR_SEE_FINAL, c.model.layer_count[kDecoder]);
  }
  if (wanted.count == 0) return;
  const LinearInput in{head_rows(wanted), output_inputs(c.model.descriptor)};
  if (c.session.best != 0)
    best_tokens(wanted, in, first);
  else
    listed_logits(wanted, in, first);
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
    const phasor_status status = check_finite(c, pass.model.layer_count[kEncoder], error);
    if (status != PHASOR_OK) return status;
    done += n;
  }
  s->logits = count;
  return PHASOR_OK;
}

phasor_status embedding(Session* s, uint32_t sequence, uint32_t pooling, bool normalize,
                        uint32_t dim, const float** out, phasor_error* error) noexcept {
  const Pass pass(s);
  const Chunk c = hidden_chunk(pass, sequence, pooling, 0, 1);
  const bool pooled = pass.model.descriptor.output.output == kOutputPooled;
  float* y = (pooled ? head_rows(c) : c.x).row(0, dim);
  if (normalize) pass.kernels.unit(y, y, dim);
  *out = y;
  return check_finite(c, pass.model.layer_count[kEncoder], error);
}

}  // namespace phasor
