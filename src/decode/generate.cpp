#include "generate.h"

#include "random.h"
#include "stream.h"

namespace phasor {
namespace {

constexpr uint32_t kLongestMatch = 3, kShortestMatch = 2;  // tokens that lookahead looks for

constexpr uint32_t kFirstGuess = 4;

phasor_random seeded(uint64_t seed) {
  phasor_random random;
  random_seed(&random, seed);
  return random;
}

// A generation; its first seven members make it.
struct Generator {
  Session* const s_;
  const uint32_t sequence_;
  uint32_t* const out_;
  const uint32_t most_;
  const phasor_generate_options& o_;
  phasor_generation* const result_;
  phasor_error* const error_;

  phasor_random own_ = seeded(o_.seed);
  phasor_random* const random_ = o_.random != nullptr ? o_.random : &own_;
  TextStream text_{*s_, o_};
  bool begins_ = false;  // at the start token
  // tokens to guess: twice as many after guesses that were all right, else one more than were
  uint32_t ahead_ = smaller(o_.lookahead, kFirstGuess);

  phasor_status check() const {
    const uint32_t target = s_->plan.target, rows = rows_held();
    phasor_status status = check_generator(*s_->model.pointer, error_);
    if (status == PHASOR_OK) status = check_sequence(*s_, sequence_, error_);
    if (status != PHASOR_OK) return status;
    if (o_.slide != 0 && (target < 2 || o_.keep > target - 2))
      return bad_input(error_, {target, o_.keep}, "options.keep: ", o_.keep,
                       " tokens, expected at least two less than the limits hold, ", target);
    if (rows == 0)
      return bad_input(
          error_,
          "options: anything but the plain largest logit needs limits.logit_rows, which is 0");
    if (o_.lookahead >= rows && o_.lookahead != 0)
      return bad_input(
          error_, {uint64_t(o_.lookahead) + 1, rows}, "options.lookahead: ", o_.lookahead,
          best_only() ? " tokens, limits.best_rows holds " : " tokens, limits.logit_rows holds ",
          rows, ", expected at least one more");
    status = check_choice(*s_, o_, error_);
    return status != PHASOR_OK ? status : text_.check(error_);
  }

  phasor_status run(const uint32_t* ids, uint32_t count) {
    phasor_status status = most_ != 0 ? read_prompt(ids, count) : PHASOR_OK;
    if (most_ == 0) result_->finish = PHASOR_FINISH_LENGTH;
    uint32_t proposed = 0, row = 0, id = 0;
    for (uint32_t first = sequence().length; status == PHASOR_OK && result_->finish == 0;) {
      // Rows 0 … proposed: what follows each token of the last step. A row counts when the guess
      // before it was right.
      const uint32_t length = first + row;
      status = choose_row(row, length, &id);
      const bool last = status != PHASOR_OK || result_->finish != 0 || ended(id, length),
                 right = !last && row < proposed && this->ids()[length] == id;
      if (right) {
        ++result_->accepted;
        ++row;
        continue;
      }
      truncate(length);
      if (last) break;
      if (proposed != 0) learn(row, proposed);
      if (room() == 0 && (o_.slide == 0 || !slide(&status))) result_->finish = PHASOR_FINISH_LENGTH;
      if (status != PHASOR_OK || result_->finish != 0) break;
      status = next(id, &proposed);
      first = sequence().length - proposed;
      row = 0;
    }
    if (status == PHASOR_OK && result_->finish != PHASOR_FINISH_STRING && most_ != 0 &&
        text_.end() == StreamEnd::stopped)
      result_->finish = PHASOR_FINISH_STOPPED;
    return status;
  }

  Sequence& sequence() const { return s_->sequences()[sequence_]; }
  Span<uint32_t> ids() const { return s_->ids(sequence_); }
  uint32_t room() const { return s_->plan.target - sequence().length; }
  void truncate(uint32_t length) { (void)sequence_truncate(s_, sequence_, length); }

  bool best_only() const { return phasor::best_only(*s_, o_); }
  uint32_t rows_held() const { return best_only() ? s_->plan.best_rows : s_->plan.logit_rows; }
  uint32_t want_last() const { return best_only() ? PHASOR_BEST_LAST : PHASOR_LOGITS_LAST; }
  uint32_t want_all() const { return best_only() ? PHASOR_BEST_ALL : PHASOR_LOGITS_ALL; }

  phasor_status step(const uint32_t* ids, uint32_t count, uint32_t logits) {
    if (logits != PHASOR_LOGITS_NONE) ++result_->steps;
    return feed(s_, sequence_, ids, count, logits, error_);
  }

  // Feeds the prompt, but for what the sequence has of it already. The logits of its last token
  // are in row 0.
  phasor_status read_prompt(const uint32_t* ids, uint32_t count) {
    begins_ = count == 0;
    const uint32_t kept = o_.reuse == 0 ? sequence().length : 0;
    phasor_status status = begin(*s_, kept, &ids, &count, error_);
    if (status != PHASOR_OK) return status;
    if (!s_->model->descriptor.has(kEncoder)) {
      if (o_.reuse == 0) text_.goes_on(this->ids().data(), sequence().length);
      text_.goes_on(ids, count);
    }
    // All of it, or its first tokens and its newest ones: ids[0 … first−1], ids[second … count−1].
    uint32_t first = 0, second = 0, common = 0;
    if (o_.slide != 0 && count > s_->plan.target && (o_.reuse != 0 || sequence().length == 0)) {
      first = o_.keep;
      second = count - (s_->plan.target - o_.keep);
    }
    if (o_.reuse != 0) {
      while (common < sequence().length && common + 1 < first + (count - second) &&
             this->ids()[common] == ids[common < first ? common : second + (common - first)])
        ++common;
      common = sequence_truncate(s_, sequence_, common);
      result_->reused = common;
    }
    if (common < first) {
      status = step(ids + common, first - common, PHASOR_LOGITS_NONE);
      if (status != PHASOR_OK) return status;
      common = first;
    }
    const uint32_t from = second + (common - first);
    return step(ids + from, count - from, want_last());
  }

  // The tokens that once followed the last few, written behind them; how many. What is written is
  // read again: a loop goes on for ever.
  uint32_t propose() const {
    const Span<uint32_t> h = ids();
    const uint32_t n = sequence().length + 1;  // the last token is not in the cache yet
    uint32_t most = smaller(smaller(ahead_, room() - 1), most_ - result_->count - 1);
    if (lets_go(s_->plan)) most = smaller(most, s_->plan.chunk - 1);  // so far the ring can go back
    for (uint32_t size = kLongestMatch; most != 0 && size >= kShortestMatch; --size) {
      if (n <= size) continue;
      for (uint32_t at = n - size; at-- > 0;) {
        if (memcmp(h.at(at, size), h.at(n - size, size), size * sizeof(uint32_t)) != 0) continue;
        uint32_t made = 0;
        for (; made < most && h[at + size + made] != PHASOR_NONE; ++made)
          h[n + made] = h[at + size + made];
        return made;
      }
    }
    return 0;
  }

  void learn(uint32_t right, uint32_t proposed) {
    if (right < proposed)
      ahead_ = right + 1;
    else if (right == ahead_)
      ahead_ *= 2;
    ahead_ = smaller(ahead_, o_.lookahead);
  }

  // Keeps the first tokens and the newer half of the others; false when they cannot be computed
  // again.
  bool slide(phasor_status* status) {
    const uint32_t target = s_->plan.target, half = (target - o_.keep) / 2;
    const uint32_t* newest = ids().at(target - half, half);
    const bool reaches = !kHasRing || sequence_reaches(*s_, sequence_, o_.keep);
    for (uint32_t i = 0; i < half; ++i)
      if (newest[i] == PHASOR_NONE) return false;  // an embedding is not kept
    for (uint32_t i = 0; i < o_.keep && !reaches; ++i)
      if (ids()[i] == PHASOR_NONE) return false;
    truncate(o_.keep);
    ++result_->slides;
    if (!reaches) *status = step(ids().at(0, o_.keep), o_.keep, PHASOR_LOGITS_NONE);
    // the ids move to the front of their own array, each is read before it is written over
    if (*status == PHASOR_OK) *status = step(newest, half, PHASOR_LOGITS_NONE);
    return true;
  }

  // One step: the last token and the proposed ones, which stand behind the sequence's ids.
  phasor_status step_with(uint32_t proposed) {
    const uint32_t before = sequence().length;
    const uint32_t* from = ids().at(before, 1 + proposed);
    const phasor_status status = step(from, 1 + proposed, proposed != 0 ? want_all() : want_last());
    if (status != PHASOR_NOT_FINITE || proposed == 0) return status;
    // perhaps because of a guess that decoding without them would never have met
    sequence().status = PHASOR_OK;
    truncate(before);
    return step(from, 1, want_last());
  }

  phasor_status next(uint32_t last, uint32_t* proposed) {
    ids()[sequence().length] = last;
    *proposed = propose();
    const phasor_status status = step_with(*proposed);
    if (s_->logits != *proposed + 1) *proposed = 0;
    result_->proposed += *proposed;
    return status;
  }

  phasor_status choose_row(uint32_t row, uint32_t length, uint32_t* id) {
    bool goes_on = true;
    const Place at{sequence_, row, length, out_, result_->count, most_, begins_};
    const phasor_status status = next_token(s_, at, o_, random_, id, &goes_on, error_);
    if (!goes_on) result_->finish = PHASOR_FINISH_STOPPED;
    return status;
  }

  // Gives a new token out; true when it is the last.
  bool ended(uint32_t id, uint32_t length) {
    out_[result_->count++] = id;
    const StreamEnd text = text_.add(id);
    if (text == StreamEnd::string) result_->finish = PHASOR_FINISH_STRING;
    if (ends(*s_, o_, id)) result_->finish = PHASOR_FINISH_END;
    if (text == StreamEnd::stopped || (o_.token != nullptr && o_.token(o_.user, id, length) != 0))
      result_->finish = PHASOR_FINISH_STOPPED;
    if (result_->finish == 0 && result_->count == most_) result_->finish = PHASOR_FINISH_LENGTH;
    return result_->finish != 0;
  }
};

}  // namespace

bool best_only(const Session& s, const phasor_generate_options& o) noexcept {
  return s.plan.best_rows != 0 && takes_largest(o) && o.logits == nullptr;
}

phasor_status next_token(Session* s, const Place& at, const phasor_generate_options& o,
                         phasor_random* random, uint32_t* id, bool* goes_on,
                         phasor_error* error) noexcept {
  const SideDescriptor& side = s->model->descriptor.sides[kDecoder];
  const uint32_t* history = s->ids(at.sequence).data();
  *goes_on = o.logits == nullptr || o.logits(o.user, s->logit_rows().row(at.row, side.vocabulary),
                                             side.vocabulary, history, at.length) == 0;
  if (!*goes_on) return PHASOR_OK;
  const bool first = at.begins && at.made == 0 && side.forced_first != PHASOR_NONE,
             forced = at.made < o.forced_count,
             last = !forced && o.forced_last != nullptr &&
                    (at.made + 1 == at.most || (at.length == s->plan.target && o.slide == 0));
  float largest = 0;
  const phasor_status status =
      forced || first || last
          ? best_token(*s, at.row, id, &largest)
          : choose(s, at.row, o, {history, at.length, at.out, at.made}, random, id, nullptr, error);
  if (first) *id = side.forced_first;
  if (forced) *id = o.forced[at.made];
  if (last) *id = *o.forced_last;
  return status == PHASOR_NOT_FINITE ? not_finite(s, at.sequence, "", at.sequence, at.length, error)
                                     : status;
}

phasor_status generate(Session* s, uint32_t sequence, const uint32_t* ids, uint32_t count,
                       uint32_t* out, uint32_t capacity, const phasor_generate_options& options,
                       phasor_generation* result, phasor_error* error) noexcept {
  const uint32_t most = options.max_new != 0 ? smaller(options.max_new, capacity) : capacity;
  Generator g{s, sequence, out, most, options, result, error};
  const phasor_status status = g.check();
  return status != PHASOR_OK ? status : g.run(ids, count);
}

}  // namespace phasor
