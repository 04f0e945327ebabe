// Finding pieces in place, UTF-8. Includes pieces.h only; never allocates.
#include "pieces.h"

#include "recent.h"

namespace phasor::pieces {

constexpr uint32_t kFew = 4;  // ranks that are searched one after the other
constexpr uint32_t kRemembered = 16;  // fewer take no place from those that take longer

bool PrefixWalk::step(unsigned char byte) {
  Ranks next{first, last};
  if (last - first == 1) {
    const Row r = row(t, sorted_id(t, first));
    next.first += r.length() == depth || t.text[size_t{r.offset()} + depth] != byte;
    work();
  } else if (recent == nullptr || last - first <= kRemembered) {
    next = find(byte);
  } else {
    next = recent->get(first | uint32_t{byte} << 24, depth, [&] { return find(byte); });
  }
  first = next.first;
  last = next.last;
  ++depth;
  return first < last;
}

Ranks PrefixWalk::find(unsigned char byte) const {
  // The pieces that end here come first in the range; of the others the byte at `depth` ascends.
  const auto byte_at = [this](uint32_t rank) -> int {
    const Row r = row(t, sorted_id(t, rank));
    return r.length() == depth ? -1 : t.text[size_t{r.offset()} + depth];
  };
  const int wanted = byte;
  if (last - first <= kFew) {
    uint32_t begin = first;
    while (begin < last && byte_at(begin) < wanted) ++begin;
    uint32_t end = begin;
    while (end < last && byte_at(end) == wanted) ++end;
    work(last - first);
    return {begin, end};
  }
  const uint32_t begin =
      first_where(first, last, [&](uint32_t rank) { return byte_at(rank) >= wanted; });
  // The end of the run lies near its start more often than not: double the stride, then halve.
  uint32_t end = begin, behind = last, stride = 1;
  while (behind - end > stride && byte_at(end + stride - 1) == wanted) {
    work();
    end += stride;
    stride *= 2;
  }
  if (behind - end > stride) behind = end + stride;
  return {begin,
          first_where(end, behind, [&](uint32_t rank) { return byte_at(rank) != wanted; })};
}

uint32_t PrefixWalk::here() const {
  // At most two pieces have the same text: a reserved one and another.
  for (uint32_t rank = first; rank < last; ++rank) {
    const uint32_t id = sorted_id(t, rank);
    const Row r = row(t, id);
    if (r.length() != depth) break;
    if (!reserved(r.type())) return id;
  }
  return kNoToken;
}

uint32_t PrefixWalk::of_model() const {
  const uint32_t id = sorted_id(t, first);
  const Row r = row(t, id);
  return r.length() == depth && (r.marks() & kOfModel) != 0 ? id : kNoToken;
}

int compare(Span a, Span b) {
  const size_t both = a.bytes < b.bytes ? a.bytes : b.bytes;
  work(1 + both);
  const int order = std::memcmp(a.text, b.text, both);
  return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

int compare_at(const Tokenizer& t, uint32_t rank, const unsigned char* text, size_t bytes) {
  return compare(text_of(t, row(t, sorted_id(t, rank))), {text, bytes});
}

uint32_t lower_bound(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  return first_where(0, t.pieces,
                     [&](uint32_t rank) { return compare_at(t, rank, text, bytes) >= 0; });
}

uint32_t find(const Tokenizer& t, const unsigned char* text, size_t bytes, bool among_reserved) {
  if (bytes > t.longest) return kNoToken;
  return find_where(t, text, bytes, [=](Row r) { return reserved(r.type()) == among_reserved; });
}

uint32_t listed_id(const Tokenizer& t, const unsigned char* text, size_t bytes) {
  if (bytes > t.longest) return kNoToken;
  return find_where(t, text, bytes, [&](Row r) { return r.p < row(t, t.ids).p; });
}

size_t valid_char(const unsigned char* p, size_t bytes, bool* more) {
  *more = false;
  if (bytes == 0) return 0;
  const uint32_t lead = p[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;  // a trail byte, an overlong form, or above U+10FFFF
  const size_t size = char_bytes(p[0]);
  for (size_t i = 1; i < size; ++i) {
    if (i == bytes) {
      *more = true;
      return 0;
    }
    uint32_t low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;   // overlong below
    if (i == 1 && lead == 0xED) high = 0x9F;  // surrogates above
    if (i == 1 && lead == 0xF0) low = 0x90;   // overlong below
    if (i == 1 && lead == 0xF4) high = 0x8F;  // beyond U+10FFFF above
    if (p[i] < low || p[i] > high) return 0;
  }
  return size;
}

int byte_value(const unsigned char* text, size_t bytes) {
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

}  // namespace phasor::pieces
