// The merges that a section has: byte-level BPE's and those of BPE of characters. Includes the
// tokenizer's own headers only; never allocates.
#include "merges.h"

namespace phasor::pieces {
namespace {

constexpr uint32_t kFew = 24;

// Behind the ids of the 256 bytes: rows of (left, right, rank) in the order of the pairs; the
// results in the order of the ranks; for each piece, where its rows as the left part begin.
struct Merges {
  const Tokenizer& t;

  const unsigned char* rows() const { return t.model_data + 1024; }
  const unsigned char* row(uint32_t i) const { return rows() + size_t{i} * 12; }
  uint32_t result(uint32_t rank) const { return u32_at(row(t.merge_count), rank); }
  uint32_t index(uint32_t id) const { return u32_at(rows() + size_t{t.merge_count} * 16, id); }
  // Pairs in their order, as numbers.
  static uint64_t key(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }
  uint64_t key(uint32_t i) const { return key(load_u32(row(i)), load_u32(row(i) + 4)); }
  // The rank of the merge of two pieces, or kNoToken.
  uint32_t find(uint32_t left, uint32_t right) const {
    const bool indexed = (t.flags & kMergeIndex) != 0;
    uint32_t at = indexed ? index(left) : 0;
    uint32_t count = (indexed ? index(left + 1) : t.merge_count) - at;
    if (count == 0) return kNoToken;
    // Without a branch, which would be taken as often as not: the last row that is not behind the
    // pair is among `count` from `at` on.
    const uint64_t wanted = key(left, right);
    for (uint32_t half = 0; count > 1; count -= half) {
      work();
      half = count / 2;
      at += half & (0u - static_cast<uint32_t>(key(at + half) <= wanted));
    }
    work();
    return key(at) == wanted ? load_u32(row(at) + 8) : kNoToken;
  }
};

uint64_t bytes_of(const Tokenizer& t, uint32_t merges) {
  const uint64_t index = (t.flags & kMergeIndex) != 0 ? 4 * (uint64_t{t.pieces} + 1) : 0;
  return 1024 + uint64_t{16} * merges + index;
}

}  // namespace

uint64_t merges_bytes(const Tokenizer& t, const SectionReader& s) {
  return bytes_of(t, s.u32(104));
}

const unsigned char* behind_merges(const Tokenizer& t) {
  return t.model_data + bytes_of(t, t.merge_count);
}

const char* check_merges(const Tokenizer& t) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const uint32_t id = byte_id(t, static_cast<unsigned char>(byte));
    if (id != kNoToken && id >= t.pieces) return "the id of a byte is out of range";
    if (id == kNoToken && (t.flags & kByteFallback) != 0)
      return "byte fallback without all 256 byte pieces";
  }
  const Merges merges{t};
  for (uint32_t i = 0; i < t.merge_count; ++i) {
    const unsigned char* const r = merges.row(i);
    const uint32_t left = load_u32(r), right = load_u32(r + 4), rank = load_u32(r + 8);
    if (left >= t.pieces || right >= t.pieces || rank >= t.merge_count)
      return "a merge is out of range";
    const uint32_t result = merges.result(rank);
    if (result >= t.pieces) return "the result of a merge is out of range";
    // which bounds the symbols that merging makes
    const uint32_t prefix = t.model->word_limit ? t.prefix_bytes : 0;
    if (row(t, result).length() + prefix != row(t, left).length() + row(t, right).length())
      return "a merge does not give what it merges";
    if (i > 0 && merges.key(i - 1) >= Merges::key(left, right))
      return "the merges are not in order";
  }
  if ((t.flags & kMergeIndex) == 0) return nullptr;
  for (uint32_t id = 0, i = 0; id <= t.pieces; ++id) {
    while (i < t.merge_count && load_u32(merges.row(i)) < id) ++i;
    if (merges.index(id) != i) return "the index of the merges is wrong";
  }
  return nullptr;
}

Word::Word(const Tokenizer& tokenizer, unsigned char* scratch, uint64_t limit, const Stretch& s)
    : t(tokenizer),
      recent(s.found, t.merge_count),
      id(reinterpret_cast<uint32_t*>(scratch)),
      rank(id + limit),
      winner(rank + limit),
      length(reinterpret_cast<uint16_t*>(winner) + winners_bytes(limit) / 2),
      n(0),
      text(nullptr),
      ends(s.ends) {}

void Word::look(uint32_t at) {
  const uint32_t next = at + length[at];
  // a prefix that the right part loses may make long symbols of short pieces
  const bool pairs = next < n && uint32_t{length[at]} + length[next] <= 0xFFFF;
  const auto find = [&] { return Merges{t}.find(id[at], id[next]); };
  rank[at] = pairs ? recent.get(id[at], id[next], find) : kNoToken;
}

void Word::merge(uint32_t left, uint32_t right) {
  const uint32_t size = uint32_t{length[left]} + length[right];
  id[left] = Merges{t}.result(rank[left]);
  length[left] = length[left + size - 1] = static_cast<uint16_t>(size);
  rank[right] = kNoToken;
}

// Few symbols: going over them all takes less than keeping a tree.
void Word::merge_few() {
  while (n > 0) {
    uint32_t left = 0;
    work(n);
    for (uint32_t at = 1; at < n; ++at) left = rank[at] < rank[left] ? at : left;
    if (rank[left] == kNoToken) return;
    merge(left, left + length[left]);
    if (left > 0) look(left - length[left - 1]);
    look(left);
  }
}

void Word::finish(IdSink* out) {
  for (uint32_t at = 0; at < n; ++at) look(at);
  if (n <= kFew)
    merge_few();
  else
    merge_all(this);
  put(out);
}

void Word::put(IdSink* out) {
  for (uint32_t i = 0; i < n; i += length[i]) {
    const uint32_t begin = !wanted(ends) || i == 0 ? 0 : ends[i - 1];
    const uint32_t end = !wanted(ends) ? 0 : ends[i + length[i] - 1];
    out->put(id[i] < t.ids ? id[i] : t.unknown, text + begin, end - begin);
  }
  n = 0;
}

// What a pass makes pairs with its neighbors only when the pass is over: until then those pairs
// are none, and the places are a list, whose links lie at the last parts, which have no ids.
void Word::finish_in_passes(IdSink* out) {
  for (uint32_t at = 0; at < n; ++at) look(at);
  if (n < 2) return put(out);
  const Tournament<Word> all(this);
  const auto again = [&](uint32_t at, bool pairs_now) {
    if (pairs_now)
      look(at);
    else
      rank[at] = kNoToken;
    all.replay(at);
  };
  while (pairs(winner[1])) {
    const uint32_t best = rank[winner[1]];
    uint32_t made = kNoToken;
    for (uint32_t left = winner[1]; rank[left] == best; left = winner[1]) {
      const uint32_t right = left + length[left];
      merge(left, right);
      id[left + length[left] - 1] = made;
      made = left;
      all.replay(right);
      again(left, false);
      if (left > 0) again(left - length[left - 1], false);
    }
    while (made != kNoToken) {
      const uint32_t left = made;
      made = id[left + length[left] - 1];
      again(left, true);
      if (left > 0) again(left - length[left - 1], true);
    }
  }
  put(out);
}

}  // namespace phasor::pieces
