// FNV-1a-64 of every kernel's output on fixed pseudo-random input, one table for every level and
// every machine (phasor_numerics() 1). PHASOR_PRINT_HASHES=1 prints the table's lines. The inputs
// hold no f32 subnormals, so that ARMv7's NEON, which flushes them, is held to the same table.
#include "tile_level.h"

#include <cstdio>
#include <cstdlib>

using namespace kernel_test;

namespace {

struct Row {
  const char* name;
  uint64_t hash;
};
const Row kTable[] = {
#include "kernel_hashes.inc"
};

struct Check {
  const Kernels& k;
  bool print;
  void operator()(const char* name, const float* y, size_t n) const {
    Fnv fnv;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t u = bits(y[i]);  // the bytes of the little-endian value, on any machine
      const unsigned char b[4] = {static_cast<unsigned char>(u), static_cast<unsigned char>(u >> 8),
                                  static_cast<unsigned char>(u >> 16),
                                  static_cast<unsigned char>(u >> 24)};
      fnv.add(b, 4);
    }
    if (print)
      std::printf("{\"%s\", 0x%016llxull},\n", name, static_cast<unsigned long long>(fnv.h));
    INFO(k.name << ": " << name);
    bool found = false;
    for (const Row& row : kTable)
      if (std::strcmp(row.name, name) == 0) {
        found = true;
        CHECK(row.hash == fnv.h);
      }
    CHECK((found || print));
  }
};

// q8r, of numbers of its own: rounding with and without rotation, and the products.
void hash_whole(const Kernels& k, const Check& check) {
  Random random(20261122);
  const size_t rows = 13, panels = 9, n = panels * kLanes;
  for (const size_t cols : {size_t{203}, size_t{192}}) {
    const size_t groups = static_cast<size_t>(whole_groups_of(cols)), padded = groups * kGroup;
    Array<float> x = floats(random, rows * cols), bias = floats(random, n);
    Array<int8_t> q(rows * padded);
    Array<float> scale(rows), values(rows * (padded + 2)), y(rows * n);
    Array<int32_t> sum(rows);
    const bool rotate = cols % 64 == 0;
    for (size_t r = 0; r < rows; ++r) {
      k.quantize_whole(q + r * padded, scale + r, sum + r, x + r * cols, cols,
                       rotate ? rotation_block(cols) : 0);
      for (size_t i = 0; i < padded; ++i) values[r * padded + i] = q[r * padded + i];
      values[rows * padded + r] = scale[r];
      values[rows * (padded + 1) + r] = static_cast<float>(sum[r]);
    }
    check(rotate ? "quantize_whole, rotated" : "quantize_whole", values, values.size());
    const std::vector<unsigned char> w = whole_panels(random, panels, groups);
    k.linear_q8r(y, n, q, scale, sum, rows, w.data(), bias, n - 5, panels, groups);
    check(rotate ? "linear_q8r, rotated" : "linear_q8r", y, rows * n);
    k.linear_q8r(y, n, q, scale, sum, 1, w.data(), nullptr, 0, panels, groups);
    check(rotate ? "linear_q8r of one row, rotated" : "linear_q8r of one row", y, n);
  }
}

// q4m and q4k, of numbers of their own.
void hash_minima(const Kernels& k, const Check& check) {
  Random random(20261123);
  const size_t rows = 13, panels = 9, n = panels * kLanes, cols = 331,
               groups = static_cast<size_t>(groups_of(cols));
  Array<float> x = floats(random, rows * cols), bias = floats(random, n), y(rows * n);
  Array<int8_t> q(rows * groups * kGroup);
  Array<float> scale(rows * groups);
  Array<int32_t> sum(rows * groups);
  for (size_t r = 0; r < rows; ++r)
    k.quantize_row(q + r * groups * kGroup, scale + r * groups, sum + r * groups, x + r * cols,
                   cols);
  for (const Type type : {Type::q4m, Type::q4k}) {
    const std::vector<unsigned char> w = minimum_panels(random, type, panels, groups);
    const auto linear = type == Type::q4m ? k.linear_q4m : k.linear_q4k;
    linear(y, n, q, scale, sum, rows, w.data(), bias, n - 5, panels, groups);
    check(type == Type::q4m ? "linear_q4m" : "linear_q4k", y, rows * n);
    linear(y, n, q, scale, sum, 1, w.data(), nullptr, 0, panels, groups);
    check(type == Type::q4m ? "linear_q4m of one row" : "linear_q4k of one row", y, n);
  }
}

// q4t, q2, q1, q2r, coded types, q2w, q5m and q5k likewise, with inputs of 8 and of 16 bits.
void hash_codes(const Kernels& k, const Check& check) {
  Random random(20261128);
  const size_t rows = 19, panels = 5, n = panels * kLanes;
  Array<float> bias = floats(random, n), y(rows * n);
  for (const Type type : {Type::q4t, Type::q2, Type::q1, Type::q2r, Type::q6, Type::q4x,
                          Type::q3, Type::q2w, Type::q5m, Type::q5k}) {
    const size_t groups = whole_type(type) ? 12 : 11, spans = whole_type(type) ? 1 : groups,
                 length = groups / spans * kGroup;
    const std::vector<unsigned char> w = panels_of(random, type, panels, groups);
    const std::string name = kTypeNames[static_cast<int>(type)];
    Int8Activations x(&random, rows * spans, length);
    Int16Activations wide(&random, rows, spans, length);
    k.linear_int8(type)(y, n, x.q, x.scale, x.sum, rows, w.data(), bias, n - 5, panels, groups);
    check(("linear_" + name).c_str(), y, rows * n);
    k.linear_int8(type)(y, n, x.q, x.scale, x.sum, 1, w.data(), nullptr, 0, panels, groups);
    check(("linear_" + name + " of one row").c_str(), y, n);
    k.linear_int16(type)(y, n, wide.q, wide.scale, wide.sum, rows, w.data(), bias, n - 5, panels,
                         groups);
    check(("linear16_" + name).c_str(), y, rows * n);
    k.linear_int16(type)(y, n, wide.q, wide.scale, wide.sum, 1, w.data(), nullptr, 0, panels,
                         groups);
    check(("linear16_" + name + " of one row").c_str(), y, n);
  }
}

// Inputs of 16 bits, of numbers of their own: their rounding, and the products of every type with
// values and parts at the ends of their ranges; q8 and q8r with weights of −128 and 127 and with
// ±32512 throughout.
void hash_inputs16(const Kernels& k, const Check& check) {
  Random random(20261127);
  const size_t rows = 7, panels = 5, n = panels * kLanes, cols = 192, groups = 6, each = 2 * cols;
  for (const size_t block : {size_t{0}, size_t{kGroup}, rotation_block(cols)}) {  // 32: in groups
    const bool grouped = block == kGroup;
    const size_t scales = grouped ? groups : 1;
    Array<float> x = floats(random, rows * cols), scale(rows * scales),
                 values(rows * (each + 3 * scales));
    Array<int8_t> q(rows * each);
    Array<int32_t> sum(rows * 2 * scales);
    float* to = values;
    for (size_t r = 0; r < rows; ++r) {
      if (grouped)
        k.quantize_row16(q + r * each, scale + r * scales, sum + r * 2 * scales, x + r * cols,
                         cols);
      else
        k.quantize_whole16(q + r * each, scale + r, sum + r * 2, x + r * cols, cols, block);
      for (size_t i = 0; i < each; ++i) *to++ = q[r * each + i];
      for (size_t i = 0; i < scales; ++i) *to++ = scale[r * scales + i];
      for (size_t i = 0; i < 2 * scales; ++i) *to++ = static_cast<float>(sum[r * 2 * scales + i]);
    }
    const char* const whole = block == 0 ? "quantize_whole16" : "quantize_whole16, rotated";
    check(grouped ? "quantize_row16" : whole, values, values.size());
  }
  Array<float> bias = floats(random, n), y(rows * n);
  for (const Type type : {Type::q8, Type::q4, Type::q4m, Type::q4k, Type::q8r}) {
    const size_t scales = type == Type::q8r ? 1 : groups, length = cols / scales;
    const std::string name = std::string("linear16_") + kTypeNames[static_cast<int>(type)];
    const auto linear = k.linear_int16(type);
    std::vector<unsigned char> w = panels_of(random, type, panels, groups);
    Int16Activations any(&random, rows, scales, length);
    linear(y, n, any.q, any.scale, any.sum, rows, w.data(), bias, n - 5, panels, groups);
    check(name.c_str(), y, rows * n);
    linear(y, n, any.q, any.scale, any.sum, 1, w.data(), nullptr, 0, panels, groups);
    check((name + " of one row").c_str(), y, n);
    if (value_bits(type) != 8) continue;
    const size_t plane = static_cast<size_t>(plane_bytes(type, kLanes, cols)),
                 bytes = static_cast<size_t>(panel_bytes(type, cols));
    for (size_t p = 0; p < panels; ++p)
      for (size_t i = plane; i < bytes; ++i) w[p * bytes + i] = random.below(4) == 0 ? 0x7f : 0x80;
    Int16Activations most(&random, rows, scales, length, true);
    linear(y, n, most.q, most.scale, most.sum, rows, w.data(), nullptr, 0, panels, groups);
    check((name + " at the extremes").c_str(), y, rows * n);
  }
}

// Rows of rotated inputs in groups, whose last blocks are whole ones of 64, and of 4.
void hash_rotated(const Kernels& k, const Check& check) {
  Random random(20261129);
  const size_t rows = 7;
  for (const size_t cols : {size_t{192}, size_t{100}}) {
    const size_t groups = static_cast<size_t>(groups_of(cols)), each = groups * (kGroup + 2);
    Array<float> x = floats(random, rows * cols), values(rows * each), scale(groups);
    Array<int8_t> q(groups * kGroup);
    Array<int32_t> sum(groups);
    float* to = values;
    for (size_t r = 0; r < rows; ++r) {
      k.quantize_rotated(q, scale, sum, x + r * cols, cols, rotation_block(cols));
      for (size_t i = 0; i < groups * kGroup; ++i) *to++ = q[i];
      for (size_t g = 0; g < groups; ++g) *to++ = scale[g];
      for (size_t g = 0; g < groups; ++g) *to++ = static_cast<float>(sum[g]);
    }
    check(cols == 100 ? "quantize_rotated, blocks of 4" : "quantize_rotated", values,
          values.size());
  }
}

void hash_level(const Kernels& k, bool print) {
  const Check check{k, print};
  Random random(20260101);
  const size_t rows = 7, cols = 203, panels = 9, n = panels * kLanes, groups = 7;
  Array<float> x = floats(random, rows * cols), w = floats(random, n * cols),
               bias = floats(random, n), y(rows * n);
  k.linear_f32(y, n, x, cols, rows, w, bias, n - 5, panels, cols);
  check("linear_f32", y, rows * n);
  k.linear_f32(y, n, x, cols, 1, w, nullptr, 0, panels, cols);
  check("linear_f32 of one row", y, n);

  Array<int8_t> q(rows * groups * kGroup);
  Array<float> scale(rows * groups), values(rows * groups * (kGroup + 2));
  Array<int32_t> sum(rows * groups);
  for (size_t r = 0; r < rows; ++r)
    k.quantize_row(q + r * groups * kGroup, scale + r * groups, sum + r * groups, x + r * cols,
                   cols);
  for (size_t i = 0; i < rows * groups; ++i) {
    for (size_t j = 0; j < kGroup; ++j) values[i * kGroup + j] = q[i * kGroup + j];
    values[rows * groups * kGroup + i] = scale[i];
    values[rows * groups * (kGroup + 1) + i] = static_cast<float>(sum[i]);
  }
  check("quantize_row", values, values.size());
  const std::vector<unsigned char> w8 = quantized_panels(random, panels, groups);
  k.linear_q8(y, n, q, scale, sum, rows, w8.data(), bias, n, panels, groups);
  check("linear_q8", y, rows * n);
  // Weights of −128 and 127 with activations of ±127 throughout (1.4).
  std::vector<unsigned char> extreme = w8;
  const size_t plane = static_cast<size_t>(scale_plane_bytes(Type::q8, kLanes, groups)),
               bytes = plane + groups * kLanes * kGroup;
  for (size_t p = 0; p < panels; ++p)
    for (size_t i = plane; i < bytes; ++i)
      extreme[p * bytes + i] = random.below(4) == 0 ? 0x7f : 0x80;
  for (size_t i = 0; i < rows * groups; ++i) {
    int32_t total = 0;
    for (size_t j = 0; j < kGroup; ++j) {
      q[i * kGroup + j] = random.below(5) == 0 || i < 7 ? 127 : -127;
      total += q[i * kGroup + j];
    }
    sum[i] = total;
  }
  k.linear_q8(y, n, q, scale, sum, rows, extreme.data(), nullptr, 0, panels, groups);
  check("linear_q8 at the extremes", y, rows * n);

  const size_t pages = 5, width = 40, ldv = 48;
  Array<float> store = floats(random, pages * kLanes * ldv), queries = floats(random, rows * width);
  Array<float> s(rows * pages * kLanes), inv(rows), out(rows * width);
  const void* page[pages];
  for (size_t p = 0; p < pages; ++p) page[p] = store + (p * 3 % pages) * kLanes * ldv;
  k.scores[kCacheF32](s, pages * kLanes, queries, width, rows, page, pages, width);
  check("scores", s, s.size());
  for (size_t i = 0; i < s.size(); ++i) s[i] *= 4.0f;
  for (size_t r = 0; r < rows; ++r) inv[r] = k.softmax(s + r * pages * kLanes, 5, 71);
  check("softmax", s, s.size());
  check("softmax, the sums", inv, rows);
  k.mix[kCacheF32](out, width, s, pages * kLanes, inv, rows, page, {5, 71, 0, 0}, width);
  check("mix", out, out.size());

  const size_t m = 203;
  Array<float> a(m), g = floats(random, m), b = floats(random, m), u = floats(random, m), square(2);
  square[0] = k.layer_norm(a, u, g, b, m, 1e-5f);
  check("layer_norm", a, m);
  square[1] = k.rms_norm(a, u, g, nullptr, m, 1e-6f);
  check("rms_norm", a, m);
  check("the norms' mean squares", square, 2);

  const auto each = [&](const char* name, float by, auto f) {
    Array<float> v(m);
    for (size_t i = 0; i < m; ++i) v[i] = u[i] * by;
    f(v.get());
    check(name, v, m);
  };
  each("add", 1.0f, [&](float* v) { k.add(v, g, m); });
  each("scale", 1.0f, [&](float* v) { k.scale(v, g, m, 0.7f); });
  each("mul", 1.0f, [&](float* v) { k.mul(v, g, m); });
  each("mul_add", 1.0f, [&](float* v) { k.mul_add(v, g, u, m); });
  const float numbers[] = {0.7f, 0.9f, 0.5f, -1e-6f};
  each("xielu", 5.0f, [&](float* v) { k.xielu(v, m, numbers); });
  each("clip", 1.0f, [&](float* v) { k.clip(v, m, 0.3f); });
  for (const NamedActivation& f : activations()) {
    const float by = f.code == kRelu ? 1.0f : f.code == kSilu ? 30.0f : 9.0f;
    each(f.name.c_str(), by, [&](float* v) { k.activation[f.code](v, m); });
  }
  each("soft_cap", 60.0f, [&](float* v) { k.soft_cap(v, m, 30.0f); });
  each("exp", 80.0f, [&](float* v) { k.exp(v, m); });
  each("log", 1000.0f, [&](float* v) {
    for (size_t i = 0; i < m; ++i) v[i] = std::fabs(v[i]) + 0x1p-60f;
    k.log(v, m);
  });
  unsigned char frequency[8 * 16];
  for (size_t i = 0; i < 16; ++i) {
    const double f = std::ldexp(1.0 + static_cast<double>(i) * 0.0625, -static_cast<int>(i));
    std::memcpy(frequency + 8 * i, &f, 8);
  }
  Array<float> table(32 * 8);
  for (size_t p = 0; p < 8; ++p)
    sincos_row(table + 32 * p, table + 32 * p + 16, 16, frequency, p * p * p * p * p * 7);
  check("sincos_row", table, table.size());

  // Position terms, after all else so that their numbers do not move the others'.
  Array<float> distances = floats(random, width * 100), terms(70),
               rows_of = floats(random, 11 * width);
  k.table_scores(terms, 70, queries, width, 1, distances, 100, 70, width);
  check("table_scores", terms, 70);
  k.key_table_scores(terms, 66, nullptr, width, 1, page, 5, 71, distances, 100, 0, width);
  check("key_table_scores", terms, 66);
  k.key_table_scores(terms, 66, queries, width, 1, page, 5, 71, distances, 100, 0, width);
  check("key_table_scores, three-way", terms, 66);
  k.additive_scores(s, queries, rows_of, page, pages, width);
  check("additive_scores", s, pages * kLanes);
  k.distance_bias(s, 5, 71, 33, 0.0625f);
  check("distance_bias", s, pages * kLanes);
  k.mix_table(out, s, rows_of, width, 11, width);
  check("mix_table", out, width);
  k.unit(out, rows_of, width);
  check("unit", out, width);

  for (Type type : {Type::f16, Type::bf16}) {
    const std::vector<unsigned char> halves = half_panels(random, panels, cols, type);
    const auto linear = type == Type::f16 ? k.linear_f16 : k.linear_bf16;
    linear(y, n, x, cols, rows, halves.data(), bias, n - 5, panels, cols);
    check(type == Type::f16 ? "linear_f16" : "linear_bf16", y, rows * n);
    linear(y, n, x, cols, 1, halves.data(), nullptr, 0, panels, cols);
    check(type == Type::f16 ? "linear_f16 of one row" : "linear_bf16 of one row", y, n);
  }
  const std::vector<unsigned char> w4 = quantized_panels(random, panels, groups, Type::q4);
  k.linear_q4(y, n, q, scale, sum, rows, w4.data(), bias, n, panels, groups);
  check("linear_q4 at the extremes", y, rows * n);

  std::vector<PageOfQ8> keys_q8, values_q8;
  const void *key_page[pages], *value_page[pages];
  for (size_t p = 0; p < pages; ++p) {
    keys_q8.emplace_back(random, width, true);
    values_q8.emplace_back(random, width, false);
    key_page[p] = keys_q8[p].bytes.data();  // what moves with its vector
    value_page[p] = values_q8[p].bytes.data();
  }
  k.scores[kCacheQ8](s, pages * kLanes, queries, width, rows, key_page, pages, width);
  check("scores_q8", s, s.size());
  k.mix[kCacheQ8](out, width, store, pages * kLanes, inv, rows, value_page, {5, 71, 0, 0}, width);
  check("mix_q8", out, out.size());

  hash_whole(k, check);
  hash_minima(k, check);
  hash_inputs16(k, check);
  hash_codes(k, check);
  hash_rotated(k, check);
}

}  // namespace

TEST_CASE("rule 1.1 to 1.12: one table of hashes for every level and every machine") {
  const std::vector<const Kernels*> all = product_levels();
  const bool print = std::getenv("PHASOR_PRINT_HASHES") != nullptr;
  for (const Kernels* k : all) hash_level(*k, print && k == all.back());
}
