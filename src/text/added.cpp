// Finding added tokens, in the way of the tokenizers package. Includes the tokenizer's own headers
// only; never allocates.
#include "added.h"

#include "chars.h"

namespace phasor::pieces {

AddedSplit::AddedSplit(const Tokenizer& t, const unsigned char* text, size_t bytes, bool normalized)
    : t_(t),
      text_(text),
      bytes_(bytes),
      first_(normalized ? t.added_plain : 0),
      last_(normalized ? t.added_count : t.added_plain),
      merged_(normalized && (t.flags & (kMergeSpaces | kMergeToSpace)) == kMergeSpaces),
      starts_(normalized ? 8 : 0) {
  if (first_ == last_) search_ = bytes;
  empty_ = bytes != 0 && first_ != last_ && added_row(t, first_).length() == 0;
}

bool AddedSplit::begins(uint32_t byte) const {
  return (u32_at(t_.added, starts_ + (byte >> 5)) >> (byte & 31) & 1) != 0;
}

// The row of the longest token that the text at `at` begins with, or kNoToken; *read: the end of
// what some token begins with.
uint32_t AddedSplit::longest(size_t at, size_t* read) const {
  work();
  *read = at;
  if (at == bytes_) return kNoToken;
  if (!begins(text_[at])) return kNoToken;
  uint32_t best = kNoToken, first = first_ + (emptied() ? 1 : 0), last = last_;
  for (uint32_t depth = 0; first < last; ++depth) {
    work();
    *read = at + depth;
    // Rows first … last − 1 begin with the same `depth` bytes; one that ends here comes first.
    if (added_row(t_, first).length() == depth) best = first++;
    if (at + depth == bytes_) break;
    const auto below = [&](uint32_t byte) {
      return first_where(first, last, [&](uint32_t i) {
        return t_.text[size_t{added_row(t_, i).offset()} + depth] >= byte;
      });
    };
    const uint32_t byte = text_[at + depth], begin = below(byte);
    last = below(byte + 1);
    first = begin;
  }
  return best;
}

// The row of the next token, which begins at `search_`, or later beside an emptied token: the
// package's automaton then reads on for as long as some token begins with the end of what it has
// read. If it meets no token, it gives the emptied one: where it has last read a byte that no token
// begins with. On its way from any later place to where it gave up it does not meet one either.
uint32_t AddedSplit::next_row() {
  size_t read = search_;
  if (!emptied()) return longest(search_, &read);
  if (search_ < barren_) return first_;
  for (size_t at = search_, end = 0; at <= read; ++at) {
    const uint32_t i = longest(at, &end);
    if (i != kNoToken) {
      search_ = at;
      return i;
    }
    if (end > read) read = end;
  }
  barren_ = read;
  const auto inside = [this](size_t at) { return at < bytes_ && (text_[at] & 0xC0) == 0x80; };
  while (read > search_ && (begins(text_[read - 1]) || inside(read))) --read;
  search_ = read;
  return first_;
}

bool AddedSplit::space_before(size_t at, size_t* bytes) const {
  const Char c = char_before(text_, at);
  *bytes = c.bytes;
  const bool two = c.code == ' ' && at > 1 && text_[at - 2] == ' ';
  return !(merged_ && two) && (classes(t_, c.code) & kSpace) != 0;
}

bool AddedSplit::space_at(size_t at, size_t* bytes) const {
  const Char c = char_at(text_ + at, bytes_ - at);
  *bytes = c.bytes;
  const bool two = c.code == ' ' && at + 1 < bytes_ && text_[at + 1] == ' ';
  return !(merged_ && two) && (classes(t_, c.code) & kSpace) != 0;
}

size_t AddedSplit::skip_spaces(size_t at) {
  // or many tokens before one long space would take long
  if (at < spaces_end_) return spaces_end_;
  for (size_t bytes = 0; at < bytes_ && space_at(at, &bytes);) at += bytes;
  return spaces_end_ = at;
}

bool AddedSplit::find() {
  while (search_ < bytes_ + (emptied() ? 1 : 0)) {
    const uint32_t i = next_row();
    if (i == kNoToken || (added_row(t_, i).length() == 0 && search_ == matched_)) {
      const bool by_char = emptied() && search_ < bytes_;
      search_ += by_char ? char_at(text_ + search_, bytes_ - search_).bytes : 1;
      continue;
    }
    const AddedRow row = added_row(t_, i);
    size_t begin = search_, end = search_ + row.length();
    search_ = matched_ = end;
    const auto word = [this](Char c) { return (classes(t_, c.code) & kWord) != 0; };
    if ((row.flags() & kSingleWord) != 0) {
      if (begin > 0 && word(char_before(text_, begin))) continue;
      if (end < bytes_ && word(char_at(text_ + end, bytes_ - end))) continue;
    }
    if ((row.flags() & kStripLeft) != 0) {
      for (size_t bytes = 0; begin > done_ && space_before(begin, &bytes);) begin -= bytes;
      if (begin < done_) begin = done_;
    }
    if ((row.flags() & kStripRightOf) != 0) end = skip_spaces(end);
    match_ = {begin, end, row.id()};
    return true;
  }
  return false;
}

bool AddedSplit::next(Stretch* out) {
  while (pending_ || find()) {
    if (!pending_ && done_ < match_.begin) {
      pending_ = true;
      *out = {done_, match_.begin, kNoToken};
      done_ = match_.begin;
      return true;
    }
    pending_ = false;
    *out = match_;
    done_ = match_.end;
    // else another token's white space swallowed it, or it is empty
    if (match_.begin < match_.end) return true;
  }
  if (done_ >= bytes_) return false;
  *out = {done_, bytes_, kNoToken};
  done_ = bytes_;
  return true;
}

}  // namespace phasor::pieces
