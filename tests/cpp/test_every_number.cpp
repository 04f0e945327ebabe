// Every number of a weight file at the values that a reader forgets: 0 in place of a count, a size
// or an offset, and the largest ones. Nothing here knows the format's fields: each word of the
// header, of the head's sections and of those behind it is changed, whatever it means. The file
// opens and can be used, or is refused with a line; what a model needs of memory is bounded by the
// bytes that the file has.
#include <algorithm>
#include <ctime>

#include "weight_file.h"

using namespace weight_files;

namespace {

constexpr uint64_t kMostArena = uint64_t{32} << 20;
constexpr double kMostSeconds = 5;  // of a processor, with a sanitizer too

bool one_line(const char* text) {
  const std::string line = text;
  return !line.empty() && line.size() < sizeof(phasor_error::text) &&
         std::all_of(line.begin(), line.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= ' '; });
}

// What a call says; false where it refuses.
bool is_ok(phasor_status status, const phasor_error& error) {
  if (status == PHASOR_OK) return true;
  CAPTURE(error.text);
  CHECK(one_line(error.text));
  CHECK(phasor_status_name(status) != nullptr);
  return false;
}

void look_at(const void* data, std::size_t bytes) {
  volatile unsigned char sum = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    sum = static_cast<unsigned char>(sum ^ static_cast<const unsigned char*>(data)[i]);
}

// All that can be asked of a model without a session.
void ask(const phasor_model* model) {
  for (uint32_t i = 0; i < phasor_tensor_count(model); ++i) {
    phasor_tensor tensor{};
    tensor.struct_size = sizeof tensor;
    CHECK(phasor_tensor_get(model, i, &tensor) == PHASOR_OK);
  }
  for (uint32_t i = 0; i < phasor_field_count(model); ++i) {
    phasor_field field{};
    field.struct_size = sizeof field;
    CHECK(phasor_field_get(model, i, &field) == PHASOR_OK);
  }
  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    phasor_vector vector{};
    vector.struct_size = sizeof vector;
    CHECK(phasor_vector_get(model, i, &vector) == PHASOR_OK);
    look_at(vector.source, vector.source_count * sizeof(uint32_t));
    look_at(vector.target, vector.target_count * sizeof(uint32_t));
    look_at(vector.author, vector.author_bytes);
  }
  phasor_output output{};
  output.struct_size = sizeof output;
  CHECK(phasor_model_output(model, &output) == PHASOR_OK);
  std::size_t bytes = 0, more = 0;
  for (uint32_t i = 0; i < std::min(output.classes, 8u); ++i)
    if (const char* label = phasor_label(model, i, &bytes)) look_at(label, bytes);
  const char *name = nullptr, *text = nullptr;
  for (uint32_t i = 0; i < std::min(output.prompts, 8u); ++i)
    if (phasor_prompt(model, i, &name, &bytes, &text, &more) == PHASOR_OK)
      look_at(name, bytes), look_at(text, more);
  uint32_t skipped = 0;
  if (const uint32_t* ids = phasor_skipped(model, &skipped)) look_at(ids, skipped * sizeof *ids);
  phasor_cost cost{};
  cost.struct_size = sizeof cost;
  CHECK(phasor_model_cost(model, 7, 9, &cost) == PHASOR_OK);
  phasor_generate_options generate = PHASOR_GENERATE_OPTIONS_INIT;
  phasor_beam_options beams = PHASOR_BEAM_OPTIONS_INIT;
  (void)phasor_generation_defaults(model, &generate);
  (void)phasor_beam_defaults(model, &beams);
  look_at(generate.suppressed, generate.suppressed_count * sizeof(uint32_t));
  look_at(generate.bad_words, generate.bad_words_count * sizeof(uint32_t));
  for (const uint32_t side : {PHASOR_SOURCE, PHASOR_TARGET}) {
    phasor_side s{};
    s.struct_size = sizeof s;
    if (phasor_model_side(model, side, &s) != PHASOR_OK) continue;
    look_at(s.end, s.end_count * sizeof(uint32_t));
    look_at(s.prefix, s.prefix_count * sizeof(uint32_t));
    look_at(s.suffix, s.suffix_count * sizeof(uint32_t));
    phasor_text state = PHASOR_TEXT_INIT;
    char out[64];
    for (uint32_t id = 0; id < std::min(s.vocabulary, 6u); ++id) {
      if (const char* piece = phasor_piece(model, side, id, &bytes)) look_at(piece, bytes);
      (void)phasor_piece_flags(model, side, id);
      (void)phasor_id_to_text(model, side, &state, id, out, sizeof out, &bytes);
    }
  }
}

// A token of each side, a text, a conversation and the first test vector.
void run(const phasor_model* model) {
  phasor_limits limits = limits_for_vectors(model);
  limits.text_bytes = 24;
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  if (!is_ok(phasor_session_size(&need, model, &limits, &error), error) || need > kMostArena)
    return;
  const Block arena(need);
  phasor_session* session = nullptr;
  if (!is_ok(phasor_session_open(&session, arena.data(), need, model, &limits, nullptr, &error),
             error))
    return;
  char text[256];
  std::size_t bytes = 0, count = 0;
  uint32_t ids[64];
  for (const uint32_t side : {PHASOR_SOURCE, PHASOR_TARGET}) {
    phasor_side s{};
    s.struct_size = sizeof s;
    if (phasor_model_side(model, side, &s) != PHASOR_OK || s.has_tokenizer == 0) continue;
    const phasor_status status =
        phasor_text_to_ids(session, side, 1, ids, 64, &count, "ab c\xC3\xA9", 6, &error);
    if (status != PHASOR_FULL) (void)is_ok(status, error);
  }
  phasor_chat_message message{};
  message.struct_size = sizeof message;
  message.role = "user", message.role_bytes = 4;
  message.content = "ab", message.content_bytes = 2;
  if (phasor_chat_available(model)) {
    const phasor_status status =
        phasor_chat_to_text(session, 1, text, sizeof text, &bytes, &message, 1, &error);
    if (status != PHASOR_FULL) (void)is_ok(status, error);
  }
  phasor_vector_result result{};
  result.struct_size = sizeof result;
  if (phasor_vector_count(model) != 0)
    (void)is_ok(phasor_vector_run(session, 0, &result, &error), error);
}

void use(const Block& file) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  if (!is_ok(phasor_model_size(&need, file.data(), file.size(), &error), error)) return;
  REQUIRE(need <= 16 * file.size() + (1u << 16));
  const Block memory(need);
  phasor_model* model = nullptr;
  if (!is_ok(phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr,
                               &error),
             error))
    return;
  (void)is_ok(phasor_model_check(model, &error), error);
  ask(model);
  run(model);
}

// The places of the words to change: the header and the table of sections, then of each section its
// beginning, where counts and sizes are, and some words of the rest. Weights are no sizes.
std::vector<std::size_t> words_of(const Block& file) {
  std::vector<std::size_t> out;
  const uint32_t sections = load_u32(file.data() + 20);
  for (std::size_t at = 8; at < 64 + 32 * std::size_t{sections}; at += 4) out.push_back(at);
  for (uint32_t i = 0; i < sections; ++i) {
    const unsigned char* const entry = file.data() + 64 + 32 * i;
    const std::size_t begin = static_cast<std::size_t>(load_u64(entry + 8)),
                      bytes = static_cast<std::size_t>(load_u64(entry + 16)),
                      whole = load_u32(entry) == kSectionMeta ? 2048 : 256;
    if (load_u32(entry) == kSectionData) continue;
    for (std::size_t at = 0; at + 4 <= bytes; at += at < whole ? 4 : 4 * 61)
      out.push_back(begin + at);
  }
  return out;
}

// The sums of the sections, and of the tensor in whose entry the word is, as they must be, where
// the bytes that they are of are there.
void reseal_all(Block* file, uint64_t changed) {
  unsigned char* const p = file->data();
  const std::size_t size = file->size();
  const auto sum = [&](unsigned char* to, uint64_t at, uint64_t bytes) {
    if (at <= size && bytes <= size - at)
      store_u32(to, crc32c(0, p + at, static_cast<std::size_t>(bytes)));
  };
  const uint32_t sections = std::min(load_u32(p + 20), 16u);
  for (uint32_t i = 0; i < sections && 96 + 32 * i <= size; ++i) {
    unsigned char* const entry = p + 64 + 32 * i;
    const uint64_t at = load_u64(entry + 8), bytes = load_u64(entry + 16);
    const uint32_t kind = load_u32(entry);
    if (kind == kSectionDirectory) {
      if (at > size || bytes > size - at) continue;
      for (uint64_t e = at + 8; e + 48 <= at + bytes; e += 48)
        if (changed >= e && changed < e + 48)
          sum(p + e + 36, load_u64(p + e + 8), load_u64(p + e + 16));
    } else if (kind != kSectionMeta && kind != kSectionData) {
      sum(entry + 24, at, bytes);
    }
  }
  if (load_u64(p + 32) <= size && load_u64(p + 32) >= 64) WeightFile::reseal(file);
}

void walk(const std::string& name) {
  CAPTURE(name);
  const Block good = golden_file(name);
  use(good);
  const auto tried = [&](std::size_t at, std::size_t words, uint32_t value) {
    Block bad(good.data(), good.size());
    for (std::size_t i = 0; i < words; ++i) store_u32(bad.data() + at + 4 * i, value);
    if (std::memcmp(bad.data() + at, good.data() + at, 4 * words) == 0) return;
    reseal_all(&bad, at);
    CAPTURE(at);
    CAPTURE(words);
    CAPTURE(value);
    const std::clock_t start = std::clock();
    use(bad);
    CHECK(double(std::clock() - start) < kMostSeconds * CLOCKS_PER_SEC);
  };
  for (const std::size_t at : words_of(good)) {
    for (const uint32_t value : {0u, 0x7FFFFFFFu, 0xFFFFFFFFu}) tried(at, 1, value);
    if (at % 8 == 0 && at + 8 <= good.size())  // numbers of 64 bits
      for (const uint32_t value : {0u, 0xFFFFFFFFu}) tried(at, 2, value);
  }
}

}  // namespace

TEST_CASE("every number: 0 and the largest ones in place of each word of a file") {
  for (const char* name : {"tiny-chat-f32", "tiny-d2l-f32", "tiny-t5-f32", "tiny-bert-f32",
                           "tiny-classes-f32", "tiny-disentangled-f32", "tiny-lm-q8"})
    walk(name);
}
