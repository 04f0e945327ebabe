// cli: `phasor score`. The log-probability of a text, or of a target given a source; log-softmax in double, in vocabulary order.
#include <math.h>
#include <string.h>

#include "commands.h"
#include "engine.h"
#include "input.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

double log_probability(const float* logits, uint32_t vocabulary, uint32_t id) {
  double largest = static_cast<double>(logits[0]), sum = 0;
  for (uint32_t i = 1; i < vocabulary; ++i) largest = fmax(largest, static_cast<double>(logits[i]));
  for (uint32_t i = 0; i < vocabulary; ++i) sum += exp(static_cast<double>(logits[i]) - largest);
  return static_cast<double>(logits[id]) - largest - log(sum);
}

struct Scored {
  double log_probability = 0;
  uint32_t tokens = 0;
};

// Scores target[first …], each given all before it. `target` begins with what is only read.
bool score_target(Engine& e, const std::vector<uint32_t>& target, Scored* out, std::string* why) {
  phasor_error error = PHASOR_ERROR_INIT;
  const uint32_t rows = static_cast<uint32_t>(target.size()) - 1;
  for (uint32_t done = 0; done < rows;) {
    const uint32_t count = rows - done < e.limits.logit_rows ? rows - done : e.limits.logit_rows;
    const phasor_item item = {sizeof(phasor_item), 0, count, PHASOR_LOGITS_ALL, &target[done], nullptr, nullptr, nullptr};
    if (target[done + count] >= e.target.vocabulary) {
      *why = "token id " + std::to_string(target[done + count]) + ", the vocabulary has " + std::to_string(e.target.vocabulary);
      return false;
    }
    if (phasor_step(e.session, &item, 1, &error) != PHASOR_OK) {
      *why = error.text;
      return false;
    }
    for (uint32_t r = 0; r < count; ++r) out->log_probability += log_probability(phasor_logits(e.session, r), e.target.vocabulary, target[done + r + 1]);
    done += count;
  }
  out->tokens = rows;
  return true;
}

// The decoder's ids: the prompt itself, or the start token and the given target.
bool target_of(const Engine& e, const Options& o, const std::vector<uint32_t>& ids, std::vector<uint32_t>* target, std::string* why) {
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
  if (!input.is_ids && !text_ids(e, e.has_source() ? PHASOR_SOURCE : PHASOR_TARGET, true, input.text.data(), input.text.size(), &ids, why)) return false;
  if (!target_of(e, o, ids, &target, why)) return false;
  (void)phasor_sequence_clear(e.session, 0);
  if (e.has_source()) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_item item = {sizeof(phasor_item), 0, static_cast<uint32_t>(ids.size()), PHASOR_LOGITS_NONE, ids.data(), nullptr, nullptr, nullptr};
    if (phasor_encode(e.session, &item, 1, &error) != PHASOR_OK) {
      *why = error.text;
      return false;
    }
  }
  return score_target(e, target, out, why);
}

void print(const Options& o, const Scored& s) {
  const double perplexity = exp(-s.log_probability / s.tokens);
  if (o.json) {
    Json json;
    json.open('{').key("log_probability").real(s.log_probability).key("perplexity").real(perplexity).key("tokens").number(s.tokens).close('}');
    output(json.str() + "\n");
    return;
  }
  char line[120];
  snprintf(line, sizeof line, "log-probability %.6f, perplexity %.6g, %u tokens\n", s.log_probability, perplexity, s.tokens);
  output(line);
}

}  // namespace

int score(const Options& o) {
  Engine e;
  if (!e.open(o)) return 1;
  if (!e.has_target()) return data_error("%s: is an encoder, expected a decoder or an encoder-decoder", e.path);
  const bool has_target = o.target != nullptr || o.target_ids.given;
  if (o.ids.given && !o.texts.empty()) return usage_error("--ids: expected either ids or text, not both");
  if (e.has_source() != has_target || (o.target != nullptr && o.target_ids.given))
    return usage_error(e.has_source() ? "score: expected one of --target and --target-ids, the model is an encoder-decoder" : "--target: for an encoder-decoder; this model is a decoder");
  phasor_limits limits = default_limits(e, o);
  limits.logit_rows = limits.chunk < 16 ? limits.chunk : 16;
  make_text_room(&limits, longest_argument(o));
  make_text_room(&limits, o.target != nullptr ? strlen(o.target) : 0);
  if (!e.start(limits)) return 1;
  Inputs inputs(o, e.stack == PHASOR_DECODER, e.limits.text_bytes);
  int status = 0;
  for (Input input; !output_failed() && inputs.next(&input);) {
    Scored scored;
    std::string error;
    if (score_input(e, o, input, &scored, &error)) {
      print(o, scored);
    } else {
      status = data_error("%s: %s", input.where.c_str(), error.c_str());
      output("\n", 1);
    }
    output_flush();
  }
  return inputs.failed() ? 1 : status;
}

}  // namespace cli
