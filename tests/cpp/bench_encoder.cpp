// The engine's side of tools/bench/encoder.py: times an encoder on batches of equal lengths, pooled
// vectors included.
//
//   bench_encoder MODEL --length N --batch B --threads T [--seconds S] [--chunk N]
//
// Ids are the same numbers as the peers get (a fixed sequence below the vocabulary). One warm
// batch, then batches until S seconds have passed, at least five. Prints one JSON object: the
// median seconds of a batch, bytes of file and arena, memory, and the first vector.
#include <phasor.h>

#include <algorithm>
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

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  uint32_t length = 64, batch = 1, threads = 1, chunk = 256;
  double seconds = 1;
  bench::read_flags(argc, argv, 2,
                    {{"--length", into(&length)},
                     {"--batch", into(&batch)},
                     {"--threads", into(&threads)},
                     {"--chunk", into(&chunk)},
                     {"--seconds", [&](const char* n) { seconds = std::strtod(n, nullptr); }}});
  if (argc < 2) die("arguments", "expected MODEL --length N --batch B --threads T");
  const unsigned long long before = memory("VmRSS:");
  size_t bytes = 0;
  const void* file = bench::load(argv[1], &bytes);
  if (file == nullptr) die(argv[1], "cannot be read");

  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0;
  phasor_model* model = nullptr;
  if (phasor_model_size(&need, file, bytes, &error) != PHASOR_OK ||
      phasor_model_open(&model, block(need), need, file, bytes, nullptr, &error) != PHASOR_OK)
    die(argv[1], error.text);
  phasor_side side{};
  side.struct_size = sizeof side;
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  if (phasor_model_side(model, PHASOR_SOURCE, &side) != PHASOR_OK ||
      phasor_limits_for(model, length, 0, &limits) != PHASOR_OK)
    die(argv[1], "is no encoder");
  limits.sequences = batch;
  limits.threads = threads;
  limits.text_bytes = 0;
  limits.chunk = std::min(chunk, batch * length);
  if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK) die("arena", error.text);
  cli::Pool pool;
  if (!pool.start(threads)) die("threads", "the system gives no more");
  const phasor_parallel parallel = pool.parallel();
  phasor_session* session = nullptr;
  if (phasor_session_open(&session, block(need), need, model, &limits,
                          threads > 1 ? &parallel : nullptr, &error) != PHASOR_OK)
    die("session", error.text);

  std::vector<uint32_t> ids(size_t(batch) * length);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<uint32_t>(uint64_t{i} * 2654435761u % side.vocabulary);
  std::vector<phasor_item> items;
  for (uint32_t b = 0; b < batch; ++b) {
    phasor_item item = PHASOR_ITEM_INIT;
    item.sequence = b;
    item.count = length;
    item.ids = &ids[size_t(b) * length];
    items.push_back(item);
  }
  std::vector<float> y(side.width), first;
  std::vector<double> times;
  for (double begin = now(); times.size() < 6 || now() - begin < seconds;) {
    const double start = now();
    if (phasor_encode(session, items.data(), batch, &error) != PHASOR_OK) die("encode", error.text);
    for (uint32_t b = 0; b < batch; ++b)
      if (phasor_embedding(session, b, PHASOR_POOL_MEAN, PHASOR_NORMALIZE_YES, y.data(), side.width,
                           &error) != PHASOR_OK)
        die("embedding", error.text);
      else if (b == 0)
        first = y;
    times.push_back(now() - start);
  }
  times.erase(times.begin());  // the warm one
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  std::printf(
      "{\"seconds\": %.9g, \"batches\": %zu, \"file\": %zu, \"arena\": %zu, \"rss_before\": %llu, "
      "\"rss_peak\": %llu, \"isa\": \"%s\", \"vector\": [",
      times[times.size() / 2], times.size(), bytes, need, before, memory("VmHWM:"),
      phasor_model_isa(model));
  for (size_t i = 0; i < first.size(); ++i)
    std::printf("%s%.9g", i == 0 ? "" : ", ", static_cast<double>(first[i]));
  std::printf("]}\n");
}
