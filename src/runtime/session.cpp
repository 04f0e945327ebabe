#include "session.h"

#include "positions.h"

namespace phasor {
namespace {

// A page that no sequence uses; its values are whatever was there. A function of its own: inlined,
// it is more code on a board.
__attribute__((noinline)) uint32_t free_page(Span<uint32_t> references) {
  uint32_t page = 0;
  while (references[page] != 0) ++page;
  references[page] = 1;
  return page;
}

// Pages for positions `length` … end − 1: those that there are, unless they are shared. A copy of a
// shared one, since it will be written; else zeros.
void reserve(const Pages& pages, uint32_t sequence, uint32_t length, uint32_t end) {
  const uint32_t stop = blocks_of(end), begin = length / kSlots;
  const Span<uint32_t> table = pages.table(sequence), references = pages.references();
  const size_t bytes = static_cast<size_t>(pages.bytes);
  for (uint32_t i = stop - begin > pages.places ? stop - pages.places : begin; i < stop; ++i) {
    uint32_t& place = table[i % pages.places];
    if (place != 0 && references[place - 1] == 1) continue;
    const uint32_t page = free_page(references);
    unsigned char* values = pages.page(page).at(0, bytes);
    if (place != 0) {
      memcpy(values, pages.page(place - 1).at(0, bytes), bytes);
      --references[place - 1];
    } else {
      memset(values, 0, bytes);
    }
    place = page + 1;
  }
}

// Gives back the pages in places `first` and on.
void release(const Pages& pages, uint32_t sequence, uint32_t first) {
  const Span<uint32_t> table = pages.table(sequence), references = pages.references();
  for (uint32_t i = first; i < pages.places; ++i) {
    if (table[i] != 0 && --references[table[i] - 1] == 0)
      forget(pages.page(table[i] - 1).at(0, pages.bytes), pages.bytes);
    table[i] = 0;
  }
}

void release_source(Session* s, uint32_t sequence) {
  Sequence& q = s->sequences()[sequence];
  if (q.source != PHASOR_NONE) --s->sources()[q.source].references;
  q.source = PHASOR_NONE;
}

// Beams of searches that their caller has left hold a source still, where the search's sequence
// has another by now.
void clear_left(Session* s) {
  const uint32_t beams = s->plan.beams > 1 ? s->plan.beams - 1 : 0;
  for (uint32_t i = 0; i < s->plan.searches * beams; ++i) {
    const uint32_t slot = s->plan.sequences + i, source = s->sequences()[slot].source;
    if (source != PHASOR_NONE && source != s->sequences()[i / beams].source)
      sequence_clear(s, slot);
  }
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
  memset(static_cast<void*>(s), 0, sizeof *s);
  s->model.set(&model);
  if (parallel != nullptr) {
    if (limits.threads > 1) s->run.set(parallel->run);
    s->run_user.set(parallel->user);
  }
  s->plan = plan;
  for (uint32_t i = 0; i < plan.slots; ++i)
    s->sequences()[i] = {0, PHASOR_OK, PHASOR_NONE, 0, 0, 0};
  for (uint32_t i = 0; i < plan.sequences; ++i) s->sources()[i] = {0, 0};
  constexpr Part kTables[] = {kPartPageTables, kPartRingTables, kPartWords};
  for (const Part p : kTables)
    memset(s->whole<unsigned char>(p).at(0, plan.bytes[p]), 0, static_cast<size_t>(plan.bytes[p]));
  for (uint32_t i = 0; s->has_coverage() && i < plan.slots; ++i) s->covered(i) = PHASOR_NONE;
  const uint64_t states = uint64_t{plan.searches} * kSearchBytes;
  memset(s->span<unsigned char>(kPartBeams, search_states_at(plan), states).at(0, states), 0,
         static_cast<size_t>(states));
  const uint64_t mode = fp_mode_enter();
  fill_tables(*s);
  fp_mode_leave(mode);
  set_zones(s);
  *out = s;
  return PHASOR_OK;
}

TokenizerMemory Session::words_of(Half half) {
  const uint64_t bytes = plan.bytes[kPartWords];
  unsigned char* const words = whole<unsigned char>(kPartWords).at(0, bytes);
  if (words_half != half) memset(words, 0, static_cast<size_t>(bytes));
  words_half = half;
  return {bytes == 0 ? nullptr : words, plan.text_bytes};
}

// A window of one sees no other position, and goes back as far as the ring has pages.
bool sequence_reaches(const Session& s, uint32_t sequence, uint32_t length) noexcept {
  const uint32_t kept = s.sequences()[sequence].kept;
  return !kHasRing || length == 0 || kept == 0 || kept + s.model->window <= length + 1;
}

uint32_t sequence_truncate(Session* s, uint32_t sequence, uint32_t length) noexcept {
  Sequence& q = s->sequences()[sequence];
  if (length >= q.length) return q.length;
  if (!sequence_reaches(*s, sequence, length)) length = 0;
  release(s->pages(false), sequence, blocks_of(length));
  q.length = length;
  if (kHasRing && length == 0) {
    release(s->pages(true), sequence, 0);
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
  for (uint32_t ring = 0; ring <= kHasRing; ++ring) {
    const Pages pages = s->pages(ring != 0);
    const Span<uint32_t> references = pages.references();
    for (uint32_t i = 0; i < pages.places; ++i) {
      const uint32_t place = pages.table(from)[i];
      pages.table(to)[i] = place;
      if (place != 0) ++references[place - 1];
    }
  }
  if (q.length != 0)
    memcpy(s->ids(to).at(0, q.length), s->ids(from).at(0, q.length), q.length * sizeof(uint32_t));
  if (q.source != PHASOR_NONE) ++s->sources()[q.source].references;
  s->sequences()[to] = {q.length, q.status, q.source, 0, 0, q.kept};
  if (!s->has_coverage()) return;
  s->covered(to) = s->covered(from);
  if (q.source == PHASOR_NONE || s->covered(from) == PHASOR_NONE) return;
  const uint32_t count = s->sources()[q.source].length;
  memcpy(s->coverage(to).at(0, count), s->coverage(from).at(0, count), count * sizeof(float));
}

void sequence_reserve(Session* s, uint32_t sequence, uint32_t count) noexcept {
  const uint32_t length = s->sequences()[sequence].length;
  for (uint32_t ring = 0; ring <= kHasRing; ++ring)
    reserve(s->pages(ring != 0), sequence, length, length + count);
}

void sequence_share_source(Session* s, uint32_t to, uint32_t from) noexcept {
  const Sequence& q = s->sequences()[from];
  s->sequences()[to].source = q.source;
  s->sequences()[to].status = q.status;
  ++s->sources()[q.source].references;
}

uint32_t sequence_new_source(Session* s, uint32_t sequence, uint32_t length) noexcept {
  release_source(s, sequence);
  clear_left(s);
  uint32_t source = 0;  // there is one: each source in use is that of another sequence
  while (s->sources()[source].references != 0) ++source;
  const size_t bytes = static_cast<size_t>(s->source_page_bytes());
  for (uint32_t i = 0; i < blocks_of(length); ++i)
    memset(s->source_page(source, i).at(0, bytes), 0, bytes);
  s->sources()[source] = {1, length};
  if (s->has_shortlists()) s->shortlist_of(source)[0] = 0;
  s->sequences()[sequence].source = source;
  return source;
}

}  // namespace phasor
