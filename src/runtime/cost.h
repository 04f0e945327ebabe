// runtime: what a step costs, counted from the descriptor.
#pragma once
#include "../model/model.h"

namespace phasor {

void model_cost(const Model& model, uint32_t source, uint32_t position, phasor_cost* out) noexcept;

}  // namespace phasor
