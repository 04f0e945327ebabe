// Collecting ids, and text whose characters come in parts. Includes the tokenizer's own headers
// only; never allocates.
#include "sinks.h"

#include "../build.h"
#include "filters.h"
#include "models.h"

namespace phasor::pieces {

// Without it no text goes through filters, and the linker leaves them out.
constexpr bool kHasPipeline = built("pipeline");
constexpr uint32_t kLetterOfSpace = 0x120;  // GPT-2's

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
  for (size_t i = 0; i < bytes; ++i) put(u32_at(ids_of, text[i]), text, bytes);
  return true;
}

// The first byte and the end of an id's text.
void Offsets::put(size_t index, const unsigned char* text, size_t n) const {
  size_t begin = static_cast<size_t>(text - base), end = begin + n;
  if (wanted(origins) && up_to_next) {
    begin = origins[begin];
    end = origins[end];
  } else if (wanted(origins)) {
    const uint32_t last = n == 0 ? kEmpty | origins[begin] : origins[end - 1];
    begin = origins[begin] & ~kEmpty;
    end = last & ~kEmpty;
    if (last == end && end < whole.bytes) end += char_at(whole.text + end, whole.bytes - end).bytes;
  }
  out[2 * index] = static_cast<uint32_t>(begin);
  out[2 * index + 1] = static_cast<uint32_t>(end);
}

// White space at an end of a token, in characters; of one that is bytes, spaces.
static uint32_t spaces(const Tokenizer& t, Span token, bool bytes, bool behind) {
  uint32_t count = 0;
  for (; token.bytes != 0; ++count) {
    work();
    const Char c =
        behind ? char_before(token.text, token.bytes) : char_at(token.text, token.bytes);
    if (bytes ? c.code != ' ' : c.code != kLetterOfSpace && (classes(t, c.code) & kSpace) == 0)
      break;
    token.bytes -= c.bytes;
    if (!behind) token.text += c.bytes;
  }
  return count;
}

// Takes off both ends what the package's post-processors do: as many characters of the text as the
// token has of white space.
void Offsets::trim(const Tokenizer& t, size_t index, Span token, bool bytes) const {
  const uint32_t leading = spaces(t, token, bytes, false), trailing = spaces(t, token, bytes, true);
  uint32_t &begin = out[2 * index], &end = out[2 * index + 1];
  for (uint32_t passes = (t.flags & kTrimMask) >> kTrimAt; passes != 0; passes >>= 2) {
    // one space may be the one that was put before the text
    const bool keeps = (passes & kKeepsFirst) != 0 && leading == 1 && (index == 0 || begin == 0);
    for (uint32_t left = keeps ? 0 : leading; left != 0 && begin < end; --left)
      begin += char_at(whole.text + begin, whole.bytes - begin).bytes;
    if (begin > end) begin = end;
    size_t at = end;
    uint32_t left = trailing;
    for (; left != 0 && at != 0; --left) at -= char_before(whole.text, at).bytes;
    if (left == 0) end = at < begin ? begin : static_cast<uint32_t>(at);
  }
}

void IdSink::place(Span text, Span token, bool literal) {
  const Span& word = offsets.word;
  // what the package counts past its word's end
  if (word.text != nullptr && text.text + text.bytes > word.text + word.bytes) return no_offsets();
  offsets.put(result.count, text.text, text.bytes);
  // a piece that is much longer than its text is a damaged section's
  if ((t.flags & kTrimMask) != 0 && token.bytes <= text.bytes + kLongestSearched)
    offsets.trim(t, result.count, token, t.model->bytes && !literal);
}

bool IdSink::put_known(const unsigned char* text, size_t bytes) {
  if (!known.holds(bytes) || wanted(offsets.out)) return false;
  const KnownWords::Word* const found = known.find(KnownWords::Key(text, bytes));
  for (uint32_t i = 0; found != nullptr && i < found->count(); ++i) put_id(found->id(i));
  return found != nullptr;
}

void IdSink::keep_word(const unsigned char* text, size_t bytes, size_t first) const {
  const size_t count = result.count - first;
  if (known.holds(bytes) && !wanted(offsets.out) && count - 1 < KnownWords::kMostIds &&
      result.count <= capacity && lost.text == nullptr)
    known.keep(KnownWords::Key(text, bytes), ids + first, count);
}

void IdSink::put_text(uint32_t id, const unsigned char* text, size_t bytes) {
  if (wanted(offsets.out) && result.count < capacity) place({text, bytes}, {text, bytes}, true);
  put_id(id);
}

void IdSink::put_whole(uint32_t id, const unsigned char* text, size_t bytes) {
  const Offsets before = offsets;
  offsets.base = offsets.whole.text;
  offsets.origins = nullptr;
  offsets.word = {};
  put_text(id, text, bytes);
  offsets = before;
}

void IdSink::unknown(const unsigned char* text, size_t bytes) {
  if ((t.flags & kByteFallback) == 0) {
    run = {after_unknown ? run.text : text, (after_unknown ? run.bytes : 0) + bytes};
    if (!after_unknown)
      put(t.unknown, text, bytes);
    else if (wanted(offsets.out) && result.count <= capacity)
      offsets.put(result.count - 1, run.text, run.bytes);
  } else {  // the last byte has the text's place, as the package has it
    for (size_t i = 0; i < bytes; ++i)
      put(byte_piece(t, text[i]), text, i + 1 == bytes ? bytes : 0);
  }
  after_unknown = true;
}

void IdSink::settle() {
  if ((t.flags & kHasList) != 0 && run.bytes != 0 && result.count <= capacity) {
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
