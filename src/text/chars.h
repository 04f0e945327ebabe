// Characters and their classes, from the section's runs: what the tokenizers package's rules ask of
// Unicode. Includes tokenizer.h and pieces.h only. Everything here trusts a section that
// tokenizer_open has checked.
#ifndef PHASOR_TEXT_CHARS_H_
#define PHASOR_TEXT_CHARS_H_

#include "pieces.h"

namespace phasor {
namespace pieces {

constexpr std::uint32_t kNoChar = 0xFFFFFFFFu;  // a byte that is not UTF-8
// of a run: its first code point; above them its classes
constexpr std::uint32_t kCodeBits = 21;

struct Char {
  std::uint32_t code;  // or kNoChar
  std::uint32_t bytes;
};

// The character that begins at `p`; one byte where none does. `bytes` is not 0.
inline Char char_at(const unsigned char* p, std::size_t bytes) noexcept {
  if (p[0] < 0x80) return {p[0], 1};
  bool more = false;
  const std::uint32_t size = static_cast<std::uint32_t>(valid_char(p, bytes, &more));
  if (size == 0) return {kNoChar, 1};
  std::uint32_t code = p[0] & (0x7Fu >> size);
  for (std::uint32_t i = 1; i < size; ++i) code = code << 6 | (p[i] & 0x3Fu);
  return {code, size};
}

// The character that ends before `at`, which is not 0.
inline Char char_before(const unsigned char* text, std::size_t at) noexcept {
  for (std::size_t size = 1; size <= 4 && size <= at; ++size) {
    const Char c = char_at(text + at - size, size);
    if (c.bytes == size && c.code != kNoChar) return c;
  }
  return {kNoChar, 1};
}

// The classes of a character; none for kNoChar.
inline std::uint32_t classes(const Tokenizer& t, std::uint32_t code) noexcept {
  if (code == kNoChar) return 0;
  std::uint32_t low = code < 0x80 ? 0 : t.ascii_runs - 1,
                high = code < 0x80 ? t.ascii_runs : t.run_count;
  work();
  while (high - low > 1) {  // the run at `low` begins at or before the character
    work();
    const std::uint32_t middle = low + (high - low) / 2;
    if ((load_u32(t.runs + std::size_t{middle} * 4) & ((1u << kCodeBits) - 1)) <= code)
      low = middle;
    else
      high = middle;
  }
  return load_u32(t.runs + std::size_t{low} * 4) >> kCodeBits;
}

// Writes a code point as UTF-8 (4 bytes of room); returns its bytes.
inline std::size_t write_char(unsigned char* to, std::uint32_t code) noexcept {
  if (code < 0x80) {
    to[0] = static_cast<unsigned char>(code);
    return 1;
  }
  const std::size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (std::size_t i = size; --i > 0; code >>= 6)
    to[i] = static_cast<unsigned char>(0x80 | (code & 0x3F));
  to[0] = static_cast<unsigned char>((0xF00u >> size & 0xFFu) | code);
  return size;
}

}  // namespace pieces
}  // namespace phasor

#endif  // PHASOR_TEXT_CHARS_H_
