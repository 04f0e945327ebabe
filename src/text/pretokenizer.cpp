// The steps that cut text into words: regular expressions of published tokenizers as code, each
// alternative in its order, each character looked at a bounded number of times. Includes the
// tokenizer's own headers only; never allocates.
//
// Every function takes the place where the stretch before ended and gives the end of the next: of a
// match that begins there, or of the text before the next match.
#include "pretokenizer.h"

#include "chars.h"

namespace phasor::pieces {
namespace {

// classes that kO200k, kQwen35, kDeepseek3 ask for
constexpr uint32_t kUpper = 16, kLower = 32, kMark = 64, kSign = 128;
constexpr uint32_t kAll = kSpace | kLetter | kNumber;

struct Reader {
  const Tokenizer& t;
  const unsigned char* text;
  size_t n;

  // The classes of the character at `at`, whose bytes go to `*bytes`.
  uint32_t at(size_t at, uint32_t* bytes) const {
    work();
    const Char c = char_at(text + at, n - at);
    *bytes = c.bytes;
    return classes(t, c.code);
  }
  uint32_t at(size_t at_) const {
    uint32_t bytes = 0;
    return at_ < n ? at(at_, &bytes) : 0;
  }

  // The end of the characters from `at` on whose classes among `mask` are `wanted`.
  size_t run(size_t at_, uint32_t mask, uint32_t wanted) const {
    for (uint32_t bytes = 0; at_ < n && (at(at_, &bytes) & mask) == wanted; at_ += bytes) {
    }
    return at_;
  }
  // The end of those, `most` at most, that have some class of `mask`.
  size_t run_of(size_t at_, uint32_t mask, size_t most = ~size_t{0}) const {
    for (uint32_t bytes = 0; most > 0 && at_ < n && (at(at_, &bytes) & mask) != 0; at_ += bytes)
      --most;
    return at_;
  }
  bool line_break(size_t at_) const { return at_ < n && (text[at_] == '\r' || text[at_] == '\n'); }
};

enum class Contractions : unsigned char { none, lower, plain, folded };

// 's 't 're 've 'm 'll 'd: the bytes of the one that begins at `at`, or 0. In either case but for
// `lower`; with `folded`, U+017F is an s.
size_t contraction(const Reader& r, size_t at, Contractions which) {
  const size_t left = r.n - at;
  if (which == Contractions::none || left < 2 || r.text[at] != '\'') return 0;
  const unsigned char fold = which == Contractions::lower ? 0 : 0x20;
  const auto letter = [&](size_t i) -> unsigned char {
    const unsigned char c = i < left ? r.text[at + i] : 0;
    return c >= 'A' && c <= 'Z' ? static_cast<unsigned char>(c | fold) : c;
  };
  const unsigned char a = letter(1), b = letter(2);
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return 3;
  return which == Contractions::folded && a == 0xC5 && b == 0xBF ? 3 : 0;
}

// \s+(?!\S)|\s+ — white space up to the stretch's end, else all but its last character if there is
// more than one. The first is not asked: a damaged section may say that it is none.
size_t white_space(const Reader& r, size_t at) {
  uint32_t bytes = 0;
  size_t last = at;
  r.at(at, &bytes);
  for (size_t next = at + bytes; next < r.n; next += bytes) {
    if ((r.at(next, &bytes) & kSpace) == 0) return last > at ? last : next;
    last = next;
  }
  return r.n;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ — white space up to its last line break first.
size_t lines_or_white_space(const Reader& r, size_t at) {
  uint32_t bytes = 0;
  size_t behind = at;
  for (size_t next = at; next < r.n && (r.at(next, &bytes) & kSpace) != 0; next += bytes) {
    if (r.line_break(next)) behind = next + bytes;
  }
  return behind > at ? behind : white_space(r, at);
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t gpt2(const Reader& r, size_t at) {
  if (const size_t bytes = contraction(r, at, Contractions::lower)) return at + bytes;
  const size_t begin = r.text[at] == ' ' ? at + 1 : at;
  uint32_t bytes = 0;
  if (begin < r.n) {
    const uint32_t of = r.at(begin, &bytes) & kAll;
    if ((of & kSpace) == 0) return r.run(begin + bytes, kAll, of);
  }
  return white_space(r, at);
}

// What Llama 3, Qwen2 and their like have in common.
struct Form {
  Step step;
  uint8_t letters;              // classes of a word's characters
  uint8_t digits;               // so many numbers are a word at most
  Contractions before, behind;  // contractions that are words, or that end a word
  bool cased;                   // a word is upper case, then lower case
  bool breaks;                  // signs take the line breaks behind them,
  bool slashes;                 // and slashes
  bool whole_end;               // white space up to the stretch's end is one word, lines or not
};
constexpr Contractions kNone = Contractions::none, kPlain = Contractions::plain,
                       kFolded = Contractions::folded;
constexpr Form kForms[] = {
    {kLlama3, kLetter, 3, kFolded, kNone, false, true, false, false},
    {kQwen2, kLetter, 1, kFolded, kNone, false, true, false, false},
    {kO200k, kLetter, 3, kNone, kFolded, true, true, true, false},
    {kTekken, kLetter, 1, kNone, kNone, true, true, true, false},
    {kQwen35, kLetter | kMark, 1, kFolded, kNone, false, true, false, false},
    {kLlama3Plain, kLetter, 3, kPlain, kNone, false, true, false, false},
    {kQwen2Plain, kLetter, 1, kPlain, kNone, false, true, false, false},
    {kSeed, kLetter, 1, kFolded, kNone, false, false, false, false},
    {kCl100k, kLetter, 3, kFolded, kNone, false, true, false, true},
};

// U*L+ where U is kUpper and L kLower, which share characters: the end of the match that a search
// with backtracking finds, or `at`: L+ gets the character behind U*, or U* gives back its last one
// that is in L too.
size_t upper_then_lower(const Reader& r, size_t at, size_t* upper_end) {
  size_t end = at, behind_both = at;
  for (uint32_t bytes = 0; end < r.n; end += bytes) {
    const uint32_t of = r.at(end, &bytes);
    if ((of & kUpper) == 0) break;
    if ((of & kLower) != 0) behind_both = end + bytes;
  }
  *upper_end = end;
  const size_t lower_end = r.run_of(end, kLower);
  return lower_end > end ? lower_end : behind_both;
}

// [^\r\n\p{L}\p{N}]?U*L+|[^\r\n\p{L}\p{N}]?U+L* — the end of the match at `at`, whose first
// character may be `before` a word.
size_t cased_word(const Reader& r, size_t at, bool may_be_before, uint32_t bytes) {
  size_t upper_behind = at, upper = at;
  if (may_be_before) {
    const size_t end = upper_then_lower(r, at + bytes, &upper_behind);
    if (end > at + bytes) return end;
  }
  const size_t end = upper_then_lower(r, at, &upper);
  if (end > at) return end;
  // U+ alone: no L is in it
  return may_be_before && upper_behind > at + bytes ? upper_behind : upper;
}

// [^\r\n\p{L}\p{N}]?\p{L}+
size_t plain_word(const Reader& r, size_t at, bool may_be_before, uint32_t bytes,
                  uint32_t letters) {
  if (may_be_before) {
    const size_t end = r.run_of(at + bytes, letters);
    if (end > at + bytes) return end;
  }
  return r.run_of(at, letters);
}

size_t llama(const Reader& r, size_t at, const Form& form) {
  if (const size_t bytes = contraction(r, at, form.before)) return at + bytes;
  uint32_t bytes = 0;
  const uint32_t of = r.at(at, &bytes);
  const bool may_be_before = (of & (kLetter | kNumber)) == 0 && !r.line_break(at);
  const size_t word = form.cased ? cased_word(r, at, may_be_before, bytes)
                                 : plain_word(r, at, may_be_before, bytes, form.letters);
  if (word > at) return word + contraction(r, word, form.behind);
  if ((of & kNumber) != 0) return r.run_of(at, kNumber, form.digits);
  const size_t begin = r.text[at] == ' ' ? at + 1 : at;
  size_t end = r.run(begin, kAll | form.letters, 0);
  if (end == begin) {
    const size_t spaces = form.whole_end ? r.run_of(at, kSpace) : 0;
    return spaces == r.n ? r.n : lines_or_white_space(r, at);
  }
  while (form.breaks && (r.line_break(end) || (form.slashes && end < r.n && r.text[end] == '/')))
    ++end;
  return end;
}

bool ascii_letter(unsigned char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool ascii_sign(unsigned char c) {
  return c > ' ' && c < 0x7F && !ascii_letter(c) && (c < '0' || c > '9');
}

// [!-/:-@[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|
// ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ — or `at`.
size_t deepseek3(const Reader& r, size_t at) {
  size_t end = at + 1;
  while (ascii_sign(r.text[at]) && end < r.n && ascii_letter(r.text[end])) ++end;
  if (end > at + 1) return end;
  uint32_t bytes = 0;
  const uint32_t of = r.at(at, &bytes);
  const bool may_be_before = (of & (kLetter | kSign)) == 0 && !r.line_break(at);
  end = plain_word(r, at, may_be_before, bytes, kLetter | kMark);
  if (end > at) return end;
  const size_t begin = r.text[at] == ' ' ? at + 1 : at;
  end = r.run_of(begin, kSign);
  if (end > begin) {
    while (r.line_break(end)) ++end;
    return end;
  }
  return (of & kSpace) != 0 ? lines_or_white_space(r, at) : at;
}

// \s+$ — or `at`, and then `*skip` is where a match may begin next.
size_t line_end(const Reader& r, size_t at, size_t* skip) {
  const size_t end = r.run_of(at, kSpace);
  if (end > at && end < r.n) *skip = end;
  return end == r.n ? end : at;
}

// GPT-2's letters for these bytes are numbers: 0 … 9, ², ³, ¹, ¼, ½, ¾.
bool byte_digit(unsigned char byte) {
  return (byte >= '0' && byte <= '9') || byte == 0xB2 || byte == 0xB3 || byte == 0xB9 ||
         (byte >= 0xBC && byte <= 0xBE);
}

size_t byte_digits(const Reader& r, size_t at, bool one) {
  if (one) return byte_digit(r.text[at]) ? at + 1 : at;
  while (at < r.n && byte_digit(r.text[at])) ++at;
  return at;
}

// A run of the characters of one class, in one of the forms of RunForm; or `at`.
size_t class_run(const Reader& r, size_t at, uint32_t step) {
  const uint32_t of = 1u << (step & 15);
  const RunForm form = static_cast<RunForm>(step >> 4 & 7);
  switch (form) {
    case RunForm::any:
      return r.run_of(at, of);
    case RunForm::one:
      return r.run_of(at, of, 1);
    case RunForm::up_to_three:
      return r.run_of(at, of, 3);
    case RunForm::three: {
      const size_t two = r.run_of(at, of, 2), end = r.run_of(two, of, 1);
      return end > two ? end : at;
    }
    case RunForm::after_space:
    case RunForm::after_blank: {
      uint32_t bytes = 0;
      const bool space = (r.at(at, &bytes) & kSpace) != 0;
      const size_t begin =
                       (form == RunForm::after_space ? space : r.text[at] == ' ') ? at + bytes : at,
                   end = r.run_of(begin, of);
      return end > begin ? end : r.run_of(at, of);
    }
    default:
      return at;
  }
}

// Steps that do not match every text: the end of the match at `at`, or `at`.
size_t match(const Reader& r, size_t at, uint32_t step, size_t* skip) {
  if (step >= kRunStep) return class_run(r, at, step);
  if (step == kDeepseek3) return deepseek3(r, at);
  if (step == kLineEnd) return line_end(r, at, skip);
  return byte_digits(r, at, step == kByteDigit);
}

}  // namespace

bool Words::next(size_t* begin, size_t* end) {
  while (at_ < n_) {
    size_t limit = n_;
    bool entered = at_ == 0, removed = false;  // whether the stretch around is another one
    Pattern pattern{patterns_};
    unsigned char* memo = memo_;
    for (uint32_t i = 0; step(i) != 0 && !removed; ++i) {
      const bool cuts = kHasPatterns && step(i) == kPatternStep;
      if (entered && cuts) cuts_[i].enter(at_, limit);
      if (ends_[i] <= at_) {
        ends_[i] = cuts ? cuts_[i].next(pattern, text_, memo, &removed)
                        : end_of_stretch(step(i), at_, limit);
        entered = true;
      }
      limit = ends_[i];
      if (!cuts) continue;
      if (pattern.slots() != 0) memo += n_;
      pattern.p += pattern.bytes();
    }
    *begin = at_;
    *end = at_ = limit;
    if (!removed) return true;
  }
  return false;
}

size_t Words::end_of_stretch(uint32_t step, size_t at, size_t limit) const {
  const Reader r{t_, text_, limit};
  if (step == kWhole) return limit;
  if (step == kGpt2) return gpt2(r, at);
  for (const Form& form : kForms)
    if (form.step == step) return llama(r, at, form);
  const bool bytewise = step == kByteDigits || step == kByteDigit;
  for (size_t begin = at; begin < limit;) {
    work();
    size_t skip = begin;
    const size_t end = match(r, begin, step, &skip);
    if (end > begin) return begin > at ? begin : end;
    begin =
        skip > begin ? skip : begin + (bytewise ? 1 : char_at(text_ + begin, limit - begin).bytes);
  }
  return limit;
}

}  // namespace phasor::pieces
