// Operations on texts that a chat program needs, as Python has them. Never allocates.
#include "text.h"

#include "../chars.h"

namespace phasor {
namespace chat {
namespace {

// str.isspace: what strip() and split() take.
bool is_space(std::uint32_t c) noexcept {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool taken(Piece one, std::uint32_t code, const Piece* chars) noexcept {
  // UTF-8: never in the middle of another one
  return chars != nullptr ? find(*chars, one, 0) != kNowhere : is_space(code);
}

// White space at the front.
Piece strip_front(Piece text) noexcept {
  Budget any{~std::uint64_t{0}};
  return strip(text, nullptr, kStripLeft, &any);
}

// A text's greatest suffix, by its bytes as they are or (reversed) in the opposite order: where it
// begins, and its period.
struct Suffix {
  std::size_t begin, period;
};

Suffix greatest_suffix(Piece text, bool reversed) noexcept {
  Suffix best{0, 1};
  for (std::size_t other = 1, same = 0; other + same < text.bytes;) {
    work();
    const unsigned char a = text.text[other + same], b = text.text[best.begin + same];
    if (a == b) {
      if (same + 1 == best.period) {
        other += best.period;
        same = 0;
      } else {
        ++same;
      }
    } else if (reversed ? a > b : a < b) {
      other += same + 1;
      same = 0;
      best.period = other - best.begin;
    } else {
      best = {other, 1};
      ++other;
      same = 0;
    }
  }
  return best;
}

unsigned char upper(unsigned char c) noexcept {
  return c >= 'a' && c <= 'z' ? static_cast<unsigned char>(c - 32) : c;
}
unsigned char lower(unsigned char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c + 32) : c;
}
bool is_letter(unsigned char c) noexcept { return upper(c) != lower(c); }

// Where the filter `title` begins a word: after hyphens, brackets and white space.
bool parts_words(unsigned char c) noexcept {
  return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_space(c);
}

// The character that JSON writes after a backslash, 0 for none, 'u' for a control character without
// a letter.
unsigned char escape(unsigned char c) noexcept {
  constexpr unsigned char kEscapes[][2] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                           {'\t', 't'}, {'\f', 'f'},  {'\b', 'b'}};
  for (const auto& row : kEscapes)
    if (row[0] == c) return row[1];
  return c < 0x20 ? 'u' : 0;
}

}  // namespace

bool equal(Piece a, Piece b) noexcept {
  if (a.bytes != b.bytes) return false;
  work(a.bytes);
  return a.bytes == 0 || std::memcmp(a.text, b.text, a.bytes) == 0;
}

bool starts(Piece text, Piece with) noexcept {
  return text.bytes >= with.bytes && equal({text.text, with.bytes}, with);
}

bool ends(Piece text, Piece with) noexcept {
  return text.bytes >= with.bytes &&
         equal({text.text + (text.bytes - with.bytes), with.bytes}, with);
}

int compare(Piece a, Piece b) noexcept {
  const std::size_t n = a.bytes < b.bytes ? a.bytes : b.bytes;
  work(n);
  const int order = n == 0 ? 0 : std::memcmp(a.text, b.text, n);
  return order != 0 ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

// Two-way string matching (Crochemore and Perrin 1991): `what` is cut at a critical place; its
// right part is compared first, then its left part. Linear time and no memory. What the paper
// remembers of a part that is equal already is only needed to find them all: where the right part
// is there, and again a period on, all of it is.
std::size_t find(Piece text, Piece what, std::size_t from) noexcept {
  const std::size_t n = what.bytes;
  if (n > text.bytes || from > text.bytes - n) return kNowhere;
  if (n == 0) return from;
  const Suffix up = greatest_suffix(what, false), down = greatest_suffix(what, true);
  const Suffix& cut = up.begin > down.begin ? up : down;
  work(cut.begin);
  const bool periodic =
      cut.begin + cut.period <= n && std::memcmp(what.text, what.text + cut.period, cut.begin) == 0;
  const std::size_t longer = cut.begin > n - cut.begin ? cut.begin : n - cut.begin;
  const std::size_t period = periodic ? cut.period : longer + 1;
  for (std::size_t at = from; at <= text.bytes - n;) {
    const unsigned char* const here = text.text + at;
    std::size_t i = cut.begin, left = cut.begin;
    while (i < n && what.text[i] == here[i]) ++i;
    work(i - cut.begin + 1);
    if (i < n) {
      at += i - cut.begin + 1;
      continue;
    }
    while (left > 0 && what.text[left - 1] == here[left - 1]) --left;
    work(cut.begin - left + 1);
    if (left == 0) return at;
    at += period;
  }
  return kNowhere;
}

std::size_t characters(Piece text) noexcept {
  std::size_t n = 0;
  work(text.bytes);
  for (std::size_t i = 0; i < text.bytes; ++i) n += (text.text[i] & 0xC0) != 0x80 ? 1u : 0u;
  return n;
}

Piece strip(Piece text, const Piece* chars, std::uint32_t sides, Budget* budget) noexcept {
  const std::uint64_t each = 1 + std::uint64_t{chars != nullptr ? chars->bytes : 0};
  while ((sides & kStripLeft) != 0 && text.bytes != 0 && budget->take(each)) {
    const pieces::Char c = pieces::char_at(text.text, text.bytes);
    work();
    if (!taken({text.text, c.bytes}, c.code, chars)) break;
    text = {text.text + c.bytes, text.bytes - c.bytes};
  }
  while ((sides & kStripRight) != 0 && text.bytes != 0 && budget->take(each)) {
    const pieces::Char c = pieces::char_before(text.text, text.bytes);
    work();
    if (!taken({text.text + (text.bytes - c.bytes), c.bytes}, c.code, chars)) break;
    text.bytes -= c.bytes;
  }
  return text;
}

Splitter::Splitter(Piece text, const Piece* separator, std::int64_t most) noexcept
    : rest_(text), separator_(separator), left_(most) {
  if (separator == nullptr) rest_ = strip_front(text);
}

bool Splitter::next(Piece* part) noexcept {
  if (done_ || (separator_ == nullptr && rest_.bytes == 0)) return false;
  std::size_t end = kNowhere, after = 0;
  if (left_ != 0 && separator_ != nullptr) {
    end = find(rest_, *separator_, 0);
    after = end + separator_->bytes;
  } else if (left_ != 0) {
    for (std::size_t i = 0; i < rest_.bytes && end == kNowhere;) {
      const pieces::Char c = pieces::char_at(rest_.text + i, rest_.bytes - i);
      work();
      if (is_space(c.code)) after = end = i;
      i += c.bytes;
    }
  }
  if (left_ > 0) --left_;
  if (end == kNowhere) {
    *part = rest_;
    return done_ = true;
  }
  *part = {rest_.text, end};
  rest_ = {rest_.text + after, rest_.bytes - after};
  if (separator_ == nullptr) rest_ = strip_front(rest_);
  return true;
}

std::size_t replace(unsigned char* out, Piece text, Piece old, Piece with) noexcept {
  const std::size_t most = kNowhere - 1 - text.bytes;
  std::size_t from = 0, bytes = 0, added = 0;
  const auto put = [&](Piece piece) noexcept {
    if (out != nullptr) copy(out + bytes, piece);
    bytes += piece.bytes;
  };
  for (;;) {
    const std::size_t at = find(text, old, from), end = at == kNowhere ? text.bytes : at;
    work(end - from + with.bytes);
    put({text.text + from, end - from});
    if (at == kNowhere) return bytes;
    if (with.bytes > most - added) return kNowhere;
    added += with.bytes;
    put(with);
    from = at + old.bytes;
  }
}

bool is_ascii(Piece text) noexcept {
  work(text.bytes);
  for (std::size_t i = 0; i < text.bytes; ++i)
    if (text.text[i] >= 0x80) return false;
  return true;
}

void change_case(unsigned char* out, Piece text, std::uint32_t how) noexcept {
  work(text.bytes);
  for (std::size_t i = 0; i < text.bytes; ++i) {
    const unsigned char c = text.text[i];
    const bool first = how == kCapitalize     ? i == 0
                       : how == kTitleWords   ? i == 0 || parts_words(text.text[i - 1])
                       : how == kTitleLetters ? i == 0 || !is_letter(text.text[i - 1])
                                              : how == kUpper;
    out[i] = first ? upper(c) : lower(c);
  }
}

std::size_t write_json(unsigned char* out, Piece text) noexcept {
  constexpr char kHex[] = "0123456789abcdef";
  if (text.bytes > kNowhere / 8) return kNowhere;
  std::size_t bytes = 0;
  const auto put = [&](int c) noexcept {
    if (out != nullptr) out[bytes] = static_cast<unsigned char>(c);
    ++bytes;
  };
  work(text.bytes);
  put('"');
  for (std::size_t i = 0; i < text.bytes; ++i) {
    const unsigned char c = text.text[i], e = escape(c);
    if (e != 0) put('\\');
    put(e != 0 ? e : c);
    if (e != 'u') continue;
    put('0');
    put('0');
    put(kHex[c >> 4]);
    put(kHex[c & 15]);
  }
  put('"');
  return bytes;
}

Piece write_number(unsigned char* digits, std::int64_t value) noexcept {
  std::size_t at = kDigits;
  std::int64_t rest = value < 0 ? -value : value;
  do digits[--at] = static_cast<unsigned char>('0' + rest % 10);
  while ((rest /= 10) != 0);
  if (value < 0) digits[--at] = '-';
  return {digits + at, kDigits - at};
}

}  // namespace chat
}  // namespace phasor
