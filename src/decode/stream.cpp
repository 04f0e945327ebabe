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
  if (s_.model->tokenizer(1) == nullptr)
    return fail(
        error, PHASOR_BAD_INPUT, {},
        "options: text and stop strings need a tokenizer, the model has none for its target");
  if (s_.plan.text_bytes == 0)
    return fail(error, PHASOR_BAD_INPUT, {},
                "options: text and stop strings need limits.text_bytes, which is 0");
  if (o_.stop_count > kMaxStops)
    return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, kMaxStops, o_.stop_count},
                "options.stop_count: ", o_.stop_count, ", expected at most ", kMaxStops);
  for (uint32_t i = 0; i < o_.stop_count; ++i) {
    const uint32_t n = length_of(o_.stop[i]);
    if (n == 0 || n > kMaxStopBytes)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, kMaxStopBytes, n},
                  "options.stop: string ", i, n == 0 ? " is empty" : " is too long",
                  ", expected 1 to ", kMaxStopBytes, " bytes");
  }
  return PHASOR_OK;
}

void TextStream::goes_on(const uint32_t* ids, uint32_t count) noexcept {
  const Tokenizer* t = s_.model->tokenizer(1);
  // a bad id adds nothing
  for (uint32_t i = 0; wanted() && i < count; ++i)
    (void)token_decode(*t, &decoder_, ids[i], piece(), capacity());
}

StreamEnd TextStream::add(uint32_t id) noexcept {
  if (!wanted()) return StreamEnd::none;
  const size_t bytes = token_decode(*s_.model->tokenizer(1), &decoder_, id, piece(), capacity());
  return bytes == kBadToken || bytes > capacity() ? StreamEnd::none
                                                  : feed(piece(), static_cast<uint32_t>(bytes));
}

StreamEnd TextStream::end() noexcept {
  if (!wanted()) return StreamEnd::none;
  const size_t bytes = token_decode_end(&decoder_, piece(), capacity());
  const StreamEnd now = feed(piece(), static_cast<uint32_t>(bytes));
  if (now != StreamEnd::none) return now;
  return give(nullptr, 0, held_);
}

// Of the bytes held back and `c` the most, from the end, that begin a stop string.
uint32_t TextStream::longest_begun(char c, const char** string) const noexcept {
  uint32_t best = 0;
  for (uint32_t i = 0; i < o_.stop_count; ++i) {
    const char* s = o_.stop[i];
    const uint32_t n = length_of(s);
    for (uint32_t k = n < held_ + 1 ? n : held_ + 1; k > best; --k) {
      if (s[k - 1] != c || (k > 1 && memcmp(s, begun_ + (held_ + 1 - k), k - 1) != 0)) continue;
      best = k;
      *string = s;
    }
  }
  return best;
}

// Bytes held back, then `text`: those that can no longer begin a stop string are given out.
StreamEnd TextStream::feed(const char* text, uint32_t bytes) noexcept {
  const char* const before = begun_;
  const uint32_t old = held_;
  for (uint32_t i = 0; i < bytes; ++i) {
    const char* string = nullptr;
    // A whole string wins over a longer one that has only begun.
    for (uint32_t k = 0; k < o_.stop_count; ++k) {
      const uint32_t n = length_of(o_.stop[k]);
      const bool whole = n <= held_ + 1 && o_.stop[k][n - 1] == text[i] &&
                         (n == 1 || memcmp(o_.stop[k], begun_ + (held_ + 1 - n), n - 1) == 0);
      if (whole && (string == nullptr || n > length_of(string))) string = o_.stop[k];
    }
    if (string != nullptr) {
      const uint32_t given = old + i + 1 - length_of(string);
      begun_ = before;
      held_ = old;
      const StreamEnd end = give(text, bytes, given);
      return end == StreamEnd::none ? StreamEnd::string : end;
    }
    const uint32_t n = longest_begun(text[i], &string);
    begun_ = string;
    held_ = n;
  }
  const char* const now = begun_;
  const uint32_t kept = held_;
  begun_ = before;
  held_ = old;
  const StreamEnd end = give(text, bytes, old + bytes - kept);
  begun_ = now;
  held_ = kept;
  return end;
}

// The first `count` of the bytes held back and of `text`.
StreamEnd TextStream::give(const char* text, uint32_t bytes, uint32_t count) noexcept {
  const uint32_t first = count < held_ ? count : held_,
                 second = count - first < bytes ? count - first : bytes;
  const char* const held = begun_;
  held_ = 0;
  if (o_.text == nullptr) return StreamEnd::none;
  if (first != 0 && o_.text(o_.user, held, first) != 0) return StreamEnd::stopped;
  if (second != 0 && o_.text(o_.user, text, second) != 0) return StreamEnd::stopped;
  return StreamEnd::none;
}

}  // namespace phasor
