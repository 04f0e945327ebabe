// Products of some types with inputs of 8 and of 16 bits, of many shapes, in exactly their bytes,
// beside the scalar level's.
#pragma once
#include "kernel_data.h"
#include "support.h"

namespace kernel_test {

// A block of exactly these bytes, at a multiple of 64.
inline Block exactly(const std::vector<unsigned char>& bytes, size_t n) {
  return Block(bytes.data(), n);
}

struct TileShape {
  Type type;
  size_t rows, panels, groups, bias, planes;
};

// The rows of a product as quantize_row or quantize_whole leave them.
struct TileRows {
  TileRows(Random* random, const TileShape& s)
      : q(s.rows * s.planes * s.groups * kGroup),
        scales(whole_type(s.type) ? 1 : s.groups),
        scale(s.rows * scales * sizeof(float)),
        sum(s.rows * s.planes * scales * sizeof(int32_t)) {
    const size_t run = s.groups * kGroup / scales;
    for (size_t i = 0; i < s.rows * scales; ++i) {
      const float value = random->unit();
      std::memcpy(scale.data() + i * sizeof value, &value, sizeof value);
    }
    for (size_t i = 0; i < s.rows * s.planes * scales; ++i) {
      int32_t total = 0;
      for (size_t k = 0; k < run; ++k) {
        const size_t kind = random->below(4);
        const int v = kind == 0   ? 127
                      : kind == 1 ? -127
                                  : static_cast<int>(random->below(255)) - 127;
        q.data()[i * run + k] = static_cast<unsigned char>(v);
        total += v;
      }
      std::memcpy(sum.data() + i * sizeof total, &total, sizeof total);
    }
  }
  void product(const Kernels& k, const TileShape& s, float* y, size_t ldy, const Block& w,
               const float* bias) const {
    auto* const linear = s.planes == 2 ? k.linear_int16(s.type) : k.linear_int8(s.type);
    linear(y, ldy, reinterpret_cast<const int8_t*>(q.data()),
           reinterpret_cast<const float*>(scale.data()),
           reinterpret_cast<const int32_t*>(sum.data()), s.rows, w.data(), bias, s.bias, s.panels,
           s.groups);
  }
  Block q;
  size_t scales;
  Block scale, sum;
};

inline void check_shape(const Kernels& k, const TileShape& s) {
  Random random(s.rows * 7919 + s.panels * 131 + s.groups * 17 + static_cast<size_t>(s.type));
  const size_t n = s.panels * kLanes, ldy = n + s.rows % 3;
  const Block w =
      exactly(panels_of(random, s.type, s.panels, s.groups),
              s.panels * static_cast<size_t>(panel_bytes(s.type, s.groups * kGroup)));
  const TileRows rows(&random, s);
  Array<float> bias = floats(random, s.bias), wanted(s.rows * ldy), y(s.rows * ldy, s.rows % 4);
  const float* b = s.bias == 0 ? nullptr : bias.get();
  for (size_t i = 0; i < s.rows * ldy; ++i) wanted[i] = y[i] = 1.5f;
  rows.product(kernels_scalar, s, wanted, ldy, w, b);
  rows.product(k, s, y, ldy, w, b);
  INFO(k.name << ": type " << int(s.type) << ", " << s.planes << " planes, " << s.rows
              << " rows, " << s.panels << " panels, " << s.groups << " groups");
  REQUIRE(first_difference(y, wanted, s.rows * ldy) == s.rows * ldy);
  REQUIRE(y.intact());
}

// Every number of rows of these with every number of panels, and of groups (of 64 with a scale a
// row, else of 32).
inline void check_shapes(const Kernels& k, Sizes rows, Sizes panels, Sizes steps) {
  for (const Type type : {Type::q8r, Type::q2r, Type::q8, Type::q4, Type::q4k, Type::q6, Type::q5k})
    for (const size_t planes : {1, 2})
      for (const size_t r : rows)
        for (const size_t p : panels)
          for (const size_t n : steps)
            check_shape(k, {type, r, p, whole_type(type) ? 2 * n : n,
                            (r + p + n) % 3 == 0 ? 0 : p * kLanes - (r + n) % 19 % (p * kLanes),
                            planes});
}

}  // namespace kernel_test
