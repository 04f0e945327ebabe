// Checking what only the tokenizers package's models have. Includes the tokenizer's own headers
// only; never allocates.
#include "package.h"

#include "added.h"
#include "chars.h"

namespace phasor::pieces {
namespace {

// The classes of characters: from 0 on, strictly ascending.
const char* check_runs(Tokenizer* t) {
  uint32_t before = 0;
  for (uint32_t i = 0; i < t->run_count; ++i) {
    const uint32_t first = run_begin(*t, i);
    if (i == 0 ? first != 0 : first <= before) return "the classes of characters are not in order";
    if (first < 0x80) ++t->ascii_runs;
    before = first;
  }
  return t->run_count == 0 ? "there are no classes of characters" : nullptr;
}

// The rows of the added tokens: the plain ones first, each kind strictly ascending by its text, and
// the first bytes as they say.
const char* check_rows(Tokenizer* t, uint32_t text_bytes) {
  uint32_t starts[16] = {};
  Span before{};
  for (uint32_t i = 0; i < t->added_count; ++i) {
    const AddedRow r = added_row(*t, i);
    if (r.offset() > text_bytes || r.length() > text_bytes - r.offset())
      return "an added token's text is outside the text";
    // an empty one is found in a normalized text only, and is the first of its kind
    const bool found = r.length() != 0 || (t->model->emptied && (r.flags() & kNormalized) != 0);
    if (!found || r.length() > kLongestSearched) return "an added token is empty or too long";
    if (r.id() >= t->ids) return "an added token's id is out of range";
    if (r.flags() > 15) return "an added token has unknown flags";
    const bool normalized = (r.flags() & kNormalized) != 0;
    if (!normalized && t->added_plain++ != i) return "the added tokens are not in order";
    const Span text{t->text + r.offset(), r.length()};
    if (i != (normalized ? t->added_plain : 0) && compare(before, text) >= 0)
      return "the added tokens are not in order";
    before = text;
    if (text.bytes != 0)
      starts[(normalized ? 8 : 0) + (text.text[0] >> 5)] |= 1u << (text.text[0] & 31);
  }
  for (uint32_t i = 0; i < 16 && t->added_count > 0; ++i) {
    if (u32_at(t->added, i) != starts[i]) return "the first bytes of the added tokens are wrong";
  }
  return nullptr;
}

}  // namespace

const char* check_added(Tokenizer* t, SectionReader* s) {
  t->added_count = s->u32(kAddedAt);
  if (t->added_count > kMostPieces ||
      !s->next(&t->added, t->added_count == 0 ? 0 : 64 + uint64_t{16} * t->added_count))
    return "the added tokens are outside the section";
  if (packaged(*t))
    if (const char* const wrong = check_runs(t)) return wrong;
  return check_rows(t, s->text_bytes);
}

const char* check_package(Tokenizer* t, SectionReader* s, uint64_t own) {
  const TokenizerModel& model = *t->model;
  t->rule = s->u32(96);
  t->run_count = s->u32(100);
  t->merge_count = s->u32(104);
  t->word_chars = s->u32(112);
  t->prefix_bytes = s->u32(116);
  if (!model.steps && t->rule != 1) return "unknown rule of the pre-tokenizer";
  const bool has_number = model.word_limit || model.other_number;
  if ((!has_number && t->word_chars != 0) || (!model.word_limit && t->prefix_bytes != 0))
    return "only WordPiece has a longest word and a prefix";
  const uint64_t behind = static_cast<uint64_t>(t->surface - t->text) + t->surface_bytes;
  if (t->prefix_bytes > s->text_bytes - behind || t->prefix_bytes > 255)
    return "the prefix of a continuation is outside the text";
  if (s->u32(16) != 0) return "the lowest score is wrong";
  if (!model.merges && t->merge_count != 0) return "only BPE has merges";
  if (t->run_count > 0x110000 || !s->next(&t->runs, uint64_t{4} * t->run_count))
    return "the classes of characters are outside the section";
  if (t->merge_count > kMostPieces || !s->next(&t->model_data, own))
    return "the model's own part is outside the section";
  if (const char* const wrong = check_added(t, s)) return wrong;
  return check_pieces(t, *s);
}

}  // namespace phasor::pieces
