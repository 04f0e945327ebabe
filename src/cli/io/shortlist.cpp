#include "shortlist.h"

#include <stdlib.h>
#include <string.h>

#include <utility>

namespace cli {
namespace {

constexpr size_t kLongestKey = 16;         // tokens of a source n-gram
constexpr size_t kLongestLine = 1u << 24;  // bytes

vector<string> words_of(const string& text) {
  vector<string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = min(text.find(' ', at), text.size());
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

}  // namespace

bool Pieces::Piece::operator<(const Piece& other) const {
  const int order = text.compare(other.text);
  return order != 0 ? order < 0 : id < other.id;
}

Pieces::Pieces(const vector<string>& by_id) : count_(count_of(by_id)) {
  for (uint32_t id = 0; id < count_; ++id) sorted_.push_back({by_id[id], id});
  std::sort(sorted_.begin(), sorted_.end());
}

bool Pieces::find(const string& piece, uint32_t* id) const {
  const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), Piece{piece, 0});
  if (found == sorted_.end() || found->text != piece) return false;
  return *id = found->id, true;
}

bool Pieces::operator==(const Pieces& other) const {
  const auto same = [](const Piece& a, const Piece& b) { return a.id == b.id && a.text == b.text; };
  return std::equal(sorted_.begin(), sorted_.end(), other.sorted_.begin(), other.sorted_.end(),
                    same);
}

// The most probable of a token first; of equal ones the lowest id.
bool Shortlist::Translation::operator<(const Translation& other) const {
  if (from != other.from) return from < other.from;
  return probability != other.probability ? probability > other.probability : to < other.to;
}

bool Shortlist::parse_vmap(const string& line, const Pieces& source, const Pieces& target,
                           string* why) {
  const size_t tab = line.find('\t');
  if (tab == string::npos || line.find('\t', tab + 1) != string::npos)
    return *why = "expected source tokens, one tab, and target tokens", false;
  const vector<string> key = words_of(line.substr(0, tab)), values = words_of(line.substr(tab + 1));
  if (key.size() > kLongestKey)
    return *why = format("%zu source tokens, expected at most %zu", key.size(), kLongestKey), false;
  pieces_ += key.size() + values.size();
  const auto known = [this](const Pieces& pieces, const vector<string>& words) {
    TokenIds ids;
    uint32_t id = 0;
    for (const string& piece : words)
      if (pieces.find(piece, &id)) ids.push_back(id);
    unknown_ += words.size() - ids.size();
    return ids;
  };
  const TokenIds ids = known(source, key), to = known(target, values);
  if (ids.size() != key.size()) return true;  // no source has it
  longest_ = max(longest_, ids.size());
  if (ids.empty())
    always(to.data(), to.size());
  else
    rules_.push_back({ids, to});
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
  uint32_t to = 0, from = 0;
  const bool has_to = target.find(words[0], &to), has_from = source.find(words[1], &from);
  unknown_ += (has_to ? 0u : 1u) + (has_from ? 0u : 1u);
  if (has_to && has_from) lexical_.push_back({from, to, probability});
  return true;
}

// The most probable translations of each token.
void Shortlist::keep_best(uint32_t best) {
  std::sort(lexical_.begin(), lexical_.end());
  uint32_t kept = 0;
  for (size_t i = 0; i < lexical_.size(); ++i) {
    const Translation& one = lexical_[i];
    if (i == 0 || one.from != lexical_[i - 1].from) rules_.push_back({{one.from}, {}}), kept = 0;
    if (kept < best) rules_.back().target.push_back(one.to), ++kept;
  }
  lexical_.clear();
}

// Each source once, with the tokens of all its lines.
void Shortlist::sort_rules() {
  std::sort(rules_.begin(), rules_.end());
  size_t n = 0;
  for (size_t i = 0; i < rules_.size(); ++i) {
    if (n != 0 && rules_[n - 1].source == rules_[i].source) {
      TokenIds& all = rules_[n - 1].target;
      all.insert(all.end(), rules_[i].target.begin(), rules_[i].target.end());
    } else {
      if (n != i) rules_[n] = std::move(rules_[i]);
      ++n;
    }
  }
  rules_.erase(rules_.begin() + static_cast<ptrdiff_t>(n), rules_.end());
  for (Rule& rule : rules_) sort_unique(&rule.target);
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
    if (!bad.empty()) return *why = "line " + to_string(number) + ": " + bad, false;
  }
  if (!vmap) {
    shared_ = shape.shared;
    longest_ = 1;
    keep_best(shape.best);
    for (uint32_t id = 0; id < min(shape.first, target.count()); ++id) always_.push_back(id);
  }
  sort_unique(&always_);
  size_t known = always_.size();
  sort_rules();
  for (const Rule& rule : rules_) known += rule.target.size();
  if (vmap ? known != 0 : !rules_.empty()) return true;
  *why = unknown_ == pieces_
             ? format("none of its %s tokens is the model's", grouped(pieces_).c_str())
             : "no line has a source and a target token of the model";
  return false;
}

void Shortlist::always(const uint32_t* ids, size_t count) {
  always_.insert(always_.end(), ids, ids + count);
}

void Shortlist::mark(const uint32_t* ids, size_t count, uint32_t* allowed, uint32_t words) const {
  for (const uint32_t id : always_) set_bit(id, allowed, words);
  Rule key;
  for (size_t at = 0; at < count; ++at) {
    if (shared_) set_bit(ids[at], allowed, words);
    key.source.clear();
    for (size_t n = 0; n < longest_ && at + n < count; ++n) {
      key.source.push_back(ids[at + n]);
      const auto rule = std::lower_bound(rules_.begin(), rules_.end(), key);
      if (rule == rules_.end() || rule->source != key.source) continue;
      for (const uint32_t id : rule->target) set_bit(id, allowed, words);
    }
  }
}

}  // namespace cli
