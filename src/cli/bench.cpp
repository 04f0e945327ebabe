// cli: `phasor bench`. Median times of the encoder, of a prompt read at once, and of greedy decoding, end tokens ignored.
#include <sys/resource.h>

#include <algorithm>

#include "commands.h"
#include "engine.h"
#include "json.h"
#include "text.h"

namespace cli {
namespace {

constexpr uint32_t kDefaultTokens = 32;

struct Times {
  double encode = 0, prefill = 0, decode = 0;  // seconds, median
  uint32_t source = 0, prompt = 0, tokens = 0;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 != 0 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

std::vector<uint32_t> some_ids(uint32_t count, uint32_t vocabulary) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i) ids[i] = static_cast<uint32_t>((uint64_t(i) * 7919 + 17) % vocabulary);
  return ids;
}

uint64_t peak_rss_bytes() {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) * 1024 : 0;
}

// One pass over the source, a prompt and `tokens` greedy steps.
bool pass(Engine& e, const std::vector<uint32_t>& source, const std::vector<uint32_t>& prompt, uint32_t tokens, double seconds[3], phasor_error* error) {
  phasor_status status = phasor_sequence_clear(e.session, 0);
  double start = now();
  if (status == PHASOR_OK && e.has_source()) {
    const phasor_item item = {sizeof(phasor_item), 0, static_cast<uint32_t>(source.size()), PHASOR_LOGITS_NONE, source.data(), nullptr, nullptr, nullptr};
    status = phasor_encode(e.session, &item, 1, error);
  }
  seconds[0] = now() - start;
  if (!e.has_target() || status != PHASOR_OK) return status == PHASOR_OK;
  start = now();
  const phasor_item read = {sizeof(phasor_item), 0, static_cast<uint32_t>(prompt.size()), PHASOR_LOGITS_LAST, prompt.data(), nullptr, nullptr, nullptr};
  status = phasor_step(e.session, &read, 1, error);
  seconds[1] = now() - start;
  start = now();
  for (uint32_t i = 0; i < tokens && status == PHASOR_OK; ++i) {
    uint32_t id = 0;
    float logit = 0;
    status = phasor_argmax(e.session, 0, &id, &logit);
    const phasor_item item = {sizeof(phasor_item), 0, 1, PHASOR_LOGITS_LAST, &id, nullptr, nullptr, nullptr};
    if (status == PHASOR_OK) status = phasor_step(e.session, &item, 1, error);
  }
  seconds[2] = now() - start;
  return status == PHASOR_OK;
}

bool measure(Engine& e, const Options& o, Times* t) {
  const std::vector<uint32_t> source = e.has_source() ? (o.ids.given ? o.ids.values : some_ids(t->source, e.source.vocabulary)) : std::vector<uint32_t>();
  const bool ids_are_prompt = o.ids.given && !e.has_source();
  const std::vector<uint32_t> prompt = e.has_target() ? (ids_are_prompt ? o.ids.values : some_ids(t->prompt, e.target.vocabulary)) : std::vector<uint32_t>();
  std::vector<double> seconds[3];
  phasor_error error = PHASOR_ERROR_INIT;
  for (uint32_t i = 0; i <= o.reps; ++i) {  // the first is not counted: pages of the file are read then
    double one[3] = {};
    if (!pass(e, source, prompt, t->tokens, one, &error)) return e.fail(error);
    for (int k = 0; k < 3 && i != 0; ++k) seconds[k].push_back(one[k]);
  }
  t->encode = median(seconds[0]);
  t->prefill = median(seconds[1]);
  t->decode = median(seconds[2]);
  return true;
}

double rate(uint32_t tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

void print_text(const Engine& e, const Times& t) {
  char line[160];
  const auto speed = [&](const char* name, uint32_t tokens, double seconds) {
    snprintf(line, sizeof line, "%-8s %6u tokens %10.3f ms %12.0f tokens/s\n", name, tokens, seconds * 1e3, rate(tokens, seconds));
    output(line);
  };
  if (e.has_source()) speed("encoder", t.source, t.encode);
  if (e.has_target()) speed("prefill", t.prompt, t.prefill), speed("decode", t.tokens, t.decode);
  output("arena    " + grouped(e.arena_bytes) + " bytes\nmodel    " + grouped(e.model_bytes) + " bytes and the file's " + grouped(e.file.bytes()) + "\npeak RSS " +
         grouped(peak_rss_bytes()) + " bytes\nlevel    " + phasor_model_isa(e.model) + ", " + std::to_string(e.limits.threads) + " threads\n");
}

void print_json(const Engine& e, const Times& t, const Options& o) {
  Json json;
  json.open('{').key("file").text(e.path).key("isa").text(phasor_model_isa(e.model)).key("threads").number(e.limits.threads).key("reps").number(o.reps);
  if (e.has_source()) json.key("source_tokens").number(t.source).key("encode_seconds").real(t.encode).key("encode_tokens_per_second").real(rate(t.source, t.encode));
  if (e.has_target()) {
    json.key("prefill_tokens").number(t.prompt).key("prefill_seconds").real(t.prefill).key("prefill_tokens_per_second").real(rate(t.prompt, t.prefill));
    json.key("decode_tokens").number(t.tokens).key("decode_seconds").real(t.decode).key("decode_tokens_per_second").real(rate(t.tokens, t.decode));
  }
  json.key("arena_bytes").number(e.arena_bytes).key("model_bytes").number(e.model_bytes).key("file_bytes").number(e.file.bytes());
  json.key("peak_rss_bytes").number(peak_rss_bytes()).close('}');
  output(json.str() + "\n");
}

uint32_t at_most(uint32_t wanted, uint32_t limit) { return limit != 0 && wanted > limit ? limit : wanted; }

}  // namespace

int bench(const Options& o) {
  Engine e;
  if (!o.texts.empty()) return usage_error("bench: unexpected argument %s", o.texts[0]);
  if (o.ids.from_input) return usage_error("--ids -: bench expected a list of ids");
  if (!e.open(o)) return 1;
  const uint32_t given = static_cast<uint32_t>(o.ids.values.size());
  if (o.ids.given && given == 0) return usage_error("--ids: expected at least one token id");
  Times t;
  t.source = !e.has_source() ? 0 : o.ids.given ? given : o.source != 0 ? o.source : at_most(kDefaultTokens, e.source.max_positions);
  const uint32_t most = o.context != 0 ? o.context : e.target.max_positions;
  t.prompt = !e.has_target() ? 0 : e.has_source() || !o.ids.given ? at_most(kDefaultTokens, most == 0 ? 0 : (most + 1) / 2) : given;
  if (most != 0 && t.prompt >= most) return data_error("--ids: %u tokens, expected fewer than the context of %u", t.prompt, most);
  t.tokens = !e.has_target() ? 0 : at_most(o.n != 0 ? o.n : kDefaultTokens, most == 0 ? 0 : most - t.prompt);
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  (void)phasor_limits_for(e.model, t.source, o.context != 0 ? o.context : t.prompt + t.tokens, &limits);
  limits.threads = o.threads;
  limits.cache_type = cache_type(o);
  if (!e.start(limits) || !measure(e, o, &t)) return 1;
  if (o.json) print_json(e, t, o);
  else print_text(e, t);
  return 0;
}

}  // namespace cli
