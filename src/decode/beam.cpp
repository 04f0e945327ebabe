#include "beam.h"

#include "beam_state.h"

namespace phasor {
namespace {

constexpr uint32_t kBlock = 256;  // logits whose exponentials are on the stack at the same time

uint32_t beams_of(const Session& s, const phasor_beam_options& o) {
  return o.beams != 0 ? o.beams : s.plan.beams;
}

uint32_t groups_of(const phasor_beam_options& o) { return o.groups != 0 ? o.groups : 1; }

// A search; its first four members make it.
struct Search {
  Session* const s_;
  const uint32_t search_;
  const phasor_beam_options& o_;
  phasor_error* const error_;

  const Kernels& k_ = *s_->model->kernels.pointer;
  const uint32_t n_ = beams_of(*s_, o_), groups_ = groups_of(o_);
  const uint32_t m_ = n_ / groups_;  // beams of a group
  const Room r_{s_, search_};
  State& t_ = r_.state;
  const phasor_generate_options bans_ = bans_of(o_);
  TextStream text_{*s_, bans_};  // of the prompt, then of the candidate at hand
  uint32_t row_ = 0;             // of the first beam's logits
  uint32_t ended_ = 0;
  // The group at hand: its number, what is known of it, its part of the lists.
  uint32_t g_ = 0;
  GroupState& group(uint32_t g) const { return r_.groups[g]; }
  GroupState& group() const { return group(g_); }
  Span<Candidate> next() const { return r_.next.part(uint64_t{g_} * m_, m_); }
  Span<Finished> done() const { return r_.finished.part(uint64_t{g_} * m_, m_); }
  uint32_t live() const {
    uint32_t all = 0;
    for (uint32_t g = 0; g < groups_; ++g) all += group(g).live;
    return all;
  }
  // work(beam, row) for each beam that lives, with its row of logits: before the first token all
  // groups have one.
  template <class F>
  void each_live(F work) const {
    for (uint32_t g = 0, row = 0; g < groups_; ++g)
      for (uint32_t i = 0; i < group(g).live; ++i) work(g * m_ + i, t_.made == 0 ? 0 : row++);
  }

  // Begins in a sequence.
  phasor_status enter(uint32_t sequence, const uint32_t* ids, uint32_t count) {
    const Sequence& q = s_->sequences()[sequence];
    t_ = {kIdle, sequence, n_, o_.forced_count, count == 0 ? 1u : 0u, q.length, 0, 0, groups_};
    for (uint32_t g = 0; g < groups_; ++g) group(g) = {g == 0 ? 1u : 0u, 0, 0};
    const phasor_status status = begin(*s_, q.length, &ids, &count, error_);
    if (status != PHASOR_OK) return status;
    if (covers()) {
      s_->covered(sequence) = q.length;
      for (uint32_t i = 0; i < s_->plan.source; ++i) s_->coverage(sequence)[i] = 0;
    }
    if (!s_->model->descriptor.has(kEncoder)) text_.goes_on(ids, count);
    r_.beams[0] = {0, sequence, 0, text_.state_};
    t_.phase = kPrompt;
    return status;
  }

  // What the decoder reads next; how many items. The prompt is that of `enter`.
  uint32_t items(const Span<phasor_item>& out, uint32_t at, const uint32_t* ids,
                 uint32_t count) const {
    if (t_.phase == kBeams) {
      each_live([&](uint32_t i, uint32_t) {
        out[at++] = item_of(r_.beams[i].slot, &r_.next[i].id, 1, PHASOR_LOGITS_LAST);
      });
      return live();
    }
    (void)begin(*s_, 0, &ids, &count, nullptr);  // checked where it entered
    out[at] = t_.phase == kForced
                  ? item_of(t_.sequence, o_.forced, t_.forced, PHASOR_LOGITS_LAST)
                  : item_of(t_.sequence, ids, count,
                            t_.forced != 0 ? PHASOR_LOGITS_NONE : PHASOR_LOGITS_LAST);
    return 1;
  }

  // Goes on after a step that has read the items, with the logits from `row` on.
  phasor_status advance(uint32_t row, bool* over) {
    const bool starts = t_.phase == kForced || t_.forced == 0;
    row_ = row;
    uint32_t failed = PHASOR_OK;
    each_live([&](uint32_t i, uint32_t) {
      const uint32_t status = s_->sequences()[r_.beams[i].slot].status;
      if (failed == PHASOR_OK) failed = status;
    });
    if (failed != PHASOR_OK) return static_cast<phasor_status>(failed);
    if (t_.phase == kBeams)
      ++t_.made;
    else
      t_.start = sequence().length;
    if (t_.phase != kBeams && !starts) {
      t_.phase = kForced;
      return PHASOR_OK;
    }
    if (t_.phase != kBeams) make_beams();
    const bool stopped = asked_to_stop();
    phasor_status status = PHASOR_OK;
    *over = finished(stopped, &status);
    if (!*over) move_beams();
    return *over && status == PHASOR_OK && outputs_of(r_) == 0 && !stopped ? none_left(error_)
                                                                           : status;
  }

  // One beam, behind the prompt and the forced tokens.
  void make_beams() {
    text_.state_ = r_.beams[0].text;
    for (uint32_t i = 0; i < o_.forced_count; ++i) (void)text_.add(o_.forced[i]);
    t_.most = s_->plan.target - t_.start + 1;  // the last token stays out of the cache
    if (o_.max_new != 0) t_.most = smaller(t_.most, o_.max_new - o_.forced_count);
    for (uint32_t i = 0; i < n_; ++i)
      r_.beams[i] = {0, i == 0 ? t_.sequence : first_slot() + (i - 1), 0, text_.state_};
    for (uint32_t g = 1; g < groups_; ++g) {
      sequence_fork(s_, r_.beams[g * m_].slot, t_.sequence);
      group(g).live = 1;
    }
    t_.phase = kBeams;
  }

  // Whether everything is as the last step left it.
  bool sound(uint32_t sequence) const {
    if (t_.phase == kIdle || t_.sequence != sequence || t_.beams != n_ || t_.groups != groups_ ||
        t_.forced != o_.forced_count ||
        (t_.phase == kBeams && o_.max_new != 0 && t_.forced + t_.most > o_.max_new))
      return false;
    bool all = true;
    each_live([&](uint32_t i, uint32_t) {
      const Sequence& q = s_->sequences()[r_.beams[i].slot];
      if (q.length != length() || q.status != PHASOR_OK ||
          q.source != s_->sequences()[sequence].source ||  // else clear_left would clear it
          (s_->model->cross.values != 0 && q.source == PHASOR_NONE))
        all = false;
    });
    return all;
  }

  // The sequences of all beams but the first are free.
  void leave() {
    for (uint32_t i = 0; i + 1 < s_->plan.beams; ++i) sequence_clear(s_, first_slot() + i);
    t_.phase = kIdle;
  }

  Sequence& sequence() const { return s_->sequences()[t_.sequence]; }
  uint32_t first_slot() const { return s_->plan.sequences + search_ * (s_->plan.beams - 1); }
  uint32_t output() const { return t_.forced + t_.made; }  // tokens of the output so far
  uint32_t width() const { return output_width(s_->model->descriptor); }
  float* logits(uint32_t row) const { return s_->logit_rows().row(row_ + row, width()); }
  const uint32_t* ids_of(uint32_t beam) const { return s_->ids(r_.beams[beam].slot).data(); }
  uint32_t length() const { return t_.start + t_.made; }  // of every beam, in its cache

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

  bool covers() const { return o_.coverage_penalty > 0 && s_->has_coverage(); }
  // Σ log(min(c, 1)) of a beam, in the order of the source (rule 1.15).
  float coverage(uint32_t beam) const {
    const uint32_t slot = r_.beams[beam].slot;
    const uint32_t n = s_->sources()[s_->sequences()[slot].source].length;
    const Span<float> all = s_->coverage(slot);
    float sum = 0, c[kBlock];
    for (uint32_t first = 0, count; first < n; first += count) {
      count = smaller(n - first, kBlock);
      for (uint32_t i = 0; i < count; ++i) {
        const float one = all[first + i];
        c[i] = one > 0 && one < 1 ? one : 1;
      }
      k_.log(c, count);
      for (uint32_t i = 0; i < count; ++i) sum += c[i];
    }
    return sum;
  }

  // The row's `count` values from `first` on; what earlier groups have chosen is taken from them.
  void diversified(float* out, const float* x, uint32_t first, uint32_t count,
                   const uint32_t* ids) const {
    memcpy(out, x + first, count * sizeof(float));
    for (uint32_t g = 0; g < g_; ++g)
      for (uint32_t i = 0; i < group(g).next; ++i) {
        const uint32_t id = r_.next[g * m_ + i].id;
        if (id >= first && id - first < count) out[id - first] = x[id] - diversity(id, ids);
      }
  }

  // The largest of what may still come; kNever when that is nothing.
  float largest_left(const float* x, const uint32_t* ids) const {
    const uint32_t n = width();
    float largest = kNever, one = 0, e[kBlock];
    for (uint32_t first = 0, count; first < n; first += count) {
      count = smaller(n - first, kBlock);
      diversified(e, x, first, count, ids);
      (void)k_.argmax(e, count, &one);
      if (one > largest) largest = one;
    }
    return largest;
  }

  // log Σ exp(x − largest), in vocabulary order: 16 lanes and the tree (rule 1.15). ids: a beam's,
  // of which earlier groups count; or nullptr.
  float log_sum(const float* x, float largest, const uint32_t* ids) const {
    float sums[kLanes] = {}, e[kBlock];
    const uint32_t n = width();
    for (uint32_t first = 0, count; first < n; first += count) {
      count = smaller(n - first, kBlock);
      const float* from = x + first;
      bool any = false;  // what may never come adds nothing
      for (uint32_t i = 0; i < count; ++i) any = any | (from[i] != kNever);
      if (!any) continue;
      if (ids != nullptr) {
        diversified(e, x, first, count, ids);
        from = e;
      }
      for (uint32_t i = 0; i < count; ++i) e[i] = from[i] - largest;
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
    bool stop = false;
    each_live([&](uint32_t i, uint32_t row) {
      const bool seen = o_.logits == nullptr || stop || (t_.made == 0 && i != 0);
      stop = stop || (!seen && o_.logits(o_.user, logits(row), width(), ids_of(i), length()) != 0);
    });
    return stop;
  }

  // Ends are kept apart: only those among the n best of all are outputs, and the n best others go
  // on.
  void offer(uint32_t beam, uint32_t id, float score) {
    const bool over = ends(*s_, bans_, id) || stops(beam, id);
    if (over)
      (void)insert(r_.ended, &ended_, m_, {score, beam, id, PHASOR_NONE, {}}, before);
    else
      (void)insert(next(), &group().next, m_, {score, beam, id, PHASOR_NONE, text_.state_}, before);
  }

  // What is taken from the log-probability of a token that beams of earlier groups have chosen.
  float diversity(uint32_t id, const uint32_t* ids) const {
    uint32_t count = 0;
    for (uint32_t g = 0; g < g_; ++g)
      for (uint32_t i = 0; i < group(g).next; ++i) count += r_.next[g * m_ + i].id == id ? 1u : 0u;
    if (count == 0) return 0;
    float each = o_.diversity_penalty;
    for (uint32_t i = 0; o_.repetition_penalty != 0 && i < length(); ++i)
      if (ids[i] == id) return static_cast<float>(count) * each * o_.repetition_penalty;
    return static_cast<float>(count) * each;
  }

  // Whether a stop string ends with the token behind the beam; text_ has its text then.
  bool stops(uint32_t beam, uint32_t id) {
    text_.state_ = r_.beams[beam].text;
    return text_.add(id) == StreamEnd::string;
  }

  // The row becomes log-probabilities. Those of tokens that the beam has are multiplied; they are
  // not above 0, so that a sign says for a while which have been.
  void penalize(float* x, float largest, float sum, const uint32_t* ids) const {
    const uint32_t n = width(), count = length();
    for (uint32_t i = 0; i < n; ++i) x[i] = (x[i] - largest) - sum;
    for (uint32_t i = 0; i < count; ++i)
      if (ids[i] < n && x[ids[i]] < 0 && o_.repetition_penalty != 0)
        x[ids[i]] *= -o_.repetition_penalty;
    for (uint32_t i = 0; i < count; ++i)
      if (ids[i] < n && x[ids[i]] > 0) x[ids[i]] = -x[ids[i]];
  }

  // Offers what may follow a beam. Bans change no other token's probability, unless what they leave
  // is to be the whole again. A candidate's score never falls as its logit rises, so logits below
  // one that was refused are passed over.
  phasor_status extend(uint32_t beam, uint32_t row) {
    float* x = logits(row);
    const uint32_t n = width(), slot = r_.beams[beam].slot;
    const uint32_t forced_first = s_->model->descriptor.sides[kDecoder].forced_first;
    const float score = r_.beams[beam].score;
    float largest = 0;
    const bool number = k_.argmax(x, n, &largest) < n;
    if (number && largest == kNever) return PHASOR_OK;
    if (!number || largest - largest != 0)
      return not_finite(s_, slot, "a beam of ", t_.sequence, length(), error_);
    if (o_.forced_last != nullptr && t_.made + 1 == t_.most) {
      offer(beam, *o_.forced_last, score);
      return PHASOR_OK;
    }
    if (t_.begins != 0 && output() == 0 && forced_first != PHASOR_NONE) {
      (void)stops(beam, forced_first);
      (void)insert(next(), &group().next, m_,
                   {score, beam, forced_first, PHASOR_NONE, text_.state_}, before);
      return PHASOR_OK;
    }
    const uint32_t* ids = ids_of(beam);
    const bool again = t_.made == 0 && g_ != 0;  // the row that the first group has had
    const bool penalized = groups_ > 1 || o_.repetition_penalty != 0;
    const bool whole = o_.renormalize != 0;
    float sum = 0;
    if (!again && (penalized || !whole)) sum = log_sum(x, largest, nullptr);
    if (penalized && !again) penalize(x, largest, sum, ids);
    if (penalized) largest = sum = 0;
    if (!again) forbid(x, *s_, bans_, {ids, length(), ids + (length() - output()), output()});
    if (whole) {
      largest = largest_left(x, ids);
      if (largest == kNever) return PHASOR_OK;
      sum = log_sum(x, largest, ids);
    }
    float refused = kNever;
    for (uint32_t first = 0; first < n; first += kLanes) {
      const uint32_t end = first + smaller(n - first, kLanes);
      uint32_t better = 0;
      for (uint32_t i = first; i < end; ++i) better += x[i] > refused ? 1u : 0u;
      for (uint32_t i = first; better != 0 && i < end; ++i) {
        if (!(x[i] > refused)) continue;
        float sums = score + ((x[i] - largest) - sum);
        if (group().next == m_ && !(sums > next()[m_ - 1].score)) {
          refused = x[i];
          continue;
        }
        if (g_ != 0) sums = score + (((x[i] - diversity(i, ids)) - largest) - sum);
        if (group().next < m_ || sums > next()[m_ - 1].score) offer(beam, i, sums);
      }
    }
    return PHASOR_OK;
  }

  // An output: a beam's tokens, and the candidate's.
  void finish(const Candidate& c, bool with_id, uint32_t how) {
    if (how == PHASOR_FINISH_END && !ends(*s_, bans_, c.id)) how = PHASOR_FINISH_STRING;
    const uint32_t more = with_id ? 1 : 0, tokens = output();
    uint32_t& outputs = group().outputs;
    const bool full = outputs == m_;
    float score = c.score / power(t_.made + more);
    if (covers()) score += o_.coverage_penalty * coverage(c.beam);
    const Finished one{score, c.score, tokens + more, how,
                       full ? done()[m_ - 1].row : g_ * m_ + outputs};
    if (!insert(done(), &outputs, m_, one,
                [](const Finished& a, const Finished& b) { return a.score > b.score; }))
      return;
    uint32_t* ids = r_.ids.row(one.row, one.count);
    if (tokens != 0) memcpy(ids, ids_of(c.beam) + (length() - tokens), tokens * sizeof(uint32_t));
    if (with_id) ids[tokens] = c.id;
  }

  // Of the n best candidates those that end, and all of them when no more tokens may come.
  void finish_some() {
    const bool last = t_.made + 1 == t_.most && groups_ == 1;
    const uint32_t count = group().next;
    for (uint32_t i = 0, n = 0, e = 0; i < m_ && (n < count || e < ended_); ++i) {
      if (e < ended_ && (n == count || before(r_.ended[e], next()[n])))
        finish(r_.ended[e++], true, PHASOR_FINISH_END);
      else if (last)
        finish(next()[n++], true, PHASOR_FINISH_LENGTH);
      else
        ++n;
    }
  }

  // Whether the search is over with the tokens that were chosen last: also when the best beam, at
  // the length that suits it, is no better than the worst output.
  bool over() const {
    if ((t_.made + 1 == t_.most && groups_ == 1) || group().next == 0) return true;
    if (group().outputs < m_) return false;
    if (o_.early_stopping == PHASOR_EARLY_YES) return true;
    const uint32_t count =
        o_.early_stopping == PHASOR_EARLY_NEVER && o_.length_penalty > 0 ? t_.most : t_.made + 1;
    float best = next()[0].score;
    if (groups_ > 1 && ended_ != 0 && r_.ended[0].score > best) best = r_.ended[0].score;
    return !(best / power(count) > done()[m_ - 1].score);
  }

  // Chooses what follows the beams; true when there is nothing left to search for.
  bool finished(bool stopped, phasor_status* status) {
    const FpMode mode;
    if (stopped) {
      each_live([&](uint32_t i, uint32_t) {
        g_ = i / m_;
        if (t_.made != 0)
          finish({r_.beams[i].score, i, 0, PHASOR_NONE, {}}, false, PHASOR_FINISH_STOPPED);
      });
      return true;
    }
    bool all = true;
    uint32_t row = 0;
    for (g_ = 0; g_ < groups_; ++g_) {
      GroupState& now = group();
      now.next = ended_ = 0;
      for (uint32_t i = 0; i < now.live && *status == PHASOR_OK; ++i, ++row)
        *status = extend(g_ * m_ + i, t_.made == 0 ? 0 : row);
      if (*status != PHASOR_OK) return true;
      if (now.live == 0) continue;
      finish_some();
      if (over()) {
        now.live = 0;
      } else if (t_.made + 1 == t_.most) {  // of several groups
        for (uint32_t i = 0; i < now.next; ++i) finish(next()[i], true, PHASOR_FINISH_LENGTH);
        now.live = 0;
      }
      all = all && now.live == 0;
    }
    return all;
  }

  // The first child of a beam goes on in its sequence, the others in forks of it, in sequences of
  // beams that have no child or are no beams yet.
  void move_beams() {
    for (g_ = 0; g_ < groups_; ++g_)
      if (group().live != 0) move_group();
  }
  void move_group() {
    const Span<Beam> beams = r_.beams.part(uint64_t{g_} * m_, m_);
    const uint32_t count = group().next;
    for (uint32_t i = 0; i < m_; ++i) {
      Candidate& c = next()[i];
      c.slot = PHASOR_NONE;
      if (i >= count) continue;
      Beam& parent = r_.beams[c.beam];
      if (parent.taken == 0) c.slot = parent.slot;
      parent.taken = 1;
    }
    for (uint32_t i = 0, free = 0; i < m_; ++i) {
      Candidate& c = next()[i];
      if (c.slot != PHASOR_NONE) continue;
      while (beams[free].taken != 0) ++free;
      c.slot = beams[free++].slot;
      if (i < count) sequence_fork(s_, c.slot, r_.beams[c.beam].slot);
    }
    for (uint32_t i = 0; i < m_; ++i) {
      const Candidate& c = next()[i];
      beams[i] = {i < count ? c.score : 0, c.slot, 0, i < count ? c.text : TextStream::State{}};
    }
    group().live = count;
  }
};

// The search of a sequence from its first step to its last.
struct OneSearch {
  Session* const s_;
  const uint32_t* const ids_;
  const uint32_t count_;
  phasor_error* const error_;
  Search search_;
  State& t_ = search_.t_;

  phasor_status run(uint32_t sequence, phasor_beam_result* result) {
    s_->hypotheses = 0;
    phasor_status status = search_.enter(sequence, ids_, count_);
    for (bool over = false; status == PHASOR_OK && !over;) {
      if (t_.phase != kForced) ++result->steps;
      status = step(&over);
    }
    if (t_.phase == kBeams) {
      leave(status);
      result->count = s_->hypotheses = outputs_of(search_.r_);
    }
    t_.phase = kIdle;
    return status;
  }

  phasor_status step(bool* over) {
    const Span<phasor_item> items = search_items(s_);
    const uint32_t n = search_.items(items, 0, ids_, count_);
    const bool first = t_.phase != kBeams;
    phasor_status status = first ? checked_step(s_, items.at(0, n), n, error_)
                                 : take_step(s_, items.at(0, n), n, error_);
    if (status == PHASOR_OK) status = search_.advance(0, over);
    if (first && t_.phase == kBeams && lets_go(s_->plan))
      sequence_fork(s_, s_->plan.slots - 1, t_.sequence);
    return status;
  }

  // The sequence is as the prompt left it, if need be by the copy of it that the last slot has.
  void leave(phasor_status status) {
    Sequence& q = search_.sequence();
    if (lets_go(s_->plan)) {
      if (!sequence_reaches(*s_, t_.sequence, t_.start)) {
        const Sequence had = q;
        sequence_fork(s_, t_.sequence, s_->plan.slots - 1);
        q.encoded = had.encoded;
        q.hidden = had.hidden;
      }
      sequence_clear(s_, s_->plan.slots - 1);
    }
    search_.leave();
    (void)sequence_truncate(s_, t_.sequence, t_.start);
    if (status == PHASOR_NOT_FINITE) q.status = status;
  }
};

}  // namespace

phasor_generate_options bans_of(const phasor_beam_options& o) noexcept {
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

Span<phasor_item> search_items(Session* s) noexcept {
  return s->span<phasor_item>(kPartBeams, 0, uint64_t{s->plan.searches} * s->plan.beams);
}

phasor_status search_check(Session* s, const phasor_beam_options& o, phasor_error* error) noexcept {
  const phasor_generate_options bans = bans_of(o);
  const uint32_t most = s->plan.beams, n = beams_of(*s, o);
  if (n == 0 || n > most)
    return bad_input(error, {most, n}, "options.beams: ", n, ", limits.beams holds ", most);
  phasor_status status =
      check_range("length_penalty", o.length_penalty, -kSteepest, kSteepest, "-4 to 4", error);
  if (status != PHASOR_OK) return status;
  if (o.early_stopping > PHASOR_EARLY_NEVER)
    return bad_input(error, {PHASOR_EARLY_NEVER, o.early_stopping},
                     "options.early_stopping: ", o.early_stopping, ", expected 0 to ",
                     uint32_t{PHASOR_EARLY_NEVER});
  status = check_range("repetition_penalty", o.repetition_penalty, 0, kLargest,
                       "a number that is not negative", error);
  if (status != PHASOR_OK) return status;
  if (o.length_norm > PHASOR_LENGTH_GNMT)
    return bad_input(error, {PHASOR_LENGTH_GNMT, o.length_norm},
                     "options.length_norm: ", o.length_norm, ", expected 0 to ",
                     uint32_t{PHASOR_LENGTH_GNMT});
  if (o.renormalize > 1)
    return bad_input(error, {1, o.renormalize}, "options.renormalize: ", o.renormalize,
                     ", expected 0 to 1");
  if (groups_of(o) > n || n % groups_of(o) != 0)
    return bad_input(error, {n, o.groups}, "options.groups: ", o.groups,
                     ", expected a divisor of the beams, ", n);
  status = check_range("diversity_penalty", o.diversity_penalty, 0, kLargest,
                       "a number that is not negative", error);
  if (status != PHASOR_OK) return status;
  if (o.diversity_penalty > 0 && groups_of(o) == 1)
    return bad_input(error, "options.diversity_penalty: needs options.groups of 2 or more");
  status = check_range("coverage_penalty", o.coverage_penalty, 0, kLargest,
                       "a number that is not negative", error);
  if (status != PHASOR_OK) return status;
  if (o.coverage_penalty > 0 && !s->has_coverage())
    return bad_input(error,
                     "options.coverage_penalty: needs PHASOR_WANT_COVERAGE in limits.outputs");
  if (o.max_new != 0 && o.forced_count >= o.max_new)
    return bad_input(error, {o.max_new, o.forced_count}, "options.forced: ", o.forced_count,
                     " tokens, options.max_new leaves nothing to search for: ", o.max_new);
  status = check_option_ids(*s, bans, error);
  return status == PHASOR_OK ? TextStream{*s, bans}.check(error) : status;
}

phasor_status search_enter(const SearchCall& c, uint32_t sequence, const uint32_t* ids,
                           uint32_t count) noexcept {
  return Search{c.s, c.search, c.options, c.error}.enter(sequence, ids, count);
}

bool search_is_new(const SearchCall& c) noexcept {
  return Room{c.s, c.search}.state.phase == kPrompt;
}

bool search_is_sound(const SearchCall& c, uint32_t sequence) noexcept {
  return Search{c.s, c.search, c.options, c.error}.sound(sequence);
}

uint32_t search_make_items(const SearchCall& c, uint32_t at, const uint32_t* ids,
                           uint32_t count) noexcept {
  return Search{c.s, c.search, c.options, c.error}.items(search_items(c.s), at, ids, count);
}

uint32_t search_rows(const SearchCall& c) noexcept {
  const Search search{c.s, c.search, c.options, c.error};
  const State& t = search.t_;
  return t.phase == kPrompt && t.forced != 0 ? 0 : search.live();
}

phasor_status search_advance(const SearchCall& c, uint32_t row, bool* over) noexcept {
  return Search{c.s, c.search, c.options, c.error}.advance(row, over);
}

void search_leave(const SearchCall& c) noexcept {
  Search{c.s, c.search, c.options, c.error}.leave();
}

bool search_output(const SearchCall& c, uint32_t index, phasor_hypothesis* out) noexcept {
  const Room r{c.s, c.search};
  const bool found = index < outputs_of(r);
  if (found) fill(out, r, index);
  return found;
}

phasor_status beam_search(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                          const phasor_beam_options& options, phasor_beam_result* result,
                          phasor_error* error) noexcept {
  phasor_status status = check_generator(*s->model.pointer, error);
  if (status == PHASOR_OK) status = check_sequence(*s, sequence, error);
  if (status == PHASOR_OK) status = search_check(s, options, error);
  if (status != PHASOR_OK) return status;
  return OneSearch{s, ids, count, error, {s, 0, options, error}}.run(sequence, result);
}

bool hypothesis(const Session& s, uint32_t index, phasor_hypothesis* out) noexcept {
  if (index >= s.hypotheses) return false;
  fill(out, Room{const_cast<Session*>(&s), 0}, index);
  return true;
}

}  // namespace phasor
