#include "flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../../include/phasor.h"
#include "nearest.h"

namespace cli {

Flag::Flag(const char* words, const char* text)
    : spec(words), help(text), name(words, strcspn(words, " [")), takes(words + name.size()) {
  if (takes[0] == ' ') ++takes;
}

int Flag::refuse(const char* text, const string& hint) const {
  return usage_error("%s %s: expected %s%s", given, text, wanted().c_str(), hint.c_str());
}

int Word::set(const char* text) {
  value = text;
  return 0;
}

string IsaName::wanted() const {
  string known = "one that runs here: auto";
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i)
    known += string(" ") + phasor_isa_name(i);
  return known;
}

int IsaName::set(const char* text) {
  Nearest nearest(text);
  nearest.see("auto");
  bool found = strcmp(text, "auto") == 0;
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr; ++i) {
    found |= strcmp(phasor_isa_name(i), text) == 0;
    nearest.see(phasor_isa_name(i));
  }
  return found ? Word::set(text) : refuse(text, nearest.hint());
}

int Words::set(const char* text) {
  values.push_back(text);
  return 0;
}

static bool is_size(const Flag& f) { return strcmp(f.takes, "SIZE") == 0; }

string Number::wanted() const {
  if (is_size(*this))
    return format("bytes, at most %" PRIu64 ", such as 131072, 128K or 1M (1,024 × 1,024)",
                  uint64_t(most));
  return format("a whole number from %" PRIu64 " to %" PRIu64, uint64_t(least),
                most > 0 ? uint64_t(most) : UINT64_MAX);
}

int Number::set(const char* text) {
  if (text == nullptr) return 0;
  const uint64_t from = uint64_t(least), to = most > 0 ? uint64_t(most) : UINT64_MAX;
  const char* end = text + strlen(text);
  // a size may end in K or M, which count in 1,024s
  const uint64_t unit = !is_size(*this) || end == text ? 1
                        : end[-1] == 'K'               ? 1 << 10
                        : end[-1] == 'M'               ? 1 << 20
                                                       : 1;
  uint64_t number = 0;
  if (!parse_number(text, unit == 1 ? end : end - 1, to / unit, &number) || number < from)
    return refuse(text);
  value = number * unit;
  return 0;
}

// The words of "a|b" or "[=a|b]".
static vector<string> choices_of(const char* takes) {
  string all = takes;
  if (all[0] == '[') all = all.substr(2, all.size() - 3);
  vector<string> words;
  for (size_t from = 0, end = 0; end != string::npos; from = end + 1) {
    end = all.find('|', from);
    words.push_back(all.substr(from, end == string::npos ? end : end - from));
  }
  return words;
}

string Choice::choice(uint64_t place) const {
  const vector<string> all = choices_of(takes);
  return place < all.size() ? all[size_t(place)] : "?";
}

string Choice::wanted() const {
  string all = "one of:";
  for (const string& one : choices_of(takes)) all += " " + one;
  return all;
}

int Choice::set(const char* text) {
  word = text;
  value = 0;
  if (text == nullptr) return 0;
  Nearest nearest(text);
  for (const string& one : choices_of(takes)) {
    if (one == text) return 0;
    nearest.see(one);
    ++value;
  }
  return refuse(text, nearest.hint());
}

string Real::wanted() const {
  return format("a number %s %g %s %g", above ? "above" : "from", least, above ? "up to" : "to",
                most);
}

int Real::set(const char* text) {
  char* end = nullptr;
  value = strtof(text, &end);
  // not "nan", "inf" or hexadecimal
  const bool number = end != text && *end == 0 && strpbrk(text, "nNxX ") == nullptr;
  return number && (above ? value > least : value >= least) && value <= most ? 0 : refuse(text);
}

string Ids::wanted() const { return "token ids separated by commas, such as 1,2,3"; }

int Ids::set(const char* text) {
  values.clear();
  return parse_ids(text, &values) ? 0 : refuse(text);
}

int IdLists::set(const char* text) {
  const TokenIds before = values;
  const int status = Ids::set(text);
  if (!values.empty()) values.insert(values.begin(), count_of(values));
  values.insert(values.begin(), before.begin(), before.end());
  return status;
}

int InputIds::set(const char* text) {
  from_input = strcmp(text, "-") == 0;
  return Ids::set(from_input ? "" : text);
}

}  // namespace cli
