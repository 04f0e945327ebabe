// Runs the test vectors of weight files in many ways that must not matter and prints the hash of
// the logits of each:
//
//   hash_driver [--isa NAME] [--threads 1,2,3,7] [--chunk 0,1,7] [--pairs] MODEL…       (--pairs:
//   the first of each, the second of each, …) vector MODEL INDEX HASH isa=NAME threads=N chunk=N
//   (chunk 0: the plan's own)
//
// A model of kCaches has rows of the names MODEL+f16 and MODEL+q8 too, with the decoder's cache in
// these types (its vectors were computed without rounding: only the hash counts).
//
// Without --isa: every level that runs here. A second session on the same model runs beside the
// first with two threads, so that what else is going on is one more thing that must not matter.
// Exit status 1 when a vector fails. Public interface only.
#include <phasor.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

// The caller's threads of phasor_parallel: `threads` − 1 workers and the caller take indices until
// none is left.
class Pool {
 public:
  explicit Pool(uint32_t threads) {
    for (uint32_t i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& w : workers_) w.join();
  }
  static void run(void* user, phasor_task task, void* context, uint32_t count) {
    static_cast<Pool*>(user)->run(task, context, count);
  }

 private:
  void run(phasor_task task, void* context, uint32_t count) {
    std::unique_lock<std::mutex> hold(mutex_);
    task_ = task;
    context_ = context;
    count_ = count;
    next_ = done_ = 0;
    wake_.notify_all();
    take(hold);
    finished_.wait(hold, [this] { return done_ == count_; });
    count_ = next_ = done_ = 0;
  }
  void take(std::unique_lock<std::mutex>& hold) {
    while (next_ < count_) {
      const uint32_t index = next_++;
      hold.unlock();
      task_(context_, index);
      hold.lock();
      if (++done_ == count_) finished_.notify_all();
    }
  }
  void work() {
    std::unique_lock<std::mutex> hold(mutex_);
    for (;;) {
      wake_.wait(hold, [this] { return stop_ || next_ < count_; });
      if (stop_) return;
      take(hold);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::vector<std::thread> workers_;
  phasor_task task_ = nullptr;
  void* context_ = nullptr;
  uint32_t count_ = 0, next_ = 0, done_ = 0;
  bool stop_ = false;
};

struct Aligned {
  explicit Aligned(size_t bytes)
      : data(std::aligned_alloc(PHASOR_ALIGN,
                                (bytes + PHASOR_ALIGN - 1) / PHASOR_ALIGN * PHASOR_ALIGN)) {}
  ~Aligned() { std::free(data); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  void* data;
};

int failures = 0;

void fail(const std::string& model, const char* what, phasor_status status,
          const phasor_error& error) {
  std::printf("FAIL %s %s: %s: %s\n", model.c_str(), what, phasor_status_name(status), error.text);
  ++failures;
}

std::vector<uint32_t> numbers(const char* text) {
  std::vector<uint32_t> out;
  for (char* end; *text != 0; text = *end == ',' ? end + 1 : end) {
    out.push_back(static_cast<uint32_t>(std::strtoul(text, &end, 10)));
    if (end == text) return {};
  }
  return out;
}

constexpr const char* kCaches[] = {"tiny-rotary-f32", "tiny-clipped-q8"};
constexpr struct {
  uint32_t type;
  const char* name;
} kTypes[] = {{PHASOR_CACHE_F16, "+f16"}, {PHASOR_CACHE_Q8, "+q8"}};

// The hash of one vector, in an arena of its own; false when it fails.
bool hash_of(uint64_t* hash, const std::string& name, const phasor_model* model, uint32_t index,
             uint32_t threads, uint32_t chunk, uint32_t cache = PHASOR_CACHE_F32) {
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_vector vector{};
  vector.struct_size = sizeof vector;
  phasor_status status = phasor_vector_get(model, index, &vector);
  if (status != PHASOR_OK) return fail(name, "vector", status, error), false;
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  status = phasor_limits_for(model, vector.source_count, vector.target_count, &limits);
  if (status != PHASOR_OK) return fail(name, "limits", status, error), false;
  if (chunk != 0) limits.chunk = chunk;
  limits.threads = threads;
  limits.cache_type = cache;
  size_t need = 0;
  status = phasor_session_size(&need, model, &limits, &error);
  if (status != PHASOR_OK) return fail(name, "session size", status, error), false;
  const Aligned arena(need);
  Pool pool(threads);
  phasor_parallel parallel{};
  parallel.struct_size = sizeof parallel;
  parallel.run = Pool::run;
  parallel.user = &pool;
  phasor_session* session = nullptr;
  status = phasor_session_open(&session, arena.data, need, model, &limits,
                               threads > 1 ? &parallel : nullptr, &error);
  if (status != PHASOR_OK) return fail(name, "session", status, error), false;
  phasor_vector_result result{};
  result.struct_size = sizeof result;
  status = phasor_vector_run(session, index, &result, &error);
  *hash = result.hash;
  if (status != PHASOR_OK && !(status == PHASOR_MISMATCH && cache != PHASOR_CACHE_F32))
    return fail(name, "vector", status, error), false;
  return true;
}

void run(const char* path, const char* isa, const std::vector<uint32_t>& threads,
         const std::vector<uint32_t>& chunks) {
  const char* slash = std::strrchr(path, '/');
  std::string name = slash != nullptr ? slash + 1 : path;
  if (const size_t dot = name.rfind(".phasor"); dot != std::string::npos) name.resize(dot);

  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) {
    std::printf("FAIL %s cannot be read\n", path);
    ++failures;
    return;
  }
  std::fseek(f, 0, SEEK_END);
  const size_t bytes = static_cast<size_t>(std::ftell(f));
  std::rewind(f);
  const Aligned file(bytes);
  const bool whole = std::fread(file.data, 1, bytes, f) == bytes;
  std::fclose(f);
  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0;
  phasor_status status =
      whole ? phasor_model_size(&need, file.data, bytes, &error) : PHASOR_BAD_FILE;
  if (status != PHASOR_OK) return fail(name, "model size", status, error);
  const Aligned memory(need);
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  options.isa = isa;
  phasor_model* model = nullptr;
  status = phasor_model_open(&model, memory.data, need, file.data, bytes, &options, &error);
  if (status != PHASOR_OK) return fail(name, "open", status, error);

  for (const uint32_t t : threads)
    for (const uint32_t c : chunks)
      for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
        uint64_t hash = 0, beside = 0;
        bool fine = true, fine_beside = true;
        if (t == 2) {
          std::thread other([&] { fine_beside = hash_of(&beside, name, model, i, 1, c); });
          fine = hash_of(&hash, name, model, i, t, c);
          other.join();
          if (beside != hash) fine = false;
        } else {
          fine = hash_of(&hash, name, model, i, t, c);
        }
        if (!fine || !fine_beside) ++failures;
        std::printf("vector %s %u %016llx isa=%s threads=%u chunk=%u\n", name.c_str(), i,
                    static_cast<unsigned long long>(hash), isa, t, c);
        bool both = false;
        for (const char* other : kCaches) both = both || name == other;
        for (const auto& cache : kTypes) {
          if (!both) continue;
          if (!hash_of(&hash, name + cache.name, model, i, t, c, cache.type)) ++failures;
          std::printf("vector %s%s %u %016llx isa=%s threads=%u chunk=%u\n", name.c_str(),
                      cache.name, i, static_cast<unsigned long long>(hash), isa, t, c);
        }
      }
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  std::vector<uint32_t> threads = {1, 2, 3, 7}, chunks = {0, 1, 7};
  const char* isa = nullptr;
  bool pairs = false;
  std::vector<const char*> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--isa") == 0 && i + 1 < argc)
      isa = argv[++i];
    else if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
      threads = numbers(argv[++i]);
    else if (std::strcmp(argv[i], "--chunk") == 0 && i + 1 < argc)
      chunks = numbers(argv[++i]);
    else if (std::strcmp(argv[i], "--pairs") == 0)
      pairs = true;
    else
      paths.push_back(argv[i]);
  }
  if (paths.empty() || threads.empty() || chunks.empty() ||
      (pairs && threads.size() != chunks.size())) {
    std::fprintf(
        stderr,
        "usage: hash_driver [--isa NAME] [--threads N,N] [--chunk N,N] [--pairs] MODEL...\n");
    return 2;
  }
  std::printf("numerics %u\n", phasor_numerics());
  for (uint32_t k = 0; phasor_isa_name(k) != nullptr; ++k) {
    if (isa != nullptr && std::strcmp(isa, phasor_isa_name(k)) != 0) continue;
    std::printf("isa %s\n", phasor_isa_name(k));
    for (const char* path : paths) {
      if (!pairs) run(path, phasor_isa_name(k), threads, chunks);
      for (size_t i = 0; pairs && i < threads.size(); ++i)
        run(path, phasor_isa_name(k), {threads[i]}, {chunks[i]});
    }
  }
  return failures == 0 ? 0 : 1;
}
