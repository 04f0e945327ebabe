// The program's own exponential and logarithm, in double, against the C library's long double.
#include <cmath>

#include "../../src/cli/engine/exponential.h"
#include "cases.h"

namespace {

// The distance of y from `exact` in units of 2^-53 of it: half a unit in the last place is between
// 0.5 and 1 of them.
double units(double y, long double exact) {
  return static_cast<double>(std::fabs((static_cast<long double>(y) - exact) / exact)) / 0x1p-53;
}

}  // namespace

TEST_CASE("program: exponential") {
  double worst = 0;
  for (double x = -708; x <= 709; x += 0.00731)
    worst = std::fmax(worst, units(cli::exponential(x), std::exp(static_cast<long double>(x))));
  CHECK(worst < 2);
  CHECK(cli::exponential(0) == 1);
  CHECK(cli::exponential(-709) == 0);
  CHECK(cli::exponential(-INFINITY) == 0);
  CHECK(cli::exponential(710) == INFINITY);
  CHECK(std::isnan(cli::exponential(NAN)));
}

TEST_CASE("program: logarithm") {
  double worst = 0;
  for (double x = 1e-300; x < 1e300; x *= 1.0037)
    worst = std::fmax(worst, units(cli::logarithm(x), std::log(static_cast<long double>(x))));
  for (double x = 0.5; x < 2; x += 0.0001)
    if (x != 1)
      worst = std::fmax(worst, units(cli::logarithm(x), std::log(static_cast<long double>(x))));
  CHECK(worst < 4);
  CHECK(cli::logarithm(1) == 0);
  CHECK(cli::logarithm(0) == -INFINITY);
  CHECK(cli::logarithm(INFINITY) == INFINITY);
  CHECK(std::isnan(cli::logarithm(-1)));
  CHECK(std::isnan(cli::logarithm(NAN)));
}
