#include "beam.h"

namespace phasor {
namespace {

constexpr float kNever = -__builtin_inff();
// the largest length penalty, either way: the largest count to this power is still an f32
constexpr float kSteepest = 4;
constexpr uint32_t kBlock = 256;  // logits whose exponentials are on the stack at the same time

// A beam and the token that follows it.
struct Candidate {
  float score;  // the sum of log-probabilities
  uint32_t beam, id;
};

// Rule 1.15: by score, then beam, then id.
bool before(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.id < b.id;
}

struct Beam {
  float score;
  uint32_t slot;   // its sequence
  uint32_t taken;  // the slot belongs to a beam of the next step
};

struct Finished {
  float score, log_probability;
  uint32_t count, finish;
  uint32_t row;  // of the ids
};

// What kPartBeams holds, for `beams` of the limits: items of a step, beams, candidates, finished
// outputs (beams each), and ids (beams, target).
struct Room {
  Span<phasor_item> items;
  Span<Beam> beams;
  Span<Candidate> next, ended;
  Span<Finished> finished;
  Rows<uint32_t> ids;
};
constexpr uint32_t kItemBytes = 64;  // more than a phasor_item has anywhere
static_assert(sizeof(phasor_item) <= kItemBytes, "the plan is the same on every machine");
static_assert(kItemBytes + sizeof(Beam) + 2 * sizeof(Candidate) + sizeof(Finished) <= kBeamBytes,
              "the plan counts what a beam needs");

// The next of them, `bytes` for each beam.
template <class T>
void take(Span<T>* out, Session* s, uint64_t* at, uint32_t bytes) {
  *out = s->span<T>(kPartBeams, *at, s->plan.beams);
  *at += uint64_t(s->plan.beams) * bytes;
}

Room room_of(Session* s) {
  const uint64_t n = s->plan.beams;
  uint64_t at = 0;
  Room r{};
  take(&r.items, s, &at, kItemBytes);
  take(&r.beams, s, &at, sizeof(Beam));
  take(&r.next, s, &at, sizeof(Candidate));
  take(&r.ended, s, &at, sizeof(Candidate));
  take(&r.finished, s, &at, sizeof(Finished));
  r.ids = s->span<uint32_t>(kPartBeams, n * kBeamBytes, n * s->plan.target).rows(n, s->plan.target);
  return r;
}

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

class Search {
 public:
  Search(Session* s, uint32_t sequence, const phasor_beam_options& options,
         phasor_beam_result* result, phasor_error* error)
      : s_(s),
        k_(*s->model->kernels.pointer),
        sequence_(sequence),
        o_(options),
        result_(result),
        error_(error),
        n_(options.beams != 0 ? options.beams : s->plan.beams),
        r_(room_of(s)) {
    choice_.min_new = o_.min_new;
    choice_.end = o_.end;
    choice_.end_count = o_.end_count;
  }

  phasor_status check() const;
  phasor_status run(const uint32_t* ids, uint32_t count);

 private:
  Sequence& sequence() const { return s_->sequences()[sequence_]; }
  uint32_t output() const { return o_.forced_count + made_; }  // tokens of the output so far
  uint32_t width() const { return output_width(s_->model->descriptor); }
  float* logits(uint32_t row) const { return s_->logit_rows().row(row, width()); }
  const uint32_t* ids_of(uint32_t beam) const { return s_->ids(r_.beams[beam].slot).data(); }
  uint32_t length() const { return start_ + made_; }  // of every beam, in its cache

  phasor_status read_prompt(const uint32_t* ids, uint32_t count);
  phasor_status feed(const uint32_t* ids, uint32_t count, uint32_t logits);
  float power(uint32_t count) const;
  float log_sum(const float* x, float largest) const;
  bool forbidden(uint32_t beam, uint32_t id, bool end) const;
  void offer(uint32_t beam, uint32_t id, float score);
  bool asked_to_stop();
  phasor_status extend(uint32_t beam);
  void finish(const Candidate& c, bool with_id, uint32_t how);
  void finish_some();
  bool over() const;
  void move_beams();
  phasor_status step();
  phasor_status not_finite(uint32_t slot);
  void leave(phasor_status status);

  Session* const s_;
  const Kernels& k_;
  const uint32_t sequence_;
  const phasor_beam_options& o_;
  phasor_beam_result* const result_;
  phasor_error* const error_;
  const uint32_t n_;
  const Room r_;
  // what says which tokens are ends
  phasor_generate_options choice_ = PHASOR_GENERATE_OPTIONS_INIT;
  bool begins_ = false;
  uint32_t start_ = 0;  // positions before the tokens that are searched for
  uint32_t most_ = 0;   // of these tokens
  uint32_t made_ = 0;   // so far
  uint32_t live_ = 0, next_ = 0, ended_ = 0;
};

phasor_status bad_option(phasor_error* error, const char* name, float value, const char* expected) {
  return fail(error, PHASOR_BAD_INPUT, {}, "options.", name, ": ", value, ", expected ", expected);
}

phasor_status Search::check() const {
  const Plan& p = s_->plan;
  phasor_status status = check_decoder(*s_, sequence_, error_);
  if (status != PHASOR_OK) return status;
  if (n_ == 0 || n_ > p.beams)
    return fail(error_, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, p.beams, n_},
                "options.beams: ", n_, ", limits.beams holds ", p.beams);
  if (!(o_.length_penalty >= -kSteepest && o_.length_penalty <= kSteepest))
    return bad_option(error_, "length_penalty", o_.length_penalty, "-4 to 4");
  if (o_.early_stopping > PHASOR_EARLY_NEVER)
    return fail(error_, PHASOR_BAD_INPUT,
                {PHASOR_NONE, PHASOR_NONE, PHASOR_EARLY_NEVER, o_.early_stopping},
                "options.early_stopping: ", o_.early_stopping, ", expected 0 to ",
                uint32_t{PHASOR_EARLY_NEVER});
  if (o_.max_new != 0 && o_.forced_count >= o_.max_new)
    return fail(error_, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, o_.max_new, o_.forced_count},
                "options.forced: ", o_.forced_count,
                " tokens, options.max_new leaves nothing to search for: ", o_.max_new);
  status = check_ids(*s_, "forced", o_.forced, o_.forced_count, error_);
  if (status == PHASOR_OK)
    status = check_ids(*s_, "suppressed", o_.suppressed, o_.suppressed_count, error_);
  return status == PHASOR_OK ? check_ids(*s_, "end", o_.end, o_.end_count, error_) : status;
}

phasor_status Search::feed(const uint32_t* ids, uint32_t count, uint32_t logits) {
  const phasor_item item{
      sizeof(phasor_item), sequence_, count, logits, ids, nullptr, nullptr, nullptr};
  return checked_step(s_, &item, 1, error_);
}

// The prompt, then the forced tokens. The logits of the last one are in row 0.
phasor_status Search::read_prompt(const uint32_t* ids, uint32_t count) {
  begins_ = count == 0;
  if (begins_) {
    const phasor_status status = start_token(*s_, &ids, error_);
    if (status != PHASOR_OK) return status;
    count = 1;
  }
  const bool forced = o_.forced_count != 0;
  phasor_status status = feed(ids, count, forced ? PHASOR_LOGITS_NONE : PHASOR_LOGITS_LAST);
  if (forced && status == PHASOR_OK) status = feed(o_.forced, o_.forced_count, PHASOR_LOGITS_LAST);
  ++result_->steps;
  start_ = sequence().length;
  most_ = s_->plan.target - start_ + 1;  // the last token stays out of the cache
  if (o_.max_new != 0 && o_.max_new - o_.forced_count < most_) most_ = o_.max_new - o_.forced_count;
  return status;
}

// count^length_penalty: whole powers are products, the rest is exp(log(count)·rest).
float Search::power(uint32_t count) const {
  const float n = static_cast<float>(count),
              p = o_.length_penalty < 0 ? -o_.length_penalty : o_.length_penalty;
  const uint32_t whole = static_cast<uint32_t>(p);
  float rest = n, all = 1;
  for (uint32_t i = 0; i < whole; ++i) all *= n;
  if (p - static_cast<float>(whole) > 0) {
    k_.log(&rest, 1);
    rest *= p - static_cast<float>(whole);
    k_.exp(&rest, 1);
    all *= rest;
  }
  return o_.length_penalty < 0 ? 1 / all : all;
}

// log Σ exp(x − largest), in vocabulary order: 16 lanes and the tree (rule 1.15).
float Search::log_sum(const float* x, float largest) const {
  float sums[kLanes] = {}, e[kBlock];
  const uint32_t n = width();
  for (uint32_t first = 0, count; first < n; first += count) {
    count = n - first < kBlock ? n - first : kBlock;
    for (uint32_t i = 0; i < count; ++i) e[i] = x[first + i] - largest;
    k_.exp(e, count);
    for (uint32_t i = count; i < lanes(count); ++i) e[i] = 0;
    for (uint32_t i = 0; i < count; i += kLanes)
      for (uint32_t j = 0; j < kLanes; ++j) sums[j] += e[i + j];
  }
  for (uint32_t step = kLanes / 2; step != 0; step /= 2)
    for (uint32_t i = 0; i < step; ++i) sums[i] += sums[i + step];
  k_.log(sums, 1);
  return sums[0];
}

// Bans: an end that comes too soon, suppressed tokens, n tokens in a row that the beam has already.
// They change no other token's probability.
bool Search::forbidden(uint32_t beam, uint32_t id, bool end) const {
  if (end && output() < o_.min_new) return true;
  for (uint32_t i = 0; i < o_.suppressed_count; ++i)
    if (o_.suppressed[i] == id) return true;
  const uint32_t n = length(), size = o_.no_repeat_ngram;
  if (size == 0 || n < size) return false;
  const uint32_t *ids = ids_of(beam), *tail = ids + (n - (size - 1));
  for (uint32_t i = 0; i + size <= n; ++i)
    if (ids[i + size - 1] == id && memcmp(ids + i, tail, (size - 1) * sizeof(uint32_t)) == 0)
      return true;
  return false;
}

// Ends are kept apart: only those among the n best of all are outputs, and the n best others go on.
void Search::offer(uint32_t beam, uint32_t id, float score) {
  const bool end = ends(*s_, choice_, id);
  if (forbidden(beam, id, end)) return;
  if (end)
    (void)insert(r_.ended, &ended_, n_, {score, beam, id}, before);
  else
    (void)insert(r_.next, &next_, n_, {score, beam, id}, before);
}

// The callback sees the logits of every beam; true when it stops the search.
bool Search::asked_to_stop() {
  for (uint32_t i = 0; i < live_ && o_.logits != nullptr; ++i)
    if (o_.logits(o_.user, logits(i), width(), ids_of(i), length()) != 0) return true;
  return false;
}

// Offers what may follow a beam. A candidate's score never falls as its logit rises, so logits
// below one that was refused are passed over.
phasor_status Search::extend(uint32_t beam) {
  const float* x = logits(beam);
  const uint32_t n = width();
  const SideDescriptor& side = s_->model->descriptor.sides[1];
  float largest = 0;
  if (k_.argmax(x, n, &largest) >= n) return not_finite(r_.beams[beam].slot);
  if (largest - largest != 0) return largest < 0 ? PHASOR_OK : not_finite(r_.beams[beam].slot);
  if (begins_ && made_ == 0 && o_.forced_count == 0 && side.forced_first != PHASOR_NONE) {
    (void)insert(r_.next, &next_, n_, {r_.beams[beam].score, beam, side.forced_first}, before);
    return PHASOR_OK;
  }
  const float sum = log_sum(x, largest), score = r_.beams[beam].score;
  float refused = kNever;
  for (uint32_t first = 0; first < n; first += kLanes) {
    const uint32_t end = n - first < kLanes ? n : first + static_cast<uint32_t>(kLanes);
    uint32_t better = 0;
    for (uint32_t i = first; i < end; ++i) better += x[i] > refused ? 1u : 0u;
    for (uint32_t i = first; better != 0 && i < end; ++i) {
      if (!(x[i] > refused)) continue;
      const float sums = score + ((x[i] - largest) - sum);
      if (next_ == n_ && !(sums > r_.next[n_ - 1].score))
        refused = x[i];
      else
        offer(beam, i, sums);
    }
  }
  return PHASOR_OK;
}

// An output: a beam's tokens, and the candidate's.
void Search::finish(const Candidate& c, bool with_id, uint32_t how) {
  const uint32_t made = made_ + (with_id ? 1 : 0), count = o_.forced_count + made;
  const bool full = s_->hypotheses == n_;
  const Finished one{c.score / power(made), c.score, count, how,
                     full ? r_.finished[n_ - 1].row : s_->hypotheses};
  if (!insert(r_.finished, &s_->hypotheses, n_, one,
              [](const Finished& a, const Finished& b) { return a.score > b.score; }))
    return;
  const uint32_t tokens = output();
  uint32_t* ids = r_.ids.row(one.row, tokens + (with_id ? 1 : 0));
  if (tokens != 0)
    memcpy(ids, ids_of(c.beam) + (start_ - o_.forced_count), tokens * sizeof(uint32_t));
  if (with_id) ids[tokens] = c.id;
}

// Of the n best candidates those that end, and all of them when no more tokens may come.
void Search::finish_some() {
  const bool last = made_ + 1 == most_;
  for (uint32_t i = 0, n = 0, e = 0; i < n_ && (n < next_ || e < ended_); ++i) {
    if (e < ended_ && (n == next_ || before(r_.ended[e], r_.next[n])))
      finish(r_.ended[e++], true, PHASOR_FINISH_END);
    else if (last)
      finish(r_.next[n++], true, PHASOR_FINISH_LENGTH);
    else
      ++n;
  }
}

// Whether the search is over with the tokens that were chosen last: also when the best beam, at the
// length that suits it, is no better than the worst output.
bool Search::over() const {
  if (made_ + 1 == most_ || next_ == 0) return true;
  if (s_->hypotheses < n_) return false;
  if (o_.early_stopping == PHASOR_EARLY_YES) return true;
  const uint32_t count =
      o_.early_stopping == PHASOR_EARLY_NEVER && o_.length_penalty > 0 ? most_ : made_ + 1;
  return !(r_.next[0].score / power(count) > r_.finished[n_ - 1].score);
}

// The first child of a beam goes on in its sequence, the others in forks of it, in sequences of
// beams that have no child or are no beams yet.
void Search::move_beams() {
  for (uint32_t i = 0; i < n_; ++i) {
    const bool child = i < next_;
    Beam& parent = r_.beams[child ? r_.next[i].beam : 0];
    r_.items[i] = {sizeof(phasor_item),
                   child ? parent.slot : PHASOR_NONE,
                   child && parent.taken == 0 ? 1u : 0u,
                   PHASOR_LOGITS_LAST,
                   &r_.next[i].id,
                   nullptr,
                   nullptr,
                   nullptr};
    if (child) parent.taken = 1;
  }
  for (uint32_t i = 0, free = 0; i < n_; ++i) {
    phasor_item& item = r_.items[i];
    if (item.count != 0) continue;
    while (r_.beams[free].taken != 0) ++free;
    if (i < next_) sequence_fork(s_, r_.beams[free].slot, item.sequence);
    item.sequence = r_.beams[free++].slot;
    item.count = 1;
  }
}

// One step of all beams.
phasor_status Search::step() {
  move_beams();
  for (uint32_t i = 0; i < n_; ++i)
    r_.beams[i] = {i < next_ ? r_.next[i].score : 0, r_.items[i].sequence, 0};
  live_ = next_;
  ++result_->steps;
  return take_step(s_, r_.items.at(0, live_), live_, error_);
}

phasor_status Search::not_finite(uint32_t slot) {
  s_->sequences()[slot].status = PHASOR_NOT_FINITE;
  return fail(error_, PHASOR_NOT_FINITE, {PHASOR_NONE, s_->model->layer_count[1], 0, 0},
              "output: a logit of a beam of sequence ", sequence_, " at position ", length() - 1,
              " is not a number");
}

// The sequence is as the prompt left it, if need be by the copy of it that the last slot has; the
// others are free.
void Search::leave(phasor_status status) {
  if (lets_go(s_->plan) && !sequence_reaches(*s_, sequence_, start_)) {
    const Sequence had = sequence();
    sequence_fork(s_, sequence_, s_->plan.slots - 1);
    sequence().encoded = had.encoded;
    sequence().hidden = had.hidden;
  }
  for (uint32_t i = s_->plan.sequences; i < s_->plan.slots; ++i) sequence_clear(s_, i);
  (void)sequence_truncate(s_, sequence_, start_);
  if (status == PHASOR_NOT_FINITE) sequence().status = status;
}

phasor_status Search::run(const uint32_t* ids, uint32_t count) {
  s_->hypotheses = 0;
  phasor_status status = read_prompt(ids, count);
  if (status != PHASOR_OK) return status;
  if (lets_go(s_->plan)) sequence_fork(s_, s_->plan.slots - 1, sequence_);
  for (uint32_t i = 0; i < n_; ++i)
    r_.beams[i] = {0, i == 0 ? sequence_ : s_->plan.sequences + (i - 1), 0};
  live_ = 1;
  bool stopped = false;
  for (bool done = false; status == PHASOR_OK && !done;) {
    stopped = asked_to_stop();
    const uint64_t mode = fp_mode_enter();
    next_ = ended_ = 0;
    for (uint32_t i = 0; i < live_ && status == PHASOR_OK && !stopped; ++i) status = extend(i);
    for (uint32_t i = 0; i < live_ && made_ != 0 && stopped; ++i)
      finish({r_.beams[i].score, i, 0}, false, PHASOR_FINISH_STOPPED);
    if (status == PHASOR_OK) finish_some();
    done = status != PHASOR_OK || stopped || over();
    fp_mode_leave(mode);
    if (done) break;
    status = step();
    ++made_;
  }
  if (status == PHASOR_OK && s_->hypotheses == 0 && !stopped)
    status = fail(error_, PHASOR_BAD_INPUT, {},
                  "no token may be chosen: the options or the logits callback forbid all");
  leave(status);
  result_->count = s_->hypotheses;
  return status;
}

}  // namespace

phasor_status beam_search(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                          const phasor_beam_options& options, phasor_beam_result* result,
                          phasor_error* error) noexcept {
  *result = {sizeof(phasor_beam_result), 0, 0};
  Search search(s, sequence, options, result, error);
  const phasor_status status = search.check();
  return status != PHASOR_OK ? status : search.run(ids, count);
}

bool hypothesis(const Session& s, uint32_t index, phasor_hypothesis* out) noexcept {
  if (index >= s.hypotheses) return false;
  const Room r = room_of(const_cast<Session*>(&s));
  const Finished& f = r.finished[index];
  *out = {sizeof(phasor_hypothesis), f.count, f.finish, f.score, f.log_probability,
          r.ids.row(f.row, f.count)};
  return true;
}

}  // namespace phasor
