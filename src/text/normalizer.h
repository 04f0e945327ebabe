// Text normalisation: SentencePiece's (Kudo and Richardson 2018, 3.2), a map of characters, then
// white space; what the tokenizers package makes of such a map; BERT's; and Unicode's canonical
// forms. Includes tokenizer.h only. Never allocates.
#ifndef PHASOR_TEXT_NORMALIZER_H_
#define PHASOR_TEXT_NORMALIZER_H_

#include "tokenizer.h"

namespace phasor {

// Normalises a text into `out`.
// Returns the number of bytes written, or kNormalizedTooLong when they would be more than
// `capacity`.
constexpr std::uint64_t kNormalizedTooLong = ~std::uint64_t{0};
std::uint64_t normalize(const Tokenizer& tokenizer, unsigned char* out, std::uint64_t capacity,
                        const unsigned char* text, std::size_t bytes) noexcept;

// BERT's, as the tokenizers package has it: what is removed, padded or decomposed is in the
// section's classes.
std::uint64_t normalize_bert(const Tokenizer& tokenizer, unsigned char* out, std::uint64_t capacity,
                             const unsigned char* text, std::size_t bytes) noexcept;

// SentencePiece's map as the tokenizers package applies it (its Precompiled), then white space
// taken from the end.
std::uint64_t normalize_precompiled(const Tokenizer& tokenizer, unsigned char* out,
                                    std::uint64_t capacity, const unsigned char* text,
                                    std::size_t bytes) noexcept;

// A space becomes ▁, and one goes before the text where the section says so; bytes that are not
// UTF-8 stay.
std::uint64_t normalize_spaces(const Tokenizer& tokenizer, unsigned char* out,
                               std::uint64_t capacity, const unsigned char* text,
                               std::size_t bytes) noexcept;

// Canonical composition, NFC; the map is in the section.
std::uint64_t normalize_canonical(const Tokenizer& tokenizer, unsigned char* out,
                                  std::uint64_t capacity, const unsigned char* text,
                                  std::size_t bytes) noexcept;

// What the beginning of a text becomes.
struct Rule {
  const unsigned char* text;
  std::size_t bytes;
  std::size_t consumed;
};

// Finds the longest key of the map that a text begins with, or the shortest; false when there is
// none.
bool match_rule(const Tokenizer& tokenizer, Rule* out, const unsigned char* text, std::size_t bytes,
                bool shortest) noexcept;

// The replacement, zero-terminated, of exactly this key, or null.
const unsigned char* find_rule(const Tokenizer& tokenizer, const unsigned char* key,
                               std::size_t bytes) noexcept;

// Checks that no walk through the double array leaves it and that every value is inside the
// strings.
bool normalizer_check(const unsigned char* trie, std::uint32_t units,
                      std::uint32_t string_bytes) noexcept;

}  // namespace phasor

#endif  // PHASOR_TEXT_NORMALIZER_H_
