// Files of mixed types: an input that several matrices read is rounded to int8 exactly once for
// each rounding that they want (rules 1.3, 1.18, 1.19, 1.29), whatever their types. The functions
// that round are replaced by ones that count; what they must come to is added up from the layers'
// types.
#include <algorithm>
#include <vector>

#include "cases.h"
#include "generator/model_generator.h"
#include "kernels/kernels.h"
#include "properties/trial.h"

using namespace generator;
using phasor::Type;

namespace {

// Rows rounded: in groups, whole, and whole and rotated; then the same to 16 bits; last rotated and
// in groups.
struct Roundings {
  uint32_t of[7] = {};
  bool operator==(const Roundings& o) const { return std::equal(of, of + 7, o.of); }
};
Roundings counted;

void count_row(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
  ++counted.of[0];
  phasor::kernels_scalar.quantize_row(q, scale, sum, x, cols);
}
void count_whole(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols, size_t block) {
  ++counted.of[block != 0 ? 2 : 1];
  phasor::kernels_scalar.quantize_whole(q, scale, sum, x, cols, block);
}
void count_row16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols) {
  ++counted.of[3];
  phasor::kernels_scalar.quantize_row16(q, scale, sum, x, cols);
}
void count_whole16(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                   size_t block) {
  ++counted.of[block != 0 ? 5 : 4];
  phasor::kernels_scalar.quantize_whole16(q, scale, sum, x, cols, block);
}

void count_rotated(int8_t* q, float* scale, int32_t* sum, const float* x, size_t cols,
                   size_t block) {
  ++counted.of[6];
  phasor::kernels_scalar.quantize_rotated(q, scale, sum, x, cols, block);
}

// What one call must come to, from the types of what reads each input.
class Expected {
 public:
  Roundings total;
  uint32_t mixed = 0;   // inputs that are rounded in more than one way
  uint32_t shared = 0;  // inputs of which one rounding is read by more than one matrix

  // `rows` rows of one input, read by these matrices; one that the model has not is empty.
  void input(uint32_t rows, const std::vector<const phasor::Linear*>& readers) {
    uint32_t readers_of[7] = {};
    for (const phasor::Linear* reader : readers) {
      if (!reader->weight) continue;
      const Type type = reader->weight.type;
      const uint32_t wide = reader->weight.inputs != 0 ? 3 : 0;
      if (reader->weight.inputs == phasor::kInputsRotated)
        ++readers_of[6];
      else if (phasor::has_row_scale(type))
        ++readers_of[wide + (phasor::rotated_type(type) ? 2 : 1)];
      else if (type != Type::f32 && type != Type::f16 && type != Type::bf16)
        ++readers_of[wide];
    }
    uint32_t ways = 0;
    for (uint32_t i = 0; i < 7; ++i) {
      ways += readers_of[i] != 0;
      shared += readers_of[i] > 1;
      total.of[i] += readers_of[i] != 0 ? rows : 0;
    }
    mixed += ways > 1;
  }
  // All layers of a stack, over `rows` rows.
  void stack(const phasor::Model& m, phasor::Half which, uint32_t rows) {
    input(rows, {&m.inputs[which].projection});
    if (which == phasor::kDecoder) input(rows, {&m.per_layer.per_layer_projection});
    for (uint32_t i = 0; i < m.layer_count[which]; ++i) {
      const phasor::Layer& l = m.layer(which, i);
      const phasor::KindDescriptor& k = m.kind(l);
      const bool beside = k.parallel == phasor::kSharedInput;
      input(rows, beside ? std::vector<const phasor::Linear*>{&l.qkv, &l.v, &l.ffn_in}
                         : std::vector<const phasor::Linear*>{&l.qkv, &l.v});
      if (!beside) input(rows, {&l.ffn_in});
      if (k.cross != 0) {
        input(rows, {&l.cross_q});
        input(rows, {&l.cross_out});
      }
      input(rows, {&l.attention_out});
      input(rows, {&l.ffn_out});
      input(rows, {&m.rare(l).per_layer_gate});
      input(rows, {&m.rare(l).per_layer_out});
    }
  }
};

}  // namespace

TEST_CASE("roundings: what several matrices of any types read is rounded once in each way") {
  constexpr uint32_t kTokens = 5;
  phasor::Kernels kernels = phasor::kernels_scalar;
  kernels.quantize_row = count_row;
  kernels.quantize_whole = count_whole;
  kernels.quantize_row16 = count_row16;
  kernels.quantize_whole16 = count_whole16;
  kernels.quantize_rotated = count_rotated;
  cli::Pool pool;
  uint32_t mixed = 0, shared = 0, rotated = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    INFO("model " << seed);
    const Bytes bytes = generate_model(seed);
    const Block file(bytes.data(), bytes.size());
    const Opened opened(file, "scalar");
    const phasor::Model& m = opened.inside();
    const_cast<phasor::Model&>(m).kernels.pointer = &kernels;
    Sequences::Tokens sides[2];
    for (phasor::Half i : phasor::kHalves) {
      const uint32_t allowed = phasor::longest_sequence(m, i);
      const uint32_t tokens = allowed != 0 ? std::min(allowed, kTokens) : kTokens;
      const uint32_t words = std::max(m.descriptor.sides[i].vocabulary, 1u);
      for (uint32_t t = 0; t < tokens; ++t) sides[i].ids.push_back(t * 7 % words);
      sides[i].segments.assign(tokens, 0);
    }
    phasor_limits limits{};
    limits.struct_size = sizeof limits;
    const uint32_t targets = opened.encoder() ? 0 : sides[1].count();
    REQUIRE(phasor_limits_for(opened.model(), sides[0].count(), targets, &limits) == PHASOR_OK);
    limits.chunk = limits.logit_rows = kTokens;
    const Running running(opened, limits, &pool);
    counted = {};
    const bool finite = encode_source(running, opened, 0, sides[0]);
    Expected source;
    if (opened.sourced()) source.stack(m, phasor::kEncoder, sides[0].count());
    std::vector<const phasor::Linear*> crossing;
    for (uint32_t i = 0; i < m.layer_count[phasor::kDecoder]; ++i) {
      const phasor::Layer& l = m.layer(phasor::kDecoder, i);
      crossing.push_back(&l.cross_kv);
      if (!phasor::merges(m.kind(l))) continue;
      crossing.push_back(&l.qkv);
      crossing.push_back(&l.v);
    }
    source.input(sides[0].count(), crossing);
    CHECK(counted == source.total);
    mixed += source.mixed;
    shared += source.shared;
    rotated += source.total.of[6];
    if (!finite || targets == 0) continue;
    counted = {};
    Bits bits;
    step_target(running, 0, sides[1], 0, targets, &bits);
    Expected target;
    target.stack(m, phasor::kDecoder, targets);
    target.input(targets, {&m.head});
    target.input(targets, {&m.output});
    CHECK(counted == target.total);
    mixed += target.mixed;
    shared += target.shared;
    rotated += target.total.of[6];
  }
  MESSAGE(mixed << " inputs rounded in more than one way, " << shared
                << " with one that is shared");
  CHECK(mixed > 30);
  CHECK(shared > 200);
  CHECK(rotated > 100);
}
