#include "tensors.h"

#include <cmath>

#include "quantize/tensor.h"

namespace generator {
namespace {

using namespace phasor;

// Weights as a trained model may have them, and others that are as valid.
class Weights {
 public:
  explicit Weights(uint64_t seed) : state_(seed) {}
  uint64_t bits() { return splitmix64(&state_); }
  // −1 … 1
  float unit() {
    return static_cast<float>(static_cast<int64_t>(bits() >> 40) - (1 << 23)) /
           static_cast<float>(1 << 23);
  }

 private:
  uint64_t state_;
};

// The parts of a fused matrix, in rows; one entry for any other.
struct Parts {
  uint32_t rows[3];
  uint32_t total() const { return rows[0] + rows[1] + rows[2]; }
  uint32_t panels() const {
    return static_cast<uint32_t>(panels_of(rows[0]) + panels_of(rows[1]) + panels_of(rows[2]));
  }
  uint32_t count() const { return (rows[0] != 0) + (rows[1] != 0) + (rows[2] != 0); }
};

constexpr uint32_t kPanel = kLanes;

// Calls visit(panel, lane) for each row of the matrix.
template <class Visit>
void each_row(const Parts& parts, Visit visit) {
  uint32_t panel = 0;
  for (const uint32_t rows : parts.rows) {
    for (uint32_t row = 0; row < rows; ++row) visit(panel + row / kPanel, row % kPanel);
    panel += static_cast<uint32_t>(panels_of(rows));
  }
}

std::vector<Type> built_types() {
  std::vector<Type> types;
  for (unsigned code = 1; code <= kTypes; ++code)
    if ((kMatrixTypes >> code & 1) != 0) types.push_back(static_cast<Type>(code));
  return types;
}

// A finite f16: a scale of quantized values, in steps of two; now and then the smallest, or none.
uint16_t any_scale(Weights* w, bool negative) {
  const uint64_t r = w->bits();
  if (r % 64 == 0) return 0;
  if (r % 64 == 1) return static_cast<uint16_t>(1 + (r >> 8) % 1023);  // subnormal
  const uint16_t sign = negative && (r >> 32 & 1) != 0 ? 0x8000 : 0;
  return static_cast<uint16_t>(sign | (0x1400 + (r >> 8) % 0x1000));  // 2^-10 … 2^-6
}

void store_u16(unsigned char* p, uint16_t value) {
  p[0] = static_cast<unsigned char>(value);
  p[1] = static_cast<unsigned char>(value >> 8);
}

// Any code in its place in a byte.
unsigned char code_of(Type type, uint32_t k, uint64_t any) {
  const unsigned bits = value_bits(type);
  return static_cast<unsigned char>((any & ((1u << bits) - 1)) << phasor::code_shift(bits, k));
}

// Quantized values that no quantizer gives, −128 and scales of any sign among them. `plane` has the
// scales; value(k) and scale(group) say where those of a row lie.
template <class Value, class ScaleAt>
void any_row(Weights* w, Type type, uint32_t cols, ScaleAt scale, Value value) {
  uint16_t bits = 0;
  for (uint32_t group = 0; group < groups_of(cols); ++group) {
    if (group % phasor::sharing_of(type) == 0) {
      bits = any_scale(w, type != Type::q8);
      store_u16(scale(group), bits);
    }
    const uint32_t first = group * static_cast<uint32_t>(kGroup);
    for (uint32_t k = first; bits != 0 && k < cols && k < first + kGroup; ++k) {
      const uint64_t r = w->bits();
      if (type == Type::q8)
        *value(k) = static_cast<unsigned char>(r % 50 == 0 ? 0x80 : r >> 8);
      else
        *value(k) |= code_of(type, k, r);
    }
  }
}

// A row of q8r or q2r that no quantizer gives: its scale in steps of two, now and then the smallest
// that there may be, or none.
template <class Value>
void any_whole_row(Weights* w, Type type, uint32_t cols, unsigned char* scale, Value value) {
  const uint64_t r = w->bits();
  const float size = r % 64 == 0   ? 0.0f
                     : r % 64 == 1 ? kSmallestRowScale
                                   : std::ldexp(1.0f + float(r >> 40) / 0x1p24f, -8);
  phasor::store_u32(scale, bits_of(size));
  for (uint32_t k = 0; size != 0 && k < cols; ++k) {
    const uint64_t v = w->bits();
    if (value_bits(type) == 8)
      *value(k) = static_cast<unsigned char>(v % 50 == 0 ? 0x80 : v >> 8);
    else
      *value(k) |= code_of(type, k, v);
  }
}

// Any codes of a row whose groups share records. group(g): the bytes of a group of `lanes` rows, of
// which it is the one at `lane`.
template <class GroupAt>
void any_codes(Weights* w, Type type, uint32_t cols, size_t lanes, size_t lane, GroupAt group) {
  for (uint32_t k = 0; k < cols; ++k) {
    const uint64_t code = w->bits();
    const unsigned all = value_bits(type), low = phasor::low_bits(all);
    for (unsigned below = 0; below < all; below += low) {
      const unsigned bits = below == 0 ? low : all - low;
      const size_t in = k % phasor::code_bytes(bits),
                   at = (below == 0 ? 0 : phasor::code_bytes(low) * lanes) + in / 4 * (lanes * 4) +
                        lane * 4 + in % 4;
      const uint64_t field = code >> below & ((1u << bits) - 1);
      group(k / kGroup)[at] |= static_cast<unsigned char>(field << phasor::code_shift(bits, k));
    }
  }
}

// The records of a row with minima that no quantizer gives: numbers of either sign, now and then
// none, any codes. byte(i): byte i of them.
template <class ByteAt>
void any_minima(Weights* w, Type type, uint32_t cols, ByteAt byte) {
  const uint64_t groups = groups_of(cols), bytes = row_record_bytes(type, groups);
  const uint64_t size = record_bytes(type);
  for (uint64_t i = 0; i < bytes; i += size) {
    unsigned char numbers[4];
    store_u16(numbers, any_scale(w, true));
    store_u16(numbers + 2, any_scale(w, true));
    // Of a record of eight groups the codes multiply them.
    for (uint64_t j = 0; j < 4; ++j)
      *byte(i + j) = static_cast<unsigned char>(
          numbers[j] - (size != 4 && j % 2 != 0 && (numbers[j] & 0x7F) >= 0x14) * 0x10);
    const uint64_t left = groups - i / size * kSuper;
    for (uint64_t g = 0; size != 4 && g < kSuper && g < left; ++g) {
      const uint64_t codes = w->bits();
      const auto s = static_cast<unsigned char>(codes & 63),
                 t = static_cast<unsigned char>(codes >> 8 & 63);
      if (g < 4) {
        *byte(i + 4 + g) |= s;
        *byte(i + 8 + g) |= t;
        continue;
      }
      *byte(i + 8 + g) |= static_cast<unsigned char>((s & 15) | (t & 15) << 4);
      *byte(i + g) |= static_cast<unsigned char>(s >> 4 << 6);
      *byte(i + 4 + g) |= static_cast<unsigned char>(t >> 4 << 6);
    }
  }
}

// The same of a coded type: numbers of either sign, now and then none, any codes of scales.
template <class ByteAt>
void any_coded_scales(Weights* w, Type type, uint32_t cols, ByteAt byte) {
  const size_t size = phasor::record_bytes(type), codes = phasor::record_codes(type);
  const bool eight = phasor::scale_bits(type) == 8;
  for (uint64_t i = 0; i < row_record_bytes(type, groups_of(cols)); i += size) {
    const uint64_t columns = i / size * kSuper * kGroup;
    unsigned char number[2];
    store_u16(number, any_scale(w, true));
    for (uint64_t j = 0; j < 2; ++j)  // which the codes multiply
      *byte(i + j) =
          static_cast<unsigned char>(number[j] - (j == 1 && (number[1] & 0x7F) >= 0x14) * 0x10);
    for (size_t c = 0; c < codes && columns + c * phasor::scale_span(type) < cols; ++c) {
      const unsigned code = static_cast<unsigned>(w->bits() & 255);
      const auto put = [&](size_t at, unsigned bits) {
        *byte(i + 2 + at) = static_cast<unsigned char>(*byte(i + 2 + at) | bits);
      };
      if (eight) {
        put(c, code);
      } else {
        put(c % (codes / 2), (code & 15) << (c / (codes / 2) * 4));
        put(codes / 2 + c % (codes / 4), (code >> 4 & 3) << (c / (codes / 4) * 2));
      }
    }
  }
}

// A row whose groups share records that no quantizer gives. byte(i): byte i of its records.
template <class ByteAt, class GroupAt>
void any_record_row(Weights* w, Type type, uint32_t cols, size_t lanes, size_t lane, ByteAt byte,
                    GroupAt group) {
  if (minimum_type(type))
    any_minima(w, type, cols, byte);
  else
    any_coded_scales(w, type, cols, byte);
  any_codes(w, type, cols, lanes, lane, group);
}

void any_panels(Weights* w, Type type, uint32_t cols, const Parts& parts, Bytes* out) {
  const uint64_t panel_size = panel_bytes(type, cols);
  const uint64_t plane = plane_bytes(type, kLanes, cols);
  for (uint64_t at = 0; table_type(type) && at < out->size(); at += panel_size)
    for (uint64_t i = 0; i < phasor::kTable; ++i)
      (*out)[at + i] = static_cast<unsigned char>(w->bits());
  each_row(parts, [&](uint32_t panel, uint32_t lane) {
    unsigned char* const p = out->data() + panel * panel_size;
    if (whole_type(type)) {
      any_whole_row(w, type, cols, p + 4 * lane,
                    [=](uint32_t k) { return p + plane + panel_index(type, lane, k); });
      return;
    }
    if (phasor::record_groups(type) != 0) {
      any_record_row(
          w, type, cols, kLanes, lane,
          [=](uint64_t i) { return p + panel_index_record(type, lane, i); },
          [=](uint64_t g) {
            return p + plane + g * phasor::code_bytes(value_bits(type)) * kLanes;
          });
      return;
    }
    any_row(
        w, type, cols, [=](uint32_t group) { return p + phasor::panel_scale(type, lane, group); },
        [=](uint32_t k) { return p + plane + panel_index(type, lane, k); });
  });
}

void any_rows(Weights* w, Type type, uint32_t cols, uint32_t rows, Bytes* out) {
  const uint64_t groups = groups_of(cols), plane = plane_bytes(type, rows, cols);
  for (uint64_t i = 0; table_type(type) && i < phasor::kTable; ++i)
    (*out)[i] = static_cast<unsigned char>(w->bits());
  for (uint32_t row = 0; row < rows; ++row) {
    unsigned char* const p = out->data();
    if (whole_type(type)) {
      any_whole_row(w, type, cols, p + 4 * row,
                    [=](uint32_t k) { return p + plane + phasor::row_index(type, cols, row, k); });
      continue;
    }
    if (phasor::record_groups(type) != 0) {
      any_record_row(
          w, type, cols, 1, 0,
          [=](uint64_t i) { return p + row * row_record_bytes(type, groups) + i; },
          [=](uint64_t g) {
            return p + plane + (row * groups + g) * phasor::code_bytes(value_bits(type));
          });
      continue;
    }
    any_row(
        w, type, cols,
        [=](uint32_t group) { return p + phasor::row_scale(type, groups, row, group); },
        [=](uint32_t k) { return p + plane + phasor::row_index(type, cols, row, k); });
  }
}

// Writes tensors in the order in which they are asked for.
class Writer {
 public:
  Writer(Choices* c, std::vector<WrittenTensor>* out) : c_(c), weights_(c->seed()), out_(out) {
    mixed_ = c->chance(40);
    type_ = c->of(types_);
    raw_ = c->chance(25);
    wide_ = c->chance(30);
    rotated_ = wide_ && c->chance(40);
  }

  void at(uint32_t stack, uint32_t set) { base_ = stack << 24 | set << 8; }

  // An f32 vector of values around `middle`.
  void vector(uint32_t role, uint32_t n, float middle, float spread) {
    Bytes& bytes = add(role, Type::f32, Layout::vector, n, 1, 0);
    for (uint32_t i = 0; i < n; ++i) put_f32(&bytes, middle + spread * weights_.unit());
  }
  // Powers of two: the scales of a layer's inputs.
  void scales(uint32_t role, uint32_t n) {
    Bytes& bytes = add(role, Type::f32, Layout::vector, n, 1, 0);
    for (uint32_t i = 0; i < n; ++i)
      put_f32(&bytes, std::ldexp(1.0f, static_cast<int>(weights_.bits() % 5) - 2));
  }
  // Frequencies of sines, as the papers have them or any others; f64.
  void frequencies(uint32_t role, uint32_t n) {
    Bytes& bytes = add(role, Type::f64, Layout::vector, n, 1, 0);
    const double base = c_->of({10000.0, 500000.0, 10.0, 1.0});
    for (uint32_t i = 0; i < n; ++i) put_f64(&bytes, std::pow(base, -double(i) / n));
  }
  void table(uint32_t role, uint32_t rows, uint32_t cols, float spread) {
    Bytes& bytes = add(role, Type::f32, Layout::rows, rows, cols, 0);
    for (uint64_t i = 0; i < uint64_t(rows) * cols; ++i) put_f32(&bytes, spread * weights_.unit());
  }
  void norm(uint32_t role, uint32_t n, bool bias) {
    vector(role, n, 1, 0.25f);
    if (bias) vector(role + 1, n, 0, 0.1f);
  }
  // bias: a bit for each part that has one.
  void linear(uint32_t role, const Parts& parts, uint32_t cols, uint32_t bias) {
    matrix(role, Layout::panel16, parts, cols, 1 / std::sqrt(float(cols)));
    if (bias == 0) return;
    const uint32_t n = parts.count() > 1 ? parts.panels() * uint32_t{kLanes} : parts.total();
    Bytes& bytes = add(role + 1, Type::f32, Layout::vector, n, 1, 0);
    bytes.resize(n * sizeof(float));
    uint32_t part = 0, row = 0;
    each_row(parts, [&](uint32_t panel, uint32_t lane) {
      while (row == parts.rows[part]) ++part, row = 0;
      ++row;
      if ((bias >> part & 1) == 0) return;
      const uint32_t bits = bits_of(0.2f * weights_.unit());
      phasor::store_u32(bytes.data() + 4 * (panel * kLanes + lane), bits);
    });
  }
  void matrix(uint32_t role, Layout layout, const Parts& parts, uint32_t cols, float spread) {
    const Type type = mixed_ ? c_->of(types_) : type_;
    const uint32_t panels = layout == Layout::panel16 ? parts.panels() : 0, rows = parts.total();
    Bytes& out = add(role, type, layout, rows, cols, panels);
    Entry& entry = out_->back().entry;
    out.resize(size_as(type, entry));
    if (wide_ && panels != 0 && quantized_type(type) && (!mixed_ || rows % 2 != 0))
      entry.inputs = rotated_ && grouped_type(type) ? kInputsRotated : kInputs16;
    if (c_->chance(2)) return;        // all weights zero
    constexpr uint64_t kMany = 4096;  // values that a quantizer takes long for
    if (given_type(type) || table_type(type) ||
        (quantized_type(type) && (raw_ || uint64_t(rows) * cols > kMany))) {
      if (panels != 0)
        any_panels(&weights_, type, cols, parts, &out);
      else
        any_rows(&weights_, type, cols, rows, &out);
      return;
    }
    Entry given = entry;
    given.type = Type::f32;
    Bytes floats(size_as(Type::f32, entry));
    uint32_t row = 0;
    each_row(parts, [&](uint32_t panel, uint32_t lane) {
      for (uint32_t k = 0; k < cols; ++k) {
        const uint64_t place = panels == 0
                                   ? uint64_t(row) * cols + k
                                   : panel * uint64_t(cols) * kLanes + panel_index_f32(lane, k);
        phasor::store_u32(floats.data() + 4 * place, bits_of(spread * weights_.unit()));
      }
      ++row;
    });
    StoredError error;
    if (type == Type::f32)
      out = floats;
    else if (!convert_matrix(out.data(), type, entry.inputs, floats.data(), given, nullptr, &error))
      std::abort();
  }

 private:
  static std::size_t size_as(Type type, const Entry& e) {
    return static_cast<std::size_t>(e.layout == Layout::panel16
                                        ? panel_bytes(type, e.cols) * e.panels
                                        : rows_bytes(type, e.rows, e.cols));
  }
  Bytes& add(uint32_t role, Type type, Layout layout, uint32_t rows, uint32_t cols,
             uint32_t panels) {
    out_->push_back({{base_ | role, type, layout, 0, 0, 0, rows, cols, panels, 0}, {}});
    return out_->back().bytes;
  }

  Choices* c_;
  Weights weights_;
  std::vector<WrittenTensor>* out_;
  const std::vector<Type> types_ = built_types();
  bool mixed_, raw_, wide_, rotated_;
  Type type_;
  uint32_t base_ = 0;
};

void write_kind(Writer* w, const KindDescriptor& k, uint32_t index) {
  w->at(kStackKinds, index);
  if (k.rotary_width != 0) w->frequencies(kRoleRotary, k.rotary_width / 2);
  if (k.position == kT5Bias) w->table(kRoleT5Bias, k.heads, 2 * reach(k) + 1, 1);
  if (k.position == kAlibi) w->vector(kRoleAlibi, k.heads, 0.3f, 0.25f);
}

void write_input(Writer* w, const Descriptor& d, uint32_t which, Layout embedding) {
  const StackDescriptor& s = d.stacks[which];
  const uint32_t width = input_width(s);
  w->at(which == 0 ? kStackSource : kStackTarget, 0);
  if (d.sides[which].embedding_shared == 0)
    w->matrix(kRoleEmbedding, embedding, {{d.sides[which].vocabulary, 0, 0}}, s.embedding_width, 1);
  if (s.position == kPositionLearned) w->table(kRolePositions, s.max_positions, width, 0.5f);
  if (s.segments != 0) w->table(kRoleSegments, s.segments, width, 0.5f);
  if (s.embedding_norm != kNormNone)
    w->norm(kRoleEmbeddingNorm, width, s.embedding_norm == kNormLayer);
  if (s.embedding_width != s.width)
    w->linear(kRoleProjection, {{s.width, 0, 0}}, s.embedding_width, s.projection_bias);
  if (sinusoidal(s)) w->frequencies(kRoleSinusoid, width / 2);
  if (d.sides[which].own_row != 0) w->vector(kRoleOwnRow, s.embedding_width, 0, 1);
  if (const uint32_t values = s.per_layer_width * s.layers.count / 2) {
    w->matrix(kRolePerLayer, Layout::rows, {{d.sides[which].vocabulary, 0, 0}}, values, 1);
    w->linear(kRolePerLayerProjection, {{values, 0, 0}}, s.width, 0);
    if (s.per_layer_norm != kNormNone)
      w->norm(kRolePerLayerNorm, s.per_layer_width, s.per_layer_norm == kNormLayer);
  }
}

void write_attention(Writer* w, const KindDescriptor& k, uint32_t width) {
  const uint32_t q = q_width(k), kv = kv_width(k), biases = k.attention_biases;
  const bool separate = k.separate_v != 0;
  const bool own = k.keys_of == 0;
  const uint32_t fused = kBiasQ | kBiasK | (separate ? 0u : uint32_t{kBiasV});
  w->linear(kRoleQkv, {{q, own ? kv : 0, own && !separate ? kv : 0}}, width, biases & fused);
  if ((k.input_scales & kScaleQkv) != 0) w->scales(kRoleQkvScale, width);
  if (separate) w->linear(kRoleV, {{kv, 0, 0}}, width, (biases & kBiasV) != 0);
  if (k.mixer == kMixerConvolution) w->table(kRoleTaps, k.window, q, 1);
  if (k.convolution_bias != 0) w->vector(kRoleTapsBias, q, 0, 0.5f);
  const uint32_t distances = 2 * reach(k) + 1;
  const bool by_head = k.position == kDisentangled;
  if (relative_keys(k)) w->table(kRoleRelativeKeys, by_head ? q : k.head_width, distances, 0.5f);
  if (k.position == kClippedRelative) w->table(kRoleRelativeValues, distances, k.head_width, 0.5f);
  if (by_head) w->table(kRoleRelativeQueries, q, distances, 0.5f);
  if (k.qk_norm != kNormNone) {
    const bool shared = k.qk_norm_over == kOverHead, bias = k.qk_norm == kNormLayer;
    w->norm(kRoleQNorm, shared ? k.head_width : q, bias);
    if (own) w->norm(kRoleKNorm, shared ? k.head_width : kv, bias);
  }
  if (k.score == kScoreAdditive) w->vector(kRoleScore, q, 0, 1);
  if ((k.inner_norms & kNormOfOut) != 0) w->norm(kRoleAttentionInner, q, k.norm_biases != 0);
  w->linear(kRoleAttentionOut, {{width, 0, 0}}, q, (biases & kBiasOut) != 0);
}

void write_cross(Writer* w, const KindDescriptor& k, uint32_t width, uint32_t memory) {
  const uint32_t q = cross_q_width(k), kv = cross_kv_width(k), biases = k.cross_biases;
  w->linear(kRoleCrossQ, {{q, 0, 0}}, width, biases & kBiasQ);
  w->linear(kRoleCrossKv, {{kv, kv, 0}}, memory, biases >> 1 & 3);
  if (k.cross_score == kScoreAdditive) w->vector(kRoleCrossScore, q, 0, 1);
  w->linear(kRoleCrossOut, {{width, 0, 0}}, q, (biases & kBiasOut) != 0);
}

void write_set(Writer* w, const KindDescriptor& k, const StackDescriptor& s) {
  const bool before = k.norm_place == kNormBefore || k.norm_place == kNormBoth;
  const bool after = k.norm_place != kNormBefore, biases = k.norm_biases != 0;
  if (before && k.attention_norm != 0) w->norm(kRoleAttentionBefore, s.width, biases);
  write_attention(w, k, s.width);
  if (after) w->norm(kRoleAttentionAfter, s.width, biases);
  if (k.cross == kCrossOwn) {
    if (before) w->norm(kRoleCrossBefore, s.width, biases);
    write_cross(w, k, s.width, s.cross_width);
    if (after) w->norm(kRoleCrossAfter, s.width, biases);
  }
  if (before && k.parallel != kSharedInput) w->norm(kRoleFfnBefore, s.width, biases);
  const Parts in{{k.hidden, k.gated != 0 ? k.hidden : 0, 0}};
  w->linear(kRoleFfnIn, in, s.width, (k.ffn_biases & kBiasIn) != 0 ? 3 : 0);
  if ((k.input_scales & kScaleFfn) != 0) w->scales(kRoleFfnScale, s.width);
  if (k.activation == kXielu) w->vector(kRoleXielu, 4, 0.5f, 0.5f);
  if ((k.inner_norms & kNormOfDown) != 0) w->norm(kRoleFfnInner, k.hidden, biases);
  w->linear(kRoleFfnOut, {{s.width, 0, 0}}, k.hidden, (k.ffn_biases & kBiasFfnOut) != 0);
  if (after) w->norm(kRoleFfnAfter, s.width, biases);
  if (s.per_layer_width != 0) {
    w->linear(kRolePerLayerGate, {{s.per_layer_width, 0, 0}}, s.width, 0);
    w->linear(kRolePerLayerOut, {{s.width, 0, 0}}, s.per_layer_width, 0);
    if (after) w->norm(kRolePerLayerAfter, s.width, biases);
  }
  if (k.value_norm != 0)
    w->norm(kRoleVNorm, k.qk_norm_over == kOverHead ? k.head_width : kv_width(k),
            k.qk_norm == kNormLayer);
  if (k.layer_scale != 0) w->vector(kRoleLayerScale, 1, 0.8f, 0.4f);
}

void write_output(Writer* w, const Descriptor& d) {
  const OutputDescriptor& o = d.output;
  const uint32_t inputs = output_inputs(d), rows = output_width(d);
  const uint32_t width = d.stacks[d.last()].width;
  const float spread = 1 / std::sqrt(float(inputs));
  w->at(kStackOutput, 0);
  if (o.output == kOutputLogits && o.tied == kTiedOwn)
    w->matrix(kRoleOutputWeight, Layout::panel16, {{rows, 0, 0}}, inputs, spread);
  if (o.output == kOutputLogits && o.bias != 0) w->vector(kRoleOutputBias, rows, 0, 0.5f);
  if (o.head_width != 0) w->linear(kRoleHead, {{o.head_width, 0, 0}}, width, o.head_bias);
  if (o.head_norm != kNormNone) w->norm(kRoleHeadNorm, inputs, o.head_norm == kNormLayer);
  if (o.output == kOutputClasses) w->linear(kRoleClassifier, {{rows, 0, 0}}, inputs, o.bias);
}

// The side whose embedding is the output's matrix, or −1.
int tied_side(const Descriptor& d) {
  if (d.output.output != kOutputLogits || d.output.tied == kTiedOwn) return -1;
  return d.output.tied == kTiedSource || d.sides[kDecoder].embedding_shared != 0 ? 0 : 1;
}

}  // namespace

std::vector<WrittenTensor> write_tensors(Choices* c, const File& meta, const Descriptor& d,
                                         const std::vector<KindDescriptor>& kinds) {
  std::vector<WrittenTensor> out;
  Writer w(c, &out);
  for (uint32_t i = 0; i < d.kinds; ++i) write_kind(&w, kinds[i], i);
  for (uint32_t which = 0; which < 2; ++which) {
    const StackDescriptor& s = d.stacks[which];
    if (s.present == 0) continue;
    const bool tied = tied_side(d) == static_cast<int>(which);
    write_input(&w, d, which, tied || c->chance(50) ? Layout::panel16 : Layout::rows);
    const uint32_t stack = which == 0 ? kStackEncoder : kStackDecoder;
    for (uint32_t i = 0, sets = 0; i < s.layers.count; i += 2) {
      const uint32_t set = array_at(meta, s.layers, i + 1);
      if (set < sets) continue;
      sets = set + 1;
      w.at(stack, set);
      write_set(&w, kinds[array_at(meta, s.layers, i)], s);
    }
    w.at(stack, kFinalSet);
    if (s.final_norm != kNormNone) w.norm(kRoleFinalNorm, s.width, s.final_norm == kNormLayer);
  }
  write_output(&w, d);
  return out;
}

}  // namespace generator
