// Encoding with the model that a section holds, decoding id by id.
// Includes the tokenizer's own headers only; never allocates, never reads a byte that
// tokenizer_open has not placed.
#include "tokenizer.h"

#include "added.h"
#include "normalizer.h"
#include "pieces.h"

namespace phasor {

using pieces::row;

// ---- Encoding ----

namespace {

// Normalised bytes of any text of `text_bytes` bytes: each byte at its worst, and the dummy prefix;
// two, where one is written before a stretch.
std::uint64_t normalized_limit(const Tokenizer& t, std::uint64_t text_bytes) noexcept {
  return text_bytes * t.expansion + (is(t, TokenizerModel::char_bpe) ? 6 : 3);
}

// Scratch beside the normalised text.
std::uint64_t tables_bytes(const Tokenizer& t, std::uint64_t limit) noexcept {
  if (is(t, TokenizerModel::unigram)) return pieces::unigram_scratch(t, limit);
  if (is(t, TokenizerModel::bpe)) return pieces::bpe_scratch(t, limit);
  if (is(t, TokenizerModel::wordpiece)) return pieces::wordpiece_scratch(t, limit);
  if (is(t, TokenizerModel::byte_bpe)) return pieces::byte_bpe_scratch(limit);
  if (is(t, TokenizerModel::metaspace)) return pieces::metaspace_scratch(t, limit);
  return is(t, TokenizerModel::char_bpe) ? pieces::char_bpe_scratch(limit) : 0;
}

// The bytes of the prefix that every stretch gets, within the room that normalized_limit leaves for
// it.
constexpr std::size_t kPrefixRoom = 3;

std::uint64_t normalize_package(const Tokenizer& t, unsigned char* out, std::uint64_t capacity,
                                const unsigned char* text, std::size_t bytes) noexcept {
  if (is(t, TokenizerModel::wordpiece)) return normalize_bert(t, out, capacity, text, bytes);
  if (is(t, TokenizerModel::metaspace)) return normalize_precompiled(t, out, capacity, text, bytes);
  if (is(t, TokenizerModel::char_bpe)) return normalize_spaces(t, out, capacity, text, bytes);
  if (is(t, TokenizerModel::byte_bpe) && (t.flags & pieces::kCompose) != 0)
    return normalize_canonical(t, out, capacity, text, bytes);
  work(bytes);
  std::memcpy(out, text, bytes);  // capacity is bytes times an expansion of at least 1
  return bytes;
}

// One stretch without added tokens; `first` says that it begins the whole text.
void encode_stretch(const Tokenizer& t, pieces::IdSink* out, unsigned char* text, std::size_t bytes,
                    bool first, unsigned char* tables, std::uint64_t limit) noexcept {
  if (is(t, TokenizerModel::wordpiece))
    return pieces::encode_wordpiece(t, out, text, bytes, tables);
  // the prefix is written over what lies before the stretch, and taken away again
  unsigned char before[kPrefixRoom];
  std::memcpy(before, text - kPrefixRoom, kPrefixRoom);
  if (is(t, TokenizerModel::metaspace)) {
    pieces::encode_metaspace(t, out, text, bytes, first, tables);
  } else if (is(t, TokenizerModel::char_bpe)) {
    const bool wanted = (t.flags & pieces::kAddDummyPrefix) != 0 &&
                        (t.flags & pieces::kEscapeFirst) == 0 &&
                        (first || (t.flags & pieces::kPrefixFirst) == 0);
    const bool there = text[0] == ' ' ||
                       (bytes >= 3 && std::memcmp(text, pieces::kSpaceSymbol, 3) == 0),
               prefix = wanted && !there;
    if (prefix) text[-1] = ' ';
    pieces::encode_char_bpe(t, out, prefix ? text - 1 : text, bytes + prefix, tables, limit);
  } else if (is(t, TokenizerModel::byte_bpe)) {
    const bool prefix = (t.flags & pieces::kAddDummyPrefix) != 0 && text[0] != ' ';
    if (prefix) text[-1] = ' ';
    pieces::encode_byte_bpe(t, out, prefix ? text - 1 : text, bytes + prefix, tables, limit);
  }
  std::memcpy(text - kPrefixRoom, before, kPrefixRoom);
}

// A text with the tokenizers package's models: cut at added tokens, each stretch normalised, cut
// again, encoded. False when the header's expansion is not true.
bool encode_package(const Tokenizer& t, pieces::IdSink* out, const unsigned char* text,
                    std::size_t bytes, unsigned char* tables, unsigned char* normalized,
                    std::uint64_t limit) noexcept {
  unsigned char* const room = normalized + kPrefixRoom;
  pieces::AddedSplit split(t, text, bytes, false);
  for (pieces::AddedSplit::Stretch raw{}; split.next(&raw);) {
    if (raw.id != kNoToken) {
      out->put(raw.id);
      continue;
    }
    const std::uint64_t n =
        normalize_package(t, room, limit - kPrefixRoom, text + raw.begin, raw.end - raw.begin);
    if (n == kNormalizedTooLong) return false;
    pieces::AddedSplit again(t, room, static_cast<std::size_t>(n), true);
    for (pieces::AddedSplit::Stretch s{}; again.next(&s);) {
      if (s.id != kNoToken)
        out->put(s.id);
      else
        encode_stretch(t, out, room + s.begin, s.end - s.begin, raw.begin + s.begin == 0, tables,
                       limit);
    }
  }
  return true;
}

}  // namespace

std::uint64_t tokenizer_scratch_bytes(const Tokenizer& t, std::uint64_t text_bytes) noexcept {
  if (is(t, TokenizerModel::words)) return 0;
  constexpr std::uint64_t kMost = 0x7FFFFFFFu;
  if (text_bytes > kMost || normalized_limit(t, text_bytes) > kMost) return ~std::uint64_t{0};
  const std::uint64_t limit = normalized_limit(t, text_bytes);
  return tables_bytes(t, limit) + limit;
}

EncodeResult tokenizer_encode(const Tokenizer& t, std::uint32_t* ids, std::size_t capacity,
                              const char* text, std::size_t text_bytes, void* scratch,
                              std::size_t scratch_bytes) noexcept {
  pieces::IdSink out{t, ids, capacity, 0, false};
  const unsigned char* const bytes = reinterpret_cast<const unsigned char*>(text);
  if (is(t, TokenizerModel::words)) return pieces::encode_words(t, &out, bytes, text_bytes);

  const std::uint64_t needed = tokenizer_scratch_bytes(t, text_bytes);
  if (needed > scratch_bytes) return {EncodeStatus::text_too_long, 0, 0, 0};
  if (text_bytes == 0) return {EncodeStatus::ok, 0, 0, 0};

  // The normalised text takes the end of the scratch, the encoder's tables its aligned start.
  const std::uint64_t limit = normalized_limit(t, text_bytes);
  unsigned char* const tables = static_cast<unsigned char*>(scratch);
  unsigned char* const normalized = tables + static_cast<std::size_t>(needed - limit);
  if (pieces::packaged(t)) {
    const bool fits = encode_package(t, &out, bytes, text_bytes, tables, normalized, limit);
    return {fits ? EncodeStatus::ok : EncodeStatus::text_too_long, fits ? out.count : 0, 0, 0};
  }
  const std::uint64_t n = normalize(t, normalized, limit, bytes, text_bytes);
  // the header's expansion is not true
  if (n == kNormalizedTooLong) return {EncodeStatus::text_too_long, 0, 0, 0};
  if (is(t, TokenizerModel::unigram)) {
    pieces::encode_unigram(t, &out, normalized, static_cast<std::uint32_t>(n), tables, limit);
  } else if (is(t, TokenizerModel::bpe)) {
    pieces::encode_bpe(t, &out, normalized, static_cast<std::uint32_t>(n), tables, limit);
  }
  return {EncodeStatus::ok, out.count, 0, 0};
}

// ---- Pieces and decoding ----

PieceView tokenizer_piece(const Tokenizer& t, std::uint32_t id) noexcept {
  const pieces::Row r = row(t, id);
  return {reinterpret_cast<const char*>(t.text + r.offset()), r.length(),
          pieces::packaged(t) ? 0.0f : r.score(), r.type()};
}

std::uint32_t tokenizer_find(const Tokenizer& t, const char* text, std::size_t bytes) noexcept {
  const unsigned char* const p = reinterpret_cast<const unsigned char*>(text);
  const std::uint32_t id = pieces::find(t, p, bytes, true);
  return id != kNoToken ? id : pieces::find(t, p, bytes, false);
}

namespace {

constexpr unsigned char kMaximal = 2;  // of prefix_seen: the text is byte-level BPE's

// Counts what is decoded and writes what fits; the caller takes the new state only when all of it
// did.
struct TextSink {
  TokenDecoder state;
  char* out;
  std::size_t capacity;
  std::size_t count;
  bool drop_first_space;

  void put(const unsigned char* text, std::size_t bytes) noexcept {
    work(1 + bytes);
    if (drop_first_space && state.past_start == 0 && bytes > 0) {
      state.past_start = 1;
      if (text[0] == ' ') {
        ++text;
        --bytes;
      }
    }
    for (std::size_t i = 0; i < bytes; ++i, ++count) {
      if (count < capacity) out[count] = static_cast<char>(text[i]);
    }
    if (bytes > 0) state.any_text = 1;
  }

  // Bytes of an invalid beginning that become one U+FFFD: SentencePiece takes each on its own, the
  // tokenizers package (as the Unicode standard, 3.9) as many as could have begun a character.
  std::size_t invalid(std::size_t bytes) const noexcept {
    bool more = false;
    if (state.prefix_seen != kMaximal) return 1;
    while (bytes > 1 && (pieces::valid_char(state.pending, bytes, &more) != 0 || !more)) --bytes;
    return bytes;
  }

  // Writes the characters that are complete; with `all`, what is left is not coming any more.
  void settle(bool all) noexcept {
    while (state.pending_bytes > 0) {
      bool more = false;
      std::size_t size = pieces::valid_char(state.pending, state.pending_bytes, &more);
      if (size == 0 && more && !all) return;
      if (size == 0) {
        put(pieces::kReplacement, sizeof pieces::kReplacement);
        size = invalid(state.pending_bytes);
      } else {
        put(state.pending, size);
      }
      std::memmove(state.pending, state.pending + size, state.pending_bytes - size);
      state.pending_bytes = static_cast<unsigned char>(state.pending_bytes - size);
    }
  }

  std::size_t finish(TokenDecoder* to) const noexcept {
    if (count <= capacity) *to = state;
    return count;
  }
};

// A state that was never set to zero may give any text, but no access out of bounds.
TokenDecoder sound(TokenDecoder state) noexcept {
  if (state.pending_bytes > 3) state.pending_bytes = 0;
  return state;
}

void decode_word(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  if (r.type() == PieceType::control) return;
  if (sink->state.any_text != 0) sink->put(reinterpret_cast<const unsigned char*>(" "), 1);
  if (r.type() == PieceType::unknown)
    sink->put(t.surface, t.surface_bytes);
  else
    sink->put(t.text + r.offset(), r.length());
}

void decode_byte(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  sink->state.pending[sink->state.pending_bytes++] =
      static_cast<unsigned char>(pieces::byte_value(t.text + r.offset(), r.length()));
  sink->settle(false);
}

// A text in which ▁ is a space.
void decode_spaces(TextSink* sink, const unsigned char* text, std::size_t bytes) noexcept {
  for (std::size_t at = 0; at < bytes;) {
    const bool space = bytes - at >= 3 && std::memcmp(text + at, pieces::kSpaceSymbol, 3) == 0;
    if (space)
      sink->put(reinterpret_cast<const unsigned char*>(" "), 1);
    else
      sink->put(text + at, 1);
    at += space ? 3 : 1;
  }
}

void decode_piece(const Tokenizer& t, TextSink* sink, std::uint32_t id) noexcept {
  const pieces::Row r = row(t, id);
  const unsigned char* text = t.text + r.offset();
  std::size_t bytes = r.length();
  if (r.type() == PieceType::byte) return decode_byte(t, sink, r);
  sink->settle(true);
  if (sink->state.prefix_seen != 0 || sink->state.any_text != 0) sink->state.past_start = 1;
  sink->state.prefix_seen = 0;
  if (r.type() == PieceType::control) return;
  if (r.type() == PieceType::unknown) return sink->put(t.surface, t.surface_bytes);

  const auto at_space = [&text, &bytes]() noexcept {
    return bytes >= 3 && std::memcmp(text, pieces::kSpaceSymbol, 3) == 0;
  };
  if (sink->state.past_start == 0 &&
      (t.flags & (pieces::kAddDummyPrefix | pieces::kRemoveExtraWhitespaces)) != 0 && at_space()) {
    text += 3;
    bytes -= 3;
    // Where extra white space is removed, the next piece may give up its leading space too.
    sink->state.prefix_seen = (t.flags & pieces::kRemoveExtraWhitespaces) == 0 ? 1 : 0;
  }
  decode_spaces(sink, text, bytes);
}

// The package's decoder of WordPiece, whose clean-up looks at one token at a time: so the section
// can say per piece what it does. The first token keeps its prefix.
void decode_wordpiece(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  if (r.type() == PieceType::control || r.type() == PieceType::unused) return;
  const bool first = sink->state.past_start == 0, unknown = r.type() == PieceType::unknown;
  if (unknown && t.surface_bytes == 0) return;  // it is special
  sink->state.past_start = 1;
  if (!first && (r.marks() & pieces::kJoined) == 0)
    sink->put(reinterpret_cast<const unsigned char*>(" "), 1);
  const std::uint32_t skip = first || unknown ? 0 : r.marks() >> 8;
  if (unknown)
    sink->put(t.surface, t.surface_bytes);
  else
    sink->put(t.text + r.offset() + skip, r.length() - skip);
}

// The package's decoder of Metaspace: ▁ is a space, and in the first token nothing.
void decode_metaspace(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  const bool unknown = r.type() == PieceType::unknown;
  if (r.type() == PieceType::control || r.type() == PieceType::unused ||
      (unknown && t.surface_bytes == 0))
    return;
  const unsigned char* const text = unknown ? t.surface : t.text + r.offset();
  const std::size_t bytes = unknown ? t.surface_bytes : r.length();
  const bool drop = sink->state.past_start == 0 && (t.flags & pieces::kDropFirstPrefix) != 0;
  sink->state.past_start = 1;
  for (std::size_t at = 0; at < bytes;) {
    const bool space = bytes - at >= 3 && std::memcmp(text + at, pieces::kSpaceSymbol, 3) == 0;
    if (!space)
      sink->put(text + at, 1);
    else if (!drop)
      sink->put(reinterpret_cast<const unsigned char*>(" "), 1);
    at += space ? 3 : 1;
  }
}

// BPE of characters: ▁ is a space, byte pieces are bytes.
void decode_chars(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  if (r.type() == PieceType::byte) return decode_byte(t, sink, r);
  if (r.type() == PieceType::control || r.type() == PieceType::unused) return;
  sink->settle(true);
  const bool unknown = r.type() == PieceType::unknown;
  decode_spaces(sink, unknown ? t.surface : t.text + r.offset(),
                unknown ? t.surface_bytes : r.length());
}

// Byte-level BPE: the bytes of all pieces are one text.
void decode_bytes(const Tokenizer& t, TextSink* sink, const pieces::Row& r) noexcept {
  if (r.type() == PieceType::control || r.type() == PieceType::unused) return;
  const bool unknown = r.type() == PieceType::unknown;
  const unsigned char* const text = unknown ? t.surface : t.text + r.offset();
  const std::size_t bytes = unknown ? t.surface_bytes : r.length();
  sink->state.prefix_seen = kMaximal;
  for (std::size_t i = 0; i < bytes; ++i) {
    sink->state.pending[sink->state.pending_bytes++] = text[i];
    sink->settle(false);
  }
}

}  // namespace

std::size_t token_decode(const Tokenizer& t, TokenDecoder* state, std::uint32_t id, char* out,
                         std::size_t capacity) noexcept {
  if (id >= t.pieces) return kBadToken;
  TextSink sink{sound(*state), out, capacity, 0,
                is(t, TokenizerModel::char_bpe) && (t.flags & pieces::kDropFirstSpace) != 0};
  if (is(t, TokenizerModel::words)) {
    decode_word(t, &sink, row(t, id));
  } else if (is(t, TokenizerModel::wordpiece)) {
    decode_wordpiece(t, &sink, row(t, id));
  } else if (is(t, TokenizerModel::byte_bpe)) {
    decode_bytes(t, &sink, row(t, id));
  } else if (is(t, TokenizerModel::metaspace)) {
    decode_metaspace(t, &sink, row(t, id));
  } else if (is(t, TokenizerModel::char_bpe)) {
    decode_chars(t, &sink, row(t, id));
  } else {
    decode_piece(t, &sink, id);
  }
  return sink.finish(state);
}

std::size_t token_decode_end(TokenDecoder* state, char* out, std::size_t capacity) noexcept {
  TextSink sink{sound(*state), out, capacity, 0, false};
  sink.settle(true);
  return sink.finish(state);
}

std::size_t token_decode_capacity(const Tokenizer& t) noexcept {
  const std::uint32_t most = t.longest > t.surface_bytes ? t.longest : t.surface_bytes;
  // Byte-level BPE: each byte may be one that becomes U+FFFD.
  const std::size_t grows = is(t, TokenizerModel::byte_bpe) ? sizeof pieces::kReplacement : 1;
  return most * grows + 1 + 4 * sizeof pieces::kReplacement;  // a space, and what was held back
}

}  // namespace phasor
