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

constexpr uint32_t kToJamo = 1u << 9;  // a class: the first map makes jamo of it

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

// Walks over a text (n bytes) and gives its characters after the first map. A copy remembers a
// position.
struct Mapped {
  const Tokenizer& t;
  const unsigned char* text;
  size_t n, at;
  size_t from;                     // where the text begins that has become the character
  size_t part, parts_bytes;        // of the text that a rule has made of it
  const unsigned char* made;       // that text, or null: `syllable`
  unsigned char syllable[9];

  // False at the end.
  bool next(const unsigned char** here, Char* c) {
    work();
    while (part == parts_bytes) {
      if (at == n) return false;
      *c = char_at(text + at, n - at);
      *here = text + at;
      from = at;
      if ((t.flags & kMergeFirst) != 0 && at > 0 && c->code == ' ' && text[at - 1] == ' ') {
        ++at;
        continue;
      }
      // what a text of several characters becomes comes from the last of them
      const bool merges = c->code == ' ' && (t.flags & kMergeFirst) != 0;
      while (merges && from + 1 < n && text[from + 1] == ' ') ++from;
      Rule rule;
      if (first_map(t) != 0 && match_rule(t, &rule, *here, n - at, false, first_map(t))) {
        made = rule.text;
        parts_bytes = rule.bytes;
        at += rule.consumed;
        from = at - char_before(text, at).bytes;
      } else if (first_map(t) != 0 && is_syllable(c->code) &&
                 (classes(t, c->code) & kToJamo) != 0) {
        made = nullptr;
        parts_bytes = decompose_hangul(syllable, c->code);
        at += c->bytes;
      } else {
        at += c->bytes;
        return true;
      }
      part = 0;
    }
    *here = (made == nullptr ? syllable : made) + part;
    *c = char_at(*here, parts_bytes - part);
    part += c->bytes;
    return true;
  }
};

// The bytes of text before `bytes` that are not white space at its end.
size_t stripped(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  while (bytes > 0) {
    const Char c = char_before(text, bytes);
    if (c.code == kNoChar || (classes(t, c.code) & kSpace) == 0) break;
    bytes -= c.bytes;
  }
  return bytes;
}

uint64_t normalize(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes) {
  if ((t.flags & kStripFirst) != 0) {
    bytes = stripped(t, text, bytes);
    for (Char c; bytes > 0; text += c.bytes, bytes -= c.bytes, out->base += c.bytes) {
      c = char_at(text, bytes);
      if (c.code == kNoChar || (classes(t, c.code) & kSpace) == 0) break;
    }
  }
  ClusterMap map(t, out);
  const Mapped all{t, text, bytes, 0, 0, 0, 0, nullptr, {}};
  Mapped from = all;
  const unsigned char* here = nullptr;
  for (Char c{}; !out->full && from.next(&here, &c);) map.next(here, c);
  map.end();
  // only where what the two maps make together is more than the header's expansion says: there is
  // room for that
  if (out->full) return kNormalizedTooLong;
  size_t n = static_cast<size_t>(out->size);
  if (wanted(out->origins)) {
    Mapped before = all;
    place_origins(out->origins, out->text, n, [&] {
      Char c{};
      (void)before.next(&here, &c);
      return out->base + static_cast<uint32_t>(before.from);
    });
  }
  return (t.flags & kStripRight) != 0 ? stripped(t, out->text, n) : n;
}

struct MergedWords {
  const Tokenizer& t;
  IdSink* out;
  Alphabet alphabet;
  Word word;

  void put(const unsigned char* text, size_t bytes) {
    out->word(text, bytes, [&] { merge(text, bytes); });
  }
  // Neighbors that are unknown are one symbol where the section says so.
  void merge(const unsigned char* text, size_t bytes) {
    bool after_unknown = false;
    for (size_t at = 0; at < bytes;) {
      const uint32_t size = char_at(text + at, bytes - at).bytes;
      const uint32_t id = alphabet.find(text + at, size);
      const bool unknown = id == kNoToken;
      if (!unknown || !after_unknown || (t.flags & kFuseUnknown) == 0)
        word.add(unknown ? t.unknown : id, text + at, size);
      else
        word.extend(size);
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
  // Its origin is that of a byte at or before `at`.
  const auto open = [&](unsigned char* at, size_t before) {
    std::memcpy(at - 3, kSpaceSymbol, 3);
    begin = at - 3;
    if (!wanted(s.origins)) return;
    uint32_t* const origins = s.origins + (at - text);
    fill_origins(origins - 3, *(origins - before), 3);
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
      if (!mark.separates) open(text + at, 1);
      continue;
    }
    if (begin == nullptr && prefix && (!only_first || (s.first && at == 0)))
      open(text + at, 0);
    if (begin == nullptr) begin = text + at;
    at += char_at(text + at, n - at).bytes;
  }
  close(text + n);
}

void encode_unigram(const Tokenizer& t, IdSink* out, const Stretch& s) {
  UnigramWords words(t, out, s);
  cut(t, &words, s);
}

uint64_t merged_scratch(const Tokenizer&, uint64_t limit) {
  return Alphabet::kScratch + merges_scratch(limit);
}

void encode_merged(const Tokenizer& t, IdSink* out, const Stretch& s) {
  MergedWords words{t, out, Alphabet(t, s.scratch),
                    Word(t, s.scratch + Alphabet::kScratch, s.limit, s)};
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
  m.memory = words_and_walks;
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
  m.memory = words_and_pairs;
  m.encode = encode_merged;
  return m;
}();

}  // namespace phasor::pieces
