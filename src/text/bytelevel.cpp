// Byte-level byte-pair encoding (Radford et al. 2019; Sennrich et al. 2016) as the tokenizers package does it: a numbered
// rule cuts a stretch of text into words; of each word's bytes the neighbours with the earliest merge are merged, the
// leftmost of equals, until there is none. Includes the tokenizer's own headers only; never allocates.
//
// A word's symbols are named by the place of their first byte. Its length is stored at its first and at its last byte,
// which is all that finding both neighbours takes. The earliest merge is the winner of a tournament tree over the
// places: n − 1 matches at the start, log2 n after each merge, so a word of n equal letters is no worse than any other.
#include "chars.h"

namespace phasor {
namespace pieces {
namespace {

constexpr std::uint32_t kNobody = 0xFFFFFFFFu;

// ---- Words ----

struct Reader {
  const Tokenizer& t;
  const unsigned char* text;
  std::size_t n;

  // The classes of the character at `at`, whose bytes go to `*bytes`.
  std::uint32_t at(std::size_t at, std::uint32_t* bytes) const noexcept {
    const Char c = char_at(text + at, n - at);
    *bytes = c.bytes;
    return classes(t, c.code);
  }

  // The end of the characters from `at` on whose classes among `mask` are `wanted`.
  std::size_t run(std::size_t at_, std::uint32_t mask, std::uint32_t wanted) const noexcept {
    for (std::uint32_t bytes = 0; at_ < n && (at(at_, &bytes) & mask) == wanted; at_ += bytes) {
    }
    return at_;
  }
};

// 's 't 're 've 'm 'll 'd: the bytes of the one that begins at `at`, or 0.
std::size_t contraction(const Reader& r, std::size_t at) noexcept {
  const std::size_t left = r.n - at;
  if (left < 2 || r.text[at] != '\'') return 0;
  const unsigned char a = r.text[at + 1], b = left > 2 ? r.text[at + 2] : 0;
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Rule 1, GPT-2's: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ — where the word at `at` ends.
std::size_t end_of_word(const Reader& r, std::size_t at) noexcept {
  constexpr std::uint32_t kAll = kSpace | kLetter | kNumber;
  if (const std::size_t bytes = contraction(r, at)) return at + bytes;
  const std::size_t begin = r.text[at] == ' ' ? at + 1 : at;
  std::uint32_t bytes = 0;
  if (begin < r.n) {
    const std::uint32_t of = r.at(begin, &bytes) & kAll;
    if ((of & kSpace) == 0) return r.run(begin + bytes, kAll, of);
  }
  // White space: all of it at the end, else all but its last character, if there is more than one. The first is not asked:
  // a damaged section may say that a space is none.
  std::size_t last = at;
  r.at(at, &bytes);
  for (std::size_t next = at + bytes; next < r.n; next += bytes) {
    if ((r.at(next, &bytes) & kSpace) == 0) return last > at ? last : next;
    last = next;
  }
  return r.n;
}

// ---- Merges ----

struct Word {
  const Tokenizer& t;
  std::uint32_t* id;      // (n) of the symbol that begins here
  std::uint32_t* rank;    // (n) of the merge of this symbol and the next, or kNoToken
  std::uint32_t* winner;  // (n) tournament: 1 is the final, i is played between 2i and 2i + 1, n + p is place p
  std::uint16_t* length;  // (n) at the first and the last byte of a symbol
  std::uint32_t n;

  const unsigned char* merges() const noexcept { return t.model_data + 1024; }

  // The rank of the merge of two pieces, or kNoToken.
  std::uint32_t find_merge(std::uint32_t left, std::uint32_t right) const noexcept {
    std::uint32_t low = 0, high = t.merge_count;
    while (low < high) {
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
  void play(std::uint32_t match) noexcept { winner[match] = better(player(2 * match), player(2 * match + 1)); }
  void replay(std::uint32_t place) noexcept {
    for (std::uint32_t match = (n + place) / 2; match >= 1; match /= 2) play(match);
  }
  void look(std::uint32_t at) noexcept {
    const std::uint32_t next = at + length[at];
    rank[at] = next < n ? find_merge(id[at], id[next]) : kNoToken;
  }

  void merge_all() noexcept {
    if (n < 2) return;
    for (std::uint32_t at = 0; at < n; ++at) look(at);
    for (std::uint32_t match = n; --match >= 1;) play(match);
    for (std::uint32_t left = winner[1]; rank[left] != kNoToken; left = winner[1]) {
      const std::uint32_t right = left + length[left], size = static_cast<std::uint32_t>(length[left]) + length[right];
      id[left] = result(rank[left]);
      length[left] = length[left + size - 1] = static_cast<std::uint16_t>(size);
      rank[right] = kNoToken;
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

}  // namespace

std::uint64_t byte_bpe_scratch(std::uint64_t limit) noexcept {
  return 14 * limit;  // u32 id, u32 rank, u32 winner, u16 length
}

void encode_byte_bpe(const Tokenizer& t, IdSink* out, const unsigned char* text, std::size_t n, unsigned char* scratch,
                     std::uint64_t limit) noexcept {
  Word word{t, reinterpret_cast<std::uint32_t*>(scratch), nullptr, nullptr, nullptr, 0};
  word.rank = word.id + limit;
  word.winner = word.rank + limit;
  word.length = reinterpret_cast<std::uint16_t*>(word.winner + limit);
  const Reader reader{t, text, n};
  for (std::size_t at = 0; at < n;) {
    const std::size_t end = t.rule == 1 ? end_of_word(reader, at) : n;
    word.n = 0;
    for (; at < end; ++at) {
      const std::uint32_t id = load_u32(t.model_data + std::size_t{text[at]} * 4);
      if (id == kNoToken) continue;  // the package drops what its vocabulary lacks
      word.id[word.n] = id;
      word.length[word.n++] = 1;
    }
    word.merge_all();
    for (std::uint32_t i = 0; i < word.n; i += word.length[i]) out->put(word.id[i]);
  }
}

}  // namespace pieces
}  // namespace phasor
