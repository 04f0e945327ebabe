#include "plan.h"

#include "positions.h"
#include "session.h"

namespace phasor {
namespace {

constexpr uint64_t kFloat = sizeof(float), kWord = sizeof(uint32_t);

// Sizes saturate: UINT64_MAX stands for "more than can be counted". Functions of their own:
// inlined, the plan is a kilobyte more of Thumb-2 code.
#define PHASOR_APART __attribute__((noinline))
PHASOR_APART uint64_t times(uint64_t a, uint64_t b) {
  return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}
template <class... More>
uint64_t times(uint64_t a, uint64_t b, uint64_t c, More... more) {
  return times(times(a, b), c, more...);
}
PHASOR_APART uint64_t plus(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }
PHASOR_APART uint64_t whole(uint64_t a) {
  return a > UINT64_MAX - 64 ? UINT64_MAX : round_up(a, 64);
}
uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

constexpr uint32_t kMaxLength = 1u << 24, kMaxSequences = 1u << 16, kMaxChunk = 1u << 16,
                   kMaxThreads = 256, kMaxText = 1u << 28, kMaxBeams = 256;

// The most that the model allows of one stack.
uint32_t longest(const Model& m, Half stack) {
  const uint32_t most = longest_sequence(m, stack);
  return most != 0 ? most : kMaxLength;
}

// Products with a table and additive scores read keys in f32 only.
bool needs_f32_keys(const KindDescriptor& k) {
  return k.position == kRelativeKeyQuery || k.position == kThreeWay ||
         k.position == kDisentangled || k.score == kScoreAdditive ||
         k.cross_score == kScoreAdditive;
}

struct Limit {
  const char* name;
  uint32_t value, low, high;
};
phasor_status check_limits(const Model& m, const phasor_limits& limits, phasor_error* error) {
  const bool encoder = m.descriptor.has(kEncoder), decoder = m.descriptor.has(kDecoder);
  const Limit ranges[] = {
      {"source", limits.source, encoder, encoder ? longest(m, kEncoder) : 0},
      {"target", limits.target, decoder, decoder ? longest(m, kDecoder) : 0},
      {"sequences", limits.sequences, 1, kMaxSequences},
      {"chunk", limits.chunk, 1, kMaxChunk},
      {"threads", limits.threads, 1, kMaxThreads},
      {"logit_rows", limits.logit_rows, decoder && limits.best_rows == 0, kMaxLength},
      {"best_rows", limits.best_rows, 0, decoder ? kMaxLength : 0},
      {"text_bytes", limits.text_bytes, 0, kMaxText},
      {"cache_type", limits.cache_type, 0, kCacheTypes - 1},
      {"outputs", limits.outputs & ~uint32_t{PHASOR_WANT_OFFSETS}, 0,
       PHASOR_WANT_ATTENTION | PHASOR_WANT_SAMPLING |
           (m.descriptor.has_both() && m.descriptor.output.output == kOutputLogits
                ? PHASOR_WANT_SHORTLIST | (limits.beams != 0 ? uint32_t{PHASOR_WANT_COVERAGE} : 0)
                : 0u)},
      {"tables", limits.tables, 0, PHASOR_TABLES_ROWS},
      {"beams", limits.beams, 0, m.output.weight && decoder ? kMaxBeams : 0},
      {"searches", limits.searches, 0, limits.beams != 0 ? limits.sequences : 0},
  };
  for (const Limit& limit : ranges)
    if (limit.value < limit.low || limit.value > limit.high)
      return fail(error, PHASOR_BAD_LIMITS, {PHASOR_NONE, PHASOR_NONE, limit.high, limit.value},
                  "limits.", limit.name, ": ", limit.value, ", expected ", limit.low, " to ",
                  limit.high);
  const char* cache = kCacheNames[limits.cache_type];
  // never: the build that is tested has all formats
  if (cache_format(limits.cache_type)->store == nullptr)
    return fail(error, PHASOR_UNSUPPORTED, {}, "limits.cache_type: ", cache,
                " is not in this build (PHASOR_ONLY)");
  for (uint32_t i = 0; i < m.layer_count[kDecoder] && limits.cache_type != PHASOR_CACHE_F32; ++i)
    if (needs_f32_keys(m.kind(m.layer(kDecoder, i))))
      return fail(error, PHASOR_BAD_LIMITS, {}, "limits.cache_type: ", cache, ", kind ",
                  m.layer(kDecoder, i).kind, " has scores that need keys in f32");
  const char* missing = nullptr;
  if ((limits.outputs & PHASOR_WANT_ATTENTION) != 0 && !kHasViews)
    missing = "outputs: attention weights are";
  if (limits.beams != 0 && !kHasBeam) missing = "beams: beam search is";
  if ((limits.outputs & PHASOR_WANT_SHORTLIST) != 0 && !kHasShortlist)
    missing = "outputs: shortlists are";
  if ((limits.outputs & PHASOR_WANT_COVERAGE) != 0 && !kHasViews)
    missing = "outputs: the coverage of sources is";
  if ((limits.outputs & PHASOR_WANT_OFFSETS) != 0 && !kHasOffsets)
    missing = "outputs: the offsets of tokens are";
  // never: the build that is tested has views, beams, shortlists and offsets
  if (missing == nullptr) return PHASOR_OK;
  return fail(error, PHASOR_UNSUPPORTED, {}, "limits.", missing,
              " not in this build (PHASOR_ONLY)");
}

void widen(uint32_t* widest, uint32_t more) { *widest = larger(*widest, more); }
// By kind of rounding, the most groups that an input of these matrices has. Rounding in groups to 8
// bits makes room for all their inputs, quantized or not.
template <size_t N>
void widen_groups(Plan* p, const Linear* const (&matrices)[N]) {
  uint32_t inputs = 0;
  bool quantized = false;
  for (const Linear* l : matrices) {
    const Tensor& t = l->weight;
    widen(&inputs, t.cols);
    if (!quantized_type(t.type)) continue;
    const uint32_t rounding = rounding_of(t);
    quantized = quantized || rounding == kGrouped;
    const uint64_t groups = has_row_scale(t.type) ? whole_groups_of(t.cols) : groups_of(t.cols);
    widen(&p->widest[rounding], static_cast<uint32_t>(groups));
  }
  if (quantized) widen(&p->widest[kGrouped], static_cast<uint32_t>(groups_of(inputs)));
}

// What the layers of a stack ask for.
void widen_layers(Plan* p, const Model& m, Half stack) {
  for (uint32_t i = 0; i < m.layer_count[stack]; ++i) {
    const Layer& l = m.layer(stack, i);
    const RareTensors& rare = m.rare(l);
    const KindDescriptor& k = m.kind(l);
    widen(&p->wide_ld, lanes(q_width(k)) + 2 * lanes(own_kv_width(k)));
    widen(&p->wide_ld, lanes(k.hidden) * (1 + k.gated));
    widen(&p->attention_ld, lanes(q_width(k)));
    widen(&p->most_heads, k.heads);
    if (relative_keys(k)) {
      widen(&p->scratch_ld, p->score_ld + kSlots);
      widen(&p->scratch_ld, lanes(k.head_width));
    }
    if (merges(k)) widen(&p->scratch_ld, lanes(k.head_width));
    if (k.cross == kCrossOwn) {
      widen(&p->wide_ld, lanes(cross_q_width(k)));
      widen(&p->wide_ld, 2 * lanes(cross_kv_width(k)));
      widen(&p->attention_ld, lanes(cross_q_width(k)));
      widen(&p->most_heads, k.cross_heads);
    }
    const Linear* const matrices[] = {
        &l.qkv,       &l.v,      &l.attention_out, &l.cross_q,           &l.cross_kv,
        &l.cross_out, &l.ffn_in, &l.ffn_out,       &rare.per_layer_gate, &rare.per_layer_out};
    widen_groups(p, matrices);
  }
}

// The same for what stands before the first block and after the last.
void widen_ends(Plan* p, const Model& m) {
  const Descriptor& d = m.descriptor;
  for (const StackDescriptor& s : d.stacks)
    if (sinusoidal(s)) widen(&p->wide_ld, 2 * lanes(input_width(s)));  // a row and its scratch
  const StackDescriptor& decoder = d.stacks[kDecoder];
  if (has_per_layer(decoder)) {
    p->per_layer_ld = lanes(per_layer_values(decoder));
    widen(&p->wide_ld, p->per_layer_ld);  // a row of their table
  }
  const Linear* const ends[] = {&m.inputs[kEncoder].projection, &m.inputs[kDecoder].projection,
                                &m.per_layer.per_layer_projection, &m.head, &m.output};
  for (const Linear* l : ends) widen_groups(p, {l});
}

// Of one layer of the encoder, the largest.
uint64_t encoder_page_bytes(const Model& m) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < m.layer_count[kEncoder]; ++i) {
    const KindDescriptor& k = m.kind(m.layer(kEncoder, i));
    const uint64_t bytes = k.kv_heads * cache_format(PHASOR_CACHE_F32)->head_bytes(k.head_width);
    if (bytes > most) most = bytes;
  }
  return most;
}

// Rows and pages of the encoder. Sources that fit a chunk together are encoded together; a longer
// one alone, in several chunks. n sources of c tokens in all take at most (c + 15·n)/16 pages.
// Without an encoder the sources have no tokens. False when there are more than can be counted.
bool plan_groups(Plan* p, const Descriptor& d) {
  const uint64_t all = times(p->sequences, p->source), together = p->chunk < all ? p->chunk : all;
  const uint64_t rows = !d.has(kDecoder) ? all : together > p->source ? together : p->source;
  const uint64_t many = (together + 15 * uint64_t(smaller(p->sequences, p->chunk))) / kLanes;
  const uint64_t most = times(p->sequences, p->source_pages),
                 pages = many > p->source_pages ? many : p->source_pages;
  if (rows > UINT32_MAX || most > UINT32_MAX) return false;
  p->encoder_rows = static_cast<uint32_t>(rows);
  p->encoder_pages = static_cast<uint32_t>(pages < most ? pages : most);
  return true;
}

}  // namespace

const char* part_name(uint32_t part) noexcept {
  static const char* const names[kPartCount] = {"session",
                                                "sequences",
                                                "page tables",
                                                "ring tables",
                                                "token ids",
                                                "source positions",
                                                "target positions",
                                                "rotary cosines and sines",
                                                "encoder residual",
                                                "encoder keys and values",
                                                "cross-attention keys and values",
                                                "decoder keys and values",
                                                "keys and values in windows",
                                                "residual",
                                                "normed rows",
                                                "wide rows",
                                                "attention rows",
                                                "per-layer embeddings",
                                                "quantized rows",
                                                "scores",
                                                "page pointers",
                                                "row table",
                                                "attention weights",
                                                "logits",
                                                "best tokens",
                                                "text scratch",
                                                "words of texts",
                                                "sampling",
                                                "beams",
                                                "jobs",
                                                "shortlists",
                                                "coverage"};
  return part < kPartCount ? names[part] : "?";
}

namespace {

// The lengths, widths and counts.
phasor_status measure(Plan* plan, const Model& m, const phasor_limits& limits,
                      phasor_error* error) {
  const Descriptor& d = m.descriptor;
  const bool outputs = d.output.output == kOutputLogits || d.output.output == kOutputClasses;
  Plan& p = *plan;
  p.source = limits.source;
  p.target = limits.target;
  p.sequences = limits.sequences;
  p.chunk = limits.chunk;
  p.threads = limits.threads;
  p.beams = limits.beams;
  p.searches = limits.beams == 0 ? 0 : larger(limits.searches, 1);
  p.logit_rows = outputs ? larger(limits.logit_rows, p.searches * p.beams) : 0;
  p.best_rows = limits.best_rows;  // a decoder's, which gives logits
  p.text_bytes = limits.text_bytes;
  p.outputs = limits.outputs;
  p.tables = limits.tables;
  p.cache_type = limits.cache_type;
  p.source_pages = blocks_of(limits.source);
  p.target_pages = blocks_of(limits.target);
  p.most_pages = larger(p.source_pages, p.target_pages);
  if (m.merged != 0) p.most_pages = p.source_pages + p.target_pages;  // of both at once
  p.score_ld = p.most_pages * kSlots;
  for (const StackDescriptor& s : d.stacks) widen(&p.ld, lanes(larger(s.width, s.embedding_width)));
  widen(&p.ld, lanes(d.output.head_width));
  // the scratch of a row of positions, an embedding that is projected and a head lie here too
  p.wide_ld = p.ld;
  widen_layers(&p, m, kEncoder);
  widen_layers(&p, m, kDecoder);
  widen_ends(&p, m);
  p.logit_ld = outputs ? lanes(output_width(d)) : 0;
  if (!plan_groups(&p, d))
    return fail(error, PHASOR_TOO_LARGE, {}, "limits: ", p.sequences, " sequences of ", p.source,
                " source positions");
  if (kHasRing && m.window != 0)
    p.ring_pages = smaller(p.target_pages, blocks_of(m.window + limits.chunk - 1));
  p.slots = limits.sequences + p.searches * (p.beams - 1) + (p.beams != 0 && lets_go(p) ? 1 : 0);
  const uint64_t pages = times(p.slots, p.target_pages);
  if (pages > UINT32_MAX)
    return fail(error, PHASOR_TOO_LARGE, {}, "limits: ", p.sequences, " sequences of ", p.target,
                " positions");
  p.pages = static_cast<uint32_t>(pages);
  return PHASOR_OK;
}

// What tokenizers and the chat program work in, and the piece of a token.
uint64_t text_bytes(const Model& m, uint64_t text, bool offsets) {
  // texts that a chat template keeps
  uint64_t most = m.file().sections[kSectionChat].bytes != 0 ? times(4, text) : 0;
  for (Half half : kHalves) {
    const Tokenizer* t = m.tokenizer(half);
    if (t == nullptr || text == 0) continue;
    const uint64_t scratch = tokenizer_scratch_bytes(*t, static_cast<uint32_t>(text), offsets),
                   piece = token_decode_capacity(*t);
    if (scratch > most) most = scratch;
    if (piece > most) most = piece;
  }
  return whole(most);  // a text may use what is left of the last line
}

// What a tokenizer remembers, of one side at a time.
uint64_t word_bytes(const Model& m, uint64_t text) {
  uint64_t most = 0;
  for (Half half : kHalves)
    if (const Tokenizer* t = m.tokenizer(half)) {
      const uint64_t bytes = tokenizer_memory_bytes(*t, text);
      if (bytes > most) most = bytes;
    }
  return most;
}

// The bytes of each part.
void measure_parts(Plan* plan, const Model& m) {
  const Plan& p = *plan;
  const Descriptor& d = m.descriptor;
  const uint64_t rows = p.chunk;
  const CacheFormat& format = cache_of(p);
  uint64_t* bytes = plan->bytes;
  bytes[kPartSession] = sizeof(Session);
  bytes[kPartSequences] = times(p.slots, sizeof(Sequence)) + times(p.sequences, sizeof(Source));
  bytes[kPartPageTables] = times(p.pages, 2 * kWord);
  bytes[kPartIds] = times(p.slots, p.target, kWord);
  if (p.tables == PHASOR_TABLES_WHOLE) {
    if (sinusoidal(d.stacks[kEncoder]))
      bytes[kPartSourcePositions] = times(p.source, input_width(d.stacks[kEncoder]), kFloat);
    if (sinusoidal(d.stacks[kDecoder]))
      bytes[kPartTargetPositions] = times(p.target, input_width(d.stacks[kDecoder]), kFloat);
  }
  bytes[kPartRotary] = times(rotary_floats(p, m, d.kinds), kFloat);
  bytes[kPartEncoder] = times(p.encoder_rows, p.ld, kFloat);
  bytes[kPartEncoderCache] = times(p.encoder_pages, encoder_page_bytes(m));
  bytes[kPartCrossCache] = times(p.sequences, p.source_pages, format.bytes(m.cross));
  bytes[kPartCache] = times(p.pages, format.bytes(m.cache));
  if (kHasRing) {
    bytes[kPartRingTables] = times(p.slots, p.ring_pages, 2 * kWord);
    bytes[kPartRing] = times(p.slots, p.ring_pages, format.bytes(m.ring));
  }
  bytes[kPartResidual] = d.has(kDecoder) ? times(rows, p.ld, kFloat) : 0;
  bytes[kPartNormed] = times(rows, p.ld, kFloat);
  bytes[kPartWide] = times(rows, p.wide_ld, kFloat);
  bytes[kPartAttention] = times(rows, p.attention_ld, kFloat);
  bytes[kPartPerLayer] = times(rows, p.per_layer_ld, kFloat);
  for (uint32_t i = 0; i < kRoundings; ++i) {
    const uint64_t groups = p.widest[i], planes = planes_of(i),
                   each = sizeof(float) + planes * sizeof(int32_t),
                   scales = i % kWidths == kGrouped ? groups : groups != 0;
    bytes[kPartQuantized] =
        plus(bytes[kPartQuantized],
             times(rows, plus(times(groups, planes * kGroup), times(scales, each))));
  }
  bytes[kPartScores] = times(p.threads, uint64_t(kTile) * (p.score_ld + p.scratch_ld), kFloat);
  bytes[kPartPointers] = times(p.threads, 2 * uint64_t(p.most_pages), 8);
  bytes[kPartRows] = times(rows, sizeof(Row) + sizeof(Tile) + kWord);
  if (kHasViews && (p.outputs & (PHASOR_WANT_ATTENTION | PHASOR_WANT_COVERAGE)) != 0)
    bytes[kPartAttentionWeights] = times(p.most_heads, rows, p.score_ld, kFloat);
  bytes[kPartLogits] = times(p.logit_rows, p.logit_ld, kFloat);
  bytes[kPartBest] = plus(best_bytes(p), times(p.threads, smaller(p.best_rows, p.chunk),
                                               smaller(p.logit_ld, kBestLogits), kFloat));
  bytes[kPartText] = text_bytes(m, p.text_bytes, (p.outputs & PHASOR_WANT_OFFSETS) != 0);
  bytes[kPartWords] = word_bytes(m, p.text_bytes);
  if ((p.outputs & PHASOR_WANT_SAMPLING) != 0 && d.has(kDecoder))
    bytes[kPartSampling] = times(3, lanes(output_width(d)), kFloat);
  if (p.sequences > 1 && d.has(kDecoder)) bytes[kPartJobs] = times(p.sequences, kJobBytes);
  if (kHasShortlist && (p.outputs & PHASOR_WANT_SHORTLIST) != 0)
    bytes[kPartShortlists] =
        times(uint64_t{p.sequences} + 1, 1 + shortlist_words(output_width(d)), kWord);
  if (kHasViews && (p.outputs & PHASOR_WANT_COVERAGE) != 0)
    bytes[kPartCoverage] = times(p.slots, uint64_t{p.source} + 1, kWord);
  bytes[kPartBeams] = times(
      p.searches, plus(kSearchBytes, times(p.beams, plus(kBeamBytes, times(p.target, kWord)))));
}

}  // namespace

phasor_status make_plan(Plan* plan, const Model& m, const phasor_limits& limits,
                        phasor_error* error) noexcept {
  Plan p{};
  phasor_status status = check_limits(m, limits, error);
  if (status == PHASOR_OK) status = measure(&p, m, limits, error);
  if (status != PHASOR_OK) return status;
  measure_parts(&p, m);
  for (uint32_t i = 0; i < kPartCount; ++i) {
    p.offset[i] = p.total;
    p.total = plus(p.total, whole(p.bytes[i]));
    if (kRedZones) p.total = plus(p.total, kZoneBytes);
  }
  if (p.total > SIZE_MAX - 64)
    return fail(error, PHASOR_TOO_LARGE, {PHASOR_NONE, PHASOR_NONE, SIZE_MAX, p.total},
                "the arena for these limits is too large for this machine");
  *plan = p;
  return PHASOR_OK;
}

}  // namespace phasor
