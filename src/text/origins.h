// text: where each byte of a normalized text comes from. Includes pieces.h only.
//
// An origin is where the character of the original text begins that a byte stands for, and kEmpty
// with it where the byte stands for none of its bytes. Texts without origins cost nothing: the
// pointer is null.
//
// The tokenizers package does not say which character a normalized one was made of. It counts: a
// change of 0 takes the next character of the text before, one of 1 takes none, and one of −n takes
// 1 + n. A step that changes the number of characters first writes the changes where the origins
// go, each at the first byte of its character; then `place_origins` makes origins of them.
#pragma once
#include "../build.h"
#include "chars.h"

namespace phasor::pieces {

constexpr uint32_t kEmpty = 0x80000000u;

// Whether what offsets take is there.
inline bool wanted(const uint32_t* numbers) { return kHasOffsets && numbers != nullptr; }

inline void fill_origins(uint32_t* origins, uint32_t origin, size_t n) {
  for (size_t i = 0; i < n; ++i) origins[i] = origin;
}

// Makes origins of the changes of a text (n). next(): the origin of the next character before.
template <class Next>
void place_origins(uint32_t* origins, const unsigned char* text, size_t n, Next next) {
  uint32_t origin = 0;
  for (size_t at = 0; at < n;) {
    const size_t bytes = char_at(text + at, n - at).bytes;
    work(bytes);
    int32_t change = static_cast<int32_t>(origins[at]);
    if (change <= 0) origin = next();
    fill_origins(origins + at, origin, bytes);
    for (; change < 0; ++change) {
      work();
      origin = next();
    }
    at += bytes;
  }
}

}  // namespace phasor::pieces
