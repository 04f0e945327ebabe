#include "stream.h"

namespace phasor {
namespace {

// Bytes of a string, at most one more than is allowed.
uint32_t length_of(const char* s) {
  uint32_t n = 0;
  while (n <= kMaxStopBytes && s[n] != 0) ++n;
  return n;
}

}  // namespace

phasor_status TextStream::check(phasor_error* error) const noexcept {
  if (!wanted()) return PHASOR_OK;
  if (s_.model->tokenizer(kDecoder) == nullptr)
    return bad_input(
        error,
        "options: text and stop strings need a tokenizer, the model has none for its target");
  if (s_.plan.text_bytes == 0)
    return bad_input(error, "options: text and stop strings need limits.text_bytes, which is 0");
  if (o_.stop_count > kMaxStops)
    return bad_input(error, {kMaxStops, o_.stop_count}, "options.stop_count: ", o_.stop_count,
                     ", expected at most ", kMaxStops);
  for (uint32_t i = 0; i < o_.stop_count; ++i) {
    const uint32_t n = length_of(o_.stop[i]);
    if (n == 0 || n > kMaxStopBytes)
      return bad_input(error, {kMaxStopBytes, n}, "options.stop: string ", i,
                       n == 0 ? " is empty" : " is too long", ", expected 1 to ", kMaxStopBytes,
                       " bytes");
  }
  return PHASOR_OK;
}

void TextStream::goes_on(const uint32_t* ids, uint32_t count) noexcept {
  const Tokenizer* t = s_.model->tokenizer(kDecoder);
  // a bad id adds nothing
  for (uint32_t i = 0; wanted() && i < count; ++i)
    (void)token_decode(*t, &state_.decoder, ids[i], piece(), capacity());
}

StreamEnd TextStream::add(uint32_t id) noexcept {
  if (!wanted()) return StreamEnd::none;
  const size_t bytes =
      token_decode(*s_.model->tokenizer(kDecoder), &state_.decoder, id, piece(), capacity());
  return bytes == kBadToken || bytes > capacity() ? StreamEnd::none
                                                  : feed(piece(), static_cast<uint32_t>(bytes));
}

StreamEnd TextStream::end() noexcept {
  if (!wanted()) return StreamEnd::none;
  const size_t bytes =
      token_decode_end(*s_.model->tokenizer(kDecoder), &state_.decoder, piece(), capacity());
  const StreamEnd now = feed(piece(), static_cast<uint32_t>(bytes));
  if (now != StreamEnd::none) return now;
  return give(nullptr, 0, state_.held.bytes);
}

// The stop string that ends with `c`; else the one of which the bytes held back and `c` have, at
// their end, the most.
TextStream::Match TextStream::extended(const Match& held, char c) const noexcept {
  Match best{};
  for (uint32_t i = 0; i < o_.stop_count; ++i) {
    const char* s = o_.stop[i];
    const uint32_t n = length_of(s);
    for (uint32_t k = smaller(n, held.bytes + 1); k != 0; --k) {
      if (s[k - 1] != c || (k > 1 && memcmp(s, held.string + (held.bytes + 1 - k), k - 1) != 0))
        continue;
      const bool whole = k == n;  // wins over a longer one that has only begun
      if (whole != best.whole ? whole : k > best.bytes) best = {s, k, whole};
      break;
    }
  }
  return best;
}

bool TextStream::is_sound(const State& state) const noexcept {
  const TokenDecoder& d = state.decoder;
  const Match& held = state.held;
  unsigned char whole;  // any byte may be there
  memcpy(&whole, &held.whole, 1);
  bool known = held.bytes == 0;
  for (uint32_t i = 0; i < o_.stop_count && !known; ++i)
    known = held.string == o_.stop[i] && held.bytes < length_of(o_.stop[i]);
  return known && whole == 0 && d.pending_bytes <= 3 && d.past_start <= 3 && d.prefix_seen <= 2 &&
         d.any_text <= 1;
}

// Bytes held back, then `text`: those that can no longer begin a stop string are given out.
StreamEnd TextStream::feed(const char* text, uint32_t bytes) noexcept {
  Match now = state_.held;
  uint32_t i = 0;
  while (i < bytes && !now.whole) now = extended(now, text[i++]);
  const StreamEnd end = give(text, bytes, state_.held.bytes + i - now.bytes);
  if (!now.whole) state_.held = now;
  return now.whole && end == StreamEnd::none ? StreamEnd::string : end;
}

// The first `count` of the bytes held back and of `text`; nothing is held back any more.
StreamEnd TextStream::give(const char* text, uint32_t bytes, uint32_t count) noexcept {
  const Match held = state_.held;
  const uint32_t first = smaller(count, held.bytes), second = smaller(count - first, bytes);
  state_.held = {};
  if (o_.text == nullptr) return StreamEnd::none;
  if (first != 0 && o_.text(o_.user, held.string, first) != 0) return StreamEnd::stopped;
  if (second != 0 && o_.text(o_.user, text, second) != 0) return StreamEnd::stopped;
  return StreamEnd::none;
}

}  // namespace phasor
