// Collecting ids, and text whose characters come in parts. Includes the tokenizer's own headers
// only; never allocates.
#include "sinks.h"

#include "../build.h"
#include "filters.h"

namespace phasor::pieces {

// Without it no text goes through filters, and the linker leaves them out.
constexpr bool kHasPipeline = built("pipeline");

uint32_t byte_piece(const Tokenizer& t, unsigned char byte) {
  const char* const digits = "0123456789ABCDEF";
  unsigned char name[6] = {'<', '0', 'x', 0, 0, '>'};
  name[3] = static_cast<unsigned char>(digits[byte >> 4]);
  name[4] = static_cast<unsigned char>(digits[byte & 15]);
  return find(t, name, sizeof name, true);
}

bool IdSink::put_bytes(const unsigned char* ids_of, const unsigned char* text, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    work();
    if (u32_at(ids_of, text[i]) == kNoToken) return false;
  }
  for (size_t i = 0; i < bytes; ++i) put(u32_at(ids_of, text[i]));
  return true;
}

void IdSink::unknown(const unsigned char* text, size_t bytes) {
  if ((t.flags & kByteFallback) == 0) {
    if (!after_unknown) put(t.unknown);
    if ((t.flags & kHasList) != 0)
      run = {after_unknown ? run.text : text, (after_unknown ? run.bytes : 0) + bytes};
  } else {
    for (size_t i = 0; i < bytes; ++i) put(byte_piece(t, text[i]));
  }
  after_unknown = true;
}

void IdSink::settle() {
  if (run.bytes != 0 && result.count <= capacity) {
    const uint32_t id = listed_id(t, run.text, run.bytes);
    if (id != kNoToken) ids[result.count - 1] = id;
  }
  run = {};
  after_unknown = false;
}

// A state that was never set to zero may give any text, but no access out of bounds.
TextSink::TextSink(const Tokenizer& tokenizer, TokenDecoder* state_of, char* text, size_t room)
    : t(tokenizer), state(*state_of), to(state_of), out(text), capacity(room) {
  if (state.pending_bytes > 3) state.pending_bytes = 0;
}

void TextSink::put(const unsigned char* text, size_t bytes) {
  work(1 + bytes);
  if (bytes == 0) return;
  if (drop_first_space && state.past_start == 0) {
    state.past_start = 1;
    if (*text == ' ') ++text, --bytes;
  }
  if (kHasPipeline && filters) return put_filtered(this, {text, bytes});
  write({text, bytes});
}

void TextSink::write(Span text) {
  work(text.bytes);
  for (size_t i = 0; i < text.bytes; ++i, ++count) {
    if (count < capacity) out[count] = static_cast<char>(text.text[i]);
  }
  if (text.bytes > 0) state.any_text = 1;
}

void TextSink::put_spaces(const unsigned char* text, size_t bytes, bool drop) {
  for (size_t at = 0; at < bytes;) {
    const bool is_space = begins_with_space_symbol(text + at, bytes - at);
    if (!is_space || !drop) put(is_space ? kBlank : text + at, 1);
    at += is_space ? sizeof kSpaceSymbol : 1;
  }
}

void TextSink::byte(unsigned char byte) {
  state.pending[state.pending_bytes++] = byte;
  settle(false);
}

// Bytes of an invalid beginning that become one U+FFFD: SentencePiece takes each on its own, the
// tokenizers package (as the Unicode standard, 3.9) as many as could have begun a character.
static size_t invalid(const TokenDecoder& state) {
  bool more = false;
  size_t bytes = state.pending_bytes;
  if (state.prefix_seen != kMaximal) return 1;
  while (bytes > 1 && (valid_char(state.pending, bytes, &more) != 0 || !more)) --bytes;
  return bytes;
}

void TextSink::settle(bool all) {
  while (state.pending_bytes > 0) {
    bool more = false;
    size_t size = valid_char(state.pending, state.pending_bytes, &more);
    if (size == 0 && more && !all) return;
    if (size == 0) {
      put(kReplacement, sizeof kReplacement);
      size = invalid(state);
    } else {
      put(state.pending, size);
    }
    state.pending_bytes = static_cast<unsigned char>(state.pending_bytes - size);
    std::memmove(state.pending, state.pending + size, state.pending_bytes);
  }
}

size_t TextSink::finish() const {
  if (count <= capacity) *to = state;
  return count;
}

bool decoded(const Tokenizer& t, Row r, Span* out) {
  *out = r.type() == PieceType::unknown ? surface_of(t) : text_of(t, r);
  return r.type() != PieceType::control && r.type() != PieceType::unused;
}

}  // namespace phasor::pieces
