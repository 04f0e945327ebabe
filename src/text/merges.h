// text: symbols of a text that are merged, two neighbors at a time, the best pair first, the
// leftmost of equals, until there is none (Sennrich et al. 2016). Includes models.h only; never
// allocates.
//
// Symbols are named by the place of their first part. A symbol's length in parts is stored at its
// first and at its last place, which is all that finding both neighbors takes. The best pair is
// the winner of a tournament tree over blocks of places: log2 of the blocks matches after each
// merge, so a text of n equal letters is no worse than any other.
#pragma once
#include "models.h"
#include "recent.h"

namespace phasor::pieces {

// The tournament: 1 is the final, i is played between 2i and 2i + 1, of B blocks the best place of
// block b is at B + b.
// Symbols has: n; winner (2 · blocks); better(a, b), the place whose pair comes first; pairs(at),
// whether the symbol there merges with the next; size(at), in parts; size_before(at), of the symbol
// that ends there; merge(left, right), which makes them one; look(at), which finds the symbol's
// pair.
constexpr uint32_t kBlock = 16;
inline uint64_t winners_bytes(uint64_t places) {
  return 2 * sizeof(uint32_t) * ((places + kBlock - 1) / kBlock);
}

template <class Symbols>
struct Tournament {
  Symbols* s;
  uint32_t blocks;

  // Plays all matches; there are at least two places.
  explicit Tournament(Symbols* symbols) : s(symbols), blocks((s->n + kBlock - 1) / kBlock) {
    for (uint32_t block = 0; block < blocks; ++block) look_over(block);
    for (uint32_t match = blocks; --match >= 1;) play(match);
  }
  void replay(uint32_t place) const {
    const uint32_t block = place / kBlock;
    look_over(block);
    for (uint32_t match = (blocks + block) / 2; match >= 1; match /= 2) play(match);
  }

 private:
  void look_over(uint32_t block) const {
    uint32_t best = block * kBlock;
    const uint32_t end = s->n - best < kBlock ? s->n : best + kBlock;
    work(end - best);
    for (uint32_t at = best + 1; at < end; ++at) best = s->better(best, at);
    s->winner[blocks + block] = best;
  }
  void play(uint32_t match) const {
    work();
    s->winner[match] = s->better(s->winner[2 * match], s->winner[2 * match + 1]);
  }
};

template <class Symbols>
void merge_all(Symbols* s) {
  if (s->n < 2) return;
  const Tournament<Symbols> all(s);
  const auto replay = [&all](uint32_t place) { all.replay(place); };
  for (uint32_t left = s->winner[1]; s->pairs(left); left = s->winner[1]) {
    const uint32_t right = left + s->size(left);
    s->merge(left, right);
    replay(right);
    if (left > 0) {
      const uint32_t before = left - s->size_before(left);
      s->look(before);
      replay(before);
    }
    s->look(left);
    replay(left);
  }
}

// The merges of a section: of (left, right) the rank and the result.
const char* check_merges(const Tokenizer& t);
uint64_t merges_bytes(const Tokenizer& t, const SectionReader& s);
// What stands behind them in the model's part.
const unsigned char* behind_merges(const Tokenizer& t);

// The id of a byte's piece, or kNoToken.
inline uint32_t byte_id(const Tokenizer& t, unsigned char byte) {
  return u32_at(t.model_data, byte);
}

// A word, whose symbols are pieces.
struct Word {
  const Tokenizer& t;
  const Pairs recent;
  uint32_t* id;                   // (n) of the symbol that begins here
  uint32_t* rank;    // (n) of the merge of this symbol and the next, or kNoToken
  uint32_t* winner;  // (2 · blocks)
  uint16_t* length;  // (n) at the first and the last part of a symbol
  uint32_t n;
  const unsigned char* text;  // where offsets are asked for: the word's,
  uint32_t* ends;             // (n) and the ends of its parts; or null

  // An empty word of at most `limit` parts; all words of a text are one after the other in it.
  Word(const Tokenizer& t, unsigned char* scratch, uint64_t limit, const Stretch& s);

  bool pairs(uint32_t at) const { return rank[at] != kNoToken; }
  uint32_t size(uint32_t at) const { return length[at]; }
  uint32_t size_before(uint32_t at) const { return length[at - 1]; }
  uint32_t better(uint32_t a, uint32_t b) const {  // kNoToken is the highest rank
    return rank[b] < rank[a] || (rank[b] == rank[a] && b < a) ? b : a;
  }
  void look(uint32_t at);
  void merge(uint32_t left, uint32_t right);

  // A symbol, and the text that it stands for.
  void add(uint32_t symbol, const unsigned char* from, size_t bytes) {
    work();
    id[n] = symbol;
    length[n] = 1;
    if (wanted(ends)) {
      if (n == 0) text = from;
      ends[n] = (n == 0 ? 0 : ends[n - 1]) + static_cast<uint32_t>(bytes);
    }
    ++n;
  }
  // The last symbol stands for more.
  void extend(size_t bytes) {
    if (wanted(ends)) ends[n - 1] += static_cast<uint32_t>(bytes);
  }
  // Merges, and gives the ids; the word is empty then.
  void finish(IdSink* out);
  // The same in passes: all pairs of the best rank, from the left, before another rank is looked
  // for (Sennrich's own program, fastBPE). An id that is no id of the tokenizer's is unknown.
  void finish_in_passes(IdSink* out);

 private:
  void merge_few();
  void put(IdSink* out);
};

inline uint64_t merges_scratch(uint64_t limit) {
  return 10 * limit + winners_bytes(limit);  // u32 id, u32 rank, u16 length
}

// The model's pieces of single characters. What was found for ASCII is kept.
class Alphabet {
 public:
  static constexpr size_t kScratch = 4 * 128;  // bytes, aligned to 4

  Alphabet(const Tokenizer& t, unsigned char* scratch)
      : t_(t), ascii_(reinterpret_cast<uint32_t*>(scratch)) {
    for (uint32_t i = 0; i < kAscii; ++i) ascii_[i] = kNotAsked;
    work(kAscii);
  }
  // The piece of the character at `text`, a space being ▁, or kNoToken.
  uint32_t find(const unsigned char* text, size_t bytes) const {
    const bool space = *text == ' ' || begins_with_space_symbol(text, bytes);
    if (*text >= kAscii && !space) return look(text, bytes);
    uint32_t& known = ascii_[space ? ' ' : *text];
    if (known == kNotAsked)
      known = space ? look(kSpaceSymbol, sizeof kSpaceSymbol) : look(text, 1);
    return known;
  }

 private:
  static constexpr uint32_t kNotAsked = 0xFFFFFFFEu, kAscii = 128;

  uint32_t look(const unsigned char* text, size_t bytes) const {
    return find_where(t_, text, bytes, [](Row r) { return (r.marks() & kOfModel) != 0; });
  }

  const Tokenizer& t_;
  uint32_t* ascii_;  // (kAscii)
};

}  // namespace phasor::pieces
