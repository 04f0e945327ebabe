// The file's reader against damaged files: every truncation, every flipped bit of the head with the
// checksum as it was and made anew, and fields that are wrong in a way that a person would make.
// Run under sanitizers too.
#include "cases.h"
#include "format/bytes.h"
#include "format/crc32c.h"
#include "format/file.h"
#include "items.h"
#include "share.h"
#include "support.h"

namespace {

void store_u32(unsigned char* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<unsigned char>(v >> (8 * i));
}
void store_u64(unsigned char* p, uint64_t v) {
  for (int i = 0; i < 8; ++i) p[i] = static_cast<unsigned char>(v >> (8 * i));
}

// Makes the head's checksum right again, where the header lets it.
void reseal(unsigned char* p, std::size_t bytes) {
  const uint64_t head = phasor::load_u64(p + 32);
  if (head < 64 || head > bytes) return;
  store_u32(p + 40, 0);
  store_u32(p + 40, phasor::crc32c(0, p, static_cast<std::size_t>(head)));
}

// Opens, and when it opens runs everything that reads: a session, the vectors, a check. Whatever
// comes, no crash.
phasor_status try_everything(const Block& file, phasor_error* error) {
  std::size_t need = 0;
  phasor_status status = phasor_model_size(&need, file.data(), file.size(), error);
  if (status != PHASOR_OK) return status;
  Block memory(need);
  phasor_model* model = nullptr;
  status = phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr, error);
  if (status != PHASOR_OK) return status;
  for (uint32_t i = 0; i < phasor_field_count(model); ++i) {
    phasor_field field{};
    field.struct_size = sizeof field;
    CHECK(phasor_field_get(model, i, &field) == PHASOR_OK);
  }
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  phasor_limits_for(model, 4, 4, &limits);
  if (phasor_session_size(&need, model, &limits, error) != PHASOR_OK || need > (64u << 20))
    return PHASOR_OK;
  Block arena(need);
  phasor_session* session = nullptr;
  if (phasor_session_open(&session, arena.data(), need, model, &limits, nullptr, error) !=
      PHASOR_OK)
    return PHASOR_OK;
  const uint32_t ids[2] = {0, 0};
  phasor_item item = item_of(0, 2, PHASOR_LOGITS_LAST, ids);
  phasor_status ignored = PHASOR_OK;
  if (phasor_model_stack(model) != PHASOR_DECODER)
    ignored = phasor_encode(session, &item, 1, error);
  if (phasor_model_stack(model) != PHASOR_ENCODER) ignored = phasor_step(session, &item, 1, error);
  (void)ignored;
  return PHASOR_OK;
}

phasor_status status_of(const Block& file, std::string* text = nullptr) {
  phasor_error error = PHASOR_ERROR_INIT;
  const phasor_status status = try_everything(file, &error);
  if (text != nullptr) *text = error.text;
  if (status != PHASOR_OK) {
    CHECK(error.code == status);
    CHECK(error.text[0] != 0);
    CHECK(std::strchr(error.text, '\n') == nullptr);
  }
  return status;
}

}  // namespace

TEST_CASE("rule 2.9: CRC-32C gives the value of RFC 3720") {
  CHECK(phasor::crc32c(0, "123456789", 9) == 0xE3069283u);
  unsigned char zeros[32] = {0};
  CHECK(phasor::crc32c(0, zeros, 32) == 0x8A9136AAu);
  CHECK(phasor::crc32c(phasor::crc32c(0, "1234", 4), "56789", 5) == 0xE3069283u);
}

TEST_CASE("every model opens, passes its check, and its numbers are those of every machine") {
  for (const std::string& name : golden_models()) {
    CAPTURE(name);
    const Block file = golden_file(name);
    CHECK(status_of(file) == PHASOR_OK);
    const Engine e(file, nullptr);
    phasor_error error = PHASOR_ERROR_INIT;
    CHECK(phasor_model_check(e.model, &error) == PHASOR_OK);
    CAPTURE(error.text);
    CHECK(phasor_tensor_count(e.model) > 0);
  }
}

TEST_CASE("promise 3: every truncation is refused") {
  const std::string name = golden_models().front();
  const Block whole = golden_file(name);
  const uint64_t head = phasor::load_u64(whole.data() + 32);
  for (std::size_t n = 0; n < whole.size(); n += n < head + 64 ? 1 : 997) {
    const Block cut(whole.data(), n);  // its own heap block: reading past it is seen
    CHECK(status_of(cut) != PHASOR_OK);
  }
}

TEST_CASE("promise 3: a header of the cut size does not help") {
  const Block whole = golden_file(golden_models().front());
  const uint64_t head = phasor::load_u64(whole.data() + 32);
  for (std::size_t n = 64; n < whole.size(); n += n < head + 64 ? 1 : 997) {
    Block cut(whole.data(), n);
    store_u64(cut.data() + 24, n);
    reseal(cut.data(), n);
    CHECK(status_of(cut) != PHASOR_OK);
  }
}

TEST_CASE("rule 2.9: every flipped bit of the head is refused by the checksum") {
  for (const std::string& name : {golden_models().front(), golden_models().back()}) {
    Block file = golden_file(name);
    const uint64_t head = phasor::load_u64(file.data() + 32);
    for (std::size_t i = 0; i < head; ++i)
      for (int bit = 0; bit < 8; bit += i < 512 ? 1 : 3) {
        file.data()[i] = static_cast<unsigned char>(file.data()[i] ^ 1u << bit);
        phasor_error error = PHASOR_ERROR_INIT;
        std::size_t need = 0;
        CHECK(phasor_model_size(&need, file.data(), file.size(), &error) != PHASOR_OK);
        file.data()[i] = static_cast<unsigned char>(file.data()[i] ^ 1u << bit);
      }
  }
}

TEST_CASE("promise 3: every flipped bit of the head, resealed, is an error or a model that runs") {
  Share share;
  for (const std::string& name : golden_models()) {
    if (!share.takes()) continue;
    CAPTURE(name);
    const Block good = golden_file(name);
    const uint64_t head = phasor::load_u64(good.data() + 32);
    Block file(good.data(), good.size());
    std::size_t refused = 0;
    for (std::size_t i = 0; i < head; ++i) {
      const int bit = static_cast<int>(i * 5 % 8);
      file.data()[i] = static_cast<unsigned char>(good.data()[i] ^ 1u << bit);
      reseal(file.data(), file.size());
      refused += status_of(file) != PHASOR_OK ? 1u : 0u;
      std::memcpy(file.data(), good.data(), static_cast<std::size_t>(head));
    }
    CHECK(refused > head / 2);
  }
}

TEST_CASE(
    "rule 2.9: a flipped bit in any section behind the head is found by the check, and named") {
  for (const std::string& name : golden_models()) {
    CAPTURE(name);
    Block file = golden_file(name);
    const std::size_t head = static_cast<std::size_t>(phasor::load_u64(file.data() + 32));
    for (std::size_t i = head; i < file.size(); i += 1 + (file.size() - head) / 40) {
      file.data()[i] = static_cast<unsigned char>(file.data()[i] ^ 0x10);
      std::size_t need = 0;
      phasor_error error = PHASOR_ERROR_INIT;
      REQUIRE(phasor_model_size(&need, file.data(), file.size(), &error) == PHASOR_OK);
      Block memory(need);
      phasor_model* model = nullptr;
      phasor_status status =
          phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr, &error);
      if (status == PHASOR_OK) status = phasor_model_check(model, &error);
      CHECK((status == PHASOR_BAD_CHECKSUM || status == PHASOR_BAD_FILE));
      CHECK(error.text[0] != 0);
      file.data()[i] = static_cast<unsigned char>(file.data()[i] ^ 0x10);
    }
  }
}

TEST_CASE("rule 2.1, 2.2: what a person would get wrong has its own line") {
  const Block good = golden_file(golden_models().front());
  std::string text;
  SUBCASE("an empty file") { CHECK(status_of(Block(good.data(), 0), &text) == PHASOR_BAD_FILE); }
  SUBCASE("a text file") {
    const std::string words(500, 'x');
    CHECK(status_of(Block(words.data(), words.size()), &text) == PHASOR_BAD_FILE);
    CHECK(text.find("not a .phasor file") != std::string::npos);
  }
  SUBCASE("another version") {
    Block file(good.data(), good.size());
    store_u32(file.data() + 8, 2);
    CHECK(status_of(file, &text) == PHASOR_UNSUPPORTED);
    CHECK(text == "format version 2, expected 1");
  }
  SUBCASE("an unknown required key is refused by number, an optional one is skipped") {
    // The first key (model.stack) is renamed to a field that does not exist: required, so refused
    // by number.
    Block file(good.data(), good.size());
    unsigned char* meta = file.data() + phasor::load_u64(file.data() + 64 + 8);
    store_u32(meta, 9);
    reseal(file.data(), file.size());
    CHECK(status_of(file, &text) == PHASOR_UNSUPPORTED);
    CHECK(text.find("key 9") != std::string::npos);
    meta[5] = 0;
    reseal(file.data(), file.size());
    CHECK(status_of(file, &text) == PHASOR_BAD_FILE);
    CHECK(text == "model.stack: is missing");
  }
  SUBCASE("a file at an odd address") {
    Block room(good.size() + 64);
    std::memcpy(room.data() + 4, good.data(), good.size());
    Block memory(1 << 20);
    phasor_model* model = nullptr;
    CHECK(phasor_model_open(&model, memory.data(), memory.size(), room.data() + 4, good.size(),
                            nullptr, nullptr) == PHASOR_BAD_INPUT);
  }
}
