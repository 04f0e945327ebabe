#include "model_generator.h"

#include <algorithm>

#include "chat.h"
#include "draft.h"
#include "format/crc32c.h"
#include "format/record.h"
#include "tensors.h"

namespace generator {
namespace {

using namespace phasor;

constexpr std::size_t kAlign = 64;

struct NamedSection {
  uint32_t kind;
  Bytes bytes;
};

// The longest sequence that a stack may have, at most `most`.
uint32_t longest(const File& meta, const Descriptor& d, const std::vector<KindDescriptor>& kinds,
                 uint32_t which, uint32_t most) {
  const StackDescriptor& s = d.stacks[which];
  if (s.max_positions != 0) most = std::min(most, s.max_positions);
  for (uint32_t i = 0; i < s.layers.count; i += 2) {
    const KindDescriptor& k = kinds[array_at(meta, s.layers, i)];
    if (bounded(k)) most = std::min(most, k.max_distance);
  }
  return most;
}

void put_ids(Choices* c, Bytes* out, uint32_t count, uint32_t below) {
  for (uint32_t i = 0; i < count; ++i) put_u32(out, c->below(below));
}

// Vectors whose numbers mean nothing: 0, a range of 1 and a tolerance that holds any. *total: their
// output rows.
Bytes any_vectors(Choices* c, const File& meta, const Descriptor& d,
                  const std::vector<KindDescriptor>& kinds, uint32_t* total) {
  constexpr float kAnything = 1e9f;
  const uint32_t samples = c->of({16u, 1u, 3u}), width = output_width(d);
  const std::string author = "generated";
  Bytes out;
  const uint32_t count = c->between(1, 2);
  for (const std::size_t value :
       {std::size_t{count}, std::size_t{0}, author.size(), std::size_t{bits_of(kAnything)},
        std::size_t{samples}, std::size_t{0}})
    put_u32(&out, value);
  put_text(&out, author);
  pad(&out, 4);
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t counts[2] = {0, 0};
    for (uint32_t which = 0; which < 2; ++which)
      if (d.stacks[which].present != 0)
        counts[which] = c->between(1, longest(meta, d, kinds, which, c->of({1u, 5u, 18u, 33u})));
    for (const uint32_t n : counts) put_u32(&out, n);
    for (const uint32_t n : counts) put_u32(&out, n == 0 ? 0 : c->below(n));
    put_u64(&out, 0);
    for (uint32_t which = 0; which < 2; ++which)
      put_ids(c, &out, counts[which], d.sides[which].vocabulary);
    put_ids(c, &out, samples, width);
    const uint32_t rows = counts[1] != 0 ? counts[1] : output_rows(d, counts[0]);
    *total += rows;
    for (uint32_t row = 0; row < rows; ++row) {
      put_u32(&out, 0);
      put_f32(&out, 0);
      put_f32(&out, 1);
      out.resize(out.size() + 4 * samples);
    }
    for (uint32_t which = 0; which < 2; ++which) {
      if (counts[which] == 0) continue;
      put_ids(c, &out, samples, d.stacks[which].width);
      out.resize(out.size() + 4 * samples * (d.stacks[which].layers.count / 2));
    }
  }
  return out;
}

// A record of rows whose values are 0, at the first places. Nothing is drawn: files without one are
// those of their seeds.
Bytes record_of(const Descriptor& d, uint32_t rows) {
  const uint32_t samples = std::min(output_width(d), 3u);
  Bytes out;
  for (const uint32_t value : {rows, samples, 0u, 0u}) put_u32(&out, value);
  out.resize(out.size() + 2 * kDigestBytes);
  put_text(&out, "generated");
  out.resize(16 + 2 * kDigestBytes + kMethodBytes);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t i = 0; i < samples; ++i) put_u32(&out, i);
    out.resize(out.size() + 4 * (samples + 1));
  }
  return out;
}

// Now and then a page of zeros between two parts.
void gap(Choices* c, Bytes* out) {
  pad(out, kAlign);
  if (c->chance(3)) out->resize(out->size() + kAlign);
}

Bytes any_unknown_section(Choices* c) {
  Bytes bytes;
  put_ids(c, &bytes, c->between(1, 9), 0xFFFFFFFFu);
  return bytes;
}

Bytes write_file(Choices* c, const Bytes& meta, std::vector<NamedSection> sections,
                 std::vector<WrittenTensor> tensors) {
  constexpr std::size_t kHeader = 64, kSection = 32, kEntry = 48;
  const std::size_t count = sections.size() + 3;
  const std::size_t meta_at = kHeader + (count * kSection + kAlign - 1) / kAlign * kAlign;
  Bytes out(meta_at);
  out.insert(out.end(), meta.begin(), meta.end());
  gap(c, &out);
  const std::size_t directory_at = out.size(), directory_bytes = 8 + kEntry * tensors.size();
  out.resize(directory_at + directory_bytes);
  pad(&out, kAlign);
  const std::size_t head = out.size();

  struct Placed {
    uint32_t kind;
    std::size_t offset, bytes;
  };
  std::vector<Placed> placed = {{kSectionMeta, meta_at, meta.size()},
                                {kSectionDirectory, directory_at, directory_bytes}};
  for (const NamedSection& section : sections) {
    placed.push_back({section.kind, out.size(), section.bytes.size()});
    out.insert(out.end(), section.bytes.begin(), section.bytes.end());
    gap(c, &out);
  }
  const std::size_t data_at = out.size();
  Bytes directory;
  put_u32(&directory, tensors.size());
  put_u32(&directory, 0);
  for (const WrittenTensor& tensor : tensors) {
    const Entry& e = tensor.entry;
    pad(&out, kAlign);
    put_u32(&directory, e.key);
    put_u32(&directory, static_cast<uint32_t>(e.type) | static_cast<uint32_t>(e.layout) << 8 |
                            uint32_t{e.inputs} << 16);
    put_u64(&directory, out.size());
    put_u64(&directory, tensor.bytes.size());
    for (const uint32_t value : {e.rows, e.cols, e.panels}) put_u32(&directory, value);
    put_u32(&directory, crc32c(0, tensor.bytes.data(), tensor.bytes.size()));
    put_u64(&directory, 0);
    out.insert(out.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  placed.push_back({kSectionData, data_at, out.size() - data_at});
  std::copy(directory.begin(), directory.end(),
            out.begin() + static_cast<std::ptrdiff_t>(directory_at));

  Bytes table;
  for (const Placed& p : placed) {
    const bool in_head = p.kind == kSectionMeta || p.kind == kSectionDirectory;
    put_u32(&table, p.kind);
    put_u32(&table, in_head || p.kind == kSectionData ? 1 : 0);
    put_u64(&table, p.offset);
    put_u64(&table, p.bytes);
    put_u32(&table, in_head ? 0 : crc32c(0, out.data() + p.offset, p.bytes));
    put_u32(&table, 0);
  }
  Bytes header = {0x89, 'P', 'H', 'A', 'S', 'O', 'R', 0x0A};
  for (const std::size_t value :
       {std::size_t{kFormatVersion}, std::size_t{0x01020304}, kAlign, count})
    put_u32(&header, value);
  put_u64(&header, out.size());
  put_u64(&header, head);
  header.resize(kHeader);
  header.insert(header.end(), table.begin(), table.end());
  std::copy(header.begin(), header.end(), out.begin());
  store_u32(out.data() + 40, crc32c(0, out.data(), head));
  return out;
}

// What a file has whose tensors nobody can tell.
WrittenTensor any_tensor() {
  return {{0, Type::f32, Layout::vector, 0, 0, 0, 1, 1, 0, 0}, Bytes(4)};
}

}  // namespace

Bytes generate_model(Choices* c) {
  const Draft draft = draft_model(c);
  // The engine reads the metadata: its defaults and derived values are those of the file's tensors.
  File meta{};
  meta.data = draft.meta.data();
  meta.bytes = draft.meta.size();
  meta.sections[kSectionMeta] = {0, draft.meta.size(), 0};
  for (uint32_t i = 0; i < 2; ++i)
    meta.sections[kSectionSourceTokenizer + i].bytes = draft.tokenizers[i].bytes.size();
  Descriptor d{};
  phasor_error error = PHASOR_ERROR_INIT;
  std::vector<KindDescriptor> kinds;
  phasor_status status = read_descriptor(&d, nullptr, meta, &error);
  kinds.resize(d.kinds);
  if (status == PHASOR_OK) status = read_descriptor(&d, kinds.data(), meta, &error);
  if (status != PHASOR_OK) return write_file(c, draft.meta, {}, {any_tensor()});  // open says why

  std::vector<NamedSection> sections;
  for (uint32_t i = 0; i < 2; ++i)
    if (!draft.tokenizers[i].bytes.empty())
      sections.push_back({kSectionSourceTokenizer + i, draft.tokenizers[i].bytes});
  uint32_t rows = 0;
  if (c->chance(85)) sections.push_back({kSectionVectors, any_vectors(c, meta, d, kinds, &rows)});
  if (!d.has(kEncoder) && c->chance(60)) sections.push_back({kSectionChat, any_chat(c)});
  if (rows % 2 != 0) sections.push_back({kSectionRecord, record_of(d, rows)});
  if (c->chance(3)) {
    uint32_t kind = c->between(10, 14);
    if (kind == kSectionRecord) ++kind;
    const bool before = kind < kSectionRecord && rows % 2 != 0;  // kinds ascend
    sections.insert(sections.end() - before, {kind, any_unknown_section(c)});
  }
  return write_file(c, draft.meta, sections, write_tensors(c, meta, d, kinds));
}

Bytes generate_model(uint64_t seed) {
  Choices choices(seed);
  return generate_model(&choices);
}

}  // namespace generator
