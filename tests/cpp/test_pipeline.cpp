// A pipeline (model 9) put together by hand: what each step makes of a text, each model of its
// words, each flag of its ids; every damaged row is refused by its own line.
#include "step_rows.h"
#include "test_tokenizer.h"

using namespace tokenizer_tests;
using namespace step_rows;
using Table = PatternTable;

namespace {

constexpr std::uint32_t kFallback = 1, kWholeWordsToo = 2, kJoins = 4, kFusesUnknown = 16,
                        kBytes = 32, kLetters = 64, kSpaces = 128, kFirstDrops = 4096,
                        kEndsWords = 8192, kSuffixIsSpace = 16384, kRepeats = 32768;
enum Rule : std::uint32_t { bpe = 1, wordpiece, word_level, unigram };

// White space of ASCII and U+00A0.
std::vector<std::uint32_t> blanks() {
  return {run(0, 0),   run('\t', 1), run(14, 0),  run(' ', 1),
          run('!', 0), run(0xA0, 1), run(0xA1, 0)};
}

Parts pipeline(Rule rule, std::vector<Piece> pieces) {
  Parts p{};
  p.model = ModelNumber::pipeline;
  p.rule = rule;
  p.pieces = std::move(pieces);
  p.unknown = !p.pieces.empty() && p.pieces[0].type == PieceType::unknown ? 0 : kNoToken;
  p.expansion = 8;
  p.runs = blanks();
  p.steps = row(words) + spelled_of({});
  if (rule == wordpiece) p.word_chars = 10;
  return p;
}

std::string byte_text(std::uint32_t byte) {
  const char* const digits = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">";
}

// The pieces of the bytes; what ends a word is the piece of one, |.
Parts spelling() {
  std::vector<Piece> pieces;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    pieces.push_back({byte_text(byte), PieceType::normal, 1});
  Parts p = pipeline(bpe, pieces);
  p.flags = kFallback | kEndsWords;
  p.suffix = "|";
  for (std::uint32_t byte = 0; byte < 256; ++byte) append_u32(&p.model_data, byte);
  return p;
}

// The words that the steps leave, a | behind each; "too long" where they do not fit.
std::string cut(const Bytes& normalizer, const Bytes& pre_tokenizer, const std::string& text,
                Parts p = spelling()) {
  p.steps = normalizer + row(words) + pre_tokenizer + spelled_of({});
  const Bytes section = build(p);
  const Block exact(section.data(), section.size());
  Tokenizer t;
  const char* why = nullptr;
  REQUIRE_MESSAGE(
      tokenizer_open(&t, static_cast<const unsigned char*>(exact.data), section.size(), &why), why);
  Ids ids;
  if (encode(t, &ids, text).status == EncodeStatus::text_too_long) return "too long";
  std::string out;
  for (const std::uint32_t id : ids) out += static_cast<char>(id);
  return out;
}
std::string normalized(const Bytes& step, const std::string& text) { return cut(step, {}, text); }

const std::string kAcute = "\u0301", kBelow = "\u0323", kCedilla = "\u0327";

// Any flags of a decoder, over pieces with marks.
std::string decoded(std::uint32_t flags, const std::vector<Piece>& pieces, const Ids& ids,
                    const std::vector<Spelled>& spelled = {}, const std::string& suffix = "",
                    const std::string& surface = "") {
  Parts p = pipeline(word_level, pieces);
  p.flags = flags;
  p.suffix = suffix;
  p.surface = surface;
  p.steps = row(words) + spelled_of(spelled);
  const Bytes section = build(p);
  return decode(open(section), ids);
}

std::vector<Piece> normal(const std::vector<std::string>& texts) {
  std::vector<Piece> out;
  for (const std::string& text : texts) out.push_back({text, PieceType::normal, 1});
  return out;
}

// ---- Small sections of every model, with every step between them

Parts small_bpe() {
  Parts p = pipeline(bpe, {{"<u>", PieceType::unknown, 1},
                           {"a", PieceType::normal, 1},
                           {"##a", PieceType::normal, 1 | 2 | 2 << 8},
                           {"b/", PieceType::normal, 1},
                           {"##b/", PieceType::normal, 1 | 2 | 2 << 8},
                           {"aa", PieceType::normal, 1},
                           {"ab/", PieceType::normal, 1},
                           {"<0x41>", PieceType::normal, 1},
                           {"<m>", PieceType::control, 0},
                           {std::string("\0gap", 4), PieceType::unused, 0}});
  p.flags =
      kFallback | kWholeWordsToo | kFusesUnknown | kEndsWords | kJoins | kSuffixIsSpace | 2048;
  p.surface = "<u>";
  p.prefix = "##";
  p.suffix = "/";
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    append_u32(&p.model_data, byte == 'A' ? 7 : kNoToken);
  // left, right, rank; the results; the index
  for (const std::uint32_t value : {1u, 2u, 0u, 1u, 4u, 1u, 5u, 6u})
    append_u32(&p.model_data, value);
  for (std::uint32_t id = 0; id <= p.pieces.size(); ++id) append_u32(&p.model_data, id < 2 ? 0 : 2);
  p.merges = 2;
  p.added = {{"<m>", 8, 0}, {"b", 8, 8 | 1}};
  p.steps = every_change() + canonical_of(few_classes(), few_pairs(), true) + strip_of(3) +
            replace_of(Table::a_then_b(), "ab") + row(words) +
            split_of(one_of(" "), Table::with_previous) + prefix_of(3, " ") + row(letters) +
            spelled_of({{1, "x", " x", 1}, {8, "", "", 2}, {9, "y", "yy", 2 << 8}});
  return p;
}

// The word "ab" as the map that has it says, in clusters.
Parts small_wordpiece() {
  Parts p = pipeline(wordpiece, {{"[U]", PieceType::unknown, 1},
                                 {"a", PieceType::normal, 1},
                                 {"##b", PieceType::normal, 1 | 2 | 2 << 8},
                                 {"\u2581", PieceType::normal, 1}});
  p.flags = kSpaces | kFirstDrops;
  p.prefix = "##";
  // a double array with the one key q: its place 113 below the root's base 0
  p.trie.assign(4 * 512, 0);
  put_u32(&p.trie, 4 * 'q', 'q' | 0x100 | 256 << 10);
  put_u32(&p.trie, 4 * ('q' ^ 256), 0x80000000u);
  p.strings = {'a', 'b', 0};
  p.longest_rule = 1;
  p.steps = row(clusters) + row(words) + split_of(Table::a_or_b(), Table::isolated) +
            spelled_of({{2, "b", " b", 0}});
  return p;
}

Parts small_word_level() {
  Parts p = pipeline(word_level, {{"a", PieceType::normal, 1}, {"<0x42>", PieceType::normal, 1}});
  p.flags = kBytes | kRepeats;
  p.steps = canonical_of(few_classes(), {}, false) + row(words) + spelled_of({{0, "a", " a", 1}});
  return p;
}

Parts small_unigram() {
  Parts p = pipeline(unigram, {{"<u>", PieceType::unknown, 1},
                               {"a", PieceType::normal, 1},
                               {"ab", PieceType::normal, 1},
                               {"\u0120", PieceType::normal, 1},
                               {"<0x62>", PieceType::normal, 1}});
  p.flags = kFallback | kLetters;
  for (const double score : {0.0, -1.0, -1.5, -2.0, 0.0, -12.0}) append_f64(&p.model_data, score);
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    append_u32(&p.model_data, byte == 'b' ? 4 : kNoToken);
  p.steps = row(words) + split_of(one_of("c"), Table::removed) + row(letters) + spelled_of({});
  return p;
}

std::vector<Parts> small_parts() {
  return {small_bpe(), small_wordpiece(), small_word_level(), small_unigram()};
}

// Why a section with these steps is refused, in a block of its own.
std::string why_steps(const Bytes& steps, Parts p = spelling()) {
  p.steps = steps;
  return why_not(build(p));
}
std::string why_step(const Bytes& step) { return why_steps(step + row(words) + spelled_of({})); }
std::string why_spelled(const Bytes& step) { return why_steps(row(words) + step); }

// A step with one of its bytes another.
Bytes with_byte(Bytes step, std::size_t at, std::uint32_t value) {
  step.at(at) = static_cast<unsigned char>(value);
  return step;
}
// One whose part is so many bytes longer, or shorter.
Bytes resized(Bytes step, int by) {
  step.resize(static_cast<std::size_t>(static_cast<int>(step.size()) + by));
  put_u32(&step, 4, static_cast<std::uint32_t>(step.size()));
  return step;
}

}  // namespace

// ---- Steps

TEST_CASE("pipeline: a map's changes, one of each") {
  const Bytes step = every_change();
  CHECK(normalized(step, "ABCDEFG") == "BBDDFFG|");
  CHECK(normalized(step, "bcccd") == "bd|");
  CHECK(normalized(step, "ccc") == "");
  CHECK(normalized(step, "qrs") == "uvws|");
  CHECK(normalized(step, "xyz") == "ayz|");
  CHECK(normalized(step, "\uAC00\uAC01\uD7A3\uABFF\uD7A4") ==
        "\u1100\u1161\u1100\u1161\u11A8\u1112\u1175\u11C2\uABFF\uD7A4|");
  CHECK(normalized(step, "\U0001F600\U0001F601") == "y\U0001F601|");
  // of other characters than Hangul a run of syllables changes nothing
  CHECK(normalized(map_of({{0, kHangul}}), "a\u1100\uAC00") == "a\u1100\u1100\u1161|");
  // a byte that is not UTF-8 is U+FFFD
  const Bytes no_text = map_of({{0, kKeep}, {0xFFFD, add('z' - 0xFFFD)}, {0xFFFE, kKeep}});
  CHECK(normalized(no_text, "\xFF\xE2") == "zz|");
  // what is no character any more is three bytes for the next step
  const Bytes away = map_of({{0, kKeep}, {'a', add(0x1FFFFF - 'a')}, {'b', kKeep}});
  CHECK(normalized(away + map_of({{0, kKeep}, {0xFFFD, kRemove}, {0xFFFE, kKeep}}), "ab") == "b|");
}

TEST_CASE("pipeline: canonical order, with and without composition") {
  const Bytes order = canonical_of(few_classes(), {}, false),
              composes = canonical_of(few_classes(), few_pairs(), true);
  CHECK(normalized(order, "a" + kAcute + kBelow + "b") == "a" + kBelow + kAcute + "b|");
  CHECK(normalized(order, kAcute + kCedilla + kBelow) == kCedilla + kBelow + kAcute + "|");
  CHECK(normalized(order, "e" + kAcute) == "e" + kAcute + "|");
  // equal ones as they come; characters between keep them apart
  CHECK(normalized(order, "a\u0302" + kAcute) == "a\u0302" + kAcute + "|");
  CHECK(normalized(order, kAcute + "a" + kBelow) == kAcute + "a" + kBelow + "|");
  CHECK(normalized(composes, "e" + kAcute) == "\u00E9|");
  CHECK(normalized(composes, "e" + kBelow + kAcute) == "\u00E9" + kBelow + "|");
  CHECK(normalized(composes, "o" + kAcute + kBelow) == "\u1ECD" + kAcute + "|");
  CHECK(normalized(composes, "e\u0302" + kAcute) == "e\u0302" + kAcute + "|");  // of one class
  CHECK(normalized(composes, "eb" + kAcute) == "eb" + kAcute + "|");
  CHECK(normalized(composes, kAcute + "e") == kAcute + "e|");
  CHECK(normalized(composes, "\u1100\u1161\u11A8\uAC00\u11C2") == "\uAC01\uAC1B|");
  CHECK(normalized(composes, "\u1113\u1161\u1100\u1176\uAC01\u11A8") ==
        "\u1113\u1161\u1100\u1176\uAC01\u11A8|");
  // 32 into one character and no more; a pair that is longer than its parts is none
  const Bytes chain = canonical_of({{0x10FFFF, 0}}, {{'e', 'x', 'e'}, {'o', 'x', 0x10000}}, true);
  CHECK(normalized(chain, "e" + std::string(40, 'x')) == "e" + std::string(8, 'x') + "|");
  CHECK(normalized(chain, "oxx") == "oxx|");
  CHECK(normalized(chain, "\xFFx") == "\uFFFDx|");
}

TEST_CASE("pipeline: clusters that a map knows become what it says") {
  Parts p = spelling();
  const Parts with_map = small_wordpiece();
  p.trie = with_map.trie;
  p.strings = with_map.strings;
  p.longest_rule = 1;
  CHECK(cut(row(clusters), {}, "qxq", p) == "abxab|");
  CHECK(cut(row(clusters), {}, "", p) == "");
  CHECK(cut(row(clusters), row(clusters), "q", p) == "ab|");
  // one of the row's own beside it: b becomes q
  Bytes trie = with_map.trie, strings = {'q', 0};
  std::swap_ranges(trie.begin() + 4 * 'q', trie.begin() + 4 * 'q' + 4, trie.begin() + 4 * 'b');
  trie[4 * 'b'] = 'b';
  std::swap_ranges(trie.begin() + 4 * ('q' ^ 256), trie.begin() + 4 * ('q' ^ 256) + 4,
                   trie.begin() + 4 * ('b' ^ 256));
  const Bytes own = clusters_of(trie, strings, 1);
  CHECK(cut(own, {}, "bxb") == "qxq|");
  CHECK(cut(own + row(clusters), {}, "bq", p) == "abab|");
  CHECK(cut(row(clusters) + own, {}, "bq", p) == "qaq|");
}

TEST_CASE("pipeline: white space at either side") {
  const std::string text = " \t\u00A0a b\u00A0 ";
  CHECK(normalized(strip_of(0), text) == text + "|");
  CHECK(normalized(strip_of(1), text) == "a b\u00A0 |");
  CHECK(normalized(strip_of(2), text) == " \t\u00A0a b|");
  CHECK(normalized(strip_of(3), text) == "a b|");
  CHECK(normalized(strip_of(3), " \t ") == "");
  // of each split by itself
  CHECK(cut({}, split_of(one_of("-"), Table::removed) + strip_of(3), " a - - b") == "a|b|");
}

TEST_CASE("pipeline: what a pattern matches becomes a text") {
  CHECK(normalized(replace_of(Table::a_then_b(), "X"), "aabbcaaab") == "XbcX|");
  CHECK(normalized(replace_of(Table::a_then_b(), ""), "aab") == "");
  CHECK(normalized(replace_of(one_of("ab"), "xyz"), "cab") == "cxyzxyz|");
  CHECK(normalized(replace_of(one_of("a"), std::string(64, 'x')), "aa") == "too long");
  CHECK(cut({}, split_of(one_of("-"), Table::removed) + replace_of(Table::a_then_b(), "X"),
            "aa-b-ab") == "aa|b|X|");
}

TEST_CASE("pipeline: a text goes before a split, or not") {
  const Bytes cuts = split_of(one_of(" "), Table::with_next);
  CHECK(normalized(prefix_of(0, "_"), "a b") == "_a b|");
  CHECK(normalized(prefix_of(0, "_"), "") == "");
  CHECK(normalized(prefix_of(0, ""), "a") == "a|");
  CHECK(cut({}, cuts + prefix_of(0, "_"), "a b _c") == "_a|_ b|_ _c|");
  CHECK(cut({}, cuts + prefix_of(1, "_"), "a b") == "_a| b|");
  CHECK(cut({}, cuts + prefix_of(2, " "), "a b") == " a| b|");
  CHECK(cut({}, cuts + prefix_of(3, " "), "a b") == " a| b|");
  CHECK(cut({}, cuts + prefix_of(3, "_"), "_a b") == "_a| b|");
  // only the stretch that begins the text begins with its first byte
  Parts p = spelling();
  p.pieces.push_back({"<m>", PieceType::control, 0});
  p.added = {{"<m>", '#', 0}};
  CHECK(cut({}, prefix_of(1, "_"), "a<m>b", p) == "_a|#b|");
  CHECK(cut({}, prefix_of(0, "_"), "a<m>b", p) == "_a|#_b|");
  CHECK(cut({}, prefix_of(1, "_"), "<m>b", p) == "#b|");
  // what a map took away was the beginning
  CHECK(cut(every_change() + strip_of(3), prefix_of(1, "_"), "ca", p) == "a|");
  // the prefix begins what it stands before
  CHECK(cut(prefix_of(0, " "), cuts + prefix_of(1, "_"), "a b", p) == "_ a| b|");
}

TEST_CASE("pipeline: each byte becomes its letter") {
  CHECK(normalized(row(letters), "a ~\n\u00E9") == "a\u0120~\u010A\u00C3\u00A9|");
  std::string all, back;
  for (int byte = 0; byte < 128; ++byte) all += static_cast<char>(byte);
  CHECK(normalized(row(letters), all + "\u00AD\u00BF\u0100").size() > 128);
  CHECK(normalized(row(letters), "\x7F") == "\u0121|");
  CHECK(normalized(row(letters), "\u00AD") == "\u00C2\u0143|");
  // and decodes to it again
  std::vector<Piece> pieces;
  for (std::uint32_t code = 0x21; code < 0x144; ++code) {
    std::string text;
    if (code < 0x80) {
      text += static_cast<char>(code);
    } else {
      text += static_cast<char>(0xC0 | code >> 6);
      text += static_cast<char>(0x80 | (code & 63));
    }
    pieces.push_back({text, PieceType::normal, 1});
  }
  for (std::uint32_t id = 0; id < pieces.size(); ++id) {
    const std::string text = decoded(kLetters, pieces, {id});
    const std::uint32_t code = id + 0x21;
    const bool no_letter = (code >= 0x7F && code < 0xA1) || code == 0xAD;
    CHECK((text == pieces[id].text) == (no_letter || (code >= 0x21 && code < 0x7F)));
  }
}

TEST_CASE("pipeline: splits, by what becomes of the matches") {
  const auto by = [](std::uint32_t behavior, const std::string& text) {
    return cut({}, split_of(one_of("a"), static_cast<std::uint8_t>(behavior)), text);
  };
  CHECK(by(Table::isolated, "bbaab") == "bb|a|a|b|");
  CHECK(by(Table::removed, "bbaab") == "bb|b|");
  CHECK(by(Table::removed | Table::inverted, "bbaab") == "a|a|");
  CHECK(by(Table::with_previous, "bbaab") == "bba|a|b|");
  CHECK(by(Table::with_next, "bbaab") == "bb|a|ab|");
  CHECK(by(Table::contiguous, "bbaab") == "bb|aa|b|");
  CHECK(by(Table::removed, "aaa") == "");
  const Bytes both =
      split_of(one_of("-"), Table::removed) + split_of(Table::a_then_b(), Table::isolated);
  CHECK(cut({}, both, "caab-b-ab") == "c|aab|b|ab|");
  // splits stay behind a map that takes a whole one away
  CHECK(cut({}, split_of(one_of("c"), Table::isolated) + every_change(), "acb") == "a|b|");
}

TEST_CASE("pipeline: added tokens of both kinds, and bytes that are not UTF-8") {
  Parts p = spelling();
  p.pieces.push_back({"<m>", PieceType::control, 0});
  p.added = {{"<m>", '#', 2}, {"B", '%', 8}};
  const Bytes upper = map_of({{0, kKeep}, {'b', add(-32)}, {'c', kKeep}});
  CHECK(cut(upper, {}, "a<m> abc", p) == "a|# a|%c|");
  CHECK(cut(upper, {}, "a \xFF<m>\xE2\x96", p) == "a \uFFFD|#\uFFFD\uFFFD|");
  CHECK(cut({}, {}, "aBb", p) == "a|%b|");

  // one that is empty in the normalized text: before each character, but not right behind another
  p.added = {{"", '%', 8}, {"bc", '#', 8}};
  CHECK(cut({}, {}, "abc d", p) == "a|# |d|");
  CHECK(cut({}, {}, "\u00E9\u4E2D", p) == "\u00E9|\u4E2D|");
  CHECK(cut({}, {}, "", p) == "");
  p.added[0].flags = 8 | 2;  // with the white space before it
  CHECK(cut({}, {}, "abc d ", p) == "a|#%d|%");
  p.added[0].flags = 8 | 4;  // and behind it
  CHECK(cut({}, {}, " ab", p) == "%a|b|");
  p.added[0].flags = 8 | 1;  // where no letter is beside it
  p.runs = {run(0, 0), run(' ', 1), run('!', 0), run('a', 8), run('{', 0)};
  CHECK(cut({}, {}, "aa  b", p) == "aa | b|");
  p.added = {{"", '%', 0}};
  CHECK(why_not(build(p)) == "an added token is empty or too long");
  p.added = {{"b", '%', 8}, {"", '#', 8}};
  CHECK(why_not(build(p)) == "the added tokens are not in order");
}

// ---- Models

TEST_CASE("pipeline: BPE with a prefix, a suffix, bytes, whole words and unknown characters") {
  Parts p = small_bpe();
  p.added.clear();
  p.steps = row(words) + split_of(one_of(" "), Table::removed) + spelled_of({});
  const auto ids = [&p](std::uint32_t flags, const std::string& text) {
    p.flags = flags | kEndsWords | 2048;
    const Bytes section = build(p);
    return encode(open(section), text);
  };
  CHECK(ids(0, "") == Ids{});
  CHECK(ids(0, "ab") == Ids{6});
  CHECK(ids(0, "aab b") == Ids{5, 4, 3});
  CHECK(ids(0, "xxa") == Ids{0, 0, 0});  // the last a would be ##a/
  CHECK(ids(kFusesUnknown, "xxa") == Ids{0});
  CHECK(ids(kFusesUnknown, "axb") == Ids{1, 0, 4});
  CHECK(ids(kFallback, "Ab") == Ids{7, 4});
  CHECK(ids(kFallback, "bA") == Ids{0, 0});  // ##A/ has no bytes
  CHECK(ids(kFallback | kFusesUnknown, "xAb") == Ids{0, 4});
  CHECK(ids(0, "aa") == Ids{1, 0});
  CHECK(ids(kWholeWordsToo, "aa") == Ids{5});
  // the unknown comes before the next piece of a character, behind pieces of bytes between
  p.prefix = "";
  p.suffix = "";
  p.pieces[2].text = "-a";
  p.pieces[4].text = "-b/";
  p.model_data.resize(1024);
  for (std::uint32_t id = 0; id <= p.pieces.size(); ++id) append_u32(&p.model_data, 0);
  p.merges = 0;
  CHECK(ids(kFallback | kFusesUnknown, "xAxAa") == Ids{7, 7, 0, 1});
  CHECK(ids(kFallback, "xAxa") == Ids{7, 0, 0, 1});
  p.unknown = kNoToken;
  p.pieces[0].type = PieceType::normal;
  CHECK(ids(0, "xax") == Ids{1});
}

TEST_CASE("pipeline: symbols of bytes have the room of their prefixes and suffixes") {
  Parts p = spelling();
  p.prefix = std::string(32, '<');
  p.suffix = std::string(32, '>');
  p.expansion = 3;
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  const std::string text(100, 'a');
  const Ids ids = encode(t, text);
  CHECK(ids.size() == 100 + 99 * 32 + 32);
  Parts none = p;
  none.prefix = none.suffix = "";
  const Bytes other = build(none);
  const std::uint64_t limit = 303;
  // of a symbol ten bytes, and two numbers of sixteen
  const auto symbols = [](std::uint64_t n) { return 10 * n + 8 * ((n + 15) / 16); };
  CHECK(tokenizer_scratch_bytes(t, 100) ==
        tokenizer_scratch_bytes(open(other), 100) + symbols(33 * limit + 32) - symbols(limit));
  // more symbols than have numbers
  CHECK(tokenizer_scratch_bytes(t, 0x7FFFFF00u / 3) == ~std::uint64_t{0});
  CHECK(tokenizer_scratch_bytes(open(other), 0x7FFFFF00u / 3) < ~std::uint64_t{0});
}

TEST_CASE("pipeline: WordPiece, WordLevel and Unigram, and texts that they have no ids for") {
  const Bytes cuts = row(words) + split_of(one_of(" "), Table::removed) + spelled_of({});
  Parts p = small_wordpiece();
  p.steps = cuts;
  p.word_chars = 3;
  Bytes section = build(p);
  CHECK(encode(open(section), "a ab abb abbb b") == Ids{1, 1, 2, 1, 2, 2, 0, 0});
  p = small_word_level();
  p.steps = cuts;
  section = build(p);
  const Tokenizer words_only = open(section);
  CHECK(encode(words_only, "a  a") == Ids{0, 0});
  for (const std::string word : {"b", "aa", "\xFF"}) {
    Ids ids;
    const EncodeResult r = encode(words_only, &ids, "a " + word + " a");
    CHECK(r.status == EncodeStatus::unknown_word);
    CHECK(r.offset == 0);
    CHECK(r.bytes == 4 + word.size());
  }
  p.pieces.insert(p.pieces.begin(), {"<u>", PieceType::unknown, 1});
  p.unknown = 0;
  section = build(p);
  CHECK(encode(open(section),
               "a b \xFF"
               "a") == Ids{1, 0, 0});
  p = small_unigram();
  p.steps = cuts;
  section = build(p);
  CHECK(encode(open(section), "a ab aab b ax") == Ids{1, 2, 1, 2, 4, 1, 0});
  p.flags = 0;
  section = build(p);
  CHECK(encode(open(section), "b bb abb") == Ids{0, 0, 2, 0});
  p.unknown = kNoToken;
  p.pieces[0].type = PieceType::normal;
  section = build(p);
  Ids ids;
  CHECK(encode(open(section), &ids, "ab").status == EncodeStatus::ok);
  CHECK(encode(open(section), &ids, "abx").status == EncodeStatus::unknown_word);
}

// ---- Decoding

TEST_CASE("pipeline: what the flags make of ids") {
  const std::vector<Piece> plain = normal({"a",
                                           "\u2581"
                                           "b\u2581",
                                           "<0x41>", "<0xC3>", "<0xA9>"});
  CHECK(decoded(0, plain, {1, 0, 2}) ==
        "\u2581"
        "b\u2581"
        "a<0x41>");
  CHECK(decoded(kSpaces, plain, {1, 0, 1}) == " b a b ");
  CHECK(decoded(kSpaces | kFirstDrops, plain, {1, 0, 1}) == "ba b ");
  CHECK(decoded(kBytes, plain, {2, 3, 4, 0, 3, 0}) ==
        "A\u00E9"
        "a\uFFFDa");
  CHECK(decoded(kBytes, plain, {3}) == "\uFFFD");
  CHECK(decoded(kRepeats, plain, {0, 0, 2, 2, 0}) == "a<0x41>a");
  std::vector<Piece> joined = normal({"a", "##b", "c"});
  joined[1].marks = 1 | 2 | 2 << 8;
  joined[2].marks = 1 | 1 << 8;
  CHECK(decoded(kJoins, joined, {1, 0, 1, 0, 2}) == "##b ab a ");
  joined.push_back({"<unk>", PieceType::unknown, 1 | 5 << 8});
  // an unknown's surface may be shorter than what its piece loses
  Parts p = pipeline(word_level, joined);
  p.flags = kJoins;
  p.unknown = 3;
  for (const std::string surface : {"", "u", "unkno", "unknown"}) {
    p.surface = surface;
    const Bytes section = build(p);
    const std::string left = surface.size() > 5 ? surface.substr(5) : "";
    CHECK(decode(open(section), {0, 3, 0}) == (surface.empty() ? "a a" : "a " + left + " a"));
  }
  CHECK(decoded(kSuffixIsSpace, normal({"a</w>", "b"}), {0, 1, 0, 0}, {}, "</w>") == "a ba a");
  CHECK(decoded(kSuffixIsSpace, normal({"a</w>", "b"}), {0, 1}) == "a</w>b");
  CHECK(decoded(kLetters,
                normal({"a\u0120", "\u00C3", "\u00A9",
                        "\u4E01"
                        "a"}),
                {0, 1, 2, 3, 1}) ==
        "a \u00E9\u4E01"
        "a\uFFFD");
}

TEST_CASE("pipeline: pieces that are spelled out") {
  const std::vector<Piece> pieces = normal({"a", "b", "c", "d"});
  const std::vector<Spelled> spelled = {{1, "B", " B", 0}, {2, "C", "c", 1}, {3, "D", "D", 2}};
  CHECK(decoded(0, pieces, {1, 1, 0}, spelled) == "B Ba");
  CHECK(decoded(0, pieces, {2, 2, 0, 2}, spelled) ==
        "C c a"
        "c");
  CHECK(decoded(0, pieces, {3, 1, 3, 1}, spelled) == "B B");  // it is no token
  // b comes again as a does
  CHECK(decoded(kRepeats, pieces, {0, 1, 0, 2, 1}, {{1, "B", "B", 1 << 8}}) == "acB");
  CHECK(decoded(kBytes, pieces, {1, 1}, {{1, "\xC3", "\xA9", 0}}) == "\xC3\xA9");
  CHECK(decoded(kLetters, pieces, {1, 1, 1}, {{1, "\xC3", "\xA9", 0}}) == "\u00E9\uFFFD");
  // longer than any piece
  CHECK(decoded(kLetters, pieces, {1}, {{1, std::string(900, '\xFF'), "", 0}}).size() == 2700);
}

// ---- Sections

TEST_CASE("pipeline: pieces that are held back until the text goes on or ends") {
  const std::vector<Piece> pieces = normal({"a", "b", "c", "<0x44>"});
  const std::vector<Spelled> held = {{1, "B", " B", 0}, {1, "B.", " B.", 4}, {2, "C", "c", 1}};
  CHECK(decoded(0, pieces, {1}, held) == "B.");
  CHECK(decoded(0, pieces, {1, 1, 0, 1}, held) == "B Ba B.");
  CHECK(decoded(0, pieces, {2, 1, 2}, held) == "C  Bc");
  CHECK(decoded(kBytes, pieces, {1, 3, 1}, held) == "BD B.");
  CHECK(decoded(kRepeats, pieces, {1, 1, 0, 0, 1, 1}, held) == "Ba B.");
  // as the first token of all it comes as another, or as none
  const auto first = [&](std::uint32_t same) {
    return std::vector<Spelled>{{1, "B", "B", 0}, {1, "B", "B", 4 | same << 8}};
  };
  CHECK(decoded(kRepeats, pieces, {1, 0, 1, 1}, first(1)) == "BB");
  CHECK(decoded(kRepeats, pieces, {1, 1, 1}, first(1)) == "BB");
  CHECK(decoded(kRepeats, pieces, {1, 1, 1, 0}, first(0xFFFFFF)) == "BBa");
  CHECK(decoded(kRepeats, pieces, {1, 1, 1, 0}, first(0)) == "Ba");
  // what is skipped does not part two equal ones, what is nothing does
  CHECK(decoded(kRepeats, pieces, {0, 1, 0}, {{1, "", "", 2}}) == "aa");
  CHECK(decoded(kRepeats, pieces, {0, 1, 0}, {{1, "", "", 2 | 8}}) == "a");
}

TEST_CASE("pipeline: scratch is exact, and a byte less is too little") {
  std::vector<Bytes> sections;
  for (const Parts& p : small_parts()) sections.push_back(build(p));
  sections.push_back(build(spelling()));
  for (const Bytes& section : sections) {
    const Tokenizer t = open(section);
    for (std::size_t size = 0; size <= 60; ++size) {
      std::string text;
      while (text.size() + 4 <= size) text += size % 2 == 0 ? "\uAC00q" : "e\u0301A";
      text.append(size - text.size(), 'a');
      const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, size));
      Ids all, ids(800);
      const EncodeResult first = encode(t, &all, text);
      const Block scratch(bytes), less(bytes - 1);
      for (std::size_t capacity = 0; capacity < all.size() + 2; capacity += 1 + capacity / 4) {
        ids.assign(ids.size(), 0xABABABABu);
        const EncodeResult r =
            tokenizer_encode(t, ids.data(), capacity, text.data(), size, scratch.data, bytes);
        CHECK(r.status == first.status);
        CHECK(r.count == first.count);
        for (std::size_t i = capacity; i < ids.size(); ++i) REQUIRE(ids[i] == 0xABABABABu);
        for (std::size_t i = 0; i < capacity && i < all.size(); ++i) CHECK(ids[i] == all[i]);
      }
      CHECK(tokenizer_encode(t, ids.data(), ids.size(), text.data(), size, less.data, bytes - 1)
                .status == EncodeStatus::text_too_long);
    }
    CHECK(tokenizer_scratch_bytes(t, ~std::uint64_t{0}) == ~std::uint64_t{0});
  }
}

TEST_CASE("pipeline: every truncation of a section is refused") {
  for (const Parts& p : small_parts()) refuses_truncations(build(p), 61);
}

TEST_CASE("pipeline: no damaged byte gets further than an error") {
  for (const Parts& p : small_parts()) damage(build(p), 1);
}

TEST_CASE("pipeline: a damaged header is refused by name") {
  const Bytes good = build(small_bpe());
  refuses(good, 4, 8, "unknown tokenizer flags");
  refuses(good, 88, 2, "the normalizer's expansion is out of range");
  refuses(good, 96, 0, "unknown model of a pipeline");
  refuses(good, 96, 5, "unknown model of a pipeline");
  for (const std::uint32_t rule : {2u, 3u, 4u}) refuses(good, 96, rule, "only BPE has merges");
  refuses(good, 104, 1u << 20, "the model's own part is outside the section");
  refuses(good, 120, 1u << 30, "the model's own part is outside the section");
  refuses(good, 116, 256, "the prefix of a continuation is outside the text");
  Parts p = small_word_level();
  p.prefix = p.suffix = std::string(32, '#');
  CHECK(why_not(build(p)) == "");
  for (std::string* const affix : {&p.prefix, &p.suffix}) {
    *affix += '#';
    CHECK(why_not(build(p)) == "the prefix or the suffix of words is too long");
    affix->pop_back();
  }
  refuses(build(small_word_level()), 124, 1, "the prefix or the suffix of words is too long");
  Parts scores = small_unigram();
  scores.model_data[7] = 0x7F;
  scores.model_data[6] = 0xF0;
  CHECK(why_not(build(scores)) == "a piece's score is not finite");
  scores = small_unigram();
  put_u32(&scores.model_data, scores.model_data.size() - 4, 5);
  CHECK(why_not(build(scores)) == "the id of a byte is out of range");
  put_u32(&scores.model_data, scores.model_data.size() - 4, 4);
  CHECK(why_not(build(scores)) == "");
  Parts merges = small_bpe();
  put_u32(&merges.model_data, 0, 10);
  CHECK(why_not(build(merges)) == "the id of a byte is out of range");
  merges = small_bpe();
  put_u32(&merges.model_data, 1024 + 24, 6);
  CHECK(why_not(build(merges)) == "a merge does not give what it merges");
  merges.prefix = "#";  // which is what its parts have at their ends, and what they lose
  CHECK(why_not(build(merges)) == "a merge does not give what it merges");
}

// What filters make of the text of ids, token by token and in one.
std::string filtered(const Bytes& filters, const std::vector<std::string>& pieces, const Ids& ids,
                     std::uint32_t flags = 0) {
  Parts p = pipeline(word_level, normal(pieces));
  p.flags = flags;
  p.steps = row(words) + spelled_of({}) + filters;
  return decode(open(build(p)), ids);
}

TEST_CASE("pipeline: filters of the whole text") {
  const std::vector<std::string> pieces = {"a", "b", "ab", "aab", "  ", "\u00E9", " "};
  // over the borders of tokens, the leftmost first, what had begun comes back
  CHECK(filtered(filter_of("aab", "X"), pieces, {0, 2, 0, 0}) == "Xaa");
  CHECK(filtered(filter_of("aab", "X"), pieces, {0, 0, 0, 1, 3}) == "aXX");
  CHECK(filtered(filter_of("abab", "-"), pieces, {2, 0, 1, 2}) == "-ab");
  CHECK(filtered(filter_of("aa", ""), pieces, {0, 0, 0}) == "a");
  CHECK(filtered(filter_of("\u00E9", "e"), pieces, {5, 0, 5}) == "eae");
  // one behind the other: what the first gives the second sees
  CHECK(filtered(filter_of("a", "bb") + filter_of("bbb", "."), pieces, {0, 1, 0}) == ".bb");
  // at the ends
  CHECK(filtered(filter_ends_of(' ', 1, 0), pieces, {4, 0, 4}) == " a  ");
  CHECK(filtered(filter_ends_of(' ', 0, 1), pieces, {4, 0, 4}) == "  a ");
  CHECK(filtered(filter_ends_of(' ', 3, 3), pieces, {4, 0, 4, 1, 4}) == "a  b");
  CHECK(filtered(filter_ends_of(' ', 1, 5), pieces, {6, 6}) == "");
  CHECK(filtered(filter_of("a", " ") + filter_ends_of(' ', 2, 2), pieces, {0, 1, 0, 0, 0}) == "b ");
  // a text that is the name of a byte, and nothing else; with the package's spellings
  const std::vector<std::string> name = {"<0", "x4", "1", ">", "+", "<0xc3>", "<0x4", "g", "a"};
  const Bytes byte = row(filter_byte);
  CHECK(filtered(byte, name, {0, 1, 2, 3}) == "A");
  CHECK(filtered(byte, name, {0, 1, 2, 3, 3}) == "<0x41>>");
  CHECK(filtered(byte, name, {2, 0, 1, 2, 3}) == "1<0x41>");
  CHECK(filtered(byte, name, {0, 0, 1, 2, 3}) == "<0<0x41>");
  CHECK(filtered(byte, name, {5}) == "\uFFFD");
  CHECK(filtered(byte, name, {6, 8, 3}) == "J");
  CHECK(filtered(byte, name, {6, 8}) == "<0x4a");
  CHECK(filtered(byte, name, {6, 7, 3}) == "<0x4g>");
  CHECK(filtered(byte, name, {6, 4, 3}) == "<0x4+>");
  CHECK(filtered(filter_of("x4", "x+") + byte + filter_of("\1", "."), name, {0, 1, 2, 3}) == ".");
  CHECK(filtered(byte + filter_of("A", "."), name, {0, 1, 2, 3}) == ".");
  CHECK(filtered(byte, name, {}) == "");
  // a token that comes again is none before the filters see it
  CHECK(filtered(filter_of("ab", "."), pieces, {0, 0, 1}, kRepeats) == ".");

  const auto why = [](const Bytes& filters, std::uint32_t flags = 0, bool holds = false) {
    Parts p = pipeline(word_level, normal({"a"}));
    p.flags = flags;
    const std::vector<Spelled> held = {{0, "", "", 0}, {0, "a", "a", 4}};
    p.steps = row(words) + spelled_of(holds ? held : std::vector<Spelled>{}) + filters;
    return why_not(build(p));
  };
  const auto many = [](int count, const Bytes& one) {
    Bytes all;
    for (int i = 0; i < count; ++i) all = all + one;
    return all;
  };
  // 64 bits of states and 24 filters, 32 less for each token that is kept; one state has no bits
  const Bytes four_bits = filter_of("abcdefghijklmnop", "");
  const Bytes no_bits = filter_of("a", "b");
  CHECK(why(many(16, four_bits) + many(8, no_bits)) == "");
  CHECK(why(many(16, four_bits) + filter_of("ab", "")) == "too many filters");
  CHECK(why(many(25, no_bits)) == "too many filters");
  CHECK(why(many(8, four_bits), kRepeats) == "");
  CHECK(why(many(8, four_bits) + filter_of("ab", ""), kRepeats) == "too many filters");
  CHECK(why(many(8, four_bits), 0, true) == "");
  CHECK(why(many(8, four_bits) + filter_of("ab", ""), 0, true) == "too many filters");
  CHECK(why(many(24, no_bits), kRepeats, true) == "");
  CHECK(why(filter_of("ab", ""), kRepeats, true) == "too many filters");
  CHECK(why(row(filter_byte) + row(filter_byte)) == "a filter's size is wrong");
  CHECK(why(row(filter_byte, {0, 0, 0, 0})) == "a filter's size is wrong");
  // all of the state, and a filter without a bit behind it
  CHECK(filtered(many(16, four_bits) + no_bits, {"abcdefghijklmno", "a", "p", "z"},
                 {0, 0, 2, 3, 0}) == "bbcdefghijklmnozbbcdefghijklmno");
  CHECK(why(filter_of("", "b")) == "a filter's size is wrong");
  CHECK(why(filter_of(std::string(256, 'a'), "b")) == "a filter's size is wrong");
  CHECK(why(filter_ends_of(' ', 128, 0)) == "a filter's size is wrong");
  CHECK(why(filter_ends_of(' ', 0, 128)) == "a filter's size is wrong");
  CHECK(why(filter_ends_of(128, 1, 1)) == "a filter's character is none of ASCII");
  Bytes astray = filter_of("aa", "");
  astray[8 + 8 + 2] = 1;  // of its first byte: it goes back to itself
  CHECK(why(astray) == "a filter's text does not go back");
  CHECK(why(filter_of("a", std::string(200, 'b')) + filter_of("b", std::string(200, 'c'))) ==
        "a decoder that makes too much of a piece");
}

TEST_CASE("pipeline: damaged rows are refused by name") {
  const char* const size = "a step's size is wrong";
  const char* const incomplete = "the steps are not complete";
  CHECK(why_step({}) == "");
  CHECK(why_step(row(0)) == "unknown step");
  CHECK(why_step(row(14)) == "unknown step");
  CHECK(why_step(row(filter_ends)) == "a filter before the decoder");
  CHECK(why_steps({}) == incomplete);
  CHECK(why_steps(row(words)) == incomplete);
  CHECK(why_steps(spelled_of({})) == incomplete);
  CHECK(why_steps(spelled_of({}) + row(words)) == "a step behind the decoder");
  CHECK(why_steps(row(words) + row(words) + spelled_of({})) == incomplete);
  CHECK(why_steps(row(words) + spelled_of({}) + spelled_of({})) == incomplete);
  CHECK(why_steps(row(words) + spelled_of({}) + row(letters)) == "a step behind the decoder");
  Bytes many;
  for (int i = 0; i < 62; ++i) many = many + strip_of(0);
  CHECK(why_step(many) == "");
  CHECK(why_step(many + strip_of(0)) == "too many steps");
  for (const std::uint32_t bytes : {0u, 4u, 7u, 9u, 1u << 20}) {
    Bytes wrong = row(letters);
    put_u32(&wrong, 4, bytes);
    CHECK(why_step(wrong) == size);
  }
  CHECK(why_steps(row(words) + spelled_of({}) + Bytes(4)) == size);
  Bytes short_head = row(words);
  short_head.resize(4);
  CHECK(why_steps(short_head) == size);
  for (const Kind kind : {letters, words}) CHECK(why_step(row(kind, Bytes(4))) == size);
  CHECK(why_step(row(clusters)) == "a step without its map");
  Parts mapped = small_wordpiece();
  CHECK(why_steps(row(clusters, Bytes(4)) + row(words) + spelled_of({}), mapped) == size);
  const Bytes own = clusters_of(mapped.trie, mapped.strings, 1024);
  CHECK(why_step(own) == "");
  CHECK(why_step(resized(own, -4)) == size);
  CHECK(why_step(resized(own, 4)) == size);
  CHECK(why_step(row(clusters, Bytes(8))) == size);
  CHECK(why_step(with_byte(own, 8, 9)) == size);  // the trie's bytes
  CHECK(why_step(clusters_of(mapped.trie, mapped.strings, 1025)) ==
        "a step's longest rule is out of range");
  const char* const leads = "the map of a step leads out of itself";
  CHECK(why_step(clusters_of(Bytes(4 * 512 + 2), Bytes(2), 1)) == leads);
  CHECK(why_step(clusters_of(mapped.trie, {}, 1)) == leads);
  CHECK(why_step(clusters_of({}, mapped.strings, 1)) == leads);
  CHECK(why_step(clusters_of(mapped.trie, {'a', 'b'}, 1)) == leads);
  CHECK(why_step(clusters_of(Bytes(4), mapped.strings, 1)) == leads);
  CHECK(why_step(row(strip)) == size);
  CHECK(why_step(row(strip, Bytes(8))) == size);
  CHECK(why_step(strip_of(3)) == "");
  CHECK(why_step(strip_of(4)) == "white space of an unknown side");
}

TEST_CASE("pipeline: damaged maps are refused by name") {
  const char* const size = "a step's size is wrong";
  const Bytes good = every_change();
  CHECK(why_step(good) == "");
  for (const int by : {-4, 4}) CHECK(why_step(resized(good, by)) == size);
  CHECK(why_step(row(map)) == size);
  CHECK(why_step(row(map, Bytes(4))) == size);
  CHECK(why_step(with_byte(good, 8, 13)) == size);
  CHECK(why_step(map_of({})) == "a map of characters does not begin at 0");
  CHECK(why_step(map_of({{1, kKeep}})) == "a map of characters does not begin at 0");
  const char* const order = "a map of characters is not in order";
  CHECK(why_step(map_of({{0, kKeep}, {0x10FFFF, kKeep}})) == "");
  CHECK(why_step(map_of({{0, kKeep}, {0x110000, kKeep}})) == order);
  CHECK(why_step(map_of({{0, kKeep}, {200, kKeep}, {200, kKeep}})) == order);
  CHECK(why_step(map_of({{0, kKeep}, {201, kKeep}, {200, kKeep}})) == order);
  const char* const change = "a map of characters has an unknown change";
  CHECK(why_step(map_of({{0, 6u << 29}})) == change);
  CHECK(why_step(map_of({{0, 7u << 29 | 5}})) == change);
  const char* const text = "a map's text is outside its part";
  CHECK(why_step(map_of({{0, kText}}, "\1a")) == "");
  CHECK(why_step(map_of({{0, kText}}, "")) == text);
  CHECK(why_step(map_of({{0, kText | 2}}, "\1a")) == text);
  CHECK(why_step(map_of({{0, kText}}, "\2a")) == text);
  CHECK(why_step(map_of({{0, kText | 1}}, std::string("\1\0", 2))) == "");
  const char* const ascii = "a map's runs of ASCII are wrong";
  const Bytes few = map_of({{0, kKeep}, {'b', kRemove}, {'c', kKeep}});
  const std::size_t b = 16 + 'b';
  CHECK(why_step(few) == "");
  CHECK(why_step(with_byte(few, b, 3)) == ascii);
  CHECK(why_step(with_byte(few, b, 2)) == ascii);  // it begins behind it
  CHECK(why_step(with_byte(few, b, 0)) == ascii);  // another has begun
}

TEST_CASE("pipeline: damaged classes and pairs are refused by name") {
  const char* const size = "a step's size is wrong";
  const Bytes good = canonical_of(few_classes(), few_pairs(), true);
  CHECK(why_step(good) == "");
  for (const int by : {-4, 4}) CHECK(why_step(resized(good, by)) == size);
  CHECK(why_step(row(canonical, Bytes(8))) == size);
  CHECK(why_step(with_byte(good, 12, 4)) == size);
  CHECK(why_step(canonical_of({}, {}, true)) == "canonical order without classes");
  const char* const classes = "the classes of canonical order are not in order";
  CHECK(why_step(canonical_of({{5, 1}, {5, 2}}, {}, false)) == classes);
  CHECK(why_step(canonical_of({{5, 1}, {4, 2}}, {}, false)) == classes);
  const char* const pairs = "the pairs of a composition are not in order";
  CHECK(why_step(canonical_of({{5, 1}}, {{1, 2, 3}, {1, 3, 3}, {2, 0, 3}}, true)) == "");
  CHECK(why_step(canonical_of({{5, 1}}, {{1, 2, 3}, {1, 2, 3}}, true)) == pairs);
  CHECK(why_step(canonical_of({{5, 1}}, {{1, 3, 3}, {1, 2, 3}}, true)) == pairs);
  CHECK(why_step(canonical_of({{5, 1}}, {{2, 0, 3}, {1, 2, 3}}, true)) == pairs);
}

TEST_CASE("pipeline: damaged prefixes and patterns are refused by name") {
  const char* const size = "a step's size is wrong";
  CHECK(why_step(prefix_of(3, "abc")) == "");
  CHECK(why_step(prefix_of(4, "abc")) == "a prefix has unknown flags");
  CHECK(why_step(row(prefix, Bytes(4))) == size);
  for (const int by : {-4, 4}) CHECK(why_step(resized(prefix_of(0, "abc"), by)) == size);
  for (const Bytes& good : {replace_of(Table::a_then_b(), "abcde"), split_of(Table::a_or_b(), 2)}) {
    CHECK(why_step(good) == "");
    CHECK(why_step(resized(good, -4)) == "a pattern is outside its part");
    CHECK(why_step(resized(good, 4)) == size);
  }
  CHECK(why_step(row(split)) == "a pattern is outside its part");
  CHECK(why_step(row(replace)) == size);
  CHECK(why_step(with_byte(replace_of(Table::a_then_b(), "abcde"), 10, 1)) == size);
  Table wrong = Table::a_then_b();
  wrong.rows[3][0] = 3;
  CHECK(why_step(split_of(wrong, 1)) == "a pattern looks ahead without bound");
  CHECK(why_step(replace_of(wrong, "")) == "a pattern looks ahead without bound");
}

TEST_CASE("pipeline: damaged pieces that are spelled out are refused by name") {
  const char* const size = "a step's size is wrong";
  const char* const order = "the spelled pieces are not in order";
  const char* const outside = "a spelled piece's text is outside its part";
  const Bytes good = spelled_of({{3, "a", "bc", 3}, {255, "", "", 256u << 8}});
  CHECK(why_spelled(good) == "");
  CHECK(why_spelled(row(spelled)) == size);
  CHECK(why_spelled(row(spelled, Bytes(4))) == size);
  for (const int by : {-4, 4}) CHECK(why_spelled(resized(good, by)) == size);
  CHECK(why_spelled(spelled_of({{256, "", "", 0}})) == order);
  CHECK(why_spelled(spelled_of({{3, "", "", 0}, {3, "", "", 0}})) == order);
  CHECK(why_spelled(spelled_of({{4, "", "", 0}, {3, "", "", 0}})) == order);
  CHECK(why_spelled(spelled_of({{3, "", "", 4}})) == order);
  CHECK(why_spelled(spelled_of({{2, "", "", 0}, {3, "", "", 4}})) == order);
  CHECK(why_spelled(spelled_of({{3, "", "", 0}, {3, "", "", 4}, {3, "", "", 4}})) == order);
  CHECK(why_spelled(spelled_of({{3, "", "", 4}, {3, "", "", 0}})) == order);
  CHECK(why_spelled(spelled_of({{3, "", "", 0}, {3, "", "", 4}, {4, "", "", 0}})) == "");
  CHECK(why_spelled(spelled_of({{3, "", "", 16}})) == outside);
  CHECK(why_spelled(spelled_of({{3, "", "", 0xFFFFFFu << 8}})) == outside);
  CHECK(why_spelled(spelled_of({{3, "", "", 0}, {3, "", "", 257u << 8 | 4}})) == outside);
  CHECK(why_spelled(spelled_of({{3, "", "", 0}, {3, "", "", 0xFFFFFFu << 8 | 4}})) == "");
  CHECK(why_spelled(spelled_of({{3, "", "", 257u << 8}})) == outside);
  CHECK(why_spelled(with_byte(good, 20, 1)) == outside);  // the place
  CHECK(why_spelled(with_byte(good, 36, 4)) == outside);  // of no text
  CHECK(why_spelled(with_byte(good, 24, 2)) == outside);  // the first text's bytes
  CHECK(why_spelled(with_byte(good, 26, 3)) == outside);  // the second's
}
