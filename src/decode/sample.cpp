#include "sample.h"

#include "random.h"

namespace phasor {
namespace {

constexpr float kNever = -__builtin_inff();  // the score of a token that may not come
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

bool finite(float v) { return v - v == 0; }

phasor_status none_left(phasor_error* error) {
  return fail(error, PHASOR_BAD_INPUT, {},
              "no token may be chosen: the options or the logits callback forbid all");
}

// A row of logits on its way to a token. Scores are logits, then logits less the largest, over the
// temperature.
class Choice {
 public:
  Choice(Session* s, uint32_t row, const phasor_generate_options& options, const History& history)
      : s_(*s),
        o_(options),
        h_(history),
        n_(output_width(s->model->descriptor)),
        scores_(s->rows<float>(kPartSampling, 3, lanes(n_)).row(0, n_)),
        weights_(s->rows<float>(kPartSampling, 3, lanes(n_)).row(1, n_)),
        ids_(s->rows<uint32_t>(kPartSampling, 3, lanes(n_)).row(2, n_)) {
    memcpy(scores_, s->logit_rows().row(row, n_), n_ * sizeof(float));
  }

  void process() {
    if (o_.repetition_penalty != 0) repetition(o_.repetition_penalty);
    if (o_.presence_penalty != 0 || o_.frequency_penalty != 0) presence_and_frequency();
    if (o_.no_repeat_ngram != 0) no_repeat(o_.no_repeat_ngram);
    if (h_.made_count < o_.min_new) no_end();
    for (uint32_t i = 0; i < o_.suppressed_count; ++i) scores_[o_.suppressed[i]] = kNever;
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
      if (weights_[i] < o_.min_p) forbid(i);
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

 private:
  void forbid(uint32_t id) {
    scores_[id] = kNever;
    weights_[id] = 0;
  }

  // Keskar et al. 2019, section 4.1, with the sign taken into account as transformers does.
  void repetition(float penalty) {
    uint32_t* seen = ids_;
    memset(seen, 0, n_ * sizeof(uint32_t));
    for (uint32_t i = 0; i < h_.count; ++i) {
      const uint32_t id = h_.ids[i];
      if (id >= n_ || seen[id]++ != 0) continue;
      scores_[id] = scores_[id] < 0 ? scores_[id] * penalty : scores_[id] / penalty;
    }
  }

  void presence_and_frequency() {
    uint32_t* counts = ids_;
    memset(counts, 0, n_ * sizeof(uint32_t));
    for (uint32_t i = 0; i < h_.made_count; ++i) ++counts[h_.made[i]];
    for (uint32_t i = 0; i < n_; ++i)
      if (counts[i] != 0)
        scores_[i] = (scores_[i] - static_cast<float>(counts[i]) * o_.frequency_penalty) -
                     o_.presence_penalty;
  }

  // Forbids each token that followed an earlier occurrence of the last size − 1 tokens.
  void no_repeat(uint32_t size) {
    const uint32_t before = size - 1;
    if (h_.count < size) return;
    const uint32_t* tail = h_.ids + (h_.count - before);
    for (uint32_t i = 0; i + before < h_.count; ++i) {
      uint32_t same = 0;
      while (same < before && h_.ids[i + same] == tail[same]) ++same;
      const uint32_t next = h_.ids[i + before];
      if (same == before && next < n_) scores_[next] = kNever;
    }
  }

  void no_end() {
    const Array& end = s_.model->descriptor.sides[1].end;
    for (uint32_t i = 0; i < end.count; ++i)
      scores_[load_u32(s_.model->at(end.offset + 4u * i))] = kNever;
    for (uint32_t i = 0; i < o_.end_count; ++i) scores_[o_.end[i]] = kNever;
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
  // vocabulary order, 16 lanes and the tree (1.15).
  float mean_score() const {
    double sums[kLanes] = {}, all[kLanes] = {};
    for (uint32_t i = 0; i < n_; ++i) {
      if (!(weights_[i] > 0)) continue;
      const double w = static_cast<double>(weights_[i]);
      sums[i % kLanes] += w * static_cast<double>(scores_[i]);
      all[i % kLanes] += w;
    }
    for (uint32_t step = kLanes / 2; step != 0; step /= 2)
      for (uint32_t i = 0; i < step; ++i) {
        sums[i] += sums[i + step];
        all[i] += all[i + step];
      }
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
        forbid(i);
    }
    for (uint32_t i = left / 2; i-- > 0;) sift(ids_, left, i, order);
    uint32_t kept = 0;
    for (uint64_t sum = 0; left != 0 && kept < most && sum < enough; ++kept) {
      sum += weight(weights_[ids_[0]]);
      ids_[0] = ids_[--left];
      if (left > 1) sift(ids_, left, 0, order);
    }
    for (uint32_t i = 0; i < left; ++i) forbid(ids_[i]);
  }

  Session& s_;
  const phasor_generate_options& o_;
  const History& h_;
  const uint32_t n_;
  float *scores_, *weights_;
  uint32_t* ids_;  // an order, or counts
};

phasor_status bad_option(phasor_error* error, const char* name, float value, const char* expected) {
  return fail(error, PHASOR_BAD_INPUT, {}, "options.", name, ": ", value, ", expected ", expected);
}

}  // namespace

phasor_status check_ids(const Session& s, const char* name, const uint32_t* ids, uint32_t count,
                        phasor_error* error) noexcept {
  const uint32_t vocabulary = s.model->descriptor.sides[1].vocabulary;
  for (uint32_t i = 0; i < count; ++i)
    if (ids[i] >= vocabulary)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, vocabulary, ids[i]},
                  "options.", name, ": token id ", ids[i], ", the vocabulary has ", vocabulary);
  return PHASOR_OK;
}

bool takes_largest(const phasor_generate_options& o) noexcept {
  const bool drawn = o.temperature > 0, penalties = o.repetition_penalty != 0 ||
                                                    o.presence_penalty != 0 ||
                                                    o.frequency_penalty != 0;
  return !drawn && !penalties && o.no_repeat_ngram == 0 && o.min_new == 0 &&
         o.suppressed_count == 0;
}

phasor_status check_choice(const Session& s, const phasor_generate_options& o,
                           phasor_error* error) noexcept {
  if (!kHasSampling)
    return takes_largest(o)
               ? check_ids(s, "end", o.end, o.end_count, error)
               : fail(error, PHASOR_UNSUPPORTED, {},
                      "options: sampling, penalties and bans are not in this build (PHASOR_ONLY)");
  const struct {
    const char* name;
    float value;
  } shares[] = {{"top_p", o.top_p}, {"min_p", o.min_p}, {"typical_p", o.typical_p}},
    positive[] = {{"temperature", o.temperature}, {"repetition_penalty", o.repetition_penalty}},
    any[] = {{"presence_penalty", o.presence_penalty}, {"frequency_penalty", o.frequency_penalty}};
  for (const auto& f : shares)
    if (!(f.value >= 0 && f.value <= 1)) return bad_option(error, f.name, f.value, "0 to 1");
  for (const auto& f : positive)
    if (!(f.value >= 0) || !finite(f.value))
      return bad_option(error, f.name, f.value, "a number that is not negative");
  for (const auto& f : any)
    if (!finite(f.value)) return bad_option(error, f.name, f.value, "a finite number");
  phasor_status status = check_ids(s, "suppressed", o.suppressed, o.suppressed_count, error);
  if (status == PHASOR_OK) status = check_ids(s, "end", o.end, o.end_count, error);
  if (status != PHASOR_OK) return status;
  if (o.temperature > 0 && o.random != nullptr && !random_is_seeded(*o.random))
    return fail(error, PHASOR_BAD_INPUT, {},
                "options.random: its state is all zeros, expected one that was seeded");
  if (!takes_largest(o) && (s.plan.outputs & PHASOR_WANT_SAMPLING) == 0)
    return fail(error, PHASOR_BAD_INPUT, {},
                "options: sampling, penalties and bans need limits.outputs PHASOR_WANT_SAMPLING");
  return PHASOR_OK;
}

bool ends(const Session& s, const phasor_generate_options& o, uint32_t id) noexcept {
  const Array& end = s.model->descriptor.sides[1].end;
  for (uint32_t i = 0; i < end.count; ++i)
    if (load_u32(s.model->at(end.offset + 4u * i)) == id) return true;
  for (uint32_t i = 0; i < o.end_count; ++i)
    if (o.end[i] == id) return true;
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
    const uint64_t mode = fp_mode_enter();
    Choice choice(s, row, o, history);
    choice.process();
    status = choice.largest(id, &top, error);
    if (status == PHASOR_OK && drawn) {
      choice.filter(top);
      if (probabilities != nullptr) choice.probabilities(probabilities);
      *id = choice.draw(random);
    }
    fp_mode_leave(mode);
  }
  if (status == PHASOR_OK && probabilities != nullptr && !drawn)
    for (uint32_t i = 0; i < output_width(s->model->descriptor); ++i)
      probabilities[i] = i == *id ? 1.0f : 0.0f;
  return status;
}

}  // namespace phasor
