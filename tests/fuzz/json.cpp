// JSON of any names, texts and numbers, nested as the program nests it: it is JSON, in UTF-8, on
// one line; a text in it is the text that went in.
#include "cli/io/json.h"

#include <algorithm>
#include <cmath>

#include "support.h"

namespace fuzz {
namespace {

// A reader of JSON that takes what RFC 8259 takes, and collects the texts.
class Reader {
 public:
  explicit Reader(const std::string& text) : p_(text.data()), end_(p_ + text.size()) {}
  void document() {
    value();
    demand(p_ == end_, "JSON with something behind it");
  }
  std::vector<std::string> texts;

 private:
  char next() {
    demand(p_ < end_, "JSON that ends too soon");
    return *p_++;
  }
  void word(const char* rest) {
    while (*rest != 0) demand(next() == *rest++, "JSON with an odd word");
  }
  void value() {
    switch (const char c = next()) {
      case '{':
        return list('}');
      case '[':
        return list(']');
      case '"':
        return text();
      case 't':
        return word("rue");
      case 'f':
        return word("alse");
      case 'n':
        return word("ull");
      default:
        --p_;
        return number(c);
    }
  }
  void list(char close) {
    if (*p_ == close) return void(next());
    for (;;) {
      if (close == '}') {
        demand(next() == '"', "a member without a name");
        text();
        demand(next() == ':', "a member without a value");
      }
      value();
      const char c = next();
      if (c == close) return;
      demand(c == ',', "values without a comma");
    }
  }
  size_t digits() {
    size_t n = 0;
    while (p_ < end_ && *p_ >= '0' && *p_ <= '9') ++p_, ++n;
    return n;
  }
  void number(char first) {
    if (first == '-') ++p_;
    const char* const begin = p_;
    const size_t n = digits();
    demand(n == 1 || (n > 1 && *begin != '0'), "JSON with an odd number");
    if (p_ < end_ && *p_ == '.') ++p_, demand(digits() != 0, "JSON with an odd number");
    if (p_ < end_ && (*p_ == 'e' || *p_ == 'E')) {
      ++p_;
      if (p_ < end_ && (*p_ == '+' || *p_ == '-')) ++p_;
      demand(digits() != 0, "JSON with an odd number");
    }
  }
  void text() {
    std::string out;
    for (;;) {
      const char c = next();
      if (c == '"') break;
      demand(static_cast<unsigned char>(c) >= 0x20, "JSON with a control character");
      if (c != '\\') {
        out += c;
        continue;
      }
      const char e = next();
      if (e == '"' || e == '\\') {
        out += e;
        continue;
      }
      demand(e == 'u' && end_ - p_ >= 4, "JSON with an odd escape");
      const uint32_t code =
          static_cast<uint32_t>(std::strtoul(std::string(p_, 4).c_str(), nullptr, 16));
      p_ += 4;
      if (code == 0xFFFD)
        out += "\xEF\xBF\xBD";
      else
        demand(code < 0x80, "JSON with an odd escape"), out += static_cast<char>(code);
    }
    texts.push_back(out);
  }
  const char *p_, *end_;
};

// The text, each byte that is not UTF-8 being U+FFFD.
std::string as_utf8(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t n = cli::utf8_length(text.data() + i, text.size() - i);
    out += n != 0 ? text.substr(i, n) : "\xEF\xBF\xBD";
    i += n != 0 ? n : 1;
  }
  return out;
}

struct Writer {
  Choices* c;
  const std::string& given;
  cli::Json json;
  std::vector<std::string> texts;

  std::string any_text() {
    const size_t at = c->below(static_cast<uint32_t>(given.size() + 1));
    const std::string text = given.substr(at, c->below(24));
    texts.push_back(as_utf8(text.c_str()));  // a name has no zero
    return text.c_str();
  }
  double any_real() {
    const double real = static_cast<double>(any_float(c));
    return c->chance(50) ? real : real * 1e280;
  }
  void members(uint32_t nested) {
    for (uint32_t i = c->below(4); i > 0; --i) {
      const std::string name = any_text();
      switch (c->below(nested != 0 ? 6 : 4)) {
        case 0:
          json.add(name.c_str(), c->chance(50));
          break;
        case 1:
          json.add(name.c_str(), c->seed());
          break;
        case 2:
          json.add(name.c_str(), any_real());
          break;
        case 3:
          json.add(name.c_str(), any_text());
          break;
        case 4:
          json.open(name.c_str(), '{');
          members(nested - 1);
          json.close('}');
          break;
        default:
          json.open(name.c_str(), '[');
          values(nested - 1);
          json.close(']');
      }
    }
  }
  void values(uint32_t nested) {
    for (uint32_t i = c->below(4); i > 0; --i) {
      if (nested == 0 || c->chance(50)) {
        json.value(any_text());
        continue;
      }
      json.open('{');
      members(nested - 1);
      json.close('}');
    }
    if (c->chance(20)) json.value(std::vector<uint32_t>{c->below(9), PHASOR_NONE});
  }
};

}  // namespace

void run_json(const uint8_t* data, size_t size) {
  const size_t half = size / 2;
  const Block text(data + half, size - half);
  const std::string given(text.as<char>(), text.size());
  static const uint8_t none = 0;
  Choices choices(size != 0 ? data : &none, half);
  Writer writer{&choices, given, {}, {}};
  writer.json.open('{');
  writer.members(4);
  writer.json.close('}');
  const std::string& out = writer.json.str();
  std::string why;
  demand(cli::is_utf8(out, &why), "JSON that is not UTF-8");
  Reader reader(out);
  reader.document();
  demand(reader.texts == writer.texts, "JSON with another text");
}

}  // namespace fuzz
