// Byte-pair encoding (Sennrich et al. 2016) as SentencePiece does it: of all neighbors whose
// concatenation is a piece, merge the pair of the highest score, the leftmost of equals, until
// there is none (merges.h). Symbols are stretches of the text. Includes the tokenizer's own headers
// only; never allocates.
#include "merges.h"
#include "sentencepiece.h"

namespace phasor::pieces {
namespace {

constexpr uint16_t kFrozen = 0x8000;  // a user-defined symbol, never merged

// Half the most nodes of the tree that remembers how unused pieces were put together; a power of
// two.
uint64_t split_slots(const Tokenizer& t, uint64_t limit) {
  uint64_t keys = 3 * limit;  // pairs that can be looked at
  if (t.unused < keys) keys = t.unused;
  uint64_t slots = keys == 0 ? 0 : 2;
  while (slots < 2 * keys) slots *= 2;
  return slots;
}

// How an unused piece was last put together: a node of a digital search tree, in which the bits of
// an id, from the lowest on, lead to its node. So a look takes 24 steps at most, whatever the ids
// are.
struct Split {
  uint32_t id;
  uint32_t left;      // bytes of the left part
  uint32_t child[2];  // places of nodes, 0: none; the root is at place 0
};

struct Symbols {
  const Tokenizer& t;
  const unsigned char* text;  // (n)
  uint32_t n;
  uint32_t* pair;    // (n) the piece that this symbol and the next would make, or kNoToken
  uint32_t* winner;  // (2 · blocks)
  Split* splits;     // (split_count)
  uint32_t split_count;
  uint16_t* length;  // (n) at the first and the last byte of a symbol, with kFrozen

  uint32_t size(uint32_t at) const { return length[at] & (kFrozen - 1u); }
  bool frozen(uint32_t at) const { return (length[at] & kFrozen) != 0; }
  void set(uint32_t at, uint32_t bytes, bool frozen) {
    length[at] = length[at + bytes - 1] = static_cast<uint16_t>(bytes | (frozen ? kFrozen : 0u));
  }
  uint32_t size_before(uint32_t at) const { return size(at - 1); }
  bool pairs(uint32_t at) const { return pair[at] != kNoToken; }
  void merge(uint32_t left, uint32_t right) {
    set(left, size(left) + size(right), false);
    pair[right] = kNoToken;
  }

  // The place whose pair is merged first.
  uint32_t better(uint32_t a, uint32_t b) const {
    if (!pairs(a)) return b;
    if (!pairs(b)) return a;
    const float sa = row(t, pair[a]).score(), sb = row(t, pair[b]).score();
    if (sa != sb) return sa > sb ? a : b;
    return a < b ? a : b;
  }

  // The node of an id; without one, null and where its place would be written.
  Split* find_split(uint32_t id, uint32_t** place) const {
    uint32_t at = 0;
    *place = nullptr;
    for (uint32_t bits = id; split_count > 0; bits >>= 1) {
      work();
      if (splits[at].id == id) return splits + at;
      *place = &splits[at].child[bits & 1];
      at = **place;
      if (at == 0) break;
    }
    return nullptr;
  }
  void remember_split(uint32_t id, uint32_t left) {
    uint32_t* place = nullptr;
    if (Split* const known = find_split(id, &place)) {
      known->left = left;
      return;
    }
    if (place != nullptr) *place = split_count;
    splits[split_count++] = {id, left, {0, 0}};
  }

  // Looks at the symbol at `at` and its right neighbor.
  void look(uint32_t at) {
    pair[at] = kNoToken;
    const uint32_t left = size(at), next = at + left;
    if (next >= n || frozen(at) || frozen(next)) return;
    const uint32_t both = left + size(next);
    if (both > t.longest) return;
    pair[at] = find(t, text + at, both, false);
    if (pairs(at) && row(t, pair[at]).type() == PieceType::unused) remember_split(pair[at], left);
  }
};

uint64_t scratch(const Tokenizer& t, uint64_t limit) {
  if ((t.flags & kOfWords) != 0) return 0;
  return 8 * split_slots(t, limit)  // half a Split
         + 4 * limit                // u32 pair
         + winners_bytes(limit)
         + 2 * limit;               // u16 length
}

// The word model merges nothing: each word, which begins with ▁, is a piece or unknown.
void encode_words(const Tokenizer& t, IdSink* out, const Stretch& s) {
  for (size_t at = 0, end = 0; at < s.bytes; at = end) {
    do {
      work();
      ++end;
    } while (end < s.bytes && !begins_with_space_symbol(s.text + end, s.bytes - end));
    const uint32_t id = find(t, s.text + at, end - at, false);
    if (id == kNoToken)
      out->unknown(s.text + at, end - at);
    else
      out->piece(id, s.text + at, end - at);
  }
  out->settle();
}

void encode(const Tokenizer& t, IdSink* out, const Stretch& stretch) {
  if ((t.flags & kOfWords) != 0) return encode_words(t, out, stretch);
  const unsigned char* const text = stretch.text;
  const uint32_t n = static_cast<uint32_t>(stretch.bytes);
  Symbols s{t, text, n, nullptr, nullptr, reinterpret_cast<Split*>(stretch.scratch), 0, nullptr};
  const size_t slots = static_cast<size_t>(split_slots(t, stretch.limit));
  s.pair = reinterpret_cast<uint32_t*>(stretch.scratch + 8 * slots);
  s.winner = s.pair + n;
  s.length = reinterpret_cast<uint16_t*>(s.winner) + winners_bytes(n) / 2;

  // The text as characters and user-defined symbols; then all pairs of neighbors, from the left.
  for (uint32_t at = 0; at < n;) {
    work();
    s.pair[at] = kNoToken;
    const uint32_t user = static_cast<uint32_t>(match_user_defined(t, text + at, n - at));
    uint32_t bytes = user != 0 ? user : static_cast<uint32_t>(char_bytes(text[at]));
    if (bytes > n - at) bytes = n - at;
    s.set(at, bytes, user != 0);
    for (uint32_t i = 1; i < bytes; ++i) s.pair[at + i] = kNoToken;
    at += bytes;
  }
  for (uint32_t at = 0; at < n; at += s.size(at)) s.look(at);
  merge_all(&s);

  for (uint32_t at = 0; at < n;) {
    const uint32_t bytes = s.size(at);
    uint32_t id = find(t, text + at, bytes, false);
    if (id != kNoToken && row(t, id).type() == PieceType::unused) {
      // An unused piece is taken apart again, in the way it was last put together, and so are its
      // parts.
      uint32_t* place = nullptr;
      if (const Split* const split = s.find_split(id, &place)) {
        s.set(at, split->left, false);
        s.set(at + split->left, bytes - split->left, false);
        continue;
      }
      id = kNoToken;  // a character: text cannot give it
    }
    if (id == kNoToken)
      out->unknown(text + at, bytes);
    else
      out->piece(id, text + at, bytes);
    at += bytes;
  }
  out->settle();
}

}  // namespace

extern constexpr TokenizerModel kSentencePieceBpe = [] {
  TokenizerModel m{};
  m.flags = kSentencePieceFlags | kOfWords;
  m.types = kListedTypes;
  m.check = check_sentencepiece;
  m.scratch = scratch;
  m.normalize = normalize_sentencepiece;
  m.encode = encode;
  m.decode = decode_sentencepiece;
  return m;
}();

}  // namespace phasor::pieces
