// text: the pieces of a section: reading it, finding pieces in place, UTF-8. Includes tokenizer.h
// only. Everything here trusts a section that tokenizer_open has checked.
#pragma once
#include <cstring>

#include "../work.h"
#include "tokenizer.h"

namespace phasor::pieces {

// Flags of a section's header. Each model says which of them it knows; some bits have another
// meaning in another model.
constexpr uint32_t kAddDummyPrefix = 1, kRemoveExtraWhitespaces = 2, kEscapeWhitespaces = 4,
                   kByteFallback = 8, kWhitespaceSuffix = 16;
constexpr uint32_t kOfWords = 128;  // of BPE: SentencePiece's word model
// of SentencePiece's models whose ids are those of a list of texts beside them
constexpr uint32_t kListed = 32, kLanguageCodes = 64;
constexpr uint32_t kHasList = 1u << 31;  // of no section: set where kListed is of such a model
constexpr uint32_t kCharacters = 128;    // of a word list: its words are characters
// of the tokenizers package's models
constexpr uint32_t kPrefixFirst = 32, kSplitAtSpace = 64, kStripRight = 128, kMergeSpaces = 256,
                   kMergeToSpace = 512, kDropFirstPrefix = 1024, kStripFirst = 4096,
                   kMergeFirst = 8192;
constexpr uint32_t kWholeWords = 2, kCompose = 4, kPatterns = 32768;  // of byte-level BPE
// of BPE of characters, the first of them of BPE with Metaspace too
constexpr uint32_t kFuseUnknown = 16, kEscapeFirst = 64, kCutAtSpaces = 128, kDropFirstSpace = 256,
                   kCutAtEach = 512, kWordEnds = 1024, kBertWords = 4096, kLowerWords = 16384;
// Of all of the package's models: what its post-processors take from both ends of a token's
// offsets, two bits for each one: white space; but not the first token's only leading one.
constexpr uint32_t kTrimAt = 16, kTrimMask = 0x7FFF0000u, kTrims = 1, kKeepsFirst = 2;
constexpr uint32_t kMergeIndex = 2048;  // of merges: they have an index by their left part
// marks of a piece; bits 8 … 15 are bytes that a later token loses
constexpr uint32_t kOfModel = 1, kJoined = 2, kAnyMarks = 0xFF03;
constexpr uint32_t kWholeWord = 4;  // mark of a piece of byte-level BPE
// so that a length fits in 15 bits of the encoders' scratch
constexpr uint32_t kLongestPiece = 32767;
// Of pieces and added tokens that a search begins anew at every character: what bounds the time of
// a character.
constexpr uint32_t kLongestSearched = 512;
// pieces of one text that a search may have to pass over
constexpr uint32_t kMostAlike = 4;
constexpr uint32_t kLongestRule = 1024;  // bounds the walk through the normalizer's trie
constexpr unsigned char kSpaceSymbol[3] = {0xE2, 0x96, 0x81};  // ▁ U+2581
constexpr unsigned char kBlank[1] = {' '};
constexpr unsigned char kReplacement[3] = {0xEF, 0xBF, 0xBD};  // U+FFFD

inline uint32_t load_u32(const unsigned char* p) {
  return static_cast<uint32_t>(p[0]) | static_cast<uint32_t>(p[1]) << 8 |
         static_cast<uint32_t>(p[2]) << 16 | static_cast<uint32_t>(p[3]) << 24;
}
inline uint64_t load_u64(const unsigned char* p) {
  return load_u32(p) | static_cast<uint64_t>(load_u32(p + 4)) << 32;
}
// Number i of an array.
inline uint32_t u32_at(const unsigned char* p, size_t i) { return load_u32(p + i * 4); }

// Bytes that are not one's own.
struct Span {
  const unsigned char* text;  // (bytes)
  size_t bytes;
};

// One row of the table of pieces.
struct Row {
  const unsigned char* p;
  uint32_t offset() const { return load_u32(p); }
  uint32_t length() const { return load_u32(p + 4); }
  float score() const {
    const uint32_t bits = marks();
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  uint32_t marks() const { return load_u32(p + 8); }  // of the package's models, for a score
  PieceType type() const { return static_cast<PieceType>(load_u32(p + 12)); }
};

inline Row row(const Tokenizer& t, uint32_t id) { return {t.table + size_t{id} * 16}; }
inline uint32_t sorted_id(const Tokenizer& t, uint32_t rank) { return u32_at(t.permutation, rank); }
inline Span text_of(const Tokenizer& t, Row r) { return {t.text + r.offset(), r.length()}; }

// Pieces that text never gives: they only share the ids.
inline bool reserved(PieceType type) {
  return type == PieceType::unknown || type == PieceType::control || type == PieceType::byte ||
         type == PieceType::listed;
}

// The first of low … high − 1 for which `holds` is true, as it is for all behind it; else high.
template <class Holds>
uint32_t first_where(uint32_t low, uint32_t high, Holds holds) {
  while (low < high) {
    work();
    const uint32_t middle = low + (high - low) / 2;
    if (holds(middle))
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Ranks of pieces that begin with the same bytes.
struct Ranks {
  uint32_t first, last;
};

template <class Value>
class Recent;  // recent.h

// Walks the sorted permutation as if it were a trie: after each byte, [first, last) are the ranks
// of the pieces that begin with the bytes so far.
struct PrefixWalk {
  const Tokenizer& t;
  const Recent<Ranks>* recent;  // what other walks have found, or null
  uint32_t first, last, depth;

  explicit PrefixWalk(const Tokenizer& tokenizer, const Recent<Ranks>* found = nullptr)
      : t(tokenizer), recent(found), first(0), last(tokenizer.pieces), depth(0) {}

  // Takes one more byte; false when no piece goes on with it.
  bool step(unsigned char byte);

  // The id of the piece that ends here and is not reserved, or kNoToken.
  uint32_t here() const;
  // The id of the piece that ends here and that the model can give, or kNoToken.
  uint32_t of_model() const;

 private:
  Ranks find(unsigned char byte) const;
};

// The order of two texts by their bytes, a prefix before what goes on from it: negative, 0 where
// they are equal, or positive.
int compare(Span a, Span b);

// The order of the piece of a rank and of a text.
int compare_at(const Tokenizer& t, uint32_t rank, const unsigned char* text, size_t bytes);

// The first rank whose piece is not less than these bytes.
uint32_t lower_bound(const Tokenizer& t, const unsigned char* text, size_t bytes);

// The lowest id of the pieces with exactly these bytes that `accepts(row)` takes, or kNoToken.
template <class Accepts>
uint32_t find_where(const Tokenizer& t, const unsigned char* text, size_t bytes, Accepts accepts) {
  for (uint32_t rank = lower_bound(t, text, bytes); rank < t.pieces; ++rank) {
    if (compare_at(t, rank, text, bytes) != 0) break;
    const uint32_t id = sorted_id(t, rank);
    if (accepts(row(t, id))) return id;
  }
  return kNoToken;
}

// The id of the piece with exactly these bytes, among the reserved pieces or among the others;
// kNoToken if none.
uint32_t find(const Tokenizer& t, const unsigned char* text, size_t bytes, bool among_reserved);

// The id that a list has for a text, whatever its type; kNoToken if none.
uint32_t listed_id(const Tokenizer& t, const unsigned char* text, size_t bytes);

// Whether a text begins with ▁.
inline bool begins_with_space_symbol(const unsigned char* text, size_t bytes) {
  return bytes >= 3 && std::memcmp(text, kSpaceSymbol, 3) == 0;
}

// Bytes of the character that begins with `lead`, by its lead byte alone.
inline size_t char_bytes(unsigned char lead) {
  return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Bytes (1 … 4) of the valid UTF-8 character at `p`, or 0; `*more` says that the bytes could still
// become one.
size_t valid_char(const unsigned char* p, size_t bytes, bool* more);

// The value of a byte piece's text `<0xAB>`, or −1.
int byte_value(const unsigned char* text, size_t bytes);

}  // namespace phasor::pieces
