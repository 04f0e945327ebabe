#include "groups.h"

#include <string.h>

#include "../kernels/gather.h"

namespace phasor {
namespace {

constexpr int kRefinements = 2;
constexpr float kInfinity = __builtin_inff();

// What the extreme value of a group is divided by to get the scales that are tried, in this order.
struct Divisors {
  float first, step;
  uint32_t count;
  bool both_signs;  // first all of them negative, then positive
};
constexpr Divisors kQ8Divisors = {128.0f, -1.0f, 13, false}, kQ4Divisors = {6.0f, 0.25f, 17, true},
                   kTableDivisors = {96.0f, 4.0f, 17, true},
                   kSixDivisors = {28.0f, 1.0f, 9, true},
                   kThreeDivisors = {3.0f, 0.125f, 17, true};

struct Search {
  const Block& in;
  const Block* moments;
  size_t width;  // columns
  float low, high;
  bool table;  // values are those of kRoundedTable
  float best_error[kLanes], best_scale[kLanes];
  float best[kGroup][kLanes];
};

// v is between −128 and 127: the nearest integer, of two the even one.
float nearest(float v) {
  constexpr float kShift = 12582912.0f;  // 1.5·2²³
  return (v + kShift) - kShift;
}

// The table's nearest value to each v of −128 … 127, of two the larger one. Halfway between two
// values is a multiple of a half, so ⌊2v⌋ decides.
struct NearestInTable {
  int8_t of[512];  // by ⌊2v⌋ + 256
};
constexpr NearestInTable nearest_by_place() {
  NearestInTable out{};
  size_t at = 0;
  for (int twice = -256; twice < 256; ++twice) {
    while (at + 1 < kTable && twice >= kRoundedTable[at] + kRoundedTable[at + 1]) ++at;
    out.of[twice + 256] = kRoundedTable[at];
  }
  return out;
}
constexpr NearestInTable kNearest = nearest_by_place();

// Σ moment·a·b of each row. Of W terms i and i + W/2 are added, then i and i + W/4, ….
void sum_products(float* out, const float (*a)[kLanes], const float (*b)[kLanes],
                  const Search& s) {
  float terms[kGroup][kLanes];
  for (size_t k = 0; k < s.width; ++k)
    for (size_t o = 0; o < kLanes; ++o) {
      terms[k][o] = a[k][o] * b[k][o];
      if (s.moments != nullptr) terms[k][o] *= s.moments->x[k][o];
    }
  for (size_t half = s.width / 2; half != 0; half /= 2)
    for (size_t k = 0; k < half; ++k)
      for (size_t o = 0; o < kLanes; ++o) terms[k][o] += terms[k + half][o];
  memcpy(out, terms[0], sizeof terms[0]);
}

// Tries one scale a row, rounded to f16, and keeps it where its error is smaller.
void attempt(Search* s, const float* wanted) {
  float scale[kLanes], inverse[kLanes], error[kLanes], q[kGroup][kLanes], rest[kGroup][kLanes];
  for (size_t o = 0; o < kLanes; ++o) {
    scale[o] = widen_f16(narrow_f16(wanted[o])) + 0.0f;  // never −0
    inverse[o] = scale[o] != 0.0f ? 1.0f / scale[o] : 0.0f;
  }
  for (size_t k = 0; k < s->width; ++k)
    for (size_t o = 0; o < kLanes; ++o) {
      float v = s->in.x[k][o] * inverse[o];
      v = v > s->low ? v : s->low;
      v = v < s->high ? v : s->high;
      q[k][o] = s->table ? nearest_in_table(v) : nearest(v);
      rest[k][o] = s->in.x[k][o] - q[k][o] * scale[o];
    }
  sum_products(error, rest, rest, *s);
  for (size_t o = 0; o < kLanes; ++o) {
    if (!(error[o] < s->best_error[o])) continue;
    s->best_error[o] = error[o];
    s->best_scale[o] = scale[o];
    for (size_t k = 0; k < s->width; ++k) s->best[k][o] = q[k][o];
  }
}

// The scale that is best for the integers at hand: Σ moment·x·q / Σ moment·q².
void refine(Search* s) {
  float products[kLanes], squares[kLanes], scale[kLanes];
  sum_products(products, s->in.x, s->best, *s);
  sum_products(squares, s->best, s->best, *s);
  for (size_t o = 0; o < kLanes; ++o)
    scale[o] = squares[o] > 0.0f ? products[o] / squares[o] : s->best_scale[o];
  attempt(s, scale);
}

// Each row's value of largest magnitude, the first of equals.
void extremes(float* out, const Block& in, size_t width) {
  for (size_t o = 0; o < kLanes; ++o) {
    out[o] = in.x[0][o];
    for (size_t k = 1; k < width; ++k)
      if (__builtin_fabsf(in.x[k][o]) > __builtin_fabsf(out[o])) out[o] = in.x[k][o];
  }
}

void try_all(Search* s, const float* extreme, const Divisors& d, float sign) {
  for (uint32_t i = 0; i < d.count; ++i) {
    float scale[kLanes];
    const float divisor = sign * (d.first + d.step * static_cast<float>(i));
    for (size_t o = 0; o < kLanes; ++o) scale[o] = extreme[o] / divisor;
    attempt(s, scale);
  }
}

}  // namespace

float nearest_in_table(float v) noexcept {
  const float twice = v + v;
  const int whole = static_cast<int>(twice);  // towards 0
  return kNearest.of[whole - (twice < static_cast<float>(whole) ? 1 : 0) + 256];
}

unsigned rounded_code(Type type, int value) noexcept {
  if (!lookup_type(type)) return static_cast<unsigned>(value + static_cast<int>(code_less(type)));
  unsigned n = 0;
  while (kRoundedTable[n] < value) ++n;
  return n;
}

float nearest_int8(float v) noexcept {
  v = v > -127.0f ? v : -127.0f;
  return nearest(v < 127.0f ? v : 127.0f);
}

bool quantize_block(QuantizedBlock* out, const Block& in, Type type,
                    const Block* moments) noexcept {
  const unsigned bits = value_bits(type);
  const bool q8 = bits == 8, table = lookup_type(type);
  const Divisors& divisors = q8          ? kQ8Divisors
                             : table     ? kTableDivisors
                             : bits == 6 ? kSixDivisors
                             : bits == 3 ? kThreeDivisors
                                         : kQ4Divisors;
  const float most = static_cast<float>(table ? 128u : 1u << (bits - 1));
  Search s{in,    moments, coded_type(type) ? scale_span(type) : kGroup,
           -most, most - 1.0f, table, {}, {}, {}};
  float extreme[kLanes];
  extremes(extreme, in, s.width);
  for (size_t o = 0; o < kLanes; ++o) {
    s.best_error[o] = s.best_scale[o] = kInfinity;
    if (q8) extreme[o] = __builtin_fabsf(extreme[o]);
  }
  if (divisors.both_signs) try_all(&s, extreme, divisors, -1.0f);
  try_all(&s, extreme, divisors, 1.0f);
  for (int i = 0; i < kRefinements; ++i) refine(&s);
  memcpy(out->q, s.best, sizeof out->q);
  for (size_t o = 0; o < kLanes; ++o) {
    if (!(s.best_error[o] < kInfinity)) return false;
    out->scales[o] = narrow_f16(s.best_scale[o]);
  }
  return true;
}

}  // namespace phasor
