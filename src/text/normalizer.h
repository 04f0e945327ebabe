// text: normalization. The section's map of characters (a Darts double array, Aoe 1989), which
// SentencePiece made (Kudo and Richardson 2018, 3.2), and Unicode's canonical composition from
// such a map; what else a model does to a text is in the model's file. Never allocates.
#pragma once
#include "origins.h"

namespace phasor::pieces {

constexpr uint64_t kNormalizedTooLong = ~uint64_t{0};

// The normalized text so far. Once something did not fit nothing more is written.
struct Output {
  unsigned char* text;  // (capacity)
  uint64_t capacity;
  uint64_t size;
  bool full;
  uint32_t* origins = nullptr;  // (capacity) or null (origins.h)
  uint32_t base = 0;            // where the text that is normalized begins in the whole text
  uint32_t origin = 0;          // of what is put next

  // What is put next comes from the character at a place of the text that is normalized.
  void from(size_t at) { origin = base + static_cast<uint32_t>(at); }

  bool put(const unsigned char* bytes, size_t n) {
    work(1 + n);
    full = full || capacity - size < n;
    if (full) return false;
    std::memcpy(text + size, bytes, n);
    if (wanted(origins)) fill_origins(origins + size, origin, n);
    size += n;
    return true;
  }
  bool put(Span s) { return put(s.text, s.bytes); }
  uint64_t result() const { return full ? kNormalizedTooLong : size; }
};

// A unit of the double array has its label in bits 0–7 and 31, "a value hangs here" in bit 8, and
// the xor distance to its children in bits 10–30, shifted by 8 more when bit 9 is set.
inline uint32_t children(uint32_t node, uint32_t unit) {
  return node ^ ((unit >> 10) << ((unit & 0x200) >> 6));
}
inline bool has_value(uint32_t unit) { return (unit & 0x100) != 0; }
inline bool is_value(uint32_t unit) { return (unit & 0x80000000u) != 0; }
inline uint32_t label(uint32_t unit) { return unit & 0x800000FFu; }

// A walk through the array from its root, byte by byte.
struct MapWalk {
  const Tokenizer& t;
  uint32_t node, unit;

  explicit MapWalk(const Tokenizer& tokenizer, uint32_t root = 0)
      : t(tokenizer), node(root), unit(u32_at(t.trie, root)) {}
  // False when no key goes on with this byte; no key has a zero byte.
  bool step(unsigned char byte) {
    work();
    node = children(node, unit) ^ byte;
    unit = u32_at(t.trie, node);
    return label(unit) == byte && byte != 0;
  }
  // The replacement of the key that ends here, or null.
  const unsigned char* value() const {
    if (!has_value(unit)) return nullptr;
    return t.strings + (u32_at(t.trie, children(node, unit)) & 0x7FFFFFFFu);
  }
};

// What the beginning of a text becomes.
struct Rule {
  const unsigned char* text;
  size_t bytes;
  size_t consumed;
};

// Finds the longest key of the map that a text begins with, or the shortest; false when there is
// none. root: the unit where the map's walks begin.
bool match_rule(const Tokenizer& t, Rule* out, const unsigned char* text, size_t bytes,
                bool shortest, uint32_t root = 0);

// Checks that no walk through the double array leaves it and that every value is inside the
// strings.
bool normalizer_check(const unsigned char* trie, uint32_t units, uint32_t string_bytes);

// The text as it is.
uint64_t normalize_not(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes);

// Canonical composition, NFC.
uint64_t normalize_canonical(const Tokenizer& t, Output* out, const unsigned char* text,
                             size_t bytes);

// BERT's, a character at a time: what is removed, padded or decomposed is in the section's classes.
uint64_t normalize_bert(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes);

}  // namespace phasor::pieces
