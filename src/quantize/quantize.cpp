#include "quantize.h"

#include "../format/bytes.h"
#include "../format/crc32c.h"
#include "../format/tensors.h"

namespace phasor {
static_assert(PHASOR_TYPES == kTypes, "each type has a report");

namespace {

constexpr uint64_t kHeaderBytes = 64, kSectionBytes = 32, kEntryBytes = 48, kAlign = 64;

// Embeddings, and the output's matrix.
bool is_end(const Entry& e) {
  const uint32_t stack = e.key >> 24, role = e.key & 0xFFu;
  if (stack == kStackOutput) return role == kRoleOutputWeight;
  return (stack == kStackSource && role == kRoleEmbedding) ||
         (stack == kStackTarget && (role == kRoleEmbedding || role == kRolePerLayer));
}

// Tables of positions and segments have rows too, and stay f32.
bool is_matrix(const Entry& e) {
  return e.layout == Layout::panel16 || (e.layout == Layout::rows && is_end(e));
}

// The form of the inputs that it is to have in that type.
uint8_t wanted_inputs(const Conversion& c, const Entry& e, Type type) {
  if (!quantized_type(type) || e.layout != Layout::panel16) return 0;
  if (c.rotated) return grouped_type(type) ? kInputsRotated : uint8_t{0};
  if (c.inputs == 0) return type == e.type ? e.inputs : uint8_t{0};
  return c.inputs == 16 ? kInputs16 : uint8_t{0};
}

uint64_t bytes_as(const Entry& e, Type type) {
  if (type == e.type) return e.bytes;
  return e.layout == Layout::panel16 ? panel_bytes(type, e.cols) * e.panels
                                     : rows_bytes(type, e.rows, e.cols);
}

uint32_t section_count(const unsigned char* file) { return load_u32(file + 20); }
uint64_t section_at(uint32_t i) { return kHeaderBytes + i * kSectionBytes; }

// Places the sections that are copied behind the head, in their order, and gives the place behind
// them, where DATA begins. Copies them too unless `out` is NULL; gaps become zeros.
uint64_t copy_sections(unsigned char* out, const File& file) {
  uint64_t at = file.head_bytes;
  for (uint32_t i = 0; i < section_count(file.data); ++i) {
    const unsigned char* e = file.data + section_at(i);
    const uint32_t kind = load_u32(e);
    const uint64_t offset = load_u64(e + 8), bytes = load_u64(e + 16);
    if (kind == kSectionMeta || kind == kSectionDirectory || kind == kSectionData) continue;
    const uint64_t end = at + bytes, next = round_up(end, kAlign);
    if (out != nullptr) {
      store_u64(out + section_at(i) + 8, at);
      memcpy(out + at, file.data + offset, static_cast<size_t>(bytes));
      memset(out + end, 0, static_cast<size_t>(next - end));
    }
    at = next;
  }
  return at;
}

unsigned char* section_entry(unsigned char* file, uint32_t kind) {
  // never: it is asked for sections that the file has
  for (uint32_t i = 0; i < section_count(file); ++i)
    if (load_u32(file + section_at(i)) == kind) return file + section_at(i);
  return nullptr;
}

void report(phasor_rounding* r, const Entry& e, uint64_t bytes, const StoredError& error) {
  const float share = error.value > 0 ? error.largest / error.value : 0;
  r->bytes += bytes;
  if (share > r->share) r->share = share;
  if (!(error.largest > r->largest)) return;
  r->largest = error.largest;
  r->tensor = tensor_name(e.key);
}

// False: no type that a matrix of the type `own` becomes has this name. Its own it has already.
bool type_of(Type* out, const char* name, Type own = Type::f32) {
  for (unsigned code = 1; code <= kTypes; ++code) {
    const Type type = static_cast<Type>(code);
    if (no_matrix_type(type) || (given_type(type) && type != own)) continue;
    const char *a = name, *b = type_name(type);
    while (a != nullptr && *a != 0 && *a == *b) ++a, ++b;
    if (a != nullptr && *a == *b) return *out = type, true;
  }
  return false;
}

// The type that tensor `i` of the file is to have.
Type wanted_type(const Conversion& c, const Entry& e, uint32_t i) {
  Type own = c.matrices;
  if (c.types != nullptr && c.types[i] != nullptr && type_of(&own, c.types[i], e.type)) return own;
  return !is_matrix(e) ? e.type : is_end(e) ? c.ends : c.matrices;
}

phasor_status read_type(Type* out, const char* name, phasor_error* error, Type own = Type::f32) {
  if (type_of(out, name, own)) return PHASOR_OK;
  return bad_input(error, "type ", name != nullptr ? name : "(none)",
                   ": expected " PHASOR_TYPE_NAMES);
}

// Whether every tensor may have its type; how large the file becomes.
phasor_status measure(Conversion* c, phasor_error* error) {
  const File& file = c->file;
  uint64_t end = copy_sections(nullptr, file);
  // A value takes at most 34 times the bytes that it has in the file, as a row of q8r of one f16,
  // so no sum comes near 2^63.
  const bool large = file.bytes >= uint64_t(1) << 56;
  const uint32_t last = load_u32(file.data + section_at(section_count(file.data) - 1));
  if (last != kSectionData)
    return fail(error, PHASOR_UNSUPPORTED, {last, PHASOR_NONE, 0, 0}, "section ", last,
                " lies behind the data, which a converted file ends with");
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const Entry e = entry_at(file, i);
    const Type to = wanted_type(*c, e, i);
    const uint8_t form = wanted_inputs(*c, e, to);
    if (e.type == to && !convertible(e, to, form))
      return fail(
          error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, 0, e.key}, tensor_name(e.key),
          " is ", type_name(e.type),
          form == kInputsRotated ? " for inputs that are not rotated" : " for rotated inputs",
          ", and what was rounded is not rounded again: give the model in f32");
    if (!convertible(e, to, form))
      return fail(error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, 0, e.key},
                  tensor_name(e.key), " is ", type_name(e.type),
                  ", and what was rounded is not rounded again to ", type_name(to),
                  ": give the model in f32");
    if (whole_type(to) && e.cols > kMostInRow)
      return fail(error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, kMostInRow, e.cols},
                  tensor_name(e.key), ": ", e.cols, " inputs, ", type_name(to), " has at most ",
                  kMostInRow);
    end = round_up(end, kAlign) + bytes_as(e, to);
  }
  c->bytes = end;
  // never 2: no memory holds 2^56 bytes, and size_t has 64 bits where the tests run
  if (!large && end <= SIZE_MAX) return PHASOR_OK;
  return fail(error, PHASOR_TOO_LARGE, {}, "the converted file is too large for this machine");
}

// Moments of the columns of all matrices.
phasor_status check_moments(const File& file, const phasor_quantize_options& options,
                            phasor_error* error) {
  const uint64_t count = options.moment_count;
  uint64_t columns = 0;
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const Entry e = entry_at(file, i);
    if (is_matrix(e)) columns += e.cols;
  }
  if (count != columns)
    return bad_input(error, {columns, count}, count, " moments, the file's matrices have ", columns,
                     " columns");
  for (uint64_t i = 0; i < count; ++i)
    if (!(options.moments[i] >= 0 && options.moments[i] <= 3e38f))
      return bad_input(error, {0, i}, "moment ", i, " is negative or not finite");
  return PHASOR_OK;
}

// The types of single tensors; whether one of them is quantized, and in groups.
phasor_status check_types(const File& file, const phasor_quantize_options& options, bool* quantized,
                          bool* grouped, phasor_error* error) {
  if (options.type_count != entry_count(file))
    return bad_input(error, {entry_count(file), options.type_count}, options.type_count,
                     " types, the file has ", entry_count(file), " tensors");
  for (uint32_t i = 0; i < options.type_count; ++i) {
    if (options.types[i] == nullptr) continue;
    Type type{};
    const Entry e = entry_at(file, i);
    const phasor_status status = read_type(&type, options.types[i], error, e.type);
    if (status != PHASOR_OK) return status;
    if (!is_matrix(e))
      return bad_input(error, {0, i}, "a type for tensor ", i, ", which is no matrix");
    *quantized = *quantized || quantized_type(type);
    *grouped = *grouped || grouped_type(type);
  }
  return PHASOR_OK;
}

}  // namespace

phasor_status Conversion::open(const File& given, const phasor_quantize_options& options,
                               phasor_error* error) noexcept {
  file = given;
  moments = options.moments;
  inputs = options.inputs;
  rotated = options.rotated != 0;
  if (options.rotated > 1)
    return bad_input(error, {1, options.rotated}, "options.rotated: ", options.rotated,
                     ", expected 0 or 1");
  if (rotated && inputs == 16)
    return bad_input(error, {8, inputs}, "options.rotated: rotated inputs have 8 bits, not 16");
  if (inputs != 0 && inputs != 8 && inputs != 16)
    return bad_input(error, {0, inputs}, "options.inputs: ", inputs, ", expected 0, 8 or 16");
  phasor_status status = read_type(&matrices, options.type, error);
  ends = matrices;
  if (status == PHASOR_OK && options.output_type != nullptr)
    status = read_type(&ends, options.output_type, error);
  bool quantized = quantized_type(matrices) || quantized_type(ends),
       grouped = grouped_type(matrices) || grouped_type(ends);
  if (status == PHASOR_OK && options.types != nullptr) {
    types = options.types;
    status = check_types(file, options, &quantized, &grouped, error);
  }
  if (status == PHASOR_OK && rotated && !grouped)
    return bad_input(error, {1, 0},
                     "rotated inputs go with a type that has a scale for each group, not with ",
                     type_name(matrices));
  if (status == PHASOR_OK && inputs == 16 && !quantized)
    return bad_input(error, {0, inputs}, "inputs of 16 bits go with a quantized type, not with ",
                     type_name(matrices));
  if (status == PHASOR_OK) status = measure(this, error);
  return status != PHASOR_OK || moments == nullptr ? status : check_moments(file, options, error);
}

phasor_status Conversion::run(unsigned char* out, phasor_rounding* reports,
                              phasor_error* error) const noexcept {
  memcpy(out, file.data, static_cast<size_t>(file.head_bytes));
  store_u64(out + 24, bytes);
  const uint64_t data = copy_sections(out, file);
  unsigned char *section = section_entry(out, kSectionData),
                *directory = out + file.sections[kSectionDirectory].offset + 8;
  store_u64(section + 8, data);
  store_u64(section + 16, bytes - data);
  for (uint32_t i = 0; i < PHASOR_TYPES; ++i) reports[i].type = type_name(Type(i + 1));
  const float* of_inputs = moments;
  uint64_t at = data;
  for (uint32_t i = 0; i < entry_count(file); ++i, directory += kEntryBytes) {
    const Entry e = entry_at(file, i);
    const Type type = wanted_type(*this, e, i);
    const uint64_t size = bytes_as(e, type), first = round_up(at, kAlign);
    memset(out + at, 0, static_cast<size_t>(first - at));
    StoredError stored;
    if (type == e.type)
      memcpy(out + first, file.data + e.offset, static_cast<size_t>(size));
    else if (!convert_matrix(out + first, type, wanted_inputs(*this, e, type), file.data + e.offset,
                             e, of_inputs, &stored))
      return fail(error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, 0, e.key},
                  tensor_name(e.key), ": a weight is too large for ", type_name(type));
    if (of_inputs != nullptr && is_matrix(e)) of_inputs += e.cols;
    directory[4] = static_cast<unsigned char>(type);
    directory[6] = wanted_inputs(*this, e, type);
    store_u64(directory + 8, first);
    store_u64(directory + 16, size);
    store_u32(directory + 36, crc32c(0, out + first, static_cast<size_t>(size)));
    report(&reports[static_cast<unsigned>(type) - 1], e, size, stored);
    at = first + size;
  }
  seal(out, kSectionData);
  return PHASOR_OK;
}

void seal(unsigned char* file, uint32_t section) noexcept {
  unsigned char* e = section_entry(file, section);
  // never: the same
  if (e != nullptr)
    store_u32(e + 24, crc32c(0, file + load_u64(e + 8), static_cast<size_t>(load_u64(e + 16))));
  store_u32(file + 40, 0);
  store_u32(file + 40, crc32c(0, file, static_cast<size_t>(load_u64(file + 32))));
}

}  // namespace phasor
