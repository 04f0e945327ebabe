#include "text.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "args.h"

namespace cli {
namespace {

bool output_has_failed = false;

bool output_error() {
  if (!output_has_failed)
    data_error("standard output: %s", errno == EBADF ? "is closed" : strerror(errno));
  output_has_failed = true;
  return false;
}

}  // namespace

size_t utf8_length(const char* s, size_t bytes) {
  const auto at = [s](size_t i) { return static_cast<unsigned char>(s[i]); };
  const auto follows = [&](size_t n) {
    for (size_t i = 1; i < n; ++i)
      if ((at(i) & 0xC0) != 0x80) return false;
    return true;
  };
  const unsigned char c = at(0);
  if (c < 0x80) return 1;
  const size_t n = c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;
  if (n == 0 || n > bytes || !follows(n)) return 0;
  const unsigned char d = at(1);
  if ((c == 0xE0 && d < 0xA0) || (c == 0xED && d > 0x9F) || (c == 0xF0 && d < 0x90) ||
      (c == 0xF4 && d > 0x8F))
    return 0;
  return n;
}

size_t utf8_end(const char* s, size_t bytes) {
  size_t i = 0;
  while (i < bytes) {
    const size_t n = utf8_length(s + i, bytes - i);
    if (n == 0) break;
    i += n;
  }
  return i;
}

bool LineReader::read(bool to_the_end) {
  line_.clear();
  bytes_ = 0;
  int c;
  while ((c = getc_unlocked(stdin)) != EOF && (to_the_end || c != '\n')) {
    ++bytes_;
    if (line_.size() < kLongest) line_ += static_cast<char>(c);
  }
  if (ferror(stdin)) {
    failed_ = true;
    data_error("standard input: %s", errno == EBADF ? "is closed" : strerror(errno));
    return false;
  }
  if (c == EOF && bytes_ == 0) return false;
  if (number_++ == 0 && line_.compare(0, 3, "\xEF\xBB\xBF") == 0) line_.erase(0, 3), bytes_ -= 3;
  return true;
}

bool LineReader::next() {
  if (!read(false)) return false;
  if (!line_.empty() && line_.size() == bytes_ && line_.back() == '\r') line_.pop_back(), --bytes_;
  return true;
}

bool LineReader::whole() {
  if (!read(true)) return false;
  std::string kept;
  for (size_t i = 0; i < line_.size(); ++i)
    if (line_[i] != '\r' || i + 1 == line_.size() || line_[i + 1] != '\n') kept += line_[i];
  if (!kept.empty() && kept.back() == '\n') kept.pop_back();
  bytes_ -= line_.size() - kept.size();
  line_.swap(kept);
  return true;
}

bool output(const char* text, size_t bytes) {
  if (output_has_failed) return false;
  return fwrite(text, 1, bytes, stdout) == bytes || output_error();
}
bool output(const std::string& text) { return output(text.data(), text.size()); }
bool output_flush() {
  if (output_has_failed) return false;
  return (fflush(stdout) == 0 && !ferror(stdout)) || output_error();
}
// A system may keep a full disk to itself until a file is closed.
bool output_close() {
  return output_flush() && (close(STDOUT_FILENO) == 0 || errno == EINTR || output_error());
}
bool output_failed() { return output_has_failed; }

std::string grouped(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string join(const std::vector<uint32_t>& ids) {
  std::string out;
  for (uint32_t id : ids) out += (out.empty() ? "" : ",") + std::to_string(id);
  return out;
}

}  // namespace cli
