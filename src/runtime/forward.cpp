#include "forward.h"

#include "../kernels/gather.h"
#include "attention.h"
#include "parallel.h"
#include "positions.h"

namespace phasor {
namespace {

// A chunk of rows on its way through a stack.
struct Chunk {
  uint32_t stack;         // 0 encoder, 1 decoder
  Rows<float> x;          // (count, ld) the residual
  Span<const Row> rows;   // (count)
  uint32_t count;
  Span<const Tile> tiles; // (tile_count)
  uint32_t tile_count;
  Span<uint32_t> not_finite; // (count) set by a norm that met an infinity or a NaN (rule 1.14)
};

// The input of a linear layer, quantised at most once for all its consumers (rule 1.3).
struct LinearInput {
  Rows<const float> x;  // (count, cols)
  uint32_t cols, count;
  bool quantised;
};

// No logit yet; a later one counts when it is larger, or not a number.
constexpr uint32_t kNothing = PHASOR_NONE - 1;
constexpr Best kNoBest{kNothing, 0};
void keep_best(Best* best, const Best& next) {
  if (best->id == PHASOR_NONE || next.id == kNothing) return;
  if (best->id == kNothing || next.id == PHASOR_NONE || next.logit > best->logit) *best = next;
}

bool is_finite(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return is_finite_f32(bits);
}

class Pass {
 public:
  explicit Pass(Session* session)
      : s_(*session), m_(*session->model.pointer), k_(*m_.kernels.pointer), p_(session->plan) {}

  Session& s_;
  const Model& m_;
  const Kernels& k_;
  const Plan& p_;

  Rows<float> normed() { return s_.rows<float>(kPartNormed, p_.chunk, p_.ld); }
  Rows<float> wide() { return s_.rows<float>(kPartWide, p_.chunk, p_.wide_ld); }
  Rows<float> attention() { return s_.rows<float>(kPartAttention, p_.chunk, p_.attention_ld); }

  // ---- lines of the paper

  // row(r) for each row of a chunk, over the threads; `cost` is a row's in multiply-adds.
  template <class F>
  void each_row(const Chunk& c, uint64_t cost, F row) {
    spread(&s_, c.count, c.count * cost, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first; r < end; ++r) row(r);
    });
  }

  // y = norm(x), row by row, `width` floats of each. The weights are those from place `at` on.
  void norm_rows(const Rows<float>& y, const Rows<const float>& x, uint32_t width, const Chunk& c,
                 const NormTensors& n, uint32_t kind, float eps, uint32_t at = 0) {
    const float *g = m_.floats(n.weight) + at, *b = n.bias ? m_.floats(n.bias) + at : nullptr;
    const auto normalise = kHasRmsNorm && (!kHasLayerNorm || kind == kNormRms) ? k_.rms_norm : k_.layer_norm;
    each_row(c, uint64_t(width) * 4, [&](uint32_t r) {
      const float square = normalise(y.row(r, width), x.row(r, width), g, b, width, eps);
      // Equal values and no epsilon: a division by zero, which a finite mean square does not show.
      if (!is_finite(square) || !(square + eps > 0)) c.not_finite[r] = 1;
    });
  }
  void norm(const Rows<float>& y, const Rows<const float>& x, const Chunk& c, const NormTensors& n,
            uint32_t kind, float eps) {
    norm_rows(y, x, m_.descriptor.stacks[c.stack].width, c, n, kind, eps);
  }
  // The heads of x (count, wide_ld), each by itself or all at once, before the rotation.
  void norm_heads(const Rows<float>& x, uint32_t heads, const Chunk& c, const NormTensors& n,
                  const KindDescriptor& k) {
    if (!n.weight) return;
    if (k.qk_norm_over == kOverAllHeads)
      return norm_rows(x, x, heads * k.head_width, c, n, k.qk_norm, k.norm_eps);
    for (uint32_t h = 0; h < heads; ++h) {
      const Rows<float> head = x.right(h * k.head_width);
      norm_rows(head, head, k.head_width, c, n, k.qk_norm, k.norm_eps,
                k.qk_norm_over == kOverOwnHead ? h * k.head_width : 0);
    }
  }
  // The rows of x (count, wide_ld) within ±limit; 0: as they are.
  void clip(const Rows<float>& x, uint32_t width, const Chunk& c, float limit) {
    if (limit != 0) each_row(c, width, [&](uint32_t r) { k_.clip(x.row(r, width), width, limit); });
  }

  LinearInput input(const Rows<const float>& x, uint32_t cols, uint32_t count) {
    return {x, cols, count, false};
  }

  // The input's rows in int8, where the layer's type wants them and they are not there yet.
  void quantise(LinearInput* in, Type type) {
    if (!quantised_type(type) || in->quantised) return;
    const uint64_t groups = groups_of(in->cols);
    const Quantised to = quantised_rows(groups);
    spread(&s_, in->count, uint64_t(in->count) * in->cols, [&](uint32_t begin, uint32_t end, uint32_t) {
      for (uint64_t r = begin; r < end; ++r)
        k_.quantize_row(to.values.row(r, groups * kGroup), to.scales.row(r, groups),
                        to.sums.row(r, groups), in->x.row(r, in->cols), in->cols);
    });
    in->quantised = true;
  }
  struct Quantised {
    Rows<int8_t> values;  // (chunk, groups, 32)
    Rows<float> scales;   // (chunk, groups)
    Rows<int32_t> sums;   // (chunk, groups)
  };
  Quantised quantised_rows(uint64_t groups) {
    const uint64_t most = uint64_t(p_.chunk) * p_.groups, scales = most * kGroup,
                   sums = scales + most * sizeof(float);
    return {s_.span<int8_t>(kPartQuantised, 0, scales).rows(p_.chunk, groups * kGroup),
            s_.span<float>(kPartQuantised, scales, most).rows(p_.chunk, groups),
            s_.span<int32_t>(kPartQuantised, sums, most).rows(p_.chunk, groups)};
  }

  // y = x·Wᵀ + b for panels begin … end − 1 of the layer, on the calling thread; the input is
  // quantised already.
  void linear_part(const Rows<float>& out, const LinearInput& in, const Linear& l, uint32_t begin,
                   uint32_t end) {
    const Type type = l.weight.type;
    const unsigned char* w = m_.at(l.weight.offset) + begin * panel_bytes(type, in.cols);
    const float* bias = m_.floats(l.bias);
    const uint32_t row = begin * static_cast<uint32_t>(kLanes);
    const float* part_bias = bias != nullptr && row < l.bias.rows ? bias + row : nullptr;
    const uint32_t bias_n = part_bias == nullptr ? 0 : l.bias.rows - row, panels = end - begin;
    const size_t ldy = static_cast<size_t>(out.stride()), ldx = static_cast<size_t>(in.x.stride());
    float* y = out.rows(0, in.count, uint64_t(panels) * kLanes);
    const float* x = in.x.rows(0, in.count, in.cols);
    if (type == Type::f32) {
      k_.linear_f32(y, ldy, x, ldx, in.count, reinterpret_cast<const float*>(w), part_bias, bias_n,
                    panels, in.cols);
    } else if (quantised_type(type)) {
      const uint64_t groups = groups_of(in.cols);
      const Quantised q = quantised_rows(groups);
      (type == Type::q8 ? k_.linear_q8 : k_.linear_q4)(
          y, ldy, q.values.rows(0, in.count, groups * kGroup), q.scales.rows(0, in.count, groups),
          q.sums.rows(0, in.count, groups), in.count, w, part_bias, bias_n, panels,
          static_cast<size_t>(groups));
    } else {
      (type == Type::f16 ? k_.linear_f16 : k_.linear_bf16)(y, ldy, x, ldx, in.count, w, part_bias,
                                                           bias_n, panels, in.cols);
    }
  }
  static uint64_t linear_cost(const LinearInput& in, uint32_t panels) { return uint64_t(panels) * kLanes * in.cols * in.count; }

  // y = x·Wᵀ + b for panels first … first + panels − 1 of the layer.
  void linear(const Rows<float>& y, LinearInput* in, const Linear& l, uint32_t first,
              uint32_t panels) {
    quantise(in, l.weight.type);
    spread(&s_, panels, linear_cost(*in, panels), [&](uint32_t begin, uint32_t end, uint32_t) {
      linear_part(y.right(uint64_t(begin) * kLanes), *in, l, first + begin, first + end);
    });
  }
  void linear(const Rows<float>& y, LinearInput in, const Linear& l) {
    linear(y, &in, l, 0, l.weight.panels);
  }

  // x += what a sub-layer gave (in the rows of `normed`), then the norm after the residual where there is one; or the norm
  // of what the sub-layer gave, then the residual.
  void residual(const Chunk& c, const KindDescriptor& k, const NormTensors& after) {
    const uint32_t width = m_.descriptor.stacks[c.stack].width;
    const bool of_sublayer = k.norm_place == kNormBoth || k.norm_place == kNormSublayer;
    if (k.residual_scale != 1)
      each_row(c, width, [&](uint32_t r) {
        k_.scale(normed().row(r, width), normed().row(r, width), width, k.residual_scale);
      });
    if (of_sublayer) norm(normed(), normed(), c, after, k.norm, k.norm_eps);
    each_row(c, width,
             [&](uint32_t r) { k_.add(c.x.row(r, width), normed().row(r, width), width); });
    if (after.weight && !of_sublayer) norm(c.x, c.x, c, after, k.norm, k.norm_eps);
  }

  // What a sub-layer reads: norm(x), or x itself where the norm comes after; times the scales of its channels.
  LinearInput sublayer_input(const Chunk& c, const KindDescriptor& k, const NormTensors& before, const Tensor& scale) {
    const uint32_t width = m_.descriptor.stacks[c.stack].width;
    if (k.norm_place == kNormSublayer) test_finite(c, c.x, width);  // no norm sees x itself
    if (!before.weight && !scale) return input(c.x, width, c.count);
    if (before.weight) norm(normed(), c.x, c, before, k.norm, k.norm_eps);
    for (uint32_t r = 0; r < c.count && scale; ++r) {
      float* y = normed().row(r, width);
      if (!before.weight) memcpy(y, c.x.row(r, width), width * sizeof(float));
      k_.mul(y, m_.floats(scale), width);
    }
    return input(normed(), width, c.count);
  }

  // Rotary positions: the heads at x (count, wide_ld) turn by their row's angles.
  void rotate(const Chunk& c, const Rows<float>& x, uint32_t heads, uint32_t kind) {
    const KindDescriptor& k = m_.kind(kind);
    if (k.rotary_width == 0) return;
    each_row(c, uint64_t(heads) * k.rotary_width * 4, [&](uint32_t r) {
      rotate_row(&s_, x.row(r, heads * k.head_width), heads, kind, c.rows[r].position, r);
    });
  }

  void (*activation(uint32_t which) const)(float*, size_t) {
    return which == kRelu ? k_.relu : which == kGeluErf ? k_.gelu_erf : which == kGeluTanh ? k_.gelu_tanh : k_.silu;
  }

  // Position-wise feed-forward (section 3.3): out(activation(in(x))), gated or plain.
  void feed_forward(const Chunk& c, const Layer& l, const KindDescriptor& k, LinearInput in) {
    linear(wide(), in, l.ffn_in);
    const auto activate = activation(k.activation);
    each_row(c, uint64_t(k.hidden) * 4, [&](uint32_t r) {
      float* h = wide().row(r, k.hidden);
      activate(h, k.hidden);
      if (k.gated != 0) k_.mul(h, wide().right(lanes(k.hidden)).row(r, k.hidden), k.hidden);
    });
    linear(normed(), input(wide(), k.hidden, c.count), l.ffn_out);
    residual(c, k, l.ffn_after);
  }

  // Attention over keys and values that are in their pages; q lies in `wide`, the heads' values go to `attention`.
  void attend_pages(const Chunk& c, const Heads& heads, const KeysOf& keys, uint32_t layer, uint32_t what) {
    attend(&s_, attention(), wide(), c.tiles, c.tile_count, c.rows, heads, keys, layer);
    if (kHasViews && (p_.outputs & PHASOR_WANT_ATTENTION) != 0) show_attention(c, heads, keys, layer, what);
  }
  void add_attention(const Chunk& c, const Heads& heads, const Linear& out, const KindDescriptor& k, const NormTensors& after) {
    linear(normed(), input(attention(), heads.heads * heads.width, c.count), out);
    residual(c, k, after);
  }

  // The `bytes` of a layer's heads in a page of a row: `of` bytes from the page's begin; a page of
  // the encoder belongs to one layer.
  using PageOf = void* (Pass::*)(const Row& row, uint32_t page, uint64_t of, uint64_t bytes);
  void* encoder_page(const Row& row, uint32_t page, uint64_t, uint64_t bytes) {
    return s_.span<unsigned char>(kPartEncoderCache, (row.page + uint64_t(page)) * bytes, bytes)
        .at(0, bytes);
  }
  void* decoder_page(const Row& row, uint32_t page, uint64_t of, uint64_t bytes) {
    return s_.cache_page(s_.page_table(row.sequence)[page]).at(of, bytes);
  }
  void* ring_page(const Row& row, uint32_t page, uint64_t of, uint64_t bytes) {
    return s_.ring_page_at(row.sequence, page).at(of, bytes);
  }
  void* source_page(const Row& row, uint32_t page, uint64_t of, uint64_t bytes) {
    return s_.cross_page(s_.sequences()[row.sequence].source, page).at(of, bytes);
  }
  static uint64_t encoder_page_bytes(const KindDescriptor& k) {
    return k.kv_heads * page_floats(k.head_width) * sizeof(float);
  }
  static uint64_t heads_bytes(const Plan& p, uint32_t heads, uint32_t width) {
    CacheSize size{};
    add_heads(&size, heads, width);
    return cache_bytes(p, size);
  }

  // Keys (heads · width, in the first values of each row) and the values behind them to their
  // pages, as many rows at a time as share one.
  void store_chunk(const Chunk& c, const Rows<const float>& k, uint32_t cache, uint32_t heads,
                   uint32_t width, PageOf page_of, uint64_t of, uint64_t bytes) {
    const uint32_t kv = lanes(heads * width);
    spread(&s_, c.count, uint64_t(c.count) * kv * 16, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first, next; r < end; r = next) {
        const Row& row = c.rows[r];
        for (next = r + 1; next < end && c.rows[next].sequence == row.sequence && c.rows[next].position % kLanes != 0;) ++next;
        const uint32_t many = next - r;
        void* page = (this->*page_of)(row, row.position / static_cast<uint32_t>(kLanes), of, bytes);
        store_keys_values(k_, page, cache, row.position % kLanes, many,
                          k.rows(r, many, heads * width), k.right(kv).rows(r, many, heads * width),
                          k.stride(), heads, width);
      }
    });
  }

  // Self-attention and, in a parallel block, the feed-forward of the same x: it is added first, while `in`, which attention has read, is there.
  void self_attention(const Chunk& c, const Layer& l, const KindDescriptor& k, const KeysOf& keys, uint32_t layer, LinearInput in) {
    const Heads heads = self_heads(c, l, k);
    attend_pages(c, heads, keys, layer, PHASOR_SEE_SELF_ATTENTION);
    if (k.parallel != kSerial) feed_forward(c, l, k, k.parallel == kSharedInput ? in : sublayer_input(c, k, l.ffn_before, l.ffn_scale));
    add_attention(c, heads, l.attention_out, k, l.attention_after);
  }

  Heads self_heads(const Chunk& c, const Layer& l, const KindDescriptor& k) const {
    const KindTables& t = m_.tables(l.kind);
    const uint32_t distances = relative_keys(k) || k.position == kT5Bias ? reach(k) : 0;
    return {k.heads, k.kv_heads, k.head_width, k.scale, k.cap, k.window, c.stack == 0 ? 1u : 0u, k.position, distances,
            m_.floats(l.relative_keys), m_.floats(l.relative_values), m_.floats(t.bias), m_.floats(t.slopes), m_.floats(l.score), c.stack == 1 ? p_.cache_type : uint32_t{PHASOR_CACHE_F32}};
  }
  Heads cross_heads(const Layer& l, const KindDescriptor& k) const {  // no positions here (rule 1.9)
    return {k.cross_heads, k.cross_kv_heads, k.cross_head_width, k.cross_scale, k.cap, 0, 1, kRotaryNone, 0, nullptr, nullptr, nullptr, nullptr,
            m_.floats(l.cross_score), p_.cache_type};
  }

  // ---- the encoder

  static const void* encoder_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
    const KindDescriptor& k = s.model->kind(s.model->layer(0, layer));
    return s
        .span<unsigned char>(kPartEncoderCache, (row.page + uint64_t(page)) * encoder_page_bytes(k),
                             encoder_page_bytes(k))
        .data();
  }
  static uint32_t encoder_count(const Session& s, const Row& row) { return s.sequences()[row.sequence].encoded; }

  // Keys and values of a chunk of the source.
  void encoder_keys_values(const Chunk& c, const Layer& l, const KindDescriptor& k, LinearInput* in) {
    const uint32_t q_panels = static_cast<uint32_t>(panels_of(q_width(k))), kv = lanes(kv_width(k));
    linear(wide(), in, l.qkv, q_panels, l.qkv.weight.panels - q_panels);
    clip(wide(), 2 * kv, c, k.qkv_clip);
    norm_heads(wide(), k.kv_heads, c, l.k_norm, k);
    rotate(c, wide(), k.kv_heads, l.kind);
    store_chunk(c, wide(), PHASOR_CACHE_F32, k.kv_heads, k.head_width, &Pass::encoder_page, 0,
                encoder_page_bytes(k));
  }

  // The rest of an encoder block for a chunk, when the keys and values of the whole source are there.
  void encoder_block(const Chunk& c, const Layer& l, const KindDescriptor& k, uint32_t layer, LinearInput in) {
    linear(wide(), &in, l.qkv, 0, static_cast<uint32_t>(panels_of(q_width(k))));
    clip(wide(), q_width(k), c, k.qkv_clip);
    norm_heads(wide(), k.heads, c, l.q_norm, k);
    rotate(c, wide(), k.heads, l.kind);
    self_attention(c, l, k, {encoder_keys, encoder_count}, layer, in);
    if (k.parallel == kSerial) feed_forward(c, l, k, sublayer_input(c, k, l.ffn_before, l.ffn_scale));
  }

  // ---- the decoder

  static const void* decoder_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
    const Layer& l = s.model->layer(1, layer);
    const KindDescriptor& k = s.model->kind(l);
    return s.layer_page(row.sequence, l, page)
        .at(cache_bytes(s.plan, l.cache_offset), heads_bytes(s.plan, k.kv_heads, k.head_width));
  }
  static uint32_t decoder_count(const Session&, const Row& row) { return row.position + 1; }
  static const void* source_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
    const Layer& l = s.model->layer(1, layer);
    const KindDescriptor& k = s.model->kind(l);
    return s.cross_page(s.sequences()[row.sequence].source, page)
        .at(cache_bytes(s.plan, l.cross_offset),
            heads_bytes(s.plan, k.cross_kv_heads, k.cross_head_width));
  }
  static uint32_t source_count(const Session& s, const Row& row) { return s.sources()[s.sequences()[row.sequence].source].length; }

  void decoder_block(const Chunk& c, const Layer& l, const KindDescriptor& k, uint32_t layer) {
    const uint32_t q = lanes(q_width(k)), kv = lanes(kv_width(k));
    LinearInput in = sublayer_input(c, k, l.attention_before, l.qkv_scale);
    linear(wide(), &in, l.qkv, 0, l.qkv.weight.panels);
    clip(wide(), q + 2 * kv, c, k.qkv_clip);
    norm_heads(wide(), k.heads, c, l.q_norm, k);
    norm_heads(wide().right(q), k.kv_heads, c, l.k_norm, k);
    rotate(c, wide(), k.heads, l.kind);
    rotate(c, wide().right(q), k.kv_heads, l.kind);
    store_chunk(c, wide().right(q), p_.cache_type, k.kv_heads, k.head_width,
                m_.ringed(l) ? &Pass::ring_page : &Pass::decoder_page,
                cache_bytes(p_, l.cache_offset), heads_bytes(p_, k.kv_heads, k.head_width));
    self_attention(c, l, k, {decoder_keys, decoder_count}, layer, in);
    if (k.cross != 0) {
      linear(wide(), sublayer_input(c, k, l.cross_before, Tensor{}), l.cross_q);
      const Heads heads = cross_heads(l, k);
      attend_pages(c, heads, {source_keys, source_count}, layer, PHASOR_SEE_CROSS_ATTENTION);
      add_attention(c, heads, l.cross_out, k, l.cross_after);
    }
    if (k.parallel == kSerial) feed_forward(c, l, k, sublayer_input(c, k, l.ffn_before, l.ffn_scale));
  }

  // Keys and values of cross-attention for a chunk of the encoder's output, for every decoder block.
  void cross_keys_values(const Chunk& c) {
    LinearInput in = input(c.x, m_.descriptor.stacks[0].width, c.count);
    for (uint32_t i = 0; i < m_.layer_count[1]; ++i) {
      const Layer& l = m_.layer(1, i);
      const KindDescriptor& k = m_.kind(l);
      linear(wide(), &in, l.cross_kv, 0, l.cross_kv.weight.panels);
      store_chunk(c, wide(), p_.cache_type, k.cross_kv_heads, k.cross_head_width,
                  &Pass::source_page, cache_bytes(p_, l.cross_offset),
                  heads_bytes(p_, k.cross_kv_heads, k.cross_head_width));
    }
  }

  // Logits of the rows that want them: final norm, output matrix, scale and cap.
  void output(const Chunk& c) {
    const StackDescriptor& d = m_.descriptor.stacks[1];
    uint32_t count = 0, first = 0;
    for (uint32_t r = 0; r < c.count; ++r) {
      if (c.rows[r].logits == 0) continue;
      const Rows<float> y = normed().below(count);
      if (count++ == 0) first = c.rows[r].logits - 1;
      memcpy(y.row(0, d.width), c.x.row(r, d.width), d.width * sizeof(float));
      const Chunk one{1, y, c.rows.part(r, 1), 1, {}, 0, c.not_finite.part(r, 1)};
      if (m_.final_norms[1].weight) norm(y, y, one, m_.final_norms[1], d.final_norm, d.final_norm_eps);
      else test_finite(one, y, d.width);  // no norm sees what the last block gave
      show(one, PHASOR_SEE_FINAL, m_.layer_count[1]);
    }
    if (count == 0) return;
    const LinearInput in = head({1, normed(), {}, count, {}, 0, {}});
    if (s_.best != 0)
      best_tokens(in, first);
    else
      logits(in, first);
  }

  // Rows of logits or classes from `first` on: output matrix, scale and cap.
  void logits(LinearInput in, uint32_t first) {
    const uint32_t width = m_.output.weight.rows, count = in.count;
    const Rows<float> logits = s_.logit_rows().below(first);
    linear(logits, in, m_.output);
    for (uint32_t r = 0; r < count; ++r) scale_logits(logits.row(r, width), width);
  }
  void scale_logits(float* row, uint32_t n) {
    const OutputDescriptor& o = m_.descriptor.output;
    if (o.scale != 1) k_.scale(row, row, n, o.scale);
    if (o.cap != 0) k_.soft_cap(row, n, o.cap);
  }

  // The best tokens of rows from `first` on: each worker goes through its outputs a few panels at a time and keeps the largest of each row; the
  // workers' are merged in the order of the outputs (rule 1.15).
  void best_tokens(LinearInput in, uint32_t first) {
    constexpr uint32_t kPanels = kBestLogits / static_cast<uint32_t>(kLanes);
    const uint32_t width = m_.output.weight.rows, panels = m_.output.weight.panels, ld = p_.logit_ld < kBestLogits ? p_.logit_ld : kBestLogits;
    const uint32_t rows = p_.best_rows < p_.chunk ? p_.best_rows : p_.chunk;
    const Span<Best> best = s_.span<Best>(kPartBest, 0, p_.best_rows);
    const uint64_t each = uint64_t(rows) * ld;
    const auto found_by = [&](uint32_t worker) {
      return s_.span<Best>(kPartBest, (uint64_t(worker) + 1) * p_.best_rows * sizeof(Best),
                           p_.best_rows);
    };
    for (uint32_t worker = 0; worker < p_.threads; ++worker)
      for (uint32_t r = 0; r < in.count; ++r) found_by(worker)[r] = kNoBest;
    quantise(&in, m_.output.weight.type);
    const auto logits_of = [&](uint32_t worker) {
      const uint64_t at = best_bytes(p_) + worker * each * sizeof(float);
      return s_.span<float>(kPartBest, at, each).rows(rows, ld);
    };
    spread(&s_, panels, linear_cost(in, panels), [&](uint32_t begin, uint32_t end, uint32_t worker) {
      const Rows<float> logits = logits_of(worker);
      const Span<Best> found = found_by(worker);
      for (uint32_t at = begin; at < end; at += kPanels) {
        const uint32_t stop = end - at < kPanels ? end : at + kPanels, id = at * static_cast<uint32_t>(kLanes);
        linear_part(logits, in, m_.output, at, stop);
        const uint32_t n = stop * static_cast<uint32_t>(kLanes) < width ? stop * static_cast<uint32_t>(kLanes) - id : width - id;
        for (uint32_t r = 0; r < in.count; ++r) {
          float* row = logits.row(r, n);
          scale_logits(row, n);
          Best one{0, 0};
          const size_t where = k_.argmax(row, n, &one.logit);
          one.id = where < n ? id + static_cast<uint32_t>(where) : PHASOR_NONE;
          keep_best(&found[r], one);
        }
      }
    });
    for (uint32_t r = 0; r < in.count; ++r) {
      best[first + r] = kNoBest;
      for (uint32_t worker = 0; worker < p_.threads; ++worker)
        keep_best(&best[first + r], found_by(worker)[r]);
    }
  }

  // What the output matrix reads: norm(activation(dense(x))), each step where the head has it (a decoder's has no norm).
  LinearInput head(const Chunk& c) {
    return input(head_rows(c), output_inputs(m_.descriptor), c.count);
  }
  Rows<float> head_rows(const Chunk& c) {
    const OutputDescriptor& o = m_.descriptor.output;
    const uint32_t width = output_inputs(m_.descriptor), inputs = m_.descriptor.stacks[c.stack].width;
    if (m_.head.weight) linear(wide(), input(c.x, inputs, c.count), m_.head);
    const Rows<float> y = m_.head.weight ? wide() : c.x;
    for (uint32_t r = 0; r < c.count; ++r) {
      if (o.head_activation == kHeadTanh) k_.soft_cap(y.row(r, width), width, 1.0f);  // 1·tanh(x·1)
      if (o.head_activation != kHeadNone && o.head_activation != kHeadTanh)
        activation(o.head_activation)(y.row(r, width), width);
    }
    if (m_.head_norm.weight) norm_rows(y, y, width, c, m_.head_norm, o.head_norm, o.head_norm_eps);
    return y;
  }

  // ---- both stacks

  void test_finite(const Chunk& c, const Rows<const float>& x, uint32_t width) const {
    for (uint32_t r = 0; r < c.count; ++r) {
      const float* row = x.row(r, width);
      for (uint32_t i = 0; i < width; ++i)
        if (!is_finite(row[i])) c.not_finite[r] = 1;
    }
  }

  // embedding · scale, and its projection where that comes first.
  void embed_ids(const Chunk& c, const phasor_item* items, const Rows<float>& out) {
    const StackDescriptor& d = m_.descriptor.stacks[c.stack];
    const Input& in = m_.inputs[c.stack];
    const uint32_t width = d.embedding_width;
    const Rows<float> rows = d.projection_place != 0 ? normed() : out;
    for (uint32_t r = 0; r < c.count; ++r) {
      const Row& row = c.rows[r];
      float* x = rows.row(r, width);
      if (row.id != PHASOR_NONE)
        gather_row(x, m_.at(in.embedding.offset), in.embedding.type, in.embedding.layout, in.embedding.rows, in.embedding.cols, row.id);
      else
        memcpy(x, items[row.item].embeddings + row.embedding, width * sizeof(float));
      if (d.embedding_scale != 1) k_.scale(x, x, width, d.embedding_scale);
    }
    if (d.projection_place == 0) return;
    test_finite(c, rows, width);  // before it is rounded to int8, which would hide a NaN
    linear(out, input(rows, width, c.count), in.projection);
  }

  // projection(norm(embedding · scale + segment + position)), or the projection first.
  void embed(const Chunk& c, const phasor_item* items) {
    const StackDescriptor& d = m_.descriptor.stacks[c.stack];
    const Input& in = m_.inputs[c.stack];
    const uint32_t width = input_width(d);
    const bool last = in.projection.weight && d.projection_place == 0;
    const Rows<float> out = last ? normed() : c.x;
    embed_ids(c, items, out);
    for (uint32_t r = 0; r < c.count; ++r) {
      const Row& row = c.rows[r];
      float* x = out.row(r, width);
      if (in.segments) k_.add(x, m_.floats(in.segments) + uint64_t(row.segment) * width, width);
      if (in.positions) {
        k_.add(x, m_.floats(in.positions) + uint64_t(row.position) * width, width);
      } else if (in.inv_freq && p_.tables == PHASOR_TABLES_WHOLE) {
        const Part table = c.stack == 0 ? kPartSourcePositions : kPartTargetPositions;
        k_.add(x,
               s_.rows<float>(table, c.stack == 0 ? p_.source : p_.target, width)
                   .row(row.position, width),
               width);
      } else if (in.inv_freq) {  // the row and its scratch lie in `wide`, which is not in use yet
        float* sinusoid = wide().row(0, width);
        sinusoid_row(sinusoid, wide().right(lanes(width)).row(0, width), m_, c.stack, row.position);
        k_.add(x, sinusoid, width);
      }
    }
    if (in.norm.weight)
      norm_rows(out, out, width, c, in.norm, d.embedding_norm, d.embedding_norm_eps);
    else if (last) test_finite(c, out, width);  // before it is rounded to int8, which would hide a NaN
    if (last) linear(c.x, input(out, width, c.count), in.projection);
    show(c, PHASOR_SEE_EMBEDDING, 0);
  }

  // Fails the sequences whose rows met something not finite in this layer, once.
  phasor_status finite(const Chunk& c, uint32_t layer, phasor_error* error) {
    phasor_status status = PHASOR_OK;
    for (uint32_t r = 0; r < c.count; ++r) {
      Sequence& q = s_.sequences()[c.rows[r].sequence];
      if (c.not_finite[r] == 0 || q.status != PHASOR_OK) continue;
      q.status = PHASOR_NOT_FINITE;
      status = fail(error, PHASOR_NOT_FINITE, {PHASOR_NONE, layer, 0, c.rows[r].sequence}, c.stack == 0 ? "encoder" : "decoder", " layer ", layer,
                    ": a value of sequence ", c.rows[r].sequence, " at position ", c.rows[r].position, " is not finite");
    }
    return status;
  }

  bool stopped(uint32_t stack, uint32_t layer) {
    return s_.progress.pointer != nullptr &&
           s_.progress.pointer(s_.user.pointer, stack == 0 ? kStackEncoder : kStackDecoder, layer, m_.layer_count[stack]) != 0;
  }

  // Rows of the residual, a sequence at a time.
  void show(const Chunk& c, uint32_t what, uint32_t layer) {
    if (!kHasViews || s_.see.pointer == nullptr) return;
    for (uint32_t r = 0, end; r < c.count; r = end) {
      end = run_end(c, r);
      const phasor_view view{sizeof(phasor_view),
                             what,
                             c.stack == 0 ? kStackEncoder : kStackDecoder,
                             layer,
                             c.rows[r].sequence,
                             c.rows[r].position,
                             end - r,
                             m_.descriptor.stacks[c.stack].width,
                             1,
                             0,
                             p_.ld,
                             0,
                             c.x.rows(r, end - r, p_.ld)};
      s_.see.pointer(s_.user.pointer, &view);
    }
  }
  void show_attention(const Chunk& c, const Heads& heads, const KeysOf& keys, uint32_t layer, uint32_t what) {
    if (!kHasViews || s_.see.pointer == nullptr) return;
    const Rows<float> weights =
        s_.rows<float>(kPartAttentionWeights, uint64_t(p_.most_heads) * p_.chunk, p_.score_ld);
    for (uint32_t r = 0, end; r < c.count; r = end) {
      end = run_end(c, r);
      const uint32_t most = keys.count(s_, c.rows[end - 1]);
      const phasor_view view{sizeof(phasor_view),
                             what,
                             c.stack == 0 ? kStackEncoder : kStackDecoder,
                             layer,
                             c.rows[r].sequence,
                             c.rows[r].position,
                             end - r,
                             most,
                             heads.heads,
                             0,
                             p_.score_ld,
                             size_t(p_.chunk) * p_.score_ld,
                             weights.rows(r, end - r, p_.score_ld)};
      s_.see.pointer(s_.user.pointer, &view);
    }
  }
  static uint32_t run_end(const Chunk& c, uint32_t r) {
    uint32_t end = r + 1;
    while (end < c.count && c.rows[end].sequence == c.rows[r].sequence) ++end;
    return end;
  }

  // The row table's tiles: up to kTile rows of one sequence.
  Span<Row> row_table() { return s_.span<Row>(kPartRows, 0, p_.chunk); }
  Chunk chunk(uint32_t stack, const Rows<float>& x, uint32_t count) {
    const Span<Row> rows = row_table();
    const Span<Tile> tiles = s_.span<Tile>(kPartRows, p_.chunk * sizeof(Row), p_.chunk);
    const Span<uint32_t> flags =
        s_.span<uint32_t>(kPartRows, p_.chunk * (sizeof(Row) + sizeof(Tile)), p_.chunk);
    uint32_t n = 0;
    for (uint32_t r = 0; r < count; ++r) {
      flags[r] = 0;
      if (n != 0 && tiles[n - 1].count < kTile && rows[r - 1].sequence == rows[r].sequence && tiles[n - 1].first + tiles[n - 1].count == r)
        ++tiles[n - 1].count;
      else
        tiles[n++] = {r, 1};
    }
    return {stack, x, rows, count, tiles, n, flags};
  }
};

// Sources that are encoded together: as many as a chunk holds, or one that is longer.
struct Group {
  const phasor_item* items;
  uint32_t count, tokens;
  Rows<float> x;  // (tokens, ld) one after the other
};

// Rows first … of a group; returns the chunk that holds them.
Chunk source_chunk(Pass* pass, const Group& g, uint32_t first) {
  const uint32_t left = g.tokens - first, count = left < pass->p_.chunk ? left : pass->p_.chunk;
  const Span<Row> rows = pass->row_table();
  uint32_t item = 0, page = 0, position = first;  // only a group of one begins beyond its first row
  for (uint32_t r = 0; r < count; ++r, ++position) {
    if (position == g.items[item].count) {
      page += static_cast<uint32_t>(panels_of(position));
      position = 0;
      ++item;
    }
    const phasor_item& it = g.items[item];
    rows[r] = {it.sequence, position, it.ids != nullptr ? it.ids[position] : PHASOR_NONE, 0, uint64_t(position) * pass->m_.descriptor.stacks[0].embedding_width,
               item, page, it.segments != nullptr ? it.segments[position] : 0, 0};
  }
  return pass->chunk(0, g.x.below(first), count);
}

phasor_status run_encoder(Pass* pass, const Group& g, phasor_error* error) {
  const Model& m = pass->m_;
  const uint32_t step = pass->p_.chunk;
  phasor_status status = PHASOR_OK;
  const auto note = [&](phasor_status now) { status = status == PHASOR_OK ? now : status; };
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    pass->embed(c, g.items);
    note(pass->finite(c, 0, error));
  }
  for (uint32_t i = 0; i < m.layer_count[0]; ++i) {
    if (pass->stopped(0, i)) return fail(error, PHASOR_STOPPED, {PHASOR_NONE, i, 0, 0}, "stopped before encoder layer ", i);
    const Layer& l = m.layer(0, i);
    const KindDescriptor& k = m.kind(l);
    LinearInput in{};
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      in = pass->sublayer_input(c, k, l.attention_before, l.qkv_scale);
      pass->encoder_keys_values(c, l, k, &in);
      note(pass->finite(c, i, error));  // the loop below begins with new flags
    }
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      if (g.tokens > step) in = pass->sublayer_input(c, k, l.attention_before, l.qkv_scale);  // a single chunk's input is still there
      pass->encoder_block(c, l, k, i, in);
      note(pass->finite(c, i, error));
      pass->show(c, PHASOR_SEE_RESIDUAL, i);
    }
  }
  const StackDescriptor& d = m.descriptor.stacks[0];
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    if (m.final_norms[0].weight)
      pass->norm(c.x, c.x, c, m.final_norms[0], d.final_norm, d.final_norm_eps);
    else
      pass->test_finite(c, c.x, d.width);  // no norm sees what the last block gave
    note(pass->finite(c, m.layer_count[0], error));
    pass->show(c, PHASOR_SEE_FINAL, m.layer_count[0]);
  }
  return status;
}

// Says that no hidden states are kept.
void forget_hidden(Session* s) {
  for (uint32_t i = 0; i < s->plan.sequences; ++i) s->sequences()[i].encoded = 0;
}

// The pooled vector (D) of `rows` hidden states.
void pool(const Pass& pass, float* y, const Rows<const float>& hidden, uint32_t rows,
          uint32_t pooling) {
  const uint32_t width = pass.m_.descriptor.stacks[0].width;
  if (pooling != kPoolMean) {
    memcpy(y, hidden.row(pooling == kPoolLast ? rows - 1 : 0, width), width * sizeof(float));
    return;
  }
  memset(y, 0, width * sizeof(float));
  for (uint32_t r = 0; r < rows; ++r) pass.k_.add(y, hidden.row(r, width), width);
  pass.k_.scale(y, y, width, 1.0f / static_cast<float>(rows));
}

// Rows first … first + count − 1 of a sequence's hidden states, or its pooled vector, at the start of `normed`.
Chunk output_chunk(Pass* pass, uint32_t sequence, uint32_t pooling, uint32_t first, uint32_t count) {
  const Sequence& q = pass->s_.sequences()[sequence];
  const Rows<float> hidden = pass->s_.hidden_rows().below(q.hidden), y = pass->normed();
  const uint64_t ld = pass->p_.ld;
  if (pooling != kPoolNone)
    pool(*pass, y.row(0, pass->m_.descriptor.stacks[0].width), hidden, q.encoded, pooling);
  else
    memcpy(y.rows(0, count, ld), hidden.rows(first, count, ld),
           static_cast<size_t>(count * ld * sizeof(float)));
  const Span<Row> rows = pass->row_table();
  for (uint32_t r = 0; r < count; ++r) rows[r] = {sequence, first + r, PHASOR_NONE, 0, 0, 0, 0, 0, 0};
  return pass->chunk(0, y, count);
}

// A position's keys and values take the place of those that are one round of the ring before it.
void let_go(Session* s, uint32_t sequence, uint32_t position) {
  const uint32_t held = s->plan.ring_pages * static_cast<uint32_t>(kLanes);
  Sequence& q = s->sequences()[sequence];
  if (held != 0 && position >= held && q.kept < position + 1 - held) q.kept = position + 1 - held;
}

}  // namespace

phasor_status encode_sources(Session* s, const phasor_item* items, uint32_t count, phasor_error* error) noexcept {
  Pass pass(s);
  const Plan& p = s->plan;
  const bool crossing = s->model->descriptor.stack == kEncoderDecoder;
  phasor_status status = PHASOR_OK;
  forget_hidden(s);
  uint32_t hidden = 0;
  for (uint32_t first = 0, end; first < count; first = end) {
    if (crossing) {  // the hidden states of one group at a time
      forget_hidden(s);
      hidden = 0;
    }
    Group g{items + first, 0, 0, s->hidden_rows().below(hidden)};
    for (end = first; end < count && (end == first || items[end].count <= p.chunk - g.tokens); ++end) {
      s->sequences()[items[end].sequence].encoded = items[end].count;
      s->sequences()[items[end].sequence].hidden = hidden;
      hidden += items[end].count;
      g.tokens += items[end].count;
      ++g.count;
      if (g.tokens > p.chunk) {
        ++end;
        break;
      }
    }
    const phasor_status now = run_encoder(&pass, g, status == PHASOR_OK ? error : nullptr);
    if (now == PHASOR_STOPPED) {
      forget_hidden(s);
      return now;
    }
    status = status == PHASOR_OK ? now : status;
    if (!crossing) continue;
    for (uint32_t i = 0; i < g.count; ++i) sequence_new_source(s, g.items[i].sequence, g.items[i].count);
    for (uint32_t row = 0; row < g.tokens; row += p.chunk) pass.cross_keys_values(source_chunk(&pass, g, row));
  }
  return status;
}

phasor_status encoder_output(Session* s, uint32_t sequence, uint32_t first, uint32_t count, phasor_error* error) noexcept {
  Pass pass(s);
  const OutputDescriptor& o = s->model->descriptor.output;
  s->logits = 0;
  for (uint32_t done = 0; done < count;) {
    const uint32_t left = count - done, n = left < s->plan.chunk ? left : s->plan.chunk;
    const Chunk c = output_chunk(&pass, sequence, o.pooling, first + done, n);
    pass.logits(pass.head(c), done);
    const phasor_status status = pass.finite(c, s->model->layer_count[0], error);
    if (status != PHASOR_OK) return status;
    done += n;
  }
  s->logits = count;
  return PHASOR_OK;
}

phasor_status embedding(Session* s, uint32_t sequence, uint32_t pooling, bool normalise,
                        uint32_t dim, const float** out, phasor_error* error) noexcept {
  Pass pass(s);
  const Chunk c = output_chunk(&pass, sequence, pooling, 0, 1);
  float* y =
      (s->model->descriptor.output.output == kOutputPooled ? pass.head_rows(c) : c.x).row(0, dim);
  if (normalise) pass.k_.unit(y, y, dim);
  *out = y;
  return pass.finite(c, s->model->layer_count[0], error);
}

phasor_status decode_step(Session* s, const phasor_item* items, uint32_t count, phasor_error* error) noexcept {
  Pass pass(s);
  const Model& m = pass.m_;
  phasor_status status = PHASOR_OK;
  const auto note = [&](phasor_status now) { status = status == PHASOR_OK ? now : status; };
  const Rows<float> x = s->rows<float>(kPartResidual, s->plan.chunk, s->plan.ld);
  s->logits = 0;
  uint32_t item = 0, done = 0;  // the next token to take: of which item, and which of its tokens
  while (item < count) {
    // Fill a chunk with the tokens of as many items as it holds.
    const Span<Row> rows = pass.row_table();
    uint32_t n = 0;
    const uint32_t logits_before = s->logits;
    for (; n < s->plan.chunk && item < count; ++n) {
      const phasor_item& it = items[item];
      const bool last = done + 1 == it.count;
      const bool wanted = wants_all(it.logits) || (it.logits != PHASOR_LOGITS_NONE && last);
      const uint32_t position = s->sequences()[it.sequence].length + done;
      rows[n] = {it.sequence, position, it.ids != nullptr ? it.ids[done] : PHASOR_NONE, wanted ? ++s->logits : 0,
                 uint64_t(done) * m.descriptor.stacks[1].embedding_width, item, 0, it.segments != nullptr ? it.segments[done] : 0, 0};
      s->ids(it.sequence)[position] = rows[n].id;
      if (kHasRing) let_go(s, it.sequence, position);
      done = last ? 0 : done + 1;
      item += last ? 1u : 0u;
    }
    const Chunk c = pass.chunk(1, x, n);
    pass.embed(c, items);
    note(pass.finite(c, 0, error));
    for (uint32_t i = 0; i < m.layer_count[1]; ++i) {
      if (pass.stopped(1, i)) {
        s->logits = logits_before;
        return fail(error, PHASOR_STOPPED, {PHASOR_NONE, i, 0, 0}, "stopped before decoder layer ", i);
      }
      const Layer& l = m.layer(1, i);
      pass.decoder_block(c, l, m.kind(l), i);
      note(pass.finite(c, i, error));
      pass.show(c, PHASOR_SEE_RESIDUAL, i);
    }
    pass.output(c);
    note(pass.finite(c, m.layer_count[1], error));
  }
  for (uint32_t i = 0; i < count; ++i) s->sequences()[items[i].sequence].length += items[i].count;
  return status;
}

}  // namespace phasor
