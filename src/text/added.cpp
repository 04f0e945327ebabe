// Finding added tokens, in the way of the tokenizers package. Includes the tokenizer's own headers
// only; never allocates.
#include "added.h"

#include "chars.h"

namespace phasor {
namespace pieces {

AddedSplit::AddedSplit(const Tokenizer& t, const unsigned char* text, std::size_t bytes,
                       bool normalized) noexcept
    : t_(t),
      text_(text),
      bytes_(bytes),
      first_(normalized ? t.added_plain : 0),
      last_(normalized ? t.added_count : t.added_plain),
      merged_(normalized && (t.flags & (kMergeSpaces | kMergeToSpace)) == kMergeSpaces),
      starts_(t.added + (normalized ? 32 : 0)) {
  if (first_ == last_) search_ = bytes;
}

// The row of the longest token that the text at `at` begins with, or kNoToken.
std::uint32_t AddedSplit::longest(std::size_t at) const noexcept {
  work();
  const std::uint32_t lead = text_[at];
  if ((load_u32(starts_ + (lead >> 5) * 4) >> (lead & 31) & 1) == 0) return kNoToken;
  std::uint32_t best = kNoToken, first = first_, last = last_;
  for (std::uint32_t depth = 0; first < last; ++depth) {
    work();
    // Rows first … last − 1 begin with the same `depth` bytes; one that ends here comes first.
    if (added_row(t_, first).length() == depth) best = first++;
    if (at + depth == bytes_) break;
    const auto below = [&](std::uint32_t byte) noexcept {
      std::uint32_t low = first, high = last;
      while (low < high) {
        work();
        const std::uint32_t middle = low + (high - low) / 2;
        if (t_.text[std::size_t{added_row(t_, middle).offset()} + depth] < byte)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    const std::uint32_t byte = text_[at + depth], begin = below(byte);
    last = below(byte + 1);
    first = begin;
  }
  return best;
}

bool AddedSplit::space_before(std::size_t at, std::size_t* bytes) const noexcept {
  const Char c = char_before(text_, at);
  *bytes = c.bytes;
  if (merged_ && c.code == ' ' && at > 1 && text_[at - 2] == ' ') return false;
  return (classes(t_, c.code) & kSpace) != 0;
}

bool AddedSplit::space_at(std::size_t at, std::size_t* bytes) const noexcept {
  const Char c = char_at(text_ + at, bytes_ - at);
  *bytes = c.bytes;
  if (merged_ && c.code == ' ' && at + 1 < bytes_ && text_[at + 1] == ' ') return false;
  return (classes(t_, c.code) & kSpace) != 0;
}

std::size_t AddedSplit::skip_spaces(std::size_t at) noexcept {
  // or many tokens before one long space would take long
  if (at >= spaces_begin_ && at < spaces_end_) return spaces_end_;
  spaces_begin_ = at;
  for (std::size_t bytes = 0; at < bytes_ && space_at(at, &bytes);) at += bytes;
  return spaces_end_ = at;
}

bool AddedSplit::find() noexcept {
  while (search_ < bytes_) {
    const std::uint32_t i = longest(search_);
    if (i == kNoToken) {
      ++search_;
      continue;
    }
    const AddedRow row = added_row(t_, i);
    std::size_t begin = search_, end = search_ + row.length();
    search_ = end;
    const auto word = [this](Char c) noexcept { return (classes(t_, c.code) & kWord) != 0; };
    if ((row.flags() & kSingleWord) != 0) {
      if (begin > 0 && word(char_before(text_, begin))) continue;
      if (end < bytes_ && word(char_at(text_ + end, bytes_ - end))) continue;
    }
    if ((row.flags() & kStripLeft) != 0) {
      for (std::size_t bytes = 0; begin > done_ && space_before(begin, &bytes);) begin -= bytes;
      if (begin < done_) begin = done_;
    }
    if ((row.flags() & kStripRightOf) != 0) end = skip_spaces(end);
    match_ = {begin, end, row.id()};
    return true;
  }
  return false;
}

bool AddedSplit::next(Stretch* out) noexcept {
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
    if (match_.begin < match_.end) return true;  // else another token's white space swallowed it
  }
  if (done_ >= bytes_) return false;
  *out = {done_, bytes_, kNoToken};
  done_ = bytes_;
  return true;
}

}  // namespace pieces
}  // namespace phasor
