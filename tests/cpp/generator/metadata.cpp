#include "metadata.h"

#include <cstdio>
#include <cstdlib>

#include "format/file.h"

namespace generator {
namespace {

using phasor::Field;

// Scopes 2 and 4 have the fields of 1 and 3.
uint32_t scope_of_fields(uint32_t scope) {
  return scope == phasor::kScopeTarget    ? phasor::kScopeSource
         : scope == phasor::kScopeDecoder ? phasor::kScopeEncoder
                                          : scope;
}

[[noreturn]] void give_up(const char* what, const char* name) {
  std::fprintf(stderr, "generator: %s: %s\n", name, what);
  std::abort();
}

// What a number without named choices, and with a long range, may be.
struct Numbers {
  const char* name;
  std::vector<uint32_t> values;
};
const Numbers kNumbers[] = {
    {"rotary_width", {0}},  // follows the position
    {"max_distance", {0}},         {"window", {0, 1, 2, 3, 6, 7, 16, 17, 19, 33}},
    {"top_k", {0, 1, 2, 5, 1000}}, {"no_repeat_ngram", {0, 1, 2, 3}},
    {"min_new", {0, 1, 3}},        {"max_new", {0, 1, 4, 100}},
    {"beams", {0, 1, 3, 4, 256}},  {"source_no_repeat_ngram", {0, 1, 2, 3}},
};

struct Reals {
  const char* name;
  std::vector<float> values;
};
const Reals kReals[] = {
    {"embedding_scale", {1, 2.5f, 0.1f, -1, 0}},
    {"embedding_norm_eps", {1e-5f, 1e-6f, 1e-12f}},
    {"final_norm_eps", {1e-5f, 1e-6f, 1e-3f}},
    {"head_norm_eps", {1e-5f, 1e-6f, 1e-3f}},
    {"per_layer_scale", {1, 2.5f, 0.3f, -1, 0}},
    {"per_layer_norm_eps", {1e-5f, 1e-6f, 1e-12f}},
    {"norm_eps", {1e-5f, 1e-6f, 1e-3f, 1e-12f}},
    {"scale", {0.3f, 1, 0.125f, -0.5f, 0}},
    {"cross_scale", {0.3f, 1, -0.25f}},
    {"cap", {0, 0.5f, 5, 30}},
    {"residual_scale", {1, 0.5f, 0.22f, 0}},
    {"rotary_factor", {1, 0.5f, 1.25f}},
    {"qkv_clip", {0, 2, 0.25f}},
    {"temperature", {0, 0.7f, 1, 2}},
    {"top_p", {0, 0.5f, 1}},
    {"length_penalty", {-1, 0, 0.5f, 1, 2}},
    {"min_p", {0, 0.1f, 1}},
    {"typical_p", {0, 0.4f, 1}},
    {"repetition_penalty", {0, 1, 1.3f}},
};

template <class Row, std::size_t n>
const Row* row_of(const Row (&rows)[n], const char* name) {
  for (const Row& row : rows)
    if (std::strcmp(row.name, name) == 0) return &row;
  return nullptr;
}

constexpr uint32_t kFewest = 16;  // a range of no more values is chosen from as it is
constexpr uint32_t kAllBuilt = 0xFFFFFFFFu;

}  // namespace

std::string any_text(Choices* c) {
  static const std::vector<std::string> parts = {
      "a",    "Model ",           "1.0", " \t", "\n", "\xC3\xA9", "\xE4\xB8\xAD\xE6\x96\x87",
      "\"\\", "\xF0\x9F\x98\x80", "\x01"};
  std::string text;
  for (uint32_t i = c->below(6); i > 0; --i) text += c->of(parts);
  return text;
}

const Field& Group::field(const char* name) const {
  uint32_t count = 0;
  const Field* const fields = phasor::descriptor_fields(&count);
  for (uint32_t i = 0; i < count; ++i)
    if (fields[i].scope == scope_of_fields(scope_) && std::strcmp(fields[i].name, name) == 0)
      return fields[i];
  give_up("the engine has no such field", name);
}

Value Group::any(const Field& f, Choices* c) const {
  Value v;
  if (f.type == phasor::kMetaString) v.text = any_text(c);
  if (f.type == phasor::kMetaF32) {
    const Reals* const row = row_of(kReals, f.name);
    if (row == nullptr) give_up("no candidates for this number: add them to kReals", f.name);
    v.real = c->of(row->values);
  }
  if (f.type == phasor::kMetaU32 && f.high - f.low < kFewest) {
    std::vector<uint32_t> built;
    for (uint32_t i = f.low; i <= f.high; ++i)
      if (f.built == kAllBuilt || (f.built >> i & 1) != 0) built.push_back(i);
    v.number = c->of(built);
  } else if (f.type == phasor::kMetaU32) {
    const Numbers* const row = row_of(kNumbers, f.name);
    if (row == nullptr) give_up("no candidates for this number: add them to kNumbers", f.name);
    v.number = c->of(row->values);
  }
  if (f.type == phasor::kMetaU32Array)
    give_up("an array that nothing sets: choose its values", f.name);
  return v;
}

void Group::fill(Choices* c) {
  uint32_t count = 0;
  const Field* const fields = phasor::descriptor_fields(&count);
  for (uint32_t i = 0; i < count; ++i) {
    const Field& f = fields[i];
    if (f.scope != scope_of_fields(scope_) || values_.count(&f) != 0 || left_out_.count(&f) != 0)
      continue;
    if (f.needed != 0 || c->chance(45)) values_[&f] = any(f, c);
  }
}

void Group::write(Bytes* to, Choices* c) const {
  std::map<uint32_t, const std::pair<const Field* const, Value>*> in_order;
  for (const auto& value : values_) in_order[value.first->number] = &value;
  for (const auto& entry : in_order) {
    const Field& f = *entry.second->first;
    const Value& v = entry.second->second;
    Bytes bytes;
    if (f.type == phasor::kMetaU32) put_u32(&bytes, v.number);
    if (f.type == phasor::kMetaF32) put_f32(&bytes, v.real);
    for (const uint32_t id : v.ids) put_u32(&bytes, id);
    put_text(&bytes, v.text);
    put_u32(to, scope_ << 24 | index_ << 12 | f.number);
    const bool required = f.type == phasor::kMetaString ? c->chance(10) : !c->chance(10);
    put_u32(to, f.type | (required ? 1u : 0u) << 8);
    put_u32(to, bytes.size());
    to->insert(to->end(), bytes.begin(), bytes.end());
    pad(to, 4);
  }
}

}  // namespace generator
