// runtime: one row of sinusoidal positions (Vaswani et al. 2017, section 3.5), from the file's inverse frequencies in double.
#pragma once
#include "../model/model.h"

namespace phasor {

// row (D) of `position`; scratch has D floats. The same bits as a row of the table that is filled at open.
void sinusoid_row(float* row, float* scratch, const Model& model, uint32_t stack, uint32_t position) noexcept;

}  // namespace phasor
