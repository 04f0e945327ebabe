// text: what the canonical order and composition of two tokenizers' models share (The Unicode
// Standard, 3.11). Includes origins.h only; never allocates. Composition takes linear time, since
// into one character go no more than kMostComposed.
#pragma once
#include "origins.h"

namespace phasor::pieces {

// Bytes of marks by their classes become the places where the first of each class begins.
inline void begin_places(uint32_t (&places)[256]) {
  uint32_t place = 0;
  for (uint32_t& p : places) {
    const uint32_t bytes = p;
    p = place;
    place += bytes;
  }
  work(256);
}

// A text that is composed in place, and what goes along with its bytes.
struct Composed {
  unsigned char* text;
  uint32_t* origins;     // or null (origins.h)
  unsigned char* marks;  // or null
  unsigned char kept;    // of a mark: the bits that the bytes of a composed character share

  void move(size_t to, size_t from, size_t n) const {
    std::memmove(text + to, text + from, n);
    if (marks != nullptr) std::memmove(marks + to, marks + from, n);
    if (wanted(origins)) std::memmove(origins + to, origins + from, n * sizeof *origins);
  }

  // Composes begin … end − 1: each mark that no mark of its class or a higher one keeps from the
  // last character of class 0. Returns the new end. order(c, at): the class of a character.
  // pair(to, base, a, at, b): writes to `to` (8 bytes) what the characters a at `base` and b at
  // `at` compose to; returns its code and bytes, no more than both have, or 0 bytes.
  template <class Order, class Pair>
  size_t compose(size_t begin, size_t end, Order order, Pair pair) const {
    size_t to = begin, base = begin;
    Char first{kNoChar, 0};       // no base yet while it has no bytes
    uint32_t last = 0, made = 0;  // class of the last mark behind the base, 0 where there is none
    for (size_t from = begin; from < end;) {
      const Char c = char_at(text + from, end - from);
      const uint32_t of = order(c, from);
      unsigned char both[8];
      Char is{kNoChar, 0};
      if (first.bytes != 0 && made < kMostComposed && (last == 0 || last < of))
        is = pair(both, base, first, from, c);
      work();
      if (is.bytes != 0) {
        const size_t behind = base + first.bytes, n = to - behind;
        work(n);
        // first, since what is moved may be written over the mark
        if (wanted(origins)) origins[base] += origins[from] - 1;
        move(base + is.bytes, behind, n);
        std::memcpy(text + base, both, is.bytes);
        if (marks != nullptr) std::memset(marks + base + 1, marks[base] & kept, is.bytes - 1);
        to = base + is.bytes + n;
        first = is;
        ++made;
      } else {
        if (of == 0) {
          base = to;
          first = c;
          made = 0;
        }
        last = of;
        move(to, from, c.bytes);
        to += c.bytes;
      }
      from += c.bytes;
    }
    return to;
  }
};

}  // namespace phasor::pieces
