#include "model.h"

namespace phasor {
namespace {

const char* role_name(uint32_t role) {
  switch (role) {
    case 0x10:
      return "norm before attention, weight";
    case 0x11:
      return "norm before attention, bias";
    case 0x20:
      return "q,k,v weight";
    case 0x21:
      return "q,k,v bias";
    case 0x22:
      return "scale of the input of q,k,v";
    case 0x8A:
      return "scale of the input of the feed-forward";
    case 0x30:
      return "relative keys";
    case 0x31:
      return "relative values";
    case 0x38:
      return "q norm weight";
    case 0x39:
      return "q norm bias";
    case 0x3A:
      return "k norm weight";
    case 0x3B:
      return "k norm bias";
    case 0x3C:
      return "v of the additive score";
    case 0x40:
      return "attention out weight";
    case 0x41:
      return "attention out bias";
    case 0x48:
      return "norm after attention, weight";
    case 0x49:
      return "norm after attention, bias";
    case 0x50:
      return "norm before cross-attention, weight";
    case 0x51:
      return "norm before cross-attention, bias";
    case 0x58:
      return "cross q weight";
    case 0x59:
      return "cross q bias";
    case 0x60:
      return "cross k,v weight";
    case 0x61:
      return "cross k,v bias";
    case 0x64:
      return "v of the additive cross score";
    case 0x68:
      return "cross out weight";
    case 0x69:
      return "cross out bias";
    case 0x70:
      return "norm after cross-attention, weight";
    case 0x71:
      return "norm after cross-attention, bias";
    case 0x80:
      return "norm before feed-forward, weight";
    case 0x81:
      return "norm before feed-forward, bias";
    case 0x88:
      return "feed-forward in weight";
    case 0x89:
      return "feed-forward in bias";
    case 0x90:
      return "feed-forward out weight";
    case 0x91:
      return "feed-forward out bias";
    case 0x98:
      return "norm after feed-forward, weight";
    case 0x99:
      return "norm after feed-forward, bias";
    case 0xF0:
      return "final norm weight";
    case 0xF1:
      return "final norm bias";
    default:
      return "unknown tensor";
  }
}

const char* stack_name(uint32_t stack) {
  static const char* const names[] = {"kind", "source", "encoder", "target", "decoder", "output"};
  return stack <= kStackOutput ? names[stack] : "?";
}

// Takes the directory's tensors in the order of their keys, which is the order in which a model
// asks for them.
class Binder {
 public:
  Binder(const File& file, phasor_error* error) : file_(file), error_(error) {}

  phasor_status status() const { return status_; }

  // The next tensor must be `key` with this shape; `types` has a bit for each type that is built
  // here. rows of a vector: its elements. Does nothing after a failure.
  void take(Tensor* out, uint32_t stack, uint32_t set, uint32_t role, uint32_t layouts,
            uint32_t types, uint32_t rows, uint32_t cols, uint32_t panels) {
    if (status_ != PHASOR_OK) return;
    const uint32_t key = stack << 24 | set << 8 | role;
    if (next_ == entry_count(file_)) return missing(key);
    const Entry e = entry_at(file_, next_);
    if (e.key > key) return missing(key);
    if (e.key < key) return left_over(e);
    const uint32_t wanted_panels = e.layout == Layout::panel16 ? panels : 0;
    if ((layouts >> static_cast<uint32_t>(e.layout) & 1u) == 0 || e.rows != rows ||
        e.cols != cols || e.panels != wanted_panels)
      return wrong_shape(e, rows, cols, panels);
    if ((types >> static_cast<uint32_t>(e.type) & 1u) == 0) {
      status_ =
          fail(error_, PHASOR_UNSUPPORTED, at(), stack_name(stack), " set ", set, ", ",
               tensor_name(key), ": type ", type_name(e.type), " is not built yet for this tensor");
      return;
    }
    *out = Tensor{e.offset, e.rows, e.cols, e.panels, e.type, e.layout, {0, 0}};
    ++next_;
  }

  void vector(Tensor* out, uint32_t stack, uint32_t set, uint32_t role, uint32_t n,
              Type type = Type::f32) {
    take(out, stack, set, role, bit(Layout::vector), 1u << static_cast<uint32_t>(type), n, 1, 0);
  }

  // A table in f32, row by row.
  void table(Tensor* out, uint32_t stack, uint32_t set, uint32_t role, uint32_t rows,
             uint32_t cols) {
    take(out, stack, set, role, bit(Layout::rows), 1u << static_cast<uint32_t>(Type::f32), rows,
         cols, 0);
  }

  // A linear layer of up to three parts, each of whole panels.
  void linear(Linear* out, uint32_t stack, uint32_t set, uint32_t role, const uint32_t parts[3],
              uint32_t cols, bool bias) {
    uint32_t rows = 0, panels = 0, count = 0;
    for (int i = 0; i < 3; ++i) {
      rows += parts[i];
      panels += static_cast<uint32_t>(panels_of(parts[i]));
      count += parts[i] != 0 ? 1u : 0u;
    }
    take(&out->weight, stack, set, role, bit(Layout::panel16), kMatrixTypes, rows, cols, panels);
    if (bias)
      vector(&out->bias, stack, set, role + 1,
             count > 1 ? panels * static_cast<uint32_t>(kLanes) : rows);
  }

  void norm(NormTensors* out, uint32_t stack, uint32_t set, uint32_t role, uint32_t n, bool bias) {
    vector(&out->weight, stack, set, role, n);
    if (bias) vector(&out->bias, stack, set, role + 1, n);
  }

  // Whatever the model has not asked for.
  void finish() {
    if (status_ == PHASOR_OK && next_ != entry_count(file_)) left_over(entry_at(file_, next_));
  }

  static constexpr uint32_t bit(Layout layout) { return 1u << static_cast<uint32_t>(layout); }
  static constexpr uint32_t kMatrixTypes = 1u << static_cast<uint32_t>(Type::f32) |
                                           uint32_t{kHasF16} << static_cast<uint32_t>(Type::f16) |
                                           uint32_t{kHasBf16} << static_cast<uint32_t>(Type::bf16) |
                                           uint32_t{kHasQ8} << static_cast<uint32_t>(Type::q8) |
                                           uint32_t{kHasQ4} << static_cast<uint32_t>(Type::q4);

 private:
  At at() const { return {kSectionDirectory, PHASOR_NONE, 0, next_}; }

  void missing(uint32_t key) {
    status_ = fail(error_, PHASOR_BAD_FILE, at(), stack_name(key >> 24), " set ", key >> 8 & 0xFFFF,
                   ": no tensor \"", tensor_name(key), "\", the descriptor asks for it");
  }
  void left_over(const Entry& e) {
    status_ = fail(error_, PHASOR_BAD_FILE, at(), stack_name(e.key >> 24), " set ",
                   e.key >> 8 & 0xFFFF, ": tensor \"", tensor_name(e.key), "\" (role ",
                   e.key & 0xFF, ") has no use in this model");
  }
  void wrong_shape(const Entry& e, uint32_t rows, uint32_t cols, uint32_t panels) {
    status_ = fail(error_, PHASOR_BAD_FILE, at(), stack_name(e.key >> 24), " set ",
                   e.key >> 8 & 0xFFFF, ", ", tensor_name(e.key), ": ", layout_name(e.layout), " ",
                   e.rows, "x", e.cols, "/", e.panels, ", expected ", rows, "x", cols, "/", panels);
  }

  const File& file_;
  phasor_error* error_;
  phasor_status status_ = PHASOR_OK;
  uint32_t next_ = 0;
};

void bind_input(Binder* b, Input* in, const Descriptor& d, uint32_t which) {
  const StackDescriptor& s = d.stacks[which];
  const uint32_t stack = which == 0 ? kStackSource : kStackTarget;
  const uint32_t vocabulary = d.sides[which].vocabulary;
  if (d.sides[which].embedding_shared == 0)
    b->take(&in->embedding, stack, 0, kRoleEmbedding,
            Binder::bit(Layout::panel16) | Binder::bit(Layout::rows), Binder::kMatrixTypes,
            vocabulary, s.embedding_width, static_cast<uint32_t>(panels_of(vocabulary)));
  if (s.position == kPositionLearned)
    b->table(&in->positions, stack, 0, kRolePositions, s.max_positions, input_width(s));
  if (s.segments != 0) b->table(&in->segments, stack, 0, kRoleSegments, s.segments, input_width(s));
  if (s.embedding_norm != kNormNone)
    b->norm(&in->norm, stack, 0, kRoleEmbeddingNorm, input_width(s),
            s.embedding_norm == kNormLayer);
  const uint32_t projected[3] = {s.width, 0, 0};
  if (s.embedding_width != s.width)
    b->linear(&in->projection, stack, 0, kRoleProjection, projected, s.embedding_width,
              s.projection_bias != 0);
  if (s.position == kPositionInterleaved || s.position == kPositionHalves)
    b->vector(&in->inv_freq, stack, 0, kRoleInvFreq, input_width(s) / 2, Type::f64);
}

void bind_layer(Binder* b, Layer* l, const KindDescriptor& k, uint32_t width, uint32_t cross_width,
                uint32_t stack) {
  const bool before = k.norm_place == kNormBefore || k.norm_place == kNormBoth,
             after = k.norm_place != kNormBefore, biases = k.norm_biases != 0;
  const uint32_t set = l->set, q = q_width(k), kv = kv_width(k);
  if (before && k.attention_norm != 0)
    b->norm(&l->attention_before, stack, set, kRoleAttentionBefore, width, biases);
  const uint32_t qkv[3] = {q, kv, kv}, out[3] = {width, 0, 0};
  b->linear(&l->qkv, stack, set, kRoleQkv, qkv, width,
            (k.attention_biases & (kBiasQ | kBiasK | kBiasV)) != 0);
  if ((k.input_scales & kScaleQkv) != 0) b->vector(&l->qkv_scale, stack, set, kRoleQkvScale, width);
  if (relative_keys(k))
    b->table(&l->relative_keys, stack, set, kRoleRelativeKeys, k.head_width, 2 * reach(k) + 1);
  if (k.position == kClippedRelative)
    b->table(&l->relative_values, stack, set, kRoleRelativeValues, 2 * reach(k) + 1, k.head_width);
  if (k.qk_norm != kNormNone) {
    const bool shared = k.qk_norm_over == kOverHead;
    b->norm(&l->q_norm, stack, set, kRoleQNorm, shared ? k.head_width : q, k.qk_norm == kNormLayer);
    b->norm(&l->k_norm, stack, set, kRoleKNorm, shared ? k.head_width : kv,
            k.qk_norm == kNormLayer);
  }
  if (k.score == kScoreAdditive) b->vector(&l->score, stack, set, kRoleScore, q);
  b->linear(&l->attention_out, stack, set, kRoleAttentionOut, out, q,
            (k.attention_biases & kBiasOut) != 0);
  if (after) b->norm(&l->attention_after, stack, set, kRoleAttentionAfter, width, biases);
  if (k.cross != 0) {
    if (before) b->norm(&l->cross_before, stack, set, kRoleCrossBefore, width, biases);
    const uint32_t cross_q[3] = {cross_q_width(k), 0, 0},
                   cross_kv[3] = {cross_kv_width(k), cross_kv_width(k), 0};
    b->linear(&l->cross_q, stack, set, kRoleCrossQ, cross_q, width, (k.cross_biases & kBiasQ) != 0);
    b->linear(&l->cross_kv, stack, set, kRoleCrossKv, cross_kv, cross_width,
              (k.cross_biases & (kBiasK | kBiasV)) != 0);
    if (k.cross_score == kScoreAdditive)
      b->vector(&l->cross_score, stack, set, kRoleCrossScore, cross_q_width(k));
    b->linear(&l->cross_out, stack, set, kRoleCrossOut, out, cross_q_width(k),
              (k.cross_biases & kBiasOut) != 0);
    if (after) b->norm(&l->cross_after, stack, set, kRoleCrossAfter, width, biases);
  }
  if (before && k.parallel != kSharedInput)
    b->norm(&l->ffn_before, stack, set, kRoleFfnBefore, width, biases);
  const uint32_t in[3] = {k.hidden, k.gated != 0 ? k.hidden : 0, 0};
  b->linear(&l->ffn_in, stack, set, kRoleFfnIn, in, width, (k.ffn_biases & kBiasIn) != 0);
  if ((k.input_scales & kScaleFfn) != 0) b->vector(&l->ffn_scale, stack, set, kRoleFfnScale, width);
  b->linear(&l->ffn_out, stack, set, kRoleFfnOut, out, k.hidden, (k.ffn_biases & kBiasFfnOut) != 0);
  if (after) b->norm(&l->ffn_after, stack, set, kRoleFfnAfter, width, biases);
}

// The layers of a stack; a set of weights that was used before is the same tensors again.
phasor_status bind_stack(Binder* b, Model* m, Layer* layers, const File& file, uint32_t which,
                         phasor_error* error) {
  const StackDescriptor& s = m->descriptor.stacks[which];
  uint32_t sets = 0;
  for (uint32_t i = 0; i < m->layer_count[which]; ++i) {
    Layer l{};
    l.kind = array_at(file, s.layers, 2 * i);
    l.set = array_at(file, s.layers, 2 * i + 1);
    if (l.set < sets) {
      uint32_t first = 0;
      while (layers[first].set != l.set) ++first;
      if (layers[first].kind != l.kind)
        return fail(error, PHASOR_UNSUPPORTED, {kSectionMeta, i, layers[first].kind, l.kind},
                    which == 0 ? "encoder" : "decoder", ".layers: layers ", first, " and ", i,
                    " share weights and differ in kind, which is not built yet");
      l = layers[first];
    } else {
      sets = l.set + 1;
      bind_layer(b, &l, m->kind(l), s.width, s.cross_width,
                 which == 0 ? kStackEncoder : kStackDecoder);
    }
    if (which == 1) {
      const KindDescriptor& k = m->kind(l);
      CacheSize* size = m->ringed(l) ? &m->ring : &m->cache;
      if (m->ringed(l) && k.window > m->window) m->window = k.window;
      l.cache_offset = *size;
      add_heads(size, k.kv_heads, k.head_width);
      l.cross_offset = m->cross;
      if (k.cross != 0) add_heads(&m->cross, k.cross_kv_heads, k.cross_head_width);
    }
    layers[i] = l;
  }
  if (s.final_norm != kNormNone)
    b->norm(&m->final_norms[which], which == 0 ? kStackEncoder : kStackDecoder, kFinalSet,
            kRoleFinalNorm, s.width, s.final_norm == kNormLayer);
  return b->status();
}

// The head, where there is one, and the matrix of the logits or the classes.
void bind_output(Binder* b, Model* m) {
  const Descriptor& d = m->descriptor;
  const OutputDescriptor& o = d.output;
  const uint32_t inputs = output_inputs(d), head[3] = {o.head_width, 0, 0},
                 rows[3] = {output_width(d), 0, 0};
  if (o.output == kOutputLogits && o.tied == kTiedOwn)
    b->take(&m->output.weight, kStackOutput, 0, kRoleOutput, Binder::bit(Layout::panel16),
            Binder::kMatrixTypes, rows[0], inputs, static_cast<uint32_t>(panels_of(rows[0])));
  else if (o.output == kOutputLogits)
    m->output.weight = m->inputs[o.tied == kTiedTarget ? 1 : 0].embedding;
  if (o.output == kOutputLogits && o.bias != 0)
    b->vector(&m->output.bias, kStackOutput, 0, kRoleOutput + 1, rows[0]);
  if (o.head_width != 0)
    b->linear(&m->head, kStackOutput, 0, kRoleHead, head,
              d.stacks[d.stack == kEncoder ? 0 : 1].width, o.head_bias != 0);
  if (o.head_norm != kNormNone)
    b->norm(&m->head_norm, kStackOutput, 0, kRoleHeadNorm, inputs, o.head_norm == kNormLayer);
  if (o.output == kOutputClasses)
    b->linear(&m->output, kStackOutput, 0, kRoleClassifier, rows, inputs, o.bias != 0);
}

bool next_of(List list, uint64_t* at, const File& file, const Descriptor& d) {
  Meta meta{};
  Record record{};
  if (list == kFields) return next_meta(file, at, &meta);
  return next_record(file, list == kLabels ? d.output.labels : d.output.prompts, at, &record);
}

// The number of a list's records; the place of every 16th goes to `marks`, where there are any.
uint32_t count_records(uint32_t* marks, List list, const File& file, const Descriptor& d) {
  uint32_t count = 0;
  uint64_t at = 0, before = 0;
  for (; next_of(list, &at, file, d); ++count, before = at)
    if (marks != nullptr && count % kRecordsToAMark == 0)
      marks[count / kRecordsToAMark] = static_cast<uint32_t>(before);
  return count;
}

uint32_t marks_of(uint32_t records) {
  return records / kRecordsToAMark + (records % kRecordsToAMark != 0 ? 1 : 0);
}

// Where the parts of the block lie.
struct Places {
  uint64_t kinds, tables, layers[2], tokenizers[2], marks, end;
};

Places places_of(const File& file, const Descriptor& d) {
  static_assert(sizeof(Tokenizer) <= 192, "the model's block keeps 192 bytes for a tokenizer");
  Places p{};
  p.kinds = round_up(sizeof(Model), 64);
  p.tables = round_up(p.kinds + d.kinds * sizeof(KindDescriptor), 64);
  p.layers[0] = round_up(p.tables + d.kinds * sizeof(KindTables), 64);
  p.layers[1] = p.layers[0] + d.stacks[0].layers.count / 2 * sizeof(Layer);
  p.tokenizers[0] = round_up(p.layers[1] + d.stacks[1].layers.count / 2 * sizeof(Layer), 64);
  p.tokenizers[1] = p.tokenizers[0] + 192;
  p.marks = p.tokenizers[1] + 192;
  p.end = p.marks;
  for (uint32_t list = 0; list < kLists; ++list)
    p.end += uint64_t{4} * marks_of(count_records(nullptr, static_cast<List>(list), file, d));
  p.end = round_up(p.end, 64);
  return p;
}

phasor_status open_tokenizers(Model* m, const File& file, phasor_error* error) {
  for (uint32_t side = 0; side < 2; ++side) {
    const uint32_t section = m->descriptor.sides[side].tokenizer;
    if (section == 0) continue;
    const Section& s = file.sections[section];
    Tokenizer* t =
        reinterpret_cast<Tokenizer*>(reinterpret_cast<unsigned char*>(m) + m->tokenizer_at[side]);
    const char* why = "";
    if (!tokenizer_is_built(file.data + s.offset, static_cast<size_t>(s.bytes)))
      return fail(error, PHASOR_UNSUPPORTED, {section, PHASOR_NONE, 0, 0}, "tokenizer (section ",
                  section, "): its model is not in this build (PHASOR_ONLY)");
    if (!tokenizer_open(t, file.data + s.offset, static_cast<size_t>(s.bytes), &why))
      return fail(error, PHASOR_BAD_FILE, {section, PHASOR_NONE, 0, 0}, "tokenizer (section ",
                  section, "): ", why);
    if (t->pieces > m->descriptor.sides[side].vocabulary)
      return fail(error, PHASOR_BAD_FILE,
                  {section, PHASOR_NONE, m->descriptor.sides[side].vocabulary, t->pieces},
                  "tokenizer (section ", section, "): ", t->pieces, " pieces, the vocabulary has ",
                  m->descriptor.sides[side].vocabulary);
    m->has_tokenizer[side] = 1;
  }
  return PHASOR_OK;
}

// --- model_check: what only reading every weight can tell

// Numbers are halves where the type is one; `exponent` has the bits that are all set in an infinity
// or a NaN.
bool finite_numbers(const unsigned char* p, uint64_t n, Type type) {
  const uint32_t exponent = type == Type::f16 ? 0x7C00 : type == Type::bf16 ? 0x7F80 : 0x7F800000;
  for (uint64_t i = 0; i < n; ++i)
    if (((type == Type::f32 ? load_u32(p + 4 * i) : load_u16(p + 2 * i)) & exponent) == exponent)
      return false;
  return true;
}

// The bits of element (o, k) of a panel's values.
uint32_t bits_at(const unsigned char* p, Type type, size_t o, size_t k) {
  switch (type) {
    case Type::f32:
      return load_u32(p + 4 * panel_index_f32(o, k));
    case Type::f16:
      return load_u16(p + 2 * panel_index_f32(o, k));
    case Type::bf16:
      return load_u16(p + 2 * panel_index_bf16(o, k));
    case Type::q8:
      return p[panel_index_q8(o, k)];
    default:
      return p[panel_index_q4(o, k)] >> (k % kGroup < kGroup / 2 ? 0 : 4) & 15u;
  }
}

// Lanes of a panel from `used` on are zero, and k from cols to the end of its pair or group.
bool padding_is_zero(const unsigned char* panel, Type type, uint32_t cols, uint32_t used) {
  const uint64_t scales = quantised_type(type) ? groups_of(cols) * kLanes : 0,
                 plane = scale_plane_bytes(scales);
  for (uint64_t i = scales * 2; i < plane; ++i)
    if (panel[i] != 0) return false;
  for (uint64_t g = 0; g < scales; g += kLanes)
    for (size_t o = used; o < kLanes; ++o)
      if (load_u16(panel + 2 * (g + o)) != 0) return false;
  const size_t end = static_cast<size_t>(round_up(cols, quantised_type(type) ? kGroup
                                                        : type == Type::bf16 ? 2
                                                                             : 1));
  for (size_t o = 0; o < kLanes; ++o)
    for (size_t k = o < used ? cols : 0; k < end; ++k)
      if (bits_at(panel + plane, type, o, k) != 0) return false;
  return true;
}

// Rows of a quantised table: nothing between the scales and the values, nor from cols to the end of
// a row's last group.
bool rows_padding_is_zero(const unsigned char* p, Type type, uint32_t rows, uint32_t cols) {
  const uint64_t groups = groups_of(cols), count = rows * groups, plane = scale_plane_bytes(count),
                 half = kGroup / 2;
  for (uint64_t i = count * 2; i < plane; ++i)
    if (p[i] != 0) return false;
  for (uint64_t r = 0; r < rows && cols % kGroup != 0; ++r)
    for (uint64_t k = cols % kGroup; k < kGroup; ++k) {
      const uint64_t group = (r + 1) * groups - 1;
      const uint32_t value = type == Type::q8
                                 ? p[plane + group * kGroup + k]
                                 : p[plane + group * half + k % half] >> (k < half ? 0 : 4) & 15u;
      if (value != 0) return false;
    }
  return true;
}

// One tensor; parts: outputs of a fused matrix, one entry for any other.
phasor_status check_tensor(const Model& m, const Tensor& t, const uint32_t parts[3], uint32_t key,
                           phasor_error* error) {
  if (!t) return PHASOR_OK;
  const unsigned char* p = m.at(t.offset);
  const At at{kSectionData, key >> 8 & 0xFFFF, 0, 0};
  bool finite = true, padded = true;
  if (t.layout == Layout::panel16) {
    const uint64_t bytes = panel_bytes(t.type, t.cols);
    uint32_t panel = 0;
    for (int part = 0; part < 3; ++part)
      for (uint32_t row = 0; row < parts[part]; row += kLanes, ++panel) {
        const unsigned char* q = p + panel * bytes;
        const uint32_t used =
            parts[part] - row < kLanes ? parts[part] - row : static_cast<uint32_t>(kLanes);
        finite = finite &&
                 (quantised_type(t.type) ? finite_numbers(q, groups_of(t.cols) * kLanes, Type::f16)
                                         : finite_numbers(q, uint64_t(t.cols) * kLanes, t.type));
        padded = padded && padding_is_zero(q, t.type, t.cols, used);
      }
  } else if (quantised_type(t.type)) {
    finite = finite_numbers(p, t.rows * groups_of(t.cols), Type::f16);
    padded = rows_padding_is_zero(p, t.type, t.rows, t.cols);
  } else if (t.type != Type::f64) {
    finite = finite_numbers(p, uint64_t(t.rows) * t.cols, t.type);
  } else {
    for (uint32_t i = 0; i < t.rows; ++i)
      finite = finite && (load_u16(p + 8 * i + 6) & 0x7FF0) != 0x7FF0;
  }
  if (!finite)
    return fail(error, PHASOR_NOT_FINITE, at, stack_name(key >> 24), " set ", key >> 8 & 0xFFFF,
                ", ", tensor_name(key), ": a weight is not finite");
  if (!padded)
    return fail(error, PHASOR_BAD_FILE, at, stack_name(key >> 24), " set ", key >> 8 & 0xFFFF, ", ",
                tensor_name(key), ": padding is not zero");
  return PHASOR_OK;
}

// Collects the first failure over many tensors.
struct Checker {
  const Model& m;
  phasor_error* error;
  phasor_status status = PHASOR_OK;
  void tensor(const Tensor& t, uint32_t key) {
    const uint32_t parts[3] = {t.rows, 0, 0};
    if (status == PHASOR_OK) status = check_tensor(m, t, parts, key, error);
  }
  void linear(const Linear& l, uint32_t key, uint32_t a, uint32_t b = 0, uint32_t c = 0) {
    const uint32_t parts[3] = {a, b, c};
    if (status == PHASOR_OK) status = check_tensor(m, l.weight, parts, key, error);
    tensor(l.bias, key + 1);
  }
  void norm(const NormTensors& n, uint32_t key) {
    tensor(n.weight, key);
    tensor(n.bias, key + 1);
  }
};

void check_layer(Checker* c, const Layer& l, const KindDescriptor& k, uint32_t width,
                 uint32_t stack) {
  const uint32_t base = stack << 24 | l.set << 8;
  c->norm(l.attention_before, base | kRoleAttentionBefore);
  c->linear(l.qkv, base | kRoleQkv, q_width(k), kv_width(k), kv_width(k));
  c->tensor(l.qkv_scale, base | kRoleQkvScale);
  c->tensor(l.ffn_scale, base | kRoleFfnScale);
  c->tensor(l.relative_keys, base | kRoleRelativeKeys);
  c->tensor(l.relative_values, base | kRoleRelativeValues);
  c->norm(l.q_norm, base | kRoleQNorm);
  c->norm(l.k_norm, base | kRoleKNorm);
  c->tensor(l.score, base | kRoleScore);
  c->tensor(l.cross_score, base | kRoleCrossScore);
  c->linear(l.attention_out, base | kRoleAttentionOut, width);
  c->norm(l.attention_after, base | kRoleAttentionAfter);
  if (k.cross != 0) {
    c->norm(l.cross_before, base | kRoleCrossBefore);
    c->linear(l.cross_q, base | kRoleCrossQ, cross_q_width(k));
    c->linear(l.cross_kv, base | kRoleCrossKv, cross_kv_width(k), cross_kv_width(k));
    c->linear(l.cross_out, base | kRoleCrossOut, width);
    c->norm(l.cross_after, base | kRoleCrossAfter);
  }
  c->norm(l.ffn_before, base | kRoleFfnBefore);
  c->linear(l.ffn_in, base | kRoleFfnIn, k.hidden, k.gated != 0 ? k.hidden : 0);
  c->linear(l.ffn_out, base | kRoleFfnOut, width);
  c->norm(l.ffn_after, base | kRoleFfnAfter);
}

}  // namespace

const char* tensor_name(uint32_t key) noexcept {
  const uint32_t stack = key >> 24, role = key & 0xFF;
  if (stack == kStackSource || stack == kStackTarget) switch (role) {
      case 1:
        return "embedding";
      case 2:
        return "positions";
      case 3:
        return "segments";
      case 6:
        return "embedding projection weight";
      case 7:
        return "embedding projection bias";
      case 4:
        return "embedding norm weight";
      case 5:
        return "embedding norm bias";
      case 8:
        return "sinusoid inv_freq";
      default:
        return "unknown tensor";
    }
  if (stack == kStackKinds)
    return role == kRoleRotary   ? "rotary inv_freq"
           : role == kRoleT5Bias ? "T5 bias"
           : role == kRoleSlopes ? "ALiBi slopes"
                                 : "unknown tensor";
  if (stack == kStackOutput) {
    static const char* const names[] = {"output weight",     "output bias",      "head weight",
                                        "head bias",         "head norm weight", "head norm bias",
                                        "classifier weight", "classifier bias"};
    return role >= 1 && role <= 8 ? names[role - 1] : "unknown tensor";
  }
  return stack == kStackEncoder || stack == kStackDecoder ? role_name(role) : "unknown tensor";
}

uint64_t Model::place_of(List list, uint32_t index) const {
  const uint32_t* marks =
      reinterpret_cast<const uint32_t*>(reinterpret_cast<const unsigned char*>(this) + marks_at);
  for (uint32_t i = 0; i < static_cast<uint32_t>(list); ++i) marks += marks_of(records[i]);
  uint64_t at = marks[index / kRecordsToAMark];
  const File f = file();
  for (uint32_t i = index % kRecordsToAMark; i > 0; --i) (void)next_of(list, &at, f, descriptor);
  return at;
}

File Model::file() const { return view_file(data.pointer, file_bytes); }

phasor_status model_bytes(uint64_t* need, const File& file, phasor_error* error) noexcept {
  Descriptor d{};
  const phasor_status status = read_descriptor(&d, nullptr, file, error);
  if (status == PHASOR_OK) *need = places_of(file, d).end;
  return status;
}

phasor_status model_open(Model** out, void* memory, const File& file, const Kernels* kernels,
                         phasor_error* error) noexcept {
  Model* m = static_cast<Model*>(memory);
  *m = Model{};
  m->data.set(file.data);
  m->kernels.set(kernels);
  m->file_bytes = file.bytes;
  m->head_crc = file.head_crc;
  phasor_status status = read_descriptor(&m->descriptor, nullptr, file, error);
  if (status != PHASOR_OK) return status;
  const Places p = places_of(file, m->descriptor);
  memset(static_cast<unsigned char*>(memory) + sizeof(Model), 0,
         static_cast<size_t>(p.end - sizeof(Model)));
  m->kinds_at = p.kinds;
  KindDescriptor* kinds =
      reinterpret_cast<KindDescriptor*>(static_cast<unsigned char*>(memory) + p.kinds);
  status = read_descriptor(&m->descriptor, kinds, file, error);
  if (status != PHASOR_OK) return status;
  for (uint32_t i = 0; i < 2; ++i) {
    m->layers_at[i] = p.layers[i];
    m->layer_count[i] = m->descriptor.stacks[i].layers.count / 2;
    m->tokenizer_at[i] = p.tokenizers[i];
  }
  m->tables_at = p.tables;
  m->marks_at = p.marks;
  uint32_t* marks = reinterpret_cast<uint32_t*>(static_cast<unsigned char*>(memory) + p.marks);
  for (uint32_t list = 0; list < kLists; ++list) {
    m->records[list] = count_records(marks, static_cast<List>(list), file, m->descriptor);
    marks += marks_of(m->records[list]);
  }
  Binder b(file, error);
  KindTables* tables =
      reinterpret_cast<KindTables*>(static_cast<unsigned char*>(memory) + p.tables);
  for (uint32_t i = 0; i < m->descriptor.kinds; ++i) {
    if (kinds[i].rotary_width != 0)
      b.vector(&tables[i].inv_freq, kStackKinds, i, kRoleRotary, kinds[i].rotary_width / 2,
               Type::f64);
    if (kinds[i].position == kT5Bias)
      b.table(&tables[i].bias, kStackKinds, i, kRoleT5Bias, kinds[i].heads,
              2 * reach(kinds[i]) + 1);
    if (kinds[i].position == kAlibi)
      b.vector(&tables[i].slopes, kStackKinds, i, kRoleSlopes, kinds[i].heads);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    if (m->descriptor.stacks[i].present == 0) continue;
    bind_input(&b, &m->inputs[i], m->descriptor, i);
    Layer* layers = reinterpret_cast<Layer*>(static_cast<unsigned char*>(memory) + p.layers[i]);
    status = bind_stack(&b, m, layers, file, i, error);
    if (status != PHASOR_OK) return status;
  }
  for (uint32_t i = 0; i < 2; ++i)
    for (uint32_t l = 0; l < m->layer_count[i]; ++l) tables[m->layer(i, l).kind].stacks |= 1u << i;
  const Descriptor& d = m->descriptor;
  if (d.sides[1].embedding_shared != 0) m->inputs[1].embedding = m->inputs[0].embedding;
  bind_output(&b, m);
  b.finish();
  if (b.status() != PHASOR_OK) return b.status();
  if (m->output.weight && m->output.weight.layout != Layout::panel16)
    return fail(error, PHASOR_BAD_FILE, {kSectionDirectory, PHASOR_NONE, 0, 0},
                "output.tied: the embedding is in rows, a tied one must be in panels");
  status = open_tokenizers(m, file, error);
  if (status == PHASOR_OK) *out = m;
  return status;
}

phasor_status model_check(const Model& m, phasor_error* error) noexcept {
  Checker c{m, error};
  for (uint32_t i = 0; i < m.descriptor.kinds; ++i) {
    c.tensor(m.tables(i).inv_freq, i << 8 | kRoleRotary);
    c.tensor(m.tables(i).bias, i << 8 | kRoleT5Bias);
    c.tensor(m.tables(i).slopes, i << 8 | kRoleSlopes);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t input = (i == 0 ? kStackSource : kStackTarget) << 24,
                   stack = i == 0 ? kStackEncoder : kStackDecoder;
    c.tensor(m.inputs[i].embedding, input | kRoleEmbedding);
    c.tensor(m.inputs[i].positions, input | kRolePositions);
    c.tensor(m.inputs[i].segments, input | kRoleSegments);
    c.norm(m.inputs[i].norm, input | kRoleEmbeddingNorm);
    c.linear(m.inputs[i].projection, input | kRoleProjection, m.inputs[i].projection.weight.rows);
    c.tensor(m.inputs[i].inv_freq, input | kRoleInvFreq);
    uint32_t sets = 0;
    for (uint32_t l = 0; l < m.layer_count[i]; ++l) {
      const Layer& layer = m.layer(i, l);
      if (layer.set < sets) continue;
      sets = layer.set + 1;
      check_layer(&c, layer, m.kind(layer), m.descriptor.stacks[i].width, stack);
    }
    c.norm(m.final_norms[i], stack << 24 | kFinalSet << 8 | kRoleFinalNorm);
  }
  c.linear(m.output,
           kStackOutput << 24 |
               (m.descriptor.output.output == kOutputClasses ? kRoleClassifier : kRoleOutput),
           m.output.weight.rows);
  c.linear(m.head, kStackOutput << 24 | kRoleHead, m.head.weight.rows);
  c.norm(m.head_norm, kStackOutput << 24 | kRoleHeadNorm);
  return c.status;
}

}  // namespace phasor
