// The kernels of position terms: scores by distance, the additive score, ALiBi, values by distance,
// and a vector of length one.
#include "kernel_data.h"

using namespace kernel_test;

namespace {

// Keys of `pages` pages [w][16] each, in allocations of their own, so that reading across is seen.
struct Pages {
  std::vector<Array<float>> pages;
  std::vector<const float*> pointers;
  Pages(Random& random, size_t count, size_t width) {
    for (size_t p = 0; p < count; ++p)
      pages.push_back(floats(random, width * kLanes, Fill::ordinary, p % 3));
    for (Array<float>& page : pages) pointers.push_back(page.get());
  }
  float key(size_t j, size_t d) const { return pointers[j / kLanes][d * kLanes + j % kLanes]; }
};

}  // namespace

TEST_CASE(
    "contract 1.9: q·a is one chain for each distance, and nothing beyond the table is read") {
  Random random(91);
  for (size_t rows : Sizes{1, 2, 4, 5})
    for (size_t width : Sizes{1, 3, 16, 33})
      for (size_t n : Sizes{1, 2, 15, 16, 17, 31, 64, 79, 130}) {
        const size_t ld = n + 5, ldq = width + 2;
        Array<float> q = floats(random, rows * ldq),
                     t = floats(random, (width - 1) * ld + n, Fill::ordinary, 1);
        std::vector<float> wanted(rows * n);
        for (size_t r = 0; r < rows; ++r)
          for (size_t i = 0; i < n; ++i) {
            float acc = 0;
            for (size_t d = 0; d < width; ++d) acc = std::fma(q[r * ldq + d], t[d * ld + i], acc);
            wanted[r * n + i] = acc;
          }
        for (const Kernels* k : levels()) {
          Array<float> y(rows * n, n % 3);
          k->table_scores(y, n, q, ldq, rows, t, ld, n, width);
          INFO(k->name << " rows " << rows << " width " << width << " n " << n);
          REQUIRE(y.intact());
          for (size_t i = 0; i < rows * n; ++i) REQUIRE(same(y[i], wanted[i]));
        }
      }
}

TEST_CASE("contract 1.9: k·a and the three-way product over any range of keys") {
  Random random(92);
  for (size_t rows : Sizes{1, 3, 4, 6})
    for (size_t width : Sizes{1, 7, 16}) {
      const Pages pages(random, 5, width);
      for (size_t first : Sizes{0, 3, 16, 21})
        for (size_t end : Sizes{22, 32, 45, 64, 80})
          for (size_t step : Sizes{0, 1}) {
            const size_t n = end - first, before = (rows - 1) * step, ld = n + before + 2,
                         ldq = width + 1;
            Array<float> q = floats(random, rows * ldq),
                         t = floats(random, (width - 1) * ld + before + n);
            for (const Kernels* k : levels())
              for (bool product : {false, true}) {
                Array<float> y(rows * n, 1);
                k->key_table_scores(y, n, product ? q.get() : nullptr, ldq, rows,
                                    pages_of(pages.pointers), first, end, t + before, ld, step,
                                    width);
                INFO(k->name << " rows " << rows << " width " << width << " keys " << first
                             << " to " << end << " step " << step);
                REQUIRE(y.intact());
                for (size_t r = 0; r < rows; ++r)
                  for (size_t j = first; j < end; ++j) {
                    float acc = 0;
                    for (size_t d = 0; d < width; ++d) {
                      volatile float qk =
                          product ? q[r * ldq + d] * pages.key(j, d) : pages.key(j, d);
                      acc = std::fma(static_cast<float>(qk),
                                     t[d * ld + before + (j - first) - r * step], acc);
                    }
                    REQUIRE(same(y[r * n + j - first], acc));
                  }
              }
          }
    }
}

TEST_CASE("contract 1.9: the additive score is a chain of v·tanh(q + k)") {
  Random random(93);
  for (size_t width : Sizes{1, 5, 20}) {
    const Pages pages(random, 2, width);
    Array<float> q = floats(random, width), v = floats(random, width);
    Array<float> first(2 * kLanes);
    kernels_scalar.additive_scores(first, q, v, pages_of(pages.pointers), 2, width);
    for (size_t j = 0; j < 2 * kLanes; ++j) {
      double sum = 0;
      for (size_t d = 0; d < width; ++d)
        sum += double(v[d]) * std::tanh(double(q[d]) + double(pages.key(j, d)));
      REQUIRE(std::fabs(sum - double(first[j])) < 4e-7 * static_cast<double>(width));
    }
    for (const Kernels* k : levels()) {
      Array<float> s(2 * kLanes, 2);
      k->additive_scores(s, q, v, pages_of(pages.pointers), 2, width);
      INFO(k->name << " width " << width);
      REQUIRE(s.intact());
      REQUIRE(first_difference(s, first, 2 * kLanes) == 2 * kLanes);
    }
  }
}

TEST_CASE("contract 1.9: ALiBi is one fused multiply-add of the distance") {
  Random random(94);
  for (size_t query : Sizes{0, 4, 40, 70})
    for (size_t first : Sizes{0, 5, 16})
      for (size_t end : Sizes{17, 41, 64}) {
        Array<float> x = floats(random, 64);
        for (const Kernels* k : levels()) {
          Array<float> s(64, 3);
          std::memcpy(s.get(), x.get(), 64 * 4);
          k->distance_bias(s, first, end, query, 0.3f);
          INFO(k->name << " query " << query << " keys " << first << " to " << end);
          REQUIRE(s.intact());
          for (size_t j = 0; j < 64; ++j) {
            const float distance = static_cast<float>(j < query ? query - j : j - query);
            REQUIRE(
                same(s[j], j >= first && j < end ? std::fma(0.0f - distance, 0.3f, x[j]) : x[j]));
          }
        }
      }
}

TEST_CASE("contract 1.9: relative values go on with a chain") {
  Random random(95);
  for (size_t width : Sizes{1, 15, 16, 21, 40})
    for (size_t n : Sizes{0, 1, 9})
      for (bool one_row : {false, true}) {
        Array<float> e = floats(random, n + 1), t = floats(random, (one_row ? 1 : n + 1) * width),
                     begin = floats(random, width);
        for (const Kernels* k : levels()) {
          Array<float> out(width, 1);
          std::memcpy(out.get(), begin.get(), width * 4);
          k->mix_table(out, e, t, one_row ? 0 : width, n, width);
          INFO(k->name << " width " << width << " n " << n);
          REQUIRE(out.intact());
          for (size_t d = 0; d < width; ++d) {
            float acc = begin[d];
            for (size_t i = 0; i < n; ++i)
              acc = std::fma(e[i], t[(one_row ? 0 : i * width) + d], acc);
            REQUIRE(same(out[d], acc));
          }
        }
      }
}

TEST_CASE("a vector of length one") {
  Random random(96);
  for (size_t n : Sizes{1, 2, 16, 31, 384}) {
    Array<float> x = floats(random, n), zeros(n), first(n);
    std::memset(zeros.get(), 0, n * 4);
    REQUIRE(kernels_scalar.unit(first, x, n) > 0);
    double length = 0;
    for (size_t i = 0; i < n; ++i) length += double(first[i]) * double(first[i]);
    CHECK(std::fabs(std::sqrt(length) - 1) < 2e-7);
    for (const Kernels* k : levels()) {
      Array<float> y(n, 2);
      k->unit(y, x, n);
      INFO(k->name << " n " << n);
      REQUIRE(y.intact());
      REQUIRE(first_difference(y, first, n) == n);
      CHECK(k->unit(y, zeros, n) == 0);  // and no division by zero
      for (size_t i = 0; i < n; ++i) REQUIRE(same(y[i], 0.0f));
    }
  }
}
