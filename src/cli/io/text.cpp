#include "text.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
#if __has_include(<poll.h>)
#include <poll.h>
#endif

#include "../host/mapping.h"

namespace cli {
namespace {

constexpr size_t kHeld = size_t{1} << 16;  // bytes that are read or written at a time

bool output_has_failed = false;
string output_held;     // printed, and not written yet
int seen_at_once = -1;  // by who sits at the terminal
bool progress_shown = false;

bool output_error() {
  if (!output_has_failed)
    data_error("standard output: %s", errno == EBADF ? "is closed" : strerror(errno));
  output_has_failed = true;
  return false;
}

}  // namespace

size_t utf8_length(const char* s, size_t bytes) {
  const auto at = [s](size_t i) { return uint8_t(s[i]); };
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

bool is_utf8(const string& text, string* why) {
  for (size_t i = 0, length = 0; i < text.size(); i += length) {
    length = utf8_length(text.data() + i, text.size() - i);
    if (length == 0) return *why = format("invalid UTF-8 at byte %zu", i), false;
  }
  return true;
}

// As a terminal's, the end of standard input is one for ever.
void LineReader::fill() {
  held_.erase(0, at_);
  at_ = 0;
  const size_t had = held_.size();
  held_.resize(had + kHeld);
  ssize_t n;
  do n = ::read(STDIN_FILENO, &held_[had], kHeld);
  while (n < 0 && errno == EINTR);
  ended_ = n <= 0;
  failed_ = n < 0;
  held_.resize(had + (n > 0 ? size_t(n) : 0));
}

int LineReader::next_byte() {
  if (at_ == held_.size() && !ended_) fill();
  return at_ < held_.size() ? uint8_t(held_[at_++]) : -1;
}

// Whether a read of standard input would not wait, as far as the system says.
static bool has_input() {
#if __has_include(<poll.h>)
  struct pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 0) > 0;
#else
  return false;
#endif
}

bool LineReader::ready() {
  for (size_t seen = at_; !ended_;) {
    if (held_.find('\n', seen) != string::npos || held_.size() - at_ > kLongest) return true;
    if (!has_input()) return false;
    seen = held_.size() - at_;
    fill();
  }
  return true;
}

// "\r\n" is "\n" wherever it stands.
bool LineReader::read(bool to_the_end) {
  line_.clear();
  bytes_ = 0;
  int c;
  while ((c = next_byte()) >= 0) {
    const bool end = c == '\n';
    if (end && !line_.empty() && line_.size() == bytes_ && line_.back() == '\r')
      line_.pop_back(), --bytes_;
    if (end && !to_the_end) break;
    ++bytes_;
    if (line_.size() < kLongest) line_ += char(c);
  }
  if (failed_) {
    data_error("standard input: %s", errno == EBADF ? "is closed" : strerror(errno));
    return false;
  }
  if (c < 0 && bytes_ == 0) return false;
  if (number_++ == 0 && line_.compare(0, 3, "\xEF\xBB\xBF") == 0) line_.erase(0, 3), bytes_ -= 3;
  return true;
}

bool LineReader::next() { return read(false); }

bool LineReader::whole() { return read(true); }

bool output(const string& text) {
  if (output_has_failed) return false;
  output_held += text;
  if (seen_at_once < 0) seen_at_once = isatty(STDOUT_FILENO) == 1;
  return (output_held.size() < kHeld && seen_at_once == 0) || output_flush();
}
bool output_flush() {
  if (output_has_failed) return false;
  const bool written = write_all(STDOUT_FILENO, output_held.data(), output_held.size());
  output_held.clear();
  return written || output_error();
}
int stream(const string& text) {
  output(text);
  return output_flush() ? 0 : 1;
}
// A system may keep a full disk to itself until a file is closed.
bool output_close() {
  return output_flush() && (close(STDOUT_FILENO) == 0 || errno == EINTR || output_error());
}
bool output_failed() { return output_has_failed; }

void progress(const string& text, bool silent) {
  static const bool seen = isatty(STDERR_FILENO) == 1, mixed = isatty(STDOUT_FILENO) == 1;
  if (text.empty() ? !progress_shown : !seen || (mixed && !silent)) return;
  progress_shown = !text.empty();
  const string line = "\r" + (text.empty() ? text : "phasor: " + text) + "\x1b[K";
  (void)write_all(STDERR_FILENO, line.data(), line.size());
}

static string format_list(const char* pattern, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(nullptr, 0, pattern, arguments);
  string out(length > 0 ? size_t(length) : 0, '\0');
  (void)vsnprintf(&out[0], out.size() + 1, pattern, again);
  va_end(again);
  return out;
}

static void say(const char* pattern, va_list arguments) {
  progress("");
  const string line = "phasor: " + one_line(format_list(pattern, arguments)) + "\n";
  (void)write_all(STDERR_FILENO, line.data(), line.size());
}

int usage_error(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(pattern, arguments);
  va_end(arguments);
  return 2;
}

int data_error(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(pattern, arguments);
  va_end(arguments);
  return 1;
}

void note(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  say(pattern, arguments);
  va_end(arguments);
}

string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  const string out = format_list(pattern, arguments);
  va_end(arguments);
  return out;
}

string one_line(const string& text) {
  string line;
  for (const char c : text) {
    const unsigned char byte = uint8_t(c);
    line += byte < 0x20 || byte == 0x7F ? format("\\x%02x", byte) : string(1, c);
  }
  return line;
}

string grouped(uint64_t value) {
  string digits = to_string(value);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

const char* plural(uint64_t count) { return count == 1 ? "" : "s"; }

string join(const TokenIds& ids) {
  string out;
  for (uint32_t id : ids) {
    if (!out.empty()) out += ',';
    out += to_string(id);
  }
  return out;
}

bool parse_number(const char* s, const char* end, uint64_t most, uint64_t* out) {
  uint64_t value = 0;
  if (s == end) return false;
  for (; s != end; ++s) {
    const uint64_t digit = uint64_t(*s - '0');
    if (*s < '0' || *s > '9' || digit > most || value > (most - digit) / 10) return false;
    value = value * 10 + digit;
  }
  *out = value;
  return value <= most;
}

bool parse_ids(const char* text, TokenIds* ids) {
  while (*text == ' ') ++text;
  if (*text == 0) return true;
  for (;;) {
    while (*text == ' ') ++text;
    const char* end = text;
    while (*end >= '0' && *end <= '9') ++end;
    uint64_t id = 0;
    if (!parse_number(text, end, UINT32_MAX - 1, &id)) return false;
    ids->push_back(uint32_t(id));
    while (*end == ' ') ++end;
    if (*end == 0) return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}

}  // namespace cli
