// The plan of models of many kinds for limits of many kinds, each part beside what the table of
// architecture.md says of it, written down here once more; and the arena that they make.
#include <algorithm>
#include <initializer_list>

#include "cases.h"
#include "runtime/session.h"
#include "test_tokenizer.h"
#include "weight_file.h"

using namespace phasor;

namespace {

uint64_t up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }
uint64_t lane(uint64_t n) { return up(n, 16); }
uint64_t most_of(std::initializer_list<uint64_t> values) { return std::max(values); }

using Opened = weight_files::OpenModel;

// Whether a half of the model has rows of sinusoids.
bool sinusoids(const Descriptor& d, uint32_t half) {
  return d.stacks[half].position == kPositionInterleaved ||
         d.stacks[half].position == kPositionHalves;
}

// Their width; and the width of an output row.
uint64_t sinusoid_width(const StackDescriptor& s) {
  return s.projection_place != 0 ? s.width : s.embedding_width;
}
uint64_t output_of(const Descriptor& d) {
  const Half last = d.has(kDecoder) ? kDecoder : kEncoder;
  return d.output.output == kOutputLogits    ? d.sides[last].vocabulary
         : d.output.output == kOutputClasses ? d.output.classes
         : d.output.head_width != 0          ? d.output.head_width
                                             : d.stacks[last].width;
}

// What a layer asks for, in floats of a row; of its matrices' inputs the widest, where one of them
// is quantized.
struct Wide {
  uint64_t row = 0, heads_row = 0, heads = 0, distance_row = 0, groups = 0;
};
uint64_t groups_of_widest(std::initializer_list<const Linear*> matrices) {
  uint64_t widest = 0;
  bool quantized = false;
  for (const Linear* l : matrices) {
    widest = std::max<uint64_t>(widest, l->weight.cols);
    quantized |= l->weight.type == Type::q8 || l->weight.type == Type::q4;
  }
  return quantized ? up(widest, 32) / 32 : 0;
}
// Whether queries see keys of both stacks at once.
bool merges_of(const Model& m) {
  for (uint32_t i = 0; i < m.layer_count[kDecoder]; ++i)
    if (m.kind(m.layer(kDecoder, i)).cross == kCrossMerged) return true;
  return false;
}
Wide wide_of(const Model& m, uint64_t score_row) {
  Wide w;
  const Descriptor& d = m.descriptor;
  for (const Half half : kHalves) {
    for (uint32_t i = 0; i < m.layer_count[half]; ++i) {
      const Layer& l = m.layer(half, i);
      const KindDescriptor& k = m.kind(l);
      const uint64_t q = lane(k.heads * k.head_width), kv = lane(k.kv_heads * k.head_width);
      w.row = most_of({w.row, q + 2 * kv, lane(k.hidden) * (k.gated != 0 ? 2 : 1)});
      w.heads_row = std::max(w.heads_row, q);
      w.heads = std::max<uint64_t>(w.heads, k.heads);
      const bool distances = k.position == kRelativeKey || k.position == kRelativeKeyQuery ||
                             k.position == kClippedRelative || k.position == kThreeWay ||
                             k.position == kDisentangled;
      if (distances) w.distance_row = most_of({w.distance_row, score_row + 16, lane(k.head_width)});
      if (k.cross == kCrossMerged) w.distance_row = most_of({w.distance_row, lane(k.head_width)});
      if (k.cross == kCrossOwn) {
        const uint64_t cross = lane(k.cross_heads * k.cross_head_width);
        w.row = most_of({w.row, cross, 2 * lane(k.cross_kv_heads * k.cross_head_width)});
        w.heads_row = std::max(w.heads_row, cross);
        w.heads = std::max<uint64_t>(w.heads, k.cross_heads);
      }
      w.groups =
          most_of({w.groups, groups_of_widest({&l.qkv, &l.attention_out, &l.cross_q, &l.cross_kv,
                                               &l.cross_out, &l.ffn_in, &l.ffn_out})});
    }
    if (sinusoids(d, half)) w.row = std::max(w.row, 2 * lane(sinusoid_width(d.stacks[half])));
    w.groups = std::max(w.groups, groups_of_widest({&m.inputs[half].projection}));
  }
  w.groups = most_of({w.groups, groups_of_widest({&m.head}), groups_of_widest({&m.output})});
  return w;
}

// Bytes of a page of one head's keys and values; of a page of all layers that `has` names.
uint64_t head_bytes(uint32_t type, uint64_t width) {
  const uint64_t values = 16 * (width + lane(width)),
                 groups = 16 * (up(width, 32) / 32 + up(lane(width), 32) / 32);
  return type == PHASOR_CACHE_F32   ? values * 4
         : type == PHASOR_CACHE_F16 ? values * 2
                                    : values + groups * 4;
}
struct PageBytes {
  uint64_t cache = 0, ring = 0, cross = 0, encoder = 0, window = 0;
};
PageBytes pages_of(const Model& m, uint32_t type) {
  PageBytes p;
  for (uint32_t i = 0; i < m.layer_count[kDecoder]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(kDecoder, i));
    (k.window != 0 ? p.ring : p.cache) += k.mixer == kMixerConvolution
                                              ? uint64_t{16} * k.heads * k.head_width * 4
                                              : k.kv_heads * head_bytes(type, k.head_width);
    if (k.cross != 0) p.cross += k.cross_kv_heads * head_bytes(type, k.cross_head_width);
    p.window = std::max<uint64_t>(p.window, k.window);
  }
  for (uint32_t i = 0; i < m.layer_count[kEncoder]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(kEncoder, i));
    p.encoder = std::max(p.encoder, k.kv_heads * head_bytes(PHASOR_CACHE_F32, k.head_width));
  }
  return p;
}

uint64_t rotary_of(const Model& m, const phasor_limits& l) {
  uint64_t whole = 0, widest = 0;
  for (uint32_t kind = 0; kind < m.descriptor.kinds; ++kind) {
    const KindDescriptor& k = m.kind(kind);
    if (k.position != kRotaryInterleaved && k.position != kRotaryHalves) continue;
    uint64_t longest = 0;
    for (const Half half : kHalves)
      for (uint32_t i = 0; i < m.layer_count[half]; ++i)
        if (m.layer(half, i).kind == kind)
          longest = std::max<uint64_t>(longest, half == kEncoder ? l.source : l.target);
    whole += longest * k.rotary_width;
    widest = std::max<uint64_t>(widest, k.rotary_width);
  }
  return (l.tables == PHASOR_TABLES_WHOLE ? whole : widest * l.chunk) * 4;
}

uint64_t text_of(const Model& m, uint64_t text) {
  if (text == 0) return 0;
  uint64_t most = m.file().sections[kSectionChat].bytes != 0 ? 4 * text : 0;
  for (const Half side : kHalves)
    if (m.has_tokenizer[side] != 0) {
      const Tokenizer& t = *m.part<Tokenizer>(m.tokenizer_at[side]);
      most = most_of({most, tokenizer_scratch_bytes(t, static_cast<uint32_t>(text)),
                      token_decode_capacity(t)});
    }
  return up(most, 64);
}

uint64_t words_of(const Model& m, uint64_t text) {
  uint64_t most = 0;
  for (const Half side : kHalves)
    if (m.has_tokenizer[side] != 0)
      most = std::max(most, tokenizer_memory_bytes(*m.part<Tokenizer>(m.tokenizer_at[side]), text));
  return most;
}

// The bytes of every part.
std::vector<uint64_t> expected_of(const Model& m, const phasor_limits& l) {
  const Descriptor& d = m.descriptor;
  const bool encoder = d.has(kEncoder), decoder = d.has(kDecoder),
             rows_out = d.output.output == kOutputLogits || d.output.output == kOutputClasses;
  const PageBytes page = pages_of(m, l.cache_type);
  const uint64_t n = l.sequences, source_pages = lane(l.source) / 16,
                 target_pages = lane(l.target) / 16,
                 most_pages_of_all = merges_of(m) ? source_pages + target_pages
                                                  : lane(std::max(l.source, l.target)) / 16;
  const uint64_t score_row = 16 * most_pages_of_all;
  const Wide w = wide_of(m, score_row);
  uint64_t row = lane(d.output.head_width);
  for (const StackDescriptor& s : d.stacks)
    row = most_of({row, lane(s.width), lane(s.embedding_width)});
  const uint64_t wide_row = std::max(row, w.row);
  const uint64_t ring =
      page.window == 0 ? 0 : std::min(target_pages, lane(page.window + l.chunk - 1) / 16);
  const bool goes_on = ring != 0 && ring < target_pages;
  const uint64_t searches = l.beams == 0 ? 0 : std::max(l.searches, 1u);
  const uint64_t slots = n + (l.beams == 0 ? 0 : searches * (l.beams - 1) + (goes_on ? 1 : 0));
  // Sources that share a chunk are encoded together, a longer one alone.
  const uint64_t together = std::min<uint64_t>(l.chunk, n * l.source);
  const uint64_t encoded = !encoder   ? 0
                           : !decoder ? n * l.source
                                      : std::max<uint64_t>(together, l.source);
  const uint64_t encoder_pages =
      !encoder
          ? 0
          : std::min(n * source_pages,
                     std::max(source_pages, (together + 15 * std::min(n, uint64_t{l.chunk})) / 16));
  const uint64_t logit_rows = rows_out ? std::max<uint64_t>(l.logit_rows, searches * l.beams) : 0,
                 best = rows_out ? l.best_rows : 0, logit_row = rows_out ? lane(output_of(d)) : 0;
  std::vector<uint64_t> bytes(kPartCount);
  bytes[kPartSession] = sizeof(Session);
  bytes[kPartSequences] = slots * 24 + n * 8;
  bytes[kPartPageTables] = slots * target_pages * 8;
  bytes[kPartRingTables] = slots * ring * 8;
  bytes[kPartIds] = slots * l.target * 4;
  if (l.tables == PHASOR_TABLES_WHOLE && sinusoids(d, kEncoder))
    bytes[kPartSourcePositions] = uint64_t{l.source} * sinusoid_width(d.stacks[kEncoder]) * 4;
  if (l.tables == PHASOR_TABLES_WHOLE && sinusoids(d, kDecoder))
    bytes[kPartTargetPositions] = uint64_t{l.target} * sinusoid_width(d.stacks[kDecoder]) * 4;
  bytes[kPartRotary] = rotary_of(m, l);
  bytes[kPartEncoder] = encoded * row * 4;
  bytes[kPartEncoderCache] = encoder_pages * page.encoder;
  bytes[kPartCrossCache] = n * source_pages * page.cross;
  bytes[kPartCache] = slots * target_pages * page.cache;
  bytes[kPartRing] = slots * ring * page.ring;
  bytes[kPartResidual] = decoder ? l.chunk * row * 4 : 0;
  bytes[kPartNormed] = l.chunk * row * 4;
  bytes[kPartWide] = l.chunk * wide_row * 4;
  bytes[kPartAttention] = l.chunk * w.heads_row * 4;
  bytes[kPartQuantized] = l.chunk * w.groups * (32 + 4 + 4);
  bytes[kPartScores] = uint64_t{l.threads} * 4 * (score_row + w.distance_row) * 4;
  bytes[kPartPointers] = uint64_t{l.threads} * 2 * most_pages_of_all * 8;
  bytes[kPartRows] = uint64_t{l.chunk} * (40 + 8 + 4);
  if ((l.outputs & (PHASOR_WANT_ATTENTION | PHASOR_WANT_COVERAGE)) != 0)
    bytes[kPartAttentionWeights] = w.heads * l.chunk * score_row * 4;
  bytes[kPartLogits] = logit_rows * logit_row * 4;
  bytes[kPartBest] =
      up((l.threads + 1) * best * 8, 64) +
      l.threads * std::min<uint64_t>(best, l.chunk) * std::min<uint64_t>(logit_row, 256) * 4;
  bytes[kPartText] = text_of(m, l.text_bytes);
  bytes[kPartWords] = words_of(m, l.text_bytes);
  if ((l.outputs & PHASOR_WANT_SAMPLING) != 0 && decoder)
    bytes[kPartSampling] = 3 * lane(output_of(d)) * 4;
  if (decoder && n > 1) bytes[kPartJobs] = 128 * n;
  if ((l.outputs & PHASOR_WANT_SHORTLIST) != 0)
    bytes[kPartShortlists] = (n + 1) * 4 * (1 + output_of(d) / 32 + 1);
  if ((l.outputs & PHASOR_WANT_COVERAGE) != 0) bytes[kPartCoverage] = slots * (1 + l.source) * 4;
  bytes[kPartBeams] = searches * (64 + l.beams * (256 + 4 * uint64_t{l.target}));
  return bytes;
}

// The sources and targets that are tried with a model: as many as `positions`, where it has such.
phasor_limits limits_of(const Opened& m, uint32_t positions) {
  const Descriptor& d = m.inside().descriptor;
  const auto of = [&](Half half) {
    const uint32_t most = longest_sequence(m.inside(), half);
    return !d.has(half) ? 0 : most == 0 ? positions : std::min(positions, most);
  };
  return m.limits(of(kEncoder), of(kDecoder));
}

using Edit = void (*)(phasor_limits*);
const Edit kEdits[] = {
    [](phasor_limits*) {},
    [](phasor_limits* l) { l->chunk = 1; },
    [](phasor_limits* l) { l->chunk = 5; },
    [](phasor_limits* l) { l->chunk = 9; },
    [](phasor_limits* l) { l->chunk = 10; },
    [](phasor_limits* l) { l->chunk = 33; },
    [](phasor_limits* l) { l->chunk = 1000; },
    [](phasor_limits* l) { l->sequences = 3, l->chunk = 40, l->threads = 5; },
    [](phasor_limits* l) { l->sequences = 70, l->chunk = 17; },
    [](phasor_limits* l) { l->beams = 1, l->chunk = 1; },
    [](phasor_limits* l) { l->beams = 4, l->chunk = 2, l->sequences = 2; },
    [](phasor_limits* l) { l->beams = 4, l->chunk = 64; },
    [](phasor_limits* l) { l->beams = 4, l->searches = 3, l->sequences = 5; },
    [](phasor_limits* l) { l->beams = 1, l->searches = 2, l->sequences = 2, l->logit_rows = 5; },
    [](phasor_limits* l) { l->logit_rows = 9; },
    [](phasor_limits* l) { l->logit_rows = 0, l->best_rows = 9, l->threads = 3; },
    [](phasor_limits* l) { l->best_rows = 40, l->chunk = 7; },
    [](phasor_limits* l) { l->outputs = PHASOR_WANT_ATTENTION; },
    [](phasor_limits* l) { l->outputs = PHASOR_WANT_SAMPLING; },
    [](phasor_limits* l) { l->outputs = PHASOR_WANT_SHORTLIST, l->sequences = 3; },
    [](phasor_limits* l) { l->outputs = PHASOR_WANT_COVERAGE, l->beams = 3, l->sequences = 2; },
    [](phasor_limits* l) { l->tables = PHASOR_TABLES_ROWS, l->chunk = 3; },
    [](phasor_limits* l) { l->cache_type = PHASOR_CACHE_F16; },
    [](phasor_limits* l) { l->cache_type = PHASOR_CACHE_Q8; },
    [](phasor_limits* l) { l->text_bytes = 0; },
    [](phasor_limits* l) { l->text_bytes = 1; },
    [](phasor_limits* l) { l->text_bytes = 1001; },
};

// Beams and best tokens are a decoder's; scores with tables and sums need keys in f32.
bool allowed(const Model& m, const phasor_limits& l) {
  for (uint32_t i = 0; i < m.layer_count[kDecoder]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(kDecoder, i));
    if (k.position != kRelativeKeyQuery && k.position != kThreeWay && k.position != kDisentangled &&
        k.score == kScoreDot && k.cross_score == kScoreDot)
      continue;
    if (l.cache_type != PHASOR_CACHE_F32) return false;
  }
  constexpr uint32_t kBoth = PHASOR_WANT_SHORTLIST | PHASOR_WANT_COVERAGE;
  if ((l.outputs & kBoth) != 0 && !m.descriptor.has_both()) return false;
  return m.descriptor.has(kDecoder) || (l.beams == 0 && l.best_rows == 0);
}

// A plan: its parts, where they begin, and the arena's bytes.
void check_plan(const Opened& m, const phasor_limits& limits) {
  Plan plan{};
  const bool made = make_plan(&plan, m.inside(), limits, nullptr) == PHASOR_OK;
  CHECK(made == allowed(m.inside(), limits));
  if (!made) return;
  const std::vector<uint64_t> expected = expected_of(m.inside(), limits);
  const OutputDescriptor& o = m.inside().descriptor.output;
  const bool rows_out = o.output == kOutputLogits || o.output == kOutputClasses;
  const uint32_t beams = limits.beams * std::max(limits.searches, 1u);
  CHECK(plan.logit_rows == (rows_out ? std::max(limits.logit_rows, beams) : 0));
  CHECK(plan.logit_ld == (rows_out ? lane(output_of(m.inside().descriptor)) : 0));
  uint64_t at = 0;
  for (uint32_t part = 0; part < kPartCount; ++part) {
    if (plan.bytes[part] != expected[part] || plan.offset[part] != at)
      FAIL(part_name(part), ": ", plan.bytes[part], " bytes, expected ", expected[part]);
    at += up(expected[part], 64) + (kRedZones ? 256 : 0);
  }
  CHECK(plan.total == at);
  std::size_t need = 0;
  REQUIRE(phasor_session_size(&need, m.model, &limits, nullptr) == PHASOR_OK);
  CHECK(need == at);
}

// All of the limits above, for a few lengths.
void check_plans(const Opened& m, std::initializer_list<uint32_t> lengths) {
  for (const uint32_t positions : lengths) {
    CAPTURE(positions);
    const phasor_limits limits = limits_of(m, positions);
    for (std::size_t i = 0; i < sizeof kEdits / sizeof *kEdits; ++i) {
      CAPTURE(i);
      phasor_limits edited = limits;
      kEdits[i](&edited);
      check_plan(m, edited);
    }
  }
}

// A golden model that is changed where it lies: what no small file has.
struct Changed : Opened {
  using Opened::Opened;
  KindDescriptor& kind(uint32_t i) {
    Model& m = inside();
    return m.part<KindDescriptor>(m.kinds_at)[i];
  }
  Layer& layer(Half half, uint32_t i) {
    Model& m = inside();
    return m.part<Layer>(m.layers_at[half])[i];
  }
  // And the sizes of the pages that open has counted.
  void all_kinds(void (*edit)(KindDescriptor*)) {
    Model& m = inside();
    for (uint32_t i = 0; i < m.descriptor.kinds; ++i) edit(&kind(i));
    m.cache = m.ring = m.cross = {};
    for (uint32_t i = 0; i < m.layer_count[kDecoder]; ++i) {
      const KindDescriptor& k = m.kind(m.layer(kDecoder, i));
      add_layer(k.window != 0 ? &m.ring : &m.cache, k);
      if (k.cross != 0) add_heads(&m.cross, k.cross_kv_heads, k.cross_head_width);
    }
  }
};

}  // namespace

TEST_CASE("limits of a plan: every part of the arena, for limits of many kinds") {
  const char* const names[] = {
      "tiny-lm-f32",         "tiny-lm-q8",       "tiny-bert-q8",         "tiny-t5-f32",
      "tiny-d2l-q8",         "tiny-albert-f32",  "tiny-olmo2-q8",        "tiny-relative-lm-f32",
      "tiny-additive-f32",   "tiny-clipped-f32", "tiny-post-sin-f32",    "tiny-chat-f32",
      "tiny-modernbert-f32", "tiny-classes-q8",  "tiny-neox-f32",        "tiny-three-way-lm-f32",
      "tiny-merged-f32",     "tiny-merged-q8",   "../arena/narrow-heads"};
  for (const char* name : names) {
    CAPTURE(name);
    check_plans(Opened(name), {1, 16, 33, 300});
  }
}

TEST_CASE("limits of a plan: the texts of a template where a tokenizer needs little room") {
  // A word list needs none: what a template keeps is all.
  tokenizer_tests::Parts words{};
  words.model = ModelNumber::words;
  words.pieces = {{"<unk>", PieceType::unknown, 0}, {"a", PieceType::normal, 0}};
  const tokenizer_tests::Bytes section = tokenizer_tests::build(words);
  weight_files::WeightFile file("tiny-chat-f32");
  const uint32_t kind = file.sections.count(kSectionTargetTokenizer) != 0
                            ? uint32_t{kSectionTargetTokenizer}
                            : uint32_t{kSectionSourceTokenizer};
  file.sections[kind] = {0, std::string(section.begin(), section.end())};
  check_plans(Opened(file.write()), {1, 33});
}

TEST_CASE("limits of a plan: whatever asks for the widest row") {
  for (const char* name : {"tiny-post-sin-f32", "tiny-clipped-f32", "tiny-lm-q8"}) {
    CAPTURE(name);
    Changed m(name);
    // Rows of sinusoids, or of an embedding.
    m.all_kinds([](KindDescriptor* k) {
      k->hidden = k->heads = k->kv_heads = k->head_width = 1;
      k->cross_heads = k->cross_kv_heads = k->cross_head_width = 1;
    });
    check_plans(m, {1, 33});
    for (const uint32_t place : {1u, 0u}) {
      for (StackDescriptor& stack : m.inside().descriptor.stacks) {
        stack.projection_place = place;
        stack.embedding_width = 200;
      }
      check_plans(m, {33});
    }
    // Keys and values of the cross-attention, or its queries; then those of the attention.
    m.all_kinds([](KindDescriptor* k) {
      k->cross_heads = k->cross_kv_heads = 9;
      k->cross_head_width = 50;
    });
    check_plans(m, {33});
    m.all_kinds([](KindDescriptor* k) { k->cross_kv_heads = 1; });
    check_plans(m, {33});
    m.all_kinds([](KindDescriptor* k) {
      k->heads = 10;
      k->kv_heads = 5;
      k->head_width = 90;
    });
    check_plans(m, {1, 33});
    m.all_kinds([](KindDescriptor* k) { k->hidden = 2001; });
    check_plans(m, {33});
  }
  // The largest layer of an encoder is not the last one.
  Changed bert("tiny-modernbert-f32");
  bert.kind(0).kv_heads = 40;
  check_plans(bert, {33});
}

TEST_CASE("limits of a plan: one matrix that is quantized, whichever") {
  using Place = Linear LayerTensors::*;
  Changed m("tiny-d2l-f32");
  const Tensor& head = m.inside().output.weight;
  for (const Place place :
       {&LayerTensors::qkv, &LayerTensors::attention_out, &LayerTensors::cross_q,
        &LayerTensors::cross_kv, &LayerTensors::cross_out, &LayerTensors::ffn_in,
        &LayerTensors::ffn_out})
    for (const Type type : {Type::q8, Type::q4, Type::f16}) {
      m.layer(kDecoder, 0).*place = {};
      Tensor& weight = (m.layer(kDecoder, 0).*place).weight;
      weight = head;
      weight.type = type;
      weight.cols = 1000;
      check_plan(m, limits_of(m, 16));
      weight = head;
    }
  for (const uint32_t cols : {31u, 32u, 33u}) {
    m.inside().output.weight.cols = cols;
    m.inside().output.weight.type = Type::q8;
    check_plan(m, limits_of(m, 16));
  }
}

TEST_CASE("limits of a plan: scores of the cross-attention that need keys in f32") {
  Changed m("tiny-additive-f32");
  phasor_limits limits = limits_of(m, 8);
  const auto status = [&](uint32_t type) {
    limits.cache_type = type;
    return make_plan(std::make_unique<Plan>().get(), m.inside(), limits, nullptr);
  };
  m.all_kinds([](KindDescriptor* k) { k->score = kScoreDot; });
  REQUIRE(m.kind(1).cross_score == kScoreAdditive);
  CHECK(status(PHASOR_CACHE_F16) == PHASOR_BAD_LIMITS);
  CHECK(status(PHASOR_CACHE_F32) == PHASOR_OK);
  m.all_kinds([](KindDescriptor* k) { k->cross_score = kScoreDot; });
  CHECK(status(PHASOR_CACHE_F16) == PHASOR_OK);
  // Beams are for models that give logits.
  m.inside().output.weight = {};
  CHECK(status(PHASOR_CACHE_F32) == PHASOR_OK);
  limits.beams = 1;
  CHECK(status(PHASOR_CACHE_F32) == PHASOR_BAD_LIMITS);
}

TEST_CASE("limits: rows that are rounded in groups, whole and rotated lie one after the other") {
  Plan p{};
  p.chunk = 5;
  const auto place = [&p](Type type, uint8_t inputs = 0) {
    Tensor t = {};
    t.type = type;
    t.inputs = inputs;
    return rounded_rows(p, rounding_of(t));
  };
  p.widest[kGrouped] = 3;
  const uint64_t grouped = 5 * 3 * (32 + 8);
  for (const Type type : {Type::q8, Type::q4, Type::q4m, Type::q4k}) {
    CHECK(place(type).at == 0);
    CHECK(place(type).values == 5 * 3 * 32);
  }
  p.widest[kRotated] = 4;  // no row is rounded as a whole and not rotated
  CHECK(place(Type::q8rh).at == grouped);
  CHECK(place(Type::q8rh).values == 5 * 4 * 32);
  p.widest[kByRow] = 2;
  CHECK(place(Type::q8r).at == grouped);
  CHECK(place(Type::q8r).values == 5 * 2 * 32);
  const uint64_t whole = grouped + 5 * 2 * 32 + 5 * 8;
  CHECK(place(Type::q8rh).at == whole);
  // Behind them those of 16 bits: two planes of values and of sums.
  const uint64_t behind = whole + 5 * 4 * 32 + 5 * 8;
  p.widest[kWidths + kGrouped] = 6;
  p.widest[kWidths + kByRow] = 8;
  CHECK(place(Type::q4k, kInputs16).at == behind);
  CHECK(place(Type::q4k, kInputs16).values == 5 * 6 * 64);
  CHECK(place(Type::q4k, kInputs16).scales == 5 * 6 * 4);
  CHECK(place(Type::q4k, kInputs16).sums == 5 * 6 * 8);
  CHECK(place(Type::q8r, kInputs16).at == behind + 5 * 6 * (64 + 4 + 8));
  CHECK(place(Type::q8r, kInputs16).values == 5 * 8 * 64);
  CHECK(place(Type::q8rh, kInputs16).at == behind + 5 * 6 * (64 + 4 + 8) + 5 * (8 * 64 + 4 + 8));
  CHECK(place(Type::q8rh, kInputs16).values == 0);
  // And last rotated groups of 8 bits.
  p.widest[kRotatedGroups] = 4;
  for (const Type type : {Type::q8, Type::q4, Type::q4k}) {
    CHECK(place(type, kInputsRotated).at == behind + 5 * 6 * (64 + 4 + 8) + 5 * (8 * 64 + 4 + 8));
    CHECK(place(type, kInputsRotated).values == 5 * 4 * 32);
    CHECK(place(type, kInputsRotated).scales == 5 * 4 * 4);
    CHECK(place(type, kInputsRotated).sums == 5 * 4 * 4);
  }
}
