// quantize: a whole file with its matrices in another type. Nothing else of it changes but what
// follows from that.
#pragma once
#include "tensor.h"

namespace phasor {

// A file and what it is to become.
struct Conversion {
  File file{};
  Type matrices{}, ends{};  // ends: embeddings and the output's matrix
  uint32_t inputs = 0;      // bits, 0: as they are
  bool rotated = false;     // of types in groups
  const float* moments = nullptr;
  const char* const* types = nullptr;  // of each tensor, or NULL: names, checked by `open`
  uint64_t bytes = 0;  // of the converted file

  // Checks the options and whether every tensor may be stored as they ask.
  [[nodiscard]] phasor_status open(const File& given, const phasor_quantize_options& options,
                                   phasor_error* error) noexcept;
  // Fills out (bytes), and reports (PHASOR_TYPES), which are zero.
  [[nodiscard]] phasor_status run(unsigned char* out, phasor_rounding* reports,
                                  phasor_error* error) const noexcept;
};

// Brings the checksums of a section, and the head's, up to date. The file is writable.
void seal(unsigned char* file, uint32_t section) noexcept;

}  // namespace phasor
