#include "embed.h"

#include "../kernels/gather.h"
#include "observe.h"
#include "positions.h"
#include "rows.h"
#include "sub_layer.h"

namespace phasor {
namespace {

// embedding · scale, and its projection where that comes first.
void embed_ids(const Chunk& c, Items items, const Rows<float>& out) {
  const StackDescriptor& d = c.descriptor();
  const Input& in = c.model.inputs[c.stack];
  const Tensor& e = in.embedding;
  const uint32_t own = c.model.descriptor.sides[c.stack].own_row;  // 1 + an id, 0: none
  const uint32_t width = d.embedding_width;
  const Rows<float> rows = d.projection_place != 0 ? c.normed() : out;
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    float* x = rows.row(r, width);
    if (row.id != PHASOR_NONE && row.id + 1 == own)
      memcpy(x, c.model.floats(in.own_row), width * sizeof(float));
    else if (row.id != PHASOR_NONE)
      gather_row(x, c.model.at(e.offset), e.type, e.layout, e.rows, e.cols, row.id,
                 has_rotated_inputs(e));
    else
      memcpy(x, items[row.item].embeddings + row.embedding, width * sizeof(float));
    if (d.embedding_scale != 1) c.kernels.scale(x, x, width, d.embedding_scale);
  }
  if (d.projection_place == 0) return;
  test_finite(c, rows, width);  // before it is rounded to int8, which would hide a NaN
  linear(c, out, {rows, width}, in.projection);
}

// Of each layer norm(its part of projection(x)) + its part of the token's row (rule 1.26). What is
// no token of the vocabulary has the row of padding.
void per_layer_inputs(const Chunk& c) {
  const StackDescriptor& d = c.descriptor();
  const PerLayerInput& in = c.model.per_layer;
  const uint32_t width = d.per_layer_width, values = per_layer_values(d);
  const uint32_t pad = c.model.descriptor.sides[c.stack].pad;
  const Rows<float> out = c.per_layer();
  test_finite(c, c.x, c.width());  // before it is rounded to int8, which would hide a NaN
  linear(c, out, {c.x, c.width()}, in.per_layer_projection);
  for (uint32_t at = 0; at < values && in.per_layer_norm.weight; at += width)
    norm_rows(c, out.right(at), out.right(at), width, in.per_layer_norm, d.per_layer_norm,
              d.per_layer_norm_eps);
  c.each_row(uint64_t(values) * 4, [&](uint32_t r) {
    const uint32_t id = c.rows[r].id != PHASOR_NONE ? c.rows[r].id : pad != PHASOR_NONE ? pad : 0;
    float* const row = c.wide().row(r, values);  // not in use yet
    gather_row(row, c.model.at(in.per_layer.offset), in.per_layer.type, in.per_layer.layout,
               in.per_layer.rows, values, id);
    c.kernels.scale(row, row, values, d.per_layer_scale);
    c.kernels.add(out.row(r, values), row, values);
  });
  test_finite(c, out, values);  // likewise
}

// The position's learned or sinusoidal row (width); NULL when the stack has none.
const float* position_row(const Chunk& c, uint32_t width, uint32_t position) {
  const Input& in = c.model.inputs[c.stack];
  if (in.positions) return c.model.floats(in.positions) + uint64_t(position) * width;
  if (!in.inv_freq) return nullptr;
  if (c.plan.tables == PHASOR_TABLES_WHOLE)
    return sinusoid_table(c.session, c.stack).row(position, width);
  // the row and its scratch lie in `wide`, which is not in use yet
  float* row = c.wide().row(0, width);
  sinusoid_row(row, c.wide().right(lanes(width)).row(0, width), c.model, c.stack, position);
  return row;
}

}  // namespace

void embed(const Chunk& c, Items items) noexcept {
  const StackDescriptor& d = c.descriptor();
  const Input& in = c.model.inputs[c.stack];
  const uint32_t width = input_width(d);
  const bool last = in.projection.weight && d.projection_place == 0;
  const Rows<float> out = last ? c.normed() : c.x;
  const bool first = in.norm.weight && d.embedding_norm_place != 0;
  embed_ids(c, items, out);
  if (first) norm_rows(c, out, out, width, in.norm, d.embedding_norm, d.embedding_norm_eps);
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    float* x = out.row(r, width);
    if (in.segments)
      c.kernels.add(x, c.model.floats(in.segments) + uint64_t(row.segment) * width, width);
    const float* position = position_row(c, width, row.position);
    if (position != nullptr) c.kernels.add(x, position, width);
  }
  if (in.norm.weight && !first)
    norm_rows(c, out, out, width, in.norm, d.embedding_norm, d.embedding_norm_eps);
  else if (last)
    test_finite(c, out, width);  // before it is rounded to int8, which would hide a NaN
  if (last) linear(c, c.x, {out, width}, in.projection);
  if (has_per_layer(d)) per_layer_inputs(c);
  show(c, PHASOR_SEE_EMBEDDING, 0);
}

}  // namespace phasor
