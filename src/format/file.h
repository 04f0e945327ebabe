// format: from bytes to a checked view of a .phasor file (file-format.md). No I/O, no allocation,
// no knowledge of kernels or of what a model does; time linear in the head. Every offset, size,
// count and product is checked before use.
#pragma once
#include "../layout.h"
#include "../status.h"
#include "../work.h"
#include "bytes.h"

namespace phasor {

constexpr uint32_t kFormatVersion = 1;
constexpr uint32_t kMaxSections = 16;

// Kinds of section.
enum : uint32_t {
  kSectionMeta = 1,
  kSectionDirectory = 2,
  kSectionSourceTokenizer = 3,
  kSectionTargetTokenizer = 4,
  kSectionVectors = 5,
  kSectionChat = 8,
  kSectionRecord = 12,
  kSectionData = 15
};

struct Section {
  uint64_t offset;  // from the file's first byte
  uint64_t bytes;   // 0: the file does not have it
  uint32_t crc;
};

// A file whose header, section table, metadata framing and directory are sound.
struct File {
  const unsigned char* data;
  uint64_t bytes;
  uint64_t head_bytes;
  uint32_t head_crc;
  Section sections[kMaxSections];  // by kind
};

// One metadata entry; the value lies in the file.
struct Meta {
  uint32_t key;
  uint8_t type;
  bool required;
  uint32_t bytes;
  const unsigned char* value;
};
enum : uint8_t {
  kMetaU32 = 1,
  kMetaF32 = 2,
  kMetaString = 3,
  kMetaU32Array = 4,
  kMetaF32Array = 5
};

// u32 values, or the bytes of a string, in the file.
struct Array {
  uint64_t offset;  // from the file's first byte
  uint32_t count;
  uint32_t present;  // 0: the key is absent
};

// One tensor of the directory.
struct Entry {
  uint32_t key;  // stack · 2^24 + set · 2^8 + role
  Type type;
  Layout layout;
  uint8_t inputs;  // kInputs16, kInputsRotated, or 0: the type's own form
  uint64_t offset, bytes;
  uint32_t rows, cols, panels, crc;
};

// Checks `data` (bytes) and fills *file. The head's checksum is tested first: a damaged head is
// BAD_CHECKSUM.
[[nodiscard]] phasor_status open_file(File* file, const void* data, size_t bytes,
                                      phasor_error* error) noexcept;

// The same view of bytes that open_file has checked before: reads the section table and tests
// nothing again.
File view_file(const void* data, uint64_t bytes) noexcept;

// Walks the metadata, which open_file has checked: *at starts at 0; false at the end.
bool next_meta(const File& file, uint64_t* at, Meta* out) noexcept;

uint32_t entry_count(const File& file) noexcept;
Entry entry_at(const File& file, uint32_t index) noexcept;  // index < entry_count

// Reads everything: section and tensor checksums and zero bytes between sections and tensors
// (rule 2.9).
[[nodiscard]] phasor_status check_file(const File& file, phasor_error* error) noexcept;

const char* type_name(Type type) noexcept;
const char* layout_name(Layout layout) noexcept;

}  // namespace phasor
