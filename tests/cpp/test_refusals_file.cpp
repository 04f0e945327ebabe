// What of a file's framing is refused: a valid file but for the one field that the line names, with
// its checksum made anew; and beside it the last value that is accepted.
#include "format/tensors.h"
#include "weight_file.h"

using namespace weight_files;

namespace {

const char* const kModel = "tiny-lm-f32";  // 29 tensors, no tokenizer

// The file with one edit, its head sealed again.
template <class Edit>
Block edited(const Block& good, Edit edit) {
  Block file(good.data(), good.size());
  edit(file.data());
  WeightFile::reseal(&file);
  return file;
}

struct Place {
  std::size_t at;
  uint32_t value;
  const char* line;  // "": it is accepted
  phasor_status status = PHASOR_BAD_FILE;
};
void try_all(const Block& good, std::size_t begin, const std::vector<Place>& places) {
  for (const Place& p : places) {
    CAPTURE(p.at);
    const Block file =
        edited(good, [&](unsigned char* d) { store_u32(d + begin + p.at, p.value); });
    expect(measured(file), *p.line == 0 ? PHASOR_OK : p.status, p.line);
  }
}

std::size_t place_of(const Block& file, uint32_t section) {
  return static_cast<std::size_t>(load_u64(section_entry(file, section) + 8));
}

// A file of `bytes` bytes that are there when somebody looks.
struct Zeros {
  explicit Zeros(std::size_t bytes) : p(static_cast<unsigned char*>(std::calloc(bytes + 64, 1))) {
    REQUIRE(p != nullptr);
  }
  ~Zeros() { std::free(p); }
  unsigned char* p;
};

}  // namespace

TEST_CASE("refusals: a header") {
  const Block good = golden_file(kModel);
  const uint32_t size = static_cast<uint32_t>(good.size());
  const uint32_t head = load_u32(good.data() + 32);
  const std::string bytes = std::to_string(size);
  expect(measured(Block(good.data(), 63)), PHASOR_BAD_FILE,
         "not a .phasor file: 63 bytes, a header has 64");
  expect(measured(Block(good.data(), 64)), PHASOR_BAD_FILE,
         "the header says " + bytes + " bytes, the file has 64");
  const std::string more =
      "the header says " + std::to_string(size + 1) + " bytes, the file has " + bytes;
  const auto not_inside = [](uint32_t n) {
    return "head_bytes " + std::to_string(n) + " is not a multiple of 64 inside the file";
  };
  const char* const damaged =
      "the head's checksum is wrong: the header, metadata or directory is damaged";
  const auto edit = [&](std::size_t at, uint32_t value) {
    Block file(good.data(), good.size());
    store_u32(file.data() + at, value);
    return measured(file);
  };
  for (std::size_t at = 0; at < 8; at += 4)
    expect(edit(at, load_u32(good.data() + at) ^ 1u << 31), PHASOR_BAD_FILE,
           "not a .phasor file: the first eight bytes are not its magic");
  expect(edit(8, 0), PHASOR_UNSUPPORTED, "format version 0, expected 1");
  expect(edit(8, 2), PHASOR_UNSUPPORTED, "format version 2, expected 1");
  expect(edit(12, 0x04030201), PHASOR_BAD_FILE, "wrong byte order mark");
  expect(edit(16, 128), PHASOR_BAD_FILE, "alignment 128, expected 64");
  expect(edit(24, size + 1), PHASOR_BAD_FILE, more);
  expect(edit(32, 0), PHASOR_BAD_FILE, not_inside(0));
  expect(edit(32, 63), PHASOR_BAD_FILE, not_inside(63));
  expect(edit(32, 64), PHASOR_BAD_CHECKSUM, damaged);
  expect(edit(32, head + 1), PHASOR_BAD_FILE, not_inside(head + 1));
  const uint32_t behind = size / 64 * 64 + 64;
  expect(edit(32, behind), PHASOR_BAD_FILE, not_inside(behind));
  expect(edit(40, load_u32(good.data() + 40) ^ 1), PHASOR_BAD_CHECKSUM, damaged);
  for (std::size_t at = 44; at < 64; at += 4)
    try_all(good, at, {{0, 1u << 31, "a reserved field of the header is not zero"}});
}

TEST_CASE("refusals: a head of more than 2^28 bytes") {
  constexpr uint32_t kMost = 1u << 28;
  const Zeros room(kMost + 128);
  unsigned char* const p = room.p + (64 - reinterpret_cast<uintptr_t>(room.p) % 64) % 64;
  std::memcpy(p, golden_file(kModel).data(), 24);
  store_u64(p + 24, kMost + 64);
  std::size_t need = 0;
  phasor_error error = PHASOR_ERROR_INIT;
  store_u64(p + 32, kMost + 64);
  CHECK(phasor_model_size(&need, p, kMost + 64, &error) == PHASOR_BAD_FILE);
  CHECK(std::string(error.text) == "head_bytes 268435520 is not a multiple of 64 inside the file");
}

TEST_CASE("refusals: a table of sections") {
  const Block good = golden_file(kModel);
  const char* const kinds = " sections, expected 2 to 16";
  for (const uint32_t count : {0u, 1u, 17u, 0xFFFFFFFFu})
    expect(measured(edited(good, [&](unsigned char* p) { store_u32(p + 20, count); })),
           PHASOR_BAD_FILE, std::to_string(count) + kinds);
  // META and DIRECTORY alone; then a head of 64 bytes.
  expect(measured(edited(good, [](unsigned char* p) { store_u32(p + 20, 2); })), PHASOR_BAD_FILE,
         "section 15 is missing");
  expect(measured(edited(good, [](unsigned char* p) { store_u64(p + 32, 64); })), PHASOR_BAD_FILE,
         "the section table is longer than the head");
  const std::size_t meta = 64, directory = 96;
  const auto not_inside = [&](uint32_t kind, uint64_t offset, uint64_t bytes) {
    return "section " + std::to_string(kind) + ": offset " + std::to_string(offset) + " and size " +
           std::to_string(bytes) + " do not lie in order inside the file";
  };
  const uint32_t count = load_u32(good.data() + 20);
  const std::size_t last = 64 + 32 * (count - 1);  // DATA
  const uint64_t data = load_u64(good.data() + last + 8),
                 data_bytes = load_u64(good.data() + last + 16),
                 meta_bytes = load_u64(good.data() + meta + 16),
                 meta_at = load_u64(good.data() + meta + 8);
  try_all(
      good, meta,
      {{0, 0, "section 0: kinds must ascend"},
       {0, 2, "section 2: kinds must ascend"},
       {4, 0, ""},
       {4, 2, "section 1: a reserved bit is set"},
       {28, 1, "section 1: a reserved bit is set"},
       {24, 1, "section 1: must lie in the head"},
       {16, 0, not_inside(1, meta_at, 0).c_str()},
       {8, static_cast<uint32_t>(meta_at - 64), not_inside(1, meta_at - 64, meta_bytes).c_str()},
       {8, static_cast<uint32_t>(meta_at + 4), not_inside(1, meta_at + 4, meta_bytes).c_str()},
       {12, 1, not_inside(1, meta_at + (uint64_t(1) << 32), meta_bytes).c_str()}});
  try_all(good, directory, {{0, 1, "section 1: kinds must ascend"}});
  try_all(
      good, last,
      {{0, 14, "section 14 is required and not known here", PHASOR_UNSUPPORTED},
       {0, 16, "section 16 is required and not known here", PHASOR_UNSUPPORTED},
       {8, static_cast<uint32_t>(data - 64), not_inside(15, data - 64, data_bytes).c_str()},
       {8, static_cast<uint32_t>(data + 64), not_inside(15, data + 64, data_bytes).c_str()},
       {16, static_cast<uint32_t>(data_bytes + 1), not_inside(15, data, data_bytes + 1).c_str()},
       {20, 1, not_inside(15, data, data_bytes + (uint64_t(1) << 32)).c_str()}});
}

TEST_CASE("refusals: sections that must be there, in the head or behind it") {
  WeightFile made(kModel);
  made.sections = {{9, {0, std::string(8, 'x')}}};
  const Block good = made.write();
  expect(measured(good), PHASOR_OK, "");
  for (const uint32_t kind : {1u, 2u, 15u}) {
    const Block file = edited(good, [&](unsigned char* p) {
      const uint32_t count = load_u32(p + 20);
      const std::size_t entry = static_cast<std::size_t>(section_entry(good, kind) - good.data());
      std::memmove(p + entry, p + entry + 32, 64 + 32 * count - entry - 32);
      store_u32(p + 20, count - 1);
    });
    expect(measured(file), PHASOR_BAD_FILE, "section " + std::to_string(kind) + " is missing");
  }
  const std::size_t ninth = 64 + 32 * 2, directory = 64 + 32;
  const uint32_t head = load_u32(good.data() + 32);
  REQUIRE(load_u64(good.data() + ninth + 8) == head);  // it lies right behind the head
  const uint32_t bytes = load_u32(good.data() + directory + 16);
  try_all(good, directory, {{16, bytes + 64, "section 2: must lie in the head"}});
  try_all(good, 0, {{32, head + 64, "section 9: must lie after the head"}});
}

TEST_CASE("refusals: what lies between the sections of the head") {
  WeightFile made(kModel);
  made.sections.clear();  // room behind the table
  const Block good = made.set("model.name", std::string("x")).write();
  const unsigned char* const p = good.data();
  const uint32_t count = load_u32(p + 20);
  const std::size_t table = 64 + 32 * count;
  const uint64_t meta = load_u64(p + 72), meta_end = meta + load_u64(p + 80),
                 directory = load_u64(p + 104), directory_end = directory + load_u64(p + 112),
                 head = load_u64(p + 32);
  REQUIRE(table < meta);
  REQUIRE(meta_end < directory);
  REQUIRE(directory_end < head);
  const char* const line = "a byte between the sections of the head is not zero";
  for (const uint64_t at :
       {uint64_t{table}, meta - 1, meta_end, directory - 1, directory_end, head - 1})
    expect(measured(edited(good, [&](unsigned char* q) { q[at] = 1; })), PHASOR_BAD_FILE, line);
  expect(measured(edited(good,
                         [&](unsigned char* q) {
                           const uint64_t bytes = load_u64(q + 112) - 64;
                           store_u64(q + 112, bytes);
                         })),
         PHASOR_BAD_FILE, "the head does not end with the directory");
}

TEST_CASE("refusals: the framing of metadata") {
  WeightFile file(kModel);
  const std::string all = file.meta_bytes();
  const auto with = [&](const std::string& more) { return measured(file.write(all + more)); };
  const uint32_t last = 7u << 24 | 900;  // a scope behind the file's
  const auto entry = [&](uint32_t key, uint32_t type, uint32_t flags, uint32_t bytes,
                         const std::string& value) {
    std::string out;
    append_u32(&out, key);
    append_u32(&out, type | flags << 8);
    append_u32(&out, bytes);
    return out + value;
  };
  const std::string word(4, '\0'), key = std::to_string(last);
  const auto value = [&](uint32_t bytes) {
    return "metadata: key " + key + " has a value of " + std::to_string(bytes) + " bytes";
  };
  // The decoder's own rules say no to generation's keys only where they are needed.
  expect(with(entry(last, kMetaU32, 0, 4, word)), PHASOR_OK, "");
  expect(with(entry(last, kMetaU32, 0, 4, word).substr(0, 11)), PHASOR_BAD_FILE,
         "metadata: an entry is cut off");
  expect(with(entry(last, kMetaString, 0, 0, "")), PHASOR_OK, "");
  expect(with(entry(last, kMetaU32, 0, 4, "")), PHASOR_BAD_FILE, value(4));
  expect(with(entry(6u << 24 | 1, kMetaU32, 0, 4, word)), PHASOR_BAD_FILE,
         "metadata: key 100663297 after key 100663297, keys must ascend");
  const std::string unknown = "metadata: key " + key + " has an unknown type or flag";
  expect(with(entry(last, 0, 0, 4, word)), PHASOR_BAD_FILE, unknown);
  expect(with(entry(last, 6, 0, 4, word)), PHASOR_BAD_FILE, unknown);
  expect(with(entry(last, kMetaU32, 2, 4, word)), PHASOR_BAD_FILE, unknown);
  expect(with(entry(last, kMetaU32, 0x100, 4, word)), PHASOR_BAD_FILE, unknown);
  expect(with(entry(last, kMetaU32, 0x8000, 4, word)), PHASOR_BAD_FILE, unknown);
  expect(with(entry(last, kMetaU32, 0, 8, word + word)), PHASOR_BAD_FILE, value(8));
  expect(with(entry(last, kMetaF32, 0, 0, "")), PHASOR_BAD_FILE, value(0));
  expect(with(entry(last, kMetaU32Array, 0, 3, word)), PHASOR_BAD_FILE, value(3));
  expect(with(entry(last, kMetaF32Array, 0, 3, word)), PHASOR_BAD_FILE, value(3));
  expect(with(entry(last, kMetaString, 0, 5, "abcde")), PHASOR_BAD_FILE, value(5));
  expect(with(entry(last, kMetaString, 0, 0xFFFFFFFF, "abcd")), PHASOR_BAD_FILE, value(0xFFFFFFFF));
  const std::string longest(4 * 65536, 'x');
  expect(with(entry(last, kMetaString, 0, 4 * 65536, longest)), PHASOR_OK, "");
  expect(with(entry(last, kMetaString, 0, 4 * 65536 + 1, longest + std::string("x\0\0\0", 4))),
         PHASOR_BAD_FILE, value(4 * 65536 + 1));
  expect(with(entry(last, kMetaString, 0, 3, std::string("abc\0", 4))), PHASOR_OK, "");
  const std::string padded = "metadata: key " + key + " is not padded with zeros";
  expect(with(entry(last, kMetaString, 0, 3, "abcd")), PHASOR_BAD_FILE, padded);
  expect(with(entry(last, kMetaString, 0, 1, std::string("a\0\0d", 4))), PHASOR_BAD_FILE, padded);
  const std::string finite = "metadata: key " + key + " is not finite";
  expect(with(entry(last, kMetaF32, 0, 4, words({0x7F7FFFFF}))), PHASOR_OK, "");
  expect(with(entry(last, kMetaF32, 0, 4, words({0x7F800000}))), PHASOR_BAD_FILE, finite);
  expect(with(entry(last, kMetaF32, 0, 4, words({0xFFC00000}))), PHASOR_BAD_FILE, finite);
  expect(with(entry(last, kMetaF32Array, 0, 8, words({0, 0xFF7FFFFF}))), PHASOR_OK, "");
  expect(with(entry(last, kMetaF32Array, 0, 8, words({0, 0xFF800000}))), PHASOR_BAD_FILE, finite);
  expect(with(entry(last, kMetaU32Array, 0, 8, words({0, 0xFF800000}))), PHASOR_OK, "");
}

TEST_CASE("refusals: a directory") {
  const Block good = golden_file(kModel);
  const std::size_t at = place_of(good, kSectionDirectory);
  const std::string unknown =
      "directory: tensor 0: unknown type, layout or form of inputs, or a reserved field is not "
      "zero";
  const auto fill = [](uint32_t n, uint64_t bytes) {
    return "directory: " + std::to_string(n) + " tensors do not fill " + std::to_string(bytes) +
           " bytes";
  };
  const uint32_t count = load_u32(good.data() + at);
  const uint64_t size = 8 + 48 * uint64_t{count};
  const std::string below = fill(count - 1, size), above = fill(count + 1, size),
                    none = fill(0, size), most = fill(0xFFFFFFFF, size);
  const uint32_t type_layout = load_u32(good.data() + at + 8 + 4);
  REQUIRE(type_layout == (1 | 2 << 8));  // f32, rows
  try_all(good, at,
          {{0, count - 1, below.c_str()},
           {0, count + 1, above.c_str()},
           {0, 0, none.c_str()},
           {0, 0xFFFFFFFF, most.c_str()},
           {4, 1, "directory: no room for its count, or a reserved field is not zero"},
           {56, load_u32(good.data() + at + 8), "directory: tensor 1: keys must ascend"},
           {56, load_u32(good.data() + at + 8) - 1, "directory: tensor 1: keys must ascend"},
           {12, 0 | 2 << 8, unknown.c_str()},
           {12, (kTypes + 1) | 2 << 8, unknown.c_str()},
           {12, 1 | 0 << 8, unknown.c_str()},
           {12, 1 | 4 << 8, unknown.c_str()},
           {12, type_layout | 1 << 16,
            "directory: tensor 0: a form of inputs, which only panels of a quantized type have"},
           {12, type_layout | 2 << 16,
            "directory: tensor 0: a form of inputs, which only panels of a quantized type have"},
           {12, type_layout | 3 << 16, unknown.c_str()},
           {12, type_layout | 1 << 24, unknown.c_str()},
           {12, type_layout | 1u << 31, unknown.c_str()},
           {48, 1, unknown.c_str()},
           {52, 1u << 31, unknown.c_str()}});
  // Rotated inputs of whole rows, in a type that has them by itself.
  for (const char* model : {"tiny-gptj-q8r", "tiny-gptj-q8rh", "tiny-gptj-q8"}) {
    WeightFile file(golden_file(model));
    std::size_t i = 0;
    while (file.tensors[i].type_layout >> 8 != 1 || (file.tensors[i].type_layout & 255) == 1) ++i;
    file.tensors[i].type_layout |= uint32_t{kInputsRotated} << 16;
    const bool grouped = std::string(model) == "tiny-gptj-q8";
    expect(measured(file.write()), grouped ? PHASOR_OK : PHASOR_BAD_FILE,
           grouped ? ""
                   : ("directory: tensor " + std::to_string(i) +
                      ": rotated inputs, which only types with a scale for each group have")
                         .c_str());
  }
  // A directory of 7 bytes; one of 8 has no tensor.
  for (const uint64_t bytes : {7u, 8u}) {
    WeightFile file(good);
    file.tensors.clear();
    Block small = file.write();
    store_u64(section_entry(small, kSectionDirectory) + 16, bytes);
    store_u64(section_entry(small, kSectionData) + 16, 1);
    store_u64(small.data() + 24, small.size());
    Block longer(small.size() + 1);
    std::memcpy(longer.data(), small.data(), small.size());
    longer.data()[small.size()] = 0;
    store_u64(longer.data() + 24, longer.size());
    WeightFile::reseal(&longer);
    expect(measured(longer), PHASOR_BAD_FILE,
           bytes == 7 ? "directory: no room for its count, or a reserved field is not zero"
                      : "directory: 0 tensors do not fill 8 bytes");
  }
}

TEST_CASE("refusals: the bytes of a tensor are those of its type, layout and shape") {
  // One tensor of any shape: of a descriptor nothing is asked before the directory is sound.
  struct Shape {
    uint32_t type, layout, rows, cols, panels;
    uint64_t expected;  // 0: there is no such tensor
  };
  const uint32_t f32 = 1, q8 = 4, q4 = 5, f64 = 6, q8r = 7, q8rh = 8, q4m = 9, q4k = 10,
                 panel16 = 1, rows = 2, vector = 3;
  const uint32_t most = 0xFFFFFFFF;
  const Shape shapes[] = {
      {f32, panel16, 17, 3, 2, 2 * 16 * 3 * 4},
      {f32, panel16, 17, 3, 1, 0},
      {f32, panel16, 17, 3, 3, 3 * 16 * 3 * 4},
      {f32, panel16, 0, 3, 1, 0},
      {f32, panel16, 1, 0, 1, 0},
      {f64, panel16, 1, 1, 1, 0},
      {f32, panel16, 1, most, 1u << 26, uint64_t{64} * most << 26},
      {f32, panel16, 1, most, 1u << 27, 0},
      {f32, panel16, 1, 0x80000000u, 1u << 27, 0},
      {f32, panel16, 1, 0x80000000u, (1u << 27) - 1, (uint64_t{1} << 37) * ((1u << 27) - 1)},
      {f32, rows, 5, 3, 0, 60},
      {f32, rows, 5, 3, 1, 0},
      {f32, rows, 0, 3, 0, 0},
      {f64, rows, 5, 3, 0, 0},
      {f32, rows, 0x0FFFFFFE, most - 31, 0, (uint64_t{0x0FFFFFFE} * (most - 31)) * 4},
      {q8, rows, most, most, 0, 0},
      {q4, rows, most, most, 0, 0},
      {q8r, panel16, 17, 65, 2, 2 * (64 + 16 * 128)},
      {q8rh, panel16, 17, 64, 2, 2 * (64 + 16 * 64)},
      {q8r, rows, 17, 65, 0, 128 + 17 * 128},
      {q8rh, rows, 16, 1, 0, 64 + 16 * 64},
      {q8r, rows, most, most, 0, 0},
      {q8r, vector, 7, 1, 0, 0},
      {q4m, panel16, 17, 33, 2, 2 * (2 * 64 + 2 * 256)},
      {q4k, panel16, 17, 33, 2, 2 * (256 + 2 * 256)},
      {q4k, panel16, 16, 257, 1, 2 * 256 + 9 * 256},
      {q4m, rows, 17, 33, 0, 192 + 17 * 2 * 16},
      {q4k, rows, 17, 257, 0, 576 + 17 * 9 * 16},
      {q4m, rows, most, most, 0, 0},
      {q4k, rows, most, most, 0, 0},
      {q4m, vector, 7, 1, 0, 0},
      {f32, rows, most, most, 0, 0},
      {f32, vector, 7, 1, 0, 28},
      {f64, vector, 7, 1, 0, 56},
      {f64, vector, most, 1, 0, uint64_t{8} * most},
      {2, vector, 7, 1, 0, 0},
      {f32, vector, 7, 2, 0, 0},
      {f32, vector, 7, 1, 1, 0},
      {f32, vector, 0, 1, 0, 0},
      {f32, vector, 1, 0, 0, 0},
  };
  WeightFile file(kModel);
  for (const Shape& s : shapes) {
    file.tensors = {{1, s.type | s.layout << 8, s.rows, s.cols, s.panels, std::string(1, '\0')}};
    Block block = file.write();
    const uint64_t claimed = s.expected != 0 ? s.expected : 1;
    store_u64(block.data() + place_of(block, kSectionDirectory) + 8 + 16, claimed + 1);
    WeightFile::reseal(&block);
    CAPTURE(s.layout);
    CAPTURE(s.rows);
    CAPTURE(s.cols);
    expect(measured(block), PHASOR_BAD_FILE,
           "directory: tensor 0: " + std::to_string(claimed + 1) +
               " bytes, its type, layout and shape ask for " + std::to_string(s.expected));
  }
}

TEST_CASE("refusals: tensors that do not lie in order inside the data") {
  const Block good = golden_file(kModel);
  const std::size_t at = place_of(good, kSectionDirectory) + 8;
  const uint32_t count = load_u32(good.data() + at - 8);
  const auto with = [&](uint32_t tensor, uint64_t offset) {
    const std::size_t entry = at + 48 * tensor;
    const std::string line = "directory: tensor " + std::to_string(tensor) + ": offset " +
                             std::to_string(offset) + " and size " +
                             std::to_string(load_u64(good.data() + entry + 16)) +
                             " do not lie in order inside the data";
    expect(measured(edited(good, [&](unsigned char* p) { store_u64(p + entry + 8, offset); })),
           PHASOR_BAD_FILE, line);
  };
  const uint64_t first = load_u64(good.data() + at + 8),
                 second = load_u64(good.data() + at + 48 + 8),
                 last = load_u64(good.data() + at + 48 * (count - 1) + 8);
  with(0, first - 64);
  with(0, first + 4);
  with(1, first);
  with(1, second - 64);
  with(count - 1, last + 64);
  with(count - 1, good.size() / 64 * 64 + 64);
  with(count - 1, uint64_t{0} - 64);
}

TEST_CASE("refusals: what only reading every byte can tell of a file") {
  WeightFile made(kModel);
  made.set("output.bias", 1)
      .tensors.push_back({kStackOutput << 24 | 2, 1 | 3 << 8, 59, 1, 0, std::string(4 * 59, '\0')});
  made.sections[9] = {0, "nobody knows"};
  made.sections[20] = {0, "nobody knows what"};
  const Block good = made.write();
  expect(checked(good), PHASOR_OK, "");
  const auto flip = [&](uint64_t at) {
    Block file(good.data(), good.size());
    file.data()[at] = static_cast<unsigned char>(file.data()[at] ^ 1);
    return checked(file);
  };
  const auto end_of = [&](uint32_t kind) {
    const unsigned char* const e = section_entry(good, kind);
    return load_u64(e + 8) + load_u64(e + 16);
  };
  expect(flip(end_of(9)), PHASOR_BAD_FILE, "a byte before section 15 is not zero");
  expect(flip(end_of(9) - 1), PHASOR_BAD_CHECKSUM, "section 9 is damaged: its checksum is wrong");
  expect(flip(end_of(20) - 1), PHASOR_BAD_CHECKSUM, "section 20 is damaged: its checksum is wrong");
  expect(flip(end_of(kSectionData)), PHASOR_BAD_FILE, "a byte before section 20 is not zero");
  const std::size_t directory = place_of(good, kSectionDirectory) + 8;
  const uint32_t key = load_u32(good.data() + directory);
  const uint64_t first = load_u64(good.data() + directory + 8);
  expect(flip(first), PHASOR_BAD_CHECKSUM,
         "tensor 0 (key " + std::to_string(key) + ") is damaged: its checksum is wrong");
  // Between two tensors.
  for (uint32_t i = 1; i < made.tensors.size(); ++i) {
    const uint64_t begin = load_u64(good.data() + directory + 48 * i + 8),
                   before = load_u64(good.data() + directory + 48 * (i - 1) + 8) +
                            load_u64(good.data() + directory + 48 * (i - 1) + 16);
    if (before == begin) continue;
    for (const uint64_t at : {before, begin - 1}) {
      Block file(good.data(), good.size());
      file.data()[at] = 1;
      // The sections' own checksums are looked at behind the tensors'.
      expect(checked(file), PHASOR_BAD_FILE,
             "a byte before tensor " + std::to_string(i) + " is not zero");
    }
  }
  // Behind the last section.
  Block longer(good.size() + 3);
  std::memcpy(longer.data(), good.data(), good.size());
  std::memset(longer.data() + good.size(), 0, 3);
  store_u64(longer.data() + 24, longer.size());
  WeightFile::reseal(&longer);
  expect(checked(longer), PHASOR_OK, "");
  longer.data()[good.size() + 2] = 1;
  expect(checked(longer), PHASOR_BAD_FILE, "a byte after the last section is not zero");
}
