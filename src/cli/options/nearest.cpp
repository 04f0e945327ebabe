#include "nearest.h"

namespace cli {
namespace {

constexpr size_t kLongest = 40;  // letters of a word that is compared: more than any that there is

// What is compared of a word; false where that is too long.
bool letters_of(const string& word, char* out, size_t* count) {
  const size_t begin = min(word.find_first_not_of('-'), word.size());
  *count = word.size() - begin;
  if (*count > kLongest) return false;
  for (size_t i = 0; i < *count; ++i) {
    const char c = word[begin + i];
    out[i] = c == '_' ? '-' : char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  }
  return true;
}

// Edits between two words, each letter in at most one of them (optimal string alignment).
unsigned distance(const char* a, size_t a_count, const char* b, size_t b_count) {
  unsigned rows[3][kLongest + 1];
  unsigned *before = rows[0], *last = rows[1], *row = rows[2];
  for (size_t k = 0; k <= b_count; ++k) last[k] = unsigned(k);
  for (size_t i = 1; i <= a_count; ++i) {
    row[0] = unsigned(i);
    for (size_t k = 1; k <= b_count; ++k) {
      const unsigned changed = last[k - 1] + (a[i - 1] != b[k - 1] ? 1 : 0);
      row[k] = min(changed, min(last[k], row[k - 1]) + 1);
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        row[k] = min(row[k], before[k - 2] + 1);
    }
    unsigned* const free = before;
    before = last;
    last = row;
    row = free;
  }
  return last[b_count];
}

}  // namespace

// Half an edit is what makes a word that begins another less near than one edit does.
void Nearest::see(const string& word) {
  char a[kLongest], b[kLongest];
  size_t a_count = 0, b_count = 0;
  if (!letters_of(mistyped_, a, &a_count) || !letters_of(word, b, &b_count)) return;
  const size_t shorter = min(a_count, b_count), longer = max(a_count, b_count);
  unsigned cost = 2 * distance(a, a_count, b, b_count);
  const bool begins = shorter >= 2 && std::equal(a, a + shorter, b);
  if (begins) cost = min(cost, 3u);
  if (cost > 2 * max<size_t>(1, longer / 3) && !begins) return;
  if (cost == 2 && longer == 1) return;  // any other letter
  if (cost >= best_cost_) return;
  best_cost_ = cost;
  best_ = word;
}

}  // namespace cli
