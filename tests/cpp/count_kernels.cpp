// Runs each kernel once between two marks, for a counter of instructions
// (tests/machines/cross/instructions.py): count_kernels [LEVEL…]
//   case NUMBER LEVEL KERNEL WORK        WORK: multiply-adds, or elements where a kernel is no
//   product
// A mark is the system call getpgid(1000000 + n), which fails and changes nothing: 2·NUMBER before
// the kernel, 2·NUMBER + 1 after it. On a board without a system it is the hint instruction of
// number 14, which does nothing; the counter numbers them.
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
#define COUNT_BARE_METAL 1
#else
#include <unistd.h>
#endif

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "activations.h"
#include "kernels/kernels.h"

using namespace phasor;

namespace {

constexpr size_t kOutputs = 128, kInputs = 256, kRows = 16, kKeys = 128, kWidth = 64;

template <class T>
T* aligned(size_t n, T fill) {
  static std::vector<std::vector<unsigned char>> kept;
  kept.emplace_back(n * sizeof(T) + 64);
  unsigned char* p = kept.back().data();
  p += (64 - reinterpret_cast<uintptr_t>(p) % 64) % 64;
  T* t = reinterpret_cast<T*>(p);
  for (size_t i = 0; i < n; ++i) t[i] = fill;
  return t;
}

int number = 0;

// Apart and aligned: QEMU's plugins do not see an instruction that is the last but one of a page.
__attribute__((noinline, aligned(16))) void mark(int n) {
#if defined(COUNT_BARE_METAL)
  static_cast<void>(n);
  __asm__ volatile(".inst.n 0xbfe0" ::: "memory");
#else
  if (getpgid(1000000 + n) != -1) std::puts("FAIL a process has a number that marks use");
#endif
}

template <class F>
void count(const char* level, const std::string& name, size_t work, F f) {
  std::printf("case %d %s %s %lu\n", number, level, name.c_str(), static_cast<unsigned long>(work));
  mark(2 * number);
  f();
  mark(2 * number + 1);
  ++number;
}

void kernels(const Kernels& k) {
  const size_t panels = kOutputs / kLanes, groups = kInputs / kGroup, pages = kKeys / kLanes;
  float* w = aligned<float>(kOutputs * kInputs, 0.01f);
  unsigned char* q =
      aligned<unsigned char>(panels * static_cast<size_t>(panel_bytes(Type::q8, kInputs)), 3);
  float *x = aligned<float>(kRows * kInputs, 0.5f), *y = aligned<float>(kRows * kInputs, 0.0f),
        *bias = aligned<float>(kOutputs, 1.0f);
  int8_t* v = aligned<int8_t>(kRows * kInputs, 5);
  float* scale = aligned<float>(kRows * groups, 0.01f);
  int32_t* sum = aligned<int32_t>(kRows * groups, 160);
  for (const size_t rows : {size_t{1}, size_t{4}, kRows}) {
    const std::string end = ", " + std::to_string(rows) + (rows == 1 ? " row" : " rows");
    const size_t work = rows * kOutputs * kInputs;
    const auto name = [&](const char* base) {
      std::string s = base + end;
      for (char& c : s) c = c == ' ' ? '_' : c;
      return s;
    };
    count(k.name, name("linear f32"), work,
          [&] { k.linear_f32(y, kOutputs, x, kInputs, rows, w, bias, kOutputs, panels, kInputs); });
    count(k.name, name("linear f16"), work,
          [&] { k.linear_f16(y, kOutputs, x, kInputs, rows, w, bias, kOutputs, panels, kInputs); });
    count(k.name, name("linear bf16"), work, [&] {
      k.linear_bf16(y, kOutputs, x, kInputs, rows, w, bias, kOutputs, panels, kInputs);
    });
#define PHASOR_COUNT(type, ...)                                                             \
  count(k.name, name("linear " #type), work, [&] {                                          \
    k.linear_##type(y, kOutputs, v, scale, sum, rows, q, bias, kOutputs, panels, groups);   \
  });
    PHASOR_INT8_TYPES(PHASOR_COUNT, )
  }
  std::vector<const void*> page(pages), half(pages), bytes(pages);
  for (size_t p = 0; p < pages; ++p) {
    page[p] = w + p * kLanes * kWidth;
    half[p] = reinterpret_cast<const uint16_t*>(w) + p * kLanes * kWidth;
    bytes[p] =
        reinterpret_cast<const unsigned char*>(w) + p * static_cast<size_t>(cache_q8_bytes(kWidth));
  }
  float* one = aligned<float>(kRows, 1.0f);
  for (const size_t rows : {size_t{1}, kRows}) {
    const std::string end = rows == 1 ? ",_1_row" : ",_16_rows";
    const size_t work = rows * kKeys * kWidth;
    count(k.name, "scores_f32" + end, work,
          [&] { k.scores[kCacheF32](y, kKeys, x, kWidth, rows, page.data(), pages, kWidth); });
    count(k.name, "scores_f16" + end, work,
          [&] { k.scores[kCacheF16](y, kKeys, x, kWidth, rows, half.data(), pages, kWidth); });
    count(k.name, "scores_q8" + end, work,
          [&] { k.scores[kCacheQ8](y, kKeys, x, kWidth, rows, bytes.data(), pages, kWidth); });
    count(k.name, "mix_f32" + end, work, [&] {
      k.mix[kCacheF32](y, kWidth, x, kKeys, one, rows, page.data(), {0, kKeys, 0, 0}, kWidth);
    });
    count(k.name, "mix_f16" + end, work, [&] {
      k.mix[kCacheF16](y, kWidth, x, kKeys, one, rows, half.data(), {0, kKeys, 0, 0}, kWidth);
    });
    count(k.name, "mix_q8" + end, work, [&] {
      k.mix[kCacheQ8](y, kWidth, x, kKeys, one, rows, bytes.data(), {0, kKeys, 0, 0}, kWidth);
    });
  }
  for (size_t i = 0; i < kInputs; ++i) x[i] = static_cast<float>(i % 17) * 0.25f - 2.0f;
  const size_t n = kInputs;
  const auto fresh = [&] { std::memcpy(y, x, n * 4); };
  fresh();
  count(k.name, "softmax", n, [&] { k.softmax(y, 0, n); });
  count(k.name, "layer_norm", n, [&] { k.layer_norm(y, x, w, w, n, 1e-5f); });
  count(k.name, "rms_norm", n, [&] { k.rms_norm(y, x, w, nullptr, n, 1e-5f); });
  count(k.name, "quantize_row", n, [&] { k.quantize_row(v, scale, sum, x, n); });
  count(k.name, "add", n, [&] { k.add(y, x, n); });
  for (const NamedActivation& f : activations()) {
    fresh();
    count(k.name, f.name, n, [&] { k.activation[f.code](y, n); });
  }
  fresh();
  count(k.name, "exp", n, [&] { k.exp(y, n); });
  float largest;
  count(k.name, "argmax", n, [&] { k.argmax(x, n, &largest); });
}

}  // namespace

int main(int argc, char** argv) {
  const Kernels* all[8];
  const size_t n = kernels_available(all);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  count("-", "nothing", 0, [] {});
  const uint64_t mode = fp_mode_enter();
  for (size_t i = 0; i < n; ++i) {
    bool wanted = argc < 2;
    for (int a = 1; a < argc; ++a) wanted = wanted || std::strcmp(argv[a], all[i]->name) == 0;
    if (wanted) kernels(*all[i]);
  }
  fp_mode_leave(mode);
}
