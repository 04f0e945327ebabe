#include "languages.h"

#include <string.h>

namespace cli {
namespace {

constexpr size_t kMostShown = 400;  // names in a line
constexpr const char* kCode[] = {"java", "python", "en_XX", "javascript", "php", "ruby", "go"};

enum Style { kNone, kMarian, kM2m, kNllb, kMbart, kPlbart };

bool all(const string& text, char first, char last) {
  return std::all_of(text.begin(), text.end(), [=](char c) { return c >= first && c <= last; });
}

// How a piece spells a language, and its name: "__fr__" is fr.
Style style_of(const string& piece, string* name) {
  const size_t n = piece.size();
  if (n > 4 && piece.compare(0, 2, ">>") == 0 && piece.compare(n - 2, 2, "<<") == 0)
    return *name = piece.substr(2, n - 4), kMarian;
  if (n > 4 && piece.compare(0, 2, "__") == 0 && piece.compare(n - 2, 2, "__") == 0) {
    *name = piece.substr(2, n - 4);
    for (const char* one : kCode)
      if (*name == one) return kPlbart;
    return (name->size() == 2 || name->size() == 3) && all(*name, 'a', 'z') ? kM2m : kNone;
  }
  *name = piece;
  if (n == 5 && piece[2] == '_' && all(piece.substr(0, 2), 'a', 'z') &&
      all(piece.substr(3), 'A', 'Z'))
    return kMbart;
  if (n == 8 && piece[3] == '_' && all(piece.substr(0, 3), 'a', 'z') &&
      all(piece.substr(4, 1), 'A', 'Z') && all(piece.substr(5), 'a', 'z'))
    return kNllb;
  return kNone;
}

struct Language {
  string name;
  uint32_t id;
};

// The languages of a tokenizer, which are of one style: where a file has several, that of most.
class Found {
 public:
  Found(const phasor_model* model, uint32_t vocabulary) {
    vector<Language> of[kPlbart + 1];
    for (uint32_t id = 0; id < vocabulary; ++id) {
      size_t bytes = 0;
      const char* text = phasor_piece(model, PHASOR_SOURCE, id, &bytes);
      string name;
      if (text == nullptr || bytes > 64) continue;
      const Style one = style_of(string(text, bytes), &name);
      if (one != kNone) of[one].push_back({name, id});
    }
    for (int one = kMarian; one <= kPlbart; ++one)
      if (of[one].size() > languages.size()) {
        style = static_cast<Style>(one);
        languages = of[one];
      }
  }
  bool has(uint32_t id) const {
    return std::any_of(languages.begin(), languages.end(),
                       [id](const Language& one) { return one.id == id; });
  }
  // Where a language stands in a list; its length, where none does.
  size_t place(const TokenIds& ids) const {
    return size_t(std::find_if(ids.begin(), ids.end(), [this](uint32_t id) { return has(id); }) -
                  ids.begin());
  }
  bool find(const char* flag, const char* name, uint32_t* id, string* why) const {
    for (const Language& one : languages)
      if (one.name == name) return *id = one.id, true;
    vector<string> names;
    for (const Language& one : languages) names.push_back(one.name);
    std::sort(names.begin(), names.end());
    *why = string(flag) + " " + name;
    *why += names.empty() ? ": the model's tokenizer has no languages"
                          : ": is none of the model's languages:";
    for (size_t i = 0; i < min(names.size(), kMostShown); ++i) *why += " " + names[i];
    return false;
  }

  Style style = kNone;
  vector<Language> languages;
};

void put(TokenIds* ids, size_t place, uint32_t id) {
  if (place < ids->size())
    (*ids)[place] = id;
  else
    ids->push_back(id);
}

}  // namespace

bool find_languages(const phasor_model* model, const phasor_side& source, const phasor_side& target,
                    const char* source_name, const char* target_name, Languages* out, string* why) {
  const Found found(model, source.vocabulary);
  uint32_t from = PHASOR_NONE, to = PHASOR_NONE;
  if ((source_name != nullptr && !found.find("--source-lang", source_name, &from, why)) ||
      (target_name != nullptr && !found.find("--target-lang", target_name, &to, why)))
    return false;
  TokenIds before(source.prefix, source.prefix + source.prefix_count),
      behind(source.suffix, source.suffix + source.suffix_count);
  const bool has_before = found.place(before) < before.size(),
             has_behind = found.place(behind) < behind.size();
  if (found.style == kMarian) {
    if (from != PHASOR_NONE)
      return *why = "--source-lang: the model knows its source's language by itself", false;
    if (to != PHASOR_NONE && !has_before)
      before.insert(before.begin(), to);
    else if (to != PHASOR_NONE)
      before[found.place(before)] = to;
  } else {
    const bool last = found.style == kPlbart || (found.style != kM2m && has_behind);
    if (found.style != kPlbart && found.style != kM2m && !has_before && !has_behind)
      return *why = string(source_name != nullptr ? "--source-lang" : "--target-lang") +
                    ": the file has no language around a text, and does not say where one goes:"
                    " give --source-lang to tools/convert.py",
             false;
    TokenIds& around = last ? behind : before;
    if (from != PHASOR_NONE) put(&around, found.place(around), from);
    if (to != PHASOR_NONE)
      (last && found.style != kNllb ? out->decoder_start : out->forced_first) = to;
  }
  if (to != PHASOR_NONE && found.style != kMarian && to >= target.vocabulary)
    return *why = string("--target-lang ") + target_name + ": the output has no such token", false;
  out->given = true;
  out->before = before;
  out->behind = behind;
  return true;
}

vector<pair<string, string>> prompts_of(const phasor_model* model) {
  vector<pair<string, string>> all;
  const char *name = nullptr, *text = nullptr;
  size_t name_bytes = 0, text_bytes = 0;
  while (phasor_prompt(model, count_of(all), &name, &name_bytes, &text, &text_bytes) == PHASOR_OK)
    all.emplace_back(string(name, name_bytes), string(text, text_bytes));
  return all;
}

bool find_prompt(const phasor_model* model, const char* name, string* text, string* why) {
  string known;
  for (const auto& one : prompts_of(model)) {
    if (name == nullptr || one.first == name) return *text = one.second, true;
    known += (known.empty() ? "" : ", ") + one.first;
  }
  if (name == nullptr) return true;
  *why = string("--prompt ") + name;
  *why += known.empty() ? ": the file has no prompts" : ": expected one of " + known;
  return false;
}

}  // namespace cli
