// SentencePiece's models as the tokenizers package does them (XLM-RoBERTa, NLLB and others):
// SentencePiece's map, cluster by cluster; words that begin with ▁. Of the unigram model each word
// is the segmentation of the highest total score (Viterbi; Kudo 2018, 3.2), in the order of
// arithmetic and with the ties of the package, in double; of BPE what merging its characters
// leaves. Includes the tokenizer's own headers only; never allocates.
#include "chars.h"
#include "cluster_map.h"
#include "merges.h"
#include "normalizer.h"
#include "package.h"
#include "unigram_words.h"

namespace phasor::pieces {
namespace {

constexpr uint32_t kSyllable = 1u << 9;  // a class: the first map makes jamo of it

// The unit of the trie where the walks of the map that goes first begin; 0: there is none.
uint32_t first_map(const Tokenizer& t) { return t.word_chars; }

// What both models have; `own` bytes are the model's.
const char* check_words(Tokenizer* t, SectionReader* s, uint64_t own) {
  if (const char* const wrong = check_package(t, s, own)) return wrong;
  const uint32_t root = first_map(*t);
  if (root != 0 && (root >= s->u32(24) / 4 || is_value(u32_at(t->trie, root))))
    return "the normalizer's first map begins outside its trie";
  return nullptr;
}

const char* check_merged(Tokenizer* t, SectionReader* s) {
  if (const char* const wrong = check_words(t, s, merges_bytes(*t, *s))) return wrong;
  return check_merges(*t);
}

const char* check_unigram(Tokenizer* t, SectionReader* s) {
  if (const char* const wrong = check_words(t, s, unigram_bytes(*t))) return wrong;
  return check_scores(*t);
}

// Gives `map` what the first map makes of the character c at `at`, or of the text that begins with
// it; returns the bytes that are taken.
size_t put_mapped(const Tokenizer& t, ClusterMap* map, const unsigned char* text, size_t bytes,
                  Char c) {
  const auto put_all = [map](Span s) {
    for (size_t at = 0; at < s.bytes;) {
      const Char part = char_at(s.text + at, s.bytes - at);
      map->next(s.text + at, part);
      at += part.bytes;
    }
  };
  Rule rule;
  if (match_rule(t, &rule, text, bytes, false, first_map(t))) {
    put_all({rule.text, rule.bytes});
    return rule.consumed;
  }
  unsigned char parts[9];
  if (c.code >= 0xAC00 && c.code <= 0xD7A3 && (classes(t, c.code) & kSyllable) != 0)
    put_all({parts, decompose_hangul(parts, c.code)});
  else
    map->next(text, c);
  return c.bytes;
}

// The bytes of text before `bytes` that are not white space at its end.
size_t stripped(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  while (bytes > 0) {
    const Char c = char_before(text, bytes);
    if (c.code == kNoChar || (classes(t, c.code) & kSpace) == 0) break;
    bytes -= c.bytes;
  }
  return bytes;
}

uint64_t normalize(const Tokenizer& t, unsigned char* out, uint64_t capacity,
                   const unsigned char* text, size_t bytes) {
  Output output{out, capacity, 0, false};
  if ((t.flags & kStripFirst) != 0) {
    bytes = stripped(t, text, bytes);
    for (Char c; bytes > 0; text += c.bytes, bytes -= c.bytes) {
      c = char_at(text, bytes);
      if (c.code == kNoChar || (classes(t, c.code) & kSpace) == 0) break;
    }
  }
  ClusterMap map(t, &output);
  for (size_t at = 0; at < bytes && !output.full;) {
    work();
    const Char c = char_at(text + at, bytes - at);
    if ((t.flags & kMergeFirst) != 0 && at > 0 && c.code == ' ' && text[at - 1] == ' ')
      ++at;
    else if (first_map(t) != 0)
      at += put_mapped(t, &map, text + at, bytes - at, c);
    else {
      map.next(text + at, c);
      at += c.bytes;
    }
  }
  map.end();
  // only where what the two maps make together is more than the header's expansion says: there is
  // room for that
  if (output.full) return kNormalizedTooLong;
  const size_t n = static_cast<size_t>(output.size);
  return (t.flags & kStripRight) != 0 ? stripped(t, out, n) : n;
}

struct MergedWords {
  const Tokenizer& t;
  IdSink* out;
  Alphabet alphabet;
  Word word;

  // Neighbors that are unknown are one symbol where the section says so.
  void put(const unsigned char* text, size_t bytes) {
    bool after_unknown = false;
    for (size_t at = 0; at < bytes;) {
      const uint32_t size = char_at(text + at, bytes - at).bytes;
      const uint32_t id = alphabet.find(text + at, size);
      const bool unknown = id == kNoToken;
      if (!unknown || !after_unknown || (t.flags & kFuseUnknown) == 0)
        word.add(unknown ? t.unknown : id);
      after_unknown = unknown;
      at += size;
    }
    word.finish(out);
  }
};

// What a word begins with, or what ends one.
struct Mark {
  size_t bytes;    // 0: none is here
  bool separates;  // white space that belongs to no word
};

Mark mark_at(const Tokenizer& t, const unsigned char* text, size_t n) {
  if (begins_with_space_symbol(text, n)) return {3, false};
  size_t spaces = 0;
  // none is looked at again and again
  const size_t most = (t.flags & kMergeSpaces) != 0 ? n : 1;
  while (spaces < most && text[spaces] == ' ') ++spaces;
  work(1 + spaces);
  if (spaces > 1) return {spaces, false};
  const bool split = (t.flags & kSplitAtSpace) != 0;
  if (spaces > 0 && !split) return {1, false};
  const Char c = char_at(text, n);
  return split && (classes(t, c.code) & kSpace) != 0 ? Mark{c.bytes, true} : Mark{0, false};
}

// Gives `words` the words of a stretch, in their order.
template <class Words>
void cut(const Tokenizer& t, Words* words, const Stretch& s) {
  const bool prefix = (t.flags & kAddDummyPrefix) != 0, only_first = (t.flags & kPrefixFirst) != 0;
  unsigned char* const text = s.writable;
  const size_t n = s.bytes;

  // A word's ▁ is written over what is behind us already, so nothing has to move.
  unsigned char* begin = nullptr;  // of the word that is open
  const auto open = [&](unsigned char* at) {
    std::memcpy(at - 3, kSpaceSymbol, 3);
    begin = at - 3;
  };
  const auto close = [&](unsigned char* at) {
    if (begin != nullptr) words->put(begin, static_cast<size_t>(at - begin));
    begin = nullptr;
  };
  for (size_t at = 0; at < n;) {
    const Mark mark = mark_at(t, text + at, n - at);
    if (mark.bytes > 0) {
      close(text + at);
      at += mark.bytes;
      if (!mark.separates) open(text + at);
      continue;
    }
    if (begin == nullptr && prefix && (!only_first || (s.first && at == 0))) open(text + at);
    if (begin == nullptr) begin = text + at;
    at += char_at(text + at, n - at).bytes;
  }
  close(text + n);
}

void encode_unigram(const Tokenizer& t, IdSink* out, const Stretch& s) {
  UnigramWords words(t, out, s.scratch);
  cut(t, &words, s);
}

uint64_t merged_scratch(const Tokenizer&, uint64_t limit) {
  return Alphabet::kScratch + merges_scratch(limit);
}

void encode_merged(const Tokenizer& t, IdSink* out, const Stretch& s) {
  MergedWords words{t, out, Alphabet(t, s.scratch),
                    Word(t, s.scratch + Alphabet::kScratch, s.limit)};
  cut(t, &words, s);
}

// ▁ is a space, and in the first token nothing.
void decode(const Tokenizer& t, TextSink* sink, Row r) {
  Span text;
  if (!decoded(t, r, &text) || text.bytes == 0) return;
  const bool drop = sink->state.past_start == 0 && (t.flags & kDropFirstPrefix) != 0;
  sink->state.past_start = 1;
  sink->put_spaces(text.text, text.bytes, drop);
}

// What both models are to the rest.
constexpr TokenizerModel either() {
  TokenizerModel m{};
  m.flags = kAddDummyPrefix | kPrefixFirst | kSplitAtSpace | kStripRight | kMergeSpaces |
            kMergeToSpace | kDropFirstPrefix | kStripFirst | kMergeFirst;
  m.other_number = true;
  m.normalize = normalize;
  m.decode = decode;
  return m;
}

}  // namespace

extern constexpr TokenizerModel kMetaspace = [] {
  TokenizerModel m = either();
  m.marks = kAnyMarks;
  m.check = check_unigram;
  m.scratch = unigram_scratch;
  m.encode = encode_unigram;
  return m;
}();

extern constexpr TokenizerModel kMetaspaceBpe = [] {
  TokenizerModel m = either();
  m.merges = true;
  m.flags |= kFuseUnknown | kMergeIndex;
  m.marks = kOfModel;
  m.longest_piece = kLongestPiece;  // no search begins anew at every character
  m.check = check_merged;
  m.scratch = merged_scratch;
  m.encode = encode_merged;
  return m;
}();

}  // namespace phasor::pieces
