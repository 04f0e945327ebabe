#include "json.h"

#include <math.h>

#include "text.h"

namespace cli {

Json& Json::plain(const string& value) {
  if (!first_) out_ += ',';
  first_ = false;
  out_ += value;
  return *this;
}

Json& Json::open(char bracket) {
  plain(string(1, bracket));
  first_ = true;
  return *this;
}

Json& Json::open(const char* name, char bracket) { return key(name).open(bracket); }

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

Json& Json::text(const string& value) {
  string quoted = "\"";
  for (size_t i = 0; i < value.size();) {
    const size_t length = utf8_length(value.data() + i, value.size() - i);
    const unsigned char c = uint8_t(value[i]);
    if (length == 0)
      quoted += "\\ufffd";
    else if (c < 0x20 || c == 0x7F)
      quoted += format("\\u%04x", c);
    else
      quoted.append(c == '"' || c == '\\' ? "\\" : "").append(value, i, length);
    i += length != 0 ? length : 1;
  }
  return plain(quoted + '"');
}

Json& Json::real(double value) { return plain(isfinite(value) ? format("%.12g", value) : "null"); }

}  // namespace cli
