#include "cost.h"

namespace phasor {
namespace {

// Bytes of matrices, and multiply-adds for one row; of those that a layer has, but what its source
// needs once.
struct Sum {
  uint64_t bytes = 0, macs = 0;
  void add(const Linear& l) {
    if (!l.weight) return;
    bytes +=
        panel_bytes(l.weight.type, l.weight.cols) * l.weight.panels + uint64_t(l.bias.rows) * 4;
    macs += uint64_t(l.weight.rows) * l.weight.cols;
  }
  // What merged attention multiplies with the source's rows.
  void add_keys(const Layer& l, const KindDescriptor& k) {
    const Tensor& t = l.qkv.weight;
    const uint64_t each = panel_bytes(t.type, t.cols), panels = t.panels - panels_of(q_width(k));
    bytes += each * panels;
    macs += uint64_t(t.rows - q_width(k)) * t.cols;
    add(l.v);
  }
  void add(const Layer& l) {
    const Linear* all[] = {&l.qkv,       &l.v,      &l.attention_out, &l.cross_q,
                           &l.cross_out, &l.ffn_in, &l.ffn_out};
    for (const Linear* linear : all) add(*linear);
  }
};

// Keys that a query sees of `keys`.
uint64_t seen_of(const KindDescriptor& k, uint64_t keys) {
  return k.window != 0 && k.window < keys ? k.window : keys;
}

// Multiply-adds of self-attention for one query that `keys` keys are there for: q·k and p·v, and
// what positions add to them.
uint64_t attention_macs(const KindDescriptor& k, uint64_t keys) {
  if (convolves(k)) return q_width(k) * seen_of(k, keys);
  const uint64_t seen = seen_of(k, keys), entries = 2 * uint64_t(k.max_distance) + 1;
  uint64_t each = 2 * seen;
  // q·a; (q∘k)·a has one product more a pair
  if (k.position == kRelativeKey || k.position == kThreeWay) each += seen;
  // q·a and k·a, or k·b
  if (k.position == kRelativeKeyQuery || k.position == kDisentangled) each += 2 * seen;
  // q·a for each distance, p·b for each key
  if (k.position == kClippedRelative) each += (entries < seen ? entries : seen) + seen;
  return q_width(k) * each;
}

}  // namespace

void model_cost(const Model& m, uint32_t source, uint32_t position, phasor_cost* out) noexcept {
  Sum encoder, cross, step;
  uint64_t encoder_attention = 0, step_attention = 0, cache = 0;
  for (uint32_t i = 0; i < m.layer_count[kEncoder]; ++i) {
    encoder.add(m.layer(kEncoder, i));
    encoder_attention += attention_macs(m.kind(m.layer(kEncoder, i)), source) * source;
  }
  for (uint32_t i = 0; i < m.layer_count[kDecoder]; ++i) {
    const Layer& l = m.layer(kDecoder, i);
    const KindDescriptor& k = m.kind(l);
    const uint64_t keys = uint64_t(position) + 1;
    step.add(l);
    step.add(m.rare(l).per_layer_gate);
    step.add(m.rare(l).per_layer_out);
    step_attention += attention_macs(k, keys);
    cache += uint64_t(convolves(k) ? 1 : 2) * kv_width(k) * seen_of(k, keys) * 4;
    if (k.cross == 0) continue;
    cross.add(l.cross_kv);
    if (merges(k)) cross.add_keys(l, k);
    step_attention += uint64_t(2) * cross_q_width(k) * source;
    cache += uint64_t(2) * cross_kv_width(k) * source * 4;
  }
  encoder.add(m.inputs[kEncoder].projection);
  step.add(m.inputs[kDecoder].projection);
  step.add(m.per_layer.per_layer_projection);
  if (m.descriptor.has(kDecoder)) {  // an encoder's output is for the rows that are asked for
    step.add(m.head);
    step.add(m.output);
  }
  out->encode_bytes = encoder.bytes + cross.bytes;
  out->encode_macs = (encoder.macs + cross.macs) * source + encoder_attention;
  out->step_bytes = step.bytes + cache;
  out->step_macs = step.macs + step_attention;
}

}  // namespace phasor
