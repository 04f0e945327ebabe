// cli: arrays of f32 in NumPy's file format (version 1.0). A file is there whole or not at all.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "file.h"

namespace cli {

// What stands before the values; "" where the shape has too many dimensions.
string npy_header(const vector<uint64_t>& shape);
// The values of an array in memory, and its shape where it is asked for; false: *why says what it
// is instead.
bool parse_npy(const char* data, size_t bytes, vector<float>* out, const char** why,
               vector<size_t>* shape = nullptr);

class NpyWriter {
 public:
  // Each is false when a line on standard error, which names the flag's file, says why.
  bool open(const char* path);
  bool append(const float* values, size_t count);
  bool finish(const vector<uint64_t>& shape);
  bool commit() { return !is_open() || file_.commit(); }
  bool is_open() const { return file_.is_open(); }

 private:
  NewFile file_;
};

// Parses lines of numbers (CSV, or one JSON array a line) as an array of two dimensions. If it
// returns false, *line is the number of the wrong line.
bool parse_rows(const char* data, size_t bytes, vector<float>* out, vector<size_t>* shape,
                const char** why, size_t* line);
// Reads a NumPy file, which its first byte shows, or lines of numbers. Returns false after it has
// printed a line on standard error.
bool read_rows(const char* path, vector<float>* out, vector<size_t>* shape);

// The same of a file; false when a line on standard error says what it is instead.
// comment: the header's, from its # on; "" if it has none.
bool read_npy(const char* path, vector<float>* out, string* comment);

}  // namespace cli
