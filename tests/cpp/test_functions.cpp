// exp, log, tanh, erf and what is made of them against the C library's double; sin and cos against
// its long double. Every 4,001st float in an ordinary run; PHASOR_SWEEP=N takes every N-th, 1 all
// of them (hours). The bounds below are those that src/kernels/functions.hpp states.
#include "kernel_data.h"
#include "share.h"

#include <algorithm>
#include <cstdlib>

using namespace kernel_test;

namespace {

constexpr size_t kBlock = 4096;

// The distance of y from `exact`, in units in the last place of the correctly rounded result (of
// the smallest normal below it).
double ulps(float y, double exact) {
  if (y != y && exact != exact) return 0.0;
  if (y != y || exact != exact) return 1e30;
  const float nearest = static_cast<float>(exact);
  if (std::isinf(nearest) || std::isinf(y)) return y == nearest ? 0.0 : 1e30;
  const int e = nearest == 0.0f ? -126 : std::max(std::ilogb(nearest), -126);
  return std::fabs((y - exact) * std::ldexp(1.0, 23 - e));
}

uint64_t sweep_step() {
  const char* wanted = std::getenv("PHASOR_SWEEP");
  return wanted != nullptr && std::atoi(wanted) > 0 ? static_cast<uint64_t>(std::atoi(wanted))
                                                    : 4001;
}

// The largest error over all floats (by steps) that `in` admits; every level must give the scalar
// level's bits.
template <class F, class Exact, class In>
double largest_error(F f, Exact exact, In in, double* absolute = nullptr) {
  const std::vector<const Kernels*> all = levels();
  std::vector<float> x, y, z;
  double worst = 0.0, worst_absolute = 0.0;
  float worst_at = 0.0f;
  const auto flush = [&] {
    y = x;
    f(kernels_scalar, y.data(), y.size());
    for (const Kernels* k : all) {
      z = x;
      f(*k, z.data(), z.size());
      const size_t at = first_difference(z.data(), y.data(), z.size());
      INFO(k->name << " at " << (at < x.size() ? x[at] : 0.0f));
      REQUIRE((at == x.size() || flushes(*k)));
    }
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = exact(x[i]), error = ulps(y[i], wanted);
      if (error > worst) {
        worst = error;
        worst_at = x[i];
      }
      worst_absolute = std::fmax(worst_absolute, std::fabs(y[i] - wanted));
    }
    x.clear();
  };
  for (uint64_t u = 0; u < 1ull << 32; u += sweep_step()) {
    const float v = float_of(static_cast<uint32_t>(u));
    if (v != v || !in(v)) continue;
    x.push_back(v);
    if (x.size() == kBlock) flush();
  }
  flush();
  if (absolute != nullptr) *absolute = worst_absolute;
  MESSAGE("largest error " << worst << " ulp, at " << worst_at << "; absolute " << worst_absolute);
  return worst;
}

}  // namespace

TEST_CASE("rule 1.12: exp within 1.02 ulp, 0 below −64, inf where it overflows") {
  const auto exact = [](float x) { return x < -64.0f ? 0.0 : std::exp(static_cast<double>(x)); };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.exp(y, n); }, exact,
                      [](float) { return true; }) < 1.02);
}

TEST_CASE("log within 0.9 ulp") {
  const auto exact = [](float x) {
    return x == 0.0f ? -HUGE_VAL : x < 0.0f ? std::nan("") : std::log(static_cast<double>(x));
  };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.log(y, n); }, exact,
                      [](float) { return true; }) < 0.9);
}

TEST_CASE("tanh within 2.6 ulp (by the soft cap at 1)") {
  const auto exact = [](float x) { return std::tanh(static_cast<double>(x)); };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.soft_cap(y, n, 1.0f); }, exact,
                      [](float) { return true; }) < 2.6);
}

TEST_CASE("erf within 1.1 ulp") {
  const auto f = [](const Kernels&, float* y, size_t n) {
    for (size_t i = 0; i < n; ++i) y[i] = erf_of(v1{y[i]}).x;
  };
  CHECK(largest_error(
            f, [](float x) { return std::erf(static_cast<double>(x)); },
            [](float) { return true; }) < 1.1);
}

TEST_CASE("rule 1.12: SiLU within 2.5 ulp, 0 below −64") {
  const auto exact = [](float x) {
    return x < -64.0f ? 0.0 : x / (1.0 + std::exp(-static_cast<double>(x)));
  };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kSilu](y, n); },
                      exact, [](float x) { return std::isfinite(x); }) < 2.5);
}

TEST_CASE("rule 1.12: GELU, absolute error below 2^-20 within ±8, 2 ulp for x > 0, 0 below −12") {
  const auto normal = [](float x) { return std::fabs(x) < 1e6f; };
  const auto erf_form = [](float x) {
    return x < -12.0f ? 0.0 : 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  };
  const auto tanh_form = [](float x) {
    const double u =
        std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * static_cast<double>(x));
    return x < -12.0f ? 0.0 : x / (1.0 + std::exp(-2.0 * u));
  };
  double a = 0.0;
  const auto small = [&](float x) { return normal(x) && std::fabs(x) <= 8.0f; };
  largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kGeluErf](y, n); },
                erf_form, small, &a);
  CHECK(a < 0x1p-20);
  largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kGeluTanh](y, n); },
                tanh_form, small, &a);
  CHECK(a < 0x1p-20);
  const auto positive = [&](float x) { return normal(x) && x > 0.0f; };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kGeluErf](y, n); },
                      erf_form, positive) < 2.0);
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kGeluTanh](y, n); },
                      tanh_form, positive) < 2.0);
}

TEST_CASE("squared ReLU is correctly rounded") {
  const auto exact = [](float x) { return x > 0 ? static_cast<double>(x) * x : 0.0; };
  const auto normal = [](float x) { return !(x > 0) || (x > 0x1p-63f && x < 0x1p63f); };
  CHECK(largest_error([](const Kernels& k, float* y, size_t n) { k.activation[kRelu2](y, n); },
                      exact, normal) <= 0.5);
}

TEST_CASE("xIELU: within 4 roundings of its terms; the formula of Huang and Schlag 2024") {
  const float numbers[] = {0.7f, 0.9f, 0.5f, -1e-6f};
  for (const Kernels* k : levels())
    for (int i = -6000; i <= 6000; ++i) {
      const float x = i == 0 ? -0.0f : static_cast<float>(i) * 0.01f * (i % 3 == 0 ? 0.001f : 1.0f);
      float y[1] = {x};
      k->xielu(y, 1, numbers);
      const double v = x, e = std::expm1(std::min<double>(v, numbers[3]));
      const double line = double{numbers[2]} * v, square = double{numbers[0]} * v * v;
      const double want = v > 0 ? square + line : (e - v) * numbers[1] + line;
      const double terms = v > 0 ? square + line : std::fabs(e) + 2 * std::fabs(v);
      CHECK(std::fabs(y[0] - want) <= 4 * 0x1p-24 * terms);
    }
}

TEST_CASE("NaN goes through every function of every level") {
  for (const Kernels* k : levels()) {
    const auto stays = [&](auto f) {
      float y[17];
      for (float& v : y) v = std::nanf("");
      f(y);
      for (float v : y) CHECK(v != v);
    };
    INFO(k->name);
    stays([&](float* y) { k->exp(y, 17); });
    stays([&](float* y) { k->log(y, 17); });
    for (const NamedActivation& f : activations())
      stays([&](float* y) { k->activation[f.code](y, 17); });
    const float numbers[] = {0.7f, 0.9f, 0.5f, -1e-6f};
    stays([&](float* y) { k->xielu(y, 17, numbers); });
    stays([&](float* y) { k->soft_cap(y, 17, 5.0f); });
  }
}

TEST_CASE("exp for softmax has the bits of exp") {
  Share share;
  for (uint64_t u = 0x80000000u; u <= 0xff800000u; u += 97) {
    if (!share.takes()) continue;
    const v1 x{float_of(static_cast<uint32_t>(u))};
    REQUIRE(bits_of(exp_not_positive(x).x) == bits_of(exp_of(x).x));
  }
}

TEST_CASE("rule 1.1: the fused multiply-add and the square root of the scalar level are exact") {
  Random random(11);
  for (int i = 0; i < 300000; ++i) {
    const float x = float_of(static_cast<uint32_t>(random.next())),
                y = float_of(static_cast<uint32_t>(random.next()));
    const float z = i % 2 == 0 ? float_of(static_cast<uint32_t>(random.next()))
                               : -x * y * (1.0f + std::ldexp(random.unit(), -20));
    REQUIRE(same(fma1(x, y, z), std::fma(x, y, z)));
    const float a = std::fabs(x);
    REQUIRE(same(sqrt1(a), std::sqrt(a)));
  }
}

TEST_CASE(
    "rule 1.10: sin and cos within 2^-52 up to 2^31, the f32 row within half an ulp and a "
    "little") {
  Random random(3);
  double worst = 0.0;
  const auto check = [&](double x) {
    double s, c;
    sin_cos(x, &s, &c);
    const long double wide = x;
    worst = std::fmax(worst, static_cast<double>(std::fabs(s - std::sin(wide))));
    worst = std::fmax(worst, static_cast<double>(std::fabs(c - std::cos(wide))));
  };
  for (double x : {0.0, 1e-300, 1.5707963267948966, 3.141592653589793, 1e9, 2147483648.0,
                   -2147483648.0, 710.0 / 226})
    check(x);
  for (int i = 0; i < 200000; ++i)
    check(std::ldexp(static_cast<double>(random.next() >> 11),
                     -53 + static_cast<int>(random.below(42)) - 10));
  // where the reduction cancels most
  for (int n = 1; n < 100000; ++n) check(n * 1.5707963267948966);
  MESSAGE("largest error of sin and cos: 2^" << std::log2(worst));
  if (sizeof(long double) > 8) CHECK(worst < 0x1p-52);
  CHECK(worst < 0x1p-51);
  double s, c;
  for (double x : {1e10, -1e300, HUGE_VAL, std::nan("")}) {
    sin_cos(x, &s, &c);
    CHECK((s != s && c != c));
  }
  unsigned char table[8 * 5 + 1];
  const double frequency[5] = {1.0, 0.1, 0.01, 1e-4, 0.7310585786300049};
  std::memcpy(table + 1, frequency, 40);
  for (uint64_t position : {0ull, 1ull, 77ull, 4095ull, 1000000ull}) {
    float sr[5], cr[5];
    sincos_row(sr, cr, 5, table + 1, position);
    for (int i = 0; i < 5; ++i) {
      const long double x = static_cast<double>(position) * frequency[i];
      CHECK(std::fabs(sr[i] - std::sin(x)) < 0x1.0001p-25L);
      CHECK(std::fabs(cr[i] - std::cos(x)) < 0x1.0001p-25L);
    }
  }
}
