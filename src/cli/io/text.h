// cli: text in and out: UTF-8, lines of standard input in bounded memory, standard output whose
// errors are seen.
#pragma once
#include <stdio.h>

#include "../host/system.h"

namespace cli {

using TokenIds = vector<uint32_t>;

// How many there are, as the library counts.
template <class List>
uint32_t count_of(const List& list) {
  return uint32_t(list.size());
}

// Whether an id is in a list.
inline bool has(const uint32_t* ids, size_t count, uint32_t id) {
  return std::find(ids, ids + count, id) != ids + count;
}

// In order, each once.
template <class List>
void sort_unique(List* list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

// Bytes of the character that begins here: 1 … 4, or 0 when it is not UTF-8 (overlong, a surrogate,
// cut short).
size_t utf8_length(const char* s, size_t bytes);

// Whether all of it is UTF-8; else *why names the place of the first byte that is not.
bool is_utf8(const string& text, string* why);

// Lines of standard input, without "\n" or "\r\n", and without a byte-order mark before the first.
class LineReader {
 public:
  // bytes kept of a line; a longer one is an error of its own
  static constexpr size_t kLongest = 1u << 26;
  bool next();   // false: the end, or an error (then failed() and a line on standard error)
  bool whole();  // all of standard input as one text
  bool ready();  // whether next() would not wait for whoever writes; takes in what is there
  bool failed() const { return failed_; }
  const string& line() const { return line_; }
  uint64_t number() const { return number_; }  // from 1
  uint64_t bytes() const { return bytes_; }    // of the line, also of what was not kept

 private:
  bool read(bool to_the_end);
  int next_byte();  // -1: the end, or an error (then failed_)
  void fill();      // reads once, behind what is held
  string line_, held_;
  size_t at_ = 0;  // in held_: what was read and is no line yet
  uint64_t number_ = 0, bytes_ = 0;
  bool failed_ = false, ended_ = false;
};

// Standard output. Each is false when output has failed, now or before; one line on standard error
// has said so.
bool output(const string& text);
bool output_flush();
// Text that is seen at once. 1 where output has failed, which ends a generation, else 0.
int stream(const string& text);
bool output_close();  // last of all
bool output_failed();

// "phasor: " and what printf makes of it, as one line on standard error, in one piece. Returns 2
// (the command line is wrong), 1 (the model or the data is bad) or nothing.
__attribute__((format(printf, 1, 2))) int usage_error(const char* pattern, ...);
__attribute__((format(printf, 1, 2))) int data_error(const char* pattern, ...);
__attribute__((format(printf, 1, 2))) void note(const char* pattern, ...);

// How far it is: a line on standard error where that is a terminal and standard output is none. The
// next one is written over it, and it goes before anything else is said; an empty one takes it
// away. silent: nothing is printed meanwhile, so that standard output may be the terminal too.
void progress(const string& text, bool silent = false);

// As printf does it.
string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

// The text as one line: what is no character of one stands as \x1b.
string one_line(const string& text);

// 1234567 as "1,234,567".
string grouped(uint64_t value);

const char* plural(uint64_t count);  // "s", or "" of one

// "1,2,3"
string join(const TokenIds& ids);
// The ids of such a text, of an empty one none. False when it is not that.
bool parse_ids(const char* text, TokenIds* ids);

// Digits only, no larger than `most`; else false.
bool parse_number(const char* s, const char* end, uint64_t most, uint64_t* out);

}  // namespace cli
