// The kernels that take one row: norms, activations, sums, argmax; and the look-up of rows of
// tables.
#include "kernel_data.h"

using namespace kernel_test;

namespace {

// Lane i mod 16, blocks ascending, then distance 8, 4, 2, 1.
float tree_reference(const std::vector<float>& terms) {
  float t[16] = {};
  for (size_t i = 0; i < terms.size(); ++i) t[i % 16] += terms[i];
  for (size_t half = 8; half != 0; half /= 2)
    for (size_t i = 0; i < half; ++i) t[i] += t[i + half];
  return t[0];
}
// The same with squares fused into the lanes.
float squares_reference(const std::vector<float>& terms) {
  float t[16] = {};
  for (size_t i = 0; i < terms.size(); ++i) t[i % 16] = std::fma(terms[i], terms[i], t[i % 16]);
  for (size_t half = 8; half != 0; half /= 2)
    for (size_t i = 0; i < half; ++i) t[i] += t[i + half];
  return t[0];
}

// Calls f on the same input at every level and compares with the scalar level's output.
template <class F>
void all_levels_agree(const Array<float>& x, size_t n, size_t offset, F f) {
  Array<float> wanted(n, 0);
  Array<float>& input = const_cast<Array<float>&>(x);
  std::memcpy(wanted.get(), input.get(), n * 4);
  f(kernels_scalar, wanted.get());
  for (const Kernels* k : levels()) {
    Array<float> y(n, offset);
    std::memcpy(y.get(), input.get(), n * 4);
    f(*k, y.get());
    INFO(k->name << " n " << n);
    REQUIRE(y.intact());
    const size_t at = first_difference(y, wanted, n);
    INFO("element " << at << " of input " << (at < n ? input[at] : 0.0f));
    REQUIRE(at == n);
  }
}

std::vector<size_t> lengths() {
  std::vector<size_t> n;
  for (size_t i = 0; i <= 33; ++i) n.push_back(i);
  for (size_t i : Sizes{47, 48, 49, 63, 100, 257, 1000, 1031}) n.push_back(i);
  return n;
}

}  // namespace

TEST_CASE("rule 1.11: layer norm and RMS norm") {
  for (size_t n : lengths()) {
    if (n == 0) continue;
    for (Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros}) {
      Random random(n);
      Array<float> x = floats(random, n, fill, n % 3), g = floats(random, n, Fill::ordinary, 1);
      Array<float> b = floats(random, n, Fill::ordinary, 2);
      const float count = static_cast<float>(n), eps = 1e-5f;
      std::vector<float> terms(x.get(), x.get() + n), centered(n);
      const float mean = tree_reference(terms) / count;
      for (size_t i = 0; i < n; ++i) centered[i] = x[i] - mean;
      const float variance = squares_reference(centered) / count,
                  square = squares_reference(terms) / count;
      const float r = 1.0f / std::sqrt(variance + eps), q = 1.0f / std::sqrt(square + eps);
      for (const Kernels* k : levels())
        for (bool bias : {true, false}) {
          Array<float> y(n, n % 2), z(n, 1);
          INFO(k->name << " n " << n);
          REQUIRE(same(k->layer_norm(y, x, g, bias ? b.get() : nullptr, n, eps), variance));
          REQUIRE(same(k->rms_norm(z, x, g, bias ? b.get() : nullptr, n, eps), square));
          REQUIRE((y.intact() && z.intact()));
          for (size_t i = 0; i < n; ++i) {
            volatile float yn = centered[i] * r, zn = x[i] * q;
            REQUIRE(same(y[i], bias ? std::fma(static_cast<float>(yn), g[i], b[i]) : yn * g[i]));
            REQUIRE(same(z[i], bias ? std::fma(static_cast<float>(zn), g[i], b[i]) : zn * g[i]));
          }
          Array<float> in_place(n);
          std::memcpy(in_place.get(), x.get(), n * 4);
          k->layer_norm(in_place, in_place, g, bias ? b.get() : nullptr, n, eps);
          REQUIRE(first_difference(in_place, y, n) == n);
        }
    }
  }
}

TEST_CASE("rule 1.14: a value that is not finite reaches the norm's mean square") {
  for (const Kernels* k : levels())
    for (float odd : {HUGE_VALF, -HUGE_VALF, std::nanf("")})
      for (size_t at : Sizes{0, 5, 36}) {
        Array<float> x(37), y(37), g(37);
        for (size_t i = 0; i < 37; ++i) x[i] = g[i] = 1.0f;
        x[at] = odd;
        INFO(k->name);
        CHECK_FALSE(std::isfinite(k->layer_norm(y, x, g, nullptr, 37, 1e-5f)));
        CHECK_FALSE(std::isfinite(k->rms_norm(y, x, g, nullptr, 37, 1e-5f)));
      }
}

TEST_CASE("element-wise kernels: every level as the scalar one, any length and alignment") {
  for (size_t n : lengths())
    for (Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros}) {
      Random random(n * 3 + static_cast<size_t>(fill));
      Array<float> x = floats(random, n, fill), z = floats(random, n, fill, 3);
      for (size_t i = 0; i < n; ++i) x[i] *= 20.0f;
      const size_t offset = n % 4;
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.add(y, z, n); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.mul(y, z, n); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.mul_add(y, z, x, n); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.scale(y, z, n, 0.3f); });
      for (const NamedActivation& f : activations())
        all_levels_agree(x, n, offset,
                         [&](const Kernels& k, float* y) { k.activation[f.code](y, n); });
      const float numbers[] = {0.7f, 0.9f, 0.5f, -1e-6f};
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.xielu(y, n, numbers); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.clip(y, n, 3.0f); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.soft_cap(y, n, 30.0f); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.exp(y, n); });
      all_levels_agree(x, n, offset, [&](const Kernels& k, float* y) { k.log(y, n); });
    }
}

TEST_CASE("add, mul, mul_add, scale and relu do what they say; relu keeps NaN and clears −0") {
  for (const Kernels* k : levels()) {
    Array<float> x(20), y(20);
    for (size_t i = 0; i < 20; ++i) {
      x[i] = static_cast<float>(i) - 7.5f;
      y[i] = 2.0f;
    }
    k->add(y, x, 20);
    for (size_t i = 0; i < 20; ++i) CHECK(y[i] == x[i] + 2.0f);
    k->mul(y, x, 20);
    for (size_t i = 0; i < 20; ++i) CHECK(y[i] == (x[i] + 2.0f) * x[i]);
    k->mul_add(y, x, x, 20);
    for (size_t i = 0; i < 20; ++i)
      CHECK(y[i] == std::fma(x[i], x[i], (x[i] + 2.0f) * x[i]));
    k->scale(y, x, 20, -3.0f);
    for (size_t i = 0; i < 20; ++i) CHECK(y[i] == x[i] * -3.0f);
    y[0] = -0.0f;
    y[17] = std::nanf("");
    y[18] = -HUGE_VALF;
    y[19] = HUGE_VALF;
    Array<float> limited(20);
    std::memcpy(limited.get(), y.get(), 20 * sizeof(float));
    k->clip(limited, 20, 5.0f);
    CHECK(limited[17] != limited[17]);
    CHECK(limited[18] == -5.0f);
    CHECK(limited[19] == 5.0f);
    for (size_t i = 1; i < 17; ++i) CHECK(limited[i] == std::fmax(-5.0f, std::fmin(5.0f, y[i])));
    k->activation[kRelu](y, 20);
    CHECK(bits(y[0]) == 0);
    CHECK(y[17] != y[17]);
    CHECK(bits(y[18]) == 0);
    CHECK(y[19] == HUGE_VALF);
    for (size_t i = 1; i < 17; ++i) CHECK(y[i] == (x[i] * -3.0f > 0 ? x[i] * -3.0f : 0.0f));
    y[0] = -0.0f;
    y[1] = -2.5f;
    y[18] = -HUGE_VALF;
    k->activation[kRelu2](y, 20);
    CHECK(bits(y[0]) == 0);
    CHECK(bits(y[1]) == 0);
    for (size_t i = 2; i < 17; ++i) CHECK(y[i] == (x[i] < 0 ? 9.0f * x[i] * x[i] : 0.0f));
    CHECK(y[17] != y[17]);
    CHECK(bits(y[18]) == 0);
    CHECK(y[19] == HUGE_VALF);
  }
}

TEST_CASE("rule 1.15: argmax takes the lowest index of a tie; a NaN is no answer") {
  for (const Kernels* k : levels())
    for (size_t n : lengths()) {
      if (n == 0) continue;
      Random random(n);
      for (int round = 0; round < 8; ++round) {
        Array<float> x(n, n % 5);
        for (size_t i = 0; i < n; ++i)
          x[i] = round == 0 ? -HUGE_VALF
                            : static_cast<float>(static_cast<int>(random.below(6))) -
                                  (round < 4 ? 9.0f : 2.0f);
        size_t wanted = 0;
        for (size_t i = 1; i < n; ++i)
          if (x[i] > x[wanted]) wanted = i;
        float largest = 0;
        INFO(k->name << " n " << n << " round " << round);
        REQUIRE(k->argmax(x, n, &largest) == wanted);
        REQUIRE(bits(largest) == bits(x[wanted]));
        x[random.below(n)] = std::nanf("");
        REQUIRE(k->argmax(x, n, &largest) == n);
      }
      Array<float> z(n);
      // equal: the first, with its own sign
      for (size_t i = 0; i < n; ++i) z[i] = i % 2 == 0 ? -0.0f : 0.0f;
      float largest = 1;
      CHECK(k->argmax(z, n, &largest) == 0);
      CHECK(bits(largest) == 0x80000000u);
    }
}

TEST_CASE("argmax of negative subnormals, which some levels flush, is a place of the array") {
  for (const Kernels* k : levels())
    for (size_t n : {size_t{1}, size_t{3}, size_t{16}, size_t{37}}) {
      Array<float> x(n);
      for (size_t i = 0; i < n; ++i) x[i] = i == n / 2 ? -0x1p-140f : -0x1p-130f;
      float largest = 1;
      INFO(k->name << " n " << n);
      CHECK(k->argmax(x, n, &largest) == n / 2);
      CHECK(bits(largest) == bits(-0x1p-140f));
    }
}

TEST_CASE("rule 1.5: f16 widens exactly, all 65,536 of them") {
  for (uint32_t h = 0; h < 65536; ++h) {
    const int exponent = static_cast<int>(h >> 10 & 31), fraction = static_cast<int>(h & 1023);
    float wanted = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                   : exponent == 31
                       ? (fraction == 0 ? HUGE_VALF : std::nanf(""))
                       : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    if (h >= 0x8000) wanted = -wanted;
    REQUIRE(same(widen_f16(static_cast<uint16_t>(h)), wanted));
  }
}

TEST_CASE("rule 1.5: every level widens the scales of q8 as widen_f16 does") {
  for (const Kernels* k : levels()) {
    std::vector<unsigned char> w(64 + 512, 1);
    Array<int8_t> xq(32);
    for (size_t i = 0; i < 32; ++i) xq[i] = i == 0;
    float one = 1.0f, y[16];
    int32_t sum = 1;
    for (uint32_t h = 0; h < 65536; h += 16) {
      for (uint32_t i = 0; i < 16; ++i) {
        const uint16_t half = static_cast<uint16_t>(h + i);
        std::memcpy(&w[2 * i], &half, 2);
      }
      k->linear_q8(y, 16, xq, &one, &sum, 1, w.data(), nullptr, 0, 1, 1);
      INFO(k->name << " from f16 " << h);
      for (uint32_t i = 0; i < 16; ++i) {
        const float wide = widen_f16(static_cast<uint16_t>(h + i));
        REQUIRE(same(y[i], wide + 0.0f));
      }
    }
  }
}

TEST_CASE("rows of tables: panels and rows, f32, f16 and q8") {
  const size_t rows = 37, cols = 70;
  Random random(5);
  const size_t panels = static_cast<size_t>(panels_of(rows)),
               groups = static_cast<size_t>(groups_of(cols));
  Array<float> f = floats(random, panels * kLanes * cols);
  const std::vector<unsigned char> q = quantized_panels(random, panels, groups);
  const size_t plane = static_cast<size_t>(scale_plane_bytes(Type::q8, rows, groups));
  std::vector<unsigned char> qr(plane + rows * groups * kGroup), h(rows * cols * 2);
  for (unsigned char& b : qr) b = static_cast<unsigned char>(random.below(256) & 0xbf);
  for (unsigned char& b : h) b = static_cast<unsigned char>(random.below(256) & 0xbf);
  for (size_t row = 0; row < rows; ++row) {
    Array<float> y(cols, 1);
    gather_row(y, f.get(), Type::f32, Layout::panel16, rows, cols, row);
    for (size_t k = 0; k < cols; ++k)
      REQUIRE(same(y[k], f[row / 16 * 16 * cols + k * 16 + row % 16]));
    gather_row(y, f.get(), Type::f32, Layout::rows, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) REQUIRE(same(y[k], f[row * cols + k]));
    gather_row(y, h.data(), Type::f16, Layout::rows, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) {
      const size_t at = (row * cols + k) * 2;
      REQUIRE(same(y[k], widen_f16(static_cast<uint16_t>(h[at] | h[at + 1] << 8))));
    }
    gather_row(y, q.data(), Type::q8, Layout::panel16, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) {
      const unsigned char* panel =
          q.data() + row / 16 * static_cast<size_t>(panel_bytes(Type::q8, cols));
      const size_t s = (k / 32 * 16 + row % 16) * 2;
      const float scale = widen_f16(static_cast<uint16_t>(panel[s] | panel[s + 1] << 8));
      const size_t at =
          static_cast<size_t>(scale_plane_bytes(Type::q8, 16, groups)) +
          panel_index_q8(row % 16, k);
      REQUIRE(same(y[k], scale * static_cast<float>(static_cast<int8_t>(panel[at]))));
    }
    gather_row(y, qr.data(), Type::q8, Layout::rows, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) {
      const size_t s = (row * groups + k / 32) * 2;
      const float scale = widen_f16(static_cast<uint16_t>(qr[s] | qr[s + 1] << 8));
      REQUIRE(same(y[k], scale * static_cast<float>(
                                     static_cast<int8_t>(qr[plane + row * groups * 32 + k]))));
    }
    REQUIRE(y.intact());
  }
}

TEST_CASE("rows of tables: f16, bf16 and q4 in panels, bf16 and q4 in rows") {
  const size_t rows = 37, cols = 71;  // an odd width: half a pair of bf16 is padding
  Random random(6);
  const size_t panels = static_cast<size_t>(panels_of(rows)),
               groups = static_cast<size_t>(groups_of(cols));
  const size_t plane = static_cast<size_t>(scale_plane_bytes(Type::q8, rows, groups));
  const std::vector<unsigned char> q = quantized_panels(random, panels, groups, Type::q4);
  std::vector<unsigned char> qr(plane + rows * groups * kGroup / 2), h(rows * cols * 2);
  for (unsigned char& b : qr) b = static_cast<unsigned char>(random.below(256) & 0xbf);
  for (unsigned char& b : h) b = static_cast<unsigned char>(random.below(256) & 0xbf);
  const auto half = [](const unsigned char* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); };
  for (size_t row = 0; row < rows; ++row) {
    Array<float> y(cols, 1);
    for (Type type : {Type::f16, Type::bf16}) {
      const std::vector<unsigned char> w = half_panels(random, panels, cols, type);
      gather_row(y, w.data(), type, Layout::panel16, rows, cols, row);
      for (size_t k = 0; k < cols; ++k)
        REQUIRE(same(y[k], weight_at(w.data(), type, cols, row, k)));
    }
    gather_row(y, h.data(), Type::bf16, Layout::rows, rows, cols, row);
    for (size_t k = 0; k < cols; ++k)
      REQUIRE(bits(y[k]) == uint32_t{half(&h[(row * cols + k) * 2])} << 16);
    gather_row(y, q.data(), Type::q4, Layout::panel16, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) {
      const unsigned char* panel =
          q.data() + row / 16 * static_cast<size_t>(panel_bytes(Type::q4, cols));
      const size_t plane_of_panel = static_cast<size_t>(scale_plane_bytes(Type::q8, 16, groups));
      const unsigned char byte = panel[plane_of_panel +
                                       k / 32 * 256 + k % 16 / 4 * 64 + row % 16 * 4 + k % 4];
      const int value = (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
      REQUIRE(same(
          y[k], widen_f16(half(panel + (k / 32 * 16 + row % 16) * 2)) * static_cast<float>(value)));
    }
    gather_row(y, qr.data(), Type::q4, Layout::rows, rows, cols, row);
    for (size_t k = 0; k < cols; ++k) {
      const unsigned char byte = qr[plane + (row * groups + k / 32) * 16 + k % 16];
      const int value = (k % 32 < 16 ? byte & 15 : byte >> 4) - 8;
      REQUIRE(same(y[k],
                   widen_f16(half(&qr[(row * groups + k / 32) * 2])) * static_cast<float>(value)));
    }
    REQUIRE(y.intact());
  }
}

TEST_CASE("rule 1.13: the floating-point mode is set on entry and given back") {
  const uint64_t outer = fp_mode_enter();
  const uint64_t inner = fp_mode_enter();
  volatile float tiny = 0x1p-126f;
  CHECK(tiny * 0.5f > 0.0f);
  fp_mode_leave(inner);
  fp_mode_leave(outer);
#if defined(__SSE2__)
  const uint32_t before = static_cast<uint32_t>(__builtin_ia32_stmxcsr());
  __builtin_ia32_ldmxcsr(0x1f80u | 0x8040u | 0x6000u);  // flush, denormals are zero, towards zero
  const uint64_t saved = fp_mode_enter();
  const float half = tiny * 0.5f;
  volatile float third = 3.0f;
  third = 1.0f / third;
  fp_mode_leave(saved);
  // less the sticky flags
  const uint32_t restored = static_cast<uint32_t>(__builtin_ia32_stmxcsr()) & ~0x3fu;
  __builtin_ia32_ldmxcsr(before);
  CHECK(half > 0.0f);
  CHECK(third == 0x1.555556p-2f);
  CHECK(restored == (0x1f80u | 0x8040u | 0x6000u));
#endif
}
