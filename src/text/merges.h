// Merging the symbols of a word, neighbours with the earliest merge first, the leftmost of equals,
// until there is none. Includes pieces.h only; never allocates.
//
// A word's symbols are named by the place of their first part. Its length in parts is stored at its
// first and at its last place, which is all that finding both neighbours takes. The earliest merge
// is the winner of a tournament tree over the places: n − 1 matches at the start, log2 n after each
// merge, so a word of n equal letters is no worse than any other.
#ifndef PHASOR_TEXT_MERGES_H_
#define PHASOR_TEXT_MERGES_H_

#include "pieces.h"

namespace phasor {
namespace pieces {

constexpr std::uint32_t kFew = 24;
constexpr std::uint32_t kNobody = 0xFFFFFFFFu;

struct Word {
  const Tokenizer& t;
  std::uint32_t* id;    // (n) of the symbol that begins here
  std::uint32_t* rank;  // (n) of the merge of this symbol and the next, or kNoToken
  // (n) tournament: 1 is the final, i is played between 2i and 2i + 1, n + p is place p
  std::uint32_t* winner;
  std::uint16_t* length;  // (n) at the first and the last byte of a symbol
  std::uint32_t n;

  const unsigned char* merges() const noexcept { return t.model_data + 1024; }

  // The rank of the merge of two pieces, or kNoToken.
  std::uint32_t find_merge(std::uint32_t left, std::uint32_t right) const noexcept {
    std::uint32_t low = 0, high = t.merge_count;
    if ((t.flags & kMergeIndex) != 0) {
      const unsigned char* const first =
          merges() + std::size_t{t.merge_count} * 16 + std::size_t{left} * 4;
      low = load_u32(first);
      high = load_u32(first + 4);
    }
    work();
    while (low < high) {
      work();
      const std::uint32_t middle = low + (high - low) / 2;
      const unsigned char* const row = merges() + std::size_t{middle} * 12;
      const std::uint32_t l = load_u32(row), r = load_u32(row + 4);
      if (l == left && r == right) return load_u32(row + 8);
      if (l < left || (l == left && r < right))
        low = middle + 1;
      else
        high = middle;
    }
    return kNoToken;
  }
  std::uint32_t result(std::uint32_t of) const noexcept {
    return load_u32(merges() + std::size_t{t.merge_count} * 12 + std::size_t{of} * 4);
  }

  std::uint32_t better(std::uint32_t a, std::uint32_t b) const noexcept {
    if (b == kNobody || rank[b] == kNoToken) return a;
    if (a == kNobody || rank[a] == kNoToken) return b;
    return rank[b] < rank[a] || (rank[b] == rank[a] && b < a) ? b : a;
  }
  std::uint32_t player(std::uint32_t i) const noexcept { return i < n ? winner[i] : i - n; }
  void play(std::uint32_t match) noexcept {
    work();
    winner[match] = better(player(2 * match), player(2 * match + 1));
  }
  void replay(std::uint32_t place) noexcept {
    for (std::uint32_t match = (n + place) / 2; match >= 1; match /= 2) play(match);
  }
  void look(std::uint32_t at) noexcept {
    const std::uint32_t next = at + length[at];
    rank[at] = next < n ? find_merge(id[at], id[next]) : kNoToken;
  }

  void add(std::uint32_t symbol) noexcept {
    work();
    id[n] = symbol;
    length[n++] = 1;
  }
  // Merges, and gives the ids; the word is empty then.
  void finish(IdSink* out) noexcept {
    merge_all();
    for (std::uint32_t i = 0; i < n; i += length[i]) out->put(id[i]);
    n = 0;
  }

  // The merge of the symbol at `left` and the next: one symbol.
  void merge(std::uint32_t left, std::uint32_t right) noexcept {
    const std::uint32_t size = static_cast<std::uint32_t>(length[left]) + length[right];
    id[left] = result(rank[left]);
    length[left] = length[left + size - 1] = static_cast<std::uint16_t>(size);
    rank[right] = kNoToken;
  }

  // Few symbols: going over them all takes less than keeping a tree.
  void merge_few() noexcept {
    for (;;) {
      std::uint32_t left = 0;
      work(n);
      for (std::uint32_t at = 1; at < n; ++at) left = rank[at] < rank[left] ? at : left;
      if (rank[left] == kNoToken) return;
      merge(left, left + length[left]);
      if (left > 0) look(left - length[left - 1]);
      look(left);
    }
  }

  void merge_all() noexcept {
    if (n < 2) return;
    for (std::uint32_t at = 0; at < n; ++at) look(at);
    if (n <= kFew) return merge_few();
    for (std::uint32_t match = n; --match >= 1;) play(match);
    for (std::uint32_t left = winner[1]; rank[left] != kNoToken; left = winner[1]) {
      const std::uint32_t right = left + length[left];
      merge(left, right);
      replay(right);
      if (left > 0) {
        const std::uint32_t before = left - length[left - 1];
        look(before);
        replay(before);
      }
      look(left);
      replay(left);
    }
  }
};

inline std::uint64_t merges_scratch(std::uint64_t limit) noexcept {
  return 14 * limit;  // u32 id, u32 rank, u32 winner, u16 length
}

// An empty word of at most `limit` parts.
inline Word word_in(const Tokenizer& t, unsigned char* scratch, std::uint64_t limit) noexcept {
  Word word{t, reinterpret_cast<std::uint32_t*>(scratch), nullptr, nullptr, nullptr, 0};
  word.rank = word.id + limit;
  word.winner = word.rank + limit;
  word.length = reinterpret_cast<std::uint16_t*>(word.winner + limit);
  return word;
}

}  // namespace pieces
}  // namespace phasor

#endif  // PHASOR_TEXT_MERGES_H_
