#include "npy.h"

#include <stdlib.h>
#include <string.h>

namespace cli {
namespace {

constexpr size_t kMostDimensions = 32;  // as NumPy has them
constexpr size_t kLongestNumber = 64;   // characters, in a line of numbers
constexpr size_t kHeader = 128;         // magic, version, length, dictionary; data is aligned to 64

// The product of a header's 'shape': (2, 3), or most + 1 where it is larger; false where there is
// no such thing.
bool values_of(const string& header, size_t most, size_t* out, vector<size_t>* shape) {
  const size_t at = header.find("'shape': (");
  if (at == string::npos) return false;
  *out = 1;
  const char* p = strchr(header.c_str() + at, '(') + 1;
  while (*p >= '0' && *p <= '9') {
    char* end = nullptr;
    const unsigned long long n = strtoull(p, &end, 10);
    if (shape != nullptr && shape->size() < kMostDimensions)
      shape->push_back(n > most ? most + 1 : size_t(n));
    if (n == 0 || *out == 0)
      *out = 0;
    else
      *out = n > most || *out > most / n ? most + 1 : *out * size_t(n);
    p = end + strspn(end, ", ");
  }
  return *p == ')';
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// The numbers of one line, with commas or spaces between them, in [] or not; nullptr, or what is
// wrong with it.
const char* add_row(const char* p, const char* end, vector<float>* out) {
  constexpr const char* kWrong = "expected numbers with commas between them, as in CSV or JSON";
  while (p < end && is_space(*p)) ++p;
  while (p < end && is_space(end[-1])) --end;
  if (p < end && *p == '[') {
    if (end - p < 2 || end[-1] != ']') return kWrong;
    ++p, --end;
  }
  for (bool first = true;; first = false) {
    while (p < end && is_space(*p)) ++p;
    if (p == end) return first ? "an empty line" : kWrong;
    char text[kLongestNumber + 1] = {};
    size_t n = 0;
    for (; p < end && *p != ',' && !is_space(*p); ++p) {
      if (n == kLongestNumber || strchr("+-.eE0123456789", *p) == nullptr || *p == 0) return kWrong;
      text[n++] = *p;
    }
    char* last = nullptr;
    out->push_back(strtof(text, &last));
    if (n == 0 || *last != 0) return kWrong;
    while (p < end && is_space(*p)) ++p;
    if (p == end) return nullptr;
    if (*p == ',') ++p;
  }
}

}  // namespace

string npy_header(const vector<uint64_t>& shape) {
  string tuple;
  for (const uint64_t n : shape) tuple += to_string(n) + ",";
  string header =
      format("\x93NUMPY\x01%c%c%c{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", 0,
             int(kHeader - 10), 0, tuple.c_str());
  if (header.size() >= kHeader) return "";
  header.resize(kHeader, ' ');
  header.back() = '\n';
  return header;
}

bool parse_npy(const char* p, size_t bytes, vector<float>* out, const char** why,
               vector<size_t>* shape) {
  constexpr size_t start = 10;
  const size_t header = bytes >= start ? size_t(uint8_t(p[8]) | uint8_t(p[9]) << 8) : 0;
  if (bytes < start || memcmp(p, "\x93NUMPY\x01", 7) != 0 || header > bytes - start)
    return *why = "not a NumPy file of version 1.0", false;
  const string text(p + start, header);
  if (text.find("'descr': '<f4'") == string::npos ||
      text.find("'fortran_order': False") == string::npos)
    return *why = "expected an array of little-endian f32, in C's order", false;
  size_t values = 0;
  if (!values_of(text, (bytes - start - header) / sizeof(float), &values, shape) ||
      values * sizeof(float) != bytes - start - header)
    return *why = "the array is cut off, or longer than its shape", false;
  out->resize(values);
  if (values != 0) memcpy(out->data(), p + start + header, values * sizeof(float));
  return true;
}

bool parse_rows(const char* data, size_t bytes, vector<float>* out, vector<size_t>* shape,
                const char** why, size_t* line) {
  size_t width = 0;
  out->clear();
  *line = 0;
  for (const char *p = data, *all = data + bytes; p < all;) {
    const void* found = memchr(p, '\n', size_t(all - p));
    const char* end = found != nullptr ? static_cast<const char*>(found) : all;
    const size_t before = out->size();
    ++*line;
    *why = add_row(p, end, out);
    if (*why != nullptr) return false;
    const size_t values = out->size() - before;
    if (width == 0) width = values;
    if (values != width) return *why = "another number of values than line 1", false;
    p = end == all ? all : end + 1;
  }
  if (width == 0) return *line = 1, *why = "no numbers", false;
  *shape = {out->size() / width, width};
  return true;
}

bool NpyWriter::open(const char* path) {
  const char zeros[kHeader] = {};
  return file_.open(path) && file_.write(zeros, kHeader);
}

bool NpyWriter::append(const float* values, size_t count) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "f32 is written as it lies in memory");
  return file_.write(values, count * sizeof(float));
}

bool NpyWriter::finish(const vector<uint64_t>& shape) {
  const string header = npy_header(shape);
  if (header.empty()) return file_.refuse("a shape of too many dimensions");
  return file_.write_first(header.data(), kHeader) && file_.finish();
}

bool read_rows(const char* path, vector<float>* out, vector<size_t>* shape) {
  ReadFile file;
  const char* why = nullptr;
  size_t line = 0;
  if (!file.open(path, Load::copy, "an array of NumPy, or lines of numbers")) return false;
  const char* data = static_cast<const char*>(file.data());
  if (file.bytes() != 0 && data[0] == '\x93')
    return parse_npy(data, file.bytes(), out, &why, shape) ||
           (data_error("%s: %s", path, why), false);
  return parse_rows(data, file.bytes(), out, shape, &why, &line) ||
         (data_error("%s: line %zu: %s", path, line, why), false);
}

bool read_npy(const char* path, vector<float>* out, string* comment) {
  ReadFile file;
  const char* why = nullptr;
  if (!file.open(path, Load::copy, "a NumPy file")) return false;
  const char* data = static_cast<const char*>(file.data());
  if (!parse_npy(data, file.bytes(), out, &why)) return data_error("%s: %s", path, why), false;
  const string head(data, file.bytes() - out->size() * sizeof(float));
  const size_t at = head.find('#');
  *comment = at == string::npos ? "" : head.substr(at, head.find_last_not_of(" \n") + 1 - at);
  return true;
}

}  // namespace cli
