// Tokenizers: text to token ids and back, from a section of the weight file that is read where it
// lies.
//
// SentencePiece unigram and BPE models give the ids and the text of the `sentencepiece` package; a
// word list splits at white space and looks each word up; WordPiece, BPE of bytes or characters and
// Metaspace unigram give those of the `tokenizers` package, added tokens included. file-format.md
// (TOKENIZER) has the section byte by byte.
//
// Nothing here allocates, recurses, throws or keeps state: `tokenizer_open` checks a section once,
// completely and in linear time; after that encoding needs only the caller's scratch, whose size is
// known before the text is. Includes nothing but three freestanding headers. Never does I/O.
#pragma once

#include <cstddef>
#include <cstdint>

namespace phasor {

namespace pieces {
struct TokenizerModel;
}

enum class PieceType : uint32_t {
  normal = 1,
  unknown,
  control,
  user_defined,
  unused,
  byte,
  listed
};

constexpr uint32_t kNoToken = 0xFFFFFFFFu;

// A checked view of one tokenizer section. Plain data: copy it freely, share it between threads.
struct Tokenizer {
  const unsigned char* table;        // (pieces, 16 bytes) offset, length, score, type
  const unsigned char* permutation;  // (pieces) u32 ids in the order of the pieces' bytes
  const unsigned char* text;         // the pieces' bytes
  const unsigned char* trie;         // u32s of a Darts double array, or null
  const unsigned char* strings;      // zero-terminated replacements of the normalizer
  // what an unknown piece decodes to; then WordPiece's prefix of a continuation
  const unsigned char* surface;
  const unsigned char* runs;  // (run_count) u32 classes of characters
  // byte-level: u32[256] ids, the merges; Metaspace: f64[pieces + 1] scores
  const unsigned char* model_data;
  // u32[16] first bytes, then (added_count, 16 bytes), the plain ones first
  const unsigned char* added;
  const pieces::TokenizerModel* model;
  uint32_t flags;
  uint32_t pieces;         // rows of the table
  uint32_t ids;            // V of the tokenizer: ids are 0 … ids − 1; the rows behind are unknown
  uint32_t unknown;        // id, or kNoToken
  uint32_t longest;        // bytes of the longest piece
  uint32_t surface_bytes;  // length of `surface`
  uint16_t expansion;      // most normalized bytes that one byte of text can become
  // bytes of the longest text that one rule of the normalizer replaces
  uint16_t longest_rule;
  uint32_t unused;  // how many pieces are of type unused
  // bytes of the longest user-defined piece, 0 when there is none
  uint32_t longest_user;
  union {
    uint32_t user_first[8];  // SentencePiece: bit b: some user-defined piece begins with byte b
    struct {
      uint32_t steps_at;  // in model_data
      uint32_t steps_bytes;
      uint32_t suffix_bytes;     // of the text that ends a word
      uint32_t longest_spelled;  // bytes of the longest text in a `spelled` row
      uint32_t longest_held;     // the same for pieces that are held back
      uint32_t holds;            // 1: some pieces are held back
      uint32_t ascii_stays;      // 1: no character of ASCII is a mark, or composes with one before
    } pipeline;
  };
  float lowest_score;  // of the normal pieces (unigram)
  uint32_t run_count;
  uint32_t ascii_runs;  // of them begin at or below U+007F
  uint32_t merge_count;
  uint32_t added_count;  // added tokens, of which
  // so many are looked for in the text as it is, the others in the normalized text
  uint32_t added_plain;
  // number of the pre-tokenizer's rule; byte-level BPE: its first step
  uint32_t rule;
  // byte-level BPE: the pre-tokenizer's further steps, 0 behind the last
  unsigned char more_steps[8];
  // WordPiece: a word of more characters is unknown; byte-level BPE: bytes of the patterns;
  // Metaspace: the unit of the trie where the walks of the first map begin, or 0; BPE of words:
  // rows behind the ids
  uint32_t word_chars;
  // WordPiece: of the prefix of a continuation; byte-level BPE: patterns that have memo slots
  uint32_t prefix_bytes;
};

// False when the section names a model that this build leaves out; what is no model at all is for
// tokenizer_open to tell.
[[nodiscard]] bool tokenizer_is_built(const unsigned char* section, size_t bytes) noexcept;

// Checks a whole section and binds it.
// Returns true when every offset, count, type, score, order and trie unit in it is sound; else
// false, with `*why` set to a static text that names the first thing wrong. `section` must outlive
// `*out`; it needs no alignment. Time is linear in `bytes`, no memory is used.
[[nodiscard]] bool tokenizer_open(Tokenizer* out, const unsigned char* section, size_t bytes,
                                  const char** why) noexcept;

// Bytes of scratch that encode any text of at most `text_bytes` bytes.
// A function of the section's header and of the arguments only, equal on every machine; 0 for a
// word list; UINT64_MAX when a text of that size cannot be encoded at all (its normalized form
// could pass 2³¹ bytes).
[[nodiscard]] uint64_t tokenizer_scratch_bytes(const Tokenizer& tokenizer, uint64_t text_bytes,
                                               bool offsets = false) noexcept;

// Bytes of what encoding remembers from one text for the next, where texts have at most
// `text_bytes` bytes: equal on every machine; 0 where that is nothing.
[[nodiscard]] uint64_t tokenizer_memory_bytes(const Tokenizer& tokenizer,
                                              uint64_t text_bytes) noexcept;

// That memory: tokenizer_memory_bytes(tokenizer, text_bytes) bytes of one tokenizer, aligned to 8,
// all zero before its first text; or null, and nothing is remembered.
struct TokenizerMemory {
  void* data;
  uint64_t text_bytes;
};

enum class EncodeStatus : uint32_t {
  ok = 0,
  text_too_long = 1,  // the scratch was made for a shorter text; nothing was written
  unknown_word = 2,   // a word list without an unknown id: the word is not in it
  no_offsets = 3,     // the ids of a word do not stand for its characters one after the other
};

struct EncodeResult {
  EncodeStatus status;
  size_t count;   // ids that the text has; the first `capacity` of them were written
  size_t offset;  // unknown_word: where that word lies in the text
  size_t bytes;   // unknown_word: its length
};

// Encodes a text, without start or end ids.
// Returns the number of ids that the text has, also when it is more than `capacity`; then only
// `capacity` are written. `ids` may be null when `capacity` is 0. `text` is any bytes, zeros and
// invalid UTF-8 included; it needs no terminator. `scratch` is aligned to 4 and has at least
// tokenizer_scratch_bytes(tokenizer, text_bytes) bytes, else text_too_long; its contents are
// nothing before and nothing after. `offsets` (2 · capacity) or null: of each id where the text
// that it stands for begins and ends, as the package says it; scratch is then what
// tokenizer_scratch_bytes says with offsets. `memory` changes nothing but the time. Threads may
// share the tokenizer, each with its own scratch and memory.
// Sources: Kudo 2018 (unigram, 3.2), Sennrich et al. 2016 (BPE), Kudo and Richardson 2018
// (normalization).
[[nodiscard]] EncodeResult tokenizer_encode(const Tokenizer& tokenizer, uint32_t* ids,
                                            size_t capacity, const char* text, size_t text_bytes,
                                            void* scratch, size_t scratch_bytes,
                                            uint32_t* offsets = nullptr,
                                            const TokenizerMemory& memory = {}) noexcept;

// One piece of the vocabulary. `text` has no terminator.
struct PieceView {
  const char* text;
  size_t bytes;
  float score;
  PieceType type;
};

// Looks at a piece; `id` must be less than `tokenizer.ids`.
[[nodiscard]] PieceView tokenizer_piece(const Tokenizer& tokenizer, uint32_t id) noexcept;

// Whether text that has a piece's characters gives it, whatever stands around them: an added token
// or a user-defined piece. `id` must be less than `tokenizer.ids`.
[[nodiscard]] bool tokenizer_gives(const Tokenizer& tokenizer, uint32_t id) noexcept;

// The id of the piece with exactly this text; a reserved piece (control, byte, unknown) comes
// before another one of the same text. Returns kNoToken when there is none.
[[nodiscard]] uint32_t tokenizer_find(const Tokenizer& tokenizer, const char* text,
                                      size_t bytes) noexcept;

// The state of a streaming decode; all zero (`TokenDecoder state{}`) is the start of a text.
struct TokenDecoder {
  unsigned char pending[4];     // bytes of a character that is not complete yet
  unsigned char pending_bytes;  // 0 … 3
  unsigned char past_start;     // 1: no more leading space is stripped; a pipeline: bits
  unsigned char prefix_seen;    // 1: the piece before gave up its leading space; 2: byte-level BPE
  unsigned char any_text;       // 1: something was written
  unsigned char filters[8];     // of a pipeline's decoder: bits of each of its filters, ids
};

constexpr size_t kBadToken = static_cast<size_t>(-1);

// Decodes one more id.
// Returns the number of bytes that it adds to the text: 0 for a control piece and while a character
// is incomplete. When that is more than `capacity` nothing is written and the state does not move:
// call again with more room. Returns kBadToken for an id outside the vocabulary. Over a sequence,
// then token_decode_end, the bytes are the package's decode(ids): invalid bytes become U+FFFD, the
// dummy prefix is stripped, unknown is its surface; of the tokenizers package with its special
// tokens skipped.
[[nodiscard]] size_t token_decode(const Tokenizer& tokenizer, TokenDecoder* state, uint32_t id,
                                  char* out, size_t capacity) noexcept;

// Ends a text: writes what is still held back (U+FFFD for each byte of an incomplete character), as
// token_decode does.
[[nodiscard]] size_t token_decode_end(const Tokenizer& tokenizer, TokenDecoder* state, char* out,
                                      size_t capacity) noexcept;

// A capacity that is enough for any one call of token_decode or token_decode_end.
[[nodiscard]] size_t token_decode_capacity(const Tokenizer& tokenizer) noexcept;

}  // namespace phasor
