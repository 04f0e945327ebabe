// cli: where the tokens of a text lie in it.
#pragma once
#include "../engine/engine.h"

namespace cli {

// Bytes begin … end − 1 of a text.
struct Span {
  size_t begin, end;
};

// Where the first `count` of a text's tokens lie, from the tokenizer alone: the text up to a
// token's end has its ids and those before it, from there on to where the next one begins; spaces
// at both ends are left out, and what the tokenizer takes away. The beginnings of each stretch
// between white space are looked at, where the stretches give the text's own ids, or else those of
// the whole text; tokens that share a character have that character's place. Time is quadratic in
// the longest stretch, which is bounded. The room for texts must be held already. False: *why.
bool token_spans(const Engine& engine, uint32_t side, const string& text, const uint32_t* ids,
                 size_t count, vector<Span>* spans, string* why);

// How many characters a text has before byte `at`.
size_t characters(const string& text, size_t at);

}  // namespace cli
