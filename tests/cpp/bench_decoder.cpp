// The engine's side of tools/bench/decoder.py: a decoder that answers requests, a line each, with a
// JSON object each.
//
//   bench_decoder MODEL [--threads N] [--context N] [--sequences N] [--chunk N] [--cache f16|q8]
//                 [--isa LEVEL]
//
//   prefill N      the seconds in which N tokens are read at once
//   decode P N     a prompt of P tokens, not timed, then N greedy steps: their seconds and ids
//   batch P N      the same of all sequences together, each with a prompt of its own
//   memory         what the process holds
#include <phasor.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench_file.h"
#include "cli/host/pool.h"

namespace {

using bench::block;
using bench::die;
using bench::into;
using bench::memory;
using bench::now;

class Decoder {
 public:
  Decoder(const char* path, uint32_t threads, uint32_t context, uint32_t sequences, uint32_t chunk,
          uint32_t cache, const char* isa)
      : sequences_(sequences) {
    const double start = now();
    size_t bytes = 0;
    const void* file = bench::load(path, &bytes);
    if (file == nullptr) die(path, "cannot be read");
    size_t need = 0;
    phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
    options.isa = isa;
    if (phasor_model_size(&need, file, bytes, &error_) != PHASOR_OK ||
        phasor_model_open(&model_, block(need), need, file, bytes, &options, &error_) != PHASOR_OK)
      die(path, error_.text);
    phasor_side side{};
    side.struct_size = sizeof side;
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    if (phasor_model_side(model_, PHASOR_TARGET, &side) != PHASOR_OK ||
        phasor_limits_for(model_, 0, context, &limits) != PHASOR_OK)
      die(path, "is no decoder");
    vocabulary_ = side.vocabulary;
    limits.sequences = limits.logit_rows = sequences;
    limits.threads = threads;
    limits.cache_type = cache;
    if (chunk != 0) limits.chunk = chunk;
    if (limits.chunk < sequences) limits.chunk = sequences;
    if (phasor_session_size(&need, model_, &limits, &error_) != PHASOR_OK)
      die("arena", error_.text);
    if (!pool_.start(threads)) die("threads", "the system gives no more");
    parallel_ = pool_.parallel();
    if (phasor_session_open(&session_, block(need), need, model_, &limits,
                            threads > 1 ? &parallel_ : nullptr, &error_) != PHASOR_OK)
      die("session", error_.text);
    std::printf(
        "{\"isa\": \"%s\", \"file\": %zu, \"arena\": %zu, \"chunk\": %u, \"load_seconds\": %.9g}\n",
        phasor_model_isa(model_), bytes, need, limits.chunk, now() - start);
  }

  void prefill(uint32_t n) {
    clear();
    const double start = now();
    read(0, n, PHASOR_LOGITS_LAST);
    std::printf("{\"seconds\": %.9g}\n", now() - start);
  }

  void decode(uint32_t prompt, uint32_t steps, uint32_t sequences) {
    if (sequences > sequences_) die("batch", "more than --sequences");
    clear();
    std::vector<phasor_item> items(sequences, PHASOR_ITEM_INIT);
    std::vector<uint32_t> ids(sequences), out;
    for (uint32_t s = 0; s < sequences; ++s) {
      read(s, prompt, PHASOR_LOGITS_LAST);
      ids[s] = best(0);
      items[s].sequence = s;
      items[s].count = 1;
      items[s].logits = PHASOR_LOGITS_LAST;
      items[s].ids = &ids[s];
    }
    const double start = now();
    for (uint32_t i = 0; i < steps; ++i) {
      out.push_back(ids[0]);
      if (phasor_step(session_, items.data(), sequences, &error_) != PHASOR_OK)
        die("step", error_.text);
      for (uint32_t s = 0; s < sequences; ++s) ids[s] = best(s);
    }
    std::printf("{\"seconds\": %.9g, \"ids\": [", now() - start);
    for (size_t i = 0; i < out.size(); ++i) std::printf("%s%u", i == 0 ? "" : ", ", out[i]);
    std::printf("]}\n");
  }

  uint32_t sequences() const { return sequences_; }

 private:
  void clear() {
    for (uint32_t s = 0; s < sequences_; ++s) (void)phasor_sequence_clear(session_, s);
  }
  void read(uint32_t sequence, uint32_t n, uint32_t logits) {
    std::vector<uint32_t> ids(n);
    for (uint32_t i = 0; i < n; ++i)
      ids[i] =
          static_cast<uint32_t>((uint64_t{i} * 7919 + 17 + uint64_t{sequence} * 101) % vocabulary_);
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = sequence;
    item.count = n;
    item.ids = ids.data();
    item.logits = logits;
    if (phasor_step(session_, &item, 1, &error_) != PHASOR_OK) die("prompt", error_.text);
  }
  uint32_t best(uint32_t row) {
    uint32_t id = 0;
    float logit = 0;
    if (phasor_argmax(session_, row, &id, &logit) != PHASOR_OK) die("argmax", "not finite");
    return id;
  }

  phasor_error error_ = PHASOR_ERROR_INIT;
  phasor_model* model_ = nullptr;
  phasor_session* session_ = nullptr;
  cli::Pool pool_;
  phasor_parallel parallel_{};
  uint32_t sequences_, vocabulary_ = 0;
};

uint32_t cache_of(const char* name) {
  return std::strcmp(name, "q8") == 0    ? PHASOR_CACHE_Q8
         : std::strcmp(name, "f16") == 0 ? PHASOR_CACHE_F16
                                         : PHASOR_CACHE_F32;
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  uint32_t threads = 1, context = 1024, sequences = 1, chunk = 0;
  uint32_t cache = PHASOR_CACHE_F32;
  const char* isa = nullptr;  // the best
  bench::read_flags(argc, argv, 2,
                    {{"--threads", into(&threads)},
                     {"--context", into(&context)},
                     {"--sequences", into(&sequences)},
                     {"--chunk", into(&chunk)},
                     {"--isa", [&](const char* name) { isa = name; }},
                     {"--cache", [&](const char* name) { cache = cache_of(name); }}});
  if (argc < 2) die("arguments", "expected MODEL");
  Decoder decoder(argv[1], threads, context, sequences, chunk, cache, isa);
  std::fflush(stdout);
  char line[128];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    unsigned a = 0, b = 0;
    if (std::sscanf(line, "prefill %u", &a) == 1)
      decoder.prefill(a);
    else if (std::sscanf(line, "decode %u %u", &a, &b) == 2)
      decoder.decode(a, b, 1);
    else if (std::sscanf(line, "batch %u %u", &a, &b) == 2)
      decoder.decode(a, b, decoder.sequences());
    else if (std::strncmp(line, "memory", 6) == 0)
      std::printf("{\"rss\": %llu, \"peak\": %llu, \"anonymous\": %llu, \"file_pages\": %llu}\n",
                  memory("VmRSS:"), memory("VmHWM:"), memory("RssAnon:"), memory("RssFile:"));
    else
      die(line, "unknown request");
    std::fflush(stdout);
  }
}
