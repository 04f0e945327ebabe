// Lists that a file's head has: any of their records is found in a bounded number of steps, and
// opening is linear in the head.
#include <map>
#include <vector>

#include "format/bytes.h"
#include "format/crc32c.h"
#include "growth.h"
#include "model/model.h"
#include "support.h"

using namespace bound_tests;
using namespace phasor;

namespace {

struct Item {
  unsigned char type, flags;
  std::string value;
};

// the last: a scope that nobody knows
constexpr uint32_t kLabelsKey = 6u << 24 | 16, kPromptsKey = 6u << 24 | 17,
                   kUnknownKey = 200u << 24;

void put(std::string* to, uint32_t value) {
  for (int i = 0; i < 4; ++i) to->push_back(static_cast<char>(value >> (8 * i) & 255));
}

// The file with other entries in its metadata: everything behind it moves, in steps of 64 bytes,
// and the checksum is made anew.
Block with_entries(const Block& file, const std::map<uint32_t, Item>& more) {
  unsigned char* p = file.data();
  const auto section = [p](uint32_t kind) {
    for (uint32_t i = 0; i < load_u32(p + 20); ++i)
      if (load_u32(p + 64 + 32 * i) == kind) return p + 64 + 32 * i;
    std::abort();
  };
  const uint64_t meta = load_u64(section(1) + 8), meta_bytes = load_u64(section(1) + 16);
  std::map<uint32_t, Item> entries = more;
  for (uint64_t at = 0; at < meta_bytes;) {
    const unsigned char* e = p + meta + at;
    const uint32_t bytes = load_u32(e + 8);
    entries.insert(
        {load_u32(e), {e[4], e[5], std::string(reinterpret_cast<const char*>(e + 12), bytes)}});
    at += 12 + (bytes + 3) / 4 * 4;
  }
  std::string text;
  for (const auto& [key, entry] : entries) {
    put(&text, key);
    text += static_cast<char>(entry.type);
    text += static_cast<char>(entry.flags);
    text += std::string(2, '\0');
    put(&text, static_cast<uint32_t>(entry.value.size()));
    text += entry.value + std::string((4 - entry.value.size() % 4) % 4, '\0');
  }
  const uint64_t directory = load_u64(section(2) + 8), head = load_u64(p + 32),
                 new_directory = (meta + text.size() + 63) / 64 * 64;
  const uint64_t moved = new_directory - directory;
  std::string out(reinterpret_cast<const char*>(p), static_cast<std::size_t>(meta));
  out += text + std::string(static_cast<std::size_t>(new_directory - meta - text.size()), '\0');
  out.append(reinterpret_cast<const char*>(p + directory),
             static_cast<std::size_t>(file.size() - directory));
  Block made(out.data(), out.size());
  unsigned char* q = made.data();
  store_u64(q + 24, out.size());
  store_u64(q + 32, head + moved);
  for (uint32_t i = 0; i < load_u32(q + 20); ++i) {
    unsigned char* const s = q + 64 + 32 * i;
    if (load_u32(s) == 1)
      store_u64(s + 16, text.size());
    else
      store_u64(s + 8, load_u64(s + 8) + moved);
  }
  for (uint32_t i = 0; i < load_u32(q + new_directory); ++i) {
    unsigned char* const tensor = q + new_directory + 8 + 48 * i;
    store_u64(tensor + 8, load_u64(tensor + 8) + moved);
  }
  store_u32(q + 40, 0);
  store_u32(q + 40, crc32c(0, q, static_cast<std::size_t>(head + moved)));
  return made;
}

struct Opened {
  explicit Opened(const Block& file) : memory(size(file)) {
    phasor_error error = PHASOR_ERROR_INIT;
    const phasor_status status = phasor_model_open(&model, memory.data(), memory.size(),
                                                   file.data(), file.size(), nullptr, &error);
    REQUIRE_MESSAGE(status == PHASOR_OK, std::string(error.text));
  }
  static std::size_t size(const Block& file) {
    phasor_error error = PHASOR_ERROR_INIT;
    std::size_t need = 0;
    const phasor_status status = phasor_model_size(&need, file.data(), file.size(), &error);
    REQUIRE_MESSAGE(status == PHASOR_OK, std::string(error.text));
    return need;
  }
  Block memory;
  phasor_model* model = nullptr;
};

constexpr char kRecordEnd = '\x1E', kUnitEnd = '\x1F';
constexpr std::size_t kMostString = 4 * 65536;  // bytes

Block with_prompts(const std::string& list) {
  return with_entries(golden_file("tiny-bert-f32"), {{kPromptsKey, {3, 0, list}}});
}

uint32_t prompts_of(const phasor_model* model) {
  phasor_output out{};
  out.struct_size = sizeof out;
  REQUIRE(phasor_model_output(model, &out) == PHASOR_OK);
  return out.prompts;
}

void read_all_prompts(const phasor_model* model) {
  for (uint32_t i = 0; i < prompts_of(model); ++i) {
    const char *name = nullptr, *text = nullptr;
    std::size_t name_bytes = 0, text_bytes = 0;
    REQUIRE(phasor_prompt(model, i, &name, &name_bytes, &text, &text_bytes) == PHASOR_OK);
  }
}

}  // namespace

TEST_CASE("bounds: prompts, as many as there is room for, each once") {
  // Nothing but ends; short names; one that is as long as all others.
  for (const std::string& unit : {std::string(1, kRecordEnd),
                                  std::string("q\x1F"
                                              "query: \x1E"),
                                  std::string(300, 'x') + kRecordEnd}) {
    const auto run = [&](std::size_t n) {
      std::string list;
      while (list.size() + unit.size() <= n) list += unit;
      const Block file = with_prompts(list);
      const Opened m(file);
      read_all_prompts(m.model);
    };
    CHECK(check_growth("prompts of " + std::to_string(unit.size()) + " bytes", kMostString / 2,
                       run) >= kMostString / 2);
  }
  const auto run = [&](std::size_t n) {
    const std::string list =
        std::string(n / 2, 'x') + kRecordEnd + std::string(n / 2 - 1, kRecordEnd);
    const Block file = with_prompts(list);
    const Opened m(file);
    read_all_prompts(m.model);
  };
  CHECK(check_growth("a long prompt among empty ones", kMostString / 2, run) >= kMostString / 2);
}

TEST_CASE("bounds: every record is the one that its index says") {
  std::string list;
  for (uint32_t i = 0; i < 1000; ++i)
    list += "name " + std::to_string(i) + kUnitEnd + std::string(i % 37, 't') + kRecordEnd;
  for (const bool ended : {true, false}) {  // the last one's end may be missing
    const Block file = with_prompts(ended ? list : list.substr(0, list.size() - 1));
    const Opened m(file);
    REQUIRE(prompts_of(m.model) == 1000);
    for (uint32_t k = 0; k < 1000; ++k) {
      const uint32_t i = k * 7 % 1000;
      const char *name = nullptr, *text = nullptr;
      std::size_t name_bytes = 0, text_bytes = 0;
      REQUIRE(phasor_prompt(m.model, i, &name, &name_bytes, &text, &text_bytes) == PHASOR_OK);
      CHECK(std::string(name, name_bytes) == "name " + std::to_string(i));
      CHECK(std::string(text, text_bytes) == std::string(i % 37, 't'));
    }
    const char* nothing = nullptr;
    std::size_t bytes = 0;
    CHECK(phasor_prompt(m.model, 1000, &nothing, &bytes, &nothing, &bytes) == PHASOR_BAD_INPUT);
  }
  const Block none = with_prompts("");
  CHECK(prompts_of(Opened(none).model) == 0);
}

TEST_CASE("bounds: labels, each once") {
  // More names than the model has classes: the list is walked in the same way, and phasor_label
  // ends at the classes.
  const auto run = [](std::size_t n) {
    std::string list;
    while (list.size() + 4 <= n) list += std::string("abc") + kRecordEnd;
    const Block file = with_entries(golden_file("tiny-classes-f32"), {{kLabelsKey, {3, 0, list}}});
    const Opened m(file);
    const Model* const model = reinterpret_cast<const Model*>(m.model);
    REQUIRE(model->records[kLabels] == n / 4);
    for (uint32_t i = 0; i < model->records[kLabels]; ++i)
      REQUIRE(model->place_of(kLabels, i) == 4 * i);
    phasor_output out{};
    out.struct_size = sizeof out;
    REQUIRE(phasor_model_output(m.model, &out) == PHASOR_OK);
    std::size_t bytes = 0;
    for (uint32_t i = 0; i < out.classes; ++i)
      CHECK(std::string(phasor_label(m.model, i, &bytes), 3) == "abc");
    CHECK(phasor_label(m.model, out.classes, &bytes) == nullptr);
  };
  CHECK(check_growth("labels", 8192, run) >= 8192);
}

TEST_CASE("bounds: fields of the metadata, each once") {
  const auto run = [](std::size_t n) {
    std::map<uint32_t, Item> more;
    for (uint32_t i = 0; i < n; ++i)
      more[kUnknownKey + (i / 4000 << 24) + i % 4000] = {1, 0, std::string(4, '\1')};
    const Block file = with_entries(golden_file("tiny-lm-f32"), more);
    const Opened m(file);
    phasor_field field{};
    field.struct_size = sizeof field;
    uint32_t ones = 0;
    for (uint32_t i = 0; i < phasor_field_count(m.model); ++i) {
      REQUIRE(phasor_field_get(m.model, i, &field) == PHASOR_OK);
      ones += std::string(field.value) == "16843009" ? 1 : 0;
    }
    CHECK(ones == n);
    CHECK(phasor_field_get(m.model, phasor_field_count(m.model), &field) == PHASOR_BAD_INPUT);
  };
  CHECK(check_growth("fields", 16384, run) >= 16384);
}

TEST_CASE("bounds: test vectors, each once, are at most 64") {
  const Block file = golden_file("tiny-lm-f32");
  const Opened m(file);
  const uint32_t count = phasor_vector_count(m.model);
  REQUIRE(count > 1);
  const uint64_t steps = counted([&] {
    for (uint32_t i = 0; i < count; ++i) {
      phasor_vector v{};
      v.struct_size = sizeof v;
      REQUIRE(phasor_vector_get(m.model, i, &v) == PHASOR_OK);
    }
  });
  CHECK(steps <= 64 * count);
}
