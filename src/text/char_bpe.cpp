// Byte-pair encoding of characters as the tokenizers package does it for the vocabularies of Llama,
// Mistral and Gemma: a space is ▁, a character that is no piece becomes the pieces of its bytes or
// the unknown piece, and merges go over the whole stretch. Includes the tokenizer's own headers
// only; never allocates.
#include "chars.h"
#include "merges.h"
#include "normalizer.h"
#include "package.h"

namespace phasor::pieces {
namespace {

const char* check(Tokenizer* t, SectionReader* s) {
  const uint32_t extra = s->u32(112);
  const uint32_t kind = t->flags & (kBertWords | kLowerWords);
  const bool words = (t->flags & kWordEnds) != 0, bert = (kind & kBertWords) != 0;
  if (words ? (t->flags & ~(kWordEnds | kind | kMergeIndex)) != 0 : kind != 0)
    return "BPE of words has flags of another kind";
  if (kind == (kBertWords | kLowerWords)) return "BPE of words has two kinds of words";
  if (extra != 0 && (!words || bert)) return "only BPE of words in passes has rows without an id";
  if (extra >= t->pieces) return "no piece has an id";
  t->ids = t->pieces - extra;
  if (words && !bert && (t->unknown == kNoToken || t->unknown >= t->ids))
    return "BPE of words has no unknown piece with an id";
  // a space that is escaped first becomes 3 bytes, and so does a byte that is not UTF-8 with a map
  if (((t->flags & kEscapeFirst) != 0 || kind != 0) && t->expansion < sizeof kSpaceSymbol)
    return "the normalizer's expansion is out of range";
  if (const char* const wrong = check_package(t, s, merges_bytes(*t, *s))) return wrong;
  return check_merges(*t);
}

uint64_t scratch(const Tokenizer&, uint64_t limit) {
  return Alphabet::kScratch + merges_scratch(limit);
}

// A space becomes ▁, and one goes before the text where the section says so; bytes that are not
// UTF-8 stay.
uint64_t normalize(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes) {
  if ((t.flags & (kBertWords | kLowerWords)) != 0) return normalize_bert(t, out, text, bytes);
  if ((t.flags & kEscapeFirst) == 0) return normalize_not(t, out, text, bytes);
  out->from(0);
  if ((t.flags & kAddDummyPrefix) != 0) out->put(kSpaceSymbol, sizeof kSpaceSymbol);
  for (size_t at = 0, next = 0; at < bytes; ++at) {
    if (wanted(out->origins) && at == next) {
      out->from(at);
      next += char_at(text + at, bytes - at).bytes;
    }
    if (text[at] == ' ')
      out->put(kSpaceSymbol, sizeof kSpaceSymbol);
    else
      out->put(text + at, 1);
  }
  return out->result();
}

constexpr unsigned char kSigma[] = {0xCE, 0xA3, 0xCF, 0x83, 0xCF, 0x82};  // Σ σ ς
constexpr unsigned char kNewLine[] = {'_', '_', 'n', 'e', 'w', 'l', 'n', '_', '_', ' '};

bool is_sigma(const unsigned char* text, size_t bytes) {
  return bytes >= 2 && std::memcmp(text, kSigma, 2) == 0;
}

// What the Σ at a place becomes (Unicode, 3.13): ς where a letter with a case goes before it, and
// none behind it. The next Σ ends both walks, so none is walked over twice.
const unsigned char* lower_sigma(const Tokenizer& t, const Stretch& s, size_t at) {
  uint32_t before = kPassedOver, behind = kPassedOver;
  const auto of = [&](size_t place, uint32_t code) {
    return is_sigma(s.text + place, s.bytes - place) ? kCased
                                                     : classes(t, code) & (kCased | kPassedOver);
  };
  for (size_t i = at; i > 0 && before == kPassedOver;) {
    const Char c = char_before(s.text, i);
    before = of(i -= c.bytes, c.code);
  }
  for (size_t i = at + 2; i < s.bytes && behind == kPassedOver;) {
    const Char c = char_at(s.text + i, s.bytes - i);
    behind = of(i, c.code);
    i += c.bytes;
  }
  return kSigma + (before == kCased && behind != kCased ? 4 : 2);
}

// Words between white space; a word takes a line feed that is right behind it. A word's characters
// are pieces, the last one with a space behind it. With BERT's words a sign of punctuation is one
// of its own, line feeds are no more than white space, and merges go in no passes. With words of
// lower case such a line feed is a word of its own.
void encode_words(const Tokenizer& t, IdSink* out, const Stretch& s) {
  Word word(t, s.scratch + Alphabet::kScratch, s.limit, s);
  const bool bert = (t.flags & kBertWords) != 0, lower = (t.flags & kLowerWords) != 0;
  // a text that stands for `of` bytes at a place of the stretch
  const auto add = [&](const unsigned char* text, size_t bytes, size_t at, size_t of) {
    const uint32_t id =
        find_where(t, text, bytes, [](Row r) { return (r.marks() & kOfModel) != 0; });
    const uint32_t symbol = id != kNoToken ? id : t.unknown;
    if (symbol == kNoToken) return out->no_offsets();
    word.add(symbol, s.text + at, of);
  };
  // where a word ends: classes of the character there
  const auto cut = [&](size_t at) {
    return at == s.bytes ? kSpace
                         : classes(t, char_at(s.text + at, s.bytes - at).code) &
                               (bert ? kSpace | kPunctuation : kSpace);
  };
  for (size_t at = 0; at < s.bytes;) {
    work();
    const unsigned char* const text =
        lower && is_sigma(s.text + at, s.bytes - at) ? lower_sigma(t, s, at) : s.text + at;
    const uint32_t bytes = char_at(s.text + at, s.bytes - at).bytes, own = cut(at);
    const size_t next = at + bytes;
    if ((own & kSpace) != 0) {
      at = next;
      continue;
    }
    const bool ends = own != 0 || cut(next) != 0;
    const bool line_feed = ends && !bert && next < s.bytes && s.text[next] == '\n';
    const bool takes = line_feed && !lower;
    if (!ends || takes) add(text, bytes, at, bytes);
    if (takes) {
      add(reinterpret_cast<const unsigned char*>("\n "), 2, next, 1);
    } else if (ends) {
      unsigned char last[5];
      std::memcpy(last, text, bytes);
      last[bytes] = ' ';
      add(last, size_t{bytes} + 1, at, bytes);
    }
    at = next + line_feed;
    if (ends && bert) word.finish(out);
    if (ends && !bert) word.finish_in_passes(out);
    if (line_feed && lower) {
      // the word stands for the line feed
      for (size_t i = 0; i + 2 < sizeof kNewLine; ++i) add(kNewLine + i, 1, next, 0);
      add(kNewLine + sizeof kNewLine - 2, 2, next, 1);
      word.finish_in_passes(out);
    }
  }
}

// Bytes of the word that a text begins with: all of the text, or up to a space. A space behind
// another one cuts only where each does.
size_t word_bytes(const Tokenizer& t, const unsigned char* text, size_t n) {
  if ((t.flags & (kCutAtEach | kCutAtSpaces)) == 0) return n;
  bool after_space = false;
  for (size_t at = 0; at < n; ++at) {
    work();
    // neither byte is inside of another character
    const bool space = text[at] == ' ' || begins_with_space_symbol(text + at, n - at);
    if (at > 0 && space && ((t.flags & kCutAtEach) != 0 || !after_space)) return at;
    if (space && text[at] != ' ') at += sizeof kSpaceSymbol - 1;
    after_space = space;
  }
  return n;
}

void encode_word(const Tokenizer& t, IdSink* out, Word* word, const Alphabet& alphabet, Span s) {
  bool after_unknown = false;
  for (size_t at = 0; at < s.bytes;) {
    work();
    const Char c = char_at(s.text + at, s.bytes - at);
    const uint32_t id = c.code == kNoChar ? kNoToken : alphabet.find(s.text + at, c.bytes);
    if (id != kNoToken) {
      word->add(id, s.text + at, c.bytes);
    } else if ((t.flags & kByteFallback) != 0) {
      for (uint32_t i = 0; i < c.bytes; ++i)
        word->add(byte_id(t, s.text[at + i]), s.text + at + i, 1);
    } else if (t.unknown == kNoToken) {
      out->no_offsets();
    } else if (after_unknown && (t.flags & kFuseUnknown) != 0) {
      word->extend(c.bytes);
    } else {
      word->add(t.unknown, s.text + at, c.bytes);
    }
    after_unknown = id == kNoToken;
    at += c.bytes;
  }
  word->finish(out);
}

void encode(const Tokenizer& t, IdSink* out, const Stretch& s) {
  if ((t.flags & kWordEnds) != 0) return encode_words(t, out, s);
  const bool wanted = (t.flags & kAddDummyPrefix) != 0 && (t.flags & kEscapeFirst) == 0 &&
                      (s.first || (t.flags & kPrefixFirst) == 0);
  const bool prefix = wanted && s.text[0] != ' ' && !begins_with_space_symbol(s.text, s.bytes);
  if (prefix) s.put_before(' ');
  const unsigned char* const text = s.text - prefix;
  const size_t n = s.bytes + prefix;
  const Alphabet alphabet(t, s.scratch);
  Word word(t, s.scratch + Alphabet::kScratch, s.limit, s);
  for (size_t at = 0, end = 0; at < n; at = end) {
    end = at + word_bytes(t, text + at, n - at);
    out->word(text + at, end - at,
              [&] { encode_word(t, out, &word, alphabet, {text + at, end - at}); });
  }
}

constexpr unsigned char kSpaceDue = 2;  // of past_start: a word has ended

// A word's space comes before the next one.
void decode_words(const Tokenizer& t, TextSink* sink, Row r) {
  Span text;
  if (!decoded(t, r, &text) || text.bytes == 0) return;
  const bool blank = text.text[text.bytes - 1] == ' ';
  const bool whole = r.type() == PieceType::unknown && (t.flags & kBertWords) == 0;
  const bool ends = whole || blank;
  if (sink->state.past_start == kSpaceDue) sink->space();
  sink->put(text.text, text.bytes - (!whole && blank));
  sink->state.past_start = ends ? kSpaceDue : 1;
}

// ▁ is a space, byte pieces are bytes.
void decode(const Tokenizer& t, TextSink* sink, Row r) {
  if ((t.flags & kWordEnds) != 0) return decode_words(t, sink, r);
  sink->drop_first_space = (t.flags & kDropFirstSpace) != 0;
  if (r.type() == PieceType::byte)
    return sink->byte(static_cast<unsigned char>(byte_value(t.text + r.offset(), r.length())));
  Span text;
  if (!decoded(t, r, &text)) return;
  sink->settle(true);
  sink->put_spaces(text.text, text.bytes, false);
}

}  // namespace

extern constexpr TokenizerModel kCharBpe = [] {
  TokenizerModel m{};
  m.merges = true;
  m.must_have_unknown = false;
  m.flags = kAddDummyPrefix | kByteFallback | kFuseUnknown | kPrefixFirst | kEscapeFirst |
            kCutAtSpaces | kDropFirstSpace | kCutAtEach | kMergeIndex | kWordEnds | kBertWords |
            kLowerWords;
  m.other_number = true;
  m.types = kAllTypes;
  m.marks = kOfModel;
  m.longest_piece = kLongestPiece;  // no search begins anew at every character
  m.least_expansion = 1;            // a byte that is not UTF-8 stays
  m.room = 2 * kPrefixRoom;         // before the text, and before a stretch
  m.check = check;
  m.scratch = scratch;
  m.memory = words_and_pairs;
  m.normalize = normalize;
  m.encode = encode;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
