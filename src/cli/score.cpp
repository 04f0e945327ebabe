// cli: `phasor score`. The log-probability of a text, whole or in windows, or of a target given a
// source; log-softmax in double, in vocabulary order.
#include <string.h>

#include <algorithm>

#include "commands.h"
#include "engine.h"
#include "exponential.h"
#include "input.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

double log_probability(const float* logits, uint32_t vocabulary, uint32_t id) {
  double largest = static_cast<double>(logits[0]), sum = 0;
  for (uint32_t i = 1; i < vocabulary; ++i)
    largest = std::max(largest, static_cast<double>(logits[i]));
  for (uint32_t i = 0; i < vocabulary; ++i)
    sum += exponential(static_cast<double>(logits[i]) - largest);
  return static_cast<double>(logits[id]) - largest - logarithm(sum);
}

struct Scored {
  double log_probability = 0;
  uint64_t tokens = 0;
};

// Steps over ids[0 … count − 1] of an empty sequence and scores those from `first` on (at least 1),
// each given all before it.
bool score_ids(Engine& e, const uint32_t* ids, uint32_t count, uint32_t first, Scored* out,
               std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t i = 0; i < count; ++i)
    if (ids[i] >= e.target.vocabulary)
      return *why = "token id " + std::to_string(ids[i]) + ", the vocabulary has " +
                    std::to_string(e.target.vocabulary),
             false;
  for (uint32_t done = 0; done + 1 < count;) {
    const bool silent = done + 1 < first;  // these rows' logits are for tokens that are only read
    const uint32_t end = silent ? first - 1 : count - 1,
                   most = silent ? end - done : e.limits.logit_rows;
    const uint32_t n = end - done < most ? end - done : most;
    const phasor_item item = {
        sizeof(phasor_item), 0,       n,       silent ? PHASOR_LOGITS_NONE : PHASOR_LOGITS_ALL,
        ids + done,          nullptr, nullptr, nullptr};
    if (phasor_step(e.session, &item, 1, &error) != PHASOR_OK) return *why = error.text, false;
    for (uint32_t r = 0; r < n && !silent; ++r)
      if (!all_finite(phasor_logits(e.session, r), e.target.vocabulary))
        return *why = "a logit is not a number", false;
    for (uint32_t r = 0; r < n && !silent; ++r)
      out->log_probability +=
          log_probability(phasor_logits(e.session, r), e.target.vocabulary, ids[done + r + 1]);
    if (!silent) out->tokens += n;
    done += n;
  }
  return true;
}

// Windows of --context tokens, `stride` apart. A token is scored in the first window that has it,
// but for a window's very first.
bool score_windows(Engine& e, const std::vector<uint32_t>& ids, uint32_t stride, Scored* out,
                   std::string* why) {
  const size_t window = e.limits.target;
  for (size_t begin = 0, scored = 1; scored < ids.size(); begin += stride) {
    const size_t end = ids.size() - begin < window ? ids.size() : begin + window;
    const size_t first = scored > begin ? scored - begin : 1;
    (void)phasor_sequence_clear(e.session, 0);
    if (!score_ids(e, ids.data() + begin, static_cast<uint32_t>(end - begin),
                   static_cast<uint32_t>(first), out, why))
      return false;
    scored = end;
  }
  return true;
}

// As llama.cpp's perplexity: whole windows, one after the other; of each the second half is scored.
// A text that begins with the start token gives each window one, in place of its first.
bool score_blocks(Engine& e, std::vector<uint32_t> ids, Scored* out, std::string* why) {
  const size_t window = e.limits.target;
  if (ids.size() < window)
    return *why = std::to_string(ids.size()) + " tokens, expected at least one window of " +
                  std::to_string(window) + " (--context)",
           false;
  const bool starts = e.target.start != PHASOR_NONE && ids[0] == e.target.start;
  for (size_t begin = 0; begin + window <= ids.size(); begin += window) {
    if (starts) ids[begin] = e.target.start;
    (void)phasor_sequence_clear(e.session, 0);
    if (!score_ids(e, ids.data() + begin, static_cast<uint32_t>(window),
                   static_cast<uint32_t>(window / 2 + 1), out, why))
      return false;
  }
  return true;
}

// The decoder's ids: the prompt itself, or the start token and the given target.
bool target_of(const Engine& e, const Options& o, const std::vector<uint32_t>& ids,
               std::vector<uint32_t>* target, std::string* why) {
  *target = ids;
  if (e.has_source()) {
    target->assign(1, e.start_id());
    std::vector<uint32_t> given = o.target_ids.values;
    if (o.target != nullptr) {
      if (!text_ids(e, PHASOR_TARGET, false, o.target, strlen(o.target), &given, why)) return false;
      if (e.target.end_count != 0) given.push_back(e.target.end[0]);
    }
    target->insert(target->end(), given.begin(), given.end());
  }
  if (target->size() >= 2) return true;
  *why = "nothing to score: expected at least two tokens, the first of which is given";
  return false;
}

bool score_input(Engine& e, const Options& o, const Input& input, Scored* out, std::string* why) {
  std::vector<uint32_t> ids = input.ids, target;
  *why = input.error;
  if (!why->empty()) return false;
  if (!input.is_ids && !text_ids(e, e.has_source() ? PHASOR_SOURCE : PHASOR_TARGET, true,
                                 input.text.data(), input.text.size(), &ids, why))
    return false;
  if (!target_of(e, o, ids, &target, why)) return false;
  (void)phasor_sequence_clear(e.session, 0);
  if (e.has_source()) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_item item = {sizeof(phasor_item),
                              0,
                              static_cast<uint32_t>(ids.size()),
                              PHASOR_LOGITS_NONE,
                              ids.data(),
                              nullptr,
                              nullptr,
                              nullptr};
    if (phasor_encode(e.session, &item, 1, &error) != PHASOR_OK) {
      *why = error.text;
      return false;
    }
  }
  if (o.blocks) return score_blocks(e, target, out, why);
  if (o.stride != 0) return score_windows(e, target, o.stride, out, why);
  if (target.size() - 1 > e.limits.target) {
    *why = std::to_string(target.size()) + " tokens, there is room for " +
           std::to_string(e.limits.target) +
           (e.has_source() ? " (--context)"
                           : " (--context; --stride scores a longer text in windows)");
    return false;
  }
  return score_ids(e, target.data(), static_cast<uint32_t>(target.size()), 1, out, why);
}

void print(const Options& o, const Scored& s) {
  const double perplexity = exponential(-s.log_probability / static_cast<double>(s.tokens));
  if (o.json) {
    Json json;
    json.open('{')
        .key("log_probability")
        .real(s.log_probability)
        .key("nll")
        .real(-s.log_probability)
        .key("perplexity")
        .real(perplexity)
        .key("tokens")
        .number(s.tokens)
        .close('}');
    output(json.str() + "\n");
    return;
  }
  char line[120];
  snprintf(line, sizeof line, "log-probability %.6f, nll %.6f, perplexity %.6g, %llu tokens\n",
           s.log_probability, -s.log_probability, perplexity,
           static_cast<unsigned long long>(s.tokens));
  output(line);
}

}  // namespace

int score(const Options& o) {
  Engine e;
  if (!e.open(o)) return 1;
  if (!e.has_target())
    return data_error("%s: is an encoder, expected a decoder or an encoder-decoder", e.path);
  const bool has_target = o.target != nullptr || o.target_ids.given;
  if (o.ids.given && !o.texts.empty())
    return usage_error("--ids: expected either ids or text, not both");
  if (e.has_source() != has_target || (o.target != nullptr && o.target_ids.given))
    return usage_error(
        e.has_source()
            ? "score: expected one of --target and --target-ids, the model is an encoder-decoder"
            : "--target: for an encoder-decoder; this model is a decoder");
  if (e.has_source() && (o.stride != 0 || o.blocks))
    return usage_error("--stride, --blocks: for a decoder; this model is an encoder-decoder");
  if (o.stride != 0 && o.blocks) return usage_error("--stride, --blocks: expected one of them");
  phasor_limits limits = default_limits(e, o);
  if (o.stride > limits.target)
    return usage_error("--stride %u: expected at most the window, %u (--context)", o.stride,
                       limits.target);
  limits.logit_rows = limits.chunk;
  make_text_room(&limits, longest_argument(o));
  make_text_room(&limits, o.target != nullptr ? strlen(o.target) : 0);
  // A text on standard input may be long: it is read before the arena is made.
  const bool whole = e.stack == PHASOR_DECODER && o.texts.empty() && !o.ids.given;
  Inputs inputs(o, e.stack == PHASOR_DECODER,
                whole && limits.text_bytes != 0 ? LineReader::kLongest : limits.text_bytes);
  Input input;
  bool there = !whole || inputs.next(&input);
  make_text_room(&limits, input.text.size());
  if (!e.start(limits)) return 1;
  int status = 0;
  Scored total;
  uint64_t number = 0;
  const double start = now();
  for (there = whole ? there : inputs.next(&input); there && !output_failed() && e.file.unchanged();
       there = inputs.next(&input)) {
    Scored scored;
    std::string error;
    if (score_input(e, o, input, &scored, &error)) {
      print(o, scored);
      total.log_probability += scored.log_probability;
      total.tokens += scored.tokens;
      ++number;
    } else {
      status = data_error("%s: %s", input.where.c_str(), error.c_str());
      output("\n", 1);
    }
    output_flush();
  }
  if (inputs.failed() || output_failed() || !e.file.unchanged()) return 1;
  if (status == 0 && !o.quiet && number != 0) {
    print_figures(e, "text", number, total.tokens, now() - start);
    if (number > 1)
      fprintf(stderr, "phasor: in all: nll %.6f, perplexity %.6g, %s tokens\n",
              -total.log_probability,
              exponential(-total.log_probability / static_cast<double>(total.tokens)),
              grouped(total.tokens).c_str());
  }
  return status;
}

}  // namespace cli
