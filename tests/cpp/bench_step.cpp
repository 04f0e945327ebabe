// What a decoder's step costs beside its matrix products: bench_step MODEL [STEPS]. One thread,
// everything warm.
//
// Prints one JSON object: nanoseconds (medians) of a step of one token, and of the same model's
// linear layers run back to back on one row, on the file's own weights and with the rounding of
// their inputs where the type has one; and the counter's ticks in a nanosecond where there is one
// (x86: rdtsc).
#include <phasor.h>

#include <sys/mman.h>
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernels.h"

using namespace phasor;

namespace {

double now_ns() {
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

uint64_t ticks() {
#if defined(__x86_64__)
  return __builtin_ia32_rdtsc();
#else
  return 0;
#endif
}

[[noreturn]] void die(const char* what, const char* why) {
  std::fprintf(stderr, "bench_step: %s: %s\n", what, why);
  std::exit(1);
}

template <class T>
T* aligned(size_t count) {
  void* p = aligned_alloc(64, (count * sizeof(T) + 63) / 64 * 64);
  if (p == nullptr) die("memory", "none left");
  std::memset(p, 0, count * sizeof(T));
  return static_cast<T*>(p);
}

struct Layer {
  Type type;
  size_t panels, cols;
  const unsigned char* w;
};

// The decoder's matrices in the file's order, then the one that makes the logits.
std::vector<Layer> layers_of(const phasor_model* model, const unsigned char* file) {
  std::vector<Layer> out, ends;
  for (uint32_t i = 0; i < phasor_tensor_count(model); ++i) {
    phasor_tensor t{};
    t.struct_size = sizeof t;
    if (phasor_tensor_get(model, i, &t) != PHASOR_OK || std::strcmp(t.layout, "panel16") != 0)
      continue;
    for (unsigned code = 1; code <= kTypes; ++code) {
      if (std::strcmp(t.type, kTypeNames[code]) != 0) continue;
      const Type type = static_cast<Type>(code);
      const Layer layer = {type, static_cast<size_t>(t.bytes / panel_bytes(type, t.cols)),
                           static_cast<size_t>(t.cols), file + t.offset};
      if (t.stack == 4)
        out.push_back(layer);
      else
        ends.push_back(layer);
    }
  }
  if (ends.empty()) die("model", "has no matrix for the logits");
  out.push_back(ends.back());  // the output's own stands last; a tied embedding alone
  return out;
}

struct Buffers {
  float *x, *y, *scale;
  int8_t* q;
  int32_t* sum;
};

void run_layers(const Kernels& k, const std::vector<Layer>& layers, const Buffers& b) {
  const uint64_t mode = fp_mode_enter();
  for (const Layer& l : layers) {
    const size_t groups = (l.cols + kGroup - 1) / kGroup;
    if (grouped_type(l.type)) k.quantize_row(b.q, b.scale, b.sum, b.x, l.cols);
    if (whole_type(l.type))
      k.quantize_whole(b.q, b.scale, b.sum, b.x, l.cols,
                       rotated_type(l.type) ? rotation_block(l.cols) : 0);
    if (quantized_type(l.type))
      k.linear_int8(l.type)(
          b.y, 0, b.q, b.scale, b.sum, 1, l.w, nullptr, 0, l.panels,
          whole_type(l.type) ? static_cast<size_t>(whole_groups_of(l.cols)) : groups);
    else
      k.linear_float(l.type)(b.y, 0, b.x, 0, 1, l.w, nullptr, 0, l.panels, l.cols);
  }
  fp_mode_leave(mode);
}

double median(std::vector<double>& v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  phasor_request_amx();
  if (argc < 2) die("arguments", "expected MODEL [STEPS]");
  const uint32_t steps = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 64;
  const int fd = open(argv[1], O_RDONLY);
  struct stat size{};
  if (fd < 0 || fstat(fd, &size) != 0) die(argv[1], "cannot be read");
  const size_t bytes = static_cast<size_t>(size.st_size);
  void* file = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
  if (file == MAP_FAILED) die(argv[1], "cannot be mapped");
  phasor_error error = PHASOR_ERROR_INIT;
  size_t need = 0;
  phasor_model* model = nullptr;
  if (phasor_model_size(&need, file, bytes, &error) != PHASOR_OK ||
      phasor_model_open(&model, aligned<char>(need), need, file, bytes, nullptr, &error) !=
          PHASOR_OK)
    die(argv[1], error.text);
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  if (phasor_limits_for(model, 0, steps, &limits) != PHASOR_OK || limits.source != 0)
    die(argv[1], "is no lone decoder");
  phasor_session* session = nullptr;
  if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK ||
      phasor_session_open(&session, aligned<char>(need), need, model, &limits, nullptr, &error) !=
          PHASOR_OK)
    die("session", error.text);

  const std::vector<Layer> layers = layers_of(model, static_cast<const unsigned char*>(file));
  size_t widest = 0, longest = 0;
  for (const Layer& l : layers)
    widest = std::max(widest, l.panels * kLanes), longest = std::max(longest, l.cols + kGroup);
  Buffers b = {aligned<float>(longest), aligned<float>(widest), aligned<float>(longest),
               aligned<int8_t>(longest), aligned<int32_t>(longest)};
  for (size_t i = 0; i < longest; ++i) b.x[i] = static_cast<float>(i % 7) * 0.1f;
  const Kernels& kernels = *kernels_by_name(phasor_model_isa(model));

  std::vector<double> step_ns, linear_ns;
  const double begin = now_ns();
  const uint64_t tick = ticks();
  while (step_ns.size() < 7 || (now_ns() - begin < 4e8 && step_ns.size() < 2000)) {
    (void)phasor_sequence_clear(session, 0);
    double start = now_ns();
    for (uint32_t i = 0; i < steps; ++i) {
      const uint32_t id = 1;
      phasor_item item = PHASOR_ITEM_INIT;
      item.count = 1;
      item.ids = &id;
      item.logits = PHASOR_LOGITS_LAST;
      if (phasor_step(session, &item, 1, &error) != PHASOR_OK) die("step", error.text);
    }
    step_ns.push_back((now_ns() - start) / steps);
    start = now_ns();
    for (uint32_t i = 0; i < steps; ++i) run_layers(kernels, layers, b);
    linear_ns.push_back((now_ns() - start) / steps);
  }
  const double rate = static_cast<double>(ticks() - tick) / (now_ns() - begin);
  std::printf(
      "{\"isa\": \"%s\", \"step_ns\": %.6g, \"linear_ns\": %.6g, \"layers\": %zu, \"steps\": %u, "
      "\"ticks_per_ns\": %.6g}\n",
      phasor_model_isa(model), median(step_ns), median(linear_ns), layers.size(), steps, rate);
}
