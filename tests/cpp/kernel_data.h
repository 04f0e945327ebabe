// Inputs and comparisons for the kernels' tests: pseudo-random values, arrays at any alignment with
// guarded ends, bit-wise comparison, FNV-1a-64.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "activations.h"
#include "cases.h"
#include "kernels/gather.h"
#include "kernels/kernels.h"

namespace kernel_test {

using namespace phasor;
using Sizes = std::initializer_list<size_t>;

// splitmix64 (Steele, Lea & Flood 2014): the same values on every machine.
struct Random {
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  size_t below(size_t n) { return static_cast<size_t>(next() % n); }
  // −1 … 1
  float unit() {
    return static_cast<float>(static_cast<int32_t>(next() >> 40) - (1 << 23)) * 0x1p-23f;
  }
};

enum class Fill { ordinary, wide, zeros, subnormal };
inline float value(Random& random, Fill fill) {
  const float u = random.unit();
  switch (fill) {
    case Fill::wide:
      return std::ldexp(u, static_cast<int>(random.below(80)) - 40);
    case Fill::zeros:
      return random.below(3) == 0 ? u : random.below(2) == 0 ? 0.0f : -0.0f;
    case Fill::subnormal:
      return std::ldexp(u, -20 - static_cast<int>(random.below(60)));
    default:
      return u;
  }
}

// n elements, `offset` elements off a 64-byte boundary, with 64 guarded bytes or more on each side.
template <class T>
class Array {
 public:
  explicit Array(size_t n, size_t offset = 0) : storage_(n + 3 * kPad + offset), n_(n) {
    std::memset(storage_.data(), kGuard, storage_.size() * sizeof(T));
    const uintptr_t past = reinterpret_cast<uintptr_t>(storage_.data()) % 64;
    at_ = static_cast<size_t>((64 - past) % 64) / sizeof(T) + kPad + offset;
  }
  T* get() { return storage_.data() + at_; }
  operator T*() { return get(); }
  size_t size() const { return n_; }
  bool intact() const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      if (i >= at_ && i < at_ + n_) continue;
      unsigned char bytes[sizeof(T)];
      std::memcpy(bytes, &storage_[i], sizeof(T));
      for (unsigned char b : bytes)
        if (b != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kGuard = 0xA5;
  static constexpr size_t kPad = 64 / sizeof(T);
  std::vector<T> storage_;
  size_t n_, at_ = 0;
};

inline Array<float> floats(Random& random, size_t n, Fill fill = Fill::ordinary,
                           size_t offset = 0) {
  Array<float> a(n, offset);
  for (size_t i = 0; i < n; ++i) a[i] = value(random, fill);
  return a;
}

inline uint32_t bits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, 4);
  return u;
}
// Equal bits; any NaN equals any other.
inline bool same(float a, float b) { return bits(a) == bits(b) || (a != a && b != b); }
inline size_t first_difference(const float* a, const float* b, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (!same(a[i], b[i])) return i;
  return n;
}

// Every level that this processor runs; the scalar one is the last.
inline std::vector<const Kernels*> levels() {
  const Kernels* all[8];
  const size_t n = kernels_available(all);
  return std::vector<const Kernels*>(all, all + n);
}
// ARMv7's NEON and Helium flush subnormals: the one documented exception to "the same bits".
inline bool flushes(const Kernels& k) {
#if defined(__arm__)
  return std::strcmp(k.name, "neon") == 0 || std::strcmp(k.name, "helium") == 0;
#else
  return static_cast<void>(k), false;
#endif
}
// Outputs y of a level, ldy apart, beside the wanted ones (rows, n).
inline void require_outputs(const Kernels& k, const float* y, size_t ldy,
                            const std::vector<float>& wanted, size_t n) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const float value = wanted[i], got = y[i / n * ldy + i % n];
    if (same(got, value) || (flushes(k) && !std::isnormal(value))) continue;
    INFO("row " << i / n << " output " << i % n << ": " << got << ", expected " << value);
    REQUIRE(same(got, value));
  }
}

// Pages as the kernels take them.
template <class T>
const void* const* pages_of(const std::vector<T>& pages) {
  return reinterpret_cast<const void* const*>(pages.data());
}

struct Fnv {
  uint64_t h = 0xcbf29ce484222325ull;
  void add(const void* data, size_t n) {
    const unsigned char* p = static_cast<const unsigned char*>(data);
    for (size_t i = 0; i < n; ++i) h = (h ^ p[i]) * 0x100000001b3ull;
  }
};

// Panels of q8, or q4, with all the extremes: −128, ±127 (nibbles 0 and 15), scales that are
// negative, subnormal and zero.
inline std::vector<unsigned char> quantized_panels(Random& random, size_t panels, size_t groups,
                                                   Type type = Type::q8) {
  const size_t values = groups * kLanes * (type == Type::q8 ? kGroup : kGroup / 2);
  const size_t plane = static_cast<size_t>(scale_plane_bytes(Type::q8, kLanes, groups)),
               bytes = plane + values;
  std::vector<unsigned char> w(panels * bytes + 64);
  for (size_t p = 0; p < panels; ++p) {
    for (size_t i = 0; i < groups * kLanes; ++i) {
      const size_t kind = random.below(8);
      uint16_t h = static_cast<uint16_t>(0x1800 + random.below(0x1000));
      if (kind == 0) h = static_cast<uint16_t>(h | 0x8000);
      if (kind == 1) h = static_cast<uint16_t>(random.below(0x400));
      std::memcpy(&w[p * bytes + i * 2], &h, 2);
    }
    for (size_t i = 0; i < values; ++i) {
      const size_t kind = random.below(4);
      w[p * bytes + plane + i] = kind == 0   ? (type == Type::q8 ? 0x80 : 0x0f)
                                 : kind == 1 ? (type == Type::q8 ? 0x7f : 0xf0)
                                             : static_cast<unsigned char>(random.below(256));
    }
  }
  return w;
}

// The same of types with minima: numbers of either sign, subnormal and zero, and every code.
inline std::vector<unsigned char> minimum_panels(Random& random, Type type, size_t panels,
                                                 size_t groups) {
  const size_t plane = static_cast<size_t>(record_plane_bytes(type, kLanes, groups)),
               bytes = plane + groups * kLanes * code_bytes(value_bits(type));
  const size_t record = record_bytes(type) * kLanes;
  std::vector<unsigned char> w(panels * bytes + 64);
  for (size_t p = 0; p < panels; ++p)
    for (size_t i = 0; i < bytes; ++i) {
      const size_t kind = random.below(8);
      unsigned char* const to = &w[p * bytes + i];
      *to = kind == 0 ? 0x0f : kind == 1 ? 0xf0 : static_cast<unsigned char>(random.below(256));
      if (i >= plane || i % record >= 64 || i % 2 == 0) continue;
      // A number's upper byte: the lower one is there already.
      *to = static_cast<unsigned char>(0x18 + random.below(0x10) + (kind == 2 ? 0x80 : 0));
      if (kind == 3) *to = static_cast<unsigned char>(random.below(4));
      if (kind == 4) to[0] = to[-1] = 0;
    }
  return w;
}

// The same of q8r and q2r: one scale a row, among them zero and the smallest that a file may have.
inline std::vector<unsigned char> whole_panels(Random& random, size_t panels, size_t groups,
                                               Type type = Type::q8r) {
  const size_t bytes = static_cast<size_t>(panel_bytes(type, groups * kGroup));
  std::vector<unsigned char> w(panels * bytes + 64);
  for (size_t p = 0; p < panels; ++p) {
    for (size_t i = 0; i < kLanes; ++i) {
      const size_t kind = random.below(8);
      const float scale =
          kind == 0 ? 0.0f
          : kind == 1
              ? 0x1p-38f
              : std::ldexp(1.0f + 0x1p-23f * static_cast<float>(random.below(1u << 23)), -9);
      std::memcpy(&w[p * bytes + i * 4], &scale, 4);
    }
    for (size_t i = kLanes * 4; i < bytes; ++i) {
      const size_t kind = random.below(4);
      w[p * bytes + i] = kind == 0   ? 0x80
                         : kind == 1 ? 0x7f
                                     : static_cast<unsigned char>(random.below(256));
    }
  }
  return w;
}

// The same of q4t, q2, q2w and q1: any codes, and of a table any values.
inline std::vector<unsigned char> code_panels(Random& random, Type type, size_t panels,
                                              size_t groups) {
  const size_t bytes = static_cast<size_t>(panel_bytes(type, groups * kGroup)),
               scales = static_cast<size_t>(scales_of(type, groups)) * kLanes;
  std::vector<unsigned char> w(panels * bytes + 64);
  for (unsigned char& byte : w) {
    const size_t kind = random.below(8);
    byte = kind == 0 ? 0x80 : kind == 1 ? 0x7f : static_cast<unsigned char>(random.below(256));
  }
  for (size_t p = 0; p < panels; ++p)
    for (size_t i = 0; i < scales; ++i) {
      const size_t kind = random.below(8);
      uint16_t h = static_cast<uint16_t>(0x1800 + random.below(0x1000));
      if (kind == 0) h = static_cast<uint16_t>(h | 0x8000);
      if (kind == 1) h = static_cast<uint16_t>(random.below(0x400));
      if (kind == 2) h = 0;
      std::memcpy(&w[p * bytes + panel_scale(type, i % kLanes, 0) + i / kLanes * (kLanes * 2)], &h,
                  2);
    }
  return w;
}

// The same of coded types: any codes, those of values at their ends in turn; the smallest and the
// largest codes of scales often, of six bits as bytes whose codes are all such, and 0.
inline std::vector<unsigned char> coded_panels(Random& random, Type type, size_t panels,
                                               size_t groups) {
  const bool six = scale_bits(type) == 6;
  const size_t record = record_bytes(type) * kLanes,
               plane = static_cast<size_t>(record_plane_bytes(type, kLanes, groups)),
               bytes = static_cast<size_t>(panel_bytes(type, groups * kGroup));
  std::vector<unsigned char> w(panels * bytes + 64);
  for (size_t p = 0; p < panels; ++p)
    for (size_t i = 0; i < bytes; ++i) {
      const size_t kind = random.below(8);
      unsigned char* const to = &w[p * bytes + i];
      *to = static_cast<unsigned char>(random.below(256));
      if (i >= plane) {
        if (kind < 6) *to = kind % 2 == 0 ? 0x00 : 0xff;
      } else if (i % record >= kLanes * 2) {
        if (kind < 3 && !six) *to = kind == 0 ? 0x80 : kind == 1 ? 0x7f : 0;
        if (kind < 3 && six) *to = kind == 0 ? 0x00 : kind == 1 ? 0xff : 0xaa;
      } else if (i % 2 != 0) {  // a number's upper byte: the lower one is there already
        *to = static_cast<unsigned char>(0x18 + random.below(0x10) + (kind == 2 ? 0x80 : 0));
        if (kind == 3) *to = static_cast<unsigned char>(random.below(4));
        if (kind == 4) to[0] = to[-1] = 0;
      }
    }
  return w;
}

// A row of a matrix, in panels and in rows, as it is looked up.
inline void compare_row(const std::vector<unsigned char>& panels,
                        const std::vector<unsigned char>& flat, Type type, size_t rows, size_t cols,
                        size_t row, const std::vector<float>& wanted) {
  Array<float> y(cols, 1);
  gather_row(y, panels.data(), type, Layout::panel16, rows, cols, row);
  REQUIRE(first_difference(y, wanted.data(), cols) == cols);
  gather_row(y, flat.data(), type, Layout::rows, rows, cols, row);
  REQUIRE(first_difference(y, wanted.data(), cols) == cols);
  REQUIRE(y.intact());
}

// The same of any quantized type.
inline std::vector<unsigned char> panels_of(Random& random, Type type, size_t panels,
                                            size_t groups) {
  if (whole_type(type)) return whole_panels(random, panels, groups, type);
  if (minimum_type(type)) return minimum_panels(random, type, panels, groups);
  if (coded_type(type)) return coded_panels(random, type, panels, groups);
  if (given_type(type) || table_type(type)) return code_panels(random, type, panels, groups);
  return quantized_panels(random, panels, groups, type);
}

// Rows of 16 bits whose values and parts are at the ends of their ranges, or anywhere; with `most`
// all are 32512 or −32512.
struct Int16Activations {
  Array<int8_t> q;
  Array<float> scale;
  Array<int32_t> sum;
  Int16Activations(Random* random, size_t rows, size_t scales, size_t length, bool most = false)
      : q(rows * 2 * scales * length),
        scale(floats(*random, rows * scales)),
        sum(rows * 2 * scales) {
    for (size_t r = 0; r < rows; ++r)
      for (size_t g = 0; g < scales; ++g) {
        int32_t high = 0, low = 0;
        for (size_t j = 0; j < length; ++j) {
          const size_t kind = random->below(8), at = r * 2 * scales * length + g * length + j;
          const int any = static_cast<int>(random->below(255)) - 127;
          const int hi = kind < 2 || (most && kind < 3) ? 127 : kind < 4 || most ? -127 : any;
          const int lo = most ? hi : kind % 2 == 0 ? 127 : kind == 7 ? any / 2 : -127;
          q[at] = static_cast<int8_t>(hi);
          q[at + scales * length] = static_cast<int8_t>(lo);
          high += hi;
          low += lo;
        }
        sum[r * 2 * scales + g] = high;
        sum[r * 2 * scales + scales + g] = low;
      }
  }
};

// Panels of f16 or bf16: of all exponents, subnormal halves and zeros among them, none that is
// subnormal in f32.
inline std::vector<unsigned char> half_panels(Random& random, size_t panels, size_t cols,
                                              Type type) {
  std::vector<unsigned char> w(panels * static_cast<size_t>(panel_bytes(type, cols)) + 64);
  for (size_t i = 0; i < w.size(); i += 2) {
    uint16_t h = static_cast<uint16_t>(random.below(0x10000));
    if (type == Type::f16) h = static_cast<uint16_t>(h & (random.below(4) == 0 ? 0x83ff : 0xbfff));
    if (type == Type::bf16) h = static_cast<uint16_t>((h & 0x8fff) | 0x3000);
    std::memcpy(&w[i], &h, 2);
  }
  return w;
}

// Activations in int8: `spans` of `length` values, each span with a scale and the sum of its
// values. The extremes are often there; the first span is all 127, three in four of the last one
// are −127.
struct Int8Activations {
  Int8Activations(Random* random, size_t spans, size_t length)
      : q(spans * length), scale(floats(*random, spans)), sum(spans) {
    for (size_t i = 0; i < spans; ++i) {
      int32_t total = 0;
      for (size_t j = 0; j < length; ++j) {
        const size_t kind = random->below(4);
        const int v = kind == 0 || i == 0           ? 127
                      : kind == 1 || i == spans - 1 ? -127
                                                    : static_cast<int>(random->below(255)) - 127;
        q[i * length + j] = static_cast<int8_t>(v);
        total += v;
      }
      sum[i] = total;
    }
  }
  Array<int8_t> q;
  Array<float> scale;
  Array<int32_t> sum;
};

// A cache page of q8 with the extremes, and the same in f32: keys [w][16], or values
// [16][round_up(w, 16)].
struct PageOfQ8 {
  std::vector<unsigned char> bytes;
  std::vector<float> wide;
  PageOfQ8(Random& random, size_t width, bool keys) {
    const size_t ldv = static_cast<size_t>(round_up(width, kLanes)), rows = keys ? width : ldv;
    bytes.resize(static_cast<size_t>(cache_q8_bytes(rows)));
    wide.resize(rows * kLanes);
    for (size_t slot = 0; slot < kLanes; ++slot)
      for (size_t d = 0; d < rows; ++d) {
        if (d % kGroup == 0) {
          const float scale = random.below(8) == 0 ? 0.0f : std::fabs(value(random, Fill::wide));
          std::memcpy(&bytes[cache_scale_q8(slot, d)], &scale, 4);
        }
        const size_t kind = random.below(8);
        const int32_t q = kind == 0   ? 127
                          : kind == 1 ? -127
                                      : static_cast<int32_t>(random.below(255)) - 127;
        float scale;
        std::memcpy(&scale, &bytes[cache_scale_q8(slot, d)], 4);
        bytes[keys ? cache_key_q8(slot, d) : cache_value_q8(slot, d)] =
            static_cast<unsigned char>(q);
        wide[keys ? d * kLanes + slot : slot * ldv + d] = static_cast<float>(q) * scale;
      }
  }
};

// Element (o, k) of the panels of a matrix in f32, f16 or bf16.
inline float weight_at(const unsigned char* w, Type type, size_t cols, size_t o, size_t k) {
  w += o / kLanes * static_cast<size_t>(panel_bytes(type, cols));
  uint16_t h;
  std::memcpy(&h,
              w + 2 * (type == Type::bf16 ? panel_index_bf16(o % kLanes, k)
                                          : panel_index_f32(o % kLanes, k)),
              2);
  if (type == Type::f16) return widen_f16(h);
  const uint32_t u = uint32_t{h} << 16;
  float f;
  std::memcpy(&f, &u, 4);
  return f;
}
}  // namespace kernel_test
