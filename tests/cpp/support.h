// What the tests of whole models share: weight files in aligned memory, models and sessions in
// exactly their bytes.
#pragma once
#include <phasor.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

// Bytes at an address that is a multiple of 64, with nothing behind them that a sanitizer would not
// see.
class Block {
 public:
  explicit Block(std::size_t bytes) : bytes_(bytes), p_(nullptr) {
    if (posix_memalign(&p_, 64, bytes == 0 ? 1 : bytes) != 0) std::abort();
  }
  Block(const void* data, std::size_t bytes) : Block(bytes) { std::memcpy(p_, data, bytes); }
  Block(Block&& other) noexcept : bytes_(other.bytes_), p_(other.p_) { other.p_ = nullptr; }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { std::free(p_); }
  unsigned char* data() const { return static_cast<unsigned char*>(p_); }
  std::size_t size() const { return bytes_; }

 private:
  std::size_t bytes_;
  void* p_;
};

// The small models in tests/golden/models, by name without ".phasor", in order. Aborts when there
// are none.
std::vector<std::string> golden_models();
Block golden_file(const std::string& name);

// Those that have a decoder.
std::vector<std::string> decoders();

// Threads for the `parallel` function: plain std::thread, slow and simple.
void run_threads(void* user, phasor_task task, void* context, uint32_t count);

// An open model and a session, each in exactly the bytes that its size function asks for.
class Engine {
 public:
  Engine(const Block& file, const char* isa, const phasor_limits* limits = nullptr,
         uint32_t threads = 1);
  phasor_model* model = nullptr;
  phasor_session* session = nullptr;
  phasor_limits limits{};

 private:
  std::unique_ptr<Block> model_block_, arena_;
};

// Limits that hold every test vector of the file, and `all` its logits in one step.
phasor_limits limits_for_vectors(const phasor_model* model);

using Ids = std::vector<uint32_t>;

phasor_side target_of(const phasor_model* model);
uint32_t vocabulary_of(const phasor_model* model);  // the target's
// Ids from 3 on.
Ids random_ids(uint64_t seed, uint32_t count, uint32_t vocabulary);
// Sequence 0, empty but for a source of eleven tokens.
void begin(const Engine& e, uint64_t seed = 0);
std::vector<unsigned char> state_of(const Engine& e, uint32_t sequence = 0);

// Bytes of a part of the arena, by the name that phasor_session_part gives.
uint64_t part_bytes(const phasor_model* model, const phasor_limits& limits, const char* part);
// Whether these limits have layers whose ring lets go of positions (rule 1.7).
bool lets_go(const phasor_model* model, const phasor_limits& limits);

uint64_t fnv1a(uint64_t hash, const void* data, std::size_t bytes);
constexpr uint64_t kFnvStart = 0xCBF29CE484222325u;
