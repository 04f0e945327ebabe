// Models that nobody wrote: each generated file is opened, checked and tried in every way that
// properties/properties.cpp knows, and every value of every axis must be among them.
//   GENERATED=10000        so many models in place of the quick run's
//   GENERATED_FIRST=2500   from this number on: several processes may share a long run
//   GENERATED_COUNTS=1     prints how often each value was there
#include <algorithm>
#include <map>
#include <set>

#include "cases.h"
#include "generator/model_generator.h"
#include "model_numbers.h"
#include "properties/properties.h"
#include "properties/trial.h"
#include "text/added.h"
#include "text/chat/instructions.h"
#include "text/pretokenizer.h"
#include "text/steps.h"

using namespace generator;
using namespace phasor;

namespace {

#if defined(__has_feature)
#if __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(SANITIZED)
constexpr uint64_t kQuickRun = 300;  // each takes much longer
#else
constexpr uint64_t kQuickRun = 1500;
#endif
constexpr uint64_t kAllValues = 1500;  // so many have every value of every axis

uint64_t number_of(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Each model's choices of what it is tried with are its own.
Choices choices_of_trial(uint64_t seed) { return Choices(~seed); }

// How often each value of each axis was in a model that opened.
class Coverage {
 public:
  void see(const std::string& axis, const std::string& value) { ++seen_[axis + " = " + value]; }
  void see(const std::string& axis, bool holds) { see(axis, std::string(holds ? "yes" : "no")); }
  void expect(const std::string& axis, const std::string& value) {
    (void)seen_[axis + " = " + value];
  }
  void expect_both(const std::string& axis) { expect(axis, "yes"), expect(axis, "no"); }
  std::size_t size() const { return seen_.size(); }
  std::vector<std::string> missing() const {
    std::vector<std::string> names;
    for (const auto& value : seen_)
      if (value.second == 0) names.push_back(value.first);
    return names;
  }
  void print() const {
    for (const auto& value : seen_)
      std::printf("%8llu  %s\n", static_cast<unsigned long long>(value.second),
                  value.first.c_str());
  }

 private:
  std::map<std::string, uint64_t> seen_;
};

// ---- metadata: the engine's own table of fields

constexpr uint32_t kFewest = 16;  // values of a field that are looked at one by one
constexpr uint32_t kBuilt = 0xFFFFFFFFu;

std::string axis_of(const Field& f) {
  static const char* const scopes[] = {"model", "side", "",       "stack",
                                       "",      "kind", "output", "generation"};
  return std::string(scopes[f.scope]) + "." + f.name;
}
bool few_values(const Field& f) { return f.type == kMetaU32 && f.high - f.low < kFewest; }
bool may_be(const Field& f, uint32_t value) {
  if (axis_of(f) == "side.tokenizer" && (value == 1 || value == 2))
    return false;  // no sections of these
  return f.built == kBuilt || (f.built >> value & 1) != 0;
}

// The value, or what kind of value it is.
std::string value_of(const Field& f, const Meta& m) {
  if (few_values(f)) return std::to_string(load_u32(m.value));
  if (f.type == kMetaU32) return load_u32(m.value) == f.low ? "the least" : "more";
  if (f.type == kMetaF32)
    return load_f32(m.value) == 0 ? "0" : load_f32(m.value) < 0 ? "negative" : "positive";
  return m.bytes == 0 ? "empty" : "not empty";
}

void expect_metadata(Coverage* c) {
  uint32_t count = 0;
  const Field* const fields = descriptor_fields(&count);
  for (uint32_t i = 0; i < count; ++i) {
    const Field& f = fields[i];
    const std::string axis = axis_of(f);
    if (f.needed == 0) c->expect(axis, "absent");
    for (uint32_t v = f.low; few_values(f) && v <= f.high; ++v)
      if (may_be(f, v)) c->expect(axis, std::to_string(v));
    if (f.type == kMetaU32 && !few_values(f)) c->expect(axis, "the least"), c->expect(axis, "more");
    if (f.type == kMetaF32) c->expect(axis, "positive");
    if (f.type == kMetaString || (f.type == kMetaU32Array && f.low == 0)) c->expect(axis, "empty");
    if (f.type == kMetaString || f.type == kMetaU32Array) c->expect(axis, "not empty");
  }
}

void see_metadata(Coverage* c, const Model& m) {
  std::set<std::pair<uint32_t, const Field*>> there;
  std::set<uint32_t> groups;  // scope and index
  uint32_t count = 0;
  const Field* const fields = descriptor_fields(&count);
  const auto table = [](uint32_t scope) {
    return scope == kScopeTarget ? kScopeSource : scope == kScopeDecoder ? kScopeEncoder : scope;
  };
  Meta meta{};
  uint64_t at = 0;
  const File file = m.file();
  while (next_meta(file, &at, &meta)) {
    groups.insert(meta.key >> 12);
    for (uint32_t i = 0; i < count; ++i)
      if (fields[i].scope == table(meta.key >> 24) && fields[i].number == (meta.key & 0xFFF)) {
        c->see(axis_of(fields[i]), value_of(fields[i], meta));
        there.insert({meta.key >> 12, &fields[i]});
      }
  }
  for (const uint32_t group : groups)
    for (uint32_t i = 0; i < count; ++i)
      if (fields[i].scope == table(group >> 12) && there.count({group, &fields[i]}) == 0)
        c->see(axis_of(fields[i]), std::string("absent"));
}

// ---- tensors: every role that has a name, every matrix in every type

bool is_stack(uint32_t stack) { return stack == kStackEncoder || stack == kStackDecoder; }
std::string tensor_axis(uint32_t stack, uint32_t role) {
  return std::string(is_stack(stack)                                 ? "layer "
                     : stack == kStackOutput || stack == kStackKinds ? ""
                                                                     : "input ") +
         tensor_name(stack << 24 | role);
}

std::vector<Type> types() {
  std::vector<Type> all;
  for (unsigned code = 1; code <= kTypes; ++code)
    if ((kMatrixTypes >> code & 1) != 0) all.push_back(static_cast<Type>(code));
  return all;
}

void see_tensors(Coverage* c, const Model& m) {
  const File file = m.file();
  std::set<Type> matrices;
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const Entry e = entry_at(file, i);
    const std::string axis = tensor_axis(e.key >> 24, e.key & 0xFF);
    const bool rows = e.layout == Layout::rows, embedding = axis == "input embedding";
    c->see(axis, true);
    if (e.layout != Layout::panel16 && !embedding) continue;
    matrices.insert(e.type);
    for (const Type type : types())
      c->expect(axis + (rows ? ", rows" : ", panels"), type_name(type));
    c->see(axis + (rows ? ", rows" : ", panels"), std::string(type_name(e.type)));
  }
  c->see("types of matrices mixed", matrices.size() > 1);
}

void expect_tensors(Coverage* c) {
  if (PHASOR_ONLY[0] != '*') return;
  for (const uint32_t stack : {kStackKinds, kStackSource, kStackEncoder, kStackOutput})
    for (uint32_t role = 0; role < 256; ++role)
      if (std::strcmp(tensor_name(stack << 24 | role), "unknown tensor") != 0)
        c->expect(tensor_axis(stack, role), "yes");
}

// ---- tokenizers and chat programs

void see_flags(Coverage* c, const std::string& axis, uint32_t flags, uint32_t known) {
  for (uint32_t bit = 1; bit <= known; bit <<= 1)
    if ((known & bit) != 0) {
      c->expect_both(axis + " flag " + std::to_string(bit));
      c->see(axis + " flag " + std::to_string(bit), (flags & bit) != 0);
    }
}

struct TokenizerAxis {
  ModelNumber model;
  const char* name;
  uint32_t flags;
  bool map;  // it may have a normalizer's
};
const TokenizerAxis kTokenizers[] = {
    {ModelNumber::unigram, "unigram", 31, true},
    {ModelNumber::bpe, "SentencePiece BPE", 31 | pieces::kOfWords, true},
    {ModelNumber::words, "word list", pieces::kCharacters, false},
    {ModelNumber::wordpiece, "WordPiece", 0, true},
    {ModelNumber::byte_bpe, "byte-level BPE",
     pieces::kAddDummyPrefix | pieces::kWholeWords | pieces::kCompose | pieces::kMergeIndex |
         pieces::kPatterns,
     true},
    {ModelNumber::metaspace, "Metaspace",
     pieces::kAddDummyPrefix | pieces::kPrefixFirst | pieces::kSplitAtSpace | pieces::kStripRight |
         pieces::kMergeSpaces | pieces::kMergeToSpace | pieces::kDropFirstPrefix |
         pieces::kStripFirst | pieces::kMergeFirst,
     true},
    {ModelNumber::metaspace_bpe, "BPE with Metaspace",
     pieces::kAddDummyPrefix | pieces::kPrefixFirst | pieces::kSplitAtSpace | pieces::kStripRight |
         pieces::kMergeSpaces | pieces::kMergeToSpace | pieces::kDropFirstPrefix |
         pieces::kStripFirst | pieces::kMergeFirst | pieces::kFuseUnknown | pieces::kMergeIndex,
     true},
    {ModelNumber::char_bpe, "BPE of characters",
     pieces::kAddDummyPrefix | pieces::kByteFallback | pieces::kFuseUnknown | pieces::kPrefixFirst |
         pieces::kEscapeFirst | pieces::kCutAtSpaces | pieces::kDropFirstSpace |
         pieces::kCutAtEach | pieces::kMergeIndex | pieces::kWordEnds | pieces::kBertWords |
         pieces::kLowerWords,
     true},
    {ModelNumber::pipeline, "pipeline",
     1 | 2 | 4 | 16 | 32 | 64 | 128 | pieces::kMergeIndex | 4096 | 8192 | 16384 | 32768, true},
};

bool has_first_map(const TokenizerAxis& axis) {
  return axis.model == ModelNumber::metaspace || axis.model == ModelNumber::metaspace_bpe;
}

void see_tokenizer(Coverage* c, const Tokenizer& t) {
  for (const TokenizerAxis& axis : kTokenizers) {
    if (model_of(axis.model) != t.model) continue;
    const std::string name = axis.name;
    c->see("tokenizer", name);
    see_flags(c, name, t.flags, axis.flags);
    if (axis.map) c->see(name + " with a map", t.trie != nullptr);
    if (has_first_map(axis)) c->see(name + " with a first map", t.word_chars != 0);
    c->see(name + " without an unknown", t.unknown == kNoToken);
    for (uint32_t id = 0; id < t.pieces; ++id)
      c->see(name + " pieces of type",
             std::to_string(static_cast<uint32_t>(pieces::row(t, id).type())));
  }
  for (uint32_t i = 0; i < t.added_count; ++i)
    see_flags(c, "added token", pieces::added_row(t, i).flags(), 15);
  if (t.model == model_of(ModelNumber::pipeline)) {
    c->see("model of a pipeline", std::to_string(t.rule));
    pieces::StepRow row = pieces::steps_of(t);
    for (const unsigned char* const end = row.p + t.pipeline.steps_bytes; row.p != end;
         row = row.next())
      c->see("pipeline's step", std::to_string(static_cast<uint32_t>(row.kind())));
  }
  if (t.model != model_of(ModelNumber::byte_bpe)) return;
  c->see("pre-tokenizer's step", std::to_string(t.rule));
  for (const unsigned char step : t.more_steps)
    if (step != 0) c->see("pre-tokenizer's step", std::to_string(step));
}

void expect_tokenizers(Coverage* c) {
  for (const TokenizerAxis& axis : kTokenizers) {
    if (!is_built(axis.model)) continue;
    c->expect("tokenizer", axis.name);
    if (axis.map) c->expect_both(std::string(axis.name) + " with a map");
    if (has_first_map(axis)) c->expect_both(std::string(axis.name) + " with a first map");
  }
  for (uint32_t step = 0; is_built(ModelNumber::byte_bpe) && step < pieces::kStepsEnd; ++step)
    if (pieces::known_step(step)) c->expect("pre-tokenizer's step", std::to_string(step));
  if (is_built(ModelNumber::byte_bpe))
    c->expect("pre-tokenizer's step", std::to_string(pieces::kPatternStep));
  for (uint32_t rule = 1; is_built(ModelNumber::pipeline) && rule <= 4; ++rule)
    c->expect("model of a pipeline", std::to_string(rule));
  for (uint32_t step = 1;
       is_built(ModelNumber::pipeline) && step < static_cast<uint32_t>(pieces::StepKind::end);
       ++step)
    c->expect("pipeline's step", std::to_string(step));
}

void see_chat(Coverage* c, const Model& m) {
  const File file = m.file();
  const phasor::Section& s = file.sections[kSectionChat];
  const unsigned char* const p = file.data + s.offset;
  for (uint32_t i = 0; s.bytes != 0 && i < load_u32(p + 8); ++i)
    c->see("chat operation", std::to_string(load_u32(p + chat::kHeader + 4 * i) & 0xFF));
}

// ---- shapes that have gone wrong somewhere, or could

struct Shape {
  const char* name;
  bool (*has)(const Model&);
};

template <class Has>
bool any_layer(const Model& m, Has has) {
  for (Half stack : kHalves)
    for (uint32_t i = 0; i < m.layer_count[stack]; ++i)
      if (has(m.layer(stack, i), m.kind(m.layer(stack, i)), m.descriptor.stacks[stack]))
        return true;
  return false;
}
template <class Has>
bool any_kind(const Model& m, Has has) {
  return any_layer(m, [&](const Layer&, const KindDescriptor& k, const StackDescriptor& s) {
    return has(k, s);
  });
}

const Shape kShapes[] = {
    {"width 1 beside heads of 512",
     [](const Model& m) {
       return any_kind(m, [](const KindDescriptor& k, const StackDescriptor& s) {
         return s.width == 1 && k.head_width == 512;
       });
     }},
    {"width 1 beside 512 heads",
     [](const Model& m) {
       return any_kind(m, [](const KindDescriptor& k, const StackDescriptor& s) {
         return s.width == 1 && k.heads == 512;
       });
     }},
    {"pooled, heads narrower than the width",
     [](const Model& m) {
       return m.descriptor.output.output == kOutputPooled && m.descriptor.output.head_width == 0 &&
              !any_kind(m, [](const KindDescriptor& k, const StackDescriptor& s) {
                return lanes(q_width(k)) >= lanes(s.width);
              });
     }},
    {"fewer heads of keys and values",
     [](const Model& m) {
       return any_kind(
           m, [](const KindDescriptor& k, const StackDescriptor&) { return k.kv_heads < k.heads; });
     }},
    {"a head's width that is no multiple of 16",
     [](const Model& m) {
       return any_kind(m, [](const KindDescriptor& k, const StackDescriptor&) {
         return k.head_width % 16 != 0;
       });
     }},
    {"one value between feed-forward's layers",
     [](const Model& m) {
       return any_kind(
           m, [](const KindDescriptor& k, const StackDescriptor&) { return k.hidden == 1; });
     }},
    {"cross-attention of another width",
     [](const Model& m) {
       return any_kind(m, [](const KindDescriptor& k, const StackDescriptor&) {
         return k.cross != 0 && k.cross_head_width != k.head_width;
       });
     }},
    {"layers that share weights",
     [](const Model& m) {
       return any_layer(m,
                        [](const Layer& l, const KindDescriptor&, const StackDescriptor& s) {
                          return l.set + 1 < s.layers.count / 2;
                        }) &&
              m.layer_count[kEncoder] + m.layer_count[kDecoder] > 1;
     }},
    {"a window of 1",
     [](const Model& m) {
       return any_kind(
           m, [](const KindDescriptor& k, const StackDescriptor&) { return k.window == 1; });
     }},
    {"windows and whole layers",
     [](const Model& m) { return m.ring.values != 0 && m.cache.values != 0; }},
    {"one token of vocabulary",
     [](const Model& m) {
       return m.descriptor.sides[kEncoder].vocabulary == 1 ||
              m.descriptor.sides[kDecoder].vocabulary == 1;
     }},
    {"one position",
     [](const Model& m) {
       return longest_sequence(m, kEncoder) == 1 || longest_sequence(m, kDecoder) == 1;
     }},
    {"a kind without layers",
     [](const Model& m) {
       for (uint32_t i = 0; i < m.descriptor.kinds; ++i)
         if (m.tables(i).stacks == 0) return true;
       return false;
     }},
    {"one embedding for both sides",
     [](const Model& m) { return m.descriptor.sides[kDecoder].embedding_shared != 0; }},
    {"an output tied to the own embedding",
     [](const Model& m) {
       return m.descriptor.output.tied == (m.descriptor.has(kDecoder) ? kTiedTarget : kTiedSource);
     }},
    {"an output tied to the other side's",
     [](const Model& m) {
       return m.descriptor.has_both() && m.descriptor.output.tied == kTiedSource;
     }},
    {"one tokenizer for both sides",
     [](const Model& m) {
       const SideDescriptor* const s = m.descriptor.sides;
       return s[0].tokenizer != 0 && s[0].tokenizer == s[1].tokenizer;
     }},
    {"a head behind a decoder",
     [](const Model& m) {
       return m.descriptor.has(kDecoder) && m.descriptor.output.head_width != 0;
     }},
    {"a head with a norm behind a decoder",
     [](const Model& m) {
       return m.descriptor.has(kDecoder) && m.descriptor.output.head_width != 0 &&
              m.descriptor.output.head_norm != 0;
     }},
    {"classes behind both stacks",
     [](const Model& m) {
       return m.descriptor.has_both() && m.descriptor.output.output == kOutputClasses;
     }},
    {"a section that nobody knows",
     [](const Model& m) {
       const uint32_t last = load_u32(m.data.pointer + 20) - 2;  // before DATA
       const uint32_t kind = load_u32(m.data.pointer + 64 + 32 * last);
       return kind > kSectionChat && kind < kSectionData;
     }},
    {"test vectors", [](const Model& m) { return m.file().sections[kSectionVectors].bytes != 0; }},
};

void see_model(Coverage* c, const Model& m) {
  see_metadata(c, m);
  see_tensors(c, m);
  see_chat(c, m);
  for (Half half : kHalves)
    if (m.tokenizer(half) != nullptr) see_tokenizer(c, *m.tokenizer(half));
  for (const Shape& shape : kShapes) c->see(shape.name, shape.has(m));
}

void see_trial(Coverage* c, const Outcome& o) {
  c->see("cache type", std::to_string(o.cache_type));
  c->see("outputs wanted", std::to_string(o.outputs));
  c->see("beams", std::to_string(o.beams));
  c->see("sequences", std::to_string(o.sequences));
}

void expect_all(Coverage* c) {
  expect_metadata(c);
  expect_tensors(c);
  expect_tokenizers(c);
  for (const Shape& shape : kShapes) c->expect_both(shape.name);
  for (uint32_t op = 0; kHasChat && op < static_cast<uint32_t>(chat::Op::number_of); ++op)
    c->expect("chat operation", std::to_string(op));
  for (const char* type : {"0", "1", "2"})
    if (type[0] == '0' || (type[0] == '1' ? kHasCacheF16 : kHasCacheQ8))
      c->expect("cache type", type);
}

}  // namespace

TEST_CASE("generated: every model opens and holds in every way") {
  const uint64_t first = number_of("GENERATED_FIRST", 0), count = number_of("GENERATED", kQuickRun);
  cli::Pool pool;
  REQUIRE(pool.start(3));
  Coverage coverage;
  expect_all(&coverage);
  uint64_t finite = 0, broken = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Bytes bytes = generate_model(seed);
    try {
      Choices choices = choices_of_trial(seed);
      const Outcome outcome = check_properties(&choices, bytes, &pool);
      finite += outcome.finite ? 1 : 0;
      const Block file(bytes.data(), bytes.size());
      see_model(&coverage, Opened(file).inside());
      see_trial(&coverage, outcome);
    } catch (const Broken& what) {
      ++broken;
      FAIL_CHECK(("model " + std::to_string(seed) + ": " + what.what()));
    }
  }
  CHECK(broken == 0);
  CHECK(finite * 100 >= count * 90);  // what is not finite is tried less
  MESSAGE(count << " models, " << finite << " of them finite, " << coverage.size()
                << " values of axes");
  if (number_of("GENERATED_COUNTS", 0) != 0) coverage.print();
  if (count < kAllValues) return;
  for (const std::string& value : coverage.missing()) FAIL_CHECK("never generated: " << value);
}

TEST_CASE("generated: any bytes lead to a model that opens") {
  Choices random(1);
  for (uint32_t i = 0; i < 300; ++i) {
    Bytes input(i < 3 ? i : random.below(400));
    for (unsigned char& byte : input)
      byte = static_cast<unsigned char>(random.below(random.chance(50) ? 256 : 4));
    Choices choices(input.data(), input.size());
    const Bytes bytes = generate_model(&choices);
    const Block file(bytes.data(), bytes.size());
    try {
      Opened(file).check();
    } catch (const Broken& what) {
      FAIL_CHECK(("input " + std::to_string(i) + ": " + what.what()));
    }
  }
}

TEST_CASE("generated: a number gives the same file each time") {
  for (uint64_t seed = 0; seed < 20; ++seed) CHECK(generate_model(seed) == generate_model(seed));
}
