// text: the tokenizers' models, one file each, and the one table that lists them. What all models
// share (pieces, normalizer, pre-tokenizer, added tokens) knows none of them by name.
#pragma once
#include "../build.h"
#include "normalizer.h"
#include "section.h"
#include "sinks.h"

namespace phasor::pieces {

// Which pieces of a model may have the same text.
enum class Same : unsigned char {
  none,
  one_reserved,  // two, of which one is reserved and the other is not
  few_reserved,  // any, but of reserved ones no more than kMostAlike
  few_parts,     // any, but of those that are no whole word no more than kMostAlike
};

// A stretch of normalized text.
struct Stretch {
  const unsigned char* text;  // (bytes)
  size_t bytes;
  // the text again, which may be written over, and of the package's models kPrefixRoom bytes before
  // it; not of a model without a normalizer
  unsigned char* writable;
  bool first;              // it begins the whole text
  unsigned char* scratch;  // aligned to 4, as many bytes as the model's `scratch` says of `limit`
  uint64_t limit;          // normalized bytes that the whole text can have
  // where offsets are asked for: origins of `writable`, and a number for each symbol of a word
  uint32_t *origins, *ends;
  TokenizerMemory found;  // of the memory what is behind the words

  // A byte goes before the text, of whose first character it is a part.
  void put_before(unsigned char byte) const {
    writable[-1] = byte;
    if (wanted(origins)) origins[-1] = origins[0];
  }
};

constexpr size_t kPrefixRoom = 3;

// Numbers that offsets take: origins of normalized texts, symbols of a word.
struct OffsetRoom {
  uint64_t origins, symbols;
};

// What a model is to the rest: what its sections may have, and what only it can do.
constexpr uint32_t kAllTypes = 0x7E, kListedTypes = 0xFE;

struct TokenizerModel {
  bool merges = false;
  bool steps = false;       // of the pre-tokenizer, as many as the section says
  bool word_limit = false;  // a longest word, and a prefix of what continues one
  // the header's number of a longest word says something else: where a second map in the trie
  // begins, how many rows have no id, or the bytes of the patterns
  bool other_number = false;
  bool must_have_unknown = true;
  bool emptied = false;  // the normalizer may leave nothing of an added token
  bool bytes = false;    // its pieces are bytes, for which the package has letters
  Same same = Same::none;
  uint16_t flags = 0;     // bits of the header's flags
  uint8_t types = 0x3E;   // bit b: pieces of type b may be there
  uint16_t patterns = 0;  // of the flags: the section has patterns
  uint16_t marks = 0;     // bits of a piece's marks
  uint16_t longest_piece = kLongestSearched;
  uint8_t least_expansion = 3;  // an invalid byte becomes U+FFFD; 0: there is no normalizer
  uint8_t room = 3;             // bytes that encoding adds to a normalized text: a prefix, or two
  uint8_t growth = 1;           // most bytes of text that a byte of a piece becomes

  // Checks a section whose header is sound; null, or what is wrong.
  const char* (*check)(Tokenizer* t, SectionReader* s);
  // Bytes of scratch beside the normalized text, for at most `limit` normalized bytes.
  uint64_t (*scratch)(const Tokenizer& t, uint64_t limit);
  // Bytes of what is remembered of texts of so many bytes (recent.h); null: nothing is.
  MemoryParts (*memory)(const Tokenizer& t, uint64_t text_bytes);
  // For offsets: the numbers of the whole text for origins, and for the symbols of words.
  OffsetRoom (*offset_room)(const Tokenizer& t, uint64_t limit);
  // Writes the normalized text; its bytes, or kNormalizedTooLong. Null: the model takes any text as
  // it is, and no scratch.
  uint64_t (*normalize)(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes);
  void (*encode)(const Tokenizer& t, IdSink* out, const Stretch& s);
  // In place of `normalize` and `encode`: a whole text; false when the header's expansion is not
  // true.
  bool (*encode_text)(const Tokenizer& t, IdSink* out, const Stretch& s);
  void (*decode)(const Tokenizer& t, TextSink* sink, Row r);
  // Where the decoder does more than its pieces: the text ends; bytes that a piece may give, where
  // one gives `most` by itself. Null: nothing is held back but parts of characters.
  void (*decode_end)(TextSink* sink);
  uint64_t (*most_decoded)(const Tokenizer& t, uint64_t most);
};

extern const TokenizerModel kUnigram, kSentencePieceBpe, kWordList, kWordPiece, kByteBpe,
    kMetaspace, kCharBpe, kMetaspaceBpe, kPipeline;

struct ModelRow {
  const char* word;  // in the build's list of words
  // its sections have the parts of the tokenizers package: classes of characters, added tokens,
  // marks in place of scores
  bool package;
  const TokenizerModel* model;  // null: not in this build
};
constexpr ModelRow model_row(const char* word, bool package, const TokenizerModel& model) {
  return {word, package, built(word) ? &model : nullptr};
}

// The models, in the order of their numbers in a section, from 1 on.
constexpr ModelRow kModels[] = {
    model_row("unigram", false, kUnigram),
    model_row("sentencepiece-bpe", false, kSentencePieceBpe),
    model_row("words", false, kWordList),
    model_row("wordpiece", true, kWordPiece),
    model_row("byte-bpe", true, kByteBpe),
    model_row("metaspace", true, kMetaspace),
    model_row("char-bpe", true, kCharBpe),
    model_row("metaspace-bpe", true, kMetaspaceBpe),
    model_row("pipeline", true, kPipeline),
};
constexpr uint32_t kModelCount = sizeof kModels / sizeof *kModels;

// What a running program needs of the table.
struct BuiltModels {
  const TokenizerModel* of[kModelCount];
  bool package;    // some model has the package's parts
  unsigned words;  // of PHASOR_ONLY that are models
};
constexpr BuiltModels built_models() {
  BuiltModels all{};
  for (uint32_t i = 0; i < kModelCount; ++i) {
    all.of[i] = kModels[i].model;
    all.package = all.package || (kModels[i].package && built(kModels[i].word));
    all.words += has_word(PHASOR_ONLY, kModels[i].word);
  }
  return all;
}
constexpr BuiltModels kBuiltModels = built_models();

// Whether a section has the parts of the tokenizers package's models.
inline bool packaged(const Tokenizer& t) { return kBuiltModels.package && t.runs != nullptr; }

}  // namespace phasor::pieces
