// text: a word of WordPiece (Schuster and Nakajima 2012; Devlin et al. 2018): its longest piece,
// and the longest that goes on from it. Includes models.h only; never allocates.
#pragma once
#include "models.h"

namespace phasor::pieces {

inline uint64_t wordpiece_scratch(const Tokenizer& t, uint64_t limit) {
  // u32 ids of a word: no more than its characters
  return 4 * (t.word_chars < limit ? t.word_chars : limit);
}

// The longest piece that goes on from `walk` with the text; its bytes go to `*length`. kNoToken
// when there is none.
inline uint32_t longest_piece(PrefixWalk walk, uint32_t* length, const unsigned char* text,
                              size_t bytes) {
  uint32_t best = kNoToken;
  for (uint32_t i = 0; i < bytes && walk.step(text[i]); ++i) {
    const uint32_t id = walk.of_model();
    if (id == kNoToken) continue;
    best = id;
    *length = i + 1;
  }
  return best;
}

// The longest pieces of a word, from its beginning.
struct WordPieces {
  const Tokenizer& t;
  PrefixWalk start, go_on;  // the pieces that begin a word; those that continue one
  uint32_t* ids;            // (word_chars) of one word: it counts only when all of it is known

  WordPieces(const Tokenizer& tokenizer, unsigned char* scratch)
      : t(tokenizer), start(t), go_on(t), ids(reinterpret_cast<uint32_t*>(scratch)) {
    for (uint32_t i = 0; i < t.prefix_bytes; ++i) go_on.step(t.surface[t.surface_bytes + i]);
  }

  void put(IdSink* out, const unsigned char* word, size_t bytes, uint32_t chars) const {
    uint32_t count = 0;
    bool known = chars <= t.word_chars;
    for (size_t at = 0; known && at < bytes;) {
      uint32_t length = 0;
      const uint32_t id = longest_piece(at == 0 ? start : go_on, &length, word + at, bytes - at);
      known = id != kNoToken && count < chars;  // a damaged piece may be less than a character
      if (known) ids[count++] = id;
      at += length;
    }
    if (!known) return out->put_unknown(word, bytes);
    for (uint32_t i = 0; i < count; ++i) {
      const bool places = wanted(out->offsets.out);
      const uint32_t length =
          places ? row(t, ids[i]).length() - (i > 0 ? t.prefix_bytes : 0) : 0;
      out->put(ids[i], word, length);
      word += length;
    }
  }
};

}  // namespace phasor::pieces
