#include "tensors.h"

namespace phasor {
namespace {

constexpr uint32_t bit(Layout layout) { return 1u << static_cast<uint32_t>(layout); }
constexpr uint32_t bit(Type type) { return 1u << static_cast<uint32_t>(type); }

struct Parts {
  uint32_t rows[3];
};

// A build without texts has no names.
struct Name {
  const char* text;
  constexpr Name(const char* name) : text(kHasMessages ? name : "") {}
};

// Writes the rows of one set.
struct Rows {
  VisitRole visit;
  void* context;
  uint32_t stack, set, index;

  void row(uint32_t role, Name name, size_t place, bool there, uint32_t layouts, uint32_t types,
           const Parts& parts, uint32_t cols) const {
    const uint32_t* p = parts.rows;
    visit(context, {stack << 24 | set << 8 | role,
                    index,
                    name.text,
                    static_cast<uint32_t>(place),
                    there,
                    layouts,
                    types,
                    {p[0], p[1], p[2]},
                    cols});
  }
  void vector(uint32_t role, Name name, size_t place, bool there, const Parts& parts,
              Type type = Type::f32) const {
    row(role, name, place, there, bit(Layout::vector), bit(type), parts, 1);
  }
  // In f32, row by row.
  void table(uint32_t role, Name name, size_t place, bool there, uint32_t rows,
             uint32_t cols) const {
    row(role, name, place, there, bit(Layout::rows), bit(Type::f32), {{rows}}, cols);
  }
  void matrix(uint32_t role, Name name, size_t place, bool there, const Parts& parts, uint32_t cols,
              uint32_t layouts = bit(Layout::panel16)) const {
    row(role, name, place, there, layouts, kMatrixTypes, parts, cols);
  }
  // A linear layer: its weight, and behind it its bias. A fused one has several parts.
  void linear(uint32_t role, Name weight, Name bias, size_t place, bool there, const Parts& parts,
              uint32_t cols, bool has_bias) const {
    matrix(role, weight, place, there, parts, cols);
    vector(role + 1, bias, place + offsetof(Linear, bias), there && has_bias, parts);
  }
  void norm(uint32_t role, Name weight, Name bias, size_t place, bool there, uint32_t n,
            bool has_bias) const {
    vector(role, weight, place, there, {{n}});
    vector(role + 1, bias, place + offsetof(NormTensors, bias), there && has_bias, {{n}});
  }
};

// Two names in a row, and a member's place.
#define BOTH(name) name " weight", name " bias"
#define AT(member) offsetof(Struct, member)

void kind_roles(const Rows& r, const KindDescriptor& k) {
  using Struct = KindTensors;
  r.vector(1, "rotary inv_freq", AT(inv_freq), k.rotary_width != 0, {{k.rotary_width / 2}},
           Type::f64);
  r.table(2, "T5 bias", AT(bias), k.position == kT5Bias, k.heads, entries(k));
  r.vector(3, "ALiBi slopes", AT(slopes), k.position == kAlibi, {{k.heads}});
}

void input_roles(const Rows& r, const SideDescriptor& side, const StackDescriptor& s) {
  using Struct = Input;
  const uint32_t inner = input_width(s), norm = s.embedding_norm;
  const bool projected = s.embedding_width != s.width;
  r.matrix(kRoleOfEmbedding, "embedding", AT(embedding), side.embedding_shared == 0,
           {{side.vocabulary}}, s.embedding_width, bit(Layout::panel16) | bit(Layout::rows));
  r.table(2, "positions", AT(positions), s.position == kPositionLearned, s.max_positions, inner);
  r.table(3, "segments", AT(segments), s.segments != 0, s.segments, inner);
  r.norm(4, BOTH("embedding norm"), AT(norm), norm != kNormNone, inner, norm == kNormLayer);
  r.linear(6, BOTH("embedding projection"), AT(projection), projected, {{s.width}},
           s.embedding_width, s.projection_bias != 0);
  r.vector(8, "sinusoid inv_freq", AT(inv_freq), sinusoidal(s), {{inner / 2}}, Type::f64);
}

void layer_roles(const Rows& r, const KindDescriptor& k, const StackDescriptor& s) {
  using Struct = LayerTensors;
  const uint32_t width = s.width, w = k.head_width, q = q_width(k), kv = kv_width(k);
  const uint32_t cross_q = cross_q_width(k), cross_kv = cross_kv_width(k);
  const uint32_t gate = k.gated != 0 ? k.hidden : 0;
  const bool before = k.norm_place == kNormBefore || k.norm_place == kNormBoth;
  const bool after = k.norm_place != kNormBefore, bias = k.norm_biases != 0, cross = k.cross != 0;
  const bool separate = k.separate_v != 0;
  const bool own = k.qk_norm_over != kOverHead, qk_bias = k.qk_norm == kNormLayer;
  const auto has = [](uint32_t flags, uint32_t bits) { return (flags & bits) != 0; };

  r.norm(0x10, BOTH("norm before attention,"), AT(attention_before),
         before && k.attention_norm != 0, width, bias);
  r.linear(0x20, BOTH("q,k,v"), AT(qkv), true, {{q, kv, separate ? 0 : kv}}, width,
           has(k.attention_biases, separate ? kBiasQ | kBiasK : kBiasQ | kBiasK | kBiasV));
  r.vector(0x22, "scale of the input of q,k,v", AT(qkv_scale), has(k.input_scales, kScaleQkv),
           {{width}});
  r.linear(0x24, BOTH("v"), AT(v), separate, {{kv}}, width, has(k.attention_biases, kBiasV));
  const bool by_head = k.position == kDisentangled;
  r.table(0x30, "relative keys", AT(relative_keys), relative_keys(k), by_head ? q : w, entries(k));
  r.table(0x31, "relative values", AT(relative_values), k.position == kClippedRelative, entries(k),
          w);
  r.table(0x32, "relative queries", AT(relative_queries), by_head, q, entries(k));
  r.norm(0x38, BOTH("q norm"), AT(q_norm), k.qk_norm != kNormNone, own ? q : w, qk_bias);
  r.norm(0x3A, BOTH("k norm"), AT(k_norm), k.qk_norm != kNormNone, own ? kv : w, qk_bias);
  r.vector(0x3C, "v of the additive score", AT(score), k.score == kScoreAdditive, {{q}});
  r.linear(0x40, BOTH("attention out"), AT(attention_out), true, {{width}}, q,
           has(k.attention_biases, kBiasOut));
  r.norm(0x48, BOTH("norm after attention,"), AT(attention_after), after, width, bias);

  r.norm(0x50, BOTH("norm before cross-attention,"), AT(cross_before), cross && before, width,
         bias);
  r.linear(0x58, BOTH("cross q"), AT(cross_q), cross, {{cross_q}}, width,
           has(k.cross_biases, kBiasQ));
  r.linear(0x60, BOTH("cross k,v"), AT(cross_kv), cross, {{cross_kv, cross_kv}}, s.cross_width,
           has(k.cross_biases, kBiasK | kBiasV));
  r.vector(0x64, "v of the additive cross score", AT(cross_score),
           cross && k.cross_score == kScoreAdditive, {{cross_q}});
  r.linear(0x68, BOTH("cross out"), AT(cross_out), cross, {{width}}, cross_q,
           has(k.cross_biases, kBiasOut));
  r.norm(0x70, BOTH("norm after cross-attention,"), AT(cross_after), cross && after, width, bias);

  r.norm(0x80, BOTH("norm before feed-forward,"), AT(ffn_before),
         before && k.parallel != kSharedInput, width, bias);
  r.linear(0x88, BOTH("feed-forward in"), AT(ffn_in), true, {{k.hidden, gate}}, width,
           has(k.ffn_biases, kBiasIn));
  r.vector(0x8A, "scale of the input of the feed-forward", AT(ffn_scale),
           has(k.input_scales, kScaleFfn), {{width}});
  r.vector(0x8C, "numbers of xIELU", AT(xielu), k.activation == kXielu, {{4}});
  r.linear(0x90, BOTH("feed-forward out"), AT(ffn_out), true, {{width}}, k.hidden,
           has(k.ffn_biases, kBiasFfnOut));
  r.norm(0x98, BOTH("norm after feed-forward,"), AT(ffn_after), after, width, bias);
}

void final_roles(const Rows& r, const StackDescriptor& s) {
  r.norm(0xF0, BOTH("final norm"), 0, s.final_norm != kNormNone, s.width,
         s.final_norm == kNormLayer);
}

void output_roles(const Rows& r, const Descriptor& d) {
  using Struct = OutputTensors;
  const OutputDescriptor& o = d.output;
  const uint32_t inputs = output_inputs(d), rows = output_width(d);
  const bool logits = o.output == kOutputLogits, norm = o.head_norm != kNormNone;
  r.matrix(kRoleOfEmbedding, "output weight", AT(output.weight), logits && o.tied == kTiedOwn,
           {{rows}}, inputs);
  r.vector(2, "output bias", AT(output.bias), logits && o.bias != 0, {{rows}});
  r.linear(3, BOTH("head"), AT(head), o.head_width != 0, {{o.head_width}}, d.stacks[d.last()].width,
           o.head_bias != 0);
  r.norm(5, BOTH("head norm"), AT(head_norm), norm, inputs, o.head_norm == kNormLayer);
  r.linear(7, BOTH("classifier"), AT(output), o.output == kOutputClasses, {{rows}}, inputs,
           o.bias != 0);
}

#undef BOTH
#undef AT

}  // namespace

uint32_t Role::panels() const {
  uint32_t sum = 0;
  for (const uint32_t part : parts) sum += static_cast<uint32_t>(panels_of(part));
  return sum;
}

uint32_t Role::rows() const {
  const bool fused_bias = layouts == bit(Layout::vector) && parts[1] != 0;
  return fused_bias ? panels() * static_cast<uint32_t>(kLanes) : parts[0] + parts[1] + parts[2];
}

void each_role(const File& file, const Descriptor& d, const KindDescriptor* kinds, VisitRole visit,
               void* context) noexcept {
  for (uint32_t i = 0; i < d.kinds; ++i) kind_roles({visit, context, kStackKinds, i, i}, kinds[i]);
  for (const Half half : kHalves) {
    const StackDescriptor& s = d.stacks[half];
    if (s.present == 0) continue;
    input_roles({visit, context, input_stack(half), 0, 0}, d.sides[half], s);
    uint32_t sets = 0;
    for (uint32_t i = 0; i < layer_count(s); ++i) {
      const LayerOf layer = layer_of(file, s, i);
      if (layer.set < sets) continue;  // the same tensors again
      sets = layer.set + 1;
      layer_roles({visit, context, block_stack(half), layer.set, i}, kinds[layer.kind], s);
    }
    final_roles({visit, context, block_stack(half), kFinalSet, kFinalSet}, s);
  }
  output_roles({visit, context, kStackOutput, 0, 0}, d);
}

bool find_role(uint32_t key, Role* out) noexcept {
  const uint32_t stack = key >> 24;
  *out = Role{key, 0, nullptr, 0, false, 0, 0, {0, 0, 0}, 0};
  const auto find = [](void* context, const Role& role) {
    Role* wanted = static_cast<Role*>(context);
    if (role.key == wanted->key) *wanted = role;
  };
  const Rows rows{find, out, stack, key >> 8 & 0xFFFF, 0};
  const Descriptor none{};
  const KindDescriptor kind{};
  switch (stack) {
    case kStackKinds:
      kind_roles(rows, kind);
      break;
    case kStackSource:
    case kStackTarget:
      input_roles(rows, none.sides[kEncoder], none.stacks[kEncoder]);
      break;
    case kStackEncoder:
    case kStackDecoder:
      layer_roles(rows, kind, none.stacks[kEncoder]);
      final_roles(rows, none.stacks[kEncoder]);
      break;
    case kStackOutput:
      output_roles(rows, none);
      break;
    default:
      break;
  }
  return out->layouts != 0;
}

const char* tensor_name(uint32_t key) noexcept {
  Role role;
  return find_role(key, &role) ? role.name : "unknown tensor";
}

const char* stack_name(uint32_t stack) noexcept {
  static const char* const names[] = {"kind", "source", "encoder", "target", "decoder", "output"};
  return stack <= kStackOutput ? names[stack] : "?";
}

}  // namespace phasor
