// The engine's side of `make bench` (tools/bench_peer.py): times encoding and greedy decoding of given token ids, a sentence at a time.
//
//   bench_peer MODEL IDS --threads N --length L [--isa NAME] [--passes N] [--never ID]...
//   bench_peer MODEL --tokenize TEXT              prints IDS for a file with a sentence on each line
//
// IDS: a file with a sentence's source ids on each line. Each sentence is encoded and decoded to exactly L tokens; ids named with
// --never are not chosen. Prints one JSON object: seconds of each pass for encoding, for encoding plus one token and for encoding plus
// L tokens, counts of tokens, the ids, sizes of file and arena, peak memory. Public interface only.
#include <phasor.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void die(const char* what, phasor_status status, const phasor_error& error) {
  std::fprintf(stderr, "bench_peer: %s: %s: %s\n", what, phasor_status_name(status), error.text);
  std::exit(1);
}

// Workers that spin for a bounded time between pieces of work, as an application that decodes token after token would have.
class Pool {
 public:
  explicit Pool(uint32_t threads) {
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    stop_.store(true);
    for (auto& w : workers_) w.join();
  }
  static void run(void* user, phasor_task task, void* context, uint32_t count) { static_cast<Pool*>(user)->run(task, context, count); }

 private:
  // One word: the job's number, its count and the next index, so that a worker that comes late finds nothing left to take. Who takes an
  // index may read task_ and context_: they change only after every index taken is done.
  static constexpr unsigned kBits = 20;
  static constexpr uint64_t kMask = (uint64_t{1} << kBits) - 1;

  void run(phasor_task task, void* context, uint32_t count) {
    if (count == 1 || workers_.empty()) {
      for (uint32_t i = 0; i < count; ++i) task(context, i);
      return;
    }
    const uint64_t job = (ticket_.load(std::memory_order_relaxed) >> 2 * kBits) + 1;
    task_ = task;
    context_ = context;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(job << 2 * kBits | uint64_t{count} << kBits, std::memory_order_release);
    take();
    while (done_.load(std::memory_order_acquire) != count) pause();
  }
  void take() {
    uint64_t t = ticket_.load(std::memory_order_acquire);
    while ((t & kMask) < (t >> kBits & kMask)) {
      if (!ticket_.compare_exchange_weak(t, t + 1, std::memory_order_acq_rel)) continue;
      task_(context_, static_cast<uint32_t>(t & kMask));
      done_.fetch_add(1, std::memory_order_acq_rel);
      t = ticket_.load(std::memory_order_acquire);
    }
  }
  void work() {
    uint64_t seen = 0;
    for (uint32_t idle = 0; !stop_.load(std::memory_order_relaxed);) {
      const uint64_t job = ticket_.load(std::memory_order_acquire) >> 2 * kBits;
      if (job != seen) {
        take();
        seen = job;
        idle = 0;
      } else if (++idle < 200000) {
        pause();
      } else {
        std::this_thread::yield();
      }
    }
  }
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#endif
  }
  std::vector<std::thread> workers_;
  std::atomic<uint64_t> ticket_{0};
  std::atomic<uint32_t> done_{0};
  std::atomic<bool> stop_{false};
  phasor_task task_ = nullptr;
  void* context_ = nullptr;
};

// VmHWM and VmRSS of this process, in bytes.
uint64_t memory(const char* field) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind(field, 0) == 0) return std::strtoull(line.c_str() + std::strlen(field) + 1, nullptr, 10) * 1024;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char *path = nullptr, *ids_path = nullptr, *isa = nullptr, *text_path = nullptr;
  uint32_t threads = 1, length = 32, passes = 1;
  std::vector<uint32_t> never;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    if (a == "--threads") threads = static_cast<uint32_t>(std::atoi(value()));
    else if (a == "--length") length = static_cast<uint32_t>(std::atoi(value()));
    else if (a == "--passes") passes = static_cast<uint32_t>(std::atoi(value()));
    else if (a == "--isa") isa = value();
    else if (a == "--tokenize") text_path = value();
    else if (a == "--never") never.push_back(static_cast<uint32_t>(std::atoi(value())));
    else if (path == nullptr) path = argv[i];
    else ids_path = argv[i];
  }
  if (ids_path == nullptr && text_path == nullptr) {
    std::fprintf(stderr, "usage: bench_peer MODEL IDS --threads N --length L [--never ID]... [--isa NAME] [--passes N]\n");
    return 2;
  }
  std::vector<std::vector<uint32_t>> sentences;
  std::ifstream in(ids_path != nullptr ? ids_path : "");
  size_t longest = 0, source_tokens = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::vector<uint32_t> ids;
    for (uint32_t id; words >> id;) ids.push_back(id);
    if (ids.empty()) continue;
    longest = ids.size() > longest ? ids.size() : longest;
    source_tokens += ids.size();
    sentences.push_back(ids);
  }

  const uint64_t rss_before = memory("VmRSS:");
  const int fd = ::open(path, O_RDONLY);
  struct stat info {};
  if (fd < 0 || fstat(fd, &info) != 0) {
    std::fprintf(stderr, "bench_peer: %s cannot be read\n", path);
    return 1;
  }
  const size_t file_bytes = static_cast<size_t>(info.st_size);
  void* file = mmap(nullptr, file_bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  phasor_error error = PHASOR_ERROR_INIT;
  size_t model_bytes = 0, arena_bytes = 0;
  phasor_status status = phasor_model_size(&model_bytes, file, file_bytes, &error);
  if (status != PHASOR_OK) die("model size", status, error);
  const auto block = [](size_t n) { return std::aligned_alloc(PHASOR_ALIGN, (n + PHASOR_ALIGN - 1) / PHASOR_ALIGN * PHASOR_ALIGN); };
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  options.isa = isa;
  phasor_model* model = nullptr;
  status = phasor_model_open(&model, block(model_bytes), model_bytes, file, file_bytes, &options, &error);
  if (status != PHASOR_OK) die("open", status, error);
  phasor_side side{};
  side.struct_size = sizeof side;
  if (phasor_model_side(model, PHASOR_TARGET, &side) != PHASOR_OK) return 1;
  for (uint32_t i = 0; i < side.end_count; ++i) never.push_back(side.end[i]);

  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  status = phasor_limits_for(model, static_cast<uint32_t>(longest), length + 1, &limits);
  if (status != PHASOR_OK) die("limits", status, error);
  limits.threads = threads;
  if (text_path != nullptr) limits.text_bytes = 4096;
  status = phasor_session_size(&arena_bytes, model, &limits, &error);
  if (status != PHASOR_OK) die("session size", status, error);
  Pool pool(threads);
  phasor_parallel parallel{};
  parallel.struct_size = sizeof parallel;
  parallel.run = Pool::run;
  parallel.user = &pool;
  phasor_session* session = nullptr;
  status = phasor_session_open(&session, block(arena_bytes), arena_bytes, model, &limits, threads > 1 ? &parallel : nullptr, &error);
  if (status != PHASOR_OK) die("session", status, error);

  if (text_path != nullptr) {
    std::ifstream text(text_path);
    for (std::string line; std::getline(text, line);) {
      std::vector<uint32_t> ids(4096);
      size_t count = 0;
      status = phasor_text_to_ids(session, PHASOR_SOURCE, 1, ids.data(), ids.size(), &count, line.data(), line.size(), &error);
      if (status != PHASOR_OK) die("tokenize", status, error);
      for (size_t i = 0; i < count; ++i) std::printf("%u%s", ids[i], i + 1 < count ? " " : "\n");
    }
    return 0;
  }

  std::vector<std::vector<uint32_t>> out(sentences.size());
  // Encodes a sentence and decodes `count` tokens.
  const auto translate = [&](size_t s, uint32_t count) {
    phasor_item item{};
    item.struct_size = sizeof item;
    item.ids = sentences[s].data();
    item.count = static_cast<uint32_t>(sentences[s].size());
    phasor_status st = phasor_encode(session, &item, 1, &error);
    if (st != PHASOR_OK) die("encode", st, error);
    out[s].clear();
    uint32_t id = side.decoder_start;
    item.ids = &id;
    item.count = 1;
    item.logits = PHASOR_LOGITS_LAST;
    for (uint32_t n = 0; n < count; ++n) {
      st = phasor_step(session, &item, 1, &error);
      if (st != PHASOR_OK) die("step", st, error);
      float* logits = phasor_logits(session, 0);
      for (const uint32_t x : never) logits[x] = -1e30f;
      float largest = 0;
      if (phasor_argmax(session, 0, &id, &largest) != PHASOR_OK) die("argmax", PHASOR_NOT_FINITE, error);
      out[s].push_back(id);
    }
  };
  for (size_t s = 0; s < sentences.size() && s < 3; ++s) translate(s, length);  // warm-up

  std::vector<double> seconds[3];
  for (uint32_t p = 0; p < passes; ++p) {
    const uint32_t counts[3] = {0, 1, length};
    for (int k = 0; k < 3; ++k) {
      const double start = now();
      for (size_t s = 0; s < sentences.size(); ++s) translate(s, counts[k]);
      seconds[k].push_back(now() - start);
    }
  }

  const char* names[3] = {"encode", "one", "all"};
  std::printf("{\"isa\": \"%s\", \"threads\": %u, \"sentences\": %zu, \"source_tokens\": %zu, \"length\": %u", phasor_model_isa(model), threads,
              sentences.size(), source_tokens, length);
  for (int k = 0; k < 3; ++k) {
    std::printf(", \"%s\": [", names[k]);
    for (size_t i = 0; i < seconds[k].size(); ++i) std::printf("%s%.6f", i != 0 ? ", " : "", seconds[k][i]);
    std::printf("]");
  }
  std::printf(", \"file\": %zu, \"arena\": %zu, \"model\": %zu, \"rss_before\": %llu, \"rss_peak\": %llu, \"ids\": [", file_bytes, arena_bytes,
              model_bytes, static_cast<unsigned long long>(rss_before), static_cast<unsigned long long>(memory("VmHWM:")));
  for (size_t s = 0; s < out.size(); ++s) {
    std::printf("%s[", s != 0 ? ", " : "");
    for (size_t i = 0; i < out[s].size(); ++i) std::printf("%s%u", i != 0 ? ", " : "", out[s][i]);
    std::printf("]");
  }
  std::printf("]}\n");
}
