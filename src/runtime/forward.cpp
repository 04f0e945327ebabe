// A Transformer (Vaswani et al. 2017), a function for each sub-layer. Read from the bottom:
// encode_sources and decode_step take tokens through a stack, a block calls its sub-layers, and a
// sub-layer is a call for each line of the paper. A chunk's residual is c.x; sub-layers read and
// give rows of `normed`, and have q, k, v or the feed-forward's inner rows in `wide`.
#include "forward.h"

#include "cache.h"
#include "embed.h"
#include "observe.h"
#include "output.h"
#include "rows.h"
#include "steps.h"

namespace phasor {
namespace {

// ---- sub-layers

// Position-wise feed-forward (section 3.3): x += out(activation(in(x))), gated or plain.
void feed_forward(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                  LinearInput in) {
  const Rows<float> inner = pass.wide();
  linear(pass, inner, in, l.ffn_in);
  const ActivationKernel activate = activation(pass, k.activation);
  pass.each_row(c, uint64_t(k.hidden) * 4, [&](uint32_t r) {
    float* h = inner.row(r, k.hidden);
    activate(h, k.hidden);
    if (k.gated != 0) pass.kernels.mul(h, inner.right(lanes(k.hidden)).row(r, k.hidden), k.hidden);
  });
  linear(pass, pass.normed(), input_of(inner, k.hidden, c.count), l.ffn_out);
  residual(pass, c, k, l.ffn_after);
}

// `attention` = softmax(q·keys)·values; q lies in `wide`, keys and values in their pages.
void attend_pages(const Pass& pass, const Chunk& c, const Heads& heads, const KeysOf& keys,
                  uint32_t layer, uint32_t what) {
  attend(&pass.session, pass.attention(), pass.wide(), c.tiles, c.tile_count, c.rows, heads, keys,
         layer);
  show_attention(pass, c, heads, keys, layer, what);
}
// x += out(`attention`).
void add_attention(const Pass& pass, const Chunk& c, const Heads& heads, const Linear& out,
                   const KindDescriptor& k, const NormTensors& after) {
  linear(pass, pass.normed(), input_of(pass.attention(), heads.heads * heads.width, c.count), out);
  residual(pass, c, k, after);
}

// Self-attention (section 3.2) and, in a parallel block, the feed-forward of the same x: it is
// added first, while `in`, which attention has read, is there.
void self_attention(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                    const KeysOf& keys, uint32_t layer, LinearInput in) {
  const Heads heads = self_heads(pass.session, l, c.stack);
  attend_pages(pass, c, heads, keys, layer, PHASOR_SEE_SELF_ATTENTION);
  if (k.parallel == kSharedInput)
    feed_forward(pass, c, l, k, in);
  else if (k.parallel == kTwoNorms)
    feed_forward(pass, c, l, k, sublayer_input(pass, c, k, l.ffn_before, l.ffn_scale));
  add_attention(pass, c, heads, l.attention_out, k, l.attention_after);
}

// Attention of the decoder over the encoder's output (section 3.2.3), whose keys and values are
// there.
void cross_attention(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                     uint32_t layer) {
  const Heads heads = cross_heads(pass.session, l);
  linear(pass, pass.wide(), sublayer_input(pass, c, k, l.cross_before, Tensor{}), l.cross_q);
  attend_pages(pass, c, heads, kSourceKeys, layer, PHASOR_SEE_CROSS_ATTENTION);
  add_attention(pass, c, heads, l.cross_out, k, l.cross_after);
}

// ---- blocks

// Keys and values of a chunk of the source.
void encoder_keys_values(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                         LinearInput* in) {
  const uint32_t q_panels = static_cast<uint32_t>(panels_of(q_width(k)));
  const Rows<float> keys = pass.wide();
  linear(pass, keys, in, l.qkv, q_panels, l.qkv.weight.panels - q_panels);
  clip(pass, keys, 2 * lanes(kv_width(k)), c, k.qkv_clip);
  norm_heads(pass, keys, k.kv_heads, c, l.k_norm, k);
  rotate(pass, c, keys, k.kv_heads, l.kind);
  store_encoder_keys(pass, c, keys, k);
}

// The rest of an encoder block for a chunk, when the keys and values of the whole source are there.
void encoder_block(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                   uint32_t layer, LinearInput in) {
  const Rows<float> q = pass.wide();
  linear(pass, q, &in, l.qkv, 0, static_cast<uint32_t>(panels_of(q_width(k))));
  clip(pass, q, q_width(k), c, k.qkv_clip);
  norm_heads(pass, q, k.heads, c, l.q_norm, k);
  rotate(pass, c, q, k.heads, l.kind);
  self_attention(pass, c, l, k, kEncoderKeys, layer, in);
  if (k.parallel == kSerial)
    feed_forward(pass, c, l, k, sublayer_input(pass, c, k, l.ffn_before, l.ffn_scale));
}

void decoder_block(const Pass& pass, const Chunk& c, const Layer& l, const KindDescriptor& k,
                   uint32_t layer) {
  const Rows<float> q = pass.wide(), keys = q.right(lanes(q_width(k)));
  LinearInput in = sublayer_input(pass, c, k, l.attention_before, l.qkv_scale);
  linear(pass, q, &in, l.qkv, 0, l.qkv.weight.panels);
  clip(pass, q, lanes(q_width(k)) + 2 * lanes(kv_width(k)), c, k.qkv_clip);
  norm_heads(pass, q, k.heads, c, l.q_norm, k);
  norm_heads(pass, keys, k.kv_heads, c, l.k_norm, k);
  rotate(pass, c, q, k.heads, l.kind);
  rotate(pass, c, keys, k.kv_heads, l.kind);
  store_decoder_keys(pass, c, keys, l, k);
  self_attention(pass, c, l, k, kDecoderKeys, layer, in);
  if (k.cross != 0) cross_attention(pass, c, l, k, layer);
  if (k.parallel == kSerial)
    feed_forward(pass, c, l, k, sublayer_input(pass, c, k, l.ffn_before, l.ffn_scale));
}

// Keys and values of cross-attention for a chunk of the encoder's output, for every decoder block.
void cross_keys_values(const Pass& pass, const Chunk& c) {
  const Model& m = pass.model;
  LinearInput in = input_of(c.x, pass.width(c), c.count);
  for (uint32_t i = 0; i < m.layer_count[1]; ++i) {
    const Layer& l = m.layer(1, i);
    linear(pass, pass.wide(), &in, l.cross_kv, 0, l.cross_kv.weight.panels);
    store_source_keys(pass, c, pass.wide(), l, m.kind(l));
  }
}

// ---- stacks

// The first thing that went wrong.
struct Outcome {
  phasor_status status = PHASOR_OK;
  void note(phasor_status now) { status = status == PHASOR_OK ? now : status; }
};

phasor_status stop(phasor_error* error, const char* stack, uint32_t layer) {
  return fail(error, PHASOR_STOPPED, {PHASOR_NONE, layer, 0, 0}, "stopped before ", stack,
              " layer ", layer);
}

phasor_status run_encoder(const Pass& pass, const Group& g, phasor_error* error) {
  const Model& m = pass.model;
  const StackDescriptor& d = m.descriptor.stacks[0];
  const uint32_t step = pass.plan.chunk, layers = m.layer_count[0];
  Outcome outcome;
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    embed(pass, c, g.items);
    outcome.note(check_finite(pass, c, 0, error));
  }
  for (uint32_t i = 0; i < layers; ++i) {
    if (stopped(pass, 0, i)) return stop(error, "encoder", i);
    const Layer& l = m.layer(0, i);
    const KindDescriptor& k = m.kind(l);
    LinearInput in{};
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      in = sublayer_input(pass, c, k, l.attention_before, l.qkv_scale);
      encoder_keys_values(pass, c, l, k, &in);
      outcome.note(check_finite(pass, c, i, error));  // the loop below begins with new flags
    }
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      if (g.tokens > step)  // a single chunk's input is still there
        in = sublayer_input(pass, c, k, l.attention_before, l.qkv_scale);
      encoder_block(pass, c, l, k, i, in);
      outcome.note(check_finite(pass, c, i, error));
      show(pass, c, PHASOR_SEE_RESIDUAL, i);
    }
  }
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    if (m.final_norms[0].weight)
      norm(pass, c.x, c.x, c, m.final_norms[0], d.final_norm, d.final_norm_eps);
    else
      test_finite(c, c.x, d.width);  // no norm sees what the last block gave
    outcome.note(check_finite(pass, c, layers, error));
    show(pass, c, PHASOR_SEE_FINAL, layers);
  }
  return outcome.status;
}

}  // namespace

phasor_status encode_sources(Session* s, const phasor_item* items, uint32_t count,
                             phasor_error* error) noexcept {
  const Pass pass(s);
  const bool crossing = s->model->descriptor.has_both();
  Outcome outcome;
  forget_hidden(pass);
  uint32_t hidden = 0;
  for (uint32_t first = 0; first < count;) {
    if (crossing) {  // the hidden states of one group at a time
      forget_hidden(pass);
      hidden = 0;
    }
    const Group g = next_group(pass, items + first, count - first, hidden);
    const phasor_status now = run_encoder(pass, g, outcome.status == PHASOR_OK ? error : nullptr);
    if (now == PHASOR_STOPPED) {
      forget_hidden(pass);
      return now;
    }
    outcome.note(now);
    first += g.count;
    hidden += g.tokens;
    if (!crossing) continue;
    for (uint32_t i = 0; i < g.count; ++i)
      sequence_new_source(s, g.items[i].sequence, g.items[i].count);
    for (uint32_t row = 0; row < g.tokens; row += pass.plan.chunk)
      cross_keys_values(pass, source_chunk(pass, g, row));
  }
  return outcome.status;
}

phasor_status decode_step(Session* s, const phasor_item* items, uint32_t count,
                          phasor_error* error) noexcept {
  const Pass pass(s);
  const Model& m = pass.model;
  Outcome outcome;
  s->logits = 0;
  for (Next next{0, 0}; next.item < count;) {
    const uint32_t logits_before = s->logits;
    const Chunk c = target_chunk(pass, items, count, &next);
    embed(pass, c, items);
    outcome.note(check_finite(pass, c, 0, error));
    for (uint32_t i = 0; i < m.layer_count[1]; ++i) {
      if (stopped(pass, 1, i)) {
        s->logits = logits_before;
        return stop(error, "decoder", i);
      }
      const Layer& l = m.layer(1, i);
      decoder_block(pass, c, l, m.kind(l), i);
      outcome.note(check_finite(pass, c, i, error));
      show(pass, c, PHASOR_SEE_RESIDUAL, i);
    }
    decoder_output(pass, c);
    outcome.note(check_finite(pass, c, m.layer_count[1], error));
  }
  for (uint32_t i = 0; i < count; ++i) s->sequences()[items[i].sequence].length += items[i].count;
  return outcome.status;
}

}  // namespace phasor
