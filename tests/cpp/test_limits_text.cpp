// The checks of a tokenizer's section at their limits, beside test_refusals_tokenizer.cpp: the last
// value that opens, and the next one. Found by `make mutants`.
#include <cmath>

#include "test_tokenizer.h"
#include "text/added.h"
#include "text/pieces.h"

using namespace tokenizer_tests;
using namespace phasor::pieces;

namespace {

constexpr std::size_t kTable = 128, kRow = 16;

// SentencePiece's BPE: 16 bytes of rows each, a text of seven bytes that nothing follows.
Parts sentencepiece() {
  Parts p{};
  p.model = ModelNumber::bpe;
  p.expansion = 3;
  p.pieces = {
      {"<u>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}, {"abc", PieceType::normal, 0}};
  return p;
}

Parts unigram(std::initializer_list<Piece> pieces) {
  Parts p{};
  p.model = ModelNumber::unigram;
  p.expansion = 3;
  p.pieces = {{"<unk>", PieceType::unknown, 0}};
  p.pieces.insert(p.pieces.end(), pieces);
  return p;
}

Parts metaspace() {
  Parts p{};
  p.model = ModelNumber::metaspace;
  p.expansion = 3;
  p.pieces = {{"<u>", PieceType::unknown, 1}, {"xy", PieceType::normal, 1}};
  for (const double score : {0.0, -1.0, -9.0}) append_f64(&p.model_data, score);
  p.runs = all_letters();
  return p;
}

Parts wordpiece() {
  Parts p{};
  p.model = ModelNumber::wordpiece;
  p.pieces = {{"[U]", PieceType::unknown, 1}, {"a", PieceType::normal, 1}};
  p.expansion = 3;
  p.word_chars = 9;
  p.runs = all_letters();
  p.surface = "ss";
  p.prefix = "##";
  return p;
}

// Bytes, and "ab" of 'a' and 'b', then "abc" of that and 'c'.
Parts merging(std::vector<std::uint32_t> rows = {'a', 'b', 0, 256, 'c', 1},
              std::vector<std::uint32_t> results = {256, 257}) {
  Parts p = bytes_bpe();
  p.pieces.push_back({"ab", PieceType::normal, 1});
  p.pieces.push_back({"abc", PieceType::normal, 1});
  p.merges = 2;
  for (const std::uint32_t value : rows) append_u32(&p.model_data, value);
  for (const std::uint32_t value : results) append_u32(&p.model_data, value);
  return p;
}

// A section of one header, in exactly its bytes.
std::string of_size(std::size_t bytes) {
  Bytes section(bytes);
  if (bytes != 0) section[0] = 1;
  const Block exact(section.data(), bytes);
  Tokenizer t;
  const char* why = "";
  const unsigned char* const p = static_cast<const unsigned char*>(exact.data);
  CHECK(tokenizer_is_built(p, bytes));
  return tokenizer_open(&t, p, bytes, &why) ? "" : why;
}

}  // namespace

TEST_CASE("limits of a tokenizer: the header") {
  CHECK(of_size(3) == "the section is shorter than its header");
  CHECK(of_size(127) == "the section is shorter than its header");
  CHECK(of_size(128) == "the number of pieces is out of range");
  const Bytes plain = build(sentencepiece());
  CHECK(why_not(plain) == "");
  for (std::size_t at = 96; at < 128; at += 4)
    refuses(plain, at, 1u << 24, "a reserved byte of the header is not zero");
  for (std::size_t at = 120; at < 128; at += 4)
    refuses(build(metaspace()), at, 1, "a reserved byte of the header is not zero");
  refuses(plain, 20, 2, "the length of the longest piece is wrong");
  refuses(plain, 20, 4, "the length of the longest piece is wrong");
  // −0 is as low as 0, and is not the 0 that the package's models have.
  refuses(build(metaspace()), 16, 0x80000000, "the lowest score is wrong");
  // A word list has no normalizer that could make its text longer.
  Parts words{};
  words.model = ModelNumber::words;
  words.pieces = {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}};
  CHECK(why_not(build(words)) == "");
  words.expansion = 1;
  const char* const expansion = "the normalizer's expansion is out of range";
  CHECK(why_not(build(words)) == expansion);
  // What is larger than 16 bits is not taken for its low half.
  for (const std::uint32_t large : {0xFFFFu, 0x10000u, 0x10003u, 0xFFFF0003u}) {
    refuses(build(words), 88, large, expansion);
    refuses(plain, 88, large, expansion);
  }
}

TEST_CASE("limits of a tokenizer: parts that lie outside, and where the section ends") {
  Parts p = sentencepiece();
  Bytes section = build(p);
  REQUIRE(section.size() % 4 == 0);
  section.resize(section.size() - 1);  // the zero behind seven bytes of text
  CHECK(why_not(section) == "the section does not end with its last part");
  p.trie = Bytes(1024);
  p.strings = Bytes(1);
  section = build(p);
  CHECK(why_not(section) == "");
  const char* const strings = "the normalizer's strings are outside the section";
  const std::uint32_t size = static_cast<std::uint32_t>(section.size());
  for (const std::uint32_t at : {4u, size, size + 4}) refuses(section, 72, at, strings);
  const Bytes bytes = build(bytes_bpe());
  refuses(bytes, 100, 0x110000, "the classes of characters are outside the section");
  refuses(bytes, 104, 1, "the model's own part is outside the section");
  refuses(bytes, 104, kMostPieces, "the model's own part is outside the section");
  refuses(bytes, 108, 1, "the added tokens are outside the section");
  // The prefix lies behind the surface, and the text ends with it.
  const Bytes words = build(wordpiece());
  CHECK(why_not(words) == "");
  refuses(words, 116, 3, "the prefix of a continuation is outside the text");
  refuses(words, 116, 5, "the prefix of a continuation is outside the text");
}

TEST_CASE("limits of a tokenizer: where a piece's text lies, and its type") {
  const Bytes good = build(sentencepiece());
  const std::size_t last = kTable + 2 * kRow;
  const char* const outside = "a piece's text is out of order or outside the text";
  refuses(good, last, 3, outside);
  refuses(good, last, 5, outside);
  refuses(good, last, 8, outside);  // behind the seven bytes of text
  refuses(good, last + 4, 4, outside);
  Bytes none = good;
  put_u32(&none, last, 7);
  refuses(none, last + 4, 0, "a piece is empty or too long");
  for (const std::uint32_t type : {0u, 7u, 33u, 0x80000001u})
    refuses(good, last + 12, type, "a piece has an unknown type");
  refuses(good, last + 12, 2, "a piece of type unknown is not the unknown id");
  refuses(good, kTable + kRow + 12, 2, "a piece of type unknown is not the unknown id");
  Parts p = sentencepiece();
  p.pieces.push_back({"q", PieceType::unused, 0});
  const Bytes section = build(p);
  CHECK(open(section).unused == 1);
  CHECK(open(good).unused == 0);
  // A token can lose all bytes of a piece, and no more.
  Parts lost = metaspace();
  lost.pieces[1].marks = 1 | 2 << 8;
  CHECK(why_not(build(lost)) == "");
  lost.pieces[1].marks = 1 | 3 << 8;
  CHECK(why_not(build(lost)) == "a piece has unknown marks");
}

TEST_CASE("limits of a tokenizer: byte pieces") {
  Parts p = sentencepiece();
  p.flags = kByteFallback;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof text, "<0x%02X>", byte);
    p.pieces.push_back({text, PieceType::byte, 0});
  }
  CHECK(why_not(build(p)) == "");
  for (const char* text : {"<0x1G>", "<0x1:>", "<0x1/>", "<0x11>x", "<0x11"}) {
    Parts wrong = p;
    wrong.pieces[7].text = text;
    CHECK(why_not(build(wrong)) == "a byte piece is not allowed or not <0x00> ... <0xFF>");
  }
}

TEST_CASE("limits of a tokenizer: parts of words that have the same text") {
  const char* const many = "too many pieces have the same text";
  const auto bytes = [](std::size_t parts, std::size_t whole) {
    Parts p = bytes_bpe();
    for (std::size_t i = 0; i < whole; ++i) p.pieces.push_back({"xx", PieceType::normal, 1 | 4});
    for (std::size_t i = 0; i < parts; ++i) p.pieces.push_back({"xx", PieceType::normal, 1});
    return why_not(build(p));
  };
  CHECK(bytes(4, 0) == "");
  CHECK(bytes(5, 0) == many);
  CHECK(bytes(4, 9) == "");
  CHECK(bytes(5, 9) == many);
  // A score is no mark: its bits say nothing of words.
  CHECK(why_not(build(unigram({{"a", PieceType::normal, 0},
                               {"x", PieceType::control, 4},
                               {"x", PieceType::normal, 4},
                               {"x", PieceType::control, 4}}))) == many);
}

TEST_CASE("limits of a tokenizer: behind the last row of the table no piece is read") {
  // There lies the permutation, whose first four numbers would be a piece of type 1, or 4.
  const std::uint32_t one = 0x3F800000;
  Parts p = unigram({{"z", PieceType::normal, one},
                     {"a", PieceType::normal, one},
                     {"b", PieceType::normal, one}});
  p.lowest = one;
  CHECK(why_not(build(p)) == "");
  p.pieces[2].marks = p.lowest = 0xBF800000;  // -1, in the middle
  CHECK(why_not(build(p)) == "");
  Parts words{};
  words.model = ModelNumber::words;
  words.pieces = {{"a", PieceType::unknown, 0},
                  {"b", PieceType::normal, 0},
                  {"c", PieceType::normal, 0},
                  {"e", PieceType::normal, 0},
                  {"d", PieceType::normal, 0}};
  CHECK(why_not(build(words)) == "");
}

TEST_CASE("limits of a tokenizer: scores, classes and steps") {
  Parts p = metaspace();
  for (const int power : {500, 501}) {
    p.model_data.clear();
    for (const double score : {0.0, -1.0, std::ldexp(-1.0, power)})
      append_f64(&p.model_data, score);
    CHECK(why_not(build(p)) == (power == 500 ? "" : "a piece's score is not finite"));
  }
  p = bytes_bpe();
  p.runs = {run(0, 2), run(0x7F, 4), run(0x80, 2)};
  const Bytes classes = build(p);
  CHECK(open(classes).ascii_runs == 2);
  for (const std::uint32_t count : {0x110000u, 0x110001u}) {
    p.runs.resize(count);
    for (std::uint32_t i = 0; i < count; ++i) p.runs[i] = run(i, 2);
    CHECK(why_not(build(p)) ==
          (count == 0x110000 ? "" : "the classes of characters are outside the section"));
  }
  const auto steps = [](std::vector<unsigned char> more) {
    Bytes section = build(bytes_bpe());
    std::copy(more.begin(), more.end(), section.begin() + 120);
    return why_not(section);
  };
  const char* const rule = "unknown rule of the pre-tokenizer";
  CHECK(steps({2, 2, 2, 2, 2, 2, 2, 2}) == "");
  CHECK(steps({2, 2}) == "");
  CHECK(steps({2, 0, 2}) == rule);
  CHECK(steps({0, 2}) == rule);
  CHECK(steps({0, 0, 0, 0, 0, 0, 0, 2}) == rule);
  refuses(build(bytes_bpe()), 96, 256 + 2, rule);
  refuses(build(bytes_bpe()), 96, 255, rule);
}

TEST_CASE("limits of a tokenizer: added tokens") {
  Parts p = bytes_bpe();
  p.added = {{"a", 1, 0}, {"b", 2, 7}, {"c", 3, 15}, {"d", 255, 8}};
  const Bytes good = build(p);
  CHECK(why_not(good) == "");
  CHECK(open(good).added_plain == 2);
  const std::size_t rows = good.size() - 4 * 16, last = rows + 3 * 16;
  refuses(good, last + 12, 16, "an added token has unknown flags");
  refuses(good, last + 8, 256, "an added token's id is out of range");
  const std::uint32_t text_bytes = load_u32(good.data() + 56);
  refuses(good, last, text_bytes, "an added token's text is outside the text");
  Bytes empty = good;
  put_u32(&empty, last, text_bytes);
  refuses(empty, last + 4, 0, "an added token is empty or too long");
  // 'a' and 'b' of the plain ones, 'c' and 'd' of the others.
  const char* const first = "the first bytes of the added tokens are wrong";
  for (const std::size_t half : {0, 8}) {
    const std::size_t at = rows - 64 + 4 * (half + ('a' >> 5));
    const std::uint32_t bits = load_u32(good.data() + at);
    refuses(good, at, 0, first);
    refuses(good, at, bits | 1, first);
  }
  const char* const order = "the added tokens are not in order";
  p.added = {{"a", 3, 8}, {"c", 1, 0}};
  CHECK(why_not(build(p)) == order);
  p.added = {{"a", 1, 0}, {"b", 3, 8}, {"c", 1, 0}};
  CHECK(why_not(build(p)) == order);
  p.added = {{"c", 3, 0}, {"a", 1, 8}};  // each kind has an order of its own
  CHECK(why_not(build(p)) == "");
}

TEST_CASE("limits of a tokenizer: merges") {
  using Rows = std::vector<std::uint32_t>;
  const auto with = [](const Rows& rows, const Rows& results = {256, 257}) {
    return why_not(build(merging(rows, results)));
  };
  const std::uint32_t a = 'a', b = 'b', c = 'c', pieces = 258;
  CHECK(with({a, b, 0, 256, c, 1}) == "");
  const char* const range = "a merge is out of range";
  const char* const another = "a merge does not give what it merges";
  for (const std::uint32_t wrong : {pieces, 0xFFFFFFFFu}) {
    CHECK(with({wrong, b, 0, 256, c, 1}) == range);
    CHECK(with({a, wrong, 0, 256, c, 1}) == range);
    CHECK(with({a, b, 0, 256, c, wrong}) == range);
    CHECK(with({a, b, 0, 256, c, 1}, {256, wrong}) == "the result of a merge is out of range");
  }
  CHECK(with({a, b, 0, 256, c, 2}) == range);
  CHECK(with({a, b, 0, 256, c, 1}, {a, 257}) == another);    // shorter
  CHECK(with({a, b, 0, 256, c, 1}, {257, 257}) == another);  // longer
  const char* const order = "the merges are not in order";
  CHECK(with({256, c, 1, a, b, 0}) == order);
  CHECK(with({a, b, 0, a, b, 0}) == order);
  CHECK(with({b, a, 0, a, b, 0}) == order);
  CHECK(with({a, c, 0, a, b, 0}) == order);
  CHECK(with({a, b, 0, a, c, 0}) == "");
}
