#include "json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text.h"

namespace cli {

void Json::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}

Json& Json::open(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
  return *this;
}

Json& Json::close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}

Json& Json::key(const char* name) {
  text(name);
  out_ += ':';
  first_ = true;
  return *this;
}

Json& Json::text(const char* value) { return text(value, strlen(value)); }

Json& Json::text(const char* bytes, size_t count) {
  separate();
  out_ += '"';
  for (size_t i = 0; i < count;) {
    const size_t n = utf8_length(bytes + i, count - i);
    const unsigned char c = static_cast<unsigned char>(bytes[i]);
    if (n == 0) {
      out_ += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      (out_ += '\\') += bytes[i];
    } else if (c < 0x20 || c == 0x7F) {
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", c);
      out_ += escape;
    } else {
      out_.append(bytes + i, n);
    }
    i += n != 0 ? n : 1;
  }
  out_ += '"';
  return *this;
}

Json& Json::number(uint64_t value) {
  separate();
  out_ += std::to_string(value);
  return *this;
}

Json& Json::real(double value) {
  separate();
  char digits[32];
  snprintf(digits, sizeof digits, "%.12g", value);
  out_ += isfinite(value) ? digits : "null";
  return *this;
}

Json& Json::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}

}  // namespace cli
