// cli: what every command begins with: the file, the model in its block, the arena, the threads.
// Errors are printed here, with the file's name in front.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "../../include/phasor.h"
#include "args.h"
#include "clock.h"
#include "file.h"
#include "memory.h"
#include "pool.h"

namespace cli {

class Engine {
 public:
  // file and model; --check where it is asked for
  bool open(const Options& options);
  // a model that is in memory already
  bool open_bytes(const char* name, const void* data, size_t bytes, const char* isa);
  // the arena, exactly as large as the library says, and the pool
  bool start(const phasor_limits& limits);
  bool fail(const phasor_error& error) const;  // "phasor: FILE: text"; always false
  bool has_source() const { return stack != PHASOR_DECODER; }
  bool has_target() const { return stack != PHASOR_ENCODER; }
  bool is_end(uint32_t id) const;  // of the target side
  // one more was made: after some, the weights are worth huge pages
  void count_token();
  const void* arena() const { return arena_.data(); }
  // what an encoder-decoder's output begins from, or PHASOR_NONE
  uint32_t start_id() const;

  const char* path = nullptr;
  phasor_model* model = nullptr;
  phasor_session* session = nullptr;
  uint32_t stack = 0;
  phasor_side source{}, target{};  // vocabulary 0: the model has no such side
  phasor_limits limits{};
  size_t model_bytes = 0, arena_bytes = 0;
  ReadFile file;

 private:
  Block model_block_, arena_;
  uint64_t tokens_ = 0;
  std::unique_ptr<Pool> pool_;
};

// Limits for one sequence: --source, --context and --threads where given; by default what the model
// allows, at most 2048, and 256 where it sets no limit.
phasor_limits default_limits(const Engine& engine, const Options& options);
// Room for the best token of `rows` rows in place of their logits, in a decoder's limits: all that
// greedy decoding asks for.
void greedy_room(phasor_limits* limits, uint32_t rows);
uint32_t cache_type(const Options& options);  // --cache

// Test vector `index`, and limits with room for the longest.
phasor_vector vector_at(const Engine& engine, uint32_t index);
phasor_limits limits_for_vectors(const Engine& engine, const Options& options);

// The default with more room, as far as the model goes, for a list of ids that is already known.
uint32_t room_for(uint32_t limit, size_t count, const phasor_side& side);

// Room for texts of `bytes`, where the model takes texts at all.
void make_text_room(phasor_limits* limits, size_t bytes);

// The line of figures on standard error: `count` lines or texts, their tokens, the seconds they
// took.
void print_figures(const Engine& engine, const char* what, uint64_t count, uint64_t tokens,
                   double seconds);

// The piece behind an id, or nothing.
std::string piece_text(const Engine& engine, uint32_t side, uint32_t id);

// No infinity and nothing that is not a number: what the file's weights make may be either.
bool all_finite(const float* values, size_t count);

// Adds ids of a text. `where` stands before an error: "line 3".
bool text_ids(const Engine& engine, uint32_t side, bool template_ids, const char* text,
              size_t bytes, std::vector<uint32_t>* ids, std::string* error);

// The ids and segments of two texts with one tab between them; *first gets how many ids the first
// text has.
bool pair_ids(const Engine& engine, uint32_t side, const std::string& texts,
              std::vector<uint32_t>* ids, std::vector<uint32_t>* segments, size_t* first,
              std::string* error);

// Ids to text, piece by piece.
class Detokenizer {
 public:
  Detokenizer(const Engine& engine, uint32_t side) : model_(engine.model), side_(side) {}
  const std::string& add(uint32_t id);  // what the id adds; valid until the next call
  const std::string& end();

 private:
  const phasor_model* model_;
  uint32_t side_;
  phasor_text state_ = PHASOR_TEXT_INIT;
  std::string out_;
};

}  // namespace cli
