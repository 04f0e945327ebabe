#include "plan.h"

#include "positions.h"
#include "session.h"

namespace phasor {
namespace {

// Sizes saturate: UINT64_MAX stands for "more than can be counted". Functions of their own:
// inlined, the plan is a kilobyte more of Thumb-2 code.
#define PHASOR_APART __attribute__((noinline))
PHASOR_APART uint64_t times(uint64_t a, uint64_t b) {
  return a != 0 && b > UINT64_MAX / a ? UINT64_MAX : a * b;
}
PHASOR_APART uint64_t plus(uint64_t a, uint64_t b) { return a + b < a ? UINT64_MAX : a + b; }
PHASOR_APART uint64_t whole(uint64_t a) {
  return a > UINT64_MAX - 64 ? UINT64_MAX : round_up(a, 64);
}
uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

constexpr uint32_t kMaxLength = 1u << 24, kMaxSequences = 1u << 16, kMaxChunk = 1u << 16,
                   kMaxThreads = 256, kMaxBeams = 256;

phasor_status outside(phasor_error* error, const char* name, uint32_t value, uint32_t low,
                      uint32_t high) {
  return fail(error, PHASOR_BAD_LIMITS, {PHASOR_NONE, PHASOR_NONE, high, value}, "limits.", name,
              ": ", value, ", expected ", low, " to ", high);
}

// The most that the model allows of one stack.
uint32_t longest(const Model& m, uint32_t stack) {
  const uint32_t most = longest_sequence(m, stack);
  return most != 0 ? most : kMaxLength;
}

// Products with a table and additive scores read keys in f32 only.
bool needs_f32_keys(const KindDescriptor& k) {
  return k.position == kRelativeKeyQuery || k.position == kThreeWay || k.score == kScoreAdditive ||
         k.cross_score == kScoreAdditive;
}

phasor_status check_limits(const Model& m, const phasor_limits& l, phasor_error* error) {
  const Descriptor& d = m.descriptor;
  const bool encoder = d.has(kEncoder), decoder = d.has(kDecoder);
  const uint32_t source = encoder ? longest(m, 0) : 0, target = decoder ? longest(m, 1) : 0;
  if (l.source < (encoder ? 1u : 0u) || l.source > source)
    return outside(error, "source", l.source, encoder ? 1 : 0, source);
  if (l.target < (decoder ? 1u : 0u) || l.target > target)
    return outside(error, "target", l.target, decoder ? 1 : 0, target);
  if (l.sequences < 1 || l.sequences > kMaxSequences)
    return outside(error, "sequences", l.sequences, 1, kMaxSequences);
  if (l.chunk < 1 || l.chunk > kMaxChunk) return outside(error, "chunk", l.chunk, 1, kMaxChunk);
  if (l.threads < 1 || l.threads > kMaxThreads)
    return outside(error, "threads", l.threads, 1, kMaxThreads);
  const uint32_t least = decoder && l.best_rows == 0 ? 1 : 0, most_best = decoder ? kMaxLength : 0;
  if (l.logit_rows < least || l.logit_rows > kMaxLength)
    return outside(error, "logit_rows", l.logit_rows, least, kMaxLength);
  if (l.best_rows > most_best) return outside(error, "best_rows", l.best_rows, 0, most_best);
  if (l.text_bytes > (1u << 28)) return outside(error, "text_bytes", l.text_bytes, 0, 1u << 28);
  if (l.cache_type > PHASOR_CACHE_Q8)
    return outside(error, "cache_type", l.cache_type, 0, PHASOR_CACHE_Q8);
  const char* const type = l.cache_type == PHASOR_CACHE_F16 ? "f16" : "q8";
  if ((l.cache_type == PHASOR_CACHE_F16 && !kHasCacheF16) ||
      (l.cache_type == PHASOR_CACHE_Q8 && !kHasCacheQ8))
    return fail(error, PHASOR_UNSUPPORTED, {}, "limits.cache_type: ", type,
                " is not in this build (PHASOR_ONLY)");
  for (uint32_t i = 0; i < m.layer_count[1] && l.cache_type != PHASOR_CACHE_F32; ++i)
    if (needs_f32_keys(m.kind(m.layer(1, i))))
      return fail(error, PHASOR_BAD_LIMITS, {}, "limits.cache_type: ", type, ", kind ",
                  m.layer(1, i).kind, " has scores that need keys in f32");
  if (l.outputs > (PHASOR_WANT_ATTENTION | PHASOR_WANT_SAMPLING))
    return outside(error, "outputs", l.outputs, 0, PHASOR_WANT_ATTENTION | PHASOR_WANT_SAMPLING);
  if ((l.outputs & PHASOR_WANT_ATTENTION) != 0 && !kHasViews)
    return fail(error, PHASOR_UNSUPPORTED, {},
                "limits.outputs: attention weights are not in this build (PHASOR_ONLY)");
  if (l.tables > PHASOR_TABLES_ROWS)
    return outside(error, "tables", l.tables, 0, PHASOR_TABLES_ROWS);
  const uint32_t beams = m.output.weight && decoder ? kMaxBeams : 0;
  if (l.beams > beams) return outside(error, "beams", l.beams, 0, beams);
  if (l.beams != 0 && !kHasBeam)
    return fail(error, PHASOR_UNSUPPORTED, {},
                "limits.beams: beam search is not in this build (PHASOR_ONLY)");
  return PHASOR_OK;
}

bool quantised(const Linear& l) { return l.weight && quantised_type(l.weight.type); }

// The widest of what the layers of a stack ask for; the encoder's pages of one layer.
void widen(Plan* p, const Model& m, uint32_t stack, uint64_t* encoder_page) {
  const StackDescriptor& s = m.descriptor.stacks[stack];
  for (uint32_t i = 0; i < m.layer_count[stack]; ++i) {
    const Layer& l = m.layer(stack, i);
    const KindDescriptor& k = m.kind(l);
    p->wide_ld = larger(p->wide_ld, lanes(q_width(k)) + 2 * lanes(kv_width(k)));
    p->wide_ld = larger(p->wide_ld, lanes(k.hidden) * (1 + k.gated));
    p->attention_ld = larger(p->attention_ld, lanes(q_width(k)));
    p->most_heads = larger(p->most_heads, k.heads);
    if (relative_keys(k))
      p->scratch_ld = larger(
          p->scratch_ld, larger(p->score_ld + static_cast<uint32_t>(kLanes), lanes(k.head_width)));
    uint32_t inputs = larger(larger(s.width, q_width(k)), k.hidden);
    if (k.cross != 0) {
      p->wide_ld =
          larger(p->wide_ld, larger(lanes(cross_q_width(k)), 2 * lanes(cross_kv_width(k))));
      p->attention_ld = larger(p->attention_ld, lanes(cross_q_width(k)));
      p->most_heads = larger(p->most_heads, k.cross_heads);
      inputs = larger(inputs, larger(cross_q_width(k), s.cross_width));
    }
    const Linear* all[] = {&l.qkv,       &l.attention_out, &l.cross_q, &l.cross_kv,
                           &l.cross_out, &l.ffn_in,        &l.ffn_out};
    for (const Linear* linear : all)
      if (quantised(*linear))
        p->groups = larger(p->groups, static_cast<uint32_t>(groups_of(inputs)));
    const uint64_t page = k.kv_heads * page_floats(k.head_width);
    if (stack == 0 && page > *encoder_page) *encoder_page = page;
  }
}

// The same for what stands before the first block and after the last.
void widen_ends(Plan* p, const Model& m) {
  const Descriptor& d = m.descriptor;
  for (const StackDescriptor& s : d.stacks)
    // a row and its scratch
    if (sinusoidal(s)) p->wide_ld = larger(p->wide_ld, 2 * lanes(input_width(s)));
  for (uint32_t i = 0; i < 2; ++i)
    if (quantised(m.inputs[i].projection))
      p->groups = larger(p->groups, static_cast<uint32_t>(groups_of(d.stacks[i].embedding_width)));
  if (quantised(m.head))
    p->groups = larger(p->groups, static_cast<uint32_t>(groups_of(m.head.weight.cols)));
  if (quantised(m.output))
    p->groups = larger(p->groups, static_cast<uint32_t>(groups_of(m.output.weight.cols)));
}

// Rows and pages of the encoder. Sources that fit a chunk together are encoded together; a longer
// one alone, in several chunks. n sources of c tokens in all take at most (c + 15·n)/16 pages.
// False when there are more than can be counted.
bool plan_groups(Plan* p, const Descriptor& d) {
  if (!d.has(kEncoder)) return true;
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
                                                "quantised rows",
                                                "scores",
                                                "page pointers",
                                                "row table",
                                                "attention weights",
                                                "logits",
                                                "best tokens",
                                                "text scratch",
                                                "sampling",
                                                "beams"};
  return part < kPartCount ? names[part] : "?";
}

phasor_status make_plan(Plan* plan, const Model& m, const phasor_limits& l,
                        phasor_error* error) noexcept {
  const phasor_status status = check_limits(m, l, error);
  if (status != PHASOR_OK) return status;
  const Descriptor& d = m.descriptor;
  Plan p{};
  p.source = l.source;
  p.target = l.target;
  p.sequences = l.sequences;
  p.chunk = l.chunk;
  p.threads = l.threads;
  const bool outputs = d.output.output == kOutputLogits || d.output.output == kOutputClasses;
  p.beams = l.beams;
  p.logit_rows = outputs ? larger(l.logit_rows, l.beams) : 0;
  p.best_rows = outputs ? l.best_rows : 0;
  p.text_bytes = l.text_bytes;
  p.outputs = l.outputs;
  p.tables = l.tables;
  p.cache_type = l.cache_type;
  p.cache_value = static_cast<uint32_t>(sizeof(float)) >> l.cache_type;  // f32, f16, q8
  p.source_pages = static_cast<uint32_t>(panels_of(l.source));
  p.target_pages = static_cast<uint32_t>(panels_of(l.target));
  p.most_pages = larger(p.source_pages, p.target_pages);
  p.score_ld = p.most_pages * static_cast<uint32_t>(kLanes);
  for (const StackDescriptor& s : d.stacks)
    p.ld = larger(p.ld, lanes(larger(s.width, s.embedding_width)));
  p.ld = larger(p.ld, lanes(d.output.head_width));
  // the scratch of a row of positions, an embedding that is projected and a head lie here too
  p.wide_ld = p.ld;
  uint64_t encoder_page = 0;
  widen(&p, m, 0, &encoder_page);
  widen(&p, m, 1, &encoder_page);
  widen_ends(&p, m);
  p.logit_ld = outputs ? lanes(output_width(d)) : 0;
  if (!plan_groups(&p, d))
    return fail(error, PHASOR_TOO_LARGE, {}, "limits: ", p.sequences, " sequences of ", p.source,
                " source positions");
  if (kHasRing && m.window != 0)
    p.ring_pages =
        smaller(p.target_pages, static_cast<uint32_t>(panels_of(m.window + l.chunk - 1)));
  p.slots = l.sequences + (l.beams > 1 ? l.beams - 1 : 0) + (l.beams != 0 && lets_go(p) ? 1 : 0);
  const uint64_t pages = times(p.slots, p.target_pages);
  if (pages > UINT32_MAX)
    return fail(error, PHASOR_TOO_LARGE, {}, "limits: ", p.sequences, " sequences of ", p.target,
                " positions");
  p.pages = static_cast<uint32_t>(pages);

  const uint64_t f = sizeof(float), rows = p.chunk;
  uint64_t* b = p.bytes;
  b[kPartSession] = sizeof(Session);
  b[kPartSequences] = times(p.slots, sizeof(Sequence)) + times(p.sequences, sizeof(Source));
  b[kPartPageTables] = times(pages, 2 * sizeof(uint32_t));
  b[kPartIds] = times(times(p.slots, p.target), sizeof(uint32_t));
  if (l.tables == PHASOR_TABLES_WHOLE) {
    b[kPartSourcePositions] =
        sinusoidal(d.stacks[0]) ? times(times(p.source, input_width(d.stacks[0])), f) : 0;
    b[kPartTargetPositions] =
        sinusoidal(d.stacks[1]) ? times(times(p.target, input_width(d.stacks[1])), f) : 0;
  }
  b[kPartRotary] = times(rotary_floats(p, m, m.descriptor.kinds), f);
  b[kPartEncoder] = times(times(p.encoder_rows, p.ld), f);
  b[kPartEncoderCache] = times(times(p.encoder_pages, encoder_page), f);
  b[kPartCrossCache] = times(times(p.sequences, p.source_pages), cache_bytes(p, m.cross));
  b[kPartCache] = times(pages, cache_bytes(p, m.cache));
  if (kHasRing) {
    b[kPartRingTables] = times(times(p.slots, p.ring_pages), 2 * sizeof(uint32_t));
    b[kPartRing] = times(times(p.slots, p.ring_pages), cache_bytes(p, m.ring));
  }
  b[kPartResidual] = !d.has(kDecoder) ? 0 : times(times(rows, p.ld), f);
  b[kPartNormed] = times(times(rows, p.ld), f);
  b[kPartWide] = times(times(rows, p.wide_ld), f);
  b[kPartAttention] = times(times(rows, p.attention_ld), f);
  b[kPartQuantised] = times(times(rows, p.groups), kGroup + sizeof(float) + sizeof(int32_t));
  b[kPartScores] = times(times(p.threads, uint64_t(kTile) * (p.score_ld + p.scratch_ld)), f);
  b[kPartPointers] = times(times(p.threads, 2 * uint64_t(p.most_pages)), 8);
  b[kPartRows] = times(rows, sizeof(Row) + sizeof(Tile) + sizeof(uint32_t));
  if (kHasViews && (l.outputs & PHASOR_WANT_ATTENTION) != 0)
    b[kPartAttentionWeights] = times(times(times(p.most_heads, rows), p.score_ld), f);
  b[kPartLogits] = times(times(p.logit_rows, p.logit_ld), f);
  b[kPartBest] = plus(best_bytes(p), times(times(times(p.threads, smaller(p.best_rows, p.chunk)),
                                                 smaller(p.logit_ld, kBestLogits)),
                                           f));
  if (l.text_bytes != 0)
    for (uint32_t side = 0; side < 2; ++side) {
      const Tokenizer* t = m.tokenizer(side);
      const uint64_t scratch = t == nullptr ? 0 : tokenizer_scratch_bytes(*t, l.text_bytes),
                     piece = t == nullptr ? 0 : token_decode_capacity(*t);
      if (scratch > b[kPartText]) b[kPartText] = scratch;
      if (piece > b[kPartText]) b[kPartText] = piece;
    }
  // texts that a chat template keeps
  const uint64_t chat = m.file().sections[kSectionChat].bytes != 0 ? times(4, l.text_bytes) : 0;
  if (chat > b[kPartText]) b[kPartText] = chat;
  b[kPartText] = whole(b[kPartText]);  // a text may use what is left of the last line
  if ((l.outputs & PHASOR_WANT_SAMPLING) != 0 && d.has(kDecoder))
    b[kPartSampling] = times(3, times(lanes(output_width(d)), f));
  b[kPartBeams] = times(p.beams, plus(kBeamBytes, times(p.target, sizeof(uint32_t))));
  for (uint32_t i = 0; i < kPartCount; ++i) {
    p.offset[i] = p.total;
    p.total = plus(p.total, whole(b[i]));
    if (kRedZones) p.total = plus(p.total, kZoneBytes);
  }
  if (p.total > SIZE_MAX - 64)
    return fail(error, PHASOR_TOO_LARGE, {PHASOR_NONE, PHASOR_NONE, SIZE_MAX, p.total},
                "the arena for these limits is too large for this machine");
  *plan = p;
  return PHASOR_OK;
}

}  // namespace phasor
