// text: where ids and text go. Includes pieces.h only; never allocates.
#pragma once
#include "origins.h"
#include "recent.h"

namespace phasor::pieces {

// Where the ids' texts lie in the whole text.
struct Offsets {
  uint32_t* out;              // (2 · capacity) first byte and end of each id, or null
  Span whole;                 // the text
  const unsigned char* base;  // of the text that ids are put for,
  const uint32_t* origins;    // and its origins; null: it is the whole text
  Span word;                  // of a pipeline: the word that the model encodes
  bool up_to_next;            // a text ends where what follows begins (SentencePiece)

  void put(size_t index, const unsigned char* text, size_t n) const;
  void trim(const Tokenizer& t, size_t index, Span token, bool bytes) const;
};

// Collects ids: counts all, writes those that fit, merges a run of unknowns, spells unknowns as
// bytes where the model does.
struct IdSink {
  const Tokenizer& t;
  uint32_t* ids;  // (capacity)
  size_t capacity;
  EncodeResult result;
  bool after_unknown;
  KnownWords known;
  Span run{};   // of text that is no piece, whose id is the last one
  Span lost{};  // the word that has no id
  Offsets offsets{};

  // An id, and the text that it stands for.
  void put(uint32_t id, const unsigned char* text, size_t bytes) {
    if (wanted(offsets.out) && result.count < capacity)
      place({text, bytes}, text_of(t, row(t, id)), false);
    put_id(id);
  }
  // The same of a token that is the text, whatever the piece of the id is.
  void put_text(uint32_t id, const unsigned char* text, size_t bytes);
  void put_id(uint32_t id) {
    work();
    if (result.count < capacity) ids[result.count] = id;
    ++result.count;
  }
  // The ids of a word that `encode` puts, which depend on its bytes alone.
  template <class Encode>
  void word(const unsigned char* text, size_t bytes, Encode encode) {
    if (put_known(text, bytes)) return;
    const size_t before = result.count;
    encode();
    keep_word(text, bytes, before);
  }
  // False of a word that is not known.
  bool put_known(const unsigned char* text, size_t bytes);
  // Its ids are those from number `first` on.
  void keep_word(const unsigned char* text, size_t bytes, size_t first) const;
  // The same of the text that is encoded, before it is normalized.
  void put_whole(uint32_t id, const unsigned char* text, size_t bytes);
  void piece(uint32_t id, const unsigned char* text, size_t bytes) {
    settle();
    put(id < t.ids ? id : t.unknown, text, bytes);
  }
  // Where the next id's text lies; `literal`: the token is `token`, whose characters are no bytes.
  void place(Span text, Span token, bool literal);
  // The package counts the bytes of a word's ids, and counts wrong: it has passed over a character,
  // or has given bytes of what goes before and behind characters.
  void no_offsets() {
    if (wanted(offsets.out)) result.status = EncodeStatus::no_offsets;
  }
  // The unknown id for a word; where there is none the text has no ids.
  void put_unknown(const unsigned char* text, size_t bytes) {
    if (t.unknown != kNoToken) return put(t.unknown, text, bytes);
    result.status = EncodeStatus::unknown_word;
    lost = {text, bytes};
  }
  // The ids of a text's bytes, u32[256], if all of them have one.
  bool put_bytes(const unsigned char* ids_of, const unsigned char* text, size_t bytes);
  void unknown(const unsigned char* text, size_t bytes);
  // Ends a run of unknowns: where ids are those of a list, the run is what the list calls so.
  void settle();
};

// The piece `<0xAB>` of a byte, or kNoToken.
uint32_t byte_piece(const Tokenizer& t, unsigned char byte);

// Counts what is decoded and writes what fits; the caller takes the new state only when all of it
// did.
struct TextSink {
  const Tokenizer& t;
  TokenDecoder state;
  TokenDecoder* to;
  char* out;  // (capacity)
  size_t capacity;
  size_t count = 0;
  bool drop_first_space = false;
  bool filters = false;  // a pipeline's (filters.h)

  TextSink(const Tokenizer& t, TokenDecoder* to, char* out, size_t capacity);

  void put(const unsigned char* text, size_t bytes);
  void write(Span text);
  void put(Span s) { put(s.text, s.bytes); }
  void space() { put(kBlank, 1); }
  // A text in which ▁ is a space, or nothing.
  void put_spaces(const unsigned char* text, size_t bytes, bool drop);
  // One more byte of a text whose characters may be cut anywhere.
  void byte(unsigned char byte);
  // Writes the characters that are complete; with `all`, what is left is not coming any more.
  void settle(bool all);
  // Gives the state back when all was written; the bytes of it all.
  size_t finish() const;
};

constexpr unsigned char kMaximal = 2;  // of prefix_seen: the text is byte-level BPE's

inline Span surface_of(const Tokenizer& t) { return {t.surface, t.surface_bytes}; }

// What a piece of the tokenizers package's models decodes to; false for a special one, and for an
// id that nothing has.
bool decoded(const Tokenizer& t, Row r, Span* out);

}  // namespace phasor::pieces
