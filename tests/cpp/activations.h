// The activations of src/kernels/functions.hpp, for what goes through all of them.
#pragma once
#include <vector>

#include "kernels/functions.hpp"

namespace phasor {

struct Activation {
  const char* name;
  size_t code;
};
template <class... Functions>
std::vector<Activation> listed(List<Functions...>) {
  return {{Functions::kName, Functions::kCode}...};
}
inline std::vector<Activation> activations() { return listed(Activations{}); }

}  // namespace phasor
