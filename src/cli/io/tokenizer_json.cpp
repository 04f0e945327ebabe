#include "tokenizer_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

namespace cli {
namespace {

// Numbers of the file format: a mark of a piece that the model can give; models.
constexpr uint32_t kOfModel = 1, kUnigram = 6, kPipeline = 9, kPipelineUnigram = 4;
constexpr size_t kHeaderBytes = 128, kRowBytes = 16, kMergeBytes = 12, kByteIds = 256,
                 kDeepest = 64, kGrowth = 16;
constexpr char kFirstFlags = '@', kLastFlags = '_';  // of an added token: five bits
constexpr const char* kFlagNames[] = {"single_word", "lstrip", "rstrip", "normalized", "special"};

string quoted(const string& text) { return Json().value(text).str(); }

string base64(const string& bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t n = min(bytes.size() - i, size_t{3});
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? uint8_t(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= n ? kLetters[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// GPT-2's letters for bytes: printable ones are themselves, the others letters from U+0100 on.
string letters_of(const string& bytes) {
  string out;
  for (const char byte : bytes) {
    const uint32_t b = uint8_t(byte);
    const bool plain = (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD);
    const uint32_t before = b <= 0x20 ? b : b <= 0xA0 ? b - 0x7F + 0x21 : 0x43;
    const uint32_t c = plain ? b : 0x100 + before;
    if (c < 0x80)
      out += char(c);
    else
      out.append(1, char(0xC0 | c >> 6)).append(1, char(0x80 | (c & 63)));
  }
  return out;
}

// As few digits as are this number alone: what was read, so that a reader which rounds otherwise
// reads again what it read.
string shortest(double value) {
  string out;
  for (int digits = 1; digits <= 17; ++digits)
    if (out = format("%.*g", digits, value), strtod(out.c_str(), nullptr) == value) break;
  return out;
}

class Exporter {
 public:
  explicit Exporter(const TokenizerParts& parts) : p_(parts) {}

  bool run(string* out, string* why) {
    if (p_.section_bytes < kHeaderBytes) return *why = "its tokenizer is cut off", false;
    const string text(p_.text, p_.text_bytes);
    string place;
    if (!is_utf8(text, &place)) return *why = "its text for --export is not UTF-8", false;
    for (at_ = text.data(), end_ = at_ + text.size(); at_ != end_ && why_.empty();)
      if (*at_ == kMark)
        mark();
      else
        copy(*at_++);
    if (why_.empty() && (in_string_ || !open_.empty() || out_.empty())) damaged("ends too early");
    if (!why_.empty()) return *why = why_, false;
    *out = out_;
    return true;
  }

 private:
  static constexpr char kMark = 1;
  struct Range {
    uint64_t first = 0, last = 0;
  };

  void damaged(const char* what) {
    if (why_.empty())
      why_ = format("its text for --export %s at byte %zu", what, size_t(at_ - text_begin()));
  }
  const char* text_begin() const { return end_ - p_.text_bytes; }

  // One character of the text itself; brackets and quotes pair.
  void copy(char c) {
    if (uint8_t(c) < 0x20) return damaged("has a control character");
    out_ += c;
    if (escaped_) return void(escaped_ = false);
    if (in_string_) {
      escaped_ = c == '\\';
      in_string_ = c != '"';
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      if (open_.size() == kDeepest) return damaged("is too deep");
      open_ += c;
    } else if (c == '}' || c == ']') {
      if (open_.empty() || open_.back() != (c == '}' ? '{' : '[')) return damaged("closes nothing");
      open_.pop_back();
    }
  }

  bool number(uint64_t* out) {
    const char* const from = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    return parse_number(from, at_, UINT32_MAX, out);
  }
  // "first-last"
  bool range(Range* r) {
    if (!number(&r->first) || at_ == end_ || *at_++ != '-' || !number(&r->last)) return false;
    return true;
  }

  // The mark's letter, for some the letter of a form, for some a range, then ';'.
  void mark() {
    ++at_;
    const char kind = at_ != end_ ? *at_++ : '\0';
    const bool has_form = kind == 't' || kind == 'm' || kind == 'a';
    const char form = has_form && at_ != end_ ? *at_++ : 'p';
    Range r;
    const bool ranged = kind == 't' || kind == 's' || kind == 'a' || kind == 'c';
    if ((ranged && !range(&r)) || at_ == end_ || *at_++ != ';' || in_string_ != (kind == 'c') ||
        escaped_)
      return damaged("has a mark that is none");
    if (kind == 'a' ? form < kFirstFlags || form > kLastFlags
                    : form != 'p' && form != 'l' && form != 'w')
      return damaged("has a mark of another form");
    if (kind == 'c') return characters(r);
    // what is written is no more than the file has: of each kind everything once
    const size_t slot = kind == 'a' ? 0 : kind == 'm' ? 1 : kind == 'p' ? 2 : 3;
    if (ranged ? r.first < next_[slot] || r.last < r.first || r.last >= pieces()
               : next_[slot] != 0)
      return damaged("has a mark twice, or for ids that are not there");
    next_[slot] = r.last + 1;
    switch (kind) {
      case 't': return table(r, form);
      case 's': return scored(r);
      case 'a': return added(r, form);
      case 'm': return merges(form);
      case 'p': return around();
      default: return damaged("has a mark that is none");
    }
  }

  // ---- The section

  uint64_t load(uint64_t at, size_t bytes) {
    if (at > p_.section_bytes || bytes > p_.section_bytes - at) {
      if (why_.empty()) why_ = "its tokenizer is damaged";
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = bytes; i-- != 0;) value = value << 8 | p_.section[at + i];
    return value;
  }
  uint32_t u32(uint64_t at) { return uint32_t(load(at, 4)); }
  string bytes_at(uint64_t at, uint64_t bytes) {
    if (at > p_.section_bytes || bytes > p_.section_bytes - at) {
      if (why_.empty()) why_ = "its tokenizer is damaged";
      return "";
    }
    return string(reinterpret_cast<const char*>(p_.section) + at, size_t(bytes));
  }
  uint32_t pieces() { return u32(8); }
  uint64_t row(uint64_t id) { return load(32, 8) + kRowBytes * id; }
  bool of_model(uint64_t id) { return (u32(row(id) + 8) & kOfModel) != 0; }
  string piece(uint64_t id, char form) {
    if (id >= pieces()) return damaged("has an id that is not there"), "";
    string text = bytes_at(load(48, 8) + u32(row(id)), u32(row(id) + 4));
    if (form == 'l') return letters_of(text);
    const bool ends = form == 'w' && !text.empty() && text.back() == ' ';
    if (ends) text.replace(text.size() - 1, 1, "</w>");
    string place;
    if (!is_utf8(text, &place)) damaged("takes a piece for text that is none");
    return text;
  }
  // Where the model's part begins: behind what has offsets of its own, and the classes.
  uint64_t model_part() {
    uint64_t end = load(48, 8) + load(56, 8);
    if (u32(24) != 0) end = load(64, 8) + u32(24);
    if (u32(28) != 0) end = load(72, 8) + u32(28);
    return ((end + 3) & ~uint64_t{3}) + 4 * uint64_t{u32(100)};
  }

  // ---- What a mark stands for

  void separate(const string& text) {
    if (out_.size() > kGrowth * (p_.section_bytes + p_.text_bytes))
      return damaged("has pieces that are too long");
    if (!out_.empty() && out_.back() != '[' && out_.back() != '{' && out_.back() != ',')
      out_ += ',';
    out_ += text;
  }

  void table(Range r, char form) {
    for (uint64_t id = r.first; id <= r.last && why_.empty(); ++id)
      if (of_model(id)) separate(quoted(piece(id, form)) + ':' + to_string(id));
  }

  void scored(Range r) {
    if (u32(0) != kUnigram && (u32(0) != kPipeline || u32(96) != kPipelineUnigram))
      return damaged("has scores, and the pieces have none");
    const uint64_t from = model_part();
    for (uint64_t id = r.first; id <= r.last && why_.empty(); ++id) {
      const uint64_t bits = load(from + 8 * id, 8);
      double score = 0;
      memcpy(&score, &bits, sizeof score);
      if (!isfinite(score)) return damaged("has the score of a piece that is none");
      separate('[' + quoted(piece(id, 'p')) + ',' + shortest(score) + ']');
    }
  }

  void merges(char form) {
    const uint64_t from = model_part() + 4 * kByteIds, count = u32(104);
    if (count > p_.section_bytes / kMergeBytes) return damaged("has merges that are not there");
    vector<uint64_t> by_rank(size_t(count), 0);
    for (uint64_t i = 0; i < count && why_.empty(); ++i) {
      const uint32_t rank = u32(from + kMergeBytes * i + 8);
      if (rank < count) by_rank[rank] = from + kMergeBytes * i;
    }
    for (const uint64_t at : by_rank) {
      if (!why_.empty()) return;
      if (at == 0) return damaged("has merges that are not there");
      separate('[' + quoted(piece(u32(at), form)) + ',' + quoted(piece(u32(at + 4), form)) + ']');
    }
  }

  void added(Range r, char flags) {
    string rest;
    for (size_t i = 0; i < 5; ++i)
      rest += format(",\"%s\":%s", kFlagNames[i],
                     ((flags - kFirstFlags) >> i & 1) != 0 ? "true" : "false");
    for (uint64_t id = r.first; id <= r.last && why_.empty(); ++id)
      separate("{\"id\":" + to_string(id) + ",\"content\":" + quoted(piece(id, 'p')) + rest + '}');
  }

  // SentencePiece's map as the package has it, with the bytes of its trie and of its strings.
  void characters(Range r) {
    if (had_map_ || r.first > u32(24) || r.last > u32(28)) return damaged("has a map too many");
    had_map_ = true;
    string map;
    for (int i = 0; i < 4; ++i) map += char(r.first >> 8 * i & 255);
    out_ += base64(map + bytes_at(load(64, 8), r.first) + bytes_at(load(72, 8), r.last));
  }

  // A template of the ids around a text, named by their numbers.
  void around() {
    const auto add_token = [](Json* json, uint32_t id, uint32_t segment) {
      json->open('{').open("SpecialToken", '{').add("id", to_string(id));
      json->add("type_id", segment).close('}').close('}');
    };
    const auto add_text = [](Json* json, const char* name, uint32_t segment) {
      json->open('{').open("Sequence", '{').add("id", string(name));
      json->add("type_id", segment).close('}').close('}');
    };
    Json json;
    json.open('{').add("type", string("TemplateProcessing")).open("single", '[');
    for (const uint32_t id : p_.prefix) add_token(&json, id, 0);
    add_text(&json, "A", 0);
    for (const uint32_t id : p_.suffix) add_token(&json, id, 0);
    json.close(']').open("pair", '[');
    for (const uint32_t id : p_.prefix) add_token(&json, id, 0);
    add_text(&json, "A", 0);
    for (const uint32_t id : p_.between) add_token(&json, id, 0);
    add_text(&json, "B", p_.pair_segment);
    for (const uint32_t id : p_.suffix) add_token(&json, id, p_.pair_segment);
    json.close(']').open("special_tokens", '{');
    TokenIds ids = p_.prefix;
    ids.insert(ids.end(), p_.between.begin(), p_.between.end());
    ids.insert(ids.end(), p_.suffix.begin(), p_.suffix.end());
    sort_unique(&ids);
    for (const uint32_t id : ids) {
      const string name = to_string(id);
      json.open(name.c_str(), '{').add("id", name).add("ids", TokenIds{id});
      json.add("tokens", vector<string>{id < pieces() ? piece(id, 'p') : name}).close('}');
    }
    separate(json.close('}').close('}').str());
  }

  const TokenizerParts& p_;
  const char *at_ = nullptr, *end_ = nullptr;  // of the text
  string out_, why_, open_;
  bool in_string_ = false, escaped_ = false, had_map_ = false;
  uint64_t next_[4] = {};
};

}  // namespace

bool tokenizer_json(const TokenizerParts& parts, string* out, string* why) {
  return Exporter(parts).run(out, why);
}

}  // namespace cli
