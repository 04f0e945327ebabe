// The tensors that a descriptor asks for, with weights: docs/reference/file-format.md, "DIRECTORY".
#pragma once
#include "bytes.h"
#include "choices.h"
#include "model/model.h"

namespace generator {

struct WrittenTensor {
  phasor::Entry entry;  // but for offset and checksum
  Bytes bytes;
};

// In the order of their keys. `meta` is the view that `d` and `kinds` were read from.
std::vector<WrittenTensor> write_tensors(Choices* choices, const phasor::File& meta,
                                         const phasor::Descriptor& d,
                                         const std::vector<phasor::KindDescriptor>& kinds);

}  // namespace generator
