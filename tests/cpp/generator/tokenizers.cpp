#include "tokenizers.h"

#include <algorithm>
#include <set>

#include "../model_numbers.h"
#include "../step_rows.h"
#include "text/added.h"
#include "text/chars.h"
#include "text/pretokenizer.h"
#include "trie.h"

namespace generator {
namespace {

using namespace phasor;

struct Piece {
  std::string text;
  PieceType type = PieceType::normal;
  uint32_t marks = 0;  // or the bits of a score
};

struct Added {
  std::string text;
  uint32_t id, flags;
};

// The parts of a section, before they have places.
struct Section {
  explicit Section(ModelNumber m) : model(m) {}
  ModelNumber model;
  uint32_t flags = 0;
  std::vector<Piece> pieces;
  uint32_t unknown = kNoToken;
  std::string surface, prefix;
  float lowest_score = 0;
  Trie trie;
  uint32_t expansion = 0, word_chars = 0, merges = 0;
  std::vector<uint32_t> steps;  // the pre-tokenizer's; the first is the rule
  std::vector<uint32_t> runs;
  Bytes model_data;
  Bytes rows;  // of a pipeline: its steps
  std::string suffix;
  std::vector<Added> added;
  bool packaged() const { return model >= ModelNumber::wordpiece; }
};

bool text_before(const Added& a, const Added& b) {
  const bool late_a = (a.flags & pieces::kNormalized) != 0,
             late_b = (b.flags & pieces::kNormalized) != 0;
  return late_a != late_b ? late_b : a.text < b.text;
}

Bytes written(Section s) {
  const std::size_t count = s.pieces.size();
  Bytes table, order, text, more;
  std::vector<uint32_t> sorted(count);
  std::size_t longest = 0;
  for (uint32_t id = 0; id < count; ++id) {
    const Piece& piece = s.pieces[id];
    for (const std::size_t value : {text.size(), piece.text.size(), std::size_t{piece.marks},
                                    static_cast<std::size_t>(piece.type)})
      put_u32(&table, value);
    put_text(&text, piece.text);
    longest = std::max(longest, piece.text.size());
    sorted[id] = id;
  }
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    return s.pieces[a].text < s.pieces[b].text;  // bytes, unsigned
  });
  for (const uint32_t id : sorted) put_u32(&order, id);
  const std::size_t surface = text.size();
  put_text(&text, s.surface + s.prefix + s.suffix);

  std::sort(s.added.begin(), s.added.end(), text_before);
  Bytes rows;
  uint32_t starts[16] = {};
  for (const Added& a : s.added) {
    for (const std::size_t value :
         {text.size(), a.text.size(), std::size_t{a.id}, std::size_t{a.flags}})
      put_u32(&rows, value);
    const unsigned char first = static_cast<unsigned char>(a.text[0]);
    if (!a.text.empty())
      starts[(a.flags & pieces::kNormalized) + first / 32] |= 1u << first % 32;
    put_text(&text, a.text);
  }
  for (const uint32_t run : s.runs) put_u32(&more, run);
  for (const Bytes* part : {&s.model_data, &s.rows})
    more.insert(more.end(), part->begin(), part->end());
  for (std::size_t i = 0; i < 16 && !s.added.empty(); ++i) put_u32(&more, starts[i]);
  more.insert(more.end(), rows.begin(), rows.end());

  const std::size_t table_at = 128, order_at = table_at + table.size(),
                    text_at = order_at + order.size();
  const std::size_t text_bytes = text.size();
  pad(&text, 4);
  const bool has_trie = !s.trie.units.empty();
  const std::size_t trie_at = text_at + text.size(), strings_at = trie_at + s.trie.units.size();
  Bytes out;
  const std::size_t header[] = {static_cast<std::size_t>(s.model),
                                s.flags,
                                count,
                                s.unknown,
                                bits_of(s.lowest_score),
                                longest,
                                s.trie.units.size(),
                                s.trie.strings.size()};
  for (const std::size_t value : header) put_u32(&out, value);
  for (const std::size_t at :
       {table_at, order_at, text_at, text_bytes, has_trie ? trie_at : 0, has_trie ? strings_at : 0})
    put_u64(&out, at);
  const bool packaged = s.packaged();
  const std::size_t tail[] = {
      surface,       s.surface.size(), s.expansion,    s.trie.longest, packaged ? s.steps[0] : 0,
      s.runs.size(), s.merges,         s.added.size(), s.word_chars,   s.prefix.size()};
  for (const std::size_t value : tail) put_u32(&out, value);
  if (s.model == ModelNumber::pipeline)
    for (const std::size_t value : {s.rows.size(), s.suffix.size()}) put_u32(&out, value);
  else
    for (std::size_t i = 1; i < 9; ++i)
      out.push_back(static_cast<unsigned char>(i < s.steps.size() ? s.steps[i] : 0));
  for (const Bytes* part : {&table, &order, &text, &s.trie.units, &s.trie.strings})
    out.insert(out.end(), part->begin(), part->end());
  pad(&out, 4);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// ---- What the kinds have in common ----

const std::string kSpaceMark = "\xE2\x96\x81";  // ▁

const std::vector<std::string>& letters() {
  static const std::vector<std::string> all = {"a",
                                               "b",
                                               "c",
                                               "e",
                                               "A",
                                               "1",
                                               "2",
                                               ".",
                                               "'",
                                               kSpaceMark,
                                               "\xC3\xA9",
                                               "\xE4\xB8\xAD",
                                               "\xEA\xB0\x80",
                                               "\xF0\x9F\x98\x80"};
  return all;
}

std::string any_word(Choices* c, uint32_t most) {
  std::string word;
  for (uint32_t i = c->between(1, most); i > 0; --i) word += c->of(letters());
  return word;
}

// What a normalizer may say; SentencePiece's, BERT's, and those of Unicode's canonical composition.
std::map<std::string, std::string> any_rules(Choices* c, bool canonical) {
  static const std::vector<std::pair<std::string, std::string>> plain = {{"A", "a"},
                                                                         {"\xC3\xA9", "e"},
                                                                         {"\t", " "},
                                                                         {"  ", " "},
                                                                         {"2", ""},
                                                                         {"\xEF\xBC\xA1", "A"},
                                                                         {"\xC2\xBD",
                                                                          "1\xE2\x81\x84"
                                                                          "2"},
                                                                         {"ab", "b a"},
                                                                         {"a\xCC\x81", "\xC3\xA1"}};
  static const std::vector<std::pair<std::string, std::string>> composed = {
      {"\xC3\xA9",
       "\x01"
       "e\xCC\x81"},
      {"\xCC\x81", "\xE7"},
      {"e\xCC\x81", "\xC3\xA9"},
      {"\xCC\xA3", "\xDD"},
      {"\xC3\xA1",
       "\x01"
       "a\xCC\x81"},
      {"a\xCC\x81", "\xC3\xA1"}};
  std::map<std::string, std::string> rules;
  for (const auto& rule : canonical ? composed : plain)
    if (c->chance(50)) rules.insert(rule);
  return rules;
}

// Most bytes that one byte of a rule's key becomes, a space being three where it is ▁.
uint32_t expansion_of(const std::map<std::string, std::string>& rules, uint32_t least) {
  uint32_t most = least;
  for (const auto& rule : rules) {
    const std::size_t spaces =
        static_cast<std::size_t>(std::count(rule.second.begin(), rule.second.end(), ' '));
    const std::size_t bytes = rule.second.size() + 2 * spaces, key = rule.first.size();
    most = std::max(most, static_cast<uint32_t>((bytes + key - 1) / key));
  }
  return most;
}

void set_rules(Choices* c, Section* s, uint32_t least, bool canonical = false) {
  std::map<std::string, std::string> rules;
  if (canonical || c->chance(60)) rules = any_rules(c, canonical);
  if (canonical && rules.empty()) rules.insert({"\xCC\x81", "\xE7"});
  s->trie = build_trie(rules);
  s->expansion = std::max(expansion_of(rules, least), c->of({0u, 0u, 0u, 5u, 255u}));
}

std::string byte_piece(uint32_t byte) {
  static const char digits[] = "0123456789ABCDEF";
  return std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
}

// Pieces of texts that no other has.
class Texts {
 public:
  explicit Texts(Section* s) : s_(s) {}
  bool add(const std::string& text, PieceType type, uint32_t marks) {
    if (!seen_.insert(text).second) return false;
    s_->pieces.push_back({text, type, marks});
    return true;
  }
  bool has(const std::string& text) const { return seen_.count(text) != 0; }

 private:
  Section* s_;
  std::set<std::string> seen_;
};

// Bits of a u32 that `allowed` has, each as likely as not.
uint32_t any_flags(Choices* c, uint32_t allowed) {
  uint32_t flags = 0;
  for (uint32_t bit = 1; bit != 0 && bit <= allowed; bit <<= 1)
    if ((allowed & bit) != 0 && c->chance(50)) flags |= bit;
  return flags;
}

// ---- SentencePiece and word lists ----

float any_score(Choices* c) { return -static_cast<float>(c->below(4000)) / 256; }

Section sentencepiece(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  s.flags = any_flags(c, pieces::kAddDummyPrefix | pieces::kRemoveExtraWhitespaces |
                             pieces::kEscapeWhitespaces | pieces::kWhitespaceSuffix);
  if (c->chance(25)) s.flags |= pieces::kByteFallback;
  if (model == ModelNumber::bpe && c->chance(20)) s.flags |= pieces::kOfWords;
  s.unknown = c->below(2);
  if (s.unknown == 1) texts.add("<s>", PieceType::control, bits_of(any_score(c)));
  texts.add("<unk>", PieceType::unknown, 0);
  if (c->chance(50)) texts.add("</s>", PieceType::control, 0);
  if (c->chance(40)) texts.add("<sep>", PieceType::user_defined, bits_of(any_score(c)));
  if (c->chance(20)) texts.add("aa", PieceType::unused, bits_of(any_score(c)));
  for (uint32_t i = 0; i < 256 && (s.flags & pieces::kByteFallback) != 0; ++i)
    texts.add(byte_piece(i), PieceType::byte, 0);
  const bool unigram = model == ModelNumber::unigram;
  texts.add(c->of(letters()), PieceType::normal, bits_of(-1));
  for (uint32_t i = c->below(24); i > 0; --i) {
    const float score = unigram ? any_score(c) : -float(i);
    texts.add(any_word(c, 3), PieceType::normal, bits_of(score));
  }
  if (unigram && c->chance(20)) s.pieces.push_back({"<unk>", PieceType::normal, bits_of(-2)});
  for (const Piece& piece : s.pieces) {
    float score;
    std::memcpy(&score, &piece.marks, sizeof score);
    if (unigram && piece.type == PieceType::normal)
      s.lowest_score = std::min(s.lowest_score, score);
  }
  s.surface = c->of<std::string>({"", " \xE2\x81\x87 ", "?"});
  set_rules(c, &s, 3);
  return s;
}

Section word_list(Choices* c, ModelNumber model) {
  Section s(model);
  const uint32_t count = c->between(1, 12);
  if (c->chance(70)) s.unknown = c->below(count);
  for (uint32_t id = 0; id < count; ++id) {
    const bool reserved = id != s.unknown && c->chance(20);
    const std::string word = any_word(c, 2);
    const auto alike = std::count_if(s.pieces.begin(), s.pieces.end(), [&](const Piece& p) {
      return p.text == word && p.type == PieceType::control;
    });
    // and one more may be the unknown
    const bool control = reserved && alike + 1 < static_cast<int>(pieces::kMostAlike);
    s.pieces.push_back({word,
                        id == s.unknown ? PieceType::unknown
                        : control       ? PieceType::control
                                        : PieceType::normal,
                        0});
  }
  s.surface = c->of<std::string>({"", "?"});
  if (c->chance(40)) s.flags = pieces::kCharacters;
  return s;
}

// ---- The models of the tokenizers package ----

// Classes of characters from U+0000 on: those that people use, or any that the format can say.
std::vector<uint32_t> any_runs(Choices* c) {
  using namespace pieces;
  const auto run = [](uint32_t first, uint32_t classes) { return first | classes << kCodeBits; };
  const std::vector<uint32_t> usual = {run(0, kRemoved),
                                       run(' ', kSpace),
                                       run('!', kPunctuation),
                                       run('0', kNumber | kWord),
                                       run(':', kPunctuation),
                                       run('A', kLetter | kWord),
                                       run('[', kPunctuation),
                                       run('a', kLetter | kWord),
                                       run('{', kPunctuation),
                                       run(0x7F, 0),
                                       run(0xC0, kLetter | kWord),
                                       run(0x300, 0),
                                       run(0x4E00, kLetter | kPadded | kWord),
                                       run(0xAC00, kHangul | kLetter | kWord),
                                       run(0xD7A4, 0)};
  if (!c->chance(40)) return usual;
  std::vector<uint32_t> runs = {run(0, c->below(1u << 11))};
  for (const uint32_t first :
       {9u, 10u, 32u, 33u, 48u, 58u, 65u, 97u, 127u, 0xE9u, 0x300u, 0x4E2Du, 0x1F600u})
    if (c->chance(60)) runs.push_back(run(first, c->below(1u << 11)));
  return runs;
}

void any_added(Choices* c, Section* s) {
  std::set<std::pair<std::string, bool>> seen;
  for (uint32_t i = c->of({0u, 0u, 1u, 3u}); i > 0; --i) {
    const uint32_t id = c->below(static_cast<uint32_t>(s->pieces.size())), flags = c->below(16);
    const bool empty = s->model == ModelNumber::pipeline && (flags & pieces::kNormalized) != 0;
    const std::string text = empty && c->chance(20) ? ""
                             : c->chance(50)        ? s->pieces[id].text
                                                    : any_word(c, 3);
    if (seen.insert({text, (flags & pieces::kNormalized) != 0}).second)
      s->added.push_back({text, id, flags});
  }
}

// An id for a token of its own, a control piece or not.
void special_pieces(Choices* c, Texts* texts) {
  if (c->chance(60)) texts->add("<m>", PieceType::control, c->below(2));
  if (c->chance(40)) texts->add("<extra>", PieceType::user_defined, 0);
  if (c->chance(20)) texts->add("gap", PieceType::unused, 0);
}

Section wordpiece(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  s.steps = {1};
  s.prefix = c->of<std::string>({"##", "", "_"});
  s.unknown = 0;
  texts.add("[UNK]", PieceType::unknown, pieces::kOfModel);
  special_pieces(c, &texts);
  const uint32_t prefix = static_cast<uint32_t>(s.prefix.size());
  for (uint32_t i = c->between(1, 20); i > 0; --i) {
    const bool go_on = c->chance(40);
    const uint32_t joined = pieces::kJoined | prefix << 8;
    texts.add((go_on ? s.prefix : "") + any_word(c, 3), PieceType::normal,
              pieces::kOfModel | (go_on ? joined : 0));
  }
  s.surface = c->of<std::string>({"", "[UNK]"});
  s.word_chars = c->of({100u, 0u, 1u, 6u});
  s.runs = any_runs(c);
  any_added(c, &s);
  set_rules(c, &s, 3);
  return s;
}

struct Merge {
  uint32_t left, right, result;
};

// Merges of pieces into pieces, which are made where there are none; in the order of their ranks.
std::vector<Merge> any_merges(Choices* c, Section* s, Texts* texts, uint32_t first,
                              const std::string& prefix = "") {
  std::vector<Merge> merges;
  std::set<std::pair<uint32_t, uint32_t>> seen;
  const auto pick = [&] {
    const uint32_t last = static_cast<uint32_t>(s->pieces.size()) - 1;
    return c->chance(50) ? last - c->below(std::min(last - first + 1, 8u))
                         : c->between(first, last);
  };
  for (uint32_t i = c->below(20); i > 0; --i) {
    const uint32_t left = pick(), right = pick();
    const std::string &before = s->pieces[left].text, &behind = s->pieces[right].text;
    if (behind.size() < prefix.size()) continue;
    const std::string text = before + behind.substr(prefix.size());
    if (text.size() > 24 || texts->has(text) || !seen.insert({left, right}).second) continue;
    merges.push_back({left, right, static_cast<uint32_t>(s->pieces.size())});
    texts->add(text, PieceType::normal, pieces::kOfModel);
  }
  return merges;
}

// The model's part of both kinds of BPE: ids of bytes, merges by (left, right), results, the index.
void write_merges(Section* s, const std::vector<uint32_t>& bytes,
                  const std::vector<Merge>& merges) {
  Bytes* const out = &s->model_data;
  for (const uint32_t id : bytes) put_u32(out, id);
  std::vector<std::pair<std::pair<uint32_t, uint32_t>, std::size_t>> rows;
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    rows.push_back({{merges[rank].left, merges[rank].right}, rank});
  std::sort(rows.begin(), rows.end());
  for (const auto& row : rows)
    for (const std::size_t value :
         {std::size_t{row.first.first}, std::size_t{row.first.second}, row.second})
      put_u32(out, value);
  for (const Merge& merge : merges) put_u32(out, merge.result);
  s->merges = static_cast<uint32_t>(merges.size());
  if ((s->flags & pieces::kMergeIndex) == 0) return;
  for (uint32_t id = 0, i = 0; id <= s->pieces.size(); ++id) {
    while (i < rows.size() && rows[i].first.first < id) ++i;
    put_u32(out, i);
  }
}

// A table of states that is sound: any classes, any steps that its depths allow.
Bytes any_pattern(Choices* c) {
  const uint32_t states = c->between(1, 7), classes = c->between(1, 4), slots = c->below(4);
  std::vector<uint32_t> marks(states);
  uint32_t used = 0;
  for (uint32_t state = 1; state < states; ++state)
    marks[state] =
        used < slots && c->chance(50) ? pieces::kFirstSlot + used++ : c->of({0u, 1u, 2u, 5u, 247u});
  Bytes out;
  const auto put_half = [&out](uint32_t value) {
    out.push_back(static_cast<unsigned char>(value));
    out.push_back(static_cast<unsigned char>(value >> 8));
  };
  const uint32_t runs = c->between(1, 3);
  put_half(states);
  put_half(classes | used << 8);
  put_u32(&out, runs);
  put_half(c->below(5) | 8 * c->below(2) | 16 * c->below(2) | c->below(classes) << 8);
  put_half(0);
  for (uint32_t i = 0; i < 128; ++i) out.push_back(static_cast<unsigned char>(c->below(classes)));
  for (uint32_t i = 0; i < runs; ++i)
    put_u32(&out, (i == 0 ? 0x80u : 0x100u * i + c->below(0x100)) << 8 | c->below(classes));
  for (uint32_t state = 0; state < states; ++state)
    for (uint32_t of = 0; of <= classes; ++of) {
      const bool accepts = state != 0 && c->chance(40);
      uint32_t to = state != 0 && of == classes ? 0 : c->below(states);
      if (state != 0 && !accepts && marks[state] < pieces::kFirstSlot &&
          marks[to] < pieces::kFirstSlot && marks[to] >= marks[state])
        to = 0;
      put_half(to | (accepts ? pieces::Pattern::kAccepts : 0));
    }
  for (const uint32_t mark : marks) out.push_back(static_cast<unsigned char>(mark));
  pad(&out, 4);
  return out;
}

uint32_t any_step(Choices* c) {
  if (c->chance(20)) return pieces::kPatternStep;
  if (c->chance(70)) return c->between(1, 15);
  return 128 + 16 * c->below(6) + c->below(11);
}

Section byte_bpe(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  s.flags = any_flags(
      c, pieces::kAddDummyPrefix | pieces::kWholeWords | pieces::kCompose | pieces::kMergeIndex);
  for (uint32_t i = c->of({1u, 1u, 2u, 9u}); i > 0; --i) s.steps.push_back(any_step(c));
  std::vector<uint32_t> bytes(256, kNoToken);
  const bool all = c->chance(70);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!all && byte != 'a' && !c->chance(10)) continue;
    bytes[byte] = static_cast<uint32_t>(s.pieces.size());
    const uint32_t whole = c->chance(20) ? pieces::kWholeWord : 0;
    texts.add(std::string(1, static_cast<char>(byte)), PieceType::normal, pieces::kOfModel | whole);
  }
  const std::vector<Merge> merges = any_merges(c, &s, &texts, 0);
  if (c->chance(40)) {
    s.unknown = static_cast<uint32_t>(s.pieces.size());
    texts.add("<unk>", PieceType::unknown, pieces::kOfModel);
  }
  special_pieces(c, &texts);
  if (c->chance(20))
    s.pieces.push_back({"a", PieceType::normal, pieces::kWholeWord});  // as another
  write_merges(&s, bytes, merges);
  const std::size_t behind = s.model_data.size();
  for (const uint32_t step : s.steps) {
    if (step != pieces::kPatternStep) continue;
    const Bytes pattern = any_pattern(c);
    s.model_data.insert(s.model_data.end(), pattern.begin(), pattern.end());
    s.flags |= pieces::kPatterns;
  }
  s.word_chars = static_cast<uint32_t>(s.model_data.size() - behind);
  s.surface = c->of<std::string>({"", "<unk>"});
  s.runs = any_runs(c);
  any_added(c, &s);
  if ((s.flags & pieces::kCompose) != 0 || c->chance(10))
    set_rules(c, &s, 1, true);
  else
    s.expansion = 1;
  return s;
}

Section metaspace(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  s.steps = {1};
  const bool merges = model == ModelNumber::metaspace_bpe;
  s.flags = any_flags(c, pieces::kAddDummyPrefix | pieces::kPrefixFirst | pieces::kSplitAtSpace |
                             pieces::kStripRight | pieces::kMergeSpaces | pieces::kMergeToSpace |
                             pieces::kDropFirstPrefix | pieces::kStripFirst | pieces::kMergeFirst |
                             (merges ? pieces::kFuseUnknown | pieces::kMergeIndex : 0));
  s.unknown = 0;
  texts.add("<unk>", PieceType::unknown, pieces::kOfModel);
  special_pieces(c, &texts);
  const uint32_t first = static_cast<uint32_t>(s.pieces.size());
  for (uint32_t i = c->between(1, 20); i > 0; --i)
    texts.add(merges ? c->of(letters()) : any_word(c, 3), PieceType::normal, pieces::kOfModel);
  if (merges) {
    const std::vector<Merge> found = any_merges(c, &s, &texts, first);
    write_merges(&s, std::vector<uint32_t>(256, kNoToken), found);
  } else {
    for (std::size_t i = 0; i <= s.pieces.size(); ++i)
      put_f64(&s.model_data, -double(c->below(4000)) / 256);
  }
  s.surface = c->of<std::string>({"", "<unk>"});
  s.runs = any_runs(c);
  any_added(c, &s);
  set_rules(c, &s, 3);
  if (c->chance(40)) {
    std::map<std::string, std::string> rules_before = any_rules(c, false);
    rules_before.insert({"``", "\""});
    s.word_chars = append_trie(&s.trie, rules_before);
    s.expansion = std::min(255u, s.expansion * expansion_of(rules_before, 1));
  }
  return s;
}

Section char_bpe(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  s.steps = {1};
  s.flags = any_flags(c, pieces::kAddDummyPrefix | pieces::kFuseUnknown | pieces::kPrefixFirst |
                             pieces::kEscapeFirst | pieces::kCutAtSpaces | pieces::kDropFirstSpace |
                             pieces::kCutAtEach | pieces::kMergeIndex);
  const bool words = c->chance(40), bert = words && c->chance(50);
  const bool lower = words && !bert && c->chance(50);
  if (words)
    s.flags = pieces::kWordEnds | (s.flags & pieces::kMergeIndex) |
              (bert ? pieces::kBertWords : 0) | (lower ? pieces::kLowerWords : 0);
  else if (c->chance(50))
    s.flags |= pieces::kByteFallback;
  if ((words && !bert) || c->chance(70)) {
    s.unknown = 0;
    texts.add("<unk>", PieceType::unknown, pieces::kOfModel);
  }
  std::vector<uint32_t> bytes(256, kNoToken);
  for (uint32_t byte = 0; byte < 256 && (s.flags & pieces::kByteFallback) != 0; ++byte) {
    bytes[byte] = static_cast<uint32_t>(s.pieces.size());
    texts.add(byte_piece(byte), PieceType::byte, pieces::kOfModel);
  }
  const uint32_t first = static_cast<uint32_t>(s.pieces.size());
  texts.add(c->of(letters()), PieceType::normal, pieces::kOfModel);
  for (const std::string& letter : letters())
    if (c->chance(60)) {
      texts.add(letter, PieceType::normal, pieces::kOfModel);
      if (words) texts.add(letter + " ", PieceType::normal, pieces::kOfModel);
    }
  const std::vector<Merge> merges = any_merges(c, &s, &texts, first);
  special_pieces(c, &texts);
  write_merges(&s, bytes, merges);
  s.surface = c->of<std::string>({"", "<unk>"});
  s.runs = any_runs(c);
  any_added(c, &s);
  if (words && !bert) {
    std::size_t last = 0;  // of the added tokens' ids, which are ids
    for (const Added& a : s.added) last = std::max(last, std::size_t{a.id});
    s.word_chars = std::min(c->below(4), static_cast<uint32_t>(s.pieces.size() - 1 - last));
  }
  s.expansion = (s.flags & pieces::kEscapeFirst) != 0 ? 3 : c->of({1u, 3u});
  if (bert || lower) set_rules(c, &s, 3);
  return s;
}

// ---- Pipelines

constexpr uint32_t kMostCode = 0x10FFFF;

// Changes of characters that people write, or any.
Bytes any_map(Choices* c) {
  using namespace step_rows;
  if (c->chance(30)) return every_change();
  std::string texts;
  std::vector<uint32_t> places;
  for (uint32_t i = c->below(4); i > 0; --i) {
    places.push_back(static_cast<uint32_t>(texts.size()));
    const std::string text = c->chance(20) ? "" : any_word(c, 3);
    texts += static_cast<char>(text.size());
    texts += text;
  }
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (const uint32_t first : {0u, 32u, 33u, 65u, 91u, 97u, 98u, 0xE9u, 0x300u, 0x2581u, 0x4E2Du,
                               0xAC00u, 0xD7A4u, 0xFFFDu, 0x1F600u, kMostCode}) {
    if (first != 0 && c->chance(40)) continue;
    const uint32_t reach = c->chance(80) ? 32 : 1u << 21;
    const uint32_t delta = c->below(2 * reach + 1) - reach;
    uint32_t change = add(static_cast<int32_t>(delta), c->chance(40));
    if (c->chance(30))
      change = c->of({kKeep, kRemove, kHangul});
    else if (!places.empty() && c->chance(50))
      change = kText | c->of(places);
    runs.push_back({first, change});
  }
  return map_of(runs, texts);
}

Bytes any_canonical(Choices* c) {
  using namespace step_rows;
  const bool composes = c->chance(60);
  if (c->chance(60))
    return canonical_of(few_classes(), composes ? few_pairs() : std::vector<Pair>{}, composes);
  std::vector<std::pair<uint32_t, uint32_t>> runs;
  for (const uint32_t first : {97u, 98u, 0x300u, 0x302u, 0x4E2Du, 0xFFFDu})
    if (runs.empty() || c->chance(60)) runs.push_back({first, c->below(256)});
  std::vector<Pair> pairs;
  for (const uint32_t first : {97u, 98u, 0xE9u})
    for (const uint32_t second : {97u, 99u, 0x301u})
      if (c->chance(50)) pairs.push_back({first, second, c->of({97u, 0xE9u, 0x2581u, kMostCode})});
  return canonical_of(runs, pairs, composes);
}

Bytes any_row(Choices* c, const Section& s) {
  using namespace step_rows;
  switch (c->between(step_rows::map, split)) {
    case step_rows::map:
      return any_map(c);
    case canonical:
      return any_canonical(c);
    case clusters:
      if (s.trie.units.empty()) return {};
      return c->chance(70) ? row(clusters)
                           : clusters_of(s.trie.units, s.trie.strings, s.trie.longest);
    case strip:
      return strip_of(c->below(4));
    case replace: {
      const std::string content = c->chance(30) ? "" : any_word(c, 2);
      Bytes part;
      put(&part, static_cast<uint32_t>(content.size()));
      put_padded(&part, content);
      return row(replace, part + any_pattern(c));
    }
    case prefix:
      return prefix_of(c->below(4), c->chance(20) ? "" : any_word(c, 2));
    case step_rows::letters:
      return row(step_rows::letters);
    default:
      return row(split, any_pattern(c));
  }
}

Bytes any_rows(Choices* c, const Section& s) {
  Bytes out;
  for (uint32_t i = c->of({0u, 1u, 2u, 5u, 20u}); i > 0; --i) {
    const Bytes one = any_row(c, s);
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

Bytes any_spelled(Choices* c, uint32_t pieces, bool holds) {
  std::vector<step_rows::Spelled> all;
  const auto same = [&] { return c->chance(20) ? c->below(pieces + 1) << 8 : 0; };
  for (uint32_t id = 0; id < pieces; ++id) {
    if (!c->chance(10)) continue;
    const std::string later = c->chance(20) ? "" : any_word(c, 3);
    all.push_back({id, any_word(c, 2), later, c->of({0u, 1u, 2u, 3u, 10u}) | same()});
    if (holds && c->chance(40))
      all.push_back({id, any_word(c, 2), any_word(c, 2), 4 | (c->chance(10) ? ~0xFFu : same())});
  }
  return step_rows::spelled_of(all);
}

// With so many bits of state at most.
Bytes any_filters(Choices* c, uint32_t bits) {
  Bytes out;
  if (bits >= 32 && c->chance(20)) {
    out = step_rows::row(step_rows::filter_byte);
    bits -= 13;
  }
  for (uint32_t i = c->chance(50) ? 0 : c->below(bits / 4 + 1); i > 0; --i) {  // 4 each
    const Bytes one =
        c->chance(70)
            ? step_rows::filter_of(any_word(c, 2) + "a", c->of<std::string>({"", " ", "ab"}))
            : step_rows::filter_ends_of(c->of({32u, 97u}), c->below(4), c->below(4));
    out.insert(out.end(), one.begin(), one.end());
  }
  return out;
}

Section pipeline(Choices* c, ModelNumber model) {
  Section s(model);
  Texts texts(&s);
  constexpr uint32_t kBpe = 1, kWordPieces = 2, kUnigram = 4;  // and WordLevel
  const uint32_t rule = c->between(kBpe, kUnigram);
  s.steps = {rule};
  s.flags = any_flags(c, 4 | 32 | 64 | 128 | 4096 | 8192 | 16384 | 32768);
  if (rule == kBpe || rule == kUnigram) s.flags |= any_flags(c, 1);
  if (rule == kBpe) s.flags |= any_flags(c, 2 | 16 | pieces::kMergeIndex);
  s.prefix = c->of<std::string>({"##", "", "_"});
  s.suffix = c->of<std::string>({"", "</w>", "."});
  if (c->chance(70)) {
    s.unknown = 0;
    texts.add("<unk>", PieceType::unknown, pieces::kOfModel | (c->chance(20) ? 3u << 8 : 0));
  }
  const uint32_t first = static_cast<uint32_t>(s.pieces.size());
  texts.add(c->of(letters()), PieceType::normal, pieces::kOfModel);
  const uint32_t prefix = static_cast<uint32_t>(s.prefix.size());
  for (uint32_t i = c->between(1, 24); i > 0; --i) {
    const bool go_on = c->chance(40), ends = c->chance(30);
    const std::string text = rule == kBpe ? c->of(letters()) : any_word(c, 3);
    texts.add((go_on ? s.prefix : "") + text + (ends ? s.suffix : ""), PieceType::normal,
              pieces::kOfModel | (go_on ? pieces::kJoined | prefix << 8 : 0));
  }
  std::vector<Merge> merges;
  if (rule == kBpe) merges = any_merges(c, &s, &texts, first, s.prefix);
  std::vector<uint32_t> bytes(256, kNoToken);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!c->chance(byte == 'a' || (s.flags & 1) != 0 ? 70 : 5)) continue;
    bytes[byte] = static_cast<uint32_t>(s.pieces.size());
    texts.add(byte_piece(byte), PieceType::normal, pieces::kOfModel);
  }
  special_pieces(c, &texts);
  if (rule == kBpe) write_merges(&s, bytes, merges);
  if (rule == kWordPieces) s.word_chars = c->of({100u, 0u, 1u, 6u});
  if (rule == kUnigram) {
    for (std::size_t i = 0; i <= s.pieces.size(); ++i)
      put_f64(&s.model_data, -double(c->below(4000)) / 256);
    for (const uint32_t id : bytes) put_u32(&s.model_data, id);
  }
  s.surface = c->of<std::string>({"", "<unk>"});
  s.runs = any_runs(c);
  any_added(c, &s);
  set_rules(c, &s, 3);
  if (c->chance(60)) s.expansion = std::max(s.expansion, 24u);
  const bool holds = c->chance(30);
  for (const Bytes& part : {any_rows(c, s), step_rows::row(step_rows::words), any_rows(c, s),
                            any_spelled(c, static_cast<uint32_t>(s.pieces.size()), holds),
                            any_filters(c, ((s.flags & 32768) != 0 ? 32 : 64) - (holds ? 32 : 0))})
    s.rows.insert(s.rows.end(), part.begin(), part.end());
  return s;
}

struct Kind {
  ModelNumber model;
  Section (*make)(Choices*, ModelNumber);
};
constexpr Kind kKinds[] = {
    {ModelNumber::unigram, sentencepiece}, {ModelNumber::bpe, sentencepiece},
    {ModelNumber::words, word_list},       {ModelNumber::wordpiece, wordpiece},
    {ModelNumber::byte_bpe, byte_bpe},     {ModelNumber::metaspace, metaspace},
    {ModelNumber::char_bpe, char_bpe},     {ModelNumber::metaspace_bpe, metaspace},
    {ModelNumber::pipeline, pipeline},
};

}  // namespace

TokenizerSection any_tokenizer(Choices* c) {
  std::vector<Kind> built;
  for (const Kind& kind : kKinds)
    if (is_built(kind.model)) built.push_back(kind);
  if (built.empty()) return {};
  const Kind kind = c->of(built);
  const Section section = kind.make(c, kind.model);
  const uint32_t rows = static_cast<uint32_t>(section.pieces.size());
  const bool behind =
      (section.flags & pieces::kWordEnds) != 0 && section.model == ModelNumber::char_bpe;
  return {written(section), rows - (behind ? section.word_chars : 0)};
}

std::string any_input(Choices* c, uint32_t parts) {
  static const std::vector<std::string> odd = {
      " ",    "  ",    "\t",       "\n",       "\xFF",         "\xE6\x88", std::string(1, '\0'),
      "<m>",  "<unk>", "##",       "\xCC\x81", "\xEF\xBC\xA1", "\xC2\xBD", "<0x41>",
      "I'll", "aaaa",  "\xCE\xA3", "a\xCE\xA3"};
  std::string text;
  for (uint32_t i = 0; i < parts; ++i) text += c->chance(35) ? c->of(odd) : c->of(letters());
  return text;
}

}  // namespace generator
