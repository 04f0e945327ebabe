// A tokenizer of the tokenizers package in its own parts: a normalizer and a pre-tokenizer of small
// steps, one of the package's four models, a decoder. What a step is, is in the section. Includes
// the tokenizer's own headers only; never allocates.
#include "added.h"
#include "chars.h"
#include "filters.h"
#include "merges.h"
#include "package.h"
#include "steps.h"
#include "unigram_words.h"
#include "wordpiece.h"

namespace phasor::pieces {
namespace {

// The header's rule says which model it is.
enum Kind : uint32_t { kBpe = 1, kWordPieces, kWordLevel, kUnigramModel, kKindsEnd };

// Flags of the model, and of the decoder: a space before each token but the first and those marked
// as joined; a piece `<0xAB>` is a byte; letters are bytes; ▁ is a space, and in the first token
// nothing; what ends with the suffix loses it, and a space is due; a token that comes again at once
// is none.
constexpr uint32_t kFallback = 1, kWholeWordsToo = 2, kFusesUnknown = 16, kEndsWords = 8192;
constexpr uint32_t kJoins = 4, kBytes = 32, kLetters = 64, kSpaces = 128, kFirstDrops = 4096,
                   kSuffixIsSpace = 16384, kRepeats = 32768;
constexpr uint32_t kFlags = kFallback | kWholeWordsToo | kFusesUnknown | kEndsWords | kJoins |
                            kBytes | kLetters | kSpaces | kMergeIndex | kFirstDrops |
                            kSuffixIsSpace | kRepeats;
// bytes of a prefix and of a suffix, so that a character with both fits in a small place
constexpr uint32_t kLongestAffix = 32;

Span prefix_of(const Tokenizer& t) { return {t.surface + t.surface_bytes, t.prefix_bytes}; }
Span suffix_of(const Tokenizer& t) {
  return {t.surface + t.surface_bytes + t.prefix_bytes, t.pipeline.suffix_bytes};
}

// The ids of bytes: before the merges, or behind the scores.
const unsigned char* byte_ids(const Tokenizer& t) {
  return t.model_data + (t.rule == kUnigramModel ? static_cast<size_t>(unigram_bytes(t)) : 0);
}

uint64_t own_bytes(const Tokenizer& t, const SectionReader& s) {
  switch (t.rule) {
    case kBpe:
      return merges_bytes(t, s);
    case kUnigramModel:
      return unigram_bytes(t) + 1024;
    default:
      return 0;
  }
}

constexpr uint32_t kIdBytes = 4;
// Whether some tokens are held back until the decoder knows if they are the last one.
bool holds(const Tokenizer& t) { return t.pipeline.holds != 0; }
// Bytes of the ids in a decoder's state.
uint32_t ids_kept(const Tokenizer& t) {
  return kIdBytes * (((t.flags & kRepeats) != 0 ? 1u : 0u) + (holds(t) ? 1u : 0u));
}

// The section's parts of its own: the model's, then the steps.
const char* check(Tokenizer* t, SectionReader* s) {
  t->rule = s->u32(96);
  if (t->rule == 0 || t->rule >= kKindsEnd) return "unknown model of a pipeline";
  if (t->rule != kBpe && s->u32(104) != 0) return "only BPE has merges";
  const uint64_t own = own_bytes(*t, *s);
  const uint32_t steps_bytes = s->u32(120), suffix_bytes = s->u32(124);
  if (const char* const wrong = check_package(t, s, own + steps_bytes)) return wrong;
  if ((t->rule == kWordPieces || t->rule == kUnigramModel) && t->longest > kLongestSearched)
    return "a piece is empty or too long";
  const uint64_t behind = static_cast<uint64_t>(t->surface - t->text) + t->surface_bytes;
  if (t->prefix_bytes > kLongestAffix || suffix_bytes > kLongestAffix ||
      suffix_bytes > s->text_bytes - behind - t->prefix_bytes)
    return "the prefix or the suffix of words is too long";
  t->pipeline = {static_cast<uint32_t>(own), steps_bytes, suffix_bytes, 0, 0, 0, 1};
  if (const char* const wrong = check_steps(t)) return wrong;
  if (const char* const wrong = check_filters(*t, 8 * (kFilterBytes - ids_kept(*t)))) return wrong;
  if (t->rule == kUnigramModel) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const uint32_t id = u32_at(byte_ids(*t), byte);
      if (id != kNoToken && id >= t->pieces) return "the id of a byte is out of range";
    }
    return check_scores(*t);
  }
  return t->rule == kBpe ? check_merges(*t) : nullptr;
}

// The most symbols that words of so many bytes have: characters, or bytes of them, each with the
// prefix, the last one with the suffix.
uint64_t most_symbols(const Tokenizer& t, uint64_t limit) {
  if ((t.flags & kFallback) == 0) return limit;
  return limit * (1 + uint64_t{t.prefix_bytes}) + t.pipeline.suffix_bytes;
}

OffsetRoom offset_room(const Tokenizer& t, uint64_t limit) {
  return {StepRun::kOrigins * limit, t.rule == kBpe ? most_symbols(t, limit) : 0};
}

uint64_t model_scratch(const Tokenizer& t, uint64_t limit) {
  switch (t.rule) {
    case kBpe:
      return merges_scratch(most_symbols(t, limit));
    case kWordPieces:
      return wordpiece_scratch(t, limit);
    case kUnigramModel:
      return unigram_scratch(t, limit);
    default:
      return 0;
  }
}

uint64_t scratch(const Tokenizer& t, uint64_t limit) {
  if (most_symbols(t, limit) > kNoToken) return ~limit;  // they have no numbers: all there is
  // the last of the steps' places is the one that every model has
  return model_scratch(t, limit) + (StepRun::kScratch - 1) * limit;
}

MemoryParts memory(const Tokenizer& t, uint64_t text_bytes) {
  return t.rule == kBpe            ? words_and_pairs(t, text_bytes)
         : t.rule == kUnigramModel ? words_and_walks(t, text_bytes)
                                   : MemoryParts{0, 0};
}

// ---- Encoding ----

uint32_t whole(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  return bytes > t.longest
             ? kNoToken
             : find_where(t, text, bytes, [](Row r) { return (r.marks() & kOfModel) != 0; });
}

// A character as it stands in its word: with the prefix of what continues one, and the suffix of
// what ends one.
struct Symbol {
  unsigned char text[4 + 2 * kLongestAffix];
  size_t bytes = 0;

  void add(Span s) {
    std::memcpy(text + bytes, s.text, s.bytes);
    bytes += s.bytes;
  }
};

// The ids of a symbol's bytes, if all of them have one.
bool add_bytes(const Tokenizer& t, Word* word, const Symbol& symbol, const unsigned char* text) {
  for (size_t i = 0; i < symbol.bytes; ++i)
    if (byte_id(t, symbol.text[i]) == kNoToken) return false;
  for (size_t i = 0; i < symbol.bytes; ++i) word->add(byte_id(t, symbol.text[i]), text, 1);
  return true;
}

void encode_bpe(const Tokenizer& t, IdSink* out, Word* word, const Stretch& s) {
  const size_t n = s.bytes;
  if ((t.flags & kWholeWordsToo) != 0) {
    const uint32_t id = whole(t, s.text, n);
    if (id != kNoToken) return out->put(id, s.text, n);
  }
  bool unknown = false;  // one that may go on is not added yet
  size_t unknown_bytes = 0;
  for (size_t at = 0; at < n;) {
    const size_t bytes = char_at(s.text + at, n - at).bytes;
    Symbol symbol;
    if (at != 0) symbol.add(prefix_of(t));
    symbol.add({s.text + at, bytes});
    at += bytes;
    if (at == n && (t.flags & kEndsWords) != 0) symbol.add(suffix_of(t));
    const uint32_t id = whole(t, symbol.text, symbol.bytes);
    if (id != kNoToken) {
      if (unknown) word->add(t.unknown, s.text, unknown_bytes);
      unknown = false;
      word->add(id, s.text, bytes);
    } else if ((t.flags & kFallback) == 0 || !add_bytes(t, word, symbol, s.text)) {
      const bool goes_on = unknown && (t.flags & kFusesUnknown) != 0;
      if (unknown && !goes_on) word->add(t.unknown, s.text, unknown_bytes);
      unknown = t.unknown != kNoToken;
      unknown_bytes = (goes_on ? unknown_bytes : 0) + bytes;
    }
  }
  if (unknown) word->add(t.unknown, s.text, unknown_bytes);
  word->finish(out);
}

// The words of a text, each one through the model.
class Words {
 public:
  Words(const Tokenizer& t, IdSink* out, const Stretch& s)
      : t_(t),
        out_(out),
        s_(s),
        word_(t, s.scratch, most_symbols(t, s.limit), s),
        pieces_(t, s.scratch),
        segments_(t, out, s) {
    if ((t.flags & kFallback) != 0) segments_.byte_ids = byte_ids(t);
  }

  void put_all(const Marked& text) {
    out_->offsets.base = text.text;
    out_->offsets.origins = text.origins;
    for (size_t at = 0, end = 0; at < text.size && out_->lost.text == nullptr; at = end) {
      uint32_t chars = 0;
      do {
        end += char_at(text.text + end, text.size - end).bytes;
        ++chars;
      } while (end < text.size && (text.marks[end] & kBegins) == 0);
      put(text.text + at, end - at, chars);
    }
  }

 private:
  void put(const unsigned char* text, size_t bytes, uint32_t chars) {
    out_->word(text, bytes, [&] { encode(text, bytes, chars); });
  }
  void encode(const unsigned char* text, size_t bytes, uint32_t chars) {
    s_.text = text;
    s_.bytes = bytes;
    out_->offsets.word = {text, bytes};
    if (t_.rule == kBpe) return encode_bpe(t_, out_, &word_, s_);
    if (t_.rule == kWordPieces) return pieces_.put(out_, text, bytes, chars);
    if (t_.rule == kUnigramModel) return segments_.put_segments(text, bytes);
    const uint32_t id = whole(t_, text, bytes);
    return id != kNoToken ? out_->put(id, text, bytes) : out_->put_unknown(text, bytes);
  }

  const Tokenizer& t_;
  IdSink* out_;
  Stretch s_;
  // one for each model; the section uses one of them
  Word word_;
  const WordPieces pieces_;
  UnigramWords segments_;
};

// A text cut at added tokens, each stretch normalized, cut again, taken through the pre-tokenizer
// and the model.
bool encode_text(const Tokenizer& t, IdSink* out, const Stretch& s) {
  const uint64_t model = model_scratch(t, s.limit);
  StepRun run(t, s.scratch + static_cast<size_t>(model), s.limit, s.origins);
  Words words(t, out, s);
  AddedSplit split(t, s.text, s.bytes, false);
  for (AddedSplit::Stretch raw{}; split.next(&raw);) {
    if (raw.id != kNoToken) {
      out->put_whole(raw.id, s.text + raw.begin, raw.end - raw.begin);
      continue;
    }
    run.load(s.text, raw.begin, raw.end);
    const StepRow rows = run.normalize(steps_of(t));
    if (!run.fits()) return false;
    const Marked& text = run.normalized();
    AddedSplit again(t, text.text, text.size, true);
    for (AddedSplit::Stretch part{}; again.next(&part);) {
      if (part.id != kNoToken) {
        out->offsets.base = text.text;
        out->offsets.origins = text.origins;
        out->offsets.word = {};
        out->put_text(part.id, text.text + part.begin, part.end - part.begin);
        continue;
      }
      run.cut(rows, part.begin, part.end);
      if (!run.fits()) return false;
      words.put_all(run.words());
      if (out->lost.text != nullptr) {
        out->result = {EncodeStatus::unknown_word, out->result.count, raw.begin,
                       raw.end - raw.begin};
        return true;
      }
    }
  }
  return true;
}

// ---- Decoding ----

// Bytes where every character is a letter for one, else the text.
void put_letters(TextSink* sink, Span text) {
  bool all = true;
  for (size_t at = 0; at < text.bytes;) {
    const Char c = char_at(text.text + at, text.bytes - at);
    all = all && byte_of_letter(c.code) >= 0;
    at += c.bytes;
  }
  sink->state.prefix_seen = kMaximal;
  for (size_t at = 0; at < text.bytes;) {
    const Char c = all ? char_at(text.text + at, text.bytes - at) : Char{0, 1};
    sink->byte(all ? static_cast<unsigned char>(byte_of_letter(c.code)) : text.text[at]);
    at += c.bytes;
  }
}

// The ids in a state follow the filters: 1 + the id in 4 bytes, 0 for none.
unsigned char* token_before(TextSink* sink) {
  return sink->state.filters + kFilterBytes - kIdBytes;
}
unsigned char* token_held(TextSink* sink) {
  return sink->state.filters + kFilterBytes - ids_kept(sink->t);
}
uint32_t kept_id(const unsigned char* in) { return load_u32(in) - 1; }
void keep_id(unsigned char* in, uint32_t id) {
  for (uint32_t i = 0; i < kIdBytes; ++i) in[i] = static_cast<unsigned char>((id + 1) >> 8 * i);
}

// Whether a token equals the previous one, or has the same id in `same`. Keeps it as the previous
// one.
bool comes_again(TextSink* sink, uint32_t id, Spelled spelled, Spelled last) {
  const uint32_t before = kept_id(token_before(sink));
  const bool first = before == kNoToken && last.p != nullptr && last.same() != 0;
  const uint32_t same = first ? last.same() : spelled.p != nullptr ? spelled.same() : 0;
  if (same != 0) id = same - 1;
  keep_id(token_before(sink), id);
  return before == id;
}

// A text as it is; where pieces are bytes, its bytes.
void put_bytes(const Tokenizer& t, TextSink* sink, Span text) {
  if ((t.flags & kLetters) != 0) {
    sink->state.prefix_seen = kMaximal;
    for (size_t i = 0; i < text.bytes; ++i) sink->byte(text.text[i]);
  } else {
    sink->settle(true);
    sink->put(text);
  }
}

constexpr unsigned char kSeen = 1, kSpaceIsDue = 2;  // of past_start

void put_text(const Tokenizer& t, TextSink* sink, Row r, Span text, bool first) {
  const int byte = (t.flags & kBytes) != 0 ? byte_value(text.text, text.bytes) : -1;
  if (byte >= 0) return sink->byte(static_cast<unsigned char>(byte));
  if ((t.flags & kLetters) != 0) return put_letters(sink, text);
  sink->settle(true);
  if ((t.flags & kJoins) != 0 && !first) {
    if ((r.marks() & kJoined) == 0) sink->space();
    const size_t marked = r.marks() >> 8;  // of the piece, whose surface may be shorter
    const size_t skip = marked < text.bytes ? marked : text.bytes;
    text = {text.text + skip, text.bytes - skip};
  }
  const Span suffix = suffix_of(t);
  if ((t.flags & kSuffixIsSpace) != 0 && suffix.bytes != 0 && text.bytes >= suffix.bytes &&
      std::memcmp(text.text + text.bytes - suffix.bytes, suffix.text, suffix.bytes) == 0) {
    text.bytes -= suffix.bytes;
    sink->state.past_start |= kSpaceIsDue;
  }
  if ((t.flags & kSpaces) != 0)
    sink->put_spaces(text.text, text.bytes, first && (t.flags & kFirstDrops) != 0);
  else
    sink->put(text);
}

// Writes a token that is not held back, or no longer.
void put_token(const Tokenizer& t, TextSink* sink, Row r, Span text, Spelled spelled) {
  const bool first = (sink->state.past_start & kSeen) == 0;
  if ((sink->state.past_start & kSpaceIsDue) != 0) put_bytes(t, sink, {kBlank, 1});
  sink->state.past_start = kSeen;
  if (spelled.p == nullptr) return put_text(t, sink, r, text, first);
  put_bytes(t, sink, spelled_text(t, spelled, first));
  if ((spelled.flags() & Spelled::kDue) != 0) sink->state.past_start |= kSpaceIsDue;
}

// Writes the token that is held back, if any. last: no token follows it.
void put_held(const Tokenizer& t, TextSink* sink, bool last) {
  if (!holds(t)) return;
  const uint32_t id = kept_id(token_held(sink));
  if (id >= t.ids) return;
  keep_id(token_held(sink), kNoToken);
  put_token(t, sink, row(t, id), {}, find_spelled(steps_of(t), id, last));
}

void decode(const Tokenizer& t, TextSink* sink, Row r) {
  Span text;
  if (!decoded(t, r, &text) || text.bytes == 0) return;
  const uint32_t id = static_cast<uint32_t>(r.p - t.table) / 16;
  const Spelled spelled = find_spelled(steps_of(t), id, false);
  const Spelled last = find_spelled(steps_of(t), id, true);
  if (spelled.p != nullptr && (spelled.flags() & Spelled::kSkipped) != 0) return;
  if ((t.flags & kRepeats) != 0 && comes_again(sink, id, spelled, last)) return;
  sink->filters = true;
  if (spelled.p != nullptr && (spelled.flags() & Spelled::kNothing) != 0) return;
  put_held(t, sink, false);
  if (last.p != nullptr) return keep_id(token_held(sink), id);
  put_token(t, sink, r, text, spelled);
}

void decode_end(TextSink* sink) {
  sink->filters = true;
  put_held(sink->t, sink, true);
  sink->settle(true);
  end_filters(sink);
}

uint64_t most_decoded(const Tokenizer& t, uint64_t most) {
  // bytes of what is spelled out may become U+FFFD too; before it a space
  const uint64_t spelled = uint64_t{t.pipeline.longest_spelled} * sizeof kReplacement + 16;
  const uint64_t held = uint64_t{t.pipeline.longest_held} * sizeof kReplacement + 16;
  return filtered_bytes(
      t, (spelled > most ? spelled : most) + (holds(t) ? held : 0));
}

}  // namespace

extern constexpr TokenizerModel kPipeline = [] {
  TokenizerModel m{};
  m.merges = m.steps = m.word_limit = m.emptied = true;
  m.must_have_unknown = false;
  m.flags = kFlags;
  m.marks = kAnyMarks;
  m.longest_piece = kLongestPiece;  // where no search starts at each character
  m.least_expansion = 3;            // a byte that is not UTF-8 becomes U+FFFD
  m.growth = sizeof kReplacement;   // each byte may become U+FFFD
  m.check = check;
  m.scratch = scratch;
  m.memory = memory;
  m.offset_room = offset_room;
  m.encode_text = encode_text;
  m.decode_end = decode_end;
  m.most_decoded = most_decoded;
  m.decode = decode;
  return m;
}();

}  // namespace phasor::pieces
