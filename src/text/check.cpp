// Opening a tokenizer section: everything in it is checked once, in linear time, so that nothing
// else has to be careful. Includes the tokenizer's own headers only; never allocates.
#include "added.h"
#include "chars.h"
#include "normalizer.h"
#include "pieces.h"
#include "words.h"

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
  return static_cast<std::uint64_t>(load_u32(p)) | static_cast<std::uint64_t>(load_u32(p + 4))
                                                       << 32;
}

bool finite(float value) noexcept { return value >= -kFloatMax && value <= kFloatMax; }

// A part of the section: at a multiple of 4, not before `*end`, inside `bytes`; moves `*end` behind
// it.
bool part(const unsigned char** out, const unsigned char* section, std::uint64_t bytes,
          std::uint64_t offset, std::uint64_t size, std::uint64_t* end) noexcept {
  if (offset % 4 != 0 || offset < *end || offset > bytes || size > bytes - offset) return false;
  *out = section + static_cast<std::size_t>(offset);
  *end = offset + size;
  return true;
}

// The order of the permutation: by bytes, a prefix before what goes on from it, equal pieces by id.
// Sets `*same` when the texts are equal.
bool ascends(const Tokenizer& t, std::uint32_t a, std::uint32_t b, bool* same) noexcept {
  const std::uint32_t la = row(t, a).length(), lb = row(t, b).length();
  const std::uint32_t both = la < lb ? la : lb;
  work(1 + both);
  const int order = std::memcmp(t.text + row(t, a).offset(), t.text + row(t, b).offset(), both);
  *same = order == 0 && la == lb;
  return order != 0 ? order < 0 : la != lb ? la < lb : a < b;
}

// Whether two pieces may have the same text: words of a list; of unigram a reserved one and
// another; of byte-level BPE, whose encoder does not go by text, any.
bool may_be_same(const Tokenizer& t, std::uint32_t a, std::uint32_t b) noexcept {
  if (is(t, TokenizerModel::words) || is(t, TokenizerModel::byte_bpe)) return true;
  return is(t, TokenizerModel::unigram) &&
         pieces::reserved(row(t, a).type()) != pieces::reserved(row(t, b).type());
}

// Whether a search for the text of this piece goes on to the next one of the same text.
bool is_passed(const Tokenizer& t, std::uint32_t id) noexcept {
  if (is(t, TokenizerModel::words)) return pieces::reserved(row(t, id).type());
  return !is(t, TokenizerModel::byte_bpe) || (row(t, id).marks() & pieces::kWholeWord) == 0;
}

// Bytes of the longest piece that this model may have. The searches of byte-level BPE, BPE of
// characters and word lists do not begin anew at every character.
std::uint32_t longest_allowed(const Tokenizer& t) noexcept {
  const bool once = is(t, TokenizerModel::words) || is(t, TokenizerModel::byte_bpe) ||
                    is(t, TokenizerModel::char_bpe);
  return once ? pieces::kLongestPiece : pieces::kLongestSearched;
}

// Strictly ascending and in range: so every id is there exactly once.
const char* check_order(const Tokenizer& t) noexcept {
  std::uint32_t alike = 0;
  for (std::uint32_t rank = 0; rank < t.pieces; ++rank) {
    const std::uint32_t id = sorted_id(t, rank);
    if (id >= t.pieces) return "the sorted permutation has an id out of range";
    bool same = false;
    if (rank > 0) {
      const std::uint32_t before = sorted_id(t, rank - 1);
      if (!ascends(t, before, id, &same)) return "the sorted permutation is not sorted";
      if (same && !may_be_same(t, before, id)) return "two pieces are the same";
    }
    alike = (same ? alike : 0) + (is_passed(t, id) ? 1 : 0);
    const std::uint32_t most = is(t, TokenizerModel::unigram) ? 2 : pieces::kMostAlike;
    if (alike > most) return "too many pieces have the same text";
  }
  return nullptr;
}

// ---- SentencePiece and word lists ----

const char* check_pieces(Tokenizer* t, std::uint64_t text_bytes, std::uint32_t longest,
                         float lowest) noexcept {
  const bool words = is(*t, TokenizerModel::words);
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
    if (length == 0 || length > longest_allowed(*t)) return "a piece is empty or too long";
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
      case PieceType::control:
        break;
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
        if ((t->flags & pieces::kByteFallback) == 0 || value < 0)
          return "a byte piece is not allowed or not <0x00> ... <0xFF>";
        byte_pieces[value >> 5] |= 1u << (value & 31);
        break;
      }
      default:
        return "a piece has an unknown type";
    }
  }
  if (t->longest != longest) return "the length of the longest piece is wrong";
  if (unknowns != (t->unknown == kNoToken ? 0u : 1u))
    return "the unknown id is not a piece of type unknown";
  if (!words && t->unknown == kNoToken) return "a SentencePiece model has no unknown piece";
  if (t->flags & pieces::kByteFallback) {
    for (const std::uint32_t bits : byte_pieces) {
      if (bits != 0xFFFFFFFFu) return "byte fallback without all 256 byte pieces";
    }
  }
  if (!is(*t, TokenizerModel::unigram)) t->lowest_score = 0.0f;
  if (t->lowest_score == kFloatMax) return "a unigram model has no normal piece";
  if (t->lowest_score != lowest) return "the lowest score is wrong";

  return check_order(*t);
}

// ---- The models of the tokenizers package ----

const char* check_package_pieces(Tokenizer* t, std::uint64_t text_bytes,
                                 std::uint32_t longest) noexcept {
  const bool chars = is(*t, TokenizerModel::char_bpe);
  std::uint64_t text_end = 0;
  std::uint32_t unknowns = 0;
  for (std::uint32_t id = 0; id < t->pieces; ++id) {
    const pieces::Row r = row(*t, id);
    const std::uint32_t length = r.length(), marks = r.marks();
    if (r.offset() < text_end || r.offset() > text_bytes || length > text_bytes - r.offset()) {
      return "a piece's text is out of order or outside the text";
    }
    if (length == 0 || length > longest_allowed(*t)) return "a piece is empty or too long";
    text_end = std::uint64_t{r.offset()} + length;
    if (length > t->longest) t->longest = length;
    const std::uint32_t known = is(*t, TokenizerModel::byte_bpe)
                                    ? pieces::kOfModel | pieces::kWholeWord
                                : chars ? pieces::kOfModel
                                        : 0xFF03u;
    if ((marks & ~known) != 0 || (marks >> 8) > length) return "a piece has unknown marks";
    switch (r.type()) {
      case PieceType::unknown:
        if (id != t->unknown) return "a piece of type unknown is not the unknown id";
        ++unknowns;
        break;
      case PieceType::unused:
        if ((marks & pieces::kOfModel) != 0) return "an unused piece is of the model";
        break;
      case PieceType::normal:
      case PieceType::control:
      case PieceType::user_defined:
        break;
      case PieceType::byte:
        if (!chars) return "a piece has an unknown type";
        if ((t->flags & pieces::kByteFallback) == 0 ||
            pieces::byte_value(t->text + r.offset(), length) < 0) {
          return "a byte piece is not allowed or not <0x00> ... <0xFF>";
        }
        break;
      default:
        return "a piece has an unknown type";
    }
  }
  if (t->longest != longest) return "the length of the longest piece is wrong";
  if (unknowns != (t->unknown == kNoToken ? 0u : 1u))
    return "the unknown id is not a piece of type unknown";
  if (!is(*t, TokenizerModel::byte_bpe) && !chars && t->unknown == kNoToken)
    return "the model has no unknown piece";
  return check_order(*t);
}

// A score is finite, so that sums of scores can be compared.
const char* check_scores(const Tokenizer& t) noexcept {
  for (std::uint32_t id = 0; id <= t.pieces; ++id) {
    const std::uint32_t high = load_u32(t.model_data + std::size_t{id} * 8 + 4);
    // nor so large that the sum of a text is not
    if ((high >> 20 & 0x7FF) > 1023 + 500) return "a piece's score is not finite";
  }
  return nullptr;
}

// The ids of single bytes, then the merges: (left, right) strictly ascending, ranks in range, and a
// result as long as its parts, which bounds the symbols that merging makes.
const char* check_merges(const Tokenizer& t) noexcept {
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t id = load_u32(t.model_data + std::size_t{byte} * 4);
    if (id != kNoToken && id >= t.pieces) return "the id of a byte is out of range";
    if (id == kNoToken && is(t, TokenizerModel::char_bpe) && (t.flags & pieces::kByteFallback) != 0)
      return "byte fallback without all 256 byte pieces";
  }
  const unsigned char* const rows = t.model_data + 1024;
  for (std::uint32_t i = 0; i < t.merge_count; ++i) {
    const unsigned char* const r = rows + std::size_t{i} * 12;
    const std::uint32_t left = load_u32(r), right = load_u32(r + 4), rank = load_u32(r + 8);
    if (left >= t.pieces || right >= t.pieces || rank >= t.merge_count)
      return "a merge is out of range";
    const std::uint32_t result =
        load_u32(rows + std::size_t{t.merge_count} * 12 + std::size_t{rank} * 4);
    if (result >= t.pieces) return "the result of a merge is out of range";
    if (row(t, result).length() != row(t, left).length() + row(t, right).length())
      return "a merge does not give what it merges";
    if (i > 0 &&
        (load_u32(r - 12) > left || (load_u32(r - 12) == left && load_u32(r - 8) >= right)))
      return "the merges are not in order";
  }
  if ((t.flags & pieces::kMergeIndex) == 0) return nullptr;
  const unsigned char* const index = rows + std::size_t{t.merge_count} * 16;
  for (std::uint32_t id = 0, i = 0; id <= t.pieces; ++id) {
    while (i < t.merge_count && load_u32(rows + std::size_t{i} * 12) < id) ++i;
    if (load_u32(index + std::size_t{id} * 4) != i) return "the index of the merges is wrong";
  }
  return nullptr;
}

// The classes of characters: from 0 on, strictly ascending.
const char* check_runs(Tokenizer* t) noexcept {
  constexpr std::uint32_t kCode = (1u << pieces::kCodeBits) - 1;
  for (std::uint32_t i = 0; i < t->run_count; ++i) {
    const std::uint32_t first = load_u32(t->runs + std::size_t{i} * 4) & kCode;
    const std::uint32_t before = i == 0 ? 0 : load_u32(t->runs + std::size_t{i - 1} * 4) & kCode;
    if (i == 0 ? first != 0 : first <= before) return "the classes of characters are not in order";
    if (first < 0x80) ++t->ascii_runs;
  }
  return t->run_count == 0 ? "there are no classes of characters" : nullptr;
}

// The added tokens: the plain ones first, each kind strictly ascending by its text, and the first
// bytes as they say.
const char* check_added(Tokenizer* t, std::uint64_t text_bytes) noexcept {
  std::uint32_t starts[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  for (std::uint32_t i = 0; i < t->added_count; ++i) {
    const pieces::AddedRow r = pieces::added_row(*t, i);
    const std::uint32_t length = r.length();
    if (r.offset() > text_bytes || length > text_bytes - r.offset())
      return "an added token's text is outside the text";
    if (length == 0 || length > pieces::kLongestSearched)
      return "an added token is empty or too long";
    if (r.id() >= t->pieces) return "an added token's id is out of range";
    if (r.flags() > 15) return "an added token has unknown flags";
    const bool normalized = (r.flags() & pieces::kNormalized) != 0;
    if (!normalized && t->added_plain != i) return "the added tokens are not in order";
    if (!normalized) ++t->added_plain;
    const unsigned char* const text = t->text + r.offset();
    const bool first = i == (normalized ? t->added_plain : 0);
    if (!first) {
      const pieces::AddedRow before = pieces::added_row(*t, i - 1);
      const std::uint32_t other = before.length();
      work(1 + length);
      const int order =
          std::memcmp(t->text + before.offset(), text, other < length ? other : length);
      if (order > 0 || (order == 0 && other >= length)) return "the added tokens are not in order";
    }
    starts[(normalized ? 8 : 0) + (text[0] >> 5)] |= 1u << (text[0] & 31);
  }
  for (std::uint32_t i = 0; i < 16 && t->added_count > 0; ++i) {
    if (load_u32(t->added + std::size_t{i} * 4) != starts[i])
      return "the first bytes of the added tokens are wrong";
  }
  return nullptr;
}

// The rule, and of byte-level BPE the steps behind it: at most eight, each known, and zeros behind
// the last.
bool check_steps(Tokenizer* t, const unsigned char* more) noexcept {
  if (!is(*t, TokenizerModel::byte_bpe)) return t->rule == 1;
  if (t->rule > 255 || !pieces::known_step(t->rule)) return false;
  bool ended = false;
  for (std::uint32_t i = 0; i < 8; ++i) {
    if (more[i] != 0 && (ended || !pieces::known_step(more[i]))) return false;
    ended = ended || more[i] == 0;
    t->more_steps[i] = more[i];
  }
  return true;
}

// The parts that only these models have; each begins where the one before it ends.
const char* check_package(Tokenizer* t, const unsigned char* section, std::uint64_t bytes,
                          std::uint64_t text_bytes, std::uint64_t* end) noexcept {
  t->rule = load_u32(section + 96);
  t->run_count = load_u32(section + 100);
  t->merge_count = load_u32(section + 104);
  t->added_count = load_u32(section + 108);
  t->word_chars = load_u32(section + 112);
  t->prefix_bytes = load_u32(section + 116);
  if (!check_steps(t, section + 120)) return "unknown rule of the pre-tokenizer";
  if ((t->flags & pieces::kCompose) != 0 && is(*t, TokenizerModel::byte_bpe) && t->trie == nullptr)
    return "composition without its map";
  if (!is(*t, TokenizerModel::wordpiece) && (t->word_chars != 0 || t->prefix_bytes != 0)) {
    return "only WordPiece has a longest word and a prefix";
  }
  const std::uint64_t behind = static_cast<std::uint64_t>(t->surface - t->text) + t->surface_bytes;
  if (t->prefix_bytes > text_bytes - behind || t->prefix_bytes > 255)
    return "the prefix of a continuation is outside the text";
  if (load_u32(section + 16) != 0) return "the lowest score is wrong";
  const bool merges = is(*t, TokenizerModel::byte_bpe) || is(*t, TokenizerModel::char_bpe);
  if (!merges && t->merge_count != 0) return "only BPE has merges";

  const auto next = [&](const unsigned char** out, std::uint64_t size) noexcept {
    return part(out, section, bytes, (*end + 3) / 4 * 4, size, end);
  };
  if (t->run_count > 0x110000 || !next(&t->runs, std::uint64_t{4} * t->run_count)) {
    return "the classes of characters are outside the section";
  }
  const bool scored = is(*t, TokenizerModel::metaspace);
  const std::uint64_t index =
      merges && (t->flags & pieces::kMergeIndex) != 0 ? 4 * (std::uint64_t{t->pieces} + 1) : 0;
  const std::uint64_t own = merges   ? 1024 + std::uint64_t{16} * t->merge_count + index
                            : scored ? 8 * (std::uint64_t{t->pieces} + 1)
                                     : 0;
  if (t->merge_count > kMostPieces || !next(&t->model_data, own)) {
    return "the model's own part is outside the section";
  }
  if (t->added_count > kMostPieces ||
      !next(&t->added, t->added_count == 0 ? 0 : 64 + std::uint64_t{16} * t->added_count)) {
    return "the added tokens are outside the section";
  }
  if (const char* const wrong = check_runs(t)) return wrong;
  return check_added(t, text_bytes);
}

// ---- The whole ----

// Bits that a model's flags may have.
std::uint32_t flags_of(TokenizerModel model) noexcept {
  switch (model) {
    case TokenizerModel::unigram:
    case TokenizerModel::bpe:
      return 31;
    case TokenizerModel::byte_bpe:
      return pieces::kAddDummyPrefix | pieces::kWholeWords | pieces::kCompose | pieces::kMergeIndex;
    case TokenizerModel::metaspace:
      return pieces::kAddDummyPrefix | pieces::kPrefixFirst | pieces::kSplitAtSpace |
             pieces::kStripRight | pieces::kMergeSpaces | pieces::kMergeToSpace |
             pieces::kDropFirstPrefix;
    case TokenizerModel::char_bpe:
      return pieces::kAddDummyPrefix | pieces::kByteFallback | pieces::kFuseUnknown |
             pieces::kPrefixFirst | pieces::kEscapeFirst | pieces::kCutAtSpaces |
             pieces::kDropFirstSpace | pieces::kCutAtEach | pieces::kMergeIndex;
    default:
      return 0;
  }
}

const char* check(Tokenizer* t, const unsigned char* section, std::size_t section_bytes) noexcept {
  if (section_bytes < kHeaderBytes) return "the section is shorter than its header";
  const std::uint64_t bytes = section_bytes;
  const std::uint32_t model = load_u32(section);
  if (model < 1 || model > 7) return "unknown tokenizer model";
  t->model = static_cast<TokenizerModel>(model);
  const bool words = is(*t, TokenizerModel::words), package = pieces::packaged(*t);
  t->flags = load_u32(section + 4);
  if ((t->flags & ~flags_of(t->model)) != 0) return "unknown tokenizer flags";
  t->pieces = load_u32(section + 8);
  if (t->pieces == 0 || t->pieces > kMostPieces) return "the number of pieces is out of range";
  t->unknown = load_u32(section + 12);
  if (t->unknown != kNoToken && t->unknown >= t->pieces) return "the unknown id is out of range";
  const std::uint32_t trie_bytes = load_u32(section + 24), string_bytes = load_u32(section + 28);
  t->expansion = load_u32(section + 88);
  t->longest_rule = load_u32(section + 92);
  for (std::size_t i = is(*t, TokenizerModel::byte_bpe) ? 128
                       : package                        ? 120
                                                        : 96;
       i < kHeaderBytes; ++i) {
    if (section[i] != 0) return "a reserved byte of the header is not zero";
  }

  std::uint64_t end = kHeaderBytes;
  const std::uint64_t text_bytes = load_u64(section + 56);
  if (!part(&t->table, section, bytes, load_u64(section + 32), std::uint64_t{16} * t->pieces,
            &end)) {
    return "the table of pieces is outside the section";
  }
  if (!part(&t->permutation, section, bytes, load_u64(section + 40), std::uint64_t{4} * t->pieces,
            &end)) {
    return "the sorted permutation is outside the section";
  }
  if (text_bytes > 0xFFFFFFFFu ||
      !part(&t->text, section, bytes, load_u64(section + 48), text_bytes, &end)) {
    return "the pieces' text is outside the section";
  }
  const std::uint64_t trie_at = load_u64(section + 64), strings_at = load_u64(section + 72);
  if (trie_bytes == 0) {
    if (trie_at != 0 || strings_at != 0 || string_bytes != 0)
      return "the normaliser has no trie but other parts";
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
    if (!normalizer_check(t->trie, t->trie_units, string_bytes))
      return "the normaliser's trie leads out of itself";
    if (t->longest_rule > pieces::kLongestRule)
      return "the normaliser's longest rule is out of range";
  }
  // An invalid byte becomes U+FFFD, but not in BPE; a space that is escaped first becomes 3 bytes.
  const bool same = is(*t, TokenizerModel::byte_bpe) ||
                    (is(*t, TokenizerModel::char_bpe) && (t->flags & pieces::kEscapeFirst) == 0);
  const std::uint32_t least = same ? 1 : 3;
  if (words ? t->expansion != 0 : t->expansion < least || t->expansion > 255)
    return "the normaliser's expansion is out of range";

  const std::uint32_t surface_at = load_u32(section + 80);
  t->surface_bytes = load_u32(section + 84);
  if (surface_at > text_bytes || t->surface_bytes > text_bytes - surface_at)
    return "the unknown surface is outside the text";
  if (t->surface_bytes > pieces::kLongestPiece) return "the unknown surface is too long";
  t->surface = t->text + surface_at;
  if (package) {
    if (const char* const wrong = check_package(t, section, bytes, text_bytes, &end)) return wrong;
  }
  if (bytes != (end + 3) / 4 * 4) return "the section does not end with its last part";
  if (package) {
    if (const char* const wrong = check_package_pieces(t, text_bytes, load_u32(section + 20)))
      return wrong;
    if (is(*t, TokenizerModel::byte_bpe) || is(*t, TokenizerModel::char_bpe))
      return check_merges(*t);
    return is(*t, TokenizerModel::metaspace) ? check_scores(*t) : nullptr;
  }
  return check_pieces(t, text_bytes, load_u32(section + 20), load_f32(section + 16));
}

}  // namespace

bool tokenizer_is_built(const unsigned char* section, std::size_t bytes) noexcept {
  const std::uint32_t model = bytes < kHeaderBytes ? 0 : load_u32(section);
  return model < 1 || model > 7 || is_built(static_cast<TokenizerModel>(model));
}

bool tokenizer_open(Tokenizer* out, const unsigned char* section, std::size_t bytes,
                    const char** why) noexcept {
  Tokenizer t{};
  const char* const wrong = check(&t, section, bytes);
  *why = wrong;
  if (wrong != nullptr) return false;
  *out = t;
  return true;
}

}  // namespace phasor
