// exp, log, tanh, erf and the activations made of them, in f32: templates over a vector type V (v1
// or v16), so that every level evaluates the same expression with the same roundings.
// The coefficients are this project's own minimax fits (Lawson-weighted least squares on Chebyshev
// nodes, rounded to f32 from the lowest power up, the rest refitted after each rounding). The
// errors stated are the largest over all floats, in units in the last place of the correctly
// rounded result; tests/cpp/test_functions.cpp measures them (a sample, or all on request).
#pragma once
#include "../activations.h"
#include "scalar_math.h"

namespace phasor {
namespace {

constexpr float kRound =
    12582912.0f;  // 1.5·2^23: adding it rounds to an integer, ties to even, below 2^22
// Inputs of a product in whole numbers up to kMost, at kPart of the largest (1.3, and of two planes
// 1.21); of a group or row whose largest is below kLeast all are 0.
template <size_t Planes>
struct IntInputs {
  static constexpr float kMost = 127.0f, kPart = 0x1.020408p-7f, kLeast = 0x1p-80f;
};
template <>
struct IntInputs<2> {
  static constexpr float kMost = 32512.0f, kPart = 0x1.020408p-15f, kLeast = 0x1p-72f;
};
constexpr float kLog2e = 0x1.715476p+0f;
constexpr float kLn2 = 0x1.62e430p-1f, kLn2Low = -0x1.05c610p-29f;  // ln 2 = kLn2 + kLn2Low + 2^-57
constexpr float kInfinity = __builtin_inff();

// e^r − 1 for |r| ≤ ½ln 2, relative error 2^-28 of e^r.
template <class V>
PHASOR_INLINE V exp_core(V r) {
  V q = fma(V::set(0x1.6a4744p-10f), r, V::set(0x1.1239a2p-7f));
  q = fma(q, r, V::set(0x1.5558b6p-5f));
  q = fma(q, r, V::set(0x1.555492p-3f));
  q = fma(q, r, V::set(0x1.fffffcp-2f));
  return fma(r * r, q, r);
}

// e^x for x ≤ 0 (softmax); 0 below −64 (1.12). The same bits as exp_of, with one scaling less.
template <class V>
PHASOR_INLINE V exp_not_positive(V x) {
  const V t = fma(x, V::set(kLog2e), V::set(kRound)), n = t - V::set(kRound);
  V r = fma(n, V::set(-kLn2), x);
  r = fma(n, V::set(-kLn2Low), r);
  const V y = (exp_core(r) + V::set(1.0f)) * pow2_of_rounded(t);
  return where_gt(V::set(-64.0f), x, V::set(0.0f), y);
}

// e^x within 1.02 ulp; 0 below −64 (1.12), +inf from 88.7229 on. The scale 2^n is applied in two
// exact steps, since n may be 128.
template <class V>
PHASOR_INLINE V exp_of(V x) {
  const V c = where_gt(x, V::set(89.0f), V::set(89.0f), x);
  const V n = fma(c, V::set(kLog2e), V::set(kRound)) - V::set(kRound);
  V r = fma(n, V::set(-kLn2), c);
  r = fma(n, V::set(-kLn2Low), r);
  const V t1 = fma(n, V::set(0.5f), V::set(kRound)),
          t2 = (n - (t1 - V::set(kRound))) + V::set(kRound);
  const V y = (exp_core(r) + V::set(1.0f)) * pow2_of_rounded(t1) * pow2_of_rounded(t2);
  return where_gt(V::set(-64.0f), x, V::set(0.0f), y);
}

// Natural logarithm within 0.9 ulp. 0 gives −inf, x < 0 gives NaN, subnormals are exact inputs.
template <class V>
PHASOR_INLINE V log_of(V x) {
  const V tiny = V::set(0x1p-126f);
  const V up = where_gt(tiny, x, x * V::set(0x1p24f), x);
  V m = x, e = x;
  split(up, m, e);
  e = where_gt(tiny, x, e - V::set(24.0f), e);
  const V f = m - V::set(1.0f), z = f * f;
  V p = fma(V::set(-0x1.420384p-4f), f, V::set(0x1.07d7b8p-3f));
  p = fma(p, f, V::set(-0x1.0cdf2cp-3f));
  p = fma(p, f, V::set(0x1.226d02p-3f));
  p = fma(p, f, V::set(-0x1.547890p-3f));
  p = fma(p, f, V::set(0x1.99a5aap-3f));
  p = fma(p, f, V::set(-0x1.000220p-2f));
  p = fma(p, f, V::set(0x1.55554ap-2f));
  V y = p * (f * z);
  y = fma(e, V::set(kLn2Low), y);
  y = fma(V::set(-0.5f), z, y) + f;
  y = fma(e, V::set(kLn2), y);
  y = where_gt(x, V::set(FLT_MAX), x, y);
  // NaN stays
  const V bad =
      where_gt(V::set(0.0f), x, V::set(__builtin_nanf("")), V::set(-kInfinity)) + x * V::set(0.0f);
  return where_gt(x, V::set(0.0f), y, bad);
}

// tanh within 2.6 ulp: tanh |x| = t / (t + 2) with t = e^{2|x|} − 1, which does not cancel for
// small x; 1 from 9.02 on.
template <class V>
PHASOR_INLINE V tanh_of(V x) {
  V a = abs(x);
  a = where_gt(a, V::set(9.25f), V::set(9.25f), a);
  a = a + a;
  const V t = fma(a, V::set(kLog2e), V::set(kRound)), n = t - V::set(kRound),
          s = pow2_of_rounded(t);
  V r = fma(n, V::set(-kLn2), a);
  r = fma(n, V::set(-kLn2Low), r);
  // As exp_core, but fitted for a small relative error of e^r − 1 itself (2^-26).
  V q = fma(V::set(0x1.6d66aep-10f), r, V::set(0x1.1227c2p-7f));
  q = fma(q, r, V::set(0x1.5554d2p-5f));
  q = fma(q, r, V::set(0x1.5554b0p-3f));
  q = fma(q, r, V::set(0.5f));
  const V m = fma(s, fma(r * r, q, r), s - V::set(1.0f));
  return copysign(m / (m + V::set(2.0f)), x);
}

// erf within 1.1 ulp: x + x·P(x²) up to 1; above, 1 − exp(−Q(x)) with Q a fit of −ln erfc, exact to
// 2^-35 of erf; 1 from 4 on.
template <class V>
PHASOR_INLINE V erf_of(V x) {
  const V a = abs(x);
  const V z = x * x;
  V p = fma(V::set(0x1.4c344ep-14f), z, V::set(-0x1.a50b0ep-11f));
  p = fma(p, z, V::set(0x1.542e10p-8f));
  p = fma(p, z, V::set(-0x1.b7fe90p-6f));
  p = fma(p, z, V::set(0x1.ce2d50p-4f));
  p = fma(p, z, V::set(-0x1.812740p-2f));
  p = fma(p, z, V::set(0x1.06eba8p-3f));
  const V small = fma(x, p, x);
  const V b = where_gt(a, V::set(4.0f), V::set(4.0f), a);
  V q = fma(V::set(0x1.6bddb2p-16f), b, V::set(-0x1.cecaacp-12f));
  q = fma(q, b, V::set(0x1.138e30p-8f));
  q = fma(q, b, V::set(-0x1.9d03ecp-6f));
  q = fma(q, b, V::set(0x1.bc1564p-4f));
  q = fma(q, b, V::set(0x1.443560p-1f));
  q = fma(q, b, V::set(0x1.212c0ep+0f));
  q = fma(q, b, V::set(-0x1.8a5954p-13f));
  const V large = copysign(V::set(1.0f) - exp_not_positive(V::set(0.0f) - q), x);
  return where_gt(a, V::set(1.0f), large, small);
}

// x within ±limit; a NaN stays: it is neither above nor below.
template <class V>
PHASOR_INLINE V clip_of(V x, V limit) {
  const V low = V::set(0.0f) - limit, y = where_gt(x, limit, limit, x);
  return where_gt(low, y, low, y);
}

// e^x − 1 for x ≤ 0 within 2 ulp; −1 from −18 on. As tanh_of has it.
template <class V>
PHASOR_INLINE V expm1_not_positive(V x) {
  const V a = where_gt(V::set(-64.0f), x, V::set(-64.0f), x);
  const V t = fma(a, V::set(kLog2e), V::set(kRound)), n = t - V::set(kRound),
          s = pow2_of_rounded(t);
  V r = fma(n, V::set(-kLn2), a);
  r = fma(n, V::set(-kLn2Low), r);
  V q = fma(V::set(0x1.6d66aep-10f), r, V::set(0x1.1227c2p-7f));
  q = fma(q, r, V::set(0x1.5554d2p-5f));
  q = fma(q, r, V::set(0x1.5554b0p-3f));
  q = fma(q, r, V::set(0.5f));
  return fma(s, fma(r * r, q, r), s - V::set(1.0f));
}

// xIELU (Huang and Schlag 2024): αp·x² + β·x for x > 0, αn·(e^min(x, ε) − 1 − x) + β·x for others.
// `numbers`: αp, αn, β, ε.
template <class V>
PHASOR_INLINE V xielu_of(V x, const float* numbers) {
  const V eps = V::set(numbers[3]), most = where_gt(x, eps, eps, x), line = V::set(numbers[2]) * x;
  const V below = fma(expm1_not_positive(most) - x, V::set(numbers[1]), line);
  return where_gt(x, V::set(0.0f), fma(V::set(numbers[0]) * x, x, line), below);
}

// exp and log as the kernels' table has them.
struct Exp {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    return exp_of(x);
  }
};
struct Log {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    return log_of(x);
  }
};

// The formulas of src/activations.h, whose table says which codes and words they have. Every level
// makes its kernels from them.
template <Activation>
struct Formula;

// max(x, +0) that keeps a NaN and turns −0 into +0. (x > 0 fails for both; x + 0 keeps one and
// clears the other.)
template <>
struct Formula<kRelu> {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    return where_gt(V::set(0.0f), x, V::set(0.0f), x + V::set(0.0f));
  }
};

// ReLU squared (So et al. 2021), correctly rounded: NaN stays, +inf from 2^64 on.
template <>
struct Formula<kRelu2> {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    const V y = Formula<kRelu>::of(x);
    return y * y;
  }
};

// x·½(1 + erf(x/√2)), within 2 ulp for x > 0 and 2^-20 in absolute terms down to −8; 0 below −12
// (1.12), where the exact value is under 2^-100.
template <>
struct Formula<kGeluErf> {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    const V y = (V::set(0.5f) * x) * (V::set(1.0f) + erf_of(x * V::set(0x1.6a09e6p-1f)));
    return where_gt(V::set(-12.0f), x, V::set(0.0f), y);
  }
};

// ½x(1 + tanh u) = x / (1 + e^{−2u}), u = √(2/π)·(x + 0.044715x³) (Hendrycks & Gimpel 2016): the
// second form does not cancel for negative x. Within 2 ulp for x > 0; 0 below −12.
template <>
struct Formula<kGeluTanh> {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    const V minus_2u = x * fma(x * x, V::set(-0x1.2444f2p-4f), V::set(-0x1.988454p+0f));
    return where_gt(V::set(-12.0f), x, V::set(0.0f), x / (V::set(1.0f) + exp_of(minus_2u)));
  }
};

// x·sigmoid(x) within 2.5 ulp; 0 below −64 (1.12).
template <>
struct Formula<kSilu> {
  template <class V>
  static PHASOR_INLINE V of(V x) {
    return where_gt(V::set(-64.0f), x, V::set(0.0f), x / (V::set(1.0f) + exp_of(V::set(0.0f) - x)));
  }
};

// It has numbers of its layer: a kernel of its own.
template <>
struct Formula<kXielu> {};

// The kernel of an activation by its formula; NULL for one with a kernel of its own.
template <class Level, Activation code>
constexpr auto kernel_of() -> void (*)(float*, size_t) {
  if constexpr (code == kXielu)
    return nullptr;
  else
    return Level::template each_of<Formula<code>>;
}

}  // namespace
}  // namespace phasor
