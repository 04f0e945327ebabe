#include "attention.h"

namespace phasor {
namespace {

// One query of a tile: a head of a row.
struct Query {
  const float* q;  // (width)
  float* out;      // (width)
  float* weights;  // a row of kPartAttentionWeights, or NULL
  uint32_t head, position;
  uint32_t first, end;  // the keys that it sees
  // Of merged attention: where the source's keys begin behind them, at a page; how many there are.
  uint32_t source, sources;
};

// One worker's piece: queries that share a key/value head.
struct Work {
  const Session& s;
  const Kernels& k;
  const Heads& h;
  const Heads* source;             // of merged attention: where the encoder's keys and values lie
  Rows<float> scores;              // (kTile, score_ld) of this worker
  Rows<float> scratch;             // (kTile, scratch_ld) terms by distance, or sums of values
  Span<const void*> keys, values;  // (most_pages)
};

// The entries of a table of distances for keys first … end−1 of a query: `left` keys share entry
// `at`, then `count` entries in a row belong to one key each, then `right` keys share the last of
// them.
struct Entries {
  uint32_t at, count, left, right;
};

Entries entries_of(const Query& q, uint32_t reach) {  // the query's own position is among the keys
  const uint32_t low = q.position > reach ? q.position - reach : 0, high = q.position + reach;
  const uint32_t from = q.first > low ? q.first : low, to = q.end - 1 < high ? q.end - 1 : high;
  return {from + reach - q.position, to - from + 1, from - q.first, q.end - 1 - to};
}

// scores += terms (entries.count), by distance.
void add_by_distance(const Work& w, float* scores, const Query& q, const Entries& e,
                     const float* terms) {
  float *left = scores + q.first, *middle = left + e.left, *right = middle + e.count;
  for (uint32_t j = 0; j < e.left; ++j) left[j] = left[j] + terms[0];
  w.k.add(middle, terms, e.count);
  for (uint32_t j = 0; j < e.right; ++j) right[j] = right[j] + terms[e.count - 1];
}

// ((q·k + q·a) + k·a) for up to kTile queries, whose positions count up by `step` (0 or 1): the
// terms that come before the scale; with tables for each head, which is one then, (q·k + q·a) +
// k·b. The queries share each pass over a table: theirs are its entries from the last query's first
// to the first query's last.
void add_relative_keys(const Work& w, const Query* queries, uint32_t count, uint32_t step,
                       size_t ldq) {
  const Heads& h = w.h;
  const size_t ldw = w.s.plan.scratch_ld, ldt = 2 * size_t{h.reach} + 1;
  const bool by_head = h.relative_queries != nullptr;
  const size_t head = by_head ? queries[0].head * h.width * ldt : 0;
  const float *keys = h.relative_keys + head,
              *others = by_head ? h.relative_queries + head : keys;  // of k·a, or k·b
  Entries e[kTile];
  uint32_t low = UINT32_MAX, high = 0, first = UINT32_MAX, end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    e[i] = entries_of(queries[i], h.reach);
    low = e[i].at < low ? e[i].at : low;
    high = e[i].at + e[i].count > high ? e[i].at + e[i].count : high;
    first = queries[i].first < first ? queries[i].first : first;
    end = queries[i].end > end ? queries[i].end : end;
  }
  if (h.position != kThreeWay) {
    w.k.table_scores(w.scratch.rows(0, count, high - low), ldw, queries[0].q, ldq, count,
                     keys + low, ldt, high - low, h.width);
    for (uint32_t i = 0; i < count; ++i)
      add_by_distance(w, w.scores.row(i, queries[i].end), queries[i], e[i],
                      w.scratch.right(e[i].at - low).row(i, e[i].count));
    if (h.position != kRelativeKeyQuery && !by_head) return;
  }
  const bool three_way = h.position == kThreeWay;  // Σ (q∘k)·a in place of q·k
  const float* q = three_way ? queries[0].q : nullptr;
  const Rows<float> out = three_way ? w.scores.right(first) : w.scratch;
  const size_t ldo = static_cast<size_t>(out.stride());
  // Keys first … end − 1 for all queries at once, where the table has an entry for each.
  const uint32_t last = count - 1, entry = first + h.reach - queries[0].position;
  if (first + h.reach >= queries[last].position && entry + (end - first) <= ldt) {
    w.k.key_table_scores(out.rows(0, count, end - first), ldo, q, ldq, count, w.keys.data(), first,
                         end, others + entry, ldt, step, h.width);
  } else {
    for (uint32_t i = 0; i < count; ++i)
      w.k.key_table_scores(
          out.right(queries[i].first - first).row(i, queries[i].end - queries[i].first), ldo,
          q != nullptr ? q + i * ldq : nullptr, ldq, 1, w.keys.data(), queries[i].first,
          queries[i].end, others + e[i].at, ldt, step, h.width);
  }
  for (uint32_t i = 0; i < count && !three_way; ++i)
    w.k.add(w.scores.right(queries[i].first).row(i, queries[i].end - queries[i].first),
            w.scratch.right(queries[i].first - first).row(i, queries[i].end - queries[i].first),
            queries[i].end - queries[i].first);
}

// Weights of one query: products and relative terms in, weights and 1/Σ out (rule 1.9: scale,
// biases, cap).
float weigh(const Work& w, float* scores, const Query& q) {
  const Heads& h = w.h;
  const uint32_t n = q.end - q.first;
  if (n == 0) return w.k.softmax(scores, q.first, q.end);
  float* s = scores + q.first;
  // blocks of 16: what is no key in them does not matter before softmax
  float* whole = scores + q.first / kLanes * kLanes;
  w.k.scale(whole, whole, static_cast<size_t>(scores + lanes(q.end) - whole), h.scale);
  if (kHasT5 && h.bias != nullptr) {
    const Entries e = entries_of(q, h.reach);
    add_by_distance(w, scores, q, e, h.bias + size_t{q.head} * (2 * size_t{h.reach} + 1) + e.at);
  }
  if (kHasAlibi && h.slopes != nullptr)
    w.k.distance_bias(scores, q.first, q.end, q.position, h.slopes[q.head]);
  if (h.cap != 0) w.k.soft_cap(s, n, h.cap);
  if (!kHasMerged || q.sources == 0) return w.k.softmax(scores, q.first, q.end);
  // The two have one softmax (rule 1.25); what is between them adds +0.
  for (uint32_t j = q.end; j < q.source; ++j) scores[j] = -__builtin_inff();
  float* other = scores + q.source;
  w.k.scale(other, other, lanes(q.sources), h.scale);
  if (h.cap != 0) w.k.soft_cap(other, q.sources, h.cap);
  return w.k.softmax(scores, q.first, q.source + q.sources);
}

// out = (Σ e·v + Σ e·b)·inverse (Shaw et al. 2018, equation 3): two chains over the keys, then one
// addition.
void mix_relative(const Work& w, const Query& q, const float* scores, size_t ld, float inverse) {
  const Heads& h = w.h;
  const float one = 1.0f;
  w.k.mix[h.cache](q.out, h.width, scores, ld, &one, 1, w.values.data(), {q.first, q.end, 0, 0},
                   h.width);
  float* sum = w.scratch.row(0, h.width);
  memset(sum, 0, h.width * sizeof(float));
  const Entries e = entries_of(q, h.reach);
  const float* p = scores + q.first;
  const float* table = h.relative_values + size_t{e.at} * h.width;
  w.k.mix_table(sum, p, table, 0, e.left, h.width);
  w.k.mix_table(sum, p + e.left, table, h.width, e.count, h.width);
  w.k.mix_table(sum, p + e.left + e.count, table + size_t{e.count - 1} * h.width, 0, e.right,
                h.width);
  w.k.add(q.out, sum, h.width);
  w.k.scale(q.out, q.out, h.width, inverse);
}

void keep_weights(const Work& w, const Query& q, const float* scores, float inverse) {
  memset(q.weights, 0, w.s.plan.score_ld * sizeof(float));
  w.k.scale(q.weights + q.first, scores + q.first, q.end - q.first, inverse);
  if (w.source != nullptr)
    w.k.scale(q.weights + w.source->weights_at, scores + q.source, q.sources, inverse);
}

// Merged attention of `count` queries: out = (Σ e·v of their own keys + Σ e·v of the source's)·
// inverse (rule 1.25). The first sums are in place.
void mix_source(const Work& w, const Query* queries, uint32_t count, const float* ones,
                const float* inverse) {
  const uint32_t width = w.h.width;
  const KeyRange keys{queries[0].source, queries[0].source + queries[0].sources, 0, 0};
  w.k.mix[w.h.cache](w.scratch.rows(0, count, width), w.s.plan.scratch_ld,
                     w.scores.rows(0, count, keys.end), static_cast<size_t>(w.scores.stride()),
                     ones, count, w.values.data(), keys, width);
  for (uint32_t i = 0; i < count; ++i) {
    w.k.add(queries[i].out, w.scratch.row(i, width), width);
    w.k.scale(queries[i].out, queries[i].out, width, inverse[i]);
  }
}

// What the first *n queries see, as many as see the same keys or ones that move along evenly.
KeyRange seen_by(const Query* q, uint32_t count, uint32_t* n) {
  KeyRange keys{q[0].first, q[0].end, 0, 0};
  if (count > 1 && q[1].first >= q[0].first && q[1].end >= q[0].end)
    keys = {q[0].first, q[0].end, q[1].first - q[0].first, q[1].end - q[0].end};
  for (*n = 1; *n < count && q[*n].first == keys.first + *n * keys.skip &&
               q[*n].end == keys.end + *n * keys.more;)
    ++*n;
  return keys;
}

// Up to kTile queries; ldq and ldo are the distances between their vectors.
void attend_queries(const Work& w, const Query* queries, uint32_t count, size_t ldq, size_t ldo) {
  const Heads& h = w.h;
  const size_t ld = static_cast<size_t>(w.scores.stride());
  uint32_t first = queries[0].first, end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Query& q = queries[i];
    first = q.first < first ? q.first : first;
    end = q.end > end ? q.end : end;
  }
  const uint32_t sources = queries[0].sources;  // their pages come behind the target's
  const size_t page = first / kLanes,
               pages = static_cast<size_t>(panels_of(end) + panels_of(sources)) - page;
  const Rows<float> scores = w.scores.right(page * kLanes);
  if (kHasAdditive && h.additive != nullptr) {
    for (uint32_t i = 0; i < count; ++i)
      w.k.additive_scores(scores.row(i, pages * kLanes), queries[i].q,
                          h.additive + size_t{queries[i].head} * h.width, w.keys.at(page, pages),
                          pages, h.width);
  } else if (h.position != kThreeWay || h.relative_keys == nullptr) {
    w.k.scores[h.cache](scores.rows(0, count, pages * kLanes), ld, queries[0].q, ldq, count,
                        w.keys.at(page, pages), pages, h.width);
  }
  if (kHasRelative && h.relative_keys != nullptr)
    add_relative_keys(w, queries, count, queries[count - 1].position != queries[0].position ? 1 : 0,
                      ldq);
  float inverse[kTile];
  const float ones[kTile] = {1, 1, 1, 1};
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t keys = sources != 0 ? end : queries[i].end;
    float* row = w.scores.row(i, lanes(keys) + lanes(sources));
    inverse[i] = weigh(w, row, queries[i]);
    if (kHasViews && queries[i].weights != nullptr) keep_weights(w, queries[i], row, inverse[i]);
  }
  if (kHasRelative && h.relative_values != nullptr) {
    for (uint32_t i = 0; i < count; ++i)
      mix_relative(w, queries[i], w.scores.row(i, queries[i].end), ld, inverse[i]);
  } else {
    // a key that a row does not see must not enter its chain, not even as +0: another sign of zero
    for (uint32_t i = 0, n; i < count; i += n) {
      const KeyRange keys = seen_by(queries + i, count - i, &n);
      w.k.mix[h.cache](queries[i].out, ldo, w.scores.rows(i, n, end), ld,
                       sources != 0 ? ones : inverse + i, n, w.values.data(), keys, h.width);
    }
  }
  if (kHasMerged && sources != 0) mix_source(w, queries, count, ones, inverse);
}

// The keys that a row sees.
void see_keys(Query* q, const Heads& h, uint32_t count) {
  q->first = 0;
  q->end = h.bidirectional == 0 && q->position + 1 < count ? q->position + 1 : count;
  if (h.window == 0) return;
  const uint32_t before = h.bidirectional != 0 ? (h.window - 1) / 2 : h.window - 1,
                 behind = h.window / 2;
  q->first = q->position > before ? q->position - before : 0;
  if (h.bidirectional != 0 && q->position + behind + 1 < count) q->end = q->position + behind + 1;
}

// The pages begin … end − 1 of a head, whose places a worker has at hand.
struct Known {
  uint32_t kv, sequence, begin, end;
};

// The queries of one tile that share key/value head kv: one row's are the heads of the group, those
// of several rows come head by head.
void attend_tile(const Work& w, const Chunk& c, const Tile& tile, uint32_t kv, Known* known) {
  const Heads& h = w.h;
  const uint32_t group = h.heads / h.kv_heads, begin = kv * group, end = begin + group;
  uint32_t stop = 0, sources = 0;  // pages up to the tile's last key; the source's keys behind them
  const auto query = [&](uint32_t head, uint32_t row) {
    Query one{};
    one.q = c.wide().right(head * h.width).row(row, h.width);
    one.out = c.attention().right(head * h.width).row(row, h.width);
    if (c.wants_weights())
      one.weights = c.weights().row(uint64_t(head) * c.plan.chunk + row, c.plan.score_ld);
    one.head = head;
    one.position = c.rows[row].position;
    see_keys(&one, h, h.keys(w.s, c.rows[row]));
    one.source = stop * kSlots;
    one.sources = sources;
    return one;
  };
  const uint32_t first = query(begin, tile.first).first,
                 last = query(begin, tile.first + tile.count - 1).end;
  const uint64_t key_bytes = h.format().rows_bytes(h.width),
                 head_bytes = h.format().head_bytes(h.width);
  const Row& row = c.rows[tile.first];
  const uint32_t page = first / kSlots;
  stop = blocks_of(last);
  if (known->kv != kv || known->sequence != row.sequence || page < known->begin ||
      page > known->end)
    *known = {kv, row.sequence, page, page};
  for (; known->end < stop; ++known->end) {
    const unsigned char* keys = h.at(w.s, row, known->end) + kv * head_bytes;
    w.keys[known->end] = keys;
    w.values[known->end] = keys + key_bytes;
  }
  if (kHasMerged && w.source != nullptr) {
    sources = w.source->keys(w.s, row);
    for (uint32_t i = 0; i < blocks_of(sources); ++i) {
      const unsigned char* keys = w.source->at(w.s, row, i) + kv * head_bytes;
      w.keys[stop + i] = keys;
      w.values[stop + i] = keys + key_bytes;
    }
  }
  Query queries[kTile];
  if (tile.count == 1) {
    const uint32_t most = h.relative_queries != nullptr ? 1 : kTile;  // heads that share tables
    for (uint32_t head = begin; head < end; head += most) {
      const uint32_t count = end - head < most ? end - head : most;
      for (uint32_t i = 0; i < count; ++i) queries[i] = query(head + i, tile.first);
      attend_queries(w, queries, count, h.width, h.width);
    }
    return;
  }
  for (uint32_t head = begin; head < end; ++head) {
    for (uint32_t i = 0; i < tile.count; ++i) queries[i] = query(head, tile.first + i);
    attend_queries(w, queries, tile.count, c.plan.wide_ld, c.plan.attention_ld);
  }
}

}  // namespace

void attend(const Chunk& c, const Heads& h, const Heads* source) noexcept {
  const Session& s = c.session;
  const Plan& p = c.plan;
  uint64_t cost = 0;
  for (uint32_t t = 0; t < c.tile_count; ++t) {
    const Row& row = c.rows[c.tiles[t].first];
    const uint64_t keys = h.keys(s, row) + uint64_t(source != nullptr ? source->keys(s, row) : 0);
    cost += c.tiles[t].count * keys * h.heads * h.width * 2;
  }
  spread(s, c.tile_count * h.kv_heads, cost, [&](uint32_t first, uint32_t end, uint32_t worker) {
    const uint64_t scores = uint64_t(kTile) * p.score_ld, scratch = uint64_t(kTile) * p.scratch_ld,
                   most = p.most_pages;
    const Span<float> floats =
        s.span<float>(kPartScores, worker * (scores + scratch) * sizeof(float), scores + scratch);
    const Span<const void*> pages =
        s.span<const void*>(kPartPointers, worker * 2 * most * 8, 2 * most);
    const Work w{s,
                 c.kernels,
                 h,
                 source,
                 floats.rows(kTile, p.score_ld),
                 floats.part(scores, scratch).rows(kTile, p.scratch_ld),
                 pages.part(0, most),
                 pages.part(most, most)};
    Known known = {h.kv_heads, 0, 0, 0};
    for (uint32_t unit = first; unit < end; ++unit)
      attend_tile(w, c, c.tiles[unit % c.tile_count], unit / c.tile_count, &known);
  });
}

}  // namespace phasor
