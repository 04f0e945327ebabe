// text: what encoding has found, for those that look for the same again, in the same text or in the
// next one: it lies in memory that the caller keeps (tokenizer_memory_bytes). All zero is empty.
// Includes pieces.h only; never allocates.
#pragma once
#include "../work.h"
#include "pieces.h"

namespace phasor::pieces {

// 2^bits places are at most as many as `things`; 0: there is none.
inline uint32_t place_bits(uint64_t things, uint32_t most_bits) {
  uint32_t bits = 0;
  while (bits < most_bits && things >> bits > 1) ++bits;
  return bits;
}

// Ids of words: of those that fall on a place the last two.
class KnownWords {
 public:
  static constexpr size_t kLongest = 15, kMostIds = 4;

  // A word of 1 … kLongest bytes, zeros behind them, and their number.
  struct Key {
    uint64_t low, high;

    Key(const unsigned char* word, size_t n) : low(0), high(uint64_t{n} << 56) {
      const auto at = [](uint64_t bytes, size_t place) { return bytes << 8 * place; };
      if (n > 8) {
        low = load_u64(word);
        high |= load_u64(word + n - 8) >> 8 * (16 - n);
      } else if (n >= 4) {
        low = load_u32(word) | at(load_u32(word + n - 4), n - 4);
      } else {
        low = word[0] | at(word[n / 2], n / 2) | at(word[n - 1], n - 1);
      }
    }
    bool operator==(const Key& other) const { return low == other.low && high == other.high; }
  };
  struct Word {
    Key key;
    uint32_t ids[kMostIds];  // above 24 bits of the first: how many

    uint32_t count() const { return ids[0] >> 24; }
    uint32_t id(uint32_t i) const { return ids[i] & 0xFFFFFF; }
  };

  static uint64_t bytes(uint64_t text_bytes) {
    const uint32_t bits = bits_of(text_bytes);
    return bits == 0 ? 0 : uint64_t{2 * sizeof(Word)} << bits;
  }

  KnownWords() : places_(nullptr), bits_(0) {}
  explicit KnownWords(const TokenizerMemory& memory)
      : places_(static_cast<Word*>(memory.data)),
        bits_(memory.data == nullptr ? 0 : bits_of(memory.text_bytes)) {}

  // Whether a word of so many bytes can be known.
  bool holds(size_t n) const { return bits_ != 0 && n - 1 < kLongest; }
  // The word of a key, or null.
  const Word* find(const Key& key) const {
    work();
    Word* const place = place_of(key);
    if (place[0].key == key) return place;
    if (!(place[1].key == key)) return nullptr;
    const Word found = place[1];
    place[1] = place[0];
    place[0] = found;
    return place;
  }
  // ids: (count), 1 … kMostIds of them.
  void keep(const Key& key, const uint32_t* ids, size_t count) const {
    Word* const place = place_of(key);
    place[1] = place[0];
    place[0].key = key;
    std::memcpy(place[0].ids, ids, count * sizeof *ids);
    place[0].ids[0] |= static_cast<uint32_t>(count) << 24;
  }

 private:
  static uint32_t bits_of(uint64_t text_bytes) { return place_bits(text_bytes / 16, 12); }
  Word* place_of(const Key& key) const {
    const uint64_t mixed = (key.low ^ key.high * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u;
    return places_ + (mixed >> (64 - bits_)) * 2;
  }

  Word* places_;  // (2 << bits), of no bits none
  uint32_t bits_;
};

// What searches among some things find: a place of the table holds what was found last of all keys
// that fall on it.
template <class Value>
class Recent {
  struct Place {
    uint32_t not_a, b;  // the key; a is no kNoToken
    Value value;
  };

 public:
  static uint64_t bytes(uint32_t things, uint64_t text_bytes) {
    const uint32_t bits = bits_of(things, text_bytes);
    return bits == 0 ? 0 : uint64_t{sizeof(Place)} << bits;
  }

  // Of null memory there is no place.
  Recent(const TokenizerMemory& memory, uint32_t things)
      : places_(static_cast<Place*>(memory.data)),
        bits_(memory.data == nullptr ? 0 : bits_of(things, memory.text_bytes)) {}

  // What `search` finds for a key.
  template <class Search>
  Value get(uint32_t a, uint32_t b, Search search) const {
    if (bits_ == 0) return search();
    work();
    Place& place = places_[((a ^ (b << 16 | b >> 16)) * 0x9E3779B1u) >> (32 - bits_)];
    if (place.not_a != ~a || place.b != b) place = {~a, b, search()};
    return place.value;
  }

 private:
  static uint32_t bits_of(uint32_t things, uint64_t text_bytes) {
    return place_bits(things < text_bytes ? things / 2 : text_bytes / 2, 11);
  }

  Place* places_;  // (1 << bits), of no bits none
  uint32_t bits_;
};

using Walks = Recent<Ranks>;     // through the pieces
using Pairs = Recent<uint32_t>;  // among the merges: their ranks

// Bytes of the memory's parts: the words, and what is found.
struct MemoryParts {
  uint64_t words, found;
};
inline MemoryParts only_words(const Tokenizer&, uint64_t text_bytes) {
  return {KnownWords::bytes(text_bytes), 0};
}
inline MemoryParts words_and_pairs(const Tokenizer& t, uint64_t text_bytes) {
  return {KnownWords::bytes(text_bytes), Pairs::bytes(t.merge_count, text_bytes)};
}
// Nothing of short texts: beside the little scratch of these models a board has no room for it.
inline MemoryParts words_and_walks(const Tokenizer& t, uint64_t text_bytes) {
  if (text_bytes < 4096) return {0, 0};
  return {KnownWords::bytes(text_bytes), Walks::bytes(t.pieces, text_bytes)};
}
inline MemoryParts only_walks(const Tokenizer& t, uint64_t text_bytes) {
  return {0, words_and_walks(t, text_bytes).found};
}

}  // namespace phasor::pieces
