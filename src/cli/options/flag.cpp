#include "flag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../../../include/phasor.h"

namespace cli {

Flag::Flag(const char* words, const char* text)
    : spec(words), help(text), name(words, strcspn(words, " [")), takes(words + name.size()) {
  if (takes[0] == ' ') ++takes;
}

int Word::set(const char* text) {
  value = text;
  return 0;
}

int IsaName::set(const char* text) {
  string known = "auto";
  bool found = text == known;
  for (uint32_t i = 0; phasor_isa_name(i) != nullptr && !found; ++i) {
    found = strcmp(phasor_isa_name(i), text) == 0;
    known += string(" ") + phasor_isa_name(i);
  }
  if (found) return Word::set(text);
  return usage_error("%s %s: expected one that runs here: %s", given, text, known.c_str());
}

int Words::set(const char* text) {
  values.push_back(text);
  return 0;
}

int Number::set(const char* text) {
  if (text == nullptr) return 0;
  const uint64_t from = uint64_t(least), to = most > 0 ? uint64_t(most) : UINT64_MAX;
  const char* end = text + strlen(text);
  const bool size = strcmp(takes, "SIZE") == 0;  // may end in K or M, which count in 1,024s
  const uint64_t unit = !size || end == text ? 1
                        : end[-1] == 'K'     ? 1 << 10
                        : end[-1] == 'M'     ? 1 << 20
                                             : 1;
  uint64_t number = 0;
  if (parse_number(text, unit == 1 ? end : end - 1, to, &number) && number >= from) {
    value = number * unit;
    return 0;
  }
  if (size) return usage_error("%s %s: expected bytes, such as 131072, 128K or 1M", given, text);
  return usage_error("%s %s: expected a whole number from %" PRIu64 " to %" PRIu64, given, text,
                     from, to);
}

int Choice::set(const char* text) {
  word = text;
  value = 0;
  if (text == nullptr) return 0;
  string choices = takes;
  if (choices[0] == '[') choices = choices.substr(2, choices.size() - 3);  // "[=a|b]"
  for (const char* at = choices.c_str(); *at != 0; ++value) {
    const size_t length = strcspn(at, "|");
    if (strlen(text) == length && strncmp(at, text, length) == 0) return 0;
    at += length + (at[length] != 0 ? 1 : 0);
  }
  std::replace(choices.begin(), choices.end(), '|', ' ');
  return usage_error("%s %s: expected one of: %s", given, text, choices.c_str());
}

int Real::set(const char* text) {
  char* end = nullptr;
  value = strtof(text, &end);
  // not "nan", "inf" or hexadecimal
  const bool number = end != text && *end == 0 && strpbrk(text, "nNxX ") == nullptr;
  if (number && (above ? value > least : value >= least) && value <= most) return 0;
  return usage_error("%s %s: expected a number %s %g %s %g", given, text, above ? "above" : "from",
                     least, above ? "up to" : "to", most);
}

int Ids::set(const char* text) {
  values.clear();
  if (parse_ids(text, &values)) return 0;
  return usage_error("%s %s: expected token ids separated by commas, such as 1,2,3", given, text);
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
