// format: whether the values of a descriptor go together, each of them being in its range.
#pragma once
#include "descriptor.h"

namespace phasor {

// Of one kind of layer, number `index`.
phasor_status check_kind(const KindDescriptor& k, uint32_t index, phasor_error* error) noexcept;
// Of the whole, all scopes read. kinds: NULL, they are not known.
phasor_status check_whole(const File& file, const Descriptor& d, const KindDescriptor* kinds,
                          phasor_error* error) noexcept;

}  // namespace phasor
