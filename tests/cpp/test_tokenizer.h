// What the tokenizer's tests share: goldens, blocks of exact size, encode and decode of whole
// texts, damaged sections.
#ifndef PHASOR_TESTS_TEST_TOKENIZER_H_
#define PHASOR_TESTS_TEST_TOKENIZER_H_

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "cases.h"
#include "heap_counter.h"
#include "model_numbers.h"
#include "share.h"
#include "text/tokenizer.h"

namespace tokenizer_tests {

using namespace phasor;

using Bytes = std::vector<unsigned char>;
using Ids = std::vector<std::uint32_t>;

inline std::string read_file(const std::string& path) {
  std::string data;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  REQUIRE_MESSAGE(file != nullptr, "cannot open " << path << " (run from the repository's root)");
  char block[4096];
  for (std::size_t n; (n = std::fread(block, 1, sizeof block, file)) > 0;) data.append(block, n);
  std::fclose(file);
  return data;
}

inline Bytes golden(const char* name) {
  const std::string data = read_file(std::string("tests/golden/tokenizers/") + name);
  return Bytes(data.begin(), data.end());
}

inline Tokenizer open(const Bytes& section) {
  Tokenizer tokenizer;
  const char* why = nullptr;
  const bool opened = tokenizer_open(&tokenizer, section.data(), section.size(), &why);
  REQUIRE_MESSAGE(opened, why);
  return tokenizer;
}

// A block of exactly `bytes` bytes: a sanitizer sees the first byte read or written behind it.
struct Block {
  void* data;
  explicit Block(std::size_t bytes) : data(std::malloc(bytes)) {}
  Block(const void* from, std::size_t bytes) : Block(bytes) {
    if (bytes > 0) std::memcpy(data, from, bytes);
  }
  ~Block() { std::free(data); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
};

inline EncodeResult encode(const Tokenizer& t, Ids* ids, const std::string& text) {
  const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size()));
  const Block scratch(bytes), copy(text.data(), text.size());
  const char* const p = static_cast<const char*>(copy.data);
  const EncodeResult counted = tokenizer_encode(t, nullptr, 0, p, text.size(), scratch.data, bytes);
  ids->assign(counted.count, 0xABABABABu);
  return tokenizer_encode(t, ids->data(), ids->size(), p, text.size(), scratch.data, bytes);
}

inline Ids encode(const Tokenizer& t, const std::string& text) {
  Ids ids;
  CHECK(encode(t, &ids, text).status == EncodeStatus::ok);
  return ids;
}

inline std::string decode(const Tokenizer& t, const Ids& ids) {
  std::string text;
  const std::size_t capacity = token_decode_capacity(t);
  const Block out(capacity);
  TokenDecoder state{};
  for (const std::uint32_t id : ids) {
    const std::size_t bytes = token_decode(t, &state, id, static_cast<char*>(out.data), capacity);
    REQUIRE(bytes <= capacity);
    text.append(static_cast<char*>(out.data), bytes);
  }
  const std::size_t bytes = token_decode_end(t, &state, static_cast<char*>(out.data), capacity);
  REQUIRE(bytes <= capacity);
  return text.append(static_cast<char*>(out.data), bytes);
}

struct Case {
  std::string text, decoded;
  Ids ids;
};

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

inline std::vector<Case> golden_cases(const char* name) {
  const std::string data = read_file(std::string("tests/golden/tokenizers/") + name);
  std::vector<Case> cases;
  for (std::size_t at = 0; at < data.size();) {
    const std::size_t end = data.find('\n', at), first = data.find('\t', at),
                      second = data.find('\t', first + 1);
    Case c{from_hex(data.substr(at, first - at)),
           from_hex(data.substr(second + 1, end - second - 1)),
           {}};
    for (std::size_t i = first + 1; i < second;) {
      const std::size_t space = data.find(' ', i), stop = space < second ? space : second;
      c.ids.push_back(static_cast<std::uint32_t>(std::stoul(data.substr(i, stop - i))));
      i = stop + 1;
    }
    cases.push_back(c);
    at = end + 1;
  }
  return cases;
}

inline void put_u32(Bytes* to, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) to->at(at + i) = static_cast<unsigned char>(value >> (8 * i));
}

struct Piece {
  std::string text;
  PieceType type;
  std::uint32_t marks;  // SentencePiece and word lists: the bits of the score
};

struct Added {
  std::string text;
  std::uint32_t id, flags;
};

struct Parts {
  ModelNumber model;
  std::uint32_t flags;
  std::vector<Piece> pieces;
  std::uint32_t unknown;
  std::string surface, prefix;
  std::uint32_t expansion, word_chars;
  std::vector<std::uint32_t> runs;
  Bytes model_data;
  std::uint32_t merges;
  std::vector<Added> added;  // in the section's order
  // of the pre-tokenizer; SentencePiece's lowest score, its bits
  std::uint32_t rule = 1, lowest = 0;
  // the normalizer's map: its double array, its replacements, the bytes of its longest key
  Bytes trie = {}, strings = {};
  std::uint32_t longest_rule = 0;
  // of a pipeline: its steps, which follow the model's part, and what ends its words
  Bytes steps = {};
  std::string suffix = "";
};

inline void append_u32(Bytes* to, std::uint32_t value) {
  to->resize(to->size() + 4);
  put_u32(to, to->size() - 4, value);
}

// A section put together here, so that the reader is checked against the page, not against one
// writer.
inline Bytes build(const Parts& p) {
  const std::size_t count = p.pieces.size(), table = 128, order = table + 16 * count,
                    text = order + 4 * count;
  std::string all;
  Bytes section(text);
  Ids sorted;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Piece& piece = p.pieces[i];
    put_u32(&section, table + 16 * i, static_cast<std::uint32_t>(all.size()));
    put_u32(&section, table + 16 * i + 4, static_cast<std::uint32_t>(piece.text.size()));
    put_u32(&section, table + 16 * i + 8, piece.marks);
    put_u32(&section, table + 16 * i + 12, static_cast<std::uint32_t>(piece.type));
    all += piece.text;
    if (piece.text.size() > longest) longest = piece.text.size();
    sorted.push_back(static_cast<std::uint32_t>(i));
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::uint32_t a, std::uint32_t b) {
    return p.pieces[a].text < p.pieces[b].text;
  });
  for (std::size_t i = 0; i < count; ++i) put_u32(&section, order + 4 * i, sorted[i]);
  const std::size_t surface = all.size();
  all += p.surface + p.prefix + p.suffix;
  Bytes added;
  std::uint32_t starts[16] = {};
  for (const Added& a : p.added) {
    append_u32(&added, static_cast<std::uint32_t>(all.size()));
    append_u32(&added, static_cast<std::uint32_t>(a.text.size()));
    append_u32(&added, a.id);
    append_u32(&added, a.flags);
    const unsigned char first = static_cast<unsigned char>(a.text[0]);
    if (!a.text.empty()) starts[(a.flags & 8) + (first >> 5)] |= 1u << (first & 31);
    all += a.text;
  }
  const auto u32 = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
  put_u32(&section, 0, static_cast<std::uint32_t>(p.model));
  put_u32(&section, 4, p.flags);
  put_u32(&section, 8, u32(count));
  put_u32(&section, 12, p.unknown);
  put_u32(&section, 20, u32(longest));
  put_u32(&section, 32, u32(table));
  put_u32(&section, 40, u32(order));
  put_u32(&section, 48, u32(text));
  put_u32(&section, 56, u32(all.size()));
  put_u32(&section, 80, u32(surface));
  put_u32(&section, 84, u32(p.surface.size()));
  put_u32(&section, 88, p.expansion);
  const bool packaged = p.model >= ModelNumber::wordpiece;
  put_u32(&section, 16, packaged ? 0 : p.lowest);
  put_u32(&section, 96, packaged ? p.rule : 0);
  put_u32(&section, 100, u32(p.runs.size()));
  put_u32(&section, 104, p.merges);
  put_u32(&section, 108, u32(p.added.size()));
  put_u32(&section, 112, p.word_chars);
  put_u32(&section, 116, u32(p.prefix.size()));
  put_u32(&section, 120, u32(p.steps.size()));
  put_u32(&section, 124, u32(p.suffix.size()));
  section.insert(section.end(), all.begin(), all.end());
  section.resize((section.size() + 3) / 4 * 4);
  if (!p.trie.empty()) {
    put_u32(&section, 24, u32(p.trie.size()));
    put_u32(&section, 28, u32(p.strings.size()));
    put_u32(&section, 64, u32(section.size()));
    put_u32(&section, 72, u32(section.size() + p.trie.size()));
    section.insert(section.end(), p.trie.begin(), p.trie.end());
    section.insert(section.end(), p.strings.begin(), p.strings.end());
    section.resize((section.size() + 3) / 4 * 4);
  }
  put_u32(&section, 92, p.longest_rule);
  for (const std::uint32_t run : p.runs) append_u32(&section, run);
  section.insert(section.end(), p.model_data.begin(), p.model_data.end());
  section.insert(section.end(), p.steps.begin(), p.steps.end());
  for (std::size_t i = 0; i < 16 && !added.empty(); ++i) append_u32(&section, starts[i]);
  section.insert(section.end(), added.begin(), added.end());
  return section;
}

inline std::uint32_t run(std::uint32_t first, std::uint32_t classes) {
  return first | classes << 21;
}

inline void append_f64(Bytes* to, double value) {
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  append_u32(to, static_cast<std::uint32_t>(bits));
  append_u32(to, static_cast<std::uint32_t>(bits >> 32));
}

// Every way in which a section may be used after it was opened.
inline void use(const Tokenizer& t) {
  static const char* const texts[] = {"",
                                      " ",
                                      "  a  b ",
                                      "\xff\xe6\x88",
                                      "aaaaaaaaaaaaaaaa",
                                      "I have a cat. 我有一只猫。",
                                      "<sep>x [x]abcab\tﷺ",
                                      "ｆｕｌｌ é"};
  // room for what is remembered of the texts; a cut-off text leaves words behind too
  constexpr std::uint64_t kTexts = 4096;
  const Block memory(static_cast<std::size_t>(tokenizer_memory_bytes(t, kTexts)));
  std::memset(memory.data, 0, static_cast<std::size_t>(tokenizer_memory_bytes(t, kTexts)));
  for (const char* text : texts) {
    const std::size_t size = std::strlen(text);
    Ids ids(64), again(64), offsets(128);
    const Block copy(text, size);
    const auto encode = [&](Ids* to, std::uint32_t* places, void* remembered = nullptr) {
      const std::uint64_t bytes = tokenizer_scratch_bytes(t, size, places != nullptr);
      REQUIRE(bytes < (std::uint64_t{1} << 24));
      const Block scratch(static_cast<std::size_t>(bytes));
      return tokenizer_encode(t, to->data(), to->size(), static_cast<const char*>(copy.data), size,
                              scratch.data, static_cast<std::size_t>(bytes), places,
                              {remembered, kTexts});
    };
    const EncodeResult r = encode(&ids, nullptr), placed = encode(&again, offsets.data());
    REQUIRE(placed.count == r.count);
    REQUIRE((placed.status == r.status || placed.status == EncodeStatus::no_offsets));
    for (std::size_t i = 0; i < r.count && i < ids.size(); ++i) {
      if (r.status == EncodeStatus::ok) REQUIRE(ids[i] < t.pieces);
      if (placed.status != EncodeStatus::ok) continue;
      REQUIRE(again[i] == ids[i]);
      REQUIRE(offsets[2 * i] <= offsets[2 * i + 1]);
      REQUIRE(offsets[2 * i + 1] <= size);
    }
    for (int time = 0; time < 3; ++time) {
      Ids known(time == 0 ? 2 : 64);
      const EncodeResult kept = encode(&known, nullptr, memory.data);
      REQUIRE(kept.count == r.count);
      REQUIRE(kept.status == r.status);
      for (std::size_t i = 0; i < r.count && i < known.size(); ++i) REQUIRE(known[i] == ids[i]);
    }
  }
  const std::size_t capacity = token_decode_capacity(t);
  const Block out(capacity);
  TokenDecoder state{};
  for (std::uint32_t id = 0; id < t.pieces; ++id) {
    REQUIRE(token_decode(t, &state, id, static_cast<char*>(out.data), capacity) <= capacity);
    const PieceView piece = tokenizer_piece(t, id);
    REQUIRE(tokenizer_find(t, piece.text, piece.bytes) < t.pieces);
  }
  REQUIRE(token_decode_end(t, &state, static_cast<char*>(out.data), capacity) <= capacity);
}

// Opens a copy of the section in a block of its own, and uses it if it opens.
inline bool survives(const unsigned char* section, std::size_t bytes) {
  const Block block(section, bytes);
  Tokenizer t;
  const char* why = nullptr;
  if (!tokenizer_open(&t, static_cast<const unsigned char*>(block.data), bytes, &why)) {
    REQUIRE(why != nullptr);
    return false;
  }
  use(t);
  return true;
}

inline void refuses_truncations(const Bytes& section, std::size_t stride) {
  CHECK(survives(section.data(), section.size()));
  for (std::size_t bytes = 0; bytes < section.size(); bytes += bytes < 4096 ? 1 : stride)
    REQUIRE_FALSE(survives(section.data(), bytes));
  REQUIRE_FALSE(survives(section.data(), section.size() - 1));
  Bytes longer = section;
  longer.resize(section.size() + 4);
  CHECK_FALSE(survives(longer.data(), longer.size()));
}

// Wrong values in every byte of a small section; a large one has a stride that meets every field.
inline void damage(Bytes section, std::size_t stride, Share* share = nullptr) {
  for (std::size_t i = 0; i < section.size(); i += i < 512 ? 1 : stride) {
    if (share != nullptr && !share->takes()) continue;
    const int right = section[i];
    std::vector<int> all = {0, 0xFF, right ^ 1, right ^ 0x80};
    if (stride == 1) all.insert(all.end(), {1, 2, 4, 0x7F, 0x80, 0xFE, right + 1});
    for (const int wrong : all) {
      section[i] = static_cast<unsigned char>(wrong);
      survives(section.data(), section.size());
    }
    section[i] = static_cast<unsigned char>(right);
  }
}

inline void allocates_nothing(const Bytes& section) {
  if (!HeapCounter::active()) return;
  const std::string text = "I have a [MASK]. 我有一只猫。 \xff " + std::string(1000, 'a');
  Tokenizer t = open(section);
  const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size()));
  const Block scratch(bytes);
  Ids ids(2000);
  std::vector<char> out(token_decode_capacity(t));
  HeapCounter heap;
  const char* why = nullptr;
  bool ok = tokenizer_open(&t, section.data(), section.size(), &why);
  const EncodeResult r =
      tokenizer_encode(t, ids.data(), ids.size(), text.data(), text.size(), scratch.data, bytes);
  ok = ok && r.status == EncodeStatus::ok && r.count <= ids.size();
  TokenDecoder state{};
  for (std::size_t i = 0; ok && i < r.count; ++i)
    ok = token_decode(t, &state, ids[i], out.data(), out.size()) <= out.size();
  ok = ok && token_decode_end(t, &state, out.data(), out.size()) <= out.size();
  const std::uint64_t allocations = heap.allocations();
  CHECK(ok);
  CHECK(allocations == 0);
}

inline void refuses(Bytes section, std::size_t at, std::uint32_t value, const char* expected) {
  put_u32(&section, at, value);
  Tokenizer t;
  const char* why = "";
  CHECK_FALSE(tokenizer_open(&t, section.data(), section.size(), &why));
  CHECK(std::string(why) == expected);
}

// Why a section is refused; "" where it opens.
inline std::string why_not(const Bytes& section) {
  Tokenizer t;
  const char* why = "";
  return tokenizer_open(&t, section.data(), section.size(), &why) ? "" : why;
}

inline std::vector<std::uint32_t> all_letters() { return {run(0, 2 | 8)}; }

// BPE of bytes whose pieces are the 256 bytes.
inline Parts bytes_bpe() {
  Parts p{};
  p.model = ModelNumber::byte_bpe;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    p.pieces.push_back({std::string(1, static_cast<char>(byte)), PieceType::normal, 1});
    append_u32(&p.model_data, byte);
  }
  p.unknown = kNoToken;
  p.expansion = 3;
  p.runs = all_letters();
  p.rule = 2;  // the stretch is one word
  return p;
}

// The ids and the text of every line of a golden tokenizer: NAME.bin, NAME.ids.txt.
inline void check_golden_lines(const char* name) {
  const Bytes section = golden((std::string(name) + ".bin").c_str());
  const Tokenizer t = open(section);
  const std::vector<Case> cases = golden_cases((std::string(name) + ".ids.txt").c_str());
  REQUIRE(cases.size() > 300);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(name);
    CAPTURE(i + 1);
    CHECK(encode(t, cases[i].text) == cases[i].ids);
    CHECK(decode(t, cases[i].ids) == cases[i].decoded);
  }
}

}  // namespace tokenizer_tests

#endif  // PHASOR_TESTS_TEST_TOKENIZER_H_
