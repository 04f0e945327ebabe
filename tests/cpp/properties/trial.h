// A generated model, open, in exactly the bytes that it asks for; sessions of it; and all that
// comes out of one forward pass, as bits to compare.
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "cli/host/pool.h"
#include "generator/choices.h"
#include "model/model.h"
#include "support.h"

namespace generator {

// A property that does not hold, in one line.
struct Broken : std::exception {
  explicit Broken(std::string what) : text(std::move(what)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};
// Throws unless `status` is PHASOR_OK.
void need(phasor_status status, const phasor_error& error, const std::string& what);
void need(bool holds, const char* what);

// An open model. One byte less of memory is refused.
class Opened {
 public:
  Opened(const Block& file, const char* isa = nullptr);
  void check() const;  // all its weights and checksums
  const phasor_model* model() const { return model_; }
  const phasor::Model& inside() const { return *reinterpret_cast<const phasor::Model*>(model_); }
  bool encoder() const { return phasor_model_stack(model_) == PHASOR_ENCODER; }
  bool sourced() const { return phasor_model_stack(model_) != PHASOR_DECODER; }

 private:
  std::unique_ptr<Block> memory_;
  phasor_model* model_ = nullptr;
};

// A session in a block of exactly its size. One byte less is refused.
class Running {
 public:
  Running(const Opened& opened, const phasor_limits& limits, cli::Pool* pool);
  phasor_session* session() const { return session_; }
  uint32_t width() const { return width_; }  // of an output row
  phasor_limits limits;

 private:
  uint32_t width_;
  std::unique_ptr<Block> arena_;
  phasor_session* session_ = nullptr;
};

// What goes in: for each sequence the ids and the segments of both sides. Embeddings, where there
// are some, go in place of the ids.
struct Sequences {
  struct Tokens {
    Ids ids, segments;
    std::vector<float> embeddings;
    uint32_t count() const { return static_cast<uint32_t>(ids.size()); }
  };
  std::vector<Tokens> sources, targets;
};
Sequences any_sequences(Choices* choices, const Opened& opened, uint32_t most);

// How it goes in; the result does not depend on it.
struct Way {
  uint32_t chunk, threads;
  uint32_t step;    // tokens, or rows of output, of one call
  bool together;    // all sequences in one call
  uint32_t tables;  // PHASOR_TABLES_…
  bool watched;     // a callback reads everything that it is shown
};

// Limits for a way, from those that are the same for all.
phasor_limits limits_for(const phasor_limits& all, const Sequences& in, const Way& way);

// The bits of every output row, in the order of sequences and positions.
struct Bits {
  std::vector<uint32_t> values;
  bool told = false;   // a call said that a value is not finite
  bool sound() const;  // nobody said so, and no value is infinite or NaN
  // How far it came before a value was not finite depends on the way.
  bool operator==(const Bits& other) const {
    return sound() == other.sound() && (!sound() || values == other.values);
  }
};
Bits run(const Opened& opened, const phasor_limits& all, const Sequences& in, const Way& way,
         cli::Pool* pool);

// The logits of tokens first … of a sequence's target, one call for `step` of them.
void step_target(const Running& running, uint32_t sequence, const Sequences::Tokens& target,
                 uint32_t first, uint32_t step, Bits* bits);
// Encodes a source where the model has one; false where a value is not finite.
bool encode_source(const Running& running, const Opened& opened, uint32_t sequence,
                   const Sequences::Tokens& source);

}  // namespace generator
