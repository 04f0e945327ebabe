// The products and attention kernels: the scalar level against plain code that follows the
// contract's words with the C library's fma, then every other level against the scalar one, bit for
// bit, over sizes, strides, offsets and odd values.
#include "compare_products.h"
#include "kernels/scalar_math.h"
#include "rounded_groups.h"
#include "share.h"

using namespace kernel_test;

namespace {

// Rule 1.1 in words, with the C library's exact fma.
std::vector<float> linear_reference(Array<float>& x, size_t ldx, size_t rows, const float* w,
                                    const float* bias, size_t bias_n, size_t panels, size_t cols) {
  std::vector<float> y(rows * panels * kLanes);
  for (size_t r = 0; r < rows; ++r)
    for (size_t o = 0; o < panels * kLanes; ++o) {
      float acc = 0.0f;
      for (size_t k = 0; k < cols; ++k)
        acc = std::fma(x[r * ldx + k],
                       w[o / kLanes * kLanes * cols + panel_index_f32(o % kLanes, k)], acc);
      y[r * panels * kLanes + o] = bias != nullptr && o < bias_n ? acc + bias[o] : acc;
    }
  return y;
}

void check_linear(size_t rows, size_t panels, size_t cols, Fill fill, size_t offset) {
  Random random(rows * 1000003 + panels * 1009 + cols * 17 + offset);
  const size_t ldx = cols + random.below(5), ldy = panels * kLanes + random.below(3) * 7;
  Array<float> x = floats(random, rows * ldx + 1, fill, offset),
               w = floats(random, panels * kLanes * cols, fill);
  Array<float> bias = floats(random, panels * kLanes, fill, offset);
  const size_t bias_n = random.below(panels * kLanes + 1);
  const float* b = random.below(4) == 0 ? nullptr : bias.get();
  const std::vector<float> wanted = linear_reference(x, ldx, rows, w, b, bias_n, panels, cols);
  for (const Kernels* k : levels()) {
    if (fill == Fill::subnormal && flushes(*k)) continue;
    Array<float> y(rows * ldy, offset);
    k->linear_f32(y, ldy, x, ldx, rows, w, b, bias_n, panels, cols);
    INFO(k->name << " rows " << rows << " panels " << panels << " cols " << cols << " offset "
                 << offset);
    REQUIRE(y.intact());
    for (size_t r = 0; r < rows; ++r)
      REQUIRE(first_difference(y + r * ldy, &wanted[r * panels * kLanes], panels * kLanes) ==
              panels * kLanes);
  }
}

// A panel of q8 or q4, as docs/reference/file-format.md has it.
struct Panel {
  Type type;
  const unsigned char* p;
  size_t groups;
  size_t group_bytes() const { return kLanes * (type == Type::q8 ? kGroup : kGroup / 2); }
  size_t plane() const { return (groups * 32 + 63) / 64 * 64; }
  size_t bytes() const { return plane() + groups * group_bytes(); }
  int value(size_t o, size_t k) const {
    const unsigned char* const values = p + plane() + k / 32 * group_bytes();
    const size_t in = k % 32;
    if (type == Type::q8) return static_cast<int8_t>(values[in / 4 * 64 + o * 4 + in % 4]);
    return (values[in % 16 / 4 * 64 + o * 4 + in % 4] >> (in < 16 ? 0 : 4) & 15) - 8;
  }
  float scale(size_t o, size_t k) const {
    const unsigned char* const at = p + (k / 32 * kLanes + o) * 2;
    return widen_f16(static_cast<uint16_t>(at[0] | at[1] << 8));
  }
};

}  // namespace

TEST_CASE("rule 1.1: linear f32 is one fused chain over k per output, then the bias") {
  for (size_t rows = 1; rows <= 14; ++rows)
    for (size_t panels : Sizes{1, 2, 3, 5, 8, 15})
      check_linear(rows, panels, 19, Fill::ordinary, rows % 4);
  for (size_t cols = 0; cols <= 33; ++cols)
    check_linear(1 + cols % 5, 1 + cols % 6, cols, Fill::wide, cols % 3);
  for (size_t cols : Sizes{63, 100, 257, 515}) check_linear(7, 5, cols, Fill::ordinary, 1);
  for (size_t rows : Sizes{1, 2, 6, 13}) {
    check_linear(rows, 5, 41, Fill::zeros, 2);
    check_linear(rows, 9, 41, Fill::subnormal, 0);
  }
}

TEST_CASE("rule 1.5: linear f16 and bf16 widen exactly and are the same chains") {
  for (Type type : {Type::f16, Type::bf16})
    for (size_t rows : Sizes{1, 2, 6, 7, 13})
      for (size_t panels : Sizes{1, 2, 5, 9})
        for (size_t cols : Sizes{0, 1, 2, 31, 64, 515}) {
          Random random(rows * 1009 + panels * 31 + cols);
          const size_t ldx = cols + 3, ldy = panels * kLanes + 5,
                       bias_n = random.below(panels * kLanes + 1);
          Array<float> x = floats(random, rows * ldx, Fill::ordinary, 1),
                       bias = floats(random, panels * kLanes);
          const std::vector<unsigned char> w = half_panels(random, panels, cols, type);
          std::vector<float> wanted(panels * kLanes);
          for (const Kernels* k : levels()) {
            Array<float> y(rows * ldy, 2);
            (type == Type::f16 ? k->linear_f16 : k->linear_bf16)(y, ldy, x, ldx, rows, w.data(),
                                                                 bias, bias_n, panels, cols);
            INFO(k->name << (type == Type::f16 ? " f16" : " bf16") << " rows " << rows << " panels "
                         << panels << " cols " << cols);
            REQUIRE(y.intact());
            for (size_t r = 0; r < rows; r += 3) {
              for (size_t o = 0; o < wanted.size(); ++o) {
                float acc = 0.0f;
                for (size_t i = 0; i < cols; ++i)
                  acc = std::fma(x[r * ldx + i], weight_at(w.data(), type, cols, o, i), acc);
                wanted[o] = o < bias_n ? acc + bias[o] : acc;
              }
              REQUIRE(first_difference(y + r * ldy, wanted.data(), wanted.size()) == wanted.size());
            }
          }
        }
}

// x·y is half a unit in z's last place, or a little less or more, and a double cannot hold the sum:
// where it looks like a tie, what it lost says which way to round.
TEST_CASE("rule 1.1: a multiply-add is rounded once, beside ties and below the least normal too") {
  Random random(12);
  for (const bool subnormal : {false, true})
    for (int i = 0; i < 3000; ++i) {
      const int32_t j = static_cast<int32_t>(random.below(9)) - 4;  // x·y = 2^e·(1 − j²·2^-46)
      const int e = subnormal ? -150 : static_cast<int>(random.below(60)) - 90;
      Array<float> x(2), w(2 * kLanes), wanted(kLanes), y(kLanes);
      x[0] = 1.0f;
      x[1] = 0x1p-30f + static_cast<float>(j) * 0x1p-53f;
      for (size_t o = 0; o < kLanes; ++o) {
        const uint64_t n = random.next();
        const float z = std::ldexp(static_cast<float>(n >> 40 | (subnormal ? 0 : 1u << 23)), e + 1),
                    one = 1.0f - static_cast<float>(j) * 0x1p-23f;
        w[o] = n % 2 == 0 ? z : -z;
        w[kLanes + o] = std::ldexp((n & 2) == 0 ? one : -one, ((n & 12) == 0 ? 31 : 30) + e);
#if !defined(__wasm__)  // Emscripten's fma rounds half of these wrongly
        REQUIRE(same(fma1(x[1], w[kLanes + o], w[o]), std::fma(x[1], w[kLanes + o], w[o])));
#endif
        wanted[o] = fma1(x[1], w[kLanes + o], w[o]);
      }
      for (const Kernels* k : levels()) {
        if (subnormal && flushes(*k)) continue;
        k->linear_f32(y, kLanes, x, 2, 1, w, nullptr, 0, 1, 2);
        INFO(k->name << " j " << j << " e " << e);
        REQUIRE(first_difference(y, wanted, kLanes) == kLanes);
      }
    }
}

TEST_CASE("rule 1.1: a chain of zeros is +0, and an empty one too") {
  for (const Kernels* k : levels()) {
    Array<float> x(3), w(48), y(16);
    for (size_t i = 0; i < 3; ++i) x[i] = 1.0f;
    for (size_t i = 0; i < 48; ++i) w[i] = -0.0f;
    for (size_t cols : Sizes{0, 3}) {
      k->linear_f32(y, 16, x, 3, 1, w, nullptr, 0, 1, cols);
      for (size_t i = 0; i < 16; ++i) CHECK(bits(y[i]) == 0);
    }
  }
}

TEST_CASE("rule 1.3: activations to int8") {
  for (size_t cols = 0; cols <= 100; ++cols)
    for (Fill fill : {Fill::ordinary, Fill::wide, Fill::zeros}) {
      Random random(cols * 7 + static_cast<size_t>(fill));
      Array<float> x = floats(random, cols, fill, cols % 5);
      const size_t groups = static_cast<size_t>(groups_of(cols));
      if (cols > 40 && cols % 2 == 0)
        for (size_t i = 0; i < 32; ++i) x[i] = std::ldexp(x[i], -90);  // below the floor
      for (const Kernels* k : levels()) {
        Array<int8_t> q(groups * kGroup);
        Array<float> s(groups, 1);
        Array<int32_t> sum(groups, 3);
        k->quantize_row(q, s, sum, x, cols);
        INFO(k->name << " cols " << cols);
        REQUIRE((q.intact() && s.intact() && sum.intact()));
        check_groups(q, s, sum, x, cols);
      }
    }
}

TEST_CASE("rule 1.3: ties go to even, the largest is ±127, infinities and NaN do not crash") {
  for (const Kernels* k : levels()) {
    Array<float> x(32), s(1);
    Array<int8_t> q(32);
    Array<int32_t> sum(1);
    for (size_t i = 0; i < 32; ++i) x[i] = static_cast<float>(i) - 15.5f;
    x[0] = -127.0f;
    k->quantize_row(q, s, sum, x, 32);
    CHECK(int{q[0]} == -127);
    for (size_t i = 1; i < 32; ++i) CHECK(int{q[i]} == static_cast<int>(std::nearbyint(x[i])));
    for (float odd : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
      x[3] = odd;
      k->quantize_row(q, s, sum, x, 32);
      for (size_t i = 0; i < 32; ++i) CHECK(int{q[i]} >= -127);
    }
  }
}

TEST_CASE("rule 1.2 and 1.4: linear q8 and q4, with weights of −128 and activations of ±127") {
  Share share;
  for (Type type : {Type::q8, Type::q4})
    for (size_t rows : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 35})
      for (size_t panels : Sizes{1, 2, 3, 4, 7})
        for (size_t groups : Sizes{0, 1, 2, 3, 9, 53}) {
          if (groups > 9 && rows < 35) continue;  // many rows take 24 groups or fewer at once
          if (!share.takes()) continue;
          compare_products<Panel, 32>(type, rows, panels, groups);
        }
}

TEST_CASE("rule 1.6: scores are one chain over the width, for any head width and order of pages") {
  for (size_t rows : Sizes{1, 2, 3, 5, 6, 7, 12})
    for (size_t pages : Sizes{0, 1, 2, 3, 4, 9})
      for (size_t width : Sizes{1, 8, 33, 64}) {
        Random random(rows * 101 + pages * 11 + width);
        Array<float> store = floats(random, (pages + 1) * width * kLanes),
                     q = floats(random, rows * (width + 3), Fill::ordinary, 1);
        std::vector<const float*> page(pages + 1);
        for (size_t p = 0; p < pages; ++p) page[p] = store + (pages - 1 - p) * width * kLanes;
        for (const Kernels* k : levels()) {
          Array<float> s(rows * (pages * kLanes + 2), 1);
          k->scores[kCacheF32](s, pages * kLanes + 2, q, width + 3, rows, pages_of(page), pages,
                               width);
          INFO(k->name << " rows " << rows << " pages " << pages << " width " << width);
          REQUIRE(s.intact());
          for (size_t r = 0; r < rows; ++r)
            for (size_t t = 0; t < pages * kLanes; ++t) {
              float acc = 0.0f;
              for (size_t d = 0; d < width; ++d)
                acc = std::fma(q[r * (width + 3) + d], page[t / kLanes][d * kLanes + t % kLanes],
                               acc);
              REQUIRE(same(s[r * (pages * kLanes + 2) + t], acc));
            }
        }
      }
}

TEST_CASE(
    "rule 1.6: mix is one chain over a row's own keys per output, and writes the width and no "
    "more") {
  struct Steps {
    size_t skip, more;
  };
  for (const Steps step : {Steps{0, 0}, Steps{0, 1}, Steps{1, 1}, Steps{1, 0}, Steps{0, 16}})
    for (size_t rows : Sizes{1, 2, 3, 6, 7, 13})
      for (size_t width : Sizes{1, 15, 16, 17, 48, 64, 100})
        for (size_t end : Sizes{0, 1, 15, 16, 17, 40, 64}) {
          if (step.more == 16 && rows > 4) continue;
          Random random(rows * 103 + width * 11 + end + 1000 * step.skip + 2000 * step.more);
          const size_t first = end == 0 ? 0 : random.below(end),
                       most = end + (rows - 1) * step.more, pages = (most + 15) / 16,
                       lde = most + 1;
          const size_t ldv = static_cast<size_t>(round_up(width, kLanes));
          Array<float> store = floats(random, (pages + 1) * ldv * kLanes),
                       e = floats(random, rows * lde, Fill::ordinary, 1);
          Array<float> inv = floats(random, rows);
          std::vector<const float*> page(pages + 1);
          for (size_t p = 0; p < pages; ++p) page[p] = store + (pages - 1 - p) * ldv * kLanes;
          const size_t ldo = width + random.below(3);
          for (const Kernels* k : levels()) {
            Array<float> out((rows - 1) * ldo + width, 1);
            std::vector<float> gap(out.get(), out.get() + out.size());
            k->mix[kCacheF32](out, ldo, e, lde, inv, rows, pages_of(page),
                              {first, end, step.skip, step.more}, width);
            INFO(k->name << " rows " << rows << " width " << width << " keys " << first << " to "
                         << end << " and on by " << step.skip << ", " << step.more);
            REQUIRE(out.intact());
            for (size_t r = 0; r < rows; ++r) {
              for (size_t d = 0; d < width; ++d) {
                float acc = 0.0f;
                for (size_t t = first + r * step.skip; t < end + r * step.more; ++t)
                  acc = std::fma(e[r * lde + t], page[t / kLanes][t % kLanes * ldv + d], acc);
                REQUIRE(same(out[r * ldo + d], acc * inv[r]));
              }
              for (size_t i = r * ldo + width; i < (r + 1) * ldo && i < out.size(); ++i)
                REQUIRE(bits(out[i]) == bits(gap[i]));
            }
          }
        }
}

TEST_CASE("rule 1.11: rotary pairs turn as the formula says, and nothing beyond them is written") {
  for (size_t half : Sizes{1, 2, 4, 8, 15, 16, 17, 32, 40, 64}) {
    Random random(half);
    Array<float> x = floats(random, 2 * half, Fill::ordinary, 1),
                 c = floats(random, half, Fill::ordinary, 1),
                 s = floats(random, half, Fill::ordinary, 1);
    for (const Kernels* k : levels())
      for (const bool halves : {true, false}) {
        INFO(k->name << " half " << half << (halves ? " halves" : " pairs"));
        Array<float> y(2 * half, 1);
        for (size_t i = 0; i < 2 * half; ++i) y[i] = x[i];
        (halves ? k->rotate_halves : k->rotate_pairs)(y, c, s, half);
        REQUIRE(y.intact());
        for (size_t i = 0; i < half; ++i) {
          const size_t a = halves ? i : 2 * i, b = halves ? i + half : 2 * i + 1;
          REQUIRE(same(y[a], std::fma(x[a], c[i], -(x[b] * s[i]))));
          REQUIRE(same(y[b], std::fma(x[a], s[i], x[b] * c[i])));
        }
      }
  }
}

TEST_CASE(
    "rule 1.5 and 1.8: scores and mix of keys and values in f16 are those of the same values "
    "in f32") {
  for (size_t rows : Sizes{1, 2, 5, 7, 12})
    for (size_t width : Sizes{1, 8, 17, 64, 100}) {
      Random random(rows * 107 + width);
      const size_t pages = 5, end = 71, ldv = static_cast<size_t>(round_up(width, kLanes));
      const std::vector<unsigned char> halves = half_panels(random, pages, ldv, Type::f16);
      const uint16_t* all = reinterpret_cast<const uint16_t*>(halves.data());
      Array<float> wide(pages * ldv * kLanes), q = floats(random, rows * width, Fill::ordinary, 1),
                                               e = floats(random, rows * pages * kLanes),
                                               inv = floats(random, rows);
      for (size_t i = 0; i < wide.size(); ++i) wide[i] = widen_f16(all[i]);
      std::vector<const float*> page(pages);
      std::vector<const uint16_t*> half(pages);
      for (size_t p = 0; p < pages; ++p) {
        page[p] = wide + (pages - 1 - p) * ldv * kLanes;
        half[p] = all + (pages - 1 - p) * ldv * kLanes;
      }
      Array<float> wanted(rows * pages * kLanes), mixed(rows * width);
      kernels_scalar.scores[kCacheF32](wanted, pages * kLanes, q, width, rows, pages_of(page),
                                       pages, width);
      kernels_scalar.mix[kCacheF32](mixed, width, e, pages * kLanes, inv, rows, pages_of(page),
                                    {3, end, 0, 0}, width);
      for (const Kernels* k : levels()) {
        Array<float> s(rows * pages * kLanes, 1), out(rows * width, 2);
        k->scores[kCacheF16](s, pages * kLanes, q, width, rows, pages_of(half), pages, width);
        k->mix[kCacheF16](out, width, e, pages * kLanes, inv, rows, pages_of(half), {3, end, 0, 0},
                          width);
        INFO(k->name << " rows " << rows << " width " << width);
        REQUIRE((s.intact() && out.intact()));
        REQUIRE(first_difference(s, wanted, wanted.size()) == wanted.size());
        REQUIRE(first_difference(out, mixed, mixed.size()) == mixed.size());
      }
    }
}

TEST_CASE("rule 1.8: scores and mix of keys and values in q8 are those of float(q)·scale in f32") {
  for (size_t rows : Sizes{1, 2, 3, 5, 12})
    for (size_t width : Sizes{1, 8, 17, 32, 40, 64, 100, 128}) {
      Random random(rows * 109 + width);
      const size_t pages = 5, end = 71;
      std::vector<PageOfQ8> keys, values;
      for (size_t p = 0; p < pages; ++p) {
        keys.emplace_back(random, width, true);
        values.emplace_back(random, width, false);
      }
      Array<float> q = floats(random, rows * width, Fill::ordinary, 1),
                   e = floats(random, rows * pages * kLanes), inv = floats(random, rows);
      std::vector<const float*> wide_keys(pages), wide_values(pages);
      std::vector<const unsigned char*> key_pages(pages), value_pages(pages);
      for (size_t p = 0; p < pages; ++p) {
        wide_keys[p] = keys[pages - 1 - p].wide.data();
        wide_values[p] = values[pages - 1 - p].wide.data();
        key_pages[p] = keys[pages - 1 - p].bytes.data();
        value_pages[p] = values[pages - 1 - p].bytes.data();
      }
      for (const KeyRange range : {KeyRange{3, end, 0, 0}, KeyRange{5, 40, 1, 1}}) {
        Array<float> wanted(rows * pages * kLanes), mixed(rows * width);
        kernels_scalar.scores[kCacheF32](wanted, pages * kLanes, q, width, rows,
                                         pages_of(wide_keys), pages, width);
        kernels_scalar.mix[kCacheF32](mixed, width, e, pages * kLanes, inv, rows,
                                      pages_of(wide_values), range, width);
        for (const Kernels* k : levels()) {
          Array<float> s(rows * pages * kLanes, 1), out(rows * width, 2);
          k->scores[kCacheQ8](s, pages * kLanes, q, width, rows, pages_of(key_pages), pages, width);
          k->mix[kCacheQ8](out, width, e, pages * kLanes, inv, rows, pages_of(value_pages), range,
                           width);
          INFO(k->name << " rows " << rows << " width " << width);
          REQUIRE((s.intact() && out.intact()));
          REQUIRE(first_difference(s, wanted, wanted.size()) == wanted.size());
          REQUIRE(first_difference(out, mixed, mixed.size()) == mixed.size());
        }
      }
    }
}

TEST_CASE(
    "rule 1.8: to f16 and back: every half is itself, the middle goes to even, too much is "
    "infinite") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const uint16_t half = static_cast<uint16_t>(h);
    const float x = widen_f16(half);
    if (x != x) {
      CHECK(widen_f16(narrow_f16(x)) != widen_f16(narrow_f16(x)));
      continue;
    }
    REQUIRE(narrow_f16(x) == half);
    if ((h & 0x7fff) >= 0x7bff) continue;
    // exact, and the next one away from zero
    const float next = widen_f16(static_cast<uint16_t>(h + 1)), middle = 0.5f * x + 0.5f * next;
    REQUIRE(narrow_f16(middle) == (h % 2 == 0 ? h : h + 1));
    REQUIRE(narrow_f16(std::nextafter(middle, x)) == h);
    REQUIRE(narrow_f16(std::nextafter(middle, next)) == h + 1);
  }
  CHECK(narrow_f16(65519.99f) == 0x7bff);
  CHECK(narrow_f16(65520.0f) == 0x7c00);
  CHECK(narrow_f16(-HUGE_VALF) == 0xfc00);
  CHECK(narrow_f16(1e-30f) == 0);
}

TEST_CASE(
    "rule 1.6 and 1.7: softmax over a window of keys, lanes by position, the tree, a true "
    "division") {
  for (size_t end = 0; end <= 70; ++end)
    for (size_t first : Sizes{size_t{0}, end / 3, end > 2 ? end - 2 : 0, end}) {
      Random random(end * 71 + first);
      const size_t n = static_cast<size_t>(round_up(end, kLanes)) + 16;
      Array<float> s = floats(random, n, Fill::ordinary, end % 4);
      for (size_t i = 0; i < n; ++i) s[i] *= 40.0f;
      Array<float> wanted(n);
      std::memcpy(wanted.get(), s.get(), n * 4);
      const float inv = kernels_scalar.softmax(wanted, first, end);
      if (first < end) {
        // In double, for the sense of it.
        double top = -1e30, sum = 0.0;
        for (size_t t = first; t < end; ++t) top = std::fmax(top, s[t]);
        for (size_t t = first; t < end; ++t) sum += s[t] - top < -64 ? 0.0 : std::exp(s[t] - top);
        CHECK(std::fabs(inv * sum - 1.0) < 1e-6);
        for (size_t t = first; t < end; ++t)
          CHECK(std::fabs(wanted[t] - (s[t] - top < -64 ? 0.0 : std::exp(s[t] - top))) < 4e-6);
        for (size_t t = first / 16 * 16; t < first; ++t) CHECK(bits(wanted[t]) == 0);
        for (size_t t = end; t % 16 != 0; ++t) CHECK(bits(wanted[t]) == 0);
        for (size_t t = static_cast<size_t>(round_up(end, 16)); t < n; ++t)
          CHECK(bits(wanted[t]) == bits(s[t]));
      } else {
        CHECK(bits(inv) == 0);
      }
      for (const Kernels* k : levels()) {
        Array<float> e(n, end % 3);
        std::memcpy(e.get(), s.get(), n * 4);
        INFO(k->name << " keys " << first << " to " << end);
        REQUIRE(bits(k->softmax(e, first, end)) == bits(inv));
        REQUIRE(e.intact());
        REQUIRE(first_difference(e, wanted, n) == n);
      }
    }
}

TEST_CASE("every level is found by its name, the best one first, and its arithmetic is sound") {
  const std::vector<const Kernels*> all = levels();
  CHECK(kernels_by_name(nullptr) == all[0]);
  CHECK(kernels_by_name("auto") == all[0]);
  CHECK(kernels_by_name("nothing") == nullptr);
  CHECK(all.back() == &kernels_scalar);
  for (const Kernels* k : all) {
    CHECK(kernels_by_name(k->name) == k);
    INFO(k->name);
    CHECK(arithmetic_is_sound(*k));
  }
}
