// Unicode's canonical composition NFC (The Unicode Standard, 3.11 and 3.12), from the section's
// map: a character's entry is a byte, 1 + its combining class, and its full decomposition, if it
// has one; two characters' entry is what they compose to. Without an entry a character is of class
// 0 and itself. Hangul follows its rule. Includes the tokenizer's own headers only; never
// allocates, and takes linear time: a decomposition is no longer than the header's expansion says,
// and marks that are not in order are counted by class, then each is put at its place.
#include "compose.h"
#include "normalizer.h"

namespace phasor::pieces {
namespace {

// The replacement, zero-terminated, of exactly this key, or null.
const unsigned char* find_rule(const Tokenizer& t, const unsigned char* key, size_t bytes) {
  MapWalk walk(t);
  for (size_t i = 0; i < bytes; ++i)
    if (!walk.step(key[i])) return nullptr;
  return walk.value();
}

const unsigned char* entry(const Tokenizer& t, const unsigned char* text, const Char& c) {
  return c.code == kNoChar || c.code < 0x80 ? nullptr : find_rule(t, text, c.bytes);
}

uint32_t order_of(const unsigned char* found) {
  return found == nullptr || *found == 0 ? 0 : *found - 1u;
}

struct One {
  const unsigned char* text;
  uint32_t bytes;
  uint32_t order;
  uint32_t change;  // 1: an other part of the same character came before it (origins.h)
};

// The decomposed text, character by character. A copy of it is a place to which one can return.
struct Decomposed {
  const Tokenizer* t;
  const unsigned char* text;
  size_t n;
  size_t at;
  const unsigned char* part;  // what is left of a decomposition, or null; it ends with a zero or at
  const unsigned char* part_end;
  // a decomposition is longer than the header's expansion says; there is no next character
  bool broken;
  uint32_t change;  // of the next part

  bool is(const Decomposed& other) const { return at == other.at && part == other.part; }

  bool next(One* out) {
    work();
    broken = part != nullptr && part == part_end && *part != 0;
    if (broken) return false;
    if (part == nullptr || *part == 0) {
      part = nullptr;
      if (at == n) return false;
      const unsigned char* const here = text + at;
      const Char c = char_at(here, n - at);
      const unsigned char* const found = entry(*t, here, c);
      at += c.bytes;
      if (found == nullptr || *found == 0 || found[1] == 0) {
        *out = {here, c.bytes, order_of(found), 0};
        return true;
      }
      part = found + 1;
      part_end = part + size_t{t->expansion} * c.bytes;
      change = 0;
    }
    size_t left = 1;
    while (left < 4 && part + left != part_end && part[left] != 0) ++left;
    const Char c = char_at(part, left);
    *out = {part, c.bytes, order_of(entry(*t, part, c)), change};
    change = 1;
    part += c.bytes;
    return true;
  }
};

// The marks between two places by their classes, equal ones as they come. There is room for them.
void put_ordered(const Output& out, const Decomposed& begin, const Decomposed& end) {
  uint32_t places[256] = {};  // by class: where the next one goes
  One one{};
  // never: what was walked before does not end
  for (Decomposed from = begin; !from.is(end) && from.next(&one);) places[one.order] += one.bytes;
  begin_places(places);
  // never: the same
  for (Decomposed from = begin; !from.is(end) && from.next(&one);) {
    std::memcpy(out.text + out.size + places[one.order], one.text, one.bytes);
    if (wanted(out.origins))
      fill_origins(out.origins + out.size + places[one.order], one.change, one.bytes);
    places[one.order] += one.bytes;
  }
}

// Marks in the order of their classes.
bool put_marks(Output* out, const Decomposed& begin, Decomposed* end) {
  One one{};
  bool sorted = true;
  uint32_t before = 0;
  uint64_t bytes = 0;
  *end = begin;
  for (Decomposed ahead = begin; ahead.next(&one) && one.order != 0; *end = ahead) {
    sorted = sorted && before <= one.order;
    before = one.order;
    bytes += one.bytes;
  }
  // never: there is room for what the header's expansion says, and nothing is longer
  if (out->capacity - out->size < bytes) return false;
  if (!sorted) {
    put_ordered(*out, begin, *end);
    out->size += bytes;
    return true;
  }
  // never: as above
  for (Decomposed from = begin; !from.is(*end) && from.next(&one);) {
    out->origin = one.change;
    out->put(one.text, one.bytes);
  }
  return true;
}

// What two characters compose to, written to `to` (8 bytes); or no bytes.
Char composite(const Tokenizer& t, unsigned char* to, const unsigned char* first, const Char& a,
               const unsigned char* second, const Char& b) {
  constexpr Char kNone{kNoChar, 0};
  if (b.code == kNoChar || b.code < 0x80) return kNone;
  const uint32_t syllable = compose_hangul(a.code, b.code);
  if (syllable != kNoChar) return {syllable, static_cast<uint32_t>(write_char(to, syllable))};
  std::memcpy(to, first, a.bytes);
  std::memcpy(to + a.bytes, second, b.bytes);
  const unsigned char* const found = find_rule(t, to, a.bytes + b.bytes);
  uint32_t bytes = 0;
  while (found != nullptr && bytes <= a.bytes + b.bytes && found[bytes] != 0) ++bytes;
  if (bytes == 0 || bytes > a.bytes + b.bytes) return kNone;  // the latter of a damaged map
  std::memcpy(to, found, bytes);
  return {kNoChar, bytes};  // its code is read again: a damaged map may have several
}

}  // namespace

uint64_t normalize_canonical(const Tokenizer& t, Output* out, const unsigned char* text,
                             size_t bytes) {
  One one{};
  Decomposed from{&t, text, bytes, 0, nullptr, nullptr, false, 0};
  for (Decomposed here = from; from.next(&one); here = from) {
    out->origin = one.change;
    // never: there is room, as put_marks says
    if (one.order != 0 ? !put_marks(out, here, &from) : !out->put(one.text, one.bytes))
      return kNormalizedTooLong;
  }
  if (from.broken) return kNormalizedTooLong;
  const auto order = [&](const Char& c, size_t at) {
    return order_of(entry(t, out->text + at, c));
  };
  const auto pair = [&](unsigned char* to, size_t base, const Char& a, size_t at, const Char& b) {
    const unsigned char* const first = out->text + base;
    return composite(t, to, first, char_at(first, a.bytes), out->text + at, b);
  };
  const Composed composed{out->text, out->origins, nullptr, 0};
  const size_t n = composed.compose(0, static_cast<size_t>(out->size), order, pair);
  if (!wanted(out->origins)) return n;
  size_t at = 0;
  place_origins(out->origins, out->text, n, [&] {
    const size_t begin = at;
    if (at < bytes) at += char_at(text + at, bytes - at).bytes;
    return out->base + static_cast<uint32_t>(begin);
  });
  return n;
}

}  // namespace phasor::pieces
