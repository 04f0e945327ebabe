// The normalizer's map: a Darts double array (Aoe 1989) of keys and the offsets of their
// replacements.
#pragma once
#include <map>

#include "bytes.h"

namespace generator {

struct Trie {
  Bytes units, strings;  // both empty where there is no rule
  uint32_t longest = 0;  // bytes of the longest key
};

// Keys are not empty and have no zero byte.
Trie build_trie(const std::map<std::string, std::string>& rules);

// Puts a second map into the trie, or into one without rules: the unit where its walks begin, not
// 0. There is a rule.
uint32_t append_trie(Trie* trie, const std::map<std::string, std::string>& rules);

}  // namespace generator
