// Tokenizers of Hugging Face's package: its ids on committed goldens, refusal of every damaged
// section, scratch to the byte. tests/golden/tokenizers/make_hf.py made the sections and the
// expected ids; tests/reference/test_tokenizer_hf.py compares many more.
#include "test_tokenizer.h"

using namespace tokenizer_tests;

namespace {

constexpr const char* kGoldens[] = {"wordpiece", "bytelevel",  "metaspace",
                                    "composed",  "characters", "merged",    "pipeline"};

constexpr std::uint32_t kSpace = 1, kLetter = 2, kNumber = 4, kWord = 8, kPunctuation = 16,
                        kRemoved = 32, kPadded = 64, kHangul = 128;

// White space, controls, signs and letters of ASCII; a few Chinese characters; Hangul syllables.
std::vector<std::uint32_t> runs() {
  return {run(0, kRemoved),
          run(' ', kSpace),
          run('!', kPunctuation),
          run('0', kNumber | kWord),
          run(':', kPunctuation),
          run('A', kLetter | kWord),
          run('[', kPunctuation),
          run('a', kLetter | kWord),
          run('{', kPunctuation),
          run(0x7F, 0),
          run(0x4E00, kLetter | kPadded | kWord),
          run(0x4E10, kLetter | kWord),
          run(0xAC00, kHangul | kLetter | kWord),
          run(0xD7A4, 0)};
}

Parts small_wordpiece() {
  return {ModelNumber::wordpiece,
          0,
          {{"[U]", PieceType::unknown, 1},
           {"[M]", PieceType::control, 1},
           {"ab", PieceType::normal, 1},
           {"##c", PieceType::normal, 1 | 2 | 2 << 8},
           {"##cd", PieceType::normal, 1 | 2 | 2 << 8},
           {".", PieceType::normal, 1 | 2},
           {"abcde", PieceType::user_defined, 0},
           {"\u4E01", PieceType::normal, 1},
           {"\u1100", PieceType::normal, 1},
           {"##\u1161", PieceType::normal, 1 | 2 | 2 << 8},
           {std::string("\0gap", 4), PieceType::unused, 0}},
          0,
          "",
          "##",
          3,
          6,
          runs(),
          {},
          0,
          {{"[M]", 1, 2}, {"abcde", 6, 1}, {"z", 2, 4}, {"##", 3, 8}}};
}

// Bytes a to e and the space, and e9 unknown; ab, bc, abc from two sides, aa, " a". The earliest
// merge is bc.
Parts small_byte_bpe() {
  Bytes data;
  for (std::uint32_t byte = 0; byte < 256; ++byte)
    append_u32(&data, byte >= 'a' && byte <= 'e' ? byte - 'a'
                      : byte == ' '              ? 5
                      : byte == 0xE9             ? 12
                                                 : kNoToken);
  // left, right, rank
  const std::uint32_t rows[][3] = {{0, 0, 3}, {0, 1, 1}, {0, 7, 2},
                                   {1, 2, 0}, {5, 0, 4}, {6, 2, 5}};
  for (const auto& row : rows)
    for (const std::uint32_t value : row) append_u32(&data, value);
  for (const std::uint32_t result : {7u, 6u, 8u, 9u, 10u, 8u}) append_u32(&data, result);
  return {ModelNumber::byte_bpe,
          0,
          {{"a", PieceType::normal, 1},
           {"b", PieceType::normal, 1},
           {"c", PieceType::normal, 1},
           {"d", PieceType::normal, 1},
           {"e", PieceType::normal, 1},
           {" ", PieceType::normal, 1},
           {"ab", PieceType::normal, 1},
           {"bc", PieceType::normal, 1},
           {"abc", PieceType::normal, 1},
           {"aa", PieceType::normal, 1},
           {" a", PieceType::normal, 1},
           {"\xF0\x9F", PieceType::normal, 1},
           {"<u>", PieceType::unknown, 1},
           {"<m>", PieceType::control, 0},
           {"\x98\x80", PieceType::normal, 1},
           {" a", PieceType::user_defined, 0}},
          12,
          "",
          "",
          1,
          0,
          runs(),
          data,
          6,
          {{"<m>", 13, 2 | 4}}};
}

// ▁ and a prefix before each word; <m> is looked for in the normalized text and takes the white
// space before it.
Parts small_unigram() {
  Bytes data;
  for (const double score : {0.0, -2.0, -1.0, -1.5, -1.5, -4.0, -0.5, -100.0, 0.0, -12.0})
    append_f64(&data, score);
  return {ModelNumber::metaspace,
          1 | 1024,
          {{"<u>", PieceType::unknown, 1},
           {"\u2581", PieceType::normal, 1},
           {"a", PieceType::normal, 1},
           {"\u2581a", PieceType::normal, 1},
           {"ab", PieceType::normal, 1},
           {"b", PieceType::normal, 1},
           {"<s>", PieceType::control, 1},
           {"yz", PieceType::normal, 1},
           {"<m>", PieceType::control, 0}},
          0,
          "",
          "",
          3,
          0,
          runs(),
          data,
          0,
          {{"<s>", 6, 0}, {"<m>", 8, 2 | 8}}};
}

// The pieces of bytes, then ▁, a, b, ▁a, ab, ▁▁, and an added token; spaces become ▁ first. The
// merges have their index.
Parts small_char_bpe() {
  Parts parts{ModelNumber::char_bpe,
              1 | 8 | 16 | 64 | 128 | 256 | 2048,
              {{"<u>", PieceType::unknown, 1}},
              0,
              "<u>",
              "",
              3,
              0,
              runs(),
              {},
              4,
              {{"<m>", 263, 0}}};
  const char* const digits = "0123456789ABCDEF";
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    parts.pieces.push_back(
        {std::string("<0x") + digits[byte >> 4] + digits[byte & 15] + ">", PieceType::byte, 1});
    append_u32(&parts.model_data, byte + 1);
  }
  for (const char* text : {"\u2581", "a", "b",
                           "\u2581"
                           "a",
                           "ab", "\u2581\u2581"})
    parts.pieces.push_back({text, PieceType::normal, 1});
  parts.pieces.push_back({"<m>", PieceType::control, 0});
  // left, right, rank
  const std::uint32_t rows[][3] = {{257, 257, 2}, {257, 258, 1}, {258, 259, 0}, {260, 259, 3}};
  for (const auto& row : rows)
    for (const std::uint32_t value : row) append_u32(&parts.model_data, value);
  for (const std::uint32_t result : {261u, 260u, 262u, 264u}) append_u32(&parts.model_data, result);
  parts.pieces.push_back(
      {"\u2581"
       "ab",
       PieceType::normal, 1});
  for (std::uint32_t id = 0; id <= parts.pieces.size(); ++id)
    append_u32(&parts.model_data, id <= 257 ? 0 : id == 258 ? 2 : id <= 260 ? 3 : 4);
  return parts;
}

// A prefix before each word; neighbors that are unknown are one; the merges have their index.
Parts small_metaspace_bpe() {
  Parts p{ModelNumber::metaspace_bpe,
          1 | 16 | 1024 | 2048,
          {{"<u>", PieceType::unknown, 1},
           {"\u2581", PieceType::normal, 1},
           {"a", PieceType::normal, 1},
           {"b", PieceType::normal, 1},
           {"\u2581a", PieceType::normal, 1},
           {"ab", PieceType::normal, 1},
           {"<m>", PieceType::control, 0}},
          0,
          "?",
          "",
          3,
          0,
          runs(),
          {},
          2,
          {{"<m>", 6, 2 | 8}}};
  for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, kNoToken);
  // left, right, rank; then the results
  for (const std::uint32_t value : {1u, 2u, 1u, 2u, 3u, 0u, 5u, 4u})
    append_u32(&p.model_data, value);
  for (const std::uint32_t row : {0u, 0u, 1u, 2u, 2u, 2u, 2u, 2u}) append_u32(&p.model_data, row);
  return p;
}

std::vector<Bytes> small_sections() {
  return {build(small_wordpiece()), build(small_byte_bpe()), build(small_unigram()),
          build(small_char_bpe()), build(small_metaspace_bpe())};
}

}  // namespace

TEST_CASE("tokenizer: the tokenizers package's ids and text on every golden line") {
  for (const char* name : kGoldens) check_golden_lines(name);
}

TEST_CASE(
    "tokenizer: WordPiece takes the longest piece, whole words or none of them, and no more "
    "characters than it may") {
  const Bytes section = build(small_wordpiece());
  const Tokenizer t = open(section);
  CHECK(encode(t, "") == Ids{});
  // the tab is removed, not white space, in these classes
  CHECK(encode(t, " ab abc a\tbcd\t ") == Ids{2, 2, 3, 2, 4});
  CHECK(encode(t, "abcc.abx") == Ids{2, 3, 3, 5, 0});
  CHECK(encode(t, "abccde ##c") == Ids{0, 3, 0});  // unknown as a whole
  CHECK(encode(t, "abcccc abccccc") == Ids{2, 3, 3, 3, 3, 0});
  CHECK(encode(t, "ab\u4E01ab") == Ids{2, 7, 2});
  CHECK(encode(t, "\uAC00") == Ids{8, 9});
  // not removed in these classes, so part of the word
  CHECK(encode(t,
               "\xff"
               "ab\xe4") == Ids{0});
  CHECK(decode(t, {1, 2, 3, 10, 5, 7, 4, 6, 0}) ==
        "abc. \u4E01"
        "cd abcde");
  CHECK(decode(t, {3, 3}) == "##cc");
}

TEST_CASE(
    "tokenizer: added tokens are found before the model sees the text, with the white space that "
    "they take") {
  const Bytes section = build(small_wordpiece());
  const Tokenizer t = open(section);
  CHECK(encode(t, "ab  [M] ab[M][M") == Ids{2, 1, 2, 1, 0, 0});
  CHECK(encode(t, "[m]") == Ids{0, 0, 0});
  CHECK(encode(t, "abcde .abcde abcdeab abcde\u4E01") == Ids{6, 5, 6, 0, 0, 7});  // alone only
  CHECK(encode(t, "z  ab") == Ids{2, 2});
  CHECK(encode(t, "#\x01#") == Ids{3});  // in the normalized text
  CHECK(encode(t, std::string(50, ' ') + "[M]" + std::string(50, ' ')) == Ids{1});
}

TEST_CASE(
    "tokenizer: byte-level BPE merges the earliest pair, the leftmost of equals, inside words") {
  const Bytes section = build(small_byte_bpe());
  const Tokenizer t = open(section);
  CHECK(encode(t, "abc") == Ids{8});  // bc, then a with bc
  CHECK(encode(t, "ab") == Ids{6});
  CHECK(encode(t, "aaa") == Ids{9, 0});
  CHECK(encode(t, "a a  a") == Ids{0, 10, 5, 10});
  // a byte without an id is left out, but the number is a word between
  CHECK(encode(t, "a1bc") == Ids{0, 7});
  // bytes that are not UTF-8 are themselves, of no class
  CHECK(encode(t,
               "ab\xE9"
               "c") == Ids{6, 12, 2});
  CHECK(encode(t,
               "\xFF"
               "a\xE9") == Ids{0, 12});
  CHECK(encode(t, "a <m> b") == Ids{0, 13, 1});
  Parts prefixed = small_byte_bpe();
  prefixed.flags = 1;
  const Bytes other = build(prefixed);
  const Tokenizer p = open(other);
  CHECK(encode(p, "a a") == Ids{10, 10});
  CHECK(encode(p, " a<m>a <m>") == Ids{10, 13, 10, 13});
  CHECK(encode(p, "") == Ids{});
  put_u32(&prefixed.model_data, 0, 0);  // the byte 0
  prefixed.flags = 0;
  const Bytes words = build(prefixed);
  CHECK(encode(open(words), std::string(3, '\0')) == Ids{9, 0});
}

TEST_CASE(
    "tokenizer: the steps of byte-level BPE cut one inside the other; a word that is a piece may "
    "stay whole") {
  Parts parts = small_byte_bpe();
  parts.pieces[8].marks |= 4;  // abc
  parts.flags = 2;
  Bytes section = build(parts);
  const auto with = [&section](std::initializer_list<unsigned char> steps) {
    put_u32(&section, 96, *steps.begin());
    for (std::size_t i = 1; i < 9; ++i) section[119 + i] = i < steps.size() ? steps.begin()[i] : 0;
    return open(section);
  };
  CHECK(encode(with({2}), "abcbc") == Ids{8, 7});
  CHECK(encode(with({0x91}), "abcbc a") == Ids{0, 1, 2, 1, 2, 5, 0});  // letters one at a time
  CHECK(encode(with({0xA1}), "abcbc") == Ids{8, 7});                   // three at most, then two
  CHECK(encode(with({0xB1}), "abcb abcd") == Ids{8, 1, 5, 8, 3});      // exactly three
  CHECK(encode(with({0xC1}), "a a  a") == Ids{0, 10, 5, 10});          // white space before them
  // then white space from the letters
  CHECK(encode(with({0xD1, 0x80}), "a a") == Ids{0, 5, 0});
  CHECK(encode(with({3}), "ab1bc") == Ids{6, 7});
  // a sign goes with the word behind it
  CHECK(encode(with({3}), "b'ab") == Ids{1, 6});
  put_u32(&parts.model_data, 4 * std::size_t{'\''}, 4);
  section = build(parts);
  CHECK(encode(with({3}), "'Sab'ab") == Ids{4, 6, 4, 6});
  for (std::uint32_t step = 0; step < 256; ++step) {
    put_u32(&section, 96, step);
    survives(section.data(), section.size());
  }
}

TEST_CASE("tokenizer: byte-level BPE decodes bytes and never half a character (rule 3.6)") {
  const Bytes section = build(small_byte_bpe());
  const Tokenizer t = open(section);
  CHECK(decode(t, {10, 13, 11, 14, 12, 15}) == " a\U0001F600 a");
  // as many bytes as could have begun a character are one
  CHECK(decode(t, {11, 0}) == "\uFFFDa");
  CHECK(decode(t, {14, 11}) == "\uFFFD\uFFFD\uFFFD");
  char out[16];
  TokenDecoder state{};
  CHECK(token_decode(t, &state, 11, out, sizeof out) == 0);
  CHECK(token_decode(t, &state, 14, out, 3) == 4);  // too little room: the state does not move
  CHECK(token_decode(t, &state, 14, out, sizeof out) == 4);
  CHECK(token_decode_end(t, &state, out, sizeof out) == 0);
  CHECK(token_decode(t, &state, 11, out, sizeof out) == 0);
  CHECK(token_decode_end(t, &state, out, sizeof out) == 3);
}

TEST_CASE(
    "tokenizer: unigram with Metaspace takes the best sum, the first of equals, and words that "
    "begin with \u2581") {
  Parts parts = small_unigram();
  const Bytes section = build(parts);
  const Tokenizer t = open(section);
  CHECK(encode(t, "") == Ids{});
  CHECK(encode(t, "a") == Ids{3});
  CHECK(encode(t, "ab") == Ids{1, 4});  // -3.5 against -5.5
  CHECK(encode(t, "a a  ab") == Ids{3, 3, 1, 1, 4});
  CHECK(encode(t, "xx\xFFx a") == Ids{1, 0, 3});  // neighbors that are unknown are one
  // worse than two unknowns, but those would spell it
  CHECK(encode(t, "yz") == Ids{1, 7});
  // a stretch of white space only would be a word, but the mask took it
  CHECK(encode(t, "a<s> <m>a <m") == Ids{3, 6, 8, 3, 1, 0});
  CHECK(encode(t,
               "\u2581"
               "a\u2581") == Ids{3, 1});
  CHECK(decode(t, {6, 3, 0, 1, 4, 3}) == "a ab a");
  CHECK(decode(t, {1, 4}) == "ab");
  // only the text's start; white space splits, goes at the end, two are one
  parts.flags = 1 | 32 | 64 | 128 | 256;
  const Bytes other = build(parts);
  const Tokenizer o = open(other);
  CHECK(encode(o, "a a  a<s>a ") == Ids{3, 2, 3, 6, 2});
  CHECK(decode(o, {3, 3}) == " a a");
}

TEST_CASE("tokenizer: BPE with Metaspace merges inside words, each with its space") {
  Parts parts = small_metaspace_bpe();
  const Bytes section = build(parts);
  const Tokenizer t = open(section);
  CHECK(encode(t, "ab") == Ids{1, 5});  // the better merge first
  CHECK(encode(t, "aab a") == Ids{4, 5, 4});
  CHECK(encode(t, "xya x") == Ids{1, 0, 2, 1, 0});  // no unknown goes over a word's end
  CHECK(encode(t, "b\xFF\xFF") == Ids{1, 3, 0});
  CHECK(encode(t, "a <m>  b") == Ids{4, 6, 1, 1, 3});
  CHECK(decode(t, {4, 5, 1, 0, 4}) == "aab ? a");
  parts.flags = 2048;
  const Bytes plain = build(parts);
  CHECK(encode(open(plain), "xxa") == Ids{0, 0, 2});
  CHECK(encode(open(plain), "ab a") == Ids{5, 4});
  refuses(section, 4, 8, "unknown tokenizer flags");
  refuses(section, 12, kNoToken, "a piece of type unknown is not the unknown id");
  refuses(section, 112, 1, "the normalizer's first map begins outside its trie");
}

TEST_CASE("tokenizer: BPE of characters puts a space before the text, or before every stretch") {
  Parts parts = small_char_bpe();
  const auto ids = [&parts](std::uint32_t more, const char* text) {
    parts.flags = 8 | 16 | 128 | 2048 | more;
    const Bytes section = build(parts);
    return encode(open(section), text);
  };
  CHECK(ids(0, "a<m>a") == Ids{258, 263, 258});
  CHECK(ids(1, "a<m>a") == Ids{260, 263, 260});
  CHECK(ids(1 | 32, "a<m>a") == Ids{260, 263, 258});
  CHECK(ids(1,
            " a<m>\u2581"
            "a") == Ids{260, 263, 260});  // what begins with one gets no other
}

TEST_CASE("tokenizer: an added token is what text gives wherever it has its characters") {
  Parts parts = small_char_bpe();
  const Bytes section = build(parts);
  CHECK(tokenizer_gives(open(section), 263));
  CHECK_FALSE(tokenizer_gives(open(section), 258));
}

TEST_CASE("tokenizer: damaged scores are refused by name") {
  const Parts parts = small_unigram();
  const Bytes good = build(parts);
  const std::uint32_t scores =
      static_cast<std::uint32_t>(good.size() - 64 - 32 - parts.model_data.size());
  refuses(good, 4, 2, "unknown tokenizer flags");
  refuses(good, 88, 2, "the normalizer's expansion is out of range");
  refuses(good, 96, 2, "unknown rule of the pre-tokenizer");
  refuses(good, 104, 1, "only BPE has merges");
  refuses(good, scores + 4, 0x7FF00000, "a piece's score is not finite");
  refuses(good, scores + 76, 0xFFF80000, "a piece's score is not finite");
}

TEST_CASE(
    "tokenizer: the package's models have exact scratch, and write no more ids than there is room "
    "for (rule 3.6)") {
  std::vector<Bytes> sections = small_sections();
  for (const char* name : kGoldens)
    sections.push_back(golden((std::string(name) + ".bin").c_str()));
  for (const Bytes& section : sections) {
    const Tokenizer t = open(section);
    for (std::size_t size = 0; size <= 120; ++size) {
      std::string text;
      while (text.size() + 3 <= size) text += size % 2 == 0 ? "\uAC00" : "\u4E01";
      text.append(size - text.size(), 'a');
      const Ids all = encode(t, text);
      const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, size));
      Ids ids(all.size() + 2, 0xABABABABu);
      const Block scratch(bytes), less(bytes - 1);
      for (std::size_t capacity = 0; capacity <= all.size() + 1; capacity += capacity < 4 ? 1 : 7) {
        ids.assign(ids.size(), 0xABABABABu);
        const EncodeResult r =
            tokenizer_encode(t, ids.data(), capacity, text.data(), size, scratch.data, bytes);
        CHECK(r.status == EncodeStatus::ok);
        CHECK(r.count == all.size());
        for (std::size_t i = 0; i < ids.size(); ++i)
          CHECK(ids[i] == (i < capacity && i < all.size() ? all[i] : 0xABABABABu));
      }
      const EncodeResult r =
          tokenizer_encode(t, ids.data(), ids.size(), text.data(), size, less.data, bytes - 1);
      CHECK(r.status == EncodeStatus::text_too_long);
      CHECK(r.count == 0);
    }
    CHECK(tokenizer_scratch_bytes(t, ~std::uint64_t{0}) == ~std::uint64_t{0});
  }
}

TEST_CASE("tokenizer: the package's models allocate nothing") {
  for (const char* name : kGoldens) allocates_nothing(golden((std::string(name) + ".bin").c_str()));
}

TEST_CASE("tokenizer: every truncation of a section of the package's models is refused") {
  std::vector<Bytes> sections = small_sections();
  for (const char* name : kGoldens)
    sections.push_back(golden((std::string(name) + ".bin").c_str()));
  for (const Bytes& section : sections) refuses_truncations(section, 61);
}

TEST_CASE("tokenizer: no damaged byte of the package's models gets further than an error") {
  for (const Bytes& section : small_sections()) damage(section, 1);
  for (const char* name : kGoldens) damage(golden((std::string(name) + ".bin").c_str()), 131);
}

TEST_CASE("tokenizer: a damaged section of the package's models is refused by name") {
  const Parts parts = small_wordpiece();
  const Bytes good = build(parts);
  const std::uint32_t count = static_cast<std::uint32_t>(parts.pieces.size()), table = 128,
                      order = table + 16 * count;
  const std::uint32_t rows = static_cast<std::uint32_t>(good.size() - 16 * parts.added.size()),
                      starts = rows - 64;
  const std::uint32_t first_run = starts - static_cast<std::uint32_t>(4 * parts.runs.size());
  refuses(good, 4, 1, "unknown tokenizer flags");
  refuses(good, 12, kNoToken, "a piece of type unknown is not the unknown id");
  refuses(good, 16, 1, "the lowest score is wrong");
  refuses(good, 20, 4, "the length of the longest piece is wrong");
  refuses(good, 84, 200, "the unknown surface is outside the text");
  refuses(good, 88, 2, "the normalizer's expansion is out of range");
  refuses(good, 96, 2, "unknown rule of the pre-tokenizer");
  refuses(good, 100, 0x110001, "the classes of characters are outside the section");
  refuses(good, 100, 0, "there are no classes of characters");
  refuses(good, 104, 1, "only BPE has merges");
  refuses(good, 108, 1u << 25, "the added tokens are outside the section");
  refuses(good, 108, 0, "the section does not end with its last part");
  refuses(good, 116, 256, "the prefix of a continuation is outside the text");
  refuses(good, 120, 1, "a reserved byte of the header is not zero");
  refuses(good, 124, 1, "a reserved byte of the header is not zero");
  refuses(good, table + 4, 0, "a piece is empty or too long");
  refuses(good, table + 8, 4, "a piece has unknown marks");
  refuses(good, table + 8, 4 << 8, "a piece has unknown marks");
  refuses(good, table + 12, 1, "the unknown id is not a piece of type unknown");
  refuses(good, table + 16 + 12, 6, "a piece has an unknown type");
  refuses(good, table + 16 + 12, 5, "an unused piece belongs to the model");
  refuses(good, order, count, "the sorted permutation has an id out of range");
  refuses(good, order, 1, "the sorted permutation is not sorted");
  refuses(good, first_run, 1, "the classes of characters are not in order");
  refuses(good, first_run + 4, 0, "the classes of characters are not in order");
  refuses(good, starts, 1, "the first bytes of the added tokens are wrong");
  refuses(good, rows, 0xFFFFFF, "an added token's text is outside the text");
  refuses(good, rows + 4, 0, "an added token is empty or too long");
  refuses(good, rows + 8, count, "an added token's id is out of range");
  refuses(good, rows + 12, 16, "an added token has unknown flags");
  refuses(good, rows + 12, 8, "the added tokens are not in order");
}

TEST_CASE(
    "tokenizer: BPE of characters merges over a stretch, gives the pieces of bytes, and decodes "
    "without the first space") {
  Parts parts = small_char_bpe();
  const Bytes section = build(parts);
  const Tokenizer t = open(section);
  CHECK(encode(t, "") == Ids{});
  CHECK(encode(t, "ab") == Ids{257, 261});  // ab comes before the space and a
  CHECK(encode(t, "a b") == Ids{260, 257, 259});
  CHECK(encode(t, "  a") == Ids{262, 260});  // three spaces with the prefix
  CHECK(encode(t, "\u00E9 a\xFF") == Ids{257, 0xC4, 0xAA, 260, 0x100});
  CHECK(encode(t, "a<m> a") == Ids{260, 263, 257, 260});
  CHECK(decode(t, {260, 263, 257, 259}) == "a b");
  CHECK(decode(t, {263, 257, 0x42, 0xC4, 0xAA, 0xC4, 258}) == "A\u00E9\uFFFDa");
  CHECK(decode(t, {0x21, 258, 0}) == "a<u>");  // a space that is a byte goes too
  CHECK(decode(t, {0xC4}) == "\uFFFD");
  char out[16];
  TokenDecoder state{};
  CHECK(token_decode(t, &state, 0xC4, out, sizeof out) == 0);  // never half a character
  CHECK(token_decode(t, &state, 0xAA, out, sizeof out) == 2);
  // no bytes; only the text's start; words begin at each space; Metaspace behind
  parts.flags = 1 | 16 | 32 | 512 | 2048;
  for (std::size_t i = 1; i <= 256; ++i) parts.pieces[i].type = PieceType::normal;
  parts.expansion = 1;
  const Bytes other = build(parts);
  const Tokenizer o = open(other);
  CHECK(encode(o, "xx\xFF a  a<m>a") == Ids{257, 0, 260, 257, 260, 263, 258});
  CHECK(encode(o, " a") == Ids{260});
  CHECK(decode(o, {260, 0}) == " a<u>");
}

TEST_CASE("tokenizer: damaged pieces of bytes and a damaged index are refused by name") {
  const Parts parts = small_char_bpe();
  const Bytes good = build(parts);
  const std::uint32_t data = static_cast<std::uint32_t>(good.size() - 80 - parts.model_data.size()),
                      index = data + 1024 + 4 * 16;
  refuses(good, 4, 4, "unknown tokenizer flags");
  refuses(good, 4, 2048, "a byte piece is not allowed or not <0x00> ... <0xFF>");
  refuses(good, 88, 2, "the normalizer's expansion is out of range");
  refuses(good, 96, 2, "unknown rule of the pre-tokenizer");
  refuses(good, 120, 1, "a reserved byte of the header is not zero");
  refuses(good, data, kNoToken, "byte fallback without all 256 byte pieces");
  refuses(good, data, 265, "the id of a byte is out of range");
  refuses(good, index, 1, "the index of the merges is wrong");
  refuses(good, index + 4 * 265, 3, "the index of the merges is wrong");
  refuses(good, 128 + 16 * 257 + 12, 6, "a byte piece is not allowed or not <0x00> ... <0xFF>");
  refuses(good, 128 + 16 * 257 + 8, 4, "a piece has unknown marks");
}

TEST_CASE("tokenizer: damaged merges are refused by name") {
  const Parts parts = small_byte_bpe();
  const Bytes good = build(parts);
  const std::uint32_t data = static_cast<std::uint32_t>(good.size() - 80 - parts.model_data.size()),
                      rows = data + 1024, results = rows + 72;
  refuses(good, 4, 8, "unknown tokenizer flags");
  refuses(good, 4, 4, "composition without its map");
  refuses(good, 88, 0, "the normalizer's expansion is out of range");
  for (const std::uint32_t step : {0u, 16u, 0x7Fu, 0x8Bu, 0xE0u, 0x100u})
    refuses(good, 96, step, "unknown rule of the pre-tokenizer");
  refuses(good, 120, 16, "unknown rule of the pre-tokenizer");
  refuses(good, 120, 1 << 8, "unknown rule of the pre-tokenizer");  // behind the last one
  refuses(good, 128 + 8, 2, "a piece has unknown marks");
  refuses(good, 104, 7, "the added tokens are outside the section");
  refuses(good, 104, (1u << 24) + 1, "the model's own part is outside the section");
  refuses(good, 112, 100, "the patterns' size is wrong");
  refuses(good, data, 16, "the id of a byte is out of range");
  refuses(good, rows, 16, "a merge is out of range");
  refuses(good, rows + 8, 6, "a merge is out of range");
  refuses(good, rows + 12 + 4, 0, "the merges are not in order");
  refuses(good, results, 16, "the result of a merge is out of range");
  refuses(good, results, 8, "a merge does not give what it merges");
}

TEST_CASE("tokenizer: long and hostile lines take linear time in the package's models") {
  // Not timed here: a quadratic encoder would take minutes on these under an emulator.
  for (const char* name : kGoldens) {
    const Bytes section = golden((std::string(name) + ".bin").c_str());
    const Tokenizer t = open(section);
    for (const char* unit :
         {"a", " ", "\xff", ".", "[MASK]", " [MASK] ", "\uAC00", "\u4E01", "e\u0301"}) {
      std::string text;
      while (text.size() < 100000) text += unit;
      CHECK(encode(t, text).size() <= 3 * text.size() + 1);
    }
  }
}
