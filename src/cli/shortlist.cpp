#include "shortlist.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>

namespace cli {
namespace {

constexpr size_t kLongestKey = 16;          // tokens of a source n-gram
constexpr size_t kLongestLine = 1u << 24;   // bytes
constexpr uint32_t kNowhere = 0xFFFFFFFFu;  // no such piece

uint32_t id_of(const Pieces& pieces, const string& piece) {
  const auto found = pieces.find(piece);
  return found != pieces.end() ? found->second : kNowhere;
}

vector<string> words_of(const string& text) {
  vector<string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end != at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// A number from 0 to 1; false when it is none.
bool parse_probability(const string& text, float* out) {
  char* end = nullptr;
  *out = strtof(text.c_str(), &end);
  return !text.empty() && *end == 0 && text.find_first_not_of("0123456789.eE+-") == string::npos &&
         *out >= 0 && *out <= 1;
}

void set_bit(uint32_t id, uint32_t* allowed, uint32_t words) {
  if (id / 32 < words) allowed[id / 32] |= 1u << id % 32;
}

void sort_unique(TokenIds* ids) {
  std::sort(ids->begin(), ids->end());
  ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
}

}  // namespace

bool Shortlist::parse_vmap(const string& line, const Pieces& source, const Pieces& target,
                           string* why) {
  const size_t tab = line.find('\t');
  if (tab == string::npos || line.find('\t', tab + 1) != string::npos)
    return *why = "expected source tokens, one tab, and target tokens", false;
  const vector<string> key = words_of(line.substr(0, tab)), values = words_of(line.substr(tab + 1));
  if (key.size() > kLongestKey)
    return *why = format("%zu source tokens, expected at most %zu", key.size(), kLongestKey), false;
  pieces_ += key.size() + values.size();
  TokenIds ids, to;
  bool known = true;
  for (const string& piece : key) {
    ids.push_back(id_of(source, piece));
    if (ids.back() == kNowhere) ++unknown_, known = false;
  }
  for (const string& piece : values) {
    const uint32_t id = id_of(target, piece);
    if (id == kNowhere)
      ++unknown_;
    else
      to.push_back(id);
  }
  if (!known) return true;  // no source has it
  TokenIds& all = ids.empty() ? always_ : rules_[ids];
  all.insert(all.end(), to.begin(), to.end());
  longest_ = std::max(longest_, ids.size());
  return true;
}

bool Shortlist::parse_lexical(const string& line, const Pieces& source, const Pieces& target,
                              string* why) {
  const vector<string> words = words_of(line);
  float probability = 0;
  if (words.size() != 3 || line.find('\t') != string::npos ||
      !parse_probability(words[2], &probability))
    return *why = "expected a target token, a source token and a probability from 0 to 1", false;
  if (words[0] == "NULL" || words[1] == "NULL") return true;  // aligned to nothing
  pieces_ += 2;
  const uint32_t to = id_of(target, words[0]), from = id_of(source, words[1]);
  unknown_ += (to == kNowhere ? 1u : 0u) + (from == kNowhere ? 1u : 0u);
  if (to != kNowhere && from != kNowhere) lexical_[from].push_back({probability, to});
  return true;
}

// The most probable translations of each token; of equal ones the lowest ids.
void Shortlist::keep_best(uint32_t best) {
  for (auto& one : lexical_) {
    vector<Translation>& all = one.second;
    std::sort(all.begin(), all.end(), [](const Translation& a, const Translation& b) {
      return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
    });
    TokenIds& to = rules_[{one.first}];
    for (size_t i = 0; i < all.size() && i < best; ++i) to.push_back(all[i].id);
  }
  lexical_.clear();
}

bool Shortlist::parse(const char* text, size_t bytes, const Pieces& source, const Pieces& target,
                      const ShortlistShape& shape, string* why) {
  const char* end = text + bytes;
  const char* line_end = std::find(text, end, '\n');
  const bool vmap = std::find(text, line_end, '\t') != line_end;
  uint64_t number = 0;
  for (const char* at = text; at != end;) {
    const char* stop = std::find(at, end, '\n');
    string line(at, stop);
    at = stop != end ? stop + 1 : end;
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    string bad;
    if (line.size() > kLongestLine)
      bad = format("%zu bytes, expected at most %zu", line.size(), kLongestLine);
    else if (memchr(line.data(), 0, line.size()) != nullptr)
      bad = "a byte of 0: expected a text file; a binary shortlist is not read";
    else if (is_utf8(line, &bad) && !line.empty())
      (void)(vmap ? parse_vmap(line, source, target, &bad)
                  : parse_lexical(line, source, target, &bad));
    if (!bad.empty()) return *why = "line " + std::to_string(number) + ": " + bad, false;
  }
  if (!vmap) {
    shared_ = shape.shared;
    longest_ = 1;
    keep_best(shape.best);
    uint32_t most = 0;
    for (const auto& one : target) most = std::max(most, one.second + 1);
    for (uint32_t id = 0; id < std::min(shape.first, most); ++id) always_.push_back(id);
  }
  sort_unique(&always_);
  size_t known = always_.size();
  for (auto& one : rules_) {
    sort_unique(&one.second);
    known += one.second.size();
  }
  if (rules_.empty() || known == 0)
    return *why = format("none of its %s tokens is the model's", grouped(pieces_).c_str()), false;
  return true;
}

void Shortlist::always(const uint32_t* ids, size_t count) {
  always_.insert(always_.end(), ids, ids + count);
}

void Shortlist::mark(const uint32_t* ids, size_t count, uint32_t* allowed, uint32_t words) const {
  for (const uint32_t id : always_) set_bit(id, allowed, words);
  TokenIds key;
  for (size_t at = 0; at < count; ++at) {
    if (shared_) set_bit(ids[at], allowed, words);
    key.clear();
    for (size_t n = 0; n < longest_ && at + n < count; ++n) {
      key.push_back(ids[at + n]);
      const auto rule = rules_.find(key);
      if (rule == rules_.end()) continue;
      for (const uint32_t id : rule->second) set_bit(id, allowed, words);
    }
  }
}

}  // namespace cli
