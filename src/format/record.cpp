#include "record.h"

namespace phasor {
namespace {

// Offsets of the fields; the outputs follow.
enum : uint32_t {
  kRows = 0,
  kSamples = 4,
  kDivergence = 8,
  kRecordNumerics = 12,
  kSource = 16,
  kCalibration = kSource + kDigestBytes,
  kMethod = kCalibration + kDigestBytes,
  kOutputs = kMethod + kMethodBytes
};

// A text of printable ASCII, then zeros.
bool text_is_sound(const unsigned char* p) {
  uint32_t i = 0;
  while (i < kMethodBytes && p[i] >= 0x20 && p[i] < 0x7F) ++i;
  if (i == 0) return false;
  while (i < kMethodBytes && p[i] == 0) ++i;
  return i == kMethodBytes;
}

// Places ascend, and values are numbers.
bool row_is_sound(const unsigned char* p, uint32_t samples, uint32_t width) {
  for (uint32_t i = 0; i < samples; ++i) {
    const uint32_t place = load_u32(p + 4 * i);
    if (place >= width || (i != 0 && place <= load_u32(p + 4 * i - 4))) return false;
  }
  for (uint32_t i = 0; i <= samples; ++i)
    if (!is_finite_f32(load_u32(p + 4 * (samples + i)))) return false;
  return true;
}

}  // namespace

bool read_record(SourceRecord* out, const File& file, uint32_t width) noexcept {
  const Section& s = file.sections[kSectionRecord];
  if (s.bytes < kOutputs) return false;
  const unsigned char* p = file.data + s.offset;
  *out = {load_f32(p + kDivergence),
          load_u32(p + kRecordNumerics),
          load_u32(p + kRows),
          load_u32(p + kSamples),
          p + kSource,
          p + kCalibration,
          p + kMethod,
          p + kOutputs};
  const uint64_t row = 4 * (2 * uint64_t{out->samples} + 1);
  if (!is_finite_f32(load_u32(p + kDivergence)) || !(out->divergence >= 0) ||
      !text_is_sound(out->method) || out->samples > width || out->samples > 4096 ||
      (out->rows == 0) != (out->samples == 0) || (out->rows == 0 && out->numerics != 0) ||
      out->rows > s.bytes / row || out->rows * row != s.bytes - kOutputs)
    return false;
  for (uint32_t i = 0; i < out->rows; ++i)
    if (!row_is_sound(out->outputs + i * row, out->samples, width)) return false;
  return true;
}

void store_record(unsigned char* section, const SourceRecord& record) noexcept {
  uint32_t bits;
  memcpy(&bits, &record.divergence, sizeof bits);
  store_u32(section + kDivergence, bits);
  store_u32(section + kRecordNumerics, record.numerics);
  memmove(section + kSource, record.source, kDigestBytes);
  memmove(section + kCalibration, record.calibration, kDigestBytes);
  memmove(section + kMethod, record.method, kMethodBytes);
}

}  // namespace phasor
