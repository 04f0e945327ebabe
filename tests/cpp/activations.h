// The activations of src/activations.h that have kernels of the value alone, for what goes through
// all of them.
#pragma once
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "kernels/functions.hpp"

namespace phasor {

struct NamedActivation {
  std::string name;
  Activation code;
  NamedActivation(const char* constant, Activation a) : code(a) {
    for (const char* c = constant + 1; *c != 0; ++c) {
      if (c != constant + 1 && std::isupper(*c) != 0) name += '_';
      name += static_cast<char>(std::tolower(*c));
    }
  }
};
inline std::vector<NamedActivation> activations() {
#define PHASOR_NAMED(constant, built) {#constant, constant},
  std::vector<NamedActivation> all = {PHASOR_ACTIVATIONS(PHASOR_NAMED)};
  all.erase(std::remove_if(all.begin(), all.end(),
                           [](const NamedActivation& a) { return a.code == kXielu; }),
            all.end());
  return all;
}

}  // namespace phasor
