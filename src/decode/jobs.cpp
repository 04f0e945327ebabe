#include "jobs.h"

#include "../structs.h"
#include "random.h"
#include "stream.h"

namespace phasor {
namespace {

static_assert(kItemBytes + sizeof(TextStream::State) <= kJobBytes,
              "the plan is the same on every machine");

bool is_over(const phasor_job& job) { return job.finish != 0 || job.status != PHASOR_OK; }
bool runs(const phasor_job& job) { return !is_over(job) && job.sequence != PHASOR_NONE; }

// A step; its first six members make it.
struct Step {
  Session* const s_;
  phasor_job* const jobs_;
  const uint32_t count_;
  const phasor_generate_options& o_;
  const phasor_beam_options* const beams_;  // NULL: no searches; else o_ has what both have
  phasor_error* const error_;

  const bool crossing_ = s_->model->descriptor.has_both();
  const uint32_t sequences_ = s_->plan.sequences;
  const Span<phasor_item> items_ =
      searching() ? search_items(s_) : s_->span<phasor_item>(kPartJobs, 0, sequences_);
  const uint32_t rows_ = best_only(*s_, o_) ? s_->plan.best_rows : s_->plan.logit_rows;
  // jobs that run at the same time; a search has the sequence of its number
  const uint32_t places_ = searching() ? s_->plan.searches : smaller(sequences_, rows_);
  bool said_ = false;  // `error` has a line

  bool searching() const { return kHasBeam && beams_ != nullptr; }
  TextStream::State& text_of(const phasor_job& job) const {
    const uint64_t first = uint64_t(sequences_) * kItemBytes;
    return s_->span<TextStream::State>(kPartJobs, first, sequences_)[job.sequence];
  }

  phasor_status check() const {
    phasor_status status = searching() ? PHASOR_OK : check_tokens();
    if (status == PHASOR_OK) status = check_sizes();
    for (uint32_t i = 0; i < count_ && status == PHASOR_OK; ++i) status = check_job(i);
    return status;
  }

  // Options without searches.
  phasor_status check_tokens() const {
    const struct {
      const char* name;
      bool given;
    } others[] = {{"token", o_.token != nullptr},   {"text", o_.text != nullptr},
                  {"random", o_.random != nullptr}, {"reuse", o_.reuse != 0},
                  {"slide", o_.slide != 0},         {"lookahead", o_.lookahead != 0}};
    for (const auto& one : others)
      if (one.given) return bad_input(error_, "options.", one.name, ": does not go with jobs");
    if (rows_ == 0)
      return bad_input(
          error_,
          "options: anything but the plain largest logit needs limits.logit_rows, which is 0");
    const phasor_status status = check_choice(*s_, o_, error_);
    return status == PHASOR_OK ? TextStream{*s_, o_}.check(error_) : status;
  }

  phasor_status check_sizes() const {
    static_assert(kFirstSize<phasor_job> == sizeof(phasor_job),
                  "jobs are read at a distance of sizeof: read them by the size that they say");
    return Given<phasor_job>(jobs_).check("phasor_job", count_, error_);
  }

  // A job is whole, and one that runs is where the session has it.
  phasor_status check_job(uint32_t i) const {
    const phasor_job& job = jobs_[i];
    if (is_over(job)) return PHASOR_OK;
    if (searching() && job.outputs != nullptr)
      if (const phasor_status status =
              Given<phasor_hypothesis>(job.outputs).check("phasor_hypothesis", job.n_best, error_);
          status != PHASOR_OK)
        return status;
    if (!runs(job)) return PHASOR_OK;
    for (uint32_t k = 0; k < i; ++k)
      if (runs(jobs_[k]) && jobs_[k].sequence == job.sequence)
        return bad_input(error_, "job ", i, ": its sequence, ", job.sequence, ", is that of job ",
                         k);
    if (searching() ? !search_goes_on(job)
                    : job.sequence >= sequences_ || job.made >= most_of(job) ||
                          (job.made != 0 && s_->sequences()[job.sequence].length + 1 < job.made) ||
                          !TextStream{*s_, o_}.is_sound(text_of(job)))
      return bad_input(error_, "job ", i, ": what it says of itself was changed while it ran");
    return check_ids(*s_, kDecoder, "a job's out: ", job.out, job.made, error_);
  }

  // A job's own options.
  phasor_beam_options search_options(const phasor_job& job) const {
    phasor_beam_options own = *beams_;
    own.max_new = most_of(job);
    own.source = job.ids;
    own.source_count = job.count;
    return own;
  }
  bool search_goes_on(const phasor_job& job) const {
    const phasor_beam_options own = search_options(job);
    return job.sequence < places_ && most_of(job) > own.forced_count &&
           search_is_sound({s_, job.sequence, own, nullptr}, job.sequence);
  }
  // The decoder has read nothing of it.
  bool is_new(const phasor_job& job) const {
    return searching() ? search_is_new({s_, job.sequence, *beams_, nullptr}) : job.made == 0;
  }

  uint32_t most_of(const phasor_job& job) const {
    return o_.max_new != 0 ? smaller(o_.max_new, job.capacity) : job.capacity;
  }

  // The first error's line stays.
  phasor_error* line() const { return said_ ? nullptr : error_; }

  void fail_job(phasor_job* job, phasor_status status) {
    job->status = static_cast<uint32_t>(status);
    leave(job);
  }
  void leave(phasor_job* job) {
    if (job->sequence != PHASOR_NONE) {
      if (searching()) search_leave({s_, job->sequence, *beams_, nullptr});
      sequence_clear(s_, job->sequence);
    }
    job->sequence = PHASOR_NONE;
  }

  // Whether its ids may enter.
  phasor_status check_input(const phasor_job& job, phasor_error* error) const {
    const uint32_t most = crossing_ ? s_->plan.source : s_->plan.target, least = crossing_ ? 1 : 0;
    if (job.count < least || job.count > most)
      return bad_input(error, {most, job.count}, "a job of ", job.count, " tokens, expected ",
                       least, " to ", most);
    const uint32_t* ids = nullptr;
    uint32_t none = 0;
    const phasor_status status =
        crossing_ || job.count != 0 ? PHASOR_OK : begin(*s_, 0, &ids, &none, error);
    return status == PHASOR_OK ? check_ids(*s_, crossing_ ? kEncoder : kDecoder, "a job's ",
                                           job.ids, job.count, error)
                               : status;
  }

  uint32_t free_sequence() const {
    for (uint32_t q = 0; q < places_; ++q) {
      bool taken = false;
      for (uint32_t i = 0; i < count_; ++i)
        taken = taken || (runs(jobs_[i]) && jobs_[i].sequence == q);
      if (!taken) return q;
    }
    return PHASOR_NONE;
  }

  // In its sequence, which is empty.
  phasor_status begin_in(phasor_job* job) {
    const uint32_t count = crossing_ ? 0 : job->count;
    if (searching()) {
      const phasor_beam_options own = search_options(*job);
      const uint64_t first = uint64_t{count == 0 ? 1 : count} + own.forced_count;
      if (own.forced_count >= own.max_new)
        return bad_input(line(), {own.max_new, own.forced_count},
                         "options.forced: ", own.forced_count, " tokens, a job's capacity is ",
                         own.max_new);
      if (first > s_->plan.target)
        return fail(line(), PHASOR_FULL, {PHASOR_NONE, PHASOR_NONE, s_->plan.target, first},
                    "a job of ", first, " tokens with the forced ones, the limits hold ",
                    s_->plan.target);
      return search_enter({s_, job->sequence, own, line()}, job->sequence, job->ids, count);
    }
    if (!random_is_seeded(job->random)) random_seed(&job->random, o_.seed);
    TextStream text{*s_, o_};
    text.goes_on(job->ids, count);
    text_of(*job) = text.state_;
    return PHASOR_OK;
  }

  // The sequence of another job that runs with the same source: of one where `has` is whether it
  // has been encoded. A shortlist may be another than when that one was.
  uint32_t same_source(uint32_t i, bool has) const {
    const phasor_job& job = jobs_[i];
    for (uint32_t k = 0; k < count_ && crossing_ && !s_->has_shortlists(); ++k) {
      const phasor_job& other = jobs_[k];
      if (k == i || !runs(other) || other.count != job.count ||
          (has && s_->sequences()[other.sequence].source == PHASOR_NONE))
        continue;
      if (other.ids == job.ids || memcmp(other.ids, job.ids, job.count * sizeof(uint32_t)) == 0)
        return other.sequence;
    }
    return PHASOR_NONE;
  }

  // Behind what was encoded, `all_finite` or not: a job without a source of its own shares that of
  // another. None is there any more where it is not finite.
  void begin_with_source(uint32_t i, bool all_finite) {
    phasor_job& job = jobs_[i];
    Sequence& q = s_->sequences()[job.sequence];
    if (q.source == PHASOR_NONE)
      if (const uint32_t from = same_source(i, true); from != PHASOR_NONE)
        sequence_share_source(s_, job.sequence, from);
    if (q.status != PHASOR_OK || (q.source == PHASOR_NONE && !all_finite))
      fail_job(&job, PHASOR_NOT_FINITE);
  }

  // Jobs that wait get what is free; their sources are encoded together, those that are the same
  // once.
  phasor_status enter() {
    uint32_t running = 0, entering = 0;
    for (uint32_t i = 0; i < count_; ++i) running += runs(jobs_[i]) ? 1 : 0;
    for (uint32_t i = 0; i < count_ && running < places_; ++i) {
      phasor_job& job = jobs_[i];
      if (is_over(job) || runs(job)) continue;
      job.made = 0;
      if (const phasor_status status = check_input(job, line()); status != PHASOR_OK) {
        said_ = true;
        fail_job(&job, status);
        continue;
      }
      if (most_of(job) == 0) {
        job.finish = PHASOR_FINISH_LENGTH;
        continue;
      }
      job.sequence = free_sequence();
      sequence_clear(s_, job.sequence);
      if (const phasor_status status = begin_in(&job); status != PHASOR_OK) {
        said_ = true;
        fail_job(&job, status);
        continue;
      }
      if (same_source(i, false) == PHASOR_NONE)
        items_[entering++] = item_of(job.sequence, job.ids, job.count, PHASOR_LOGITS_NONE);
      ++running;
    }
    if (!crossing_) return PHASOR_OK;
    phasor_status status = PHASOR_OK;
    if (entering != 0) status = checked_encode(s_, items_.data(), entering, line());
    for (uint32_t i = 0; i < count_; ++i)
      if (runs(jobs_[i]) && is_new(jobs_[i])) {
        if (status == PHASOR_STOPPED)
          leave(&jobs_[i]);
        else
          begin_with_source(i, status == PHASOR_OK);
      }
    said_ = said_ || status != PHASOR_OK;
    return status == PHASOR_NOT_FINITE ? PHASOR_OK : status;
  }

  // What the decoder reads next of a job that runs, from item `at` on; how many items.
  uint32_t make_items(const phasor_job& job, uint32_t at) const {
    uint32_t count = crossing_ ? 0 : job.count;
    if (searching()) {
      const phasor_beam_options own = search_options(job);
      return search_make_items({s_, job.sequence, own, nullptr}, at, job.ids, count);
    }
    const uint32_t want = best_only(*s_, o_) ? PHASOR_BEST_LAST : PHASOR_LOGITS_LAST;
    const uint32_t* ids = job.made != 0 ? &job.out[job.made - 1] : crossing_ ? nullptr : job.ids;
    if (job.made != 0) count = 1;
    (void)begin(*s_, 0, &ids, &count, nullptr);  // checked where it entered
    items_[at] = item_of(job.sequence, ids, count, want);
    return 1;
  }

  phasor_status run(uint32_t* left) {
    phasor_status status = enter();
    if (status == PHASOR_OK) status = step();
    *left = 0;
    for (uint32_t i = 0; i < count_; ++i) *left += is_over(jobs_[i]) ? 0 : 1;
    return status;
  }

  phasor_status step() {
    uint32_t n = 0;
    for (uint32_t i = 0; i < count_; ++i)
      if (runs(jobs_[i])) n += make_items(jobs_[i], n);
    if (n == 0) return PHASOR_OK;
    s_->logits = s_->best = 0;
    for (uint32_t i = 0; i < n && searching() && crossing_; ++i)
      if (s_->sequences()[items_[i].sequence].source == PHASOR_NONE)
        return bad_input(line(), "a job's sequence has lost its source while it ran");
    // the items of searches are sound, and too many to look for one that stands twice
    const phasor_status status = searching() ? take_step(s_, items_.at(0, n), n, line())
                                             : checked_step(s_, items_.data(), n, line());
    if (status != PHASOR_OK && status != PHASOR_NOT_FINITE) return status;
    said_ = said_ || status != PHASOR_OK;
    for (uint32_t i = 0, row = 0; i < count_; ++i) {
      if (!runs(jobs_[i])) continue;
      if (searching())
        row += go_on(&jobs_[i], row);
      else
        take_token(&jobs_[i], row++);
    }
    return PHASOR_OK;
  }

  // A search, with its logits from `row` on; how many they were.
  uint32_t go_on(phasor_job* job, uint32_t row) {
    const phasor_beam_options own = search_options(*job);
    const SearchCall search{s_, job->sequence, own, line()};
    const uint32_t rows = search_rows(search);
    bool over = false;
    const phasor_status status = search_advance(search, row, &over);
    said_ = said_ || status != PHASOR_OK;
    if (status == PHASOR_OK && over) take_outputs(job, search);
    if (status != PHASOR_OK)
      fail_job(job, status);
    else if (over)
      leave(job);
    return rows;
  }

  // The outputs that are wanted. None: the callback has stopped it at once.
  void take_outputs(phasor_job* job, const SearchCall& search) {
    phasor_hypothesis one{};
    const uint32_t wanted = job->n_best == 0 ? 1 : job->n_best;
    job->finish = PHASOR_FINISH_STOPPED;
    for (job->found = 0; job->found < wanted; ++job->found) {
      if (!search_output(search, job->found, &one)) return;
      uint32_t* out = job->out + size_t{job->found} * job->capacity;
      memcpy(out, one.ids, one.count * sizeof(uint32_t));
      one.ids = out;
      if (job->found == 0) {
        job->made = one.count;
        job->finish = one.finish;
      }
      // of a size that has been checked
      if (job->outputs != nullptr && job->found < job->n_best)
        (void)write_result(result_at(job->outputs, job->found), one);
    }
  }

  void take_token(phasor_job* job, uint32_t row) {
    const Sequence& q = s_->sequences()[job->sequence];
    const uint32_t most = most_of(*job);
    const Place at{
        job->sequence, row, q.length, job->out, job->made, most, crossing_ || job->count == 0};
    phasor_generate_options own = o_;
    own.source = job->ids;
    own.source_count = job->count;
    uint32_t id = 0;
    bool goes_on = true;
    phasor_status status = static_cast<phasor_status>(q.status);
    if (status == PHASOR_OK) status = next_token(s_, at, own, &job->random, &id, &goes_on, line());
    if (status != PHASOR_OK) {
      said_ = true;
      return fail_job(job, status);
    }
    if (goes_on) {
      job->out[job->made++] = id;
      TextStream text{*s_, o_};
      text.state_ = text_of(*job);
      if (text.add(id) == StreamEnd::string) job->finish = PHASOR_FINISH_STRING;
      text_of(*job) = text.state_;
      if (ends(*s_, o_, id)) job->finish = PHASOR_FINISH_END;
      if (job->finish == 0 && (job->made == most || q.length == s_->plan.target))
        job->finish = PHASOR_FINISH_LENGTH;
    } else {
      job->finish = PHASOR_FINISH_STOPPED;
    }
    if (job->finish != 0) leave(job);
  }
};

phasor_status run(Step step, uint32_t* left) {
  const phasor_status status = step.check();
  return status != PHASOR_OK ? status : step.run(left);
}

}  // namespace

phasor_status jobs_step(Session* s, phasor_job* jobs, uint32_t count,
                        const phasor_generate_options& options, uint32_t* left,
                        phasor_error* error) noexcept {
  *left = count;
  // Without these the arena has no room for jobs.
  phasor_status status = check_generator(*s->model.pointer, error);
  if (status != PHASOR_OK) return status;
  if (s->plan.sequences < 2)
    return bad_input(error, {2, s->plan.sequences},
                     "jobs: limits.sequences is 1, expected at least 2");
  return run(Step{s, jobs, count, options, nullptr, error}, left);
}

phasor_status beam_jobs_step(Session* s, phasor_job* jobs, uint32_t count,
                             const phasor_beam_options& options, uint32_t* left,
                             phasor_error* error) noexcept {
  *left = count;
  phasor_status status = check_generator(*s->model.pointer, error);
  if (status == PHASOR_OK) status = search_check(s, options, error);
  if (status != PHASOR_OK) return status;
  s->hypotheses = 0;  // of phasor_beam_search
  phasor_generate_options shared = bans_of(options);
  shared.max_new = options.max_new;
  return run(Step{s, jobs, count, shared, &options, error}, left);
}

}  // namespace phasor
