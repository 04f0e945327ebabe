// The step `canonical`: marks in the order of their classes, and what composes with the character
// before it (The Unicode Standard, 3.11). A map has decomposed the characters before. Includes the
// tokenizer's own headers only; never allocates, and takes linear time: marks that are not in order
// are counted by class, then each is put at its place.
#include "compose.h"
#include "step_rows.h"

namespace phasor::pieces {

// Marks by their classes, equal ones as they come.
void StepRun::order_marks(StepRow row, size_t at, size_t end) {
  const CanonicalRow r{row};
  const auto size_at = [this, end](size_t place) {
    return char_at(from_.text + place, end - place);
  };
  uint32_t places[256] = {};  // by class: where the next one goes
  for (size_t i = at; i < end;) {
    const Char c = size_at(i);
    places[r.order(c.code)] += c.bytes;
    i += c.bytes;
  }
  begin_places(places);
  const size_t begin = to_.size;
  put(from_.text + at, end - at, 0, 0);  // makes room
  if (full_) return;
  const unsigned char first = to_.marks[begin] & kBegins;
  // The package counts places: of characters, whatever comes first takes the first one's; further
  // parts of one take that of what is before them.
  bool of_start = begin != 0 && (to_.marks[begin - 1] & kOfStart) != 0;
  bool first_waits = !of_start && (from_.marks[at] & kOfStart) != 0;
  for (size_t i = at; i < end;) {
    const Char c = size_at(i);
    uint32_t& to = places[r.order(c.code)];
    std::memcpy(to_.text + begin + to, from_.text + i, c.bytes);
    std::memset(to_.marks + begin + to, from_.marks[i] & kFurther, c.bytes);
    if (wanted(to_.origins)) fill_origins(to_.origins + begin + to, change(i), c.bytes);
    to += c.bytes;
    i += c.bytes;
  }
  for (size_t i = begin; i < to_.size;) {
    const size_t bytes = char_at(to_.text + i, to_.size - i).bytes;
    if ((to_.marks[i] & kFurther) == 0) {
      of_start = first_waits;
      first_waits = false;
    }
    std::memset(to_.marks + i, of_start ? kOfStart : 0, bytes);
    i += bytes;
  }
  to_.marks[begin] |= first;
}

void StepRun::canonical(StepRow row, size_t at, size_t end) {
  const auto ascii = [this](size_t i) { return from_.text[i] < 0x80; };
  // A character of ASCII before another one stays as it is; offsets count all changes together.
  const bool stays = t_.pipeline.ascii_stays != 0 && !wanted(to_.origins);
  while (stays && at < end) {
    size_t same = at;
    while (same < end && ascii(same) && (same + 1 == end || ascii(same + 1))) ++same;
    copy(at, same);
    for (at = same; at < end && (at == same || !ascii(at));) ++at;
    if (at != same) order_and_compose(row, same, at);
  }
  if (at < end) order_and_compose(row, at, end);
}

void StepRun::order_and_compose(StepRow row, size_t at, size_t end) {
  const CanonicalRow r{row};
  const size_t begin = to_.size, text = at;
  while (at < end) {
    size_t behind = at;
    bool sorted = true;
    for (uint32_t before = 0; behind < end;) {
      const Char c = char_at(from_.text + behind, end - behind);
      const uint32_t order = r.order(c.code);
      work();
      if (order == 0) break;
      sorted = sorted && before <= order;
      before = order;
      behind += c.bytes;
    }
    if (behind == at) behind += char_at(from_.text + at, end - at).bytes;  // it is no mark
    if (!sorted) {
      order_marks(row, at, behind);
    } else {
      for (size_t i = at; i < behind;) {
        const Char c = char_at(from_.text + i, behind - i);
        put(from_.text + i, c.bytes, from_.marks[i], change(i));
        i += c.bytes;
      }
    }
    at = behind;
  }
  if (full_) return;
  if (r.composes()) compose(row, begin);
  if (wanted(to_.origins)) place(begin, text, end, kFurther);
}

void StepRun::compose(StepRow row, size_t begin) {
  const CanonicalRow r{row};
  const auto order = [&](const Char& c, size_t) { return r.order(c.code); };
  const auto pair = [&](unsigned char* to, size_t, const Char& a, size_t, const Char& b) {
    const uint32_t both = r.composed(a.code, b.code);
    const size_t bytes = both == kNoChar ? 0 : write_char(to, both);
    return Char{both, bytes <= a.bytes + b.bytes ? static_cast<uint32_t>(bytes) : 0};
  };
  const Composed composed{to_.text, to_.origins, to_.marks, kOfStart};
  to_.size = composed.compose(begin, to_.size, order, pair);
}

}  // namespace phasor::pieces
