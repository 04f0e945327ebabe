// The engine's side of tools/bench/limits.py: matrix products of the best level's kernels, a
// request a line, answered with a JSON object each.
//
//   bench_linear [--threads N] [--isa LEVEL]
//
//   linear TYPE ROWS OUTPUTS INPUTS    any type of a matrix (f32, q8 …): median seconds of a
//   product, activations in f32 (their rounding included)
//   product TYPE ROWS OUTPUTS INPUTS   of the kernel alone: activations are rounded beforehand
//   peak int8 ROWS OUTPUTS INPUTS      as many of the level's raw multiply-adds of int8, on
//   operands in registers; no bytes
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cli/host/pool.h"
#include "kernels/kernels.h"

using namespace phasor;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "bench_linear: %s\n", what);
  std::exit(1);
}

template <class T>
T* aligned(size_t count) {
  void* p = aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64);
  if (p == nullptr) die("no memory");
  std::memset(p, 0, count * sizeof(T));
  return static_cast<T*>(p);
}

Type type_of(const char* name) {
  for (unsigned code = 1; code <= kTypes; ++code)
    if (std::strcmp(kTypeNames[code], name) == 0 && !no_matrix_type(static_cast<Type>(code)))
      return static_cast<Type>(code);
  die("expected " PHASOR_TYPE_NAMES);
}

struct Product {
  const Kernels& k;
  Type type;
  size_t rows, outputs, inputs, threads;
  unsigned char* w;
  float *x, *y, *scale;
  int8_t* q;
  int32_t* sum;

  size_t groups() const {
    return static_cast<size_t>(whole_type(type) ? whole_groups_of(inputs) : groups_of(inputs));
  }

  // Panels first … end − 1.
  void part(size_t first, size_t end) const {
    const unsigned char* at = w + first * static_cast<size_t>(panel_bytes(type, inputs));
    float* out = y + first * kLanes;
    const size_t n = end - first;
    if (quantized_type(type))
      k.linear_int8(type)(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
    else
      k.linear_float(type)(out, outputs, x, inputs, rows, at, nullptr, 0, n, inputs);
  }
  void round_rows() const {
    if (whole_type(type))
      for (size_t r = 0; r < rows; ++r)
        k.quantize_whole(q + r * groups() * kGroup, scale + r, sum + r, x + r * inputs, inputs,
                         rotated_type(type) ? rotation_block(inputs) : 0);
    if (grouped_type(type))
      for (size_t r = 0; r < rows; ++r)
        k.quantize_row(q + r * groups() * kGroup, scale + r * groups(), sum + r * groups(),
                       x + r * inputs, inputs);
  }
  void multiply(cli::Pool& pool) const {
    pool.run(
        [](void* self, uint32_t i) {
          const Product& p = *static_cast<const Product*>(self);
          const size_t panels = p.outputs / kLanes;
          const uint64_t mode = fp_mode_enter();
          p.part(panels * i / p.threads, panels * (i + 1) / p.threads);
          fp_mode_leave(mode);
        },
        const_cast<Product*>(this), static_cast<uint32_t>(threads));
  }
};

// Median seconds of f, of at least five times and for 50 ms.
template <class F>
double seconds_of(F f) {
  f();
  double start = now();
  f();
  const int repeat = static_cast<int>(std::max(1.0, 1e-3 / (now() - start + 1e-9)));
  std::vector<double> all;
  for (start = now(); all.size() < 5 || (now() - start < 0.05 && all.size() < 400);) {
    const double begin = now();
    for (int i = 0; i < repeat; ++i) f();
    all.push_back((now() - begin) / repeat);
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  return all[all.size() / 2];
}

// What the level's multiply-adds take for so many, at most: operands in registers.
double peak_seconds(const Kernels& k, cli::Pool& pool, uint32_t threads, double operations) {
  constexpr uint64_t kRounds = 2000;
  float out[kLanes];
  const double made = static_cast<double>(k.peak_int8(out, kRounds)) * threads;
  const double seconds = seconds_of([&] {
    pool.run(
        [](void* self, uint32_t) {
          float y[kLanes];
          (void)static_cast<const Kernels*>(self)->peak_int8(y, kRounds);
        },
        const_cast<Kernels*>(&k), threads);
  });
  return seconds * operations / made;
}

void answer(const Kernels& k, cli::Pool& pool, uint32_t threads, const char* line) {
  char what[16], name[16];
  unsigned rows = 0, outputs = 0, inputs = 0;
  if (std::sscanf(line, "%15s %15s %u %u %u", what, name, &rows, &outputs, &inputs) != 5 ||
      rows == 0 || outputs % kLanes != 0 || outputs == 0 || inputs == 0)
    die("expected linear, product or peak TYPE ROWS OUTPUTS INPUTS, outputs a multiple of 16");
  const double operations = static_cast<double>(rows) * outputs * inputs;
  if (std::strcmp(what, "peak") == 0) {
    if (std::strcmp(name, "int8") != 0) die("expected peak int8");
    std::printf("{\"seconds\": %.9g}\n", peak_seconds(k, pool, threads, operations));
    return;
  }
  const bool rounds = std::strcmp(what, "linear") == 0;
  if (!rounds && std::strcmp(what, "product") != 0) die("expected linear, product or peak");
  Product p{k,       type_of(name), rows,    outputs, inputs,  threads,
            nullptr, nullptr,       nullptr, nullptr, nullptr, nullptr};
  const size_t bytes = outputs / kLanes * static_cast<size_t>(panel_bytes(p.type, inputs));
  p.w = aligned<unsigned char>(bytes);
  // ordinary numbers in every type
  for (size_t i = 0; i < bytes; ++i)
    p.w[i] = static_cast<unsigned char>(i % 2 == 0 ? i / 2 % 61 : 0x3c);
  p.x = aligned<float>(size_t{rows} * inputs);
  for (size_t i = 0; i < size_t{rows} * inputs; ++i)
    p.x[i] = static_cast<float>(static_cast<int>(i * 37 % 201) - 100) * 0.01f;
  p.y = aligned<float>(size_t{rows} * outputs);
  p.q = aligned<int8_t>(rows * p.groups() * kGroup);
  p.scale = aligned<float>(rows * p.groups());
  p.sum = aligned<int32_t>(rows * p.groups());
  p.round_rows();
  const double seconds = seconds_of([&] {
    if (rounds) p.round_rows();
    p.multiply(pool);
  });
  std::printf("{\"seconds\": %.9g, \"bytes\": %zu}\n", seconds, bytes);
  for (void* block :
       {static_cast<void*>(p.w), static_cast<void*>(p.x), static_cast<void*>(p.y),
        static_cast<void*>(p.q), static_cast<void*>(p.scale), static_cast<void*>(p.sum)})
    free(block);
}

}  // namespace

int main(int argc, char** argv) {
  kernels_request_tiles();
  uint32_t threads = 1;
  const char* isa = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--threads") == 0)
      threads = static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    else if (std::strcmp(argv[i], "--isa") == 0)
      isa = argv[i + 1];
    else
      die("expected --threads N or --isa LEVEL");
  }
  if (kernels_by_name(isa) == nullptr) die("this machine has no such level");
  const Kernels& k = *kernels_by_name(isa);
  cli::Pool pool;
  if (!pool.start(threads)) die("the system gives no more threads");
  std::printf("{\"isa\": \"%s\"}\n", k.name);
  std::fflush(stdout);
  char line[128];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    answer(k, pool, threads, line);
    std::fflush(stdout);
  }
}
