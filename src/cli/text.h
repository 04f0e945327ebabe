// cli: text in and out: UTF-8, lines of standard input in bounded memory, standard output whose
// errors are seen.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <string>
#include <vector>

namespace cli {

// Bytes of the character that begins here: 1 … 4, or 0 when it is not UTF-8 (overlong, a surrogate,
// cut short).
size_t utf8_length(const char* s, size_t bytes);

// Place of the first byte that is not UTF-8, or `bytes`.
size_t utf8_end(const char* s, size_t bytes);

// Lines of standard input, without "\n" or "\r\n", and without a byte-order mark before the first.
class LineReader {
 public:
  // bytes kept of a line; a longer one is an error of its own
  static constexpr size_t kLongest = 1u << 26;
  bool next();   // false: the end, or an error (then failed() and a line on standard error)
  bool whole();  // all of standard input as one text
  bool failed() const { return failed_; }
  const std::string& line() const { return line_; }
  uint64_t number() const { return number_; }  // from 1
  uint64_t bytes() const { return bytes_; }    // of the line, also of what was not kept

 private:
  bool read(bool to_the_end);
  std::string line_;
  uint64_t number_ = 0, bytes_ = 0;
  bool failed_ = false;
};

// Standard output. Each is false when output has failed, now or before; one line on standard error
// has said so.
bool output(const char* text, size_t bytes);
bool output(const std::string& text);
bool output_flush();
bool output_close();  // last of all
bool output_failed();

// 1234567 as "1,234,567".
std::string grouped(uint64_t value);

// "1,2,3"
std::string join(const std::vector<uint32_t>& ids);

}  // namespace cli
