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
  float* x;               // (count, ld) the residual
  const Row* rows;        // (count)
  uint32_t count;
  const Tile* tiles;      // (tile_count)
  uint32_t tile_count;
  uint32_t* not_finite;   // (count) set by a norm that met an infinity or a NaN (rule 1.14)
};

// The input of a linear layer, quantised at most once for all its consumers (rule 1.3).
struct LinearInput {
  const float* x;  // (count, ld)
  uint64_t ld;
  uint32_t cols, count;
  bool quantised;
};

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

  float* normed() { return s_.part<float>(kPartNormed); }
  float* wide() { return s_.part<float>(kPartWide); }
  float* attention() { return s_.part<float>(kPartAttention); }

  // ---- lines of the paper

  // y = norm(x), row by row.
  void norm(float* y, const float* x, const Chunk& c, const NormTensors& n, uint32_t kind, float eps) {
    const uint32_t width = m_.descriptor.stacks[c.stack].width;
    const float *g = m_.floats(n.weight), *b = m_.floats(n.bias);
    const auto normalise = kind == kNormRms ? k_.rms_norm : k_.layer_norm;
    spread(&s_, c.count, uint64_t(c.count) * width * 4, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first; r < end; ++r)
        if (!is_finite(normalise(y + uint64_t(r) * p_.ld, x + uint64_t(r) * p_.ld, g, b, width, eps))) c.not_finite[r] = 1;
    });
  }

  LinearInput input(const float* x, uint64_t ld, uint32_t cols, uint32_t count) { return {x, ld, cols, count, false}; }

  // y (count, ldy) = x·Wᵀ + b for panels first … first + panels − 1 of the layer.
  void linear(float* y, uint64_t ldy, LinearInput* in, const Linear& l, uint32_t first, uint32_t panels) {
    const unsigned char* w = m_.at(l.weight.offset);
    const uint64_t bytes = panel_bytes(l.weight.type, in->cols);
    const float* bias = m_.floats(l.bias);
    const uint32_t bias_rows = l.bias.rows;
    const size_t groups = static_cast<size_t>(groups_of(in->cols));
    const size_t ld_out = static_cast<size_t>(ldy), ld_in = static_cast<size_t>(in->ld);
    int8_t* q = s_.part<int8_t>(kPartQuantised);
    float* scales = reinterpret_cast<float*>(q + uint64_t(p_.chunk) * p_.groups * kGroup);
    int32_t* sums = reinterpret_cast<int32_t*>(scales + uint64_t(p_.chunk) * p_.groups);
    const bool q8 = l.weight.type == Type::q8;
    if (q8 && !in->quantised) {
      spread(&s_, in->count, uint64_t(in->count) * in->cols, [&](uint32_t begin, uint32_t end, uint32_t) {
        for (uint64_t r = begin; r < end; ++r)
          k_.quantize_row(q + r * groups * kGroup, scales + r * groups, sums + r * groups, in->x + r * in->ld, in->cols);
      });
      in->quantised = true;
    }
    spread(&s_, panels, uint64_t(panels) * kLanes * in->cols * in->count, [&](uint32_t begin, uint32_t end, uint32_t) {
      const uint32_t at = first + begin, row = at * static_cast<uint32_t>(kLanes);
      const float* part_bias = bias != nullptr && row < bias_rows ? bias + row : nullptr;
      const uint32_t bias_n = part_bias == nullptr ? 0 : bias_rows - row;
      float* out = y + size_t{begin} * kLanes;
      const unsigned char* part = w + at * bytes;
      if (q8)
        k_.linear_q8(out, ld_out, q, scales, sums, in->count, part, part_bias, bias_n, end - begin, groups);
      else
        k_.linear_f32(out, ld_out, in->x, ld_in, in->count, reinterpret_cast<const float*>(part), part_bias, bias_n, end - begin, in->cols);
    });
  }
  void linear(float* y, uint64_t ldy, LinearInput in, const Linear& l) { linear(y, ldy, &in, l, 0, l.weight.panels); }

  // x += what a sub-layer gave (in the rows of `normed`), then the norm after the residual where there is one.
  void residual(const Chunk& c, const KindDescriptor& k, const NormTensors& after) {
    const uint32_t width = m_.descriptor.stacks[c.stack].width;
    for (uint32_t r = 0; r < c.count; ++r) {
      float* y = normed() + uint64_t(r) * p_.ld;
      if (k.residual_scale != 1) k_.scale(y, y, width, k.residual_scale);
      k_.add(c.x + uint64_t(r) * p_.ld, y, width);
    }
    if (after.weight) norm(c.x, c.x, c, after, k.norm, k.norm_eps);
  }

  // What a sub-layer reads: norm(x), or x itself where the norm comes after.
  LinearInput sublayer_input(const Chunk& c, const KindDescriptor& k, const NormTensors& before) {
    const uint32_t width = m_.descriptor.stacks[c.stack].width;
    if (!before.weight) return input(c.x, p_.ld, width, c.count);
    norm(normed(), c.x, c, before, k.norm, k.norm_eps);
    return input(normed(), p_.ld, width, c.count);
  }

  // Rotary positions: the heads at x (count, wide_ld) turn by their row's angles.
  void rotate(const Chunk& c, float* x, uint32_t heads, uint32_t kind) {
    if (m_.kind(kind).rotary_width == 0) return;
    for (uint32_t r = 0; r < c.count; ++r) rotate_row(&s_, x + uint64_t(r) * p_.wide_ld, heads, kind, c.rows[r].position, r);
  }

  // Position-wise feed-forward (section 3.3): out(activation(in(x))), gated or plain.
  void feed_forward(const Chunk& c, const Layer& l, const KindDescriptor& k) {
    linear(wide(), p_.wide_ld, sublayer_input(c, k, l.ffn_before), l.ffn_in);
    const auto activate = k.activation == kRelu ? k_.relu : k.activation == kGeluErf ? k_.gelu_erf : k.activation == kGeluTanh ? k_.gelu_tanh : k_.silu;
    spread(&s_, c.count, uint64_t(c.count) * k.hidden * 4, [&](uint32_t first, uint32_t end, uint32_t) {
      for (uint32_t r = first; r < end; ++r) {
        float* h = wide() + uint64_t(r) * p_.wide_ld;
        activate(h, k.hidden);
        if (k.gated != 0) k_.mul(h, h + lanes(k.hidden), k.hidden);
      }
    });
    linear(normed(), p_.ld, input(wide(), p_.wide_ld, k.hidden, c.count), l.ffn_out);
    residual(c, k, l.ffn_after);
  }

  // Attention over keys and values that are in their pages; q lies in `wide`.
  void attend_and_add(const Chunk& c, const Heads& heads, const KeysOf& keys, uint32_t layer, const Linear& out, const KindDescriptor& k,
                      const NormTensors& after, uint32_t what) {
    attend(&s_, attention(), wide(), c.tiles, c.tile_count, c.rows, heads, keys, layer);
    if ((p_.outputs & PHASOR_WANT_ATTENTION) != 0) show_attention(c, heads, keys, layer, what);
    linear(normed(), p_.ld, input(attention(), p_.attention_ld, heads.heads * heads.width, c.count), out);
    residual(c, k, after);
  }

  static Heads self_heads(const KindDescriptor& k) { return {k.heads, k.kv_heads, k.head_width, k.scale, k.cap}; }
  static Heads cross_heads(const KindDescriptor& k) {
    return {k.cross_heads, k.cross_kv_heads, k.cross_head_width, k.cross_scale, k.cap};
  }

  // ---- the encoder

  float* encoder_page(const KindDescriptor& k, uint32_t page) {
    return s_.part<float>(kPartEncoderCache) + page * (k.kv_heads * page_floats(k.head_width));
  }
  static const float* encoder_keys(const Session& s, const Row&, uint32_t layer, uint32_t page) {
    const KindDescriptor& k = s.model->kind(s.model->layer(0, layer));
    return s.part<float>(kPartEncoderCache) + page * (k.kv_heads * page_floats(k.head_width));
  }
  static uint32_t encoder_count(const Session& s, const Row& row) { return s.sequences()[row.sequence].encoded; }

  // Keys and values of a chunk of the source.
  void encoder_keys_values(const Chunk& c, const Layer& l, const KindDescriptor& k, LinearInput* in) {
    const uint32_t q_panels = static_cast<uint32_t>(panels_of(q_width(k))), kv = lanes(kv_width(k));
    linear(wide(), p_.wide_ld, in, l.qkv, q_panels, l.qkv.weight.panels - q_panels);
    rotate(c, wide(), k.kv_heads, l.kind);
    for (uint32_t r = 0; r < c.count; ++r) {
      const float* row = wide() + uint64_t(r) * p_.wide_ld;
      const uint32_t position = c.rows[r].position;
      store_keys_values(encoder_page(k, position / kLanes), position % kLanes, row, row + kv, k.kv_heads, k.head_width);
    }
  }

  // The rest of an encoder block for a chunk, when the keys and values of the whole source are there.
  void encoder_block(const Chunk& c, const Layer& l, const KindDescriptor& k, uint32_t layer, LinearInput in) {
    linear(wide(), p_.wide_ld, &in, l.qkv, 0, static_cast<uint32_t>(panels_of(q_width(k))));
    rotate(c, wide(), k.heads, l.kind);
    attend_and_add(c, self_heads(k), {encoder_keys, encoder_count}, layer, l.attention_out, k, l.attention_after, PHASOR_SEE_SELF_ATTENTION);
    feed_forward(c, l, k);
  }

  // ---- the decoder

  static const float* decoder_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
    return s.cache_page(s.page_table(row.sequence)[page]) + s.model->layer(1, layer).cache_offset;
  }
  static uint32_t decoder_count(const Session&, const Row& row) { return row.position + 1; }
  static const float* source_keys(const Session& s, const Row& row, uint32_t layer, uint32_t page) {
    return s.cross_page(s.sequences()[row.sequence].source, page) + s.model->layer(1, layer).cross_offset;
  }
  static uint32_t source_count(const Session& s, const Row& row) { return s.sources()[s.sequences()[row.sequence].source].length; }

  void decoder_block(const Chunk& c, const Layer& l, const KindDescriptor& k, uint32_t layer) {
    const uint32_t q = lanes(q_width(k)), kv = lanes(kv_width(k));
    linear(wide(), p_.wide_ld, sublayer_input(c, k, l.attention_before), l.qkv);
    rotate(c, wide(), k.heads, l.kind);
    rotate(c, wide() + q, k.kv_heads, l.kind);
    for (uint32_t r = 0; r < c.count; ++r) {
      const float* row = wide() + uint64_t(r) * p_.wide_ld;
      const uint32_t position = c.rows[r].position;
      float* page = s_.cache_page(s_.page_table(c.rows[r].sequence)[position / kLanes]) + l.cache_offset;
      store_keys_values(page, position % kLanes, row + q, row + q + kv, k.kv_heads, k.head_width);
    }
    attend_and_add(c, self_heads(k), {decoder_keys, decoder_count}, layer, l.attention_out, k, l.attention_after, PHASOR_SEE_SELF_ATTENTION);
    if (k.cross != 0) {
      linear(wide(), p_.wide_ld, sublayer_input(c, k, l.cross_before), l.cross_q);
      attend_and_add(c, cross_heads(k), {source_keys, source_count}, layer, l.cross_out, k, l.cross_after, PHASOR_SEE_CROSS_ATTENTION);
    }
    feed_forward(c, l, k);
  }

  // Keys and values of cross-attention for a chunk of the encoder's output, for every decoder block.
  void cross_keys_values(const Chunk& c, uint32_t source) {
    LinearInput in = input(c.x, p_.ld, m_.descriptor.stacks[0].width, c.count);
    for (uint32_t i = 0; i < m_.layer_count[1]; ++i) {
      const Layer& l = m_.layer(1, i);
      const KindDescriptor& k = m_.kind(l);
      linear(wide(), p_.wide_ld, &in, l.cross_kv, 0, l.cross_kv.weight.panels);
      for (uint32_t r = 0; r < c.count; ++r) {
        const float* row = wide() + uint64_t(r) * p_.wide_ld;
        const uint32_t position = c.rows[r].position;
        store_keys_values(s_.cross_page(source, position / kLanes) + l.cross_offset, position % kLanes, row, row + lanes(cross_kv_width(k)),
                          k.cross_kv_heads, k.cross_head_width);
      }
    }
  }

  // Logits of the rows that want them: final norm, output matrix, scale and cap.
  void output(const Chunk& c) {
    const StackDescriptor& d = m_.descriptor.stacks[1];
    uint32_t count = 0, first = 0;
    for (uint32_t r = 0; r < c.count; ++r) {
      float* y = normed() + uint64_t(count) * p_.ld;
      if (c.rows[r].logits == 0) continue;
      if (count++ == 0) first = c.rows[r].logits - 1;
      memcpy(y, c.x + uint64_t(r) * p_.ld, d.width * sizeof(float));
      const Chunk one{1, y, &c.rows[r], 1, nullptr, 0, &c.not_finite[r]};
      if (m_.final_norms[1].weight) norm(y, y, one, m_.final_norms[1], d.final_norm, d.final_norm_eps);
      show(one, PHASOR_SEE_FINAL, m_.layer_count[1]);
    }
    if (count == 0) return;
    const uint32_t vocabulary = m_.descriptor.sides[1].vocabulary;
    float* logits = s_.part<float>(kPartLogits) + uint64_t(first) * p_.logit_ld;
    linear(logits, p_.logit_ld, input(normed(), p_.ld, d.width, count), m_.output);
    const OutputDescriptor& o = m_.descriptor.output;
    for (uint32_t r = 0; r < count; ++r) {
      float* row = logits + uint64_t(r) * p_.logit_ld;
      if (o.scale != 1) k_.scale(row, row, vocabulary, o.scale);
      if (o.cap != 0) k_.soft_cap(row, vocabulary, o.cap);
    }
  }

  // ---- both stacks

  // Embedding × scale + position, then the embedding's norm.
  void embed(const Chunk& c, const phasor_item* items) {
    const StackDescriptor& d = m_.descriptor.stacks[c.stack];
    const Input& in = m_.inputs[c.stack];
    float* scratch = normed();
    for (uint32_t r = 0; r < c.count; ++r) {
      const Row& row = c.rows[r];
      float* x = c.x + uint64_t(r) * p_.ld;
      if (row.id != PHASOR_NONE)
        gather_row(x, m_.at(in.embedding.offset), in.embedding.type, in.embedding.layout, in.embedding.rows, in.embedding.cols, row.id);
      else
        memcpy(x, items[row.item].embeddings + row.embedding, d.width * sizeof(float));
      if (d.embedding_scale != 1) k_.scale(x, x, d.width, d.embedding_scale);
      if (in.positions) {
        k_.add(x, m_.floats(in.positions) + uint64_t(row.position) * d.width, d.width);
      } else if (in.inv_freq && p_.tables == PHASOR_TABLES_WHOLE) {
        k_.add(x, s_.part<float>(c.stack == 0 ? kPartSourcePositions : kPartTargetPositions) + uint64_t(row.position) * d.width, d.width);
      } else if (in.inv_freq) {  // the row lies in `normed`, its scratch in `wide`: neither is in use yet
        sinusoid_row(scratch, wide(), m_, c.stack, row.position);
        k_.add(x, scratch, d.width);
      }
    }
    if (in.norm.weight) norm(c.x, c.x, c, in.norm, d.embedding_norm, d.embedding_norm_eps);
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
    if (s_.see.pointer == nullptr) return;
    for (uint32_t r = 0, end; r < c.count; r = end) {
      end = run_end(c, r);
      const phasor_view view{sizeof(phasor_view), what, c.stack == 0 ? kStackEncoder : kStackDecoder, layer, c.rows[r].sequence, c.rows[r].position,
                             end - r, m_.descriptor.stacks[c.stack].width, 1, 0, p_.ld, 0, c.x + uint64_t(r) * p_.ld};
      s_.see.pointer(s_.user.pointer, &view);
    }
  }
  void show_attention(const Chunk& c, const Heads& heads, const KeysOf& keys, uint32_t layer, uint32_t what) {
    if (s_.see.pointer == nullptr) return;
    const float* weights = s_.part<float>(kPartAttentionWeights);
    for (uint32_t r = 0, end; r < c.count; r = end) {
      end = run_end(c, r);
      const uint32_t most = keys.count(s_, c.rows[end - 1]);
      for (uint32_t i = r; i < end; ++i)  // keys that a row does not see have no weight
        for (uint32_t h = 0; h < heads.heads; ++h)
          for (uint32_t t = keys.count(s_, c.rows[i]); t < most; ++t)
            s_.part<float>(kPartAttentionWeights)[(uint64_t(h) * p_.chunk + i) * p_.score_ld + t] = 0;
      const phasor_view view{sizeof(phasor_view), what, c.stack == 0 ? kStackEncoder : kStackDecoder, layer, c.rows[r].sequence, c.rows[r].position,
                             end - r, most, heads.heads, 0, p_.score_ld, size_t(p_.chunk) * p_.score_ld, weights + uint64_t(r) * p_.score_ld};
      s_.see.pointer(s_.user.pointer, &view);
    }
  }
  static uint32_t run_end(const Chunk& c, uint32_t r) {
    uint32_t end = r + 1;
    while (end < c.count && c.rows[end].sequence == c.rows[r].sequence) ++end;
    return end;
  }

  // The row table's tiles: up to kTile rows of one sequence.
  Chunk chunk(uint32_t stack, float* x, uint32_t count) {
    Row* rows = s_.part<Row>(kPartRows);
    Tile* tiles = reinterpret_cast<Tile*>(rows + p_.chunk);
    uint32_t* flags = reinterpret_cast<uint32_t*>(tiles + p_.chunk);
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

// Rows first … of one source; returns the chunk that holds them.
Chunk source_chunk(Pass* pass, const phasor_item& item, float* x, uint32_t first) {
  const uint32_t left = item.count - first, count = left < pass->p_.chunk ? left : pass->p_.chunk;
  Row* rows = pass->s_.part<Row>(kPartRows);
  for (uint32_t r = 0; r < count; ++r)
    rows[r] = {item.sequence, first + r, item.ids != nullptr ? item.ids[first + r] : PHASOR_NONE, 0,
               uint64_t(first + r) * pass->m_.descriptor.stacks[0].width, 0, 0};
  return pass->chunk(0, x + uint64_t(first) * pass->p_.ld, count);
}

phasor_status run_encoder(Pass* pass, const phasor_item& item, float* x, phasor_error* error) {
  const Model& m = pass->m_;
  const uint32_t step = pass->p_.chunk;
  phasor_status status = PHASOR_OK;
  const auto note = [&](phasor_status now) { status = status == PHASOR_OK ? now : status; };
  for (uint32_t first = 0; first < item.count; first += step) {
    const Chunk c = source_chunk(pass, item, x, first);
    pass->embed(c, &item);
    note(pass->finite(c, 0, error));
  }
  for (uint32_t i = 0; i < m.layer_count[0]; ++i) {
    if (pass->stopped(0, i)) return fail(error, PHASOR_STOPPED, {PHASOR_NONE, i, 0, 0}, "stopped before encoder layer ", i);
    const Layer& l = m.layer(0, i);
    const KindDescriptor& k = m.kind(l);
    LinearInput in{};
    for (uint32_t first = 0; first < item.count; first += step) {
      const Chunk c = source_chunk(pass, item, x, first);
      in = pass->sublayer_input(c, k, l.attention_before);
      pass->encoder_keys_values(c, l, k, &in);
    }
    for (uint32_t first = 0; first < item.count; first += step) {
      const Chunk c = source_chunk(pass, item, x, first);
      if (item.count > step) in = pass->sublayer_input(c, k, l.attention_before);  // a single chunk's input is still there
      pass->encoder_block(c, l, k, i, in);
      note(pass->finite(c, i, error));
      pass->show(c, PHASOR_SEE_RESIDUAL, i);
    }
  }
  const StackDescriptor& d = m.descriptor.stacks[0];
  for (uint32_t first = 0; first < item.count; first += step) {
    const Chunk c = source_chunk(pass, item, x, first);
    if (m.final_norms[0].weight) pass->norm(c.x, c.x, c, m.final_norms[0], d.final_norm, d.final_norm_eps);
    note(pass->finite(c, m.layer_count[0], error));
    pass->show(c, PHASOR_SEE_FINAL, m.layer_count[0]);
  }
  return status;
}

}  // namespace

phasor_status encode_source(Session* s, const phasor_item& item, phasor_error* error) noexcept {
  Pass pass(s);
  const bool crossing = s->model->descriptor.stack == kEncoderDecoder;
  if (crossing)
    for (uint32_t i = 0; i < s->plan.sequences; ++i) s->sequences()[i].encoded = 0;  // one slot of hidden states
  s->sequences()[item.sequence].encoded = item.count;
  float* x = s->part<float>(kPartEncoder) + (crossing ? 0 : uint64_t(item.sequence) * s->plan.source * s->plan.ld);
  const phasor_status status = run_encoder(&pass, item, x, error);
  if (status == PHASOR_STOPPED || !crossing) return status;
  const uint32_t source = sequence_new_source(s, item.sequence, item.count);
  for (uint32_t first = 0; first < item.count; first += s->plan.chunk)
    pass.cross_keys_values(source_chunk(&pass, item, x, first), source);
  return status;
}

phasor_status decode_step(Session* s, const phasor_item* items, uint32_t count, phasor_error* error) noexcept {
  Pass pass(s);
  const Model& m = pass.m_;
  phasor_status status = PHASOR_OK;
  const auto note = [&](phasor_status now) { status = status == PHASOR_OK ? now : status; };
  float* x = s->part<float>(kPartResidual);
  s->logits = 0;
  uint32_t item = 0, done = 0;  // the next token to take: of which item, and which of its tokens
  while (item < count) {
    // Fill a chunk with the tokens of as many items as it holds.
    Row* rows = s->part<Row>(kPartRows);
    uint32_t n = 0;
    const uint32_t logits_before = s->logits;
    for (; n < s->plan.chunk && item < count; ++n) {
      const phasor_item& it = items[item];
      const bool last = done + 1 == it.count;
      const bool wanted = it.logits == PHASOR_LOGITS_ALL || (it.logits == PHASOR_LOGITS_LAST && last);
      const uint32_t position = s->sequences()[it.sequence].length + done;
      rows[n] = {it.sequence, position, it.ids != nullptr ? it.ids[done] : PHASOR_NONE, wanted ? ++s->logits : 0,
                 uint64_t(done) * m.descriptor.stacks[1].width, item, 0};
      s->ids(it.sequence)[position] = rows[n].id;
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
