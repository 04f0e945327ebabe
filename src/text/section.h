// text: a section while it is opened: everything in it is checked once, in linear time, so that
// nothing else has to be careful. Here is what holds of every model's section.
#pragma once
#include "pieces.h"

namespace phasor::pieces {

constexpr uint32_t kMostPieces = 1u << 24;

// Fields of the header: of a list, the rows behind its ids; added tokens.
constexpr size_t kExtraAt = 100, kAddedAt = 108;

struct SectionReader {
  const unsigned char* p;  // (bytes)
  uint64_t bytes;
  uint64_t end;         // of the last part that was placed
  uint32_t text_bytes;  // of the pieces' text

  uint32_t u32(size_t at) const { return load_u32(p + at); }
  // A part of the section: at a multiple of 4, not before `end`, inside; moves `end` behind it.
  bool part(const unsigned char** out, uint64_t offset, uint64_t size);
  // A part whose offset is in the header.
  bool placed(const unsigned char** out, size_t field, uint64_t size) {
    return part(out, load_u64(p + field), size);
  }
  // A part that begins where the one before it ends.
  bool next(const unsigned char** out, uint64_t size) { return part(out, (end + 3) / 4 * 4, size); }
};

// All pieces and their order, behind which the section ends. Null, or what is wrong.
const char* check_pieces(Tokenizer* t, const SectionReader& s);

}  // namespace phasor::pieces
