// What a fixed order of sums costs, not a test: one row times a matrix of 512 × 512 floats from
// cache, three ways, on x86 with AVX2. Prints the best of many runs, in multiply-adds a nanosecond
// of this thread's processor time.
//   panels, one chain      as the kernels do: 16 outputs a panel, one chain an output
//   panels, two chains     the same with even and odd k apart, added at the end: a free order that
//   hides more latency rows, four chains      the usual layout: a row of the matrix an output, four
//   vectors of partial sums, added across at the end
#include <cstdio>

#if defined(__x86_64__)
#include <immintrin.h>

#include <ctime>
#include <vector>

#define AVX2 __attribute__((target("avx2,fma"), noinline))

namespace {

constexpr size_t kN = 512, kK = 512, kPanels = 4;

AVX2 void panels(float* y, const float* x, const float* w, bool two) {
  for (size_t p = 0; p < kN / 16; p += kPanels) {
    __m256 a[2 * kPanels], b[2 * kPanels];
    for (size_t i = 0; i < 2 * kPanels; ++i) a[i] = b[i] = _mm256_setzero_ps();
    if (two) {
      for (size_t half = 0; half < kPanels; half += kPanels / 2)  // as many registers as there are
        for (size_t k = 0; k < kK; k += 2) {
          const __m256 even = _mm256_broadcast_ss(x + k), odd = _mm256_broadcast_ss(x + k + 1);
#pragma GCC unroll 8
          for (size_t i = 0; i < kPanels; ++i) {
            const float* at = w + (p + half + i / 2) * 16 * kK + k * 16 + i % 2 * 8;
            a[2 * half + i] = _mm256_fmadd_ps(even, _mm256_loadu_ps(at), a[2 * half + i]);
            b[2 * half + i] = _mm256_fmadd_ps(odd, _mm256_loadu_ps(at + 16), b[2 * half + i]);
          }
        }
    } else {
      for (size_t k = 0; k < kK; ++k) {
        const __m256 xk = _mm256_broadcast_ss(x + k);
#pragma GCC unroll 8
        for (size_t i = 0; i < 2 * kPanels; ++i)
          a[i] = _mm256_fmadd_ps(
              xk, _mm256_loadu_ps(w + (p + i / 2) * 16 * kK + k * 16 + i % 2 * 8), a[i]);
      }
    }
    for (size_t i = 0; i < 2 * kPanels; ++i)
      _mm256_storeu_ps(y + p * 16 + i * 8, two ? _mm256_add_ps(a[i], b[i]) : a[i]);
  }
}
AVX2 void one_chain(float* y, const float* x, const float* w) { panels(y, x, w, false); }
AVX2 void two_chains(float* y, const float* x, const float* w) { panels(y, x, w, true); }

AVX2 void rows(float* y, const float* x, const float* w) {
  for (size_t n = 0; n < kN; ++n) {
    __m256 a[4];
    for (size_t i = 0; i < 4; ++i) a[i] = _mm256_setzero_ps();
    for (size_t k = 0; k < kK; k += 32)
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i)
        a[i] = _mm256_fmadd_ps(_mm256_loadu_ps(x + k + 8 * i),
                               _mm256_loadu_ps(w + n * kK + k + 8 * i), a[i]);
    const __m256 s = _mm256_add_ps(_mm256_add_ps(a[0], a[1]), _mm256_add_ps(a[2], a[3]));
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    t = _mm_add_ps(t, _mm_movehl_ps(t, t));
    y[n] = _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
  }
}

double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
    return std::puts("this processor has no AVX2"), 0;
  std::vector<float> w(kN * kK, 0.01f), x(kK, 0.5f), y(kN);
  const struct {
    const char* name;
    void (*f)(float*, const float*, const float*);
  } ways[] = {{"panels, one chain", one_chain},
              {"panels, two chains", two_chains},
              {"rows, four chains", rows}};
  double best[3] = {1e30, 1e30, 1e30};
  for (int run = 0; run < 400; ++run)
    for (int i = 0; i < 3; ++i) {
      const double start = now();
      for (int j = 0; j < 4; ++j) ways[i].f(y.data(), x.data(), w.data());
      const double spent = (now() - start) / 4;
      best[i] = spent < best[i] ? spent : best[i];
    }
  for (int i = 0; i < 3; ++i)
    std::printf("%-20s %6.1f multiply-adds/ns\n", ways[i].name,
                static_cast<double>(kN * kK) / best[i]);
}
#else
int main() { return std::puts("bench_order: for x86 with AVX2"), 0; }
#endif
