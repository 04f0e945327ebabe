// What SentencePiece's two models share: pieces of bytes, normalization, user-defined pieces,
// decoding. Includes the tokenizer's own headers only; never allocates.
#include "sentencepiece.h"

#include "added.h"
#include "normalizer.h"
#include "package.h"

namespace phasor::pieces {

const char* check_sentencepiece(Tokenizer* t, SectionReader* s) {
  if ((t->flags & kListed) != 0) {
    t->flags |= kHasList;
    const uint32_t extra = s->u32(kExtraAt);
    if (extra >= t->pieces) return "a list without ids";
    t->ids -= extra;
    if (t->unknown != kNoToken && t->unknown >= t->ids) return "the unknown id is not in the list";
    if (const char* const wrong = check_added(t, s)) return wrong;
    for (uint32_t i = 0; i < t->added_count; ++i)
      if (added_row(*t, i).flags() != 0) return "an added token of a list has flags";
  } else if ((t->flags & kLanguageCodes) != 0) {
    return "language codes without a list";
  }
  if (const char* const wrong = check_pieces(t, *s)) return wrong;
  for (uint32_t byte = 0; byte < 256 && (t->flags & kByteFallback) != 0; ++byte)
    if (byte_piece(*t, static_cast<unsigned char>(byte)) == kNoToken)
      return "byte fallback without all 256 byte pieces";
  return nullptr;
}

size_t match_user_defined(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  if (t.longest_user == 0) return 0;
  if ((t.user_first[text[0] >> 5] >> (text[0] & 31) & 1) == 0) return 0;
  size_t best = 0;
  PrefixWalk walk(t);
  for (size_t i = 0; i < bytes && i < t.longest_user && walk.step(text[i]); ++i) {
    const uint32_t id = walk.here();
    if (id != kNoToken && row(t, id).type() == PieceType::user_defined) best = i + 1;
  }
  return best;
}

namespace {

// The longest rule that applies here; else one character as it is; else U+FFFD for one invalid
// byte.
Rule next_chunk(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  work();
  if (const size_t user = match_user_defined(t, text, bytes)) return {text, user, user};
  Rule rule;
  if (match_rule(t, &rule, text, bytes, false)) return rule;
  bool more = false;
  const size_t size = valid_char(text, bytes, &more);
  if (size == 0) return {kReplacement, sizeof kReplacement, 1};
  return {text, size, size};
}

}  // namespace

uint64_t normalize_sentencepiece(const Tokenizer& t, Output* out, const unsigned char* text,
                                 size_t bytes) {
  const bool remove_extra = (t.flags & kRemoveExtraWhitespaces) != 0;
  const bool add_space = (t.flags & kAddDummyPrefix) != 0;
  const bool suffix = (t.flags & kWhitespaceSuffix) != 0;
  const bool escape = (t.flags & kEscapeWhitespaces) != 0;
  const Span space = escape ? Span{kSpaceSymbol, sizeof kSpaceSymbol} : Span{kBlank, 1};

  // Leading spaces go; a text that has nothing else is empty and gets no dummy prefix either.
  size_t at = 0;
  while (remove_extra && at < bytes) {
    const Rule chunk = next_chunk(t, text + at, bytes - at);
    if (chunk.bytes != 1 || chunk.text[0] != ' ') break;
    at += chunk.consumed;
  }
  if (at == bytes) return 0;

  out->from(at);
  if (add_space && !suffix) out->put(space);
  bool after_space = remove_extra;
  while (at < bytes && !out->full) {
    Rule chunk = next_chunk(t, text + at, bytes - at);
    out->from(at);
    at += chunk.consumed;
    while (after_space && chunk.bytes > 0 && chunk.text[0] == ' ') {
      ++chunk.text;
      --chunk.bytes;
    }
    if (chunk.bytes == 0) continue;
    for (size_t i = 0, start = 0; i < chunk.bytes; start = i) {
      while (i < chunk.bytes && chunk.text[i] != ' ') ++i;
      out->put(chunk.text + start, i - start);
      if (i < chunk.bytes) {
        out->put(space);
        ++i;
      }
    }
    after_space = remove_extra && chunk.text[chunk.bytes - 1] == ' ';
  }
  out->from(at);
  while (remove_extra && out->size >= space.bytes &&
         std::memcmp(out->text + out->size - space.bytes, space.text, space.bytes) == 0) {
    out->size -= space.bytes;
    if (wanted(out->origins)) out->origin = out->origins[out->size];
  }
  if (add_space && suffix) out->put(space);
  // a text ends where what follows begins
  if (!out->full && wanted(out->origins)) out->origins[out->size] = out->origin;
  return out->result();
}

void decode_sentencepiece(const Tokenizer& t, TextSink* sink, Row r) {
  const unsigned char* text = t.text + r.offset();
  size_t bytes = r.length();
  if (r.type() == PieceType::byte)
    return sink->byte(static_cast<unsigned char>(byte_value(text, bytes)));
  sink->settle(true);
  if (sink->state.prefix_seen != 0 || sink->state.any_text != 0) sink->state.past_start = 1;
  sink->state.prefix_seen = 0;
  if (r.type() == PieceType::control) return;
  if (r.type() == PieceType::unknown) return sink->put(t.surface, t.surface_bytes);
  if (sink->state.past_start == 0 && (t.flags & (kAddDummyPrefix | kRemoveExtraWhitespaces)) != 0 &&
      begins_with_space_symbol(text, bytes)) {
    text += sizeof kSpaceSymbol;
    bytes -= sizeof kSpaceSymbol;
    // Where extra white space is removed, the next piece may give up its leading space too.
    sink->state.prefix_seen = (t.flags & kRemoveExtraWhitespaces) == 0 ? 1 : 0;
  }
  sink->put_spaces(text, bytes, false);
}

}  // namespace phasor::pieces
