// Open models and sessions for the targets, each in exactly the bytes that it asks for.
#pragma once
#include <memory>

#include "parts.h"

namespace fuzz {

// Larger ones are left alone: how many are tried counts for more.
constexpr size_t kMostMemory = size_t{1} << 20, kMostFile = 40000;

class Model {
 public:
  // Opens a copy of the file; get() is NULL where it is refused, which is checked to be an answer.
  Model(const uint8_t* file, size_t bytes);
  phasor_model* get() const { return model_; }
  uint8_t* file() const { return file_.as(); }
  size_t bytes() const { return file_.size(); }
  bool encodes() const { return phasor_model_stack(model_) != PHASOR_DECODER; }
  bool decodes() const { return phasor_model_stack(model_) != PHASOR_ENCODER; }
  uint32_t vocabulary(uint32_t side) const;  // 0 where the model has no such side

 private:
  Block file_;
  std::unique_ptr<Block> memory_;
  phasor_model* model_ = nullptr;
};

class Session {
 public:
  // get() is NULL where the limits are refused, or ask for more than kMostMemory.
  Session(const Model& model, const phasor_limits& limits);
  phasor_session* get() const { return session_; }

 private:
  std::unique_ptr<Block> arena_;
  phasor_session* session_ = nullptr;
};

// The file that the generator makes of these bytes, and it open; NULL where it is too large. Both
// are kept for a while: an input is often one of those before with another last part.
const Bytes& generated_file(const Part& part);
const Model* generated_model(const Part& part);

// The same file with the changes of another part; empty where it is too large.
Bytes edited_file(const Part& model, const Part& edits, uint32_t section);

// Small limits that the model can have, most of the time.
phasor_limits any_limits(Choices* choices, const Model& model);

// Ids for one side, most of them of its vocabulary.
std::vector<uint32_t> any_ids(Choices* choices, uint32_t vocabulary, uint32_t count);

// Encodes a short source in `sequence` where the model has an encoder; false where it failed.
bool encode_any(Choices* choices, const Model& model, const Session& session, uint32_t sequence,
                uint32_t most);

}  // namespace fuzz
