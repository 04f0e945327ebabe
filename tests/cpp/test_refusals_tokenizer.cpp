// What of a tokenizer's section is refused at its ends: a section that opens but for one thing, and
// beside it the last value that is accepted. And maps that open and are not what they should be:
// what a text becomes then, in bounded room.
#include "generator/trie.h"
#include "test_tokenizer.h"
#include "text/added.h"
#include "text/chars.h"
#include "text/models.h"
#include "text/normalizer.h"

using namespace tokenizer_tests;
using namespace phasor::pieces;

namespace {

void set_map(Parts* p, const std::map<std::string, std::string>& rules) {
  const generator::Trie trie = generator::build_trie(rules);
  p->trie = trie.units;
  p->strings = trie.strings;
  p->longest_rule = trie.longest;
}

// The text that a composing tokenizer's bytes give, or "too long".
std::string composed(const std::map<std::string, std::string>& rules, const std::string& text,
                     std::uint32_t expansion = 3) {
  Parts p = bytes_bpe();
  p.flags = kCompose;
  p.expansion = expansion;
  set_map(&p, rules);
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  Ids ids;
  if (encode(t, &ids, text).status == EncodeStatus::text_too_long) return "too long";
  std::string out;
  for (const std::uint32_t id : ids) out += static_cast<char>(id);
  return out;
}

// A mark of a combining class, with a decomposition or none.
std::string of_class(unsigned order, const std::string& decomposition = "") {
  return static_cast<char>(1 + order) + decomposition;
}

}  // namespace

TEST_CASE("refusals: a tokenizer's counts and sizes at their ends") {
  // A prefix of 255 bytes, a surface of 32767, pieces and added tokens of 512.
  Parts p = bytes_bpe();
  p.surface = std::string(32767, 's');
  CHECK(why_not(build(p)) == "");
  p.surface += 's';
  CHECK(why_not(build(p)) == "the unknown surface is too long");

  Parts words{};
  words.model = ModelNumber::wordpiece;
  words.pieces = {{"[U]", PieceType::unknown, 1}, {"a", PieceType::normal, 1}};
  words.expansion = 3;
  words.word_chars = 9;
  words.runs = all_letters();
  words.prefix = std::string(255, '#');
  CHECK(why_not(build(words)) == "");
  words.prefix += '#';
  CHECK(why_not(build(words)) == "the prefix of a continuation is outside the text");
  words.prefix = "##";
  for (const std::size_t length : {512, 513}) {
    Parts long_piece = words;
    long_piece.pieces[1].text = std::string(length, 'a');
    CHECK(why_not(build(long_piece)) == (length == 512 ? "" : "a piece is empty or too long"));
    Parts long_token = words;
    long_token.added = {{std::string(length, 'a'), 1, 0}};
    CHECK(why_not(build(long_token)) ==
          (length == 512 ? "" : "an added token is empty or too long"));
  }
  // WordPiece has an unknown piece; BPE of bytes need not.
  words.pieces[0].type = PieceType::control;
  words.unknown = kNoToken;
  CHECK(why_not(build(words)) == "the model has no unknown piece");
  for (const std::uint32_t expansion : {1u, 255u, 256u, 0u}) {
    p = bytes_bpe();
    p.expansion = expansion;
    const bool fits = expansion == 1 || expansion == 255;
    CHECK(why_not(build(p)) == (fits ? "" : "the normalizer's expansion is out of range"));
  }
}

TEST_CASE("refusals: pieces of one text, as many as a search may pass over") {
  const auto words = [](std::size_t reserved, std::size_t others) {
    Parts p{};
    p.model = ModelNumber::words;
    p.pieces = {{"<unk>", PieceType::unknown, 0}};
    for (std::size_t i = 0; i < reserved; ++i) p.pieces.push_back({"x", PieceType::control, 0});
    for (std::size_t i = 0; i < others; ++i) p.pieces.push_back({"x", PieceType::normal, 0});
    return why_not(build(p));
  };
  const char* const many = "too many pieces have the same text";
  CHECK(words(0, 99) == "");
  CHECK(words(4, 1) == "");
  CHECK(words(5, 0) == many);
  const auto unigram = [](std::initializer_list<PieceType> types) {
    Parts p{};
    p.model = ModelNumber::unigram;
    p.expansion = 3;
    p.pieces = {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}};
    for (const PieceType type : types) p.pieces.push_back({"x", type, 0});
    return why_not(build(p));
  };
  const char* const same = "two pieces are the same";
  CHECK(unigram({PieceType::normal, PieceType::control}) == "");
  CHECK(unigram({PieceType::control, PieceType::normal}) == "");
  CHECK(unigram({PieceType::normal, PieceType::normal}) == same);
  CHECK(unigram({PieceType::control, PieceType::control}) == same);
  CHECK(unigram({PieceType::control, PieceType::normal, PieceType::control}) == many);
}

TEST_CASE("refusals: a word list with a map, byte fallback that lacks a byte") {
  Parts words{};
  words.model = ModelNumber::words;
  words.pieces = {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}};
  CHECK(why_not(build(words)) == "");
  set_map(&words, {{"a", "b"}});
  CHECK(why_not(build(words)) == "a word list has a normalizer");
  Parts p{};
  p.model = ModelNumber::bpe;
  p.flags = kByteFallback;
  p.expansion = 3;
  p.pieces = {{"<unk>", PieceType::unknown, 0}};
  const char* const digits = "0123456789ABCDEF";
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    p.pieces.push_back(
        {std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", PieceType::byte, 0});
  CHECK(why_not(build(p)) == "");
  for (const std::size_t missing : {1, 130, 256}) {
    Parts less = p;
    less.pieces[missing] = {"other", PieceType::normal, 0};
    CHECK(why_not(build(less)) == "byte fallback without all 256 byte pieces");
  }
  for (const char* text : {"<0xG0>", "<0x0g>", "<0xab>", "<0x1>", "<0y11>", "<0x112", "<0x/0>",
                           "<0x0:>", "<0x@0>", "<0x111>"}) {
    Parts wrong = p;
    wrong.pieces[7].text = text;
    CHECK(why_not(build(wrong)) == "a byte piece is not allowed or not <0x00> ... <0xFF>");
  }
}

TEST_CASE("refusals: a double array that leads out of itself") {
  const auto check = [](std::vector<std::uint32_t> units, std::uint32_t string_bytes) {
    Bytes bytes;
    for (const std::uint32_t unit : units) append_u32(&bytes, unit);
    return normalizer_check(bytes.data(), static_cast<std::uint32_t>(units.size()), string_bytes);
  };
  const std::uint32_t value = 0x80000000u;
  const std::vector<std::uint32_t> zeros(256, 0);
  CHECK(check(zeros, 1));
  CHECK_FALSE(check({}, 1));
  CHECK_FALSE(check(std::vector<std::uint32_t>(255, 0), 1));  // the root's last child is outside
  std::vector<std::uint32_t> units(512, 0);
  units[7] = value | 9;
  CHECK(check(units, 10));
  CHECK_FALSE(check(units, 9));
  units[0] = 7 << 10 | 0x100;  // a value hangs here, at place 7
  CHECK(check(units, 10));
  units[0] = 8 << 10 | 0x100;  // and at place 8 there is none
  CHECK_FALSE(check(units, 10));
  units[0] = 256 << 10;
  CHECK(check(units, 10));
  units[0] = 512 << 10;
  CHECK_FALSE(check(units, 10));
  units[0] = 1 << 10 | 0x200;  // the distance shifted by eight
  CHECK(check(units, 10));
  units[0] = 2 << 10 | 0x200;
  CHECK_FALSE(check(units, 10));
  units[0] = value;
  CHECK_FALSE(check(units, 10));
}

TEST_CASE("refusals: composition of maps that are not Unicode's stays within its room") {
  const std::string acute = "\u0301", below = "\u0323", dot = "\u0307", e = "\u00E9";
  const std::map<std::string, std::string> real = {{acute, of_class(230)},
                                                   {dot, of_class(230)},
                                                   {below, of_class(220)},
                                                   {e, of_class(0, "e" + acute)},
                                                   {"e" + acute, e}};
  CHECK(composed(real, "e" + acute) == e);
  CHECK(composed(real, e) == e);
  CHECK(composed(real, "x" + acute + below) == "x" + below + acute);  // marks by their classes
  CHECK(composed(real, "x" + acute + dot) == "x" + acute + dot);      // equal ones as they come
  CHECK(composed(real, "e" + dot + acute) == "e" + dot + acute);      // kept apart by its class
  CHECK(composed(real, "e" + below + acute) == e + below);
  CHECK(composed(real, "x" + acute + below + dot) == "x" + below + acute + dot);
  CHECK(composed(real, acute) == acute);
  CHECK(composed(real, "e\xFF" + acute) == "e\xFF" + acute);
  // An entry that is a zero is class 0 and the character itself.
  CHECK(composed({{acute, ""}}, "a" + acute) == "a" + acute);
  // Without a length that the header allows: one character and two bytes become four.
  const std::map<std::string, std::string> longer = {{e, of_class(0, "abcd")}};
  CHECK(composed(longer, e, 2) == "abcd");
  CHECK(composed({{e, of_class(0, "abcde")}}, e, 2) == "too long");
  CHECK(composed({{e, of_class(0, "abcde")}, {acute, of_class(230)}}, "x" + e + acute, 2) ==
        "too long");
  // A decomposition that ends inside of a character, and in marks.
  CHECK(composed({{e, of_class(0, "a\xCC")}}, e) == "a\xCC");
  CHECK(composed({{e, of_class(0, "\xF0\x9F\x98\x80")}}, e) == "\xF0\x9F\x98\x80");
  CHECK(composed(
            {{e, of_class(0, "a" + below + acute)}, {acute, of_class(230)}, {below, of_class(220)}},
            e + below) == "a" + below + below + acute);
  // A mark whose own decomposition is too long, among marks in and out of order.
  const std::map<std::string, std::string> broken = {
      {acute, of_class(230, std::string(7, 'm'))}, {below, of_class(220)}, {dot, of_class(230)}};
  CHECK(composed(broken, "x" + acute, 3) == "too long");
  CHECK(composed(broken, "x" + dot + below + acute, 3) == "too long");
  // More than the room: marks that become longer than the header says for the text.
  const std::map<std::string, std::string> marks = {{e, of_class(0, acute + acute)},
                                                    {acute, of_class(230)}};
  CHECK(composed(marks, e + e + e, 2) == acute + acute + acute + acute + acute + acute);
  // A pair that becomes longer than itself is none.
  CHECK(composed({{acute, of_class(0)}, {"e" + acute, std::string(3, 'y')}}, "e" + acute) == "yyy");
  CHECK(composed({{acute, of_class(0)}, {"e" + acute, std::string(4, 'y')}}, "e" + acute) ==
        "e" + acute);
  // A chain that never ends: a pair that becomes its first half.
  const std::map<std::string, std::string> chain = {{acute, of_class(0)}, {"e" + acute, "e"}};
  std::string many = "e";
  for (int i = 0; i < 33; ++i) many += acute;
  CHECK(composed(chain, many) == "e" + acute);  // 32 into one character
}

TEST_CASE("refusals: composition of Hangul at the ends of its ranges") {
  const std::map<std::string, std::string> none = {{"\u0301", of_class(230)}};
  const auto text = [](std::initializer_list<std::uint32_t> codes) {
    std::string out;
    for (const std::uint32_t code : codes) {
      unsigned char bytes[4];
      out.append(reinterpret_cast<const char*>(bytes), write_char(bytes, code));
    }
    return out;
  };
  CHECK(composed(none, text({0x1100, 0x1161})) == text({0xAC00}));
  CHECK(composed(none, text({0x1112, 0x1175})) == text({0xD788}));
  CHECK(composed(none, text({0x1112, 0x1175, 0x11C2})) == text({0xD7A3}));
  CHECK(composed(none, text({0xAC00, 0x11A8})) == text({0xAC01}));
  for (const auto& apart : {text({0x10FF, 0x1161}), text({0x1113, 0x1161}), text({0x1100, 0x1160}),
                            text({0x1100, 0x1176}), text({0xAC00, 0x11A7}), text({0xAC00, 0x11C3}),
                            text({0xAC01, 0x11A8}), text({0xD7A4, 0x11A8}), text({0xABFF, 0x11A8})})
    CHECK(composed(none, apart) == apart);
}

TEST_CASE("refusals: replacements longer than the header's expansion says") {
  // Three bytes of a key may become 3 · 3; here they become more, and end there.
  const std::map<std::string, std::string> rules = {{"abc", std::string(20, 'x')},
                                                    {"q", std::string(20, 'y')}};
  Parts p{};
  p.model = ModelNumber::unigram;
  p.expansion = 3;
  p.pieces = {
      {"<unk>", PieceType::unknown, 0}, {"x", PieceType::normal, 0}, {"y", PieceType::normal, 0}};
  set_map(&p, rules);
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  CHECK(encode(t, "abc") == Ids(9, 1));
  CHECK(encode(t, "q") == Ids(3, 2));
}

TEST_CASE("refusals: nothing is written behind the room of a normalized text") {
  unsigned char room[4] = {1, 1, 1, 1};
  Output out{room, 3, 0, false};
  const unsigned char text[4] = {'a', 'b', 'c', 'd'};
  CHECK(out.put(text, 2));
  CHECK_FALSE(out.put(text, 2));
  CHECK_FALSE(out.put(text, 1));  // once full nothing more
  CHECK(out.result() == kNormalizedTooLong);
  CHECK((room[0] == 'a' && room[1] == 'b' && room[2] == 1 && room[3] == 1));
  Output exact{room, 3, 0, false};
  CHECK(exact.put(text, 3));
  CHECK(exact.result() == 3);
  CHECK(room[3] == 1);
}

TEST_CASE("refusals: UTF-8 at the ends of its ranges") {
  struct Row {
    const char* bytes;
    std::size_t size;  // of the character
    bool more;
  };
  const Row rows[] = {{"\x7F", 1, false},
                      {"\x80", 0, false},
                      {"\xC1\x80", 0, false},
                      {"\xC2\x80", 2, false},
                      {"\xC2\xBF", 2, false},
                      {"\xC2\xC0", 0, false},
                      {"\xC2\x7F", 0, false},
                      {"\xC2", 0, true},
                      {"\xDF\xBF", 2, false},
                      {"\xE0\x9F\x80", 0, false},
                      {"\xE0\xA0\x80", 3, false},
                      {"\xE0\xA0", 0, true},
                      {"\xED\x9F\xBF", 3, false},
                      {"\xED\xA0\x80", 0, false},
                      {"\xEF\xBF\xBF", 3, false},
                      {"\xF0\x8F\x80\x80", 0, false},
                      {"\xF0\x90\x80\x80", 4, false},
                      {"\xF4\x8F\xBF\xBF", 4, false},
                      {"\xF4\x90\x80\x80", 0, false},
                      {"\xF5\x80\x80\x80", 0, false},
                      {"\xF0\x90\x80", 0, true},
                      {"", 0, false}};
  for (const Row& row : rows) {
    bool more = false;
    const std::string text = row.bytes;
    CHECK(valid_char(reinterpret_cast<const unsigned char*>(row.bytes), text.size(), &more) ==
          row.size);
    CHECK(more == row.more);
  }
}

TEST_CASE("refusals: a map's text that becomes longer than its room is no text") {
  // A space becomes three bytes where spaces are ▁: nine bytes of one.
  Parts p{};
  p.model = ModelNumber::unigram;
  p.expansion = 3;
  p.pieces = {{"<unk>", PieceType::unknown, 0}, {"x", PieceType::normal, 0}};
  set_map(&p, {{"q", "   "}});
  for (const std::uint32_t flags : {0u, 4u}) {
    p.flags = flags;
    const Bytes section = build(p);
    const Tokenizer t = open(section);
    Ids ids;
    CHECK(encode(t, &ids, "qqqqqqqq").status ==
          (flags == 0 ? EncodeStatus::ok : EncodeStatus::text_too_long));
  }
  // U+FFFD with blanks around it: five bytes of one.
  Parts words{};
  words.model = ModelNumber::wordpiece;
  words.expansion = 3;
  words.word_chars = 9;
  words.pieces = {{"[U]", PieceType::unknown, 1}, {"a", PieceType::normal, 1}};
  for (const std::uint32_t of : {0u, kPadded}) {
    words.runs = {run(0, kLetter | kWord), run(0xFFFD, of)};
    const Bytes section = build(words);
    const Tokenizer t = open(section);
    Ids ids;
    CHECK(encode(t, &ids, std::string(8, '\xFF')).status ==
          (of == 0 ? EncodeStatus::ok : EncodeStatus::text_too_long));
    CHECK(encode(t, "a") == Ids{1});
  }
}

TEST_CASE("refusals: pieces that text does not give, and pieces of half a character") {
  Parts p{};
  p.model = ModelNumber::bpe;
  p.expansion = 3;
  // Unused: ab, cd, abcd and the letter z, beside letters that text gives.
  p.pieces = {{"<unk>", PieceType::unknown, 0}};
  for (const char* letter : {"a", "b", "c", "d"})
    p.pieces.push_back({letter, PieceType::normal, 0});
  for (const char* unused : {"ab", "cd", "abcd", "bc", "z", "da", "ad", "ca"})
    p.pieces.push_back({unused, PieceType::unused, 0});
  Bytes section = build(p);
  {
    const Tokenizer t = open(section);
    CHECK(encode(t, "abcdabcd") == Ids{1, 2, 3, 4, 1, 2, 3, 4});
    CHECK(encode(t, "dadcabcab") == Ids{4, 1, 4, 3, 1, 2, 3, 1, 2});
    CHECK(encode(t, "z") == Ids{0});
    CHECK(encode(t, "azb") == Ids{1, 0, 2});
    CHECK(encode(t, "") == Ids{});
  }
  for (int i = 0; i < 12; ++i)  // more than a short text's pairs
    p.pieces.push_back({std::string("y") + static_cast<char>('a' + i), PieceType::unused, 0});
  section = build(p);
  {
    const Tokenizer t = open(section);
    CHECK(encode(t, "") == Ids{});
    CHECK(encode(t, "ab") == Ids{1, 2});
    CHECK(tokenizer_scratch_bytes(t, 0) == 8 * 32 + 6 * 3 + 8 + 3);
  }
  // A map may end a text inside of a character.
  set_map(&p, {{"q", "\xE2"}});
  section = build(p);
  CHECK(encode(open(section), "aq") == Ids{1, 0});
  Parts unigram{};
  unigram.model = ModelNumber::unigram;
  unigram.expansion = 3;
  unigram.pieces = {
      {"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}, {"z", PieceType::unused, 0}};
  section = build(unigram);
  CHECK(encode(open(section), "az") == Ids{1, 0});
  Parts words{};
  words.model = ModelNumber::wordpiece;
  words.expansion = 3;
  words.word_chars = 9;
  words.runs = all_letters();
  words.prefix = "##";
  words.pieces = {{"[U]", PieceType::unknown, 1},
                  {"\xC3", PieceType::normal, 1},
                  {"##\xA9", PieceType::normal, 1},
                  {"a", PieceType::normal, 1}};
  section = build(words);
  const Tokenizer t = open(section);
  CHECK(encode(t, "\u00E9") == Ids{0});  // two pieces of one character
  CHECK(encode(t, "a") == Ids{3});
}

TEST_CASE("refusals: added tokens in white space that another one has taken") {
  Parts words{};
  words.model = ModelNumber::wordpiece;
  words.expansion = 3;
  words.word_chars = 9;
  words.runs = {run(0, kLetter | kWord), run(' ', kSpace), run('!', kLetter | kWord)};
  words.pieces = {{"[U]", PieceType::unknown, 1},
                  {"x", PieceType::normal, 1},
                  {"<m>", PieceType::control, 0},
                  {"  ", PieceType::control, 0}};
  words.added = {{"  ", 3, kStripLeft | kStripRightOf}, {"<m>", 2, kStripRightOf}};
  const Bytes section = build(words);
  const Tokenizer t = open(section);
  CHECK(encode(t, "<m>      x") == Ids{2, 1});
  CHECK(encode(t, "x      <m>") == Ids{1, 3, 2});
  // Where several spaces are one ▁ they are no white space to a token in normalized text.
  Parts meta{};
  meta.model = ModelNumber::metaspace;
  meta.expansion = 3;
  meta.unknown = 0;
  meta.pieces = {{"<u>", PieceType::unknown, 1},
                 {"\u2581", PieceType::normal, 1},
                 {"x", PieceType::normal, 1},
                 {"<m>", PieceType::control, 0}};
  for (const double score : {0.0, -1.0, -1.0, 0.0, -9.0}) append_f64(&meta.model_data, score);
  meta.runs = words.runs;
  meta.added = {{"<m>", 3, kStripLeft | kStripRightOf | kNormalized}};
  meta.flags = kMergeSpaces;
  const Bytes merged = build(meta);
  const Tokenizer m = open(merged);
  CHECK(encode(m, "x <m> x") == Ids{2, 3, 2});
  CHECK(encode(m, "x  <m>  x") == Ids{2, 1, 3, 1, 2});
  CHECK(encode(m, "x <m> ") == Ids{2, 3});
}

TEST_CASE("refusals: the parts of a tokenizer's section, and the order of its pieces and tokens") {
  Parts bpe{};
  bpe.model = ModelNumber::bpe;
  bpe.expansion = 3;
  bpe.pieces = {{"<unk>", PieceType::unknown, 0},
                {"a", PieceType::normal, 0},
                {"ab", PieceType::normal, 0},
                {"abc", PieceType::user_defined, 0},
                {"x", PieceType::user_defined, 0}};
  const Bytes plain = build(bpe);
  const Tokenizer t = open(plain);
  CHECK(t.longest_user == 3);
  CHECK(encode(t, "abcxab") == Ids{3, 4, 2});
  refuses(plain, 64, 4, "the normalizer has no trie but other parts");
  refuses(plain, 72, 4, "the normalizer has no trie but other parts");
  refuses(plain, 28, 4, "the normalizer has no trie but other parts");
  refuses(plain, 92, 1, "the normalizer has no trie but rules");
  Parts same = bpe;
  same.pieces[2].text = "a";
  CHECK(why_not(build(same)) == "two pieces are the same");
  set_map(&bpe, {{"q", "x"}});
  const Bytes mapped = build(bpe);
  CHECK(why_not(mapped) == "");
  const std::uint32_t units = static_cast<std::uint32_t>(bpe.trie.size());
  refuses(mapped, 24, units - 1, "the normalizer's trie is outside the section");
  refuses(mapped, 24, 0xFFFFFFFC, "the normalizer's trie is outside the section");
  refuses(mapped, 28, 0, "the normalizer's strings are outside the section");
  refuses(mapped, 28, 1, "the normalizer's strings are not terminated");
  Parts longest = bpe;
  longest.longest_rule = 1024;
  CHECK(why_not(build(longest)) == "");
  longest.longest_rule = 1025;
  CHECK(why_not(build(longest)) == "the normalizer's longest rule is out of range");
  // Equal words stand in the order of their ids.
  Parts words{};
  words.model = ModelNumber::words;
  words.pieces = {
      {"<unk>", PieceType::unknown, 0}, {"x", PieceType::normal, 0}, {"x", PieceType::normal, 0}};
  Bytes section = build(words);
  const std::size_t order = 128 + 16 * 3;
  CHECK(why_not(section) == "");
  put_u32(&section, order + 4, 2);
  put_u32(&section, order + 8, 1);
  CHECK(why_not(section) == "the sorted permutation is not sorted");
  put_u32(&section, order + 8, 2);
  CHECK(why_not(section) == "the sorted permutation is not sorted");
  // Added tokens: inside the text, ascending, the plain ones first.
  Parts p = bytes_bpe();
  p.added = {{"aa", 1, 0}, {"b", 2, 0}, {"aa", 3, 8}};
  const Bytes good = build(p);
  CHECK(why_not(good) == "");
  const std::uint32_t rows = static_cast<std::uint32_t>(good.size() - 3 * 16);
  refuses(good, rows + 4, 0xFFFFFFFF, "an added token's text is outside the text");
  refuses(good, rows + 32 + 4, 3, "an added token's text is outside the text");
  refuses(good, rows + 8, 256, "an added token's id is out of range");
  refuses(good, 116, 1, "only WordPiece has a longest word and a prefix");
  refuses(good, 112, 1, "the patterns' size is wrong");
  for (const char* text : {"aa", "a"}) {
    p.added[1].text = text;
    CHECK(why_not(build(p)) == "the added tokens are not in order");
  }
}

TEST_CASE("refusals: a map that goes before the other begins inside the trie") {
  Parts p{};
  p.model = ModelNumber::metaspace;
  p.expansion = 3;
  p.unknown = 0;
  p.flags = kMergeFirst;
  p.pieces = {{"<u>", PieceType::unknown, 1},   {"x", PieceType::normal, 1},
              {"y", PieceType::normal, 1},      {"\u2581", PieceType::normal, 1},
              {"\u1112", PieceType::normal, 1}, {"\u1175", PieceType::normal, 1},
              {"\u11C2", PieceType::normal, 1}, {"\uFFFD", PieceType::normal, 1}};
  for (int i = 0; i < 8; ++i) append_f64(&p.model_data, -1.0);
  append_f64(&p.model_data, -9.0);
  p.runs = {run(0, 0), run(0xAC00, 1u << 9 | 13u << 4), run(0xD7A4, 0)};
  generator::Trie trie = generator::build_trie({{"a", "x"}, {"b", ""}});
  // what it makes goes through the other map; the longest key counts, and a key may go over
  // characters
  p.word_chars =
      generator::append_trie(&trie, {{"A", "a"}, {"AA", "yb"}, {"c", " "}, {"d", "\xFF"}});
  p.trie = trie.units;
  p.strings = trie.strings;
  p.longest_rule = trie.longest;
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  CHECK(encode(t, "Aa") == Ids{1, 1});
  CHECK(encode(t, "AAA") == Ids{2, 1});
  CHECK(encode(t, "x  cx") == Ids{1, 3, 3, 1});  // two spaces are one before that
  CHECK(encode(t, "\uD7A3x") == Ids{4, 5, 6, 1});
  CHECK(encode(t, "d\xFF") == Ids{7, 7});
  refuses(section, 112, static_cast<std::uint32_t>(p.trie.size() / 4),
          "the normalizer's first map begins outside its trie");
  refuses(section, 112, 0xFFFFFFFF, "the normalizer's first map begins outside its trie");
  std::uint32_t value = 0;  // a unit that has a string and no children
  while ((p.trie[4 * value + 3] & 0x80) == 0) ++value;
  refuses(section, 112, value, "the normalizer's first map begins outside its trie");
  refuses(section, 116, 1, "only WordPiece has a longest word and a prefix");
  p.trie = {};
  p.strings = {};
  p.longest_rule = 0;
  CHECK(why_not(build(p)) == "the normalizer's first map begins outside its trie");
  // what both maps make of a character is longer than the header's expansion says
  generator::Trie long_one = generator::build_trie({{"a", "xxx"}});
  p.word_chars = generator::append_trie(&long_one, {{"A", "aaa"}});
  p.trie = long_one.units;
  p.strings = long_one.strings;
  p.longest_rule = long_one.longest;
  const Bytes longer = build(p);
  const Tokenizer l = open(longer);
  CHECK(encode(l, "a") == Ids{1, 1, 1});
  Ids ids;
  CHECK(encode(l, &ids, "AAAA").status == EncodeStatus::text_too_long);
}

TEST_CASE("refusals: BPE of words has rows without an id, and merges in passes") {
  Parts p{};
  p.model = ModelNumber::char_bpe;
  p.expansion = 1;
  p.unknown = 0;
  p.flags = kWordEnds;
  p.surface = "?";
  p.pieces = {{"<u>", PieceType::unknown, 1}, {"a", PieceType::normal, 1},
              {"b", PieceType::normal, 1},    {"b ", PieceType::normal, 1},
              {"ab", PieceType::normal, 1},   {"ab ", PieceType::normal, 1},
              {"aba", PieceType::normal, 1},  {"<m>", PieceType::control, 0},
              {"abab", PieceType::normal, 1}};
  p.added = {{"<m>", 7, 0}};
  for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, kNoToken);
  // (a, b) before (a, "b "); (ab, a) is better than both, and comes when their pass is over
  const std::uint32_t rows[][3] = {{1, 2, 1}, {1, 3, 2}, {4, 1, 0}, {4, 4, 3}};
  for (const auto& merge : rows)
    for (const std::uint32_t value : merge) append_u32(&p.model_data, value);
  for (const std::uint32_t result : {6u, 4u, 5u, 8u}) append_u32(&p.model_data, result);
  p.merges = 4;
  p.word_chars = 1;
  p.runs = {run(0, 0), run('\t', kSpace), run('\v', 0), run(' ', kSpace), run('!', 0)};
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  CHECK(t.ids == 8);
  CHECK(encode(t, "ab  b\tab") == Ids{5, 3, 5});
  // the first (a, b) does not take the second one's a; the row behind the ids is unknown
  CHECK(encode(t, "ababb") == Ids{0, 3});
  CHECK(encode(t, "abaab") == Ids{6, 5});
  CHECK(encode(t, "abx") == Ids{4, 0});
  CHECK(encode(t, "ab\n") == Ids{4, 0});  // a word takes the line feed behind it
  CHECK(encode(t, "ab \n<m>b") == Ids{5, 7, 3});
  CHECK(encode(t,
               "\xFF"
               "b \xFF") == Ids{0, 3, 0});
  CHECK(encode(t, " \t") == Ids{});
  CHECK(decode(t, {5, 7, 4, 3, 0, 5, 1}) == "ab abb ? ab a");
  CHECK(decode(t, {3, 3}) == "b b");
  refuses(section, 4, kWordEnds | kFuseUnknown, "BPE of words has flags of another kind");
  refuses(section, 4, 0, "only BPE of words in passes has rows without an id");
  refuses(section, 112, 9, "no piece has an id");
  refuses(section, 112, 0xFFFFFFFF, "no piece has an id");
  refuses(section, 112, 2, "an added token's id is out of range");
  refuses(section, 12, kNoToken, "BPE of words has no unknown piece with an id");
  refuses(section, 12, 8, "BPE of words has no unknown piece with an id");
  refuses(section, 116, 1, "only WordPiece has a longest word and a prefix");
}

TEST_CASE("refusals: BPE of BERT's words has no rows without an id, and merges one by one") {
  Parts p{};
  p.model = ModelNumber::char_bpe;
  p.expansion = 3;
  p.unknown = 0;
  p.flags = kWordEnds | kBertWords;
  p.surface = "?";
  p.pieces = {{"<u>", PieceType::unknown, 1}, {"a", PieceType::normal, 1},
              {"b", PieceType::normal, 1},    {"b ", PieceType::normal, 1},
              {"ab", PieceType::normal, 1},   {"ab ", PieceType::normal, 1},
              {"aba", PieceType::normal, 1},  {"<m>", PieceType::control, 0},
              {"abab", PieceType::normal, 1}, {"! ", PieceType::normal, 1}};
  p.added = {{"<m>", 7, 0}};
  for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, kNoToken);
  // (ab, a) is better than (a, b), and comes as soon as there is one
  const std::uint32_t rows[][3] = {{1, 2, 1}, {1, 3, 2}, {4, 1, 0}, {4, 4, 3}};
  for (const auto& merge : rows)
    for (const std::uint32_t value : merge) append_u32(&p.model_data, value);
  for (const std::uint32_t result : {6u, 4u, 5u, 8u}) append_u32(&p.model_data, result);
  p.merges = 4;
  set_map(&p, {{"A", "a"}});
  p.runs = {
      run(0, kRemoved),       run(1, 0),   run('\t', kSpace),    run('\v', 0),  run(' ', kSpace),
      run('!', kPunctuation), run('"', 0), run(0x4E00, kPadded), run(0x4E01, 0)};
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  CHECK(encode(t, "ab  b\tab") == Ids{5, 3, 5});
  CHECK(encode(t, "ababb") == Ids{6, 2, 3});
  CHECK(encode(t, "Ab!b!") == Ids{5, 9, 3, 9});
  CHECK(encode(t, "ab\nb") == Ids{5, 3});  // a line feed is no more than white space
  CHECK(encode(t, "a\u4E00b") == Ids{0, 0, 3});
  CHECK(encode(t, std::string("a\0b", 3)) == Ids{5});
  CHECK(encode(t, "<m>b\xFF") == Ids{7, 2, 0});
  CHECK(encode(t, " \t") == Ids{});
  CHECK(decode(t, {5, 7, 4, 3, 0, 5, 9, 1}) == "ab abb ?ab ! a");
  refuses(section, 4, kBertWords, "BPE of words has flags of another kind");
  refuses(section, 4, kBertWords | kWordEnds | kCutAtEach,
          "BPE of words has flags of another kind");
  refuses(section, 112, 1, "only BPE of words in passes has rows without an id");
  refuses(section, 88, 2, "the normalizer's expansion is out of range");
  p.unknown = kNoToken;
  p.pieces[0].type = PieceType::normal;
  const Bytes none = build(p);
  CHECK(encode(open(none), "axb") == Ids{5});  // what is no piece is dropped, as by the package
}

TEST_CASE("refusals: BPE of words of lower case has a map, and line feeds that are words") {
  Parts p{};
  p.model = ModelNumber::char_bpe;
  p.expansion = 3;
  p.unknown = 0;
  p.flags = kWordEnds | kLowerWords;
  p.pieces = {{"<u>", PieceType::unknown, 1},    {"a", PieceType::normal, 1},
              {"a ", PieceType::normal, 1},      {"\u03c3", PieceType::normal, 1},
              {"\u03c3 ", PieceType::normal, 1}, {"\u03c2", PieceType::normal, 1},
              {"\u03c2 ", PieceType::normal, 1}, {"' ", PieceType::normal, 1},
              {". ", PieceType::normal, 1},      {".", PieceType::normal, 1},
              {"_", PieceType::normal, 1},       {"n", PieceType::normal, 1},
              {"w", PieceType::normal, 1},       {"e", PieceType::normal, 1},
              {"l", PieceType::normal, 1},       {"_ ", PieceType::normal, 1},
              {"__", PieceType::normal, 1},      {"<m>", PieceType::control, 0}};
  p.added = {{"<m>", 17, 0}};
  for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, kNoToken);
  for (const std::uint32_t value : {10u, 10u, 0u, 16u}) append_u32(&p.model_data, value);
  p.merges = 1;
  set_map(&p, {{"A", "a"}, {".", " ."}});
  p.runs = {run(0, 0),    run('\t', kSpace),  run('\v', 0), run(' ', kSpace),
            run('!', 0),  run('\'', kPadded), run('(', 0),  run(':', kPassedOver),
            run(';', 0),  run('a', kCased),   run('b', 0),  run(0x3C2, kCased),
            run(0x3C4, 0)};
  const Bytes section = build(p);
  const Tokenizer t = open(section);
  CHECK(encode(t, "A.a'aA") == Ids{2, 9, 2, 7, 1, 2});
  const Ids line{16, 11, 13, 12, 14, 11, 10, 15};
  Ids with{2};
  with.insert(with.end(), line.begin(), line.end());
  with.push_back(2);
  CHECK(encode(t, "a\n\na") == with);  // the first alone; none at the start, or behind white space
  CHECK(encode(t, "\na \na") == Ids{2, 2});
  CHECK(encode(t, "a'\na") == Ids{2, 7, 2});
  CHECK(encode(t, "<m>\na") == Ids{17, 2});
  CHECK(encode(t, "a\u03a3") == Ids{1, 6});
  CHECK(encode(t, "\u03a3 \u03a3a") == Ids{4, 3, 2});
  CHECK(encode(t, "a\u03a3a \u03a3\u03a3\u03a3") == Ids{1, 3, 2, 3, 3, 6});
  CHECK(encode(t, "a:\u03a3: a:\u03a3:a") == Ids{1, 0, 5, 0, 1, 0, 3, 0, 2});
  CHECK(encode(t, ":\u03a3 x\u03a3x") == Ids{0, 4, 0, 3, 0});
  CHECK(encode(t, "a\u03a3'a a\u03a3.") == Ids{1, 6, 7, 2, 1, 6, 8});
  CHECK(encode(t, "a\xFF") == Ids{1, 0});
  CHECK(decode(t, {2, 9, 2, 7, 17, 1, 2}) == "a .a ' aa");
  refuses(section, 4, kLowerWords, "BPE of words has flags of another kind");
  refuses(section, 4, kLowerWords | kWordEnds | kCutAtEach,
          "BPE of words has flags of another kind");
  refuses(section, 4, kLowerWords | kWordEnds | kBertWords, "BPE of words has two kinds of words");
  refuses(section, 88, 2, "the normalizer's expansion is out of range");
  refuses(section, 12, kNoToken, "BPE of words has no unknown piece with an id");
}

TEST_CASE("refusals: a piece that is not of the model is no way to spell a text") {
  Parts p{};
  p.model = ModelNumber::metaspace;
  p.expansion = 3;
  p.unknown = 0;
  p.pieces = {{"<u>", PieceType::unknown, 1},
              {"x", PieceType::normal, 1},
              {"xx", PieceType::normal, 0},
              {"yy", PieceType::normal, 1},
              {"z", PieceType::normal, 0}};
  for (const double score : {0.0, -1.0, -1.0, -1.0, -1.0, -9.0}) append_f64(&p.model_data, score);
  p.runs = all_letters();
  const Bytes section = build(p);
  CHECK(encode(open(section), "xxyy") == Ids{1, 1, 3});
  CHECK(encode(open(section), "xz") == Ids{1, 0});
}

namespace {

// BPE whose ids are those of a list of five: "q" has none, "zz" only the list has.
Parts listed() {
  Parts p{};
  p.model = ModelNumber::bpe;
  p.expansion = 3;
  p.flags = kListed | kLanguageCodes;
  p.pieces = {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0},
              {"zz", PieceType::listed, 0},     {"<s>", PieceType::control, 0},
              {">>b<<", PieceType::listed, 0},  {"q", PieceType::normal, 0}};
  p.added = {{"<s>", 3, 0}};
  return p;
}

Bytes with_extra(const Parts& p, std::uint32_t extra) {
  Bytes section = build(p);
  put_u32(&section, 100, extra);
  return section;
}

}  // namespace

TEST_CASE("a list of ids: what it has, what only it has, and what it lacks") {
  const Bytes section = with_extra(listed(), 1);
  const Tokenizer t = open(section);
  CHECK(encode(t, "aqa") == Ids{1, 0, 1});
  CHECK(encode(t, "aqqa") == Ids{1, 0, 0, 1});  // each of them is unknown
  CHECK(encode(t, "axya") == Ids{1, 0, 1});     // and this run of text is one unknown
  CHECK(encode(t, "azza") == Ids{1, 2, 1});
  CHECK(encode(t, "zz") == Ids{2});
  CHECK(encode(t, "azzza") == Ids{1, 0, 1});
  CHECK(encode(t, "zzqzz") == Ids{2, 0, 2});
  CHECK(encode(t, "<s>a<s>") == Ids{3, 1, 3});
  CHECK(encode(t, ">>b<<a") == Ids{4, 1});
  CHECK(encode(t, ">>c<<a") == Ids{0, 1});
  CHECK(encode(t, "<s>>>b<<a") == Ids{3, 4, 1});
  CHECK(encode(t, "a>>c<<") == Ids{1, 0});
  CHECK(encode(t, "a>>b<<") == Ids{1, 4});  // as any run of text that the list has
  CHECK(encode(t, ">>b<a") == Ids{0, 1});
  CHECK(encode(t, ">>b<<") == Ids{4});
  CHECK(encode(t, "").empty());
  Ids few(2);
  const std::string text = "zza";
  Bytes room(static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size())) + 4);
  const EncodeResult made =
      tokenizer_encode(t, few.data(), 1, text.data(), text.size(), room.data(), room.size());
  CHECK(made.count == 2);
  CHECK(few == Ids{2, 0});
  TokenDecoder state{};
  char out[64];
  CHECK(token_decode(t, &state, 2, out, sizeof out) == 2);
  CHECK(token_decode(t, &state, 5, out, sizeof out) == kBadToken);
}

TEST_CASE("refusals: a list of ids at its ends") {
  CHECK(why_not(with_extra(listed(), 0)) == "");
  CHECK(why_not(with_extra(listed(), 5)) == "an added token's id is out of range");
  CHECK(why_not(with_extra(listed(), 6)) == "a list without ids");
  const Bytes good = with_extra(listed(), 1);
  refuses(good, 96, 1, "a reserved byte of the header is not zero");
  refuses(good, 104, 1, "a reserved byte of the header is not zero");
  refuses(good, 112, 1, "a reserved byte of the header is not zero");
  refuses(good, 108, 0xFFFFFFFF, "the added tokens are outside the section");
  Parts p = listed();
  p.added[0].flags = kStripLeft;
  CHECK(why_not(with_extra(p, 1)) == "an added token of a list has flags");
  p = listed();
  p.unknown = 5;
  std::swap(p.pieces[0], p.pieces[5]);
  p.added.clear();
  CHECK(why_not(with_extra(p, 1)) == "the unknown id is not in the list");
  p = listed();
  p.unknown = kNoToken;
  p.pieces[0].type = PieceType::normal;
  CHECK(why_not(with_extra(p, 1)) == "the model has no unknown piece");
  p = listed();
  p.flags = kListed;
  const Bytes plain = with_extra(p, 1);
  CHECK(encode(open(plain), ">>b<<x") == Ids{0});
  CHECK(encode(open(good), ">>b<<x") == Ids{4, 0});
  p.flags = kLanguageCodes;
  CHECK(why_not(with_extra(p, 1)) == "language codes without a list");
  p.flags = 0;
  p.added.clear();
  CHECK(why_not(with_extra(p, 0)) == "a piece has an unknown type");
  CHECK(why_not(with_extra(p, 1)) == "a reserved byte of the header is not zero");
}
