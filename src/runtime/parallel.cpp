#include "pass.h"

namespace phasor {
namespace {

// multiply-adds below which waking a thread costs more than it gives
constexpr uint64_t kWorthThreads = 1u << 15;

struct Share {
  Piece piece;
  void* job;
  uint32_t units, workers;
};

void run_share(void* context, uint32_t worker) PHASOR_NONBLOCKING;  // on a worker as in a step
void run_share(void* context, uint32_t worker) {
  const Share& share = *static_cast<const Share*>(context);
  const uint64_t units = share.units;
  const uint32_t first = static_cast<uint32_t>(units * worker / share.workers);
  const uint32_t end = static_cast<uint32_t>(units * (worker + 1) / share.workers);
  const uint64_t mode = fp_mode_enter();  // a worker has its own mode (rule 1.13)
  share.piece(share.job, first, end, worker);
  fp_mode_leave(mode);
}

}  // namespace

void spread_pieces(const Session& s, uint32_t units, uint64_t cost, Piece piece,
                   void* job) noexcept {
  const uint32_t workers = units < s.plan.threads ? units : s.plan.threads;
  if (workers <= 1 || cost < kWorthThreads || s.run.pointer == nullptr) {
    if (units != 0) piece(job, 0, units, 0);
    return;
  }
  Share share{piece, job, units, workers};
  s.run.pointer(s.run_user.pointer, &run_share, &share, workers);
}

}  // namespace phasor
