// Whole models over the twin of level amx's tiles, and the level where the system gives it.
#include "api/api.h"
#include "support.h"
#include "tile_level.h"

using namespace kernel_test;

TEST_CASE("tiles: whole models give the bits that their files record") {
  size_t models = 0;
  for (const std::string& name : golden_models()) {
    if (name.find("-q") == std::string::npos) continue;
    const Block file = golden_file(name);
    for (const uint32_t threads : {1u, 2u}) {
      const Engine e(file, "scalar", nullptr, threads);
      e.model->kernels.pointer = &tile_twin_level();
      for (uint32_t i = 0; i < phasor_vector_count(e.model); ++i) {
        phasor_error error = PHASOR_ERROR_INIT;
        phasor_vector_result result{};
        result.struct_size = sizeof result;
        INFO(name << " vector " << i);
        CHECK(phasor_vector_run(e.session, i, &result, &error) == PHASOR_OK);
      }
    }
    ++models;
  }
  CHECK(models > 60);
}

TEST_CASE("tiles: the system gives them, then amx is the best level; or all is as before") {
  const std::string best = phasor_isa_name(0);
  const bool built = kernels_by_name("amx") != nullptr;
  for (int again = 0; again < 2; ++again) {
    CHECK(phasor_request_amx() == (built ? 1 : 0));  // main.cpp has asked before
    CHECK(phasor_isa_name(0) == best);
    CHECK((best == "amx") == built);
  }
  const Block file = golden_file("tiny-lm-f32");
  const Engine e(file, nullptr);
  CHECK(phasor_model_isa(e.model) == best);
}
