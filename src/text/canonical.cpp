// Unicode's canonical composition NFC (The Unicode Standard, 3.11 and 3.12), from the section's
// map: a character's entry is a byte, 1 + its combining class, and its full decomposition, if it
// has one; two characters' entry is what they compose to. Without an entry a character is of class
// 0 and itself. Hangul follows its rule. Includes the tokenizer's own headers only; never
// allocates, and takes linear time: a decomposition is no longer than the header's expansion says,
// and marks that are not in order are counted by class, then each is put at its place.
#include "chars.h"
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
  uint32_t place = 0;
  for (uint32_t& p : places) {
    const uint32_t bytes = p;
    p = place;
    place += bytes;
  }
  work(256);
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

// What two characters compose to, written to `to` (8 bytes), its length; or 0.
uint32_t composite(const Tokenizer& t, unsigned char* to, const unsigned char* first, const Char& a,
                   const unsigned char* second, const Char& b) {
  if (b.code == kNoChar) return 0;
  const uint32_t syllable = compose_hangul(a.code, b.code);
  if (syllable != kNoChar) return static_cast<uint32_t>(write_char(to, syllable));
  std::memcpy(to, first, a.bytes);
  std::memcpy(to + a.bytes, second, b.bytes);
  const unsigned char* const found = find_rule(t, to, a.bytes + b.bytes);
  uint32_t bytes = 0;
  while (found != nullptr && bytes <= a.bytes + b.bytes && found[bytes] != 0) ++bytes;
  if (bytes > a.bytes + b.bytes) return 0;  // a damaged map
  if (bytes > 0) std::memcpy(to, found, bytes);
  return bytes;
}

// Composes in place: each mark that no mark of its class or a higher one keeps from the last
// character of class 0.
size_t compose(const Tokenizer& t, unsigned char* text, size_t n, uint32_t* origins) {
  const auto move = [=](size_t to, size_t from, size_t bytes) {
    std::memmove(text + to, text + from, bytes);
    if (wanted(origins)) std::memmove(origins + to, origins + from, bytes * sizeof *origins);
  };
  size_t to = 0, base = 0, base_bytes = 0;  // no base yet while it has no bytes
  // class of the last mark behind the base, 0 where there is none
  uint32_t last = 0, composed = 0;
  for (size_t from = 0; from < n;) {
    const Char c = char_at(text + from, n - from);
    const uint32_t order = order_of(entry(t, text + from, c));
    unsigned char both[8];
    uint32_t bytes = 0;
    if (base_bytes > 0 && c.code >= 0x80 && composed < kMostComposed &&
        (last == 0 || last < order)) {
      bytes = composite(t, both, text + base, char_at(text + base, base_bytes), text + from, c);
    }
    from += c.bytes;
    work();
    if (bytes > 0) {
      work(to - base);
      // first, since what is moved may be written over the mark
      if (wanted(origins)) origins[base] += origins[from - c.bytes] - 1;
      move(base + bytes, base + base_bytes, to - base - base_bytes);
      std::memcpy(text + base, both, bytes);
      to = to + bytes - base_bytes;
      base_bytes = bytes;
      ++composed;
      continue;
    }
    if (order == 0) {
      base = to;
      base_bytes = c.bytes;
      composed = 0;
    }
    last = order;
    move(to, from - c.bytes, c.bytes);
    to += c.bytes;
  }
  return to;
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
  const size_t n = compose(t, out->text, static_cast<size_t>(out->size), out->origins);
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
