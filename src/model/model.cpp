#include "model.h"

namespace phasor {
namespace {

// Binds the directory's tensors, in the order of their keys, to the rows of the table of roles,
// which have the same order. Does nothing after a failure.
class Binder {
 public:
  Binder(Model* m, const File& file, phasor_error* error) : m_(m), file_(file), error_(error) {}

  // Every tensor must have a use, and every use a tensor.
  phasor_status bind() {
    each_role(file_, m_->descriptor, &m_->kind(0), visit, this);
    if (status_ == PHASOR_OK && next_ != entry_count(file_)) left_over(entry_at(file_, next_));
    return status_;
  }

 private:
  static void visit(void* binder, const Role& role) { static_cast<Binder*>(binder)->take(role); }

  // The directory's next tensor must be as the row says.
  void take(const Role& r) {
    if (!r.there || status_ != PHASOR_OK) return;
    const Entry e = next_ != entry_count(file_) ? entry_at(file_, next_) : Entry{};
    if (next_ == entry_count(file_) || e.key > r.key)
      return refuse(PHASOR_BAD_FILE, r.key, ": no tensor \"", r.name,
                    "\", the descriptor asks for it");
    if (e.key < r.key) return left_over(e);
    const uint32_t panels = holds(r.layouts, Layout::panel16) ? r.panels() : 0;
    if (!holds(r.layouts, e.layout) || e.rows != r.rows() || e.cols != r.cols ||
        e.panels != (e.layout == Layout::panel16 ? panels : 0))
      return refuse(PHASOR_BAD_FILE, r.key, ", ", r.name, ": ", layout_name(e.layout), " ", e.rows,
                    "x", e.cols, "/", e.panels, ", expected ", r.rows(), "x", r.cols, "/", panels);
    if (!holds(r.types, e.type))
      return refuse(PHASOR_UNSUPPORTED, r.key, ", ", r.name, ": type ", type_name(e.type),
                    " is not supported for this tensor");
    if (has_row_scale(e.type) && e.cols > kMostInRow)
      return refuse(PHASOR_UNSUPPORTED, r.key, ", ", r.name, ": ", e.cols, " inputs, ",
                    type_name(e.type), " has at most ", kMostInRow);
    if (e.inputs == kInputs16 && !kHasInputs16)
      return refuse(PHASOR_UNSUPPORTED, r.key, ", ", r.name,
                    ": inputs of 16 bits are not in this build (PHASOR_ONLY)");
    if (e.inputs == kInputsRotated && !kHasRotatedInputs)
      return refuse(PHASOR_UNSUPPORTED, r.key, ", ", r.name,
                    ": rotated inputs are not in this build (PHASOR_ONLY)");
    Tensor* tensor = reinterpret_cast<Tensor*>(static_cast<unsigned char*>(home(r)) + r.place);
    *tensor = {e.offset, e.rows, e.cols, e.panels, e.type, e.layout, e.inputs, 0};
    ++next_;
  }

  template <class Number>
  static bool holds(uint32_t bits, Number number) {
    return (bits >> static_cast<uint32_t>(number) & 1u) != 0;
  }

  // The struct that a row's place is in.
  void* home(const Role& r) const {
    const uint32_t stack = r.key >> 24;
    const Half half = half_of(stack);
    switch (stack) {
      case kStackKinds:
        return m_->part<KindTables>(m_->tables_at) + r.index;
      case kStackSource:
      case kStackTarget:
        if ((r.key & 0xFFu) >= kRolePerLayer) return &m_->per_layer;
        return &m_->inputs[half];
      case kStackOutput:
        return static_cast<OutputTensors*>(m_);
      default:
        if (r.index == kFinalSet) return &m_->final_norms[half];
        if ((r.key & 0xFFu) >= kFirstRareRole) {
          Layer* const layer = m_->part<Layer>(m_->layers_at[half]) + r.index;
          layer->rare = (half == kDecoder ? m_->layer_count[kEncoder] : 0) + r.index + 1;
          return m_->part<RareTensors>(m_->rare_at) + layer->rare - 1;
        }
        return m_->part<Layer>(m_->layers_at[half]) + r.index;
    }
  }

  void left_over(const Entry& e) {
    refuse(PHASOR_BAD_FILE, e.key, ": tensor \"", tensor_name(e.key), "\" (role ", e.key & 0xFF,
           ") has no use in this model");
  }
  template <class... Parts>
  void refuse(phasor_status status, uint32_t key, Parts... parts) {
    status_ = fail(error_, status, {kSectionDirectory, PHASOR_NONE, 0, next_},
                   stack_name(key >> 24), " set ", key >> 8 & 0xFFFF, parts...);
  }

  Model* m_;
  const File& file_;
  phasor_error* error_;
  phasor_status status_ = PHASOR_OK;
  uint32_t next_ = 0;
};

// The kind of each layer, where its keys and values lie, and the tensors of the layers whose set of
// weights was used before: they are those again.
phasor_status place_layers(Model* m, const File& file, Half half, phasor_error* error) {
  const StackDescriptor& s = m->descriptor.stacks[half];
  Layer* layers = m->part<Layer>(m->layers_at[half]);
  KindTables* tables = m->part<KindTables>(m->tables_at);
  uint32_t sets = 0;
  for (uint32_t i = 0; i < m->layer_count[half]; ++i) {
    const LayerOf of = layer_of(file, s, i);
    Layer* l = &layers[i];
    if (of.set < sets) {
      uint32_t first = 0;
      while (layers[first].set != of.set) ++first;
      if (layers[first].kind != of.kind)
        return fail(error, PHASOR_UNSUPPORTED, {kSectionMeta, i, layers[first].kind, of.kind},
                    kStackNames[half], ".layers: layers ", first, " and ", i,
                    " share weights and differ in kind, which is not supported");
      *l = layers[first];
    }
    if (of.set == sets) ++sets;
    l->kind = of.kind;
    l->set = of.set;
    tables[of.kind].stacks |= 1u << half;
    if (half == kEncoder) continue;
    const KindDescriptor& k = m->kind(*l);
    CacheSize* size = &m->cache;
    if (m->ringed(*l)) {
      size = &m->ring;
      if (k.window > m->window) m->window = k.window;
    }
    l->cache_offset = borrows(k) ? layers[k.keys_of - 1].cache_offset : *size;
    if (!borrows(k)) add_layer(size, k);
    if (merges(k)) m->merged = 1;
    l->cross_offset = m->cross;
    if (k.cross != 0) add_heads(&m->cross, k.cross_kv_heads, k.cross_head_width);
  }
  return PHASOR_OK;
}

// Matrices that are two things at once.
phasor_status share_embeddings(Model* m, phasor_error* error) {
  const Descriptor& d = m->descriptor;
  if (d.sides[kDecoder].embedding_shared != 0)
    m->inputs[kDecoder].embedding = m->inputs[kEncoder].embedding;
  if (d.output.output != kOutputLogits || d.output.tied == kTiedOwn) return PHASOR_OK;
  m->output.weight = m->inputs[d.output.tied == kTiedTarget ? kDecoder : kEncoder].embedding;
  if (m->output.weight.layout == Layout::panel16) return PHASOR_OK;
  return fail(error, PHASOR_BAD_FILE, {kSectionDirectory, PHASOR_NONE, 0, 0},
              "output.tied: the embedding is in rows, a tied one must be in panels");
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

// Whether the directory has a tensor that few blocks have.
bool has_rare(const File& file) {
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const uint32_t key = entry_at(file, i).key, stack = key >> 24, role = key & 0xFFu;
    if ((stack == kStackEncoder || stack == kStackDecoder) && role >= kFirstRareRole &&
        role < kFirstFinalRole)
      return true;
  }
  return false;
}

// Where the parts of the block lie; returns where it ends.
uint64_t place_parts(Places* p, const File& file, const Descriptor& d) {
  constexpr uint64_t kTokenizerBytes = 192;
  static_assert(sizeof(Tokenizer) <= kTokenizerBytes, "the block keeps 192 bytes for a tokenizer");
  p->kinds_at = round_up(sizeof(Model), 64);
  p->tables_at = round_up(p->kinds_at + d.kinds * sizeof(KindDescriptor), 64);
  uint64_t end = round_up(p->tables_at + d.kinds * sizeof(KindTables), 64);
  for (const Half half : kHalves) {
    p->layers_at[half] = end;
    end += layer_count(d.stacks[half]) * sizeof(Layer);
  }
  end = round_up(end, 64);
  for (const Half half : kHalves) {
    p->tokenizer_at[half] = end;
    end += kTokenizerBytes;
  }
  p->rare_at = end;
  if (has_rare(file))
    for (const Half half : kHalves) end += layer_count(d.stacks[half]) * sizeof(RareTensors);
  p->marks_at = end;
  for (uint32_t list = 0; list < kLists; ++list)
    end += uint64_t{4} * marks_of(count_records(nullptr, static_cast<List>(list), file, d));
  return round_up(end, 64);
}

phasor_status open_tokenizers(Model* m, const File& file, phasor_error* error) {
  for (const Half side : kHalves) {
    const uint32_t section = m->descriptor.sides[side].tokenizer;
    if (section == 0) continue;
    const Section& s = file.sections[section];
    Tokenizer* t = m->part<Tokenizer>(m->tokenizer_at[side]);
    const char* why = "";
    // never: the build that is tested has all models
    if (!tokenizer_is_built(file.data + s.offset, static_cast<size_t>(s.bytes)))
      return fail(error, PHASOR_UNSUPPORTED, {section, PHASOR_NONE, 0, 0}, "tokenizer (section ",
                  section, "): its model is not in this build (PHASOR_ONLY)");
    if (!tokenizer_open(t, file.data + s.offset, static_cast<size_t>(s.bytes), &why))
      return fail(error, PHASOR_BAD_FILE, {section, PHASOR_NONE, 0, 0}, "tokenizer (section ",
                  section, "): ", why);
    if (t->ids > m->descriptor.sides[side].vocabulary)
      return fail(error, PHASOR_BAD_FILE,
                  {section, PHASOR_NONE, m->descriptor.sides[side].vocabulary, t->ids},
                  "tokenizer (section ", section, "): ", t->ids, " pieces, the vocabulary has ",
                  m->descriptor.sides[side].vocabulary);
    m->has_tokenizer[side] = 1;
  }
  return PHASOR_OK;
}

}  // namespace

uint64_t Model::place_of(List list, uint32_t index) const {
  const uint32_t* marks = part<uint32_t>(marks_at);
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
  Places places{};
  if (status == PHASOR_OK) *need = place_parts(&places, file, d);
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
  const uint64_t end = place_parts(m, file, m->descriptor);
  memset(m->part<unsigned char>(sizeof(Model)), 0, static_cast<size_t>(end - sizeof(Model)));
  for (const Half half : kHalves) m->layer_count[half] = layer_count(m->descriptor.stacks[half]);
  uint32_t* marks = m->part<uint32_t>(m->marks_at);
  for (uint32_t list = 0; list < kLists; ++list) {
    m->records[list] = count_records(marks, static_cast<List>(list), file, m->descriptor);
    marks += marks_of(m->records[list]);
  }
  status = read_descriptor(&m->descriptor, m->part<KindDescriptor>(m->kinds_at), file, error);
  if (status == PHASOR_OK) status = Binder(m, file, error).bind();
  for (const Half half : kHalves)
    if (status == PHASOR_OK) status = place_layers(m, file, half, error);
  if (status == PHASOR_OK) status = share_embeddings(m, error);
  if (status == PHASOR_OK) status = open_tokenizers(m, file, error);
  if (status == PHASOR_OK) *out = m;
  return status;
}

}  // namespace phasor
