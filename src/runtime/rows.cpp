#include "rows.h"

namespace phasor {
namespace {

Span<Row> row_table(const Pass& pass) {
  return pass.session.span<Row>(kPartRows, 0, pass.plan.chunk);
}

// A position's keys and values take the place of those that are one round of the ring before it.
void let_go(const Pass& pass, uint32_t sequence, uint32_t position) {
  const uint32_t held = pass.plan.ring_pages * kSlots;
  Sequence& q = pass.session.sequences()[sequence];
  if (held != 0 && position >= held && q.kept < position + 1 - held) q.kept = position + 1 - held;
}

// Token `token` of an item.
Row row_of(const Pass& pass, Half stack, const phasor_item& item, uint32_t token) {
  Row row{};
  row.sequence = item.sequence;
  row.position = token;
  row.id = item.ids != nullptr ? item.ids[token] : PHASOR_NONE;
  row.embedding = uint64_t(token) * pass.model.descriptor.stacks[stack].embedding_width;
  row.segment = item.segments != nullptr ? item.segments[token] : 0;
  row.seen = item.seen != 0 ? item.seen : item.count;
  return row;
}

}  // namespace

Chunk make_chunk(const Pass& pass, Half stack, const Rows<float>& x, uint32_t count) noexcept {
  const uint32_t most = pass.plan.chunk;
  const Span<Row> rows = row_table(pass);
  const Span<Tile> tiles = pass.session.span<Tile>(kPartRows, most * sizeof(Row), most);
  const Span<uint32_t> flags =
      pass.session.span<uint32_t>(kPartRows, most * (sizeof(Row) + sizeof(Tile)), most);
  uint32_t n = 0;
  for (uint32_t r = 0; r < count; ++r) {
    flags[r] = 0;
    const bool goes_on = n != 0 && tiles[n - 1].count < kTile &&
                         rows[r - 1].sequence == rows[r].sequence &&
                         tiles[n - 1].first + tiles[n - 1].count == r;
    if (goes_on)
      ++tiles[n - 1].count;
    else
      tiles[n++] = {r, 1};
  }
  Chunk c(pass);
  c.stack = stack;
  c.count = count;
  c.x = x;
  c.rows = rows;
  c.tiles = tiles;
  c.tile_count = n;
  c.not_finite = flags;
  return c;
}

void forget_hidden(const Pass& pass) noexcept {
  for (uint32_t i = 0; i < pass.plan.sequences; ++i) pass.session.sequences()[i].encoded = 0;
}

Group next_group(const Pass& pass, Items items, uint32_t count, uint32_t hidden) noexcept {
  Group g{items, 0, 0, pass.session.hidden_rows().below(hidden)};
  const uint32_t most = pass.plan.chunk;
  while (g.count < count) {
    const phasor_item& item = items[g.count];
    const bool given = item.states != nullptr;  // these are a group of their own
    if (g.count != 0 && (given || item.count > most - g.tokens)) break;
    ++g.count;
    Sequence& q = pass.session.sequences()[item.sequence];
    q.encoded = item.count;
    q.hidden = hidden + g.tokens;
    g.tokens += item.count;
    if (given || g.tokens > most) break;
  }
  return g;
}

Chunk source_chunk(const Pass& pass, const Group& group, uint32_t first) noexcept {
  const uint32_t left = group.tokens - first;
  const uint32_t count = left < pass.plan.chunk ? left : pass.plan.chunk;
  const Span<Row> rows = row_table(pass);
  uint32_t item = 0, page = 0;
  uint32_t position = first;  // only a group of one begins beyond its first row
  for (uint32_t r = 0; r < count; ++r, ++position) {
    if (position == group.items[item].count) {
      page += blocks_of(position);
      position = 0;
      ++item;
    }
    rows[r] = row_of(pass, kEncoder, group.items[item], position);
    rows[r].item = item;
    rows[r].page = page;
  }
  return make_chunk(pass, kEncoder, group.x.below(first), count);
}

Chunk target_chunk(const Pass& pass, Items items, uint32_t count, Next* next) noexcept {
  Session& s = pass.session;
  const Span<Row> rows = row_table(pass);
  uint32_t n = 0;
  for (; n < pass.plan.chunk && next->item < count; ++n) {
    const phasor_item& item = items[next->item];
    const bool last = next->token + 1 == item.count;
    const bool wanted = wants_all(item.logits) || (item.logits != PHASOR_LOGITS_NONE && last);
    rows[n] = row_of(pass, kDecoder, item, next->token);
    rows[n].position += s.sequences()[item.sequence].length;
    rows[n].logits = wanted ? ++s.logits : 0;
    rows[n].item = next->item;
    s.ids(item.sequence)[rows[n].position] = rows[n].id;
    if (kHasRing) let_go(pass, item.sequence, rows[n].position);
    next->token = last ? 0 : next->token + 1;
    next->item += last ? 1u : 0u;
  }
  return make_chunk(pass, kDecoder, s.rows<float>(kPartResidual, pass.plan.chunk, pass.plan.ld), n);
}

Chunk output_chunk(const Pass& pass, uint32_t sequence, uint32_t first, uint32_t count) noexcept {
  const Span<Row> rows = row_table(pass);
  for (uint32_t r = 0; r < count; ++r) {
    rows[r] = Row{};
    rows[r].sequence = sequence;
    rows[r].position = first + r;
    rows[r].id = PHASOR_NONE;
  }
  return make_chunk(pass, kEncoder, pass.normed(), count);
}

void test_finite(const Chunk& c, const Rows<const float>& x, uint32_t width) noexcept {
  for (uint32_t r = 0; r < c.count; ++r) {
    const float* row = x.row(r, width);
    for (uint32_t i = 0; i < width; ++i)
      if (!is_finite(row[i])) c.not_finite[r] = 1;
  }
}

phasor_status check_finite(const Chunk& c, uint32_t layer, phasor_error* error) noexcept {
  phasor_status status = PHASOR_OK;
  for (uint32_t r = 0; r < c.count; ++r) {
    const Row& row = c.rows[r];
    Sequence& q = c.session.sequences()[row.sequence];
    if (c.not_finite[r] == 0 || q.status != PHASOR_OK) continue;
    q.status = PHASOR_NOT_FINITE;
    status = fail(error, PHASOR_NOT_FINITE, {PHASOR_NONE, layer, 0, row.sequence},
                  kStackNames[c.stack], " layer ", layer, ": a value of sequence ", row.sequence,
                  " at position ", row.position, " is not finite");
  }
  return status;
}

}  // namespace phasor
