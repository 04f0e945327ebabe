// The unigram model as the tokenizers package does it (XLM-RoBERTa and others): SentencePiece's
// map, cluster by cluster; words that begin with ▁; and of each the segmentation of the highest
// total score (Viterbi; Kudo 2018, 3.2), in the order of arithmetic and with the ties of the
// package, in double. Includes the tokenizer's own headers only; never allocates.
#include "chars.h"
#include "clusters.h"
#include "normalizer.h"
#include "viterbi.h"

namespace phasor {
namespace {

using namespace pieces;

struct Output {
  unsigned char* text;
  std::uint64_t capacity;
  std::uint64_t size;

  bool put(const unsigned char* bytes, std::size_t n) noexcept {
    work(1 + n);
    if (capacity - size < n) return false;
    std::memcpy(text + size, bytes, n);
    size += n;
    return true;
  }
};

// A cluster of less than 6 bytes becomes what the shortest rule for its beginning says, as a whole;
// where there is none, and in a longer one, each character becomes what the rule for it says. So
// the package does it.
bool put_cluster(const Tokenizer& t, Output* out, const unsigned char* text,
                 std::size_t bytes) noexcept {
  Rule rule;
  if (bytes < 6 && match_rule(t, &rule, text, bytes, true)) return out->put(rule.text, rule.bytes);
  for (std::size_t at = 0; at < bytes;) {
    const Char c = char_at(text + at, bytes - at);
    const bool found = c.code == kNoChar ? match_rule(t, &rule, kReplacement, 3, true)
                                         : match_rule(t, &rule, text + at, c.bytes, true);
    const unsigned char* const as_it_is = c.code == kNoChar ? kReplacement : text + at;
    if (!out->put(found ? rule.text : as_it_is, found               ? rule.bytes
                                                : c.code == kNoChar ? sizeof kReplacement
                                                                    : c.bytes))
      return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace

std::uint64_t normalize_precompiled(const Tokenizer& t, unsigned char* out, std::uint64_t capacity,
                                    const unsigned char* text, std::size_t bytes) noexcept {
  Output output{out, capacity, 0};
  Clusters clusters;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes;) {
    const Char c = char_at(text + at, bytes - at);
    const Break of = c.code == kNoChar ? Break::control
                                       : static_cast<Break>(classes(t, c.code) >> kBreakBit & 31);
    if (!clusters.next(c.code, of)) {
      if (!put_cluster(t, &output, text + begin, at - begin)) return kNormalizedTooLong;
      begin = at;
    }
    at += c.bytes;
  }
  if (!put_cluster(t, &output, text + begin, bytes - begin)) return kNormalizedTooLong;
  std::size_t n = static_cast<std::size_t>(output.size);
  while ((t.flags & kStripRight) != 0 && n > 0) {
    const Char c = char_before(out, n);
    if ((classes(t, c.code) & kSpace) == 0) break;
    n -= c.bytes;
  }
  return n;
}

namespace pieces {
namespace {

double load_f64(const unsigned char* p) noexcept {
  const std::uint64_t bits = load_u32(p) | static_cast<std::uint64_t>(load_u32(p + 4)) << 32;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The score of a piece; the last one is the unknown's.
double score(const Tokenizer& t, std::uint32_t id) noexcept {
  return load_f64(t.model_data + std::size_t{id} * 8);
}

// The piece of the model that ends where the walk is, or kNoToken.
std::uint32_t of_model(const PrefixWalk& walk) noexcept {
  const std::uint32_t id = sorted_id(walk.t, walk.first);
  const Row r = row(walk.t, id);
  return r.length() == walk.depth && (r.marks() & kOfModel) != 0 ? id : kNoToken;
}

struct Words {
  const Tokenizer& t;
  IdSink* out;
  double* best;           // (ring_slots) score of the best segmentation that ends here
  std::uint16_t* length;  // (n + 1) of its last piece; then of the piece that begins here

  // The lengths of the pieces of the best segmentation, each where its piece begins.
  void segment(const unsigned char* text, std::uint32_t n) noexcept {
    const auto char_size = [=](std::uint32_t at) noexcept {
      return char_at(text + at, n - at).bytes;
    };
    const auto score_of = [this](const PrefixWalk& walk, std::uint32_t, double* of) noexcept {
      const std::uint32_t id = of_model(walk);
      if (id != kNoToken) *of = score(t, id);
      return id != kNoToken;
    };
    best_segmentation(t, best, length, text, n, score(t, t.pieces), char_size, score_of);
  }

  std::uint32_t piece(const unsigned char* text, std::size_t bytes) const noexcept {
    const std::uint32_t id = find(t, text, bytes, false);
    return id != kNoToken && (row(t, id).marks() & kOfModel) != 0 ? id : t.unknown;
  }

  // Neighbours that are unknown are one token; which may happen to be a piece.
  void put(const unsigned char* text, std::size_t bytes) noexcept {
    const std::uint32_t n = static_cast<std::uint32_t>(bytes);
    segment(text, n);
    for (std::uint32_t at = 0; at < n;) {
      std::uint32_t end = at + length[at], id = piece(text + at, length[at]);
      if (id == t.unknown) {
        while (end < n && piece(text + end, length[end]) == t.unknown) end += length[end];
        id = piece(text + at, end - at);
      }
      out->put(id);
      at = end;
    }
  }
};

// What a word begins with, or what ends one.
struct Mark {
  std::size_t bytes;  // 0: none is here
  bool separates;     // white space that belongs to no word
};

Mark mark_at(const Tokenizer& t, const unsigned char* text, std::size_t n) noexcept {
  if (n >= 3 && std::memcmp(text, kSpaceSymbol, 3) == 0) return {3, false};
  std::size_t spaces = 0;
  // none is looked at again and again
  const std::size_t most = (t.flags & kMergeSpaces) != 0 ? n : 1;
  while (spaces < most && text[spaces] == ' ') ++spaces;
  work(1 + spaces);
  if (spaces > 1) return {spaces, false};
  const bool split = (t.flags & kSplitAtSpace) != 0;
  if (spaces > 0 && !split) return {1, false};
  const Char c = char_at(text, n);
  return split && (classes(t, c.code) & kSpace) != 0 ? Mark{c.bytes, true} : Mark{0, false};
}

}  // namespace

std::uint64_t metaspace_scratch(const Tokenizer& t, std::uint64_t limit) noexcept {
  return 4 + 8 * ring_slots(t)  // f64 best, aligned to 8
         + 2 * (limit + 1);     // u16 length
}

void encode_metaspace(const Tokenizer& t, IdSink* out, unsigned char* text, std::size_t n,
                      bool first, unsigned char* scratch) noexcept {
  unsigned char* const aligned = scratch + (8 - reinterpret_cast<std::uintptr_t>(scratch) % 8) % 8;
  Words words{t, out, reinterpret_cast<double*>(aligned), nullptr};
  words.length =
      reinterpret_cast<std::uint16_t*>(aligned + 8 * static_cast<std::size_t>(ring_slots(t)));
  const bool prefix = (t.flags & kAddDummyPrefix) != 0, only_first = (t.flags & kPrefixFirst) != 0;

  // A word's ▁ is written over what is behind us already, so nothing has to move.
  unsigned char* begin = nullptr;  // of the word that is open
  const auto open = [&](unsigned char* at) noexcept {
    std::memcpy(at - 3, kSpaceSymbol, 3);
    begin = at - 3;
  };
  const auto close = [&](unsigned char* at) noexcept {
    if (begin != nullptr) words.put(begin, static_cast<std::size_t>(at - begin));
    begin = nullptr;
  };
  for (std::size_t at = 0; at < n;) {
    const Mark mark = mark_at(t, text + at, n - at);
    if (mark.bytes > 0) {
      close(text + at);
      at += mark.bytes;
      if (!mark.separates) open(text + at);
      continue;
    }
    if (begin == nullptr && prefix && (!only_first || (first && at == 0))) open(text + at);
    if (begin == nullptr) begin = text + at;
    at += char_at(text + at, n - at).bytes;
  }
  close(text + n);
}

}  // namespace pieces
}  // namespace phasor
