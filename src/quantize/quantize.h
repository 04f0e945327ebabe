// quantize: a whole file with its matrices in another type. Nothing else of it changes but what
// follows from that.
#pragma once
#include "tensor.h"

namespace phasor {

struct WantedTypes {
  Type matrices;
  Type ends;  // of embeddings and the output's matrix
};

// What became of the tensors of one type.
struct TypeReport {
  uint64_t bytes = 0;
  // of |stored − given|; the largest of a tensor's own largest |given|
  float largest = 0, share = 0;
  uint32_t key = 0;  // of the tensor with the largest
};

// The type that the file's tensor is to have.
Type wanted_type(const Entry& entry, const WantedTypes& wanted) noexcept;

// Bytes of the converted file; false when that does not fit 64 bits, and for a file with a section
// behind its data.
bool converted_bytes(uint64_t* bytes, const File& file, const WantedTypes& wanted) noexcept;

// Fills out (converted_bytes). reports has one for each type code, 0 … 6. moments (columns of all
// matrices, in the directory's order) or NULL. False when a weight is too large for its type:
// *index is its tensor's.
bool convert_file(unsigned char* out, const File& file, const WantedTypes& wanted,
                  const float* moments, TypeReport* reports, uint32_t* index) noexcept;

// Where the columns of a matrix begin in moments: 0 for the first, the sum of all columns for index
// = entry_count.
uint64_t moments_before(const File& file, uint32_t index) noexcept;

// Brings the checksums of a section, and the head's, up to date. The file is writable.
void seal(unsigned char* file, uint32_t section) noexcept;

}  // namespace phasor
