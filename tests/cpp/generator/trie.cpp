#include "trie.h"

#include <algorithm>
#include <deque>
#include <set>

namespace generator {
namespace {

constexpr uint32_t kBlock = 256, kHasValue = 0x100, kIsValue = 0x80000000u;

struct Node {
  std::map<unsigned char, std::size_t> children;
  bool has_value = false;
  uint32_t value = 0;
};

}  // namespace

Trie build_trie(const std::map<std::string, std::string>& rules) {
  Trie trie;
  if (rules.empty()) return trie;
  std::deque<Node> nodes(1);
  for (const auto& rule : rules) {
    std::size_t at = 0;
    for (const char byte : rule.first) {
      const auto made = nodes[at].children.insert({static_cast<unsigned char>(byte), nodes.size()});
      if (made.second) nodes.emplace_back();
      at = made.first->second;
    }
    nodes[at].has_value = true;
    nodes[at].value = static_cast<uint32_t>(trie.strings.size());
    put_text(&trie.strings, rule.second);
    trie.strings.push_back(0);
    trie.longest = std::max(trie.longest, static_cast<uint32_t>(rule.first.size()));
  }

  // A node's children lie at its base xor their byte; its value at the base. The first base that
  // fits.
  std::vector<uint32_t> units(kBlock, 0);
  std::vector<bool> taken(kBlock, false);
  std::set<uint32_t> bases;
  taken[0] = true;
  std::deque<std::pair<std::size_t, uint32_t>> open = {{0, 0}};  // a node and its place
  while (!open.empty()) {
    const auto [index, place] = open.front();
    open.pop_front();
    const Node& node = nodes[index];
    const auto fits = [&](uint32_t base) {
      if (bases.count(base) != 0 || (node.has_value && taken[base])) return false;
      return std::all_of(node.children.begin(), node.children.end(),
                         [&](const auto& child) { return !taken[base ^ child.first]; });
    };
    uint32_t base = 1;
    for (; !fits(base); ++base)
      if (base + 1 == units.size()) {
        units.resize(units.size() + kBlock, 0);
        taken.resize(units.size(), false);
      }
    bases.insert(base);
    units[place] |= (place ^ base) << 10 | (node.has_value ? kHasValue : 0);
    if (node.has_value) {
      units[base] = kIsValue | node.value;
      taken[base] = true;
    }
    for (const auto& child : node.children) {
      units[base ^ child.first] = child.first;
      taken[base ^ child.first] = true;
      open.push_back({child.second, base ^ child.first});
    }
  }
  for (const uint32_t unit : units) put_u32(&trie.units, unit);
  return trie;
}

uint32_t append_trie(Trie* trie, const std::map<std::string, std::string>& rules) {
  const Trie second = build_trie(rules);
  // Behind the first at a multiple of a power of two that is no smaller than it: then distances,
  // which are xor, are what they were.
  std::size_t step = 1;
  while (step < second.units.size() / 4) step *= 2;
  const std::size_t root =
      std::max((trie->units.size() / 4 + step - 1) / step, std::size_t{1}) * step;
  trie->units.resize(4 * root);
  const uint32_t strings = static_cast<uint32_t>(trie->strings.size());
  for (std::size_t i = 0; i < second.units.size(); i += 4) {
    uint32_t unit = 0;
    for (std::size_t byte = 4; byte-- > 0;) unit = unit << 8 | second.units[i + byte];
    put_u32(&trie->units, (unit & kIsValue) != 0 ? unit + strings : unit);
  }
  trie->strings.insert(trie->strings.end(), second.strings.begin(), second.strings.end());
  trie->longest = std::max(trie->longest, second.longest);
  return static_cast<uint32_t>(root);
}

}  // namespace generator
