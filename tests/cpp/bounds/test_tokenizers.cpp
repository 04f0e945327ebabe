// Text to ids and back takes n log n in the text at most, whatever the tokenizer's section says,
// and opening a section is linear in it.
#include <algorithm>
#include <array>

#include "pattern_table.h"
#include "texts.h"

using namespace tokenizer_tests;
using namespace bound_tests;

namespace {

constexpr const char* kGoldens[] = {"unigram",   "bpe",      "wordpiece",  "bytelevel",
                                    "metaspace", "composed", "characters", "merged",
                                    "pipeline"};
// Texts that have been the worst of some rule, in some section.
std::vector<std::pair<std::string, Text>> hostile_texts(const Tokenizer& t, std::uint32_t pieces) {
  std::vector<std::pair<std::string, Text>> texts = {
      {"one letter", of("a")},
      {"spaces", of(" ")},
      {"line breaks", of("\n")},
      {"spaces and line breaks", of("      \n")},
      {"tabs", of("\t")},
      {"invalid bytes", of("\xFF")},
      {"trail bytes", of("\x80")},
      {"a lead byte each", of("\xE2")},
      {"word marks", of("\u2581")},
      {"word marks and letters", of("\u2581"
                                    "a")},
      {"words of one letter", of("a ")},
      {"a letter, two spaces", of("a  ")},
      {"digits", of("0123456789")},
      {"signs", of("#!'-(")},
      {"apostrophes", of("'s't're've")},
      {"capitals", of("ABCDEFG")},
      {"capitals and small letters", of("AAAAb")},
      {"Chinese", of("\u6211\u6709")},
      {"Hangul", of("\uAC01")},
      {"jamo", of("\u1100\u1161\u11A8")},
      {"marks", of("\u0301\u0323")},
      {"marks of many classes", of("e\u0301\u0323\u0327\u0345\u093C\u0334")},
      {"a long run of marks", random_of({"\u0301", "\u0323", "\u0327", "\u0345", "\u0334"})},
      {"composed letters", of("\u00E9")},
      {"full width", of("\uFF46\uFF55")},
      {"long decompositions", of("\uFDFA")},
      {"joiners", of("\U0001F468\u200D")},
      {"variation selectors", of("a\uFE0F")},
      {"zeros", of(std::string(1, '\0'))},
      {"of all kinds", random_of({"a", "B", " ", "  ", "\n", "1", "'", "\u0301", "\u6211", "\xFF",
                                  "\u2581", "."})}};
  for (std::uint32_t id = 0; id < t.pieces && id < pieces; ++id) {
    const PieceView p = tokenizer_piece(t, id);
    const std::string piece(p.text, p.bytes);
    texts.push_back({"piece " + piece, of(piece)});
    texts.push_back({"piece and spaces " + piece, of(piece + "   ")});
    texts.push_back({"piece but its end " + piece, of(piece.substr(0, piece.size() - 1) + "q")});
  }
  return texts;
}

// The lines of a golden tokenizer's own test, one after the other.
Text honest(const char* name) {
  std::string all;
  for (const Case& c : golden_cases((std::string(name) + ".ids.txt").c_str())) all += c.text + "\n";
  return of(all);
}

std::uint32_t bits(float value) {
  std::uint32_t out;
  std::memcpy(&out, &value, sizeof out);
  return out;
}

// docs/reference/file-format.md: of a piece that a search begins anew at every character
constexpr std::uint32_t kLongest = 512;

// The unknown piece, then each a^k up to the longest, of a type, with scores that let the longest
// grow letter by letter.
Parts letters(ModelNumber model, PieceType type) {
  Parts p{model, 0,  {{"<unk>", PieceType::unknown, 0}, {"b", PieceType::normal, bits(-9.0f)}},
          0,     "", "",
          3,     0,  {},
          {},    0,  {}};
  for (std::uint32_t k = 1; k <= kLongest; ++k)
    p.pieces.push_back({std::string(k, 'a'), k == 1 ? PieceType::normal : type,
                        bits(static_cast<float>(k) / 1024 - 1)});
  p.lowest = model == ModelNumber::unigram ? bits(-9.0f) : 0;
  return p;
}

// what every place of a text of a's begins with, but for its end
const std::string kNearly = std::string(kLongest - 1, 'a') + "z";

Parts packaged(ModelNumber model, std::uint32_t flags) {
  Parts p{model,
          flags,
          {{"<unk>", PieceType::unknown, 1},
           {"a", PieceType::normal, 1},
           {"##a", PieceType::normal, model == ModelNumber::wordpiece ? 3u : 1u}},
          0,
          "",
          "",
          3,
          0,
          {run(0, 0), run(' ', 1), run('!', 0)},
          {},
          0,
          {}};
  if (model == ModelNumber::wordpiece) {
    p.prefix = "##";
    p.word_chars = 1u << 30;
    p.pieces.push_back({"##" + std::string(kLongest - 3, 'a') + "z", PieceType::normal, 1 | 2});
  }
  if (model == ModelNumber::metaspace) {
    p.pieces.push_back({kNearly, PieceType::normal, 1});
    for (std::size_t i = 0; i <= p.pieces.size(); ++i) append_f64(&p.model_data, -1.0);
  }
  if (model == ModelNumber::byte_bpe || model == ModelNumber::char_bpe ||
      model == ModelNumber::metaspace_bpe) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) append_u32(&p.model_data, byte == 'a' ? 1 : 0);
    p.expansion = model == ModelNumber::byte_bpe ? 1 : 3;
  }
  return p;
}

}  // namespace

TEST_CASE("bounds: every golden tokenizer with its own lines and with hostile texts") {
  for (const char* name : kGoldens) {
    const Bytes section = golden((std::string(name) + ".bin").c_str());
    const Tokenizer t = open(section);
    check_both_ways(t, std::string(name) + ", its lines", honest(name), 16384);
    for (const auto& [what, text] : hostile_texts(t, 12))
      check_both_ways(t, std::string(name) + ", " + what, text);
  }
}

TEST_CASE("bounds: flags that a section may have, with every hostile text") {
  for (const char* name : kGoldens) {
    const Bytes section = golden((std::string(name) + ".bin").c_str());
    for (std::uint32_t flag = 1; flag < 4096; flag *= 2) {
      if (flag == 2048) continue;  // an index that is there or not
      Bytes other = section;
      other[4] = static_cast<unsigned char>(other[4] ^ (flag & 255));
      other[5] = static_cast<unsigned char>(other[5] ^ flag >> 8);
      if (!why_not(other).empty()) continue;
      const Tokenizer t = open(other);
      for (const auto& [what, text] : hostile_texts(t, 0))
        check_both_ways(t, std::string(name) + " with flag " + std::to_string(flag) + ", " + what,
                        text, 4096);
    }
  }
}

TEST_CASE("bounds: pieces as long as they may be, one a prefix of the other, of every type") {
  for (const ModelNumber model : {ModelNumber::unigram, ModelNumber::bpe}) {
    for (const PieceType type : {PieceType::normal, PieceType::unused, PieceType::user_defined}) {
      const Bytes section = build(letters(model, type));
      const Tokenizer t = open(section);
      const std::string what =
          std::to_string(static_cast<int>(model)) + " " + std::to_string(static_cast<int>(type));
      check_both_ways(t, what + ", a's", of("a"), 4096);
      check_both_ways(t, what + ", b's", of("b"), 4096);
      check_both_ways(t, what + ", a's and a b", of(kNearly.substr(0, kLongest - 1) + "b"), 4096);
    }
  }
}

TEST_CASE("bounds: word lists") {
  Parts p{
      ModelNumber::words, 0, {{"<unk>", PieceType::unknown, 0}}, 0, "", "", 0, 0, {}, {}, 0, {}};
  for (std::size_t k = 1; k < 2000; ++k)
    p.pieces.push_back({std::string(k, 'a'), PieceType::normal, 0});
  for (int i = 0; i < 4; ++i) p.pieces.push_back({"b", PieceType::control, 0});
  for (int i = 0; i < 4000; ++i) p.pieces.push_back({"b", PieceType::normal, 0});
  const std::vector<std::string> units = {
      "a", "b", " ", "b ", "aaaa ", std::string(1999, 'a') + " ", std::string(1999, 'a') + "b "};
  for (const std::uint32_t flags : {0u, pieces::kCharacters}) {
    p.flags = flags;
    const Bytes section = build(p);
    const Tokenizer t = open(section);
    const std::string name = flags == 0 ? "word list, " : "list of characters, ";
    for (const std::string& unit : units) check_both_ways(t, name + unit.substr(0, 8), of(unit));
  }
}

TEST_CASE("bounds: unused pieces whose ids agree in their low bits") {
  Parts p{ModelNumber::bpe, 0, {{"<unk>", PieceType::unknown, 0}}, 0, "", "", 3, 0, {}, {}, 0, {}};
  const auto two = [](std::uint32_t i) {
    return std::string{static_cast<char>('0' + i % 64), static_cast<char>('0' + i / 64)};
  };
  for (std::uint32_t i = 1; i < (1u << 17); ++i) {
    const bool pair = i % 32 == 0 && i / 32 < 4096;
    p.pieces.push_back({pair ? two(i / 32) : "~" + std::to_string(i),
                        pair ? PieceType::unused : PieceType::normal, bits(-1.0f)});
  }
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  std::vector<std::string> units;
  for (std::uint32_t i = 1; i < 4096; ++i) units.push_back(two(i));
  check_both_ways(t, "pairs", random_of(units));
}

TEST_CASE("bounds: pieces and added tokens that nearly begin everywhere") {
  for (const ModelNumber model :
       {ModelNumber::wordpiece, ModelNumber::byte_bpe, ModelNumber::metaspace,
        ModelNumber::char_bpe, ModelNumber::metaspace_bpe}) {
    const std::string what = std::to_string(static_cast<int>(model));
    const Bytes plain = build(packaged(model, 0));
    check_both_ways(open(plain), what + ", a's", of("a"));
    check_both_ways(open(plain), what + ", spaces", of(" "));
    for (const std::uint32_t flags : {0u, 8u}) {  // in the text as it is; in the normalized text
      Parts p = packaged(model, 0);
      p.added = {{" ", 1, flags | 6}, {kNearly, 2, flags | 6}, {"m", 1, flags | 7}};
      const Bytes section = build(p);
      const Tokenizer t = open(section);
      for (const char* text : {"a", " ", "m", "m ", "  m", "am", "a m  "})
        check_both_ways(t, what + ", added tokens, " + text, of(text));
    }
  }
}

TEST_CASE("bounds: every step of the pre-tokenizer, with classes that no Unicode has") {
  const std::vector<std::string> units = {"a", "B", "1", " ",      "\n",     "\r",
                                          "'", "/", "-", "\u00E9", "\u0301", "\xFF"};
  std::vector<std::uint32_t> steps;
  for (std::uint32_t step = 1; step < 15; ++step) steps.push_back(step);
  for (std::uint32_t form = 0; form < 6; ++form) steps.push_back(128 + 16 * form + 4);
  std::uint64_t state = 3;
  for (const std::uint32_t step : steps) {
    for (std::uint32_t round = 0; round < 8; ++round) {
      Parts p = packaged(ModelNumber::byte_bpe, 0);
      p.rule = step;
      p.runs.clear();
      for (const std::uint32_t first : {0u, 0x0Au, 0x0Bu, 0x0Du, 0x0Eu, 0x20u, 0x21u, 0x2Eu, 0x30u,
                                        0x3Au, 0x42u, 0x61u, 0x80u, 0x301u}) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        p.runs.push_back(run(first, static_cast<std::uint32_t>(state >> 40) & 0x7FF));
      }
      Bytes section = build(p);
      state = state * 6364136223846793005u + 1442695040888963407u;
      section[120] =
          static_cast<unsigned char>(steps[static_cast<std::size_t>(state >> 33) % steps.size()]);
      const Tokenizer t = open(section);
      const std::string what = "step " + std::to_string(step) + ", round " + std::to_string(round);
      check_growth(what + ", by chance", 4096,
                   [&, text = random_of(units)](std::size_t n) { (void)ids_of(t, text(n)); });
      for (std::size_t i = 0; i < units.size(); ++i) {
        const std::string next = units[(i + round) % units.size()];
        const auto halves = [&](std::size_t n) {
          return repeated(units[i], n / 2 - 1) + next + repeated(units[i], n / 2 - 1);
        };
        check_growth(what + ", runs of one", 4096,
                     [&](std::size_t n) { (void)ids_of(t, repeated(units[i], n)); });
        check_growth(what + ", runs and one other", 4096,
                     [&](std::size_t n) { (void)ids_of(t, halves(n)); });
      }
    }
  }
}

namespace {

// The most that a table may do: 247 states lie between one with a slot and the next, all lie on one
// ring, and nothing is accepted; or one character is, and the search goes on behind it.
PatternTable ring(std::uint16_t slots, bool accepts) {
  PatternTable t{{"a", "b"}, {{1, 1, 1, 1}}, {0}};
  const std::uint16_t last = static_cast<std::uint16_t>(248 * slots);
  for (std::uint16_t state = 1; state <= last; ++state) {
    const std::uint16_t to = static_cast<std::uint16_t>(state % last + 1);
    const std::uint16_t left = static_cast<std::uint16_t>((last - state) % 248);
    t.rows.push_back({to, to, to, 0});
    t.marks.push_back(static_cast<std::uint8_t>(left == 247 ? 248 + t.slots++ : left));
  }
  if (!accepts) return t;
  const std::uint16_t first = static_cast<std::uint16_t>(last + 1),
                      match = static_cast<std::uint16_t>(last + 2),
                      ahead = PatternTable::kAccepts | 1;
  t.rows[0] = {first, first, first, first};
  t.rows.push_back({match, match, match, 0});
  t.rows.push_back({ahead, ahead, ahead, PatternTable::kAccepts});
  t.marks.insert(t.marks.end(), {1, 0});
  return t;
}

Tokenizer open_with(PatternTable table, std::uint8_t behavior, Bytes* section) {
  table.behavior = behavior;
  const Bytes pattern = table.bytes();
  Parts p = packaged(ModelNumber::byte_bpe, 0);
  p.flags |= 32768;
  p.rule = 0xE0;
  p.model_data.insert(p.model_data.end(), pattern.begin(), pattern.end());
  p.word_chars = static_cast<std::uint32_t>(pattern.size());
  *section = build(p);
  return open(*section);
}

}  // namespace

TEST_CASE("bounds: all searches of a pattern together, whatever its table says") {
  const std::pair<const char*, PatternTable> tables[] = {{"a+b", PatternTable::a_then_b()},
                                                         {"a*b|a", PatternTable::a_or_b()},
                                                         {"a ring", ring(2, false)},
                                                         {"behind a match", ring(2, true)}};
  for (const auto& table : tables) {
    for (const int behavior : {0, 1, 2, 3, 4, 8, 10, 11}) {
      Bytes section;
      const Tokenizer t =
          open_with(table.second, static_cast<std::uint8_t>(behavior), &section);
      const std::string what = std::string(table.first) + ", behavior " + std::to_string(behavior);
      for (const char* unit : {"a", "aaaaaaaaac", "\u00E9"})
        check_growth(what + ", " + unit, 4096,
                     [&](std::size_t n) { (void)ids_of(t, repeated(unit, n)); });
    }
  }
  // all eight slots: each is passed once at each place, 248 steps behind another, walked twice
  Bytes section;
  const Tokenizer most = open_with(ring(8, false), 1, &section);
  const std::size_t n = 6000;
  const std::string text = repeated("a", n);
  const std::uint64_t work = counted([&] { (void)ids_of(most, text); });
  CHECK(work > 4 * 248 * n);  // the ring is a bad one
  CHECK(work <= 2 * 9 * 248 * n + 64 * n);
}

TEST_CASE("bounds: a decomposition is no longer than the header's expansion says") {
  Bytes section = golden("composed.bin");
  const auto u32 = [&](std::size_t at) {
    return static_cast<std::uint32_t>(section[at]) |
           static_cast<std::uint32_t>(section[at + 1]) << 8 |
           static_cast<std::uint32_t>(section[at + 2]) << 16 |
           static_cast<std::uint32_t>(section[at + 3]) << 24;
  };
  // The strings of the map, from the header; each decomposition of the entry for U+00E9 is written
  // over in place by a long one behind them, as a damaged or hostile section has it.
  const std::size_t trie = u32(64), strings = u32(72), string_bytes = u32(28);
  const std::string marks = "\u0301\u0323";
  const std::size_t more = 1 << 20;
  std::string longer(1, '\1');
  longer += "e" + repeated(marks, more - 4) + std::string(3, '\0');
  longer.resize((longer.size() + 3) / 4 * 4);
  std::size_t node = 0;
  for (const std::size_t byte : {0xC3u, 0xA9u}) {
    const std::uint32_t unit = u32(trie + 4 * node);
    node = node ^ (unit >> 10 << ((unit & 0x200) >> 6)) ^ byte;
  }
  const std::uint32_t unit = u32(trie + 4 * node);
  REQUIRE((unit & 0xFF) == 0xA9);
  const std::size_t value = node ^ (unit >> 10 << ((unit & 0x200) >> 6)),
                    padded = (string_bytes + 3) / 4 * 4;
  put_u32(&section, trie + 4 * value, static_cast<std::uint32_t>(padded) | 0x80000000u);
  put_u32(&section, 28, static_cast<std::uint32_t>(padded + longer.size()));
  section.insert(section.begin() + static_cast<std::ptrdiff_t>(strings + padded), longer.begin(),
                 longer.end());
  const Tokenizer t = open(section);
  const std::string text = repeated("\u00E9", 40);
  Ids ids;
  EncodeResult result{};
  const std::uint64_t steps = counted([&] { result = encode(t, &ids, text); });
  CHECK(result.status == EncodeStatus::text_too_long);
  CHECK(steps < 256 * text.size());
  CHECK(encode(t, "plain") == encode(open(golden("composed.bin")), "plain"));
}

TEST_CASE("bounds: words whose merges go in passes") {
  // a and b, aa … 2^11 times a; then what a merge of two that are not equal makes
  Parts p = packaged(ModelNumber::char_bpe, phasor::pieces::kWordEnds);
  const auto count = [&p] { return static_cast<std::uint32_t>(p.pieces.size()); };
  std::vector<std::array<std::uint32_t, 3>> merges;  // left, right, result
  for (std::uint32_t of = 1, length = 2; length <= 2048; length *= 2) {
    p.pieces.push_back({std::string(length, 'a'), PieceType::normal, 1});
    merges.push_back({of, of, count() - 1});
    of = count() - 1;
  }
  const std::uint32_t b = count();
  p.pieces.push_back({"b", PieceType::normal, 1});
  p.pieces.push_back({"aab", PieceType::normal, 1});
  merges.push_back({merges[0][2], b, b + 1});
  std::vector<std::array<std::uint32_t, 3>> rows;
  for (std::uint32_t rank = 0; rank < merges.size(); ++rank)
    rows.push_back({merges[rank][0], merges[rank][1], rank});
  std::sort(rows.begin(), rows.end());
  for (const auto& row : rows)
    for (const std::uint32_t value : row) append_u32(&p.model_data, value);
  for (const auto& merge : merges) append_u32(&p.model_data, merge[2]);
  p.merges = static_cast<std::uint32_t>(merges.size());
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  for (const std::string unit : {"a", "aab", "ab", "a ", "ab \n", "\xFF", " "})
    check_growth("words in passes, " + unit, 4096,
                 [&](std::size_t n) { (void)ids_of(t, repeated(unit, n)); });
}

TEST_CASE("bounds: BERT's words whose pieces end in a space") {
  Parts p = packaged(ModelNumber::char_bpe, phasor::pieces::kWordEnds | phasor::pieces::kBertWords);
  p.expansion = 3;
  p.pieces.push_back({"aa", PieceType::normal, 1});
  const auto aa = static_cast<std::uint32_t>(p.pieces.size() - 1);
  p.pieces.push_back({"a ", PieceType::normal, 1});
  for (const std::uint32_t value : {1u, 1u, 0u, aa}) append_u32(&p.model_data, value);
  p.merges = 1;
  p.runs = {run(0, 0), run(' ', 1), run('!', 16), run('"', 0)};
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  for (const std::string unit : {"a", "a ", "!", "a!", "\xFF", " ", "b"})
    check_growth("BERT's words, " + unit, 4096,
                 [&](std::size_t n) { (void)ids_of(t, repeated(unit, n)); });
}

TEST_CASE("bounds: words of lower case, whose sigmas look at their neighbors") {
  Parts p =
      packaged(ModelNumber::char_bpe, phasor::pieces::kWordEnds | phasor::pieces::kLowerWords);
  p.expansion = 3;
  p.pieces.push_back({"aa", PieceType::normal, 1});
  const auto aa = static_cast<std::uint32_t>(p.pieces.size() - 1);
  for (const std::uint32_t value : {1u, 1u, 0u, aa}) append_u32(&p.model_data, value);
  p.merges = 1;
  // all is passed over, the sigmas too
  p.runs = {run(0, 512),   run('\n', 1), run('\v', 512), run(' ', 1),
            run('!', 512), run('"', 64), run('#', 512)};
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  for (const std::string unit : {"a", "a ", "\"", "a\n", "\n", "\xFF", "\u03a3", "\u03a3aaa", "!"})
    check_growth("words of lower case, " + unit, 4096,
                 [&](std::size_t n) { (void)ids_of(t, repeated(unit, n)); });
  check_growth("a sigma before all, and one behind it", 4096,
               [&](std::size_t n) { (void)ids_of(t, "\u03a3" + repeated("!", n) + "\u03a3"); });
}

TEST_CASE("bounds: what would take longer is refused") {
  Parts p = letters(ModelNumber::unigram, PieceType::normal);
  p.pieces.push_back({std::string(kLongest + 1, 'c'), PieceType::normal, bits(-1.0f)});
  CHECK(why_not(build(p)) == "a piece is empty or too long");
  p.model = ModelNumber::bpe;
  p.lowest = 0;
  CHECK(why_not(build(p)) == "a piece is empty or too long");
  for (const ModelNumber model : {ModelNumber::wordpiece, ModelNumber::metaspace}) {
    p = packaged(model, 0);
    p.pieces.push_back({std::string(kLongest + 1, 'c'), PieceType::normal, 1});
    append_f64(&p.model_data, -1.0);
    if (model == ModelNumber::wordpiece) p.model_data.clear();
    CHECK(why_not(build(p)) == "a piece is empty or too long");
  }
  for (const ModelNumber model :
       {ModelNumber::byte_bpe, ModelNumber::char_bpe, ModelNumber::metaspace_bpe}) {
    p = packaged(model, 0);
    // merged from its parts, never searched for
    p.pieces.push_back({std::string(32767, 'c'), PieceType::normal, 1});
    CHECK(why_not(build(p)) == "");
    p.added = {{std::string(kLongest + 1, 'c'), 1, 0}};
    CHECK(why_not(build(p)) == "an added token is empty or too long");
  }

  // Pieces of one text that a search passes over.
  p = packaged(ModelNumber::byte_bpe, 2);
  for (int i = 0; i < 4; ++i) p.pieces.push_back({"dd", PieceType::normal, 1});
  CHECK(why_not(build(p)) == "");
  p.pieces.push_back({"dd", PieceType::normal, 1});
  CHECK(why_not(build(p)) == "too many pieces have the same text");
  p = {ModelNumber::words, 0, {{"<unk>", PieceType::unknown, 0}}, 0, "", "", 0, 0, {}, {}, 0, {}};
  for (int i = 0; i < 100; ++i) p.pieces.push_back({"word", PieceType::normal, 0});
  CHECK(why_not(build(p)) == "");
  p.pieces.resize(1);
  for (int i = 0; i < 5; ++i) p.pieces.push_back({"word", PieceType::control, 0});
  CHECK(why_not(build(p)) == "too many pieces have the same text");
  p = letters(ModelNumber::unigram, PieceType::normal);
  p.pieces.push_back({"a", PieceType::control, 0});
  CHECK(why_not(build(p)) == "");
  p.pieces.push_back({"a", PieceType::normal, bits(-1.0f)});
  CHECK(why_not(build(p)) == "too many pieces have the same text");
}

TEST_CASE("bounds: opening a section is linear in it") {
  check_growth("pieces of every length", 4096, [](std::size_t n) {
    Parts p = letters(ModelNumber::unigram, PieceType::normal);
    for (std::size_t i = 0; i < n; ++i)
      p.pieces.push_back({"word " + std::to_string(1000000 + i), PieceType::normal, bits(-2.0f)});
    (void)open(build(p));
  });
  check_growth("added tokens that lie in one another", 4096, [](std::size_t n) {
    Parts p = packaged(ModelNumber::char_bpe, 0);
    for (std::size_t i = 0; i < n; ++i)
      p.added.push_back({std::string(300, 'x') + std::to_string(1000000 + i), 1, 0});
    (void)open(build(p));
  });
  check_growth("merges and classes", 4096, [](std::size_t n) {
    Parts p = packaged(ModelNumber::char_bpe, 2048);
    const auto u32 = [](std::size_t value) { return static_cast<std::uint32_t>(value); };
    for (std::size_t i = 0; i < n; ++i)
      p.pieces.push_back({"a" + std::to_string(1000000 + i), PieceType::normal, 1});
    for (std::size_t i = 0; i < n; ++i)
      p.pieces.push_back({"aa" + std::to_string(1000000 + i), PieceType::normal, 1});
    for (std::size_t i = 0; i < n; ++i)
      for (const std::size_t value : {std::size_t{1}, i + 3, i})
        append_u32(&p.model_data, u32(value));
    for (std::size_t i = 0; i < n; ++i) append_u32(&p.model_data, u32(3 + n + i));
    for (std::size_t id = 0; id <= p.pieces.size(); ++id)
      append_u32(&p.model_data, id <= 1 ? 0 : u32(n));
    p.merges = u32(n);
    for (std::size_t i = 0; i < n; ++i) p.runs.push_back(run(u32(0x4E00 + 2 * i), 2));
    (void)open(build(p));
  });
}
