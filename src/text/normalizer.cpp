// The section's map: its check, and the rule for the beginning of a text. Includes the tokenizer's
// own headers only; never allocates.
#include "normalizer.h"

#include "chars.h"

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

uint64_t normalize_not(const Tokenizer&, Output* out, const unsigned char* text, size_t bytes) {
  if (out->put(text, bytes) && wanted(out->origins)) {
    uint32_t* const origins = out->origins + out->size - bytes;
    for (size_t at = 0; at < bytes;) {
      const size_t size = char_at(text + at, bytes - at).bytes;
      fill_origins(origins + at, out->base + static_cast<uint32_t>(at), size);
      at += size;
    }
  }
  return out->result();
}

uint64_t normalize_bert(const Tokenizer& t, Output* out, const unsigned char* text, size_t bytes) {
  for (size_t at = 0; at < bytes && !out->full;) {
    out->from(at);
    const Char c = char_at(text + at, bytes - at);
    const bool valid = c.code != kNoChar;
    const uint32_t of = classes(t, valid ? c.code : 0xFFFD);
    Span to = valid ? Span{text + at, c.bytes} : Span{kReplacement, sizeof kReplacement};
    unsigned char parts[9];
    at += c.bytes;
    if ((of & kRemoved) != 0) continue;
    Rule rule;
    if ((of & kHangul) != 0 && is_syllable(c.code))
      to = {parts, decompose_hangul(parts, c.code)};
    else if (valid && match_rule(t, &rule, to.text, to.bytes, false))
      to = {rule.text, rule.bytes};
    if ((of & kPadded) != 0) out->put(kBlank, 1);
    out->put(to);
    if ((of & kPadded) != 0) out->put(kBlank, 1);
  }
  return out->result();
}

}  // namespace phasor::pieces
