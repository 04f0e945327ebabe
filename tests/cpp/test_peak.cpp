// The loops by which `phasor bench` measures a machine's arithmetic: they do what they say that
// they did.
#include <string>

#include "cases.h"
#include "kernels/kernels.h"

using namespace phasor;

TEST_CASE("peak loops count their multiply-adds, and their result depends on every round") {
  const Kernels* levels[8];
  const size_t n = kernels_available(levels);
  for (size_t i = 0; i < n; ++i) {
    INFO(levels[i]->name);
    for (const auto peak : {levels[i]->peak_f32, levels[i]->peak_int8}) {
      float few[16], many[16], again[16];
      const uint64_t mode = fp_mode_enter();
      const uint64_t one = peak(few, 1), seven = peak(many, 7);
      peak(again, 7);
      fp_mode_leave(mode);
      CHECK(one % kLanes == 0);
      CHECK(one > 0);
      CHECK(seven == 7 * one);
      bool differs = false;
      for (size_t lane = 0; lane < kLanes; ++lane) {
        differs = differs || few[lane] != many[lane];
        CHECK(many[lane] == again[lane]);
      }
      CHECK(differs);
    }
  }
}
