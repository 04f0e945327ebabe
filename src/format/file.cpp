#include "file.h"

#include "crc32c.h"

namespace phasor {
namespace {

constexpr unsigned char kMagic[8] = {0x89, 'P', 'H', 'A', 'S', 'O', 'R', 0x0A};
constexpr uint32_t kEndian = 0x01020304u;
constexpr uint64_t kHeaderBytes = 64, kSectionBytes = 32, kEntryBytes = 48, kMetaBytes = 12;
constexpr uint64_t kAlign = 64;
// bytes; the largest directory and metadata that anyone can mean
constexpr uint64_t kMaxHead = uint64_t(1) << 28;
constexpr uint32_t kMaxArray = 4u * 65536u;

bool known_section(uint32_t kind) {
  return kind == kSectionMeta || kind == kSectionDirectory || kind == kSectionSourceTokenizer ||
         kind == kSectionTargetTokenizer || kind == kSectionVectors || kind == kSectionChat ||
         kind == kSectionRecord || kind == kSectionData;
}

bool all_zero(const unsigned char* p, uint64_t n) {
  for (uint64_t i = 0; i < n; ++i)
    if (p[i] != 0) return false;
  return true;
}

// The file's first 64 bytes, and that `bytes` is the size that they say.
phasor_status check_header(File* file, phasor_error* error) {
  const unsigned char* p = file->data;
  if (file->bytes < kHeaderBytes)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, kHeaderBytes, file->bytes},
                "not a .phasor file: ", file->bytes, " bytes, a header has 64");
  if (memcmp(p, kMagic, sizeof kMagic) != 0)
    return fail(error, PHASOR_BAD_FILE, {},
                "not a .phasor file: the first eight bytes are not its magic");
  const uint32_t version = load_u32(p + 8), endian = load_u32(p + 12), alignment = load_u32(p + 16);
  if (version != kFormatVersion)
    return fail(error, PHASOR_UNSUPPORTED, {PHASOR_NONE, PHASOR_NONE, kFormatVersion, version},
                "format version ", version, ", expected 1");
  if (endian != kEndian)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, kEndian, endian},
                "wrong byte order mark");
  if (alignment != kAlign)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, kAlign, alignment}, "alignment ",
                alignment, ", expected 64");
  const uint64_t total = load_u64(p + 24), head = load_u64(p + 32);
  // never: size_t has 64 bits where the tests are counted
  if (total > SIZE_MAX)
    return fail(error, PHASOR_TOO_LARGE, {PHASOR_NONE, PHASOR_NONE, 0, total}, "the file has ",
                total, " bytes: too large for this machine");
  if (total != file->bytes)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, total, file->bytes},
                "the header says ", total, " bytes, the file has ", file->bytes);
  if (head < kHeaderBytes || head > total || head > kMaxHead || head % kAlign != 0)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, total, head}, "head_bytes ",
                head, " is not a multiple of 64 inside the file");
  file->head_bytes = head;
  file->head_crc = load_u32(p + 40);
  const unsigned char zero[4] = {0, 0, 0, 0};
  uint32_t crc = crc32c(0, p, 40);
  crc = crc32c(crc, zero, 4);
  crc = crc32c(crc, p + 44, static_cast<size_t>(head - 44));
  if (crc != file->head_crc)
    return fail(error, PHASOR_BAD_CHECKSUM, {PHASOR_NONE, PHASOR_NONE, file->head_crc, crc},
                "the head's checksum is wrong: the header, metadata or directory is damaged");
  if (!all_zero(p + 44, 20))
    return fail(error, PHASOR_BAD_FILE, {}, "a reserved field of the header is not zero");
  return PHASOR_OK;
}

phasor_status check_sections(File* file, phasor_error* error) {
  const unsigned char* p = file->data;
  const uint32_t count = load_u32(p + 20);
  if (count < 2 || count > kMaxSections)
    return fail(error, PHASOR_BAD_FILE, {PHASOR_NONE, PHASOR_NONE, kMaxSections, count}, count,
                " sections, expected 2 to 16");
  uint64_t end = kHeaderBytes + count * kSectionBytes;  // of what has been seen so far
  if (end > file->head_bytes)
    return fail(error, PHASOR_BAD_FILE, {}, "the section table is longer than the head");
  uint32_t before = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const unsigned char* e = p + kHeaderBytes + i * kSectionBytes;
    const uint32_t kind = load_u32(e), flags = load_u32(e + 4), crc = load_u32(e + 24);
    const uint64_t offset = load_u64(e + 8), bytes = load_u64(e + 16);
    const At at{kind, PHASOR_NONE, 0, 0};
    if (kind <= before)
      return fail(error, PHASOR_BAD_FILE, at, "section ", kind, ": kinds must ascend");
    before = kind;
    if (flags > 1 || load_u32(e + 28) != 0)
      return fail(error, PHASOR_BAD_FILE, at, "section ", kind, ": a reserved bit is set");
    if (offset % kAlign != 0 || offset < end || offset > file->bytes || bytes == 0 ||
        bytes > file->bytes - offset)
      return fail(error, PHASOR_BAD_FILE, at, "section ", kind, ": offset ", offset, " and size ",
                  bytes, " do not lie in order inside the file");
    const bool in_head = kind == kSectionMeta || kind == kSectionDirectory;
    if (in_head ? offset + bytes > file->head_bytes || crc != 0 : offset < file->head_bytes)
      return fail(error, PHASOR_BAD_FILE, at, "section ", kind,
                  in_head ? ": must lie in the head" : ": must lie after the head");
    end = offset + bytes;
    if (!known_section(kind)) {
      if (flags != 0)
        return fail(error, PHASOR_UNSUPPORTED, at, "section ", kind,
                    " is required and not known here");
      continue;
    }
    file->sections[kind] = {offset, bytes, crc};
  }
  const uint32_t needed[3] = {kSectionMeta, kSectionDirectory, kSectionData};
  for (const uint32_t kind : needed)
    if (file->sections[kind].bytes == 0)
      return fail(error, PHASOR_BAD_FILE, {kind, PHASOR_NONE, 0, 0}, "section ", kind,
                  " is missing");
  const Section& meta = file->sections[kSectionMeta];
  const Section& directory = file->sections[kSectionDirectory];
  const uint64_t table_end = kHeaderBytes + count * kSectionBytes;
  const uint64_t meta_end = meta.offset + meta.bytes,
                 directory_end = directory.offset + directory.bytes;
  if (round_up(directory_end, kAlign) != file->head_bytes)
    return fail(error, PHASOR_BAD_FILE,
                {kSectionDirectory, PHASOR_NONE, file->head_bytes, directory_end},
                "the head does not end with the directory");
  if (!all_zero(p + table_end, meta.offset - table_end) ||
      !all_zero(p + meta_end, directory.offset - meta_end) ||
      !all_zero(p + directory_end, file->head_bytes - directory_end))
    return fail(error, PHASOR_BAD_FILE, {}, "a byte between the sections of the head is not zero");
  return PHASOR_OK;
}

// The framing of every entry: types, sizes, order, padding. What the keys mean is the descriptor's
// business.
phasor_status check_meta(const File& file, phasor_error* error) {
  const Section& s = file.sections[kSectionMeta];
  const unsigned char* p = file.data + s.offset;
  const At at{kSectionMeta, PHASOR_NONE, 0, 0};
  uint32_t before = 0;
  for (uint64_t i = 0; i < s.bytes;) {
    if (s.bytes - i < kMetaBytes)
      return fail(error, PHASOR_BAD_FILE, at, "metadata: an entry is cut off");
    const uint32_t key = load_u32(p + i), bytes = load_u32(p + i + 8);
    const uint8_t type = p[i + 4];
    if (key <= before)
      return fail(error, PHASOR_BAD_FILE, at, "metadata: key ", key, " after key ", before,
                  ", keys must ascend");
    before = key;
    if (type < kMetaU32 || type > kMetaF32Array || p[i + 5] > 1 || load_u16(p + i + 6) != 0)
      return fail(error, PHASOR_BAD_FILE, at, "metadata: key ", key,
                  " has an unknown type or flag");
    const bool scalar = type == kMetaU32 || type == kMetaF32;
    if (bytes > kMaxArray || round_up(bytes, 4) > s.bytes - i - kMetaBytes ||
        (scalar && bytes != 4) || (type != kMetaString && bytes % 4 != 0))
      return fail(error, PHASOR_BAD_FILE, at, "metadata: key ", key, " has a value of ", bytes,
                  " bytes");
    const unsigned char* value = p + i + kMetaBytes;
    if (!all_zero(value + bytes, round_up(bytes, 4) - bytes))
      return fail(error, PHASOR_BAD_FILE, at, "metadata: key ", key, " is not padded with zeros");
    if (type == kMetaF32 || type == kMetaF32Array)
      for (uint32_t k = 0; k < bytes; k += 4)
        if (!is_finite_f32(load_u32(value + k)))
          return fail(error, PHASOR_BAD_FILE, at, "metadata: key ", key, " is not finite");
    i += kMetaBytes + round_up(bytes, 4);
  }
  return PHASOR_OK;
}

// Exactly the bytes that a tensor of this type, layout and shape has; 0 when there is no such thing
// or it overflows.
uint64_t tensor_bytes(const Entry& e) {
  // rows, cols, panels < 2^32, so that a product of two is below 2^64; the last factor is tested by
  // division.
  if (e.rows == 0) return 0;  // nor has any layout a byte without columns
  if (e.layout == Layout::panel16) {
    const uint64_t panel = panel_bytes(e.type, e.cols);
    if (panel == 0 || e.panels < panels_of(e.rows) || e.panels > UINT64_MAX / panel) return 0;
    return panel * e.panels;
  }
  if (e.panels != 0) return 0;
  if (e.layout == Layout::rows) {
    if (uint64_t(e.rows) > (UINT64_MAX >> 4) / (uint64_t(e.cols) + kGroup)) return 0;
    return rows_bytes(e.type, e.rows, e.cols);
  }
  if (e.cols != 1) return 0;
  return e.type == Type::f32   ? uint64_t(e.rows) * 4
         : e.type == Type::f64 ? uint64_t(e.rows) * 8
                               : 0;
}

phasor_status check_directory(const File& file, phasor_error* error) {
  const Section& s = file.sections[kSectionDirectory];
  const Section& data = file.sections[kSectionData];
  const unsigned char* p = file.data + s.offset;
  const At at{kSectionDirectory, PHASOR_NONE, 0, 0};
  if (s.bytes < 8 || load_u32(p + 4) != 0)
    return fail(error, PHASOR_BAD_FILE, at,
                "directory: no room for its count, or a reserved field is not zero");
  const uint64_t count = load_u32(p);
  if (count == 0 || s.bytes != 8 + count * kEntryBytes)
    return fail(error, PHASOR_BAD_FILE,
                {kSectionDirectory, PHASOR_NONE, 8 + count * kEntryBytes, s.bytes},
                "directory: ", count, " tensors do not fill ", s.bytes, " bytes");
  uint32_t before = 0;
  uint64_t end = data.offset;
  for (uint32_t i = 0; i < count; ++i) {
    const unsigned char* raw = p + 8 + uint64_t(i) * kEntryBytes;
    const Entry e = entry_at(file, i);
    if (i != 0 && e.key <= before)
      return fail(error, PHASOR_BAD_FILE, at, "directory: tensor ", i, ": keys must ascend");
    before = e.key;
    const uint8_t type = raw[4], layout = raw[5];
    if (type < 1 || type > kTypes || layout < 1 || layout > 3 || raw[6] > kInputsRotated ||
        raw[7] != 0 || load_u64(raw + 40) != 0)
      return fail(error, PHASOR_BAD_FILE, at, "directory: tensor ", i,
                  ": unknown type, layout or form of inputs, or a reserved field is not zero");
    if (raw[6] != 0 && (!quantized_type(e.type) || e.layout != Layout::panel16))
      return fail(error, PHASOR_BAD_FILE, at, "directory: tensor ", i,
                  ": a form of inputs, which only panels of a quantized type have");
    if (raw[6] == kInputsRotated && !grouped_type(e.type))
      return fail(error, PHASOR_BAD_FILE, at, "directory: tensor ", i,
                  ": rotated inputs, which only types with a scale for each group have");
    const uint64_t bytes = tensor_bytes(e);
    if (bytes == 0 || bytes != e.bytes)
      return fail(error, PHASOR_BAD_FILE, {kSectionDirectory, PHASOR_NONE, bytes, e.bytes},
                  "directory: tensor ", i, ": ", e.bytes,
                  " bytes, its type, layout and shape ask for ", bytes);
    if (e.offset % kAlign != 0 || e.offset < end || e.offset > data.offset + data.bytes ||
        e.bytes > data.offset + data.bytes - e.offset)
      return fail(error, PHASOR_BAD_FILE, at, "directory: tensor ", i, ": offset ", e.offset,
                  " and size ", e.bytes, " do not lie in order inside the data");
    end = e.offset + e.bytes;
  }
  return PHASOR_OK;
}

}  // namespace

phasor_status open_file(File* file, const void* data, size_t bytes, phasor_error* error) noexcept {
  *file = File{};
  file->data = static_cast<const unsigned char*>(data);
  file->bytes = bytes;
  phasor_status status = check_header(file, error);
  if (status == PHASOR_OK) status = check_sections(file, error);
  if (status == PHASOR_OK) status = check_meta(*file, error);
  if (status == PHASOR_OK) status = check_directory(*file, error);
  return status;
}

File view_file(const void* data, uint64_t bytes) noexcept {
  File file{};
  file.data = static_cast<const unsigned char*>(data);
  file.bytes = bytes;
  file.head_bytes = load_u64(file.data + 32);
  file.head_crc = load_u32(file.data + 40);
  for (uint32_t i = 0; i < load_u32(file.data + 20); ++i) {
    const unsigned char* e = file.data + kHeaderBytes + i * kSectionBytes;
    const uint32_t kind = load_u32(e);
    if (known_section(kind))
      file.sections[kind] = {load_u64(e + 8), load_u64(e + 16), load_u32(e + 24)};
  }
  return file;
}

bool next_meta(const File& file, uint64_t* at, Meta* out) noexcept {
  const Section& s = file.sections[kSectionMeta];
  if (*at >= s.bytes) return false;
  const unsigned char* p = file.data + s.offset + *at;
  work();
  *out = {load_u32(p), p[4], (p[5] & 1) != 0, load_u32(p + 8), p + kMetaBytes};
  *at += kMetaBytes + round_up(out->bytes, 4);
  return true;
}

uint32_t entry_count(const File& file) noexcept {
  return load_u32(file.data + file.sections[kSectionDirectory].offset);
}

Entry entry_at(const File& file, uint32_t index) noexcept {
  const unsigned char* p =
      file.data + file.sections[kSectionDirectory].offset + 8 + uint64_t(index) * kEntryBytes;
  return {load_u32(p),      static_cast<Type>(p[4]), static_cast<Layout>(p[5]), p[6],
          load_u64(p + 8),  load_u64(p + 16),        load_u32(p + 24),          load_u32(p + 28),
          load_u32(p + 32), load_u32(p + 36)};
}

phasor_status check_file(const File& file, phasor_error* error) noexcept {
  // The checksum table is small and the bytes are read once a tensor: the damaged thing is named as
  // closely as it can be.
  uint64_t end = file.sections[kSectionData].offset;
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const Entry e = entry_at(file, i);
    if (!all_zero(file.data + end, e.offset - end))
      return fail(error, PHASOR_BAD_FILE, {kSectionData, PHASOR_NONE, 0, i},
                  "a byte before tensor ", i, " is not zero");
    const uint32_t crc = crc32c(0, file.data + e.offset, static_cast<size_t>(e.bytes));
    if (crc != e.crc)
      return fail(error, PHASOR_BAD_CHECKSUM, {kSectionData, PHASOR_NONE, e.crc, crc}, "tensor ", i,
                  " (key ", e.key, ") is damaged: its checksum is wrong");
    end = e.offset + e.bytes;
  }
  uint64_t before = file.head_bytes;
  const uint32_t count = load_u32(file.data + 20);
  // the table itself, so that an unknown optional section is checked too
  for (uint32_t i = 0; i < count; ++i) {
    const unsigned char* entry = file.data + kHeaderBytes + i * kSectionBytes;
    const uint32_t kind = load_u32(entry);
    if (kind == kSectionMeta || kind == kSectionDirectory) continue;
    const Section s{load_u64(entry + 8), load_u64(entry + 16), load_u32(entry + 24)};
    const uint32_t crc = crc32c(0, file.data + s.offset, static_cast<size_t>(s.bytes));
    if (crc != s.crc)
      return fail(error, PHASOR_BAD_CHECKSUM, {kind, PHASOR_NONE, s.crc, crc}, "section ", kind,
                  " is damaged: its checksum is wrong");
    if (!all_zero(file.data + before, s.offset - before))
      return fail(error, PHASOR_BAD_FILE, {kind, PHASOR_NONE, 0, 0}, "a byte before section ", kind,
                  " is not zero");
    before = s.offset + s.bytes;
  }
  if (!all_zero(file.data + before, file.bytes - before))
    return fail(error, PHASOR_BAD_FILE, {}, "a byte after the last section is not zero");
  return PHASOR_OK;
}

const char* type_name(Type type) noexcept {
  return kTypeNames[static_cast<unsigned>(type) <= kTypes ? static_cast<unsigned>(type) : 0];
}

const char* layout_name(Layout layout) noexcept {
  static const char* const names[] = {"?", "panel16", "rows", "vector"};
  return names[static_cast<unsigned>(layout) <= 3 ? static_cast<unsigned>(layout) : 0];
}

}  // namespace phasor
