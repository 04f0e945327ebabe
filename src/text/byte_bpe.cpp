// Byte-level byte-pair encoding (Radford et al. 2019; Sennrich et al. 2016) as the tokenizers
// package does it: the section's steps cut a stretch of text into words, and a word's bytes are
// merged. Includes the tokenizer's own headers only; never allocates.
#include "merges.h"
#include "normalizer.h"
#include "package.h"
#include "pretokenizer.h"

namespace phasor::pieces {
namespace {

// The rule and the steps behind it: at most eight, each known, and zeros behind the last.
bool check_steps(Tokenizer* t, const unsigned char* more) {
  const bool patterns = (t->flags & kPatterns) != 0;
  const auto known = [patterns](uint32_t step) {
    return known_step(step) || (patterns && step == kPatternStep);
  };
  if (t->rule > 255 || !known(t->rule)) return false;
  bool ended = false;
  for (uint32_t i = 0; i < 8; ++i) {
    if (more[i] != 0 && (ended || !known(more[i]))) return false;
    ended = more[i] == 0;
    t->more_steps[i] = more[i];
  }
  return true;
}

// The patterns, one behind the other, each of one step.
const char* check_patterns(Tokenizer* t) {
  uint32_t steps = t->rule == kPatternStep, left = t->word_chars;
  for (const unsigned char step : t->more_steps) steps += step == kPatternStep;
  Pattern pattern{behind_merges(*t)};
  for (uint32_t i = 0; i < steps; ++i) {
    if (const char* const wrong = check_pattern(pattern, left)) return wrong;
    t->prefix_bytes += pattern.slots() != 0;
    left -= static_cast<uint32_t>(pattern.bytes());
    pattern.p += pattern.bytes();
  }
  return left != 0 ? "a pattern that no step has" : nullptr;
}

const char* check(Tokenizer* t, SectionReader* s) {
  const bool patterns = kHasPatterns && (t->flags & kPatterns) != 0;
  const uint32_t bytes = s->u32(112);
  if (patterns ? bytes == 0 : bytes != 0) return "the patterns' size is wrong";
  if (const char* const wrong = check_package(t, s, merges_bytes(*t, *s) + bytes)) return wrong;
  if (!check_steps(t, s->p + 120)) return "unknown rule of the pre-tokenizer";
  if (const char* const wrong = kHasPatterns ? check_patterns(t) : nullptr) return wrong;
  if ((t->flags & kCompose) != 0 && t->trie == nullptr) return "composition without its map";
  return check_merges(*t);
}

uint64_t scratch(const Tokenizer& t, uint64_t limit) {
  return merges_scratch(limit) + t.prefix_bytes * limit;
}

uint64_t normalize(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes) {
  return (t.flags & kCompose) != 0 ? normalize_canonical(t, out, text, bytes)
                                   : normalize_not(t, out, text, bytes);
}

void encode_word(const Tokenizer& t, IdSink* out, Word* word, Span s) {
  const uint32_t whole = (t.flags & kWholeWords) == 0
                             ? kNoToken
                             : find_where(t, s.text, s.bytes, [](Row r) {
                                 return (r.marks() & kWholeWord) != 0;
                               });
  if (whole != kNoToken) return out->put(whole, s.text, s.bytes);
  for (size_t at = 0; at < s.bytes; ++at) {
    const uint32_t id = byte_id(t, s.text[at]);
    if (id != kNoToken)
      word->add(id, s.text + at, 1);
    else
      out->no_offsets();  // the package drops what its vocabulary lacks
  }
  word->finish(out);
}

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  const bool prefix = (t.flags & kAddDummyPrefix) != 0 && s.text[0] != ' ';
  if (prefix) s.put_before(' ');
  const unsigned char* const text = s.text - prefix;
  Word word(t, s.scratch, s.limit, s);
  const size_t n = s.bytes + prefix;
  unsigned char* const memo = s.scratch + static_cast<size_t>(merges_scratch(s.limit));
  if (t.prefix_bytes != 0) std::memset(memo, 0, t.prefix_bytes * n);
  Words words(t, text, n, behind_merges(t), memo);
  for (size_t at = 0, end = 0; words.next(&at, &end);)
    out->word(text + at, end - at, [&] { encode_word(t, out, &word, {text + at, end - at}); });
}

// The bytes of all pieces are one text.
void decode(const Tokenizer& t, TextSink* sink, Row r) {
  Span text;
  if (!decoded(t, r, &text)) return;
  sink->state.prefix_seen = kMaximal;
  for (size_t i = 0; i < text.bytes; ++i) sink->byte(text.text[i]);
}

}  // namespace

extern constexpr TokenizerModel kByteBpe = [] {
  TokenizerModel m{};
  m.steps = m.merges = m.bytes = true;
  m.must_have_unknown = false;
  m.same = Same::few_parts;
  m.other_number = true;
  m.flags = kAddDummyPrefix | kWholeWords | kCompose | kMergeIndex |
            (kHasPatterns ? uint32_t{kPatterns} : 0);
  m.patterns = kPatterns;
  m.marks = kOfModel | kWholeWord;
  m.longest_piece = kLongestPiece;  // no search begins anew at every character
  m.least_expansion = 1;            // a byte that is not UTF-8 stays
  m.growth = sizeof kReplacement;   // each byte may become U+FFFD
  m.check = check;
  m.scratch = scratch;
  m.memory = only_words;
  m.normalize = normalize;
  m.encode = encode;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
