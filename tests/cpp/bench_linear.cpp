// The engine's side of tools/bench/limits.py: matrix products of the best level's kernels, a
// request a line, answered with a JSON object each.
//
//   bench_linear [--threads N]
//
//   linear TYPE ROWS OUTPUTS INPUTS    any type of a matrix (f32, q8 …): median seconds of a
//   product, activations in f32 (their rounding included)
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cli/pool.h"
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
  constexpr struct {
    const char* name;
    Type type;
  } kTypes[] = {{"f32", Type::f32},   {"f16", Type::f16}, {"bf16", Type::bf16},
                {"q8", Type::q8},     {"q4", Type::q4},   {"q8r", Type::q8r},
                {"q8rh", Type::q8rh}, {"q4m", Type::q4m}, {"q4k", Type::q4k}};
  for (const auto& t : kTypes)
    if (std::strcmp(t.name, name) == 0) return t.type;
  die("expected f32, f16, bf16, q8, q4, q8r, q8rh, q4m or q4k");
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
    if (type == Type::f32)
      k.linear_f32(out, outputs, x, inputs, rows, reinterpret_cast<const float*>(at), nullptr, 0, n,
                   inputs);
    if (type == Type::f16) k.linear_f16(out, outputs, x, inputs, rows, at, nullptr, 0, n, inputs);
    if (type == Type::bf16) k.linear_bf16(out, outputs, x, inputs, rows, at, nullptr, 0, n, inputs);
    if (type == Type::q8)
      k.linear_q8(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
    if (type == Type::q4)
      k.linear_q4(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
    if (type == Type::q4m)
      k.linear_q4m(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
    if (type == Type::q4k)
      k.linear_q4k(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
    if (whole_type(type))
      k.linear_q8r(out, outputs, q, scale, sum, rows, at, nullptr, 0, n, groups());
  }
  void run(cli::Pool& pool) const {
    if (whole_type(type))
      for (size_t r = 0; r < rows; ++r)
        k.quantize_whole(q + r * groups() * kGroup, scale + r, sum + r, x + r * inputs, inputs,
                         type == Type::q8rh ? rotation_block(inputs) : 0);
    if (grouped_type(type))
      for (size_t r = 0; r < rows; ++r)
        k.quantize_row(q + r * groups() * kGroup, scale + r * groups(), sum + r * groups(),
                       x + r * inputs, inputs);
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

void answer(const Kernels& k, cli::Pool& pool, uint32_t threads, const char* line) {
  char name[16];
  unsigned rows = 0, outputs = 0, inputs = 0;
  if (std::sscanf(line, "linear %15s %u %u %u", name, &rows, &outputs, &inputs) != 4 || rows == 0 ||
      outputs % kLanes != 0 || outputs == 0 || inputs == 0)
    die("expected linear TYPE ROWS OUTPUTS INPUTS, outputs a multiple of 16");
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
  p.run(pool);
  double start = now();
  p.run(pool);
  const int repeat = static_cast<int>(std::max(1.0, 1e-3 / (now() - start + 1e-9)));
  std::vector<double> all;
  for (start = now(); all.size() < 5 || (now() - start < 0.05 && all.size() < 400);) {
    const double begin = now();
    for (int i = 0; i < repeat; ++i) p.run(pool);
    all.push_back((now() - begin) / repeat);
  }
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2),
                   all.end());
  std::printf("{\"seconds\": %.9g, \"bytes\": %zu}\n", all[all.size() / 2], bytes);
  for (void* block :
       {static_cast<void*>(p.w), static_cast<void*>(p.x), static_cast<void*>(p.y),
        static_cast<void*>(p.q), static_cast<void*>(p.scale), static_cast<void*>(p.sum)})
    free(block);
}

}  // namespace

int main(int argc, char** argv) {
  kernels_request_tiles();
  const uint32_t threads = argc == 3 && std::strcmp(argv[1], "--threads") == 0
                               ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10))
                               : 1;
  const Kernels& k = *kernels_by_name(nullptr);
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
