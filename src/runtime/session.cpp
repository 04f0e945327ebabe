#include "session.h"

#include "positions.h"

namespace phasor {
namespace {

uint32_t pages_for(uint32_t length) { return static_cast<uint32_t>(panels_of(length)); }

// Fills the tables of sinusoids for the requested lengths; a wide row serves as scratch.
void fill_positions(Session* s, uint32_t stack) {
  const Model& m = *s->model.pointer;
  const uint32_t width = input_width(m.descriptor.stacks[stack]),
                 length = stack == 0 ? s->plan.source : s->plan.target;
  if (!m.inputs[stack].inv_freq || s->plan.tables != PHASOR_TABLES_WHOLE) return;
  const Rows<float> table =
      s->rows<float>(stack == 0 ? kPartSourcePositions : kPartTargetPositions, length, width);
  float* scratch = s->rows<float>(kPartWide, 1, s->plan.wide_ld).row(0, width);
  for (uint32_t i = 0; i < length; ++i) sinusoid_row(table.row(i, width), scratch, m, stack, i);
}

void release_page(Session* s, uint32_t page) { --s->page_references()[page]; }

// A page that no sequence uses; its values are whatever was there. A function of its own: inlined
// three times it is more code on a board.
__attribute__((noinline)) uint32_t free_page(Span<uint32_t> references) {
  uint32_t page = 0;
  while (references[page] != 0) ++page;
  references[page] = 1;
  return page;
}

// The same, with its values zero.
uint32_t new_page(Session* s) {
  const uint32_t page = free_page(s->page_references());
  const uint64_t bytes = s->cache_page_bytes();
  memset(s->cache_page(page).at(0, bytes), 0, static_cast<size_t>(bytes));
  return page;
}

// Pages of the ring for positions `length` … end − 1: those that there are, unless they are shared.
void reserve_ring(Session* s, uint32_t sequence, uint32_t length, uint32_t end) {
  const uint32_t held = s->plan.ring_pages, stop = pages_for(end),
                 begin = length / static_cast<uint32_t>(kLanes);
  const Span<uint32_t> table = s->ring_table(sequence), references = s->ring_references();
  const size_t bytes = static_cast<size_t>(s->ring_page_bytes());
  for (uint32_t i = stop - begin > held ? stop - held : begin; i < stop; ++i) {
    uint32_t& place = table[i % held];
    if (place != 0 && references[place - 1] == 1) continue;
    const uint32_t page = free_page(references);
    if (place != 0) {
      memcpy(s->ring_page(page).at(0, bytes), s->ring_page(place - 1).at(0, bytes), bytes);
      --references[place - 1];
    } else {
      memset(s->ring_page(page).at(0, bytes), 0, bytes);
    }
    place = page + 1;
  }
}
void release_ring(Session* s, uint32_t sequence) {
  const Span<uint32_t> table = s->ring_table(sequence);
  for (uint32_t i = 0; i < s->plan.ring_pages; ++i) {
    if (table[i] != 0) --s->ring_references()[table[i] - 1];
    table[i] = 0;
  }
}

void release_source(Session* s, uint32_t sequence) {
  Sequence& q = s->sequences()[sequence];
  if (q.source != PHASOR_NONE) --s->sources()[q.source].references;
  q.source = PHASOR_NONE;
}

}  // namespace

phasor_status session_open(Session** out, void* memory, uint64_t bytes, const Model& model,
                           const phasor_limits& limits, const phasor_parallel* parallel,
                           phasor_error* error) noexcept {
  Plan plan{};
  const phasor_status status = make_plan(&plan, model, limits, error);
  if (status != PHASOR_OK) return status;
  if (bytes < plan.total)
    return fail(error, PHASOR_NO_MEMORY, {PHASOR_NONE, PHASOR_NONE, plan.total, bytes},
                "the arena has ", bytes, " bytes, these limits need ", plan.total);
  clear_zones(memory, bytes);
  Session* s = static_cast<Session*>(memory);
  *s = Session{};
  s->model.set(&model);
  s->run.set(parallel != nullptr && limits.threads > 1 ? parallel->run : nullptr);
  s->run_user.set(parallel != nullptr ? parallel->user : nullptr);
  s->see.set(nullptr);
  s->progress.set(nullptr);
  s->user.set(nullptr);
  s->plan = plan;
  for (uint32_t i = 0; i < plan.slots; ++i)
    s->sequences()[i] = {0, PHASOR_OK, PHASOR_NONE, 0, 0, 0};
  for (uint32_t i = 0; i < plan.sequences; ++i) s->sources()[i] = {0, 0};
  constexpr Part kTables[] = {kPartPageTables, kPartRingTables};
  for (const Part p : kTables)
    memset(s->whole<unsigned char>(p).at(0, plan.bytes[p]), 0, static_cast<size_t>(plan.bytes[p]));
  const uint64_t mode = fp_mode_enter();
  fill_positions(s, 0);
  fill_positions(s, 1);
  fill_rotary(s);
  fp_mode_leave(mode);
  set_zones(s);
  *out = s;
  return PHASOR_OK;
}

bool sequence_reaches(const Session& s, uint32_t sequence, uint32_t length) noexcept {
  const uint32_t kept = s.sequences()[sequence].kept;
  return !kHasRing || length == 0 || kept == 0 || kept + s.model->window <= length + 1;
}

uint32_t sequence_truncate(Session* s, uint32_t sequence, uint32_t length) noexcept {
  Sequence& q = s->sequences()[sequence];
  if (length >= q.length) return q.length;
  if (!sequence_reaches(*s, sequence, length)) length = 0;
  for (uint32_t i = pages_for(length); i < pages_for(q.length); ++i)
    release_page(s, s->page_table(sequence)[i]);
  q.length = length;
  if (kHasRing && length == 0) {
    release_ring(s, sequence);
    q.kept = 0;
  }
  return length;
}

void sequence_clear(Session* s, uint32_t sequence) noexcept {
  (void)sequence_truncate(s, sequence, 0);
  release_source(s, sequence);
  s->sequences()[sequence] = {0, PHASOR_OK, PHASOR_NONE, 0, 0, 0};
}

void sequence_fork(Session* s, uint32_t to, uint32_t from) noexcept {
  if (to == from) return;
  sequence_clear(s, to);
  const Sequence& q = s->sequences()[from];
  for (uint32_t i = 0; i < pages_for(q.length); ++i) {
    s->page_table(to)[i] = s->page_table(from)[i];
    ++s->page_references()[s->page_table(from)[i]];
  }
  for (uint32_t i = 0; kHasRing && i < s->plan.ring_pages; ++i) {
    const uint32_t place = s->ring_table(from)[i];
    s->ring_table(to)[i] = place;
    if (place != 0) ++s->ring_references()[place - 1];
  }
  if (q.length != 0)
    memcpy(s->ids(to).at(0, q.length), s->ids(from).at(0, q.length), q.length * sizeof(uint32_t));
  if (q.source != PHASOR_NONE) ++s->sources()[q.source].references;
  s->sequences()[to] = {q.length, q.status, q.source, 0, 0, q.kept};
}

void sequence_reserve(Session* s, uint32_t sequence, uint32_t count) noexcept {
  const uint32_t length = s->sequences()[sequence].length;
  const Span<uint32_t> table = s->page_table(sequence);
  const uint32_t have = pages_for(length);
  // the last page is shared and will be written
  if (length % kLanes != 0 && s->page_references()[table[have - 1]] > 1) {
    const uint32_t page = free_page(s->page_references());
    const uint64_t bytes = s->cache_page_bytes();
    memcpy(s->cache_page(page).at(0, bytes), s->cache_page(table[have - 1]).at(0, bytes),
           static_cast<size_t>(bytes));
    release_page(s, table[have - 1]);
    table[have - 1] = page;
  }
  for (uint32_t i = have; i < pages_for(length + count); ++i) table[i] = new_page(s);
  if (kHasRing && s->plan.ring_pages != 0) reserve_ring(s, sequence, length, length + count);
}

uint32_t sequence_new_source(Session* s, uint32_t sequence, uint32_t length) noexcept {
  release_source(s, sequence);
  uint32_t source = 0;
  while (s->sources()[source].references != 0) ++source;
  s->sources()[source] = {1, length};
  s->sequences()[sequence].source = source;
  return source;
}

}  // namespace phasor
