// The steps of a pipeline's section, put together by hand (file-format.md, TOKENIZER).
#ifndef PHASOR_TESTS_STEP_ROWS_H_
#define PHASOR_TESTS_STEP_ROWS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "pattern_table.h"

namespace step_rows {

using Bytes = std::vector<unsigned char>;

enum Kind : std::uint32_t {
  map = 1,
  canonical,
  clusters,
  strip,
  replace,
  prefix,
  letters,
  split,
  words,
  spelled,
  filter_text,
  filter_ends,
  filter_byte
};

inline void put(Bytes* to, std::uint32_t value, int size = 4) {
  for (int i = 0; i < size; ++i) to->push_back(static_cast<unsigned char>(value >> 8 * i));
}
inline void put_padded(Bytes* to, const std::string& text) {
  to->insert(to->end(), text.begin(), text.end());
  while (to->size() % 4 != 0) to->push_back(0);
}

inline Bytes row(std::uint32_t kind, const Bytes& part = {}) {
  Bytes out;
  put(&out, kind);
  put(&out, static_cast<std::uint32_t>(8 + part.size()));
  out.insert(out.end(), part.begin(), part.end());
  return out;
}

inline Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What becomes of the characters of a run.
constexpr std::uint32_t kKeep = 0, kRemove = 1u << 29, kText = 4u << 29, kHangul = 5u << 29;
inline std::uint32_t add(std::int32_t delta, bool on_even = false) {
  return (on_even ? 3u : 2u) << 29 | static_cast<std::uint32_t>(delta + (1 << 21));
}

// (first, change) of the runs; `texts`, each behind its bytes.
inline Bytes map_of(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& runs,
                    const std::string& texts = "") {
  Bytes part;
  put(&part, static_cast<std::uint32_t>(runs.size()));
  put(&part, static_cast<std::uint32_t>(texts.size()));
  for (std::uint32_t c = 0; c < 128; ++c) {
    std::uint32_t of = 0;
    while (of + 1 < runs.size() && runs[of + 1].first <= c) ++of;
    put(&part, of, 1);
  }
  for (const auto& run : runs) {
    put(&part, run.first);
    put(&part, run.second);
  }
  put_padded(&part, texts);
  return row(map, part);
}

struct Pair {
  std::uint32_t first, second, both;
};
// (first character, class); pairs in their order.
inline Bytes canonical_of(const std::vector<std::pair<std::uint32_t, std::uint32_t>>& runs,
                          const std::vector<Pair>& pairs, bool composes) {
  Bytes part;
  put(&part, static_cast<std::uint32_t>(runs.size()));
  put(&part, static_cast<std::uint32_t>(pairs.size()));
  put(&part, composes ? 1 : 0);
  for (const auto& run : runs) put(&part, run.first << 8 | run.second);
  for (const Pair& pair : pairs)
    for (const std::uint32_t value : {pair.first, pair.second, pair.both}) put(&part, value);
  return row(canonical, part);
}

// A map of clusters of the row's own.
inline Bytes clusters_of(const Bytes& trie, const Bytes& strings, std::uint32_t longest_rule) {
  Bytes part;
  put(&part, static_cast<std::uint32_t>(trie.size()));
  put(&part, static_cast<std::uint32_t>(strings.size()));
  put(&part, longest_rule);
  part = part + trie + strings;
  put_padded(&part, "");
  return row(clusters, part);
}

inline Bytes strip_of(std::uint32_t sides) {
  Bytes part;
  put(&part, sides);
  return row(strip, part);
}

inline Bytes replace_of(PatternTable pattern, const std::string& content) {
  Bytes part;
  put(&part, static_cast<std::uint32_t>(content.size()));
  put_padded(&part, content);
  pattern.behavior = PatternTable::removed;
  return row(replace, part + pattern.bytes());
}

inline Bytes prefix_of(std::uint32_t flags, const std::string& text) {
  Bytes part;
  put(&part, flags);
  put(&part, static_cast<std::uint32_t>(text.size()));
  put_padded(&part, text);
  return row(prefix, part);
}

inline Bytes split_of(PatternTable pattern, std::uint8_t behavior) {
  pattern.behavior = behavior;
  return row(split, pattern.bytes());
}

struct Spelled {
  std::uint32_t id;
  std::string first, later;
  std::uint32_t flags;
};
inline Bytes spelled_of(const std::vector<Spelled>& pieces) {
  Bytes part;
  std::string texts;
  for (const Spelled& p : pieces) texts += p.first + p.later;
  put(&part, static_cast<std::uint32_t>(pieces.size()));
  put(&part, static_cast<std::uint32_t>(texts.size()));
  std::size_t at = 0;
  for (const Spelled& p : pieces) {
    put(&part, p.id);
    put(&part, static_cast<std::uint32_t>(at));
    put(&part, static_cast<std::uint32_t>(p.first.size()), 2);
    put(&part, static_cast<std::uint32_t>(p.later.size()), 2);
    put(&part, p.flags);
    at += p.first.size() + p.later.size();
  }
  put_padded(&part, texts);
  return row(spelled, part);
}

// One character of a list; of any other text nothing.
inline PatternTable one_of(const std::string& characters) {
  PatternTable t{{characters}, {{1, 1, 1}, {2, 0, 0}}, {0, 1, 0}};
  t.rows.push_back({PatternTable::kAccepts, PatternTable::kAccepts, PatternTable::kAccepts});
  return t;
}

// Class 230 above, 220 below; e and o with an acute accent, and o with one below.
inline const std::vector<std::pair<std::uint32_t, std::uint32_t>>& few_classes() {
  static const std::vector<std::pair<std::uint32_t, std::uint32_t>> all = {
      {0x300, 230}, {0x316, 220}, {0x31A, 0}, {0x323, 220}, {0x327, 202}, {0x328, 0}};
  return all;
}
inline const std::vector<Pair>& few_pairs() {
  static const std::vector<Pair> all = {
      {'e', 0x301, 0xE9}, {'o', 0x301, 0xF3}, {'o', 0x323, 0x1ECD}};
  return all;
}

// A map with every change: a → b, A C E … → the next letter, c → nothing, q → texts, syllables.
inline Bytes every_change() {
  return map_of({{0, kKeep},
                 {'A', add(1, true)},
                 {'G', kKeep},
                 {'c', kRemove},
                 {'d', kKeep},
                 {'q', kText | 0},
                 {'r', kText | 4},
                 {'s', kKeep},
                 {'x', add(-23)},
                 {'y', kKeep},
                 {0xAC00, kHangul},
                 {0xD7A4, kKeep},
                 {0x1F600, add('y' - 0x1F600)},
                 {0x1F601, kKeep}},
                std::string("\3uvw\0", 5));
}

// In the text of all tokens a text becomes another.
inline Bytes filter_of(const std::string& text, const std::string& to) {
  Bytes part;
  put(&part, static_cast<std::uint32_t>(text.size()));
  put(&part, static_cast<std::uint32_t>(to.size()));
  std::string borders;
  for (std::size_t n = 1; n <= text.size(); ++n) {
    std::size_t border = n - 1;
    while (text.compare(0, border, text, n - border, border) != 0) --border;
    borders += static_cast<char>(border);
  }
  put_padded(&part, text + borders + to);
  return row(filter_text, part);
}
// A character goes at the ends, so often at most.
inline Bytes filter_ends_of(std::uint32_t sign, std::uint32_t start, std::uint32_t stop) {
  Bytes part;
  put(&part, start);
  put(&part, stop);
  put(&part, sign);
  put_padded(&part, std::string(stop, static_cast<char>(sign)));
  return row(filter_ends, part);
}

}  // namespace step_rows

#endif  // PHASOR_TESTS_STEP_ROWS_H_
