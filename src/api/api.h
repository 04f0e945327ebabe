// api: include/phasor.h over the rooms below, one file for each part of it. Arguments are checked
// here or one room down; nothing is computed here.
#pragma once
#include "../decode/checked.h"

struct phasor_model : phasor::Model {};
struct phasor_session : phasor::Session {};

namespace phasor {

constexpr uint32_t kVersion = PHASOR_VERSION;
constexpr uint32_t kNumerics = 1;

inline bool aligned(const void* p, uintptr_t to) {
  return reinterpret_cast<uintptr_t>(p) % to == 0;
}

// Of a PHASOR_SOURCE or PHASOR_TARGET.
constexpr Half half_of_side(uint32_t side) { return side == PHASOR_SOURCE ? kEncoder : kDecoder; }

// NULL when the model has no such side.
inline const SideDescriptor* side_of(const Model& m, uint32_t side) {
  if (side != PHASOR_SOURCE && side != PHASOR_TARGET) return nullptr;
  const SideDescriptor& s = m.descriptor.sides[half_of_side(side)];
  return s.present != 0 ? &s : nullptr;
}

// Where the ids of an array lie: at a multiple of 4 in the metadata.
inline const uint32_t* ids_at(const Model& m, const Array& a) {
  return a.count == 0 ? nullptr : reinterpret_cast<const uint32_t*>(m.at(a.offset));
}

// What a function that changes a session begins with: the pointers that it needs are there, and red
// zones are looked at when it ends.
class Call : ZoneGuard {
 public:
  template <class... Pointers>
  explicit Call(const phasor_session* session, Pointers... needed) : ZoneGuard(session) {
    required(session, needed...);
  }
};

}  // namespace phasor
