// cli: `phasor bench`. Median times of the encoder, of a prompt read at once, of greedy decoding,
// and of a beam search, end tokens ignored; what they are of the bandwidth and the arithmetic that
// this machine was measured to have; memory, page faults, and the time from starting the program to
// its first token.
#include <stdarg.h>
#include <string.h>

#include <algorithm>

#include "commands.h"
#include "engine.h"
#include "json.h"
#include "machine.h"
#include "text.h"

namespace cli {
namespace {

constexpr uint32_t kDefaultTokens = 32;
constexpr int kWarmStarts = 5;

// One of the things that are timed. Bytes and multiply-adds are those of a whole pass, from the
// file's header.
struct Phase {
  const char* name;
  uint32_t tokens = 0;
  double seconds = 0;  // median
  double joules = 0;   // of one pass, mean
  double bytes = 0, macs = 0;
};
enum { kEncode, kPrefill, kDecode, kBeam, kPhases };

// At one number of threads.
struct Machine {
  uint32_t threads = 0;
  // bytes a second: of a block beyond the caches, of one as large as a step's weights
  double memory = 0, bandwidth = 0;
  double f32 = 0, int8 = 0;  // operations a second
  double join = 0;           // seconds of a job without work
};

struct Report {
  Phase phases[kPhases] = {{"encoder"}, {"prefill"}, {"decode"}, {"beam"}};
  std::vector<Machine> machine;  // the last is at the threads of the run
  bool int8 = false;             // which arithmetic most of the matrices are computed in
  bool joules = false;
  Memory memory;
  // page faults from opening to the end of the first pass, and in all later ones
  Faults first, passes;
  // seconds to the first token; the share of the file that could not be made cold
  double cold = -1, cold_share = 1, warm = -1;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const size_t n = v.size();
  return n % 2 != 0 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

std::vector<uint32_t> some_ids(uint32_t count, uint32_t vocabulary) {
  std::vector<uint32_t> ids(count);
  for (uint32_t i = 0; i < count; ++i)
    ids[i] = static_cast<uint32_t>((uint64_t(i) * 7919 + 17) % vocabulary);
  return ids;
}

// One pass over the source, a prompt and `tokens` greedy steps; then as many of a beam search from
// the prompt's last token, where the limits have beams.
bool pass(Engine& e, const std::vector<uint32_t>& source, const std::vector<uint32_t>& prompt,
          uint32_t tokens, double seconds[kPhases], double joules[kPhases], Energy* energy,
          phasor_error* error) {
  phasor_status status = phasor_sequence_clear(e.session, 0);
  (void)energy->since_last();
  double start = now();
  const auto done = [&](int phase) {
    seconds[phase] = now() - start;
    joules[phase] = energy->since_last();
    start = now();
  };
  if (status == PHASOR_OK && e.has_source()) {
    const phasor_item item = {sizeof(phasor_item),
                              0,
                              static_cast<uint32_t>(source.size()),
                              PHASOR_LOGITS_NONE,
                              source.data(),
                              nullptr,
                              nullptr,
                              nullptr};
    status = phasor_encode(e.session, &item, 1, error);
  }
  done(kEncode);
  if (!e.has_target() || status != PHASOR_OK) return status == PHASOR_OK;
  const phasor_item read = {sizeof(phasor_item),
                            0,
                            static_cast<uint32_t>(prompt.size()),
                            PHASOR_BEST_LAST,
                            prompt.data(),
                            nullptr,
                            nullptr,
                            nullptr};
  status = phasor_step(e.session, &read, 1, error);
  done(kPrefill);
  for (uint32_t i = 0; i < tokens && status == PHASOR_OK; ++i) {
    uint32_t id = 0;
    float logit = 0;
    status = phasor_argmax(e.session, 0, &id, &logit);
    const phasor_item item = {
        sizeof(phasor_item), 0, 1, PHASOR_BEST_LAST, &id, nullptr, nullptr, nullptr};
    if (status == PHASOR_OK) status = phasor_step(e.session, &item, 1, error);
  }
  done(kDecode);
  if (e.limits.beams == 0 || status != PHASOR_OK) return status == PHASOR_OK;
  phasor_beam_options options = PHASOR_BEAM_OPTIONS_INIT;
  phasor_beam_result found = PHASOR_BEAM_RESULT_INIT;
  options.max_new = options.min_new = tokens;
  status = phasor_sequence_truncate(e.session, 0, static_cast<uint32_t>(prompt.size()) - 1);
  if (status == PHASOR_OK)
    status = phasor_beam_search(e.session, 0, &prompt.back(), 1, &options, &found, error);
  done(kBeam);
  return status == PHASOR_OK;
}

bool measure(Engine& e, const Options& o, Report* r) {
  const std::vector<uint32_t> source =
      e.has_source()
          ? (o.ids.given ? o.ids.values : some_ids(r->phases[kEncode].tokens, e.source.vocabulary))
          : std::vector<uint32_t>();
  const bool ids_are_prompt = o.ids.given && !e.has_source();
  const std::vector<uint32_t> prompt =
      e.has_target() ? (ids_are_prompt ? o.ids.values
                                       : some_ids(r->phases[kPrefill].tokens, e.target.vocabulary))
                     : std::vector<uint32_t>();
  std::vector<double> seconds[kPhases];
  double joules[kPhases] = {};
  phasor_error error = PHASOR_ERROR_INIT;
  Energy energy;
  const Faults opened = page_faults();
  // the first is not counted: pages of the file are read then
  for (uint32_t i = 0; i <= o.reps; ++i) {
    double one[kPhases] = {}, used[kPhases] = {};
    if (!pass(e, source, prompt, r->phases[kDecode].tokens, one, used, &energy, &error))
      return e.fail(error);
    if (i == 0) r->first = page_faults() - opened;
    for (int k = 0; k < kPhases && i != 0; ++k) seconds[k].push_back(one[k]), joules[k] += used[k];
  }
  r->passes = page_faults() - opened - r->first;
  r->joules = energy.told();
  for (int k = 0; k < kPhases; ++k)
    r->phases[k].seconds = median(seconds[k]), r->phases[k].joules = joules[k] / o.reps;
  r->memory = memory_in_use(e.file.data(), e.file.bytes(), e.arena(), e.arena_bytes);
  return true;
}

// The matrix that makes the logits: the output's own, or the embedding that it is tied to.
phasor_tensor output_matrix(const Engine& e) {
  phasor_tensor best{};
  int rank = 0;
  for (uint32_t i = 0; i < phasor_tensor_count(e.model); ++i) {
    phasor_tensor t{};
    t.struct_size = sizeof t;
    if (phasor_tensor_get(e.model, i, &t) != PHASOR_OK || t.role != 1 ||
        strcmp(t.layout, "panel16") != 0)
      continue;
    const int is = t.stack == 5 ? 3 : t.stack == 3 ? 2 : t.stack == 1 ? 1 : 0;  // docs/format.md
    if (is > rank) best = t, rank = is;
  }
  return best;
}

bool mostly_int8(const Engine& e) {
  double quantised = 0, other = 0;
  for (uint32_t i = 0; i < phasor_tensor_count(e.model); ++i) {
    phasor_tensor t{};
    t.struct_size = sizeof t;
    if (phasor_tensor_get(e.model, i, &t) != PHASOR_OK || strcmp(t.layout, "panel16") != 0)
      continue;
    (t.type[0] == 'q' ? quantised : other) += static_cast<double>(t.rows * t.cols);
  }
  return quantised > other;
}

// Bytes of the cache in its type, of those in f32.
double cache_share(const Engine& e) {
  const auto cache = [&](uint32_t type) {
    phasor_limits limits = e.limits;
    limits.cache_type = type;
    const char* name = nullptr;
    uint64_t bytes = 0;
    for (uint32_t i = 0; phasor_session_part(e.model, &limits, i, &name, &bytes) == PHASOR_OK; ++i)
      if (strcmp(name, "decoder keys and values") == 0) return static_cast<double>(bytes);
    return 1.0;
  };
  return cache(e.limits.cache_type) / cache(PHASOR_CACHE_F32);
}

void count_work(const Engine& e, Report* r) {
  Phase &encode = r->phases[kEncode], &prefill = r->phases[kPrefill], &decode = r->phases[kDecode],
        &beam = r->phases[kBeam];
  const auto at = [&](uint32_t position) {
    phasor_cost cost{};
    cost.struct_size = sizeof cost;
    (void)phasor_model_cost(e.model, encode.tokens, position, &cost);
    return cost;
  };
  const auto chunks = [&](uint32_t tokens) {
    return static_cast<double>((tokens + e.limits.chunk - 1) / e.limits.chunk);
  };
  const phasor_cost first = at(0);
  encode.bytes = static_cast<double>(first.encode_bytes) * chunks(encode.tokens);
  encode.macs = static_cast<double>(first.encode_macs);
  if (!e.has_target()) return;
  // A step's bytes are those of the weights and, from position to position more, of the cache,
  // which the model's cost counts in f32.
  const double cache = cache_share(e);
  const phasor_tensor output = output_matrix(e);
  prefill.bytes = static_cast<double>(first.step_bytes) * chunks(prefill.tokens) -
                  static_cast<double>(output.bytes) * (chunks(prefill.tokens) - 1);
  // logits of the last token only
  prefill.macs = -static_cast<double>(output.rows * output.cols) * (prefill.tokens - 1);
  for (uint32_t p = 0; p < prefill.tokens; ++p)
    prefill.macs += static_cast<double>(at(p).step_macs);
  for (uint32_t i = 0; i < decode.tokens; ++i) {
    const phasor_cost cost = at(prefill.tokens + i);
    decode.bytes += static_cast<double>(first.step_bytes) +
                    cache * static_cast<double>(cost.step_bytes - first.step_bytes);
    decode.macs += static_cast<double>(cost.step_macs);
    if (e.limits.beams == 0) continue;
    // a step has one beam, then all of them: weights are read once, each beam's cache is
    const phasor_cost one = at(prefill.tokens - 1 + i);
    const double beams = i == 0 ? 1 : e.limits.beams;
    beam.bytes += static_cast<double>(first.step_bytes) +
                  beams * cache * static_cast<double>(one.step_bytes - first.step_bytes);
    beam.macs += beams * static_cast<double>(one.step_macs);
  }
}

void measure_machine(const Engine& e, Report* r) {
  const Phase& decode = r->phases[e.has_target() ? kDecode : kEncode];
  const size_t block = std::min(
      beyond_caches(), static_cast<size_t>(decode.bytes / (e.has_target() ? decode.tokens : 1)));
  std::vector<uint32_t> counts = {1, processors(), e.limits.threads};
  std::sort(counts.begin(), counts.end() - 1);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i + 1 < counts.size() &&
        (counts[i] == e.limits.threads || (i != 0 && counts[i] == counts[i - 1])))
      continue;
    const uint32_t n = counts[i];
    r->machine.push_back({n, read_bandwidth(beyond_caches(), n), read_bandwidth(block, n),
                          peak_arithmetic(e.model, PHASOR_PEAK_F32, n),
                          peak_arithmetic(e.model, PHASOR_PEAK_INT8, n), fork_and_join(n)});
  }
}

// Starts this program for one token, without and with the file's pages in memory. Nothing may have
// mapped the file.
void measure_start(const Options& o, uint32_t stack, Report* r) {
  const bool encoder = stack == PHASOR_ENCODER;
  std::vector<std::string> words = {
      encoder ? "embed" : "run", o.model, "--ids", "0", "--quiet", "--threads",
      std::to_string(o.threads)};
  if (encoder)
    words.insert(words.end(), {"--pooling", "mean"});
  else
    words.insert(words.end(), {"-n", "1", "--print-ids"});
  if (o.isa != nullptr) words.insert(words.end(), {"--isa", o.isa});
  r->cold_share = forget_pages(o.model);
  r->cold = seconds_to_output(words);
  std::vector<double> warm;
  for (int i = 0; i < kWarmStarts; ++i) warm.push_back(seconds_to_output(words));
  r->warm = *std::min_element(warm.begin(), warm.end()) < 0 ? -1 : median(warm);
}

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }
double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

std::string print(const char* format, ...) __attribute__((format(printf, 1, 2)));
std::string print(const char* format, ...) {
  char line[240];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

std::string milliseconds(double seconds) {
  return seconds < 0 ? "not told" : print("%.2f ms", seconds * 1e3);
}

void print_text(const Engine& e, const Report& r) {
  const Machine& m = r.machine.back();
  const double peak = r.int8 ? m.int8 : m.f32;
  std::string out;
  for (const Phase& p : r.phases) {
    if (p.tokens == 0) continue;
    const double bytes = rate(p.bytes, p.seconds), operations = rate(2 * p.macs, p.seconds);
    out += print(
        "%-8s %6u tokens %10.3f ms %9.0f tokens/s %8.2f GB/s (%3.0f %%) %9.1f GOP/s (%3.0f %%)",
        p.name, p.tokens, p.seconds * 1e3, rate(p.tokens, p.seconds), bytes * 1e-9,
        100 * share(bytes, m.bandwidth), operations * 1e-9, 100 * share(operations, peak));
    out += r.joules ? print("  %.4g J/token\n", p.joules / p.tokens) : "  joules: not told\n";
  }
  for (const Machine& a : r.machine) {
    out += print(
        "machine  %u thread%s: reads %.1f GB/s from memory, %.1f of a block as large as what a "
        "step reads; f32 %.1f GFLOP/s, int8 %.1f GOP/s",
        a.threads, a.threads == 1 ? "" : "s", a.memory * 1e-9, a.bandwidth * 1e-9, a.f32 * 1e-9,
        a.int8 * 1e-9);
    out += a.join > 0 ? print("; a job given out and back in %.0f ns\n", a.join * 1e9) : "\n";
  }
  out += print("shares   of what %u thread%s can read of such a block, and of %s arithmetic\n",
               m.threads, m.threads == 1 ? "" : "s", r.int8 ? "int8" : "f32");
  out += "start    to the first token: " + milliseconds(r.warm) + " warm, " + milliseconds(r.cold) +
         " cold" +
         (r.cold_share > 0.01 ? print(" (%.0f %% of the file stayed in memory)", 100 * r.cold_share)
                              : "") +
         "\n";
  out += "arena    " + grouped(e.arena_bytes) + " bytes\nmodel    " + grouped(e.model_bytes) +
         " bytes and the file's " + grouped(e.file.bytes()) + "\nRSS      " +
         grouped(r.memory.now) + " bytes, " + grouped(r.memory.beyond) +
         " beyond the file and the arena, of these " + grouped(r.memory.own) +
         " the process's own, peak " + grouped(r.memory.peak) + "\nfaults   " +
         grouped(r.first.minor) + " minor and " + grouped(r.first.major) +
         " major in the first pass, " + grouped(r.passes.minor) + " and " +
         grouped(r.passes.major) + " in the others\nlevel    " + phasor_model_isa(e.model) + ", " +
         std::to_string(e.limits.threads) + (e.limits.threads == 1 ? " thread\n" : " threads\n");
  output(out);
}

void print_json(const Engine& e, const Report& r, const Options& o) {
  const Machine& m = r.machine.back();
  constexpr const char* kNames[kPhases] = {"encode", "prefill", "decode", "beam"};
  Json json;
  json.open('{')
      .key("file")
      .text(e.path)
      .key("isa")
      .text(phasor_model_isa(e.model))
      .key("threads")
      .number(e.limits.threads)
      .key("reps")
      .number(o.reps);
  for (int k = 0; k < kPhases; ++k) {
    const Phase& p = r.phases[k];
    if (p.tokens == 0) continue;
    const std::string name = kNames[k];
    const auto key = [&](const char* what) -> Json& { return json.key((name + what).c_str()); };
    const double bytes = rate(p.bytes, p.seconds), operations = rate(2 * p.macs, p.seconds);
    json.key(k == kEncode ? "source_tokens" : (name + "_tokens").c_str()).number(p.tokens);
    key("_seconds").real(p.seconds);
    key("_tokens_per_second").real(rate(p.tokens, p.seconds));
    key("_bytes_per_second").real(bytes);
    key("_bandwidth_share").real(share(bytes, m.bandwidth));
    key("_operations_per_second").real(operations);
    key("_peak_share").real(share(operations, r.int8 ? m.int8 : m.f32));
    if (r.joules) key("_joules").real(p.joules);
  }
  if (e.limits.beams != 0) json.key("beams").number(e.limits.beams);
  json.key("arithmetic").text(r.int8 ? "int8" : "f32").key("machine").open('[');
  for (const Machine& a : r.machine) {
    json.open('{')
        .key("threads")
        .number(a.threads)
        .key("read_bytes_per_second")
        .real(a.memory)
        .key("read_block_bytes_per_second")
        .real(a.bandwidth);
    json.key("f32_operations_per_second")
        .real(a.f32)
        .key("int8_operations_per_second")
        .real(a.int8);
    if (a.join > 0) json.key("join_seconds").real(a.join);
    json.close('}');
  }
  json.close(']');
  if (r.warm >= 0) json.key("start_warm_seconds").real(r.warm);
  if (r.cold >= 0)
    json.key("start_cold_seconds")
        .real(r.cold)
        .key("start_cold_share_in_memory")
        .real(r.cold_share);
  json.key("arena_bytes")
      .number(e.arena_bytes)
      .key("model_bytes")
      .number(e.model_bytes)
      .key("file_bytes")
      .number(e.file.bytes());
  json.key("rss_bytes")
      .number(r.memory.now)
      .key("rss_beyond_bytes")
      .number(r.memory.beyond)
      .key("rss_own_bytes")
      .number(r.memory.own)
      .key("peak_rss_bytes")
      .number(r.memory.peak);
  json.key("first_minor_faults")
      .number(r.first.minor)
      .key("first_major_faults")
      .number(r.first.major);
  json.key("minor_faults")
      .number(r.passes.minor)
      .key("major_faults")
      .number(r.passes.major)
      .close('}');
  output(json.str() + "\n");
}

uint32_t at_most(uint32_t wanted, uint32_t limit) {
  return limit != 0 && wanted > limit ? limit : wanted;
}

// How many tokens each phase has, and the room for them. 0, or the exit status.
int lengths(const Engine& e, const Options& o, Report* r, phasor_limits* limits) {
  uint32_t &source = r->phases[kEncode].tokens, &prompt = r->phases[kPrefill].tokens,
           &steps = r->phases[kDecode].tokens;
  const uint32_t given = static_cast<uint32_t>(o.ids.values.size());
  if (o.ids.given && given == 0) return usage_error("--ids: expected at least one token id");
  source = !e.has_source() ? 0
           : o.ids.given   ? given
           : o.source != 0 ? o.source
                           : at_most(kDefaultTokens, e.source.max_positions);
  const uint32_t most = o.context != 0 ? o.context : e.target.max_positions;
  if (e.has_target()) {
    const bool listed = o.ids.given && !e.has_source();
    prompt = listed          ? given
             : o.length != 0 ? o.length
                             : at_most(kDefaultTokens, most == 0 ? 0 : (most + 1) / 2);
    if (most != 0 && prompt >= most)
      return data_error("%s: %u tokens, expected fewer than the context of %u",
                        listed ? "--ids" : "--length", prompt, most);
    steps = at_most(o.n != 0 ? o.n : kDefaultTokens, most == 0 ? 0 : most - prompt);
  }
  limits->struct_size = sizeof *limits;
  (void)phasor_limits_for(e.model, source, o.context != 0 ? o.context : prompt + steps, limits);
  limits->threads = o.threads;
  limits->cache_type = o.cache;
  greedy_room(limits, 1);
  limits->beams = o.beam;
  if (o.beam != 0) r->phases[kBeam].tokens = steps;
  if (o.chunk != 0) limits->chunk = o.chunk;
  return 0;
}

}  // namespace

int bench(const Options& o) {
  Report r;
  if (!o.texts.empty()) return usage_error("bench: unexpected argument %s", o.texts[0]);
  if (o.ids.from_input) return usage_error("--ids -: bench expected a list of ids");
  phasor_limits limits{};
  uint32_t stack = 0;
  {
    Engine probe;  // what is wrong is said before anything is measured
    if (!probe.open(o)) return 1;
    const int status = lengths(probe, o, &r, &limits);
    if (status != 0) return status;
    stack = probe.stack;
  }
  measure_start(o, stack, &r);
  Engine e;
  if (!e.open(o) || !e.start(limits) || !measure(e, o, &r)) return 1;
  count_work(e, &r);
  r.int8 = mostly_int8(e);
  measure_machine(e, &r);
  if (o.json)
    print_json(e, r, o);
  else
    print_text(e, r);
  return 0;
}

}  // namespace cli
