// Texts of any length, and the work of both ways between them and ids.
#pragma once
#include <functional>

#include "growth.h"
#include "test_tokenizer.h"

namespace bound_tests {

using namespace tokenizer_tests;

constexpr std::size_t kBytes = 4096;

using Text = std::function<std::string(std::size_t)>;

inline std::string repeated(const std::string& unit, std::size_t bytes) {
  std::string text;  // of whole units, one at least
  do text += unit;
  while (text.size() + unit.size() <= bytes);
  return text;
}

// What encode() and decode() of test_tokenizer.h do, once and without their assertions.
inline Ids ids_of(const Tokenizer& t, const std::string& text) {
  Ids ids(text.size() * 4 + 16);
  std::vector<std::uint32_t> scratch(
      static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size()) / 4 + 1));
  const EncodeResult r = tokenizer_encode(t, ids.data(), ids.size(), text.data(), text.size(),
                                          scratch.data(), scratch.size() * 4);
  ids.resize(r.count < ids.size() ? r.count : ids.size());
  return ids;
}
inline std::size_t decoded_bytes(const Tokenizer& t, const Ids& ids) {
  std::vector<char> out(token_decode_capacity(t));
  TokenDecoder state{};
  std::size_t bytes = 0;
  for (const std::uint32_t id : ids) bytes += token_decode(t, &state, id, out.data(), out.size());
  return bytes + token_decode_end(t, &state, out.data(), out.size());
}

// Encoding, and decoding what came of it.
inline void check_both_ways(const Tokenizer& t, const std::string& what, const Text& text,
                            std::size_t n = kBytes) {
  Ids ids[2];
  const std::uint64_t steps = check_growth(what + ", text to ids", n, [&](std::size_t bytes) {
    ids[bytes == n ? 0 : 1] = ids_of(t, text(bytes));
  });
  CHECK(steps >= n / 8);  // the counter counts
  if (ids[0].size() < 64) return;
  check_growth(what + ", ids to text", 0,
               [&, which = 0](std::size_t) mutable { (void)decoded_bytes(t, ids[which++]); });
}

inline Text of(const std::string& unit) {
  return [unit](std::size_t bytes) { return repeated(unit, bytes); };
}

// Characters of a list, by chance; the same beginning for every length.
inline Text random_of(const std::vector<std::string>& units) {
  return [units](std::size_t bytes) {
    std::string text;
    std::uint64_t state = 7;
    while (text.size() < bytes) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += units[static_cast<std::size_t>(state >> 33) % units.size()];
    }
    return text;
  };
}

}  // namespace bound_tests
