#include "descriptor_checks.h"

namespace phasor {
namespace {

constexpr uint32_t kAll = 0xFFFFFFFFu;  // every value in range is built
constexpr uint32_t bits(bool value, uint32_t mask) { return value ? mask : 0; }
constexpr size_t kNowhere = 0xFFFF;  // the place of what is only for people

#include "fields.inc"
constexpr unsigned kFieldCount = sizeof kFields / sizeof kFields[0];

// Every value of a choice has a name, and what is not all built is a choice of less than 32 values.
constexpr bool choices_are_named() {
  for (const Field& f : kFields) {
    uint32_t last = f.low;
    for (const char* c = f.choices; c != nullptr && *c != 0; ++c) last += *c == '|' ? 1u : 0u;
    if (f.choices != nullptr ? last < f.high || f.high >= 32 : f.built != kAll) return false;
  }
  return true;
}
static_assert(choices_are_named(), "a choice of the table has a value without a name");

const char* scope_name(uint32_t scope) { return scope <= kLastScope ? kScopeNames[scope] : "?"; }

// Scopes 2 and 4 have the fields of 1 and 3.
uint32_t scope_of_fields(uint32_t scope) {
  return scope == kScopeTarget ? kScopeSource : scope == kScopeDecoder ? kScopeEncoder : scope;
}

// The field of a key, or NULL.
const Field* field_of(uint32_t scope, uint32_t number) {
  scope = scope_of_fields(scope);
  for (const Field& f : kFields)
    if (f.scope == scope && f.number == number) return &f;
  return nullptr;
}

// The name of choice `value`, written to the line.
void add_choice(const Field& f, uint32_t value, Line* line) {
  const char* c = f.choices;
  for (uint32_t i = f.low; i < value; ++c) i += *c == '|' ? 1u : 0u;
  while (*c != 0 && *c != '|') line->put(*c++);
}

void add_key_name(uint32_t key, const Field* f, Line* line) {
  const uint32_t scope = key >> 24, index = key >> 12 & 0xFFF;
  line->add(scope_name(scope));
  if (scope == kScopeKind) line->add(index);
  line->put('.');
  if (f != nullptr) {
    line->add(f->name);
  } else {
    line->add(key & 0xFFF);
  }
}

// A failure that names a key: "decoder.position: …".
template <class... Parts>
phasor_status fail_key(phasor_error* error, phasor_status status, uint32_t key, const Field* f,
                       Parts... parts) {
  char name[64];
  Line line(name, sizeof name);
  add_key_name(key, f, &line);
  return fail(error, status, {kSectionMeta, PHASOR_NONE, 0, 0}, static_cast<const char*>(name),
              ": ", parts...);
}

phasor_status check_value(const Meta& m, const Field& f, phasor_error* error) {
  if (m.type != f.type)
    return fail_key(error, PHASOR_BAD_FILE, m.key, &f, "has type ", uint32_t(m.type), ", expected ",
                    uint32_t(f.type));
  if (f.type == kMetaU32) {
    const uint32_t v = load_u32(m.value);
    if (v < f.low || v > f.high)
      return fail_key(error, PHASOR_BAD_FILE, m.key, &f, v, ", expected ", f.low, " to ", f.high);
    if (f.built == kAll || (f.built >> v & 1u) != 0) return PHASOR_OK;
    char choice[48];
    Line line(choice, sizeof choice);
    add_choice(f, v, &line);
    return fail_key(error, PHASOR_UNSUPPORTED, m.key, &f, static_cast<const char*>(choice),
                    " is not supported");
  }
  if (f.type == kMetaU32Array && (m.bytes / 4 < f.low || m.bytes / 4 > f.high))
    return fail_key(error, PHASOR_BAD_FILE, m.key, &f, m.bytes / 4, " values, expected ", f.low,
                    " to ", f.high);
  return PHASOR_OK;
}

void store_value(const File& file, const Meta& m, const Field& f, void* target) {
  if (f.place == kNowhere) return;
  unsigned char* p = static_cast<unsigned char*>(target) + f.place;
  if (f.type == kMetaU32 || f.type == kMetaF32) {
    const uint32_t number = load_u32(m.value);  // or the bits of a float
    memcpy(p, &number, sizeof number);
    return;
  }
  const Array list{static_cast<uint64_t>(m.value - file.data),
                   f.type == kMetaString ? m.bytes : m.bytes / 4, 1};
  memcpy(p, &list, sizeof list);
}

// Defaults that depend on other fields.
void resolve_kind(KindDescriptor* k) {
  resolve(k);
  if (k->norm_biases == PHASOR_NONE) k->norm_biases = k->norm == kNormLayer ? 1 : 0;
}

// Reads the keys, which are in the order of their scopes.
class Reader {
 public:
  Reader(const File& file, KindDescriptor* kinds, phasor_error* error)
      : file_(file), kinds_(kinds), error_(error) {}

  phasor_status read(Descriptor* out) {
    Meta m{};
    uint64_t at = 0;
    phasor_status status = PHASOR_OK;
    while (status == PHASOR_OK && next_meta(file_, &at, &m)) {
      const uint32_t scope = m.key >> 24, index = m.key >> 12 & 0xFFF;
      if (scope != scope_ || index != index_) status = change_scope(scope, index);
      if (status == PHASOR_OK) status = take(m);
    }
    if (status == PHASOR_OK) status = end_scope();
    if (status == PHASOR_OK) status = finish();
    if (status == PHASOR_OK) *out = d_;
    return status;
  }

 private:
  // The struct that the fields of the scope are in.
  void* home() {
    switch (scope_) {
      case kScopeModel:
        return &d_;
      case kScopeSource:
      case kScopeTarget:
        return &d_.sides[scope_ - kScopeSource];
      case kScopeEncoder:
      case kScopeDecoder:
        return &d_.stacks[scope_ - kScopeEncoder];
      case kScopeKind:
        return &kind_;
      case kScopeOutput:
        return &d_.output;
      default:
        return &d_.generation;
    }
  }

  phasor_status take(const Meta& m) {
    const Field* f = field_of(scope_, m.key & 0xFFF);
    if (f == nullptr && m.required)
      return fail(error_, PHASOR_UNSUPPORTED, {kSectionMeta, PHASOR_NONE, 0, m.key},
                  "metadata: key ", m.key, " (scope ", scope_, ", field ", m.key & 0xFFF,
                  ") is required and not known here");
    if (f == nullptr) return PHASOR_OK;
    const phasor_status status = check_value(m, *f, error_);
    if (status != PHASOR_OK) return status;
    seen_[f - kFields] = true;
    store_value(file_, m, *f, home());
    return PHASOR_OK;
  }

  phasor_status end_scope() {
    const uint32_t scope = scope_of_fields(scope_);
    for (const Field& f : kFields)
      if (f.scope == scope && f.needed != 0 && !seen_[&f - kFields])
        return fail_key(error_, PHASOR_BAD_FILE, scope_ << 24 | index_ << 12, &f, "is missing");
    if (scope_ != kScopeKind) return PHASOR_OK;
    resolve_kind(&kind_);
    if (kinds_ != nullptr) kinds_[index_] = kind_;
    d_.kinds = index_ + 1;
    return check_kind(kind_, index_, error_);
  }

  phasor_status change_scope(uint32_t scope, uint32_t index) {
    const phasor_status status = end_scope();
    if (status != PHASOR_OK) return status;
    const uint32_t expected = scope == kScopeKind && scope_ == kScopeKind ? index_ + 1 : 0;
    if (index != expected)
      return fail(error_, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, expected, index},
                  "metadata: index ", index, " of scope ", scope, ", expected ", expected);
    if (index >= kMaxKinds)
      return fail(error_, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, kMaxKinds, index},
                  "metadata: more than 256 kinds");
    memset(seen_, 0, sizeof seen_);
    kind_ = KindDescriptor{};
    scope_ = scope;
    index_ = index;
    if (scope <= kLastScope) started_[scope] = true;
    return PHASOR_OK;
  }

  phasor_status finish() {
    const uint32_t scopes[] = {kScopeKind, kScopeOutput};
    for (const uint32_t scope : scopes)
      if (!started_[scope])
        return fail(error_, PHASOR_BAD_FILE, {kSectionMeta, PHASOR_NONE, 0, 0}, "metadata: scope ",
                    scope_name(scope), " is missing");
    for (const Half half : kHalves) {
      StackDescriptor& s = d_.stacks[half];
      d_.sides[half].present = started_[uint32_t{kScopeSource} + half] ? 1u : 0u;
      s.present = started_[uint32_t{kScopeEncoder} + half] ? 1u : 0u;
      resolve(&s);
    }
    StackDescriptor& decoder = d_.stacks[kDecoder];
    if (decoder.cross_width == 0) decoder.cross_width = d_.stacks[kEncoder].width;
    d_.generation.present = started_[kScopeGeneration] ? 1u : 0u;
    return check_whole(file_, d_, kinds_, error_);
  }

  const File& file_;
  KindDescriptor* kinds_;
  phasor_error* error_;
  Descriptor d_{};
  KindDescriptor kind_{};  // the one being read
  uint32_t scope_ = kScopeModel, index_ = 0;
  bool seen_[kFieldCount] = {};  // of the scope being read
  bool started_[kLastScope + 1] = {true};
};

}  // namespace

phasor_status read_descriptor(Descriptor* out, KindDescriptor* kinds, const File& file,
                              phasor_error* error) noexcept {
  return Reader(file, kinds, error).read(out);
}

bool next_record(const File& file, const Array& list, uint64_t* at, Record* out) noexcept {
  constexpr char kRecordEnd = 0x1E;
  if (*at >= list.count) return false;
  const char* text = reinterpret_cast<const char*>(file.data + list.offset + *at);
  const uint32_t left = static_cast<uint32_t>(list.count - *at);
  uint32_t bytes = 0;
  while (bytes < left && text[bytes] != kRecordEnd) ++bytes;
  work(1 + bytes);
  *out = {text, bytes};
  *at += bytes + uint64_t{1};
  return true;
}

const Field* descriptor_fields(uint32_t* count) noexcept {
  *count = kFieldCount;
  return kFields;
}

void describe_meta(const Meta& m, Line* name, Line* value) noexcept {
  const Field* f = field_of(m.key >> 24, m.key & 0xFFF);
  add_key_name(m.key, f, name);
  if (m.type == kMetaString) {
    for (uint32_t i = 0; i < m.bytes; ++i)
      value->put(m.value[i] < 0x20 ? ' ' : static_cast<char>(m.value[i]));
  } else if (m.type == kMetaU32 && f != nullptr && f->choices != nullptr) {
    add_choice(*f, load_u32(m.value), value);
  } else {
    for (uint32_t i = 0; i < m.bytes; i += 4) {
      if (i != 0) value->put(' ');
      if (m.type == kMetaF32 || m.type == kMetaF32Array) {
        value->add(load_f32(m.value + i));
      } else {
        value->add(load_u32(m.value + i));
      }
    }
  }
}

}  // namespace phasor
