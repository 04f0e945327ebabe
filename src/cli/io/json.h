// cli: writes JSON into a string. Calls nest as the text does: open, add, close.
#pragma once

#include <type_traits>

#include "text.h"

namespace cli {

class Json {
 public:
  Json& open(char bracket);                    // '{' or '[', the whole or a value of a list
  Json& open(const char* name, char bracket);  // as a member of an object
  Json& close(char bracket);                   // '}' or ']'

  Json& key(const char* name);  // of a member whose value follows

  // A member of an object.
  template <class T>
  Json& add(const char* name, const T& it) {
    return key(name).value(it);
  }
  // A value of a list, or what follows key().
  template <class T>
  Json& value(const T& it) {
    if constexpr (std::is_same_v<T, bool>)
      return plain(it ? "true" : "false");
    else if constexpr (std::is_integral_v<T>)
      return plain(to_string(it));
    else if constexpr (std::is_floating_point_v<T>)
      return real(it);
    else
      return text(it);
  }
  template <class T>
  Json& value(const vector<T>& list) {
    open('[');
    for (const T& it : list) value(it);
    return close(']');
  }
  const string& str() const { return out_; }

 private:
  Json& plain(const string& value);
  Json& text(const string& value);  // must be UTF-8; anything else becomes U+FFFD
  Json& real(double value);         // null when it is not finite
  string out_;
  bool first_ = true;
};

}  // namespace cli
