// runtime: a session's state, where the arena's parts are, and the operations on sequences. The
// forward pass is forward.h.
#pragma once
#include "../structs.h"
#include "plan.h"
#include "view.h"

namespace phasor {

using Items = Given<phasor_item>;

struct Sequence {
  uint32_t length;   // positions in the cache
  uint32_t status;   // a phasor_status: PHASOR_NOT_FINITE until it is cleared
  uint32_t source;   // its Source, or PHASOR_NONE
  uint32_t encoded;  // rows of hidden states in kPartEncoder, 0 when they are gone
  uint32_t hidden;   // the first of them
  uint32_t kept;     // the first position whose keys and values are still in the ring
};

// Keys and values of one encoded source; sequences that were forked share it.
struct Source {
  uint32_t references, length;
};

// The largest logit of a row and the lowest id that has it; PHASOR_NONE when one is not a number.
struct Best {
  uint32_t id;
  float logit;
};

// Those of kPartBest: the rows', then each worker's. The logits behind them begin at a multiple of
// 64 bytes.
inline uint64_t best_bytes(const Plan& p) {
  return round_up((uint64_t(p.threads) + 1) * p.best_rows * sizeof(Best), 64);
}

// PHASOR_BEST_… in place of PHASOR_LOGITS_…; the rows that an item wants of either.
inline bool wants_best(uint32_t logits) { return logits >= PHASOR_BEST_LAST; }
inline bool wants_all(uint32_t logits) {
  return logits == PHASOR_LOGITS_ALL || logits == PHASOR_BEST_ALL;
}
inline uint32_t wanted_rows(const phasor_item& item) {
  return item.logits == PHASOR_LOGITS_NONE ? 0 : wants_all(item.logits) ? item.count : 1;
}

// One row of a chunk: a token of a sequence.
struct Row {
  uint32_t sequence, position;
  uint32_t id;         // PHASOR_NONE: an embedding was given
  uint32_t logits;     // row of logits + 1; 0 when none are wanted
  uint64_t embedding;  // floats from the item's embeddings
  uint32_t item;
  uint32_t page;  // encoder: the sequence's first page in kPartEncoderCache
  uint32_t segment;
  uint32_t seen;  // encoder: the sequence's keys, from its first one on
};

// Up to kTile rows, one after the other in the same sequence.
struct Tile {
  uint32_t first, count;
};

struct Session;

// Pages of 16 positions that sequences share: those of the decoder layers that see all positions,
// or those of layers with a window (rule 1.7). Page i of a sequence's positions is in place i of
// its table, modulo `places`: its number + 1, or 0 when there is none.
struct Pages {
  const Session& session;
  Part tables, part;
  uint32_t places;
  uint64_t bytes;  // of a page
  Span<uint32_t> table(uint32_t sequence) const;
  Span<uint32_t> references() const;  // to each page
  Span<unsigned char> page(uint64_t number) const;
  uint64_t number(uint32_t sequence, uint32_t i) const {
    return table(sequence)[i < places ? i : i % places] - 1;
  }
};

struct alignas(64) Session {
  Ref<const Model> model;
  Ref<void(void*, phasor_task, void*, uint32_t)> run;  // NULL: the calling thread does everything
  Ref<void> run_user;
  Ref<void(void*, const phasor_view*)> see;
  Ref<int(void*, uint32_t, uint32_t, uint32_t)> progress;
  Ref<void> user;
  Ref<void(void*, const uint32_t*, uint32_t, uint32_t*, uint32_t)> shortlist;
  Plan plan;
  uint32_t logits;      // rows of the last step
  uint32_t best;        // 1: they are best tokens, in kPartBest
  uint32_t hypotheses;  // outputs of the last beam search
  uint32_t words_half;  // the half whose texts kPartWords is of

  // Views of a part. A session is a handle: const or not, what its views reach can be written.
  // `count` values from byte `at` on; all values; the first `count` rows.
  template <class T>
  Span<T> span(Part p, uint64_t at, uint64_t count) const {
    Extent(1, plan.bytes[p], p).need(0, 1, at, count * sizeof(T));
    unsigned char* arena = reinterpret_cast<unsigned char*>(const_cast<Session*>(this));
    return {reinterpret_cast<T*>(arena + plan.offset[p] + at), Extent(1, count, p)};
  }
  template <class T>
  Span<T> whole(Part p) const {
    return span<T>(p, 0, plan.bytes[p] / sizeof(T));
  }
  template <class T>
  Rows<T> rows(Part p, uint64_t count, uint64_t stride) const {
    return span<T>(p, 0, count * stride).rows(count, stride);
  }

  Span<Sequence> sequences() const { return span<Sequence>(kPartSequences, 0, plan.slots); }
  Span<Source> sources() const {
    return span<Source>(kPartSequences, plan.slots * sizeof(Sequence), plan.sequences);
  }
  Span<uint32_t> ids(uint32_t sequence) const {
    return span<uint32_t>(kPartIds, uint64_t(sequence) * plan.target * sizeof(uint32_t),
                          plan.target);
  }
  Pages pages(bool ring) const {
    const CacheFormat& format = cache_of(plan);
    if (ring)
      return {*this, kPartRingTables, kPartRing, plan.ring_pages, format.bytes(model->ring)};
    return {*this, kPartPageTables, kPartCache, plan.target_pages, format.bytes(model->cache)};
  }
  // Keys and values of a source's positions, of all decoder layers.
  uint64_t source_page_bytes() const { return cache_of(plan).bytes(model->cross); }
  Span<unsigned char> source_page(uint32_t source, uint32_t i) const {
    const uint64_t bytes = source_page_bytes(), page = uint64_t(source) * plan.source_pages + i;
    return span<unsigned char>(kPartCrossCache, page * bytes, bytes);
  }
  Rows<float> logit_rows() const {
    return rows<float>(kPartLogits, plan.logit_rows, plan.logit_ld);
  }
  Rows<float> hidden_rows() const { return rows<float>(kPartEncoder, plan.encoder_rows, plan.ld); }
  bool has_shortlists() const {
    return kHasShortlist && (plan.outputs & PHASOR_WANT_SHORTLIST) != 0;
  }
  // Of a source, where has_shortlists: whether it has one, then its bits. Behind the last: of all
  // rows of a chunk (output.cpp).
  Span<uint32_t> shortlist_of(uint32_t source) const {
    const uint64_t words = 1 + shortlist_words(output_width(model->descriptor));
    return span<uint32_t>(kPartShortlists, source * words * sizeof(uint32_t), words);
  }
  // A source's coverage in searches (kPartCoverage).
  bool has_coverage() const {
    return kHasBeam && kHasViews && (plan.outputs & PHASOR_WANT_COVERAGE) != 0;
  }
  uint32_t& covered(uint32_t sequence) const {
    return span<uint32_t>(kPartCoverage, 0, plan.slots)[sequence];
  }
  Span<float> coverage(uint32_t sequence) const {
    const uint64_t first = plan.slots + uint64_t{sequence} * plan.source;
    return span<float>(kPartCoverage, first * sizeof(float), plan.source);
  }
  // What the tokenizers and the chat program work in.
  Span<unsigned char> text() const { return whole<unsigned char>(kPartText); }
  // What the tokenizer of a half remembers.
  TokenizerMemory words_of(Half half);
};

inline Span<uint32_t> Pages::table(uint32_t sequence) const {
  return session.span<uint32_t>(tables, uint64_t(sequence) * places * sizeof(uint32_t), places);
}
inline Span<uint32_t> Pages::references() const {
  const uint64_t pages = uint64_t(session.plan.slots) * places;
  return session.span<uint32_t>(tables, pages * sizeof(uint32_t), pages);
}
inline Span<unsigned char> Pages::page(uint64_t number) const {
  return session.span<unsigned char>(part, number * bytes, bytes);
}

[[nodiscard]] phasor_status session_open(Session** out, void* memory, uint64_t bytes,
                                         const Model& model, const phasor_limits& limits,
                                         const phasor_parallel* parallel,
                                         phasor_error* error) noexcept;

// Sequences (rule 3.3). Indices have been checked by the caller.
void sequence_clear(Session* s, uint32_t sequence) noexcept;
// Whether a sequence can go back to `length`: always, but where layers with a window have let go of
// what the next position would see.
bool sequence_reaches(const Session& s, uint32_t sequence, uint32_t length) noexcept;
// Forgets what comes after `length`, or everything but the source when the sequence does not reach
// back so far; the length that it has then.
uint32_t sequence_truncate(Session* s, uint32_t sequence, uint32_t length) noexcept;
void sequence_fork(Session* s, uint32_t to, uint32_t from) noexcept;
// Gives the sequence pages of its own for positions length … length + count − 1, which the limits
// hold. Never fails: there are as many pages as all sequences can need.
void sequence_reserve(Session* s, uint32_t sequence, uint32_t count) noexcept;
// A free Source for the sequence, in place of the one it has; without a shortlist.
uint32_t sequence_new_source(Session* s, uint32_t sequence, uint32_t length) noexcept;

// `to`, which has none, gets the source of `from`, and what went wrong with it.
void sequence_share_source(Session* s, uint32_t to, uint32_t from) noexcept;

// Rule 3.8: a sequence as one movable block.
uint64_t state_bytes(const Session& s, uint32_t sequence) noexcept;
// state_bytes of room
void state_save(const Session& s, uint32_t sequence, unsigned char* out) noexcept;
[[nodiscard]] phasor_status state_restore(Session* s, uint32_t sequence, const unsigned char* state,
                                          uint64_t bytes, phasor_error* error) noexcept;

}  // namespace phasor
