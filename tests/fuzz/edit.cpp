#include "edit.h"

#include <algorithm>

#include "format/crc32c.h"
#include "format/file.h"

namespace fuzz {
namespace {

using phasor::load_u32;
using phasor::load_u64;
using phasor::store_u32;

// docs/reference/file-format.md, "Header", "Section table", "DIRECTORY".
constexpr size_t kHeader = 64, kSection = 32, kEntry = 48, kMostSections = 16;

struct Place {
  uint32_t kind;
  size_t at, bytes;
};

// The sections that lie inside the file, whatever else is wrong with it.
std::vector<Place> places(const uint8_t* file, size_t bytes) {
  std::vector<Place> all;
  if (bytes < kHeader) return all;
  const size_t count = std::min<size_t>(load_u32(file + 20), kMostSections);
  for (size_t i = 0; i < count && kHeader + kSection * (i + 1) <= bytes; ++i) {
    const uint8_t* const e = file + kHeader + kSection * i;
    const uint64_t at = load_u64(e + 8), size = load_u64(e + 16);
    if (at < bytes && size <= bytes - at && size >= 4)
      all.push_back({load_u32(e), static_cast<size_t>(at), static_cast<size_t>(size)});
  }
  return all;
}

// The words of the metadata's values.
std::vector<size_t> values(const uint8_t* file, const Place& meta) {
  std::vector<size_t> all;
  for (size_t at = 0; at + 12 <= meta.bytes && all.size() < 4096;) {
    const size_t size = load_u32(file + meta.at + at + 8);
    if (size > meta.bytes - at - 12) break;
    for (size_t word = 0; word + 4 <= size; word += 4) all.push_back(meta.at + at + 12 + word);
    at += 12 + (size + 3) / 4 * 4;
  }
  return all;
}

const Place* find(const std::vector<Place>& all, uint32_t kind) {
  for (const Place& place : all)
    if (place.kind == kind) return &place;
  return nullptr;
}

// A value of the metadata; now and then the same number wherever the metadata and the shapes of the
// tensors have it, as a consistent lie.
void edit_metadata(uint8_t* file, const std::vector<Place>& all, const Place& meta, Choices* c) {
  const std::vector<size_t> words = values(file, meta);
  if (words.empty()) return;
  uint8_t* const word = file + words[c->below(static_cast<uint32_t>(words.size()))];
  const uint32_t before = load_u32(word);
  edit_word(word, 1, c);
  const uint32_t after = load_u32(word);
  if (!c->chance(20)) return;
  for (const size_t at : words)
    if (load_u32(file + at) == before) store_u32(file + at, after);
  const Place* const directory = find(all, phasor::kSectionDirectory);
  for (size_t at = 8; directory != nullptr && at + kEntry <= directory->bytes; at += kEntry)
    for (const size_t field : {size_t{24}, size_t{28}, size_t{32}}) {
      uint8_t* const p = file + directory->at + at + field;
      if (load_u32(p) == before) store_u32(p, after);
    }
}

void edit_directory(uint8_t* file, const Place& d, Choices* c) {
  const uint32_t entries = static_cast<uint32_t>(d.bytes / kEntry);
  if (entries == 0 || c->chance(3)) return edit_word(file + d.at, d.bytes / 4, c);
  uint8_t* const entry = file + d.at + 8 + kEntry * c->below(entries);
  if (entry + kEntry > file + d.at + d.bytes) return;
  if (c->chance(8))
    std::memcpy(entry, file + d.at + 8 + kEntry * c->below(entries - 1), kEntry);
  else
    edit_word(entry, kEntry / 4, c);
}

// A word near the beginning, where headers are, or anywhere; or some bytes.
void edit_section(uint8_t* file, const Place& s, Choices* c) {
  const size_t words = s.bytes / 4, head = std::min<size_t>(words, 32);
  if (c->chance(40)) return edit_word(file + s.at, head, c);
  if (c->chance(60)) return edit_word(file + s.at, words, c);
  const uint32_t at = c->below(static_cast<uint32_t>(s.bytes));
  const size_t count = std::min<size_t>(c->between(1, 8), s.bytes - at);
  for (size_t i = 0; i < count; ++i) file[s.at + at + i] = static_cast<uint8_t>(c->below(256));
}

void edit_once(Bytes* file, Choices* c, uint32_t kind) {
  const std::vector<Place> all = places(file->data(), file->size());
  if (all.empty()) return;
  if (kind == kAnySection && c->chance(4)) {  // the header and the table of sections
    edit_word(file->data() + 12, kHeader / 4 - 3 + 8 * all.size(), c);
    return;
  }
  if (kind == kAnySection && c->chance(3)) {  // cut off, or longer
    const size_t size = file->size() - std::min<size_t>(file->size() - kHeader, c->below(200));
    file->resize(c->chance(80) ? size : file->size() + c->below(100));
    return;
  }
  const Place* place = find(all, kind);
  if (kind == kAnySection) place = &all[c->below(static_cast<uint32_t>(all.size()))];
  if (place == nullptr) return;
  if (place->kind == phasor::kSectionMeta)
    edit_metadata(file->data(), all, *place, c);
  else if (place->kind == phasor::kSectionDirectory)
    edit_directory(file->data(), *place, c);
  else
    edit_section(file->data(), *place, c);
}

}  // namespace

void edit_word(uint8_t* words, size_t count, Choices* c) {
  if (count == 0) return;
  uint8_t* const word = words + 4 * c->below(static_cast<uint32_t>(count));
  uint32_t value = load_u32(word);
  switch (c->below(7)) {
    case 0:
      value = any_number(c);
      break;
    case 1:
      value = c->below(64);
      break;
    case 2:
      ++value;
      break;
    case 3:
      --value;
      break;
    case 4:
      value = load_u32(words + 4 * c->below(static_cast<uint32_t>(count)));
      break;
    case 5:
      value = (value & 0xFF) | c->below(1u << 24) << 8;
      break;
    default:
      value ^= 1u << c->below(32);
  }
  store_u32(word, value);
}

void edit_file(Bytes* file, Choices* c, uint32_t kind) {
  if (file->size() < kHeader) return;
  for (uint32_t i = c->below(5); i > 0; --i) edit_once(file, c, kind);
  if (c->chance(50)) seal_sections(file->data(), file->size());
  seal(file->data(), file->size());
}

void seal(uint8_t* file, size_t bytes) {
  if (bytes < kHeader) return;
  const uint64_t total = bytes, head = load_u64(file + 32);
  std::memcpy(file + 24, &total, sizeof total);
  if (head < kHeader || head > bytes) return;
  store_u32(file + 40, 0);
  store_u32(file + 40, phasor::crc32c(0, file, static_cast<size_t>(head)));
}

void seal_sections(uint8_t* file, size_t bytes) {
  const std::vector<Place> all = places(file, bytes);
  for (size_t i = 0; i < all.size(); ++i) {
    const Place& s = all[i];
    if (s.kind == phasor::kSectionMeta || s.kind == phasor::kSectionData) continue;
    if (s.kind != phasor::kSectionDirectory) {
      for (size_t e = kHeader; e + kSection <= bytes && e < kHeader + kSection * kMostSections;
           e += kSection)
        if (load_u32(file + e) == s.kind && load_u64(file + e + 8) == s.at)
          store_u32(file + e + 24, phasor::crc32c(0, file + s.at, s.bytes));
      continue;
    }
    for (size_t at = 8; at + kEntry <= s.bytes; at += kEntry) {
      uint8_t* const e = file + s.at + at;
      const uint64_t offset = load_u64(e + 8), size = load_u64(e + 16);
      if (offset <= bytes && size <= bytes - offset)
        store_u32(e + 36, phasor::crc32c(0, file + offset, static_cast<size_t>(size)));
    }
  }
}

}  // namespace fuzz
