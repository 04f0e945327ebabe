#include "attention.h"

#include "../kernels/gather.h"

#include "parallel.h"

namespace phasor {
namespace {

// One query of a tile: a head of a row.
struct Query {
  const float* q;  // (width)
  float* out;      // (width)
  float* weights;  // a row of kPartAttentionWeights, or NULL
  uint32_t head, position;
  uint32_t first, end;  // the keys that it sees
};

// Pages of one type; the other views are empty.
struct Pages {
  Span<const float*> f32;
  Span<const uint16_t*> f16;
  Span<const unsigned char*> q8;
};

// One worker's piece: queries that share a key/value head.
struct Work {
  Session* s;
  const Kernels* k;
  const Heads* h;
  Rows<float> scores;   // (kTile, score_ld) of this worker
  Rows<float> scratch;  // (kTile, scratch_ld) terms by distance, or sums of values
  Pages keys, values;   // (most_pages)
};

// Σ e·v (rule 1.6).
void mix(const Work& w, float* out, size_t ldo, const float* e, size_t lde, const float* inverse,
         size_t rows, KeyRange keys) {
  if (kHasCacheF16 && w.values.f16)
    w.k->mix_f16(out, ldo, e, lde, inverse, rows, w.values.f16.data(), keys, w.h->width);
  else if (kHasCacheQ8 && w.values.q8)
    w.k->mix_q8(out, ldo, e, lde, inverse, rows, w.values.q8.data(), keys, w.h->width);
  else
    w.k->mix(out, ldo, e, lde, inverse, rows, w.values.f32.data(), keys, w.h->width);
}

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
  w.k->add(middle, terms, e.count);
  for (uint32_t j = 0; j < e.right; ++j) right[j] = right[j] + terms[e.count - 1];
}

// ((q·k + q·a) + k·a) for up to kTile queries, whose positions count up by `step` (0 or 1): the
// terms that come before the scale. The queries share each pass over the table: theirs are its
// entries from the last query's first to the first query's last.
void add_relative_keys(const Work& w, const Query* queries, uint32_t count, uint32_t step,
                       size_t ldq) {
  const Heads& h = *w.h;
  const size_t ldw = w.s->plan.scratch_ld, ldt = 2 * size_t{h.reach} + 1;
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
    w.k->table_scores(w.scratch.rows(0, count, high - low), ldw, queries[0].q, ldq, count,
                      h.relative_keys + low, ldt, high - low, h.width);
    for (uint32_t i = 0; i < count; ++i)
      add_by_distance(w, w.scores.row(i, queries[i].end), queries[i], e[i],
                      w.scratch.right(e[i].at - low).row(i, e[i].count));
    if (h.position != kRelativeKeyQuery) return;
  }
  const bool three_way = h.position == kThreeWay;  // Σ (q∘k)·a in place of q·k
  const float* q = three_way ? queries[0].q : nullptr;
  const Rows<float> out = three_way ? w.scores.right(first) : w.scratch;
  const size_t ldo = static_cast<size_t>(out.stride());
  // Keys first … end − 1 for all queries at once, where the table has an entry for each.
  const uint32_t last = count - 1, entry = first + h.reach - queries[0].position;
  if (first + h.reach >= queries[last].position && entry + (end - first) <= ldt) {
    w.k->key_table_scores(out.rows(0, count, end - first), ldo, q, ldq, count, w.keys.f32.data(),
                          first, end, h.relative_keys + entry, ldt, step, h.width);
  } else {
    for (uint32_t i = 0; i < count; ++i)
      w.k->key_table_scores(
          out.right(queries[i].first - first).row(i, queries[i].end - queries[i].first), ldo,
          q != nullptr ? q + i * ldq : nullptr, ldq, 1, w.keys.f32.data(), queries[i].first,
          queries[i].end, h.relative_keys + e[i].at, ldt, step, h.width);
  }
  for (uint32_t i = 0; i < count && !three_way; ++i)
    w.k->add(w.scores.right(queries[i].first).row(i, queries[i].end - queries[i].first),
             w.scratch.right(queries[i].first - first).row(i, queries[i].end - queries[i].first),
             queries[i].end - queries[i].first);
}

// Weights of one query: products and relative terms in, weights and 1/Σ out (rule 1.9: scale,
// biases, cap).
float weigh(const Work& w, float* scores, const Query& q) {
  const Heads& h = *w.h;
  const uint32_t n = q.end - q.first;
  if (n == 0) return w.k->softmax(scores, q.first, q.end);
  float* s = scores + q.first;
  // blocks of 16: what is no key in them does not matter before softmax
  float* whole = scores + q.first / kLanes * kLanes;
  w.k->scale(whole, whole, static_cast<size_t>(scores + lanes(q.end) - whole), h.scale);
  if (kHasT5 && h.bias != nullptr) {
    const Entries e = entries_of(q, h.reach);
    add_by_distance(w, scores, q, e, h.bias + size_t{q.head} * (2 * size_t{h.reach} + 1) + e.at);
  }
  if (kHasAlibi && h.slopes != nullptr)
    w.k->distance_bias(scores, q.first, q.end, q.position, h.slopes[q.head]);
  if (h.cap != 0) w.k->soft_cap(s, n, h.cap);
  return w.k->softmax(scores, q.first, q.end);
}

// out = (Σ e·v + Σ e·b)·inverse (Shaw et al. 2018, equation 3): two chains over the keys, then one
// addition.
void mix_relative(const Work& w, const Query& q, const float* scores, size_t ld, float inverse) {
  const Heads& h = *w.h;
  const float one = 1.0f;
  mix(w, q.out, h.width, scores, ld, &one, 1, {q.first, q.end, 0, 0});
  float* sum = w.scratch.row(0, h.width);
  memset(sum, 0, h.width * sizeof(float));
  const Entries e = entries_of(q, h.reach);
  const float* p = scores + q.first;
  const float* table = h.relative_values + size_t{e.at} * h.width;
  w.k->mix_table(sum, p, table, 0, e.left, h.width);
  w.k->mix_table(sum, p + e.left, table, h.width, e.count, h.width);
  w.k->mix_table(sum, p + e.left + e.count, table + size_t{e.count - 1} * h.width, 0, e.right,
                 h.width);
  w.k->add(q.out, sum, h.width);
  w.k->scale(q.out, q.out, h.width, inverse);
}

void keep_weights(const Work& w, const Query& q, const float* scores, float inverse) {
  const uint32_t ld = w.s->plan.score_ld;
  for (uint32_t j = 0; j < q.first; ++j) q.weights[j] = 0;
  w.k->scale(q.weights + q.first, scores + q.first, q.end - q.first, inverse);
  for (uint32_t j = q.end; j < ld; ++j) q.weights[j] = 0;
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
  const Heads& h = *w.h;
  const size_t ld = static_cast<size_t>(w.scores.stride());
  uint32_t first = queries[0].first, end = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const Query& q = queries[i];
    first = q.first < first ? q.first : first;
    end = q.end > end ? q.end : end;
  }
  const size_t page = first / kLanes, pages = static_cast<size_t>(panels_of(end)) - page;
  const Rows<float> scores = w.scores.right(page * kLanes);
  if (kHasAdditive && h.additive != nullptr) {
    for (uint32_t i = 0; i < count; ++i)
      w.k->additive_scores(scores.row(i, pages * kLanes), queries[i].q,
                           h.additive + size_t{queries[i].head} * h.width,
                           w.keys.f32.at(page, pages), pages, h.width);
  } else if (h.position != kThreeWay || h.relative_keys == nullptr) {
    float* s = scores.rows(0, count, pages * kLanes);
    if (kHasCacheF16 && h.cache == PHASOR_CACHE_F16)
      w.k->scores_f16(s, ld, queries[0].q, ldq, count, w.keys.f16.at(page, pages), pages, h.width);
    else if (kHasCacheQ8 && h.cache == PHASOR_CACHE_Q8)
      w.k->scores_q8(s, ld, queries[0].q, ldq, count, w.keys.q8.at(page, pages), pages, h.width);
    else
      w.k->scores(s, ld, queries[0].q, ldq, count, w.keys.f32.at(page, pages), pages, h.width);
  }
  if (kHasRelative && h.relative_keys != nullptr)
    add_relative_keys(w, queries, count, queries[count - 1].position != queries[0].position ? 1 : 0,
                      ldq);
  float inverse[kTile];
  for (uint32_t i = 0; i < count; ++i) {
    float* row = w.scores.row(i, lanes(queries[i].end));
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
      mix(w, queries[i].out, ldo, w.scores.rows(i, n, end), ld, inverse + i, n, keys);
    }
  }
}

// The keys that a row sees.
void see_keys(Query* q, const Heads& h, uint32_t count) {
  q->first = 0;
  q->end = count;
  if (h.window == 0) return;
  const uint32_t before = h.bidirectional != 0 ? h.window / 2 : h.window - 1;
  q->first = q->position > before ? q->position - before : 0;
  if (h.bidirectional != 0 && q->position + before + 1 < count) q->end = q->position + before + 1;
}

// Elements of a head's keys and of its values in a page.
template <class Value>
size_t page_part(uint32_t rows) {
  return size_t(rows) * kLanes;
}
template <>
size_t page_part<unsigned char>(uint32_t rows) {
  return static_cast<size_t>(cache_q8_bytes(rows));
}

// Where the keys and values of a tile's pages are, for one key/value head.
template <class Value>
void find_pages(const Span<const Value*>& keys, const Span<const Value*>& values, const Session& s,
                const Row& row, const KeysOf& of, uint32_t layer, uint32_t width, uint32_t head,
                uint32_t first, uint32_t end) {
  const size_t k = page_part<Value>(width), begin = head * (k + page_part<Value>(lanes(width)));
  for (uint32_t i = first; i < end; ++i) {
    keys[i] = static_cast<const Value*>(of.page(s, row, layer, i)) + begin;
    values[i] = keys[i] + k;
  }
}

// A worker's pointers: none for the types that the cache has not.
template <class Value>
void share_pointers(Span<const Value*>* keys, Span<const Value*>* values, Session* s,
                    uint32_t worker, bool used) {
  if (!used) return;
  const uint64_t most = s->plan.most_pages;
  const Span<const Value*> pointers =
      s->span<const Value*>(kPartPointers, worker * 2 * most * 8, 2 * most);
  *keys = pointers.part(0, most);
  *values = pointers.part(most, most);
}

}  // namespace

void attend(Session* s, const Rows<float>& out, const Rows<const float>& q,
            const Span<const Tile>& tiles, uint32_t tile_count, const Span<const Row>& rows,
            const Heads& h, const KeysOf& keys, uint32_t layer) noexcept {
  const Plan& p = s->plan;
  const bool wanted = kHasViews && (p.outputs & PHASOR_WANT_ATTENTION) != 0;
  const Rows<float> weights =
      wanted ? s->rows<float>(kPartAttentionWeights, uint64_t(p.most_heads) * p.chunk, p.score_ld)
             : Rows<float>();
  const uint32_t group = h.heads / h.kv_heads;
  uint64_t cost = 0;
  for (uint32_t t = 0; t < tile_count; ++t)
    cost += uint64_t(tiles[t].count) * keys.count(*s, rows[tiles[t].first]) * h.heads * h.width * 2;
  spread(s, tile_count * h.kv_heads, cost, [&](uint32_t first, uint32_t end, uint32_t worker) {
    Pages key_pages{}, value_pages{};
    share_pointers(&key_pages.f32, &value_pages.f32, s, worker, h.cache == PHASOR_CACHE_F32);
    if (kHasCacheF16)
      share_pointers(&key_pages.f16, &value_pages.f16, s, worker, h.cache == PHASOR_CACHE_F16);
    if (kHasCacheQ8)
      share_pointers(&key_pages.q8, &value_pages.q8, s, worker, h.cache == PHASOR_CACHE_Q8);
    const uint64_t score_floats = uint64_t(kTile) * p.score_ld,
                   floats = score_floats + uint64_t(kTile) * p.scratch_ld;
    const Span<float> own = s->span<float>(kPartScores, worker * floats * sizeof(float), floats);
    const Work w{s,
                 s->model->kernels.pointer,
                 &h,
                 own.rows(kTile, p.score_ld),
                 own.part(score_floats, uint64_t(kTile) * p.scratch_ld).rows(kTile, p.scratch_ld),
                 key_pages,
                 value_pages};
    for (uint32_t unit = first; unit < end; ++unit) {
      const Tile& tile = tiles[unit / h.kv_heads];
      const uint32_t kv = unit % h.kv_heads;
      const auto query = [&](uint32_t head, uint32_t row) {
        Query one{q.right(head * h.width).row(row, h.width),
                  out.right(head * h.width).row(row, h.width),
                  wanted ? weights.row(uint64_t(head) * p.chunk + row, p.score_ld) : nullptr,
                  head,
                  rows[row].position,
                  0,
                  0};
        see_keys(&one, h, keys.count(*s, rows[row]));
        return one;
      };
      const Query begin = query(0, tile.first), last = query(0, tile.first + tile.count - 1);
      const uint32_t from = begin.first / static_cast<uint32_t>(kLanes),
                     to = static_cast<uint32_t>(panels_of(last.end));
      if (kHasCacheF16 && h.cache == PHASOR_CACHE_F16)
        find_pages(w.keys.f16, w.values.f16, *s, rows[tile.first], keys, layer, h.width, kv, from,
                   to);
      else if (kHasCacheQ8 && h.cache == PHASOR_CACHE_Q8)
        find_pages(w.keys.q8, w.values.q8, *s, rows[tile.first], keys, layer, h.width, kv, from,
                   to);
      else
        find_pages(w.keys.f32, w.values.f32, *s, rows[tile.first], keys, layer, h.width, kv, from,
                   to);
      Query queries[kTile];
      if (tile.count == 1) {  // one position: the heads of the group share its keys
        for (uint32_t head = kv * group; head < (kv + 1) * group; head += kTile) {
          const uint32_t left = (kv + 1) * group - head, count = left < kTile ? left : kTile;
          for (uint32_t i = 0; i < count; ++i) queries[i] = query(head + i, tile.first);
          attend_queries(w, queries, count, h.width, h.width);
        }
        continue;
      }
      for (uint32_t head = kv * group; head < (kv + 1) * group; ++head) {
        for (uint32_t i = 0; i < tile.count; ++i) queries[i] = query(head, tile.first + i);
        attend_queries(w, queries, tile.count, p.wide_ld, p.attention_ld);
      }
    }
  });
}

namespace {

// Sixteen dimensions of all the positions, then the next: a line of a position is read once, and
// the lines that it goes to are at hand.
template <class Value, class Store>
void store_heads(Value* page, uint32_t slot, uint32_t count, const float* k, const float* v,
                 uint64_t ld, uint32_t kv_heads, uint32_t width, Store store) {
  for (uint32_t h = 0; h < kv_heads; ++h, page += page_floats(width), k += width, v += width) {
    for (uint32_t from = 0; from < width; from += kLanes) {
      const uint32_t end = width - from < kLanes ? width : from + static_cast<uint32_t>(kLanes);
      for (uint32_t i = 0; i < count; ++i)
        for (uint32_t d = from; d < end; ++d) page[d * kLanes + slot + i] = store(k[i * ld + d]);
    }
    Value* values = page + size_t(width) * kLanes + size_t(slot) * lanes(width);
    for (uint32_t i = 0; i < count; ++i, values += lanes(width))
      for (uint32_t d = 0; d < width; ++d) values[d] = store(v[i * ld + d]);
  }
}

// One head's keys, or its values, of a position: int8 by rule 1.3, the groups along d. What is not
// finite gives a scale that is NaN (1.14).
void store_q8(const Kernels& kernels, unsigned char* part, size_t (*place)(size_t, size_t),
              uint32_t slot, const float* x, uint32_t width) {
  for (uint32_t d = 0; d < width; d += kGroup) {
    const uint32_t n = width - d < kGroup ? width - d : static_cast<uint32_t>(kGroup);
    int8_t q[kGroup];
    float scale;
    int32_t sum;
    kernels.quantize_row(q, &scale, &sum, x + d, n);
    for (uint32_t i = 0; i < n; ++i) {
      uint32_t bits;
      memcpy(&bits, x + d + i, sizeof bits);
      if (!is_finite_f32(bits)) scale = __builtin_nanf("");
      part[place(slot, d + i)] = static_cast<unsigned char>(q[i]);
    }
    memcpy(part + cache_scale_q8(slot, d), &scale, sizeof scale);
  }
}
void store_heads_q8(const Kernels& kernels, unsigned char* page, uint32_t slot, const float* k,
                    const float* v, uint32_t kv_heads, uint32_t width) {
  for (uint32_t h = 0; h < kv_heads; ++h, k += width, v += width) {
    store_q8(kernels, page, cache_key_q8, slot, k, width);
    page += cache_q8_bytes(width);
    store_q8(kernels, page, cache_value_q8, slot, v, width);
    page += cache_q8_bytes(lanes(width));
  }
}

}  // namespace

void store_keys_values(const Kernels& kernels, void* page, uint32_t cache, uint32_t slot,
                       uint32_t count, const float* k, const float* v, uint64_t ld,
                       uint32_t kv_heads, uint32_t width) noexcept {
  if (kHasCacheQ8 && cache == PHASOR_CACHE_Q8)
    for (uint32_t i = 0; i < count; ++i)
      store_heads_q8(kernels, static_cast<unsigned char*>(page), slot + i, k + i * ld, v + i * ld,
                     kv_heads, width);
  else if (kHasCacheF16 && cache == PHASOR_CACHE_F16)
    store_heads(static_cast<uint16_t*>(page), slot, count, k, v, ld, kv_heads, width, narrow_f16);
  else
    store_heads(static_cast<float*>(page), slot, count, k, v, ld, kv_heads, width,
                [](float x) { return x; });
}

}  // namespace phasor
