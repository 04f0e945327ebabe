// decode: what the arena holds of beam searches between two steps (kPartBeams), and the outputs in
// it, best first.
#pragma once
#include "beam.h"
#include "stream.h"

namespace phasor {

// A beam and the token that follows it.
struct Candidate {
  float score;  // the sum of log-probabilities
  uint32_t beam, id;
  uint32_t slot;           // the sequence in which it goes on
  TextStream::State text;  // with the token, where there are stop strings
};

// Rule 1.15: by score, then beam, then id.
inline bool before(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
}

struct Beam {
  float score;
  uint32_t slot;   // its sequence
  uint32_t taken;  // the slot belongs to a beam of the next step
  TextStream::State text;
};

struct Finished {
  float score, log_probability;
  uint32_t count, finish;
  uint32_t row;  // of the ids
};

// What is known of a search between two steps.
enum Phase : uint32_t { kIdle, kPrompt, kForced, kBeams };  // what the decoder reads next
struct State {
  uint32_t phase;
  uint32_t sequence;       // that it has begun in
  uint32_t beams, forced;  // of its options
  uint32_t begins;         // 1: at the start token
  uint32_t start;          // positions before the tokens that are searched for
  uint32_t most;           // of these tokens
  uint32_t made;           // so far
  uint32_t groups;
};

// A group of the beams.
struct GroupState {
  uint32_t live;  // beams; 0 when its search is over
  uint32_t next;  // candidates of the step at hand
  uint32_t outputs;
};

// More than a beam and a candidate have anywhere: they have pointers.
constexpr uint32_t kTextBytes = 48;

// What kPartBeams holds. First what the searches have together: items of a step (searches, beams)
// and states (searches). Then of each its beams, candidates and finished outputs (beams each), and
// of each its ids (beams, target).
struct Room {
  Session* const session;
  const uint64_t search;
  const uint64_t searches = session->plan.searches, count = session->plan.beams;
  State& state = session->span<State>(kPartBeams, searches* count* kItemBytes, searches)[search];
  // bytes that are taken
  uint64_t at = searches * (count * kItemBytes + kSearchBytes) +
                search * count * uint64_t{kBeamBytes - kItemBytes};
  Span<Beam> beams = take<Beam>(kTextBytes);
  Span<Candidate> next = take<Candidate>(kTextBytes), ended = take<Candidate>(kTextBytes);
  Span<Finished> finished = take<Finished>();
  Span<GroupState> groups = take<GroupState>();
  Rows<uint32_t> ids =
      session
          ->span<uint32_t>(kPartBeams,
                           searches*(count* kBeamBytes + kSearchBytes) +
                               search * count * session->plan.target * sizeof(uint32_t),
                           count * session->plan.target)
          .rows(count, session->plan.target);

  template <class T>
  Span<T> take(uint32_t bytes = sizeof(T)) {
    const uint64_t first = at;
    at += count * bytes;
    return session->span<T>(kPartBeams, first, count);
  }
};
static_assert(sizeof(Beam) <= kTextBytes && sizeof(Candidate) <= kTextBytes,
              "the plan is the same on every machine");
static_assert(kItemBytes + 3 * kTextBytes + sizeof(Finished) + sizeof(GroupState) <= kBeamBytes &&
                  sizeof(State) <= kSearchBytes,
              "the plan counts what a search needs");

// Candidates or finished outputs, best first, at most `most`. What comes later stands behind what
// is as good. False when there is no place.
template <class T, class Before>
bool insert(const Span<T>& list, uint32_t* count, uint32_t most, const T& one, Before earlier) {
  uint32_t at = *count;
  if (at == most && !earlier(one, list[at - 1])) return false;
  if (at < most)
    ++*count;
  else
    --at;
  for (; at > 0 && earlier(one, list[at - 1]); --at) list[at] = list[at - 1];
  list[at] = one;
  return true;
}

inline uint32_t outputs_of(const Room& r) {
  uint32_t all = 0;
  for (uint32_t g = 0; g < r.state.groups; ++g) all += r.groups[g].outputs;
  return all;
}

// Output `index` of all groups, by score, then group, then its place in it.
inline const Finished& finished_at(const Room& r, uint32_t index) {
  const uint32_t groups = r.state.groups, m = r.state.beams / groups;
  const Finished* last = nullptr;
  uint32_t last_at = 0;
  for (uint32_t rank = 0; groups > 1 && rank <= index; ++rank) {
    const Finished* best = nullptr;
    uint32_t best_at = 0;
    for (uint32_t g = 0; g < groups; ++g)
      for (uint32_t i = 0; i < r.groups[g].outputs; ++i) {
        const uint32_t at = g * m + i;
        const Finished& f = r.finished[at];
        const bool later =
            last == nullptr || f.score < last->score || (f.score == last->score && at > last_at);
        if (later && (best == nullptr || f.score > best->score)) best = &f, best_at = at;
      }
    last = best;
    last_at = best_at;
  }
  return last != nullptr ? *last : r.finished[index];
}

inline void fill(phasor_hypothesis* out, const Room& r, uint32_t index) {
  const Finished& f = finished_at(r, index);
  out->count = f.count;
  out->finish = f.finish;
  out->score = f.score;
  out->log_probability = f.log_probability;
  out->ids = r.ids.row(f.row, f.count);
}

}  // namespace phasor
