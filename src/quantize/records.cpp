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

// The nearest f16, never −0, into the record; as it is read back.
float store_half(unsigned char* p, float v) {
  const float stored = widen_f16(narrow_f16(v)) + 0.0f;
  const uint16_t half = narrow_f16(stored);
  p[0] = static_cast<unsigned char>(half & 255);
  p[1] = static_cast<unsigned char>(half >> 8);
  return stored;
}

bool fits(float half) { return __builtin_fabsf(half) < 65536.0f; }

// The least value becomes the minimum, the largest 15 steps above it.
bool one_group(unsigned char* record, const float* x, size_t count) {
  const Range r = range_of(x, count, x[0], x[0]);
  const float least = store_half(record + 2, r.least),
              scale = store_half(record, (r.largest - least) / 15.0f);
  return fits(least) && fits(scale);
}

// Of each group 0 lies between the minimum and the largest value, or at one of them.
bool eight_groups(unsigned char* record, const float* x, size_t count) {
  float steps[kSuper] = {}, depths[kSuper] = {}, step = 0, depth = 0;
  const size_t groups = static_cast<size_t>(groups_of(count));
  for (size_t g = 0; g < groups; ++g) {
    const size_t first = g * kGroup, n = count - first < kGroup ? count - first : kGroup;
    const Range r = range_of(x + first, n, 0, 0);
    steps[g] = (r.largest - r.least) / 15.0f;
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

// Each 16 columns' scale is searched alone; a number of the record and codes stand for them.
bool fine_groups(unsigned char* record, const float* x, const float* moments, size_t count) {
  Block in{}, weights{};
  for (size_t i = 0; i < count; ++i) {
    in.x[i % kHalf][i / kHalf] = x[i];
    weights.x[i % kHalf][i / kHalf] = moments != nullptr ? moments[i] : 0.0f;
  }
  QuantizedBlock found;
  if (!quantize_block(&found, in, Type::q6, moments != nullptr ? &weights : nullptr)) return false;
  float largest = 0;
  for (const uint16_t bits : found.scales) {
    const float scale = __builtin_fabsf(widen_f16(bits));
    largest = scale > largest ? scale : largest;
  }
  const float inverse = inverse_of(store_half(record, largest / 127.0f));
  for (size_t i = 0; i < kLanes; ++i)
    record[2 + i] = static_cast<unsigned char>(
        static_cast<int>(nearest_int8(widen_f16(found.scales[i]) * inverse)) & 255);
  return true;
}

// The code of the nearest of −32 … 31.
unsigned char fine_code(float v) {
  v = v > -32.0f ? v : -32.0f;
  return static_cast<unsigned char>(32 + static_cast<int>(nearest_int8(v < 31.0f ? v : 31.0f)));
}

}  // namespace

bool quantize_record(unsigned char* record, unsigned char* n, float* stored, const float* x,
                     const float* moments, size_t count, Type type) noexcept {
  for (size_t i = 0; i < count; ++i)
    if (!(__builtin_fabsf(x[i]) < __builtin_inff())) return false;
  const bool fine = fine_type(type);
  if (!(fine                       ? fine_groups(record, x, moments, count)
        : record_groups(type) == 1 ? one_group(record, x, count)
                                   : eight_groups(record, x, count)))
    return false;
  const size_t groups = static_cast<size_t>(groups_of(count)), width = fine ? kHalf : kGroup;
  for (size_t first = 0; first < count; first += width) {
    const Grid grid =
        fine ? Grid{fine_scale(record, Layout::rows, groups, 0, first / kHalf), 0.0f}
             : grid_at(record, type, Layout::rows, groups, 0, first / kGroup);
    const float inverse = inverse_of(grid.scale);
    for (size_t i = first; i < count && i < first + width; ++i) {
      n[i] = fine ? fine_code(x[i] * inverse) : nearest_of((x[i] - grid.least) * inverse, 15);
      stored[i] = fine ? static_cast<float>(n[i] - 32) * grid.scale
                       : static_cast<float>(n[i]) * grid.scale + grid.least;
      if (fine && grid.scale == 0.0f) n[i] = 0;
    }
  }
  return true;
}

}  // namespace phasor
