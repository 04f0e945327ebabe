// cli: exponential and natural logarithm in double, within a few units of the last place. Not the C
// library's: a score is then the same text on every machine, and the program needs no library of
// mathematics.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace cli {

inline double double_of(uint64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}
inline uint64_t bits_of(double d) {
  uint64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return bits;
}

// ln 2/32; the first times a whole number below 2^21 is exact
constexpr double kStepHigh = 0x1.62e42feep-6, kStepLow = 0x1.a39ef35793c76p-38;
// 2^(k/32).
constexpr double kPowers[32] = {
    0x1.0000000000000p+0, 0x1.059b0d3158574p+0, 0x1.0b5586cf9890fp+0, 0x1.11301d0125b51p+0,
    0x1.172b83c7d517bp+0, 0x1.1d4873168b9aap+0, 0x1.2387a6e756238p+0, 0x1.29e9df51fdee1p+0,
    0x1.306fe0a31b715p+0, 0x1.371a7373aa9cbp+0, 0x1.3dea64c123422p+0, 0x1.44e086061892dp+0,
    0x1.4bfdad5362a27p+0, 0x1.5342b569d4f82p+0, 0x1.5ab07dd485429p+0, 0x1.6247eb03a5585p+0,
    0x1.6a09e667f3bcdp+0, 0x1.71f75e8ec5f74p+0, 0x1.7a11473eb0187p+0, 0x1.82589994cce13p+0,
    0x1.8ace5422aa0dbp+0, 0x1.93737b0cdc5e5p+0, 0x1.9c49182a3f090p+0, 0x1.a5503b23e255dp+0,
    0x1.ae89f995ad3adp+0, 0x1.b7f76f2fb5e47p+0, 0x1.c199bdd85529cp+0, 0x1.cb720dcef9069p+0,
    0x1.d5818dcfba487p+0, 0x1.dfc97337b9b5fp+0, 0x1.ea4afa2a490dap+0, 0x1.f50765b6e4540p+0,
};

// e^x = 2^(n/32)·e^r with |r| ≤ ln 2/64. 0 below −708, where the result would be subnormal; +inf
// above 709.
inline double exponential(double x) {
  if (!(x >= -708)) return x != x ? x : 0;
  if (x > 709) return double_of(uint64_t{0x7ff} << 52);
  const double t = x * 0x1.71547652b82fep+5;
  const int64_t n = static_cast<int64_t>(t < 0 ? t - 0.5 : t + 0.5);
  const double k = static_cast<double>(n), r = x - k * kStepHigh - k * kStepLow;
  const double rest =
      r + r * r * (0.5 + r * (1.0 / 6 + r * (1.0 / 24 + r * (1.0 / 120 + r * (1.0 / 720)))));
  const double power = kPowers[n & 31];
  return (power + power * rest) * double_of(static_cast<uint64_t>((n >> 5) + 1023) << 52);
}

// ln x = n·ln 2 + 2·artanh((m − 1)/(m + 1)) with m from √½ to √2, for normal x above 0; NaN for
// others but +inf and 0.
inline double logarithm(double x) {
  if (x == 0) return -double_of(uint64_t{0x7ff} << 52);
  if (!(x >= 0x1p-1022)) return double_of(uint64_t{0x7ff8} << 48);
  if (x > 0x1.fffffffffffffp+1023) return x;
  const uint64_t bits = bits_of(x), low = bits & ((uint64_t{1} << 52) - 1);
  int64_t n = static_cast<int64_t>(bits >> 52) - 1023;
  double m = double_of(low | uint64_t{1023} << 52);
  if (m > 0x1.6a09e667f3bcdp+0) m *= 0.5, ++n;
  const double s = (m - 1) / (m + 1), z = s * s;
  double sum = 0;
  for (int i = 25; i >= 3; i -= 2) sum = (sum + 1.0 / i) * z;
  const double k = 32 * static_cast<double>(n);
  return k * kStepHigh + (2 * s + (2 * s * sum + k * kStepLow));
}

// ln Σ e^(x − *largest) over a row of `count` values, at least one; *largest receives the largest.
inline double log_sum(const float* row, size_t count, double* largest) {
  double most = row[0], sum = 0;
  for (size_t i = 1; i < count; ++i)
    if (row[i] > most) most = row[i];
  for (size_t i = 0; i < count; ++i) sum += exponential(row[i] - most);
  *largest = most;
  return logarithm(sum);
}

}  // namespace cli
