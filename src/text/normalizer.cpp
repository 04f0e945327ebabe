// The section's map: its check, and the rule for the beginning of a text. Includes the tokenizer's
// own headers only; never allocates.
#include "normalizer.h"

namespace phasor::pieces {
bool match_rule(const Tokenizer& t, Rule* out, const unsigned char* text, size_t bytes,
                bool shortest, uint32_t root) {
  if (t.trie == nullptr) return false;
  out->text = nullptr;
  MapWalk walk(t, root);
  for (size_t i = 0; i < bytes && i < t.longest_rule && walk.step(text[i]); ++i) {
    if (const unsigned char* const found = walk.value()) {
      out->text = found;
      out->consumed = i + 1;
      if (shortest) break;
    }
  }
  if (out->text == nullptr) return false;
  // a second bound, or gcc makes a call to strlen of the loop
  const size_t most = t.expansion * out->consumed;
  out->bytes = 0;
  while (out->bytes < most && out->text[out->bytes] != 0) ++out->bytes;
  work(out->bytes);
  return true;
}

bool normalizer_check(const unsigned char* trie, uint32_t units, uint32_t string_bytes) {
  work(units);
  for (uint32_t i = 0; i < units; ++i) {
    const uint32_t unit = u32_at(trie, i);
    if (is_value(unit)) {
      if ((unit & 0x7FFFFFFFu) >= string_bytes) return false;
      continue;
    }
    const uint32_t base = children(i, unit);
    if ((base | 0xFF) >= units) return false;  // a child's place is base xor any byte
    if (has_value(unit) && !is_value(u32_at(trie, base))) return false;
  }
  return units > 0 && !is_value(u32_at(trie, 0));
}

}  // namespace phasor::pieces
