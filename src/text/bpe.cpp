// Byte-pair encoding (Sennrich et al. 2016) as SentencePiece does it: of all neighbours whose
// concatenation is a piece, merge the pair of the highest score, the leftmost of equals, until
// there is none. Includes pieces.h only; never allocates.
//
// Symbols are stretches of the text and are named by their first byte's place. A symbol's length is
// stored at its first and at its last byte, which is all that finding both neighbours takes. The
// best pair is the winner of a tournament tree over the places: n − 1 matches at the start, log2 n
// after each change, so a text of n equal letters is no worse than any other.
#include "pieces.h"

namespace phasor {
namespace pieces {
namespace {

constexpr std::uint16_t kFrozen = 0x8000;  // a user-defined symbol, never merged
constexpr std::uint32_t kNobody = 0xFFFFFFFFu;

// Half the most nodes of the tree that remembers how unused pieces were put together; a power of
// two.
std::uint64_t split_slots(const Tokenizer& t, std::uint64_t limit) noexcept {
  std::uint64_t keys = 3 * limit;  // pairs that can be looked at
  if (t.unused < keys) keys = t.unused;
  std::uint64_t slots = keys == 0 ? 0 : 2;
  while (slots < 2 * keys) slots *= 2;
  return slots;
}

// How an unused piece was last put together: a node of a digital search tree, in which the bits of
// an id, from the lowest on, lead to its node. So a look takes 24 steps at most, whatever the ids
// are.
struct Split {
  std::uint32_t id;
  std::uint32_t left;      // bytes of the left part
  std::uint32_t child[2];  // places of nodes, 0: none; the root is at place 0
};

struct Symbols {
  const Tokenizer& t;
  const unsigned char* text;  // (n)
  std::uint32_t n;
  std::uint32_t* pair;  // (n) the piece that this symbol and the next would make, or kNoToken
  // (n) tournament: 1 is the final, i is played between 2i and 2i + 1, n + p is place p
  std::uint32_t* winner;
  Split* splits;  // (split_count)
  std::uint32_t split_count;
  std::uint16_t* length;  // (n) at the first and the last byte of a symbol, with kFrozen

  std::uint32_t size(std::uint32_t at) const noexcept { return length[at] & (kFrozen - 1u); }
  bool frozen(std::uint32_t at) const noexcept { return (length[at] & kFrozen) != 0; }
  void set(std::uint32_t at, std::uint32_t bytes, bool frozen) noexcept {
    length[at] = length[at + bytes - 1] =
        static_cast<std::uint16_t>(bytes | (frozen ? kFrozen : 0u));
  }
  std::uint32_t before(std::uint32_t at) const noexcept { return at - size(at - 1); }

  // The place whose pair is merged first.
  std::uint32_t better(std::uint32_t a, std::uint32_t b) const noexcept {
    if (a == kNobody || pair[a] == kNoToken) return b;
    if (b == kNobody || pair[b] == kNoToken) return a;
    const float sa = row(t, pair[a]).score(), sb = row(t, pair[b]).score();
    if (sa != sb) return sa > sb ? a : b;
    return a < b ? a : b;
  }
  std::uint32_t player(std::uint32_t i) const noexcept {
    return i < n ? winner[i] : pair[i - n] == kNoToken ? kNobody : i - n;
  }
  void play(std::uint32_t match) noexcept {
    work();
    winner[match] = better(player(2 * match), player(2 * match + 1));
  }
  void replay(std::uint32_t place) noexcept {
    for (std::uint32_t match = (n + place) / 2; match >= 1; match /= 2) play(match);
  }

  // The node of an id; without one, null and where its place would be written.
  Split* find_split(std::uint32_t id, std::uint32_t** place) const noexcept {
    std::uint32_t at = 0;
    *place = nullptr;
    for (std::uint32_t bits = id; split_count > 0; bits >>= 1) {
      work();
      if (splits[at].id == id) return splits + at;
      *place = &splits[at].child[bits & 1];
      at = **place;
      if (at == 0) break;
    }
    return nullptr;
  }
  void remember_split(std::uint32_t id, std::uint32_t left) noexcept {
    std::uint32_t* place = nullptr;
    if (Split* const known = find_split(id, &place)) {
      known->left = left;
      return;
    }
    if (place != nullptr) *place = split_count;
    splits[split_count++] = {id, left, {0, 0}};
  }

  // Looks at the symbol at `at` and its right neighbour.
  void look(std::uint32_t at) noexcept {
    pair[at] = kNoToken;
    const std::uint32_t left = size(at), next = at + left;
    if (next >= n || frozen(at) || frozen(next)) return;
    const std::uint32_t both = left + size(next);
    if (both > t.longest) return;
    pair[at] = find(t, text + at, both, false);
    if (pair[at] != kNoToken && row(t, pair[at]).type() == PieceType::unused)
      remember_split(pair[at], left);
  }
};

}  // namespace

std::uint64_t bpe_scratch(const Tokenizer& t, std::uint64_t limit) noexcept {
  return 8 * split_slots(t, limit)  // half a Split
         + 4 * limit                // u32 pair
         + 4 * limit                // u32 winner
         + 2 * limit;               // u16 length
}

void encode_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::uint32_t n,
                unsigned char* scratch, std::uint64_t limit) noexcept {
  if (n == 0) return;
  Symbols s{t, text, n, nullptr, nullptr, reinterpret_cast<Split*>(scratch), 0, nullptr};
  const std::size_t slots = static_cast<std::size_t>(split_slots(t, limit));
  s.pair = reinterpret_cast<std::uint32_t*>(scratch + 8 * slots);
  s.winner = s.pair + n;
  s.length = reinterpret_cast<std::uint16_t*>(s.winner + n);

  // The text as characters and user-defined symbols; then all pairs of neighbours, from the left.
  for (std::uint32_t at = 0; at < n;) {
    work();
    s.pair[at] = kNoToken;
    const std::uint32_t user = static_cast<std::uint32_t>(match_user_defined(t, text + at, n - at));
    std::uint32_t bytes = user != 0 ? user : static_cast<std::uint32_t>(char_bytes(text[at]));
    if (bytes > n - at) bytes = n - at;
    s.set(at, bytes, user != 0);
    for (std::uint32_t i = 1; i < bytes; ++i) s.pair[at + i] = kNoToken;
    at += bytes;
  }
  for (std::uint32_t at = 0; at < n; at += s.size(at)) s.look(at);
  for (std::uint32_t match = n; --match >= 1;) s.play(match);

  for (;;) {
    const std::uint32_t left = n > 1 ? s.winner[1] : kNobody;
    if (left == kNobody || s.pair[left] == kNoToken) break;
    const std::uint32_t right = left + s.size(left);
    s.set(left, s.size(left) + s.size(right), false);
    s.pair[right] = kNoToken;
    s.replay(right);
    if (left > 0) {
      const std::uint32_t before = s.before(left);
      s.look(before);
      s.replay(before);
    }
    s.look(left);
    s.replay(left);
  }

  for (std::uint32_t at = 0; at < n;) {
    const std::uint32_t bytes = s.size(at);
    std::uint32_t id = find(t, text + at, bytes, false);
    if (id != kNoToken && row(t, id).type() == PieceType::unused) {
      // An unused piece is taken apart again, in the way it was last put together, and so are its
      // parts.
      std::uint32_t* place = nullptr;
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
      out->piece(id);
    at += bytes;
  }
}

}  // namespace pieces
}  // namespace phasor
