// Text normalisation. The map is a Darts double array (Aoe 1989): a unit has its label in bits 0–7
// and 31, "a value hangs here" in bit 8, and the xor distance to its children in bits 10–30,
// shifted by 8 more when bit 9 is set.
#include "normalizer.h"

#include "pieces.h"

namespace phasor {
namespace {

using pieces::load_u32;

std::uint32_t unit_at(const unsigned char* trie, std::uint32_t i) noexcept {
  return load_u32(trie + std::size_t{i} * 4);
}
std::uint32_t children(std::uint32_t node, std::uint32_t unit) noexcept {
  return node ^ ((unit >> 10) << ((unit & 0x200) >> 6));
}
bool has_value(std::uint32_t unit) noexcept { return (unit & 0x100) != 0; }
bool is_value(std::uint32_t unit) noexcept { return (unit & 0x80000000u) != 0; }
std::uint32_t label(std::uint32_t unit) noexcept { return unit & 0x800000FFu; }

// The longest rule that applies here; else one character as it is; else U+FFFD for one invalid
// byte.
Rule next_chunk(const Tokenizer& t, const unsigned char* text, std::size_t bytes) noexcept {
  work();
  if (const std::size_t user = pieces::match_user_defined(t, text, bytes))
    return {text, user, user};
  Rule rule;
  if (match_rule(t, &rule, text, bytes, false)) return rule;
  bool more = false;
  const std::size_t size = pieces::valid_char(text, bytes, &more);
  if (size == 0) return {pieces::kReplacement, sizeof pieces::kReplacement, 1};
  return {text, size, size};
}

// The normalised text so far.
struct Output {
  unsigned char* text;
  std::uint64_t capacity;
  std::uint64_t size;
  bool full;
  bool escape;

  void put(const unsigned char* bytes, std::size_t n) noexcept {
    work(1 + n);
    if (capacity - size < n) {
      full = true;
      return;
    }
    std::memcpy(text + size, bytes, n);
    size += n;
  }
  void space() noexcept {
    if (escape)
      put(pieces::kSpaceSymbol, 3);
    else
      put(reinterpret_cast<const unsigned char*>(" "), 1);
  }
  bool drop_trailing_space() noexcept {
    const std::size_t n = escape ? 3 : 1;
    if (size < n) return false;
    if (escape ? std::memcmp(text + size - 3, pieces::kSpaceSymbol, 3) != 0 : text[size - 1] != ' ')
      return false;
    size -= n;
    return true;
  }
};

}  // namespace

bool match_rule(const Tokenizer& t, Rule* out, const unsigned char* text, std::size_t bytes,
                bool shortest) noexcept {
  if (t.trie == nullptr) return false;
  out->text = nullptr;
  std::uint32_t base = children(0, unit_at(t.trie, 0));
  for (std::size_t i = 0; i < bytes && i < t.longest_rule; ++i) {
    work();
    const std::uint32_t node = base ^ text[i];
    const std::uint32_t unit = unit_at(t.trie, node);
    if (label(unit) != text[i] || text[i] == 0) break;  // no key has a zero byte
    base = children(node, unit);
    if (has_value(unit)) {
      out->text = t.strings + (unit_at(t.trie, base) & 0x7FFFFFFFu);
      out->consumed = i + 1;
      if (shortest) break;
    }
  }
  if (out->text == nullptr) return false;
  // a second bound, or gcc makes a call to strlen of the loop
  const std::size_t most = t.expansion * out->consumed;
  out->bytes = 0;
  while (out->bytes < most && out->text[out->bytes] != 0) ++out->bytes;
  work(out->bytes);
  return true;
}

const unsigned char* find_rule(const Tokenizer& t, const unsigned char* key,
                               std::size_t bytes) noexcept {
  std::uint32_t node = 0, unit = unit_at(t.trie, 0);
  work(1 + bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    node = children(node, unit) ^ key[i];
    unit = unit_at(t.trie, node);
    if (label(unit) != key[i] || key[i] == 0) return nullptr;
  }
  return has_value(unit) ? t.strings + (unit_at(t.trie, children(node, unit)) & 0x7FFFFFFFu)
                         : nullptr;
}

std::uint64_t normalize(const Tokenizer& t, unsigned char* out, std::uint64_t capacity,
                        const unsigned char* text, std::size_t bytes) noexcept {
  const bool remove_extra = (t.flags & pieces::kRemoveExtraWhitespaces) != 0;
  const bool add_space = (t.flags & pieces::kAddDummyPrefix) != 0;
  const bool suffix = (t.flags & pieces::kWhitespaceSuffix) != 0;
  Output output{out, capacity, 0, false, (t.flags & pieces::kEscapeWhitespaces) != 0};

  // Leading spaces go; a text that has nothing else is empty and gets no dummy prefix either.
  std::size_t at = 0;
  while (remove_extra && at < bytes) {
    const Rule chunk = next_chunk(t, text + at, bytes - at);
    if (chunk.bytes != 1 || chunk.text[0] != ' ') break;
    at += chunk.consumed;
  }
  if (at == bytes) return 0;

  if (add_space && !suffix) output.space();
  bool after_space = remove_extra;
  while (at < bytes && !output.full) {
    Rule chunk = next_chunk(t, text + at, bytes - at);
    at += chunk.consumed;
    while (after_space && chunk.bytes > 0 && chunk.text[0] == ' ') {
      ++chunk.text;
      --chunk.bytes;
    }
    if (chunk.bytes > 0) {
      for (std::size_t i = 0, start = 0; i < chunk.bytes; start = i) {
        while (i < chunk.bytes && chunk.text[i] != ' ') ++i;
        output.put(chunk.text + start, i - start);
        if (i < chunk.bytes) {
          output.space();
          ++i;
        }
      }
      after_space = remove_extra && chunk.text[chunk.bytes - 1] == ' ';
    }
  }
  while (remove_extra && output.drop_trailing_space()) {
  }
  if (add_space && suffix) output.space();
  return output.full ? kNormalizedTooLong : output.size;
}

bool normalizer_check(const unsigned char* trie, std::uint32_t units,
                      std::uint32_t string_bytes) noexcept {
  work(units);
  for (std::uint32_t i = 0; i < units; ++i) {
    const std::uint32_t unit = unit_at(trie, i);
    if (is_value(unit)) {
      if ((unit & 0x7FFFFFFFu) >= string_bytes) return false;
      continue;
    }
    const std::uint32_t base = children(i, unit);
    if ((base | 0xFF) >= units) return false;  // a child's place is base xor any byte
    if (has_value(unit) && !is_value(unit_at(trie, base))) return false;
  }
  return units > 0 && !is_value(unit_at(trie, 0));
}

}  // namespace phasor
