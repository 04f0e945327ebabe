// Text to ids and back takes n log n in the text at most, whatever the steps of a pipeline say.
#include "step_rows.h"
#include "texts.h"

using namespace bound_tests;
using namespace step_rows;
using Table = PatternTable;

namespace {

enum Rule : std::uint32_t { bpe = 1, wordpiece, word_level, unigram };
constexpr std::uint32_t kFallback = 1, kFusesUnknown = 16;

// A model of single letters, and what all places of a text of a's nearly begin with.
Parts model_of(Rule rule) {
  Parts p{};
  p.model = ModelNumber::pipeline;
  p.rule = rule;
  p.pieces = {{"<u>", PieceType::unknown, 1},
              {"a", PieceType::normal, 1},
              {"##a", PieceType::normal, 1 | 2 | 2 << 8},
              {"##b", PieceType::normal, 1 | 2 | 2 << 8},
              {"\u2581", PieceType::normal, 1},
              {"aa", PieceType::normal, 1},
              {std::string(511, 'a') + "z", PieceType::normal, 1}};
  p.expansion = 24;
  p.runs = {run(0, 0), run('\t', 1), run(14, 0), run(' ', 1), run('!', 0)};
  p.prefix = "##";
  if (rule == wordpiece) p.word_chars = 1u << 30;
  if (rule == bpe) {
    p.flags = kFallback | kFusesUnknown;
    for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, byte % 2 == 0 ? 1 : kNoToken);
    // left, right, rank; the results
    for (const std::uint32_t value : {1u, 2u, 0u, 5u, 2u, 1u, 5u, 7u})
      append_u32(&p.model_data, value);
    p.pieces.push_back({"aaa", PieceType::normal, 1});
    p.merges = 2;
  }
  if (rule == unigram) {
    for (std::size_t i = 0; i <= p.pieces.size(); ++i) append_f64(&p.model_data, -1.0);
    for (int byte = 0; byte < 256; ++byte) append_u32(&p.model_data, kNoToken);
  }
  return p;
}

Bytes section_of(const Bytes& normalizer, const Bytes& pre_tokenizer, Parts p,
                 const std::vector<Spelled>& pieces = {}) {
  p.steps = normalizer + row(words) + pre_tokenizer + spelled_of(pieces);
  return build(p);
}

// Texts that are the worst of some step.
std::vector<std::pair<std::string, Text>> worst_texts() {
  std::string shuffled;  // marks of many classes in the wrong order
  for (const char* mark : {"\u0301", "\u0327", "\u0323", "\u0302", "\u0319"}) shuffled += mark;
  return {{"a's", of("a")},
          {"spaces", of(" ")},
          {"words of one letter", of("a ")},
          {"letters and bytes", of("b")},
          {"e and acutes",
           [](std::size_t n) { return "e" + repeated("\u0301", n - 3); }},
          {"marks in the wrong order", of(shuffled)},
          {"marks below behind all above",
           [](std::size_t n) {
             return "o" + repeated("\u0301", n / 2) + repeated("\u0323", n / 2 - 2);
           }},
          {"letters with two marks", of("o\u0301\u0323")},
          {"syllables", of("\uAC01")},
          {"jamo", of("\u1100\u1161\u11A8")},
          {"what goes", of("c")},
          {"what becomes texts", of("q")},
          {"invalid bytes", of("\xFF")},
          {"white space and a letter at the end",
           [](std::size_t n) { return repeated(" \t", n - 2) + "a"; }},
          {"a's and a b at the end",
           [](std::size_t n) { return repeated("a", n - 1) + "b"; }},
          {"by chance",
           random_of({"a", "b", "c", " ", "\u0301", "\u0323", "e", "\uAC00", "\xFF"})}};
}

void check_all(const std::string& what, const Bytes& section) {
  const Tokenizer t = open(section);
  for (const auto& [of_what, text] : worst_texts()) check_both_ways(t, what + ", " + of_what, text);
}

}  // namespace

TEST_CASE("bounds: each step of a pipeline, before its words and behind them") {
  Bytes prefixes;
  for (int i = 0; i < 3; ++i) prefixes = prefixes + prefix_of(0, "\u2581");
  const std::pair<const char*, Bytes> steps[] = {
      {"a map", every_change()},
      {"canonical order", canonical_of(few_classes(), {}, false)},
      {"composition", canonical_of(few_classes(), few_pairs(), true)},
      {"a chain of compositions",
       canonical_of({{0x10FFFF, 0}}, {{'a', 'a', 'a'}, {'e', 0x301, 'e'}}, true)},
      {"strip", strip_of(3)},
      {"a+b replaced", replace_of(Table::a_then_b(), "ab")},
      {"a*b|a replaced", replace_of(Table::a_or_b(), "")},
      {"prefixes", prefixes},
      {"letters", row(letters)},
      {"a split of letters", split_of(one_of("ab "), Table::isolated)},
      {"a split that removes", split_of(one_of("ac "), Table::removed)},
      {"a+b", split_of(Table::a_then_b(), Table::isolated)},
      {"a*b|a", split_of(Table::a_or_b(), Table::with_next)},
      {"a*b|a, inverted", split_of(Table::a_or_b(), Table::contiguous | Table::inverted)}};
  for (const auto& [what, step] : steps) {
    const std::string name = what;
    check_all(name + " first", section_of(step, {}, model_of(bpe)));
    check_all(name + " behind words of one letter",
              section_of({}, split_of(one_of("ab\xC3"), Table::isolated) + step, model_of(bpe)));
  }
}

TEST_CASE("bounds: a map of clusters, however long they are") {
  Parts p = model_of(word_level);
  p.trie.assign(4 * 512, 0);
  put_u32(&p.trie, 4 * 'q', 'q' | 0x100 | 256 << 10);
  put_u32(&p.trie, 4 * ('q' ^ 256), 0x80000000u);
  p.strings = {'a', 'b', 0};
  p.longest_rule = 1;
  p.runs.push_back(run(0x300, 4 << 4));  // they extend
  p.runs.push_back(run(0x370, 0));
  check_all("clusters", section_of(row(clusters), {}, p));
  check_all("clusters of letters",
            section_of({}, split_of(one_of("ab"), Table::isolated) + row(clusters), p));
  check_all("clusters of a row's own",
            section_of(clusters_of(p.trie, p.strings, 1) + row(clusters), {}, p));
}

TEST_CASE("bounds: each model of a pipeline, on one word and on many") {
  for (const Rule rule : {bpe, wordpiece, word_level, unigram}) {
    const std::string what = "model " + std::to_string(rule);
    check_all(what, section_of({}, {}, model_of(rule)));
    check_all(what + ", letters", section_of({}, split_of(one_of("abc "), Table::isolated),
                                             model_of(rule)));
    Parts p = model_of(rule);
    p.added = {{" ", 1, 6}, {std::string(511, 'a') + "z", 2, 6}, {"b", 1, 8 | 6}};
    check_all(what + ", added tokens", section_of(every_change(), {}, p));
    // one that a normalizer has emptied: searches run through all that the others begin with
    p.added = {{"", 1, 8 | 6}, {std::string(511, 'a') + "z", 2, 8 | 6}, {"b", 1, 8 | 6}};
    check_all(what + ", an emptied token", section_of({}, {}, p));
  }
}

TEST_CASE("bounds: as many steps as there may be, and every piece spelled out") {
  Bytes all, cuts;
  for (int i = 0; i < 7; ++i)
    all = all + every_change() + canonical_of(few_classes(), few_pairs(), true) + strip_of(3) +
          replace_of(Table::a_then_b(), "ab");
  for (int i = 0; i < 17; ++i)
    cuts = cuts + split_of(Table::a_or_b(), Table::isolated) + prefix_of(3, "a");
  std::vector<Spelled> pieces;
  for (std::uint32_t id = 0; id < 7; ++id) pieces.push_back({id, "x", " xx", id % 4});
  for (const std::uint32_t flags : {0u, 32u, 64u, 128u | 8192u, 32768u}) {
    Parts p = model_of(word_level);
    p.flags = flags;
    check_all("62 steps, flags " + std::to_string(flags), section_of(all, cuts, p, pieces));
  }
}

TEST_CASE("bounds: opening a pipeline is linear in its rows") {
  check_growth("rows of a map, of classes and of pieces", 2048, [](std::size_t n) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> runs, classes;
    std::vector<Pair> pairs;
    std::vector<Spelled> spelled;
    Parts p = model_of(word_level);
    for (std::uint32_t i = 0; i < n; ++i) {
      runs.push_back({i, i % 2 == 0 ? kKeep : kRemove});
      classes.push_back({i, i % 256});
      pairs.push_back({i, 1, 2});
      p.pieces.push_back({"p" + std::to_string(i), PieceType::normal, 1});
      spelled.push_back({i, "x", "y", 0});
    }
    (void)open(section_of(map_of(runs) + canonical_of(classes, pairs, true), {}, p, spelled));
  });
}
