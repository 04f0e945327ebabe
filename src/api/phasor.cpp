// api: include/phasor.h over the rooms below. Arguments are checked here or one room down; nothing
// is computed here.
#include "../../include/phasor.h"

#include "../decode/beam.h"
#include "../decode/generate.h"
#include "../decode/random.h"
#include "../decode/replay.h"
#include "../quantize/quantize.h"
#include "../runtime/cost.h"
#include "../text/chat/program.h"

struct phasor_model : phasor::Model {};
struct phasor_session : phasor::Session {};

using namespace phasor;

namespace {

constexpr uint32_t kVersion = 0x00000100;  // 0.1.0
constexpr uint32_t kNumerics = 1;

const SideDescriptor* side_of(const Model& m, uint32_t side) {
  if (side != PHASOR_SOURCE && side != PHASOR_TARGET) return nullptr;
  const SideDescriptor& s = m.descriptor.sides[side - 1];
  return s.present != 0 ? &s : nullptr;
}

const Tokenizer* tokenizer_of(const Model& m, uint32_t side) {
  return side_of(m, side) != nullptr ? m.tokenizer(side - 1) : nullptr;
}

bool aligned(const void* p, uintptr_t to) { return reinterpret_cast<uintptr_t>(p) % to == 0; }

phasor_status check_alignment(const void* file, phasor_error* error) {
#if defined(__ARM_ARCH_PROFILE) && __ARM_ARCH_PROFILE == 'M'
  constexpr uintptr_t kFileAlign = 16;
#else
  constexpr uintptr_t kFileAlign = PHASOR_ALIGN;
#endif
  if (aligned(file, kFileAlign)) return PHASOR_OK;
  return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, kFileAlign, 0},
              "the file's bytes are not aligned to ", uint64_t(kFileAlign));
}

uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

// 4-byte aligned: arrays lie at multiples of 4 in META
const uint32_t* ids_at(const Model& m, const Array& a) {
  return a.count == 0 ? nullptr : reinterpret_cast<const uint32_t*>(m.at(a.offset));
}

// Answers of the text functions: how many bytes are needed, and whether they fit.
phasor_status answer(size_t needed, size_t capacity, size_t* bytes) {
  *bytes = needed;
  return needed > capacity ? PHASOR_FULL : PHASOR_OK;
}

bool type_of_name(Type* out, const char* name) {
  constexpr Type kTypes[] = {Type::f32, Type::f16, Type::bf16, Type::q8, Type::q4};
  for (const Type t : kTypes) {
    const char* known = type_name(t);
    size_t i = 0;
    while (known[i] != 0 && known[i] == name[i]) ++i;
    if (known[i] != name[i]) continue;
    *out = t;
    return true;
  }
  return false;
}

// A file and what is to become of it.
struct Conversion {
  File file{};
  WantedTypes wanted{};
  const float* moments = nullptr;
  uint64_t bytes = 0;

  phasor_status open(const void* data, size_t data_bytes, const phasor_quantize_options* options,
                     phasor_error* error) {
    if (options->struct_size != sizeof *options)
      return fail(error, PHASOR_BAD_INPUT,
                  {PHASOR_NONE, PHASOR_NONE, sizeof *options, options->struct_size},
                  "options.struct_size is not that of this library");
    const char* names[2] = {options->type,
                            options->output_type != nullptr ? options->output_type : options->type};
    for (int i = 0; i < 2; ++i)
      if (names[i] == nullptr || !type_of_name(i == 0 ? &wanted.matrices : &wanted.ends, names[i]))
        return fail(error, PHASOR_BAD_INPUT, {}, "type ", names[i] != nullptr ? names[i] : "(none)",
                    ": expected f32, f16, bf16, q8 or q4");
    phasor_status status = check_alignment(data, error);
    if (status == PHASOR_OK) status = open_file(&file, data, data_bytes, error);
    if (status == PHASOR_OK) status = check_types(error);
    if (status != PHASOR_OK) return status;
    moments = options->moments;
    const uint64_t columns = moments_before(file, entry_count(file));
    if (moments != nullptr && options->moment_count != columns)
      return fail(error, PHASOR_BAD_INPUT,
                  {PHASOR_NONE, PHASOR_NONE, columns, options->moment_count}, options->moment_count,
                  " moments, the file's matrices have ", columns, " columns");
    for (uint64_t i = 0; moments != nullptr && i < columns; ++i)
      if (!(moments[i] >= 0 && moments[i] <= 3e38f))
        return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, 0, i}, "moment ", i,
                    " is negative or not finite");
    return PHASOR_OK;
  }

  phasor_status check_types(phasor_error* error) {
    for (uint32_t i = 0; i < entry_count(file); ++i) {
      const Entry e = entry_at(file, i);
      const Type to = wanted_type(e, wanted);
      if (!convertible(e.type, to))
        return fail(error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, 0, e.key},
                    tensor_name(e.key), " is ", type_name(e.type),
                    ", and what was rounded is not rounded again to ", type_name(to),
                    ": give the model in f32");
    }
    if (!converted_bytes(&bytes, file, wanted) || bytes > SIZE_MAX)
      return fail(error, PHASOR_TOO_LARGE, {}, "the converted file is too large for this machine");
    return PHASOR_OK;
  }
};

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

// Collects the ids of texts and of what the template puts around them: counts all, writes those
// that fit.
struct IdWriter {
  Session& s;
  uint32_t* ids;
  uint32_t* segments;  // or NULL
  size_t capacity;
  const Model& m = *s.model.pointer;
  const Tokenizer* t = nullptr;
  size_t n = 0;

  phasor_status open(uint32_t side, phasor_error* error) {
    t = tokenizer_of(m, side);
    return t != nullptr ? PHASOR_OK
                        : fail(error, PHASOR_BAD_INPUT, {},
                               "the model has no tokenizer for this side: give ids");
  }
  void mark(size_t first, uint32_t segment) {
    for (size_t i = first; segments != nullptr && i < n && i < capacity; ++i) segments[i] = segment;
  }
  void put(const Array& a, uint32_t segment) {
    const size_t first = n;
    for (uint32_t i = 0; i < a.count; ++i, ++n)
      if (n < capacity) ids[n] = load_u32(m.at(a.offset + 4u * i));
    mark(first, segment);
  }
  phasor_status encode(const char* text, size_t bytes, uint32_t segment, phasor_error* error) {
    const uint64_t limit = s.plan.text_bytes;
    if (bytes > limit)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, limit, bytes}, "a text of ",
                  uint64_t(bytes), " bytes, the limits hold ", limit);
    const size_t first = n;
    const uint64_t mode = fp_mode_enter();
    const EncodeResult r = tokenizer_encode(
        *t, n < capacity ? ids + n : nullptr, n < capacity ? capacity - n : 0, text, bytes,
        s.text().at(0, s.plan.bytes[kPartText]), static_cast<size_t>(s.plan.bytes[kPartText]));
    fp_mode_leave(mode);
    if (r.status == EncodeStatus::unknown_word)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, 0, r.offset},
                  "the word at byte ", uint64_t(r.offset),
                  " is not in the word list, which has no unknown");
    if (r.status != EncodeStatus::ok)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, limit, bytes}, "a text of ",
                  uint64_t(bytes), " bytes is too long for the limits");
    n += r.count;
    mark(first, segment);
    return PHASOR_OK;
  }
  phasor_status finish(size_t* count, phasor_error* error) const {
    *count = n;
    if (n <= capacity) return PHASOR_OK;
    return fail(error, PHASOR_FULL, {PHASOR_NONE, PHASOR_NONE, capacity, n}, "the text has ",
                uint64_t(n), " tokens, there is room for ", uint64_t(capacity));
  }
};

// The options of a caller that may be older than this library: what it does not know is 0.
phasor_status known_options(phasor_generate_options* out, const phasor_generate_options* given,
                            phasor_error* error) {
  *out = PHASOR_GENERATE_OPTIONS_INIT;
  if (given == nullptr) return PHASOR_OK;
  if (given->struct_size < offsetof(phasor_generate_options, temperature) ||
      given->struct_size > sizeof *out)
    return fail(error, PHASOR_BAD_INPUT,
                {PHASOR_NONE, PHASOR_NONE, sizeof *out, given->struct_size},
                "options.struct_size: ", given->struct_size,
                ", this library's phasor_generate_options has ", uint64_t(sizeof *out));
  memcpy(out, given, given->struct_size);
  return PHASOR_OK;
}

// The limits of a caller that may be older than this library: what it does not know is 0.
phasor_status known_limits(phasor_limits* out, const phasor_limits* given, phasor_error* error) {
  *out = phasor_limits{};
  if (given->struct_size < offsetof(phasor_limits, best_rows) || given->struct_size > sizeof *out)
    return fail(error, PHASOR_BAD_LIMITS,
                {PHASOR_NONE, PHASOR_NONE, sizeof *out, given->struct_size},
                "limits.struct_size: ", given->struct_size, ", this library's phasor_limits has ",
                uint64_t(sizeof *out));
  memcpy(out, given, given->struct_size);
  return PHASOR_OK;
}

// The file's chat program; false where it has none. Open has checked it.
bool chat_of(const Model& m, ChatProgram* out) {
  const File f = m.file();
  const Section& s = f.sections[kSectionChat];
  const char* why = nullptr;
  return kHasChat && s.bytes != 0 &&
         chat_open(out, m.at(s.offset), static_cast<size_t>(s.bytes), &why);
}

phasor_status check_chat(const Model& m, phasor_error* error) {
  const File f = m.file();
  const Section& s = f.sections[kSectionChat];
  const At at{kSectionChat, PHASOR_NONE, 0, 0};
  ChatProgram program{};
  const char* why = nullptr;
  if (s.bytes == 0 || !kHasChat) return PHASOR_OK;
  if (m.descriptor.has(kEncoder))
    return fail(error, PHASOR_BAD_FILE, at, "chat: the model is not a decoder");
  return chat_open(&program, m.at(s.offset), static_cast<size_t>(s.bytes), &why)
             ? PHASOR_OK
             : fail(error, PHASOR_BAD_FILE, at, why);
}

ChatMessage message_at(const void* messages, uint32_t index) {
  const phasor_chat_message& m = static_cast<const phasor_chat_message*>(messages)[index];
  return {m.role, m.role_bytes, m.content, m.content_bytes};
}

// Why a conversation was not rendered.
phasor_status chat_error(const ChatResult& r, uint64_t text_bytes, phasor_error* error) {
  if (r.status == ChatStatus::no_room)
    return fail(error, PHASOR_BAD_INPUT, {kSectionChat, PHASOR_NONE, 0, text_bytes},
                "chat template, line ", r.line,
                ": the texts that it keeps are too long for the limits (text_bytes ", text_bytes,
                ")");
  char text[sizeof error->text];
  size_t n = 0;
  for (; n < r.text_bytes && n + 1 < sizeof text; ++n) text[n] = r.text[n];
  // no half a character
  while (n < r.text_bytes && n > 0 && (static_cast<unsigned char>(r.text[n]) & 0xC0) == 0x80) --n;
  text[n] = 0;
  return fail(error, PHASOR_BAD_INPUT, {kSectionChat, PHASOR_NONE, 0, 0}, "chat template, line ",
              r.line, ": ", static_cast<const char*>(text));
}

static_assert(sizeof(TokenDecoder) <= sizeof(uint32_t) * 7, "phasor_text keeps a decoder's state");

}  // namespace

extern "C" {

uint32_t phasor_version(void) { return kVersion; }
uint32_t phasor_numerics(void) { return kNumerics; }
uint32_t phasor_format_max(void) { return kFormatVersion; }

const char* phasor_status_name(phasor_status status) {
  switch (status) {
    case PHASOR_OK:
      return "ok";
    case PHASOR_BAD_FILE:
      return "bad file";
    case PHASOR_BAD_CHECKSUM:
      return "bad checksum";
    case PHASOR_UNSUPPORTED:
      return "unsupported";
    case PHASOR_TOO_LARGE:
      return "too large";
    case PHASOR_NO_MEMORY:
      return "no memory";
    case PHASOR_BAD_LIMITS:
      return "bad limits";
    case PHASOR_BAD_INPUT:
      return "bad input";
    case PHASOR_FULL:
      return "full";
    case PHASOR_NOT_FINITE:
      return "not finite";
    case PHASOR_STOPPED:
      return "stopped";
    case PHASOR_BAD_ARITHMETIC:
      return "bad arithmetic";
    case PHASOR_BAD_STATE:
      return "bad state";
    case PHASOR_MISMATCH:
      return "mismatch";
  }
  return "unknown status";
}

// ------------------------------------------------------------------ the model

phasor_status phasor_model_size(size_t* need, const void* file, size_t file_bytes,
                                phasor_error* error) {
  File f{};
  uint64_t bytes = 0;
  phasor_status status = open_file(&f, file, file_bytes, error);
  if (status == PHASOR_OK) status = model_bytes(&bytes, f, error);
  if (status == PHASOR_OK) *need = static_cast<size_t>(bytes);
  return status;
}

phasor_status phasor_model_open(phasor_model** model, void* memory, size_t memory_bytes,
                                const void* file, size_t file_bytes,
                                const phasor_open_options* options, phasor_error* error) {
  *model = nullptr;
  phasor_status status = check_alignment(file, error);
  if (status != PHASOR_OK) return status;
  const char* isa = options != nullptr ? options->isa : nullptr;
  const Kernels* kernels = kernels_by_name(isa);
  if (kernels == nullptr)
    return fail(error, PHASOR_UNSUPPORTED, {}, "instruction set \"", isa,
                "\" is not one of this machine and build");
  File f{};
  uint64_t need = 0;
  status = open_file(&f, file, file_bytes, error);
  if (status == PHASOR_OK) status = model_bytes(&need, f, error);
  if (status != PHASOR_OK) return status;
  if (memory_bytes < need)
    return fail(error, PHASOR_NO_MEMORY, {PHASOR_NONE, PHASOR_NONE, need, memory_bytes},
                "the model's block has ", uint64_t(memory_bytes), " bytes, this file needs ", need);
  if (!aligned(memory, PHASOR_ALIGN))
    return fail(error, PHASOR_BAD_INPUT, {}, "the model's block is not aligned to 64");
  const uint64_t mode = fp_mode_enter();
  const bool sound = arithmetic_is_sound(*kernels);
  fp_mode_leave(mode);
  if (!sound)
    return fail(error, PHASOR_BAD_ARITHMETIC, {}, "level ", kernels->name,
                ": this machine or compiler breaks the arithmetic's rules");
  clear_zones(memory, memory_bytes);
  Model* m = nullptr;
  status = model_open(&m, memory, f, kernels, error);
  if (status != PHASOR_OK) return status;
  if (kHasVectors && !vectors_are_sound(*m))
    return fail(error, PHASOR_BAD_FILE, {kSectionVectors, PHASOR_NONE, 0, 0},
                "test vectors: the section is not sound");
  status = check_chat(*m, error);
  if (status != PHASOR_OK) return status;
  *model = static_cast<phasor_model*>(m);
  return PHASOR_OK;
}

phasor_status phasor_model_check(const phasor_model* model, phasor_error* error) {
  const phasor_status status = check_file(model->file(), error);
  return status != PHASOR_OK ? status : model_check(*model, error);
}

const char* phasor_model_isa(const phasor_model* model) { return model->kernels->name; }

const char* phasor_isa_name(uint32_t index) {
  const Kernels* levels[8];
  return index < kernels_available(levels) ? levels[index]->name : nullptr;
}

uint32_t phasor_model_stack(const phasor_model* model) { return model->descriptor.halves; }

phasor_status phasor_model_side(const phasor_model* model, uint32_t side, phasor_side* out) {
  const SideDescriptor* s = side_of(*model, side);
  if (s == nullptr) return PHASOR_BAD_INPUT;
  const StackDescriptor& stack = model->descriptor.stacks[side - 1];
  *out = {out->struct_size,
          s->vocabulary,
          model->has_tokenizer[side - 1],
          s->pad,
          s->unknown,
          s->start,
          s->decoder_start,
          s->forced_first,
          s->mask,
          s->end.count,
          s->prefix.count,
          s->suffix.count,
          ids_at(*model, s->end),
          ids_at(*model, s->prefix),
          ids_at(*model, s->suffix),
          longest_sequence(*model, side - 1),
          stack.width,
          model->layer_count[side - 1]};
  return PHASOR_OK;
}

phasor_status phasor_model_output(const phasor_model* model, phasor_output* out) {
  const Descriptor& d = model->descriptor;
  const OutputDescriptor& o = d.output;
  *out = {out->struct_size,
          o.output,
          o.pooling,
          o.normalise,
          o.classes,
          o.scores,
          output_width(d),
          d.stacks[d.has(kEncoder) ? kEncoder : kDecoder].segments,
          model->records[kPrompts]};
  return PHASOR_OK;
}

const char* phasor_label(const phasor_model* model, uint32_t index, size_t* bytes) {
  return index < model->descriptor.output.classes ? record(*model, kLabels, index, bytes) : nullptr;
}

phasor_status phasor_prompt(const phasor_model* model, uint32_t index, const char** name,
                            size_t* name_bytes, const char** text, size_t* text_bytes) {
  constexpr char kUnitEnd = 0x1F;
  size_t bytes = 0;
  *name = record(*model, kPrompts, index, &bytes);
  if (*name == nullptr) return PHASOR_BAD_INPUT;
  *name_bytes = 0;
  while (*name_bytes < bytes && (*name)[*name_bytes] != kUnitEnd) ++*name_bytes;
  const size_t after = *name_bytes < bytes ? *name_bytes + 1 : bytes;
  *text = *name + after;
  *text_bytes = bytes - after;
  return PHASOR_OK;
}

uint32_t phasor_tensor_count(const phasor_model* model) { return entry_count(model->file()); }

phasor_status phasor_tensor_get(const phasor_model* model, uint32_t index, phasor_tensor* out) {
  const File f = model->file();
  if (index >= entry_count(f)) return PHASOR_BAD_INPUT;
  const Entry e = entry_at(f, index);
  *out = {out->struct_size,
          e.key >> 24,
          e.key >> 8 & 0xFFFF,
          e.key & 0xFF,
          tensor_name(e.key),
          type_name(e.type),
          layout_name(e.layout),
          e.rows,
          e.cols,
          e.offset,
          e.bytes};
  return PHASOR_OK;
}

uint32_t phasor_field_count(const phasor_model* model) { return model->records[kFields]; }

phasor_status phasor_field_get(const phasor_model* model, uint32_t index, phasor_field* out) {
  if (index >= model->records[kFields]) return PHASOR_BAD_INPUT;
  uint64_t at = model->place_of(kFields, index);
  Meta m{};
  (void)next_meta(model->file(), &at, &m);
  Line name(out->name, sizeof out->name), value(out->value, sizeof out->value);
  describe_meta(m, &name, &value);
  return PHASOR_OK;
}

// ------------------------------------------------------------------ limits and the arena

phasor_status phasor_limits_for(const phasor_model* model, uint32_t source, uint32_t target,
                                phasor_limits* limits) {
  const Descriptor& d = model->descriptor;
  const uint32_t size = limits->struct_size;
  memset(limits, 0, smaller(size, sizeof *limits));  // an older caller's struct is shorter
  limits->struct_size = size;
  const uint32_t wanted[2] = {source, target};
  uint32_t lengths[2] = {0, 0};
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t most = longest_sequence(*model, i);
    if (d.stacks[i].present != 0) lengths[i] = wanted[i] != 0 ? wanted[i] : most != 0 ? most : 256;
  }
  limits->source = lengths[0];
  limits->target = lengths[1];
  limits->sequences = 1;
  limits->chunk = smaller(lengths[0] > lengths[1] ? lengths[0] : lengths[1], 64);
  limits->threads = 1;
  limits->text_bytes = model->has_tokenizer[0] != 0 || model->has_tokenizer[1] != 0 ? 4096 : 0;
  limits->logit_rows =
      d.output.output == kOutputLogits || d.output.output == kOutputClasses ? 1 : 0;
  limits->cache_type = PHASOR_CACHE_F32;
  limits->outputs = 0;
  limits->tables = PHASOR_TABLES_WHOLE;
  return PHASOR_OK;
}

phasor_status phasor_session_size(size_t* need, const phasor_model* model,
                                  const phasor_limits* limits, phasor_error* error) {
  Plan plan{};
  phasor_limits all;
  phasor_status status = known_limits(&all, limits, error);
  if (status == PHASOR_OK) status = make_plan(&plan, *model, all, error);
  if (status == PHASOR_OK) *need = static_cast<size_t>(plan.total);
  return status;
}

phasor_status phasor_session_part(const phasor_model* model, const phasor_limits* limits,
                                  uint32_t index, const char** name, uint64_t* bytes) {
  Plan plan{};
  phasor_limits all;
  phasor_status status = known_limits(&all, limits, nullptr);
  if (status == PHASOR_OK) status = make_plan(&plan, *model, all, nullptr);
  if (status != PHASOR_OK) return status;
  if (kRedZones && index == kPartCount) {
    *name = "red zones";
    *bytes = uint64_t{kPartCount} * kZoneBytes;
    return PHASOR_OK;
  }
  if (index >= kPartCount) return PHASOR_BAD_INPUT;
  *name = part_name(index);
  *bytes = round_up(plan.bytes[index], PHASOR_ALIGN);
  return PHASOR_OK;
}

phasor_status phasor_model_cost(const phasor_model* model, uint32_t source, uint32_t position,
                                phasor_cost* out) {
  model_cost(*model, source, position, out);
  return PHASOR_OK;
}

uint64_t phasor_model_peak(const phasor_model* model, uint32_t what, uint64_t rounds) {
  float out[kLanes];
  if (!kHasPeaks) return 0;
  const uint64_t mode = fp_mode_enter();
  const uint64_t done = (what == PHASOR_PEAK_INT8 ? model->kernels->peak_int8
                                                  : model->kernels->peak_f32)(out, rounds);
  fp_mode_leave(mode);
  return done;
}

phasor_status phasor_session_open(phasor_session** session, void* memory, size_t memory_bytes,
                                  const phasor_model* model, const phasor_limits* limits,
                                  const phasor_parallel* parallel, phasor_error* error) {
  *session = nullptr;
  if (!aligned(memory, PHASOR_ALIGN))
    return fail(error, PHASOR_BAD_INPUT, {}, "the arena is not aligned to 64");
  Session* s = nullptr;
  phasor_limits all;
  phasor_status status = known_limits(&all, limits, error);
  if (status == PHASOR_OK)
    status = session_open(&s, memory, memory_bytes, *model, all, parallel, error);
  if (status == PHASOR_OK) *session = static_cast<phasor_session*>(s);
  return status;
}

// ------------------------------------------------------------------ the forward pass

phasor_status phasor_encode(phasor_session* session, const phasor_item* items, uint32_t count,
                            phasor_error* error) {
  const ZoneGuard guard(session);
  return checked_encode(session, items, count, error);
}

phasor_status phasor_step(phasor_session* session, const phasor_item* items, uint32_t count,
                          phasor_error* error) {
  const ZoneGuard guard(session);
  return checked_step(session, items, count, error);
}

float* phasor_logits(phasor_session* session, uint32_t row) {
  return session->best == 0 && row < session->logits
             ? session->logit_rows().row(row, session->plan.logit_ld)
             : nullptr;
}

const float* phasor_hidden(const phasor_session* session, uint32_t sequence, uint32_t* rows,
                           uint32_t* stride) {
  const Plan& p = session->plan;
  if (sequence >= p.sequences || session->sequences()[sequence].encoded == 0) return nullptr;
  *rows = session->sequences()[sequence].encoded;
  *stride = p.ld;
  return session->hidden_rows().rows(session->sequences()[sequence].hidden, *rows, p.ld);
}

phasor_status phasor_encoder_output(phasor_session* session, uint32_t sequence, uint32_t first,
                                    uint32_t count, phasor_error* error) {
  const ZoneGuard guard(session);
  return checked_output(session, sequence, first, count, error);
}

phasor_status phasor_embedding(phasor_session* session, uint32_t sequence, uint32_t pooling,
                               uint32_t normalise, float* out, uint32_t dim, phasor_error* error) {
  const ZoneGuard guard(session);
  const float* vector = nullptr;
  const phasor_status status =
      checked_embedding(session, sequence, pooling, normalise, dim, &vector, error);
  if (vector != nullptr) memcpy(out, vector, dim * sizeof(float));
  return status;
}

phasor_status phasor_argmax(phasor_session* session, uint32_t row, uint32_t* id, float* logit) {
  return row < session->logits ? best_token(*session, row, id, logit) : PHASOR_BAD_INPUT;
}

uint32_t phasor_sequence_length(const phasor_session* session, uint32_t sequence) {
  return sequence < session->plan.sequences ? session->sequences()[sequence].length : 0;
}

phasor_status phasor_sequence_status(const phasor_session* session, uint32_t sequence) {
  return sequence < session->plan.sequences
             ? static_cast<phasor_status>(session->sequences()[sequence].status)
             : PHASOR_BAD_INPUT;
}

const uint32_t* phasor_sequence_ids(const phasor_session* session, uint32_t sequence) {
  return sequence < session->plan.sequences ? session->ids(sequence).data() : nullptr;
}

uint32_t phasor_sequence_common(const phasor_session* session, uint32_t sequence,
                                const uint32_t* ids, uint32_t count) {
  const uint32_t most = smaller(phasor_sequence_length(session, sequence), count);
  uint32_t common = 0;
  while (common < most && session->ids(sequence)[common] == ids[common]) ++common;
  return common;
}

phasor_status phasor_sequence_truncate(phasor_session* session, uint32_t sequence,
                                       uint32_t length) {
  const ZoneGuard guard(session);
  if (sequence >= session->plan.sequences || length > session->sequences()[sequence].length)
    return PHASOR_BAD_INPUT;
  if (!sequence_reaches(*session, sequence, length)) return PHASOR_BAD_INPUT;
  (void)sequence_truncate(session, sequence, length);
  return PHASOR_OK;
}

phasor_status phasor_sequence_fork(phasor_session* session, uint32_t to, uint32_t from) {
  const ZoneGuard guard(session);
  if (to >= session->plan.sequences || from >= session->plan.sequences) return PHASOR_BAD_INPUT;
  sequence_fork(session, to, from);
  return PHASOR_OK;
}

phasor_status phasor_sequence_clear(phasor_session* session, uint32_t sequence) {
  const ZoneGuard guard(session);
  if (sequence >= session->plan.sequences) return PHASOR_BAD_INPUT;
  sequence_clear(session, sequence);
  return PHASOR_OK;
}

phasor_status phasor_state_size(const phasor_session* session, uint32_t sequence, size_t* need) {
  if (sequence >= session->plan.sequences) return PHASOR_BAD_INPUT;
  *need = static_cast<size_t>(state_bytes(*session, sequence));
  return PHASOR_OK;
}

phasor_status phasor_state_save(const phasor_session* session, uint32_t sequence, void* out,
                                size_t capacity) {
  if (sequence >= session->plan.sequences) return PHASOR_BAD_INPUT;
  if (capacity < state_bytes(*session, sequence)) return PHASOR_NO_MEMORY;
  state_save(*session, sequence, static_cast<unsigned char*>(out));
  return PHASOR_OK;
}

phasor_status phasor_state_restore(phasor_session* session, uint32_t sequence, const void* state,
                                   size_t bytes, phasor_error* error) {
  const ZoneGuard guard(session);
  if (sequence >= session->plan.sequences)
    return fail(error, PHASOR_BAD_INPUT, {}, "no sequence ", sequence);
  return state_restore(session, sequence, static_cast<const unsigned char*>(state), bytes, error);
}

phasor_status phasor_session_callbacks(phasor_session* session, const phasor_callbacks* callbacks) {
  if (!kHasViews && callbacks != nullptr && callbacks->see != nullptr) return PHASOR_UNSUPPORTED;
  session->see.set(callbacks != nullptr ? callbacks->see : nullptr);
  session->progress.set(callbacks != nullptr ? callbacks->progress : nullptr);
  session->user.set(callbacks != nullptr ? callbacks->user : nullptr);
  return PHASOR_OK;
}

// ------------------------------------------------------------------ generation

void phasor_random_seed(phasor_random* random, uint64_t seed) { random_seed(random, seed); }

phasor_status phasor_generate(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                              uint32_t count, uint32_t* out, uint32_t capacity,
                              const phasor_generate_options* options, phasor_generation* result,
                              phasor_error* error) {
  const ZoneGuard guard(session);
  phasor_generate_options all;
  phasor_status status = known_options(&all, options, error);
  phasor_generation made = PHASOR_GENERATION_INIT;
  if (status == PHASOR_OK)
    status = generate(session, sequence, ids, count, out, capacity, all, &made, error);
  // an older caller's struct is shorter
  made.struct_size = smaller(result->struct_size, sizeof made);
  memcpy(result, &made, made.struct_size);
  return status;
}

phasor_status phasor_choose(phasor_session* session, uint32_t* id, float* probabilities,
                            uint32_t row, const uint32_t* ids, uint32_t count, uint32_t new_count,
                            const phasor_generate_options* options, phasor_error* error) {
  const ZoneGuard guard(session);
  phasor_generate_options all;
  phasor_status status = known_options(&all, options, error);
  if (status == PHASOR_OK && !session->model->descriptor.has(kDecoder))
    status = fail(error, PHASOR_BAD_INPUT, {}, "this model is an encoder: it generates nothing");
  if (status == PHASOR_OK) status = check_choice(*session, all, error);
  if (status != PHASOR_OK) return status;
  if (session->best != 0)
    return fail(error, PHASOR_BAD_INPUT, {},
                "the last step gave best tokens: a choice is made from logits");
  if (row >= session->logits)
    return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, session->logits, row}, "row ",
                row, " of logits, the last step gave ", session->logits);
  if (new_count > count)
    return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, count, new_count}, new_count,
                " new tokens of ", count);
  const uint32_t vocabulary = session->model->descriptor.sides[1].vocabulary;
  for (uint32_t i = count - new_count; i < count; ++i)
    if (ids[i] >= vocabulary)
      return fail(error, PHASOR_BAD_INPUT, {PHASOR_NONE, PHASOR_NONE, vocabulary, ids[i]},
                  "token id ", ids[i], " at place ", i, ", the vocabulary has ", vocabulary);
  if (all.temperature > 0 && all.random == nullptr)
    return fail(error, PHASOR_BAD_INPUT, {}, "options.random: missing, a choice draws from it");
  status = choose(session, row, all, {ids, count, ids + (count - new_count), new_count}, all.random,
                  id, probabilities, error);
  return status == PHASOR_NOT_FINITE ? fail(error, status, {}, "a logit is not a number") : status;
}

phasor_status phasor_beam_search(phasor_session* session, uint32_t sequence, const uint32_t* ids,
                                 uint32_t count, const phasor_beam_options* options,
                                 phasor_beam_result* result, phasor_error* error) {
  const ZoneGuard guard(session);
  phasor_beam_options all = PHASOR_BEAM_OPTIONS_INIT;
  if (!kHasBeam)
    return fail(error, PHASOR_UNSUPPORTED, {}, "beam search is not in this build (PHASOR_ONLY)");
  if (options != nullptr && options->struct_size != sizeof all)
    return fail(error, PHASOR_BAD_INPUT,
                {PHASOR_NONE, PHASOR_NONE, sizeof all, options->struct_size},
                "options.struct_size: ", options->struct_size,
                ", this library's phasor_beam_options has ", uint64_t(sizeof all));
  if (options != nullptr) all = *options;
  phasor_beam_result made = PHASOR_BEAM_RESULT_INIT;
  const phasor_status status = beam_search(session, sequence, ids, count, all, &made, error);
  made.struct_size = smaller(result->struct_size, sizeof made);
  memcpy(result, &made, made.struct_size);
  return status;
}

phasor_status phasor_hypothesis_get(const phasor_session* session, uint32_t index,
                                    phasor_hypothesis* out) {
  phasor_hypothesis made{};
  if (!kHasBeam || !hypothesis(*session, index, &made)) return PHASOR_BAD_INPUT;
  made.struct_size = smaller(out->struct_size, sizeof made);
  memcpy(out, &made, made.struct_size);
  return PHASOR_OK;
}

int phasor_generation_defaults(const phasor_model* model, phasor_generate_options* options) {
  const GenerationDescriptor& g = model->descriptor.generation;
  // an older caller's struct is shorter
  phasor_generate_options all = PHASOR_GENERATE_OPTIONS_INIT;
  const uint32_t known = smaller(options->struct_size, sizeof all);
  if (g.present == 0) return 0;
  memcpy(&all, options, known);
  const auto set = [](auto* to, auto from) {
    if (from != 0) *to = from;
  };
  set(&all.temperature, g.temperature);
  if (g.sample != 0 && !(all.temperature > 0)) all.temperature = 1;
  if (g.sample == 0) all.temperature = 0;
  set(&all.top_k, g.top_k);
  set(&all.top_p, g.top_p);
  set(&all.min_p, g.min_p);
  set(&all.typical_p, g.typical_p);
  set(&all.repetition_penalty, g.repetition_penalty);
  set(&all.no_repeat_ngram, g.no_repeat_ngram);
  set(&all.min_new, g.min_new);
  set(&all.max_new, g.max_new);
  if (g.suppressed.count != 0) {
    all.suppressed = ids_at(*model, g.suppressed);
    all.suppressed_count = g.suppressed.count;
  }
  memcpy(options, &all, known);
  return 1;
}

// ------------------------------------------------------------------ text

phasor_status phasor_text_to_ids(phasor_session* session, uint32_t side, int template_ids,
                                 uint32_t* ids, size_t capacity, size_t* count, const char* text,
                                 size_t bytes, phasor_error* error) {
  const ZoneGuard guard(session);
  IdWriter w{*session, ids, nullptr, capacity};
  phasor_status status = w.open(side, error);
  if (status != PHASOR_OK) return status;
  if (template_ids != 0) w.put(side_of(w.m, side)->prefix, 0);
  status = w.encode(text, bytes, 0, error);
  if (status != PHASOR_OK) return status;
  if (template_ids != 0) w.put(side_of(w.m, side)->suffix, 0);
  return w.finish(count, error);
}

phasor_status phasor_pair_to_ids(phasor_session* session, uint32_t side, uint32_t* ids,
                                 uint32_t* segments, size_t capacity, size_t* count,
                                 const char* first, size_t first_bytes, const char* second,
                                 size_t second_bytes, phasor_error* error) {
  const ZoneGuard guard(session);
  IdWriter w{*session, ids, segments, capacity};
  phasor_status status = w.open(side, error);
  if (status != PHASOR_OK) return status;
  const SideDescriptor& s = *side_of(w.m, side);
  if (s.pair.count == 0)
    return fail(error, PHASOR_BAD_INPUT, {}, "the model has no template for two texts");
  w.put(s.prefix, 0);
  status = w.encode(first, first_bytes, 0, error);
  if (status != PHASOR_OK) return status;
  w.put(s.pair, 0);
  status = w.encode(second, second_bytes, s.pair_segment, error);
  if (status != PHASOR_OK) return status;
  w.put(s.suffix, s.pair_segment);
  return w.finish(count, error);
}

phasor_status phasor_id_to_text(const phasor_model* model, uint32_t side, phasor_text* text,
                                uint32_t id, char* out, size_t capacity, size_t* bytes) {
  const Tokenizer* t = tokenizer_of(*model, side);
  if (t == nullptr) return PHASOR_BAD_INPUT;
  TokenDecoder state{};
  memcpy(&state, text->state, sizeof state);
  const size_t needed = token_decode(*t, &state, id, out, capacity);
  if (needed == kBadToken) return PHASOR_BAD_INPUT;
  memcpy(text->state, &state, sizeof state);
  return answer(needed, capacity, bytes);
}

phasor_status phasor_text_flush(const phasor_model* model, uint32_t side, phasor_text* text,
                                char* out, size_t capacity, size_t* bytes) {
  if (tokenizer_of(*model, side) == nullptr) return PHASOR_BAD_INPUT;
  TokenDecoder state{};
  memcpy(&state, text->state, sizeof state);
  const size_t needed = token_decode_end(&state, out, capacity);
  memcpy(text->state, &state, sizeof state);
  return answer(needed, capacity, bytes);
}

const char* phasor_piece(const phasor_model* model, uint32_t side, uint32_t id, size_t* bytes) {
  const Tokenizer* t = tokenizer_of(*model, side);
  if (t == nullptr || id >= t->pieces) return nullptr;
  const PieceView piece = tokenizer_piece(*t, id);
  *bytes = piece.bytes;
  return piece.text;
}

// ------------------------------------------------------------------ conversations

int phasor_chat_available(const phasor_model* model) {
  ChatProgram program{};
  return chat_of(*model, &program) ? 1 : 0;
}

phasor_status phasor_chat_to_text(phasor_session* session, int add_generation_prompt, char* out,
                                  size_t capacity, size_t* bytes,
                                  const phasor_chat_message* messages, uint32_t count,
                                  phasor_error* error) {
  const ZoneGuard guard(session);
  ChatProgram program{};
  const Model& m = *session->model.pointer;
  if (!kHasChat && m.file().sections[kSectionChat].bytes != 0)
    return fail(error, PHASOR_UNSUPPORTED, {kSectionChat, PHASOR_NONE, 0, 0},
                "the file has a chat program, this engine is built without them (PHASOR_ONLY)");
  if (!chat_of(m, &program))
    return fail(error, PHASOR_UNSUPPORTED, {kSectionChat, PHASOR_NONE, 0, 0},
                "the file has no chat program");
  for (uint32_t i = 0; i < count; ++i)
    if (messages[i].struct_size != sizeof(phasor_chat_message))
      return fail(error, PHASOR_BAD_INPUT,
                  {PHASOR_NONE, PHASOR_NONE, sizeof(phasor_chat_message), messages[i].struct_size},
                  "message ", i,
                  ": struct_size is not that of this library's phasor_chat_message, ",
                  uint64_t(sizeof(phasor_chat_message)));
  const ChatMessages view{messages, count, message_at};
  const ChatResult r = chat_render(program, out, capacity, view, add_generation_prompt != 0,
                                   session->text().at(0, session->plan.bytes[kPartText]),
                                   static_cast<size_t>(session->plan.bytes[kPartText]));
  if (r.status != ChatStatus::ok) return chat_error(r, session->plan.text_bytes, error);
  *bytes = r.need;
  if (r.need <= capacity) return PHASOR_OK;
  return fail(error, PHASOR_FULL, {PHASOR_NONE, PHASOR_NONE, capacity, r.need},
              "the conversation has ", uint64_t(r.need), " bytes, there is room for ",
              uint64_t(capacity));
}

// ------------------------------------------------------------------ the file's own test vectors

uint32_t phasor_vector_count(const phasor_model* model) {
  const File f = model->file();
  VectorsHeader h{};
  return kHasVectors && f.sections[kSectionVectors].bytes != 0 && read_vectors_header(&h, f)
             ? h.count
             : 0;
}

phasor_status phasor_vector_get(const phasor_model* model, uint32_t index, phasor_vector* out) {
  VectorsHeader h{};
  TestVector v{};
  if (!kHasVectors || !find_vector(&v, &h, *model, index)) return PHASOR_BAD_INPUT;
  *out = {out->struct_size,
          v.source,
          v.target,
          h.tolerance,
          v.hash,
          h.numerics,
          reinterpret_cast<const uint32_t*>(v.source_ids),
          reinterpret_cast<const uint32_t*>(v.target_ids)};
  return PHASOR_OK;
}

phasor_status phasor_vector_run(phasor_session* session, uint32_t index,
                                phasor_vector_result* result, phasor_error* error) {
  const ZoneGuard guard(session);
  if (!kHasVectors)
    return fail(error, PHASOR_UNSUPPORTED, {}, "test vectors are not in this build (PHASOR_ONLY)");
  return replay_vector(session, index, result, error);
}

phasor_status phasor_vector_record(const phasor_model* model, void* file, const uint64_t* hashes,
                                   float tolerance, phasor_error* error) {
  unsigned char* bytes = static_cast<unsigned char*>(file);
  VectorsHeader header{};
  TestVector v{};
  if (bytes != model->data.pointer)
    return fail(error, PHASOR_BAD_INPUT, {}, "the model was opened with another file");
  if (!(tolerance > 0 && tolerance <= 3e38f))
    return fail(error, PHASOR_BAD_INPUT, {}, "tolerance ", tolerance,
                ": expected a number above 0");
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

// ------------------------------------------------------------------ another type of the same model

phasor_status phasor_quantize_size(size_t* need, const void* file, size_t file_bytes,
                                   const phasor_quantize_options* options, phasor_error* error) {
  Conversion c;
  phasor_status status = c.open(file, file_bytes, options, error);
  if (status != PHASOR_OK) return status;
  *need = static_cast<size_t>(c.bytes);
  return PHASOR_OK;
}

phasor_status phasor_quantize(void* out, size_t out_bytes, phasor_rounding* rounding,
                              const void* file, size_t file_bytes,
                              const phasor_quantize_options* options, phasor_error* error) {
  Conversion c;
  TypeReport reports[PHASOR_TYPES + 1];
  uint32_t index = 0;
  phasor_status status = c.open(file, file_bytes, options, error);
  if (status != PHASOR_OK) return status;
  if (out_bytes < c.bytes)
    return fail(error, PHASOR_NO_MEMORY, {PHASOR_NONE, PHASOR_NONE, c.bytes, out_bytes},
                "there is room for ", uint64_t(out_bytes), " bytes, expected ", c.bytes);
  if (!convert_file(static_cast<unsigned char*>(out), c.file, c.wanted, c.moments, reports,
                    &index)) {
    const Entry e = entry_at(c.file, index);
    return fail(error, PHASOR_UNSUPPORTED, {kSectionData, PHASOR_NONE, 0, e.key},
                tensor_name(e.key), ": a weight is too large for ",
                type_name(wanted_type(e, c.wanted)));
  }
  for (uint32_t i = 0; rounding != nullptr && i < PHASOR_TYPES; ++i) {
    const TypeReport& r = reports[i + 1];
    rounding[i] = {sizeof(phasor_rounding),
                   type_name(static_cast<Type>(i + 1)),
                   r.largest > 0 ? tensor_name(r.key) : nullptr,
                   r.bytes,
                   r.largest,
                   r.share};
  }
  return PHASOR_OK;
}

}  // extern "C"
