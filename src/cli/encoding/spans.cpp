#include "spans.h"

namespace cli {
namespace {

constexpr size_t kLongestStretch = 1 << 13;  // bytes
constexpr size_t kNowhere = string::npos;

bool continues(const string& text, size_t at) { return (text[at] & 0xC0) == 0x80; }

size_t next_character(const string& text, size_t at) {
  for (++at; at < text.size() && continues(text, at);) ++at;
  return at;
}

// Bytes of the white space that begins at `at` (White_Space of Unicode), 0 where none does.
size_t space_at(const string& text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? uint8_t(text[at + i]) : 0u; };
  const uint32_t a = byte(0);
  if (a == ' ' || (a >= 9 && a <= 13)) return 1;
  if (a == 0xC2) return byte(1) == 0x85 || byte(1) == 0xA0 ? 2 : 0;
  if (a < 0xE1 || a > 0xE3) return 0;
  const uint32_t code = (a & 15) << 12 | (byte(1) & 63) << 6 | (byte(2) & 63);
  const bool one = code == 0x1680 || code == 0x2028 || code == 0x2029 || code == 0x202F ||
                   code == 0x205F || code == 0x3000;
  return one || (code >= 0x2000 && code <= 0x200A) ? 3 : 0;
}

// The end of the stretch that begins at `at`: white space, and what follows up to the next.
size_t stretch_end(const string& text, size_t at) {
  for (size_t n = 1; at < text.size() && n != 0; at += n) n = space_at(text, at);
  while (at < text.size() && space_at(text, at) == 0) at = next_character(text, at);
  return at;
}

// Where the text that has the tokens up to one may end: at the first place, and at the last.
struct End {
  size_t first = kNowhere, last = 0;
};

struct Finder {
  const Engine& e;
  uint32_t side;
  const string& text;
  const uint32_t* ids;  // (count)
  size_t count;
  uint32_t unknown;
  vector<End> ends;  // (count + 1) before the first token, then of each

  bool encode(size_t begin, size_t end, TokenIds* out, string* why) const {
    return text_ids(e, side, false, text.substr(begin, end - begin), out, why);
  }
  // White space, or what the tokenizer takes away.
  bool is_nothing(size_t begin, size_t end) const {
    TokenIds some;
    string why;
    return space_at(text, begin) != 0 || (encode(begin, end, &some, &why) && some.empty());
  }
  // Whether the ids from `first` on are these, as far as there are any.
  bool same(const TokenIds& some, size_t first) const {
    return std::equal(some.data(), some.data() + min(some.size(), count - first), ids + first);
  }
  // Of the tokens of a stretch, the first of which is `first`.
  bool look(size_t begin, size_t end, size_t first, string* why) {
    TokenIds some;
    for (size_t at = begin; at < end;) {
      at = next_character(text, at);
      if (!encode(begin, at, &some, why)) return false;
      if (some.size() > count - first || !same(some, first)) continue;
      End& end_of = ends[first + some.size()];
      end_of.first = min(end_of.first, at);
      end_of.last = at;
    }
    return true;
  }
  // Stretch by stretch. *whole: the ids are not those of the stretches.
  bool look_at_stretches(bool* whole, string* why) {
    TokenIds some;
    size_t first = 0;
    for (size_t begin = 0, end = 0; begin < text.size() && first < count; begin = end) {
      end = stretch_end(text, begin);
      if (!encode(begin, end, &some, why)) return false;
      *whole = !same(some, first) || end - begin > kLongestStretch;
      if (*whole) return true;
      if (!look(begin, end, first, why)) return false;
      first += some.size();
    }
    *whole = first < count;
    return true;
  }
  // False: a token has no place.
  bool spans(vector<Span>* out) const {
    for (size_t i = 0, before = ends[0].last; i < count; ++i) {
      size_t known = i + 1;  // the token at or behind this one that ends where a character does
      while (known <= count && ends[known].first == kNowhere) ++known;
      if (known > count) return false;
      // an unknown word has the same id from its first character on
      const bool word = ids[known - 1] == unknown;
      Span s{before, word ? ends[known].last : ends[known].first};
      while (s.begin < s.end && text[s.begin] == ' ') ++s.begin;
      while (s.end > s.begin) {
        size_t last = s.end - 1;
        while (last > s.begin && continues(text, last)) --last;
        if (text[last] != ' ' && !(word && is_nothing(last, s.end))) break;
        s.end = last;
      }
      out->push_back(s);
      if (known == i + 1) before = ends[known].last;
    }
    return true;
  }
};

}  // namespace

bool token_spans(const Engine& e, uint32_t side, const string& text, const uint32_t* ids,
                 size_t count, vector<Span>* spans, string* why) {
  const uint32_t unknown = e.source.unknown;
  Finder finder{e, side, text, ids, count, unknown, vector<End>(count + 1)};
  bool whole = false;
  spans->clear();
  if (!finder.look_at_stretches(&whole, why)) return false;
  if (whole && text.size() > kLongestStretch)
    return *why =
               format("a stretch of more than %zu bytes, whose tokens' places are not looked for",
                      kLongestStretch),
           false;
  if (whole) {
    finder.ends.assign(count + 1, End{});
    if (!finder.look(0, text.size(), 0, why)) return false;
  }
  if (finder.spans(spans)) return true;
  return *why = "a token has no place in the text", false;
}

size_t characters(const string& text, size_t at) {
  size_t count = 0;
  for (size_t i = 0; i < at; ++i) count += !continues(text, i);
  return count;
}

}  // namespace cli
