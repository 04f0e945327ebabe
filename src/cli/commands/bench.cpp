// cli: `phasor bench`. Median times of the encoder, of a prompt read at once, of greedy decoding,
// and of a beam search, end tokens ignored; what they are of the bandwidth and the arithmetic that
// this machine was measured to have; memory, page faults, and the time from starting the program to
// its first token.
#include <string.h>

#include "../engine/pass.h"
#include "../engine/roles.h"
#include "../io/json.h"
#include "commands.h"

namespace cli {
namespace {

struct BenchOptions : CommandLine, OpenOptions, MemoryOptions {
  Number n{"-n N", "Generate N new tokens. Default: 32."};
  Number length{"--length N", "Prompt length in tokens. Default: 32."};
  Number reps{"--reps N", "Repeat N times and print the median. Default: 5.", 1, 10000, 5};
  FlagGroups flags() {
    return {group("What is measured", ids, source, length, n, beam, reps),
            group("Output", json, quiet),
            group("Memory and speed", context, cache, threads, chunk, isa, load, check)};
  }
};

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
  vector<Machine> machine;  // the last is at the threads of the run
  bool int8 = false;        // which arithmetic most of the matrices are computed in
  bool joules = false;
  Memory memory;
  // page faults from opening to the end of the first pass, and in all later ones
  Faults first, passes;
  // seconds to the first token; the share of the file that could not be made cold
  double cold = -1, cold_share = 1, warm = -1;
};

bool measure(Engine& e, const BenchOptions& o, Report* r) {
  TokenIds source, prompt;
  if (e.has_source()) source = some_ids(r->phases[kEncode].tokens, e.source.vocabulary);
  if (e.has_target()) prompt = some_ids(r->phases[kPrefill].tokens, e.target.vocabulary);
  if (o.ids.given) (e.has_source() ? source : prompt) = o.ids.values;
  vector<double> seconds[kPhases];
  Energy energy;
  const Faults opened = page_faults();
  // the first is not counted: pages of the file are read then
  for (uint32_t i = 0; i <= o.reps; ++i) {
    Taken taken;
    if (pass(e, source, prompt, r->phases[kDecode].tokens, &energy, &taken) != PHASOR_OK)
      return e.fail();
    if (i == 0) r->first = page_faults() - opened;
    for (int k = 0; k < kPhases && i != 0; ++k) {
      seconds[k].push_back(taken.seconds[k]);
      r->phases[k].joules += taken.joules[k] / o.reps;
    }
  }
  r->passes = page_faults() - opened - r->first;
  r->joules = energy.told();
  for (int k = 0; k < kPhases; ++k) r->phases[k].seconds = median(seconds[k]);
  r->memory = memory_in_use(e.file.data(), e.file.bytes(), e.arena(), e.arena_bytes);
  return true;
}

// Calls it for each matrix in panels.
template <class Call>
void each_matrix(const Engine& e, Call call) {
  auto tensor = sized<phasor_tensor>();
  for (uint32_t i = 0; phasor_tensor_get(e.model, i, &tensor) == PHASOR_OK; ++i)
    if (strcmp(tensor.layout, "panel16") == 0) call(tensor);
}

// The matrix that makes the logits: the output's own, or the embedding that it is tied to.
phasor_tensor output_matrix(const Engine& e) {
  phasor_tensor best{};
  int rank = 0;
  each_matrix(e, [&](const phasor_tensor& matrix) {
    if (matrix.role != kRoleEmbedding) return;
    const uint32_t of = matrix.stack;
    const int is = of == kOutput ? 3 : of == kTarget ? 2 : of == kSource ? 1 : 0;
    if (is > rank) best = matrix, rank = is;
  });
  return best;
}

bool mostly_int8(const Engine& e) {
  uint64_t quantized = 0, other = 0;
  each_matrix(e, [&](const phasor_tensor& matrix) {
    (matrix.type[0] == 'q' ? quantized : other) += matrix.rows * matrix.cols;
  });
  return quantized > other;
}

// Bytes of the cache in its type, of those in f32.
double cache_share(const Engine& e) {
  const auto cache = [&](uint32_t type) {
    phasor_limits limits = e.limits;
    limits.cache_type = type;
    const char* name = nullptr;
    uint64_t bytes = 0;
    for (uint32_t i = 0; phasor_session_part(e.model, &limits, i, &name, &bytes) == PHASOR_OK; ++i)
      if (strcmp(name, "decoder keys and values") == 0) return double(bytes);
    return 1.0;
  };
  return cache(e.limits.cache_type) / cache(PHASOR_CACHE_F32);
}

// What the file's header says of a pass.
struct Work {
  double encode_bytes, encode_macs, step_bytes, step_macs;
};

void count_work(const Engine& e, Report* r) {
  Phase &encode = r->phases[kEncode], &prefill = r->phases[kPrefill], &decode = r->phases[kDecode],
        &beam = r->phases[kBeam];
  // Counts are below 2^53: a double has them exactly.
  const auto at = [&](uint32_t position) {
    auto cost = sized<phasor_cost>();
    (void)phasor_model_cost(e.model, encode.tokens, position, &cost);
    return Work{double(cost.encode_bytes), double(cost.encode_macs), double(cost.step_bytes),
                double(cost.step_macs)};
  };
  const auto chunks = [&](uint32_t tokens) {
    return double((tokens + e.limits.chunk - 1) / e.limits.chunk);
  };
  const Work first = at(0);
  encode.bytes = first.encode_bytes * chunks(encode.tokens);
  encode.macs = first.encode_macs;
  if (!e.has_target()) return;
  // A step's bytes are those of the weights and, from position to position more, of the cache,
  // which the model's cost counts in f32. A prompt has logits of its last token only.
  const double cache = cache_share(e);
  const phasor_tensor output = output_matrix(e);
  prefill.bytes = first.step_bytes * chunks(prefill.tokens) -
                  double(output.bytes) * (chunks(prefill.tokens) - 1);
  prefill.macs = -double(output.rows * output.cols) * (prefill.tokens - 1);
  for (uint32_t position = 0; position < prefill.tokens; ++position)
    prefill.macs += at(position).step_macs;
  const auto add_step = [&](Phase* phase, uint32_t position, double sequences) {
    const Work work = at(position);
    phase->bytes += first.step_bytes + sequences * cache * (work.step_bytes - first.step_bytes);
    phase->macs += sequences * work.step_macs;
  };
  for (uint32_t i = 0; i < decode.tokens; ++i) {
    add_step(&decode, prefill.tokens + i, 1);
    // a step has one beam, then all of them: weights are read once, each beam's cache is
    if (e.limits.beams != 0) add_step(&beam, prefill.tokens - 1 + i, i == 0 ? 1 : e.limits.beams);
  }
}

// At one thread, at all processors, and last at the threads of the run; each number once.
void measure_machine(const Engine& e, Report* r) {
  const Phase& work = r->phases[e.has_target() ? kDecode : kEncode];
  const size_t block =
      min(beyond_caches(), size_t(work.bytes / (e.has_target() ? work.tokens : 1)));
  TokenIds counts = {1, processors()};
  counts.erase(std::remove(counts.begin(), counts.end(), e.limits.threads), counts.end());
  counts.push_back(e.limits.threads);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  for (const uint32_t threads : counts) {
    Machine machine;
    machine.threads = threads;
    machine.memory = read_bandwidth(beyond_caches(), threads);
    machine.bandwidth = read_bandwidth(block, threads);
    machine.f32 = peak_arithmetic(e.model, PHASOR_PEAK_F32, threads);
    machine.int8 = peak_arithmetic(e.model, PHASOR_PEAK_INT8, threads);
    machine.join = fork_and_join(threads);
    r->machine.push_back(machine);
  }
}

// Starts this program for one token, without and with the file's pages in memory. Nothing may have
// mapped the file.
void measure_start(const BenchOptions& o, uint32_t stack, Report* r) {
  const bool encoder = stack == PHASOR_ENCODER;
  vector<string> words = {encoder ? "embed" : "run", o.model, "--ids", "0", "--quiet", "--threads",
                          to_string(o.threads)};
  if (encoder)
    words.insert(words.end(), {"--pooling", "mean"});
  else
    words.insert(words.end(), {"-n", "1", "--print-ids"});
  if (o.isa != nullptr) words.insert(words.end(), {"--isa", o.isa.value});
  r->cold_share = forget_pages(o.model);
  r->cold = seconds_to_output(words);
  vector<double> warm;
  for (int i = 0; i < kWarmStarts; ++i) warm.push_back(seconds_to_output(words));
  r->warm = *std::min_element(warm.begin(), warm.end()) < 0 ? -1 : median(warm);
}

double rate(double count, double seconds) { return seconds > 0 ? count / seconds : 0; }
double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

string milliseconds(double seconds) {
  return seconds < 0 ? "not told" : format("%.2f ms", seconds * 1e3);
}

// Bytes and operations a second, and their shares of what the machine can do.
struct Rates {
  Rates(const Phase& phase, const Report& r)
      : bytes(rate(phase.bytes, phase.seconds)),
        operations(rate(2 * phase.macs, phase.seconds)),
        bandwidth(share(bytes, r.machine.back().bandwidth)),
        peak(share(operations, r.int8 ? r.machine.back().int8 : r.machine.back().f32)) {}
  double bytes, operations, bandwidth, peak;
};

string phase_line(const Phase& phase, const Report& r) {
  const Rates is(phase, r);
  return format(
             "%-8s %6u tokens %10.3f ms %9.0f tokens/s %8.2f GB/s (%3.0f %%) %9.1f GOP/s "
             "(%3.0f %%)",
             phase.name, phase.tokens, phase.seconds * 1e3, rate(phase.tokens, phase.seconds),
             is.bytes * 1e-9, 100 * is.bandwidth, is.operations * 1e-9, 100 * is.peak) +
         (r.joules ? format("  %.4g J/token\n", phase.joules / phase.tokens)
                   : "  joules: not told\n");
}

void print_text(const Engine& e, const Report& r) {
  string out;
  for (const Phase& phase : r.phases)
    if (phase.tokens != 0) out += phase_line(phase, r);
  for (const Machine& at : r.machine) {
    out += format(
        "machine  %u thread%s: reads %.1f GB/s from memory, %.1f of a block as large as what a "
        "step reads; f32 %.1f GFLOP/s, int8 %.1f GOP/s",
        at.threads, plural(at.threads), at.memory * 1e-9, at.bandwidth * 1e-9, at.f32 * 1e-9,
        at.int8 * 1e-9);
    out += at.join > 0 ? format("; a job given out and back in %.0f ns\n", at.join * 1e9) : "\n";
  }
  const uint32_t threads = e.limits.threads;
  out += format("shares   of what %u thread%s can read of such a block, and of %s arithmetic\n",
                threads, plural(threads), r.int8 ? "int8" : "f32");
  out += "start    to the first token: " + milliseconds(r.warm) + " warm, " + milliseconds(r.cold) +
         " cold";
  if (r.cold_share > 0.01)
    out += format(" (%.0f %% of the file stayed in memory)", 100 * r.cold_share);
  out += "\narena    " + grouped(e.arena_bytes) + " bytes\nmodel    " + grouped(e.model_bytes) +
         " bytes and the file's " + grouped(e.file.bytes()) + "\nRSS      " +
         grouped(r.memory.now) + " bytes, " + grouped(r.memory.beyond) +
         " beyond the file and the arena, of these " + grouped(r.memory.own) +
         " the process's own, peak " + grouped(r.memory.peak) + "\nfaults   " +
         grouped(r.first.minor) + " minor and " + grouped(r.first.major) +
         " major in the first pass, " + grouped(r.passes.minor) + " and " +
         grouped(r.passes.major) + " in the others\n";
  output(out +
         format("level    %s, %u thread%s\n", phasor_model_isa(e.model), threads, plural(threads)));
}

void print_json(const Engine& e, const Report& r, const BenchOptions& o) {
  constexpr const char* kNames[kPhases] = {"encode", "prefill", "decode", "beam"};
  Json json;
  json.open('{')
      .add("file", e.path)
      .add("isa", phasor_model_isa(e.model))
      .add("threads", e.limits.threads)
      .add("reps", o.reps.value);
  for (int k = 0; k < kPhases; ++k) {
    const Phase& phase = r.phases[k];
    if (phase.tokens == 0) continue;
    const string name = kNames[k];
    const auto add = [&](const char* what, double value) {
      json.add((name + what).c_str(), value);
    };
    const Rates is(phase, r);
    json.add(k == kEncode ? "source_tokens" : (name + "_tokens").c_str(), phase.tokens);
    add("_seconds", phase.seconds);
    add("_tokens_per_second", rate(phase.tokens, phase.seconds));
    add("_bytes_per_second", is.bytes);
    add("_bandwidth_share", is.bandwidth);
    add("_operations_per_second", is.operations);
    add("_peak_share", is.peak);
    if (r.joules) add("_joules", phase.joules);
  }
  if (e.limits.beams != 0) json.add("beams", e.limits.beams);
  json.add("arithmetic", r.int8 ? "int8" : "f32").open("machine", '[');
  for (const Machine& at : r.machine) {
    json.open('{')
        .add("threads", at.threads)
        .add("read_bytes_per_second", at.memory)
        .add("read_block_bytes_per_second", at.bandwidth)
        .add("f32_operations_per_second", at.f32)
        .add("int8_operations_per_second", at.int8);
    if (at.join > 0) json.add("join_seconds", at.join);
    json.close('}');
  }
  json.close(']');
  if (r.warm >= 0) json.add("start_warm_seconds", r.warm);
  if (r.cold >= 0)
    json.add("start_cold_seconds", r.cold).add("start_cold_share_in_memory", r.cold_share);
  json.add("arena_bytes", e.arena_bytes)
      .add("model_bytes", e.model_bytes)
      .add("file_bytes", e.file.bytes())
      .add("rss_bytes", r.memory.now)
      .add("rss_beyond_bytes", r.memory.beyond)
      .add("rss_own_bytes", r.memory.own)
      .add("peak_rss_bytes", r.memory.peak)
      .add("first_minor_faults", r.first.minor)
      .add("first_major_faults", r.first.major)
      .add("minor_faults", r.passes.minor)
      .add("major_faults", r.passes.major)
      .close('}');
  output(json.str() + "\n");
}

// How many tokens each phase has, and the room for them. 0, or the exit status.
int lengths(const Engine& e, const BenchOptions& o, Report* r, phasor_limits* limits) {
  uint32_t &source = r->phases[kEncode].tokens, &prompt = r->phases[kPrefill].tokens,
           &steps = r->phases[kDecode].tokens;
  const uint32_t given = count_of(o.ids.values);
  if (o.ids.given && given == 0) return usage_error("--ids: expected at least one token id");
  if (const int status = check_sides(e, o, first_given(o.length, o.n))) return status;
  if (e.has_source()) {
    source = at_most(kPassTokens, e.source.max_positions);
    if (o.source != 0) source = o.source;
    if (o.ids.given) source = given;
  }
  if (e.has_target()) {
    const bool listed = o.ids.given && !e.has_source();
    const uint32_t most = o.context != 0 ? o.context : e.target.max_positions;
    prompt = at_most(kPassTokens, most == 0 ? 0 : (most + 1) / 2);
    if (o.length != 0) prompt = o.length;
    if (listed) prompt = given;
    if (most != 0 && prompt >= most)
      return data_error("%s: %u tokens, expected fewer than the context of %u",
                        listed ? "--ids" : "--length", prompt, most);
    steps = at_most(o.n != 0 ? o.n : kPassTokens, most == 0 ? 0 : most - prompt);
  }
  *limits = e.limits_for(source, o.context != 0 ? o.context : prompt + steps);
  limits->threads = o.threads;
  limits->cache_type = o.cache;
  greedy_room(limits, 1);
  limits->beams = o.beam;
  if (o.beam != 0) r->phases[kBeam].tokens = steps;
  if (o.chunk != 0) limits->chunk = o.chunk;
  return 0;
}

int bench(const BenchOptions& o) {
  Report r;
  if (o.ids.from_input) return usage_error("--ids -: bench expected a list of ids");
  phasor_limits limits{};
  uint32_t stack = 0;
  {
    Engine probe;  // what is wrong is said before anything is measured
    if (!probe.open(o.model, o, Load::copy_if_faster)) return 1;
    if (const int status = lengths(probe, o, &r, &limits)) return status;
    stack = probe.stack;
  }
  measure_start(o, stack, &r);
  Engine e;
  if (!e.open(o.model, o, Load::copy_if_faster) || !e.start(limits) || !measure(e, o, &r)) return 1;
  count_work(e, &r);
  r.int8 = mostly_int8(e);
  measure_machine(e, &r);
  if (o.json)
    print_json(e, r, o);
  else
    print_text(e, r);
  return 0;
}

}  // namespace

const Command bench_command = command<BenchOptions, bench>(
    "bench", "MODEL", "measure speed (encoder, prefill, decode), memory and start-up time",
    "Also measures the read bandwidth and peak arithmetic of this machine, and prints the share "
    "that the model reaches. For a cold start, asks the system to drop the file from its cache.",
    "phasor bench model.phasor\n"
    "phasor bench model.phasor --threads 4 --length 128 -n 64\n"
    "phasor bench model.phasor --json");

}  // namespace cli
