#include "embed.h"

#include "../kernels/gather.h"
#include "observe.h"
#include "positions.h"
#include "rows.h"
#include "steps.h"

namespace phasor {
namespace {

// embedding · scale, and its projection where that comes first.
void embed_ids(const Pass& pass, const Chunk& c, Items items, const Rows<float>& out) {
  const StackDescriptor& d = pass.stack(c);
  const Input& in = pass.model.inputs[c.stack];
  const Tensor& e = in.embedding;
  const uint32_t width = d.embedding_width;
  const Rows<float> rows = d.projection_place != 0 ? pass.normed() : out;
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    float* x = rows.row(r, width);
    if (row.id != PHASOR_NONE)
      gather_row(x, pass.model.at(e.offset), e.type, e.layout, e.rows, e.cols, row.id);
    else
      memcpy(x, items[row.item].embeddings + row.embedding, width * sizeof(float));
    if (d.embedding_scale != 1) pass.kernels.scale(x, x, width, d.embedding_scale);
  }
  if (d.projection_place == 0) return;
  test_finite(c, rows, width);  // before it is rounded to int8, which would hide a NaN
  linear(pass, out, input_of(rows, width, c.count), in.projection);
}

// x (width) += the position's learned or sinusoidal row.
void add_position(const Pass& pass, const Chunk& c, float* x, uint32_t width, uint32_t position) {
  const Input& in = pass.model.inputs[c.stack];
  const Plan& p = pass.plan;
  if (in.positions) {
    pass.kernels.add(x, pass.model.floats(in.positions) + uint64_t(position) * width, width);
  } else if (in.inv_freq && p.tables == PHASOR_TABLES_WHOLE) {
    const Part table = c.stack == 0 ? kPartSourcePositions : kPartTargetPositions;
    const uint32_t positions = c.stack == 0 ? p.source : p.target;
    pass.kernels.add(x, pass.session.rows<float>(table, positions, width).row(position, width),
                     width);
  } else if (in.inv_freq) {  // the row and its scratch lie in `wide`, which is not in use yet
    float* sinusoid = pass.wide().row(0, width);
    float* scratch = pass.wide().right(lanes(width)).row(0, width);
    sinusoid_row(sinusoid, scratch, pass.model, c.stack, position);
    pass.kernels.add(x, sinusoid, width);
  }
}

}  // namespace

void embed(const Pass& pass, const Chunk& c, Items items) noexcept {
  const StackDescriptor& d = pass.stack(c);
  const Input& in = pass.model.inputs[c.stack];
  const uint32_t width = input_width(d);
  const bool last = in.projection.weight && d.projection_place == 0;
  const Rows<float> out = last ? pass.normed() : c.x;
  embed_ids(pass, c, items, out);
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    float* x = out.row(r, width);
    if (in.segments)
      pass.kernels.add(x, pass.model.floats(in.segments) + uint64_t(row.segment) * width, width);
    add_position(pass, c, x, width, row.position);
  }
  if (in.norm.weight)
    norm_rows(pass, out, out, width, c, in.norm, d.embedding_norm, d.embedding_norm_eps);
  else if (last)
    test_finite(c, out, width);  // before it is rounded to int8, which would hide a NaN
  if (last) linear(pass, c.x, input_of(out, width, c.count), in.projection);
  show(pass, c, PHASOR_SEE_EMBEDDING, 0);
}

}  // namespace phasor
