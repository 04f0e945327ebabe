// runtime: the plan of an arena. One function computes every part's size and place from the model
// and the limits, before any memory exists; the same function carves the memory. No sizes of
// pointers or of this machine enter it (rule 3.1).
#pragma once
#include "cache.h"

namespace phasor {

constexpr uint32_t kTile = 4;  // query rows that share a pass over keys and values
// logits of a row that are computed at once when only the best token is wanted
constexpr uint32_t kBestLogits = 256;
// of an item of a step, more than it has anywhere: it has pointers
constexpr uint32_t kItemBytes = 64;
static_assert(sizeof(phasor_item) <= kItemBytes, "the plan is the same on every machine");
// of a beam: its state, two candidates, a finished output, an item of a step; besides that output's
// ids
constexpr uint32_t kBeamBytes = 256;
constexpr uint32_t kSearchBytes = 64;  // of a beam search, besides its beams
constexpr uint32_t kJobBytes = 128;    // of a sequence, where there are several

// The parts of an arena, in order. Each begins at a multiple of 64 bytes.
enum Part : uint32_t {
  kPartSession,
  kPartSequences,   // (slots) Sequence, then (sequences) Source
  kPartPageTables,  // (slots, target_pages) u32, then (pages) u32 reference counts
  // (slots, ring_pages) u32, the page's number + 1 or 0; then (slots · ring_pages) u32 reference
  // counts
  kPartRingTables,
  kPartIds,              // (slots, target) u32
  kPartSourcePositions,  // (source, D) sinusoids
  kPartTargetPositions,  // (target, D)
  // (kinds, longest) cosines and sines; or (chunk, widest) when rows are computed as needed
  kPartRotary,
  kPartEncoder,           // (encoder_rows, ld) residual, at the end the output
  kPartEncoderCache,      // (encoder_pages, kv heads) pages of the layer at hand
  kPartCrossCache,        // (sequences, source_pages) pages of all decoder layers
  kPartCache,             // (pages) pages of the decoder layers that see all positions
  kPartRing,              // (slots · ring_pages) pages of those with a window
  kPartResidual,          // (chunk, ld)
  kPartNormed,            // (chunk, ld)
  kPartWide,              // (chunk, wide_ld) q,k,v; feed-forward
  kPartAttention,         // (chunk, attention_ld) heads, side by side
  kPartPerLayer,          // (chunk, per_layer_ld) per-layer embeddings, layer by layer
  kPartQuantized,         // (chunk) rows of int8, their scales and sums
  kPartScores,            // (threads) kTile rows of score_ld, then kTile rows of scratch_ld
  kPartPointers,          // (threads, 2, most pages) of keys and of values
  kPartRows,              // (chunk) Row, (chunk) Tile, (chunk) flags
  kPartAttentionWeights,  // (heads, chunk, score_ld), when they are wanted
  kPartLogits,            // (logit_rows, logit_ld)
  // (1 + threads, best_rows) Best: the rows' and each worker's; (threads, best_rows or chunk,
  // kBestLogits) logits
  kPartBest,
  kPartText,      // scratch of the tokenizers, or the text of one token
  kPartWords,     // what a tokenizer remembers of texts (text/recent.h)
  kPartSampling,  // (3, V) scores, weights, and an order or counts, when they are wanted
  kPartBeams,     // what beam searches keep beside their sequences (decode/beam_state.h)
  kPartJobs,      // (sequences) items of a step, (sequences) states of texts (decode/jobs.h)
  // (sequences + 1) of each source, and of all rows of a chunk: u32, 1 when there is a shortlist,
  // then a bit for each token; when they are wanted
  kPartShortlists,
  // (slots) u32, positions that are added up, or PHASOR_NONE; (slots, source) what each position of
  // the source has got of cross-attention's weights in these; when it is wanted
  kPartCoverage,
  kPartCount
};

const char* part_name(uint32_t part) noexcept;

// How the inputs of a matrix are rounded: in groups of 32, row by row, or row by row and rotated
// (rules 1.3, 1.18, 1.19); to 8 bits, or behind those to 16 (rule 1.21); last in groups to 8 bits
// and rotated (rule 1.29).
enum : uint32_t { kGrouped, kByRow, kRotated, kWidths, kRotatedGroups = 2 * kWidths, kRoundings };
constexpr uint32_t rounding_of(const Tensor& t) {
  if (has_rotated_inputs(t)) return kRotatedGroups;
  return (!has_row_scale(t.type) ? uint32_t{kGrouped}
          : rotated_type(t.type) ? uint32_t{kRotated}
                                 : uint32_t{kByRow}) +
         (has_wide_inputs(t) ? uint32_t{kWidths} : 0u);
}
constexpr uint64_t planes_of(uint32_t rounding) { return rounding / kWidths == 1 ? 2 : 1; }
constexpr bool in_groups(uint32_t rounding) { return rounding % kWidths == kGrouped; }

struct alignas(8) Plan {
  uint64_t offset[kPartCount];
  uint64_t bytes[kPartCount];  // of the values, before they are rounded up to 64
  uint64_t total;
  uint32_t source, target, sequences, chunk, threads, logit_rows, best_rows, text_bytes, outputs,
      tables, cache_type, beams;
  uint32_t searches;  // at the same time; 0 without beams
  // sequences, those that the beams of each search have beside the one that they came from, and
  // where the ring goes on that one as it was
  uint32_t slots;
  // hidden states that are kept: all of a call for an encoder, those of a group for an
  // encoder-decoder
  uint32_t encoder_rows;
  uint32_t encoder_pages;  // pages of 16 positions of the sources that are encoded together
  uint32_t source_pages, target_pages, pages;
  // of a sequence: round_up(window + chunk − 1, 16) positions (rule 1.7), at most target_pages; 0
  // when no decoder layer has a window
  uint32_t ring_pages;
  uint32_t ld;  // floats of a row of residuals: the wider stack's width in whole lanes
  uint32_t wide_ld, attention_ld, per_layer_ld, score_ld, scratch_ld, logit_ld, most_pages,
      most_heads;
  // by kind of rounding: groups of 32 of the widest input, 0 when no matrix asks for it
  uint32_t widest[kRoundings];
};

// Where the rows of a rounding lie in kPartQuantized: their values, then their scales and sums. The
// roundings lie one after the other.
struct RoundedRows {
  uint64_t at, values, scales, sums;  // bytes; of all rows
  uint64_t end() const { return at + values + scales + sums; }
};
inline RoundedRows rounded_rows(const Plan& p, uint32_t rounding) {
  RoundedRows rows = {};
  for (uint32_t i = 0; i <= rounding; ++i) {
    const uint64_t groups = uint64_t{p.chunk} * p.widest[i],
                   scales = in_groups(i) ? groups : p.widest[i] != 0 ? p.chunk : 0;
    rows = {rows.end(), groups * kGroup * planes_of(i), scales * sizeof(float),
            scales * sizeof(int32_t) * planes_of(i)};
  }
  return rows;
}

inline const CacheFormat& cache_of(const Plan& p) { return *cache_format(p.cache_type); }

// Words of 32 tokens, of a shortlist.
inline uint32_t shortlist_words(uint32_t vocabulary) { return vocabulary / 32 + 1; }

// Whether the ring lets go of positions before the limits end.
inline bool lets_go(const Plan& p) {
  return kHasRing && p.ring_pages < p.target_pages && p.ring_pages != 0;
}

// Where the states of beam searches lie in kPartBeams, behind the items of their steps.
inline uint64_t search_states_at(const Plan& p) {
  return uint64_t{p.searches} * p.beams * kItemBytes;
}

// Checks the limits against the model and fills *plan.
[[nodiscard]] phasor_status make_plan(Plan* plan, const Model& model, const phasor_limits& limits,
                                      phasor_error* error) noexcept;

}  // namespace phasor
