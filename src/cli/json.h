// cli: writes JSON into a string. Calls nest as the text does: open, key and value, close.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <string>

namespace cli {

class Json {
 public:
  Json& open(char bracket);   // '{' or '['
  Json& close(char bracket);  // '}' or ']'
  Json& key(const char* name);
  Json& text(const char* bytes, size_t count);  // must be UTF-8; anything else becomes U+FFFD
  Json& text(const char* value);
  Json& number(uint64_t value);
  Json& real(double value);  // null when it is not finite
  Json& boolean(bool value);
  const std::string& str() const { return out_; }

 private:
  void separate();
  std::string out_;
  bool first_ = true;
};

}  // namespace cli
