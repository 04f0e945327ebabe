// text: what SentencePiece's two models share. Includes the tokenizer's own headers only.
#pragma once
#include "models.h"

namespace phasor::pieces {

constexpr uint32_t kSentencePieceFlags = kAddDummyPrefix | kRemoveExtraWhitespaces |
                                         kEscapeWhitespaces | kByteFallback | kWhitespaceSuffix |
                                         kListed | kLanguageCodes;

// The pieces, and those of bytes where the model spells with them. Null, or what is wrong.
const char* check_sentencepiece(Tokenizer* t, SectionReader* s);

// The map of characters, then white space (Kudo and Richardson 2018, 3.2).
uint64_t normalize_sentencepiece(const Tokenizer& t, Output* out, const unsigned char* text,
                                 size_t bytes);

// Bytes of the longest user-defined piece that `text` begins with, or 0; `bytes` is not 0.
size_t match_user_defined(const Tokenizer& t, const unsigned char* text, size_t bytes);

void decode_sentencepiece(const Tokenizer& t, TextSink* sink, Row r);

}  // namespace phasor::pieces
