// A weight file taken apart and put together again, so that a test can change one thing of it and
// leave the rest valid: checksums, offsets and sizes are made anew. And what the engine says of it.
#pragma once
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"
#include "format/crc32c.h"
#include "format/descriptor.h"
#include "model/model.h"
#include "support.h"

namespace weight_files {

using namespace phasor;

inline void append_u32(std::string* to, uint64_t value) {
  for (int i = 0; i < 4; ++i) to->push_back(static_cast<char>(value >> (8 * i) & 255));
}
inline void append_u64(std::string* to, uint64_t value) {
  append_u32(to, value & 0xFFFFFFFFu);
  append_u32(to, value >> 32);
}
inline std::string words(const std::vector<uint32_t>& values) {
  std::string out;
  for (const uint32_t value : values) append_u32(&out, value);
  return out;
}
inline uint32_t bits_of(double value) {
  const float f = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}
inline uint32_t crc_of(const std::string& bytes) { return crc32c(0, bytes.data(), bytes.size()); }

// A metadata entry; made from a number of its type, ids or a text.
struct Item {
  unsigned char type = kMetaU32, flags = 1;
  std::string value;
  Item() = default;
  Item(uint32_t v) : value(words({v})) {}
  Item(int v) : Item(static_cast<uint32_t>(v)) {}
  Item(double v) : type(kMetaF32), value(words({bits_of(v)})) {}
  Item(const std::vector<uint32_t>& v) : type(kMetaU32Array), value(words(v)) {}
  Item(const std::string& v) : type(kMetaString), value(v) {}
  Item(unsigned char t, unsigned char f, const std::string& v) : type(t), flags(f), value(v) {}
};

// Every field of every scope by its name, "source.pad", "kind.heads": its key and the row in the
// engine's table. Scopes 2 and 4 have the fields of 1 and 3.
struct NamedField {
  uint32_t key;
  const Field* field;
};
inline const std::map<std::string, NamedField>& named_fields() {
  static const std::map<std::string, NamedField> all = [] {
    static const char* const scopes[] = {"model",   "source", "target", "encoder",
                                         "decoder", "kind",   "output", "generation"};
    std::map<std::string, NamedField> out;
    uint32_t count = 0;
    const Field* const fields = descriptor_fields(&count);
    for (uint32_t scope = 0; scope <= kLastScope; ++scope)
      for (const Field* f = fields; f != fields + count; ++f)
        if (f->scope == (scope == kScopeTarget || scope == kScopeDecoder ? scope - 1 : scope))
          out[std::string(scopes[scope]) + "." + f->name] = {scope << 24 | f->number, f};
    return out;
  }();
  return all;
}
// Of "kind0.heads", "source.pad".
inline NamedField field_of(const std::string& name) {
  const std::size_t dot = name.find('.'), digits = std::min(name.find_first_of("0123456789"), dot);
  const auto found = named_fields().find(name.substr(0, digits) + name.substr(dot));
  if (found == named_fields().end()) std::abort();
  const int index = digits < dot ? std::stoi(name.substr(digits)) : 0;
  return {found->second.key | static_cast<uint32_t>(index) << 12, found->second.field};
}

struct StoredTensor {
  uint32_t key, type_layout, rows, cols, panels;
  std::string bytes;
};

struct StoredSection {
  uint32_t flags;
  std::string bytes;
};

class WeightFile {
 public:
  std::map<uint32_t, Item> meta;
  std::vector<StoredTensor> tensors;
  std::map<uint32_t, StoredSection> sections;  // beside META, DIRECTORY and DATA

  explicit WeightFile(const std::string& golden) : WeightFile(golden_file(golden)) {}
  explicit WeightFile(const Block& file) {
    const unsigned char* const p = file.data();
    const auto text = [p](uint64_t offset, uint64_t bytes) {
      return std::string(reinterpret_cast<const char*>(p) + offset, static_cast<size_t>(bytes));
    };
    const File view = view_file(p, file.size());
    Meta m{};
    for (uint64_t at = 0; next_meta(view, &at, &m);)
      meta[m.key] = {m.type, static_cast<unsigned char>(m.required),
                     text(static_cast<uint64_t>(m.value - p), m.bytes)};
    for (uint32_t i = 0; i < entry_count(view); ++i) {
      const Entry e = entry_at(view, i);
      tensors.push_back({e.key, uint32_t(e.type) | uint32_t(e.layout) << 8, e.rows, e.cols,
                         e.panels, text(e.offset, e.bytes)});
    }
    for (uint32_t i = 0; i < load_u32(p + 20); ++i) {
      const unsigned char* const s = p + 64 + 32 * i;
      const uint32_t kind = load_u32(s);
      if (kind == kSectionMeta || kind == kSectionDirectory || kind == kSectionData) continue;
      sections[kind] = {load_u32(s + 4), text(load_u64(s + 8), load_u64(s + 16))};
    }
  }

  WeightFile& set(const std::string& name, const Item& item) {
    meta[field_of(name).key] = item;
    return *this;
  }
  WeightFile& erase(const std::string& name) {
    meta.erase(field_of(name).key);
    return *this;
  }
  // "kind0.heads=4 output.cap=-1 target.end=58,0 -source.pad": values of their fields' types; the
  // last key goes.
  WeightFile& edit(const std::string& edits) {
    std::istringstream words(edits);
    for (std::string word; words >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos) {
        erase(word.substr(1));
        continue;
      }
      std::istringstream numbers(word.substr(equals + 1));
      std::vector<double> values;
      for (std::string number; std::getline(numbers, number, ',');)
        values.push_back(std::stod(number));
      const NamedField field = field_of(word.substr(0, equals));
      meta[field.key] = field.field->type == kMetaU32Array
                            ? Item(std::vector<uint32_t>(values.begin(), values.end()))
                        : field.field->type == kMetaF32 ? Item(values.at(0))
                                                        : Item(static_cast<uint32_t>(values.at(0)));
    }
    return *this;
  }
  StoredTensor& tensor(uint32_t key) {
    for (StoredTensor& t : tensors)
      if (t.key == key) return t;
    std::abort();
  }

  // Its kind a second time, as kind 1.
  void add_kind() {
    std::map<uint32_t, Item> second;
    for (const auto& [key, item] : meta)
      if (key >> 24 == kScopeKind) second[key | 1 << 12] = item;
    meta.insert(second.begin(), second.end());
  }

  std::string meta_bytes() const {
    std::string out;
    for (const auto& [key, item] : meta) {
      append_u32(&out, key);
      append_u32(&out, item.type | item.flags << 8);
      append_u32(&out, item.value.size());
      out += item.value + std::string((4 - item.value.size() % 4) % 4, '\0');
    }
    return out;
  }

  Block write() const { return write(meta_bytes()); }
  // With these bytes as its META section.
  Block write(const std::string& metadata) const {
    const std::size_t count = sections.size() + 3;
    std::string out(64 + 32 * count, '\0'), table, directory;
    const auto place = [&](uint32_t kind, uint32_t flags, const std::string& bytes, bool crc) {
      out.resize((out.size() + 63) / 64 * 64);
      append_u32(&table, kind);
      append_u32(&table, flags);
      append_u64(&table, out.size());
      append_u64(&table, bytes.size());
      append_u32(&table, crc ? crc_of(bytes) : 0);
      append_u32(&table, 0);
      out += bytes;
    };
    place(kSectionMeta, 1, metadata, false);
    place(kSectionDirectory, 1, std::string(8 + 48 * tensors.size(), '\0'), false);
    const std::size_t directory_at = out.size() - 8 - 48 * tensors.size();
    out.resize((out.size() + 63) / 64 * 64);
    const std::size_t head = out.size();
    for (const auto& [kind, section] : sections)
      if (kind < kSectionData) place(kind, section.flags, section.bytes, true);
    out.resize((out.size() + 63) / 64 * 64);
    std::string data;
    append_u32(&directory, tensors.size());
    append_u32(&directory, 0);
    for (const StoredTensor& t : tensors) {
      data.resize((data.size() + 63) / 64 * 64);
      append_u32(&directory, t.key);
      append_u32(&directory, t.type_layout);
      append_u64(&directory, out.size() + data.size());
      append_u64(&directory, t.bytes.size());
      for (const uint32_t v : {t.rows, t.cols, t.panels}) append_u32(&directory, v);
      append_u32(&directory, crc_of(t.bytes));
      append_u64(&directory, 0);
      data += t.bytes;
    }
    place(kSectionData, 1, data, true);
    for (const auto& [kind, section] : sections)
      if (kind > kSectionData) place(kind, section.flags, section.bytes, true);
    out.replace(directory_at, directory.size(), directory);
    std::string header("\x89PHASOR\n", 8);
    for (const std::size_t v : {std::size_t{1}, std::size_t{0x01020304}, std::size_t{64}, count})
      append_u32(&header, v);
    append_u64(&header, out.size());
    append_u64(&header, head);
    header.resize(64);
    out.replace(0, 64, header);
    out.replace(64, table.size(), table);
    Block made(out.data(), out.size());
    reseal(&made);
    return made;
  }

  // Makes the head's checksum right again.
  static void reseal(Block* file) {
    unsigned char* const p = file->data();
    store_u32(p + 40, 0);
    store_u32(p + 40, crc32c(0, p, static_cast<size_t>(load_u64(p + 32))));
  }
};

// The entry of a section in a file's table.
inline unsigned char* section_entry(const Block& file, uint32_t kind) {
  for (uint32_t i = 0; i < load_u32(file.data() + 20); ++i)
    if (load_u32(file.data() + 64 + 32 * i) == kind) return file.data() + 64 + 32 * i;
  std::abort();
}

// What the engine says: a line, or "" for PHASOR_OK.
struct Said {
  phasor_status status;
  std::string line;
};
inline Said said_of(phasor_status status, const phasor_error& error) {
  return {status, status == PHASOR_OK ? "" : error.text};
}

// Of the descriptor and the framing alone: no tensor is looked at.
inline Said measured(const Block& file) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  const phasor_status status = phasor_model_size(&need, file.data(), file.size(), &error);
  CHECK((need != 0) == (status == PHASOR_OK));
  return said_of(status, error);
}

// Of opening, and with `check` of reading every byte.
inline Said opened(const Block& file, bool check = false) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  phasor_status status = phasor_model_size(&need, file.data(), file.size(), &error);
  if (status != PHASOR_OK) return said_of(status, error);
  const Block memory(need);
  phasor_model* model = nullptr;
  status =
      phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr, &error);
  CHECK((model != nullptr) == (status == PHASOR_OK));
  if (status == PHASOR_OK && check) status = phasor_model_check(model, &error);
  return said_of(status, error);
}
inline Said checked(const Block& file) { return opened(file, true); }

inline void expect(const Said& said, phasor_status status, const std::string& line) {
  CHECK(said.line == line);
  CHECK(said.status == status);
}

// The descriptor and the kinds of a model with these values.
struct Read {
  Descriptor d{};
  std::vector<KindDescriptor> kinds;
  Block block;
  File file{};
  explicit Read(const std::string& model, const std::string& edits = "")
      : block(WeightFile(model).edit(edits).write()) {
    REQUIRE(open_file(&file, block.data(), block.size(), nullptr) == PHASOR_OK);
    REQUIRE(read_descriptor(&d, nullptr, file, nullptr) == PHASOR_OK);
    kinds.resize(d.kinds);
    REQUIRE(read_descriptor(&d, kinds.data(), file, nullptr) == PHASOR_OK);
  }
};

// A model that opens, in exactly its bytes.
struct OpenModel {
  Block file, memory;
  phasor_model* model = nullptr;
  explicit OpenModel(const char* name) : OpenModel(golden_file(name)) {}
  explicit OpenModel(Block&& bytes) : file(std::move(bytes)), memory(size_of(file)) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_status status = phasor_model_open(&model, memory.data(), memory.size(),
                                                   file.data(), file.size(), nullptr, &error);
    CAPTURE(error.text);
    REQUIRE(status == PHASOR_OK);
  }
  Model& inside() const { return *reinterpret_cast<Model*>(model); }
  phasor_limits limits(uint32_t source, uint32_t target) const {
    phasor_limits made{};
    made.struct_size = sizeof made;
    REQUIRE(phasor_limits_for(model, source, target, &made) == PHASOR_OK);
    return made;
  }
  static std::size_t size_of(const Block& file) {
    std::size_t need = 0;
    REQUIRE(phasor_model_size(&need, file.data(), file.size(), nullptr) == PHASOR_OK);
    return need;
  }
};

}  // namespace weight_files
