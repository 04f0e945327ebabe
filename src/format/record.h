// format: the RECORD section, where the weights come from and how far their outputs are from the
// source's (docs/reference/file-format.md).
#pragma once
#include "file.h"

namespace phasor {

constexpr uint32_t kDigestBytes = 32, kMethodBytes = 64;

// The section; the pointers lie in the file.
struct SourceRecord {
  float divergence;
  uint32_t numerics;       // of the divergence; 0: not measured
  uint32_t rows, samples;  // both 0: no outputs of the source
  const unsigned char* source;       // (kDigestBytes)
  const unsigned char* calibration;  // (kDigestBytes)
  const unsigned char* method;       // (kMethodBytes), zeros behind the text
  const unsigned char* outputs;      // (rows) × {u32 places (samples), f32 (samples + 1)}
};

// False when the section is not sound; `width`: of an output row.
bool read_record(SourceRecord* out, const File& file, uint32_t width) noexcept;
// Writes what is measured and said into the section; checksums are the caller's.
void store_record(unsigned char* section, const SourceRecord& record) noexcept;

}  // namespace phasor
