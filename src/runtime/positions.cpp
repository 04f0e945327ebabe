#include "positions.h"

#include "../kernels/gather.h"

namespace phasor {
namespace {

// Positions of a kind's table: the longest sequence of the stacks that use it.
uint32_t rotary_rows(const Plan& p, const KindTables& t) {
  const uint32_t source = (t.stacks & 1u) != 0 ? p.source : 0,
                 target = (t.stacks & 2u) != 0 ? p.target : 0;
  return source > target ? source : target;
}

// A row of a table: cosines, then sines, times the kind's factor.
void angles(float* row, const Model& m, uint32_t kind, uint32_t position) {
  const Tensor& inv_freq = m.tables(kind).inv_freq;
  sincos_row(row + inv_freq.rows, row, inv_freq.rows, m.at(inv_freq.offset), position);
  const float factor = m.kind(kind).rotary_factor;
  if (factor != 1) m.kernels->scale(row, row, 2 * size_t{inv_freq.rows}, factor);
}

}  // namespace

void sinusoid_row(float* row, float* scratch, const Model& m, Half stack,
                  uint32_t position) noexcept {
  const uint32_t half = input_width(m.descriptor.stacks[stack]) / 2;
  float *sine = scratch, *cosine = scratch + half;
  sincos_row(sine, cosine, half, m.at(m.inputs[stack].inv_freq.offset), position);
  const bool interleaved = m.descriptor.stacks[stack].position == kPositionInterleaved;
  for (uint32_t i = 0; i < half; ++i) {
    row[interleaved ? 2 * i : i] = sine[i];
    row[interleaved ? 2 * i + 1 : half + i] = cosine[i];
  }
}

uint64_t rotary_floats(const Plan& p, const Model& m, uint32_t kinds) noexcept {
  uint64_t whole = 0, widest = 0;
  for (uint32_t i = 0; i < kinds; ++i) {
    const KindTables& t = m.tables(i);
    const uint64_t width = 2 * uint64_t(t.inv_freq.rows);
    whole += width * rotary_rows(p, t);
    if (width > widest) widest = width;
  }
  return p.tables == PHASOR_TABLES_WHOLE ? whole
         : kinds == m.descriptor.kinds   ? widest * p.chunk
                                         : 0;
}

Rows<float> sinusoid_table(const Session& s, Half stack) noexcept {
  return s.rows<float>(stack == kEncoder ? kPartSourcePositions : kPartTargetPositions,
                       stack == kEncoder ? s.plan.source : s.plan.target,
                       input_width(s.model->descriptor.stacks[stack]));
}

void fill_tables(const Session& s) noexcept {
  const Model& m = *s.model.pointer;
  const Plan& p = s.plan;
  if (p.tables != PHASOR_TABLES_WHOLE) return;
  for (Half stack : kHalves) {
    if (!m.inputs[stack].inv_freq) continue;
    const Rows<float> table = sinusoid_table(s, stack);
    const uint32_t width = input_width(m.descriptor.stacks[stack]);
    float* scratch = s.rows<float>(kPartWide, 1, p.wide_ld).row(0, width);
    for (uint32_t i = 0; i < (stack == kEncoder ? p.source : p.target); ++i)
      sinusoid_row(table.row(i, width), scratch, m, stack, i);
  }
  for (uint32_t kind = 0; kind < m.descriptor.kinds; ++kind) {
    const KindTables& t = m.tables(kind);
    const uint64_t width = 2 * uint64_t(t.inv_freq.rows),
                   count = t.inv_freq ? rotary_rows(p, t) : 0;
    const Span<float> table = s.whole<float>(kPartRotary);
    const uint64_t at = rotary_floats(p, m, kind);
    for (uint32_t i = 0; i < count; ++i) angles(table.at(at + i * width, width), m, kind, i);
  }
}

void rotate_row(const Session& s, float* x, uint32_t heads, uint32_t kind, uint32_t position,
                uint32_t place) noexcept {
  const Model& m = *s.model.pointer;
  const KindDescriptor& k = m.kind(kind);
  const uint32_t half = k.rotary_width / 2;
  const bool whole = s.plan.tables == PHASOR_TABLES_WHOLE;
  const uint64_t at = whole ? rotary_floats(s.plan, m, kind) + uint64_t(position) * k.rotary_width
                            : uint64_t(place) * k.rotary_width;
  float* row = s.whole<float>(kPartRotary).at(at, k.rotary_width);
  if (!whole) angles(row, m, kind, position);
  const Kernels& kernels = *m.kernels.pointer;
  const auto rotate = k.position == kRotaryHalves ? kernels.rotate_halves : kernels.rotate_pairs;
  for (uint32_t h = 0; h < heads; ++h, x += k.head_width) rotate(x, row, row + half, half);
}

}  // namespace phasor
