// The parts that the tokenizer's files share: reading the section, finding pieces in place, UTF-8,
// collecting ids. Includes tokenizer.h only. Everything here trusts a section that tokenizer_open
// has checked.
#ifndef PHASOR_TEXT_PIECES_H_
#define PHASOR_TEXT_PIECES_H_

#include <cstring>

#include "../work.h"
#include "tokenizer.h"

namespace phasor {
namespace pieces {

constexpr std::uint32_t kAddDummyPrefix = 1, kRemoveExtraWhitespaces = 2, kEscapeWhitespaces = 4,
                        kByteFallback = 8, kWhitespaceSuffix = 16;
// The tokenizers package's models.
constexpr std::uint32_t kPrefixFirst = 32, kSplitAtSpace = 64, kStripRight = 128,
                        kMergeSpaces = 256, kMergeToSpace = 512, kDropFirstPrefix = 1024;
constexpr std::uint32_t kWholeWords = 2, kCompose = 4;  // of byte-level BPE
// of BPE of characters
constexpr std::uint32_t kFuseUnknown = 16, kEscapeFirst = 64, kCutAtSpaces = 128,
                        kDropFirstSpace = 256, kCutAtEach = 512;
constexpr std::uint32_t kMergeIndex = 2048;  // of both: the merges have an index by their left part
// marks of a piece; bits 8 … 15 are bytes that a later token loses
constexpr std::uint32_t kOfModel = 1, kJoined = 2;
constexpr std::uint32_t kWholeWord = 4;  // mark of a piece of byte-level BPE
// classes of characters
constexpr std::uint32_t kSpace = 1, kLetter = 2, kNumber = 4, kWord = 8;
// of WordPiece
constexpr std::uint32_t kPunctuation = 16, kRemoved = 32, kPadded = 64, kHangul = 128;
constexpr std::uint32_t kBreakBit = 4;  // of Metaspace: five bits, a number of enum Break
// so that a length fits in 15 bits of the encoders' scratch
constexpr std::uint32_t kLongestPiece = 32767;
// Of pieces and added tokens that a search begins anew at every character: what bounds the time of
// a character.
constexpr std::uint32_t kLongestSearched = 512;
// pieces of one text that a search may have to pass over
constexpr std::uint32_t kMostAlike = 4;
constexpr std::uint32_t kLongestRule = 1024;  // bounds the walk through the normaliser's trie
constexpr unsigned char kSpaceSymbol[3] = {0xE2, 0x96, 0x81};  // ▁ U+2581
constexpr unsigned char kReplacement[3] = {0xEF, 0xBF, 0xBD};  // U+FFFD

inline std::uint32_t load_u32(const unsigned char* p) noexcept {
  return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
         static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24;
}

inline float load_f32(const unsigned char* p) noexcept {
  const std::uint32_t bits = load_u32(p);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// One row of the table of pieces.
struct Row {
  const unsigned char* p;
  std::uint32_t offset() const noexcept { return load_u32(p); }
  std::uint32_t length() const noexcept { return load_u32(p + 4); }
  float score() const noexcept { return load_f32(p + 8); }
  // in place of the score, models 4 to 6
  std::uint32_t marks() const noexcept { return load_u32(p + 8); }
  PieceType type() const noexcept { return static_cast<PieceType>(load_u32(p + 12)); }
};

inline Row row(const Tokenizer& t, std::uint32_t id) noexcept {
  return {t.table + std::size_t{id} * 16};
}

inline std::uint32_t sorted_id(const Tokenizer& t, std::uint32_t rank) noexcept {
  return load_u32(t.permutation + std::size_t{rank} * 4);
}

// The models of the tokenizers package.
constexpr bool kAnyPackaged =
    is_built(TokenizerModel::wordpiece) || is_built(TokenizerModel::byte_bpe) ||
    is_built(TokenizerModel::metaspace) || is_built(TokenizerModel::char_bpe);
inline bool packaged(const Tokenizer& t) noexcept {
  return kAnyPackaged && t.model >= TokenizerModel::wordpiece;
}

// Pieces that text never gives: they only share the ids.
inline bool reserved(PieceType type) noexcept {
  return type == PieceType::unknown || type == PieceType::control || type == PieceType::byte;
}

// Walks the sorted permutation as if it were a trie: after each byte, [first, last) are the ranks
// of the pieces that begin with the bytes so far.
struct PrefixWalk {
  const Tokenizer& t;
  std::uint32_t first, last, depth;

  explicit PrefixWalk(const Tokenizer& tokenizer) noexcept
      : t(tokenizer), first(0), last(tokenizer.pieces), depth(0) {}

  // Takes one more byte; false when no piece goes on with it.
  bool step(unsigned char byte) noexcept;

  // The id of the piece that ends here and is not reserved, or kNoToken.
  std::uint32_t here() const noexcept;
};

// The first rank whose piece is not less than these bytes.
std::uint32_t lower_bound(const Tokenizer& t, const unsigned char* text,
                          std::size_t bytes) noexcept;

// The id of the piece with exactly these bytes, among the reserved pieces or among the others;
// kNoToken if none.
std::uint32_t find(const Tokenizer& t, const unsigned char* text, std::size_t bytes,
                   bool among_reserved) noexcept;

// Bytes of the longest user-defined piece that `text` begins with, or 0.
std::size_t match_user_defined(const Tokenizer& t, const unsigned char* text,
                               std::size_t bytes) noexcept;

// Bytes of the character that begins with `lead`, by its lead byte alone.
inline std::size_t char_bytes(unsigned char lead) noexcept {
  return lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

// Bytes (1 … 4) of the valid UTF-8 character at `p`, or 0; `*more` says that the bytes could still
// become one.
std::size_t valid_char(const unsigned char* p, std::size_t bytes, bool* more) noexcept;

// The value of a byte piece's text `<0xAB>`, or −1.
int byte_value(const unsigned char* text, std::size_t bytes) noexcept;

// Collects ids: counts all, writes those that fit, merges a run of unknowns, spells unknowns as
// bytes where the model does.
struct IdSink {
  const Tokenizer& t;
  std::uint32_t* ids;  // (capacity)
  std::size_t capacity;
  std::size_t count;
  bool after_unknown;

  void put(std::uint32_t id) noexcept {
    work();
    if (count < capacity) ids[count] = id;
    ++count;
  }
  void piece(std::uint32_t id) noexcept {
    put(id);
    after_unknown = false;
  }
  void unknown(const unsigned char* text, std::size_t bytes) noexcept;
};

// Turns "length of the piece that ends here" (0 … n) into "length of the piece that begins here",
// along the best segmentation.
inline void lengths_by_beginning(std::uint16_t* length, std::uint32_t n) noexcept {
  std::uint32_t carry = 0;
  for (std::uint32_t at = n;;) {
    work();
    const std::uint16_t back = length[at];
    length[at] = static_cast<std::uint16_t>(carry);
    if (at == 0) return;
    carry = back;
    at -= back;
  }
}

// SentencePiece's two encoders; `text` is normalised (n bytes) and lies in the caller's scratch.
void encode_unigram(const Tokenizer& t, IdSink* out, const unsigned char* text, std::uint32_t n,
                    unsigned char* scratch, std::uint64_t limit) noexcept;
void encode_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::uint32_t n,
                unsigned char* scratch, std::uint64_t limit) noexcept;
EncodeResult encode_words(const Tokenizer& t, IdSink* out, const unsigned char* text,
                          std::size_t bytes) noexcept;

// The package's encoders, of a stretch of normalised text between added tokens.
void encode_wordpiece(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                      unsigned char* scratch) noexcept;
// `text` is changed, and so are the 3 bytes before it; `first` says that it begins the whole text.
void encode_metaspace(const Tokenizer& t, IdSink* out, unsigned char* text, std::size_t n,
                      bool first, unsigned char* scratch) noexcept;
void encode_char_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                     unsigned char* scratch, std::uint64_t limit) noexcept;
void encode_byte_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n,
                     unsigned char* scratch, std::uint64_t limit) noexcept;

// Bytes of scratch beside the normalised text, for at most `limit` normalised bytes.
std::uint64_t unigram_scratch(const Tokenizer& t, std::uint64_t limit) noexcept;
std::uint64_t bpe_scratch(const Tokenizer& t, std::uint64_t limit) noexcept;
std::uint64_t wordpiece_scratch(const Tokenizer& t, std::uint64_t limit) noexcept;
std::uint64_t byte_bpe_scratch(std::uint64_t limit) noexcept;
std::uint64_t char_bpe_scratch(std::uint64_t limit) noexcept;
std::uint64_t metaspace_scratch(const Tokenizer& t, std::uint64_t limit) noexcept;

}  // namespace pieces
}  // namespace phasor

#endif  // PHASOR_TEXT_PIECES_H_
