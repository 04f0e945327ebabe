// Choices for another program to compare: reads cases from standard input, numbers separated by
// spaces,
//   temperature top_k top_p min_p typical_p repetition presence frequency no_repeat_ngram
//   min_new new draws seed the number of end ids and they, of suppressed ids and they, of ids so
//   far and they, then the logits as hexadecimal f32 bits
// and prints for each a line with the probabilities as hexadecimal bits and a line with the ids
// that were drawn.
//   sampling_driver MODEL
#include <phasor.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "items.h"

namespace {

template <class T>
bool read(const char* format, T* out) {
  return std::scanf(format, out) == 1;
}

bool read_ids(std::vector<uint32_t>* ids) {
  uint32_t count = 0;
  if (!read("%" SCNu32, &count)) return false;
  ids->resize(count);
  for (uint32_t& id : *ids)
    if (!read("%" SCNu32, &id)) return false;
  return true;
}

void* block(std::size_t bytes) {
  void* p = nullptr;
  return posix_memalign(&p, PHASOR_ALIGN, bytes) == 0 ? p : nullptr;
}

// A session for a short sequence, with sampling; never freed.
phasor_session* open(const char* path, phasor_model** model, phasor_error* error) {
  std::FILE* f = std::fopen(path, "rb");
  if (f == nullptr) return nullptr;
  std::fseek(f, 0, SEEK_END);
  const std::size_t bytes = static_cast<std::size_t>(std::ftell(f));
  std::rewind(f);
  void* file = block(bytes);
  std::size_t need = 0;
  phasor_session* session = nullptr;
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  const bool there = file != nullptr && std::fread(file, 1, bytes, f) == bytes;
  std::fclose(f);
  if (!there || phasor_model_size(&need, file, bytes, error) != PHASOR_OK ||
      phasor_model_open(model, block(need), need, file, bytes, nullptr, error) != PHASOR_OK)
    return nullptr;
  phasor_limits_for(*model, 0, 16, &limits);
  limits.outputs = PHASOR_WANT_SAMPLING;
  if (phasor_session_size(&need, *model, &limits, error) != PHASOR_OK) return nullptr;
  return phasor_session_open(&session, block(need), need, *model, &limits, nullptr, error) ==
                 PHASOR_OK
             ? session
             : nullptr;
}

int fail(const char* text) { return std::fprintf(stderr, "sampling_driver: %s\n", text), 1; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("expected a model");
  phasor_error error = PHASOR_ERROR_INIT;
  phasor_model* model = nullptr;
  phasor_session* session = open(argv[1], &model, &error);
  if (session == nullptr) return fail(error.text);
  phasor_side side{};
  side.struct_size = sizeof side;
  const uint32_t start = 0;
  const phasor_item item = item_of(0, 1, PHASOR_LOGITS_LAST, &start);
  if (phasor_model_side(model, PHASOR_TARGET, &side) != PHASOR_OK ||
      phasor_step(session, &item, 1, nullptr) != PHASOR_OK)
    return fail("expected a decoder");
  phasor_generate_options o = PHASOR_GENERATE_OPTIONS_INIT;
  std::vector<float> p(side.vocabulary);
  while (read("%f", &o.temperature)) {
    std::vector<uint32_t> end, suppressed, ids;
    uint32_t fresh = 0, draws = 0;
    uint64_t seed = 0;
    const bool sound = read("%" SCNu32, &o.top_k) && read("%f", &o.top_p) && read("%f", &o.min_p) &&
                       read("%f", &o.typical_p) && read("%f", &o.repetition_penalty) &&
                       read("%f", &o.presence_penalty) && read("%f", &o.frequency_penalty) &&
                       read("%" SCNu32, &o.no_repeat_ngram) && read("%" SCNu32, &o.min_new) &&
                       read("%" SCNu32, &fresh) && read("%" SCNu32, &draws) &&
                       read("%" SCNu64, &seed) && read_ids(&end) && read_ids(&suppressed) &&
                       read_ids(&ids);
    if (!sound) return fail("a case is cut off");
    float* logits = phasor_logits(session, 0);
    for (uint32_t i = 0; i < side.vocabulary; ++i) {
      uint32_t bits = 0;
      if (!read("%" SCNx32, &bits)) return fail("logits are cut off");
      std::memcpy(logits + i, &bits, sizeof bits);
    }
    o.end = end.data();
    o.end_count = static_cast<uint32_t>(end.size());
    o.suppressed = suppressed.data();
    o.suppressed_count = static_cast<uint32_t>(suppressed.size());
    phasor_random random;
    phasor_random_seed(&random, seed);
    o.random = &random;
    std::vector<uint32_t> drawn(draws);
    for (uint32_t& id : drawn)
      if (phasor_choose(session, &id, p.data(), 0, ids.data(), static_cast<uint32_t>(ids.size()),
                        fresh, &o, &error) != PHASOR_OK)
        return fail(error.text);
    for (const float v : p) {
      uint32_t bits = 0;
      std::memcpy(&bits, &v, sizeof bits);
      std::printf("%08" PRIx32 " ", bits);
    }
    std::printf("\n");
    for (const uint32_t id : drawn) std::printf("%" PRIu32 " ", id);
    std::printf("\n");
  }
  return 0;
}
