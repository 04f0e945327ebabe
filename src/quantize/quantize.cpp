#include "quantize.h"

#include "../format/bytes.h"
#include "../format/crc32c.h"
#include "../format/tensors.h"

namespace phasor {
namespace {

constexpr uint64_t kHeaderBytes = 64, kSectionBytes = 32, kEntryBytes = 48, kAlign = 64;

// Embeddings and the output's matrix have one role in their stacks.
bool is_end(const Entry& e) {
  const uint32_t stack = e.key >> 24;
  return (e.key & 0xFFu) == kRoleOfEmbedding &&
         (stack == kStackSource || stack == kStackTarget || stack == kStackOutput);
}

// Tables of positions and segments have rows too, and stay f32.
bool is_matrix(const Entry& e) {
  return e.layout == Layout::panel16 || (e.layout == Layout::rows && is_end(e));
}

uint64_t bytes_as(const Entry& e, Type type) {
  if (type == e.type) return e.bytes;
  return e.layout == Layout::panel16 ? panel_bytes(type, e.cols) * e.panels
                                     : rows_bytes(type, e.rows, e.cols);
}

// The sections behind the head keep their order and their bytes, but for DATA.
struct Placed {
  uint64_t data;  // where DATA begins
  uint64_t end;   // of the file
};

Placed place(const File& file, const WantedTypes& wanted) {
  Placed out{file.head_bytes, 0};
  for (uint32_t i = 0; i < load_u32(file.data + 20); ++i) {
    const unsigned char* e = file.data + kHeaderBytes + i * kSectionBytes;
    const uint32_t kind = load_u32(e);
    if (kind != kSectionMeta && kind != kSectionDirectory && kind != kSectionData)
      out.data = round_up(out.data + load_u64(e + 16), kAlign);
  }
  out.end = out.data;
  for (uint32_t i = 0; i < entry_count(file); ++i) {
    const Entry e = entry_at(file, i);
    out.end = round_up(out.end, kAlign) + bytes_as(e, wanted_type(e, wanted));
  }
  return out;
}

void seal_head(unsigned char* file) {
  store_u32(file + 40, 0);
  store_u32(file + 40, crc32c(0, file, static_cast<size_t>(load_u64(file + 32))));
}

unsigned char* section_entry(unsigned char* file, uint32_t kind) {
  for (uint32_t i = 0; i < load_u32(file + 20); ++i)
    if (load_u32(file + kHeaderBytes + i * kSectionBytes) == kind)
      return file + kHeaderBytes + i * kSectionBytes;
  return nullptr;
}

// Header, tables, metadata, directory and the sections that are copied; gaps become zeros.
void copy_all_but_data(unsigned char* out, const File& file, const Placed& placed) {
  memcpy(out, file.data, static_cast<size_t>(file.head_bytes));
  store_u64(out + 24, placed.end);
  uint64_t at = file.head_bytes;
  for (uint32_t i = 0; i < load_u32(file.data + 20); ++i) {
    unsigned char* e = out + kHeaderBytes + i * kSectionBytes;
    const uint32_t kind = load_u32(e);
    const uint64_t offset = load_u64(e + 8), bytes = load_u64(e + 16);
    if (kind == kSectionMeta || kind == kSectionDirectory) continue;
    store_u64(e + 8, kind == kSectionData ? placed.data : at);
    if (kind == kSectionData) store_u64(e + 16, placed.end - placed.data);
    if (kind == kSectionData) continue;
    memcpy(out + at, file.data + offset, static_cast<size_t>(bytes));
    const uint64_t next = round_up(at + bytes, kAlign);
    memset(out + at + bytes, 0, static_cast<size_t>(next - at - bytes));
    at = next;
  }
}

void report(TypeReport* r, const Entry& e, uint64_t bytes, const StoredError& error) {
  const float share = error.value > 0 ? error.largest / error.value : 0;
  r->bytes += bytes;
  if (error.largest > r->largest) r->largest = error.largest, r->key = e.key;
  if (share > r->share) r->share = share;
}

}  // namespace

Type wanted_type(const Entry& e, const WantedTypes& wanted) noexcept {
  return !is_matrix(e) ? e.type : is_end(e) ? wanted.ends : wanted.matrices;
}

bool converted_bytes(uint64_t* bytes, const File& file, const WantedTypes& wanted) noexcept {
  // A value takes at most 32 times the bits that it has in the file, so no sum comes near 2^63.
  if (file.bytes >= uint64_t(1) << 56) return false;
  const uint32_t sections = load_u32(file.data + 20);
  if (load_u32(file.data + kHeaderBytes + (sections - 1) * kSectionBytes) != kSectionData)
    return false;
  *bytes = place(file, wanted).end;
  return true;
}

uint64_t moments_before(const File& file, uint32_t index) noexcept {
  uint64_t columns = 0;
  for (uint32_t i = 0; i < index; ++i) {
    const Entry e = entry_at(file, i);
    if (is_matrix(e)) columns += e.cols;
  }
  return columns;
}

bool convert_file(unsigned char* out, const File& file, const WantedTypes& wanted,
                  const float* moments, TypeReport* reports, uint32_t* index) noexcept {
  const Placed placed = place(file, wanted);
  copy_all_but_data(out, file, placed);
  unsigned char* directory = out + file.sections[kSectionDirectory].offset + 8;
  uint64_t at = placed.data;
  for (uint32_t i = 0; i < entry_count(file); ++i, directory += kEntryBytes) {
    const Entry e = entry_at(file, i);
    const Type type = wanted_type(e, wanted);
    const uint64_t bytes = bytes_as(e, type), begin = round_up(at, kAlign);
    memset(out + at, 0, static_cast<size_t>(begin - at));
    StoredError error;
    if (type == e.type)
      memcpy(out + begin, file.data + e.offset, static_cast<size_t>(bytes));
    else if (!convert_matrix(out + begin, type, file.data + e.offset, e, moments, &error))
      return *index = i, false;
    if (moments != nullptr && is_matrix(e)) moments += e.cols;
    directory[4] = static_cast<unsigned char>(type);
    store_u64(directory + 8, begin);
    store_u64(directory + 16, bytes);
    store_u32(directory + 36, crc32c(0, out + begin, static_cast<size_t>(bytes)));
    report(&reports[static_cast<unsigned>(type)], e, bytes, error);
    at = begin + bytes;
  }
  seal(out, kSectionData);
  return true;
}

void seal(unsigned char* file, uint32_t section) noexcept {
  unsigned char* e = section_entry(file, section);
  if (e != nullptr)
    store_u32(e + 24, crc32c(0, file + load_u64(e + 8), static_cast<size_t>(load_u64(e + 16))));
  seal_head(file);
}

}  // namespace phasor
