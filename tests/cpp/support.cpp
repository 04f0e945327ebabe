#include "support.h"
#include "items.h"

#include <dirent.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "decode/random.h"

namespace {

const char* models_folder() {
  const char* folder = std::getenv("PHASOR_GOLDEN_MODELS");
  return folder != nullptr ? folder : "tests/golden/models";
}

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "tests: %s\n", what.c_str());
  std::abort();
}

}  // namespace

std::vector<std::string> golden_models() {
  std::vector<std::string> names;
  DIR* folder = opendir(models_folder());
  if (folder == nullptr)
    give_up(std::string("no folder ") + models_folder() + ": run from the repository's root");
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    const std::size_t dot = name.rfind(".phasor");
    if (dot != std::string::npos && dot + 7 == name.size()) names.push_back(name.substr(0, dot));
  }
  closedir(folder);
  if (names.empty()) give_up(std::string("no models in ") + models_folder());
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> decoders() {
  std::vector<std::string> names;
  for (const std::string& name : golden_models())
    if (phasor_model_stack(Engine(golden_file(name), nullptr).model) != PHASOR_ENCODER)
      names.push_back(name);
  return names;
}

Block golden_file(const std::string& name) {
  const std::string path = std::string(models_folder()) + "/" + name + ".phasor";
  std::FILE* f = std::fopen(path.c_str(), "rb");
  if (f == nullptr) give_up("cannot open " + path);
  std::vector<unsigned char> bytes;
  unsigned char buffer[65536];
  for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) != 0;)
    bytes.insert(bytes.end(), buffer, buffer + n);
  std::fclose(f);
  return Block(bytes.data(), bytes.size());
}

void run_threads(void*, phasor_task task, void* context, uint32_t count) {
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < count; ++i) threads.emplace_back([=] { task(context, i); });
  task(context, 0);
  for (std::thread& t : threads) t.join();
}

phasor_limits limits_for_vectors(const phasor_model* model) {
  phasor_limits limits{};
  limits.struct_size = sizeof limits;
  uint32_t source = 1, target = 1;
  for (uint32_t i = 0; i < phasor_vector_count(model); ++i) {
    phasor_vector v{};
    v.struct_size = sizeof v;
    if (phasor_vector_get(model, i, &v) != PHASOR_OK) give_up("a vector cannot be read");
    source = std::max(source, v.source_count);
    target = std::max(target, v.target_count);
  }
  phasor_limits_for(model, source, target, &limits);
  return limits;
}

Engine::Engine(const Block& file, const char* isa, const phasor_limits* wanted, uint32_t threads) {
  phasor_error error = PHASOR_ERROR_INIT;
  std::size_t need = 0;
  if (phasor_model_size(&need, file.data(), file.size(), &error) != PHASOR_OK) give_up(error.text);
  model_block_ = std::make_unique<Block>(need);
  phasor_open_options options = PHASOR_OPEN_OPTIONS_INIT;
  options.isa = isa;
  if (phasor_model_open(&model, model_block_->data(), need, file.data(), file.size(), &options,
                        &error) != PHASOR_OK)
    give_up(error.text);
  limits = wanted != nullptr ? *wanted : limits_for_vectors(model);
  limits.threads = threads;
  if (phasor_session_size(&need, model, &limits, &error) != PHASOR_OK) give_up(error.text);
  arena_ = std::make_unique<Block>(need);
  std::memset(arena_->data(), 0xAB, need);  // nothing may rest on what was there before
  phasor_parallel parallel{sizeof(phasor_parallel), run_threads, nullptr};
  if (phasor_session_open(&session, arena_->data(), need, model, &limits,
                          threads > 1 ? &parallel : nullptr, &error) != PHASOR_OK)
    give_up(error.text);
}

phasor_side target_of(const phasor_model* model) {
  phasor_side side{};
  side.struct_size = sizeof side;
  if (phasor_model_side(model, PHASOR_TARGET, &side) != PHASOR_OK)
    give_up("a model without a target");
  return side;
}

uint32_t vocabulary_of(const phasor_model* model) { return target_of(model).vocabulary; }

Ids random_ids(uint64_t seed, uint32_t count, uint32_t vocabulary) {
  phasor_random r;
  phasor_random_seed(&r, seed);
  Ids ids(count);
  for (uint32_t& id : ids)
    id = 3 + static_cast<uint32_t>(phasor::random_next(&r) % (vocabulary - 3));
  return ids;
}

void begin(const Engine& e, uint64_t seed) {
  if (phasor_sequence_clear(e.session, 0) != PHASOR_OK) give_up("a sequence cannot be cleared");
  if (phasor_model_stack(e.model) == PHASOR_DECODER) return;
  const Ids ids = random_ids(seed + 99, 11, 40);
  const phasor_item item = item_of(0, 11, PHASOR_LOGITS_NONE, ids.data());
  if (phasor_encode(e.session, &item, 1, nullptr) != PHASOR_OK)
    give_up("a source cannot be encoded");
}

std::vector<unsigned char> state_of(const Engine& e, uint32_t sequence) {
  std::size_t need = 0;
  if (phasor_state_size(e.session, sequence, &need) != PHASOR_OK) give_up("a state has no size");
  std::vector<unsigned char> state(need);
  if (phasor_state_save(e.session, sequence, state.data(), need) != PHASOR_OK)
    give_up("a state cannot be saved");
  return state;
}

uint64_t part_bytes(const phasor_model* model, const phasor_limits& limits, const char* part) {
  const char* name = nullptr;
  uint64_t bytes = 0;
  for (uint32_t p = 0; phasor_session_part(model, &limits, p, &name, &bytes) == PHASOR_OK; ++p)
    if (std::strcmp(name, part) == 0) return bytes;
  give_up(std::string("no part ") + part);
}

bool lets_go(const phasor_model* model, const phasor_limits& limits) {
  phasor_limits whole = limits;
  whole.chunk = limits.target;
  return part_bytes(model, limits, "keys and values in windows") <
         part_bytes(model, whole, "keys and values in windows");
}

uint64_t fnv1a(uint64_t hash, const void* data, std::size_t bytes) {
  const unsigned char* p = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ p[i]) * 0x100000001B3u;
  return hash;
}
