#include "sentences.h"

#include <stdint.h>

#include <algorithm>
#include <iterator>

#include "sentence_table.h"

namespace cli {
namespace {

enum class Break : unsigned char {
  carriage_return,
  line_feed,
  separator,
  extend,
  format,
  space,
  lower,
  upper,
  letter,
  number,
  full_stop,  // which may also be of an abbreviation or a number
  goes_on,
  stop,
  close,
  other
};
constexpr unsigned kPairs = 14;  // of a run: upper and lower in turn

struct Run {
  uint32_t first, last;
  unsigned kind;
};

vector<Run> read_table() {
  vector<Run> runs;
  const unsigned char* p = kSentenceBreaks;
  const auto number = [&p] {
    uint32_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
      n |= (*p & 127u) << shift;
      if (*p++ < 128) return n;
    }
  };
  for (uint32_t next = 0; p != std::end(kSentenceBreaks);) {
    const uint32_t first = next + number(), rest = number();
    next = first + rest / 16 + 1;
    runs.push_back({first, next - 1, rest % 16});
  }
  return runs;
}

Break break_of(uint32_t code) {
  static const vector<Run> runs = read_table();
  const auto run = std::lower_bound(runs.begin(), runs.end(), code,
                                    [](const Run& r, uint32_t c) { return r.last < c; });
  if (run == runs.end() || code < run->first) return Break::other;
  if (run->kind != kPairs) return static_cast<Break>(run->kind);
  return (code - run->first) % 2 == 0 ? Break::upper : Break::lower;
}

bool ends_paragraph(Break b) { return b <= Break::separator; }
bool ends_sentence(Break b) { return b == Break::full_stop || b == Break::stop; }
bool is_cased(Break b) { return b == Break::upper || b == Break::lower; }
bool is_ignored(Break b) { return b == Break::extend || b == Break::format; }  // SB5

struct Character {
  size_t at;  // its first byte
  Break of;
};

vector<Character> characters_of(const string& text) {
  vector<Character> all;
  for (size_t at = 0; at < text.size();) {
    const unsigned char lead = uint8_t(text[at]);
    const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t code = bytes == 1 ? lead : lead & (0xFFu >> (bytes + 1));
    for (size_t i = 1; i < bytes; ++i) code = code << 6 | (uint8_t(text[at + i]) & 63u);
    all.push_back({at, break_of(code)});
    at += bytes;
  }
  return all;
}

// The characters so far that matter: a stop, then closing marks, then spaces.
struct Ending {
  enum class Behind { nothing, stop, closing, spaces } behind = Behind::nothing;
  bool full_stop = false, cased = false;  // what stop it was; a cased letter stood before it

  void take(Break b, Break before) {
    if (ends_sentence(b)) {
      behind = Behind::stop;
      full_stop = b == Break::full_stop;
      cased = is_cased(before);
    } else if (b == Break::close && (behind == Behind::stop || behind == Behind::closing)) {
      behind = Behind::closing;
    } else {
      behind = b == Break::space && behind != Behind::nothing ? Behind::spaces : Behind::nothing;
    }
  }
};

// SB8: a lower letter comes before any other letter, stop or end of a paragraph.
bool lower_follows(const vector<Character>& all, size_t i) {
  for (; i < all.size(); ++i) {
    const Break b = all[i].of;
    if (b == Break::lower) return true;
    if (b == Break::upper || b == Break::letter || ends_paragraph(b) || ends_sentence(b))
      return false;
  }
  return false;
}

// Whether a sentence that may have ended goes on with character `i`.
bool goes_on(const vector<Character>& all, size_t i, const Ending& e) {
  using Behind = Ending::Behind;
  const Break b = all[i].of;
  if (e.behind == Behind::nothing) return true;
  if (b == Break::space || ends_paragraph(b) || b == Break::goes_on || ends_sentence(b))
    return true;                                                     // SB8a, SB9, SB10
  if (b == Break::close && e.behind != Behind::spaces) return true;  // SB9
  if (e.full_stop && e.behind == Behind::stop &&
      (b == Break::number ||  // SB6, SB7
       (e.cased && b == Break::upper)))
    return true;
  return e.full_stop && lower_follows(all, i);
}

}  // namespace

vector<size_t> sentence_ends(const string& text) {
  const vector<Character> all = characters_of(text);
  vector<size_t> ends;
  Ending ending;
  Break before = Break::other;  // the last character that is not ignored
  for (size_t i = 0; i < all.size(); ++i) {
    const Break b = all[i].of, last = i != 0 ? all[i - 1].of : Break::other;
    const bool pair = last == Break::carriage_return && b == Break::line_feed;
    const bool paragraph = i != 0 && ends_paragraph(last) && !pair;
    if (is_ignored(b) && i != 0 && !paragraph) continue;
    if (paragraph || (!pair && !goes_on(all, i, ending))) {
      ends.push_back(all[i].at);
      ending = Ending();
      before = Break::other;
    }
    ending.take(b, before);
    before = b;
  }
  if (!text.empty()) ends.push_back(text.size());
  return ends;
}

}  // namespace cli
