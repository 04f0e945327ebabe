#include "beam.h"

#include "stream.h"

namespace phasor {
namespace {

constexpr uint32_t kBlock = 256;  // logits whose exponentials are on the stack at the same time

// A beam and the token that follows it.
struct Candidate {
  float score;  // the sum of log-probabilities
  uint32_t beam, id;
  TextStream::State text;  // with the token, where there are stop strings
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
  TextStream::State text;
};

struct Finished {
  float score, log_probability;
  uint32_t count, finish;
  uint32_t row;  // of the ids
};

// More than these have anywhere: they have pointers.
constexpr uint32_t kItemBytes = 64, kTextBytes = 40;

// What kPartBeams holds, for `beams` of the limits: items of a step, beams, candidates, finished
// outputs (beams each), and ids (beams, target).
struct Room {
  Session* const session;
  uint64_t at = 0;  // bytes that are taken
  Span<phasor_item> items = take<phasor_item>(kItemBytes);
  Span<Beam> beams = take<Beam>(kTextBytes);
  Span<Candidate> next = take<Candidate>(kTextBytes), ended = take<Candidate>(kTextBytes);
  Span<Finished> finished = take<Finished>();
  Rows<uint32_t> ids =
      session->span<uint32_t>(kPartBeams, count() * kBeamBytes, count() * session->plan.target)
          .rows(count(), session->plan.target);

  uint64_t count() const { return session->plan.beams; }
  template <class T>
  Span<T> take(uint32_t bytes = sizeof(T)) {
    const uint64_t first = at;
    at += count() * bytes;
    return session->span<T>(kPartBeams, first, count());
  }
};
static_assert(sizeof(phasor_item) <= kItemBytes && sizeof(Beam) <= kTextBytes &&
                  sizeof(Candidate) <= kTextBytes,
              "the plan is the same on every machine");
static_assert(kItemBytes + 3 * kTextBytes + sizeof(Finished) <= kBeamBytes,
              "the plan counts what a beam needs");

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

// What of the options is the same without beams.
phasor_generate_options bans_of(const phasor_beam_options& o) {
  phasor_generate_options bans = PHASOR_GENERATE_OPTIONS_INIT;
  bans.no_repeat_ngram = o.no_repeat_ngram;
  bans.min_new = o.min_new;
  bans.forced = o.forced;
  bans.forced_count = o.forced_count;
  bans.suppressed = o.suppressed;
  bans.suppressed_count = o.suppressed_count;
  bans.end = o.end;
  bans.end_count = o.end_count;
  bans.bad_words = o.bad_words;
  bans.bad_words_count = o.bad_words_count;
  bans.source = o.source;
  bans.source_count = o.source_count;
  bans.source_no_repeat_ngram = o.source_no_repeat_ngram;
  bans.forced_last = o.forced_last;
  bans.stop = o.stop;
  bans.stop_count = o.stop_count;
  return bans;
}

// A search; its first five members make it.
struct Search {
  Session* const s_;
  const uint32_t sequence_;
  const phasor_beam_options& o_;
  phasor_beam_result* const result_;
  phasor_error* const error_;

  const Kernels& k_ = *s_->model->kernels.pointer;
  const uint32_t n_ = o_.beams != 0 ? o_.beams : s_->plan.beams;
  const Room r_{s_};
  const phasor_generate_options bans_ = bans_of(o_);
  TextStream text_{*s_, bans_};  // of the prompt, then of the candidate at hand
  bool begins_ = false;
  uint32_t start_ = 0;  // positions before the tokens that are searched for
  uint32_t most_ = 0;   // of these tokens
  uint32_t made_ = 0;   // so far
  uint32_t live_ = 0, next_ = 0, ended_ = 0;

  phasor_status check() const {
    const uint32_t most = s_->plan.beams;
    phasor_status status = check_decoder(*s_->model.pointer, error_);
    if (status == PHASOR_OK) status = check_sequence(*s_, sequence_, error_);
    if (status != PHASOR_OK) return status;
    if (n_ == 0 || n_ > most)
      return bad_input(error_, {most, n_}, "options.beams: ", n_, ", limits.beams holds ", most);
    status =
        check_range("length_penalty", o_.length_penalty, -kSteepest, kSteepest, "-4 to 4", error_);
    if (status != PHASOR_OK) return status;
    if (o_.early_stopping > PHASOR_EARLY_NEVER)
      return bad_input(error_, {PHASOR_EARLY_NEVER, o_.early_stopping},
                       "options.early_stopping: ", o_.early_stopping, ", expected 0 to ",
                       uint32_t{PHASOR_EARLY_NEVER});
    status = check_range("repetition_penalty", o_.repetition_penalty, 0, kLargest,
                         "a number that is not negative", error_);
    if (status != PHASOR_OK) return status;
    if (o_.length_norm > PHASOR_LENGTH_GNMT)
      return bad_input(error_, {PHASOR_LENGTH_GNMT, o_.length_norm},
                       "options.length_norm: ", o_.length_norm, ", expected 0 to ",
                       uint32_t{PHASOR_LENGTH_GNMT});
    if (o_.max_new != 0 && o_.forced_count >= o_.max_new)
      return bad_input(error_, {o_.max_new, o_.forced_count}, "options.forced: ", o_.forced_count,
                       " tokens, options.max_new leaves nothing to search for: ", o_.max_new);
    status = check_option_ids(*s_, bans_, error_);
    return status == PHASOR_OK ? text_.check(error_) : status;
  }

  phasor_status run(const uint32_t* ids, uint32_t count) {
    s_->hypotheses = 0;
    phasor_status status = read_prompt(ids, count);
    if (status != PHASOR_OK) return status;
    if (lets_go(s_->plan)) sequence_fork(s_, s_->plan.slots - 1, sequence_);
    for (uint32_t i = 0; i < n_; ++i)
      r_.beams[i] = {0, i == 0 ? sequence_ : s_->plan.sequences + (i - 1), 0, text_.state_};
    live_ = 1;
    bool stopped = false;
    while (status == PHASOR_OK) {
      stopped = asked_to_stop();
      if (finished(stopped, &status)) break;
      status = step();
      ++made_;
    }
    if (status == PHASOR_OK && s_->hypotheses == 0 && !stopped) status = none_left(error_);
    leave(status);
    result_->count = s_->hypotheses;
    return status;
  }

  Sequence& sequence() const { return s_->sequences()[sequence_]; }
  uint32_t output() const { return o_.forced_count + made_; }  // tokens of the output so far
  uint32_t width() const { return output_width(s_->model->descriptor); }
  float* logits(uint32_t row) const { return s_->logit_rows().row(row, width()); }
  const uint32_t* ids_of(uint32_t beam) const { return s_->ids(r_.beams[beam].slot).data(); }
  uint32_t length() const { return start_ + made_; }  // of every beam, in its cache

  // The prompt, then the forced tokens. The logits of the last one are in row 0.
  phasor_status read_prompt(const uint32_t* ids, uint32_t count) {
    const bool forced = o_.forced_count != 0;
    begins_ = count == 0;
    phasor_status status = begin(*s_, &ids, &count, error_);
    if (status == PHASOR_OK)
      status =
          feed(s_, sequence_, ids, count, forced ? PHASOR_LOGITS_NONE : PHASOR_LOGITS_LAST, error_);
    if (status == PHASOR_OK && forced)
      status = feed(s_, sequence_, o_.forced, o_.forced_count, PHASOR_LOGITS_LAST, error_);
    ++result_->steps;
    if (!s_->model->descriptor.has(kEncoder)) text_.goes_on(ids, count);
    for (uint32_t i = 0; i < o_.forced_count; ++i) (void)text_.add(o_.forced[i]);
    start_ = sequence().length;
    most_ = s_->plan.target - start_ + 1;  // the last token stays out of the cache
    if (o_.max_new != 0) most_ = smaller(most_, o_.max_new - o_.forced_count);
    return status;
  }

  // n^length_penalty, with n the count or (5 + count)/6: whole powers are products, the rest is
  // exp(log(n)·rest).
  float power(uint32_t count) const {
    // No conversion under a condition: GCC 12 writes one that the assembler does not read for a
    // Cortex-M55. A division by one changes nothing.
    const uint32_t five = o_.length_norm == PHASOR_LENGTH_GNMT ? 5 : 0;
    const float n = static_cast<float>(count + five) / static_cast<float>(1 + five),
                p = __builtin_fabsf(o_.length_penalty);
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
  float log_sum(const float* x, float largest) const {
    float sums[kLanes] = {}, e[kBlock];
    const uint32_t n = width();
    for (uint32_t first = 0, count; first < n; first += count) {
      count = smaller(n - first, kBlock);
      for (uint32_t i = 0; i < count; ++i) e[i] = x[first + i] - largest;
      k_.exp(e, count);
      for (uint32_t i = count; i < lanes(count); ++i) e[i] = 0;
      for (uint32_t i = 0; i < count; i += kLanes)
        for (uint32_t j = 0; j < kLanes; ++j) sums[j] += e[i + j];
    }
    add_lanes(sums);
    k_.log(sums, 1);
    return sums[0];
  }

  // The callback sees the logits of every beam; true when it stops the search.
  bool asked_to_stop() {
    for (uint32_t i = 0; i < live_ && o_.logits != nullptr; ++i)
      if (o_.logits(o_.user, logits(i), width(), ids_of(i), length()) != 0) return true;
    return false;
  }

  // Ends are kept apart: only those among the n best of all are outputs, and the n best others go
  // on.
  void offer(uint32_t beam, uint32_t id, float score) {
    const bool over = ends(*s_, bans_, id) || stops(beam, id);
    if (over)
      (void)insert(r_.ended, &ended_, n_, {score, beam, id, {}}, before);
    else
      (void)insert(r_.next, &next_, n_, {score, beam, id, text_.state_}, before);
  }

  // Whether a stop string ends with the token behind the beam; text_ has its text then.
  bool stops(uint32_t beam, uint32_t id) {
    text_.state_ = r_.beams[beam].text;
    return text_.add(id) == StreamEnd::string;
  }

  // The row becomes log-probabilities. Those of tokens that the beam has are multiplied; they are
  // not above 0, so that a sign says for a while which have been.
  void penalise(float* x, float largest, float sum, const uint32_t* ids) const {
    const uint32_t n = width(), count = length();
    for (uint32_t i = 0; i < n; ++i) x[i] = (x[i] - largest) - sum;
    for (uint32_t i = 0; i < count; ++i)
      if (ids[i] < n && x[ids[i]] < 0) x[ids[i]] *= -o_.repetition_penalty;
    for (uint32_t i = 0; i < count; ++i)
      if (ids[i] < n && x[ids[i]] > 0) x[ids[i]] = -x[ids[i]];
  }

  // Offers what may follow a beam. Bans change no other token's probability. A candidate's score
  // never falls as its logit rises, so logits below one that was refused are passed over.
  phasor_status extend(uint32_t beam) {
    float* x = logits(beam);
    const uint32_t n = width(), slot = r_.beams[beam].slot;
    const uint32_t forced_first = s_->model->descriptor.sides[1].forced_first;
    const float score = r_.beams[beam].score;
    float largest = 0;
    const bool number = k_.argmax(x, n, &largest) < n;
    if (number && largest == kNever) return PHASOR_OK;
    if (!number || largest - largest != 0)
      return not_finite(s_, slot, "a beam of ", sequence_, length(), error_);
    if (begins_ && output() == 0 && forced_first != PHASOR_NONE) {
      (void)stops(beam, forced_first);
      (void)insert(r_.next, &next_, n_, {score, beam, forced_first, text_.state_}, before);
      return PHASOR_OK;
    }
    if (o_.forced_last != nullptr && made_ + 1 == most_) {
      offer(beam, *o_.forced_last, score);
      return PHASOR_OK;
    }
    float sum = log_sum(x, largest);
    const uint32_t* ids = ids_of(beam);
    if (o_.repetition_penalty != 0) {
      penalise(x, largest, sum, ids);
      largest = sum = 0;
    }
    forbid(x, *s_, bans_, {ids, length(), ids + (length() - output()), output()});
    float refused = kNever;
    for (uint32_t first = 0; first < n; first += kLanes) {
      const uint32_t end = first + smaller(n - first, kLanes);
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
  void finish(const Candidate& c, bool with_id, uint32_t how) {
    if (how == PHASOR_FINISH_END && !ends(*s_, bans_, c.id)) how = PHASOR_FINISH_STRING;
    const uint32_t more = with_id ? 1 : 0, tokens = output();
    const bool full = s_->hypotheses == n_;
    const Finished one{c.score / power(made_ + more), c.score, tokens + more, how,
                       full ? r_.finished[n_ - 1].row : s_->hypotheses};
    if (!insert(r_.finished, &s_->hypotheses, n_, one,
                [](const Finished& a, const Finished& b) { return a.score > b.score; }))
      return;
    uint32_t* ids = r_.ids.row(one.row, one.count);
    if (tokens != 0) memcpy(ids, ids_of(c.beam) + (length() - tokens), tokens * sizeof(uint32_t));
    if (with_id) ids[tokens] = c.id;
  }

  // Of the n best candidates those that end, and all of them when no more tokens may come.
  void finish_some() {
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

  // Whether the search is over with the tokens that were chosen last: also when the best beam, at
  // the length that suits it, is no better than the worst output.
  bool over() const {
    if (made_ + 1 == most_ || next_ == 0) return true;
    if (s_->hypotheses < n_) return false;
    if (o_.early_stopping == PHASOR_EARLY_YES) return true;
    const uint32_t count =
        o_.early_stopping == PHASOR_EARLY_NEVER && o_.length_penalty > 0 ? most_ : made_ + 1;
    return !(r_.next[0].score / power(count) > r_.finished[n_ - 1].score);
  }

  // Chooses what follows the beams; true when there is nothing left to search for.
  bool finished(bool stopped, phasor_status* status) {
    const FpMode mode;
    next_ = ended_ = 0;
    if (stopped) {
      for (uint32_t i = 0; i < live_ && made_ != 0; ++i)
        finish({r_.beams[i].score, i, 0, {}}, false, PHASOR_FINISH_STOPPED);
      return true;
    }
    for (uint32_t i = 0; i < live_ && *status == PHASOR_OK; ++i) *status = extend(i);
    if (*status != PHASOR_OK) return true;
    finish_some();
    return over();
  }

  // The first child of a beam goes on in its sequence, the others in forks of it, in sequences of
  // beams that have no child or are no beams yet.
  void move_beams() {
    for (uint32_t i = 0; i < n_; ++i) {
      const bool child = i < next_;
      Beam& parent = r_.beams[child ? r_.next[i].beam : 0];
      r_.items[i] = item_of(child ? parent.slot : PHASOR_NONE, &r_.next[i].id,
                            child && parent.taken == 0 ? 1u : 0u, PHASOR_LOGITS_LAST);
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
  phasor_status step() {
    move_beams();
    for (uint32_t i = 0; i < n_; ++i)
      r_.beams[i] = {i < next_ ? r_.next[i].score : 0, r_.items[i].sequence, 0,
                     i < next_ ? r_.next[i].text : TextStream::State{}};
    live_ = next_;
    ++result_->steps;
    return take_step(s_, r_.items.at(0, live_), live_, error_);
  }

  // The sequence is as the prompt left it, if need be by the copy of it that the last slot has;
  // the others are free.
  void leave(phasor_status status) {
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
};

}  // namespace

phasor_status beam_search(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                          const phasor_beam_options& options, phasor_beam_result* result,
                          phasor_error* error) noexcept {
  Search search{s, sequence, options, result, error};
  const phasor_status status = search.check();
  return status != PHASOR_OK ? status : search.run(ids, count);
}

bool hypothesis(const Session& s, uint32_t index, phasor_hypothesis* out) noexcept {
  if (index >= s.hypotheses) return false;
  const Room r{const_cast<Session*>(&s)};
  const Finished& f = r.finished[index];
  out->count = f.count;
  out->finish = f.finish;
  out->score = f.score;
  out->log_probability = f.log_probability;
  out->ids = r.ids.row(f.row, f.count);
  return true;
}

}  // namespace phasor
