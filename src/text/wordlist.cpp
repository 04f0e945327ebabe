// A word list: the text is split at ASCII white space and each word is looked up. Includes pieces.h
// only.
#include "pieces.h"

namespace phasor {
namespace pieces {
namespace {

bool is_space(unsigned char c) noexcept { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

EncodeResult encode_words(const Tokenizer& t, IdSink* out, const unsigned char* text,
                          std::size_t bytes) noexcept {
  work(bytes);
  for (std::size_t at = 0; at < bytes;) {
    if (is_space(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at + 1;
    while (end < bytes && !is_space(text[end])) ++end;
    const std::uint32_t id = find(t, text + at, end - at, false);
    if (id == kNoToken && t.unknown == kNoToken)
      return {EncodeStatus::unknown_word, out->count, at, end - at};
    out->put(id != kNoToken ? id : t.unknown);
    at = end;
  }
  return {EncodeStatus::ok, out->count, 0, 0};
}

}  // namespace pieces
}  // namespace phasor
