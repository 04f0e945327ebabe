#include "groups.h"

#include "../format/bytes.h"
#include "../kernels/gather.h"

namespace phasor {
namespace {

struct Range {
  float least, largest;
};

Range range_of(const float* x, size_t count, float least, float largest) {
  Range r{least, largest};
  for (size_t i = 0; i < count; ++i) {
    r.least = x[i] < r.least ? x[i] : r.least;
    r.largest = x[i] > r.largest ? x[i] : r.largest;
  }
  return r;
}

float inverse_of(float scale) { return scale != 0 ? 1.0f / scale : 0; }

// The nearest of 0 … most, at most 127.
unsigned char nearest_of(float v, float most) {
  v = v > 0.0f ? v : 0.0f;
  return static_cast<unsigned char>(nearest_int8(v < most ? v : most));
}

// The nearest of −most … most − 1, most at most 127.
int nearest_within(float v, int most) {
  const float last = static_cast<float>(most - 1);
  v = v > -static_cast<float>(most) ? v : -static_cast<float>(most);
  return static_cast<int>(nearest_int8(v < last ? v : last));
}

// The nearest f16, never −0, into the record; as it is read back.
float store_half(unsigned char* p, float v) {
  const float stored = widen_f16(narrow_f16(v)) + 0.0f;
  const uint16_t half = narrow_f16(stored);
  p[0] = static_cast<unsigned char>(half & 255);
  p[1] = static_cast<unsigned char>(half >> 8);
  return stored;
}

bool fits(float half) { return __builtin_fabsf(half) < 65536.0f; }

// The largest code.
float most_of(Type type) { return static_cast<float>((1 << value_bits(type)) - 1); }

// The least value becomes the minimum, the largest `most` steps above it.
bool one_group(unsigned char* record, const float* x, size_t count, float most) {
  const Range r = range_of(x, count, x[0], x[0]);
  const float least = store_half(record + 2, r.least),
              scale = store_half(record, (r.largest - least) / most);
  return fits(least) && fits(scale);
}

// Of each group 0 lies between the minimum and the largest value, or at one of them.
bool eight_groups(unsigned char* record, const float* x, size_t count, float most) {
  float steps[kSuper] = {}, depths[kSuper] = {}, step = 0, depth = 0;
  const size_t groups = static_cast<size_t>(groups_of(count));
  for (size_t g = 0; g < groups; ++g) {
    const size_t first = g * kGroup, n = count - first < kGroup ? count - first : kGroup;
    const Range r = range_of(x + first, n, 0, 0);
    steps[g] = (r.largest - r.least) / most;
    depths[g] = 0.0f - r.least;
    step = steps[g] > step ? steps[g] : step;
    depth = depths[g] > depth ? depths[g] : depth;
  }
  const float scale = store_half(record, step / 63.0f),
              least = store_half(record + 2, 0.0f - depth / 63.0f), of_scale = inverse_of(scale),
              of_least = inverse_of(0.0f - least);
  for (size_t i = 4; i < kSuperBytes; ++i) record[i] = 0;
  for (size_t g = 0; g < groups; ++g) {
    const unsigned s = nearest_of(steps[g] * of_scale, 63),
                   m = nearest_of(depths[g] * of_least, 63);
    unsigned char* codes = record + 4;
    if (g < 4) {
      codes[g] = static_cast<unsigned char>(s);
      codes[g + 4] = static_cast<unsigned char>(m);
      continue;
    }
    codes[g + 4] = static_cast<unsigned char>((s & 15) | (m & 15) << 4);
    codes[g - 4] = static_cast<unsigned char>(codes[g - 4] | s >> 4 << 6);
    codes[g] = static_cast<unsigned char>(codes[g] | m >> 4 << 6);
  }
  return fits(scale) && fits(least);
}

// Code i of N scales, of six bits (signed_code).
void store_code(unsigned char* codes, size_t count, size_t i, int code) {
  const unsigned bits = static_cast<unsigned>(code + 32);
  const size_t half = count / 2, quarter = count / 4;
  unsigned char &low = codes[i % half], &upper = codes[half + i % quarter];
  low = static_cast<unsigned char>(low | (bits & 15) << (i / half * 4));
  upper = static_cast<unsigned char>(upper | bits >> 4 << (i / quarter * 2));
}

// The scale of each span of columns is searched alone; a number of the record and codes stand for
// them. Codes of columns that there are not have no bits, nor has any where the number is 0, as in
// a panel's rows of padding.
bool coded_groups(unsigned char* record, const float* x, const float* moments, size_t count,
                  Type type) {
  Block in{}, weights{};
  const size_t span = scale_span(type), codes = record_codes(type);
  const bool padded = lookup_type(type);  // columns that there are not are rounded to no 0
  for (size_t i = 0; i < count; ++i) {
    in.x[i % span][i / span] = x[i];
    weights.x[i % span][i / span] = moments != nullptr ? moments[i] : 1.0f;
  }
  QuantizedBlock found;
  if (!quantize_block(&found, in, type, moments != nullptr || padded ? &weights : nullptr))
    return false;
  float extreme = 0;
  for (size_t i = 0; i < codes; ++i) {
    const float scale = widen_f16(found.scales[i]);
    extreme = __builtin_fabsf(scale) > __builtin_fabsf(extreme) ? scale : extreme;
  }
  const bool eight = scale_bits(type) == 8;
  const float inverse = inverse_of(
      store_half(record, eight ? __builtin_fabsf(extreme) / 127.0f : extreme / -32.0f));
  for (size_t i = 2; i < record_bytes(type); ++i) record[i] = 0;
  for (size_t i = 0; i * span < count && inverse != 0.0f; ++i) {
    const float code = widen_f16(found.scales[i]) * inverse;
    if (eight)
      record[2 + i] = static_cast<unsigned char>(static_cast<int>(nearest_int8(code)) & 255);
    else
      store_code(record + 2, codes, i, nearest_within(code, 32));
  }
  return true;
}

// The code of the value that is nearest to v.
unsigned char coded(float v, Type type) {
  const int most = lookup_type(type) ? 128 : 1 << (value_bits(type) - 1);
  if (!lookup_type(type)) return static_cast<unsigned char>(most + nearest_within(v, most));
  v = v > -128.0f ? v : -128.0f;
  const float nearest = nearest_in_table(v < 127.0f ? v : 127.0f);
  return static_cast<unsigned char>(rounded_code(type, static_cast<int>(nearest)));
}

}  // namespace

bool quantize_record(unsigned char* record, unsigned char* n, float* stored, const float* x,
                     const float* moments, size_t count, Type type) noexcept {
  for (size_t i = 0; i < count; ++i)
    if (!(__builtin_fabsf(x[i]) < __builtin_inff())) return false;
  const bool code = coded_type(type);
  const float most = most_of(type);
  if (!(code                       ? coded_groups(record, x, moments, count, type)
        : record_groups(type) == 1 ? one_group(record, x, count, most)
                                   : eight_groups(record, x, count, most)))
    return false;
  const size_t groups = static_cast<size_t>(groups_of(count)),
               width = code ? scale_span(type) : kGroup;
  for (size_t first = 0; first < count; first += width) {
    const Grid grid =
        code ? Grid{coded_scale(record, type, Layout::rows, groups, 0, first / width), 0.0f}
             : grid_at(record, type, Layout::rows, groups, 0, first / kGroup);
    const float inverse = inverse_of(grid.scale);
    for (size_t i = first; i < count && i < first + width; ++i) {
      n[i] = code ? coded(x[i] * inverse, type) : nearest_of((x[i] - grid.least) * inverse, most);
      stored[i] = code ? static_cast<float>(code_value(type, nullptr, n[i])) * grid.scale
                       : static_cast<float>(n[i]) * grid.scale + grid.least;
      if (code && grid.scale == 0.0f) n[i] = 0;
    }
  }
  return true;
}

}  // namespace phasor
