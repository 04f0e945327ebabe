// Finding pieces in place, UTF-8, collecting ids. Includes pieces.h only; never allocates.
#include "pieces.h"

namespace phasor {
namespace pieces {

bool PrefixWalk::step(unsigned char byte) noexcept {
  // The pieces that end here come first in the range; of the others the byte at `depth` ascends.
  const auto byte_at = [this](std::uint32_t rank) noexcept -> int {
    work();
    const Row r = row(t, sorted_id(t, rank));
    return r.length() == depth ? -1 : t.text[std::size_t{r.offset()} + depth];
  };
  const int wanted = byte;
  std::uint32_t low = first, high = last;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    if (byte_at(middle) < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  // The end of the run lies near its start more often than not: double the stride, then halve.
  std::uint32_t end = low, stride = 1;
  while (last - end > stride && byte_at(end + stride - 1) == wanted) {
    end += stride;
    stride *= 2;
  }
  high = last - end > stride ? end + stride : last;
  while (end < high) {
    const std::uint32_t middle = end + (high - end) / 2;
    if (byte_at(middle) == wanted)
      end = middle + 1;
    else
      high = middle;
  }
  first = low;
  last = end;
  ++depth;
  return first < last;
}

std::uint32_t PrefixWalk::here() const noexcept {
  // At most two pieces have the same text: a reserved one and another.
  for (std::uint32_t rank = first; rank < last && rank < first + 2; ++rank) {
    const std::uint32_t id = sorted_id(t, rank);
    const Row r = row(t, id);
    if (r.length() != depth) break;
    if (!reserved(r.type())) return id;
  }
  return kNoToken;
}

std::uint32_t lower_bound(const Tokenizer& t, const unsigned char* text,
                          std::size_t bytes) noexcept {
  std::uint32_t low = 0, high = t.pieces;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    const Row r = row(t, sorted_id(t, middle));
    const std::size_t length = r.length(), both = length < bytes ? length : bytes;
    work(1 + both);
    const int order = std::memcmp(t.text + r.offset(), text, both);
    if (order < 0 || (order == 0 && length < bytes))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

std::uint32_t find(const Tokenizer& t, const unsigned char* text, std::size_t bytes,
                   bool among_reserved) noexcept {
  if (bytes > t.longest) return kNoToken;
  for (std::uint32_t rank = lower_bound(t, text, bytes); rank < t.pieces; ++rank) {
    const std::uint32_t id = sorted_id(t, rank);
    const Row r = row(t, id);
    work(1 + bytes);
    if (r.length() != bytes || std::memcmp(t.text + r.offset(), text, bytes) != 0) break;
    if (reserved(r.type()) == among_reserved) return id;
  }
  return kNoToken;
}

std::size_t match_user_defined(const Tokenizer& t, const unsigned char* text,
                               std::size_t bytes) noexcept {
  if (bytes == 0 || t.longest_user == 0) return 0;
  if ((t.user_first[text[0] >> 5] >> (text[0] & 31) & 1) == 0) return 0;
  std::size_t best = 0;
  PrefixWalk walk(t);
  for (std::size_t i = 0; i < bytes && i < t.longest_user && walk.step(text[i]); ++i) {
    const std::uint32_t id = walk.here();
    if (id != kNoToken && row(t, id).type() == PieceType::user_defined) best = i + 1;
  }
  return best;
}

std::size_t valid_char(const unsigned char* p, std::size_t bytes, bool* more) noexcept {
  *more = false;
  if (bytes == 0) return 0;
  const std::uint32_t lead = p[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;  // a trail byte, an overlong form, or above U+10FFFF
  const std::size_t size = char_bytes(p[0]);
  for (std::size_t i = 1; i < size; ++i) {
    if (i == bytes) {
      *more = true;
      return 0;
    }
    std::uint32_t low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;   // overlong below
    if (i == 1 && lead == 0xED) high = 0x9F;  // surrogates above
    if (i == 1 && lead == 0xF0) low = 0x90;   // overlong below
    if (i == 1 && lead == 0xF4) high = 0x8F;  // beyond U+10FFFF above
    if (p[i] < low || p[i] > high) return 0;
  }
  return size;
}

int byte_value(const unsigned char* text, std::size_t bytes) noexcept {
  if (bytes != 6 || std::memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
  int value = 0;
  for (int i = 3; i < 5; ++i) {
    const int c = text[i];
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

void IdSink::unknown(const unsigned char* text, std::size_t bytes) noexcept {
  if ((t.flags & kByteFallback) == 0) {
    if (!after_unknown) put(t.unknown);
    after_unknown = true;
    return;
  }
  for (std::size_t i = 0; i < bytes; ++i) {
    const char* digits = "0123456789ABCDEF";
    const unsigned char name[6] = {'<',
                                   '0',
                                   'x',
                                   static_cast<unsigned char>(digits[text[i] >> 4]),
                                   static_cast<unsigned char>(digits[text[i] & 15]),
                                   '>'};
    put(find(t, name, sizeof name, true));
  }
  after_unknown = true;
}

}  // namespace pieces
}  // namespace phasor
