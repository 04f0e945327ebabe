// Tokenizers: the package's ids on committed goldens, refusal of every damaged section, scratch to
// the byte, streaming decode. tests/golden/tokenizers/make.py made the sections and the expected
// ids; tests/reference/test_tokenizer.py compares many more.
#include "test_tokenizer.h"

#include "text/recent.h"

using namespace tokenizer_tests;

namespace {

struct Piece {
  std::string text;
  PieceType type;
  float score;
};

// A section without a normalizer's map, put together here so that the reader is checked against the
// page, not against one writer.
Bytes build(ModelNumber model, std::uint32_t flags, const std::vector<Piece>& pieces,
            std::uint32_t unknown, const std::string& surface) {
  const std::size_t count = pieces.size(), table = 128, order = table + 16 * count,
                    text = order + 4 * count;
  std::string all;
  Bytes section(text);
  Ids ids;
  std::size_t longest = 0;
  float lowest = model == ModelNumber::unigram ? 3.40282346638528859812e+38f : 0.0f;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t score;
    std::memcpy(&score, &pieces[i].score, 4);
    put_u32(&section, table + 16 * i, static_cast<std::uint32_t>(all.size()));
    put_u32(&section, table + 16 * i + 4, static_cast<std::uint32_t>(pieces[i].text.size()));
    put_u32(&section, table + 16 * i + 8, score);
    put_u32(&section, table + 16 * i + 12, static_cast<std::uint32_t>(pieces[i].type));
    all += pieces[i].text;
    if (pieces[i].text.size() > longest) longest = pieces[i].text.size();
    if (model == ModelNumber::unigram && pieces[i].type == PieceType::normal &&
        pieces[i].score < lowest)
      lowest = pieces[i].score;
    std::size_t place = 0;  // insertion sort: std::string compares bytes as unsigned
    while (place < ids.size() && pieces[ids[place]].text <= pieces[i].text) ++place;
    ids.insert(ids.begin() + static_cast<std::ptrdiff_t>(place), static_cast<std::uint32_t>(i));
  }
  for (std::size_t i = 0; i < count; ++i) put_u32(&section, order + 4 * i, ids[i]);
  std::uint32_t lowest_bits;
  std::memcpy(&lowest_bits, &lowest, 4);
  put_u32(&section, 0, static_cast<std::uint32_t>(model));
  put_u32(&section, 4, flags);
  put_u32(&section, 8, static_cast<std::uint32_t>(count));
  put_u32(&section, 12, unknown);
  put_u32(&section, 16, lowest_bits);
  put_u32(&section, 20, static_cast<std::uint32_t>(longest));
  put_u32(&section, 32, static_cast<std::uint32_t>(table));
  put_u32(&section, 40, static_cast<std::uint32_t>(order));
  put_u32(&section, 48, static_cast<std::uint32_t>(text));
  put_u32(&section, 56, static_cast<std::uint32_t>(all.size() + surface.size()));
  put_u32(&section, 80, static_cast<std::uint32_t>(all.size()));
  put_u32(&section, 84, static_cast<std::uint32_t>(surface.size()));
  put_u32(&section, 88, model == ModelNumber::words ? 0 : 3);
  all += surface;
  section.insert(section.end(), all.begin(), all.end());
  section.resize((section.size() + 3) / 4 * 4);
  return section;
}

Bytes word_list(bool with_unknown) {
  return build(ModelNumber::words, 0,
               {{"<pad>", PieceType::control, 0},
                {"<unk>", with_unknown ? PieceType::unknown : PieceType::control, 0},
                {"a", PieceType::normal, 0},
                {"cat", PieceType::normal, 0},
                {"cats", PieceType::normal, 0},
                {"猫", PieceType::normal, 0},
                {"cat", PieceType::normal, 0}},
               with_unknown ? 1 : kNoToken, with_unknown ? "<unk>" : "");
}

Bytes characters(bool with_unknown) {
  return build(ModelNumber::words, pieces::kCharacters,
               {{"<pad>", PieceType::control, 0},
                {"<unk>", with_unknown ? PieceType::unknown : PieceType::control, 0},
                {" ", PieceType::normal, 0},
                {"\n", PieceType::normal, 0},
                {"a", PieceType::normal, 0},
                {"猫", PieceType::normal, 0},
                {"\xE2\x96\x81", PieceType::normal, 0},
                {"ab", PieceType::normal, 0}},
               with_unknown ? 1 : kNoToken, with_unknown ? "?" : "");
}

Bytes small_bpe() {
  return build(ModelNumber::bpe, 4,
               {{"<unk>", PieceType::unknown, 0},
                {"<s>", PieceType::control, 0},
                {"a", PieceType::normal, -9},
                {"b", PieceType::normal, -9},
                {"c", PieceType::normal, -9},
                {"ab", PieceType::unused, -1},
                {"abc", PieceType::normal, -3},
                {"bc", PieceType::normal, -2},
                {"aa", PieceType::normal, -4},
                {"[x]", PieceType::user_defined, 0},
                {"x]a", PieceType::normal, -1}},
               0, " ? ");
}

}  // namespace

TEST_CASE("tokenizer: the package's ids and text on every golden line") {
  for (const char* name : {"unigram", "bpe"}) check_golden_lines(name);
}

TEST_CASE("tokenizer: a word list") {
  const Bytes section = word_list(true);
  const Tokenizer t = open(section);
  CHECK(encode(t, "") == Ids{});
  CHECK(encode(t, " \t\r\n ") == Ids{});
  CHECK(encode(t, "a cat") == Ids{2, 3});  // the lowest id of a word that is there twice
  CHECK(encode(t, "  cats\tdog 猫\n") == Ids{4, 1, 5});
  CHECK(encode(t, "<pad> <unk>") == Ids{1, 1});  // text never gives a control word
  CHECK(encode(t, std::string("a\0b", 3)) == Ids{1});
  CHECK(decode(t, {0, 2, 3, 1, 0, 5}) == "a cat <unk> 猫");
  CHECK(tokenizer_scratch_bytes(t, 1000000) == 0);

  const Bytes closed_section = word_list(false);
  const Tokenizer closed = open(closed_section);
  Ids ids;
  const EncodeResult result = encode(closed, &ids, "a dog");
  CHECK(result.status == EncodeStatus::unknown_word);
  CHECK(result.offset == 2);
  CHECK(result.bytes == 3);
  CHECK(encode(closed, "a cat") == Ids{2, 3});
}

TEST_CASE("tokenizer: a list of characters") {
  const Bytes section = characters(true);
  const Tokenizer t = open(section);
  CHECK(encode(t, "") == Ids{});
  CHECK(encode(t, " a\n\n猫") == Ids{2, 4, 3, 3, 5});
  CHECK(encode(t, "▁\t") == Ids{6, 1});  // neither is a space
  CHECK(encode(t, "ab") == Ids{4, 1});   // a character at a time
  CHECK(encode(t, "<pad>") == Ids{1, 1, 4, 1, 1});
  CHECK(encode(t,
               "\xE7\x8C"
               "a") == Ids{1, 1, 4});  // a byte that is not UTF-8 is unknown
  CHECK(encode(t, std::string("a\0", 2)) == Ids{4, 1});
  CHECK(decode(t, {0, 4, 2, 2, 5, 1, 3, 7}) == "a  猫?\nab");
  CHECK(tokenizer_scratch_bytes(t, 1000000) == 0);

  const Bytes closed_section = characters(false);
  const Tokenizer closed = open(closed_section);
  Ids ids;
  const EncodeResult result = encode(closed, &ids, "a 狗");
  CHECK(result.status == EncodeStatus::unknown_word);
  CHECK(result.offset == 2);
  CHECK(result.bytes == 3);
}

TEST_CASE("tokenizer: BPE takes unused pieces apart and leaves user-defined ones whole") {
  const Bytes section = small_bpe();
  const Tokenizer t = open(section);
  CHECK(encode(t, "ab") == Ids{2, 3});
  CHECK(encode(t, "abc") == Ids{6});
  CHECK(encode(t, "[x]a") == Ids{9, 2});
  CHECK(encode(t, "aaa") == Ids{8, 2});  // the leftmost of equals
  CHECK(encode(t, "zz<s>z") == Ids{0});
  CHECK(decode(t, {1, 6, 0, 9}) == "abc ? [x]");
}

TEST_CASE("tokenizer: a model of words looks up what begins with a space") {
  const Bytes section = build(ModelNumber::bpe, pieces::kEscapeWhitespaces | pieces::kOfWords,
                              {{"<unk>", PieceType::unknown, 0},
                               {"<s>", PieceType::control, 0},
                               {"\u2581a", PieceType::normal, 0},
                               {"\u2581ab", PieceType::normal, 0},
                               {"\u2581", PieceType::normal, 0},
                               {"b", PieceType::unused, 0}},
                              0, "?");
  const Tokenizer t = open(section);
  CHECK(encode(t, "a ab  b a") == Ids{0, 3, 4, 0, 2});
  CHECK(encode(t, "b x ab y z") == Ids{5, 0, 3, 0});  // unknown neighbors are one
  CHECK(encode(t, "<s>") == Ids{0});  // a text never gives what is reserved
  CHECK(encode(t, "").empty());
  CHECK(tokenizer_scratch_bytes(t, 100) == 303);
  CHECK(decode(t, {2, 3, 0}) == " a ab?");
}

TEST_CASE("tokenizer: what was found for one key is not given for another") {
  std::uint32_t searches = 0, room[3 * 8] = {};
  CHECK(pieces::Pairs::bytes(3, 1000) == 0);
  CHECK(pieces::Pairs::bytes(1000, 3) == 0);
  CHECK(pieces::Pairs::bytes(16, 1000) == sizeof room);
  CHECK(pieces::Pairs::bytes(1000, 16) == sizeof room);
  CHECK(pieces::Pairs::bytes(1u << 20, ~std::uint64_t{0}) == 12 * 2048);
  const pieces::Pairs recent({room, 16}, 1000);
  for (std::uint32_t i = 0; i < 20000; ++i) {
    const std::uint32_t a = i / 7 * 2654435761u >> 29, b = i / 3 * 2246822519u >> 29;
    const auto search = [&] { return ++searches, 100 * a + b; };
    CHECK(recent.get(a, b, search) == 100 * a + b);
  }
  CHECK(searches > 64);
  CHECK(searches < 20000);
  const pieces::Pairs none({nullptr, 16}, 1000);
  CHECK(none.get(1, 1, [&] { return 7u; }) == 7);
  CHECK(none.get(1, 1, [&] { return 8u; }) == 8);
}

TEST_CASE("tokenizer: a word is known by all of its bytes, until two others take its place") {
  using pieces::KnownWords;
  alignas(8) unsigned char room[2 * 64] = {};
  CHECK(KnownWords::bytes(16) == 0);
  CHECK(KnownWords::bytes(32) == sizeof room);
  CHECK(KnownWords::bytes(~std::uint64_t{0}) == 64 * 4096);
  const KnownWords known({room, 32}), none({nullptr, 32});
  CHECK_FALSE(none.holds(3));
  CHECK_FALSE(known.holds(0));
  CHECK(known.holds(15));
  CHECK_FALSE(known.holds(16));
  // Words that differ in one byte, in zeros at their end, or in nothing but their length.
  std::vector<Bytes> words;
  for (std::size_t n = 1; n <= KnownWords::kLongest; ++n) {
    words.emplace_back(n, static_cast<unsigned char>(0));
    for (std::size_t at = 0; at < n; ++at) {
      words.emplace_back(n, static_cast<unsigned char>('a'));
      words.back()[at] = static_cast<unsigned char>(200 + at);
    }
  }
  std::size_t found = 0;
  for (int round = 0; round < 3; ++round) {
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      for (const std::uint32_t j : {i, i ^ 1}) {
        if (j >= words.size()) continue;
        const Block word(words[j].data(), words[j].size());  // no byte behind it is read
        const KnownWords::Key key(static_cast<unsigned char*>(word.data), words[j].size());
        const std::uint32_t ids[4] = {j, 0xFFFFFF, 0, j + 1}, count = 1 + j % 4;
        const KnownWords::Word* const is = known.find(key);
        found += is != nullptr;
        if (is == nullptr) {
          known.keep(key, ids, count);
          continue;
        }
        REQUIRE(is->count() == count);
        for (std::uint32_t k = 0; k < count; ++k) REQUIRE(is->id(k) == ids[k]);
      }
    }
  }
  CHECK(found > words.size());
}

TEST_CASE("tokenizer: what is remembered of other texts changes no ids") {
  const std::string texts = read_file("tests/golden/tokenizers/text.tsv") + "\n";
  for (const char* name :
       {"unigram.bin", "bpe.bin", "bytelevel.bin", "characters.bin", "composed.bin", "merged.bin",
        "metaspace.bin", "pipeline.bin", "wordpiece.bin"}) {
    CAPTURE(name);
    const Bytes section = golden(name);
    const Tokenizer t = open(section);
    // of long texts, and of texts so short that words take each other's places
    for (const std::uint64_t room : {4096, 64}) {
      const std::size_t bytes = static_cast<std::size_t>(tokenizer_memory_bytes(t, room));
      const Block memory(bytes);
      std::memset(memory.data, 0, bytes);
      for (int round = 0; round < 2; ++round) {
        for (std::size_t at = 0, end = 0; at < texts.size(); at = end + 1) {
          end = texts.find('\n', at);
          const std::string text = texts.substr(at, end - at);
          Ids ids(4 * text.size() + 8);
          const Block scratch(static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size())));
          const EncodeResult r = tokenizer_encode(
              t, ids.data(), ids.size(), text.data(), text.size(), scratch.data,
              static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size())), nullptr,
              {memory.data, room});
          REQUIRE(r.status == EncodeStatus::ok);
          ids.resize(r.count);
          REQUIRE(ids == encode(t, text));
        }
      }
    }
  }
}

TEST_CASE("tokenizer: the scratch is exact, for every length and model") {
  for (const char* name : {"unigram.bin", "bpe.bin"}) {
    const Bytes section = golden(name);
    const Tokenizer t = open(section);
    // The worst text for this normalizer: each character grows as much as one can, and the dummy
    // prefix is added.
    const std::string grows = t.expansion > 3 ? "\xEF\xB7\xBA" : "\xff";
    std::uint64_t before = 0;
    for (std::size_t size = 0; size <= 300; ++size) {
      std::string text;
      while (text.size() + grows.size() <= size) text += grows;
      text.append(size - text.size(), 'a');
      const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, size));
      CHECK(bytes > before);
      before = bytes;
      std::uint32_t id = 7;
      {
        const Block scratch(bytes);
        const EncodeResult r = tokenizer_encode(t, &id, 1, text.data(), size, scratch.data, bytes);
        CHECK(r.status == EncodeStatus::ok);
      }
      const Block less(bytes - 1);
      id = 7;
      const EncodeResult r = tokenizer_encode(t, &id, 1, text.data(), size, less.data, bytes - 1);
      CHECK(r.status == EncodeStatus::text_too_long);
      CHECK(r.count == 0);
      CHECK(id == 7);
    }
    CHECK(tokenizer_scratch_bytes(t, ~std::uint64_t{0}) == ~std::uint64_t{0});
    CHECK(tokenizer_scratch_bytes(t, 0x7FFFFFFF) == ~std::uint64_t{0});
  }
}

TEST_CASE(
    "tokenizer: the count does not depend on the capacity, and nothing is written behind it") {
  const Bytes section = golden("unigram.bin");
  const Tokenizer t = open(section);
  const std::string text = "I have a cat. 我有一只猫。 \xff\xff zqx";
  const Ids all = encode(t, text);
  const std::size_t bytes = static_cast<std::size_t>(tokenizer_scratch_bytes(t, text.size()));
  const Block scratch(bytes);
  for (std::size_t capacity = 0; capacity <= all.size() + 2; ++capacity) {
    Ids ids(all.size() + 3, 0xABABABABu);
    const EncodeResult r =
        tokenizer_encode(t, ids.data(), capacity, text.data(), text.size(), scratch.data, bytes);
    CHECK(r.count == all.size());
    for (std::size_t i = 0; i < ids.size(); ++i)
      CHECK(ids[i] == (i < capacity && i < all.size() ? all[i] : 0xABABABABu));
  }
}

TEST_CASE("tokenizer: a character is held back until it is complete") {
  const Bytes section = golden("bpe.bin");
  const Tokenizer t = open(section);
  const auto byte = [&t](unsigned value) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", value);
    return tokenizer_find(t, name, 6);
  };
  char out[64];
  TokenDecoder state{};
  const auto feed = [&](std::uint32_t id) {
    const std::size_t bytes = token_decode(t, &state, id, out, sizeof out);
    return std::string(out, bytes);
  };
  CHECK(feed(byte(0xE6)) == "");
  CHECK(feed(byte(0x88)) == "");
  CHECK(feed(byte(0x91)) == "我");
  CHECK(feed(byte(0xF0)) == "");
  CHECK(feed(byte('a')) == "\uFFFDa");  // F0 cannot begin F0 61
  CHECK(feed(byte(0xE0)) == "");
  CHECK(feed(byte(0x80)) == "\uFFFD\uFFFD");  // overlong: each byte on its own
  CHECK(feed(byte(0xF0)) == "");
  CHECK(feed(byte(0x9F)) == "");
  CHECK(feed(tokenizer_find(t, "a", 1)) == "\uFFFD\uFFFDa");
  CHECK(feed(byte(0xE6)) == "");
  const std::size_t rest = token_decode_end(t, &state, out, sizeof out);
  CHECK(std::string(out, rest) == "\uFFFD");
  CHECK(token_decode_end(t, &state, out, sizeof out) == 0);

  // Too little room: nothing is written, the state does not move, and the call can be made again.
  state = TokenDecoder{};
  CHECK(feed(byte(0xF0)) == "");
  std::memset(out, '#', sizeof out);
  TokenDecoder moved = state;
  CHECK(token_decode(t, &state, byte('a'), out, 3) == 4);
  CHECK(std::memcmp(&moved, &state, sizeof state) == 0);
  CHECK(out[3] == '#');
  CHECK(token_decode(t, &state, byte('a'), nullptr, 0) == 4);
  CHECK(feed(byte('a')) == "\uFFFDa");

  // A state that was never set to zero gives some text, inside its bounds.
  for (std::uint32_t id = 0; id < t.pieces; ++id) {
    std::memset(&state, 0xFF, sizeof state);
    CHECK(token_decode(t, &state, id, out, sizeof out) <= sizeof out);
    std::memset(&state, 0xFF, sizeof state);
    CHECK(token_decode_end(t, &state, out, sizeof out) <= sizeof out);
  }

  CHECK(token_decode(t, &state, t.pieces, out, sizeof out) == kBadToken);
  CHECK(token_decode(t, &state, kNoToken, out, sizeof out) == kBadToken);
}

TEST_CASE("tokenizer: pieces by id and by text") {
  const Bytes section = golden("unigram.bin");
  const Tokenizer t = open(section);
  CHECK(tokenizer_find(t, "<unk>", 5) == 0);
  CHECK(tokenizer_piece(t, 0).type == PieceType::unknown);
  CHECK(tokenizer_piece(t, 1).type == PieceType::control);
  CHECK(std::string(tokenizer_piece(t, 1).text, tokenizer_piece(t, 1).bytes) == "<s>");
  CHECK(tokenizer_piece(t, tokenizer_find(t, "<sep>", 5)).type == PieceType::user_defined);
  CHECK(tokenizer_find(t, "no such piece", 13) == kNoToken);
  CHECK(tokenizer_find(t, "", 0) == kNoToken);
  for (std::uint32_t id = 0; id < t.pieces; ++id)
    CHECK(tokenizer_find(t, tokenizer_piece(t, id).text, tokenizer_piece(t, id).bytes) == id);
}

TEST_CASE("tokenizer: nothing is allocated between open and the last token") {
  for (const char* name : {"unigram.bin", "bpe.bin"}) allocates_nothing(golden(name));
}

TEST_CASE("tokenizer: every truncation is refused") {
  for (const Bytes& section :
       {golden("unigram.bin"), golden("bpe.bin"), word_list(true), characters(true), small_bpe()})
    refuses_truncations(section, 1);
}

TEST_CASE("tokenizer: no damaged byte gets further than an error") {
  for (const Bytes& section : {word_list(true), characters(false), small_bpe()}) damage(section, 1);
  Share share;
  for (const char* name : {"unigram.bin", "bpe.bin"}) damage(golden(name), 13, &share);
}

TEST_CASE("tokenizer: a damaged section is refused by name") {
  const Bytes good = small_bpe();
  const Bytes words = word_list(true);
  const Bytes mapped = golden("unigram.bin");
  const std::uint32_t count = 11, table = 128, order = table + 16 * count;
  refuses(good, 0, 0, "unknown tokenizer model");
  refuses(good, 0, pieces::kModelCount + 1, "unknown tokenizer model");
  refuses(good, 5, 1, "unknown tokenizer flags");
  refuses(words, 4, 1, "unknown tokenizer flags");
  refuses(good, 8, 0, "the number of pieces is out of range");
  refuses(good, 8, (1u << 24) + 1, "the number of pieces is out of range");
  refuses(good, 8, 1u << 24, "the table of pieces is outside the section");
  refuses(good, 12, 11, "the unknown id is out of range");
  refuses(good, 12, 1, "a piece of type unknown is not the unknown id");
  refuses(good, 12, kNoToken, "a piece of type unknown is not the unknown id");
  refuses(good, 16, 1, "the lowest score is wrong");
  refuses(good, 20, 4, "the length of the longest piece is wrong");
  refuses(good, 32, 64, "the table of pieces is outside the section");
  refuses(good, 36, 1, "the table of pieces is outside the section");
  refuses(good, 40, order + 2, "the sorted permutation is outside the section");
  refuses(good, 48, table, "the pieces' text is outside the section");
  refuses(good, 60, 1, "the pieces' text is outside the section");
  refuses(good, 24, 4, "the normalizer's trie is outside the section");
  refuses(good, 64, 4, "the normalizer has no trie but other parts");
  refuses(good, 80, 0xFFFFFFFF, "the unknown surface is outside the text");
  refuses(good, 84, 4, "the unknown surface is outside the text");
  refuses(good, 88, 2, "the normalizer's expansion is out of range");
  refuses(good, 92, 1, "the normalizer has no trie but rules");
  refuses(good, 124, 1, "a reserved byte of the header is not zero");
  refuses(good, table, 1, "a piece's text is out of order or outside the text");
  refuses(good, table + 4, 0, "a piece is empty or too long");
  refuses(good, table + 4, 0xFFFFFFFF, "a piece's text is out of order or outside the text");
  refuses(good, table + 8, 0x7FC00000, "a piece's score is not finite");
  refuses(good, table + 12, 1, "the unknown id is not a piece of type unknown");
  refuses(good, table + 12 + 16, 6, "a byte piece is not allowed or not <0x00> ... <0xFF>");
  refuses(good, table + 12 + 16, 7, "a piece has an unknown type");
  refuses(good, order, 11, "the sorted permutation has an id out of range");
  refuses(good, order, 10, "the sorted permutation is not sorted");
  refuses(words, 128 + 12, 4, "a word list has a user-defined piece");
  refuses(words, 128 + 12, 5, "a word list has an unused piece");
  refuses(mapped, 28, 0, "the normalizer's strings are outside the section");
  refuses(mapped, 92, 1025, "the normalizer's longest rule is out of range");
  const std::size_t trie = mapped[64] | static_cast<std::size_t>(mapped[65]) << 8;
  refuses(mapped, trie, 0x7FFFFC00, "the normalizer's trie leads out of itself");
  refuses(mapped, trie, 0x80000000, "the normalizer's trie leads out of itself");
  const Bytes symbols =
      build(ModelNumber::unigram, 0,
            {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::user_defined, 0}}, 0, "");
  refuses(symbols, 120, 0, "a unigram model has no normal piece");
  refuses(golden("bpe.bin"), 4, 4, "a byte piece is not allowed or not <0x00> ... <0xFF>");
}

TEST_CASE("tokenizer: long and hostile lines take linear time") {
  // Not timed here: a quadratic encoder would take minutes on these under an emulator.
  for (const char* name : {"unigram.bin", "bpe.bin"}) {
    const Bytes section = golden(name);
    const Tokenizer t = open(section);
    const Ids letters = encode(t, std::string(100000, 'a'));
    std::size_t bytes = 0;
    for (const std::uint32_t id : letters) bytes += tokenizer_piece(t, id).bytes;
    CHECK(bytes == 100000 + 3);  // and the dummy prefix
    CHECK(encode(t, std::string(100000, ' ')).size() <= 100001);
    CHECK(encode(t, std::string(100000, '\xff')).size() ==
          (t.model == model_of(ModelNumber::bpe) ? 300001u : 2u));
  }
}
