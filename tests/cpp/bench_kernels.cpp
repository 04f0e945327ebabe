// Speed of the kernels, not a test: bench_kernels [--best] [LEVEL…]. Prints the median of several
// runs of each product (with
// --best the fastest, for a machine that others use too), in arithmetic
// (2·N·K operations a row) and in weights read, for one row (decoding) and several (a prompt), from
// cache and from memory.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <vector>

#include "activations.h"
#include "kernels/kernels.h"

using namespace phasor;
using Sizes = std::initializer_list<size_t>;

namespace {

// This thread's time on a processor, so that a machine that others use too matters less.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

bool best_only = false;

// Seconds of one call: the median (or the best) of 25 samples, each long enough for the clock.
template <class F>
double seconds(F f) {
  f();
  double t = now();
  f();
  const double once = now() - t;
  const int repeat = once > 2e-4 ? 1 : static_cast<int>(2e-4 / (once + 1e-9)) + 1;
  std::vector<double> all;
  for (int i = 0; i < 25; ++i) {
    t = now();
    for (int j = 0; j < repeat; ++j) f();
    all.push_back((now() - t) / repeat);
  }
  std::sort(all.begin(), all.end());
  return all[best_only ? 0 : all.size() / 2];
}

template <class T>
T* aligned(std::vector<T>& v, size_t n, T fill) {
  v.assign(n + 64, fill);
  return v.data() + (64 - reinterpret_cast<uintptr_t>(v.data()) % 64) % 64 / sizeof(T);
}

void products(const Kernels& k, size_t outputs, size_t inputs, bool whole) {
  const size_t panels = outputs / kLanes, groups = inputs / kGroup;
  std::vector<float> ws, xs, ys, ss;
  std::vector<unsigned char> qs;
  std::vector<int8_t> xq;
  std::vector<int32_t> sums;
  const size_t most = 64;
  float* w = aligned(ws, panels * kLanes * inputs, 0.01f);
  float* x = aligned(xs, most * inputs, 0.5f);
  float* y = aligned(ys, most * outputs, 0.0f);
  float* s = aligned(ss, most * groups, 0.01f);
  const size_t q_bytes = panels * static_cast<size_t>(panel_bytes(Type::q8, inputs));
  unsigned char* q = aligned(qs, q_bytes, static_cast<unsigned char>(3));
  int8_t* v = aligned(xq, most * inputs, static_cast<int8_t>(5));
  int32_t* sum = aligned(sums, most * groups, 160);
  std::printf("  %zu × %zu\n", outputs, inputs);
  for (size_t rows : Sizes{1, 2, 3, 4, 6, 8, 16, 64}) {
    if (!whole && rows > 1 && rows < 16) continue;
    const double work = 2.0 * static_cast<double>(rows * outputs * inputs);
    const double f =
        seconds([&] { k.linear_f32(y, outputs, x, inputs, rows, w, nullptr, 0, panels, inputs); });
    const double g =
        seconds([&] { k.linear_q8(y, outputs, v, s, sum, rows, q, nullptr, 0, panels, groups); });
    const double h =
        seconds([&] { k.linear_q8r(y, outputs, v, s, sum, rows, q, nullptr, 0, panels, groups); });
    std::printf(
        "    rows %2zu   f32 %7.1f GFLOP/s %6.1f GB/s   q8 %7.1f GOP/s %6.1f GB/s   "
        "q8r %7.1f GOP/s %6.1f GB/s\n",
        rows, work / f * 1e-9, static_cast<double>(outputs * inputs * 4) / f * 1e-9,
        work / g * 1e-9, static_cast<double>(q_bytes) / g * 1e-9, work / h * 1e-9,
        static_cast<double>(outputs * inputs) / h * 1e-9);
  }
}

void attention(const Kernels& k, size_t keys, size_t width) {
  const size_t pages = keys / kLanes;
  std::vector<float> store, qs, ss, os, is;
  const size_t most = 32;
  float* kv = aligned(store, pages * kLanes * width, 0.01f);
  float* q = aligned(qs, most * width, 0.5f);
  float* s = aligned(ss, most * keys, 0.0f);
  float* out = aligned(os, most * width, 0.0f);
  float* inv = aligned(is, most, 1.0f);
  std::vector<const void*> page(pages);
  for (size_t p = 0; p < pages; ++p) page[p] = kv + p * kLanes * width;
  for (size_t rows : Sizes{1, 4, 32}) {
    const double work = 2.0 * static_cast<double>(rows * keys * width);
    const double a =
        seconds([&] { k.scores[kCacheF32](s, keys, q, width, rows, page.data(), pages, width); });
    const double b = seconds([&] {
      for (size_t r = 0; r < rows; ++r) inv[r] = k.softmax(s + r * keys, 0, keys);
    });
    const double c = seconds([&] {
      k.mix[kCacheF32](out, width, s, keys, inv, rows, page.data(), {0, keys, 0, 0}, width);
    });
    std::printf(
        "    %zu keys of %zu, rows %2zu   scores %6.1f GFLOP/s   softmax %5.2f G/s   mix %6.1f "
        "GFLOP/s\n",
        keys, width, rows, work / a * 1e-9, static_cast<double>(rows * keys) / b * 1e-9,
        work / c * 1e-9);
  }
}

void one_row(const Kernels& k, size_t n) {
  std::vector<float> xs, ys, gs;
  float *x = aligned(xs, n, 0.3f), *y = aligned(ys, n, 0.1f), *g = aligned(gs, n, 1.0f);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
  std::vector<int8_t> q(n);
  std::vector<float> s(n / kGroup);
  std::vector<int32_t> sum(n / kGroup);
  const auto print = [&](const char* name, double t) {
    std::printf("  %s %.2f", name, static_cast<double>(n) / t * 1e-9);
  };
  std::printf("    G elements/s of %zu:", n);
  print("layer_norm", seconds([&] { k.layer_norm(y, x, g, g, n, 1e-5f); }));
  print("rms_norm", seconds([&] { k.rms_norm(y, x, g, nullptr, n, 1e-5f); }));
  print("quantize", seconds([&] { k.quantize_row(q.data(), s.data(), sum.data(), x, n); }));
  print("add", seconds([&] { k.add(y, x, n); }));
  float largest;
  print("argmax", seconds([&] { k.argmax(x, n, &largest); }));
  const auto function = [&](const char* name, void (*f)(float*, size_t)) {
    print(name, seconds([&] {
            std::memcpy(y, x, n * 4);
            f(y, n);
          }));
  };
  for (const NamedActivation& f : activations()) function(f.name.c_str(), k.activation[f.code]);
  std::printf("\n");
}

// What the level's multiply-adds do at most, on operands in registers.
void peaks(const Kernels& k) {
  float out[kLanes];
  const auto rate = [&](uint64_t (*peak)(float*, uint64_t)) {
    constexpr uint64_t kRounds = 2000;
    return 2e-9 * static_cast<double>(peak(out, kRounds)) / seconds([&] { peak(out, kRounds); });
  };
  std::printf("  peak   f32 %7.1f GFLOP/s   int8 %7.1f GOP/s\n", rate(k.peak_f32),
              rate(k.peak_int8));
}

}  // namespace

int main(int argc, char** argv) {
  kernels_request_tiles();
  const Kernels* all[8];
  const size_t n = kernels_available(all);
  if (argc > 1 && std::strcmp(argv[1], "--best") == 0) {
    best_only = true;
    ++argv;
    --argc;
  }
  for (size_t i = 0; i < n; ++i) {
    bool wanted = argc < 2;
    for (int a = 1; a < argc; ++a) wanted = wanted || std::strcmp(argv[a], all[i]->name) == 0;
    if (!wanted) continue;
    std::printf("%s\n", all[i]->name);
    const uint64_t mode = fp_mode_enter();
    peaks(*all[i]);
    products(*all[i], 512, 512, true);
    products(*all[i], 2048, 512, false);
    products(*all[i], 2048, 2048, false);
    products(*all[i], 32768, 512, false);
    attention(*all[i], 512, 64);
    one_row(*all[i], 2048);
    fp_mode_leave(mode);
  }
}
