// Characters and their classes, from the section's runs: what the tokenizers package's rules ask of
// Unicode. Includes tokenizer.h and pieces.h only. Everything here trusts a section that
// tokenizer_open has checked.
#pragma once

#include "pieces.h"

namespace phasor::pieces {

// classes of characters
constexpr uint32_t kSpace = 1, kLetter = 2, kNumber = 4, kWord = 8;
// of WordPiece
constexpr uint32_t kPunctuation = 16, kRemoved = 32, kPadded = 64, kHangul = 128;
// of BPE of words that a map makes lower case: has a case; is passed over when a case is looked for
constexpr uint32_t kCased = 256, kPassedOver = 512;

constexpr uint32_t kNoChar = 0xFFFFFFFFu;  // a byte that is not UTF-8
// of a run: its first code point; above them its classes
constexpr uint32_t kCodeBits = 21;

struct Char {
  uint32_t code;  // or kNoChar
  uint32_t bytes;
};

// The character that begins at `p`; one byte where none does. `bytes` is not 0.
inline Char char_at(const unsigned char* p, size_t bytes) {
  if (p[0] < 0x80) return {p[0], 1};
  bool more = false;
  const uint32_t size = static_cast<uint32_t>(valid_char(p, bytes, &more));
  if (size == 0) return {kNoChar, 1};
  uint32_t code = p[0] & (0x7Fu >> size);
  for (uint32_t i = 1; i < size; ++i) code = code << 6 | (p[i] & 0x3Fu);
  return {code, size};
}

// The character that ends before `at`, which is not 0.
inline Char char_before(const unsigned char* text, size_t at) {
  for (size_t size = 1; size <= 4 && size <= at; ++size) {
    const Char c = char_at(text + at - size, size);
    if (c.bytes == size && c.code != kNoChar) return c;
  }
  return {kNoChar, 1};
}

// The first code point of a run, and the classes of all up to the next one.
inline uint32_t run_begin(const Tokenizer& t, uint32_t run) {
  return u32_at(t.runs, run) & ((1u << kCodeBits) - 1);
}
inline uint32_t run_classes(const Tokenizer& t, uint32_t run) {
  return u32_at(t.runs, run) >> kCodeBits;
}

// The classes of a character; none for kNoChar.
inline uint32_t classes(const Tokenizer& t, uint32_t code) {
  if (code == kNoChar) return 0;
  const bool ascii = code < 0x80;
  work();
  const uint32_t next = first_where(ascii ? 1 : t.ascii_runs, ascii ? t.ascii_runs : t.run_count,
                                    [&](uint32_t run) { return run_begin(t, run) > code; });
  return run_classes(t, next - 1);
}

// Writes a code point as UTF-8 (4 bytes of room); returns its bytes.
inline size_t write_char(unsigned char* to, uint32_t code) {
  if (code < 0x80) {
    to[0] = static_cast<unsigned char>(code);
    return 1;
  }
  const size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  for (size_t i = size; --i > 0; code >>= 6)
    to[i] = static_cast<unsigned char>(0x80 | (code & 0x3F));
  to[0] = static_cast<unsigned char>((0xF00u >> size & 0xFFu) | code);
  return size;
}

// Hangul (Unicode, 3.12): a syllable is a lead, a vowel and perhaps a tail; kTail stands for none.
constexpr uint32_t kSyllable = 0xAC00, kSyllables = 11172, kLead = 0x1100, kLeads = 19,
                   kVowel = 0x1161, kVowels = 21, kTail = 0x11A7, kTails = 28;
// into one character, canonically; no chain of real ones is half as long
constexpr uint32_t kMostComposed = 32;

inline bool is_syllable(uint32_t code) { return code - kSyllable < kSyllables; }

// The canonical decomposition of a syllable, each part 3 bytes (9 of room).
inline size_t decompose_hangul(unsigned char* to, uint32_t code) {
  const uint32_t index = code - kSyllable, tail = index % kTails;
  size_t size = write_char(to, kLead + index / (kVowels * kTails));
  size += write_char(to + size, kVowel + index / kTails % kVowels);
  if (tail != 0) size += write_char(to + size, kTail + tail);
  return size;
}

// The syllable of a lead and a vowel, or of a syllable without a tail and a tail; or kNoChar.
inline uint32_t compose_hangul(uint32_t a, uint32_t b) {
  if (a - kLead < kLeads && b - kVowel < kVowels)
    return kSyllable + ((a - kLead) * kVowels + (b - kVowel)) * kTails;
  const bool open = is_syllable(a) && (a - kSyllable) % kTails == 0;
  return open && b - kTail - 1 < kTails - 1 ? a + (b - kTail) : kNoChar;
}

}  // namespace phasor::pieces
