// The plan of models of many kinds for limits of many kinds: the bytes of each part of its arena.
// They are the same on every machine (rule 3.1), so that one number for each limits has them all: a
// part that becomes larger or smaller by one value is a change of the plan, and of this table.
#include <doctest/doctest.h>

#include <iterator>

#include "support.h"

namespace {

// Limits of a model: as many positions as asked for, or as it allows of them.
bool limits_of(const phasor_model* model, uint32_t positions, phasor_limits* made) {
  *made = phasor_limits{};
  made->struct_size = sizeof *made;
  for (const uint32_t source : {positions, 0u})
    for (const uint32_t target : {positions, 0u}) {
      *made = phasor_limits{};
      made->struct_size = sizeof *made;
      std::size_t need = 0;
      if (phasor_limits_for(model, source, target, made) == PHASOR_OK &&
          phasor_session_size(&need, model, made, nullptr) == PHASOR_OK)
        return true;
    }
  return false;
}

uint64_t hash_of(const phasor_model* model, const phasor_limits& limits, uint64_t hash) {
  std::size_t need = 0;
  const phasor_status status = phasor_session_size(&need, model, &limits, nullptr);
  hash = fnv1a(hash, &status, 1);
  const char* name = nullptr;
  uint64_t bytes = 0;
  if (status != PHASOR_OK) return hash;
  for (uint32_t i = 0; phasor_session_part(model, &limits, i, &name, &bytes) == PHASOR_OK; ++i) {
    if (std::string(name) == "red zones") continue;
    unsigned char little[8];
    for (int k = 0; k < 8; ++k) little[k] = static_cast<unsigned char>(bytes >> 8 * k);
    hash = fnv1a(hash, little, sizeof little);
  }
  return hash;
}

struct Row {
  const char* name;
  void (*edit)(phasor_limits*);
  uint64_t expected;
};

}  // namespace

TEST_CASE("limits of a plan: every part of the arena, for limits of many kinds") {
  const Row rows[] = {
      {"as they come", [](phasor_limits*) {}, 0xD509A40188152D1Bu},
      {"a token at a time", [](phasor_limits* l) { l->chunk = 1; }, 0xACA2CDC3582A9542u},
      {"a chunk of five", [](phasor_limits* l) { l->chunk = 5; }, 0x16D2899A5A48AEEAu},
      {"a chunk of a source", [](phasor_limits* l) { l->chunk = 33; }, 0xBE4E8AD7D1139FBDu},
      {"a chunk of all", [](phasor_limits* l) { l->chunk = 1000; }, 0xDB5103C74637C5BAu},
      {"three sequences", [](phasor_limits* l) { l->sequences = 3, l->chunk = 40, l->threads = 5; },
       0x5C52FAED5A11A608u},
      {"seventy sequences", [](phasor_limits* l) { l->sequences = 70, l->chunk = 17; },
       0xA58876A2313F703Bu},
      {"one beam", [](phasor_limits* l) { l->beams = 1, l->chunk = 1; }, 0xFC14057EAE128B02u},
      {"four beams", [](phasor_limits* l) { l->beams = 4, l->chunk = 2, l->sequences = 2; },
       0x5D6CE2CCF75CFB5Au},
      {"four beams and all at once", [](phasor_limits* l) { l->beams = 4, l->chunk = 64; },
       0x6553B75B67127461u},
      {"many rows", [](phasor_limits* l) { l->logit_rows = 9; }, 0xF81C149E68ECA1CDu},
      {"best tokens", [](phasor_limits* l) { l->logit_rows = 0, l->best_rows = 9; },
       0x543EF2287D36358Du},
      {"views", [](phasor_limits* l) { l->outputs = 1; }, 0x35FE9624A23B12A6u},
      {"sampling", [](phasor_limits* l) { l->outputs = 2; }, 0x601790A7B9423632u},
      {"rows of tables", [](phasor_limits* l) { l->tables = 1; }, 0x9FF836B9128509E5u},
      {"halves", [](phasor_limits* l) { l->cache_type = PHASOR_CACHE_F16; }, 0x4B46812BC24618D1u},
      {"bytes", [](phasor_limits* l) { l->cache_type = PHASOR_CACHE_Q8; }, 0x70B9557F9466B4C0u},
      {"no text", [](phasor_limits* l) { l->text_bytes = 0; }, 0x1C662EB96A9CEFABu},
      {"a text", [](phasor_limits* l) { l->text_bytes = 1; }, 0x1C0539750D5777ABu},
      {"a longer text", [](phasor_limits* l) { l->text_bytes = 1001; }, 0xF8057D70DDDC3D74u},
  };
  const char* const names[] = {
      "tiny-lm-f32",         "tiny-lm-q8",       "tiny-bert-q8",      "tiny-t5-f32",
      "tiny-d2l-q8",         "tiny-albert-f32",  "tiny-olmo2-q8",     "tiny-relative-lm-f32",
      "tiny-additive-f32",   "tiny-clipped-f32", "tiny-post-sin-f32", "tiny-chat-f32",
      "tiny-modernbert-f32", "tiny-classes-q8",  "tiny-neox-f32",     "tiny-three-way-lm-f32"};
  std::vector<uint64_t> found(std::size(rows), kFnvStart);
  for (const char* name : names) {
    const Block file = golden_file(name);
    std::size_t need = 0;
    phasor_model* model = nullptr;
    REQUIRE(phasor_model_size(&need, file.data(), file.size(), nullptr) == PHASOR_OK);
    const Block memory(need);
    REQUIRE(phasor_model_open(&model, memory.data(), need, file.data(), file.size(), nullptr,
                              nullptr) == PHASOR_OK);
    for (const uint32_t positions : {1u, 16u, 33u}) {
      phasor_limits limits{};
      REQUIRE(limits_of(model, positions, &limits));
      for (std::size_t i = 0; i < std::size(rows); ++i) {
        phasor_limits edited = limits;
        rows[i].edit(&edited);
        found[i] = hash_of(model, edited, found[i]);
      }
    }
  }
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    CAPTURE(rows[i].name);
    CHECK(found[i] == rows[i].expected);
  }
}
