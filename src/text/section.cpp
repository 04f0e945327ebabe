// Opening a tokenizer's section: its header, its parts, its pieces and their order. Includes the
// tokenizer's own headers only; never allocates.
#include "section.h"

#include "models.h"
#include "normalizer.h"

namespace phasor {
namespace pieces {
namespace {

constexpr size_t kHeaderBytes = 128;

// The normalizer's map, which a section has or has not.
const char* check_map(Tokenizer* t, SectionReader* s) {
  const uint32_t trie_bytes = s->u32(24), string_bytes = s->u32(28);
  if (trie_bytes == 0) {
    if (load_u64(s->p + 64) != 0 || load_u64(s->p + 72) != 0 || string_bytes != 0)
      return "the normalizer has no trie but other parts";
    return t->longest_rule != 0 ? "the normalizer has no trie but rules" : nullptr;
  }
  if (trie_bytes % 4 != 0 || !s->placed(&t->trie, 64, trie_bytes))
    return "the normalizer's trie is outside the section";
  if (string_bytes == 0 || !s->placed(&t->strings, 72, string_bytes))
    return "the normalizer's strings are outside the section";
  if (t->strings[string_bytes - 1] != 0) return "the normalizer's strings are not terminated";
  if (!normalizer_check(t->trie, trie_bytes / 4, string_bytes))
    return "the normalizer's trie leads out of itself";
  return t->longest_rule > kLongestRule ? "the normalizer's longest rule is out of range" : nullptr;
}

// The permutation ascends by the pieces' bytes, equal pieces by id: so every id is there exactly
// once. And no search for a text passes over more pieces than it may.
const char* check_order(const Tokenizer& t) {
  const Same rule = t.model->same;
  const uint32_t most = rule == Same::one_reserved ? 2 : kMostAlike;
  bool was_reserved = false;
  uint32_t alike = 0;
  for (uint32_t rank = 0, before = 0; rank < t.pieces; ++rank) {
    const uint32_t id = sorted_id(t, rank);
    if (id >= t.pieces) return "the sorted permutation has an id out of range";
    const Row r = row(t, id);
    const int order = rank == 0 ? -1 : compare(text_of(t, row(t, before)), text_of(t, r));
    if (order > 0 || (order == 0 && before >= id)) return "the sorted permutation is not sorted";
    before = id;
    const bool is_reserved = reserved(r.type());
    if (order != 0)
      alike = 0;
    else if (rule == Same::none || (rule == Same::one_reserved && is_reserved == was_reserved))
      return "two pieces are the same";
    was_reserved = is_reserved;
    alike += rule == Same::few_reserved ? is_reserved
                                        : rule != Same::few_parts || (r.marks() & kWholeWord) == 0;
    if (alike > most) return "too many pieces have the same text";
  }
  return nullptr;
}

// What holds of one piece whose text is inside the section.
const char* check_piece(Tokenizer* t, uint32_t id) {
  const Row r = row(*t, id);
  const Span text = text_of(*t, r);
  const PieceType type = r.type();
  if (text.bytes == 0 || text.bytes > t->model->longest_piece)
    return "a piece is empty or too long";
  const uint32_t marks = r.marks();
  if (packaged(*t)) {
    if ((marks & ~uint32_t{t->model->marks}) != 0 || (marks >> 8) > text.bytes)
      return "a piece has unknown marks";
    if (type == PieceType::unused && (marks & kOfModel) != 0)
      return "an unused piece belongs to the model";
  } else if ((marks & 0x7F800000) == 0x7F800000) {  // infinite, or no number
    return "a piece's score is not finite";
  }
  if (type > PieceType::listed || (type == PieceType::listed && (t->flags & kHasList) == 0) ||
      (t->model->types >> static_cast<uint32_t>(type) & 1) == 0)
    return "a piece has an unknown type";
  if (type == PieceType::unknown && id != t->unknown)
    return "a piece of type unknown is not the unknown id";
  if (type == PieceType::byte &&
      ((t->flags & kByteFallback) == 0 || byte_value(text.text, text.bytes) < 0))
    return "a byte piece is not allowed or not <0x00> ... <0xFF>";
  if (type == PieceType::unused) ++t->unused;
  if (type == PieceType::user_defined) {
    if (r.length() > t->longest_user) t->longest_user = r.length();
    t->user_first[text.text[0] >> 5] |= 1u << (text.text[0] & 31);
  }
  if (r.length() > t->longest) t->longest = r.length();
  return nullptr;
}

// A number, or where it is larger one that is out of every range.
uint16_t at_most_16_bits(uint32_t number) {
  return static_cast<uint16_t>(number < 0xFFFF ? number : 0xFFFF);
}

// The header, and the parts whose offsets it has: binds `t` to them.
const char* check_header(Tokenizer* t, SectionReader* s) {
  if (s->bytes < kHeaderBytes) return "the section is shorter than its header";
  const uint32_t model = s->u32(0) - 1;
  // never: the build that is tested has all models
  if (model >= kModelCount || kBuiltModels.of[model] == nullptr) return "unknown tokenizer model";
  t->model = kBuiltModels.of[model];
  t->flags = s->u32(4);
  const uint32_t trims = kModels[model].package ? kTrimMask : 0;
  if ((t->flags & ~(t->model->flags | trims)) != 0) return "unknown tokenizer flags";
  t->pieces = s->u32(8);
  if (t->pieces == 0 || t->pieces > kMostPieces) return "the number of pieces is out of range";
  t->ids = t->pieces;
  t->unknown = s->u32(12);
  if (t->unknown != kNoToken && t->unknown >= t->pieces) return "the unknown id is out of range";
  t->expansion = at_most_16_bits(s->u32(88));
  t->longest_rule = at_most_16_bits(s->u32(92));
  s->end = kHeaderBytes;
  if (!s->placed(&t->table, 32, uint64_t{16} * t->pieces))
    return "the table of pieces is outside the section";
  if (!s->placed(&t->permutation, 40, uint64_t{4} * t->pieces))
    return "the sorted permutation is outside the section";
  s->text_bytes = s->u32(56);
  if (s->u32(60) != 0 || !s->placed(&t->text, 48, s->text_bytes))
    return "the pieces' text is outside the section";
  if (const char* const wrong = check_map(t, s)) return wrong;
  const uint32_t least = t->model->least_expansion;
  if (least == 0 ? t->expansion != 0 : t->expansion < least || t->expansion > 255)
    return "the normalizer's expansion is out of range";
  const uint32_t surface_at = s->u32(80);
  t->surface_bytes = s->u32(84);
  if (surface_at > s->text_bytes || t->surface_bytes > s->text_bytes - surface_at)
    return "the unknown surface is outside the text";
  if (t->surface_bytes > kLongestPiece) return "the unknown surface is too long";
  t->surface = t->text + surface_at;
  return nullptr;
}

const char* open_section(Tokenizer* t, SectionReader* s) {
  if (const char* const wrong = check_header(t, s)) return wrong;
  if (const char* const wrong = t->model->check(t, s)) return wrong;
  float lowest;
  std::memcpy(&lowest, s->p + 16, sizeof lowest);
  return t->lowest_score == lowest ? nullptr : "the lowest score is wrong";
}

}  // namespace

bool SectionReader::part(const unsigned char** out, uint64_t offset, uint64_t size) {
  if (offset % 4 != 0 || offset < end || offset > bytes || size > bytes - offset) return false;
  *out = p + static_cast<size_t>(offset);
  end = offset + size;
  return true;
}

const char* check_pieces(Tokenizer* t, const SectionReader& s) {
  for (size_t i = !packaged(*t) ? 96 : t->model->steps ? 128 : 120; i < kHeaderBytes; ++i) {
    const bool used =
        (t->flags & kHasList) != 0 && (i / 4 == kExtraAt / 4 || i / 4 == kAddedAt / 4);
    if (s.p[i] != 0 && !used) return "a reserved byte of the header is not zero";
  }
  if (s.bytes != (s.end + 3) / 4 * 4) return "the section does not end with its last part";
  uint32_t text_end = 0;
  for (uint32_t id = 0; id < t->pieces; ++id) {
    const Row r = row(*t, id);
    if (r.offset() < text_end || r.offset() > s.text_bytes ||
        r.length() > s.text_bytes - r.offset())
      return "a piece's text is out of order or outside the text";
    text_end = r.offset() + r.length();
    if (const char* const wrong = check_piece(t, id)) return wrong;
  }
  if (t->longest != s.u32(20)) return "the length of the longest piece is wrong";
  if (t->unknown != kNoToken && row(*t, t->unknown).type() != PieceType::unknown)
    return "the unknown id is not a piece of type unknown";
  if (t->model->must_have_unknown && t->unknown == kNoToken)
    return "the model has no unknown piece";
  return check_order(*t);
}

}  // namespace pieces

bool tokenizer_is_built(const unsigned char* section, size_t bytes) noexcept {
  using namespace pieces;
  const uint32_t model = bytes < kHeaderBytes ? kModelCount : load_u32(section) - 1;
  // never: the build that is tested has all models
  if (model >= kModelCount) return true;
  const TokenizerModel* const built = kBuiltModels.of[model];
  return built != nullptr && (kHasPatterns || (load_u32(section + 4) & built->patterns) == 0);
}

bool tokenizer_open(Tokenizer* out, const unsigned char* section, size_t bytes,
                    const char** why) noexcept {
  Tokenizer t{};
  pieces::SectionReader reader{section, bytes, 0, 0};
  *why = pieces::open_section(&t, &reader);
  if (*why != nullptr) return false;
  *out = t;
  return true;
}

}  // namespace phasor
