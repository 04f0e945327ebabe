#include "attention.h"

#include "parallel.h"

namespace phasor {
namespace {

// One tile of rows against one key/value head: `query_rows` queries that share it (rows of a tile, or heads of a group).
struct Work {
  Session* s;
  const Kernels* k;
  const Heads* h;
  float* scores;                // (kTile, score_ld) of this worker
  const float** keys;           // (most_pages)
  const float** values;
};

// Weights of one query: scores in, weights and 1/Σ out (rule 1.9: scale, then biases, then the cap).
float weigh(const Work& w, float* scores, uint32_t n) {
  w.k->scale(scores, scores, n, w.h->scale);
  if (w.h->cap != 0) w.k->soft_cap(scores, n, w.h->cap);
  return w.k->softmax(scores, 0, n);
}

// queries: q (count, ldq); ends[i] keys for query i; out (count, ldo); weights, when wanted, (count) rows.
void attend_queries(const Work& w, float* out, size_t ldo, const float* q, size_t ldq, const uint32_t* ends, uint32_t count,
                    float* const* weights) {
  const size_t ld = w.s->plan.score_ld;
  uint32_t most = 0;
  bool same = true;
  for (uint32_t i = 0; i < count; ++i) {
    most = ends[i] > most ? ends[i] : most;
    same = same && ends[i] == ends[0];
  }
  w.k->scores(w.scores, ld, q, ldq, count, w.keys, static_cast<size_t>(panels_of(most)), w.h->width);
  float inverse[kTile];
  for (uint32_t i = 0; i < count; ++i) {
    inverse[i] = weigh(w, w.scores + i * ld, ends[i]);
    if (weights[i] != nullptr) w.k->scale(weights[i], w.scores + i * ld, ends[i], inverse[i]);
  }
  if (same) {
    w.k->mix(out, ldo, w.scores, ld, inverse, count, w.values, 0, ends[0], w.h->width);
    return;
  }
  for (uint32_t i = 0; i < count; ++i)  // a key beyond a row's end would add +0 to its chain: another sign of zero
    w.k->mix(out + i * ldo, ldo, w.scores + i * ld, ld, inverse + i, 1, w.values, 0, ends[i], w.h->width);
}

}  // namespace

void attend(Session* s, float* out, const float* q, const Tile* tiles, uint32_t tile_count, const Row* rows, const Heads& h,
            const KeysOf& keys, uint32_t layer) noexcept {
  const Plan& p = s->plan;
  float* weights = (p.outputs & PHASOR_WANT_ATTENTION) != 0 ? s->part<float>(kPartAttentionWeights) : nullptr;
  const uint32_t group = h.heads / h.kv_heads;
  uint64_t cost = 0;
  for (uint32_t t = 0; t < tile_count; ++t) cost += uint64_t(tiles[t].count) * keys.count(*s, rows[tiles[t].first]) * h.heads * h.width * 2;
  spread(s, tile_count * h.kv_heads, cost, [&](uint32_t first, uint32_t end, uint32_t worker) {
    const float** pointers = reinterpret_cast<const float**>(s->part<unsigned char>(kPartPointers) + uint64_t(worker) * 2 * p.most_pages * 8);
    const Work w{s, s->model->kernels.pointer, &h, s->part<float>(kPartScores) + uint64_t(worker) * kTile * p.score_ld, pointers,
                 pointers + p.most_pages};
    for (uint32_t unit = first; unit < end; ++unit) {
      const Tile& tile = tiles[unit / h.kv_heads];
      const uint32_t kv = unit % h.kv_heads;
      uint32_t ends[kTile], most = 0;
      for (uint32_t i = 0; i < tile.count; ++i) {
        ends[i] = keys.count(*s, rows[tile.first + i]);
        most = ends[i] > most ? ends[i] : most;
      }
      for (uint32_t i = 0; i < panels_of(most); ++i) {
        w.keys[i] = keys.page(*s, rows[tile.first], layer, i) + kv * page_floats(h.width);
        w.values[i] = w.keys[i] + size_t(h.width) * kLanes;
      }
      float* row_weights[kTile];
      const auto weights_at = [&](uint32_t head, uint32_t row) {
        return weights == nullptr ? nullptr : weights + (uint64_t(head) * p.chunk + row) * p.score_ld;
      };
      if (tile.count == 1) {  // one position: the heads of the group share its keys
        for (uint32_t head = kv * group; head < (kv + 1) * group; head += kTile) {
          const uint32_t left = (kv + 1) * group - head, count = left < kTile ? left : kTile;
          uint32_t same[kTile];
          for (uint32_t i = 0; i < count; ++i) {
            same[i] = ends[0];
            row_weights[i] = weights_at(head + i, tile.first);
          }
          attend_queries(w, out + uint64_t(tile.first) * p.attention_ld + head * h.width, h.width,
                         q + uint64_t(tile.first) * p.wide_ld + head * h.width, h.width, same, count, row_weights);
        }
        continue;
      }
      for (uint32_t head = kv * group; head < (kv + 1) * group; ++head) {
        for (uint32_t i = 0; i < tile.count; ++i) row_weights[i] = weights_at(head, tile.first + i);
        attend_queries(w, out + uint64_t(tile.first) * p.attention_ld + head * h.width, p.attention_ld,
                       q + uint64_t(tile.first) * p.wide_ld + head * h.width, p.wide_ld, ends, tile.count, row_weights);
      }
    }
  });
}

void store_keys_values(float* page, uint32_t slot, const float* k, const float* v, uint32_t kv_heads, uint32_t width) noexcept {
  for (uint32_t h = 0; h < kv_heads; ++h, page += page_floats(width)) {
    for (uint32_t d = 0; d < width; ++d) page[d * kLanes + slot] = k[h * width + d];
    memcpy(page + size_t(width) * kLanes + size_t(slot) * lanes(width), v + h * width, width * sizeof(float));
  }
}

}  // namespace phasor
