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

#include "roles.inc"

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
      block_roles({visit, context, block_stack(half), layer.set, i}, kinds[layer.kind], s);
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
      block_roles(rows, kind, none.stacks[kEncoder]);
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
  return stack <= kStackOutput ? kPlaceNames[stack] : "?";
}

}  // namespace phasor
