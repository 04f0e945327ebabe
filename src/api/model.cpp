// Versions, the model, its test vectors, and the same model in another type.
#include "../decode/replay.h"
#include "../quantize/quantize.h"
#include "../runtime/cost.h"
#include "../text/chat/program.h"
#include "../text/models.h"
#include "api.h"

using namespace phasor;

static_assert(build_words_are_known(kActivationWords + kTypeWords + kCacheWords +
                                    pieces::kBuiltModels.words),
              "PHASOR_ONLY has a word twice, or one that build.h and the tables lack");

namespace {

#include "statuses.inc"

#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
constexpr uintptr_t kFileAlign = 16;
#else
constexpr uintptr_t kFileAlign = PHASOR_ALIGN;
#endif

phasor_status check_alignment(const void* file, phasor_error* error) {
  if (aligned(file, kFileAlign)) return PHASOR_OK;
  return bad_input(error, {kFileAlign, 0}, "the file's bytes are not aligned to ",
                   uint64_t(kFileAlign));
}

// Record `index` of the labels or the prompts, or NULL past the last.
const char* record(const Model& m, List list, uint32_t index, size_t* bytes) {
  if (index >= m.records[list]) return nullptr;
  uint64_t at = m.place_of(list, index);
  Record r{};
  const OutputDescriptor& o = m.descriptor.output;
  (void)next_record(m.file(), list == kLabels ? o.labels : o.prompts, &at, &r);
  *bytes = r.bytes;
  return r.text;
}

phasor_status check_chat(const Model& m, phasor_error* error) {
  const File f = m.file();
  const Section& s = f.sections[kSectionChat];
  const char* why = "chat: the model is not a decoder";
  ChatProgram program{};
  if (s.bytes == 0 || !kHasChat ||
      (!m.descriptor.has(kEncoder) &&
       chat_open(&program, m.at(s.offset), static_cast<size_t>(s.bytes), &why)))
    return PHASOR_OK;
  return fail(error, PHASOR_BAD_FILE, {kSectionChat, PHASOR_NONE, 0, 0}, why);
}

// The level of that name, whose arithmetic is what the rules say.
phasor_status find_level(const Kernels** out, const char* name, phasor_error* error) {
  *out = kernels_by_name(name);
  if (*out == nullptr)
    return fail(error, PHASOR_UNSUPPORTED, {}, "instruction set \"", name,
                "\" is not one of this machine and build");
  const FpMode mode;
  if (arithmetic_is_sound(**out)) return PHASOR_OK;
  return fail(error, PHASOR_BAD_ARITHMETIC, {}, "level ", (*out)->name,
              ": this machine or compiler breaks the arithmetic's rules");
}

// The file's view, and the bytes of its model's block.
phasor_status measure(File* out, uint64_t* need, const void* file, size_t file_bytes,
                      phasor_error* error) {
  const phasor_status status = open_file(out, file, file_bytes, error);
  return status != PHASOR_OK ? status : model_bytes(need, *out, error);
}

// What an output begins with, in place of what the file says.
phasor_status set_first(Model* m, const phasor_open_options& all, phasor_error* error) {
  if (all.decoder_start == nullptr && all.forced_first == nullptr) return PHASOR_OK;
  if (!m->descriptor.has_both())
    return bad_input(error, "decoder_start, forced_first: the model is no encoder-decoder");
  SideDescriptor& side = m->descriptor.sides[kDecoder];
  const uint32_t* const given[] = {all.decoder_start, all.forced_first};
  for (const uint32_t* id : given)
    if (id != nullptr && *id >= side.vocabulary)
      return bad_input(error, {side.vocabulary, *id}, "decoder_start, forced_first: token id ", *id,
                       ", the vocabulary has ", side.vocabulary);
  if (all.decoder_start != nullptr) side.decoder_start = *all.decoder_start;
  if (all.forced_first != nullptr) side.forced_first = *all.forced_first;
  return PHASOR_OK;
}

// A file to convert, and what it is to become.
phasor_status open_conversion(Conversion* c, const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error) {
  phasor_quantize_options all = PHASOR_QUANTIZE_OPTIONS_INIT;
  File view{};
  required(file, options);
  phasor_status status = read_options(&all, options, "phasor_quantize_options", error);
  if (status == PHASOR_OK) status = check_alignment(file, error);
  if (status == PHASOR_OK) status = open_file(&view, file, file_bytes, error);
  return status == PHASOR_OK ? c->open(view, all, error) : status;
}

}  // namespace

extern "C" {

uint32_t phasor_version(void) { return kVersion; }
uint32_t phasor_numerics(void) { return kNumerics; }
uint32_t phasor_format_max(void) { return kFormatVersion; }

const char* phasor_status_name(phasor_status status) {
  const auto i = static_cast<uint32_t>(status);
  return i < sizeof kStatusNames / sizeof *kStatusNames ? kStatusNames[i] : "unknown status";
}

// ------------------------------------------------------------------ the model

phasor_status phasor_model_size(size_t* need, const void* file, size_t file_bytes,
                                phasor_error* error) {
  File f{};
  uint64_t bytes = 0;
  required(need, file);
  const phasor_status status = measure(&f, &bytes, file, file_bytes, error);
  if (status == PHASOR_OK) *need = static_cast<size_t>(bytes);
  return status;
}

phasor_status phasor_model_open(phasor_model** model, void* memory, size_t memory_bytes,
                                const void* file, size_t file_bytes,
                                const phasor_open_options* options, phasor_error* error) {
  phasor_open_options all = PHASOR_OPEN_OPTIONS_INIT;
  const Kernels* kernels = nullptr;
  File f{};
  uint64_t need = 0;
  Model* m = nullptr;
  required(model, memory, file);
  *model = nullptr;
  phasor_status status = read_options(&all, options, "phasor_open_options", error);
  if (status == PHASOR_OK) status = check_alignment(file, error);
  if (status == PHASOR_OK) status = find_level(&kernels, all.isa, error);
  if (status == PHASOR_OK) status = measure(&f, &need, file, file_bytes, error);
  if (status != PHASOR_OK) return status;
  if (memory_bytes < need)
    return fail(error, PHASOR_NO_MEMORY, {PHASOR_NONE, PHASOR_NONE, need, memory_bytes},
                "the model's block has ", uint64_t(memory_bytes), " bytes, this file needs ", need);
  if (!aligned(memory, PHASOR_ALIGN))
    return bad_input(error, "the model's block is not aligned to 64");
  clear_zones(memory, memory_bytes);
  status = model_open(&m, memory, f, kernels, error);
  if (status != PHASOR_OK) return status;
  if (kHasVectors && !vectors_are_sound(*m))
    return fail(error, PHASOR_BAD_FILE, {kSectionVectors, PHASOR_NONE, 0, 0},
                "test vectors: the section is not sound");
  if (kHasVectors && !record_is_sound(*m))
    return fail(error, PHASOR_BAD_FILE, {kSectionRecord, PHASOR_NONE, 0, 0},
                "record: the section is not sound");
  status = check_chat(*m, error);
  if (status == PHASOR_OK) status = set_first(m, all, error);
  if (status == PHASOR_OK) *model = static_cast<phasor_model*>(m);
  return status;
}

phasor_status phasor_model_check(const phasor_model* model, phasor_error* error) {
  required(model);
  const phasor_status status = check_file(model->file(), error);
  return status != PHASOR_OK ? status : model_check(*model, error);
}

const char* phasor_model_isa(const phasor_model* model) {
  required(model);
  return model->kernels->name;
}

const char* phasor_isa_name(uint32_t index) {
  const Kernels* levels[8];
  return index < kernels_available(levels) ? levels[index]->name : nullptr;
}

int phasor_request_amx() { return kernels_request_tiles() ? 1 : 0; }

uint32_t phasor_model_stack(const phasor_model* model) {
  required(model);
  return model->descriptor.halves;
}

phasor_status phasor_model_side(const phasor_model* model, uint32_t side, phasor_side* out) {
  required(model);
  const SideDescriptor* s = side_of(*model, side);
  if (s == nullptr) return PHASOR_BAD_INPUT;
  phasor_side made{};
  made.vocabulary = s->vocabulary;
  made.has_tokenizer = model->has_tokenizer[half_of_side(side)];
  made.pad = s->pad;
  made.unknown = s->unknown;
  made.start = s->start;
  made.decoder_start = s->decoder_start;
  made.forced_first = s->forced_first;
  made.mask = s->mask;
  made.end_count = s->end.count;
  made.prefix_count = s->prefix.count;
  made.suffix_count = s->suffix.count;
  made.end = ids_at(*model, s->end);
  made.prefix = ids_at(*model, s->prefix);
  made.suffix = ids_at(*model, s->suffix);
  made.max_positions = longest_sequence(*model, half_of_side(side));
  made.width = model->descriptor.stacks[half_of_side(side)].width;
  made.layers = model->layer_count[half_of_side(side)];
  return write_result(out, made);
}

phasor_status phasor_model_output(const phasor_model* model, phasor_output* out) {
  required(model);
  const Descriptor& d = model->descriptor;
  const OutputDescriptor& o = d.output;
  phasor_output made{};
  made.output = o.output;
  made.pooling = o.pooling;
  made.normalize = o.normalize;
  made.classes = o.classes;
  made.scores = o.scores;
  made.width = output_width(d);
  made.segments = d.stacks[d.has(kEncoder) ? kEncoder : kDecoder].segments;
  made.prompts = model->records[kPrompts];
  made.query_length = o.query_length;
  made.document_length = o.document_length;
  made.query_marker = o.query_marker;
  made.document_marker = o.document_marker;
  made.expansion = o.expansion;
  return write_result(out, made);
}

const uint32_t* phasor_skipped(const phasor_model* model, uint32_t* count) {
  required(model, count);
  const Array& ids = model->descriptor.output.skipped;
  *count = ids.count;
  return ids_at(*model, ids);
}

const char* phasor_label(const phasor_model* model, uint32_t index, size_t* bytes) {
  required(model, bytes);
  return index < model->descriptor.output.classes ? record(*model, kLabels, index, bytes) : nullptr;
}

phasor_status phasor_prompt(const phasor_model* model, uint32_t index, const char** name,
                            size_t* name_bytes, const char** text, size_t* text_bytes) {
  constexpr char kUnitEnd = 0x1F;
  size_t bytes = 0;
  required(model, name, name_bytes, text, text_bytes);
  *name = record(*model, kPrompts, index, &bytes);
  if (*name == nullptr) return PHASOR_BAD_INPUT;
  *name_bytes = 0;
  while (*name_bytes < bytes && (*name)[*name_bytes] != kUnitEnd) ++*name_bytes;
  const size_t after = *name_bytes < bytes ? *name_bytes + 1 : bytes;
  *text = *name + after;
  *text_bytes = bytes - after;
  return PHASOR_OK;
}

uint32_t phasor_tensor_count(const phasor_model* model) {
  required(model);
  return entry_count(model->file());
}

phasor_status phasor_tensor_get(const phasor_model* model, uint32_t index, phasor_tensor* out) {
  required(model);
  const File f = model->file();
  if (index >= entry_count(f)) return PHASOR_BAD_INPUT;
  const Entry e = entry_at(f, index);
  phasor_tensor made{};
  made.stack = e.key >> 24;
  made.set = e.key >> 8 & 0xFFFF;
  made.role = e.key & 0xFF;
  made.name = tensor_name(e.key);
  made.type = type_name(e.type);
  made.layout = layout_name(e.layout);
  made.rows = e.rows;
  made.cols = e.cols;
  made.offset = e.offset;
  made.bytes = e.bytes;
  if (quantized_type(e.type) && e.layout == Layout::panel16)
    made.inputs = e.inputs == kInputs16 ? 16 : 8;
  made.rotated = e.inputs == kInputsRotated;
  return write_result(out, made);
}

uint32_t phasor_field_count(const phasor_model* model) {
  required(model);
  return model->records[kFields];
}

phasor_status phasor_field_get(const phasor_model* model, uint32_t index, phasor_field* out) {
  required(model);
  if (index >= model->records[kFields]) return PHASOR_BAD_INPUT;
  uint64_t at = model->place_of(kFields, index);
  Meta m{};
  phasor_field made{};
  (void)next_meta(model->file(), &at, &m);
  Line name(made.name, sizeof made.name), value(made.value, sizeof made.value);
  describe_meta(m, &name, &value);
  return write_result(out, made);
}

phasor_status phasor_model_cost(const phasor_model* model, uint32_t source, uint32_t position,
                                phasor_cost* out) {
  phasor_cost made{};
  required(model);
  model_cost(*model, source, position, &made);
  return write_result(out, made);
}

uint64_t phasor_model_peak(const phasor_model* model, uint32_t what, uint64_t rounds) {
  float out[kLanes];
  required(model);
  if (!kHasPeaks) return 0;
  const FpMode mode;
  const Kernels& k = *model->kernels.pointer;
  return (what == PHASOR_PEAK_INT8 ? k.peak_int8 : k.peak_f32)(out, rounds);
}

// ------------------------------------------------------------------ the file's own test vectors

uint32_t phasor_vector_count(const phasor_model* model) {
  required(model);
  VectorsHeader h{};
  return kHasVectors && read_vectors_header(&h, model->file()) ? h.count : 0;
}

phasor_status phasor_vector_get(const phasor_model* model, uint32_t index, phasor_vector* out) {
  VectorsHeader h{};
  TestVector v{};
  required(model);
  if (!kHasVectors || !find_vector(&v, &h, *model, index)) return PHASOR_BAD_INPUT;
  phasor_vector made{};
  made.source_count = v.source;
  made.target_count = v.target;
  made.tolerance = h.tolerance;
  made.hash = v.hash;
  made.numerics = h.numerics;
  made.source = reinterpret_cast<const uint32_t*>(v.source_ids);
  made.target = reinterpret_cast<const uint32_t*>(v.target_ids);
  made.author = reinterpret_cast<const char*>(h.author);
  made.author_bytes = h.author_bytes;
  return write_result(out, made);
}

phasor_status phasor_vector_record(const phasor_model* model, void* file, const uint64_t* hashes,
                                   float tolerance, phasor_error* error) {
  unsigned char* bytes = static_cast<unsigned char*>(file);
  VectorsHeader header{};
  TestVector v{};
  required(model, file);
  if (bytes != model->data.pointer)
    return bad_input(error, "the model was opened with another file");
  if (!(tolerance > 0 && tolerance <= 3e38f))
    return bad_input(error, "tolerance ", tolerance, ": expected a number above 0");
  for (uint32_t i = 0; i == 0 || i < header.count; ++i) {
    if (!find_vector(&v, &header, *model, i))
      return fail(error, PHASOR_BAD_FILE, {kSectionVectors, PHASOR_NONE, 0, i}, "no test vector ",
                  i);
    store_vector_hash(bytes + (v.source_ids - bytes), hashes != nullptr ? hashes[i] : 0);
  }
  store_vectors_header(bytes + model->file().sections[kSectionVectors].offset,
                       hashes != nullptr ? kNumerics : 0, tolerance);
  seal(bytes, kSectionVectors);
  return PHASOR_OK;
}

phasor_status phasor_record_get(const phasor_model* model, phasor_record* out) {
  SourceRecord r{};
  required(model);
  if (!kHasVectors || !find_record(&r, *model)) return PHASOR_BAD_INPUT;
  phasor_record made{};
  made.divergence = r.divergence;
  made.numerics = r.numerics;
  made.rows = r.rows;
  made.samples = r.samples;
  made.outputs = reinterpret_cast<const uint32_t*>(r.outputs);
  made.source = r.source;
  made.calibration = r.calibration;
  made.method = reinterpret_cast<const char*>(r.method);
  while (made.method_bytes < kMethodBytes && r.method[made.method_bytes] != 0) ++made.method_bytes;
  return write_result(out, made);
}

phasor_status phasor_record_put(const phasor_model* model, void* file, const phasor_record* record,
                                phasor_error* error) {
  unsigned char* bytes = static_cast<unsigned char*>(file);
  unsigned char method[kMethodBytes] = {};
  phasor_record given{};
  SourceRecord r{};
  required(model, file, record);
  const phasor_status status = read_options(&given, record, "phasor_record", error);
  if (status != PHASOR_OK) return status;
  if (bytes != model->data.pointer)
    return bad_input(error, "the model was opened with another file");
  if (!find_record(&r, *model))
    return fail(error, PHASOR_BAD_FILE, {kSectionRecord, PHASOR_NONE, 0, 0}, "no record");
  required(given.source, given.calibration, given.method);
  if (!(given.divergence >= 0 && given.divergence <= 3e38f))
    return bad_input(error, "divergence ", given.divergence, ": expected a number from 0 on");
  bool sound = given.method_bytes >= 1 && given.method_bytes <= kMethodBytes;
  for (uint32_t i = 0; sound && i < given.method_bytes; ++i) {
    sound = given.method[i] >= 0x20 && given.method[i] < 0x7F;
    method[i] = static_cast<unsigned char>(given.method[i]);
  }
  if (!sound)
    return bad_input(error, "method: expected 1 to ", kMethodBytes, " printable characters");
  r.divergence = given.divergence;
  r.numerics = r.rows != 0 ? given.numerics : 0;
  r.source = given.source;
  r.calibration = given.calibration;
  r.method = method;
  store_record(bytes + model->file().sections[kSectionRecord].offset, r);
  seal(bytes, kSectionRecord);
  return PHASOR_OK;
}

// ------------------------------------------------------------------ another type of a model

phasor_status phasor_quantize_size(size_t* need, const void* file, size_t file_bytes,
                                   const phasor_quantize_options* options, phasor_error* error) {
  Conversion c;
  required(need);
  const phasor_status status = open_conversion(&c, file, file_bytes, options, error);
  if (status == PHASOR_OK) *need = static_cast<size_t>(c.bytes);
  return status;
}

phasor_status phasor_quantize(void* out, size_t out_bytes, phasor_rounding* rounding,
                              uint32_t rounding_count, const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error) {
  Conversion c;
  phasor_rounding reports[PHASOR_TYPES] = {};
  const uint32_t count = rounding != nullptr ? rounding_count : 0;
  required(out);
  phasor_status status = Given<phasor_rounding>(rounding).check("phasor_rounding", count, error);
  if (status == PHASOR_OK) status = open_conversion(&c, file, file_bytes, options, error);
  if (status != PHASOR_OK) return status;
  if (out_bytes < c.bytes)
    return fail(error, PHASOR_NO_MEMORY, {PHASOR_NONE, PHASOR_NONE, c.bytes, out_bytes},
                "there is room for ", uint64_t(out_bytes), " bytes, expected ", c.bytes);
  status = c.run(static_cast<unsigned char*>(out), reports, error);
  if (status != PHASOR_OK) return status;
  const uint32_t size = count != 0 ? rounding->struct_size : 0;
  unsigned char* to = reinterpret_cast<unsigned char*>(rounding);
  phasor_rounding none = {};
  for (uint32_t i = 0; i < count; ++i, to += size) {
    phasor_rounding& made = i < PHASOR_TYPES ? reports[i] : none;  // no copy: its padding is zero
    made.struct_size = size;
    memcpy(to, &made, whole_bytes<phasor_rounding>(size));
  }
  return PHASOR_OK;
}

}  // extern "C"
