#include "sample.h"

#include "random.h"

namespace phasor {
namespace {

constexpr char kNotNegative[] = "a number that is not negative", kFinite[] = "a finite number";
// weights are whole numbers of 2^-39: 2^24 of them add up within 64 bits
constexpr float kUnit = 0x1p39f;

uint64_t weight(float e) { return static_cast<uint64_t>(e * kUnit); }

// The whole part of total·share, for a share below one; at least 1.
uint64_t share_of(uint64_t total, float share) {
  const uint64_t part = multiply_high(total, static_cast<uint64_t>(share * 0x1p32f) << 32);
  return part != 0 ? part : 1;
}

// An order of tokens: most probable first, or nearest to `center` first; then by id.
struct Order {
  const float* scores;
  float center;
  bool typical;
  float key(uint32_t id) const {
    const float from = scores[id] - center;
    return typical && from > 0 ? from : -from;
  }
  bool before(uint32_t a, uint32_t b) const {
    const float x = key(a), y = key(b);
    return x < y || (!(y < x) && a < b);
  }
};

// Keys from 0 up in steps of ¼; the last range has all the rest, whose weights are nothing.
constexpr uint32_t kRanges = 128;
uint32_t range_of(float key) { return key < 31 ? static_cast<uint32_t>(key * 4) : kRanges - 1; }

// A heap with the first token of an order at its root.
void sift(uint32_t* heap, uint32_t n, uint32_t at, const Order& order) {
  const uint32_t id = heap[at];
  for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && order.before(heap[child + 1], heap[child])) ++child;
    if (!order.before(heap[child], id)) break;
    heap[at] = heap[child];
  }
  heap[at] = id;
}

// For each place of a list of tokens at which the newest `before` of h stand: the scores of the
// token that follows there may not come.
void forbid_next(float* scores, const Session& s, const uint32_t* ids, uint32_t count,
                 uint32_t before, const History& h) {
  if (before > h.count) return;
  for (uint32_t i = 0; i + uint64_t(before) < count; ++i) {
    const uint32_t next = ids[i + before];
    if (next < s.model->descriptor.sides[kDecoder].vocabulary &&
        memcmp(ids + i, h.ids + (h.count - before), before * sizeof(uint32_t)) == 0)
      scores[next] = kNever;
  }
}

// Sequences of tokens that never come, each with their number before it.
[[nodiscard]] phasor_status check_bad_words(const Session& s, const phasor_generate_options& o,
                                            phasor_error* error) {
  phasor_status status = PHASOR_OK;
  for (uint32_t i = 0; i < o.bad_words_count && status == PHASOR_OK;) {
    const uint32_t count = o.bad_words[i], left = o.bad_words_count - i - 1;
    if (count == 0 || count > left)
      return bad_input(error, {left, count}, "options.bad_words: a sequence of ", count,
                       " tokens at place ", i, ", expected 1 to ", left);
    status = check_ids(s, kDecoder, "options.bad_words: ", o.bad_words + i + 1, count, error);
    i += 1 + count;
  }
  return status;
}

bool finite(float v) { return v - v == 0; }

// Tokens that end an output: the model's, then the options'.
uint32_t end_count(const Session& s, const phasor_generate_options& o) {
  return s.model->descriptor.sides[kDecoder].end.count + o.end_count;
}
uint32_t end_at(const Session& s, const phasor_generate_options& o, uint32_t i) {
  const Array& end = s.model->descriptor.sides[kDecoder].end;
  return i < end.count ? load_u32(s.model->at(end.offset + 4u * i)) : o.end[i - end.count];
}

// A row of logits on its way to a token. Scores are logits, then logits less the largest, over the
// temperature.
struct Choice {
  Session& s_;
  const phasor_generate_options& o_;
  const History& h_;

  const uint32_t n_ = output_width(s_.model->descriptor);
  float *const scores_ = values<float>(0), *const weights_ = values<float>(1);
  uint32_t* const ids_ = values<uint32_t>(2);  // an order, or counts

  template <class T>
  T* values(uint32_t i) const {
    return s_.rows<T>(kPartSampling, 3, lanes(n_)).row(i, n_);
  }

  void process(uint32_t row) {
    memcpy(scores_, s_.logit_rows().row(row, n_), n_ * sizeof(float));
    if (o_.repetition_penalty != 0) repetition(o_.repetition_penalty);
    if (o_.presence_penalty != 0 || o_.frequency_penalty != 0) presence_and_frequency();
    forbid(scores_, s_, o_, h_);
  }

  // The lowest id with the largest score. NOT_FINITE for a NaN or an infinity, BAD_INPUT when no
  // token may come.
  phasor_status largest(uint32_t* id, float* score, phasor_error* error) const {
    const size_t best = s_.model->kernels->argmax(scores_, n_, score);
    *id = static_cast<uint32_t>(best);
    if (best < n_ && !finite(*score) && *score < 0) return none_left(error);
    return best < n_ && finite(*score) ? PHASOR_OK : PHASOR_NOT_FINITE;
  }

  void filter(float top) {
    for (uint32_t i = 0; i < n_; ++i) scores_[i] = (scores_[i] - top) / o_.temperature;
    weigh();
    if (o_.top_k != 0 && o_.top_k < n_) keep_first({scores_, 0, false}, o_.top_k, UINT64_MAX);
    if (o_.top_p != 0 && o_.top_p < 1)
      keep_first({scores_, 0, false}, n_, share_of(total(), o_.top_p));
    for (uint32_t i = 0; i < n_ && o_.min_p != 0; ++i)
      if (weights_[i] < o_.min_p) drop(i);
    if (o_.typical_p != 0 && o_.typical_p < 1)
      keep_first({scores_, mean_score(), true}, n_, share_of(total(), o_.typical_p));
  }

  // The first id at which the weights so far, in vocabulary order, pass a random share of them all.
  uint32_t draw(phasor_random* random) const {
    uint64_t left = multiply_high(random_next(random), total());
    for (uint32_t i = 0; i + 1 < n_; ++i) {
      const uint64_t w = weight(weights_[i]);
      if (left < w) return i;
      left -= w;
    }
    return n_ - 1;
  }

  void probabilities(float* out) const {
    const double all = static_cast<double>(total());
    for (uint32_t i = 0; i < n_; ++i)
      out[i] = static_cast<float>(static_cast<double>(weight(weights_[i])) / all);
  }

  void drop(uint32_t id) {
    scores_[id] = kNever;
    weights_[id] = 0;
  }

  // How often each token stands in a list; PHASOR_NONE is none.
  uint32_t* count(const uint32_t* ids, uint32_t n) {
    memset(ids_, 0, n_ * sizeof(uint32_t));
    for (uint32_t i = 0; i < n; ++i)
      if (ids[i] < n_) ++ids_[ids[i]];
    return ids_;
  }

  // Keskar et al. 2019, section 4.1, with the sign taken into account as transformers does.
  void repetition(float penalty) {
    const uint32_t* counts = count(h_.ids, h_.count);
    for (uint32_t i = 0; i < n_; ++i)
      if (counts[i] != 0) scores_[i] = scores_[i] < 0 ? scores_[i] * penalty : scores_[i] / penalty;
  }

  void presence_and_frequency() {
    const uint32_t* counts = count(h_.made, h_.made_count);
    for (uint32_t i = 0; i < n_; ++i)
      if (counts[i] != 0)
        scores_[i] = (scores_[i] - static_cast<float>(counts[i]) * o_.frequency_penalty) -
                     o_.presence_penalty;
  }

  // weights = exp(scores), at most 1.
  void weigh() {
    memcpy(weights_, scores_, n_ * sizeof(float));
    s_.model->kernels->exp(weights_, n_);
  }

  uint64_t total() const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n_; ++i) sum += weight(weights_[i]);
    return sum;
  }

  // Σ p·score over the tokens that are left: the entropy less the surprise of a score of 0. In
  // vocabulary order, 16 lanes and the tree (rule 1.15).
  float mean_score() const {
    double sums[kLanes] = {}, all[kLanes] = {};
    for (uint32_t i = 0; i < n_; ++i) {
      if (!(weights_[i] > 0)) continue;
      const double w = static_cast<double>(weights_[i]);
      sums[i % kLanes] += w * static_cast<double>(scores_[i]);
      all[i % kLanes] += w;
    }
    add_lanes(sums);
    add_lanes(all);
    return static_cast<float>(sums[0] / all[0]);
  }

  // Keeps the first tokens of an order, until there are `most` or their weights come to `enough`;
  // at least one. Ranges of keys are counted first, so that only the tokens of the ranges that
  // matter are put in order.
  void keep_first(const Order& order, uint32_t most, uint64_t enough) {
    uint32_t counts[kRanges] = {};
    uint64_t sums[kRanges] = {};
    for (uint32_t i = 0; i < n_; ++i) {
      if (!(scores_[i] > kNever)) continue;
      const uint32_t r = range_of(order.key(i));
      ++counts[r];
      sums[r] += weight(weights_[i]);
    }
    uint32_t last = 0, left = counts[0];
    for (uint64_t sum = sums[0]; last + 1 < kRanges && left < most && sum < enough;
         sum += sums[last])
      left += counts[++last];
    left = 0;
    for (uint32_t i = 0; i < n_; ++i) {
      if (!(scores_[i] > kNever)) continue;
      if (range_of(order.key(i)) <= last)
        ids_[left++] = i;
      else
        drop(i);
    }
    for (uint32_t i = left / 2; i-- > 0;) sift(ids_, left, i, order);
    uint32_t kept = 0;
    for (uint64_t sum = 0; left != 0 && kept < most && sum < enough; ++kept) {
      sum += weight(weights_[ids_[0]]);
      ids_[0] = ids_[--left];
      if (left > 1) sift(ids_, left, 0, order);
    }
    for (uint32_t i = 0; i < left; ++i) drop(ids_[i]);
  }
};

}  // namespace

phasor_status check_range(const char* name, float value, float low, float high,
                          const char* expected, phasor_error* error) noexcept {
  if (value >= low && value <= high) return PHASOR_OK;
  return bad_input(error, "options.", name, ": ", value, ", expected ", expected);
}

phasor_status check_option_ids(const Session& s, const phasor_generate_options& o,
                               phasor_error* error) noexcept {
  phasor_status status =
      check_ids(s, kDecoder, "options.forced: ", o.forced, o.forced_count, error);
  if (status == PHASOR_OK)
    status =
        check_ids(s, kDecoder, "options.suppressed: ", o.suppressed, o.suppressed_count, error);
  if (status == PHASOR_OK)
    status = check_ids(s, kDecoder, "options.end: ", o.end, o.end_count, error);
  if (status == PHASOR_OK)
    status = check_ids(s, kDecoder, "options.forced_last: ", o.forced_last,
                       o.forced_last != nullptr ? 1 : 0, error);
  if (status == PHASOR_OK) status = check_bad_words(s, o, error);
  return status;
}

phasor_status none_left(phasor_error* error) noexcept {
  return bad_input(error, "no token may be chosen: the options or the logits callback forbid all");
}

bool takes_largest(const phasor_generate_options& o) noexcept {
  const bool drawn = o.temperature > 0, penalties = o.repetition_penalty != 0 ||
                                                    o.presence_penalty != 0 ||
                                                    o.frequency_penalty != 0;
  return !drawn && !penalties && o.no_repeat_ngram == 0 && o.min_new == 0 &&
         o.suppressed_count == 0 && o.bad_words_count == 0 && o.source_no_repeat_ngram == 0;
}

phasor_status check_choice(const Session& s, const phasor_generate_options& o,
                           phasor_error* error) noexcept {
  const phasor_status status = check_option_ids(s, o, error);
  if (status != PHASOR_OK) return status;
  if (!kHasSampling)
    return takes_largest(o)
               ? PHASOR_OK
               : fail(error, PHASOR_UNSUPPORTED, {},
                      "options: sampling, penalties and bans are not in this build (PHASOR_ONLY)");
  const struct {
    const char* name;
    float value, low, high;
    const char* expected;
  } numbers[] = {{"top_p", o.top_p, 0, 1, "0 to 1"},
                 {"min_p", o.min_p, 0, 1, "0 to 1"},
                 {"typical_p", o.typical_p, 0, 1, "0 to 1"},
                 {"temperature", o.temperature, 0, kLargest, kNotNegative},
                 {"repetition_penalty", o.repetition_penalty, 0, kLargest, kNotNegative},
                 {"presence_penalty", o.presence_penalty, -kLargest, kLargest, kFinite},
                 {"frequency_penalty", o.frequency_penalty, -kLargest, kLargest, kFinite}};
  for (const auto& n : numbers) {
    const phasor_status now = check_range(n.name, n.value, n.low, n.high, n.expected, error);
    if (now != PHASOR_OK) return now;
  }
  if (o.temperature > 0 && o.random != nullptr && !random_is_seeded(*o.random))
    return bad_input(error, "options.random: its state is all zeros, expected one that was seeded");
  if (!takes_largest(o) && (s.plan.outputs & PHASOR_WANT_SAMPLING) == 0)
    return bad_input(
        error, "options: sampling, penalties and bans need limits.outputs PHASOR_WANT_SAMPLING");
  return PHASOR_OK;
}

void forbid(float* scores, const Session& s, const phasor_generate_options& o,
            const History& h) noexcept {
  if (o.no_repeat_ngram != 0) forbid_next(scores, s, h.ids, h.count, o.no_repeat_ngram - 1, h);
  if (o.source_no_repeat_ngram != 0)
    forbid_next(scores, s, o.source, o.source_count, o.source_no_repeat_ngram - 1, h);
  for (uint32_t i = 0; i < o.bad_words_count; i += 1 + o.bad_words[i])
    forbid_next(scores, s, o.bad_words + i + 1, o.bad_words[i], o.bad_words[i] - 1, h);
  for (uint32_t i = 0; h.made_count < o.min_new && i < end_count(s, o); ++i)
    scores[end_at(s, o, i)] = kNever;
  for (uint32_t i = 0; i < o.suppressed_count; ++i) scores[o.suppressed[i]] = kNever;
}

bool ends(const Session& s, const phasor_generate_options& o, uint32_t id) noexcept {
  for (uint32_t i = 0; i < end_count(s, o); ++i)
    if (end_at(s, o, i) == id) return true;
  return false;
}

phasor_status choose(Session* s, uint32_t row, const phasor_generate_options& o,
                     const History& history, phasor_random* random, uint32_t* id,
                     float* probabilities, phasor_error* error) noexcept {
  float top = 0;
  phasor_status status = best_token(*s, row, id, &top);
  if (status == PHASOR_OK && takes_largest(o)) status = top > kNever ? PHASOR_OK : none_left(error);
  const bool drawn = o.temperature > 0;
  if (kHasSampling && status == PHASOR_OK && !takes_largest(o)) {
    const FpMode mode;
    Choice choice{*s, o, history};
    choice.process(row);
    status = choice.largest(id, &top, error);
    if (status == PHASOR_OK && drawn) {
      choice.filter(top);
      if (probabilities != nullptr) choice.probabilities(probabilities);
      *id = choice.draw(random);
    }
  }
  if (status == PHASOR_OK && probabilities != nullptr && !drawn)
    for (uint32_t i = 0; i < output_width(s->model->descriptor); ++i)
      probabilities[i] = i == *id ? 1.0f : 0.0f;
  return status;
}

}  // namespace phasor
