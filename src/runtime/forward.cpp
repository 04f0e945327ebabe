// A Transformer (Vaswani et al. 2017), a function for each sub-layer. Read from the bottom:
// encode_sources and decode_step take tokens through a stack, a block calls its sub-layers, and a
// sub-layer is a call for each line of the paper. A chunk's residual is c.x; sub-layers read and
// give rows of `normed`, and have q, k, v or the feed-forward's inner rows in `wide`.
#include "forward.h"

#include "convolution.h"
#include "embed.h"
#include "observe.h"
#include "output.h"
#include "rows.h"
#include "sub_layer.h"

namespace phasor {
namespace {

// ---- sub-layers

// Position-wise feed-forward (section 3.3): x += out(activation(in(x))), gated or plain.
void feed_forward(const Chunk& c, const Layer& l, const KindDescriptor& k, const LinearInput& in) {
  const Rows<float> inner = c.wide();
  linear(c, inner, in, l.ffn_in);
  const bool gated = k.gated != 0;
  activate(c, l, k, inner, k.hidden, gated, gated ? inner.right(lanes(k.hidden)) : inner);
  norm_inside(c, inner, k.hidden, l.ffn_inner, k);
  linear(c, c.normed(), {inner, k.hidden}, l.ffn_out);
  residual(c, k, l.ffn_after);
}
// The same of its own input.
void feed_forward(const Chunk& c, const Layer& l, const KindDescriptor& k) {
  feed_forward(c, l, k, sublayer_input(c, k, l.ffn_before, l.ffn_scale));
}

// Per-layer embeddings (Gemma 4): x += out(activation(gate(x)) ∘ the layer's embedding).
void per_layer(const Chunk& c, const Layer& l, const KindDescriptor& k, uint32_t layer) {
  const RareTensors& rare = c.model.rare(l);
  const uint32_t width = c.descriptor().per_layer_width;
  test_finite(c, c.x, c.width());  // no norm sees x itself
  linear(c, c.wide(), {c.x, c.width()}, rare.per_layer_gate);
  activate(c, l, k, c.wide(), width, true, c.per_layer().right(uint64_t(layer) * width));
  linear(c, c.normed(), {c.wide(), width}, rare.per_layer_out);
  residual(c, k, rare.per_layer_after);
}

// x += out(`attention`).
void add_attention(const Chunk& c, const Heads& heads, const Linear& out, const KindDescriptor& k,
                   const NormTensors& after) {
  linear(c, c.normed(), {c.attention(), heads.heads * heads.width}, out);
  residual(c, k, after);
}

// The weights of attention over the encoder's output: shown, and added to the source's coverage.
void show_cross(const Chunk& c, const Heads& heads) {
  show_attention(c, PHASOR_SEE_CROSS_ATTENTION, heads);
  if (c.session.has_coverage() && heads.layer + 1 == c.model.layer_count[kDecoder])
    add_coverage(c, heads);
}

// Attention over a stack's own keys (section 3.2), and over the encoder's where they are merged.
void attend_own(const Chunk& c, const KindDescriptor& k, const Heads& heads) {
  if (merges(k)) {
    const Heads source = cross_heads(c.session, heads.layer);
    attend(c, heads, &source);
    show_cross(c, source);
  } else {
    attend(c, heads);
  }
  show_attention(c, PHASOR_SEE_SELF_ATTENTION, heads);
}

// Self-attention of the queries in `wide`, or the convolution in its place, and what
// follows it in a block: the feed-forward. In a parallel block that has the same x: it is added
// first, while `in`, which attention has read, is there.
void self_attention(const Chunk& c, const Layer& l, const KindDescriptor& k, const Heads& heads,
                    const LinearInput& in) {
  if (convolves(k))
    convolve(c, heads, l);
  else
    attend_own(c, k, heads);
  if (k.parallel == kSharedInput)
    feed_forward(c, l, k, in);
  else if (k.parallel == kTwoNorms)
    feed_forward(c, l, k);
  norm_inside(c, c.attention(), q_width(k), l.attention_inner, k);
  add_attention(c, heads, l.attention_out, k, l.attention_after);
}

// Attention of the decoder over the encoder's output (section 3.2.3), whose keys and values are
// there.
void cross_attention(const Chunk& c, const Layer& l, const KindDescriptor& k, const Heads& heads) {
  linear(c, c.wide(), sublayer_input(c, k, l.cross_before, Tensor{}), l.cross_q);
  attend(c, heads);
  show_cross(c, heads);
  add_attention(c, heads, l.cross_out, k, l.cross_after);
}

// ---- blocks

// Keys, and the values behind them, to where attention finds them.
void keep_keys(const Chunk& c, const Layer& l, const KindDescriptor& k, const Heads& heads,
               const Rows<float>& keys) {
  place_heads(c, keys, k.kv_heads, l.k_norm, l, k);
  norm_heads(c, keys.right(lanes(kv_width(k))), k.kv_heads, c.model.rare(l).v_norm, k);
  store_keys(c, heads, keys);
}

// What the layer's matrix of q, k and v gives from panel `first` on; the values may have a matrix
// of their own, which comes next.
void project(const Chunk& c, const Rows<float>& y, LinearInput* in, const Layer& l,
             uint32_t first) {
  const uint32_t panels = l.qkv.weight.panels - first;
  linear(c, y, in, l.qkv, first, panels);
  if (l.v.weight) linear(c, y.right(uint64_t(panels) * kLanes), in, l.v, 0, l.v.weight.panels);
}

// Keys and values of a chunk of the source.
void encoder_keys_values(const Chunk& c, const Layer& l, const KindDescriptor& k,
                         const Heads& heads, LinearInput* in) {
  const uint32_t q_panels = blocks_of(q_width(k));
  const Rows<float> keys = c.wide();
  project(c, keys, in, l, q_panels);
  clip(c, keys, 2 * lanes(kv_width(k)), k.qkv_clip);
  keep_keys(c, l, k, heads, keys);
}

// The rest of an encoder block for a chunk, when the keys and values of the whole source are there.
void encoder_block(const Chunk& c, const Layer& l, const KindDescriptor& k, const Heads& heads,
                   LinearInput in) {
  const Rows<float> q = c.wide();
  linear(c, q, &in, l.qkv, 0, blocks_of(q_width(k)));
  clip(c, q, q_width(k), k.qkv_clip);
  place_heads(c, q, k.heads, l.q_norm, l, k);
  self_attention(c, l, k, heads, in);
  if (k.parallel == kSerial) feed_forward(c, l, k);
}

void decoder_block(const Chunk& c, uint32_t layer) {
  const Layer& l = c.model.layer(kDecoder, layer);
  const KindDescriptor& k = c.model.kind(l);
  const Heads heads = self_heads(c.session, kDecoder, layer);
  const Rows<float> q = c.wide(), keys = q.right(lanes(q_width(k)));
  LinearInput in = sublayer_input(c, k, l.attention_before, l.qkv_scale);
  project(c, q, &in, l, 0);
  clip(c, q, lanes(q_width(k)) + 2 * lanes(own_kv_width(k)), k.qkv_clip);
  if (!convolves(k)) {
    place_heads(c, q, k.heads, l.q_norm, l, k);
    if (!borrows(k)) keep_keys(c, l, k, heads, keys);
  }
  self_attention(c, l, k, heads, in);
  if (k.cross == kCrossOwn) cross_attention(c, l, k, cross_heads(c.session, layer));
  if (k.parallel == kSerial) feed_forward(c, l, k);
  if (has_per_layer(c.descriptor())) per_layer(c, l, k, layer);
  if (k.layer_scale != 0) scale_rows(c, *c.model.floats(c.model.rare(l).layer_scale));
}

// Keys and values of cross-attention for a chunk of the encoder's output, for every decoder block;
// merged attention's are by the matrices and the norm of its own (rule 1.25).
void cross_keys_values(const Chunk& c) {
  LinearInput in{c.x, c.width()};
  for (uint32_t i = 0; i < c.model.layer_count[kDecoder]; ++i) {
    const Layer& l = c.model.layer(kDecoder, i);
    const KindDescriptor& k = c.model.kind(l);
    const Rows<float> keys = c.wide();
    if (merges(k)) {
      project(c, keys, &in, l, blocks_of(q_width(k)));
      clip(c, keys, 2 * lanes(kv_width(k)), k.qkv_clip);
      norm_heads(c, keys, k.kv_heads, l.k_norm, k);
    } else {
      linear(c, keys, &in, l.cross_kv, 0, l.cross_kv.weight.panels);
    }
    store_keys(c, cross_heads(c.session, i), keys);
  }
}

// Its keys and values come next.
void new_source(const Pass& pass, const phasor_item& item) {
  Session& s = pass.session;
  const uint32_t source = sequence_new_source(&s, item.sequence, item.count);
  if (s.shortlist.pointer == nullptr) return;
  const Span<uint32_t> list = s.shortlist_of(source);
  const uint32_t words = shortlist_words(output_width(pass.model.descriptor));
  uint32_t* bits = list.at(1, words);
  memset(bits, 0, words * sizeof(uint32_t));
  s.shortlist.pointer(s.user.pointer, item.ids, item.count, bits, words);
  list[0] = 1;
}

// ---- stacks

// The first thing that went wrong.
struct Outcome {
  phasor_status status = PHASOR_OK;
  void note(phasor_status now) { status = status == PHASOR_OK ? now : status; }
};

// The encoder over a group of sources, a chunk at a time: the keys and values of all of it come
// before a layer's attention.
phasor_status run_encoder(const Pass& pass, const Group& g, phasor_error* error) {
  const Model& m = pass.model;
  const uint32_t step = pass.plan.chunk, layers = m.layer_count[kEncoder];
  Outcome outcome;
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    embed(c, g.items);
    outcome.note(check_finite(c, 0, error));
  }
  for (uint32_t i = 0; i < layers; ++i) {
    if (stopped(pass, kEncoder, i, error)) return PHASOR_STOPPED;
    const Layer& l = m.layer(kEncoder, i);
    const KindDescriptor& k = m.kind(l);
    const Heads heads = self_heads(pass.session, kEncoder, i);
    LinearInput in;
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      in = sublayer_input(c, k, l.attention_before, l.qkv_scale);
      encoder_keys_values(c, l, k, heads, &in);
      outcome.note(check_finite(c, i, error));  // the loop below begins with new flags
    }
    for (uint32_t first = 0; first < g.tokens; first += step) {
      const Chunk c = source_chunk(pass, g, first);
      if (g.tokens > step)  // a single chunk's input is still there
        in = sublayer_input(c, k, l.attention_before, l.qkv_scale);
      encoder_block(c, l, k, heads, in);
      outcome.note(check_finite(c, i, error));
      show(c, PHASOR_SEE_RESIDUAL, i);
    }
  }
  for (uint32_t first = 0; first < g.tokens; first += step) {
    const Chunk c = source_chunk(pass, g, first);
    final_norm(c);
    outcome.note(check_finite(c, layers, error));
    show(c, PHASOR_SEE_FINAL, layers);
  }
  return outcome.status;
}

// The output that run_encoder would give, where the caller has it: of a group of one source.
phasor_status take_states(const Pass& pass, const Group& g, phasor_error* error) {
  const Model& m = pass.model;
  const float* states = g.items[0].states;
  Outcome outcome;
  for (uint32_t first = 0; first < g.tokens; first += pass.plan.chunk) {
    const Chunk c = source_chunk(pass, g, first);
    const uint32_t width = c.width();
    for (uint32_t r = 0; r < c.count; ++r, states += width)
      memcpy(c.x.row(r, width), states, width * sizeof(float));
    test_finite(c, c.x, width);
    outcome.note(check_finite(c, m.layer_count[kEncoder], error));
    show(c, PHASOR_SEE_FINAL, m.layer_count[kEncoder]);
  }
  return outcome.status;
}

}  // namespace

phasor_status encode_sources(Session* s, Items items, uint32_t count,
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
    phasor_error* const first_error = outcome.status == PHASOR_OK ? error : nullptr;
    const bool given = g.items[0].states != nullptr;
    const phasor_status now =
        given ? take_states(pass, g, first_error) : run_encoder(pass, g, first_error);
    if (now == PHASOR_STOPPED) {
      forget_hidden(pass);
      return now;
    }
    outcome.note(now);
    first += g.count;
    hidden += g.tokens;
    if (!crossing) continue;
    for (uint32_t i = 0; i < g.count; ++i) new_source(pass, g.items[i]);
    for (uint32_t row = 0; row < g.tokens; row += pass.plan.chunk)
      cross_keys_values(source_chunk(pass, g, row));
  }
  return outcome.status;
}

phasor_status decode_step(Session* s, Items items, uint32_t count, phasor_error* error) noexcept {
  const Pass pass(s);
  const uint32_t layers = pass.model.layer_count[kDecoder];
  Outcome outcome;
  s->logits = 0;
  for (Next next{0, 0}; next.item < count;) {
    const uint32_t logits_before = s->logits;
    const Chunk c = target_chunk(pass, items, count, &next);
    embed(c, items);
    outcome.note(check_finite(c, 0, error));
    for (uint32_t i = 0; i < layers; ++i) {
      if (stopped(pass, kDecoder, i, error)) {
        s->logits = logits_before;
        return PHASOR_STOPPED;
      }
      decoder_block(c, i);
      outcome.note(check_finite(c, i, error));
      show(c, PHASOR_SEE_RESIDUAL, i);
    }
    decoder_output(c);
    outcome.note(check_finite(c, layers, error));
  }
  for (uint32_t i = 0; i < count; ++i) s->sequences()[items[i].sequence].length += items[i].count;
  return outcome.status;
}

}  // namespace phasor
