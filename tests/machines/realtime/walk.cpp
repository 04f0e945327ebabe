// Walks through what a real-time thread may call, on every model at every level with one thread and
// two, under clang's RealtimeSanitizer: a call of an allocator, of a lock that blocks or of the
// system ends the program with a report. Built and run by `make realtime`.
//
//   walk MODEL…                   the walk; which functions it took, and how often
//   walk --forbidden NAME MODEL   one forbidden thing, which must be reported: malloc, lock, read,
//   write, sleep
#include <fcntl.h>
#include <sanitizer/rtsan_interface.h>
#include <unistd.h>

#include <atomic>
#include <mutex>

#include "../../../src/cli/host/pool.h"
#include "walk.h"

#if !__has_feature(realtime_sanitizer)
#error "this is to be compiled with clang's -fsanitize=realtime"
#endif

namespace {

template <class F>
phasor_status around(const std::string&, F call) {
  return call();
}

// ------------------------------------------------------------------ threads

// The program's pool locks and parks, outside of the pieces: its own part is not looked at, the
// pieces are, on the calling thread and on the workers.
cli::Pool pool;
std::atomic<unsigned> on_workers{0};
thread_local bool calling = false;

struct Piece {
  phasor_task task;
  void* context;
  unsigned before;  // pieces on workers until now
};

void run_piece(void* piece, uint32_t index) {
  const Piece& p = *static_cast<const Piece*>(piece);
  if (!calling) {
    on_workers.fetch_add(1, std::memory_order_relaxed);
    return p.task(p.context, index);
  }
  // leave one to a worker, if one comes
  for (int i = 0; i < 50 && on_workers == p.before; ++i) ::usleep(100);
  __rtsan_enable();
  p.task(p.context, index);
  __rtsan_disable();
}

void run_pieces(void*, phasor_task task, void* context, uint32_t count) {
  Piece piece{task, context, on_workers};
  __rtsan_disable();
  calling = true;
  pool.run(&run_piece, &piece, count);
  calling = false;
  __rtsan_enable();
}

int walk_all(int count, char** paths) {
  unsigned sessions = 0;
  std::string levels;
  for (uint32_t k = 0; phasor_isa_name(k) != nullptr; ++k) {
    levels += std::string(" ") + phasor_isa_name(k);
    for (int i = 0; i < count; ++i)
      for (uint32_t threads = 1; threads <= 2; ++threads, ++sessions)
        walk(Opened(paths[i], phasor_isa_name(k), threads, PHASOR_CACHE_F32, run_pieces));
  }
  for (int i = 0; i < count; ++i)
    if (std::strstr(paths[i], "rotary-") != nullptr)
      walk(Opened(paths[i], nullptr, 2, PHASOR_CACHE_F16, run_pieces)), ++sessions;
  if (on_workers == 0) give_up("threads", "no worker had a piece");
  calls["(pieces on workers)"] = on_workers;
  for (const auto& [name, times] : calls) std::printf("took %s %u\n", name.c_str(), times);
  std::printf("%u sessions, levels%s\n", sessions, levels.c_str());
  return failures != 0;
}

// ------------------------------------------------------------------ what must be reported

std::mutex mutex;
int null_device = -1;

void* volatile allocated = nullptr;  // or the compiler leaves the pair of calls out
int allocate(void*, uint32_t, uint32_t, uint32_t) {
  allocated = std::malloc(16);
  std::free(allocated);
  return 0;
}
int write_out(void*, uint32_t, uint32_t) { return ::write(null_device, "x", 1) != 1; }
void read_in(void*, const phasor_view*) {
  char byte;
  if (::read(null_device, &byte, 1) > 0) ++seen.bytes;
}
int rest(void*, float*, uint32_t, const uint32_t*, uint32_t) { return ::usleep(1) != 0; }
void run_locked(void*, phasor_task task, void* context, uint32_t count) {
  const std::lock_guard<std::mutex> hold(mutex);
  for (uint32_t i = 0; i < count; ++i) task(context, i);
}

int forbidden(const std::string& what, const char* path) {
  null_device = ::open("/dev/null", O_RDWR);
  const Opened s(path, nullptr, 2, PHASOR_CACHE_F32, what == "lock" ? run_locked : run_pieces);
  const phasor_callbacks callbacks = {sizeof callbacks, what == "read" ? read_in : see,
                                      what == "malloc" ? allocate : progress, nullptr, nullptr};
  phasor_session_callbacks(s.session, &callbacks);
  phasor_generate_options options = PHASOR_GENERATE_OPTIONS_INIT;
  options.token = what == "write" ? write_out : token;
  options.logits = what == "sleep" ? rest : logits;
  phasor_generation made = PHASOR_GENERATION_INIT;
  const Ids source = made_up(12, s.side.vocabulary, 1);
  const phasor_item item = item_of(source, 0, PHASOR_LOGITS_NONE);
  uint32_t out[4];
  phasor_error error = PHASOR_ERROR_INIT;
  (void)phasor_encode(s.session, &item, 1, &error);
  (void)phasor_generate(s.session, 0, nullptr, 0, out, 4, &options, &made, &error);
  std::printf("nothing was reported: %s\n", error.text);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  if (!pool.start(2)) give_up("threads", "none");
  if (argc == 4 && std::strcmp(argv[1], "--forbidden") == 0) return forbidden(argv[2], argv[3]);
  if (argc < 2)
    return std::fprintf(stderr, "usage: walk MODEL... | walk --forbidden NAME MODEL\n"), 2;
  return walk_all(argc - 1, argv + 1);
}
