// Opening a tokenizer section, encoding with the model that it holds, decoding id by id.
// Includes the tokenizer's own headers only; never allocates, never reads a byte that tokenizer_open has not placed.
#include "tokenizer.h"

#include "normalizer.h"
#include "pieces.h"

namespace phasor {

using pieces::load_f32;
using pieces::load_u32;
using pieces::row;
using pieces::sorted_id;

namespace {

constexpr std::size_t kHeaderBytes = 128;
constexpr std::uint32_t kMostPieces = 1u << 24;
constexpr float kFloatMax = 3.40282346638528859812e+38f;

std::uint64_t load_u64(const unsigned char* p) noexcept {
  return static_cast<std::uint64_t>(load_u32(p)) | static_cast<std::uint64_t>(load_u32(p + 4)) << 32;
}

bool finite(float value) noexcept { return value >= -kFloatMax && value <= kFloatMax; }

// A part of the section: at a multiple of 4, not before `*end`, inside `bytes`; moves `*end` behind it.
bool part(const unsigned char** out, const unsigned char* section, std::uint64_t bytes, std::uint64_t offset,
          std::uint64_t size, std::uint64_t* end) noexcept {
  if (offset % 4 != 0 || offset < *end || offset > bytes || size > bytes - offset) return false;
  *out = section + static_cast<std::size_t>(offset);
  *end = offset + size;
  return true;
}

// The order of the permutation: by bytes, a prefix before what goes on from it, equal pieces by id.
// Sets `*same` when the texts are equal.
bool ascends(const Tokenizer& t, std::uint32_t a, std::uint32_t b, bool* same) noexcept {
  const std::uint32_t la = row(t, a).length(), lb = row(t, b).length();
  const int order = std::memcmp(t.text + row(t, a).offset(), t.text + row(t, b).offset(), la < lb ? la : lb);
  *same = order == 0 && la == lb;
  return order != 0 ? order < 0 : la != lb ? la < lb : a < b;
}

const char* check_pieces(Tokenizer* t, std::uint64_t text_bytes, std::uint32_t longest, float lowest) noexcept {
  const bool words = t->model == TokenizerModel::words;
  std::uint64_t text_end = 0;
  std::uint32_t unknowns = 0;
  std::uint32_t byte_pieces[8] = {0, 0, 0, 0, 0, 0, 0, 0};
  t->lowest_score = kFloatMax;
  for (std::uint32_t id = 0; id < t->pieces; ++id) {
    const pieces::Row r = row(*t, id);
    const std::uint32_t length = r.length();
    if (r.offset() < text_end || r.offset() > text_bytes || length > text_bytes - r.offset()) {
      return "a piece's text is out of order or outside the text";
    }
    if (length == 0 || length > pieces::kLongestPiece) return "a piece is empty or too long";
    if (!finite(r.score())) return "a piece's score is not finite";
    const unsigned char* const text = t->text + r.offset();
    text_end = std::uint64_t{r.offset()} + length;
    if (length > t->longest) t->longest = length;
    switch (r.type()) {
      case PieceType::normal:
        if (r.score() < t->lowest_score) t->lowest_score = r.score();
        break;
      case PieceType::unknown:
        if (id != t->unknown) return "a piece of type unknown is not the unknown id";
        ++unknowns;
        break;
      case PieceType::control: break;
      case PieceType::user_defined:
        if (words) return "a word list has a user-defined piece";
        if (length > t->longest_user) t->longest_user = length;
        t->user_first[text[0] >> 5] |= 1u << (text[0] & 31);
        break;
      case PieceType::unused:
        if (words) return "a word list has an unused piece";
        ++t->unused;
        break;
      case PieceType::byte: {
        const int value = pieces::byte_value(text, length);
        if ((t->flags & pieces::kByteFallback) == 0 || value < 0) return "a byte piece is not allowed or not <0x00> ... <0xFF>";
        byte_pieces[value >> 5] |= 1u << (value & 31);
        break;
      }
      default: return "a piece has an unknown type";
    }
  }
  if (t->longest != longest) return "the length of the longest piece is wrong";
  if (unknowns != (t->unknown == kNoToken ? 0u : 1u)) return "the unknown id is not a piece of type unknown";
  if (!words && t->unknown == kNoToken) return "a SentencePiece model has no unknown piece";
  if (t->flags & pieces::kByteFallback) {
    for (const std::uint32_t bits : byte_pieces) {
      if (bits != 0xFFFFFFFFu) return "byte fallback without all 256 byte pieces";
    }
  }
  if (t->model != TokenizerModel::unigram) t->lowest_score = 0.0f;
  if (t->lowest_score == kFloatMax) return "a unigram model has no normal piece";
  if (t->lowest_score != lowest) return "the lowest score is wrong";

  // Strictly ascending and in range: so every id is there exactly once.
  for (std::uint32_t rank = 0; rank < t->pieces; ++rank) {
    const std::uint32_t id = sorted_id(*t, rank);
    if (id >= t->pieces) return "the sorted permutation has an id out of range";
    if (rank == 0) continue;
    const std::uint32_t before = sorted_id(*t, rank - 1);
    bool same = false;
    if (!ascends(*t, before, id, &same)) return "the sorted permutation is not sorted";
    // Only unigram may have a reserved piece of the same text as another.
    if (same && !words && (t->model != TokenizerModel::unigram ||
                           pieces::reserved(row(*t, before).type()) == pieces::reserved(row(*t, id).type()))) {
      return "two pieces are the same";
    }
  }
  return nullptr;
}

const char* check(Tokenizer* t, const unsigned char* section, std::size_t section_bytes) noexcept {
  if (section_bytes < kHeaderBytes) return "the section is shorter than its header";
  const std::uint64_t bytes = section_bytes;
  const std::uint32_t model = load_u32(section);
  if (model < 1 || model > 3) return "unknown tokenizer model";
  t->model = static_cast<TokenizerModel>(model);
  const bool words = t->model == TokenizerModel::words;
  t->flags = load_u32(section + 4);
  if (t->flags > 31 || (words && t->flags != 0)) return "unknown tokenizer flags";
  t->pieces = load_u32(section + 8);
  if (t->pieces == 0 || t->pieces > kMostPieces) return "the number of pieces is out of range";
  t->unknown = load_u32(section + 12);
  if (t->unknown != kNoToken && t->unknown >= t->pieces) return "the unknown id is out of range";
  const std::uint32_t trie_bytes = load_u32(section + 24), string_bytes = load_u32(section + 28);
  t->expansion = load_u32(section + 88);
  t->longest_rule = load_u32(section + 92);
  for (std::size_t i = 96; i < kHeaderBytes; ++i) {
    if (section[i] != 0) return "a reserved byte of the header is not zero";
  }

  std::uint64_t end = kHeaderBytes;
  const std::uint64_t text_bytes = load_u64(section + 56);
  if (!part(&t->table, section, bytes, load_u64(section + 32), std::uint64_t{16} * t->pieces, &end)) {
    return "the table of pieces is outside the section";
  }
  if (!part(&t->permutation, section, bytes, load_u64(section + 40), std::uint64_t{4} * t->pieces, &end)) {
    return "the sorted permutation is outside the section";
  }
  if (text_bytes > 0xFFFFFFFFu || !part(&t->text, section, bytes, load_u64(section + 48), text_bytes, &end)) {
    return "the pieces' text is outside the section";
  }
  const std::uint64_t trie_at = load_u64(section + 64), strings_at = load_u64(section + 72);
  if (trie_bytes == 0) {
    if (trie_at != 0 || strings_at != 0 || string_bytes != 0) return "the normaliser has no trie but other parts";
    t->trie = t->strings = nullptr;
    if (t->longest_rule != 0) return "the normaliser has no trie but rules";
  } else {
    if (words) return "a word list has a normaliser";
    if (trie_bytes % 4 != 0 || !part(&t->trie, section, bytes, trie_at, trie_bytes, &end)) {
      return "the normaliser's trie is outside the section";
    }
    if (string_bytes == 0 || !part(&t->strings, section, bytes, strings_at, string_bytes, &end)) {
      return "the normaliser's strings are outside the section";
    }
    if (t->strings[string_bytes - 1] != 0) return "the normaliser's strings are not terminated";
    t->trie_units = trie_bytes / 4;
    if (!normalizer_check(t->trie, t->trie_units, string_bytes)) return "the normaliser's trie leads out of itself";
    if (t->longest_rule > pieces::kLongestRule) return "the normaliser's longest rule is out of range";
  }
  if (words ? t->expansion != 0 : t->expansion < 3 || t->expansion > 255) return "the normaliser's expansion is out of range";

  const std::uint32_t surface_at = load_u32(section + 80);
  t->surface_bytes = load_u32(section + 84);
  if (surface_at > text_bytes || t->surface_bytes > text_bytes - surface_at) return "the unknown surface is outside the text";
  if (t->surface_bytes > pieces::kLongestPiece) return "the unknown surface is too long";
  t->surface = t->text + surface_at;
  if (bytes != (end + 3) / 4 * 4) return "the section does not end with its last part";
  return check_pieces(t, text_bytes, load_u32(section + 20), load_f32(section + 16));
}

}  // namespace

bool tokenizer_open(Tokenizer* out, const unsigned char* section, std::size_t bytes, const char** why) noexcept {
  Tokenizer t{};
  const char* const wrong = check(&t, section, bytes);
  *why = wrong;
  if (wrong != nullptr) return false;
  *out = t;
  return true;
}

// ---- Encoding ----

namespace {

// Normalised bytes of any text of `text_bytes` bytes: each byte at its worst, and the dummy prefix.
std::uint64_t normalized_limit(const Tokenizer& t, std::uint64_t text_bytes) noexcept {
  return text_bytes * t.expansion + 3;
}

}  // namespace

std::uint64_t tokenizer_scratch_bytes(const Tokenizer& t, std::uint64_t text_bytes) noexcept {
  if (t.model == TokenizerModel::words) return 0;
  constexpr std::uint64_t kMost = 0x7FFFFFFFu;
  if (text_bytes > kMost || normalized_limit(t, text_bytes) > kMost) return ~std::uint64_t{0};
  const std::uint64_t limit = normalized_limit(t, text_bytes);
  return (t.model == TokenizerModel::unigram ? pieces::unigram_scratch(t, limit) : pieces::bpe_scratch(t, limit)) + limit;
}

EncodeResult tokenizer_encode(const Tokenizer& t, std::uint32_t* ids, std::size_t capacity, const char* text,
                              std::size_t text_bytes, void* scratch, std::size_t scratch_bytes) noexcept {
  pieces::IdSink out{t, ids, capacity, 0, false};
  const unsigned char* const bytes = reinterpret_cast<const unsigned char*>(text);
  if (t.model == TokenizerModel::words) return pieces::encode_words(t, &out, bytes, text_bytes);

  const std::uint64_t needed = tokenizer_scratch_bytes(t, text_bytes);
  if (needed > scratch_bytes) return {EncodeStatus::text_too_long, 0, 0, 0};
  if (text_bytes == 0) return {EncodeStatus::ok, 0, 0, 0};

  // The normalised text takes the end of the scratch, the encoder's tables its aligned start.
  const std::uint64_t limit = normalized_limit(t, text_bytes);
  unsigned char* const tables = static_cast<unsigned char*>(scratch);
  unsigned char* const normalized = tables + static_cast<std::size_t>(needed - limit);
  const std::uint64_t n = normalize(t, normalized, limit, bytes, text_bytes);
  if (n == kNormalizedTooLong) return {EncodeStatus::text_too_long, 0, 0, 0};  // the header's expansion is not true
  if (t.model == TokenizerModel::unigram) {
    pieces::encode_unigram(t, &out, normalized, static_cast<std::uint32_t>(n), tables, limit);
  } else {
    pieces::encode_bpe(t, &out, normalized, static_cast<std::uint32_t>(n), tables, limit);
  }
  return {EncodeStatus::ok, out.count, 0, 0};
}

// ---- Pieces and decoding ----

PieceView tokenizer_piece(const Tokenizer& t, std::uint32_t id) noexcept {
  const pieces::Row r = row(t, id);
  return {reinterpret_cast<const char*>(t.text + r.offset()), r.length(), r.score(), r.type()};
}

std::uint32_t tokenizer_find(const Tokenizer& t, const char* text, std::size_t bytes) noexcept {
  const unsigned char* const p = reinterpret_cast<const unsigned char*>(text);
  const std::uint32_t id = pieces::find(t, p, bytes, true);
  return id != kNoToken ? id : pieces::find(t, p, bytes, false);
}

namespace {

// Counts what is decoded and writes what fits; the caller takes the new state only when all of it did.
struct TextSink {
  TokenDecoder state;
  char* out;
  std::size_t capacity;
  std::size_t count;

  void put(const unsigned char* text, std::size_t bytes) noexcept {
    for (std::size_t i = 0; i < bytes; ++i, ++count) {
      if (count < capacity) out[count] = static_cast<char>(text[i]);
    }
    if (bytes > 0) state.any_text = 1;
  }

  // Writes the characters that are complete; with `all`, what is left is not coming any more.
  void settle(bool all) noexcept {
    while (state.pending_bytes > 0) {
      bool more = false;
      std::size_t size = pieces::valid_char(state.pending, state.pending_bytes, &more);
      if (size == 0 && more && !all) return;
      if (size == 0) {
        put(pieces::kReplacement, sizeof pieces::kReplacement);
        size = 1;
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

void decode_piece(const Tokenizer& t, TextSink* sink, std::uint32_t id) noexcept {
  const pieces::Row r = row(t, id);
  const unsigned char* text = t.text + r.offset();
  std::size_t bytes = r.length();
  if (r.type() == PieceType::byte) {
    sink->state.pending[sink->state.pending_bytes++] = static_cast<unsigned char>(pieces::byte_value(text, bytes));
    sink->settle(false);
    return;
  }
  sink->settle(true);
  if (sink->state.prefix_seen != 0 || sink->state.any_text != 0) sink->state.past_start = 1;
  sink->state.prefix_seen = 0;
  if (r.type() == PieceType::control) return;
  if (r.type() == PieceType::unknown) return sink->put(t.surface, t.surface_bytes);

  const auto at_space = [&text, &bytes]() noexcept {
    return bytes >= 3 && std::memcmp(text, pieces::kSpaceSymbol, 3) == 0;
  };
  if (sink->state.past_start == 0 && (t.flags & (pieces::kAddDummyPrefix | pieces::kRemoveExtraWhitespaces)) != 0 && at_space()) {
    text += 3;
    bytes -= 3;
    // Where extra white space is removed, the next piece may give up its leading space too.
    sink->state.prefix_seen = (t.flags & pieces::kRemoveExtraWhitespaces) == 0 ? 1 : 0;
  }
  while (bytes > 0) {
    if (at_space()) {
      sink->put(reinterpret_cast<const unsigned char*>(" "), 1);
      text += 3;
      bytes -= 3;
    } else {
      sink->put(text, 1);
      ++text;
      --bytes;
    }
  }
}

}  // namespace

std::size_t token_decode(const Tokenizer& t, TokenDecoder* state, std::uint32_t id, char* out,
                         std::size_t capacity) noexcept {
  if (id >= t.pieces) return kBadToken;
  TextSink sink{sound(*state), out, capacity, 0};
  if (t.model == TokenizerModel::words) {
    decode_word(t, &sink, row(t, id));
  } else {
    decode_piece(t, &sink, id);
  }
  return sink.finish(state);
}

std::size_t token_decode_end(TokenDecoder* state, char* out, std::size_t capacity) noexcept {
  TextSink sink{sound(*state), out, capacity, 0};
  sink.settle(true);
  return sink.finish(state);
}

std::size_t token_decode_capacity(const Tokenizer& t) noexcept {
  const std::uint32_t most = t.longest > t.surface_bytes ? t.longest : t.surface_bytes;
  return std::size_t{most} + 1 + 4 * sizeof pieces::kReplacement;  // a space, and what was held back
}

}  // namespace phasor
